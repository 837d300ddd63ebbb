"""Models of series against slow, obvious references of their released arithmetic, and what their folders must hold."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from support.series_models import BOLT, CONFIGS, MOMENT, SCALES, saved_series, series_weights
from torch import Tensor

from headstart.checkpoints import SERIES
from headstart.checkpoints.read import fields_of, read_checkpoint
from headstart.checkpoints.released import RELEASED_SERIES
from headstart.checkpoints.series import SeriesFields
from headstart.errors import BadInput

DTYPES = ((torch.float32, 1e-5), (torch.float64, 1e-6))
LENGTHS = (1, 3, 4, 30, 31, 32, 33, 47, 48, 60)


def reader_of(folder: Path, dtype: torch.dtype) -> Any:
    checkpoint = read_checkpoint(folder)
    assert isinstance(checkpoint.fields, SeriesFields)
    series = checkpoint.fields.series
    return series, series.reader(dict(checkpoint.tensors(dtype)))


def series_of(length: int, gaps: bool, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Values (2, L) with straight lines across their gaps, and what was observed; the second channel is constant."""
    rng = np.random.default_rng(seed + length)
    values = np.stack([3 * rng.normal(size=length) + 2, np.full(length, 0.1)])
    seen = np.ones((2, length), dtype=bool)
    if gaps:
        seen[0] = rng.random(length) > 0.4
        seen[0, length // 2] = True
    for x, there in zip(values, seen, strict=True):
        x[:] = np.interp(np.arange(length), np.flatnonzero(there), x[there])
    return values, seen


def encoder_of_t5(config: dict[str, Any], tensors: dict[str, Tensor], dtype: torch.dtype) -> Any:
    transformers = pytest.importorskip("transformers", reason="compared only where transformers is")
    names = ("d_model", "d_kv", "d_ff", "num_heads", "num_layers", "feed_forward_proj")
    sizes = {name: config[name] for name in (*names, *(key for key in config if key.startswith("relative")))}
    model = transformers.T5EncoderModel(transformers.T5Config(**sizes, vocab_size=4, dropout_rate=0.0)).eval()
    own = {n: x for n, x in tensors.items() if n.startswith("encoder.") and "embed_tokens" not in n}
    missing, unexpected = model.load_state_dict(own, strict=False)
    assert not unexpected
    assert not [name for name in missing if "embed_tokens" not in name and "shared" not in name]
    return model.to(dtype)


def bolt(tensors: dict[str, Tensor], x: np.ndarray, seen: np.ndarray, dtype: torch.dtype) -> Tensor:
    """One channel, with NaN for what is missing, as the released code reads its context."""
    context = torch.tensor(np.where(seen, x, np.nan), dtype=torch.float64)[-48:]
    mean = context.nanmean()
    deviation = (context - mean).square().nanmean().sqrt()
    # A constant has a deviation of rounding alone, by which the released code divides in float32.
    context = ((context - mean) / (1e-5 if deviation < 1e-12 else deviation)).to(dtype)
    context = torch.cat([torch.full((-len(context) % 4,), math.nan, dtype=dtype), context])
    patches = context.reshape(-1, 4)
    mask = (~patches.isnan()).to(dtype)
    both = torch.cat([patches.nan_to_num(0.0), mask], 1)

    def layer(name: str, values: Tensor) -> Tensor:
        weight, bias = (tensors[f"input_patch_embedding.{name}_layer.{part}"].to(dtype) for part in ("weight", "bias"))
        return values @ weight.T + bias

    vectors = layer("output", layer("hidden", both).relu()) + layer("residual", both)
    vectors = torch.cat([vectors, tensors["shared.weight"][1:].to(dtype)])
    there = torch.cat([mask.sum(1) > 0, torch.tensor([True])])
    out = encoder_of_t5(BOLT, tensors, dtype)(inputs_embeds=vectors[None], attention_mask=there[None].long())
    hidden = out.last_hidden_state[0]
    return torch.cat([hidden[:-1][there[:-1]].mean(0), hidden[-1]])


def moment(tensors: dict[str, Tensor], x: np.ndarray, seen: np.ndarray, dtype: torch.dtype) -> Tensor:
    """One channel, padded on the left to the whole length as the released code wants it."""
    if len(x) > 32:
        x, seen = stretched(x, 32), np.ones(32, dtype=bool)
    mean, deviation = x[seen].mean(), x[seen].std()
    pad = 32 - len(x)
    values = (np.concatenate([np.full(pad, x[0]), x]) - mean) / (deviation + 1e-5)
    mask = np.concatenate([np.zeros(pad, dtype=bool), seen]).reshape(8, 4).all(1)
    if not mask.any():  # our rule where theirs has nothing left
        mask = np.arange(8) >= 8 - math.ceil(len(x) / 4)
    vectors = (
        torch.tensor(values.reshape(8, 4), dtype=dtype) @ tensors["patch_embedding.value_embedding.weight"].to(dtype).T
    )
    there = torch.tensor(mask)
    vectors = torch.where(there[:, None], vectors, tensors["patch_embedding.mask_embedding"].to(dtype))
    vectors = vectors + tensors["patch_embedding.position_embedding.pe"][0, :8].to(dtype)
    model = encoder_of_t5(MOMENT["t5_config"], tensors, dtype)
    hidden = model(inputs_embeds=vectors[None], attention_mask=there[None].long()).last_hidden_state[0]
    return hidden[there].mean(0)


def stretched(x: np.ndarray, length: int) -> np.ndarray:
    """Between the middles of as many equal cells, the ends held."""
    places = (np.arange(length) + 0.5) * len(x) / length - 0.5
    return np.interp(places, np.arange(len(x)), x)


def norm(x: np.ndarray, tensors: dict[str, np.ndarray], name: str, epsilon: float) -> np.ndarray:
    scaled = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon)
    return scaled * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def mantis_tokens(w: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """(8, 16) tokens of one series of 32 positions, position by position."""
    parts = []
    for i, values in enumerate((np.append(np.diff(x), 0.0), x)):
        scaled = (values - values.mean()) / (values.std(ddof=1) + 1e-5)
        weight, bias = w[f"tokgen_unit.convs.{i}.conv.weight"][:, 0], w[f"tokgen_unit.convs.{i}.conv.bias"]
        padded = np.pad(scaled, 2)
        filtered = np.stack([weight @ padded[t : t + 5] + bias for t in range(32)])
        normed = norm(filtered, w, f"tokgen_unit.layer_norms.{i}", 1e-5)
        parts.append(np.stack([normed[4 * n : 4 * n + 4].mean(0) for n in range(8)]))
    statistics = [[x[4 * n : 4 * n + 4].mean() for n in range(8)], [x[4 * n : 4 * n + 4].std(ddof=1) for n in range(8)]]
    for i, scalars in enumerate(statistics):
        rows = []
        for value in scalars:
            near = np.array([abs(1 / np.log(abs(value) / scale + 1.1)) for scale in SCALES])
            total = np.zeros(6)
            for j, scale in enumerate(SCALES):
                encoder = f"tokgen_unit.scalar_encoders.{i}.encoders.{j}"
                encoded = value * w[f"{encoder}.w"][0] + scale * w[f"{encoder}.b"][0]
                total += near[j] / near.sum() * norm(encoded, w, f"{encoder}.layer_norm", 1e-15)
            rows.append(total)
        parts.append(np.stack(rows))
    name = "tokgen_unit.linear_encoder"
    joined = np.concatenate(parts, 1) @ w[f"{name}.linear.weight"].T + w[f"{name}.linear.bias"]
    return norm(joined, w, f"{name}.layer_norm", 1e-15)


def mantis(w: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    x = np.concatenate([w["vit_unit.cls_token"][None], mantis_tokens(w, stretched(x, 32))])
    x = x + w["vit_unit.pos_encoder.pe"][:, 0]
    for i in range(2):
        name = f"vit_unit.transformer.layers.{i}"
        both = norm(x, w, f"{name}.0.norm", 1e-5) @ w[f"{name}.0.fn.to_qkv.weight"].T
        heads = []
        for h in range(2):
            q, k, v = (both[:, 24 * part + 12 * h : 24 * part + 12 * h + 12] for part in range(3))
            heads.append(softmax(q @ k.T / math.sqrt(12)) @ v)
        x = x + np.concatenate(heads, 1) @ w[f"{name}.0.fn.to_out.0.weight"].T + w[f"{name}.0.fn.to_out.0.bias"]
        hidden = norm(x, w, f"{name}.1.norm", 1e-5) @ w[f"{name}.1.fn.net.0.weight"].T + w[f"{name}.1.fn.net.0.bias"]
        hidden = 0.5 * hidden * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2)))
        x = x + hidden @ w[f"{name}.1.fn.net.3.weight"].T + w[f"{name}.1.fn.net.3.bias"]
    return x[0]


