"""Training steps of whole models: ours, beside a plain PyTorch loop with the same module, and where time goes.

    python benchmarks/train_speed.py [--models digits,image] [--device auto] [--threads 1] [--limit 300] [--write FOLDER]
    python benchmarks/train_speed.py --again FOLDER

Writes FOLDER/train.json and the part of FOLDER/train.md before its first heading of a section (docs/benchmarks has both);
`--again` makes that part anew from the stored JSON. The Trainer of transformers is measured beside them where it is
installed (`pip install 'headstart[bench]'`).
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from harness import filled, parser_of, with_head, write
from train_shares import GROUPS, shares

from headstart.bench.machine import devices, sentence, setting, wait_for
from headstart.bench.pages import PageTable, markdown, seconds
from headstart.bench.process import Measurement, ProcessFailed
from headstart.errors import BadInput, nearest
from headstart.models.counting import Learning, training_flops
from headstart.models.model import ModelSpec, Network
from headstart.objectives import ClassifySpec
from headstart.runner.machine import choose_device, keep_freed_memory
from headstart.seeds import Draw, bits
from headstart.sequence import Examples, Signature, collate
from headstart.spec import read
from headstart.store import publish_json
from headstart.training.batches import Batches
from headstart.training.graph import RECORDERS, WARM
from headstart.training.loop import BudgetSpec, Progress, TrainConfig, train
from headstart.training.optim import FlatParameters, OptimSpec
from headstart.words import NONE, count


@dataclass(frozen=True)
class Example:
    """A model at a published size, and a batch of full length for it.

    `batch` is one sequence where a step would else take longer than a person waits: tokens/s hardly depend on it there.
    epoch: train sequences of the task.
    """

    model: dict[str, Any]
    signature: Signature
    batch: int
    epoch: int
    source: str

    @property
    def spec(self) -> ModelSpec:
        """The model's spec."""
        return read(ModelSpec, self.model, name="model")

    def network(self) -> Network:
        """The model with fresh weights, the same each time."""
        return self.spec.network(self.signature, OBJECTIVE.output(self.signature), 0)


def _attention(width: int, blocks: int, heads: int, feed_forward: int) -> dict[str, Any]:
    return {
        "width": width,
        "blocks": blocks,
        "mixer": {"kind": "attention", "heads": heads},
        "feed_forward": {"width": feed_forward},
        "position": {"kind": "rotary"},
    }


EXAMPLES: dict[str, Example] = {
    "digits": Example(
        _attention(32, 2, 4, 128),
        Signature("floats", 1, 64, 64, "class", classes=10),
        32,
        1_097,
        "the built-in study `digits`",
    ),
    "image": Example(
        _attention(64, 3, 4, 128),
        Signature("floats", 1, 1024, 1024, "class", classes=10),
        32,
        45_000,
        "Amos et al. 2023, table 4",
    ),
    "text": Example(
        _attention(512, 6, 8, 1024),
        Signature("tokens", 135, 2048, 2048, "class", classes=2),
        1,
        25_000,
        "Amos et al. 2023, table 4",
    ),
    "listops": Example(
        _attention(512, 6, 8, 1024),
        Signature("tokens", 15, 2000, 2000, "class", classes=10),
        1,
        96_000,
        "Amos et al. 2023, table 4",
    ),
}


def read_models(text: str) -> list[str]:
    """`digits,image` as names of EXAMPLES. Raises: BadInput."""
    names = [word.strip() for word in text.split(",")]
    for name in names:
        if name not in EXAMPLES:
            raise BadInput(f"--models: {nearest(name, EXAMPLES)}")
    return names


def made_up(example: Example) -> Examples:
    """One batch of random examples."""
    signature, units = example.signature, example.batch
    total = units * signature.length
    offsets = np.arange(units + 1, dtype=np.int64) * signature.length
    noise = bits(0, "bench/values", np.arange(total))
    values = (
        (noise % signature.width).astype(np.int64)
        if signature.input == "tokens"
        else ((noise % 256)[:, None].astype(np.float32) / 128 - 1)
    )
    target = (bits(0, "bench/target", np.arange(units)) % signature.classes).astype(np.int64)
    return Examples(values, offsets, target, np.arange(units))


