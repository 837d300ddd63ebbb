"""BrainVision: a header (.vhdr) that names the file of its samples (.eeg) and that of its markers (.vmrk).

Source: the BrainVision Core Data Format 1.0.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from headstart.data.annotations import Annotation
from headstart.data.archives import reading
from headstart.data.extras import whole
from headstart.data.layout import LayoutSpec
from headstart.data.recordings import (
    Recording,
    brought,
    check_samples,
    chosen_channels,
    file_beside,
    recording_table,
    told_apart,
)
from headstart.data.table import Table
from headstart.errors import BadInput, Mistakes
from headstart.text import to_float

SAMPLE_TYPES = {"INT_16": "<i2", "INT_32": "<i4", "IEEE_FLOAT_32": "<f4", "IEEE_FLOAT_64": "<f8"}
"""Names of types of samples."""
_BEGIN = re.compile(r"^[^\n]{0,8}brain ?vision", re.IGNORECASE)

_Sections = dict[str, dict[str, str]]


def read_brainvision(path: Path, spec: LayoutSpec, _: Mistakes) -> Table:
    """The channels of one recording. Raises: BadInput where one of its files is absent, damaged or elsewhere."""
    return recording_table(path, brought(path, brainvision_recording(path, spec), spec), "a recording", spec)


def brainvision_recording(path: Path, spec: LayoutSpec) -> Recording:
    """The channels of a header that `values` names, or all, in physical units; markers are annotations."""
    sections = _sections(path)
    about, binary = sections.get("common infos", {}), sections.get("binary infos", {})
    form = binary.get("binaryformat", "INT_16").upper()
    if about.get("dataformat", "BINARY").upper() != "BINARY" or form not in SAMPLE_TYPES:
        raise BadInput(
            f"{path}: keeps samples as {about.get('dataformat', '')} {form}; export them as BINARY, one of "
            f"{', '.join(SAMPLE_TYPES)}, or as EDF"
        )
    with whole(path, "header of BrainVision"):
        count, interval = int(about["numberofchannels"]), float(about["samplinginterval"])
        rows = [sections["channel infos"][f"ch{i + 1}"].split(",") for i in range(count)]
        labels = [row[0].replace("\\1", ",").strip() or f"channel {i}" for i, row in enumerate(rows, 1)]
        scales = np.array([to_float(row[2]) if len(row) > 2 and row[2].strip() else 1.0 for row in rows])
        if count < 1 or not 0 < interval < np.inf or not np.isfinite(scales).all():
            raise ValueError(f"{count} channels at {interval} microseconds")
    names, rate = told_apart(labels), 1e6 / interval
    wanted = chosen_channels(path, names, [rate] * count, spec)
    file = _part(path, about.get("datafile", ""), (".eeg", ".dat"))
    dtype = np.dtype(SAMPLE_TYPES[form])
    with reading(file):
        size, length = file.stat().st_size, file.stat().st_size // (dtype.itemsize * count)
        check_samples(path, length, count)
        if size != length * dtype.itemsize * count:
            raise BadInput(f"{file}: holds {size:,} bytes, which are no whole samples of {count} channels")
        flat = np.fromfile(file, dtype, length * count)
    if flat.nbytes != size:
        raise BadInput(f"{file}: became shorter while it was read; give the file again")
    across = about.get("dataorientation", "MULTIPLEXED").upper() == "MULTIPLEXED"
    samples = flat.reshape(length, count)[:, wanted] if across else flat.reshape(count, length)[wanted].T
    samples = (samples * scales[wanted]).astype(np.float32)
    return Recording(samples, rate, tuple(names[i] for i in wanted), (), _markers(path, about, rate))


def _sections(path: Path) -> _Sections:
    """The keys of each section, in small letters; those of comments and of none are left out.

    Raises: BadInput where the file does not begin as one of BrainVision.
    """
    with reading(path), path.open("rb") as file:
        content = file.read(2**24)
    text = content.decode("utf-8-sig", "replace") if _is_utf8(content) else content.decode("latin-1")
    if not _BEGIN.match(text):
        raise BadInput(f"{path}: is not a whole header of BrainVision; write it again")
    out: _Sections = {}
    section: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("[") and line.rstrip().endswith("]"):
            section = out.setdefault(line.strip()[1:-1].lower(), {})
        elif "=" in line and not line.startswith(";"):
            key, _, value = line.partition("=")
            section.setdefault(key.strip().lower(), value.strip())
    return out


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _part(path: Path, name: str, endings: tuple[str, ...]) -> Path:
    """A file that a header names, `$b` being its own name; or, where the files were renamed, the one named like it."""
    name = name.replace("$b", path.stem)
    like = [path.with_suffix(ending).name for ending in endings if path.with_suffix(ending).is_file()]
    return file_beside(path, like[0] if like and not (path.parent / name).is_file() else name)


def _markers(path: Path, about: dict[str, str], rate: float) -> tuple[Annotation, ...]:
    """What was marked: of a point until the next one, of a span for its length. Beginnings of segments are none."""
    if not about.get("markerfile") and not path.with_suffix(".vmrk").is_file():
        return ()
    file = _part(path, about.get("markerfile", ""), (".vmrk",))
    out = []
    for key, line in _sections(file).get("marker infos", {}).items():
        kind, text, at, size, *_ = [*(cell.strip() for cell in line.split(",")), "", "", ""]
        if not re.fullmatch(r"mk\d+", key) or kind == "New Segment" or not at.isdecimal():
            continue
        span = int(size) / rate if size.isdecimal() and int(size) > 1 else None
        out.append(Annotation((int(at) - 1) / rate, span, text.replace("\\1", ",") or kind))
    return tuple(out)
