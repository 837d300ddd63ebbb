"""Mantis and MantisV2: patches of a series by convolutions and by their scale, and a transformer of their own above.

Source: Feofanov et al. 2025 and released code. Letters as in `series`; H heads of E numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from headstart.checkpoints.family import Config, Family, Line, TensorShape
from headstart.checkpoints.series import Reader, SeriesFields, SeriesModelSpec, stretched
from headstart.errors import BadInput
from headstart.models.mixers.attend import attend
from headstart.models.mixers.mixer import joined, split
from headstart.spec import read

NamedTensors = Mapping[str, Tensor]
MANTIS_DEPTH = 3
"""Layers of MantisV2 that are read: its authors found the third one's vectors better features than the last one's."""
TINY = 1e-15
"""Epsilon of norms over encoded scalars and over tokens."""
BASE, THETA = 512.0, 10_000.0
"""Of the rotary positions of MantisV2 and of their decay."""


class MantisSpec(SeriesModelSpec):
    """Sequences of any length stretched to `length` in straight lines, gaps crossed before, in `patches` patches.

    A patch: the mean over its positions of convolutions (`kernel` taps) of the steps and of the values, both
    standardised, and its mean and deviation as they are, encoded at `scales` (so many) scales. Features: `mantis`: the
    class token's vector after `blocks` blocks; `mantis_v2`: that and the mean over the others' after three.
    """

    kind: Literal["mantis", "mantis_v2"]
    width: int = Field(ge=1)
    blocks: int = Field(ge=1)
    heads: int = Field(ge=1)
    head_width: int = Field(ge=1)
    hidden: int = Field(ge=1)
    patches: int = Field(ge=1)
    kernel: int = Field(ge=1)
    scalar: int = Field(ge=1)
    scales: int = Field(ge=1)
    shift: float = Field(gt=1)

    @property
    def size(self) -> int:
        return self.width * (2 if self.kind == "mantis_v2" else 1)

    @property
    def tokens(self) -> int:
        return self.patches + 1

    def shapes(self) -> dict[str, TensorShape]:
        width, inner, out = self.width, self.heads * self.head_width, dict[str, TensorShape]()

        def layer(name: str, *shape: int, bias: bool = True) -> None:
            out.update({f"{name}.weight": shape} | ({f"{name}.bias": shape[:1]} if bias else {}))

        for number in range(2):
            layer(f"tokgen_unit.convs.{number}.conv", width, 1, self.kernel)
            layer(f"tokgen_unit.layer_norms.{number}", width)
            scalars = f"tokgen_unit.scalar_encoders.{number}"
            out[f"{scalars}.scales"] = (self.scales,)
            for scale in range(self.scales):
                out |= {f"{scalars}.encoders.{scale}.{name}": (1, self.scalar) for name in "wb"}
                layer(f"{scalars}.encoders.{scale}.layer_norm", self.scalar)
        layer("tokgen_unit.linear_encoder.linear", width, 2 * (width + self.scalar))
        layer("tokgen_unit.linear_encoder.layer_norm", width)
        out["cls_token"] = (width,)
        out |= {"pos_encoder.pe": (self.tokens, 1, width)} if self.kind == "mantis" else {}
        for number in range(self.blocks):
            block = f"transformer.layers.{number}"
            if self.kind == "mantis":
                layer(f"{block}.0.norm", width)
                layer(f"{block}.0.fn.to_qkv", 3 * inner, width, bias=False)
                layer(f"{block}.0.fn.to_out.0", width, inner)
                layer(f"{block}.1.norm", width)
                layer(f"{block}.1.fn.net.0", self.hidden, width)
                layer(f"{block}.1.fn.net.3", width, self.hidden)
            else:
                out |= {f"{block}.norm{half}.scale": (width,) for half in (1, 2)}
                layer(f"{block}.attention.wQKV", 3 * inner, width)
                layer(f"{block}.attention.wO", width, inner)
                layer(f"{block}.mlp.0", 2 * self.hidden, width)
                layer(f"{block}.mlp.2", width, self.hidden)
        return out

    def reader(self, weights: NamedTensors) -> Reader:
        return partial(self._read, weights)

    def _read(self, weights: NamedTensors, x: Tensor, seen: Tensor) -> Tensor:
        tokens = self._tokens(weights, stretched(x, self.length).to(weights["cls_token"].dtype))
        head = weights["cls_token"].expand(len(x), 1, -1)
        if self.kind == "mantis":
            x = torch.cat([head, tokens], 1) + weights["pos_encoder.pe"][:, 0]
            for number in range(self.blocks):
                x = self._block(weights, f"transformer.layers.{number}", x)
            return x[:, 0]
        x = torch.cat([tokens, head], 1)
        for number in range(self.blocks):
            x = self._block_v2(weights, f"transformer.layers.{number}", x)
        return torch.cat([x[:, -1], x[:, :-1].mean(1)], 1)

    def _tokens(self, weights: NamedTensors, x: Tensor) -> Tensor:
        """(C, N, D) of x (C, L)."""
        parts = []
        for number, values in enumerate((F.pad(x.diff(dim=1), (0, 1)), x)):
            deviation, mean = torch.std_mean(values, 1, keepdim=True)
            scaled = ((values - mean) / (deviation + 1e-5))[:, None]
            name = f"tokgen_unit.convs.{number}.conv"
            filtered = F.conv1d(scaled, weights[f"{name}.weight"], weights[f"{name}.bias"], padding=self.kernel // 2)
            normed = _norm(weights, f"tokgen_unit.layer_norms.{number}", filtered.transpose(1, 2), 1e-5)
            parts.append(torch.unflatten(normed, 1, (self.patches, -1)).mean(2))
        deviation, mean = torch.std_mean(torch.unflatten(x, 1, (self.patches, -1)), 2, keepdim=True)
        parts += [self._scalar(weights, number, value) for number, value in enumerate((mean, deviation))]
        name = "tokgen_unit.linear_encoder"
        return _norm(weights, f"{name}.layer_norm", _linear(weights, f"{name}.linear", torch.cat(parts, -1)), TINY)

    def _scalar(self, weights: NamedTensors, number: int, x: Tensor) -> Tensor:
        """(C, N, S) of scalars x (C, N, 1): encoded at each scale, those near their own size weighing most."""
        name = f"tokgen_unit.scalar_encoders.{number}"
        scales = weights[f"{name}.scales"]
        weight = (x.abs() / scales + self.shift).log().reciprocal().abs()
        weight = weight / weight.sum(-1, keepdim=True)
        encoded = []
        for index, scale in enumerate(scales):
            encoder = f"{name}.encoders.{index}"
            values = x * weights[f"{encoder}.w"] + scale * weights[f"{encoder}.b"]
            encoded.append(_norm(weights, f"{encoder}.layer_norm", values, TINY))
        return (torch.stack(encoded, -2) * weight[..., None]).sum(-2)

    def _block(self, weights: NamedTensors, name: str, x: Tensor) -> Tensor:
        """(C, N, D) through a block of `mantis`: attention and an MLP behind layer norms."""
        parts = _linear(weights, f"{name}.0.fn.to_qkv", _norm(weights, f"{name}.0.norm", x, 1e-5)).chunk(3, -1)
        queries, keys, values = (split(part, self.heads) for part in parts)
        mixed = attend(queries, keys, values, short=self.tokens)
        x = x + _linear(weights, f"{name}.0.fn.to_out.0", joined(mixed))
        hidden = F.gelu(_linear(weights, f"{name}.1.fn.net.0", _norm(weights, f"{name}.1.norm", x, 1e-5)))
        return x + _linear(weights, f"{name}.1.fn.net.3", hidden)

    def _block_v2(self, weights: NamedTensors, name: str, x: Tensor) -> Tensor:
        """The same of `mantis_v2`: rotary positions, a gated layer, norms without a mean."""
        parts = _linear(weights, f"{name}.attention.wQKV", _root(weights, f"{name}.norm1", x))
        # Heads run fastest there: (3, E, H).
        queries, keys, values = torch.unflatten(parts, -1, (3, -1, self.heads)).permute(2, 0, 4, 1, 3)
        cosine, sine, decay = _rotary(x.shape[1], self.head_width, x)
        queries, keys = ((part * cosine + _turned(part) * sine) for part in (queries, keys))
        mixed = attend(queries * decay, keys / decay, values, short=self.tokens)
        x = x + _linear(weights, f"{name}.attention.wO", joined(mixed))
        gate, held = _linear(weights, f"{name}.mlp.0", _root(weights, f"{name}.norm2", x)).chunk(2, -1)
        return x + _linear(weights, f"{name}.mlp.2", F.silu(gate) * held)


def _linear(weights: NamedTensors, name: str, x: Tensor) -> Tensor:
    return F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))


def _norm(weights: NamedTensors, name: str, x: Tensor, epsilon: float) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], epsilon)


def _root(weights: NamedTensors, name: str, x: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], weights[f"{name}.scale"], 1e-8)


def _turned(x: Tensor) -> Tensor:
    """Neighbours (a, b) as (-b, a)."""
    first, second = torch.unflatten(x, -1, (-1, 2)).unbind(-1)
    return torch.stack([-second, first], -1).flatten(-2)


def _rotary(count: int, width: int, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(N, E) each: cosines and sines, by neighbours, and the decay, by halves of a head, as released."""
    even, position = torch.arange(0, width, 2).to(like), torch.arange(count).to(like)[:, None]
    angle = (position * THETA ** (-even / width)).repeat_interleave(2, 1)
    decay = ((even + 0.4 * width) / (1.4 * width)) ** ((position - (count - 1) // 2) / BASE)
    return angle.cos(), angle.sin(), decay.repeat(1, 2)


def _fields(config: Config) -> SeriesFields:
    second = "kernel_size" in config.table
    sizes = {
        "width": config.number("hidden_dim", 256),
        "blocks": config.blocks("transf_depth", 6),
        "heads": config.number("transf_num_heads", 8),
        "head_width": config.number("transf_dim_head", 32 if second else 128),
        "hidden": config.number("transf_mlp_dim", 512),
        "patches": config.number("num_patches", 32, most=2**12),
        "length": config.number("seq_len", 512, most=2**16),
        "scalar": config.number("hidden_dim_scalar_enc", 32),
    }
    patches, length, depth = sizes["patches"], sizes["length"], sizes["blocks"]
    if length % patches or length == patches:
        raise BadInput(f"{config.path}: num_patches: {patches} are no whole part of {length} positions; correct it")
    heads, each = sizes["heads"], sizes["head_width"]
    if second and (each % 2 or heads * each != sizes["width"]):
        raise BadInput(
            f"{config.path}: transf_dim_head: {heads} heads of {each} numbers do not make up an even share each of "
            f"{sizes['width']}, as MantisV2's do; take another checkpoint"
        )
    scales, kernel = config.table.get("scalar_scales"), length // patches
    if second and (kernel := config.number("kernel_size")) % 2 == 0:
        raise BadInput(f"{config.path}: kernel_size: {kernel} taps have no middle; take another checkpoint")
    own = {
        "kind": "mantis_v2" if second else "mantis",
        "kernel": kernel // 2 * 2 + 1,
        "scales": len(scales) if isinstance(scales, (list, tuple)) and scales else 9,
        "shift": config.real("epsilon_scalar_enc", 1.1),
        "blocks": min(depth, MANTIS_DEPTH) if second else depth,
    }
    series = read(MantisSpec, {**sizes, **own}, str(config.path))
    blocks: dict[str, Any] = {
        "width": series.width,
        "blocks": series.blocks,
        "mixer": {"kind": "attention", "heads": heads, **({} if second else {"head_width": each})},
        "norm": "rms" if second else "layer",
        "feed_forward": {"width": series.hidden, **({"kind": "glu", "gate": "silu"} if second else {})},
        "position": {"kind": "rotary" if second else "sinusoidal"},
    }
    return SeriesFields(series.kind, blocks, None, series=series)


def _lines(config: Config) -> tuple[Line, ...]:
    return tuple(Line((name,), (name,)) for name in _fields(config).shapes())


MANTIS = Family(
    model=lambda config: dict(_fields(config).model),
    lines=_lines,
    dropped={r"prj\..*": "a head"},
    prefixes=("vit_unit.", "transf_unit."),
    fields=_fields,
)
MANTIS_V2 = Family(
    model=lambda config: dict(_fields(config).model),
    lines=_lines,
    dropped={r"prj\..*": "a head", r"transformer\.layers\.([3-9]|\d\d+)\..*": "a layer behind the third"},
    prefixes=("transf_unit.",),
    fields=_fields,
)
