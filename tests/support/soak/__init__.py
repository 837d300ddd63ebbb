"""Faults at random instants, again and again: `python -m support.soak --minutes 30` from the folder `tests`."""
