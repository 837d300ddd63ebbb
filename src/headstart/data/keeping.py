"""Sequences in memory kept as a file that is read alike."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from headstart import disk
from headstart.atomic import PRIVATE, PRIVATE_FOLDER, publish
from headstart.data.sequences import Sequences

LABEL, GROUP = "label", "group"
"""Columns of a kept file beside those of the sequence."""


def keep_sequences(s: Sequences, folder: Path, name: str) -> dict[str, Any]:
    """The sequences as a Parquet file in the folder, named by what is in it, for its owner alone; the `file` and
    `layout` by which a task `own` reads the same again."""
    import pyarrow as pa
    import pyarrow.parquet

    values = _columns(s)
    columns: dict[str, Any] = {**values, LABEL: pa.array(s.labels, pa.string())}
    if s.groups is not None:
        columns[GROUP] = pa.array(s.groups, pa.string())
    sink = pa.BufferOutputStream()
    pyarrow.parquet.write_table(pa.table(columns), sink, compression="zstd")
    data = sink.getvalue().to_pybytes()
    path = folder / f"{name}-{hashlib.sha256(data).hexdigest()[:16]}.parquet"
    if not path.exists():
        disk.make_folder(folder, PRIVATE_FOLDER)
        publish(path, data, PRIVATE)
    layout = {
        "format": "parquet",
        "shape": "text" if s.kind in ("text", "dna", "protein") else "list",
        "values": list(values),
        "target": LABEL if s.target != "none" else "",
        "id": "",
        "time": "",
        "group": GROUP if s.groups is not None else "",
        "kind": s.kind,
        "symbols": list(s.layout.symbols),
        "target_kind": "auto" if s.target == "none" else s.target,
        "ends": "missing",
        "optional": True,
        **({"double": True} if s.layout.double else {}),
    }
    return {"file": str(path.absolute()), "layout": layout}


def _columns(s: Sequences) -> dict[str, Any]:
    """Arrow columns of the values: a list of numbers per channel, of tokens, or a text."""
    import pyarrow as pa

    if s.kind in ("text", "dna", "protein"):
        return {"text": pa.array([s.speak(row) for row in range(len(s))], pa.large_string())}
    offsets = pa.array(s.offsets, pa.int64())
    if s.kind == "tokens":
        symbols = np.array(s.layout.symbols, dtype=object)[s.values]
        return {"tokens": pa.LargeListArray.from_arrays(offsets, pa.array(symbols, pa.string()))}
    out = {}
    for channel in range(s.values.shape[1]):
        gone = None if s.observed is None else ~s.observed[:, channel]
        flat = pa.array(np.ascontiguousarray(s.values[:, channel]), mask=gone)
        out[f"channel {channel}"] = pa.LargeListArray.from_arrays(offsets, flat)
    return out
