"""A training step of the Image model: bfloat16 against float32, and float32 beside Hugging Face's BERT in its Trainer.

    python benchmarks/attention_step.py [--threads 2] [--rounds 3] [--write docs/benchmarks/attention-step.md]

Claims, at D 64, 3 blocks, 4 heads, feed-forward 128, batch 32: at L 1,024 a step in bfloat16 is at least 1.3 times
as fast as in float32 where the processor multiplies bfloat16 numbers itself; in float32 it is no slower at L 64, 256
and 1,024 than a BERT of that size in its Trainer, which needs `pip install 'headstart[bench]'`. BERT is given
vectors (B, L, 64) in place of embedded tokens; ours takes one number per position through its encoder. The two sides
are processes that take turns, a few steps each, for some rounds: times are medians over all steps, and the ratio is
the median over rounds, so that a machine whose speed drifts favours neither. While others' work fills all cores the
ratio means nothing: with two threads on two taken cores 0.63 was once seen where 1.6 to 1.7 was before and after.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import in_process
from train_speed import OBJECTIVE

from headstart.bench.machine import sentence, setting
from headstart.models.mixers.attend import dot_products
from headstart.models.model import ModelSpec, build_model
from headstart.runner.machine import keep_freed_memory
from headstart.sequence import Examples, Signature
from headstart.spec import read
from headstart.training.batches import Batches
from headstart.training.loop import BudgetSpec, Progress, TrainConfig, train
from headstart.training.optim import FlatParameters, OptimSpec

WIDTH, BLOCKS, HEADS, FEED_FORWARD, BATCH, CLASSES = 64, 3, 4, 128, 32, 10
LENGTHS = (64, 256, 1024)
GOAL = 1.3
MISSING = "transformers or accelerate is not installed: pip install 'headstart[bench]'"


def ours(length: int, precision: str) -> Iterator[float]:
    """Seconds of each step of headstart's own loop, endlessly."""
    keep_freed_memory()  # As the processes do that stages are trained in.
    signature = Signature("floats", 1, length, length, "class", classes=CLASSES)
    spec = read(
        ModelSpec,
        {
            "width": WIDTH,
            "blocks": BLOCKS,
            "mixer": {"kind": "attention", "heads": HEADS},
            "feed_forward": {"width": FEED_FORWARD},
            "position": {"kind": "sinusoidal"},
        },
    )
    model = build_model(spec, signature, OBJECTIVE.output(signature), 0)
    draw = np.random.default_rng(0)
    examples = Examples(
        draw.standard_normal((BATCH * length, 1), dtype=np.float32),
        np.arange(BATCH + 1) * length,
        draw.integers(0, CLASSES, BATCH),
        np.arange(BATCH),
    )
    feed = Batches(examples, np.arange(BATCH), torch.device("cpu"), torch.float32)
    optim = OptimSpec(batch_size=BATCH, precision="bfloat16" if precision == "bfloat16" else "float32")
    budget = BudgetSpec(steps=10**6, evaluate_every=10**6)
    flat = FlatParameters(model, [name for name, _ in model.named_parameters()], set(), {})
    ticks = train(TrainConfig(OBJECTIVE, signature, optim, budget, 0, feed, feed), Progress(model, flat))
    while True:
        start = time.perf_counter()
        next(ticks)
        yield time.perf_counter() - start


def theirs(length: int, steps: int) -> list[float]:
    """Seconds of each step of a BERT for sequence classification in its Trainer, the first left out."""
    transformers: Any = importlib.import_module("transformers")
    config = transformers.BertConfig(
        vocab_size=2,
        hidden_size=WIDTH,
        num_hidden_layers=BLOCKS,
        num_attention_heads=HEADS,
        intermediate_size=FEED_FORWARD,
        max_position_embeddings=length,
        num_labels=CLASSES,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation="sdpa",
    )
    vectors = torch.randn(BATCH, length, WIDTH)
    data = [{"inputs_embeds": vectors[i], "labels": i % CLASSES} for i in range(BATCH)] * (steps + 1)
    marks: list[float] = []

    class Marks(transformers.TrainerCallback):  # type: ignore[misc]
        """Notes when each step ends."""

        def on_step_end(self, *_: Any, **__: Any) -> None:
            marks.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=BATCH,
            max_steps=steps + 1,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            dataloader_num_workers=0,
        )
        transformers.Trainer(
            transformers.BertForSequenceClassification(config), settings, train_dataset=data, callbacks=[Marks()]
        ).train()
    return [last - first for first, last in itertools.pairwise(marks)]


