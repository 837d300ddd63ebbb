"""A fitted model as a folder: what `fit` leaves and `predict`, `export` and the estimators read."""
