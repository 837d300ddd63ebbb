"""Helpers that tests of several folders share: small tasks, files, models and studies that the tests make."""
