"""Before the first step of a stage with code of a person's own: forwards that show early what would be lost late.

They are made with a network of the same weights that is built for them, and with generators of their own: nothing of
the stage changes. What makes a result meaningless is refused; what a reader must know is a remark, which stands with
the result and on the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from headstart.errors import BadInput, first_line
from headstart.models.counting import counted_flops, flops_are_off
from headstart.models.model import Network, SequenceModel
from headstart.models.own import OwnModel, OwnModelSpec
from headstart.objectives import ObjectiveSpec
from headstart.plugins import place_of
from headstart.seeds import Draw, generators_seeded
from headstart.sequence import Batch, Signature
from headstart.training.batches import Batches
from headstart.training.objective_contract import direction_is_wrong, halves_differ, monitor_is_absent, totals_of
from headstart.training.step import own_class

LEAK = 1e-4
"""How far padding, or the future, may move a vector: a share of the largest one (float32, at any length)."""
CHANGED_FROM = (1, 257, 65, 33, 129, 17, 513, 1025)
"""Positions from which on a sequence is changed, besides its middle and its last: behind the borders of chunks."""
CHANGED_POSITIONS = 2**16
"""Positions of the batch in which sequences are changed, from three changes a sequence on."""
REPEATED_UNITS = 4
"""Of a batch on which the same step is taken twice."""


@dataclass(frozen=True)
class Rehearsal:
    """What is looked at: the network of a stage, and how another one like it is built.

    spec: of the model. build: a fresh network in the stage's numbers and on its device. feeds: batches of each split.
    """

    model: Network
    spec: object
    build: Callable[[], Network]
    objective: ObjectiveSpec
    signature: Signature
    feeds: Mapping[str, Batches]
    seed: int

    def remarks(self) -> list[str]:
        """What a reader of the result must know; nothing where all code is headstart's.

        Raises: BadInput where the stage would fail later, or its result would mean nothing.
        """
        if not self._own and own_class(self.objective) is None:
            return []
        device = self.feeds["train"].device
        with torch.no_grad(), generators_seeded(0, [device] if device.type == "cuda" else []):
            twin = self.build() if self._own else self.model
            if self._own:
                self._check_builds(twin)
                twin.load_state_dict(self.model.state_dict())
                self._check_repeats(twin)
            mode = twin.training
            self._check_splits(twin.eval())
            remarks = [*self._objective_remarks(twin), *(self._leaks(twin) if self._own else ())]
            twin.train(mode)
        return list(dict.fromkeys(remarks))

    @property
    def _own(self) -> str:
        """What a message calls the model's own code; empty where it is all headstart's."""
        if isinstance(self.model, OwnModel):
            return repr(self.model.kind)
        kinds = {kind: None for module in self.model.modules() if (kind := own_class(module)) is not None}
        return " and ".join(kinds)

    def _check_builds(self, twin: Network) -> None:
        again = dict(self.build().named_parameters())
        for name, value in twin.named_parameters():
            if not _same(value, again[name]):
                raise BadInput(
                    f"model: two builds of {self._own} with one seed differ in {name.removeprefix('net.')!r}; draw "
                    "fresh weights with torch's generator, which the stage's seed has seeded"
                )

    def _check_repeats(self, twin: Network) -> None:
        """Of a whole model: one step of training, taken twice from the same state, gives one answer."""
        if not isinstance(twin, OwnModel):  # a mixer is looked at where the stage is made
            return
        train = self.feeds["train"]
        batch = train.batch(np.arange(min(REPEATED_UNITS, len(train.units))))
        batch = self.objective.prepare(batch, self.signature, self.seed, 0)
        answers = []
        for _ in range(2):
            answers.append(twin(batch, Draw(self.seed, 0, batch.index), {}))
            twin.load_state_dict(self.model.state_dict())
        if not _same(*answers):
            raise BadInput(
                f"model: {self._own} gives two answers to one step of training; draw random numbers with torch's "
                "generator (or numpy's or Python's own, np.random and random), which are seeded for each step, and "
                "keep what a step changes in buffers"
            )

    def _check_splits(self, twin: Network) -> None:
        """One forward over the examples of each split on which code is likeliest to fail."""
        for split, feed in self.feeds.items():
            for which, unit in _extremes(feed):
                batch = self.objective.prepare(feed.batch(np.array([unit])), self.signature, self.seed, 0)
                try:
                    output = twin(batch)
                    self.objective.measure(output, batch, self.signature)
                except BadInput:
                    raise
                except Exception as error:
                    raise BadInput(
                        f"model: it fails on the {which} of {split}, {int(feed.lengths[unit])} positions "
                        f"({place_of(error)}{first_line(error, typed=True)}); nothing was trained"
                    ) from None
                if bool(output.isnan().any()):
                    raise BadInput(
                        f"model: it gives NaN on the {which} of {split}, {int(feed.lengths[unit])} positions; nothing "
                        "was trained"
                    )

    def _objective_remarks(self, twin: Network) -> Iterator[str]:
        """Raises: BadInput where the score that chooses the weights is none of the objective's."""
        if own_class(self.objective) is None:
            return
        train = self.feeds["train"]
        batch = train.batch(np.arange(min(REPEATED_UNITS, len(train.units))))
        batch = self.objective.prepare(batch, self.signature, self.seed, 0)
        answers = twin(batch)
        totals = totals_of(self.objective.measure(answers, batch, self.signature))
        if problem := monitor_is_absent(self.objective, self.signature, totals):
            raise BadInput(f"objective: {problem}")
        if problem := halves_differ(self.objective, answers, batch, self.signature):
            yield f"objective {self.objective.kind!r}: {problem}. Its scores depend on how batches are cut."
        if problem := direction_is_wrong(self.objective, self.signature):
            yield f"objective {self.objective.kind!r}: {problem}."

    def _leaks(self, twin: Network) -> Iterator[str]:
        """What padding and, in a causal model, later positions move; and FLOPs that are not those counted."""
        # Away from the start, where a layer that begins at zero may cut the others off.
        for number, parameter in enumerate(twin.parameters()):
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number))
            parameter.add_(0.01 * noise.to(parameter))
        feed = max(self.feeds.values(), key=lambda feed: int(feed.lengths.max(initial=0)))
        longest = int(np.argmax(feed.lengths))
        if getattr(self.spec, "causal", False):
            self._check_causality(twin, feed.batch(np.array([longest])))
        yield from self._padding_remarks(twin)
        yield from self._flops_remarks(twin, int(feed.lengths[longest]))

    def _check_causality(self, twin: Network, batch: Batch) -> None:
        """Raises: BadInput where a position sees a later one."""
        length, patch = batch.inputs.shape[1], twin.patch
        cuts = [cut for cut in dict.fromkeys((length // 2, length - 1, *CHANGED_FROM)) if patch <= cut < length]
        cuts = cuts[: max(3, CHANGED_POSITIONS // length)]
        rows = batch.mapped(lambda x: x[:1].repeat_interleave(len(cuts) + 1, 0))
        later = torch.arange(length)[None] >= torch.tensor([length, *cuts])[:, None]
        vectors = twin.embed(replaced(rows, later.to(rows.valid.device), self.signature))
        if vectors.ndim < 3 or not cuts:  # outputs of sequences, which say nothing of positions
            return
        scale = float(vectors[0].abs().max())
        for row, cut in enumerate(cuts, 1):
            far = float((vectors[row] - vectors[0])[: cut // patch].abs().max())
            if not far <= LEAK * scale:
                raise BadInput(
                    f"model: {self._own} says that it is causal, and in a sequence of {length} positions those from "
                    f"{cut} on move an earlier one (by {far / max(scale, 1e-300):.1e} of the scale), so that it sees "
                    "what it is to predict; `headstart check --plugin FILE.py` looks closer. Mend it, or set causal = "
                    "false"
                )

    def _padding_remarks(self, twin: Network) -> Iterator[str]:
        """Where a split has sequences of different lengths: one alone, and beside the longest."""
        for feed in self.feeds.values():
            longest = int(feed.lengths.max(initial=0))
            shorter = np.flatnonzero(feed.lengths < longest)
            if not len(shorter):
                continue
            unit = int(shorter[np.argsort(feed.lengths[shorter], kind="stable")[len(shorter) // 2]])
            alone = feed.batch(np.array([unit]))
            both = feed.batch(np.array([int(np.argmax(feed.lengths)), unit]))
            first, second = twin.embed(alone), twin.embed(both)[-len(alone) :]
            other = twin.embed(replaced(both, ~both.valid, self.signature))[-len(alone) :]
            if first.ndim == 3:
                there = alone.valid[:, :: twin.patch]
                first, second, other = (x[:, : there.shape[1]][there] for x in (first, second, other))
            scale = float(first.abs().max())
            far = max(float((x - first).abs().max()) for x in (second, other))
            if not far <= LEAK * scale:
                length = int(feed.lengths[unit])
                share = f"{far / max(scale, 1e-300):.1e} of the scale"
                yield (
                    f"model {self._own}: padding moves what it makes of a sequence (of {length} positions, alone and "
                    f"beside one of {longest}, by {share}), so that scores depend on which sequences share a batch."
                )
            return

    def _flops_remarks(self, twin: Network, length: int) -> Iterator[str]:
        """Where the FLOPs that a class states are not those counted at the longest length."""
        if isinstance(twin, OwnModel) and isinstance(self.spec, OwnModelSpec):
            if type(self.spec).flops is not OwnModelSpec.flops:
                stated = self.spec.layer_flops(self.signature, self.objective.output(self.signature), length)[0][1]
                batch = Batch(*_zeros(self.signature, length, twin), full=True)
                yield from _flops_remark(f"model {self._own}", stated, partial(twin.embed, batch), self.spec.uncounted)
        elif isinstance(twin, SequenceModel):
            positions, width = self.spec.positions(length), self.spec.width  # type: ignore[attr-defined]
            for spec, block in zip(self.spec.mixers, twin.blocks, strict=True):  # type: ignore[attr-defined]
                if own_class(spec) is not None:
                    x = torch.zeros(1, positions, width).to(next(twin.parameters()))
                    stated = spec.flops(width, positions, self.spec.causal)  # type: ignore[attr-defined]
                    mixer: nn.Module = block.mixer  # type: ignore[assignment]
                    yield from _flops_remark(f"mixer {spec.kind!r}", stated, partial(mixer, x, None), spec.uncounted)


def _flops_remark(name: str, stated: float, run: Callable[[], object], uncounted: str) -> Iterator[str]:
    counted = counted_flops(run)
    if flops_are_off(stated, counted, uncounted):
        yield (
            f"{name}: its flops() says {stated:.3g} where a count says {counted:.3g}, so that budgets in FLOPs and the "
            "FLOPs given here are not true of it."
        )


def _extremes(feed: Batches) -> Iterator[tuple[str, int]]:
    """(name, place) of the longest and the shortest unit, and of tokens the one with the largest id."""
    if not len(feed.units):
        return
    units = {int(np.argmax(feed.lengths)): "longest example", int(np.argmin(feed.lengths)): "shortest example"}
    values = feed.examples.values
    if values.ndim == 1 and len(values):
        row = int(np.searchsorted(feed.examples.offsets, int(np.argmax(values)), side="right")) - 1
        largest = np.flatnonzero(feed.units == (row // 2 if feed.examples.paired else row)).tolist()
        units = {**dict.fromkeys(largest, "example with the largest token"), **units}
    yield from ((name, unit) for unit, name in units.items())


def _zeros(signature: Signature, length: int, twin: Network) -> tuple[Tensor, Tensor, Tensor]:
    """inputs, valid and index of one sequence of zeros, where the network is."""
    like = next(twin.parameters())
    tokens = signature.input == "tokens"
    shape = (1, length) if tokens else (1, length, signature.width)
    inputs = torch.zeros(shape, dtype=torch.int64 if tokens else like.dtype, device=like.device)
    valid = torch.ones(1, length, dtype=torch.bool, device=like.device)
    return inputs, valid, torch.zeros(1, dtype=torch.int64, device=like.device)


def replaced(batch: Batch, at: Tensor, signature: Signature) -> Batch:
    """The batch with other inputs where `at` (B, L): another token, or a number that is not of the sequence."""
    x = batch.inputs
    other = x.max() - x + 1 if x.is_floating_point() else (x + 1) % signature.width
    return replace(batch, inputs=torch.where(at if x.ndim == 2 else at[:, :, None], other, x))


def _same(a: Tensor, b: Tensor) -> bool:
    """To the bit on a CPU; on a GPU sums may be taken in any order."""
    if a.device.type == "cpu":
        return torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
    return torch.allclose(a, b, rtol=1e-3, atol=1e-5, equal_nan=True)
