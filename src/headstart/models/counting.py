"""Counts of floating-point operations, to hold closed forms to: matrix products, convolutions and FFTs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

aten = torch.ops.aten


def _transform(shape: Any, axes: Any, real: bool) -> int:
    """5 n log2 n for each complex transform of n points, half of that for a real one."""
    points: int = math.prod(shape[axis] for axis in axes)
    others: float = math.prod(shape) / points
    return round((2.5 if real else 5.0) * others * points * math.log2(max(points, 2)))


def _from_real(shape: Any, axes: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
    del out_shape
    return _transform(shape, axes, True)


def _to_real(shape: Any, axes: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
    del shape
    return _transform(out_shape, axes, True)


def _complex(shape: Any, axes: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
    del out_shape
    return _transform(shape, axes, False)


def _attention(query: Any, key: Any, value: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
    """Two products per head: queries with keys, weights with values."""
    del out_shape
    batch, heads, asked, width = query
    return int(2 * batch * heads * asked * key[2] * (width + value[3]))


def counted_flops(run: Callable[[], Any]) -> float:
    """Operations of one call: what torch's counter sees (a multiply-add is two), and FFTs."""
    rules: dict[Any, Any] = {
        aten._fft_r2c: _from_real,
        aten._fft_c2r: _to_real,
        aten._fft_c2c: _complex,
        # The fused kernel of CPUs is the one that torch 2.13 does not count by itself.
        aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    }
    counter = FlopCounterMode(display=False, custom_mapping=rules)
    with counter, torch.no_grad():
        run()
    return float(counter.get_total_flops())


def growth(flops: Callable[[int], float], length: int = 2**22) -> str:
    """How a closed form grows with the length: `L`, `L log L`, `L^1.5` or `L^2`.

    What exceeds linear growth, f(2 L) - 2 f(L), is told by how fast it doubles itself.
    """
    first = flops(2 * length) - 2 * flops(length)
    second = flops(4 * length) - 2 * flops(2 * length)
    if first < 1e-4 * flops(length):
        return "L"
    power = round(2 * math.log2(second / first)) / 2
    return "L log L" if power == 1 else f"L^{power:g}"
