"""Time and memory of s4, s4d, dlr and lstm, each beside plain PyTorch with the same parameters, in one run.

    python benchmarks/state_space.py --write docs/benchmarks/state-space.md

Plain PyTorch means: the kernel as a sum over a complex table of D x N x L (DLR: N x L), the convolution by
`torch.fft`, and autograd's own gradients (for the LSTM, `torch.nn.LSTM`). Both compute the same numbers, which is
checked first at a small size. Every case is a process of its own, and all cases are gone through several times, since a
virtual machine is not equally fast from one minute to the next: the smallest of the forward + backward times,
and the largest resident memory of the whole process, are kept.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
from harness import filled, in_process, parser_of
from torch import Tensor, nn

from headstart.bench.machine import peak_memory, sentence, setting
from headstart.models.mixers.lstm import LSTMSpec
from headstart.models.mixers.mixer import MixerSpec
from headstart.models.mixers.s4 import S4Spec
from headstart.models.mixers.state_space import DLRSpec, S4DSpec

WIDTH = 128
SPECS: dict[str, MixerSpec] = {
    "s4": S4Spec(),
    "s4d": S4DSpec(),
    "dlr": DLRSpec(state=64),
    "dlr-1024": DLRSpec(),
    "lstm": LSTMSpec(directions=2),
}
SIZES = ((1024, 8), (4096, 2), (16384, 1), (65536, 1))
GOALS = {
    ("s4", 1024): "0.15 s",
    ("s4", 16384): "2.5 s, 2 GB",
    ("s4d", 1024): "0.075 s",
    ("s4d", 16384): "1.25 s, 1 GB",
    ("dlr", 1024): "0.075 s",
    ("dlr", 16384): "1.25 s, 1 GB",
    ("s4", 65536): "24 GB",
    ("s4d", 65536): "24 GB",
    ("dlr", 65536): "24 GB",
}


def paired(numbers: Tensor) -> Tensor:
    """(..., 2) real as complex."""
    return torch.view_as_complex(numbers.contiguous())


def plain_s4(kernel: Any, length: int) -> Tensor:
    """Cauchy sums over a (D, N/2, L/2 + 1) complex table, as the paper writes them."""
    size = kernel.length
    half = torch.exp(kernel.log_dt)[:, None] / 2
    state = torch.complex(-torch.exp(kernel.log_decay), kernel.angle)
    low, column, row = paired(kernel.low), paired(kernel.column), paired(kernel.row)
    angle = 2 * torch.pi * torch.arange(size // 2 + 1) / size
    # z = -1 is a pole of the textbook form, which rounding of pi keeps plain code from hitting.
    root = torch.polar(torch.ones_like(angle), -angle)
    node = (1 - root) / (1 + root) / half
    weight = torch.stack([value * other for value in (*row, low.conj()) for other in (column, low)])
    sums = torch.einsum("jdn,dnf->jdf", weight, 1 / (node[:, None] - state.unsqueeze(-1)))
    sums = sums + torch.einsum("jdn,dnf->jdf", weight.conj(), 1 / (node[:, None] - state.conj().unsqueeze(-1)))
    share = sums[-2] / (1 + sums[-1])
    spectrum = torch.stack([sums[2 * i] - sums[2 * i + 1] * share for i in range(row.shape[0])])
    whole: Tensor = torch.fft.irfft(spectrum * 2 / (1 + root), n=size)
    return whole[..., :length]


def plain_s4d(kernel: Any, length: int) -> Tensor:
    """2 Re sum over a (D, N/2, L) complex table of powers."""
    state = torch.complex(-torch.exp(kernel.log_decay), kernel.angle)
    rate = state * torch.exp(kernel.log_dt)[:, None]
    powers = torch.exp(rate.unsqueeze(-1) * torch.arange(length))
    weight = paired(kernel.weight) * (torch.exp(rate) - 1) / state
    return 2 * torch.einsum("cdn,dnl->cdl", weight, powers).real


def plain_dlr(kernel: Any, length: int) -> Tensor:
    """Re sum over an (N, L) complex table of powers."""
    rate = torch.complex(-(kernel.root_decay**2), kernel.angle)
    powers = torch.exp(rate.unsqueeze(-1) * torch.arange(length))
    return torch.einsum("cdn,nl->cdl", paired(kernel.weight), powers).real


PLAIN: dict[str, Callable[[Any, int], Tensor]] = {
    "s4": plain_s4,
    "s4d": plain_s4d,
    "dlr": plain_dlr,
    "dlr-1024": plain_dlr,
}


def plain_layer(kind: str, module: Any) -> Callable[[Tensor], Tensor]:
    """The same layer in plain PyTorch, with the module's own parameters."""
    if kind == "lstm":
        layer = nn.LSTM(WIDTH, WIDTH // 2, batch_first=True, bidirectional=True)
        size = WIDTH // 2
        # Ours are in the order o, i, f, g; torch's i, f, g, o.
        order = torch.arange(4 * size).reshape(4, size)[[1, 2, 3, 0]].flatten()
        with torch.no_grad():
            for way, suffix in enumerate(("", "_reverse")):
                getattr(layer, f"weight_ih_l0{suffix}").copy_(module.input[way].T[order])
                getattr(layer, f"weight_hh_l0{suffix}").copy_(module.recurrent[way].T[order])
                getattr(layer, f"bias_ih_l0{suffix}").copy_(module.bias[way][order])
                getattr(layer, f"bias_hh_l0{suffix}").zero_()
        return lambda x: cast(Tensor, layer(x)[0])

    def forward(x: Tensor) -> Tensor:
        length = x.shape[1]
        ahead, behind = PLAIN[kind](module.kernel, length)
        circle = nn.functional.pad(ahead, (0, length)) + nn.functional.pad(behind.flip(-1), (length, 0))
        inputs = x.transpose(1, 2)
        spectrum = torch.fft.rfft(inputs, n=2 * length) * torch.fft.rfft(circle)
        y = torch.fft.irfft(spectrum, n=2 * length)[..., :length] + inputs * module.skip[:, None]
        y = module.output(nn.functional.gelu(y.transpose(1, 2)))
        return nn.functional.glu(y, -1) if module.gate == "glu" else cast(Tensor, y)

    return forward


def layers(kind: str, length: int) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """(ours, plain) with equal parameters."""
    torch.manual_seed(0)
    module = SPECS[kind].build(WIDTH, length, False)
    return (lambda x: cast(Tensor, module(x, None))), plain_layer(kind, module)


def disagreement(kind: str) -> float:
    """Largest difference of the two layers' outputs at L 256, as a share of the largest output."""
    ours, plain = layers(kind, 256)
    x = torch.randn(2, 256, WIDTH)
    with torch.no_grad():
        return float((ours(x) - plain(x)).abs().max() / plain(x).abs().max())


def measure(kind: str, which: str, length: int, batch: int, threads: int) -> dict[str, float]:
    """Smallest time of forward + backward, and the peak resident memory of this process."""
    torch.set_num_threads(threads)
    layer = layers(kind, length)[which == "plain"]
    x = torch.randn(batch, length, WIDTH, requires_grad=True)
    times: list[float] = []
    while len(times) < 3 or (sum(times) < 2.0 and len(times) < 50):
        start = time.perf_counter()
        layer(x).square().mean().backward()  # type: ignore[no-untyped-call]
        times.append(time.perf_counter() - start)
    return {"seconds": min(times), "memory": peak_memory("cpu") / 1e9}


def needs(kind: str, length: int) -> float:
    """GB that the plain layer takes at a batch of 1: measured at L 16,384, and in proportion to L."""
    return {"s4": 2.6, "s4d": 2.6, "dlr-1024": 1.5}.get(kind, 0.5) * length / 16384


Result = dict[str, float] | None


def rounds(count: int, threads: int, available: float) -> dict[tuple[str, int, str], Result]:
    """All cases, `count` times over; of each the smallest time and the largest memory. Printed as they come."""
    best: dict[tuple[str, int, str], Result] = {}
    for _ in range(count):
        for kind in SPECS:
            for length, batch in SIZES if kind != "lstm" else SIZES[:2]:
                for which in ("ours", "plain"):
                    if which == "plain" and needs(kind, length) >= available:
                        continue
                    case = json.dumps([kind, which, length, batch, threads])
                    figures: Result = in_process(__file__, "--case", case)
                    before = best.get((kind, length, which))
                    print(kind, length, which, figures, flush=True)
                    if figures and before:
                        figures = {
                            "seconds": min(figures["seconds"], before["seconds"]),
                            "memory": max(figures["memory"], before["memory"]),
                        }
                    best[kind, length, which] = figures
    return best


def table(results: dict[tuple[str, int, str], Result]) -> list[str]:
    """The results as lines of a table."""
    rows = ["| mixer | L x batch | headstart | plain PyTorch | times faster | goal |", "|---|---|---|---|---|---|"]
    for kind in SPECS:
        for length, batch in SIZES if kind != "lstm" else SIZES[:2]:
            ours, plain = results.get((kind, length, "ours")), results.get((kind, length, "plain"))
            cells = [
                f"{r['seconds']:.3f} s, {r['memory']:.2f} GB" if r else "more memory than there is"
                for r in (ours, plain)
            ]
            faster = f"{plain['seconds'] / ours['seconds']:.1f}" if ours and plain else ""
            goal = GOALS.get((kind, length), "")
            rows.append(f"| {kind} | {length:,} x {batch} | {cells[0]} | {cells[1]} | {faster} | {goal} |")
    return rows


def main() -> None:
    """Check agreement, measure, print and, if asked, write."""
    parser = parser_of(__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2, help="times over all cases; the smallest is kept")
    parser.add_argument("--available", type=float, default=20.0, help="GB that a plain layer may take")
    parser.add_argument("--write", type=Path, help="the page to write")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(*json.loads(options.case))))
        return
    apart = {kind: disagreement(kind) for kind in SPECS}
    assert max(apart.values()) < 1e-3, f"the two are not the same layer: {apart}"
    rows = table(rounds(options.rounds, options.threads, options.available))
    print("\n".join(rows))
    if options.write:
        options.write.write_text(page(sentence(setting("cpu", options.threads)), apart, rows))


def page(where: str, apart: dict[str, float], rows: list[str]) -> str:
    """The page of figures."""
    agreement = ", ".join(f"{kind} {value:.0e}" for kind, value in apart.items())
    return filled("state-space", where=where, width=WIDTH, agreement=agreement, table=rows)


if __name__ == "__main__":
    main()
