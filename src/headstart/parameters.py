"""Parts: named groups of a model's tensors, and their algebra.

    part   = leaf | union | leaf "[" i ":" j "]" | leaf "[" i "]"
    expression = part (("+" | "-") part)*        read from left to right

`backbone[0:2]` keeps the blocks 0 and 1, `mixer[-1]` the last block; what is in no block (encoder, position,
last norm, head) is in no slice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache

from torch import nn

from headstart.errors import BadInput, nearest
from headstart.models.mixers.mixer import MIXER_PARTS

MIXER = tuple(part for part in MIXER_PARTS if part != "norm")
LEAVES = ("encoder", "position", "norm", *MIXER, "feed_forward", "head")
UNIONS: dict[str, tuple[str, ...]] = {
    "mixer": MIXER,
    "backbone": (*MIXER, "feed_forward", "norm"),
    "all": LEAVES,
}
TOP = {"encoder": "encoder", "position": "position", "embedding_norm": "norm", "norm": "norm", "head": "head"}
OWN_MODEL = "net"
"""Where the tensors of a whole model of a person's own stand."""
IN_BLOCK = {"norm_mixer": "norm", "norm_feed_forward": "norm", "feed_forward": "feed_forward"}

_BLOCK = re.compile(r"blocks\.(\d+)\.")
_TERM = re.compile(r"\s*([+-]?)\s*([^\s+\-\[\]]+)\s*(?:\[([^\[\]]*)\])?\s*")
_SLICE = re.compile(r"\s*(-?\d+)?\s*(?:(:)\s*(-?\d+)?\s*)?")


def leaves(model: nn.Module) -> dict[str, str]:
    """The leaf of each tensor: of parameters and of buffers that training changes (the persistent ones).

    Names are those of the state dict, in its order. A mixer says by its `parts` (prefix of its own names ->
    leaf) what its tensors are; the rest is `mixer_rest`.
    """
    mixers = cache(lambda number: model.get_submodule(f"blocks.{number}.mixer"))
    return {name: _leaf(model, name, mixers) for name in model.state_dict(keep_vars=True)}


def _leaf(model: nn.Module, name: str, mixers: Callable[[str], nn.Module]) -> str:
    first, *rest = name.split(".")
    if first in TOP:
        return TOP[first]
    if first == OWN_MODEL:
        return _declared(model, ".".join(rest), LEAVES)
    if first != "blocks" or len(rest) < 3:
        raise ValueError(f"tensor {name!r} belongs to no part")
    number, layer = rest[:2]
    if layer in IN_BLOCK:
        return IN_BLOCK[layer]
    return _declared(mixers(number), ".".join(rest[2:]), MIXER_PARTS)


def _declared(module: nn.Module, name: str, leaves: Collection[str]) -> str:
    """The leaf that a module's `parts` (prefix -> leaf) give a tensor of it, the longest prefix first."""
    parts: Mapping[str, str] = getattr(module, "parts", {})
    prefixes = [prefix for prefix in parts if name == prefix or name.startswith(prefix + ".")]
    leaf = parts[max(prefixes, key=len)] if prefixes else "mixer_rest"
    if leaf not in leaves:
        raise BadInput(f"{getattr(module, 'kind', type(module).__name__)}.parts: {nearest(leaf, leaves)}")
    return leaf


def block_of(name: str) -> int | None:
    """Number of the block that a tensor is in, or None."""
    match = _BLOCK.match(name)
    return None if match is None else int(match.group(1))


class SelectsNothing(BadInput):
    """An expression that selects no tensor of a model."""


def biases(of: Iterable[str]) -> set[str]:
    """Names of the tensors that are biases: those that are called so."""
    return {name for name in of if "bias" in name.rpartition(".")[2].split("_")}


def select(
    expression: str, of: Mapping[str, str], setting: str = "part", more: Mapping[str, Collection[str]] | None = None
) -> list[str]:
    """Names of the tensors that an expression selects, in the order of `of` (from `leaves`).

    more: further words of the expression, each with names that it stands for, whatever parts these are in.
    Raises: BadInput, beginning with `setting`, for an unknown part, a slice that cannot be read, or an
    expression that selects nothing. A part that this model does not have adds nothing and takes nothing away.
    """
    chosen: set[str] = set()
    more = more or {}
    for sign, part, cut in _terms(expression, setting, more):
        names = {name for name, leaf in of.items() if leaf in UNIONS.get(part, (part,))} | set(more.get(part, ()))
        if cut is not None:
            names &= _in_blocks(cut, of, f"{setting}: {part}[{cut}]")
        chosen = chosen - names if sign == "-" else chosen | names
    if not chosen:
        there = sorted(set(of.values()), key=LEAVES.index)
        raise SelectsNothing(f"{setting}: {expression!r} selects nothing; this model has {', '.join(there)}")
    return [name for name in of if name in chosen]


def _terms(expression: str, setting: str, more: Collection[str]) -> list[tuple[str, str, str | None]]:
    """(sign, part, slice or None) of each term."""
    terms: list[tuple[str, str, str | None]] = []
    at = 0
    while at < len(expression) or not terms:
        match = _TERM.match(expression, at)
        if match is None or (match.group(1) == "") == bool(terms):
            raise BadInput(
                f"{setting}: {expression!r} cannot be read from {expression[at:].strip()!r} on; "
                f"write parts joined by + and -, as in 'all-head' or 'encoder+mixer[0:2]'"
            )
        sign, part, cut = match.groups()
        if part not in (*LEAVES, *UNIONS, *more):
            raise BadInput(f"{setting}: {nearest(part, (*LEAVES, *UNIONS, *more))}")
        terms.append((sign, part, cut))
        at = match.end()
    return terms


def _in_blocks(cut: str, of: Mapping[str, str], setting: str) -> set[str]:
    """Names of tensors in the blocks that a slice keeps."""
    numbers = {name: block_of(name) for name in of}
    count = 1 + max((n for n in numbers.values() if n is not None), default=-1)
    match = _SLICE.fullmatch(cut)
    if match is None or not cut.strip():
        raise BadInput(f"{setting}: blocks are [i], [i:j], [i:], [:j] or [-1]")
    first, colon, last = match.groups()
    if colon:
        blocks = range(count)[slice(int(first) if first else None, int(last) if last else None)]
    elif -count <= int(first) < count:
        blocks = range(count)[int(first) % count :][:1]
    else:
        raise BadInput(f"{setting}: this model has {count} blocks, 0 to {count - 1}")
    return {name for name, number in numbers.items() if number is not None and number in blocks}
