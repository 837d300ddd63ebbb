"""Write src/headstart/studies/costs.json: what each built-in study costs at each scale.

    python benchmarks/study_costs.py [--data DIR] [NAME ...]

Counts come from the plan. FLOPs are those that a finished stage reports: three forward passes per example, closed
form, over the lengths of the task's train examples. A generated task is opened with few examples, whose lengths stand
for all; a data set that is not in the folder has the sizes that its papers state (OUTLINES).
"""

from __future__ import annotations

import argparse
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from headstart.models.model import model_flops
from headstart.sequence import Signature
from headstart.stage import StageSpec
from headstart.stage.trained import TRAIN_FLOPS
from headstart.study.costs import COSTS
from headstart.study.files import built_in_studies
from headstart.study.plan import make_plan
from headstart.study.scales import SCALES
from headstart.study.spec import read_study
from headstart.tasks import TaskSpec, data_folder, open_task
from headstart.tasks.task import available

SAMPLE = 400
"""Train examples that stand for those of a generated task."""

OUTLINES: dict[str, tuple[Signature, int, int]] = {
    # Signature, train units, positions of a unit (of a pair: of both).
    "image": (Signature("floats", 1, 1024, 1024, "class", 10, levels=256), 45_000, 1024),
    "scifar": (Signature("floats", 3, 1024, 1024, "class", 10, levels=256), 45_000, 1024),
    "cifar_patches": (Signature("floats", 48, 64, 64, "class", 10), 40_000, 64),
    "mnist": (Signature("floats", 16, 64, 64, "class", 10), 50_000, 64),
    "text": (Signature("tokens", 136, 2048, 40, "class", 2), 22_500, 1150),
    "retrieval": (Signature("tokens", 256, 4000, 200, "class", 2, paired=True), 147_086, 8000),
    "speech": (Signature("floats", 1, 16_000, 16_000, "class", 35), 84_843, 16_000),
    "bidmc": (Signature("floats", 2, 4000, 4000, "number"), 4_700, 4000),
}


def outline(task: TaskSpec, data: Path) -> tuple[Signature, int, np.ndarray, float]:
    """Signature, train units, a sample of lengths of examples, and examples per unit."""
    return _outline(task.model_dump_json(), type(task), data)


@cache
def _outline(document: str, kind: type[TaskSpec], data: Path) -> tuple[Signature, int, np.ndarray, float]:
    task = kind.model_validate_json(document)
    given: dict[str, Any] = task.model_dump()
    if task.generated and given.get("train", 0) > SAMPLE:
        few = {"train": SAMPLE, "val": 50, "test": 50, "labelled": None, "fraction": 1.0}
        small = kind.model_validate({**given, **few})
        opened = open_task(small, data)
        units = round(task.fraction * given["train"])
    elif available(task, data):
        opened = open_task(task.model_copy(update={"labelled": None}), data)
        units = opened.train.units
    else:
        signature, whole, positions = OUTLINES[task.kind]
        length = min(positions, given.get("length", positions) * (1 + signature.paired))
        each = length // (2 if signature.paired else 1) // task.patch
        lengths = np.full(2 if signature.paired else 1, each)
        return signature, round(task.fraction * whole), lengths, float(1 + signature.paired)
    return opened.signature, units, opened.train.lengths, 2.0 if opened.signature.paired else 1.0


def stage_cost(spec: StageSpec, data: Path) -> tuple[int, int, float]:
    """Steps of a stage, the examples that it trains on, and its FLOPs."""
    signature, units, lengths, per_unit = outline(spec.task, data)
    if spec.objective.uses_target and spec.task.labelled is not None:
        units = spec.task.labelled
    per_epoch = max(-(-units // spec.optim.batch_size), 1)
    steps = spec.budget.total_steps(per_epoch, round(units * per_unit * float(lengths.mean())))
    examples = round(steps * units / per_epoch)
    output = spec.objective.output(signature)
    values, counts = np.unique(lengths, return_counts=True)
    each = [model_flops(spec.model, signature, output, int(n)) for n in values]
    flops = float(np.dot(each, counts))
    return steps, examples, TRAIN_FLOPS * examples * per_unit * flops / len(lengths)


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
