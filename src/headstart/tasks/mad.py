"""MAD: recall of pairs, plain, noisy and of motifs; compression and memorisation; asked for per position.

The sixth of its tasks, selective copying, stands in `recall.py`.
Source: Poli et al. 2024, "Mechanistic design and scaling of hybrid architectures" (arXiv 2403.17844), section 3, with
the sizes of its released code. There models learn every next token; here only what is asked for, in training too.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from headstart.seeds import below
from headstart.sequence import IGNORE
from headstart.tasks.recall import RecallSpec, distinct
from headstart.tasks.task import Task

RANGE = 2**30
"""A share is a whole number below it, so that examples have the same bits on every machine."""


class _PairsSpec(RecallSpec):
    """What the three kinds of recall share: pairs of a key and a value, each of one or more tokens, one after another.

    A key that comes again has the same value, and is asked for it: at its last token what the first token of the value
    is, and so on. Keys are of the lower half of the vocabulary, values of the upper one.
    """

    train: int = Field(default=12_800, ge=1, le=1_000_000)
    """How many sequences."""
    val: int = Field(default=1_280, ge=1, le=1_000_000)
    """How many sequences."""
    test: int = Field(default=1_280, ge=1, le=1_000_000)
    """How many sequences."""
    length: int = Field(default=128, ge=16, le=2**14)
    """Positions of the pairs, the last of which asks and shows no value."""

    needs_causal: ClassVar[bool] = True

    @model_validator(mode="after")
    def _whole_pairs(self) -> _PairsSpec:
        if self.motifs() == (1, 1) and self.length % 2:
            raise ValueError(f"length: {self.length} is odd, and pairs have two tokens; take {self.length + 1}")
        return self

    def parts(self) -> tuple[int, int, int, float]:
        """How many tokens are of keys, of values and of noise, and the share of noise."""
        raise NotImplementedError

    def motifs(self) -> tuple[int, int]:
        """Most tokens of a key and of a value."""
        return 1, 1

    def load(self, data: Path) -> Task:
        keys, values, noise, _ = self.parts()
        width = keys + values + noise + (self.motifs() != (1, 1))
        return self._task(list(map(str, range(width))), width)

    @property
    def positions(self) -> int:
        return self.length - 1

    def sequences(self, stream: str, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        keys, values, _, _ = self.parts()
        most, longest = self.motifs()
        tokens = np.full((len(numbers), self.length), self._filler, dtype=np.int64)
        target, slots = np.full_like(tokens, IGNORE), np.arange(self.length // 2)
        # Before it is asked for a key is of any size in training and of the largest one in val and test, as in MAD.
        least = 1 if stream.endswith("/train") else most

        def drawn(name: str, limit: int) -> np.ndarray:
            out: np.ndarray = below(self.data_seed, f"{stream}/{name}", limit, numbers[:, None], slots)
            return out

        key_size, value_size = least + drawn("key size", most - least + 1), 1 + drawn("value size", longest)
        noisy, noise, first = self._noise(stream, numbers, slots)
        key = self._motif(f"{stream}/keys", keys, most, numbers, slots)
        value = keys + self._motif(f"{stream}/values", values, longest, numbers, slots)
        again = below(self.data_seed, f"{stream}/again", RANGE, numbers)
        for row in range(len(numbers)):
            parts = (part[row].tolist() for part in (key_size, value_size, key, value, noisy, noise))
            line, asked, value_of = list[int](), list[int](), dict[tuple[int, ...], list[int]]()
            for slot, (wide, long, own, other, is_noise, others) in enumerate(zip(*parts, strict=True)):
                if len(line) + most + longest > self.length - most - longest:
                    break
                if is_noise and slot != first[row]:
                    line += others
                    asked += [IGNORE, IGNORE]
                    continue
                name = tuple(own[:wide])
                repeated = name in value_of
                answer = value_of.setdefault(name, other[:long])
                line += [*name, *answer]
                asked += [IGNORE] * len(name) + (answer if repeated else [IGNORE] * len(answer))
            name, answer = list(value_of.items())[int(again[row]) % len(value_of)]
            line += [*name, *answer]
            asked += [IGNORE] * len(name) + answer
            tokens[row, -len(line) :], target[row, -len(line) :] = line, asked
        return tokens[:, :-1], target[:, 1:]

    @property
    def _filler(self) -> int:
        """The token before the first pair, where pairs of several sizes do not fill the length."""
        keys, values, noise, _ = self.parts()
        return keys + values + noise if self.motifs() != (1, 1) else 0

    def _noise(self, stream: str, numbers: np.ndarray, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each slot whether it is noise and its two tokens, and a slot of each sequence that is none."""
        keys, values, count, share = self.parts()
        chance = below(self.data_seed, f"{stream}/noisy", RANGE, numbers[:, None], slots) < round(share * RANGE)
        token = np.arange(2)[None, None]
        drawn = below(self.data_seed, f"{stream}/noise", max(count, 1), numbers[:, None, None], slots[:, None], token)
        return chance, keys + values + drawn, below(self.data_seed, f"{stream}/first", max(len(slots) - 2, 1), numbers)

    def _motif(self, stream: str, limit: int, size: int, numbers: np.ndarray, slots: np.ndarray) -> np.ndarray:
        """(n, slots, size): tokens below `limit`, no two of a motif the same."""
        every = distinct(self.data_seed, stream, limit, size, (numbers[:, None] * (slots[-1] + 1) + slots).reshape(-1))
        return every.reshape(len(numbers), len(slots), size)


