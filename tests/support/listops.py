"""What an expression of ListOps is worth, one symbol at a time: the slow reference of its generator."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from headstart.errors import BadInput
from headstart.tasks.listops.generate import MAX, MED, MIN, NOTHING, SM


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


def evaluate(tokens: Iterable[int] | np.ndarray, index: str = "expression") -> int:
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
                problem = "closes nothing" if not stack else "closes an operator without arguments"
                raise BadInput(f"{index}: the bracket at symbol {position} {problem}")
            stack[-1][1].append(_OPERATIONS[operator](values))
    if len(stack) > 1 or len(stack[0][1]) != 1:
        problem = (
            f"{len(stack) - 1} brackets are open at the end"
            if len(stack) > 1
            else (f"gives {len(stack[0][1])} values, not one")
        )
        raise BadInput(f"{index}: {problem}")
    return stack[0][1][0]
