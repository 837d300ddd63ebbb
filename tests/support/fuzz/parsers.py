"""Every parser of outside input: small good files to damage, and the call that opens them."""

from __future__ import annotations

import io
import json
import wave
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from headstart.documents import from_json, from_toml, misfits
from headstart.errors import BadInput
from headstart.store.files import damages
from headstart.text import escaped
from support.fuzz.doors import DOORS, formats
from support.fuzz.made import STUDY
from support.fuzz.parser import Files, Parser, read_data


def _read_study(path: Path) -> object:
    from headstart.api import Study

    return Study(path, data=path.parent, store=path.parent / "runs").plan


def _read_checkpoint(path: Path) -> object:
    from headstart.checkpoints.read import read_checkpoint

    checkpoint = read_checkpoint(path)
    return [*checkpoint.tensors()]


def _read_results(path: Path) -> object:
    """As `report --from` does: up to the page. A folder holds the results of several seeds, which are joined."""
    from headstart.report.content import read_content
    from headstart.report.results_page import results_page
    from headstart.study.paper.snapshot import read_snapshot

    snapshot = read_snapshot(sorted(path.iterdir()) if path.is_dir() else [path])
    page = results_page(read_content(snapshot.plan, snapshot.results(), snapshot))
    assert not {letter for letter in page if not letter.isprintable() and letter != "\n"}, (
        "a page of unprintable letters"
    )
    return page


def _read_toml(path: Path) -> object:
    return _document(path, lambda text: from_toml(text.decode()))


def _read_json(path: Path) -> object:
    """Also where it has not the form of a file of results."""
    from headstart.study.paper.snapshot_form import FORM

    document = _document(path, from_json)
    if wrong := next(misfits(document, FORM), None):
        raise BadInput(escaped(f"{path.name}: {wrong}"))
    return document


def _document(path: Path, read: Callable[[bytes], object]) -> object:
    try:
        return read(path.read_bytes())
    except ValueError as error:
        raise BadInput(escaped(f"{path.name}: {error}")) from None


def _read_packed_store(path: Path) -> object:
    """Unpack into an empty store, in which there must then be sound stages and nothing else."""
    from headstart.store import Store
    from headstart.store.packing import unpack
    from headstart.verbs.store import check_listing

    store = Store(path.parent / "runs")
    file = _zipped(path) if path.is_dir() else path
    try:
        outcome = unpack(store, file, check_listing)
    except BadInput:
        assert not store.root.exists() or {entry.name for entry in store.root.iterdir()} <= {".locks"}
        raise
    for reason in outcome.refused.values():
        assert reason.isprintable(), reason
        assert len(reason) < 500, reason
    assert {entry.identity for entry in store.listing()} == set(outcome.taken)
    check_listing(store)
    for name in outcome.taken:
        assert store.problem(name) is None
        assert not list(damages(store.folder(name)))
    assert {entry.name for entry in store.root.iterdir()} - set(outcome.taken) <= {
        ".index",
        ".locks",
        ".tensors",
        "reports",
    }
    return outcome


def _zipped(folder: Path) -> Path:
    """The members of a packed store as one file."""
    file = folder.with_suffix(".zip")
    with zipfile.ZipFile(file, "w") as packed:
        for path in folder.rglob("*"):
            if path.is_file():
                packed.write(path, path.relative_to(folder))
    return file


CSV = b'''id,label,x_0,x_1,x_2,x_3
a,slow,0.1,0.2,,0.4
b,quick,1.5,-2e3,0.25,0
"c ""d""",slow,1,2,3,4
e,quick,0.5,0.5,0.5,nan
'''
LONG = b"""series,time,label,value
a,0,up,1.5
a,1,up,2.5
b,0,down,3
b,1,down,1
b,2,down,-1
"""
TEXTS = b"""text;label
"a good film; really";1
"not, at all";0
"line
break";1
d;0
"""


def _csv() -> list[Files]:
    return [{"data.csv": text} for text in (CSV, LONG, TEXTS, CSV.replace(b",", b"\t"), b"\xef\xbb\xbf" + CSV)]


def _json_lines() -> list[Files]:
    rows = [{"x": [0.5, 1, 2.5], "label": "a"}, {"x": [1, None], "label": "b"}, {"x": [3], "label": "a"}]
    texts = [{"text": "ACGT", "label": 1}, {"text": "GGTA", "label": 0}, {"text": "gat\u00e9", "label": 1}]
    several = [{"x": [[1, 2], [3, 4]], "label": 0.5}, {"x": [[5, 6]], "label": 1.5}]
    return [{"data.jsonl": "\n".join(map(json.dumps, table)).encode()} for table in (rows, texts, several)]


def _saved(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _arrays() -> list[Files]:
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    return [{"data.npy": _saved(x)} for x in (values, values.reshape(2, 6, 2), values.astype(np.int16))]


def _array_sets() -> list[Files]:
    out: list[Files] = []
    for save in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        save(file, X=np.arange(24.0).reshape(4, 6), y=np.array([0, 1, 0, 1]), lengths=np.array([6, 5, 4, 6]))
        out.append({"data.npz": file.getvalue()})
    return out


def _parquet() -> list[Files]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"x": [[1.0, 2.0], [3.0, None], [0.5]], "label": ["a", "b", "a"], "id": [1, 2, 3]})
    out: list[Files] = []
    for compression in ("none", "snappy"):
        file = io.BytesIO()
        pq.write_table(table, file, compression=compression)
        out.append({"data.parquet": file.getvalue()})
    return out


