"""Studies: what is run, what is chosen, and what may be said of it."""
