"""Random kernels, slowly: every output as a sum over nine places, in float64."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headstart.baselines.convolve import WEIGHT_PLACES
from headstart.baselines.features import filled
from headstart.baselines.kernels import KernelModel
from headstart.sequence import Examples


def slow_outputs(kernels: KernelModel, x: Examples) -> Iterator[tuple[int, int, int, np.ndarray]]:
    """(row, number of the dilation, kernel, the outputs (R,) that are counted) in the order of the biases."""
    values = filled(x, kernels.mean, kernels.spread).astype(np.float64)
    for row in range(len(x)):
        sequence = values[x.offsets[row] : x.offsets[row + 1]]
        if kernels.kind == "steps":
            sequence = np.concatenate([np.zeros_like(sequence[:1]), np.diff(sequence, axis=0)])
        for number, dilation in enumerate(kernels.dilations):
            for kernel, places in enumerate(WEIGHT_PLACES):
                weights = np.where(np.isin(np.arange(9), places), 2, -1)
                some = [0] if kernels.channels is None else [c for c in kernels.channels[number, kernel] if c >= 0]
                outputs, inner = [], []
                for t in range(len(sequence)):
                    reached = t + (np.arange(9) - 4) * dilation
                    there = (reached >= 0) & (reached < len(sequence))
                    outputs.append(weights[there] @ sequence[reached[there]][:, some].sum(axis=1))
                    inner.append(there.all())
                padded = (kernel + number) % 2 == 0 or not any(inner)
                yield row, number, kernel, np.array(outputs)[np.ones(len(outputs), bool) if padded else np.array(inner)]
