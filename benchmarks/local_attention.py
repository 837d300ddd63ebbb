"""Time and memory of attention in windows beside full attention, forward + backward, in one run.

    python benchmarks/local_attention.py [--length 65536] [--window 4096] [--width 128] [--heads 8] [--repeats 1]

Claim: at length 65,536 and window 4,096 it takes under 0.35 of the time of full attention (both with the fused
kernel), and its memory is linear in the length. Every row is a process of its own: the smallest of the repeated
times (by the clock, and of the processors, which other work on the machine changes less), and the largest
resident memory beyond what the process had before the mixer ran.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import torch
from harness import in_process, parser_of

from headstart.bench.machine import peak_memory
from headstart.models.mixers.attention import AttentionSpec
from headstart.models.mixers.local_attention import LocalAttentionSpec
from headstart.runner.machine import machine

GOAL = 0.35


def measure(kind: str, length: int, of: argparse.Namespace) -> dict[str, float]:
    """Seconds of a forward + backward of one sequence, and megabytes of memory that it took."""
    torch.manual_seed(0)
    spec = (
        AttentionSpec(heads=of.heads) if kind == "attention" else LocalAttentionSpec(heads=of.heads, window=of.window)
    )
    mixer = spec.build(of.width, length, of.causal)
    x = torch.randn(1, length, of.width, requires_grad=True)
    # A short run first, so that what is allocated once is not counted.
    mixer(x[:, :256], None).sum().backward()
    before, seconds, processor_seconds = peak_memory("cpu"), [], []
    for _ in range(of.repeats):
        start, used = time.perf_counter(), time.process_time()
        mixer(x, None).square().mean().backward()
        seconds.append(time.perf_counter() - start)
        processor_seconds.append(time.process_time() - used)
    return {
        "seconds": min(seconds),
        "processor_seconds": min(processor_seconds),
        "megabytes": (peak_memory("cpu") - before) / 1e6,
        "gflops": spec.flops(of.width, length, of.causal) / 1e9,
    }


def main() -> None:
    """Measure, print a table, and say whether the claim holds."""
    parser = parser_of(__doc__)
    for name, value in (("length", 65536), ("window", 4096), ("width", 128), ("heads", 8), ("repeats", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--one", choices=["attention", "local_attention"], help=argparse.SUPPRESS)
    of = parser.parse_args()
    if of.one:
        print(json.dumps(measure(of.one, of.length, of)))
        return
    print(
        f"{machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}; one sequence, "
        f"D {of.width}, {of.heads} heads, window {of.window}{', causal' if of.causal else ''}, float32\n"
    )
    print("| mixer | L | forward + backward | processor time | memory | forward GFLOPs |\n|---|---|---|---|---|---|")
    rows = {}
    for kind, length in [
        ("local_attention", of.length // 4),
        ("local_attention", of.length // 2),
        ("local_attention", of.length),
        ("attention", of.length),
    ]:
        row = rows[kind, length] = in_process(__file__, *sys.argv[1:], "--one", kind, "--length", length)
        print(
            f"| {kind} | {length:,} | {row['seconds']:.1f} s | {row['processor_seconds']:.1f} s | "
            f"{row['megabytes']:.0f} MB | {row['gflops']:.0f} |",
            flush=True,
        )
    local, full = rows["local_attention", of.length], rows["attention", of.length]
    shares = [local[key] / full[key] for key in ("seconds", "processor_seconds")]
    print(
        f"\nlocal / full: {shares[0]:.2f} of the time, {shares[1]:.2f} of the processor time "
        f"(goal at L 65,536: under {GOAL})"
    )


if __name__ == "__main__":
    main()