OBJECTIVE = ClassifySpec()


LEAST, MOST, ENOUGH = 3, 100, 6.0
"""Rounds of one step each way: at least 3, and until 6 s or 100 rounds."""
PROFILED = 1.0
"""Seconds of steps that are profiled, at least one step and at most ten."""
SIDES = {"cpu": 2048, "cuda": 8192}
"""Side of the square matrices whose product is the machine's peak: large enough to hide the call itself."""
STEPS_OF_EPOCH = 100
RATE = 1e-3


@dataclass(frozen=True)
class Speed:
    """What was measured of one model. Seconds are medians; shares are of the time of profiled steps of ours.

    peak: FLOP/s of the machine's matrix products, flops: closed form, of one step. epoch: sequences of one.
    trainer_seconds: of the Trainer of transformers, where that is installed. how: whether steps were recorded.
    """

    model: str
    device: str
    parameters: int = 0
    batch: int = 0
    length: int = 0
    epoch: int = 0
    tokens: int = 0
    flops: float = 0.0
    seconds: float | None = None
    plain_seconds: float | None = None
    trainer_seconds: float | None = None
    steps: int = 0
    how: str = ""
    peak: float = 0.0
    shares: dict[str, float] | None = None
    failed: str | None = None

    @property
    def tokens_per_second(self) -> float | None:
        """Valid positions trained on in a second."""
        return None if self.seconds is None else self.tokens / self.seconds

    @property
    def epoch_seconds(self) -> float | None:
        """Seconds of an epoch of the task at full length, evaluation left out."""
        return None if self.seconds is None else self.seconds * self.epoch / self.batch

    @property
    def share_of_peak(self) -> float | None:
        """Closed-form FLOP/s of a step over those of large matrix products."""
        return None if self.seconds is None else self.flops / self.seconds / self.peak


def survey(models: Iterable[str], device: str, threads: int, limit: float) -> Iterator[Speed]:
    """Measure model after model. Ours and the plain loop take turns, each in a process of its own."""
    for model in models:
        try:
            yield _beside({"model": model, "device": device, "threads": threads}, limit)
        except ProcessFailed as error:
            yield Speed(model, device, failed=str(error))


def trainer_installed() -> bool:
    """Whether the Trainer of transformers can be measured (see `train_trainer.py`); it is no dependency of ours."""
    return all(find_spec(name) for name in ("transformers", "accelerate"))


def _beside(job: dict[str, Any], limit: float) -> Speed:
    """The ways take turns; `trainer` is one of them where it is installed."""
    ways = ["train_speed:ours", "train_speed:plain", *(["train_trainer:trainer"] if trainer_installed() else [])]
    with ExitStack() as stack:
        each = [stack.enter_context(Measurement(way, job, limit)) for way in ways]
        facts, *_ = [way.ask() for way in each]
        times: list[list[float]] = [[] for _ in each]
        while len(times[0]) < LEAST or (sum(map(sum, times)) < ENOUGH and len(times[0]) < MOST):
            for way, mine in zip(each, times, strict=True):
                mine.append(way.ask())
        facts["shares"] = each[0].ask("shares")
    ours, plain, *others = map(statistics.median, times)
    return Speed(
        job["model"],
        job["device"],
        seconds=ours,
        plain_seconds=plain,
        trainer_seconds=others[0] if others else None,
        steps=len(times[0]),
        **facts,
    )


def case_of(job: Mapping[str, Any]) -> tuple[Example, Network]:
    """What is measured in this process; all processes have the same fresh weights."""
    torch.set_num_threads(job["threads"])
    example = EXAMPLES[job["model"]]
    return example, example.network().to(job["device"])


