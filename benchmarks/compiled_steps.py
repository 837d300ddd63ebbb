"""Training steps whose forward and backward passes `torch.compile` compiles, beside plain ones, in processor time.

    python benchmarks/compiled_steps.py [--models digits,s4d,gated_delta_net] [--seconds 15]

On a CPU, one thread, batches of one length; needs a C++ compiler. For each model: the median step; the first steps with
all that compiling takes, without kept kernels and with those of the run before.
"""

from __future__ import annotations

import json
import os
import resource
import tempfile
import time
from statistics import median

import torch
from harness import in_process, markdown, parser_of
from train_speed import EXAMPLES, Example, case_of, stage_of

from headstart.sequence import Signature
from headstart.training.loop import train

_USUAL = {"blocks": 2, "width": 64, "position": {"kind": "none"}}
_NUMBERS = Signature("floats", 1, 256, 256, "class", classes=10)
_TOKENS = Signature("tokens", 64, 64, 64, "class", classes=10)
EXAMPLES |= {
    "s4d": Example({**_USUAL, "mixer": {"kind": "s4d"}}, _NUMBERS, 16, 1_000, "made up"),
    "gated_delta_net": Example(
        {**_USUAL, "causal": True, "mixer": {"kind": "gated_delta_net"}}, _TOKENS, 32, 1_000, "made up"
    ),
}


def timed(name: str, compiled: bool, seconds: float) -> list[float]:
    """Processor seconds of a step, and of the first two with all that they started."""
    example, model = case_of({"model": name, "device": "cpu", "threads": 1})
    if compiled:
        model.forward = torch.compile(model.forward, dynamic=False)
    ticks, began = train(*stage_of(example, model, "cpu")), time.process_time()
    next(ticks), next(ticks)
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    first, steps = time.process_time() - began + others.ru_utime + others.ru_stime, list[float]()
    while sum(steps) < seconds:
        began = time.process_time()
        next(ticks)
        steps.append(time.process_time() - began)
    return [median(steps), first]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--models", default="digits,s4d,gated_delta_net")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--way", choices=["plain", "compiled"])
    options = parser.parse_args()
    if options.way:
        print(json.dumps(timed(options.models, options.way == "compiled", options.seconds)))
        return
    heads = [
        "model",
        "plain step",
        "compiled step",
        "plain / compiled",
        "compiling",
        "again",
        "pays from step",
        "again",
    ]
    print("\n".join(markdown(heads, [])))
    for name in options.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            os.environ |= {"TORCHINDUCTOR_CACHE_DIR": folder, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
            words = ("--models", name, "--seconds", str(options.seconds), "--way")
            plain, cold, warm = (in_process(__file__, *words, how) for how in ("plain", "compiled", "compiled"))
        faster = min(cold[0], warm[0])
        pays = [f"{run[1] / (plain[0] - faster):,.0f}" if plain[0] > faster else "never" for run in (cold, warm)]
        times = [f"{plain[0] * 1e3:.1f} ms", f"{faster * 1e3:.1f} ms", f"{plain[0] / faster:.2f}"]
        print("| " + " | ".join([name, *times, f"{cold[1]:.1f} s", f"{warm[1]:.1f} s", *pays]) + " |", flush=True)


if __name__ == "__main__":
    main()
