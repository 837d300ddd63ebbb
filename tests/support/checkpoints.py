"""Folders with small checkpoints, written through a family's own table, backwards."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from headstart.checkpoints import FAMILIES
from headstart.checkpoints.family import Config, expanded
from headstart.checkpoints.fields import Fields

GPT2: dict[str, Any] = {"model_type": "gpt2", "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 12}


def started_study(name: str, source: str, like: str, take: str = "backbone", steps: int = 1) -> str:
    """A study of one arm that starts a small model from a checkpoint, on 60 digits. name: of the stage that reads it."""
    return f"""
name = "started"
[stages.{name}]
checkpoint = {{ source = "{source}" }}
[stages.finetune]
objective = {{ kind = "classify" }}
budget = {{ steps = {steps} }}
[columns.digits]
task = {{ kind = "digits", labelled = 60 }}
model = {{ like = "{like}", blocks = 1 }}
[arms.pretrained]
finetune = {{ parent = "{name}", start = ["take({take})"] }}
[axes]
seed = [0]
[report]
baselines = false
"""


def weights(config: Mapping[str, Any], seed: int = 0) -> dict[str, Tensor]:
    """Random tensors of the shapes that a config asks for, by the names of the family's files."""
    family, table = FAMILIES[config["model_type"]].load(), Config(config, "config.json")
    fields = Fields("", family.model(table), family.length(table), family.vocabulary(table))
    random = torch.Generator().manual_seed(seed)
    ours = {name: torch.randn(shape, generator=random) for name, shape in fields.shapes().items()}
    out: dict[str, Tensor] = {}
    for entry in expanded(family.lines(table), fields.spec.blocks, ours):
        theirs = entry.form.write(*(ours[name] for name in entry.ours))
        out |= {name: x.contiguous() for name, x in zip(entry.theirs, theirs, strict=True)}
    return out


def saved(
    folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor] | None = None, shards: int = 1
) -> Path:
    """The folder, with config.json and the tensors (by default random ones) in one file or in shards with an index."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = weights(config) if tensors is None else tensors
    (folder / "config.json").write_text(json.dumps(config))
    names = sorted(tensors)
    if shards == 1:
        save_file(dict(tensors), folder / "model.safetensors")
        return folder
    files: dict[str, str] = {}
    for number in range(shards):
        file = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        save_file({name: tensors[name] for name in names[number::shards]}, folder / file)
        files |= dict.fromkeys(names[number::shards], file)
    index = {"metadata": {"total_size": 1}, "weight_map": files}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder
