"""Training: one optimiser, one loop, one evaluation."""

BUDGET_MEASURES = ("epochs", "steps", "tokens", "flops", "flops_of")
"""Fields of a budget that say how much; one of them is given."""
