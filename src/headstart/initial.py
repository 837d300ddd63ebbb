"""Starts: which named parts of a parent's weights a model takes, matches or draws, with a full account.

take(part)                 copies of the parent's tensors
take(part, rows="prefix")  the same; where a tensor has more or fewer rows than the parent's, the first ones
match(part)                normal numbers with the mean and standard deviation of each parent tensor; rows="prefix"
                           as above: those of the rows that both have
draw(part, std)            normal numbers around 0; zeros where std is 0
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from headstart.errors import BadInput, nearest
from headstart.models.norms import BatchNorm
from headstart.parameters import LEAVES, OWN, leaves, select
from headstart.seeds import normal

Source = Literal["taken", "matched", "drawn", "fresh"]
Tensors = Mapping[str, torch.Tensor]

_CALL = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*")
_PREFIX = re.compile(r"rows\s*=\s*([\"'])prefix\1")
_FORMS = 'take(part), take(part, rows="prefix"), match(part), match(part, rows="prefix") or draw(part, std)'


@dataclass(frozen=True)
class Account:
    """How many numbers of each leaf were taken, matched, drawn and fresh; how many of them all are frozen.

    `total` = taken + matched + drawn + fresh. Leaves that the model does not have are left out.
    """

    rows: tuple[dict[str, Any], ...]

    def to_json(self) -> list[dict[str, Any]]:
        """[{"part", "total", "taken", "matched", "drawn", "fresh", "frozen"}], in the order of the leaves."""
        return [dict(row) for row in self.rows]


@dataclass(frozen=True)
class _Entry:
    """One entry of a start, read."""

    text: str
    verb: Literal["take", "match", "draw"]
    part: str
    std: float = 0.0
    prefix: bool = False

    @property
    def place(self) -> str:
        return f"start: {self.text}"


def _read(text: str) -> _Entry:
    """Read one entry. Raises: BadInput saying what a start looks like."""
    match = _CALL.fullmatch(text)
    if match is None:
        raise BadInput(f"start: {text!r} cannot be read; write {_FORMS}")
    verb, inside = match.groups()
    text = text.strip()
    part, *more = (piece.strip() for piece in inside.split(","))
    if verb == "draw":
        if len(more) != 1 or not _not_negative(more[0].removeprefix("std=")):
            raise BadInput(
                f"start: {text}: draw needs a standard deviation, 0 or more, as in draw(kernel, 0.1) or "
                "draw(position, 0)"
            )
        return _Entry(text, "draw", part, std=float(more[0].removeprefix("std=")))
    if verb not in ("take", "match"):
        raise BadInput(f"start: {text}: {nearest(verb, ('take', 'match', 'draw'))}")
    prefix = len(more) == 1 and _PREFIX.fullmatch(more[0]) is not None
    if more and not prefix:
        raise BadInput(f"start: {text}: {', '.join(more)!r} means nothing here; write {_FORMS}")
    return _Entry(text, "take" if verb == "take" else "match", part, prefix=prefix)


def _not_negative(text: str) -> bool:
    try:
        return 0.0 <= float(text) < float("inf")
    except ValueError:
        return False


def trainable(model: nn.Module, expression: str) -> list[str]:
    """Names of the parameters that an expression lets learn; what a module itself holds fixed is left out.

    Raises: BadInput for an unknown part, or where nothing is selected.
    """
    learn = {name for name, value in model.named_parameters() if value.requires_grad}
    return [name for name in select(expression, leaves(model), "trainable") if name in learn]


@torch.no_grad()
def apply_start(
    model: nn.Module,
    start: Sequence[str],
    parent: Tensors | None,
    seed: int,
    trained: Collection[str] | None = None,
) -> Account:
    """Give a fresh model its starting weights, entry by entry: the last word on a tensor counts.

    `trained`: names of the parameters that will learn (default: all). The running statistics of a batch norm
    that does not learn stand still. Tensors are copied, never shared. match and draw act on parameters;
    running statistics can only be taken.
    Raises: BadInput naming the entry and the tensor where the parent lacks it or shapes differ.
    """
    of = leaves(model)
    own = model.state_dict()
    parameters = dict(model.named_parameters())
    sources: dict[str, Source] = dict.fromkeys(of, "fresh")
    for text in start:
        entry = _read(text)
        chosen = select(entry.part, of, entry.place)
        if entry.verb == "take":
            for name in chosen:
                _take(own[name], name, _parents(parent, name, entry), entry)
                sources[name] = "taken"
            continue
        for name in (name for name in chosen if name in parameters):
            if entry.verb == "match":
                source = _parents(parent, name, entry)
                if entry.prefix and _differ_in_rows(own[name], source):
                    source = source[: len(own[name])]
                else:
                    _agree(own[name], source, name, entry)
                mean, std = source.double().mean(), source.double().std(correction=0)
                sources[name] = "matched"
            else:
                mean, std = torch.zeros((), dtype=torch.float64), torch.tensor(entry.std, dtype=torch.float64)
                sources[name] = "drawn"
            count = torch.arange(own[name].numel())
            drawn = mean + std * normal(seed, f"start/{entry.verb}/{name}", count).to(mean)
            own[name].copy_(drawn.view(own[name].shape))
    return _account(model, of, sources, parameters if trained is None else trained)


def _parents(parent: Tensors | None, name: str, entry: _Entry) -> torch.Tensor:
    if parent is None:
        raise BadInput(f"{entry.place}: there is no parent; name one, or leave this entry out")
    if name not in parent:
        raise BadInput(
            f"{entry.place}: the parent has no tensor {name!r}; give both stages the same model, "
            f"or select less, as in {entry.verb}({entry.part}-{_part(name)})"
        )
    return parent[name]


def _part(name: str) -> str:
    """A part that leaves a tensor out (for the way out of an error)."""
    first = name.split(".")[0]
    return "mixer" if first in ("blocks", OWN) else first


def _take(own: torch.Tensor, name: str, source: torch.Tensor, entry: _Entry) -> None:
    """Copy the parent's tensor into ours; of a prefix, the rows that both have."""
    if entry.prefix and _differ_in_rows(own, source):
        rows = min(len(own), len(source))
        own[:rows].copy_(source[:rows])
        return
    _agree(own, source, name, entry)
    own.copy_(source)


