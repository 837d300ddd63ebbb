"""The language of ListOps: its symbols, text to numbers and back, and what an expression is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from headstart.errors import BadInput, nearest

MIN, MAX, MED, SM, CLOSE = 10, 11, 12, 13, 14
SYMBOLS = (*"0123456789", "[MIN", "[MAX", "[MED", "[SM", "]")
"""A symbol's number is its place here; the digits are their own numbers."""
NOTHING = 255
"""Stands for an operator or a value that is not there."""

_NUMBER = {symbol: number for number, symbol in enumerate(SYMBOLS)}
_IGNORED = {"(", ")"}  # the short original form also writes the tree of a binary parser


def encode(text: str, place: str = "expression") -> np.ndarray:
    """Numbers of an expression's symbols, (L,) uint8; symbols stand apart by spaces, parentheses are dropped.

    Raises: BadInput naming the symbol that is none.
    """
    numbers = []
    for symbol in text.split():
        if symbol in _IGNORED:
            continue
        if symbol not in _NUMBER:
            raise BadInput(f"{place}: {nearest(symbol, SYMBOLS)}")
        numbers.append(_NUMBER[symbol])
    return np.array(numbers, dtype=np.uint8)


def decode(tokens: Iterable[int] | np.ndarray) -> str:
    """The text of symbols' numbers: `[MAX 2 9 [MIN 4 7 ] 0 ]`."""
    return " ".join(SYMBOLS[int(token)] for token in tokens)


def median(values: list[int]) -> int:
    """The middle value, or the mean of the middle two cut to a whole number."""
    order, middle = sorted(values), len(values) // 2
    return order[middle] if len(order) % 2 else (order[middle - 1] + order[middle]) // 2


_OPERATIONS: dict[int, Callable[[list[int]], int]] = {
    MIN: min,
    MAX: max,
    MED: median,
    SM: lambda values: sum(values) % 10,
}


def evaluate(tokens: Iterable[int] | np.ndarray, place: str = "expression") -> int:
    """The value 0..9 of one expression with its brackets.

    Raises: BadInput where brackets do not match, an operator has no argument, or more than one value is left.
    """
    stack: list[tuple[int, list[int]]] = [(NOTHING, [])]
    for position, token in enumerate(int(t) for t in tokens):
        if token < MIN:
            stack[-1][1].append(token)
        elif token in _OPERATIONS:
            stack.append((token, []))
        else:
            operator, values = stack.pop()
            if not stack or not values:
                what = "closes nothing" if not stack else "closes an operator without arguments"
                raise BadInput(f"{place}: the bracket at symbol {position} {what}")
            stack[-1][1].append(_OPERATIONS[operator](values))
    if len(stack) > 1 or len(stack[0][1]) != 1:
        what = (
            f"{len(stack) - 1} brackets are open at the end"
            if len(stack) > 1
            else (f"gives {len(stack[0][1])} values, not one")
        )
        raise BadInput(f"{place}: {what}")
    return stack[0][1][0]
