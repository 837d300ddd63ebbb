"""SequenceClassifier and SequenceRegressor: a fit of `headstart fit`, with scikit-learn's manners."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_is_fitted

from headstart.core import load_networks
from headstart.data import LayoutSpec, Sequences, label_names
from headstart.errors import BadInput
from headstart.estimator import inputs as reading
from headstart.limits import allowed_memory
from headstart.sequence import one_hot
from headstart.spec import read
from headstart.text import is_number
from headstart.ways import in_python

if TYPE_CHECKING:
    from headstart.fitted.leaderboard import Leaderboard
    from headstart.fitted.outcome import Outcome
    from headstart.serve.config import ModelConfig
    from headstart.serve.model import Served


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What both estimators do. `SequenceClassifier` says what the parameters mean."""

    time: float | str | None = None
    seeds: int = 3
    learning_rates: Sequence[float] | float | None = None
    epochs: float | None = None
    pretrain_epochs: float | None = None
    pretrain: bool | None = None
    serve: str = "auto"
    kind: str = "auto"
    channels_first: bool = False
    window: int | str | None = None
    step: int | str | None = None
    layout: Mapping[str, Any] | None = None
    validation_fraction: float = 0.2
    test_fraction: float = 0.0
    random_state: Any = None
    device: str = "auto"
    n_jobs: int | None = None
    memory: float | str | None = None
    store: str | os.PathLike[str] | None = None
    plugins: Sequence[str | os.PathLike[str]] = ()
    backbone: str | os.PathLike[str] | None = None
    start: str | os.PathLike[str] | None = None
    served_: Served = field(init=False)
    outcome_: Outcome = field(init=False)

    def transform(self, X: Any) -> np.ndarray:
        """(n, D) float32 embeddings: what the network's head looks at, whichever model predicts.

        Raises: BadInput where the fit has no network, or for other data than the fit had.
        """
        check_is_fitted(self)
        return self._of_recordings(self._read(X), self.served_.embed)

    def _of_recordings(self, sequences: Sequences, ask: Callable[[Sequences], np.ndarray]) -> np.ndarray:
        """What is answered to each sequence of X; of recordings that are cut into windows the mean of theirs."""
        with in_python():
            answers = ask(sequences)
        return answers if sequences.windows is None else sequences.windows.mean(answers)

    def leaderboard(self) -> Leaderboard:
        """The models that were compared, the best on validation first: model, validation, test, seconds.

        Raises: NotFittedError before a fit, and of a model that was loaded.
        """
        check_is_fitted(self, "outcome_")
        return self.outcome_.leaderboard()

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the model as a folder that `from_pretrained` and `headstart predict` read; with its card after a fit.

        Raises: BadInput where it cannot be written.
        """
        from headstart.serve.folder import save_model

        check_is_fitted(self)
        save_model(self.served_, folder, self._card())

    @classmethod
    def from_pretrained(
        cls,
        source: str | os.PathLike[str],
        *,
        revision: str | None = None,
        token: str | bool | None = None,
        plugins: Sequence[str | os.PathLike[str]] = (),
    ) -> Self:
        """The model of a folder (of `save_pretrained` or `headstart fit`), or of a repository `owner/name` on the hub.

        Of a repository config.json and model.safetensors are downloaded, nothing else. revision, token: of the hub.
        plugins: files or modules of your own that the network was made with; a copy in the folder is never run.
        Raises: BadInput for anything but a headstart model of this target; ImportError where the hub's package is
        needed and not there.
        """
        from headstart.estimator.hub import fetched, is_repository
        from headstart.serve.folder import load_model

        load_networks(plugins)
        if not Path(source).exists() and isinstance(source, str) and is_repository(source):
            with fetched(source, revision, token) as folder:
                return cls()._adopt(load_model(folder), str(source))
        return cls()._adopt(load_model(source), str(source))

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool = True,
        message: str = "A model of headstart",
        token: str | bool | None = None,
    ) -> str:
        """Send what `save_pretrained` writes to the repository `owner/name`, which is made where it is not there, and
        made private unless `private` is false. The address of it.

        Raises: ImportError without the hub's package; BadInput where the hub refuses.
        """
        from headstart.estimator.hub import pushed

        check_is_fitted(self)
        with tempfile.TemporaryDirectory(prefix="headstart-") as folder:
            self.save_pretrained(folder)
            return pushed(Path(folder), repo_id, private=private, message=message, token=token)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = []  # embeddings are float32 always
        return tags

    @property
    def _n_features_out(self) -> int:
        if self.served_.network is None:
            raise BadInput("transform: the fit has no network, whose vectors these would be; fit one with a network")
        return self.served_.vector_size

    def _adopt(self, served: Served, source: str) -> Self:
        """Serve what was loaded. Raises: BadInput where it predicts something else."""
        raise NotImplementedError

    def _card(self) -> Mapping[str, bytes]:
        if not hasattr(self, "outcome_"):
            return {}
        from headstart.fitted.card import model_card

        return {"README.md": model_card(self.outcome_).encode()}

    def _read(self, X: Any) -> Sequences:
        """Sequences to predict, read as those of the fit were."""
        layout = self.served_.config.layout
        inputs = reading.as_inputs(X, channels_first=layout.sideways)
        wanted = getattr(self, "_width", None)
        if inputs.whole and wanted is not None and inputs.data.ndim == 2 and inputs.width != wanted:
            raise BadInput(
                f"X has {inputs.width} features, but {type(self).__name__} is expecting {wanted} features as input; "
                "where sequences may be longer or shorter, give a list of them"
            )
        with in_python():
            sequences = reading.read_inputs(inputs, layout)
            if len(sequences.channels) == len(self.served_.config.preparation.channels):  # others are refused
                reading.warn_of_shift(sequences, self.served_.config.profile)
        return sequences

    def _in_order(self, X: Any, y: Any) -> Any:
        """y in the order of the answers: where it is told by ids, that in which these first come."""
        check_is_fitted(self)
        by_id = self.served_.config.layout.shape == "long" or isinstance(X, Mapping) or isinstance(y, Mapping)
        return self._read(X).in_order(y, "y") if by_id and y is not None else y

    def _inputs(self, X: Any, name: str = "X") -> reading.InputData:
        return reading.as_inputs(X, name, self._layout("class").sideways)

    def _fit(
        self, inputs: reading.InputData, labels: Any, target: Literal["class", "number"], X_unlabelled: Any, groups: Any
    ) -> Outcome:
        """Read, fit and keep what other methods need; `served_` comes with the caller."""
        with in_python(labels="y"), reading.in_arguments(), allowed_memory(self.memory):
            return self._fitted(inputs, labels, target, X_unlabelled, groups)

    def _fitted(
        self, inputs: reading.InputData, labels: Any, target: Literal["class", "number"], X_unlabelled: Any, groups: Any
    ) -> Outcome:
        from headstart.fit.perform import fit_sequences

        layout = self._layout(target)
        sequences = reading.read_inputs(inputs, layout, labels, groups)
        reading.warn_of_axes(sequences)
        reading.refuse_labels_in(sequences)
        if len(sequences) < 2:
            raise BadInput("X: holds 1 sample; give sequences to learn from and others to choose on")
        fixed = reading.served_layout(inputs, sequences)
        more = None
        if X_unlabelled is not None:
            more = reading.read_inputs(self._inputs(X_unlabelled, "X_unlabelled"), fixed)
        outcome = fit_sequences(
            sequences,
            reading.fit_settings(self, layout, load_networks(self.plugins)),
            unlabelled=more,
            workers=reading.workers_of(self.n_jobs),
            device=self.device,
            store=None if self.store is None else Path(self.store),
        )
        reading.warn_of_leaks(outcome)
        arrays = inputs.is_array and inputs.data.ndim == 3
        self._remember(replace(inputs, width=len(sequences.channels)) if arrays else inputs)
        return with_config(outcome, outcome.served.config.model_copy(update={"layout": fixed}))

    def _layout(self, target: Literal["class", "number"]) -> LayoutSpec:
        """How X is read, by `layout` and the parameters that have a name of their own."""
        if self.layout is not None and not isinstance(self.layout, Mapping):
            raise BadInput(f"layout: is a {type(self.layout).__name__}; give a dict, such as {{'id': 'recording'}}")
        options: dict[str, Any] = {**(self.layout or {}), "target_kind": target}
        options |= {"kind": self.kind} if self.kind != "auto" else {}
        options |= {"channels_first": True} if self.channels_first else {}
        options |= {name: span for name in ("window", "step") if (span := getattr(self, name)) is not None}
        try:
            return read(LayoutSpec, options, name="layout")
        except BadInput as error:  # by the parameter that it came from
            raise reading.by_parameter(
                error, [name for name in reading.OWN if name not in (self.layout or {})]
            ) from None

    def _remember(self, inputs: reading.InputData) -> None:
        """What scikit-learn keeps of X; arrays (n, L) are compared with the fit's L by `_read`."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                delattr(self, name)
        if inputs.width is not None:
            self.n_features_in_ = inputs.width
        if inputs.names:
            self.feature_names_in_ = np.array(inputs.names, dtype=object)
        self._width = inputs.width if inputs.is_array and inputs.data.ndim == 2 else None


