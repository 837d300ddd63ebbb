"""ListOps: the language, and random expression trees by the rules of LRA's generator, many at a time.

Trees grow in lockstep, one level after the other, without a loop over nodes. A tree is a function of (seed, its number)
and of nothing else, so that any number of workers makes the same ones. Letters: n trees, m nodes of one level,
p operators.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np

from headstart.errors import BadInput, nearest
from headstart.seeds import bits

MIN, MAX, MED, SM, CLOSE = 10, 11, 12, 13, 14
SYMBOLS = (*"0123456789", "[MIN", "[MAX", "[MED", "[SM", "]")
"""A symbol's number is its position here; the digits are their own numbers."""
NOTHING = 255
"""Stands for an operator or a value that is not there."""
_NUMBER = {symbol: number for number, symbol in enumerate(SYMBOLS)}


def encode(text: str, where: str = "expression") -> np.ndarray:
    """Numbers of an expression's symbols, (L,) uint8. Symbols stand apart by spaces; parentheses are dropped, with
    which the original form also writes the tree of a binary parser. Raises: BadInput naming a symbol that is none.
    """
    symbols = [symbol for symbol in text.split() if symbol not in ("(", ")")]
    for symbol in symbols:
        if symbol not in _NUMBER:
            raise BadInput(f"{where}: {nearest(symbol, SYMBOLS)}")
    return np.array([_NUMBER[symbol] for symbol in symbols], dtype=np.uint8)


def decode(tokens: Iterable[int] | np.ndarray) -> str:
    """The text of symbols' numbers: `[MAX 2 9 [MIN 4 7 ] 0 ]`."""
    return " ".join(SYMBOLS[int(token)] for token in tokens)


@dataclass(frozen=True)
class Rules:
    """What decides the trees. A node above the last level is an operator with probability 1/4, else a digit;
    an operator has 2 to `arguments` arguments; `min_length` < length < `max_length`, in tokens.
    """

    seed: int
    min_length: int
    max_length: int
    depth: int
    arguments: int


@dataclass(frozen=True)
class Trees:
    """Kept trees, and what their roots alone say of their values.

    `tokens` (S,) uint8 of all; then (n,) each: `lengths`; `target`, their values; `root`, the root's operator
    or NOTHING; `own`, that operator applied to the root's own digits alone, or NOTHING; `others`, how many of
    the root's arguments are not digits.
    """

    tokens: np.ndarray
    lengths: np.ndarray
    target: np.ndarray
    root: np.ndarray
    own: np.ndarray
    others: np.ndarray

    def where(self, chosen: np.ndarray) -> Trees:
        """The trees for which `chosen` (n,) bool holds."""
        tokens = self.tokens[np.repeat(chosen, self.lengths)]
        return Trees(tokens, *(getattr(self, f.name)[chosen] for f in fields(self)[1:]))


@dataclass(frozen=True)
class _Level:
    """Nodes of one depth, children of one parent together and in the order of their parents.

    `tree` (m,) the tree of each; `symbol` (m,) uint8, a digit or an operator; `splits` (p,) positions of
    the operators; `counts` (p,) how many children each has in the next level.
    """

    tree: np.ndarray
    symbol: np.ndarray
    splits: np.ndarray
    counts: np.ndarray

    @property
    def firsts(self) -> np.ndarray:
        """(p,) where in the next level each operator's children begin."""
        return before(self.counts)


def before(counts: np.ndarray) -> np.ndarray:
    """The sum of all counts before each."""
    sums: np.ndarray = np.cumsum(counts) - counts
    return sums


def grow(rules: Rules, first: int, count: int) -> Trees:
    """Trees number first .. first + count - 1, those whose length is in the range."""
    levels, length = _levels(rules, first, count)
    mask = (rules.min_length < length) & (length < rules.max_length)
    levels = [_only(level, mask) for level in levels]
    return _written([level for level in levels if len(level.tree)], length[mask])


def _levels(rules: Rules, first: int, count: int) -> tuple[list[_Level], np.ndarray]:
    """All levels, and the length of each tree (at least `max_length` where it was given up)."""
    tree, length = np.arange(count), np.zeros(count, dtype=np.int64)
    levels = []
    for depth in range(rules.depth):
        width = np.bincount(tree, minlength=count)
        rank = np.arange(len(tree)) - before(width)[tree]
        # 32 bits make a node: 2 say digit or operator, then 30 the digit, or 2 the operator and 28 the
        # number of arguments (uneven by less than one part in ten million).
        drawn = bits(rules.seed, "listops/node", first + tree, (depth << 32) + rank)
        symbol = ((drawn >> 2) * 10 >> 30).astype(np.uint8)
        splits = np.flatnonzero((drawn & 3) == 0) if depth < rules.depth - 1 else np.zeros(0, dtype=np.int64)
        chosen = drawn[splits]
        symbol[splits] = MIN + (chosen >> 2 & 3)
        counts = 2 + ((chosen >> 4) * (rules.arguments - 1) >> 28)
        owner = tree[splits]
        length += width + np.bincount(owner, minlength=count)
        coming = np.bincount(owner, weights=counts, minlength=count)
        over = length + coming >= rules.max_length
        length[over] = np.maximum(length[over], rules.max_length)
        going = ~over[owner]
        levels.append(_Level(tree, symbol, splits[going], counts[going]))
        tree = np.repeat(owner[going], counts[going])
        if not len(tree):
            break
    return levels, length


