"""Time of the recurrent mixers beside attention and S4, forward + backward, taking turns in one process.

    python benchmarks/recurrent.py [--length 1024] [--width 128] [--rounds 11]

Claim: at L 1,024 a causal layer takes at most three times the time of attention, but for the GRU, whose steps must
follow one another. Prints the table of docs/benchmarks/recurrent.md: medians of the processor time of one thread,
which other work on the machine changes less than the clock, with the first and third quartile.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time

import torch
from torch import nn

from headstart.models.mixers import MIXERS

NEW = ("min_gru", "gru", "gated_linear_attention", "retnet", "delta_net", "mamba", "hyena", "rwkv6")
BESIDE = ("attention", "linear_attention", "s4", "lstm")


def layers(names: tuple[str, ...], width: int, length: int, causal: bool) -> dict[str, nn.Module]:
    """The mixers with their default settings."""
    torch.manual_seed(0)
    return {name: MIXERS[name].load()().build(width, length, causal) for name in names}


def measured(modules: dict[str, nn.Module], width: int, length: int, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each mixer in each round, after two that do not count."""
    x, weight = torch.randn(1, length, width, requires_grad=True), torch.randn(1, length, width)
    times: dict[str, list[float]] = {name: [] for name in modules}
    for number in range(rounds + 2):
        for name, module in modules.items():
            start = time.thread_time()
            (module(x, None) * weight).sum().backward()
            if number >= 2:
                times[name].append(1e3 * (time.thread_time() - start))
    return times


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=11)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"L {asked.length:,}, D {asked.width}, batch 1, float32, 1 thread, torch {torch.__version__}, {platform.machine()}\n"
    )
    print("| mixer | parameters | causal | quartiles | of attention | both ways | of attention |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    names = (*BESIDE, *NEW)
    ways = [layers(names, asked.width, asked.length, causal) for causal in (True, False)]
    causal, both = (measured(modules, asked.width, asked.length, asked.rounds) for modules in ways)
    for name in names:
        low, _, high = statistics.quantiles(causal[name], n=4)
        causal_ms, both_ms = (statistics.median(times[name]) for times in (causal, both))
        first, second = (statistics.median(times["attention"]) for times in (causal, both))
        size = sum(parameter.numel() for parameter in ways[0][name].parameters())
        print(
            f"| {name} | {size:,} | {causal_ms:.1f} ms | {low:.1f} to {high:.1f} | {causal_ms / first:.2f} | "
            f"{both_ms:.1f} ms | {both_ms / second:.2f} |"
        )


if __name__ == "__main__":
    main()
