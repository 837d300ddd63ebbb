"""What a family of checkpoints is: fields of a model from its config, and a table of (ours, theirs, form).

A form maps tensors of a file to ours and back, so that a table is read in both directions: forwards it reads a
checkpoint, backwards it says which shapes the files must have, and writes files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from headstart.errors import BadInput

TensorTuple = tuple[Tensor, ...]
TensorShape = tuple[int, ...]
V = TypeVar("V")
OUR_ACTIVATIONS = {
    **{"gelu": "gelu", "relu": "relu", "silu": "silu", "swish": "silu"},
    **dict.fromkeys(("gelu_new", "gelu_pytorch_tanh", "gelu_fast"), "gelu_tanh"),
}
"""Names of activations in config.json -> ours."""
FLAGS = {True: True, False: False}
TURNS = "rotary frequencies"
"""What a dropped tensor is that must have the values which the config implies."""
MOST_BLOCKS = 2**12
LARGEST_NUMBER = 2**32
"""Of every whole number: products of a few of them stay countable."""


class Config:
    """The settings of a config.json by their keys; other keys say nothing about the blocks and are passed over.

    Raises: BadInput with file, key, value and way out, where a key is missing or has a value that no block of ours has.
    """

    def __init__(self, table: Mapping[str, Any], path: Path | str) -> None:
        self.table, self.path = table, path

    def key(self, own: str, other: str) -> str:
        """The one of two names of a setting that the config has, by default the first.

        Raises: BadInput where it has both, with different values.
        """
        values = [self.table.get(name) for name in (own, other)]
        if None not in values and values[0] != values[1]:
            raise self.contradiction(own, values[0], other)
        return other if values[0] is None and values[1] is not None else own

    def contradiction(self, own: str, value: Any, other: str) -> BadInput:
        """What to raise where `own`, whose value may be a default, and `other` contradict each other."""
        default = " by default" if self.table.get(own) is None else ""
        return BadInput(
            f"{self.path}: {own}: {value!r}{default} and {other}: {self.table[other]!r} contradict each other; correct "
            "one of them"
        )

    def number(self, key: str, default: int | None = None, least: int = 1, most: int = LARGEST_NUMBER) -> int:
        """A whole number."""
        value = self._value(key, default)
        if type(value) is not int or not least <= value <= most:
            raise BadInput(f"{self.path}: {key}: {value!r} is not a whole number from {least} to {most:,}; correct it")
        return value

    def blocks(self, key: str, default: int) -> int:
        """A number of blocks; nothing is made for each of them before it is known to be small."""
        return self.number(key, default, most=MOST_BLOCKS)

    def real(self, key: str, default: float) -> float:
        """A number above 0."""
        value = self._value(key, default)
        if type(value) not in (int, float) or not 0 < value < float("inf"):
            raise BadInput(f"{self.path}: {key}: {value!r} is not a number above 0; correct it")
        return float(value)

    def choice(self, key: str, default: Any, meanings: Mapping[Any, V]) -> V:
        """What `meanings` has for the value (compared with its type)."""
        value = self._value(key, default)
        for name, meaning in meanings.items():
            if type(name) is type(value) and name == value:
                return meaning
        names = " or ".join(repr(name) for name in meanings)
        raise BadInput(
            f"{self.path}: {key}: {value!r} is not what the blocks of headstart have, {names}; take another checkpoint"
        )

    def activation(self, key: str, default: str) -> str:
        """Our name of an activation."""
        return self.choice(key, default, OUR_ACTIVATIONS)

    def require(self, **values: Any) -> None:
        """Raises: BadInput unless these keys have these values; one that is absent has."""
        for key, value in values.items():
            if self.table.get(key) is not None:
                self.choice(key, value, {value: None})

    def _value(self, key: str, default: Any) -> Any:
        value = self.table.get(key, default)
        if value is None and default is not None:
            return default
        if value is None:
            raise BadInput(f"{self.path}: {key}: is missing; download the model's config.json again")
        return value


@dataclass(frozen=True)
class TensorForm:
    """How tensors of a file become ours (`read`) and ours become theirs (`write`): both are linear.

    shapes: those of theirs, from the shape that each of ours has.
    """

    read: Callable[..., TensorTuple]
    write: Callable[..., TensorTuple]
    shapes: Callable[[TensorShape], tuple[TensorShape, ...]]


def _turn(x: Tensor) -> Tensor:
    return x.T if x.ndim == 2 else x


PLAIN_FORM = TensorForm(lambda x: (x,), lambda x: (x,), lambda shape: (shape,))
TURNED = TensorForm(lambda x: (_turn(x),), lambda x: (_turn(x),), lambda shape: (shape[::-1],))
"""A layer that multiplies from the right (GPT-2's Conv1D)."""
FUSED_TURNED = TensorForm(
    lambda x: _turn(x).chunk(3),
    lambda *parts: (_turn(torch.cat(parts)),),
    lambda shape: ((*shape[:0:-1], 3 * shape[0]),),
)
"""Query, key and value in one such layer, one after the other."""


def interleaved(heads: int) -> TensorForm:
    """Query, key and value in one layer, head by head."""
    return TensorForm(
        lambda x: tuple(part.flatten(0, 1) for part in x.unflatten(0, (heads, 3, -1)).unbind(1)),
        lambda *parts: (torch.stack([part.unflatten(0, (heads, -1)) for part in parts], 1).flatten(0, 2),),
        lambda shape: ((3 * shape[0], *shape[1:]),),
    )


def added(skipped: int, kinds: int) -> TensorForm:
    """Positions, from row `skipped` on, plus the first of `kinds` rows of vectors of token types."""
    return TensorForm(
        lambda positions, types: (positions[skipped:] + types[0],),
        lambda x: (torch.cat([x.new_zeros(skipped, x.shape[1]), x]), x.new_zeros(kinds, x.shape[1])),
        lambda shape: ((skipped + shape[0], shape[1]), (kinds, shape[1])),
    )


def scaled(factor: float) -> TensorForm:
    """Numbers that are multiplied wherever they are used."""
    return TensorForm(lambda x: (x * factor,), lambda x: (x / factor,), lambda shape: (shape,))


@dataclass(frozen=True)
class Line:
    """Names of ours and theirs, `{i}` being the number of a block, and the form between them.

    A name of ours without its last word (`blocks.{i}.norm_mixer`) stands for those of `weight` and `bias` that the
    model has.
    """

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    form: TensorForm = PLAIN_FORM


def line(ours: str, theirs: str, form: TensorForm = PLAIN_FORM) -> Line:
    """A line whose names are joined by spaces."""
    return Line(tuple(ours.split()), tuple(theirs.split()), form)


def expanded(lines: tuple[Line, ...], blocks: int, ours: Mapping[str, Any]) -> list[Line]:
    """The lines of the tensors that a model of `blocks` blocks has, by their whole names."""
    out = []
    for line in lines:
        for number in range(blocks if "{i}" in line.ours[0] else 1):
            for last in ("", ".weight", ".bias"):
                names = tuple(name.format(i=number) + last for name in line.ours)
                if names[0] in ours:
                    out.append(Line(names, tuple(name.format(i=number) + last for name in line.theirs), line.form))
    return out


def _none(config: Config) -> None:
    del config


@dataclass(frozen=True)
class Family:
    """A family of checkpoints.

    model: fields of a `ModelSpec` from a config, without the length. length: how
    many positions have a learned vector, or None. lines: the table. prefixes: what may stand before every name in a
    file. dropped: patterns of names that are left out -> what they are. vocabulary: how many token vectors the family's
    `encoder.weight` has, where the table maps one. fields: of a family whose fields are more than that.
    """

    model: Callable[[Config], dict[str, Any]]
    lines: Callable[[Config], tuple[Line, ...]]
    dropped: Mapping[str, str]
    prefixes: tuple[str, ...] = ()
    length: Callable[[Config], int | None] = _none
    vocabulary: Callable[[Config], int | None] = _none
    fields: Callable[[Config], Any] | None = None

    def usual(self, name: str) -> str:
        """A name of a file without a prefix, and in the words of today (`weight` and `bias` for gamma and beta)."""
        prefix = next((prefix for prefix in self.prefixes if name.startswith(prefix)), "")
        name = name.removeprefix(prefix)
        return re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))

    def reason(self, name: str) -> str | None:
        """What a dropped tensor is; None where it is none that is dropped."""
        return next((text for pattern, text in self.dropped.items() if re.fullmatch(pattern, name)), None)
