"""A paper's cells and claims as data: what its table prints, what kind of number each is, and what it says of them.

The files stand in `studies/papers/NAME.toml`. A cell is transcribed, never computed anew; where it does not agree
with others of its paper, the cell stays as printed and says so (`erratum`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from headstart.errors import BadInput
from headstart.spec import Spec, digest, read
from headstart.study.language.files import built_in_studies, studies_folder, table_of, tables_in
from headstart.study.language.scales import check_known
from headstart.study.language.sentence import claim_table

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
    "epoch_seconds",
    "parent_epoch_seconds",
    "parameters",
    "trained",
    "converge_speedup",
    "epoch_speedup",
]
"""What a claim may be of."""
QUANTITIES = {
    "val": "val",
    "test": "test",
    "train": "train",
    "last_train": "train at the last step",
    "last_val": "val at the last step",
    "last_test": "test at the last step",
    "last_gap": "train less test at the last step",
    "reach": "steps to match",
    "fit": "steps to fit the training data as well",
    "converge": "steps to converge",
    "parent_left": "share of the parent stage left when it had converged",
    "kernel_narrowing": "positions that the kernels' mean distance is below that at the start",
    "kernel_spread": "spread of the kernels' decay between blocks, above that at the start",
    "kernel_rows": "height of the kernels at whole rows of the image, above that at the start",
    "epoch_seconds": "seconds per epoch of the last stage",
    "parent_epoch_seconds": "seconds per epoch of its parent stages",
    "parameters": "parameters",
    "trained": "trained parameters",
    "converge_speedup": "times fewer steps to converge",
    "epoch_speedup": "times fewer seconds per epoch",
}
"""What can be reported of a row, and how it is called; where nothing is said, it is at the best weights."""
MATCHES = ("reach", "fit")
"""Of these, steps to a score of the arm that is to be matched."""
MEASURED_QUANTITIES = ("parent_left", "kernel_narrowing", "kernel_spread", "kernel_rows")
"""Of these, what `report.measures` reads from a store, only where a claim asks for it."""
SCORE_QUANTITIES = ("test", "train", "last_train", "last_test", "last_gap")
"""Quantities in the unit of a score."""
TIME_QUANTITIES = ("epoch_seconds", "parent_epoch_seconds")
"""Quantities of time, which belong to a machine."""
STEP_QUANTITIES = ("reach", "fit", "converge")
"""Quantities that count steps."""
SIZE_QUANTITIES = ("parameters", "trained")
"""Quantities that count numbers of the model, all of them or those that learn."""
SPEEDUPS: dict[str, Quantity] = {"converge_speedup": "converge", "epoch_speedup": "epoch_seconds"}
"""How many times as much of another quantity the arm has that the study compares with."""
OWN_UNITS = (*SIZE_QUANTITIES, *TIME_QUANTITIES, *SPEEDUPS)
"""Quantities that stand in no unit of a score."""
AVERAGE = "average"
"""The column that is the mean over the others."""


def _arms(side: Any) -> Any:
    pair = isinstance(side, (list, tuple)) and len(side) == 2 and all(isinstance(name, str) for name in side)
    if side is not None and not pair and not isinstance(side, str):
        raise ValueError("should be the name of an arm, or a list of two")
    return tuple(side) if pair else side


Side = Annotated[str | tuple[str, str], BeforeValidator(_arms)]
"""An arm, or two: what the first has more than the second."""
NamePair = Annotated[tuple[str, str], BeforeValidator(lambda pair: tuple(pair) if isinstance(pair, list) else pair)]
Term = tuple[int, str, str]
"""Sign, arm, column: what is added or taken away."""


class Claim(Spec):
    """`higher` has more of `quantity` than `lower`, on each of `columns` (empty: on all of the study).

    Two arms in a list stand for what the first has more than the second, so that gains can be held against gains.
    """

    says: str = Field(min_length=1)
    """The claim in a sentence, as the report prints it."""
    higher: Side | None = None
    """The arm that is said to have more; two arms stand for what the first has more than the second."""
    lower: Side | None = None
    """The arm that is said to have less, or two arms as in `higher`."""
    columns: tuple[str, ...] = ()
    """The columns that the claim is about; without any, all of them."""
    pairs: tuple[NamePair, ...] = ()
    """Two columns each, in place of `columns`: the first holds more than the second (`higher` alone: the arm's own
    score; with `lower`: its lead)."""
    quantity: Quantity = "test"
    """What is compared: a score, a number of steps or a measure of trained weights."""
    within: float | None = Field(default=None, gt=0)
    """The claim is that both are as good, to this margin (a share, 0.02 for two points)."""
    than: float | None = None
    """A number in place of `lower`, against which no score on stand-in data is held; beside `lower`, how much more
    `higher` has at least."""
    premise: NamePair | None = None
    """Two arms, of which the first has to be above the second: where there is no gain, nothing can be said of what
    carries it, nor of a lag that shrinks where there is none; such a claim is undecided, as is one of likeness without
    a premise where no arm is clearly above a guess."""
    relative: bool = False
    """Of each column, what `higher` has more than `lower` is counted in shares of the score of `lower`."""
    at: dict[str, Any] = Field(default_factory=dict)
    """Settings of the sweep, in place of those that validation chose. Without `higher` it is told and not checked."""

    @model_validator(mode="before")
    @classmethod
    def _of_sentence(cls, value: Any) -> Any:
        return claim_table(value) if isinstance(value, str) else value

    @property
    def fixed(self) -> bool:
        """A score is held against a number, and not against another arm's."""
        return self.than is not None and self.lower is None

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that are compared, each once."""
        return tuple(dict.fromkeys([*(arm for _, arm in self._sides()), *(self.premise or ())]))

    @property
    def compares(self) -> str:
        """The two sides in words (`full less scratch`)."""
        both = [side for side in (self.higher, self.lower) if side is not None]
        sides = [side if isinstance(side, str) else " less ".join(side) for side in both]
        sides += [f"{self.than:g}"] if self.than else []
        text = " less ".join(f"({side})" if len(sides) > 1 and " " in side else side for side in sides)
        return f"{text} in shares of {self.lower}" if self.relative else text

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


@dataclass(frozen=True)
class Written:
    """When a claim was first written down, and the commit that has it first."""

    commit: str
    time: datetime


def claim_key(claim: Mapping[str, Any]) -> str:
    """Of what a claim compares, as its file has it, whatever its words."""
    usual = {name: field.get_default(call_default_factory=True) for name, field in Claim.model_fields.items()}
    stated = {name: value for name, value in claim.items() if name != "says" and value != usual.get(name)}
    return digest({name: value for name, value in stated.items() if value != []})


def claims_written(name: str) -> dict[str, Written] | None:
    """Key of a claim -> when it was written, of a built-in study or of `papers/NAME`; None for any other.

    The file of dates is made from the history of the studies' files (benchmarks/claim_dates.py).
    """
    if name not in {*built_in_studies(), *(f"papers/{paper}" for paper in built_in_papers())}:
        return None
    dates = json.loads((studies_folder() / "claims.json").read_text("utf-8")).get(name, {})
    return {key: Written(commit, datetime.fromisoformat(time)) for key, (commit, time) in dates.items()}


def check_claim(claim: Claim, arms: Collection[str], columns: Collection[str], location: str) -> None:
    """A claim that is checked names two sides, or one and pairs of columns, of arms and columns that there are.

    Empty `arms` or `columns` stand for any. Raises: BadInput naming the place, the value and the way out.
    """
    other = claim.lower is not None or bool(claim.pairs) or claim.than is not None
    if claim.higher is None and (other or claim.within or claim.at):
        raise BadInput(f"{location}: name 'higher' too: without it a claim is only told")
    if claim.higher is not None and not other:
        raise BadInput(
            f"{location}: name both 'higher' and 'lower', or neither (or 'higher' and 'pairs' of columns, or "
            "'higher' and a number that it is more 'than')"
        )
    if claim.than is not None and (claim.pairs or (claim.lower is not None and claim.within)):
        raise BadInput(
            f"{location}: 'than' is a number in place of 'lower' and 'pairs', or beside 'lower' how much more 'higher' "
            f"has; leave out {'pairs' if claim.pairs else 'within'!r}"
        )
    if claim.premise and (claim.lower is None or claim.pairs):
        raise BadInput(
            f"{location}: 'premise' belongs to a claim with 'higher' and 'lower' and without 'pairs'; leave it out"
        )
    if claim.relative and not (isinstance(claim.higher, str) and isinstance(claim.lower, str)):
        raise BadInput(f"{location}: 'relative' is the gain of one arm over one other; name both, or leave it out")
    if claim.relative and (claim.within or claim.quantity not in SCORE_QUANTITIES):
        raise BadInput(
            f"{location}: 'relative' is for gains in scores ({', '.join(SCORE_QUANTITIES)}) without 'within'; leave it "
            "out"
        )
    if claim.at and claim.quantity not in SCORE_QUANTITIES:
        raise BadInput(
            f"{location}: 'at' is for scores ({', '.join(SCORE_QUANTITIES)}); {claim.quantity!r} is read at the chosen "
            "settings alone, so leave one of them out"
        )
    if claim.pairs and claim.columns:
        raise BadInput(f"{location}: 'pairs' are columns already; leave 'columns' out")
    for key, side in (("higher", claim.higher), ("lower", claim.lower), ("premise", claim.premise)):
        for arm in (side,) if isinstance(side, str) else side or ():
            check_known(arm, arms or [arm], f"{location}.{key}")
    for key, names in (("columns", claim.columns), ("pairs", [name for pair in claim.pairs for name in pair])):
        for column in names:
            check_known(column, columns or [column], f"{location}.{key}")


def made_of(column: str, base: str) -> bool:
    """A column of a table is the study's column `base`, or one of several that an axis made of it."""
    return column == base or column.startswith(f"{base} ")


