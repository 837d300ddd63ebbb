"""Models that know tokens by their counts: how often each is, what follows what, that one comes again.

What a network that predicts tokens has to beat, from the next token (`causal`) to hidden ones (`masked`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from headstart.baselines.fitting import FittedFacts, FittedSpec, Shapes, check_kind
from headstart.errors import BadInput
from headstart.sequence import Examples, Signature

NO_TOKEN = -1
"""In place of a token that a model does not see."""


@dataclass(frozen=True)
class TokenCounts:
    """`counts` (V,) of each token in train. `pairs` (n,) first x V + second, ascending, and `followed` (n,) how often
    each came; a unigram has none. `repeats` (1,): the share of tokens that are the one before, of a copy.
    """

    facts: FittedFacts
    counts: np.ndarray
    pairs: np.ndarray
    followed: np.ndarray
    repeats: np.ndarray

    def after(self, before: np.ndarray) -> np.ndarray:
        """(n,) tokens, or NO_TOKEN, -> (n, V) float64 probabilities of the ones behind them.

        A token counts once more than it came. What follows a token: as often as it did, and once as any token.
        """
        width = self.facts.width
        alone = (self.counts + 1.0) / (self.counts.sum() + width)
        out, followers = np.tile(alone, (len(before), 1)), np.flatnonzero(before != NO_TOKEN)
        if self.facts.method == "copy":
            share = float(self.repeats[0])
            out[followers] *= 1 - share
            out[followers, before[followers]] += share
        elif self.facts.method == "bigram":
            tokens, row = np.unique(before[followers], return_inverse=True)
            table = np.tile(alone, (len(tokens), 1))
            for number, token in enumerate(tokens):
                first, last = np.searchsorted(self.pairs, (token * width, (token + 1) * width))
                table[number, self.pairs[first:last] - token * width] += self.followed[first:last]
            out[followers] = (table / table.sum(axis=1, keepdims=True))[row]
        return out

    def predict(self, examples: Examples) -> np.ndarray:
        """(positions, V): of the token at each position, from the one before it in its sequence."""
        check_kind(self.facts, examples)
        before = np.concatenate([[NO_TOKEN], examples.values[:-1].astype(np.int64)])
        before[examples.offsets[:-1]] = NO_TOKEN
        return self.after(before[: len(examples.values)])

    def arrays(self) -> dict[str, np.ndarray]:
        """What its kind has of them."""
        every = {"counts": self.counts, "pairs": self.pairs, "followed": self.followed, "repeats": self.repeats}
        return {name: array for name, array in every.items() if len(array)}


class TokensSpec(FittedSpec):
    """Base of the three kinds."""

    way: ClassVar[str] = "counted"

    def answered(self, objective: Any) -> Any:
        """The objective, where it asks for tokens of the input."""
        if objective.uses_target:
            raise ValueError(
                f"objective.kind: {objective.kind!r} asks for a target, and a model of kind {self.kind!r} predicts "
                "tokens of the input; use causal or masked"
            )
        return objective

    def check(self, signature: Signature) -> None:
        if signature.input != "tokens":
            raise BadInput(f"model.kind: {self.kind!r} counts tokens, and the task has numbers; leave it out")

    def fit(
        self, train: Examples, val: Examples, signature: Signature, seed: int, class_weights: np.ndarray | None = None
    ) -> TokenCounts:
        """Counts of train; val and seed change nothing."""
        self.check(signature)
        values, width = train.values.astype(np.int64), signature.width
        counts = np.bincount(values, minlength=width).astype(np.int64)
        inner = np.ones(max(len(values) - 1, 0), dtype=bool)
        inner[train.offsets[1:-1] - 1] = False
        first, second = values[:-1][inner], values[1:][inner]
        pairs, followed, repeats = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)
        if self.kind == "bigram":
            pairs, followed = np.unique(first * width + second, return_counts=True)
            if not len(pairs):  # no sequence has two tokens
                pairs, followed = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        if self.kind == "copy":
            repeats = np.array([((first == second).sum() + 1) / (len(first) + 2)])
        facts = FittedFacts(
            method=self.kind,
            input="tokens",
            width=width,
            classes=0,
            targets=1,
            paired=signature.paired,
            sizes={"pairs": len(pairs)},
        )
        return TokenCounts(facts, counts, pairs, followed.astype(np.int64), repeats)

    @classmethod
    def shapes(cls, facts: FittedFacts) -> Shapes:
        """Of what its kind has."""
        size = (facts.sizes.get("pairs", 0),)
        own: dict[str, Shapes] = {
            "bigram": {"pairs": ("int64", size), "followed": ("int64", size)},
            "copy": {"repeats": ("float64", (1,))},
        }
        return {"counts": ("int64", (facts.width,)), **own.get(facts.method, {})}

    @classmethod
    def restore(cls, facts: FittedFacts, arrays: Mapping[str, np.ndarray]) -> TokenCounts:
        none = np.zeros(0, dtype=np.int64)
        return TokenCounts(facts, *(arrays.get(name, none) for name in ("counts", "pairs", "followed", "repeats")))


class UnigramSpec(TokensSpec):
    """How often each token is in train, wherever it stands."""

    kind: Literal["unigram"] = "unigram"

    def describe(self) -> str:
        return "unigram, how often each token is"


class BigramSpec(TokensSpec):
    """How often each token follows the one before it in train; where that one is hidden, how often it is at all."""

    kind: Literal["bigram"] = "bigram"

    def describe(self) -> str:
        return "bigram, what follows each token"


class CopySpec(TokensSpec):
    """The token before once more, with the share of train in which that is right; else how often each token is."""

    kind: Literal["copy"] = "copy"

    def describe(self) -> str:
        return "copy, the token before"
