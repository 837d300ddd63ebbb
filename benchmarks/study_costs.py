"""Write src/headstart/studies/costs.json: what each built-in study costs at each scale.

    python benchmarks/study_costs.py [--data DIR] [NAME ...]

Counts come from the plan. FLOPs are those that a finished stage reports: three forward passes per example, closed
form, over the lengths of the task's train examples. A generated task is opened with few examples, whose lengths stand
for all; a data set that is not in the folder has the sizes that its papers state (`TaskSpec.outline`).
"""

from __future__ import annotations

import argparse
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headstart.initial import trainable
from headstart.models.counting import training_flops
from headstart.stage import StageSpec
from headstart.study.costs import COSTS
from headstart.study.files import built_in_studies
from headstart.study.plan import make_plan
from headstart.study.scales import SCALES
from headstart.study.spec import read_study
from headstart.tasks import Task, TaskSpec, data_folder
from headstart.tasks.build import outlined


@cache
def outline(document: str, kind: type[TaskSpec], data: Path) -> Task:
    """A task's sizes, with its data where they are at hand. Raises: KeyError where only absent data know them."""
    task = outlined(kind.model_validate_json(document), data)
    if task is None:
        raise KeyError(f"{document}: its data are not in {data}")
    return task


def stage_cost(spec: StageSpec, data: Path) -> tuple[int, int, float]:
    """Steps of a stage, the examples that it trains on, and its FLOPs."""
    whole = spec.task.model_copy(update={"labelled": None})
    kind: Any = type(whole)  # mypy: a metaclass of pydantic is no Hashable
    task = outline(whole.model_dump_json(), kind, data)
    signature, units, lengths = task.signature, task.train.units, task.train.lengths
    per_unit = 1.0 + signature.paired
    if spec.objective.uses_target and spec.task.labelled is not None:
        units = spec.task.labelled
    per_epoch = max(-(-units // spec.optim.batch_size), 1)
    steps = spec.budget.total_steps(per_epoch, round(units * per_unit * float(lengths.mean())))
    examples = round(steps * units / per_epoch)
    output = spec.objective.output(signature)
    values, counts = np.unique(lengths, return_counts=True)
    with torch.device("meta"):
        model = spec.model.network(signature, output, 0)
    names = trainable(model, spec.trainable)
    each = [training_flops(model, spec.model.layer_flops(signature, output, n), names, n) for n in values.tolist()]
    flops = float(np.dot(each, counts))
    return steps, examples, examples * per_unit * flops / len(lengths)


def study_cost(name: str, scale: str | None, data: Path) -> dict[str, Any]:
    """The line of one study at one scale."""
    plan = make_plan(read_study(name, scale=scale, data=data), data, absent="open")
    steps, examples, flops = zip(*(stage_cost(planned.spec, data) for planned in plan.stages.values()), strict=True)
    return {"stages": len(steps), "steps": sum(steps), "examples": sum(examples), "flops": float(f"{sum(flops):.4g}")}


def main() -> None:
    words = argparse.ArgumentParser(description="Write the costs of built-in studies.")
    words.add_argument("--data", help="folder of data sets; what is not there is outlined")
    words.add_argument("names", nargs="*", help="only these (default: all)")
    given = words.parse_args()
    target = Path(__file__).parents[1] / "src" / "headstart" / "studies" / COSTS
    found: dict[str, Any] = json.loads(target.read_text("utf-8")) if given.names else {}
    nowhere = Path("/nonexistent")
    for name, path in built_in_studies().items():
        if given.names and name not in given.names:
            continue
        # The smaller scales are counted as they run without any data folder: with their stand-ins.
        found[name] = {
            scale or "": study_cost(name, scale, data_folder(given.data) if scale == "paper" else nowhere)
            for scale in (SCALES if read_study(name).scale else (None,))
        }
        print(path.stem, found[name])
    target.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