class InContextRecallSpec(_PairsSpec):
    """In-context recall: pairs of a key and a value; whenever a key comes again, what was its value?

    One example with 6 tokens: `0 4 2 3 0 4 1 5 2`, asked for `4` where 0 comes again and for `3` at the end. The value
    follows the key, as in the source, so that a model has to be causal.

    Source: Poli et al. 2024 (MAD), with the sizes of its released code.
    """

    kind: Literal["in_context_recall"] = "in_context_recall"
    vocabulary: int = Field(default=16, ge=4, le=2**14)
    """Tokens, half of them keys and half values."""

    def parts(self) -> tuple[int, int, int, float]:
        return self.vocabulary // 2, self.vocabulary - self.vocabulary // 2, 0, 0.0


class NoisyRecallSpec(_PairsSpec):
    """In-context recall among noise: some pairs are two tokens that are neither keys nor values.

    One example with 6 tokens and two of noise: `0 4 6 7 2 3 0 4 7 6 2`, asked for `4` where 0 comes again and for `3`
    at the end. The value follows the key, as in the source, so that a model has to be causal.

    Source: Poli et al. 2024 (MAD), with the sizes of its released code.
    """

    kind: Literal["noisy_recall"] = "noisy_recall"
    vocabulary: int = Field(default=16, ge=4, le=2**14)
    """Tokens besides noise, half of them keys and half values."""
    noise_vocabulary: int = Field(default=16, ge=1, le=2**14)
    """Tokens of noise."""
    noise: float = Field(default=0.2, gt=0, lt=1)
    """Share of pairs that are noise."""

    def parts(self) -> tuple[int, int, int, float]:
        keys = self.vocabulary // 2
        return keys, self.vocabulary - keys, self.noise_vocabulary, self.noise


class FuzzyRecallSpec(_PairsSpec):
    """Fuzzy recall: keys and values are motifs of one to three tokens; in val and test all keys have three.

    One example with keys of up to two tokens: `0 1 4 2 5 3 0 1`, asked for `4` at the end, where the key `0 1` comes
    again. No token stands twice in a motif; what does not fill the length is a token of its own before the first pair.
    The value follows the key, as in the source, so that a model has to be causal.

    Source: Poli et al. 2024 (MAD), with the sizes of its released code.
    """

    kind: Literal["fuzzy_recall"] = "fuzzy_recall"
    vocabulary: int = Field(default=15, ge=4, le=2**14)
    """Tokens of keys and values, half of each."""
    key_size: int = Field(default=3, ge=2, le=8)
    """Most tokens of a key."""
    value_size: int = Field(default=3, ge=1, le=8)
    """Most tokens of a value."""

    @model_validator(mode="after")
    def _room(self) -> FuzzyRecallSpec:
        least = 2 * max(self.key_size, self.value_size)
        if self.vocabulary < least:
            raise ValueError(
                f"vocabulary: {self.vocabulary} tokens make no motifs of {least // 2} different ones; take {least} or "
                "more"
            )
        if self.length < 3 * (self.key_size + self.value_size):
            raise ValueError(
                f"length: {self.length} has no room for three pairs of {self.key_size + self.value_size} tokens; take "
                f"{3 * (self.key_size + self.value_size)} or more"
            )
        return self

    def motifs(self) -> tuple[int, int]:
        return self.key_size, self.value_size

    def parts(self) -> tuple[int, int, int, float]:
        keys = self.vocabulary // 2
        return keys, self.vocabulary - keys, 0, 0.0


