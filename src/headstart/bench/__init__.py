"""Measures time, memory and where they go: of every mixer against length, and of training beside a plain loop."""
