"""Starts: which named parts of a parent's weights a model takes, matches or draws, with a full account.

take(part)                 copies of the parent's tensors
take(part, rows="prefix")  the same; where a tensor has more or fewer rows than the parent's, the first ones
take(part, rows="symbols") the same; of token vectors the row that a checkpoint has for the same symbol, else `<unk>`'s
match(part)                normal numbers with the mean and standard deviation of each parent tensor; rows="prefix"
                           as above: those of the rows that both have
draw(part, std)            normal numbers around 0; zeros where std is 0
mimetic(part)              of attention: products of queries and keys near a multiple of the identity, of values and
                           outputs near minus one (Trockman and Kolter 2023); biases stay as they are
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from headstart.errors import BadInput, nearest
from headstart.models.norms import BatchNorm
from headstart.parameters import LEAVES, OWN_MODEL, SelectsNothing, leaves, select
from headstart.seeds import normal
from headstart.sequence import UNKNOWN, rows_of_symbols
from headstart.text import first_few

WeightSource = Literal["taken", "matched", "drawn", "fresh"]
WeightTensors = Mapping[str, torch.Tensor]

_CALL = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*")
_ROWS = re.compile(r"rows\s*=\s*([\"'])(prefix|symbols)\1")
_FORMS = (
    'take(part), take(part, rows="prefix"), take(part, rows="symbols"), match(part), match(part, rows="prefix"), '
    "draw(part, std) or mimetic(part)"
)
MIMETIC = (("query", "key", 0.7, 0.7), ("value", "output", 0.4, -0.4))
"""Pairs of layers, and the shares of noise and of the identity in their product (Trockman and Kolter 2023)."""
NEEDS_NO_PARENT = ("draw", "mimetic")
"""Verbs that make weights without a parent's."""
TOKEN_TENSOR, SYMBOL_TENSOR = "encoder.weight", "encoder.symbols"
"""Names of the token vectors, and of the symbols that those of a checkpoint stand for, among its tensors."""


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
class _Rule:
    """One rule of a start, read: `take(all-head)`."""

    text: str
    verb: Literal["take", "match", "draw", "mimetic"]
    part: str
    std: float = 0.0
    rows: str = ""

    @property
    def location(self) -> str:
        return f"start: {self.text}"


def _read(text: str) -> _Rule:
    """Read one rule. Raises: BadInput saying what a start looks like."""
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
        return _Rule(text, "draw", part, std=float(more[0].removeprefix("std=")))
    if verb == "mimetic" and not more:
        return _Rule(text, "mimetic", part)
    if verb not in ("take", "match", "mimetic"):
        raise BadInput(f"start: {text}: {nearest(verb, ('take', 'match', 'draw', 'mimetic'))}")
    rows = _ROWS.fullmatch(more[0]) if len(more) == 1 else None
    if verb == "mimetic" or (more and rows is None) or (verb == "match" and rows is not None and rows[2] == "symbols"):
        raise BadInput(f"start: {text}: {', '.join(more)!r} means nothing here; write {_FORMS}")
    return _Rule(text, "take" if verb == "take" else "match", part, rows="" if rows is None else rows[2])


def _not_negative(text: str) -> bool:
    try:
        return 0.0 <= float(text) < float("inf")
    except ValueError:
        return False


