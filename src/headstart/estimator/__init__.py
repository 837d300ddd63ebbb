"""Sequences as scikit-learn has its data: `fit`, `predict`, `score` and `transform`, and folders that serve."""

from headstart.estimator.models import SequenceClassifier, SequenceRegressor

__all__ = ["SequenceClassifier", "SequenceRegressor"]
