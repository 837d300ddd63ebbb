"""A folder with a checkpoint of a known family -> fields of a model, tensors by our names, and an account of both."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headstart.checkpoints import WHOLE
from headstart.checkpoints.encoder import EncoderFields
from headstart.checkpoints.family import TURNS, Config, Family, Line, expanded
from headstart.checkpoints.fields import Fields
from headstart.checkpoints.folder import CARD_FILE, CONFIG_FILE, SMALLER, VOCABULARY_FILE, Folder, Stored
from headstart.checkpoints.like import check_blocks, config_of, family_of
from headstart.checkpoints.tokeniser import tokeniser_text
from headstart.data.archives import reading
from headstart.data.arrays import CHANGED
from headstart.documents import canonical, from_json
from headstart.errors import BadInput, lacks_memory
from headstart.store.files import LARGEST_HEAD, UNREADABLE

FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""Types of numbers that are read."""
HALF_ROUNDING = {torch.float16: 1e-3, torch.bfloat16: 1e-2}
"""Types of half precision -> by which share of a number they round, at most."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose headers were compared with its config; its numbers are read when they are asked for.

    source: the folder. lines: between our whole names and theirs. stored: by their usual names. dropped: name in the
    file -> what the tensor is that was left out. licence: as the folder's card declares it, or None.
    """

    source: Path
    fields: Fields
    lines: tuple[Line, ...]
    stored: Mapping[str, Stored]
    dropped: Mapping[str, str]
    licence: str | None

    @property
    def used(self) -> dict[str, str]:
        """Name of each of our tensors -> those of the file that it is made of."""
        return {
            name: " + ".join(self.stored[theirs].name for theirs in line.theirs)
            for line in self.lines
            for name in line.ours
        }

    @property
    def files(self) -> list[Path]:
        """Every file that numbers are read from."""
        return sorted({self.stored[name].path for line in self.lines for name in line.theirs})

    def tensors(self, dtype: torch.dtype = torch.float32) -> Iterator[tuple[str, Tensor]]:
        """(our name, tensor), one after the other; sums of theirs are taken in `dtype`.

        Raises: BadInput where a file cannot be read, or a number is not finite.
        """
        for line in self.lines:
            theirs = [_tensor(self.stored[name], dtype) for name in line.theirs]
            for name, tensor in zip(line.ours, line.form.read(*theirs), strict=True):
                yield name, tensor.contiguous()

    @cached_property
    def content(self) -> str:
        """SHA-256 (64 hex digits) of all mapped tensors in float32, the fields and the symbols.

        The type of the numbers in the file, the number of files and what is dropped do not enter.
        """
        return self.content_of(self.tensors())

    def content_of(self, tensors: Iterable[tuple[str, Tensor]]) -> str:
        """The content, were these its tensors in float32."""
        own = {
            name: [list(x.shape), hashlib.sha256(x.numpy().data if x.ndim else x.numpy().tobytes()).hexdigest()]
            for name, x in tensors
        }
        return hashlib.sha256(canonical([own, *self.fields.document])).hexdigest()


def _tensor(stored: Stored, dtype: torch.dtype) -> Tensor:
    with reading(stored.path, SMALLER):
        raw = _raw(stored)
    tensor = raw.to(dtype)
    # NaN is its own smallest and largest number; a mask of finite ones would take twenty times as long.
    if not all(bool(end.isfinite()) for end in tensor.aminmax()):
        count, beyond = int((~tensor.isfinite()).sum()), bool(raw.isfinite().all())
        what = f"beyond {str(dtype).removeprefix('torch.')}" if beyond else "infinite or NaN"
        way = "take another version of the model" if beyond else "the file is damaged, or the training had diverged"
        if raw.dtype == torch.float16 and not raw.isnan().any():  # what float16 cannot hold became infinite
            way = "take a version of the model with more bits"
        raise BadInput(f"{stored.path}: {stored.name!r}: {count:,} of its {stored.dtype} numbers are {what}; {way}")
    return tensor


def _raw(stored: Stored) -> Tensor:
    """A tensor as its file holds it, in memory of its own: to cut a file that is mapped would end the process."""
    dtype = FLOATS[stored.dtype]
    with stored.path.open("rb") as file:
        try:
            length = int.from_bytes(file.read(8), "little")
            facts = from_json(file.read(min(length, LARGEST_HEAD)))[stored.name]
            begin, end = facts["data_offsets"]
            same = (facts["dtype"], tuple(facts["shape"])) == (stored.dtype, stored.shape)
        except UNREADABLE as error:
            if lacks_memory(error):
                raise
            same = False
        data = np.empty(math.prod(stored.shape) * dtype.itemsize if same else 0, np.uint8)
        if (
            not same
            or end - begin != len(data)
            or file.seek(8 + length + begin) < 0
            or file.readinto(data.data) < len(data)
        ):
            raise BadInput(f"{stored.path}: {stored.name!r} {CHANGED}")
    return torch.from_numpy(data).view(dtype).reshape(stored.shape)


def read_checkpoint(folder: Path | str, whole: bool = False) -> Checkpoint:
    """The checkpoint in a folder; config and headers are read and compared, of numbers rotary frequencies alone.

    whole: with the vectors of its pieces and its tokeniser, where its family has them (`WHOLE`).

    Raises: BadInput, naming the file, the tensor or key, its value and the way out.
    """
    files = Folder(Path(folder))
    config, family, fields = _described(files, whole)
    stored, dropped = _mapped(files, family, fields)
    blocks = fields.spec.blocks
    check_blocks(config, blocks, len(stored))
    ours = fields.shapes()
    lines = tuple(expanded(family.lines(config), blocks, ours))
    shapes = {
        name: shape
        for line in lines
        for name, shape in zip(line.theirs, line.form.shapes(ours[line.ours[0]]), strict=True)
    }
    _compare(files, stored, shapes, fields.family)
    return Checkpoint(files.path, fields, lines, stored, dropped, _licence(files))


