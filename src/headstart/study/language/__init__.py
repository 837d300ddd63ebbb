"""What a study says: files, bases and scales, keys, and the plan of its stages."""
