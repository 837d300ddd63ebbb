"""One stage on one and on two ranks of a CPU: how long a step takes, and how far answers come apart.

    python benchmarks/ranks.py [--steps 30] [--ranks 1,2]

Claim: none on a CPU, where ranks compete with threads; the figure says what sharing a batch costs there. Every rank has
one thread. Validation is scored by rank 0 alone while the others wait: the last column is its share of the time with
one evaluation per epoch, from the times of a step and of scoring one sequence. The page is docs/benchmarks/ranks.md.
Answers are compared, not weights: biases that move no answer (of keys, and in front of a batch norm) have a gradient of
rounding alone, which AdamW divides by its own size.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import torch

import headstart
from headstart.runner.machine import machine, version
from headstart.stage.trained import TrainedRun
from headstart.tasks import open_task

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "ranks.md"
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
    run = TrainedRun(planned.spec, open_task(planned.spec.task, Path("data")))
    step, unit = run.seconds()
    return step, unit * len(run.feeds["val"].units), run.setting.per_epoch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    PAGE.write_text(
        "\n".join(
            [
                "# One stage on several ranks of a CPU",
                "",
                f"{words.steps} steps of batches of 32 in float32, one thread per rank, gloo over 127.0.0.1. Speed: the time of a step",
                "on one rank over that of this row, so that less than 1 is slower. Difference: the largest one between the test outputs of",
                "this model and of the one trained on one rank, as a share of the largest output. Validation: the share of an epoch that",
                "scoring the validation set once takes, which rank 0 does alone.",
                "",
                "| model | ranks | step | speed | difference | validation |",
                "| --- | ---: | ---: | ---: | ---: | ---: |",
                *lines,
                "",
                f"`python benchmarks/ranks.py`, {date.today()}, {machine()}, torch {version('torch')}. Other work ran on the machine and",
                f"changed between rows (load {load}): a free machine would give other times.",
                "GPUs have not been measured: compare the seconds in `result.json` of a stage with `--ranks N --device cuda` and with",
                "`--ranks 1 --device cuda`.",
                "",
                "With batch norm, most biases do not change the output in training, so that their gradients are rounding errors, which AdamW",
                "scales up to whole steps. The running means follow these biases late, and the outputs differ by that. In float64 the",
                "difference is below 1e-10 (tests).",
                "",
            ]
        )
    )


if __name__ == "__main__":
    main()
