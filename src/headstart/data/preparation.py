"""From sequences as they are read to what a model sees, and from what it says back to a person's own unit."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from headstart.data.alphabets import ALPHABETS, input_width
from headstart.data.layout import SOUNDS
from headstart.data.sequences import Sequences, check_alike, standardised, two_parts
from headstart.errors import Mistakes
from headstart.sequence import Examples, Signature
from headstart.spec import Spec


class Preparation(Spec):
    """From sequences as they are read to what a model sees, and from what it says back to a person's own names."""

    kind: Literal["numbers", "text", "dna", "protein", "tokens"]
    """As the sequences of the fit had them."""
    symbols: tuple[str, ...] = ()
    """As the sequences of the fit had them."""
    channels: tuple[str, ...] = ()
    """As the sequences of the fit had them."""
    classes: tuple[str, ...] = ()
    """Names in the order of their numbers, none for a target that is a number."""
    mean: tuple[float, ...] = ()
    """Of each channel over train (none: values stay as they are)."""
    deviation: tuple[float, ...] = ()
    """Of each channel over train (none: values stay as they are)."""
    low: float | None = None
    """Numbers of train that stand as -1 and 1 (none: targets stay as they are)."""
    high: float | None = None
    """Numbers of train that stand as -1 and 1 (none: targets stay as they are)."""
    longest: int | None = Field(default=None, ge=1)
    """Positions that are kept of a sequence, the first ones."""
    patch: int = Field(default=1, ge=1)
    """Positions that the network joins into one; the classic models see single ones."""
    missing: bool = False
    """Whether the network knows missing values (patches with room left count as such)."""

    @model_validator(mode="after")
    def _in_itself(self) -> Preparation:
        numbers = self.kind == "numbers"
        if not self.channels:
            raise ValueError("channels: there are none; name each")
        if (self.kind == "tokens") != bool(self.symbols):
            raise ValueError(f"symbols: tokens have some, {self.kind} has {len(self.symbols):,}")
        if len(set(self.symbols)) < len(self.symbols) or len(set(self.classes)) < len(self.classes):
            raise ValueError("symbols, classes: a name stands there twice")
        if len(self.mean) != len(self.deviation) or (self.mean and len(self.mean) != len(self.channels)):
            raise ValueError("mean, deviation: give one of each for every channel, or none")
        largest = float(np.finfo(np.float32).max)
        if not all(value <= largest and np.float32(value) > 0 for value in self.deviation):
            raise ValueError("deviation: every one is above 0, and a float32")
        if not numbers and (self.mean or self.patch > 1 or self.missing or len(self.channels) > 1):
            raise ValueError("mean, patch, missing, channels: for numbers alone, which have several channels")
        if (self.low is None) != (self.high is None) or (self.low is not None and self.classes):
            raise ValueError("low, high: a target that is a number has both or neither, classes have none")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ValueError(f"low: {self.low} is not below high = {self.high}")
        return self

    @property
    def width(self) -> int:
        """V of ids, F of numbers."""
        return input_width(self.kind, len(self.channels), len(self.symbols))

    def signature(self, length: int, patch: int = 1) -> Signature:
        """What a model must know of the prepared data, of up to `length` positions (patches where there are any)."""
        return Signature(
            input="floats" if self.kind == "numbers" else "tokens",
            width=self.width * patch,
            length=length,
            shortest=1,
            target="class" if self.classes else "number",
            classes=len(self.classes),
            missing=self.missing,
        )

    @property
    def sound(self) -> str:
        """What the sequences hold, in words."""
        return SOUNDS[self.kind]

    @property
    def letters(self) -> tuple[str, ...]:
        """What each id of a token or a letter stands for; none of numbers and of bytes."""
        return self.symbols or tuple(ALPHABETS.get(self.kind, ""))

    @property
    def moments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(F,) float32 each: the mean as the sum of two numbers, and the deviation; empty where values stay."""
        return (*two_parts(np.array(self.mean)), np.array(self.deviation, dtype=np.float32))

    def examples(self, s: Sequences) -> Examples:
        """The sequences as a model without patches sees them, whole and without a target.

        Raises: BadInput for sequences of another kind, with other channels or with unknown tokens.
        """
        check_alike(s, self.kind, self.channels)
        values = _recoded(s, self.symbols) if self.kind == "tokens" else s.values
        if self.mean:
            mean, deviation = np.array(self.mean, dtype=np.float64), np.array(self.deviation, dtype=np.float32)
            values = standardised(s.values, s.observed, mean, deviation)
        elif self.kind == "numbers":
            values = values.astype(np.float32, copy=False)
        return Examples(values, s.offsets, None, np.arange(len(s), dtype=np.int64), s.observed)


def _recoded(s: Sequences, symbols: tuple[str, ...]) -> np.ndarray:
    """Ids of tokens as places in `symbols`. Raises: BadInput naming tokens that are none of them."""
    if s.layout.symbols == symbols:
        return s.values
    ids_of = {symbol: i for i, symbol in enumerate(symbols)}
    code_of = np.array([ids_of.get(symbol, -1) for symbol in s.layout.symbols], dtype=np.int64)
    ids: np.ndarray = code_of[s.values]
    mistakes = Mistakes()
    for at in np.flatnonzero(ids < 0).tolist():
        row = int(np.searchsorted(s.offsets, at, side="right")) - 1
        mistakes.add(
            s.places.of(row),
            f"the token {s.layout.symbols[int(s.values[at])]!r} was not met in the fit; "
            "correct it, or leave the row out",
        )
    mistakes.check()
    return ids