def turned(x: np.ndarray, position: int) -> np.ndarray:
    """Each pair of neighbours by its own angle."""
    out = np.empty_like(x)
    for i in range(0, len(x), 2):
        angle = position * 10_000 ** (-i / len(x))
        out[i] = x[i] * math.cos(angle) - x[i + 1] * math.sin(angle)
        out[i + 1] = x[i + 1] * math.cos(angle) + x[i] * math.sin(angle)
    return out


def mantis_v2(w: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    x = np.concatenate([mantis_tokens(w, stretched(x, 32)), w["transf_unit.cls_token"][None]])
    for i in range(3):
        name = f"transf_unit.transformer.layers.{i}"
        normed = x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-8) * w[f"{name}.norm1.scale"]
        both = normed @ w[f"{name}.attention.wQKV.weight"].T + w[f"{name}.attention.wQKV.bias"]
        heads = []
        for h in range(2):
            # Of query, key and value each number of a head stands beside the same number of the other head.
            q, k, v = (both[:, [16 * part + 2 * e + h for e in range(8)]] for part in range(3))
            q, k = (np.stack([turned(row, t) for t, row in enumerate(side)]) for side in (q, k))
            decay = np.stack([[((2 * (e % 4) + 3.2) / 11.2) ** ((t - 4) / 512) for e in range(8)] for t in range(9)])
            heads.append(softmax((q * decay) @ (k / decay).T / math.sqrt(8)) @ v)
        x = x + np.concatenate(heads, 1) @ w[f"{name}.attention.wO.weight"].T + w[f"{name}.attention.wO.bias"]
        normed = x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-8) * w[f"{name}.norm2.scale"]
        gated = normed @ w[f"{name}.mlp.0.weight"].T + w[f"{name}.mlp.0.bias"]
        gate, rest = gated[:, :20], gated[:, 20:]
        x = x + (gate / (1 + np.exp(-gate)) * rest) @ w[f"{name}.mlp.2.weight"].T + w[f"{name}.mlp.2.bias"]
    return np.concatenate([x[-1], x[:-1].mean(0)])


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("kind", SERIES)
def test_features_are_those_of_the_released_arithmetic(kind: str, gaps: bool, tmp_path: Path) -> None:
    folder = saved_series(tmp_path / kind, kind)
    tensors = load_file(folder / "model.safetensors")
    plain = {name: x.double().numpy() for name, x in tensors.items()}
    for dtype, close in DTYPES:
        series, read = reader_of(folder, dtype)
        for length in LENGTHS:
            x, seen = series_of(length, gaps)
            with torch.no_grad():
                answer = read(torch.from_numpy(x), torch.from_numpy(seen))
                assert answer.shape == (2, series.size)
                assert answer.dtype == dtype
                for channel in range(2):
                    if kind == "chronos_bolt":
                        expected = bolt(tensors, x[channel], seen[channel], dtype)
                    elif kind == "moment":
                        expected = moment(tensors, x[channel], seen[channel], dtype)
                    else:
                        reference = mantis if kind == "mantis" else mantis_v2
                        expected = torch.from_numpy(reference(plain, x[channel])).to(dtype)
                    scale = float(expected.abs().max())
                    error = float((answer[channel] - expected).abs().max())
                    assert error < close * scale, (dtype, length, channel, error)


