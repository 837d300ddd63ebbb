"""What came out of a fit, as values, and what a person sees of it: table, page, model card."""