def stage_of(example: Example, model: Network, device: str) -> tuple[TrainConfig, Progress]:
    """What a stage trains with and where it stands at its beginning: of far more steps than are asked for."""
    keep_freed_memory()  # As the processes do that stages are trained in.
    examples = made_up(example)
    # Epochs of many steps: what an epoch costs anew does not count, as with the Trainer.
    units = np.tile(np.arange(len(examples)), STEPS_OF_EPOCH)
    feed = Batches(examples, units, torch.device(device), torch.float32)
    # Far more steps than are asked for, so that no evaluation falls among them.
    config = TrainConfig(
        OBJECTIVE,
        example.signature,
        OptimSpec(lr=RATE, batch_size=example.batch),
        BudgetSpec(steps=10**6, evaluate_every=10**6),
        0,
        feed,
        feed,
    )
    return config, Progress(model, FlatParameters(model, [name for name, _ in model.named_parameters()], set(), {}))


def ours(job: dict[str, Any]) -> Generator[Any, str, None]:
    """In its own process: facts after a warm step; then, each time, seconds of a step; the shares when asked.

    A step is what a stage does: order, batch, objective, forward, backward, optimiser.
    """
    (example, model), device = case_of(job), job["device"]
    config, progress = stage_of(example, model, device)
    feed, ticks = config.train, train(config, progress)
    for _ in range(WARM + 2 if torch.device(device).type in RECORDERS else 1):
        next(ticks)
    wait_for(device)
    asked, last = (yield _facts(example, model, device) | {"how": progress.how}), PROFILED
    while True:
        if asked == "shares":
            # Taken one kernel at a time: those of a recorded step do not say what called them.
            steps = min(10, max(1, round(PROFILED / last)))
            asked = yield shares(partial(next, train(replace(config, record=None), progress)), feed, device, steps)
            continue
        start = time.perf_counter()
        next(ticks)
        wait_for(device)
        last = time.perf_counter() - start
        asked = yield last


def matrix_peak(device: str, seconds: float = 1.0) -> float:
    """FLOP/s of the fastest of repeated float32 products of two large square matrices, for about `seconds`."""
    side = SIDES[device.partition(":")[0]]
    left, right, out = (torch.randn(side, side, device=device) for _ in range(3))
    best, began = float("inf"), time.perf_counter()
    while time.perf_counter() - began < seconds or best == float("inf"):
        start = time.perf_counter()
        torch.mm(left, right, out=out)
        wait_for(device)
        best = min(best, time.perf_counter() - start)
    return 2.0 * side**3 / best


def _facts(example: Example, model: Network, device: str) -> dict[str, Any]:
    """What is known without timing steps, and the machine's peak."""
    examples, signature, spec = made_up(example), example.signature, example.spec
    output, names = OBJECTIVE.output(signature), dict(model.named_parameters())
    learning = Learning(model, names)
    flops = sum(
        training_flops(learning, spec.layer_flops(signature, output, n), n, spec.kernel_flops(n), example.batch)
        for n in examples.lengths.tolist()
    )
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "batch": example.batch,
        "length": signature.length,
        "epoch": example.epoch,
        "tokens": int(examples.lengths.sum()),
        "flops": flops,
        "peak": matrix_peak(device),
    }


def plain(job: dict[str, Any]) -> Generator[Any, str, None]:
    """In its own process: the loop that one would write, with one batch that is already there."""
    (example, model), device = case_of(job), job["device"]
    examples = made_up(example)
    batch = collate(examples, np.arange(example.batch)).to(torch.device(device))
    assert batch.target is not None
    draw = Draw(0, 0, batch.index)  # In training, as ours: dropout drops, and a batch norm counts.
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    first = True
    while True:
        start = time.perf_counter()
        loss = F.cross_entropy(model(batch, draw), batch.target)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        loss.item()  # A loop that one would write looks at its loss.
        wait_for(device)
        yield None if first else time.perf_counter() - start
        first = False


