"""What may be said of results: caveats, what parents learnt, and results side by side."""
