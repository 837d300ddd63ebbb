"""What `like` fills in: the fields of a checkpoint's model, from its config alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headstart.checkpoints import CHECKPOINT_READERS, FAMILIES, HEADSTART, SERIES, series_kind
from headstart.checkpoints.family import Config, Family
from headstart.checkpoints.folder import CONFIG_FILE, MODEL_FOLDER, Folder
from headstart.checkpoints.released import RELEASED, released_config
from headstart.checkpoints.source import absent, find_folder
from headstart.errors import BadInput, nearest
from headstart.spec import merge


def with_like(model: Mapping[str, Any]) -> dict[str, Any]:
    """A model's table without its `like`, laid over the fields of the checkpoint that this names.

    Of a list with one mixer per block, as many are taken as there are blocks.
    Raises: BadInput where the checkpoint is neither known nor at hand, or its files hold too few tensors.
    """
    config, folder = config_of(model["like"])
    kind, family = family_of(config)
    if kind in SERIES:
        raise BadInput(
            f"{config.path}: {CHECKPOINT_READERS[kind].summary}: its blocks read its own patches alone; frozen "
            "features of it "
            f'are read by model = {{ kind = "embedding", source = "{model["like"]}" }}'
        )
    fields = family.model(config)
    if folder is not None and Folder(folder).weighted:
        names = [family.usual(name) for name in Folder(folder).stored()]
        check_blocks(config, fields.get("blocks", 0), sum(family.reason(name) is None for name in names))
    # Kinds are written out: a feed-forward layer of another kind replaces the checkpoint's, as another mixer does.
    fields["feed_forward"] = {"kind": "mlp", **fields["feed_forward"]}
    own = {key: value for key, value in model.items() if key != "like"}
    blocks = own.get("blocks")
    if isinstance(fields["mixer"], list) and type(blocks) is int and 0 < blocks < len(fields["mixer"]):
        fields["mixer"] = fields["mixer"][:blocks]
    return merge(fields, own)


def check_blocks(config: Config, blocks: int, tensors: int) -> None:
    """Raises: BadInput where a config asks for more blocks than there are tensors, which would be built for minutes."""
    if blocks > tensors:
        raise BadInput(
            f"{config.path}: asks for {blocks:,} blocks, and the files hold {tensors} tensors; download the model as a "
            "whole"
        )


def config_of(source: str | os.PathLike[str]) -> tuple[Config, Path | None]:
    """The config of a checkpoint and its folder, or None where only its sizes are known.

    Raises: BadInput where it is neither known nor at hand, or its config cannot be read.
    """
    config = released_config(os.fspath(source))
    folder = find_folder(source, hub=config is None)
    if folder is not None:
        return Config(Folder(folder).config(), folder / CONFIG_FILE), folder
    if config is None:
        raise BadInput(f"{absent(os.fspath(source))}; sizes of these are known without: {', '.join(RELEASED)}")
    return Config(config, f"config of {source}"), None


def family_of(config: Config) -> tuple[str, Family]:
    """The family of a config and its name. Raises: BadInput for one that is not read."""
    _check_plain(config)
    own = HEADSTART if config.table.get("kind") == MODEL_FOLDER else series_kind(config.table)
    kind = own or config.table.get("model_type")
    if not isinstance(kind, str) or kind not in CHECKPOINT_READERS:
        problem = "is missing" if kind is None else nearest(kind, FAMILIES)
        raise BadInput(
            f"{config.path}: model_type: {problem}; weights of these families are read: "
            f"{', '.join((*FAMILIES, *SERIES))}, and model folders of headstart"
        )
    family: Any = CHECKPOINT_READERS[kind].load()
    return kind, family


def _check_plain(config: Config) -> None:
    """Raises: BadInput where a config asks for code of its own, or for numbers that are not as they stand."""
    ways = {
        "auto_map": "the checkpoint needs code of its own, which is never run; take one without such code, of the "
        f"families {', '.join(FAMILIES)}",
        "quantization_config": "the numbers are meant to be quantised, which are not read; take a version of the model "
        "that is not quantised",
    }
    for key, way in ways.items():
        if value := config.table.get(key):
            raise BadInput(f"{config.path}: {key}: {repr(value)[:80]}: {way}")