def _differ_in_rows(own: torch.Tensor, source: torch.Tensor) -> bool:
    """Whether two shapes agree but for the number of rows."""
    return own.ndim > 0 and own.ndim == source.ndim and own.shape[1:] == source.shape[1:] and len(own) != len(source)


def _agree(own: torch.Tensor, source: torch.Tensor, name: str, entry: _Entry) -> None:
    if own.shape != source.shape:
        raise BadInput(
            f"{entry.place}: tensor {name!r} is {tuple(own.shape)} here and {tuple(source.shape)} "
            f"in the parent; {_way_out(own, source, name, entry)}"
        )


def _way_out(own: torch.Tensor, source: torch.Tensor, name: str, entry: _Entry) -> str:
    if _differ_in_rows(own, source):
        form = f'{entry.verb}({entry.part}, rows="prefix")'
        return f"write {form} to {entry.verb} the parent's first rows, or leave it out"
    return f"give both stages the same sizes, or leave it out: {entry.verb}({entry.part}-{_part(name)})"


def _account(
    model: nn.Module, of: Mapping[str, str], sources: Mapping[str, Source], trained: Collection[str]
) -> Account:
    """Count numbers by leaf and source; let the statistics of norms that do not learn stand still."""
    still: set[str] = set()
    for path, module in model.named_modules():
        if isinstance(module, BatchNorm):
            module.still = f"{path}.weight" not in trained
            if module.still:
                still |= {f"{path}.{name}" for name, _ in module.named_buffers()}
    own, parameters = model.state_dict(), {name for name, _ in model.named_parameters()}
    rows = []
    for leaf in LEAVES:
        names = [name for name in of if of[name] == leaf]
        if not names:
            continue
        row: dict[str, Any] = {"part": leaf, "total": sum(own[name].numel() for name in names)}
        for source in ("taken", "matched", "drawn", "fresh"):
            row[source] = sum(own[name].numel() for name in names if sources[name] == source)
        row["frozen"] = sum(
            own[name].numel() for name in names if name in still or (name in parameters and name not in trained)
        )
        rows.append(row)
    return Account(tuple(rows))