def _only(level: _Level, mask: np.ndarray) -> _Level:
    """The nodes of kept trees."""
    stays = mask[level.tree]
    position, split = np.cumsum(stays) - 1, stays[level.splits]
    return _Level(level.tree[stays], level.symbol[stays], position[level.splits[split]], level.counts[split])


def _written(levels: list[_Level], lengths: np.ndarray) -> Trees:
    """Trees as text: sizes and values from the leaves up, then positions from the root down."""
    n = len(lengths)
    if n == 0:
        none = np.zeros(0, dtype=np.uint8)
        return Trees(none, lengths, none, none, none, none)
    sizes, values = _sizes_and_values(levels)
    tokens = np.empty(int(lengths.sum()), dtype=np.uint8)
    start = before(lengths)
    for depth, level in enumerate(levels):
        tokens[start] = level.symbol
        if not len(level.splits):
            break
        opens = start[level.splits]
        tokens[opens + sizes[depth][level.splits] - 1] = CLOSE
        earlier = before(sizes[depth + 1])
        start = np.repeat(opens + 1 - earlier[level.firsts], level.counts) + earlier
    root = np.where(levels[0].symbol >= MIN, levels[0].symbol, NOTHING).astype(np.uint8)
    return Trees(tokens, lengths, values[0], root, *_of_root(levels, n))


def _sizes_and_values(levels: list[_Level]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Per level (m,) int64 tokens of each subtree and (m,) uint8 its value."""
    sizes: list[np.ndarray] = [np.zeros(0)] * len(levels)
    values: list[np.ndarray] = [np.zeros(0)] * len(levels)
    for depth in reversed(range(len(levels))):
        level = levels[depth]
        size, value = np.ones(len(level.tree), dtype=np.int64), level.symbol.copy()
        if len(level.splits):
            size[level.splits] = 2 + np.add.reduceat(sizes[depth + 1], level.firsts)
            operator = level.symbol[level.splits]
            value[level.splits] = apply(operator, values[depth + 1], level.firsts, level.counts)
        sizes[depth], values[depth] = size, value
    return sizes, values


def apply(operator: np.ndarray, values: np.ndarray, firsts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Each operator (p,) applied to its own run of `values`, (p,) uint8. Every run has at least one value."""
    out = np.minimum.reduceat(values, firsts)
    out = np.where(operator == MAX, np.maximum.reduceat(values, firsts), out)
    out = np.where(operator == SM, np.add.reduceat(values, firsts, dtype=np.int64) % 10, out).astype(np.uint8)
    medians = np.flatnonzero(operator == MED)
    if len(medians):
        out[medians] = _medians(values, firsts[medians], counts[medians])
    return out


def _medians(values: np.ndarray, firsts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Median of each run, the mean of the middle two cut to a whole number."""
    column = np.arange(int(counts.max()))
    inside = column < counts[:, None]
    rows = np.where(inside, values[np.where(inside, firsts[:, None] + column, 0)], 255)
    rows.sort(axis=1)
    row = np.arange(len(rows))
    middle: np.ndarray = rows[row, (counts - 1) // 2].astype(np.int64) + rows[row, counts // 2]
    return middle // 2


def _of_root(levels: list[_Level], n: int) -> tuple[np.ndarray, np.ndarray]:
    """(n,) each: the root's operator applied to those of its arguments that are digits (NOTHING without any),
    and how many are not.
    """
    own, others = np.full(n, NOTHING, dtype=np.uint8), np.zeros(n, dtype=np.uint8)
    if len(levels) < 2:
        return own, others
    children, roots = levels[1], levels[0]
    digits = children.symbol < MIN
    # Trees are numbered as they were drawn; the kept ones stand in the root's level in the same order.
    owner = np.searchsorted(roots.tree, children.tree)
    others[:] = np.bincount(owner[~digits], minlength=n)
    counts = np.bincount(owner[digits], minlength=n)
    some = np.flatnonzero(counts)
    if len(some):
        own[some] = apply(roots.symbol[some], children.symbol[digits], before(counts[some]), counts[some])
    return own, others