def base_of(column: str, bases: Iterable[str]) -> str:
    """The study's own name of a column, of those that are known; its first word where none fits."""
    return max((base for base in bases if made_of(column, base)), key=len, default=column.split(" ")[0])


CellKind = Literal["measured", "quoted", "diverged", "infeasible", "at chance", "not reported", "not reached", "range"]
Metric = Literal["accuracy", "r2"]
Unit = Literal["share", "percent"]

_NUMBER = re.compile(
    r"(?P<value>[+−-]?\d+(?:\.\d+)?)"
    r"(?:\s*[×x]\s*10\^(?P<power>\d+))?"
    r"(?:\s*(?P<time>s|m|min))?"
    r"(?P<count>[KM])?"
    r"(?:\s*±\s*(?P<sem>\d+(?:\.\d+)?))?"
    r"(?:\s*\([+−-]\d+(?:\.\d+)?\))?"  # a gain over another cell, which its text keeps
    r"(?:\s*[%×])?"
    r"\s*(?:†|\[†\])?"
)
_COUNT = {"K": 1e3, "M": 1e6}


def _table(key: str) -> BeforeValidator:
    """A plain text is short for a table of this one key."""
    return BeforeValidator(lambda value: {key: value} if isinstance(value, str) else value)


class PaperCell(Spec):
    """A cell: `text` as printed;"""

    text: str = Field(min_length=1)
    kind: CellKind | None = None
    """Left out, the row's."""
    erratum: str = ""
    """What the printed cell does not agree with."""
    _number: tuple[float | None, float | None] = PrivateAttr((None, None))

    @property
    def value(self) -> float | None:
        """As a share or as steps, None where none is printed."""
        return self._number[0]

    @property
    def sem(self) -> float | None:
        """The standard error of the value, None where none is printed."""
        return self._number[1]


