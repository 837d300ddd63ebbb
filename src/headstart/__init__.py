"""Sequence models from data-driven starting weights."""