@pytest.mark.parametrize("name", RELEASED_SERIES)
def test_sizes_of_known_models_need_no_file(name: str) -> None:
    """The numbers of parameters that their authors state, or that their released code has, count the same layers."""
    fields = fields_of(f"owner/{name}")
    assert isinstance(fields, SeriesFields)
    numbers = sum(math.prod(shape) for shape in fields.shapes().values())
    # Of MantisV2 2,214,144 up to the third layer, of Mantis-8M 8,037,632, each with a head or without scales.
    stated = {"MantisV2": 2_214_144 - 66_304 + 18, "Mantis-8M": 8_037_632 + 33 * 256 + 18}
    assert numbers == stated.get(name, numbers)
    assert fields.series.size == {"Mantis-8M": 256, "MantisV2": 512, "MOMENT-1-small": 512}.get(
        name, fields.series.size
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"mixer": {"kind": "s4", "state": 2**12}, "position": {"kind": "none"}},
            r"mixer\.kind: 's4', the blocks of T5",
        ),
        (
            {"feed_forward": {"width": 2**62}},
            r"a size of 4,611,686,018,427,387,904 \(.*\), at most 4,294,967,296 are read",
        ),
    ],
    ids=str,
)
def test_blocks_that_t5_does_not_have_are_refused_before_they_are_built(change: dict[str, Any], message: str) -> None:
    fields = fields_of("chronos-bolt-tiny")
    assert isinstance(fields, SeriesFields)
    series = fields.series.model_copy(update={"model": {**fields.model, **change}})
    with pytest.raises(BadInput, match=message):
        series.shapes()


