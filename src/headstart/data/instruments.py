"""The table of what instruments write as text: a form is a function that tells it from a beginning, and a line here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headstart.data.exports import Surroundings
from headstart.data.layout import LayoutSpec
from headstart.errors import BadInput, Mistakes
from headstart.spec import Entry
from headstart.text import is_number

FieldValues = Mapping[str, tuple[object, ...]]
HEAD_LINES, HEAD_SIZE, HEAD_CHARACTERS = 400, 2**20, 100
"""Lines of a beginning, its characters, and characters of a line, among which words of a form stand."""
FEWEST_LINES, LINES_ABOUT = 20, 60
"""Lines of a recording at least, and those at its beginning that are about the device."""
TIMES_NAME = "Time"
"""The name of the column of times, which exports name in many ways or not at all."""
SECTIONS = frozenset(("trajectories", "devices", "joints", "segments", "model outputs", "events"))
"""Lines above the tables of an export of movements, which may be several."""

BLOCK = "Interval="
"""The first cell of a block of LabChart."""


class Head:
    """The beginning of a text file: its first `lines` and the `rest`, what is set of it, and where mistakes go."""

    def __init__(self, lines: Iterable[str], spec: LayoutSpec, source: str, mistakes: Mistakes) -> None:
        self.rest, self.spec, self.source, self.mistakes = iter(lines), spec, source, mistakes
        self.lines: list[str] = []
        size = 0
        while size < HEAD_SIZE and len(self.lines) < HEAD_LINES and (line := next(self.rest, "")):
            self.lines.append(line)
            size += len(line)

    def whole(self) -> list[str]:
        """All lines of the file; `lines` stays its beginning."""
        behind = list(self.rest)
        self.rest = iter(behind)
        return self.lines + behind

    @cached_property
    def starts(self) -> str:
        """The beginnings of the first lines, in small letters."""
        return "\n".join(line[:HEAD_CHARACTERS] for line in self.lines).lower()

    @cached_property
    def mark(self) -> str:
        """What separates the cells of a recording; "" where nothing does, or another mark was set."""
        start = "".join(self.lines[:FEWEST_LINES])
        mark = next((mark for mark in "\t;," if mark in start), ",")
        return mark if self.spec.delimiter in (None, mark) and len(self.lines) >= FEWEST_LINES else ""

    @cached_property
    def rows(self) -> list[list[str]]:
        """The cells of the first lines of a recording; none where nothing separates them."""
        return [cells(line, self.mark) for line in self.lines] if self.mark else []

    def line_of(self, *names: str, alone: bool = False) -> int:
        """The first line about the device that begins with one of these names, in small letters, which stands `alone`
        or not; -1 where there is none, or none follows."""
        about = self.rows[: min(LINES_ABOUT, len(self.rows) - 1)]
        return next((i for i, row in enumerate(about) if row[0].lower() in names and any(row[1:]) != alone), -1)

    def keys(self, end: int) -> dict[str, list[str]]:
        """What stands behind the first cell of the lines up to this one."""
        return {row[0].lower(): [cell for cell in row[1:] if cell] for row in self.rows[:end] if row[0]}


@dataclass
class Export(Surroundings):
    """How one recording is written: of each line below those about the device, the cells at `columns` are one row;
    `steps` are the time of the first row and that from one to the next where no cell has times."""

    columns: Sequence[int] = ()
    steps: tuple[float, float] | None = None

    def rows(self, lines: Iterable[str], source: str) -> Iterator[str]:
        """As many lines, of the times and channels alone. Raises: BadInput where another table begins."""
        mark = self.mark or ","
        for number, line in enumerate(lines):
            row = cells(line, mark)
            if number > self.begin and begins_table(row):
                raise BadInput(
                    f"{source}:{number + 1}: another table begins here ({row[0]!r}); save each as a file of its own"
                )
            if number < self.begin or not any(row):
                yield "\n"
                continue
            there = [row[i] if i < len(row) else "" for i in self.columns]
            if self.steps:
                there.insert(0, repr(self.steps[0] + (number - self.begin) * self.steps[1]))
            yield mark.join(there) + "\n"


def cells(line: str, mark: str) -> list[str]:
    """The cells of a line, without quotes and blanks around them."""
    return [cell.strip().strip('"').strip("\ufeff") for cell in line.rstrip("\r\n").split(mark)]


def begins_table(row: Sequence[str]) -> bool:
    """Whether a line says that a table of movements, or a block of LabChart, begins."""
    return row[0] == BLOCK or (row[0].lower() in SECTIONS and not any(row[1:]))


def number(cell: str) -> bool:
    """Whether a cell is a number, with a point or a comma."""
    return is_number(cell) or is_number(cell, ",")


_PLATE: FieldValues = {"shape": ("auto", "list", "columns"), "header": (None,), "units_row": (None,)}
_RECORDING: FieldValues = {"header": (None, True), "skip": (None,), "units_row": (None,), "comment": (None,)}
# fmt: off
INSTRUMENTS: dict[str, tuple[str | None, FieldValues]] = {
    "plates:plate_table": ("time zeit temps tiempo tempo elapsed cycle zyklus zyklen ciclo kinetic t° o2 humidity "
        "feuchte plate well absorbance fluorescence luminescence od", _PLATE),
    "scopes:logger": ("", _RECORDING),
    "scopes:openbci": ("%openbci", _RECORDING),
    "scopes:columns_about": ("record sampl interval horizontal vertical source increment tinc second xinc frame",
        _RECORDING),
    "scopes:start_and_step": ("increment tinc", _RECORDING),
    "scopes:waveforms": ("waveform", _RECORDING),
    "scopes:beside": ("wavelength wavenumber raman", _RECORDING),
    "scopes:jasco": ("xydata", _RECORDING),
    "scopes:in_seconds": ("second", _RECORDING),
    "scopes:data_below": ("xinc", _RECORDING),
    "scopes:markers": ("marker_names", _RECORDING),
    "scopes:frames": ("frame", _RECORDING),
    "scopes:labchart": ("channeltitle=", _RECORDING),
    "scopes:sections": ("[", _RECORDING),
    "fixed_width:ruled": ("-+-", _RECORDING),
    "fixed_width:fixed": (None, {**_RECORDING, "header": (None, True, False), "delimiter": (None,)}),
}
# fmt: on
"""What tells a form, `tell(head) -> Table | Export | None`, in the order in which they are tried.

Of each the words, one of which (where any) is in the first lines of such a file, or None of lines without a mark, and
the values of the layout with which it is looked for: with others the file is read as it stands.
"""


def instrument_table(head: Head, forms: Mapping[str, tuple[str | None, FieldValues]] = INSTRUMENTS) -> Any:
    """What an instrument wrote, as its table or as how its rows are written; None of other files."""
    for path, (words, settings) in forms.items():
        plainly = words is None and not any(mark in line for line in head.lines[-1:] for mark in "\t;,|")
        likely = plainly or words == "" or any(word in head.starts for word in (words or "").split())
        likely = likely and all(getattr(head.spec, name) in values for name, values in settings.items())
        written = Entry(f"headstart.data.{path}", "").load()(head) if likely else None
        if written is not None:
            return written
    return None
