"""A paper's cells as data: what its table prints, what kind of number each is, and what the paper says of it.

The files stand in `studies/papers/NAME.toml`. A cell is transcribed, never computed anew; where it does not agree
with others of its paper, the cell stays as printed and says so (`erratum`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from headstart.errors import BadInput
from headstart.spec import Spec, read
from headstart.study.claims import AVERAGE, STEPS, Claim, Quantity, base_of, check_claim
from headstart.study.files import studies_folder, table_of, tables_in
from headstart.study.validate import check_known

CellKind = Literal["measured", "quoted", "diverged", "infeasible", "at chance", "not reported", "not reached"]
Metric = Literal["accuracy", "r2"]
Unit = Literal["share", "percent"]

_NUMBER = re.compile(
    r"(?P<value>[+−-]?\d+(?:\.\d+)?)"
    r"(?:\s*[×x]\s*10\^(?P<power>\d+))?"
    r"(?:\s*±\s*(?P<sem>\d+(?:\.\d+)?))?"
    r"(?:\s*\([+−-]\d+(?:\.\d+)?\))?"  # a gain over another cell, which its text keeps
    r"\s*†?"
)


def _table(key: str) -> BeforeValidator:
    """A plain text is short for a table of this one key."""
    return BeforeValidator(lambda value: {key: value} if isinstance(value, str) else value)


class CellSpec(Spec):
    """One cell as written. `kind`: left out, the row's."""

    text: str = Field(min_length=1)
    kind: CellKind | None = None
    erratum: str = ""


class HeadSpec(Spec):
    """A column's heading as printed. `metric` and `unit`: left out, the table's."""

    head: str = Field(min_length=1)
    metric: Metric | None = None
    unit: Unit | None = None


class RowSpec(Spec):
    """A row as written. Without an `arm` it is only quoted, and `why` says why."""

    row: str = Field(min_length=1)
    arm: str | None = Field(default=None, min_length=1)
    quantity: Quantity = "test"
    kind: CellKind = "measured"
    why: str = ""
    note: str = ""
    cells: dict[str, Annotated[CellSpec, _table("text")]] = Field(min_length=1)


class PaperSpec(Spec):
    """A file of cells. `paper` is the key of the paper that the table stands in."""

    source: str = Field(min_length=1)
    paper: Literal["coser", "amos", "rothermel"]
    metric: Metric = "accuracy"
    unit: Unit = "share"
    note: str = ""
    heads: dict[str, Annotated[HeadSpec, _table("head")]] = Field(default_factory=dict)
    rows: tuple[RowSpec, ...] = ()
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True)
class PaperCell:
    """A cell: `text` as printed; `value` and its standard error `sem` as shares or steps, None where none is printed.

    `erratum` says, where it is not empty, what the printed cell does not agree with.
    """

    text: str
    kind: CellKind
    value: float | None
    sem: float | None
    erratum: str = ""


@dataclass(frozen=True)
class PaperRow:
    """A row: the printed `label`, our `arm` (None: `why` says why we do not run it), its cells by our column."""

    label: str
    arm: str | None
    quantity: Quantity
    why: str
    cells: Mapping[str, PaperCell]
    note: str = ""


@dataclass(frozen=True)
class Paper:
    """The cells of one table or figure. `heads`, `metrics`, `units` are by our column; AVERAGE may be one of them."""

    name: str
    source: str
    key: str
    metric: Metric
    unit: Unit
    heads: Mapping[str, str]
    rows: tuple[PaperRow, ...]
    claims: tuple[Claim, ...]
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    units: Mapping[str, Unit] = field(default_factory=dict)
    note: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Our columns that the paper has, without the average over them."""
        return tuple(name for name in self.heads if name != AVERAGE)

    def metric_of(self, column: str) -> Metric:
        """The score that the paper gives of a column, the study's or one that an axis made of it."""
        return self.metrics.get(base_of(column, self.metrics), self.metric)

    def in_percent(self, column: str) -> bool:
        """A column whose scores are printed in percent."""
        return self.units.get(column, self.unit) == "percent"

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
    known = built_in_papers()
    check_known(name, known, "paper")
    return make_paper(name, table_of(known[name]))


def make_paper(name: str, table: Mapping[str, Any]) -> Paper:
    """The cells that a file's table describes. Raises: BadInput naming file, place, value and way out."""
    place = f"papers/{name}.toml"
    spec = read(PaperSpec, table, place)
    rows = tuple(_row(spec, row, f"{place}.rows[{i}]") for i, row in enumerate(spec.rows))
    _check_once(rows, place)
    for i, claim in enumerate(spec.claims):
        # A figure without cells has neither arms nor columns of its own: any may be named.
        check_claim(claim, {row.arm for row in spec.rows if row.arm}, spec.heads, f"{place}.claims[{i}]")
    return Paper(
        name=name,
        source=spec.source,
        key=spec.paper,
        metric=spec.metric,
        unit=spec.unit,
        heads={column: head.head for column, head in spec.heads.items()},
        rows=rows,
        claims=spec.claims,
        metrics={column: head.metric or spec.metric for column, head in spec.heads.items()},
        units={column: head.unit or spec.unit for column, head in spec.heads.items()},
        note=spec.note,
    )


def _row(spec: PaperSpec, row: RowSpec, place: str) -> PaperRow:
    if row.arm is None and not row.why:
        raise BadInput(f"{place}: {row.row!r} has no arm; name one, or say in 'why' why it is not run")
    cells = {}
    for column, cell in row.cells.items():
        check_known(column, spec.heads, f"{place}.cells.{column}")
        unit = spec.heads[column].unit or spec.unit
        scale = 100 if unit == "percent" and row.quantity not in STEPS else 1
        value, sem = _number(cell.text, scale)
        kind = cell.kind or row.kind
        if value is None and kind in ("measured", "quoted"):
            raise BadInput(f"{place}.cells.{column}: {cell.text!r} is not a number; give its kind, as in 'infeasible'")
        cells[column] = PaperCell(cell.text, kind, value, sem, cell.erratum)
    return PaperRow(row.row, row.arm, row.quantity, row.why, cells, row.note)


def _number(text: str, scale: int) -> tuple[float | None, float | None]:
    """Value and standard error of a printed cell (`0.59 (+0.19)`, `57.6 ± 0.8`, `1.9×10^5`, `67.82 †`)."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return None, None
    value = float(match["value"].replace("−", "-")) * 10 ** int(match["power"] or 0)
    return value / scale, None if match["sem"] is None else float(match["sem"]) / scale


def _check_once(rows: tuple[PaperRow, ...], place: str) -> None:
    seen = set()
    for row in rows:
        for column in row.cells:
            key = (row.arm, row.quantity, column)
            if row.arm is not None and key in seen:
                raise BadInput(f"{place}: {row.arm!r} has two cells of {row.quantity} in {column!r}; keep one")
            seen.add(key)