def test_no_channel_and_no_padding_changes_another_channels_features(tmp_path: Path) -> None:
    for kind in SERIES:
        _, read = reader_of(saved_series(tmp_path / kind, kind), torch.float64)
        x, seen = (torch.from_numpy(part) for part in series_of(31, gaps=True))
        nothing = torch.zeros_like(seen[:1])
        with torch.no_grad():
            both, single = read(x, seen), read(x[:1], seen[:1])
            unseen = read(torch.zeros_like(x[:1]), nothing)
        assert torch.allclose(both[:1], single, rtol=0, atol=1e-12)
        assert bool(unseen.isfinite().all()), "a channel of which nothing was observed"


def test_the_content_is_that_of_the_numbers_and_of_how_they_are_read(tmp_path: Path) -> None:
    folder = saved_series(tmp_path / "a", "chronos_bolt")
    content = read_checkpoint(folder).content
    assert read_checkpoint(saved_series(tmp_path / "b", "chronos_bolt")).content == content
    shorter = {"chronos_config": {**BOLT["chronos_config"], "context_length": 44}}
    assert read_checkpoint(saved_series(tmp_path / "c", "chronos_bolt", **shorter)).content != content
    assert read_checkpoint(saved_series(tmp_path / "d", "chronos_bolt", seed=1)).content != content
    renamed = tmp_path / "e"
    saved_series(renamed, "mantis")
    tensors = load_file(renamed / "model.safetensors")
    first = read_checkpoint(renamed).content
    later = {name.replace("vit_unit", "transf_unit"): x for name, x in tensors.items()}
    save_file(later, renamed / "model.safetensors")
    assert read_checkpoint(renamed).content == first, "names of later versions"


CHRONOS: dict[str, Any] = BOLT["chronos_config"]
REFUSED = [
    ("chronos_bolt", {"chronos_config": {**CHRONOS, "use_reg_token": False}}, "use_reg_token: False is not what"),
    ("chronos_bolt", {"chronos_config": {**CHRONOS, "input_patch_stride": 2}}, "input_patch_stride: 2 is not what"),
    ("chronos_bolt", {"chronos_config": 3}, "chronos_config: 3 is not a table; download"),
    ("chronos_bolt", {"d_ff": 25}, r"wi.weight' is of shape \[24, 16\], by config.json it is \[25, 16\]"),
    ("moment", {"t5_config": None}, "t5_config: None is not a table"),
    ("moment", {"transformer_type": "encoder_decoder"}, "transformer_type: 'encoder_decoder' is not what"),
    ("moment", {"patch_stride_len": 2}, "patch_stride_len: 2 is not what"),
    ("mantis", {"num_patches": 7}, "num_patches: 7 are no whole part of 32 positions; correct it"),
    ("mantis", {"transf_dim_head": 10}, r"to_qkv.weight' is of shape \[72, 16\], by config.json it is \[60, 16\]"),
    ("mantis_v2", {"kernel_size": 4}, "kernel_size: 4 taps have no middle"),
    ("mantis_v2", {"transf_dim_head": 12}, "transf_dim_head: 2 heads of 12 numbers do not make up"),
]


@pytest.mark.parametrize(("kind", "changes", "message"), REFUSED)
def test_what_the_reader_does_not_have_gets_one_message(
    kind: str, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=message):
        read_checkpoint(saved_series(tmp_path / "a", kind, **changes))


def test_a_missing_tensor_and_an_unknown_one_are_named(tmp_path: Path) -> None:
    for kind, name in {"chronos_bolt": "shared.weight", "moment": "patch_embedding.position_embedding.pe"}.items():
        folder = saved_series(tmp_path / kind, kind)
        tensors = series_weights(kind)
        save_file({n: x.contiguous() for n, x in tensors.items() if n != name}, folder / "model.safetensors")
        with pytest.raises(BadInput, match=f"no tensor '{name}', which config.json asks for"):
            read_checkpoint(folder)
        save_file(
            {**{n: x.contiguous() for n, x in tensors.items()}, "odd": torch.ones(1)}, folder / "model.safetensors"
        )
        with pytest.raises(BadInput, match=f"'odd' is not a tensor that family '{kind}' uses or leaves out"):
            read_checkpoint(folder)


def test_the_reference_is_given_every_family() -> None:
    assert CONFIGS.keys() == SERIES.keys()