def train_table(speeds: Sequence[Speed]) -> PageTable:
    """One row per model: sizes, tokens/s, share of the peak, and the plain loop and the Trainer beside it."""
    heads = ["model", "parameters", "batch x L", "step", "epoch", "tokens/s", "share of peak"]
    heads += ["plain step", "plain / ours", "Trainer step", "Trainer / ours"]
    rows = []
    for speed in speeds:
        if speed.seconds is None or speed.epoch_seconds is None:
            rows.append([f"{speed.model}, {speed.device}", speed.failed or NONE, *[NONE] * (len(heads) - 2)])
            continue
        beside = []
        for other in (speed.plain_seconds, speed.trainer_seconds):
            beside += [NONE, NONE] if other is None else [seconds(other), f"{other / speed.seconds:.2f}"]
        rows.append(
            [
                f"{speed.model}, {speed.device}",
                f"{speed.parameters:,}",
                f"{speed.batch} x {speed.length:,}",
                seconds(speed.seconds),
                seconds(speed.epoch_seconds),
                f"{speed.tokens_per_second:,.0f}",
                f"{speed.share_of_peak:.0%}",
                *beside,
            ]
        )
    return heads, rows


def ways(speeds: Sequence[Speed]) -> str:
    """How steps were taken, in a sentence, and what the Trainer's columns lack."""
    ways = {f"{speed.model}, {speed.device}": speed.how for speed in speeds if speed.how}
    several = [f"{name}: {how}" for name, how in ways.items()]
    text = f"Steps of ours: {next(iter(ways.values())) if len(set(ways.values())) == 1 else '; '.join(several)}."
    if any(speed.seconds is not None and speed.trainer_seconds is None for speed in speeds):
        text += " The Trainer of transformers was not measured: `pip install 'headstart[bench]'` adds it."
    return text


def share_table(speeds: Sequence[Speed]) -> PageTable:
    """Where the time of a step goes, one row per model."""
    rows = [
        [f"{speed.model}, {speed.device}", *(f"{speed.shares[group]:.0%}" for group in GROUPS)]
        for speed in speeds
        if speed.shares is not None
    ]
    return ["model", *GROUPS], rows


def peaks(speeds: Sequence[Speed]) -> str:
    """The measured peaks in a sentence."""
    texts = [f"{speed.model}, {speed.device}: {count(speed.peak)}FLOP/s" for speed in speeds if speed.peak]
    return "Matrix-product peak, measured just before each model: " + "; ".join(texts) + "."


def page_of(document: Mapping[str, Any]) -> str:
    """The tables of a stored measurement as the first part of the page."""
    fields = {field.name for field in dataclasses.fields(Speed)}
    speeds = [Speed(**{name: value for name, value in row.items() if name in fields}) for row in document["rows"]]
    measured = document["measured"]
    return filled(
        "train",
        measured="\n\n".join(f"Measured {sentence(facts)}." for facts in measured),
        table=markdown(train_table(speeds)),
        peaks=peaks(speeds),
        ways=ways(speeds),
        shares=markdown(share_table(speeds)),
        threads=measured[0]["threads"],
    )


def measure(models: Sequence[str], device: str, threads: int, limit: float) -> dict[str, Any]:
    """The measurements of all models on the CPU, and on a GPU where there is one, as they are stored."""
    targets = devices(choose_device(device), device)
    measured = [setting(target, threads) for target in targets]
    derived = ("epoch_seconds", "tokens_per_second", "share_of_peak")
    rows = []
    for target in targets:
        for speed in survey(models, target, threads, limit):
            rows.append(asdict(speed) | {name: getattr(speed, name) for name in derived})
            print(f"{speed.model}, {target}: {speed.failed or seconds(speed.seconds)}", file=sys.stderr)
    return {"format": 1, "measured": measured, "rows": rows}


def main() -> None:
    """Measure, print the tables, and write them where a folder is named."""
    parser = parser_of(__doc__)
    parser.add_argument("--models", default=",".join(EXAMPLES))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that one process may take")
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    parser.add_argument("--again", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    folder = options.again or options.write
    if options.again:
        document = json.loads((folder / "train.json").read_text("utf-8"))
    else:
        document = measure(read_models(options.models), options.device, options.threads, options.limit)
    page = page_of(document)
    print(page)
    if folder is not None:
        path = folder / "train.md"
        write(path, with_head(path.read_text("utf-8") if path.exists() else "", page))
        if not options.again:
            publish_json(folder / "train.json", document)


if __name__ == "__main__":
    main()
