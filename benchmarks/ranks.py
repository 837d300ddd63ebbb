"""One stage on one and on two ranks of a CPU: how long a step takes, and how far answers come apart.

    python benchmarks/ranks.py [--steps 30] [--ranks 1,2]

Claim: none on a CPU, where ranks compete with threads; the figure says what sharing a batch costs there. Every rank has
one thread. Validation is scored by rank 0 alone while the others wait: the last column is its share of the time with
one evaluation per epoch, from the times of a step and of scoring one sequence. The page is docs/benchmarks/ranks.md.
Answers are compared, not weights: biases that move no answer (of keys, and in front of a batch norm) have a gradient of
rounding alone, which AdamW divides by its own size.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from harness import PAGES, filled, made_here, markdown, parser_of, write

import headstart
from headstart.stage import TrainStage
from headstart.stage.trained import TrainedRun
from headstart.tasks import open_task

MODELS: dict[str, dict[str, Any]] = {
    "digits": {
        "task": {"kind": "digits"},
        "model": {"width": 32, "blocks": 2, "mixer": {"kind": "attention", "heads": 4}},
    },
    "listops, 100 to 200 positions": {
        "task": {"kind": "listops", "train": 320, "val": 32, "test": 32, "min_length": 100, "max_length": 200},
        "model": {"width": 64, "blocks": 2, "mixer": {"kind": "attention", "heads": 4}},
    },
    "the same with batch norm": {
        "task": {"kind": "listops", "train": 320, "val": 32, "test": 32, "min_length": 100, "max_length": 200},
        "model": {"width": 64, "blocks": 2, "norm": "batch", "mixer": {"kind": "attention", "heads": 4}},
    },
}


def study(name: str, steps: int) -> dict[str, Any]:
    """A stage of so many steps, with one evaluation at its end."""
    return {
        "name": "ranks",
        "stages": {"train": {"objective": {"kind": "classify"}, "budget": {"steps": steps, "evaluate_every": steps}}},
        "columns": {"c": MODELS[name]},
        "arms": {"a": {}},
        "report": {"baselines": False},
    }


def measured(name: str, steps: int, ranks: int) -> tuple[float, torch.Tensor]:
    """Seconds of a step, the evaluation at the end included, and what the network then answers to the test set."""
    with tempfile.TemporaryDirectory() as store:
        bound = headstart.Study(study(name, steps), store=store)
        headstart.run(bound, ranks=ranks, device="cpu")
        (identity,) = bound.plan.stages
        result = bound.store.result(identity)
        assert result is not None
        return result["budget"]["seconds"] / steps, bound.store.predictions(identity)["test/output"]


def scoring(name: str) -> tuple[float, float, int]:
    """Seconds of a plain step, seconds of scoring validation, and steps of an epoch."""
    torch.set_num_threads(1)
    (planned,) = headstart.Study(study(name, 10**6), store=tempfile.gettempdir()).plan.stages.values()
    assert isinstance(planned.spec, TrainStage)
    run = TrainedRun(planned.spec, open_task(planned.spec.task, Path("data")))
    step, unit = run.seconds()
    return step, unit * len(run.feeds["val"].units), run.setting.per_epoch


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--ranks", default="1,2")
    words = parser.parse_args()
    lines = []
    for name in MODELS:
        step, val, per_epoch = scoring(name)
        first: tuple[float, torch.Tensor] | None = None
        for count in map(int, words.ranks.split(",")):
            seconds, answers = measured(name, words.steps, count)
            first = first or (seconds, answers)
            far = float((answers - first[1]).abs().max() / first[1].abs().max())
            share = val / (val + per_epoch * step / count)
            cells = [
                name,
                str(count),
                f"{1e3 * seconds:.1f} ms",
                f"{first[0] / seconds:.2f}",
                f"{far:.0e}",
                f"{share:.1%}",
            ]
            lines.append(cells)
            print(" | ".join(cells), flush=True)
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    table = markdown(["model", "ranks", "step", "speed", "difference", "validation"], lines)
    write(PAGES / "ranks.md", filled("ranks", steps=words.steps, table=table, made=made_here("torch"), load=load))


if __name__ == "__main__":
    main()
