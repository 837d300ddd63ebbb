"""A fitted model as it serves: from a person's sequences to probabilities under their own names, or numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from headstart.baselines import Fitted
from headstart.baselines.measures import heated, softmax
from headstart.data import Sequences
from headstart.errors import BadInput, nearest
from headstart.sequence import Examples
from headstart.serve.config import ENSEMBLE, NETWORK, ModelConfig
from headstart.ways import field_name

if TYPE_CHECKING:
    from headstart.core import Network, Predictor


@dataclass(frozen=True, repr=False)
class Served:
    """The models of one fit, and what stands between them and a person's data.

    network: on the CPU in float32, None where there is none. classics: by name. Letters: n sequences, K classes, D
    the network's width.
    """

    config: ModelConfig
    network: Network | None
    classics: Mapping[str, Fitted]

    def __repr__(self) -> str:
        preparation = self.config.preparation
        what = f"one of {len(preparation.classes)} classes" if preparation.classes else "a number"
        models = ", ".join(self.choices)
        return f"Served({self.config.serve} gives {what} for sequences of {preparation.sound}; models: {models})"

    @property
    def choices(self) -> tuple[str, ...]:
        """Names of the models that are there; of an ensemble its members are, too."""
        network, ensemble = (NETWORK,) if self.network is not None else (), (ENSEMBLE,) if self.config.ensemble else ()
        return (*network, *self.classics, *ensemble)

    def chosen(self, use: str | None = None) -> str:
        """The model of this name, or the one that serves. Raises: BadInput for a name that is not there."""
        name = use or self.config.serve
        if name not in self.choices:
            raise BadInput(f"{field_name('use')}: {nearest(name, self.choices)}")
        return name

    def members(self, use: str | None = None) -> tuple[str, ...]:
        """The models whose answers are averaged; of any but an ensemble itself. Raises: BadInput as `chosen`."""
        name = self.chosen(use)
        return self.config.ensemble if name == ENSEMBLE else (name,)

    def limit(self, use: str | None = None) -> int | None:
        """Positions that this model, or the network of an ensemble, sees of a sequence, the first ones; None: all."""
        longest, network = self.config.preparation.longest, self.config.network
        if NETWORK not in self.members(use) or network is None:
            return longest
        room = network.length * self.config.preparation.patch
        return room if longest is None else min(longest, room)

    def examples(self, s: Sequences, *, patched: bool) -> Examples:
        """The sequences as the network (patched) or a classic model sees them, without a target.

        Raises: BadInput for sequences of another kind, with other channels or with unknown tokens.
        """
        plain = self.config.preparation.examples(s)
        return self._as_network(plain) if patched else plain.cut(self.config.preparation.longest)

    def predict(self, s: Sequences, use: str | None = None) -> np.ndarray:
        """(n, K) float64 probabilities, or (n,) numbers in the target's own unit, of the model `use` (default: the one
        that serves).

        Neither the order nor the company of a sequence moves its answer by more than 1e-5 of scale.
        Raises: BadInput for another name, and as `examples`.
        """
        self.chosen(use)
        return of_examples(self, self.examples(s, patched=False), use)

    def scores(self, s: Sequences) -> np.ndarray:
        """(n, K), or (n,) for numbers, float64: what the network itself says, before temperature, softmax or unit.

        Raises: BadInput where there is no network, and as `examples`.
        """
        return self._predictor().scores(self.examples(s, patched=True))

    def embed(self, s: Sequences) -> np.ndarray:
        """(n, D) float32: what the network's head looks at, one vector per sequence.

        Raises: BadInput where there is no network, and as `examples`.
        """
        return self._predictor().vectors(self.examples(s, patched=True))

    @property
    def vector_size(self) -> int:
        """D of `embed`. Raises: BadInput where there is no network, or no head of headstart's on top of it."""
        return self._predictor().vector_size

    def _network(self) -> Network:
        if self.network is None:
            there = ", ".join(self.choices)
            raise BadInput(f"model: there is no network here, only {there}; fit one with a network")
        return self.network

    def _predictor(self) -> Predictor:
        from headstart.core import Predictor  # imports torch, which only a network needs

        return Predictor(self._network())

    def _as_network(self, plain: Examples) -> Examples:
        self._network()
        preparation = self.config.preparation
        cut = plain.cut(self.limit(NETWORK))
        return cut.patched(preparation.patch, preparation.missing) if preparation.patch > 1 else cut


def of_examples(served: Served, x: Examples, use: str | None = None) -> np.ndarray:
    """`predict` of examples that are prepared but not patched: those of task `own` with patch 1.

    Raises: BadInput for a name that is not there, and for an answer that is no number or no probabilities, as of a
    folder that somebody changed.
    """
    with np.errstate(all="ignore"):  # what comes of it is looked at
        answers = _answers(served, x, use)
    sound = np.isfinite(answers)
    if served.config.preparation.classes:
        sound = (sound & (answers >= 0)).all(axis=1) & (np.abs(answers.sum(axis=1) - 1) < 1e-5)
    if not sound.all():
        row, what = int(np.argmin(sound)), "probabilities" if served.config.preparation.classes else "number"
        raise BadInput(
            f"model: {served.chosen(use)} gives {'no ' + what} for sequence {row + 1} of {len(sound)}: "
            f"{np.array2string(answers[row], precision=3, threshold=6)}; save or download the model again, or leave "
            "the sequence out if its values are far from those of the fit"
        )
    return answers


def _answers(served: Served, x: Examples, use: str | None) -> np.ndarray:
    members, config = served.members(use), served.config
    if len(members) > 1:
        each = [_answers(served, x, member) for member in members]
        average = np.tensordot(config.shares, each, axes=1) if config.shares else np.mean(each, axis=0)
        return heated(average, config.temperature) if config.preparation.classes else np.asarray(average)
    (name,) = members
    if name != NETWORK or config.network is None:
        answers = served.classics[name].predict(x)
    else:
        answers = served._predictor().scores(served._as_network(x))
        if config.preparation.classes:
            return softmax(answers, config.network.temperature)
    return answers if config.preparation.classes else in_own_unit(config.preparation, answers)


class Ends(Protocol):
    """What knows which numbers stand as -1 and 1."""

    @property
    def low(self) -> float | None:
        """The number that stands as -1."""

    @property
    def high(self) -> float | None:
        """The number that stands as 1."""


def in_own_unit(ends: Ends, numbers: np.ndarray) -> np.ndarray:
    """Numbers as a model learns them, -1 to 1 over the range of train, in the target's own unit; float64."""
    low, high, numbers = ends.low, ends.high, numbers.astype(np.float64)
    return numbers if low is None or high is None else (numbers + 1) / 2 * (high - low) + low
