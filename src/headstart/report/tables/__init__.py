"""The tables of a report, each with one model and written in several forms."""