def with_config(outcome: Outcome, config: ModelConfig) -> Outcome:
    """The same outcome, whose served model has this config, and its names of classes."""
    served = replace(outcome.served, config=config)
    return replace(outcome, served=served, labels=config.preparation.classes)


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceClassifier(ClassifierMixin, SequenceEstimator):  # type: ignore[misc]
    """Classes of sequences: networks from scratch and self-pretrained, and classic models; the best on validation
    predicts.

    X: an array (n, L) or (n, L, F) (or (n, F, L), where L is much longer or it is set), a list of n sequences of
    any lengths, (L,) or (L, F) each, a list of texts or of lists of tokens, or a table of pandas, polars or Arrow,
    read as `headstart show` reads a file. NaN is a missing value; at the end of a sequence it is cut off. y: n
    classes, of texts, whole numbers or booleans; of a table with a row per position, and of a dict of frames, a
    series of pandas whose index holds the ids, or a dict of them, and predictions are in the order in which its ids
    first come. A fit on an array (n, L) predicts arrays of the same L, and lists of sequences of any length.

    time: seconds, or a text such as `5m`, that a fit may take, for which training is shortened to what this machine
        does in it; None: all of the default training, the same on every machine.
    seeds: networks of each kind. learning_rates: tried, and chosen on validation; None: by time. epochs,
        pretrain_epochs: of training and of self-pretraining; None: by the number of rows.
    class_weight: None, or `balanced`: each class weighs the same.
    pretrain: whether networks are self-pretrained, on X and X_unlabelled; None: where it is worth its time.
    serve: the model that predicts: `auto` (the best on validation), `network`, `majority`, `summary`, `kernels` or
        `ensemble` (the average of the best network and the best of the others).
    kind: `numbers`, `text`, `dna`, `protein`, `tokens`; `auto` takes numbers for numbers, however few values they have.
    channels_first: arrays are (n, F, L), and sequences (F, L).
    window, step: each sequence of X is a recording, which is cut into windows of this length, one every `step`
        positions (or in time, such as `5s`, where X has one); a recording's answer is the mean of its windows'.
    layout: how a table is read, where its columns do not say it: a dict such as {'id': 'recording', 'time': 't',
        'group': 'subject', 'values': ['x', 'y']}, with the fields that the guide on data lists.
    validation_fraction: share of the rows on which is chosen, each class in proportion, the rows of a group together.
    test_fraction: share on which the models of `outcome_` are compared besides.
    random_state: of splits and networks; None means 0 here, so that a fit repeats itself. Networks have the seeds
        random_state * seeds + 0, 1, ...
    device: `auto`, `cpu` or `cuda`. n_jobs: processes that train; None, 0 or 1: this one, -1: one per core,
        as far as memory has room.
    memory: bytes, or a text such as `4G`, that a fit may take; None: what machine and container leave free.
    store: folder in which trained networks and a copy of the data stay, so that a fit that was cut short goes on; None:
        a folder that is deleted in the end.
    plugins: files or modules of your own; each whole model that they register is fitted too (`serve` may name it).
    backbone: a checkpoint by its folder, or by its name (in HEADSTART_WEIGHTS, ./weights or the hub's cache): one model
        more has its layers, frozen, and a second one trains norms and input layer too. A fitted model needs it no
        longer.
    start: another model, by the folder that `save_pretrained` or `headstart fit` wrote, or a stage of `store` by its
        id: one model more begins with its weights, with a new input layer where the sequences have other channels.

    After a fit: classes_; outcome_, all that was compared; served_, the models; n_features_in_ where X has columns.
    """

    class_weight: str | None = None

    def fit(self, X: Any, y: Any, X_unlabelled: Any = None, groups: Any = None) -> Self:
        """Train, compare and choose. X_unlabelled: more sequences, for self-pretraining alone. groups: n subjects, of
        which each is whole in train or in validation.

        Raises: BadInput (a ValueError) for wrong data or parameters, naming the row.
        """
        inputs = self._inputs(X)
        classes, codes = _classes(y)
        names = np.array(label_names(classes)[1], dtype=object)
        labels = reading.labels_like(y, names[codes].tolist())
        outcome = self._fit(inputs, labels, "class", X_unlabelled, groups)
        self.outcome_ = with_config(outcome, reading.with_labels(outcome.served.config, classes))
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
        check_is_fitted(self)
        order = np.argsort(reading.labels_of(self.served_.config))
        return self._of_recordings(self._read(X), self.served_.predict)[:, order]

    def predict_sets(self, X: Any, confidence: float = 0.9) -> np.ndarray:
        """(n, K) bool: a set of classes for each sequence, columns in the order of `classes_`, that holds the truth for
        so many of the new sequences of every class (conformal, by the sequences that the fit held out).

        Warns: UserWarning naming the classes of which too few were held out; they are in every set.
        Raises: BadInput where more is asked than any class allows, or the model knows no held-out errors.
        """
        check_is_fitted(self)
        reach, order = reading.reach_of(self.served_, confidence), np.argsort(reading.labels_of(self.served_.config))
        shares = self._of_recordings(self._read(X), self.served_.predict)
        from headstart.serve.predictions import in_sets

        return in_sets(shares, reach)[:, order]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy; of a table with a row per position y has its labels by id, as in a fit."""
        return float(super().score(X, self._in_order(X, y), sample_weight))

    def _adopt(self, served: Served, source: str) -> Self:
        if not served.config.preparation.classes:
            raise BadInput(f"{source}: predicts numbers; load it with SequenceRegressor")
        self.classes_ = np.sort(reading.labels_of(served.config))
        self.served_ = served
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceRegressor(RegressorMixin, SequenceEstimator):  # type: ignore[misc]
    """Numbers of sequences: y holds n of them. All else is as `SequenceClassifier` has it, without class_weight."""

    def fit(self, X: Any, y: Any, X_unlabelled: Any = None, groups: Any = None) -> Self:
        """Train, compare and choose; as `SequenceClassifier.fit`."""
        inputs = self._inputs(X)
        labels = reading.labels_like(y, _numbers(y).tolist())
        self.outcome_ = self._fit(inputs, labels, "number", X_unlabelled, groups)
        self.served_ = self.outcome_.served
        return self

    def predict(self, X: Any) -> np.ndarray:
        """(n,) the number of each sequence, in the unit of y."""
        check_is_fitted(self)
        return self._of_recordings(self._read(X), self.served_.predict)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R²; of a table with a row per position y has its numbers by id, as in a fit."""
        return float(super().score(X, self._in_order(X, y), sample_weight))

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
        raise BadInput(f"y: holds one class, {str(classes[0])!r}, in {len(labels):,} rows; give two classes or more")
    return classes, codes.reshape(-1)


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # NA of pandas
        return True


