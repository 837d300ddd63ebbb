"""Frozen layers computed once: where nothing below some block trains, each unit passes those layers a single time.

It is no option: a stage that this applies to is trained so everywhere, since its last bits differ from the plain way's
(other batches meet in the frozen layers). It applies to the blocks of a `SequenceModel` where all of these hold:

- nothing trains below the first block that is left (or below the last norm, or below the head, which then reads what
  is pooled already);
- the frozen layers draw no random numbers in training (dropout, hashing);
- every epoch has the same inputs: no endless task, no augmentation, no masks;
- the budget reads each train example at least once;
- the encoder joins no tokens (`model.encoder.patch`): features are kept by the positions of the examples;
- the features of train, val and test together take at most FEATURE_BYTES bytes of memory. Others take the plain way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch

from headstart.models.heads import pooled
from headstart.models.model import Network, SequenceModel
from headstart.models.outline import shapes_alone
from headstart.objectives import ObjectiveSpec
from headstart.seeds import Draw
from headstart.sequence import Batch, Signature
from headstart.training.batches import Batches
from headstart.training.evaluate import forward_precision
from headstart.training.optim import OptimSpec
from headstart.training.step import own_class

FEATURE_BYTES = 2**29
"""Bytes of the features of all splits, as float32."""


class FeatureBatches(Batches):
    """Batches that know what the first `level` blocks of a model make of them, once `fill` has come to its end.

    Features are computed in the order of the units, a batch of the optimiser at a time, so that they do not depend on
    where a stage was interrupted. `done`: units that are computed.
    """

    def __init__(self, plain: Batches, model: SequenceModel, level: int, optim: OptimSpec) -> None:
        super().__init__(plain.examples, plain.units, plain.device, plain.dtype)
        self.model, self.level, self.optim, self.done = model, level, optim, 0
        self.pool = getattr(model.head, "pool", None) if level > len(model.blocks) else None
        lengths = self.examples.lengths[self.examples.rows(self.units)]
        self._lengths = np.ones_like(lengths) if self.pool else lengths
        self._starts = np.concatenate([[0], np.cumsum(self._lengths)])
        self._flat: torch.Tensor | None = None

    @property
    def positions(self) -> int:
        """Vectors of all units together: one a row where they are pooled."""
        return int(self._starts[-1])

    @torch.no_grad()
    def fill(self) -> Iterator[None]:
        """Compute what is not yet known, in pieces."""
        while self.done < len(self.units):
            last = min(self.done + self.optim.batch_size, len(self.units))
            batch = super().batch(np.arange(self.done, last))
            valid = None if batch.full else batch.valid
            with forward_precision(self.device, self.optim.precision):
                x = self.model.lower(batch, self.level)
                x = x if self.pool is None else pooled(x, valid, self.pool)[:, None]
            first = self._position(self.done)
            values = x.flatten(0, 1) if valid is None or self.pool else x[valid]
            self._room(values)[first : first + len(values)] = values
            self.done = last
            yield

    def computed(self) -> torch.Tensor:
        """(S, D): the features of the first `done` units, position by position."""
        assert self._flat is not None
        return self._flat[: self._position(self.done)]

    def restore(self, values: torch.Tensor) -> None:
        """Go on from what `computed` gave."""
        self._room(values)[: len(values)] = values
        rows = int(np.searchsorted(self._starts, len(values)))
        self.done = rows // 2 if self.examples.paired else rows

    def batch(self, places: np.ndarray) -> Batch:
        batch = super().batch(places)
        if batch.features is not None or self.done < len(self.units):
            return batch
        return self._with(
            batch, torch.from_numpy(self.rows(places)).to(self.device, non_blocking=True), batch.inputs.shape[1]
        )

    def picked(self, rows: torch.Tensor, length: int) -> Batch:
        batch = super().picked(rows, length)
        return batch if self.done < len(self.units) else self._with(batch, rows, length)

    def _with(self, batch: Batch, rows: torch.Tensor, length: int) -> Batch:
        """The batch of these rows, padded to `length`, with its features; those of padding are the last one's."""
        values = self.computed()
        if self.pool or self.equal:
            features = torch.unflatten(values, 0, (len(self._lengths), -1)).index_select(0, rows)
        else:
            starts, lengths = (x.index_select(0, rows)[:, None] for x in self._places)
            features = values[starts + torch.arange(length, device=rows.device).minimum(lengths - 1)]
        return replace(batch, features=features, level=self.level)

    @cached_property
    def _places(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Where each row's features begin, and how many there are, on the device."""
        starts, lengths = (torch.from_numpy(x).to(self.device) for x in (self._starts[:-1], self._lengths))
        return starts, lengths

    def _position(self, units: int) -> int:
        return int(self._starts[2 * units if self.examples.paired else units])

    def _room(self, like: torch.Tensor) -> torch.Tensor:
        if self._flat is None:
            self._flat = torch.empty(self.positions, like.shape[-1], dtype=like.dtype, device=self.device)
        return self._flat


def feature_batches(
    model: Network,
    level: int,
    width: int,
    feeds: Mapping[str, Batches],
    objective: ObjectiveSpec,
    signature: Signature,
    optim: OptimSpec,
) -> dict[str, FeatureBatches]:
    """The splits with features of the first `level` blocks, `width` numbers a position.

    None where they cannot be computed once, or not be held.

    What the caller knows is not asked here: whether inputs are the same in every epoch, and how long is trained.
    """
    masks = type(objective).prepare is not ObjectiveSpec.prepare
    if level == 0 or masks or not isinstance(model, SequenceModel) or model.patch > 1:
        return {}
    features = {name: FeatureBatches(feed, model, level, optim) for name, feed in feeds.items()}
    fits = 4 * width * sum(feed.positions for feed in features.values()) <= FEATURE_BYTES
    return features if fits and not _draws(model, level, signature, feeds["train"]) else {}


class _Asked(Exception):
    """A random number was asked for."""


class _NoDraw(Draw):
    """Stands for the random numbers of training where there must be none."""

    def within(self, name: str) -> Draw:
        del name
        return self

    def __call__(self, name: str, shape: Sequence[int]) -> torch.Tensor:
        raise _Asked(name)


@torch.no_grad()
def _draws(model: SequenceModel, level: int, signature: Signature, feed: Batches) -> bool:
    """Whether the first `level` blocks draw random numbers in training, as a sequence of zeros shows.

    On torch's device without numbers, where a plan is made, our own layers say it themselves, since a pass takes a
    second there. Some mixers of a person's own cannot be passed and count as drawing none; what a plan says of their
    cost is all that depends on it.
    """
    if feed.device.type == "meta" and all(own_class(module) is None for module in model.modules()):
        return model.rate > 0 or any(getattr(x, "draws", False) for x in model.blocks[:level].modules())
    tokens = signature.input == "tokens"
    shape = (1, signature.shortest) if tokens else (1, signature.shortest, signature.width)
    inputs = torch.zeros(shape, dtype=torch.int64 if tokens else feed.dtype, device=feed.device)
    valid = torch.ones(shape[:2], dtype=torch.bool, device=feed.device)
    index = torch.zeros(1, dtype=torch.int64, device=feed.device)
    try:
        with shapes_alone(feed.device):
            model.lower(Batch(inputs, valid, index, full=True), level, _NoDraw(0, 0, index))
    except _Asked:
        return True
    except (NotImplementedError, RuntimeError):
        if feed.device.type != "meta":
            raise
    return False
