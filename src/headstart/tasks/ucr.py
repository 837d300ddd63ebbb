"""A set of the UCR archive: univariate series with a class, one per row of a .tsv file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from headstart.data.problems import Mistakes
from headstart.data.series import Rows, read_tsv
from headstart.tasks.series_tasks import SeriesSpec


class UcrSpec(SeriesSpec):
    """One of the 128 sets of the UCR archive, by its `name`: univariate series, each with a class.

    A row of `GunPoint_TRAIN.tsv` begins `2<TAB>-1.1250<TAB>-1.1311 ...`: label `2`, then 150 values. Labels keep
    their names. A value that is empty, `?` or NaN is missing; missing values at the end make a series shorter.
    Splits: the official train (of which val is held out) and test rows. Read from `ucr/` of the data folder: the
    files, folders of them, or a tar archive.
    Source: Dau et al. 2018.
    """

    kind: Literal["ucr"] = "ucr"
    name: str = Field(default="GunPoint", pattern=r"^[A-Za-z0-9_-]{1,80}$")

    shows_not: ClassVar[str] = (
        "one small set of the UCR archive: a difference here says little of other sets, and its official test split "
        "is one draw."
    )
    folders: ClassVar[tuple[str, ...]] = ("ucr", "UCRArchive_2018")
    ending: ClassVar[str] = ".tsv"
    origin: ClassVar[str] = (
        "the UCR archive (Dau et al. 2018) is at https://www.cs.ucr.edu/~eamonn/time_series_data_2018"
        " (unpack its zip file)"
    )

    def read(self, lines: Iterator[tuple[str, str]], file: str, mistakes: Mistakes) -> Rows:
        """Rows with the label first."""
        del file
        return read_tsv(lines, mistakes)
