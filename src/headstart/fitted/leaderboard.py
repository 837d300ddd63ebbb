"""The models of a fit as a short table: what a person compares first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headstart import words
from headstart.core import Results
from headstart.report.tables.report_table import ReportTable, text_table
from headstart.text import short


class LeaderboardLine(NamedTuple):
    """One model: its mean scores (NaN where there is none), seconds that its runs took, whether it predicts, and its
    share of the average that predicts (NaN without one)."""

    model: str
    validation: float
    test: float
    seconds: float
    predicts: bool
    share: float = float("nan")


class Leaderboard(tuple[LeaderboardLine, ...]):
    """Lines, the best on validation first; printed as a table. `pandas.DataFrame(leaderboard)` has its columns."""

    metric: str

    def __new__(cls, lines: Iterable[LeaderboardLine], metric: str) -> Leaderboard:
        """metric: the score of both columns."""
        board = super().__new__(cls, lines)
        board.metric = metric
        return board

    def __repr__(self) -> str:
        from headstart.report.tables.report_table import to_markdown

        return to_markdown(self.table()).strip()

    def table(self) -> ReportTable:
        """As texts; the model that predicts is marked."""
        name = words.metric(self.metric)
        heads: tuple[str, ...] = ("model", f"validation {name}", f"test {name}", "seconds")
        rows = [
            [
                f"{short(line.model)} (predicts)" if line.predicts else short(line.model),
                words.score(line.validation),
                words.score(line.test),
                words.NONE if line.seconds != line.seconds else f"{line.seconds:.1f}",
            ]
            for line in self
        ]
        if any(line.share == line.share for line in self):
            heads = (*heads, "share")
            rows = [
                [*row, f"{line.share:.2f}" if line.share == line.share else ""]
                for row, line in zip(rows, self, strict=True)
            ]
        return text_table(heads, rows)


def leaderboard_of(results: Results, serves: str, shares: Mapping[str, float] | None = None) -> Leaderboard:
    """The models of a fit, the best on validation first, then what was not trained. serves: the one that predicts.
    shares: of the models that it averages."""
    nothing = float("nan")
    lines = [
        LeaderboardLine(
            row.arm,
            nothing if row.val is None else row.val.mean,
            nothing if row.test is None else row.test.mean,
            (row.tried or row.budget).get("seconds", nothing),
            row.arm == serves,
            (shares or {}).get(row.arm, nothing),
        )
        for row in results.table
    ]
    lines.sort(key=lambda line: -line.validation if line.validation == line.validation else float("inf"))
    return Leaderboard(lines, results.table[0].metric)