def _target(y: Any) -> np.ndarray:
    """(n,) y, finite."""
    if y is None:
        raise BadInput("y: this estimator requires y to be passed, but the target y is None")
    if isinstance(y, str):
        raise BadInput(f"y: is the text {y!r}; give the targets themselves, such as X[{y!r}] where that is a column")
    y = list(y.values()) if isinstance(y, Mapping) else y
    if hasattr(y, "to_list") and not isinstance(getattr(y, "dtype", None), np.dtype):  # an extension type of pandas
        y = y.to_list()
    shape = np.asarray(y).shape
    if len(shape) == 2 and shape[1] > 1:
        if one_hot(np.asarray(y)):
            raise BadInput("y: is one-hot, a column for each class; give the classes, such as np.argmax(y, axis=1)")
        raise BadInput(f"y: has {shape[1]} targets for each sequence; fit one estimator on each column of y")
    if shape[:1] == (0,):
        raise BadInput("y: holds 0 sample(s), so that there is nothing to fit; give a target for each sequence of X")
    if isinstance(y, (set, frozenset)) or not shape:
        raise BadInput(f"y: is of type {type(y).__name__}; give a list or an array, a target for each sequence of X")
    labels: np.ndarray = column_or_1d(y, warn=True)
    if np.ma.is_masked(y) or (labels.dtype.kind in "Of" and any(map(_is_missing, labels.tolist()))):
        raise BadInput("y: has rows without a label; give those in X_unlabelled, where self-pretraining learns of them")
    if labels.dtype.kind == "O" and all(isinstance(label, (bool, np.bool_)) for label in labels):
        labels = labels.astype(bool)
    if labels.dtype.kind in "mM":
        way = "(y - y.min()) / np.timedelta64(1, 's')" if labels.dtype.kind == "M" else "y / np.timedelta64(1, 's')"
        raise BadInput(f"y: holds times; give numbers, such as seconds: {way}")
    if labels.dtype.kind == "f" and (infinite := np.isinf(labels)).any():
        raise BadInput(
            f"y: contains infinity, first in row {int(infinite.argmax()) + 1:,}; correct it, or leave it out"
        )
    assert_all_finite(labels, input_name="y")
    return labels


def _numbers(y: Any) -> np.ndarray:
    """(n,) y as float64. Raises: BadInput for one that is no number."""
    targets = _target(y)
    try:
        return targets.astype(np.float64)
    except (ValueError, TypeError):
        word = next((str(target) for target in targets.tolist() if not is_number(str(target))), "")
        raise BadInput(
            f"y: {word!r} is not a number; correct it, or tell classes apart with SequenceClassifier"
        ) from None
