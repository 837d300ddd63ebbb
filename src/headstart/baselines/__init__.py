"""Models without gradients that a sequence model has to beat, fitted in one go: lines of the table `models.MODELS`.

fitted = KernelsSpec().fit(train, val, signature, seed=0)
fitted.predict(test)                              # probabilities (n, K), or numbers (n,)
again = from_arrays(fitted.facts.model_dump(mode="json"), fitted.arrays())
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headstart.baselines import kernels, majority, nearest, ngrams, summary
from headstart.baselines.contract import Facts, Fitted, FittedSpec, Shapes, check_arrays, facts_of, targets
from headstart.baselines.features import Plain
from headstart.baselines.linear import Features, Linear, read_readout, readout_shapes
from headstart.baselines.measures import balanced_weights
from headstart.errors import BadInput
from headstart.models import MODELS
from headstart.sequence import Examples, Signature
from headstart.spec import read

__all__ = ["METHODS", "Facts", "Fitted", "FittedSpec", "Method", "from_arrays", "shapes"]

_FEATURES: dict[str, Any] = {
    "flat": Plain,
    "counts": Plain,
    "summaries": Plain,
    "summary": summary.Summary,
    "kernels": kernels.Kernels,
    "ngrams": ngrams.Ngrams,
}


@dataclass(frozen=True)
class Method:
    """A kind of model as `fit` compares it."""

    spec: FittedSpec
    summary: str
    source: str = ""

    def fit(self, train: Examples, val: Examples, signature: Signature, seed: int, balanced: bool = False) -> Fitted:
        """`balanced` gives each class the same weight."""
        weights = None
        if balanced and signature.target == "class":
            facts = facts_of("majority", "none", train, signature)
            weights = balanced_weights(targets(train, facts), facts.classes)
        return self.spec.fit(train, val, signature, seed, weights)


METHODS: dict[str, Method] = {
    name: Method(spec, MODELS[name].summary, MODELS[name].source)
    for name, spec in (
        ("majority", majority.MajoritySpec()),
        ("summary", summary.SummarySpec()),
        ("kernels", kernels.KernelsSpec()),
    )
}


def shapes(facts: Mapping[str, Any]) -> Shapes:
    """Name -> (dtype, shape) of the arrays that belong to these facts: to compare with a file before reading it.

    Raises: BadInput naming each fact that is wrong.
    """
    return _shapes(read(Facts, facts, "model"))


def from_arrays(facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Fitted:
    """The model again. Raises: BadInput where facts or arrays are wrong or do not fit together."""
    known = read(Facts, facts, "model")
    check_arrays(known, arrays, _shapes(known))
    if known.method == "majority":
        return majority.Majority(known, arrays["said"])
    features: Features = _FEATURES[known.features].from_arrays(known, arrays)
    if known.method == "nearest":
        return nearest.Nearest(known, Plain(known.features, known.size), arrays["rows"], arrays["answers"])
    return Linear(known, features, read_readout(known, arrays))


def _shapes(facts: Facts) -> Shapes:
    if (facts.method == "majority") != (facts.features == "none"):
        raise BadInput(f"model.features: {facts.features!r} does not fit method {facts.method!r}; save the model again")
    if facts.method == "majority":
        return majority.shapes(facts)
    if facts.method == "nearest":
        return nearest.shapes(facts)
    own: Shapes = _FEATURES[facts.features].shapes(facts)
    return {**own, **readout_shapes(facts)}
