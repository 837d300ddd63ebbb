"""FLOPs: what a backward pass costs beside the forward pass, where only some parameters learn; and counted ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from headstart.models.model import SequenceModel
from headstart.models.positions import Relative

Flops = float | np.ndarray
"""Of one sequence, or (n,) of sequences of n lengths."""
FLOPS_AGREE = 0.05
"""How far stated FLOPs may be from those counted: a share of these."""


def flops_are_off(stated: float, counted: float, uncounted: str) -> bool:
    """Whether stated FLOPs are below those counted, or above them without a word on what a count misses."""
    off = stated / max(counted, 1.0) - 1
    return off < -FLOPS_AGREE or (off > FLOPS_AGREE and not uncounted)


class Learning:
    """What of each layer learns, looked up once for sequences of all lengths. trained: names of parameters."""

    def __init__(self, network: nn.Module, trained: Collection[str]) -> None:
        self.network, self.trained = network, frozenset(trained)
        self.within = cache(self._within)
        self.weights = cache(lambda name: list(_weights(network.get_submodule(name), name)))
        self.kernels = cache(lambda name: set(_kernel_parameters(network.get_submodule(name), name)))

    def _within(self, name: str) -> set[str]:
        """Parameters that train and act within a layer."""
        relative = isinstance(getattr(self.network, "position", None), Relative)
        shared = {parameter for parameter in self.trained if relative and parameter.startswith("position.")}
        own = {parameter for parameter in self.trained if parameter.startswith(f"{name}.")} - shared
        block, _, layer = name.rpartition(".")
        return own | shared if layer == "mixer" and self.network.get_submodule(block).takes_bias else own


def training_flops(
    learning: Learning,
    layers: Iterable[tuple[str, Flops]],
    length: int | np.ndarray,
    kernels: Mapping[str, Flops] | None = None,
    batch: int = 1,
) -> Flops:
    """FLOPs of a forward and a backward pass over one sequence of `length`, where `learning` says what learns.

    Of many lengths at once, all numbers are arrays (n,), one number for each.

    layers: (module, FLOPs of the forward pass), as `layer_flops` of a model's spec gives them. kernels: the part of
    these that makes a kernel, as `kernel_flops` gives it. It is spent once for the `batch` sequences of a step, and its
    backward pass only where a parameter of the kernel learns.

    A product with a weight costs as much again for the gradient of the weight, if that is trained, and for the gradient
    of what it is multiplied with, if something below it is trained. What a mixer computes besides (products of queries
    and keys, convolutions with its kernel) costs twice as much again wherever a gradient passes. So a step that trains
    all of a model costs three forward passes, but for the encoder's inputs, which need no gradient.

    Relative positions act within mixers; the two layers of a parallel block pass gradients beside each other.
    """
    total: Flops = 0.0
    below, within, network = False, False, learning.network
    for name, flops in layers:
        own = learning.within(name)
        block, _, layer = name.rpartition(".")
        # What passes a gradient below this layer: of a parallel block's second layer, what the block begins with.
        beside = layer.endswith("feed_forward") and bool(network.get_submodule(block).parallel)
        passes = within if beside else below
        if layer == "norm_mixer" or beside:
            within = passes or (beside and bool(own))
        if kernels and name in kernels:
            learns = bool(own & learning.kernels(name))
            total = total + (3 if learns else 1) * kernels[name] / batch
            flops = flops - kernels[name]
        if np.any(flops) and (passes or own):
            positions = -(-length // int(getattr(network, "patch", 1))) if name.startswith("blocks.") else length
            total = total + _backward(learning, name, flops, positions, passes)
        total = total + flops
        below = below or bool(own)
    return total


def frozen_layers(learning: Learning, layers: Sequence[tuple[str, Flops]]) -> tuple[int, int]:
    """(how many of `layers`, how many blocks) no gradient enters, counted from the input, in whole blocks.

    One block more than there are: the last norm, too. (0, 0) where something trains below the first block, or nothing.
    """
    first = next((name for name, _ in layers if learning.within(name)), "encoder")
    names = [name for name, _ in layers]
    if first.startswith("blocks."):
        block = int(first.split(".")[1])
        return next(i for i, name in enumerate(names) if name.startswith(f"blocks.{block}.")), block
    blocks = len({name.split(".")[1] for name in names if name.startswith("blocks.")})
    return (names.index(first), blocks + (first == "head")) if first in ("norm", "head") and blocks else (0, 0)


def frozen_blocks(model: SequenceModel, trained: Collection[str]) -> int:
    """How many blocks no gradient enters, as `frozen_layers` counts them, of a model whose spec is not known."""
    names = ["encoder", "position", "embedding_norm"]
    for number in range(len(model.blocks)):
        names += [f"blocks.{number}.{layer}" for layer in ("norm_mixer", "mixer", "norm_feed_forward", "feed_forward")]
    return frozen_layers(Learning(model, trained), [(name, 0.0) for name in [*names, "norm", "head"]])[1]


def _backward(learning: Learning, name: str, flops: Flops, length: int | np.ndarray, below: bool) -> Flops:
    """FLOPs of the gradients of one layer, of `flops` forward over `length` positions (of blocks: joined ones)."""
    trained = learning.within(name)
    if name == "net":  # a person's own: of its layers only the weights are known, of which tables are not multiplied
        layer = learning.network.get_submodule(name)
        tables = {table.weight for table in layer.modules() if isinstance(table, nn.Embedding)}
        sizes = {f"{name}.{path}": 0 if p in tables else p.numel() for path, p in layer.named_parameters()}
        return flops * (1 + sum(sizes[path] for path in trained) / max(sum(sizes.values()), 1))
    products: dict[str, Flops] = {weight: 2.0 * length * size for weight, size in learning.weights(name)}
    last = list(products)[-1] if products and name != "encoder" else ""
    inside = bool(trained - {last, last.removesuffix("weight") + "bias"})
    # Heads pool before their layers, and closed forms leave small layers out: the layer's own number is the whole.
    whole: Flops = sum(products.values())
    if np.any(whole):
        scaled = (whole > flops) | (not name.endswith(".mixer"))
        products = {weight: np.where(scaled, product * flops / whole, product) for weight, product in products.items()}
        whole = np.where(scaled, flops, whole)
    total = 2 * (flops - whole) if below or inside else 0.0
    for weight, product in products.items():
        total = total + (product * (weight in trained) + product * (below or (inside and weight == last)))
    return total


def _kernel_parameters(layer: nn.Module, name: str) -> Iterator[str]:
    """Names of parameters of which a kernel is made."""
    prefixes = tuple(path for path, part in getattr(layer, "parts", {}).items() if part == "kernel")
    return (f"{name}.{path}" for path, _ in layer.named_parameters() if path.startswith(prefixes))


def _weights(layer: nn.Module, name: str) -> Iterator[tuple[str, int]]:
    """(name, size) of each matrix that multiplies every position: of linear layers, and those a module names itself."""
    made = {parameter.rpartition(".")[0] for parameter in _kernel_parameters(layer, name)}
    for path, module in layer.named_modules(prefix=name):
        if path in made:
            continue
        if isinstance(module, nn.Linear):
            yield f"{path}.weight", module.weight.numel()
        for own in getattr(module, "per_position", ()):
            if (parameter := getattr(module, own)) is not None:
                yield f"{path}.{own}", parameter.numel()


def _fft_rule(real: Literal["input", "output", "neither"]) -> Callable[..., int]:
    """Counts 5 n log2 n for each complex transform of n points, half of that for a real one."""

    def count(shape: Any, axes: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
        size: Sequence[int] = out_shape if real == "output" else shape
        points = math.prod(size[axis] for axis in axes)
        each = (5.0 if real == "neither" else 2.5) * points * math.log2(max(points, 2))
        return int(math.prod(size) // points * each)

    return count


def _attention_rule(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Two products per head: queries with keys, weights with values."""
    batch, heads, asked, width = query
    return int(2 * batch * heads * asked * key[2] * (width + value[3]))


def _lstm_rule(x: Any, into: Any, back: Any, *_: Any, **__: Any) -> int:
    """The two products of each position: x (L, B, I) or (B, L, I), into (4 H, I), back (4 H, H)."""
    return int(2 * math.prod(x[:-1]) * (math.prod(into) + math.prod(back)))


def flop_counter() -> Any:
    """A context that counts what torch's counter sees (a multiply-add is two), and FFTs: `get_total_flops()`."""
    from torch.utils.flop_counter import FlopCounterMode

    rules: dict[Any, Any] = {
        torch.ops.aten._fft_r2c: _fft_rule("input"),
        torch.ops.aten._fft_c2r: _fft_rule("output"),
        torch.ops.aten._fft_c2c: _fft_rule("neither"),
        # The fused kernel of CPUs is the one that torch 2.13 does not count by itself.
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention_rule,
        torch.ops.aten.mkldnn_rnn_layer: _lstm_rule,
    }
    return FlopCounterMode(display=False, custom_mapping=rules)


def counted_flops(run: Callable[[], Any]) -> float:
    """Operations of one call. Torch's fused layer of a Transformer, which it does not count, is taken apart for it."""
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with flop_counter() as counter, torch.no_grad():
            run()
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
    return float(counter.get_total_flops())
