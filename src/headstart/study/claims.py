"""What a paper says, or a study asks, of a direction, as data: which numbers are held against which."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from headstart.errors import BadInput
from headstart.spec import Spec
from headstart.study.validate import check_known

Quantity = Literal[
    "test",
    "train",
    "last_train",
    "last_test",
    "last_gap",
    "reach",
    "fit",
    "converge",
    "parent_left",
    "kernel_narrowing",
    "kernel_spread",
    "kernel_rows",
]
SCORES = ("test", "train", "last_train", "last_test", "last_gap")
"""Quantities in the unit of a score."""
STEPS = ("reach", "fit", "converge")
"""Quantities that count steps."""
AVERAGE = "average"
"""The column that is the mean over the others."""

Side = str | tuple[str, str]
"""An arm, or two: what the first has more than the second."""
Pair = Annotated[tuple[str, str], BeforeValidator(lambda pair: tuple(pair) if isinstance(pair, list) else pair)]
Term = tuple[int, str, str]
"""Sign, arm, column: what is added or taken away."""


class Claim(Spec):
    """`higher` has more of `quantity` than `lower`, on each of `columns` (empty: on all of the study).

    Two arms in a list stand for what the first has more than the second, so that gains can be held against gains.
    pairs: two columns each, in place of `columns`: the first holds more than the second (`higher` alone: the arm's own
    score; with `lower`: its lead). within: the claim is that both are as good, to this margin (a share, 0.02 for two
    points). than: a number in place of `lower`; no score on stand-in data is held against it. presumed: the two arms of
    `higher` are a gap that the claim takes to be there (a lag that shrinks), without which nothing can be said of it.
    at: settings of the sweep, in place of those that validation chose. Without `higher` it is told and not checked.
    """

    says: str = Field(min_length=1)
    higher: Side | None = None
    lower: Side | None = None
    columns: tuple[str, ...] = ()
    pairs: tuple[Pair, ...] = ()
    quantity: Quantity = "test"
    within: float | None = Field(default=None, gt=0)
    than: float | None = None
    presumed: bool = False
    at: dict[str, Any] = Field(default_factory=dict)

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that are compared, each once."""
        return tuple(dict.fromkeys(arm for _, arm in self._sides()))

    @property
    def compares(self) -> str:
        """The two sides in words (`full less scratch`)."""
        sides = [_side_text(side) for side in (self.higher, self.lower) if side is not None]
        sides += [f"{self.than:g}"] if self.than else []
        return " less ".join(f"({side})" if len(sides) > 1 and " " in side else side for side in sides)

    def terms(self, column: str, other: str | None = None) -> Iterator[Term]:
        """What makes the difference on a column, or on one less the other."""
        for sign, arm in self._sides():
            yield sign, arm, column
            if other is not None:
                yield -sign, arm, other

    def _sides(self) -> Iterator[tuple[int, str]]:
        for sign, side in ((1, self.higher), (-1, self.lower)):
            if side is not None:
                first, *second = (side,) if isinstance(side, str) else side
                yield sign, first
                yield from ((-sign, arm) for arm in second)


def _side_text(side: Side) -> str:
    return side if isinstance(side, str) else " less ".join(side)


def check_claim(claim: Claim, arms: Collection[str], columns: Collection[str], place: str) -> None:
    """A claim that is checked names two sides, or one and pairs of columns, of arms and columns that there are.

    Empty `arms` or `columns` stand for any. Raises: BadInput naming the place, the value and the way out.
    """
    other = claim.lower is not None or bool(claim.pairs) or claim.than is not None
    if claim.higher is None and (other or claim.within or claim.at):
        raise BadInput(f"{place}: name 'higher' too: without it a claim is only told")
    if claim.higher is not None and not other:
        raise BadInput(
            f"{place}: name both 'higher' and 'lower', or neither (or 'higher' and 'pairs' of columns, or "
            "'higher' and a number that it is more 'than')"
        )
    if claim.than is not None and (claim.lower is not None or claim.pairs):
        raise BadInput(f"{place}: 'than' is a number in place of 'lower' and 'pairs'; leave one of them out")
    if claim.presumed and (isinstance(claim.higher, str) or claim.lower is None or claim.pairs):
        raise BadInput(
            f"{place}: 'presumed' is of a claim whose 'higher' is two arms, with a 'lower' and without "
            "'pairs'; leave it out"
        )
    if claim.at and claim.quantity not in SCORES:
        raise BadInput(
            f"{place}: 'at' is for scores ({', '.join(SCORES)}); {claim.quantity!r} is read at the chosen "
            "settings alone, so leave one of them out"
        )
    if claim.pairs and claim.columns:
        raise BadInput(f"{place}: 'pairs' are columns already; leave 'columns' out")
    for key, side in (("higher", claim.higher), ("lower", claim.lower)):
        for arm in (side,) if isinstance(side, str) else side or ():
            check_known(arm, arms or [arm], f"{place}.{key}")
    for key, names in (("columns", claim.columns), ("pairs", [name for pair in claim.pairs for name in pair])):
        for column in names:
            check_known(column, columns or [column], f"{place}.{key}")


def made_of(column: str, base: str) -> bool:
    """A column of a table is the study's column `base`, or one of several that an axis made of it."""
    return column == base or column.startswith(f"{base} ")


def base_of(column: str, bases: Iterable[str]) -> str:
    """The study's own name of a column, of those that are known; its first word where none fits."""
    return max((base for base in bases if made_of(column, base)), key=len, default=column.split(" ")[0])