class CompressionSpec(RecallSpec):
    """Compression: random tokens, then as many markers, at which they are asked for in order.

    One example of 4 tokens: `7 2 9 2 | | | |`, asked for `7 2 9 2` at the markers. In the source one vector, that of a
    marker, has to hold all tokens, of which a decoder makes them again. Here a mixer with a state of fixed size has to
    hold them, and attention may look back.

    Source: Poli et al. 2024 (MAD), with the sizes of its released code.
    """

    kind: Literal["compression"] = "compression"
    train: int = Field(default=12_800, ge=1, le=1_000_000)
    """How many sequences."""
    val: int = Field(default=1_280, ge=1, le=1_000_000)
    """How many sequences."""
    test: int = Field(default=1_280, ge=1, le=1_000_000)
    """How many sequences."""
    vocabulary: int = Field(default=16, ge=3, le=2**14)
    """Tokens in all, the marker among them."""
    length: int = Field(default=32, ge=1, le=2**14)
    """Tokens to hold."""

    shows_not: ClassVar[str] = (
        "made-up tokens without a language; attention looks back at them, so that only a mixer with a state of fixed "
        "size has to compress anything."
    )

    def load(self, data: Path) -> Task:
        names = [*map(str, range(self.vocabulary - 1)), "|"]
        return self._task(names, self.vocabulary)

    @property
    def positions(self) -> int:
        return 2 * self.length

    def sequences(self, stream: str, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        drawn = below(self.data_seed, f"{stream}/tokens", self.vocabulary - 1, numbers[:, None], np.arange(self.length))
        tokens = np.concatenate([drawn, np.full_like(drawn, self.vocabulary - 1)], 1)
        return tokens, np.concatenate([np.full_like(drawn, IGNORE), drawn], 1)


class MemorisationSpec(RecallSpec):
    """Memorisation: each key has one value in all sequences, which never stands in them: what is it?

    One example with 3 keys: `1 ? 0 ? 1 ?`, asked for `4`, `5` and `4` at the marks. What belongs to each key is drawn
    by `data_seed`; val and test ask for the same pairs in other orders, so that they show what was learned by heart.

    Source: Poli et al. 2024 (MAD), with the sizes of its released code.
    """

    kind: Literal["memorisation"] = "memorisation"
    train: int = Field(default=256, ge=1, le=1_000_000)
    """How many sequences."""
    vocabulary: int = Field(default=256, ge=5, le=2**14)
    """Tokens in all: keys, as many values or one more, and the mark."""
    length: int = Field(default=32, ge=2, le=2**14)
    """Positions, half of them keys."""

    shows_not: ClassVar[str] = (
        "pairs of tokens learned by heart: no position has to know of another one, save of the one before it."
    )

    @model_validator(mode="after")
    def _room(self) -> MemorisationSpec:
        if self.length % 2:
            raise ValueError(f"length: {self.length} is odd, and a mark stands behind each key; take {self.length + 1}")
        return self

    def load(self, data: Path) -> Task:
        names = [*map(str, range(self.vocabulary - 1)), "?"]
        return self._task(names, self.vocabulary)

    def sequences(self, stream: str, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        count, steps = (self.vocabulary - 1) // 2, np.arange(self.length // 2)
        value_of = count + distinct(self.data_seed, f"{self.kind}/values", count, count, np.zeros(1, dtype=np.int64))[0]
        keys = below(self.data_seed, f"{stream}/keys", count, numbers[:, None], steps)
        tokens = np.full((len(numbers), self.length), self.vocabulary - 1, dtype=np.int64)
        target = np.full_like(tokens, IGNORE)
        tokens[:, ::2], target[:, 1::2] = keys, value_of[keys]
        return tokens, target
