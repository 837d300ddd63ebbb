"""Damaged files for every parser of outside input: `python -m support.fuzz NAME --minutes 5`."""
