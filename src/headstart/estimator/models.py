"""SequenceClassifier and SequenceRegressor: a fit of `headstart fit`, with scikit-learn's manners."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_is_fitted

from headstart.errors import BadInput
from headstart.estimator.base import SequenceEstimator, with_config

if TYPE_CHECKING:
    from headstart.serve.model import Served


class SequenceClassifier(ClassifierMixin, SequenceEstimator):  # type: ignore[misc]
    """Classes of sequences: networks from scratch and self-pretrained, and classic models; the best on validation
    predicts.

    X: an array (n, L) or (n, L, F), a list of n sequences of any lengths, (L,) or (L, F) each, a list of texts or of
    lists of tokens, or a table of pandas, polars or Arrow, read as `headstart show` reads a file. NaN is a missing
    value; at the end of a sequence it is cut off. y: n classes, of texts, whole numbers or booleans. A fit on an array
    (n, L) predicts arrays of the same L, and lists of sequences of any length.

    time: seconds, or a text such as `5m`, that a fit may take, for which training is shortened to what this machine
        does in it; None: all of the default training, the same on every machine.
    seeds: networks of each kind. learning_rates: tried, and chosen on validation; None: by time. epochs,
        pretrain_epochs: of training and of self-pretraining; None: by the number of rows.
    class_weight: None, or `balanced`: each class weighs the same.
    pretrain: whether networks are self-pretrained, on X and X_unlabelled.
    serve: the model that predicts: `auto` (the best on validation), `network`, `majority`, `summary` or `kernels`.
    kind: `numbers`, `text`, `dna`, `protein`, `tokens`; `auto` takes numbers for numbers, however few values they have.
    channels_first: arrays are (n, F, L), and sequences (F, L).
    validation_fraction: share of the rows on which is chosen, each class in proportion, the rows of a group together.
    test_fraction: share on which the models of `outcome_` are compared besides.
    random_state: of splits and networks; None means 0 here, so that a fit repeats itself. Networks have the seeds
        random_state * seeds + 0, 1, ...
    device: `auto`, `cpu` or `cuda`. n_jobs: processes that train; None, 0 or 1: this one, -1: one per core.
    store: folder in which trained networks and a copy of the data stay, so that a fit that was cut short goes on; None:
        a folder that is deleted in the end.

    After a fit: classes_; outcome_, all that was compared; served_, the models; n_features_in_ where X has columns.
    """

    def __init__(
        self,
        *,
        time: float | str | None = None,
        seeds: int = 3,
        learning_rates: Sequence[float] | float | None = None,
        epochs: float | None = None,
        pretrain_epochs: float | None = None,
        class_weight: str | None = None,
        pretrain: bool = True,
        serve: str = "auto",
        kind: str = "auto",
        channels_first: bool = False,
        validation_fraction: float = 0.2,
        test_fraction: float = 0.0,
        random_state: Any = None,
        device: str = "auto",
        n_jobs: int | None = None,
        store: str | os.PathLike[str] | None = None,
    ) -> None:
        self.time = time
        self.seeds = seeds
        self.learning_rates = learning_rates
        self.epochs = epochs
        self.pretrain_epochs = pretrain_epochs
        self.class_weight = class_weight
        self.pretrain = pretrain
        self.serve = serve
        self.kind = kind
        self.channels_first = channels_first
        self.validation_fraction = validation_fraction
        self.test_fraction = test_fraction
        self.random_state = random_state
        self.device = device
        self.n_jobs = n_jobs
        self.store = store

    def fit(self, X: Any, y: Any, X_unlabelled: Any = None, groups: Any = None) -> Self:
        """Train, compare and choose. X_unlabelled: more sequences, for self-pretraining alone. groups: n subjects, of
        which each is whole in train or in validation.

        Raises: BadInput (a ValueError) for wrong data or parameters, naming the row.
        """
        from headstart.estimator.labels import safe_names, with_labels

        inputs = self._inputs(X)
        classes, codes = _classes(y)
        names = np.array(safe_names(classes), dtype=object)
        outcome = self._fit(inputs, names[codes].tolist(), "class", X_unlabelled, groups)
        self.outcome_ = with_config(outcome, with_labels(outcome.served.config, classes))
        self.served_ = self.outcome_.served
        self.classes_ = classes
        return self

    def predict(self, X: Any) -> np.ndarray:
        """(n,) the likeliest class of each sequence."""
        shares = self.predict_proba(X)
        labels: np.ndarray = self.classes_[np.argmax(shares, axis=1)]
        return labels

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, K) probabilities, calibrated on validation; columns in the order of `classes_`."""
        from headstart.estimator.labels import labels_of

        check_is_fitted(self)
        order = np.argsort(labels_of(self.served_.config))
        return self.served_.predict(self._read(X))[:, order]

    def _adopt(self, served: Served, source: str) -> Self:
        from headstart.estimator.labels import labels_of

        if not served.config.preparation.classes:
            raise BadInput(f"{source}: predicts numbers; load it with SequenceRegressor")
        self.classes_ = np.sort(labels_of(served.config))
        self.served_ = served
        return self


