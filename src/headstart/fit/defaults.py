"""What a fit does by itself for each kind of data: the network, its objective, its batches, and how long it trains.

Chosen on validation rows alone; docs/results/own.md says on which sets.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headstart.sequence import Signature
from headstart.words import many


@dataclass(frozen=True)
class InputKind:
    """Defaults of one kind of data.

    mask_rate: share of positions that self-pretraining hides. positions: that the network reads of a sequence on a CPU
    at most; above that neighbours are joined, at most `joined` tokens, beyond which sequences are cut. pool: how a
    sequence becomes one vector.
    aligned: positions where all sequences have one length, so that a place may mean something; `position`: otherwise.
    norm: of networks.
    """

    mask_rate: float
    positions: int
    pool: str
    mixer: Mapping[str, Any]
    position: str = "none"
    aligned: str = "none"
    norm: str = "layer"
    joined: int = 8


# On validation rows of four UCR train splits S4D with max pooling was ahead of rotary attention and of mean pooling at
# the same epochs. With letters it was ahead on promoters; on splice junctions, whose letters stand at their places, it
# needed learned positions (0.81 to 0.95 on validation rows).
# On three of five folds of the train rows of choosing sets (benchmarks/fit_against.toml), at the better of two rates,
# S4D with layer norm had 0.883 on ECG200, 0.863 on ArrowHead, 0.758 on OSULeaf and 1 on Trace; with batch norm 0.917,
# 0.952, 0.775 and 1; convolutions with batch norm 0.900, 0.952, 0.825 and 1, and a lower loss than both. On
# SyntheticControl (two folds, batch norm) both had 1; self-pretrained on ArrowHead, S4D had 0.869 with layer norm and
# 0.952 with batch norm, convolutions 0.869. So numbers have batch norm; neither mixer is ahead on most sets, and
# validation chooses. Where the time suffices for one it is S4D, with which (and layer norm) self-pretraining was
# measured.
# Tokens that the encoder joins (S4D, rate 2e-3, validation rows, one seed where no other number is given): of 1,620
# source files of six Python packages, 9,000 bytes in the middle, read to 4,096 by 8, it told the package with 0.943
# after 500 steps and 0.894 after 200, which take as long as 500 steps of the cut at 512, with 0.837. On promoters
# Mouse_tata (251 letters, 1,000 steps) 2 and 4 joined had 0.963 and 0.964 in 0.6 and 0.4 of the time, none 0.949. On
# 1,174 proteins (of the validation file of DeepLoc, 1,000 steps, two seeds) 3 joined had 0.577, and the cut 0.629 in as
# much time: train had 1.0 by then. So proteins alone are cut.
# On the same folds of ECG200, ArrowHead and OSULeaf this S4D (0.917, 0.952 and 0.775) gained 0, 0 and 0.008 by jittered
# train sequences, 0.017, 0 and 0.008 by scaled ones, 0, -0.083 and 0.025 by warped ones and by all three at once. None
# gained `LEAST_GAIN` on average: nothing is augmented (docs/benchmarks/fit-augment.md).
_STATES = {"kind": "s4d", "state": 16}
INPUT_KINDS: dict[str, InputKind] = {
    "numbers": InputKind(0.25, 160, "max", _STATES, norm="batch"),
    "text": InputKind(0.15, 512, "max", _STATES),
    "dna": InputKind(0.15, 512, "max", _STATES, aligned="learned"),
    "protein": InputKind(0.15, 512, "max", _STATES, aligned="learned", joined=1),
    "tokens": InputKind(0.15, 512, "max", _STATES, aligned="learned"),
}

LEARNING_RATES = (1e-3, 3e-3)
ONE_RATE = (2e-3,)
PRETRAIN_RATE = 2e-3
EPOCHS, PRETRAIN_EPOCHS = 60.0, 100.0
STEPS, PRETRAIN_STEPS = (600, 1_500), (1_000, 3_000)
"""Optimiser steps of training and of self-pretraining, at least and at most, whatever the epochs."""
LEAST_STEPS, LEAST_PRETRAIN_STEPS = 150, 300
"""Steps from which on a network has seen something. With fewer of its own self-pretraining is left out: on five sets of
an earlier own.md the time left 60 to 273 steps for it, and accuracy changed by -0.017 on average."""
SYMBOL_STEPS = 1_000
"""Steps that there must be time for before a network is planned for symbols: in less n-grams beat it by far."""
LEAST_GAIN = 0.01
"""Of test accuracy: less is not worth the time."""
GAINED = {True: (29, 40), False: (6, 26)}
"""Whether some train sequences have no label -> in how many comparisons self-pretraining gained more than `LEAST_GAIN`,
and of how many: those of docs/results/pretraining-pays.md, and the sets of own.md that had time."""
RIGHT = (49, 66)
"""On how many of all these the rule of `expects_gain` is right, each set left out when it is asked about."""
WORTH = 0.5
"""Share of the steps below which self-pretraining is left out where it is not expected to help, and below which one of
two mixers is trained. On the five sets of own.md whose rows are all labelled and whose time left less, accuracy changed
by -0.013 on average."""
FOLDS, FEW_ROWS = 5, 300
"""Folds that choose where train and validation have fewer labels than that: a fifth of so few rows says too little."""
# On outer folds of the train rows of six choosing sets of 28 to 250 rows (docs/benchmarks/fit-choice.md), to choose on
# three rounds of folds instead of one gained 0.044 on the one of 28 rows and changed nothing on the others.
FEW_SEQUENCES = 1_000
"""Labelled train sequences below which the smaller network is taken."""


@dataclass(frozen=True)
class ModelShape:
    """How a network reads the sequences of one file: at most their first `longest` positions.

    patch: numbers that are joined into one position (`task.patch`). join: tokens, by the network itself
    (`model.encoder.patch`); alone: `longest` of a network that joins none, such as a checkpoint's.
    """

    patch: int = 1
    longest: int | None = None
    join: int = 1
    alone: int | None = None

    def task(self, longest: int | None) -> dict[str, Any]:
        """What an arm says of its task. Networks alone read patches or a cut: the other models see every position."""
        read = {"patch": self.patch} if self.patch > 1 else {}
        read |= {"longest": longest} if longest is not None else {}
        return {"task": read} if read else {}

    def texts(self, lengths: np.ndarray) -> list[str]:
        """What that means for sequences of these lengths (n,), in words."""
        lines = []
        if (joined := self.patch * self.join) > 1:
            longest = min(int(lengths.max()), self.longest or sys.maxsize)
            lines.append(
                f"{joined} neighbouring positions are joined into one, so that a sequence of {longest:,} has "
                f"{-(-longest // joined):,}"
            )
        if self.longest is not None:
            cut = int((lengths > self.longest).sum())
            lines.append(
                f"the first {self.longest:,} positions of a sequence are read; {many(cut, 'sequence')} of "
                f"{len(lengths):,} {'has' if cut == 1 else 'have'} more"
            )
        return lines


def shape_of(kind: str, lengths: np.ndarray, squeeze: int = 1) -> ModelShape:
    """Patches or a cut for sequences of these lengths (n,). `squeeze`: so many times fewer positions than usual.

    One sequence that is far longer than the rest decides nothing: lengths above four times the 95th percentile are
    cut there.
    """
    most = max(8, INPUT_KINDS[kind].positions // squeeze)
    far = int(4 * np.quantile(lengths, 0.95))
    longest = far if lengths.max() > far else None
    patch = max(1, -(-int(np.quantile(lengths, 0.95)) // most))
    if kind != "numbers":
        patch, usual = min(patch, INPUT_KINDS[kind].joined), min(int(lengths.max()), far)
        cuts = (min(usual, most * each) for each in (patch, 1))
        whole, alone = (None if cut == lengths.max() else cut for cut in cuts)
        return ModelShape(1, whole, patch, alone)
    # A cut in whole patches: what is served reads exactly what was trained on.
    longest = None if longest is None else max(patch, longest // patch * patch)
    return ModelShape(patch, longest, alone=longest)


def expects_gain(labelled: int, rows: int) -> bool:
    """Whether self-pretraining on `rows` train sequences is expected to help, so many of them with a label."""
    gained, comparisons = GAINED[rows > labelled]
    return 2 * gained > comparisons


def expectation(labelled: int, rows: int, tried: str = "") -> str:
    """What `expects_gain` says, and what it rests on, in words. tried: why it is tried also where it says no."""
    bare = rows > labelled
    gains = expects_gain(labelled, rows)
    expected, anyway = ("", "") if gains else ("not ", f" but is tried all the same, because {tried}" if tried else "")
    which = f"{rows - labelled:,} of {rows:,} training sequences have no label" if bare else "all are labelled"
    same, other = (f"{gained} of {comparisons}" for gained, comparisons in (GAINED[bare], GAINED[not bare]))
    return (
        f"self-pretraining is {expected}expected to help{anyway}: {which}. In earlier comparisons of this kind it "
        f"gained more than {LEAST_GAIN} of test accuracy in {same}; "
        f"where {'all had a label' if bare else 'some had none'}, in {other}. "
        f"On data sets held out this rule was right in {RIGHT[0]} of {RIGHT[1]} comparisons"
    )


def wanted_steps(kind: str) -> int:
    """Steps of training before which sequences are read at fewer positions, and one rate is tried."""
    return LEAST_STEPS if kind == "numbers" else SYMBOL_STEPS


def batch_size(labelled: int, rows: int) -> int:
    """Sequences at a time: some sixteen steps an epoch for few rows, and never more than there are."""
    wanted = 8 if labelled < 64 else 16 if labelled < 2_000 else 32
    return max(1, min(wanted, labelled, rows))


def model_table(kind: str, labelled: int, lengths: np.ndarray) -> dict[str, Any]:
    """The network, for sequences of these lengths (n,)."""
    position = INPUT_KINDS[kind].aligned if (lengths == lengths[0]).all() else INPUT_KINDS[kind].position
    width = 32 if labelled < FEW_SEQUENCES and kind == "numbers" else 64
    return {
        "width": width,
        "blocks": 2,
        "mixer": dict(INPUT_KINDS[kind].mixer),
        "pool": INPUT_KINDS[kind].pool,
        "feed_forward": {"kind": "mlp", "width": 2 * width},
        "position": {"kind": position},
    }


def objective_table(signature: Signature, weights: tuple[float, ...]) -> dict[str, Any]:
    """The objective of training."""
    if signature.target == "number":
        return {"kind": "regress"}
    return {"kind": "classify", **({"class_weights": list(weights), "monitor": "weighted_accuracy"} if weights else {})}
