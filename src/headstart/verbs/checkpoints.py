"""Checkpoints on the command line: which are known, what one holds and leaves out, and its download."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from headstart.checkpoints import CHECKPOINT_READERS, SERIES
from headstart.checkpoints.folder import CONFIG_FILE, MODEL_FOLDER
from headstart.checkpoints.released import RELEASED, RELEASED_SERIES, released_config
from headstart.checkpoints.source import absent, download, find_folder, repositories, revision_of
from headstart.errors import BadInput
from headstart.kinds import SORTS
from headstart.verbs.terminal import console, table

if TYPE_CHECKING:
    from headstart.checkpoints.fields import Fields
    from headstart.checkpoints.read import Checkpoint

SERIES_WORDS = ("MOMENT", "transf_depth")
"""What configs of models of series say that name no `model_type`."""
_REPOSITORY = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_BLOCK = re.compile(r"((?<!\S)\S*?\.|\.encoders\.)\d+(?=\.)")
"""The first number of a name, and that of one of Mantis's many encoders of a scalar."""


def is_checkpoint(what: str) -> bool:
    """Whether a word names a checkpoint: one that is known, a folder with a config, or `owner/name` that is no file."""
    if released_config(what) is not None:
        return True
    folder = find_folder(what, hub=False)
    if folder is not None:
        # A folder beside us may be of another sort.
        config = folder / CONFIG_FILE
        if folder != Path(what) or not config.is_file():
            return config.is_file()
        if any(folder.glob("*.safetensors")):
            return True
        return any(
            f'"{word}"' in config.read_text(errors="replace") for word in ("model_type", MODEL_FOLDER, *SERIES_WORDS)
        )
    return _REPOSITORY.fullmatch(what) is not None and not os.path.exists(what)


def list_checkpoints() -> None:
    """`headstart ls checkpoints`: those that are known by name, with their sizes and where they are."""
    from headstart.checkpoints.read import fields_of

    rows = []
    for name in (*RELEASED, *RELEASED_SERIES):
        fields, folder = fields_of(name), find_folder(name)
        spec = fields.spec
        numbers = sum(prod(shape) for shape in fields.shapes().values())
        positions = "any" if fields.length is None else f"{fields.length:,}"
        summary = CHECKPOINT_READERS[fields.family].summary
        rows.append([name, summary, spec.width, spec.blocks, positions, f"{numbers:,}", folder or "absent"])
    heads = ["checkpoint", "what it is", "width", "blocks", "positions", "numbers", "where"]
    console().print(table(heads, rows, right=range(2, 6)))
    console().print(Text("others are named by their folder, or as owner/name; `headstart prepare NAME` downloads one"))


def show_family(name: str) -> None:
    """`headstart show bert`: a family of checkpoints, and those of it that are known by name."""
    from headstart.checkpoints.read import fields_of

    out = console()
    out.print(Text(SORTS["checkpoint"].summary_of(name)))
    names = [what for what in (*RELEASED, *RELEASED_SERIES) if fields_of(what).family == name]
    out.print(Text(f"known    {', '.join(names) or 'none by name'}"))
    out.print(Text("others are named by their folder, or as owner/name; `headstart show FOLDER` says what one holds"))


def show_checkpoint(what: str) -> None:
    """`headstart show MODEL`: the tensors that are used and left out, parts, sizes, declared licence and content."""
    from headstart.checkpoints.spec import CheckpointSpec
    from headstart.spec import read

    spec = read(CheckpointSpec, {"source": what}, "checkpoint")
    folder = find_folder(what)
    if folder is None and released_config(what) is None:
        raise BadInput(f"show: {absent(what)}")
    fields, out = spec.fields, console()
    line = CHECKPOINT_READERS[fields.family]
    out.print(Text(f"{what}: {line.summary}{f' ({line.source})' if line.source else ''}"))
    checkpoint = None if folder is None else spec.opened()
    if checkpoint is None:
        out.print(Text(f"absent   {absent(what)}"))
    else:
        out.print(Text(f"folder   {folder}"))
        if revision := revision_of(checkpoint.source):
            out.print(Text(f"revision {revision}"))
        out.print(Text(f"licence  {checkpoint.licence or 'not declared'}"))
        out.print(Text(f"content  {spec.settled().content}"))
    out.print(Text(f"model    {fields.describe()}"))
    usage = f'checkpoint = {{ source = "{what}" }}, and for its children model = {{ like = "{what}" }}'
    if fields.family in SERIES:
        usage = f'model = {{ kind = "embedding", source = "{what}" }}'
    else:
        _print_parts(fields)
    _print_tensors(fields, checkpoint)
    out.print(Text(f"in a study: {usage}"))


def _print_parts(fields: Fields) -> None:
    from headstart.parameters import LEAVES
    from headstart.stage.read import parts_of

    shapes, of = fields.shapes(), parts_of(fields)
    counts = {leaf: [prod(shapes[name]) for name in of if of[name] == leaf] for leaf in LEAVES}
    rows = [[leaf, len(sizes), f"{sum(sizes):,}"] for leaf, sizes in counts.items() if sizes]
    whole = [size for sizes in counts.values() for size in sizes]
    rows.append(["all", len(whole), f"{sum(whole):,}"])
    console().print(table(["part", "tensors", "numbers"], rows, right=(1, 2)))


def _print_tensors(fields: Fields, checkpoint: Checkpoint | None) -> None:
    """Tensors of equal blocks are one line."""
    out, used = console(), {} if checkpoint is None else checkpoint.used
    lines: dict[tuple[Any, ...], int] = {}
    for name, shape in fields.shapes().items():
        line = (_blocks(name), " x ".join(map(str, shape)), _blocks(used.get(name, "")))
        lines[line] = lines.get(line, 0) + 1
    rows = [[name, shape, count, *([theirs] if used else [])] for (name, shape, theirs), count in lines.items()]
    out.print(table(["tensor", "shape", "times", *(["made of"] if used else [])], rows, right=(2,)))
    if checkpoint is not None and checkpoint.dropped:
        out.print(table(["left out", "times", "what it is"], _dropped(checkpoint.dropped), right=(1,)))


def _dropped(tensors: Mapping[str, str]) -> list[list[Any]]:
    counts: dict[tuple[str, str], int] = {}
    for name, reason in tensors.items():
        counts[_blocks(name), reason] = counts.get((_blocks(name), reason), 0) + 1
    return [[name, count, reason] for (name, reason), count in counts.items()]


def _blocks(name: str) -> str:
    """A name, or several, with `{i}` for the number of the block, which comes first."""
    return _BLOCK.sub(r"\1{i}", name)


def prepare_checkpoint(what: str) -> None:
    """`headstart prepare MODEL`: download what is not here, and read it once, so that a study opens it at once."""
    from headstart.checkpoints.spec import CheckpointSpec
    from headstart.spec import read

    folder: Path | None = find_folder(what)
    if folder is None:
        console().print(Text(f"downloading {repositories(what)[0]}"))
        folder = download(what)
    spec = read(CheckpointSpec, {"source": what}, "checkpoint").settled()
    numbers = sum(prod(shape) for shape in spec.fields.shapes().values())
    text = f"{numbers:,} numbers in {folder}; licence {spec.opened().licence or 'not declared'}; content {spec.content}"
    console().print(Text(f"{what} is ready: {text}"))