def one(side: str, length: int, threads: int, steps: int) -> list[float]:
    """Seconds of `steps` steps of one side, in a process of its own, after a warm one."""
    seconds: list[float] | None = in_process(
        __file__, "--one", side, "--length", length, "--threads", threads, "--steps", steps
    )
    if seconds is None:
        raise SystemExit(f"{side} at L {length} failed")
    return seconds


def in_turns(sides: tuple[str, str], length: int, options: argparse.Namespace) -> tuple[float, float, float]:
    """Median seconds of a step of both sides, and the median over rounds of first / second."""
    steps = {64: 40, 256: 12}.get(length, 4)
    rounds = [[one(side, length, options.threads, steps) for side in sides] for _ in range(options.rounds)]
    first, second = (statistics.median(t for pair in rounds for t in pair[side]) for side in (0, 1))
    return first, second, statistics.median(statistics.median(a) / statistics.median(b) for a, b in rounds)


def main() -> None:
    """Measure, print and, if asked, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, value in (("threads", 2), ("rounds", 3), ("length", 1024), ("steps", 4)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--write", type=Path, help="the page to write")
    parser.add_argument("--date", default=date.today().isoformat())
    parser.add_argument("--one", choices=["float32", "bfloat16", "bert"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.one == "bert":
        print(json.dumps(theirs(options.length, options.steps)))
        return
    if options.one:
        steps = ours(options.length, options.one)
        print(json.dumps([next(steps) for _ in range(options.steps + 1)][1:]))
        return
    lines = page({**setting("cpu", options.threads), "date": options.date}, options)
    print("\n".join(lines))
    if options.write:
        options.write.write_text("\n".join(lines) + "\n", encoding="utf-8")


def page(where: dict[str, Any], options: argparse.Namespace) -> list[str]:
    """The page of figures."""
    able = "has" if dot_products() else "has no"
    lines = [
        "# A training step of the Image model",
        "",
        f"Measured {sentence(where).replace(', float32', '')}.",
        "",
        f"D {WIDTH}, {BLOCKS} blocks, {HEADS} heads, feed-forward {FEED_FORWARD}, batch {BATCH}; one step of the "
        f"training loop. This processor {able} bfloat16 dot products.",
        "",
        "| L | float32 | bfloat16 | float32 / bfloat16 |",
        "|---|---|---|---|",
    ]
    for length in LENGTHS:
        whole, half, faster = in_turns(("float32", "bfloat16"), length, options)
        goal = f" (goal: {GOAL})" if length == LENGTHS[-1] else ""
        lines.append(f"| {length:,} | {1e3 * whole:.1f} ms | {1e3 * half:.1f} ms | {faster:.2f}{goal} |")
    lines.append("")
    if all(importlib.util.find_spec(name) for name in ("transformers", "accelerate")):
        version = importlib.import_module("transformers").__version__
        lines += [
            f"Float32, beside a BERT of that size in the Trainer of transformers {version} (scaled dot-product "
            "attention, no dropout):",
            "",
            "| L | ours | BERT in its Trainer | BERT / ours |",
            "|---|---|---|---|",
        ]
        for length in LENGTHS:
            mine, other, share = in_turns(("float32", "bert"), length, options)
            lines.append(f"| {length:,} | {1e3 * mine:.1f} ms | {1e3 * other:.1f} ms | {1 / share:.2f} (goal: 1) |")
        lines.append("")
    else:
        lines += [f"No comparison with a Hugging Face BERT: {MISSING}", ""]
    name = "attention-step" + ("" if options.threads > 1 else "-1-thread")
    how = f"python benchmarks/attention_step.py --threads {options.threads} --write docs/benchmarks/{name}.md"
    return [*lines, f"`{how}` makes this page."]


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