def touched(start: Sequence[str], of: Mapping[str, str]) -> set[str]:
    """Names of the tensors, of those with these leaves, that a start takes, matches or draws."""
    names: set[str] = set()
    for text in start:
        with suppress(SelectsNothing):
            names |= set(select(_read(text).part, of, "start"))
    return names


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
    parent: WeightTensors | None,
    seed: int,
    trained: Collection[str] | None = None,
    symbols: Sequence[str] = (),
) -> Account:
    """Give a fresh model its starting weights, rule by rule: the last word on a tensor counts.

    `trained`: names of the parameters that will learn (default: all). The running statistics of a batch norm
    that does not learn stand still. Tensors are copied, never shared. match and draw act on parameters;
    running statistics can only be taken. symbols: what each token id of the task stands for, for rows="symbols".
    Raises: BadInput naming the rule and the tensor where the parent lacks it or shapes differ.
    """
    of = leaves(model)
    own = model.state_dict(keep_vars=True)
    parameters = dict(model.named_parameters())
    sources: dict[str, WeightSource] = dict.fromkeys(of, "fresh")
    taken: dict[str, int] = {}
    for text in start:
        rule = _read(text)
        chosen = select(rule.part, of, rule.location)
        if rule.verb == "take":
            for name in chosen:
                source = _parents(parent, name, rule)
                if rule.rows == "symbols" and name == TOKEN_TENSOR:
                    source = _by_symbol(own[name], source, parent or {}, symbols, rule)
                taken[name] = _take(own[name], name, source, rule)
                sources[name] = "taken"
            continue
        if rule.verb == "mimetic":
            sources |= dict.fromkeys(_mimic(model, chosen, seed, rule), "drawn")
            continue
        for name in (name for name in chosen if name in parameters):
            if rule.verb == "match":
                source = _parents(parent, name, rule)
                if rule.rows == "prefix" and _differ_in_rows(own[name], source):
                    source = source[: len(own[name])]
                else:
                    _agree(own[name], source, name, rule)
                sources[name] = "matched"
            else:
                sources[name] = "drawn"
            if own[name].is_meta:  # a plan: shapes alone, of which torch takes no mean without its compiler
                continue
            if rule.verb == "match":
                mean, std = source.double().mean(), source.double().std(correction=0)
            else:
                mean, std = torch.zeros((), dtype=torch.float64), torch.tensor(rule.std, dtype=torch.float64)
            count = torch.arange(own[name].numel())
            drawn = mean + std * normal(seed, f"start/{rule.verb}/{name}", count).to(mean)
            own[name].copy_(drawn.view(own[name].shape))
    return _account(model, of, own, parameters, sources, parameters if trained is None else trained, taken)


def _mimic(model: nn.Module, chosen: Collection[str], seed: int, rule: _Rule) -> list[str]:
    """Write pairs of layers whose product is like that of trained attention; returns the weights that were written.

    Of queries and keys each head has a product of its own, the best of its rank; of values and outputs all share one.
    """
    written: list[str] = []
    parameters = dict(model.named_parameters())
    for path, module in model.named_modules():
        for first, second, noise, identity in MIMETIC:
            names = [f"{path}.{name}.weight" for name in (first, second)]
            if not set(names) <= set(chosen):
                continue
            left, right = (parameters[name] for name in names)
            width = left.shape[1]
            if left.shape != (width, width) or right.shape != left.shape:
                raise BadInput(
                    f"{rule.location}: {names[0]!r} is {tuple(left.shape)} and {names[1]!r} {tuple(right.shape)}, and "
                    "both should be square and alike; leave model.mixer.head_width and key_heads out, or this entry"
                )
            written += names
            if left.is_meta:
                continue
            heads = int(getattr(module, "heads", 1)) if first == "query" else 1
            rank = width // heads
            for head in range(heads):
                numbers = normal(seed, f"start/mimetic/{names[0]}", torch.arange(width * width), head)
                product = noise * width**-0.5 * numbers.view(width, width) + identity * torch.eye(width).double()
                u, s, v = torch.linalg.svd(product)
                rows, root = slice(head * rank, (head + 1) * rank), s[:rank].sqrt()
                left[rows] = (u[:, :rank] * root).T.to(left)
                if first == "query":
                    right[rows] = (v[:rank].T * root).T.to(right)
                else:
                    right.copy_(v.T * root)
    if not written:
        raise BadInput(
            f"{rule.location}: no query and key, nor value and output, of one attention layer are all in it; write "
            "mimetic(query_key), mimetic(value_output) or mimetic(query_key+value_output) of a model of attention"
        )
    return written


def _parents(parent: WeightTensors | None, name: str, rule: _Rule) -> torch.Tensor:
    if parent is None:
        raise BadInput(f"{rule.location}: there is no parent; name one, or leave this entry out")
    if name not in parent:
        raise BadInput(
            f"{rule.location}: the parent has no tensor {name!r}; give both stages the same model, "
            f"or select less, as in {rule.verb}({rule.part}-{_part(name)})"
        )
    return parent[name]


def _part(name: str) -> str:
    """A part that leaves a tensor out (for the way out of an error)."""
    first = name.split(".")[0]
    return "mixer" if first in ("blocks", OWN_MODEL) else first


def _take(own: torch.Tensor, name: str, source: torch.Tensor, rule: _Rule) -> int:
    """Copy the parent's tensor into ours; of a prefix, the rows that both have. Returns how many numbers that were."""
    if rule.rows == "prefix" and _differ_in_rows(own, source):
        rows = min(len(own), len(source))
        return own[:rows].copy_(source[:rows]).numel()
    _agree(own, source, name, rule)
    return own.copy_(source).numel()


