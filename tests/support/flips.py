"""One bit turned in memory during a run: `python -m support.flips [--number N] [--resumes N] [--json FILE]`, from `tests`.

Counts how many change a number that is stored, and how many are noticed: by an alarm, or by weights that are not finite.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import torch

from headstart.errors import MemoryChanged
from headstart.stage.trained import TrainedRun
from headstart.study.language.plan import make_plan
from headstart.study.language.spec import read_study
from headstart.tasks import open_task
from support.counts import add_run, changed

STUDY: dict[str, Any] = {
    "name": "flips",
    "stages": {
        "finetune": {"objective": {"kind": "classify"}, "budget": {"steps": 12, "evaluate_every": 3}},
    },
    "columns": {
        "waves": {
            "task": {"kind": "waves", "length": 96, "train": 64, "val": 16, "test": 16},
            "model": {"width": 8, "blocks": 1, "mixer": {"kind": "attention", "heads": 2}},
        }
    },
    "arms": {"scratch": {}},
    "axes": {"finetune.optim.lr": [3e-3], "finetune.optim.batch_size": [16], "seed": [0]},
    "report": {"baselines": False},
}
PLACES = ("weights", "moments", "batch", "state", "examples", "best", "outputs")
"""Where a bit is turned: weights and moments between two steps; batch in the forward pass of a step; state, in what a
run goes on from after its digest was compared; examples, of which batches are made; best, in weights kept as such; outputs, what
a layer has just computed in a step, of which nothing else knows."""


class Flips:
    """A tiny run, what it ends with, and its states."""

    def __init__(self) -> None:
        (planned,) = make_plan(read_study(STUDY, []), Path("data")).stages.values()
        self.spec: Any = planned.spec
        self.task = open_task(self.spec.task, Path("data"))
        run = self.begun()
        self.states = [tick.state() for tick in run.steps()]
        self.reference = self.stored(run)

    def begun(self, state: Any = None) -> TrainedRun:
        """The run at its beginning, or at a state."""
        return TrainedRun(self.spec, self.task, None, "cpu", state)

    def stored(self, run: TrainedRun) -> dict[str, Any]:
        """What is stored of a run that has ended, times and memory apart."""
        end = run.finish()
        numbers = {"status": end.status, "scores": end.scores, "steps": end.budget["steps"]}
        tensors = {"best": end.best, "last": end.last, "predictions": end.predictions}
        return numbers | {f"{kind}/{name}": x for kind, part in tensors.items() for name, x in part.items()}

    def changed(self, other: Mapping[str, Any]) -> bool:
        """Whether any number of it is not that of an undisturbed run."""
        return any(
            not (torch.equal(x, other[name]) if isinstance(x, torch.Tensor) else repr(x) == repr(other[name]))
            for name, x in self.reference.items()
        )

    def disturbed(self, memory: str, random: Random) -> str:
        """What one bit that was turned there leads to: noticed, changed, or nothing."""
        when = random.randrange(len(self.states) - 1)
        state = None
        if memory == "state":
            tensors, meta = self.states[when]
            copies = {name: value.clone() for name, value in tensors.items()}
            turn(copies[random.choice(sorted(name for name, x in copies.items() if x.numel()))], random)
            state = copies, meta
        try:
            run = self.begun(state)
        except MemoryChanged:
            return "noticed"
        held: Any = run.feeds["train"].held
        armed = [False]

        def forward(module: Any, inputs: tuple[Any, ...]) -> None:
            if memory == "batch" and armed[0]:
                armed[0] = False
                turn(inputs[0].inputs, random)

        def computed(module: Any, inputs: Any, output: torch.Tensor) -> None:
            if memory == "outputs" and armed[0]:
                armed[0] = False
                turn(output, random)

        layers = [module for module in run.model.modules() if isinstance(module, torch.nn.Linear)]
        random.choice(layers).register_forward_hook(computed)
        run.model.register_forward_pre_hook(forward)
        try:
            for number, _ in enumerate(run.steps()):
                if number == when and memory == "weights":
                    turn(run.progress.flat.weights.data, random)
                elif number == when and memory == "moments":
                    moments = [x for x in run.progress.flat.moments if isinstance(x, torch.Tensor) and x.numel()]
                    turn(random.choice(moments), random)
                elif number == when and memory == "examples":
                    turn(held.batch.inputs, random)
                elif number >= when and memory == "best" and run.progress.best:
                    turn(random.choice([x for x in run.progress.best.values() if x.numel()]), random)
                    when = len(self.states)
                armed[0] = number == when and memory in ("batch", "outputs")
            end = self.stored(run)
        except Exception:
            return "noticed"
        if end["status"] == "diverged":
            return "noticed"
        return "changed" if self.changed(end) else "nothing"

    def resumed(self, random: Random) -> str:
        """The same of a clean resume from one of the states."""
        run = self.begun(random.choice(self.states))
        for _ in run.steps():
            pass
        end = self.stored(run)
        return "noticed" if end["status"] == "diverged" else "changed" if self.changed(end) else "nothing"


def turn(x: torch.Tensor, random: Random) -> None:
    """Turn one bit of a tensor in its place."""
    flat = x.detach().view(-1)
    numbers = flat.numpy().view("uint8")
    numbers[random.randrange(len(numbers))] ^= 1 << random.randrange(8)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--number", type=int, default=300)
    words.add_argument("--resumes", type=int, default=1000)
    words.add_argument("--json", type=Path)
    options = words.parse_args()
    began, flips = time.monotonic(), Flips()
    rows: dict[str, Counter[str]] = {memory: Counter() for memory in PLACES}
    for seed in range(options.number):
        memory = PLACES[seed % len(PLACES)]
        rows[memory][flips.disturbed(memory, Random(f"flip/{seed}"))] += 1
    resumes = Counter(flips.resumed(Random(f"resume/{seed}")) for seed in range(options.resumes))
    print(rows, resumes)
    if options.json is not None:
        with changed(options.json) as document:
            document["memory"] = {"flips": rows, "resumes": resumes}
            add_run(document, "flips", round((time.monotonic() - began) / 60, 1))


if __name__ == "__main__":
    main()