class SequenceRegressor(RegressorMixin, SequenceEstimator):  # type: ignore[misc]
    """Numbers of sequences: y holds n of them. All else is as `SequenceClassifier` has it, without class_weight."""

    def __init__(
        self,
        *,
        time: float | str | None = None,
        seeds: int = 3,
        learning_rates: Sequence[float] | float | None = None,
        epochs: float | None = None,
        pretrain_epochs: float | None = None,
        pretrain: bool = True,
        serve: str = "auto",
        kind: str = "auto",
        channels_first: bool = False,
        validation_fraction: float = 0.2,
        test_fraction: float = 0.0,
        random_state: Any = None,
        device: str = "auto",
        n_jobs: int | None = None,
        store: str | os.PathLike[str] | None = None,
    ) -> None:
        self.time = time
        self.seeds = seeds
        self.learning_rates = learning_rates
        self.epochs = epochs
        self.pretrain_epochs = pretrain_epochs
        self.pretrain = pretrain
        self.serve = serve
        self.kind = kind
        self.channels_first = channels_first
        self.validation_fraction = validation_fraction
        self.test_fraction = test_fraction
        self.random_state = random_state
        self.device = device
        self.n_jobs = n_jobs
        self.store = store

    def fit(self, X: Any, y: Any, X_unlabelled: Any = None, groups: Any = None) -> Self:
        """Train, compare and choose; as `SequenceClassifier.fit`."""
        inputs = self._inputs(X)
        self.outcome_ = self._fit(inputs, _target(y).astype(np.float64), "number", X_unlabelled, groups)
        self.served_ = self.outcome_.served
        return self

    def predict(self, X: Any) -> np.ndarray:
        """(n,) the number of each sequence, in the unit of y."""
        check_is_fitted(self)
        return self.served_.predict(self._read(X))

    def _adopt(self, served: Served, source: str) -> Self:
        if served.config.preparation.classes:
            raise BadInput(f"{source}: predicts classes; load it with SequenceClassifier")
        self.served_ = served
        return self


def _classes(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """(classes in order, (n,) place of each label among them)."""
    labels = _target(y)
    check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise BadInput(f"y: holds one class, {classes[0]!r}, in {len(labels):,} rows; give two classes or more")
    return classes, codes.reshape(-1)


def _target(y: Any) -> np.ndarray:
    """(n,) y, finite."""
    if y is None:
        raise BadInput("y: this estimator requires y to be passed, but the target y is None")
    labels: np.ndarray = column_or_1d(y, warn=True)
    if labels.dtype.kind == "O" and any(label is None or label != label for label in labels):
        raise BadInput("y: has rows without a label; give those in X_unlabelled, where self-pretraining learns of them")
    assert_all_finite(labels, input_name="y")
    return labels
