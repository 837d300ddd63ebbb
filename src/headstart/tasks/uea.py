"""A set of the UEA archive: multivariate series of any length with a class, from .ts files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from headstart.data.problems import Mistakes
from headstart.data.series import Rows, read_ts
from headstart.tasks.series_tasks import SeriesSpec


class UeaSpec(SeriesSpec):
    """One of the sets of the UEA archive, by its `name`: series of several channels and any length, with a class.

    A row of `BasicMotions_TRAIN.ts` is `0.079,-0.903,...:0.394,...:...:Standing`: six channels of 100 values, then
    the label, which keeps its name. `?` and NaN are missing; a channel that ends early is missing from there on.
    Splits: the official train (of which val is held out) and test rows. Read from `uea/` of the data folder: the
    files, folders of them, or a tar archive.
    Source: Bagnall et al. 2018.
    """

    kind: Literal["uea"] = "uea"
    name: str = Field(default="BasicMotions", pattern=r"^[A-Za-z0-9_-]{1,80}$")

    shows_not: ClassVar[str] = (
        "one small set of the UEA archive: a difference here says little of other sets, and its official test split "
        "is one draw."
    )
    folders: ClassVar[tuple[str, ...]] = ("uea", "Multivariate_ts")
    ending: ClassVar[str] = ".ts"
    origin: ClassVar[str] = (
        "the UEA archive (Bagnall et al. 2018) is at https://www.timeseriesclassification.com (unpack its zip file)"
    )

    def read(self, lines: Iterator[tuple[str, str]], file: str, mistakes: Mistakes) -> Rows:
        """Rows with the label last."""
        return read_ts(lines, file, mistakes)
