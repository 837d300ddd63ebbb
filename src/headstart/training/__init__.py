"""Training: one optimiser, one loop, one evaluation."""
