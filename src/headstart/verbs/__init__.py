"""What the verbs of the command line do, one file per family of verbs."""
