"""What `make soak` and `make fuzz` have counted, as a page: docs/benchmarks/reliability.json -> reliability.md.

python benchmarks/reliability.py
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "benchmarks"
GOALS = {"SIGKILLs": 1000, "races": 100}
"""How many of each there are to be."""
HEAD = """# Nothing is lost

Runs of a study of seconds (a pretraining, three trained arms with dropout, one fitted arm) are disturbed at random instants
and finished afterwards. Each trial then compares **every bit** of every stage (weights, predictions, records, scores) with
an undisturbed run, and looks whether a finished stage was lost or done twice, and whether a file was left over. A trial that
breaks any of these promises is a finding. In the races counted here, that look began when the race was over; since then it goes
on during the race. Up to two runs went on at once, and their minutes add up; most of them had their store in memory. One trial,
which was interrupted by hand, is not counted as a finding; it passed when it was performed again with its seed.
Of the runs with two workers that are killed, a third loses its driver, a third a worker, and a third both at once, which counts
as a SIGKILL of each.
"""
FUZZ = """## Damaged files

Good files of each format are damaged at random (bytes turned, cut, doubled, moved; numbers in headers made huge) and opened.
Each must be read, or refused in words that name the file, within 10 s and 1 GiB. Each finding of earlier runs is a test
now (`tests/test_damaged_files.py` and the tests of the format); a format with one was run again after it was mended. The
last ones, of 2026-11-24: a warning of numpy for a signalling NaN in an array, half of a surrogate pair as a key of a model's
`config.json`, and a NUL in the name of a file in a checkpoint's index.
"""


def page(document: Mapping[str, Any]) -> str:
    """The page of these counts."""
    counts: Mapping[str, int] = document["counts"]
    sums = {goal: sum(number for name, number in counts.items() if name.startswith(goal)) for goal in GOALS}
    reached = ", ".join(f"{sums[goal]:,} {goal} (aim: {aim:,})" for goal, aim in GOALS.items())
    findings: Sequence[str] = document["findings"]
    lines = [HEAD, *_runs(document["runs"])]
    lines.append(f"\n{sum(counts.values()):,} disturbances: {reached}. **Findings: {len(findings)}.**\n")
    lines += [*(f"- {finding}" for finding in findings), *([""] if findings else [])]
    lines += _table(["disturbance", "times"], [[name, f"{number:,}"] for name, number in counts.items()])
    if fuzz := document.get("fuzz"):
        rows = [
            [f"`{name}`", f"{row['minutes']:g}", f"{row['read']:,}", f"{row['refused']:,}", str(len(row["findings"]))]
            for name, row in fuzz.items()
        ]
        lines += ["", FUZZ, *_table(["format", "minutes", "read", "refused", "findings"], rows)]
    lines += [
        "",
        "## Again",
        "",
        "    make soak MINUTES=30",
        "    make fuzz MINUTES=5",
        "    python benchmarks/reliability.py",
    ]
    return "\n".join(lines) + "\n"


def _runs(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line for each run that has added to the counts."""
    return [
        f"- {run['date']}, {run['machine']}, torch {run['torch']}: {run['minutes']:g} minutes of `make {run['what']}`"
        for run in runs
    ]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows)]


if __name__ == "__main__":
    (FOLDER / "reliability.md").write_text(page(json.loads((FOLDER / "reliability.json").read_text("utf-8"))), "utf-8")