def fields_of(source: Path | str, whole: bool = False) -> Fields:
    """The fields of a checkpoint, from its config and headers or, where it is absent, from its known sizes.

    Raises: BadInput as `read_checkpoint`, and where it is neither at hand nor known.
    """
    config, folder = config_of(source)
    return _fields(config, whole)[1] if folder is None else read_checkpoint(folder, whole).fields


def _described(files: Folder, whole: bool) -> tuple[Config, Family, Fields]:
    config = Config(files.config(), files.path / CONFIG_FILE)
    family, fields = _fields(config, whole)
    if isinstance(fields, EncoderFields):
        text = tokeniser_text(files, fields.vocabulary or 0, fields.rules)
        return config, family, replace(fields, tokeniser=text)
    if fields.symbols:
        return config, family, fields
    symbols = tuple((files.text(VOCABULARY_FILE) or "").split()) if fields.vocabulary else ()
    if symbols and len(symbols) != fields.vocabulary:
        raise BadInput(
            f"{files.path / VOCABULARY_FILE}: holds {len(symbols)} symbols, by {CONFIG_FILE} there are "
            f"{fields.vocabulary}; download both again"
        )
    return config, family, replace(fields, symbols=symbols)


def _fields(config: Config, whole: bool = False) -> tuple[Family, Fields]:
    kind, family = family_of(config)
    if whole and kind in WHOLE:
        own: Any = WHOLE[kind].load()
        family = own
    if family.fields is not None:
        return family, family.fields(config)
    fields = Fields(kind, family.model(config), family.length(config), family.vocabulary(config))
    try:
        fields.outline()
    except BadInput as error:
        raise BadInput(f"{config.path}: {error}; take another checkpoint") from None
    return family, fields


def _mapped(files: Folder, family: Family, fields: Fields) -> tuple[dict[str, Stored], dict[str, str]]:
    """The tensors of a folder by their usual names, and what is dropped by its name in the file."""
    stored: dict[str, Stored] = {}
    dropped: dict[str, str] = {}
    for tensor in files.stored().values():
        name = family.usual(tensor.name)
        reason = family.reason(name)
        if reason is not None:
            dropped[tensor.name] = reason
            if reason == TURNS:
                _check_turns(tensor, fields)
        elif name in stored:
            raise BadInput(
                f"{tensor.path}: {tensor.name!r} and {stored[name].name!r} are two names of one tensor; download the "
                "model again"
            )
        else:
            stored[name] = tensor
    return stored, dropped


def _check_turns(tensor: Stored, fields: Fields) -> None:
    """Raises: BadInput unless stored rotary frequencies are those of the config, within the rounding they have."""
    position, size = fields.model["position"], fields.spec.width // fields.model["mixer"]["heads"]
    size = int(size * position.get("share", 1.0))
    count = (size + 1) // 2
    if tensor.shape != (count,) or tensor.dtype not in FLOATS:
        raise BadInput(
            f"{tensor.path}: {tensor.name!r} is of type {tensor.dtype} and shape {list(tensor.shape)}, by "
            f"{CONFIG_FILE} it holds {count:,} frequencies; download both again"
        )
    expected = position["theta"] ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    values = _tensor(tensor, torch.float64)
    # Files in float32 may hold what half precision has rounded, as those of ESM-2 do.
    ways = [share for kind, share in HALF_ROUNDING.items() if torch.equal(values.to(kind).double(), values)]
    off = ~torch.isclose(values, expected, rtol=max(ways, default=1e-5), atol=2**-25)
    if bool(off.any()):
        raise BadInput(
            f"{tensor.path}: {tensor.name!r}: holds the frequency {values[off][0]:.6g} where {CONFIG_FILE} implies "
            f"{expected[off][0]:.6g} (theta {position['theta']:g}); correct theta there, or take another checkpoint"
        )


def _compare(files: Folder, stored: Mapping[str, Stored], shapes: Mapping[str, tuple[int, ...]], family: str) -> None:
    """Raises: BadInput unless the files hold exactly the tensors that the config implies."""
    for name, shape in shapes.items():
        if name not in stored:
            raise BadInput(
                f"{files.path}: no tensor {name!r}, which {CONFIG_FILE} asks for (of shape {list(shape)}); download "
                "the model as a whole"
            )
        tensor = stored[name]
        if tensor.shape != shape:
            raise BadInput(
                f"{tensor.path}: {tensor.name!r} is of shape {list(tensor.shape)}, by {CONFIG_FILE} it is "
                f"{list(shape)}; download both again"
            )
        if tensor.dtype not in FLOATS:
            raise BadInput(
                f"{tensor.path}: {tensor.name!r} holds numbers of type {tensor.dtype}; {', '.join(FLOATS)} are read, "
                "take a version of the model that is not quantised"
            )
    for name, tensor in stored.items():
        if name not in shapes:
            raise BadInput(
                f"{tensor.path}: {tensor.name!r} is not a tensor that family {family!r} uses or leaves out; take a "
                "checkpoint of its usual blocks"
            )


def _licence(files: Folder) -> str | None:
    """What the folder's card declares in the lines between its first two `---`."""
    card = files.text(CARD_FILE) or ""
    front = re.match(r"---\s*\n(.*?)\n---", card, re.DOTALL)
    declared = re.search(r"^license:[ \t]*[\"']?([\w.+-]+)", front[1], re.MULTILINE) if front else None
    return None if declared is None else declared[1]
