"""Write src/headstart/studies/costs.json: what each built-in study costs at each scale, by the data that are at hand.

    python benchmarks/study_costs.py [NAME ...]

Counts and FLOPs are those of the plan (`headstart run STUDY --dry-run`), whose stages are fitted to outlines of their
tasks: a data set has the sizes that its papers state, and no file is read. Each column is planned with every set of
the data sets that decide what is read: with all of them, and with what stands in where some are absent.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from headstart.study.language.budgets import Outlines
from headstart.study.language.costs import COSTS, WORK_AMOUNTS, data_set
from headstart.study.language.estimate import survey
from headstart.study.language.files import built_in_studies
from headstart.study.language.plan import Plan, make_plan
from headstart.study.language.scales import SCALES
from headstart.study.language.spec import read_study

NOWHERE = Path("/nonexistent")
Costs = dict[str, dict[str, Any]]
"""Column -> its costs, the data sets that it reads, and whether others stand in."""


def plan_costs(plan: Plan, outlines: Outlines) -> Costs:
    """What each column of a plan costs; a stage of several columns counts for the first of them."""
    by_stage = {cost.planned.identity: cost for cost in survey(plan, outlines)}
    out: Costs = {}
    seen: set[str] = set()
    for cell in plan.cells:
        column = out.setdefault(cell.column, {**dict.fromkeys(WORK_AMOUNTS, 0), "reads": [], "stood_in": False})
        column["stood_in"] = cell.column in plan.study.stood_in
        for planned in cell.chain:
            if planned.spec.task is not None:
                name = data_set(planned.spec.task)
                column["reads"] += [name] * (name not in ("", *column["reads"]))
            if planned.identity not in seen:
                seen.add(planned.identity)
                cost = by_stage[planned.identity]
                scored = cost.unit_flops * (cost.evaluated + cost.scored)
                for key, value in zip(WORK_AMOUNTS, (1, cost.steps, cost.examples, cost.flops, scored), strict=True):
                    column[key] += value
    return out


def at_scale(name: str, scale: str | None, absent: Collection[str], outlines: Outlines) -> Costs:
    """The costs of a study where these data sets are absent, and all others at hand."""
    study = read_study(name, scale=scale, at_hand=lambda task: data_set(task) not in absent)
    return plan_costs(make_plan(study, NOWHERE, absent="open"), outlines)


def options(name: str, scale: str | None, outlines: Outlines) -> dict[str, Any]:
    """Column -> the data sets that decide (`needs`), and the costs by those of them that are at hand."""
    planned: dict[frozenset[str], Costs] = {}
    waiting = [frozenset[str]()]
    while waiting:
        absent = waiting.pop()
        if absent not in planned:
            planned[absent] = at_scale(name, scale, absent, outlines)
            reads = {read for column in planned[absent].values() for read in column["reads"]} - absent
            waiting += [absent | {read} for read in reads] if scale != "paper" else []
    out: dict[str, Any] = {}
    for column in planned[frozenset()]:
        needs = sorted({read for costs in planned.values() for read in costs[column]["reads"]})
        every = {"+".join(some): planned[_like(planned, set(needs) - set(some))][column] for some in _subsets(needs)}
        costs = [{key: value for key, value in option.items() if key != "reads"} for option in every.values()]
        same = all(cost == costs[0] for cost in costs) or scale == "paper"
        out[column] = {"needs": needs, **({"*": planned[frozenset()][column]} if same else every)}
    return out


def _subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for size in range(len(names) + 1):
        yield from combinations(names, size)


def _like(planned: Collection[frozenset[str]], absent: set[str]) -> frozenset[str]:
    """The largest set of absent data sets that was planned and lies in this one: the others were never asked for."""
    return max((some for some in planned if some <= absent), key=len)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


def written(costs: dict[str, Any]) -> str:
    """The file: a line per study, scale, column and option."""
    lines = json.dumps(_rounded(dict(sorted(costs.items()))), indent=1).split("\n")
    out: list[str] = []
    depth = 0
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if indent > 4 or (indent == 4 and depth > 4):
            out[-1] += (" " if out[-1][-1] == "," else "") + line.strip()
        else:
            out.append(line)
        depth = indent
    return "\n".join(out) + "\n"


def main() -> None:
    words = argparse.ArgumentParser(description="Write the costs of built-in studies.")
    words.add_argument("names", nargs="*", help="only these (default: all)")
    names = words.parse_args().names
    target = Path(__file__).parents[1] / "src" / "headstart" / "studies" / COSTS
    costs: dict[str, Any] = json.loads(target.read_text("utf-8")) if names else {}
    outlines = Outlines(NOWHERE)
    for name in names or built_in_studies():
        costs[name] = {
            scale or "": options(name, scale, outlines) for scale in (SCALES if read_study(name).scale else (None,))
        }
        print(name, flush=True)
    target.write_text(written(costs), "utf-8")


if __name__ == "__main__":
    main()
