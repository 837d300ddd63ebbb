"""Image at the size of the paper: the study coser-1-described, its column `image`, in bfloat16 with recorded steps.

    python benchmarks/coser_image.py --data FOLDER [--pretrain-epochs 10] [--finetune-epochs 20] [--seeds 0,1,2]
        [--device auto] [--precision bfloat16] [--record auto] [--limit SECONDS] [--log FILE] [name=value ...]

Claim: an A100 needs 48 s for an epoch of pretraining and 56 s for one of fine-tuning (Coser and Orvieto); here an
epoch of pretraining takes at most 4.8 s on one GPU, and 2.4 s would be better still. Scores land in the store as of
any study: first those of training from scratch and of all self-pretrained weights, then those of queries and keys alone. First 20 recorded steps of each phase are compared with 20 plain ones (`recorded_steps.py`), and where
they differ nothing is trained. Seconds of an epoch are those of its steps, as the study takes them (order of the
epoch, saved states and the loop's own work included), without the first 50 steps and without evaluation. FILE (one
line of text after another, and FILE.json) keeps what earlier calls measured: with --limit, the same command goes on.
Last the commands are printed that make the study's table of the same stages.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from recorded_steps import PRECISIONS, agreement, kernel_lines, kernels, phases, recorder

from headstart.api import Study
from headstart.atomic import publish
from headstart.bench.machine import setting, wait_for
from headstart.documents import as_json
from headstart.errors import BadInput
from headstart.runner.events import Failed, Finished, Notice, Skipped, StageProgress, Stopped
from headstart.runner.job import Engine, Runtime
from headstart.runner.machine import choose_device, keep_freed_memory
from headstart.runner.perform import perform
from headstart.stage import identity
from headstart.stage.trained import TrainedRun
from headstart.study.language.files import short_name
from headstart.study.language.papers import read_paper
from headstart.tasks import open_task
from headstart.training.loop import StepInfo

WARM = 50
"""Steps before the clock runs: the first are slow, and one of them is recorded."""
PAPER = {"pretrain": 48.0, "finetune": 56.0}
"""Seconds of an epoch on one A100."""
GOAL, DREAM = 4.8, 2.4
STUDIES = {"coser-1-described": (), "coser-4-described": ("model.blocks=3",)}
"""The second has the stages of the first, given as many blocks, and those of queries and keys alone."""
FULL = 45_000
"""Train images of the whole task."""
GIB = 2**30


class Clock:
    """Time of steps between evaluations: it runs from `start` to `stop`, and both wait for the device."""

    def __init__(self, device: str) -> None:
        self.device, self.steps, self.seconds, self.other, self.scored = device, 0, 0.0, 0.0, 0
        self._since: tuple[int, float] | None = None
        self._stopped: float | None = None

    def start(self, step: int) -> None:
        """TrainedRun from the end of this step on; what lies behind the last stop was an evaluation."""
        wait_for(self.device)
        now = time.perf_counter()
        if self._stopped is not None:
            self.other, self.scored, self._stopped = self.other + now - self._stopped, self.scored + 1, None
        self._since = (step, now)

    def stop(self, step: int) -> None:
        """Stand from the end of this step on."""
        if self._since is None:
            return
        wait_for(self.device)
        now = time.perf_counter()
        self.steps, self.seconds = self.steps + step - self._since[0], self.seconds + now - self._since[1]
        self._since, self._stopped = None, now

    @property
    def pace(self) -> float | None:
        """Seconds of a step, or None where none was timed."""
        return self.seconds / self.steps if self.steps else None

    @property
    def evaluation(self) -> float | None:
        """Seconds of an evaluation and the step before it, less that step."""
        return None if not self.scored or self.pace is None else max(self.other / self.scored - self.pace, 0.0)


class Timed:
    """A stage's run (`stage.Run`) whose steps are timed."""

    def __init__(self, run: TrainedRun, device: str) -> None:
        self.run, self.clock, self.scoring = run, Clock(device), 0.0

    def steps(self) -> Iterator[StepInfo]:
        """The steps of the run itself."""
        setting, clock, warm = self.run.setting, self.clock, self.run.progress.step + WARM
        for tick in self.run.steps():
            next_scored = setting.budget.evaluates_at(tick.step + 1, setting.per_epoch, tick.steps)
            if tick.step >= warm and (tick.record is not None or tick.step == warm):
                clock.start(tick.step)
            if next_scored or tick.step == tick.steps:
                clock.stop(tick.step)
            yield tick

    def finish(self) -> Any:
        """The run's own end: scores of train, val and test."""
        began = time.perf_counter()
        outcome = self.run.finish()
        self.scoring = time.perf_counter() - began
        return outcome

    def facts(self) -> dict[str, Any]:
        """What was measured."""
        setting, pace = self.run.setting, self.clock.pace
        return {
            "batch": setting.optim.batch_size,
            "images": len(setting.train.units),
            "per_epoch": setting.per_epoch,
            "timed_steps": self.clock.steps,
            "step_ms": None if pace is None else 1e3 * pace,
            "epoch_s": None if pace is None else pace * setting.per_epoch,
            "evaluation_s": self.clock.evaluation,
            "final_scores_s": self.scoring,
            "how": self.run.progress.how,
        }