def _feather() -> list[Files]:
    import pyarrow as pa

    table = pa.table({"x": [[1.0, 2.0], [3.0, None], [0.5]], "label": ["a", "b", "a"]})
    file = io.BytesIO()
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return [{"data.arrow": file.getvalue()}]


TS = b"""# made up
@problemName Made
@timeStamps false
@missing true
@univariate false
@dimension 2
@equalLength false
@classLabel true up down
@data
1.5,2.5,?:0.1,0.2,0.3:up
3,4:5,6:down
1,1,1:2,2,2:up
"""
FASTA = b""">one label=a
ACGTNACGT
ACG
>two label=b
acgt
>three label=a
TTTT
"""


def _series() -> list[Files]:
    return [{"data.ts": TS}]


def _fasta() -> list[Files]:
    return [{"data.fasta": FASTA}, {"data.fa": FASTA.replace(b"ACGT", b"MKVL")}]


def _wav(width: int, channels: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(channels)
        sound.setsampwidth(width)
        sound.setframerate(8000)
        sound.writeframes(bytes(range(200)) * width * channels)
    return file.getvalue()


def _picture(form: str, mode: str) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).convert(mode).save(file, form)
    return file.getvalue()


def _sound() -> list[Files]:
    return [
        {f"data/{name}/{i}.wav": _wav(width, channels) for name in ("dog", "cat") for i in range(2)}
        for width, channels in ((1, 1), (2, 2), (3, 1), (4, 1))
    ]


def _pictures() -> list[Files]:
    return [
        {f"data/{name}/{i}.{ending}": _picture(form, mode) for name in ("dog", "cat") for i in range(2)}
        for form, ending, mode in (
            ("PNG", "png", "L"),
            ("PNG", "png", "P"),
            ("JPEG", "jpg", "RGB"),
            ("BMP", "bmp", "L"),
        )
    ]


def _texts() -> list[Files]:
    return [{f"data/{name}/{i}.txt": f"{name} {i} \u00e9".encode() for name in ("dog", "cat") for i in range(3)}]


def _archives() -> list[Files]:
    """Long tables in packed files: what is packed is damaged where it is packed."""
    import bz2
    import gzip
    import lzma

    packed = ((".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress))
    return [{f"data.csv{ending}": pack(CSV)} for ending, pack in packed]


def _study() -> list[Files]:
    return [{"study.toml": STUDY}]


def _checkpoint() -> list[Files]:
    import tempfile

    from support import checkpoints

    out: list[Files] = []
    with tempfile.TemporaryDirectory() as folder:
        for shards in (1, 2):
            root = checkpoints.saved(Path(folder) / str(shards), checkpoints.GPT2, shards=shards)
            out.append({f"data/{file.name}": file.read_bytes() for file in root.iterdir()})
    return out


SEEDS = Path(__file__).parents[3] / "docs" / "results" / "seeds"


def _results() -> list[Files]:
    return [{"data.json": (SEEDS / f"{name}.json").read_bytes()} for name in ("mqar-hyena", "film-reviews-0")]


def _seeds() -> list[Files]:
    """Of three seeds, a file each."""
    return [{f"data/{number}.json": (SEEDS / f"film-reviews-{number}.json").read_bytes() for number in range(3)}]


TOML = b'''a = 1
b.c."d e" = [1, 2.5, "x", true, [1979-05-27, 07:32:00], {f = "g", h = [0x1F, 0o7, 0b1, 1_000]}]
[table]
text = """several
lines"""
raw = ''
  [table.inner]
  number = -1e-3
[[list]]
x = inf
[[list]]
x = nan
'''


def _toml() -> list[Files]:
    return [{"data.toml": TOML}, {"data.toml": STUDY}]


def _packed_stores() -> list[Files]:
    """Stages with references and shared tensors in one file, and as its members, which are damaged before they are packed."""
    import tempfile

    from headstart.store.packing import pack
    from support.kept_store import make_store

    with tempfile.TemporaryDirectory() as folder:
        study = make_store(Path(folder))
        by_arm = {cell.arm: [stage.identity for stage in cell.chain] for cell in study.plan.cells}
        file = Path(folder) / "data.zip"
        pack(study.store, [*by_arm["frozen"], *by_arm["drawn"]], "kept", Path(study.source).read_bytes(), file)
        with zipfile.ZipFile(file) as packed:
            members = {f"data/{name}": packed.read(name) for name in packed.namelist()}
        return [{file.name: file.read_bytes()}, members]


PARSERS: dict[str, Parser] = {
    "study": Parser(_study, _read_study),
    "csv": Parser(_csv, read_data),
    "json_lines": Parser(_json_lines, read_data),
    "npy": Parser(_arrays, read_data),
    "npz": Parser(_array_sets, read_data),
    "parquet": Parser(_parquet, read_data),
    "arrow": Parser(_feather, read_data),
    "ts": Parser(_series, read_data),
    "fasta": Parser(_fasta, read_data),
    "pictures": Parser(_pictures, read_data),
    "sound": Parser(_sound, read_data),
    "texts": Parser(_texts, read_data),
    "packed": Parser(_archives, read_data),
    "checkpoint": Parser(_checkpoint, _read_checkpoint),
    "packed_store": Parser(_packed_stores, _read_packed_store),
    "results": Parser(_results, _read_results),
    "seeds": Parser(_seeds, _read_results),
    "toml": Parser(_toml, _read_toml),
    "json_document": Parser(_results, _read_json),
    **DOORS,
}
PARSERS |= formats({*PARSERS, "jsonl", "folder"})
