"""Recall: associations among many (MQAR), tokens among noise, the token after a trigger; asked for per position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
import torch
from pydantic import Field, ValidationError, model_validator

from headstart.seeds import below, bits
from headstart.sequence import IGNORE, Batch, Examples
from headstart.spec import neutral
from headstart.tasks.build import GeneratedSpec, make_task
from headstart.tasks.task import Baseline, Task, each_split, rule

_AT_ONCE = 2**21
"""Positions that are made at once."""


class RecallSpec(GeneratedSpec):
    """What tasks of recall share: each has a `length`, and makes `positions` of it."""

    if TYPE_CHECKING:  # each class has this field, with a default of its own
        length: int

    test_length: int | None = neutral(None, ge=1, le=2**20)
    """The length of test sequences, as `length` counts it (left out: the same): what does a model do beyond the lengths
    that it was trained on? Reports say by how much they are longer."""

    baselines: ClassVar[tuple[Mapping[str, str], ...]] = ({"kind": "majority"},)
    shows_not: ClassVar[str] = (
        "made-up tokens without a language: exact recall is one skill, and says little of text or signals."
    )

    def sequences(self, stream: str, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and targets (n, L) of the sequences of these numbers (n,). Overridden by each task."""
        raise NotImplementedError

    @property
    def positions(self) -> int:
        """Positions of a sequence."""
        return self.length

    def mixed(self) -> Sequence[RecallSpec]:
        """Specs of which sequence i follows number i modulo their number: one, where all are alike."""
        return (self,)

    @model_validator(mode="after")
    def _test_has_room(self) -> Self:
        if self.test_length is not None:
            try:
                self.tested()
            except ValidationError as error:
                reason = error.errors()[0]["msg"].removeprefix("Value error, ")
                raise ValueError(f"test_length: as the length of test sequences, {reason}") from None
        return self

    def tested(self) -> Self:
        """The spec of the test sequences."""
        if self.test_length is None:
            return self
        settings = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_validate({**settings, "length": self.test_length, "test_length": None})

    def _task(self, symbols: list[str], classes: int) -> Task:
        """The task; the first `classes` of its tokens are what is asked for."""

        def examples(split: str) -> Examples:
            mixed = (self.tested() if split == "test" else self).mixed()
            index = np.arange(getattr(self, split), dtype=np.int64)
            sizes = np.array([source.positions for source in mixed])[index % len(mixed)]
            offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
            values, target = np.empty(offsets[-1], np.uint16), np.empty(offsets[-1], np.int32)
            for source, numbers in ((source, index[i :: len(mixed)]) for i, source in enumerate(mixed)):
                step = max(1, _AT_ONCE // source.positions)
                for some in (numbers[first : first + step] for first in range(0, len(numbers), step)):
                    places = offsets[some][:, None] + np.arange(source.positions)
                    values[places], target[places] = source.sequences(f"{self.kind}/{split}", some)
            return Examples(values, offsets, target, index, per_position=True)

        def text(ids: np.ndarray) -> str:
            return " ".join(symbols[int(i)] for i in ids)

        return make_task(**each_split(examples), labels=symbols[:classes], width=len(symbols), text=text)


class MqarSpec(RecallSpec):
    """Multi-query associative recall: pairs of a key and a value, then every key once more: what was its value?

    One example with 2 pairs in 8 positions and `random_others` false: `5 19 3 28 3 0 5 0`, asked for `28` at the
    fifth position and for `19` at the seventh; nothing is asked elsewhere. Keys come from the lower half of the
    vocabulary, values from the upper half, no key and no value twice. Key i is asked for again 2 g positions after the
    pairs end, with gaps g, no two the same, drawn with a probability in proportion to (g + 1) ** (power - 1).

    Source: Arora et al. 2023 (zoology's `multiquery_ar`: vocabulary 8,192, pairs of 4 in length 64 to 64 in 512).
    """

    kind: Literal["mqar"] = "mqar"
    vocabulary: int = Field(default=8192, ge=8, le=2**16)
    """Tokens, each of which is a class."""
    length: int = Field(default=64, ge=4, le=2**16)
    """Positions."""
    pairs: int = Field(default=4, ge=1)
    """How many keys have a value; at most a quarter of the length."""
    power: float = Field(default=0.01, gt=0, le=10)
    """Of the law of the gaps; a small one asks for most keys soon after the pairs."""
    random_others: bool = True
    """Positions after the pairs that ask nothing hold random tokens; else token 0."""
    mixture: tuple[tuple[int, ...], ...] = neutral(())
    """`[[64, 4], [128, 8], ...]`: lengths and numbers of pairs that are mixed, as many sequences of each, in place of
    `length` and `pairs`. Test is scored by length, number of pairs and distance too."""
    test_mixture: tuple[tuple[int, ...], ...] = neutral(())
    """The same of the test sequences alone, which may be longer and have more pairs than those of training."""

    baselines: ClassVar[tuple[Mapping[str, str], ...]] = ({"kind": "majority"}, rule("any one of the values"))

    @model_validator(mode="after")
    def _mixtures_fit(self) -> MqarSpec:
        own = [name for name, value in self._usual().items() if self.mixture and getattr(self, name) != value]
        if own:
            raise ValueError(f"{own[0]}: a mixture has lengths and pairs of its own; leave {own[0]} out")
        if self.test_length is not None and (self.mixture or self.test_mixture):
            raise ValueError("test_length: of a mixture, test_mixture says how long test sequences are; leave it out")
        for name in ("mixture", "test_mixture"):
            for i, pair in enumerate(getattr(self, name)):
                if len(pair) != 2:
                    raise ValueError(f"{name}[{i}]: {list(pair)} is not [length, pairs]; write one such as [64, 4]")
                try:
                    self._alone(*pair)
                except ValidationError as error:
                    reason = error.errors()[0]["msg"].removeprefix("Value error, ")
                    raise ValueError(f"{name}[{i}]: {list(pair)} as [length, pairs]: {reason}") from None
        return self

    @classmethod
    def _usual(cls) -> dict[str, int]:
        """What a mixture has in place of a length and a number of pairs of its own."""
        return {name: cls.model_fields[name].default for name in ("length", "pairs")}

    def _alone(self, length: int, pairs: int) -> MqarSpec:
        """The spec of one length and number of pairs."""
        return self._with(length=length, pairs=pairs, mixture=(), test_mixture=(), test_length=None)

    def _with(self, **changes: object) -> Self:
        settings = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_validate({**settings, **changes})

    def mixed(self) -> Sequence[MqarSpec]:
        return [self._alone(*pair) for pair in self.mixture] or (self,)

    def tested(self) -> Self:
        if not self.test_mixture:
            return super().tested()
        return self._with(**self._usual(), mixture=self.test_mixture, test_mixture=())

    @model_validator(mode="after")
    def _room(self) -> MqarSpec:
        most = min(self.length // 4, self.vocabulary // 2 - 1)
        if self.pairs > most:
            raise ValueError(
                f"pairs: {self.pairs} have no room in length {self.length} and vocabulary {self.vocabulary}; take at "
                f"most {most}, or a length of at least {4 * self.pairs} and a vocabulary of "
                f"at least {2 * self.pairs + 2}"
            )
        return self

    def load(self, data: Path) -> Task:
        task = self._task(list(map(str, range(self.vocabulary))), self.vocabulary)
        val, test = (len(some) / sum(alone.pairs for alone in some) for some in (self.mixed(), self.tested().mixed()))
        guess = Baseline("any one of the values", val, test, "each value is asked for once")
        return replace(task, baselines=(guess,), slices=_slices if self.mixture or self.test_mixture else None)

    def sequences(self, stream: str, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        seed, half, context = self.data_seed, self.vocabulary // 2, 2 * self.pairs
        keys = 1 + distinct(seed, f"{stream}/keys", half - 1, self.pairs, numbers)
        values = half + distinct(seed, f"{stream}/values", self.vocabulary - half, self.pairs, numbers)
        tokens = np.zeros((len(numbers), self.length), dtype=np.int64)
        if self.random_others:
            tokens[:] = below(seed, f"{stream}/others", self.vocabulary, numbers[:, None], np.arange(self.length))
        tokens[:, 0:context:2], tokens[:, 1:context:2] = keys, values
        target, asked = np.full_like(tokens, IGNORE), context + 2 * self.gaps(stream, numbers)
        np.put_along_axis(tokens, asked, keys, 1)
        np.put_along_axis(target, asked, values, 1)
        return tokens, target

    def gaps(self, stream: str, numbers: np.ndarray) -> np.ndarray:
        """(n, pairs) int64 gaps of each sequence, drawn one after another without the ones before."""
        share = np.arange(1, self.length // 2 - self.pairs + 1) ** (self.power - 1.0)
        # Whole numbers, so that the examples have the same bits on every machine; their sum stays below 2 ** 31.
        weight = np.tile(np.rint(share / share.sum() * 2**30).astype(np.int64).clip(1), (len(numbers), 1))
        out = np.empty((len(numbers), self.pairs), dtype=np.int64)
        for i in range(self.pairs):
            sums = weight.cumsum(1)
            drawn = (bits(self.data_seed, f"{stream}/gaps", numbers, i) * sums[:, -1]) >> 32
            out[:, i] = (sums <= drawn[:, None]).sum(1)
            np.put_along_axis(weight, out[:, i : i + 1], 0, 1)
        return out


def _slices(batch: Batch) -> dict[str, torch.Tensor]:
    """Of each position that is asked: the length, the number of pairs, and from which distance (a power of two) on its
    key's earlier place is away: 8 of distances from 8 to 15."""
    assert batch.target is not None
    asked = batch.target != IGNORE
    pairs = asked.sum(1, keepdim=True)
    keys = batch.inputs[:, : 2 * int(pairs.max()) : 2]
    within = torch.arange(keys.shape[1], device=keys.device) < pairs
    first = ((batch.inputs[:, :, None] == keys[:, None]) & within[:, None]).int().argmax(2)
    distance = torch.arange(batch.inputs.shape[1], device=keys.device) - 2 * first
    return {
        "length": batch.valid.sum(1, keepdim=True).expand_as(asked),
        "pairs": pairs.expand_as(asked),
        "distance from": 2 ** distance.clamp_min(1).double().log2().floor().long(),
    }


class SelectiveCopyingSpec(RecallSpec):
    """Some tokens stand among noise, at random places; then as many markers, at which they are asked for in order.

    One example with 3 tokens in 8 positions: `. c . . a . a . | | |`, asked for `c a a` at the markers. Noise is token
    0 and the marker the last token; what a token is and where it stands are uniform.

    Source: Gu and Dao 2023, after Arjovsky et al. 2016: 16 tokens in 4,096 positions, of an alphabet of 16; in 256
    positions, as here by default, in MAD (Poli et al. 2024).
    """

    kind: Literal["selective_copying"] = "selective_copying"
    symbols: int = Field(default=16, ge=3, le=28)
    """Tokens in all, noise and marker among them."""
    length: int = Field(default=256, ge=1, le=2**20)
    """Positions before the markers."""
    tokens: int = Field(default=16, ge=1, le=2**10)
    """How many are to be copied."""

    @model_validator(mode="after")
    def _room(self) -> SelectiveCopyingSpec:
        if self.tokens > self.length:
            raise ValueError(f"tokens: {self.tokens} have no room in length {self.length}; take at most that many")
        return self

    def load(self, data: Path) -> Task:
        names = [".", *(chr(ord("a") + i) for i in range(self.symbols - 2)), "|"]
        return self._task(names, self.symbols)

    @property
    def positions(self) -> int:
        return self.length + self.tokens

    def sequences(self, stream: str, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        steps = np.arange(self.tokens)
        copied = 1 + below(self.data_seed, f"{stream}/tokens", self.symbols - 2, numbers[:, None], steps)
        where = np.sort(distinct(self.data_seed, f"{stream}/where", self.length, self.tokens, numbers), axis=1)
        tokens = np.zeros((len(numbers), self.length + self.tokens), dtype=np.int64)
        tokens[:, self.length :] = self.symbols - 1
        target = np.full_like(tokens, IGNORE)
        np.put_along_axis(tokens, where, copied, 1)
        target[:, self.length :] = copied
        return tokens, target


class InductionHeadsSpec(RecallSpec):
    """Random tokens with a trigger somewhere; at the end it comes again: which token stood after the first?

    One example of 8 positions: `b d * a c d b *`, asked for `a` at the last one. The trigger is a token of its own.

    Source: Gu and Dao 2023 (16 tokens, trained at length 256), after Dao et al. 2023.
    """

    kind: Literal["induction_heads"] = "induction_heads"
    symbols: int = Field(default=16, ge=2, le=26)
    """Tokens besides the trigger."""
    length: int = Field(default=256, ge=3, le=2**20)
    """Positions."""

    def load(self, data: Path) -> Task:
        names = [*(chr(ord("a") + i) for i in range(self.symbols)), "*"]
        return self._task(names, self.symbols)

    def sequences(self, stream: str, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        row, steps = np.arange(len(numbers)), np.arange(self.length)
        tokens = below(self.data_seed, f"{stream}/tokens", self.symbols, numbers[:, None], steps)
        first = below(self.data_seed, f"{stream}/first", self.length - 2, numbers)
        target = np.full_like(tokens, IGNORE)
        target[:, -1] = tokens[row, first + 1]
        tokens[row, first] = tokens[:, -1] = self.symbols
        return tokens, target


def distinct(seed: int, stream: str, limit: int, count: int, numbers: np.ndarray) -> np.ndarray:
    """(n, count) integers below `limit`, uniform, no two of a row the same: draw i is one of those that are left."""
    out = np.empty((len(numbers), count), dtype=np.int64)
    for i in range(count):
        drawn = below(seed, stream, limit - i, numbers, i)
        for earlier in np.sort(out[:, :i], axis=1).T:
            drawn += drawn >= earlier
        out[:, i] = drawn
    return out