class Stopwatch:
    """Begins stages as the engine does, each timed; `last` is the newest."""

    def __init__(self, device: str, record: bool) -> None:
        self.device, self.record, self.last = device, record, None

    last: Timed | None

    def begin(self, *arguments: Any) -> Timed:
        """As `stage.begin`."""
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        run = TrainedRun(*arguments)
        run.setting = replace(run.setting, record="auto" if self.record else None)
        self.last = Timed(run, self.device)
        return self.last


class Log:
    """Lines to the terminal and to a file, and rows beside it as JSON, those of earlier calls kept."""

    def __init__(self, file: Path) -> None:
        self.file, self.rows = file, {}
        file.parent.mkdir(parents=True, exist_ok=True)
        self.table = file.with_name(file.name + ".json")
        if self.table.exists():
            self.rows = json.loads(self.table.read_text("utf-8"))["stages"]

    rows: dict[str, Any]

    def say(self, line: str = "") -> None:
        """One line."""
        print(line, flush=True)
        with self.file.open("a", encoding="utf-8") as out:
            out.write(line + "\n")

    def keep(self, where: dict[str, Any]) -> None:
        """Write the rows."""
        document = as_json({"where": where, "stages": self.rows})
        publish(self.table, (json.dumps(document, indent=1) + "\n").encode())


def place(device: str, threads: int) -> dict[str, Any]:
    """Where and when, the GPU's memory and versions included."""
    where = {**setting(device, threads), "python": platform.python_version()}
    if device == "cuda":
        gpu = torch.cuda.get_device_properties(0)
        where.update(
            {
                "cuda": torch.version.cuda,
                "capability": f"{gpu.major}.{gpu.minor}",
                "memory_gib": round(gpu.total_memory / GIB, 1),
            }
        )
    return where


def row(options: argparse.Namespace, result: dict[str, Any], watch: Stopwatch) -> dict[str, Any]:
    """What the log keeps of a stage that was just finished."""
    assert watch.last is not None
    scores, spec = result["scores"]["best"], watch.last.run.spec
    return {
        "phase": result["name"],
        "seed": spec.seed,
        "from": "pretrained" if spec.parent is not None else "fresh",
        "changed": options.words,
        "precision": options.precision,
        "status": result["status"],
        "epochs": result["budget"]["epochs"],
        **watch.last.facts(),
        "seconds": result["budget"]["seconds"],
        "best_epoch": scores["epoch"],
        "peak_gib": result["budget"]["peak_memory"] / GIB,
        "parameters": result["parameters"]["total"],
        "val": scores["val"],
        "test": scores["test"],
    }


def sentence(entry: dict[str, Any]) -> str:
    """A row in words."""
    scores = ", ".join(f"{name} {value:.4f}" for name, value in entry["test"].items() if value is not None)
    scoring = "" if entry["evaluation_s"] is None else f"; evaluation {entry['evaluation_s']:.3g} s"
    return (
        f"{entry['phase']} ({entry['from']}, seed {entry['seed']}, {entry['epochs']:g} epochs of "
        f"{entry['images']:,} images): {pace_said(entry)}{scoring}; {entry['how']}; {entry['peak_gib']:.2f} GiB; "
        f"test {scores or 'nothing'} at epoch {entry['best_epoch']:g}"
    )


def pace_said(entry: dict[str, Any]) -> str:
    """Seconds of an epoch beside the paper's."""
    if entry["epoch_s"] is None:
        return f"too few steps to time ({WARM} warm ones come first)"
    seconds, images = entry["epoch_s"], entry["images"]
    whole = "" if images == FULL else f", {seconds * FULL / images:.3g} s would be one of {FULL:,}"
    beside = (
        f"not the paper's setting: {' '.join(entry['changed'])}"
        if entry["changed"]
        else (f"an A100 in the paper: {PAPER[entry['phase']]:g} s")
    )
    return (
        f"{seconds:.3g} s an epoch{whole} ({entry['step_ms']:.3f} ms a step, batch {entry['batch']}, "
        f"{entry['timed_steps']:,} steps timed; {beside})"
    )


def study_of(options: argparse.Namespace, source: str = "coser-1-described") -> Study:
    """A study, with the words of the command line."""
    words = [
        *STUDIES[source],
        "columns=image",
        f"seed=[{options.seeds}]",
        f"pretrain.budget.epochs={options.pretrain_epochs}",
        f"finetune.budget.epochs={options.finetune_epochs}",
        f"task.fraction={options.fraction}",
    ]
    words += [f"{stage}.optim.precision={options.precision}" for stage in PAPER]
    return Study(source, [*words, *options.words], scale="paper", store=options.store, data=options.data)