class PaperHead(Spec):
    """A column's heading as printed."""

    head: str = Field(min_length=1)
    metric: Metric | None = None
    """Left out, the table's."""
    unit: Unit | None = None
    """Left out, the table's."""


class PaperRow(Spec):
    """A row: `row` is its printed label, the cells are by our column. Without an `arm` it is only quoted, and `why`
    says why we do not run it.
    """

    row: str = Field(min_length=1)
    arm: str | None = Field(default=None, min_length=1)
    quantity: Quantity = "test"
    kind: CellKind = "measured"
    """That of cells without one."""
    why: str = ""
    note: str = ""
    cells: dict[str, Annotated[PaperCell, _table("text")]] = Field(min_length=1)


class Paper(Spec):
    """The cells of one table or figure. `paper` is the key of the paper that it stands in; `heads` are by our column,
    of which AVERAGE may be one."""

    source: str = Field(min_length=1)
    paper: Literal["coser", "amos", "rothermel", "lu", "arora"]
    metric: Metric = "accuracy"
    unit: Unit = "share"
    note: str = ""
    heads: dict[str, Annotated[PaperHead, _table("head")]] = Field(default_factory=dict)
    rows: tuple[PaperRow, ...] = ()
    claims: tuple[Claim, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Our columns that the paper has, without the average over them."""
        return tuple(name for name in self.heads if name != AVERAGE)

    def metric_of(self, column: str) -> Metric:
        """The score that the paper gives of a column, the study's or one that an axis made of it."""
        head = self.heads.get(base_of(column, self.heads))
        return head.metric or self.metric if head else self.metric

    def in_percent(self, column: str) -> bool:
        """A column whose scores are printed in percent."""
        head = self.heads.get(column)
        return (head.unit or self.unit if head else self.unit) == "percent"

    def cell(self, arm: str, column: str, quantity: Quantity = "test") -> PaperCell | None:
        """The paper's cell of an arm on a column, or None where it prints none."""
        for row in self.rows:
            if (row.arm, row.quantity) == (arm, quantity) and column in row.cells:
                return row.cells[column]
        return None


def built_in_papers() -> dict[str, Path]:
    """Files of cells that come with the package, by name."""
    return tables_in(studies_folder() / "papers")


def read_paper(name: str) -> Paper:
    """The cells of a table, by name. Raises: BadInput for a name that is none, with the nearest."""
    papers = built_in_papers()
    check_known(name, papers, "paper")
    return make_paper(name, table_of(papers[name]))


def make_paper(name: str, table: Mapping[str, Any]) -> Paper:
    """The cells that a file's table describes. Raises: BadInput naming file, place, value and way out."""
    location = f"papers/{name}.toml"
    paper = read(Paper, table, location)
    rows = tuple(_numbered(paper, row, f"{location}.rows[{i}]") for i, row in enumerate(paper.rows))
    _check_once(rows, location)
    for i, claim in enumerate(paper.claims):
        # A figure without cells has neither arms nor columns of its own: any may be named.
        check_claim(claim, {row.arm for row in rows if row.arm}, paper.heads, f"{location}.claims[{i}]")
    return paper.model_copy(update={"rows": rows})


def _numbered(paper: Paper, row: PaperRow, location: str) -> PaperRow:
    """The row with the number and the kind of each cell."""
    if row.arm is None and not row.why:
        raise BadInput(f"{location}: {row.row!r} has no arm; name one, or say in 'why' why it is not run")
    cells = {}
    for column, cell in row.cells.items():
        check_known(column, paper.heads, f"{location}.cells.{column}")
        scale = 100 if paper.in_percent(column) and row.quantity not in (*STEP_QUANTITIES, *OWN_UNITS) else 1
        cells[column] = cell.model_copy(update={"kind": cell.kind or row.kind})
        cells[column]._number = _number(cell.text, scale)
        if cells[column].value is None and cells[column].kind in ("measured", "quoted"):
            raise BadInput(
                f"{location}.cells.{column}: {cell.text!r} is not a number; give its kind, as in 'infeasible'"
            )
    return row.model_copy(update={"cells": cells})


def _number(text: str, scale: int) -> tuple[float | None, float | None]:
    """Value and standard error of a printed cell (`0.59 (+0.19)`, `57.6 ± 0.8`, `1.9×10^5`, `19.1m`, `106K`)."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return None, None
    value = float(match["value"].replace("−", "-")) * 10 ** int(match["power"] or 0)
    value *= 60 if match["time"] in ("m", "min") else _COUNT.get(match["count"] or "", 1)
    return value / scale, None if match["sem"] is None else float(match["sem"]) / scale


def _check_once(rows: tuple[PaperRow, ...], location: str) -> None:
    seen = set()
    for row in rows:
        for column in row.cells:
            key = (row.arm, row.quantity, column)
            if row.arm is not None and key in seen:
                raise BadInput(f"{location}: {row.arm!r} has two cells of {row.quantity} in {column!r}; keep one")
            seen.add(key)
