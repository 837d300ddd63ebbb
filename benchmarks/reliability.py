"""What `make soak` and `make fuzz` have counted, as a page: docs/benchmarks/reliability.json -> reliability.md.

python benchmarks/reliability.py
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from harness import PAGES, filled, markdown, parser_of, write

GOALS = {"SIGKILLs": 1000, "races": 100}
"""How many of each there are to be."""
AIM = 10
"""Minutes of the processor that each door is to have."""


def page(document: Mapping[str, Any]) -> str:
    """The page of these counts."""
    counts: Mapping[str, int] = document["counts"]
    sums = {goal: sum(number for name, number in counts.items() if name.startswith(goal)) for goal in GOALS}
    minutes: dict[str, float] = {}
    for run in document["runs"]:
        head = f"{run['date']}, {run['machine']}, torch {run['torch']}: {{:g}} minutes of `make {run['what']}`"
        minutes[head] = minutes.get(head, 0) + run["minutes"]
    runs = [f"- {head.format(round(number, 1))}" for head, number in minutes.items()]
    earlier: Mapping[str, int] = document["earlier"]
    names = [*dict.fromkeys([*counts, *earlier])]
    return filled(
        "reliability",
        runs=runs,
        disturbances=sum(counts.values()),
        trials=sum(document["trials"].values()),
        before=f"{sum(earlier.values()):,}",
        reached=", ".join(f"{sums[goal]:,} {goal} (aim: {aim:,})" for goal, aim in GOALS.items()),
        number=len(document["findings"]),
        findings=[f"- {finding}" for finding in document["findings"]],
        table=_table(
            ["disturbance", "times", "earlier"],
            [[name, f"{counts.get(name, 0):,}", f"{earlier.get(name, 0):,}"] for name in sorted(names)],
        ),
        points=_points(document["points"]) if document.get("points") else "",
        power=_power(document["power"]) if document.get("power") else "",
        memory=_memory(document["memory"]) if document.get("memory") else "",
        fuzz=_fuzz(document["fuzz"], document["fuzz_earlier"]) if document.get("fuzz") else "",
    )


def _points(commands: Mapping[str, Any]) -> str:
    """The section of points at which a command can fail."""
    keys = ("operations", "points", "trials", "tried", "daily")
    rows = [
        [f"`{name}`", *(f"{row[key]:,}" for key in keys), str(len(row["findings"]))] for name, row in commands.items()
    ]
    sums = {key: f"{sum(row[key] for row in commands.values()):,}" for key in keys}
    heads = ["command", "operations", "points", "apart", "tried", "in `make test`", "findings"]
    return filled("reliability-points", table=markdown(heads, rows), **sums)


def _power(commands: Mapping[str, Any]) -> str:
    """The section of power cuts."""
    keys = ("operations", "states", "stride", "tried")
    rows = [
        [f"`{name}`", *(f"{row[key]:,}" for key in keys), str(len(row["findings"]))] for name, row in commands.items()
    ]
    sums = {key: f"{sum(row[key] for row in commands.values()):,}" for key in keys if key != "stride"}
    heads = ["command", "operations", "disks", "after each", "tried", "findings"]
    return filled("reliability-power", table=markdown(heads, rows), **sums)


def _memory(document: Mapping[str, Any]) -> str:
    """The section of bits that turn in memory."""
    ends, flips = ("changed", "nothing", "noticed"), document["flips"]
    rows = [[f"`{name}`", *(str(row.get(end, 0)) for end in ends)] for name, row in flips.items()]
    sums = {end: sum(row.get(end, 0) for row in flips.values()) for end in ends}
    resumes = document["resumes"]
    return filled(
        "reliability-memory",
        table=markdown(["turned in", "changes a number", "changes none", "noticed"], rows),
        number=sum(sums.values()),
        resumes=sum(resumes.values()),
        alarms=sum(resumes.values()) - resumes.get("nothing", 0),
        **sums,
    )


def _fuzz(formats: Mapping[str, Any], earlier: Mapping[str, Any]) -> str:
    """The section of damaged files."""
    keys = ("minutes", "clock", "trials", "read", "refused")
    rows = []
    for name in sorted({*formats, *earlier}):
        row = formats.get(name, {})
        numbers = [f"{row.get(key, 0):,.1f}" if key in keys[:2] else f"{row.get(key, 0):,}" for key in keys]
        before = f"{earlier[name]['minutes']:g}" if name in earlier else ""
        rows.append([f"`{name}`", *numbers, str(len(row.get("findings", ()))), before])
    sums = {key: sum(row[key] for row in formats.values()) for key in ("minutes", "trials")}
    before = sum(row[key] for row in earlier.values() for key in ("read", "refused"))
    reached = ", ".join(f"`{name}`" for name, row in sorted(formats.items()) if row["minutes"] >= AIM) or "no door"
    heads = ["door", "minutes of the processor", "of the clock", "inputs", "read", "refused", "findings", "earlier"]
    return filled("reliability-fuzz", table=_table(heads, rows), before=f"{before:,}", reached=reached, **sums)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return markdown(heads, rows, rule=["---"] * len(heads))


if __name__ == "__main__":
    parser_of(__doc__).parse_args()
    write(PAGES / "reliability.md", page(json.loads((PAGES / "reliability.json").read_text("utf-8"))))
