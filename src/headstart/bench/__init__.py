"""Measures time and memory of every mixer against length."""
