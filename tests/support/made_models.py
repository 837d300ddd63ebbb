"""Models made by hand, without training: sequences of every kind, networks of any mixer, fitted classic models."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headstart.baselines import Fitted, FittedSpec
from headstart.data import LayoutSpec, Sequences, read_sequences
from headstart.models import MODELS
from headstart.models.model import SequenceModel
from headstart.sequence import Examples, Signature
from headstart.serve.config import ModelConfig
from headstart.serve.folder import _digest
from headstart.serve.model import Served
from headstart.spec import read
from headstart.store import seal, unseal

LETTERS = "ACGT"


def walks(
    n: int = 12,
    channels: int = 1,
    seed: int = 0,
    gaps: bool = False,
    least: int = 9,
    most: int = 20,
    numbers: bool = False,
) -> Sequences:
    """Ragged walks with labels: `calm` or `wild =1+1`, or numbers from 10 to 20."""
    rng = np.random.default_rng(seed)
    rows = [3 + rng.normal(size=(int(rng.integers(least, most + 1)), channels)).cumsum(0) for _ in range(n)]
    if gaps:
        for row in rows:
            row[rng.uniform(size=row.shape) < 0.2] = np.nan
            row[[0, -1]] = 1.0
    labels: list[Any] = ["wild" if i % 3 else "calm" for i in range(n)]
    if numbers:
        labels = [10 + 10 * i / (n - 1) for i in range(n)]
    spec = LayoutSpec(kind="numbers", target_kind="number" if numbers else "class")
    return read_sequences([row if channels > 1 else row[:, 0] for row in rows], spec, labels=labels)


def texts(kind: str = "dna", n: int = 12, seed: int = 0) -> Sequences:
    """Ragged words: DNA, or text; of two classes."""
    rng = np.random.default_rng(seed)
    words = ["".join(rng.choice(list(LETTERS), int(rng.integers(8, 15)))) for _ in range(n)]
    options = [word.lower() + " é" for word in words] if kind == "text" else words
    return read_sequences(options, read(LayoutSpec, {"kind": kind}), labels=["ab"[i % 2] for i in range(n)])


def tokens(n: int = 12, seed: int = 0, symbols: tuple[str, ...] = ()) -> Sequences:
    """Ragged sequences of the tokens 3, 5, 7 and 9."""
    rng = np.random.default_rng(seed)
    rows = [rng.choice([3, 5, 7, 9], int(rng.integers(6, 12))) for _ in range(n)]
    spec = LayoutSpec(kind="tokens", symbols=symbols)
    return read_sequences(rows, spec, labels=["ab"[i % 2] for i in range(n)])


def prepared(s: Sequences, patch: int = 1, missing: bool | None = None, **more: Any) -> dict[str, Any]:
    """A preparation as a fit on these sequences would have it."""
    out: dict[str, Any] = {
        "kind": s.kind,
        "symbols": s.layout.symbols,
        "channels": s.channels,
        "classes": s.classes,
        "patch": patch,
        "missing": s.observed is not None or patch > 1 if missing is None else missing,
    }
    if s.kind == "numbers":
        seen = s.values if s.observed is None else np.where(s.observed, s.values, np.nan)
        out["mean"] = [float(np.float32(x)) for x in np.nanmean(seen, 0)]
        out["deviation"] = [float(np.float32(x)) for x in np.nanstd(seen, 0)]
    if s.target == "number":
        out |= {"low": 10.0, "high": 20.0}
    return out | more


def settings(
    s: Sequences,
    *,
    patch: int = 1,
    mixer: Any = "attention",
    model: Any = None,
    temperature: float = 1.7,
    **more: Any,
) -> dict[str, Any]:
    """The config of a folder with a small network alone, as JSON material."""
    spec = {"width": 16, "blocks": 2, "mixer": {"kind": mixer} if isinstance(mixer, str) else mixer, **(model or {})}
    return {
        "layout": s.layout.fixed().model_dump(mode="json"),
        "preparation": prepared(s, patch, **more),
        "network": {
            "model": spec,
            "objective": {"kind": "classify" if s.target == "class" else "regress"},
            "length": -(-int(s.lengths.max()) // patch),
            "temperature": temperature,
        },
        "serve": "network",
    }


def network_of(config: ModelConfig, seed: int = 0) -> SequenceModel:
    """A fresh network whose every number, statistics too, is moved from where it starts."""
    torch.manual_seed(seed)
    assert config.network is not None
    network = config.network.built(config.signature)
    assert isinstance(network, SequenceModel)
    for name, tensor in network.state_dict().items():
        noise = 0.2 * torch.randn_like(tensor)
        tensor += noise.abs() if name.endswith("running_variance") else noise
    return network.eval()


def fit_method(name: str, examples: Examples, signature: Signature) -> Fitted:
    """A model of the kind `name`, fitted and calibrated on the same examples."""
    spec: FittedSpec = MODELS[name].load()()
    return spec.fit(examples, examples, signature, 0)


def made(s: Sequences, classics: tuple[str, ...] = (), network: bool = True, serve: str = "", **more: Any) -> Served:
    """What a fit on these sequences might serve."""
    document = settings(s, **more)
    config = read(ModelConfig, document)
    bare = Served(config, network_of(config), {})
    fitted: dict[str, Fitted] = {}
    for name in classics:
        fitted[name] = fit_method(name, targeted(bare, s), config.preparation.signature(20))
    facts = {name: model.facts.model_dump(mode="json") for name, model in fitted.items()}
    document |= {"classics": facts, "serve": serve or ("network" if network else classics[0])}
    if not network:
        document["network"] = None
    return Served(read(ModelConfig, document), bare.network if network else None, fitted)


def targeted(served: Served, s: Sequences) -> Examples:
    """The sequences as a classic model is fitted to them."""
    plain = served.examples(s, patched=False)
    preparation = served.config.preparation
    if preparation.classes:
        return replace(plain, target=s.codes(preparation.classes))
    assert preparation.low is not None
    assert preparation.high is not None
    scaled = 2 * (s.numbers() - preparation.low) / (preparation.high - preparation.low) - 1
    return replace(plain, target=scaled.astype(np.float32))


def rewritten(folder: Path, config: Any = None, weights: Any = None) -> None:
    """Change a folder as one who knows the format would: `config(document)` and `weights(tensors)` change in place."""
    document = json.loads((folder / "config.json").read_text())
    tensors, _ = unseal(folder / "model.safetensors")
    if config is not None:
        config(document)
    if weights is not None:
        weights(tensors)
    (folder / "config.json").write_text(json.dumps(document))
    (folder / "model.safetensors").write_bytes(seal(tensors, {"config": _digest(document)}))
