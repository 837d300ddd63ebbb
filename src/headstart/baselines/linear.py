"""Linear readouts of features of sequences: ridge or logistic, the strength of their penalty chosen, scores calibrated.

Letters: n units, P features, K classes, T targets. Features are dense (n, P) arrays or sparse matrices.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from headstart.baselines.features import FEATURE_NAMES, Features, Plain, feature_rows
from headstart.baselines.fitting import FittedFacts, FittedSpec, Shapes, by_pieces, check_kind, facts_of, targets
from headstart.baselines.measures import fit_temperature, log_loss, softmax
from headstart.baselines.products import one_product_thread
from headstart.baselines.ridge import Blocks, Readout, is_tall, left_out_rows, ridge, ridge_bytes, ridge_seconds
from headstart.limits import check_memory
from headstart.sequence import IGNORE, Examples, Signature
from headstart.spec import neutral

MOST_EXAMPLES = 5_000
"""Labelled train examples that models of the inputs themselves are fitted on at most; the title says where it was
fewer than all."""
STRENGTHS = tuple(10.0**k for k in range(-4, 3))
"""C of a logistic regression on standardised features."""
SPARSE_STRENGTHS = tuple(10.0**k for k in range(-1, 5))
"""C, and 1 / alpha, on sparse rows of length 1."""
PENALTY_PATIENCE = 2
"""Weaker penalties that did no better on val, after which still weaker ones, the slowest to fit, are not tried."""
FIFTH = 5
"""One of so many labelled train units is held out where nothing else chooses."""
MOST_STEPS = 300
"""Steps of a logistic regression at most."""


@dataclass(frozen=True)
class Split:
    """Features of the units of a split that have a target, and it: (n,) classes or (n, T) numbers, NaN for none."""

    features: Any
    target: np.ndarray


@dataclass(frozen=True)
class Linear:
    """Features and the readout of them."""

    facts: FittedFacts
    features: Features
    readout: Readout

    def predict(self, examples: Examples) -> np.ndarray:
        """(n, K) probabilities or (n,) numbers, (n, T) where there are several; n units."""
        check_kind(self.facts, examples)
        held = self.facts.columns if self.facts.paired else self.features.held
        scores = by_pieces(examples, self.facts.outputs, held, self._scores, self.features.threaded)
        if self.facts.classes:
            return softmax(scores, self.facts.temperature)
        return scores[:, 0] if self.facts.targets == 1 else scores

    def _scores(self, examples: Examples) -> np.ndarray:
        """(n, K or T) float64."""
        if examples.paired:
            return self.readout.scores(feature_rows(self.features, examples))
        return self.readout.sums(self.features.tables(examples), len(examples))

    def arrays(self) -> dict[str, np.ndarray]:
        """The features' arrays, `weights` and `intercept`."""
        return {**self.features.arrays(), "weights": self.readout.weights, "intercept": self.readout.intercept}


FEWER = "allow it more, or fit fewer rows"
"""The way out where a regression takes too much memory."""


