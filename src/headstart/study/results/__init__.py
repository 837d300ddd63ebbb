"""What a study found: what is collected, chosen on validation, paired by seed and kept as one file."""
