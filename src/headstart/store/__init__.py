"""Finished and unfinished stages on disk: one folder each, one writer at a time."""
