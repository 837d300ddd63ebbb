"""The two models that look at sequences, fitted: on summaries, and on random kernels or n-grams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from headstart.baselines.contract import Facts, facts_of, targets
from headstart.baselines.kernels import FEATURES, KERNELS, fit_kernels
from headstart.baselines.linear import Linear, split_of
from headstart.baselines.measures import log_loss, softmax
from headstart.baselines.ngrams import Ngrams, fit_ngrams
from headstart.baselines.readout import Readout, Split, logistic, ridge_classes, ridge_numbers, sparse_numbers
from headstart.baselines.summary import fit_summary
from headstart.errors import BadInput
from headstart.sequence import IGNORE, Examples, Signature

MANY = 8_000
"""Labelled units above which there are fewer kernel features: the ridge regression's time grows with their cube."""
FEW_FEATURES = 2_520
"""30 of each kernel."""
SMALL = 32
"""Tokens of a small vocabulary (DNA, proteins): longer runs are tried, and tokens at their places."""
WIDEST = 8_192
"""Tokens times positions at most, for tokens at their places."""


def fit_summaries(train: Examples, val: Examples, signature: Signature, seed: int, balanced: bool = False) -> Linear:
    """Logistic regression (ridge for numbers) on statistics per channel; of tokens, on runs of one and two.

    The penalty is chosen on val, for ridge by leaving one out of train. Nothing depends on the seed.
    Raises: BadInput where no train unit has a target.
    """
    del seed
    if signature.input == "tokens":
        facts = _facts("summary", "ngrams", train, signature)
        return _ngrams(facts, fit_ngrams(train, 2), train, val, balanced)[1]
    facts = _facts("summary", "summary", train, signature)
    features = fit_summary(train)
    given, held = split_of(features, train, facts), split_of(features, val, facts)
    readout = logistic(given, held, facts.classes, balanced) if facts.classes else ridge_numbers(given)
    return Linear.of(facts, features, readout)


def fit_random_kernels(
    train: Examples,
    val: Examples,
    signature: Signature,
    seed: int,
    balanced: bool = False,
    features: int | None = None,
) -> Linear:
    """Ridge on random convolution kernels (`kernels`); of tokens, logistic regression on n-grams (`ngrams`).

    features: wanted of each sequence; None: the published 9,996, or 2,520 above 8,000 labels. Halves of pairs have a
    quarter of them. Tokens are runs of up to 4; in a vocabulary of up to 32, of up to 3 or 6, with or without tokens
    at their places where all train sequences have one length, as the loss on val has it.
    Tokens are no numbers. Kernels over one-hot channels were tried for small vocabularies, at ten times the cost: on
    validation rows n-grams were better on three sets of promoters and on splice junctions (0.95 to 0.78, by places),
    kernels on proteins (0.58 to 0.54).
    Raises: BadInput where no train unit has a target, or for fewer features than kernels.
    """
    if signature.input == "tokens":
        facts = _facts("kernels", "ngrams", train, signature)
        tried = [_ngrams(facts, made, train, val, balanced) for made in _candidates(train, signature)]
        return min(tried, key=lambda pair: pair[0])[1]
    facts = _facts("kernels", "kernels", train, signature)
    wanted = features or (FEATURES if len(train.labelled_units()) <= MANY else FEW_FEATURES)
    made = fit_kernels(replace(train, paired=False), seed, max(KERNELS, wanted // 4) if signature.paired else wanted)
    given, held = split_of(made, train, facts), split_of(made, val, facts)
    readout = ridge_classes(given, held, facts.classes, balanced) if facts.classes else ridge_numbers(given)
    return Linear.of(facts, made, readout)


def _facts(method: str, features: str, train: Examples, signature: Signature) -> Facts:
    facts = facts_of(method, features, signature)
    target = targets(train, facts)
    if not (target != IGNORE).any() or (not facts.classes and np.isnan(target).all()):
        raise BadInput(f"classic.{method}: no train example has a label; give some, or use classic.majority")
    return facts


def _candidates(train: Examples, signature: Signature) -> Iterator[Ngrams]:
    """What n-grams to try; of equals the first is kept, so that the simpler come first."""
    lengths = train.lengths
    aligned = bool((lengths == lengths[0]).all()) and int(lengths[0]) * signature.width <= WIDEST
    for longest in (3, 6) if signature.width <= SMALL else (4,):
        yield fit_ngrams(train, longest)
        if aligned and signature.width <= SMALL:
            yield fit_ngrams(train, longest, int(lengths[0]), signature.width)


def _ngrams(facts: Facts, made: Ngrams, train: Examples, val: Examples, balanced: bool) -> tuple[float, Linear]:
    """(loss on val, the model)."""
    given, held = split_of(made, train, facts), split_of(made, val, facts)
    readout = logistic(given, held, facts.classes, balanced) if facts.classes else sparse_numbers(given, held)
    return _loss(readout, held, facts), Linear.of(facts, made, readout)


def _loss(readout: Readout, held: Split, facts: Facts) -> float:
    """Log loss or mean squared error; 0 where nothing can be compared."""
    if not len(held.target):
        return 0.0
    scores = readout.scores(held.features)
    if facts.classes:
        return log_loss(held.target, softmax(scores, readout.temperature))
    return float(np.nanmean((scores - held.target) ** 2))