class PenalisedSpec(FittedSpec):
    """What linear models share.

    Without it the strength is chosen: on val, of a ridge regression of dense features by leaving one train example out.

    reads: name in `Facts.features` -> the class. squared: classes are fitted by ridge where features are dense. most:
    labelled train examples that are used, at most.
    """

    alpha: float | None = Field(default=None, gt=0)
    """Strength of the L2 penalty; a logistic regression has C = 1 / alpha."""
    temperature: float | None = neutral(None, gt=0)
    """Of the probabilities, and `Facts.sizes` of the features, where another fit has chosen them (`choices`); with
    alpha nothing is left to choose."""
    sizes: dict[str, int] | None = neutral(None)
    """Of the probabilities, and `Facts.sizes` of the features, where another fit has chosen them (`choices`); with
    alpha nothing is left to choose."""
    reads: ClassVar[Mapping[str, type[Features]]] = {}
    squared: ClassVar[bool] = False
    most: ClassVar[int | None] = None

    def candidates(self, facts: FittedFacts, train: Examples, signature: Signature, seed: int) -> Iterator[Features]:
        """Features to choose from by the loss on val, the simplest first."""
        raise NotImplementedError

    def fit(
        self, train: Examples, val: Examples, signature: Signature, seed: int, class_weights: np.ndarray | None = None
    ) -> Linear:
        """Logistic regression, or ridge where numbers are predicted or the error is `squared`.

        Where val has no label, a fifth of train chooses what is not given, and all of train is fitted with that.
        """
        facts, train = thinned(facts_of(self.kind, train, signature), train, self.most)
        settled = self.alpha is not None and (self.temperature is not None or not facts.classes)
        inner = None if settled or len(val.labelled_units()) else self._held_out(facts, train)
        if inner is None:
            model = self._best(facts, train, val, signature, seed, class_weights)
            own = {} if self.temperature is None else {"temperature": self.temperature}
            return replace(model, facts=model.facts.model_copy(update=own))
        chosen = self._best(facts, *inner, signature, seed, class_weights)
        same = self.model_copy(update={"sizes": chosen.facts.sizes})
        features = next(iter(same.candidates(facts, train, signature, seed)))
        strength = chosen.facts.strength[0] if chosen.facts.strength else 1.0
        alpha = self.alpha or (1 / strength if facts.classes else strength)
        model = fit_linear(facts, features, train, val, class_weights, alpha, self.squared)
        return replace(model, facts=model.facts.model_copy(update={"temperature": chosen.facts.temperature}))

    def _best(
        self,
        facts: FittedFacts,
        train: Examples,
        val: Examples,
        signature: Signature,
        seed: int,
        weights: np.ndarray | None,
    ) -> Linear:
        """The candidate with the least loss on val; of equals the first."""
        models = [
            fit_linear(facts, features, train, val, weights, self.alpha, self.squared, self.temperature)
            for features in self.candidates(facts, train, signature, seed)
        ]
        losses = [_loss(model, val, weights) for model in models] if len(models) > 1 else [0.0]
        return models[losses.index(min(losses))]

    def choices(self, facts: FittedFacts) -> dict[str, Any]:
        out: dict[str, Any] = {"sizes": facts.sizes} | ({"temperature": facts.temperature} if facts.classes else {})
        strength = facts.strength[0] if len(facts.strength) == 1 else 0.0  # of several targets each has its own
        ridge = not facts.classes or (self.squared and facts.input == "floats")
        return out | ({"alpha": strength if ridge else 1 / strength} if strength > 0 else {})

    def _held_out(self, facts: FittedFacts, train: Examples) -> tuple[Examples, Examples] | None:
        """Train without a fifth of its labelled units, each class in proportion, and that fifth; None for too few, or
        where leaving single examples out chooses."""
        labelled, target = train.labelled_units(), targets(train, facts)
        dense = facts.input == "floats" and (self.squared or not facts.classes)
        if dense or len(labelled) < FIFTH:
            return None
        order = labelled[np.argsort(target[labelled], kind="stable")] if facts.classes else labelled
        held_out = order[FIFTH // 2 :: FIFTH]
        return train.take(np.setdiff1d(np.arange(train.units), held_out)), train.take(held_out)

    @classmethod
    def shapes(cls, facts: FittedFacts) -> Shapes:
        """Of the arrays of the features, `weights` and `intercept`."""
        facts.check(facts.features in cls.reads, "features")
        own = {"weights": ("float32", (facts.columns, facts.outputs)), "intercept": ("float64", (facts.outputs,))}
        return {**cls.reads[facts.features].shapes(facts), **own}

    @classmethod
    def restore(cls, facts: FittedFacts, arrays: Mapping[str, np.ndarray]) -> Linear:
        features = cls.reads[facts.features].from_arrays(facts, arrays)
        return Linear(
            facts, features, Readout(arrays["weights"], arrays["intercept"], facts.temperature, facts.strength)
        )


class LinearSpec(PenalisedSpec):
    """Logistic regression (ridge for numbers) on the inputs themselves: tokens counted, floats flattened where all have
    one length, else summarised. At most 5,000 labels are used."""

    version: ClassVar[int] = 2
    kind: Literal["linear"] = "linear"
    reads: ClassVar[Mapping[str, type[Features]]] = dict.fromkeys(FEATURE_NAMES, Plain)
    most: ClassVar[int | None] = MOST_EXAMPLES

    def candidates(self, facts: FittedFacts, train: Examples, signature: Signature, seed: int) -> Iterator[Features]:
        yield Plain.of(signature)

    def title(self, facts: FittedFacts) -> str:
        """With what it looks at."""
        sort = "logistic" if facts.classes else "ridge"
        return f"{sort} regression on {FEATURE_NAMES[facts.features]}{facts.share_used}"

    def describe(self) -> str:
        return "a logistic regression (ridge for numbers) on the inputs themselves"


def thinned(facts: FittedFacts, train: Examples, most: int | None) -> tuple[FittedFacts, Examples]:
    """At most so many labelled units, spread evenly, and the facts that say so."""
    if most is None:
        return facts, train
    labelled = train.labelled_units()
    units = labelled[np.linspace(0, len(labelled) - 1, min(most, len(labelled))).astype(int)]
    return facts.model_copy(update={"used": len(units)}), train.take(units)


def split_of(features: Features, examples: Examples, facts: FittedFacts, *, tall: bool = False) -> Split:
    """Features and targets of the units that have a target; of a tall table the features are made as they are used."""
    target = targets(examples, facts)
    there = target != IGNORE if facts.classes else ~np.isnan(target).all(axis=1)
    some = examples if there.all() else examples.take(np.flatnonzero(there))
    return Split(Blocks(features, some) if tall else feature_rows(features, some), target[there])


def fit_linear(
    facts: FittedFacts,
    features: Features,
    train: Examples,
    val: Examples,
    class_weights: np.ndarray | None,
    alpha: float | None,
    squared: bool,
    temperature: float | None = None,
) -> Linear:
    """A readout of these features. alpha: of the penalty; None: chosen, on val or by leaving one out. temperature: of
    a ridge regression's classes, likewise.

    Raises: BadInput where a ridge regression on them takes more memory than there is.
    """
    seconds, n, tall = 0.0, len(train.labelled_units()), False
    if facts.input == "floats" and (squared or not facts.classes):
        columns = facts.model_copy(update={"size": features.size}).columns
        check_memory(f"model.kind: {facts.method!r} of {facts.labels:,} labels", ridge_bytes(n, columns), FEWER)
        seconds, tall = ridge_seconds(n, columns), is_tall(n, columns)
    with one_product_thread(seconds):
        split, held_out = (split_of(features, part, facts, tall=tall) for part in (train, val))
        if not facts.classes:
            readout = fit_numbers(split, held_out, alpha)
        elif squared and isinstance(split.features, np.ndarray | Blocks):
            readout = ridge_classes(split, held_out, facts.classes, class_weights, alpha, temperature)
        else:
            readout = logistic(split, held_out, facts.classes, class_weights, alpha)
    sizes = {"features": features.kind, "size": features.size, "sizes": features.sizes}
    chosen = {"temperature": readout.temperature, "strength": readout.strength}
    return Linear(facts.model_copy(update={**sizes, **chosen}), features, readout)


def _loss(model: Linear, val: Examples, weights: np.ndarray | None) -> float:
    """Log loss, weighted as the classes are, or mean squared error on val; 0 where nothing can be compared."""
    split = split_of(model.features, val, model.facts)
    if not len(split.target):
        return 0.0
    scores = model.readout.scores(split.features)
    if model.facts.classes:
        return log_loss(split.target, softmax(scores, model.facts.temperature), weights)
    return float(np.nanmean((scores - split.target) ** 2))


def ridge_classes(
    train: Split,
    val: Split,
    classes: int,
    weights: np.ndarray | None = None,
    alpha: float | None = None,
    temperature: float | None = None,
) -> Readout:
    """One against all others (-1 and 1); a temperature makes probabilities of the scores.

    Where none is there, it is fitted on val and on train, each example of it scored by a model without it: val alone
    is often too small to say more than that all is well. weights (K,): of the classes, throughout.
    """
    each = None if weights is None else weights[train.target]
    wanted = 2 * np.eye(classes)[train.target] - 1
    readout, left_out = ridge(train.features, wanted, alpha, each, leave_out=temperature is None)
    if temperature is not None:
        return replace(readout, temperature=temperature)
    scores, some = np.concatenate([left_out, readout.scores(val.features)]), left_out_rows(*train.features.shape)
    temperature = fit_temperature(scores, np.concatenate([train.target[some], val.target]), True, weights)
    return replace(readout, temperature=temperature)


def fit_numbers(train: Split, val: Split, alpha: float | None = None) -> Readout:
    """One ridge regression per target, each on the examples that have it; 0 where none has."""
    width = train.features.shape[1]
    readouts = []
    for column in range(train.target.shape[1]):
        rows = np.flatnonzero(~np.isnan(train.target[:, column]))
        features = train.features if len(rows) == train.features.shape[0] else train.features[rows]
        wanted = train.target[rows, column]
        if not len(rows):
            readouts.append(Readout(np.zeros((width, 1), np.float32), np.zeros(1), 1.0, (0.0,)))
        elif isinstance(features, np.ndarray | Blocks):
            readouts.append(ridge(features, wanted[:, None], alpha, leave_out=False)[0])
        else:
            held_out = np.flatnonzero(~np.isnan(val.target[:, column]))
            readouts.append(
                _sparse_ridge(features, wanted, val.features[held_out], val.target[held_out, column], alpha)
            )
    weights = np.concatenate([readout.weights for readout in readouts], axis=1)
    intercept = np.concatenate([readout.intercept for readout in readouts])
    return Readout(weights, intercept, 1.0, tuple(readout.strength[0] for readout in readouts))


def _sparse_ridge(features: Any, wanted: np.ndarray, held_out: Any, truth: np.ndarray, alpha: float | None) -> Readout:
    """Alpha has the least squared error on val; 1 without labels there."""
    from sklearn.linear_model import Ridge

    alphas = [1 / strength for strength in SPARSE_STRENGTHS] if len(truth) else [1.0]
    models = [Ridge(alpha=a, solver="sparse_cg").fit(features, wanted) for a in (alphas if alpha is None else [alpha])]
    best = models[0]
    if len(models) > 1:
        best = min(models, key=lambda model: float(((model.predict(held_out) - truth) ** 2).sum()))
    return Readout(best.coef_[:, None].astype(np.float32), np.array([float(best.intercept_)]), 1.0, (best.alpha,))


def logistic(
    train: Split, val: Split, classes: int, weights: np.ndarray | None = None, alpha: float | None = None
) -> Readout:
    """Multinomial with L2; C has the least log loss on val (the strongest penalty of equals, 1 without labels there).

    Dense features are standardised. A class that train never shows stays all but impossible. weights (K,): of the
    classes, on val too. alpha: 1 / C, where it is not chosen. The temperature is fitted on val.
    """
    present = np.unique(train.target)
    if len(present) < 2:
        intercept = np.where(np.isin(np.arange(classes), present), 1.0, 0.0)
        best, weights = Readout(np.zeros((train.features.shape[1], classes), dtype=np.float32), intercept), None
    else:
        best = _best_on_val(train, val, classes, weights, alpha)
    if not len(val.target):
        return best
    return replace(best, temperature=fit_temperature(best.scores(val.features), val.target, True, weights))


def _best_on_val(train: Split, val: Split, classes: int, weights: np.ndarray | None, alpha: float | None) -> Readout:
    grid = SPARSE_STRENGTHS if not isinstance(train.features, np.ndarray) else STRENGTHS
    grid = (1 / alpha,) if alpha is not None else grid if len(val.target) else (1.0,)
    best, least, worse = None, np.inf, 0
    for readout in logistic_path(train, grid, classes, None if weights is None else weights[train.target]):
        loss = log_loss(val.target, softmax(readout.scores(val.features)), weights) if len(val.target) else 0.0
        if best is None or loss < least:
            best, least, worse = readout, loss, 0
        else:
            worse += 1
        if worse == PENALTY_PATIENCE:
            break
    assert best is not None
    return best


def logistic_path(
    train: Split, grid: tuple[float, ...], classes: int, weights: np.ndarray | None = None
) -> Iterator[Readout]:
    """Readouts for each C, from the strongest penalty to the weakest, each fit begun where the last one ended."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    dense = isinstance(train.features, np.ndarray)
    scaler = StandardScaler(with_mean=dense, with_std=dense).fit(train.features)
    features, present = scaler.transform(train.features), np.unique(train.target)
    model = LogisticRegression(max_iter=MOST_STEPS, warm_start=True)
    for strength in grid:
        model.set_params(C=strength)
        with warnings.catch_warnings():
            # So many steps are enough for a yardstick; whether the last digit has settled is not news to a reader.
            warnings.simplefilter("ignore", ConvergenceWarning)
            # Many classes of one or two examples are what the data are.
            warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
            model.fit(features, train.target, sample_weight=weights)
        coefficients, intercept = model.coef_.astype(np.float64), model.intercept_.astype(np.float64)
        if dense:
            coefficients = coefficients / scaler.scale_
            intercept = intercept - coefficients @ scaler.mean_
        if len(intercept) == 1:  # of two classes the scores of the second alone
            coefficients = np.concatenate([-coefficients / 2, coefficients / 2])
            intercept = np.concatenate([-intercept / 2, intercept / 2])
        spread = np.zeros((coefficients.shape[1], classes), dtype=np.float32)
        spread[:, present] = coefficients.T
        scores = np.full(classes, intercept.min() - np.log(len(train.target) + classes))
        scores[present] = intercept
        yield Readout(spread, scores, 1.0, (strength,))