def symbol_tensor(symbols: Iterable[str]) -> torch.Tensor:
    """Symbols, none of which holds a line break, as the tensor `SYMBOL_TENSOR`; empty where they are not yet known."""
    return torch.tensor(list("\n".join(symbols).encode()), dtype=torch.uint8, device="cpu")


def _by_symbol(
    own: torch.Tensor, source: torch.Tensor, parent: WeightTensors, symbols: Sequence[str], rule: _Rule
) -> torch.Tensor:
    """The parent's token vectors in the order of the task's own symbols."""
    if SYMBOL_TENSOR not in parent:
        raise BadInput(
            f"{rule.location}: the parent does not say what its token vectors stand for, as a checkpoint with a "
            "vocab.txt does; put that beside its weights, or leave rows out where both have the same tokens"
        )
    vocabulary = bytes(parent[SYMBOL_TENSOR].tolist()).decode().split("\n")
    if vocabulary == [""] or (source.is_meta and not symbols):
        return source[:1].expand(len(own), -1)  # of absent weights or data shapes alone matter
    rows = rows_of_symbols(symbols, vocabulary)
    if not set(symbols) & set(vocabulary):
        few = first_few(list(map(repr, symbols)), 6) or "which has none"
        raise BadInput(
            f"{rule.location}: the parent has a vector for no symbol of this task ({few}); take less, as in "
            f"take({rule.part}-encoder)"
        )
    lost = [symbol for symbol, row in zip(symbols, rows, strict=True) if row is None]
    if lost:
        raise BadInput(
            f"{rule.location}: the parent has no vector for {lost[0]!r}, and none for unknown symbols ({UNKNOWN}); "
            f"take less, as in take({rule.part}-encoder)"
        )
    return source[rows]


def _differ_in_rows(own: torch.Tensor, source: torch.Tensor) -> bool:
    """Whether two shapes agree but for the number of rows."""
    return own.ndim > 0 and own.ndim == source.ndim and own.shape[1:] == source.shape[1:] and len(own) != len(source)


def _agree(own: torch.Tensor, source: torch.Tensor, name: str, rule: _Rule) -> None:
    if own.shape != source.shape:
        raise BadInput(
            f"{rule.location}: tensor {name!r} is {tuple(own.shape)} here and {tuple(source.shape)} "
            f"in the parent; {_way_out(own, source, name, rule)}"
        )


def _way_out(own: torch.Tensor, source: torch.Tensor, name: str, rule: _Rule) -> str:
    if _differ_in_rows(own, source):
        form = f'{rule.verb}({rule.part}, rows="prefix")'
        return f"write {form} to {rule.verb} the parent's first rows, or leave it out"
    return f"give both stages the same sizes, or leave it out: {rule.verb}({rule.part}-{_part(name)})"


def _account(
    model: nn.Module,
    of: Mapping[str, str],
    own: WeightTensors,
    parameters: Collection[str],
    sources: Mapping[str, WeightSource],
    trained: Collection[str],
    taken: Mapping[str, int],
) -> Account:
    """Count numbers by leaf and source; let the statistics of norms that do not learn stand still.

    own: the model's tensors by name, of which `parameters` are not buffers. taken: numbers that the parent gave of each
    tensor; the rest of it is fresh.
    """
    still: set[str] = set()
    for path, module in model.named_modules():
        if isinstance(module, BatchNorm):
            module.still = f"{path}.weight" not in trained
            if module.still:
                still |= {f"{path}.{name}" for name, _ in module.named_buffers()}
    rows = []
    for leaf in LEAVES:
        names = [name for name in of if of[name] == leaf]
        if not names:
            continue
        row: dict[str, Any] = {"part": leaf, "total": sum(own[name].numel() for name in names)}
        for source in ("taken", "matched", "drawn", "fresh"):
            row[source] = sum(own[name].numel() for name in names if sources[name] == source)
        short = sum(own[name].numel() - taken[name] for name in names if sources[name] == "taken")
        row |= {"taken": row["taken"] - short, "fresh": row["fresh"] + short}
        row["frozen"] = sum(
            own[name].numel() for name in names if name in still or (name in parameters and name not in trained)
        )
        rows.append(row)
    return Account(tuple(rows))
