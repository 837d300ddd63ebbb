"""Models without a neural network that a sequence model has to beat: the table METHODS, and how they come back.

fitted = METHODS["kernels"].fit(train, val, signature, seed)
fitted.predict(test)                              # probabilities (n, K), or numbers (n,)
again = from_arrays(fitted.facts.model_dump(mode="json"), fitted.arrays())
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from headstart.baselines import kernels, majority, ngrams, summary
from headstart.baselines.contract import Facts, Fitted, Shapes, check_arrays
from headstart.baselines.fitting import fit_random_kernels, fit_summaries
from headstart.baselines.linear import Features, Linear, read_readout, readout_shapes
from headstart.sequence import Examples, Signature
from headstart.spec import read

__all__ = ["METHODS", "Facts", "Fitted", "Method", "from_arrays", "shapes"]


class Fit(Protocol):
    """How a method is fitted. `balanced` gives each class the same weight.

    Train rows without a label are left out (kernels draw their biases from them too); val chooses and calibrates.
    Raises: BadInput for a target per position or none, or where no train row has a label.
    """

    def __call__(
        self, train: Examples, val: Examples, signature: Signature, seed: int, balanced: bool = False
    ) -> Fitted: ...


@dataclass(frozen=True)
class Method:
    """One line of the table."""

    fit: Fit
    summary: str
    source: str = ""


METHODS: dict[str, Method] = {
    "majority": Method(majority.fit, "shares of the classes, or the mean"),
    "summary": Method(fit_summaries, "logistic (numbers: ridge) regression on summary features"),
    "kernels": Method(
        fit_random_kernels, "random convolution kernels with ridge; tokens: n-grams, logistic", "Dempster et al. 2021"
    ),
}

_FEATURES: dict[str, Any] = {"summary": summary.Summary, "kernels": kernels.Kernels, "ngrams": ngrams.Ngrams}


def shapes(facts: Mapping[str, Any]) -> Shapes:
    """Name -> (dtype, shape) of the arrays that belong to these facts: to compare with a file before reading it.

    Raises: BadInput naming each fact that is wrong.
    """
    return _shapes(read(Facts, facts, "classic"))


def from_arrays(facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Fitted:
    """The model again. Raises: BadInput where facts or arrays are wrong or do not fit together."""
    known = read(Facts, facts, "classic")
    check_arrays(known, arrays, _shapes(known))
    if known.features == "none":
        return majority.Majority(known, arrays["said"])
    features: Features = _FEATURES[known.features].from_arrays(known, arrays)
    return Linear(known, features, read_readout(known, arrays))


def _shapes(facts: Facts) -> Shapes:
    if facts.features == "none":
        return majority.shapes(facts)
    own: Shapes = _FEATURES[facts.features].shapes(facts)
    return {**own, **readout_shapes(facts)}