def checked(study: Study, device: str, log: Log) -> bool:
    """Compare recorded with plain steps, and say where the time of a step goes. False where they differ."""
    for phase, spec in phases(study).items():
        task = open_task(spec.task, study.data)
        comparison = agreement(phase, spec, task, device)
        log.say(str(comparison))
        if comparison.problem is not None:
            log.say(f"{phase}: {comparison.problem}; nothing is trained")
            return False
        for line in kernel_lines(kernels([spec], task, device, recorder(device))):
            log.say(line)
    return True


def trained(
    study: Study, device: str, options: argparse.Namespace, log: Log, where: dict[str, Any], limit: float | None
) -> None:
    """Perform the study, for so many seconds at most."""
    watch = Stopwatch(device, options.record == "auto")
    runtime = Runtime(study.data, device, 0, options.threads, limit=limit)
    engine = Engine(watch.begin, identity, open_task)
    for event in perform(study.plan.stages.values(), study.store, runtime, engine):
        if isinstance(event, StageProgress) and event.record is not None:
            log.say(f"  {event.name} {event.step:,} of {event.steps:,}: {json.dumps(event.record)}")
        elif isinstance(event, Finished):
            log.rows[event.identity] = row(options, event.result, watch)
            log.keep(where)
        elif isinstance(event, (Failed, Stopped, Notice)):
            log.say(f"  {event}")
        elif isinstance(event, Skipped):
            log.say(f"  {event.name} {event.identity}: finished before")


def answer(study: Study, log: Log) -> bool:
    """Every stage, then the arms beside the paper's cells. False where a stage is left to do."""
    log.say()
    for stage in study.plan.stages:
        log.say(sentence(log.rows[stage]) if stage in log.rows else f"{stage}: not timed by this command")
    rows = [log.rows[stage] for stage in study.plan.stages if stage in log.rows]
    paces = [
        row["epoch_s"] for row in rows if row["phase"] == "pretrain" and row["images"] == FULL and not row["changed"]
    ]
    if paces and None not in paces:
        worst = max(paces)
        word = "reached" if worst <= DREAM else ("met" if worst <= GOAL else "missed")
        log.say(f"goal for an epoch of pretraining: {GOAL} s, {DREAM} s better still: {word} ({worst:.2f} s)")
    paper = read_paper("coser-1")
    for cell in study.plan.cells:
        result = study.store.result(cell.chain[-1].identity)
        theirs = paper.cell(cell.arm, "image")
        score = None if result is None else result["scores"]["best"]["test"].get("accuracy")
        log.say(
            f"{cell.arm}, seed {cell.seed}: accuracy {'not there yet' if score is None else f'{score:.4f}'} "
            f"(paper: {'none' if theirs is None else theirs.text})"
        )
    left = sum(study.store.result(stage) is None for stage in study.plan.stages)
    if left:
        log.say(f"{left} of {len(study.plan.stages)} stages are left; the same command goes on")
    return not left


def as_study(study: Study, options: argparse.Namespace) -> list[str]:
    """The commands that perform the same stages without a clock, and print their table from the same store."""
    places = [f"--{name}={value}" for name in ("data", "store") if (value := getattr(options, name)) is not None]
    words = shlex.join([short_name(study.source), f"--scale={study.spec.scale}", *places, *study.overrides])
    return [
        f"the table of these stages: headstart report {words}",
        f"the same stages as any study: headstart run {words}",
    ]


def arguments(words: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", metavar="name=value", help="more settings of the study")
    for name in ("data", "store"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--precision", default="bfloat16", choices=PRECISIONS)
    parser.add_argument("--record", default="auto", choices=["auto", "off"], help="off: plain steps")
    parser.add_argument("--pretrain-epochs", type=float, default=10)
    parser.add_argument("--finetune-epochs", type=float, default=20)
    parser.add_argument("--fraction", type=float, default=1.0, help="share of the train images")
    parser.add_argument("--seeds", default="0,1,2", help="with commas between them")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=float, help="seconds until all is saved; the same command goes on")
    parser.add_argument("--log", type=Path, help="default: coser-image.log in the store")
    return parser.parse_intermixed_args(words)


def main(words: list[str] | None = None) -> int:
    """Compare, train, say. Exit code 0 where all is done, 1 where steps disagree or stages are left."""
    options = arguments(words)
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    try:
        device, both = choose_device(options.device), [study_of(options, source) for source in STUDIES]
    except BadInput as error:
        raise SystemExit(f"coser_image: {error}") from None
    log = Log(options.log or both[0].store.root / "coser-image.log")
    where = place(device, options.threads)
    log.say("python benchmarks/coser_image.py " + shlex.join(sys.argv[1:] if words is None else words))
    log.say(", ".join(f"{key} {value}" for key, value in where.items()))
    if options.record == "auto" and not checked(both[0], device, log):
        return 1
    began, done = time.monotonic(), True
    for study in both:
        left = None if options.limit is None else options.limit - (time.monotonic() - began)
        if done and (left is None or left > 0):
            trained(study, device, options, log, where, left)
        done = answer(study, log) and done
        for line in as_study(study, options):
            log.say(line)
    return 0 if done else 1


if __name__ == "__main__":
    raise SystemExit(main())
