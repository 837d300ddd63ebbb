"""Doors for what a person got from elsewhere: formats of instruments, stores, results, tokenisers, exported models,
plugins that are not yet run, and tables of labels."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import wave
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from headstart.data.readers import READERS
from headstart.errors import BadInput, Damaged
from headstart.tasks import Task
from headstart.text import escaped
from support.fuzz.apart import in_forks
from support.fuzz.archive import archive_samples, read_archive
from support.fuzz.made import STUDY
from support.fuzz.parser import Files, Parser, files_of, read_data, short_of_memory

TEXTS = ["a good film", "the plot was very bad!", "", "\u65e5\u672c \x00\ud7ff"]


def _format(form: str) -> Parser:
    """A format by its line of READERS."""

    def seeds() -> list[Files]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            first = root / f"data.{str(READERS[form].facts['endings']).split()[0]}"
            import_module("contracts.test_readers").SAMPLES[form](first)
            names = [first.name, *(path.name for path in sorted(root.iterdir()) if path != first)]
            return [{name: (root / name).read_bytes() for name in names}]

    return Parser(seeds, in_forks if form in APART else read_data)


APART = ("mat", "hdf5")
"""Formats that are read by a process of their own, which is a fork here."""


def formats(covered: set[str]) -> dict[str, Parser]:
    """A parser for each other format whose library is here."""
    forms = [form for form in READERS if form not in covered]
    return {form: _format(form) for form in forms if find_spec(str(READERS[form].facts.get("needs", "numpy")))}


def _labels() -> list[Files]:
    sound = io.BytesIO()
    with wave.open(sound, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(bytes(range(200)))
    sounds = {f"data/{name}.wav": sound.getvalue() for name in "abcd"}
    table = b"file,label,speaker\na.wav,dog,1\nb.wav,cat,1\nc.wav,dog,2\nd.wav,cat,2\n"
    return [{"data/labels.csv": table, **sounds}]


def _stores() -> list[Files]:
    from support.kept_store import make_store

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        study = make_store(root)
        frozen = next(cell for cell in study.plan.cells if cell.arm == "frozen")
        return [
            {
                f"data/{stage.identity}/{name}": content
                for stage in frozen.chain
                for name, content in files_of(root / "runs" / stage.identity, "").items()
            }
        ]


def _read_store(path: Path) -> object:
    """All that the verbs read of a store that somebody else has made."""
    import headstart
    from headstart.store import Store
    from headstart.verbs.look import _show_stage, _stages
    from headstart.verbs.store import check_listing, verify_store

    out, refused = io.StringIO(), list[str]()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        store = Store(path)
        _stages(str(path), [], None)
        verify_store([], str(path))
        check_listing(store)
        for name in store.names():
            for verb in (
                lambda name=name: _show_stage(store, name),
                lambda name=name: headstart.load(name, store=path),
            ):
                try:
                    verb()
                except (BadInput, Damaged) as error:
                    if short_of_memory(error):
                        raise
                    refused.append(str(error))
    assert escaped(out.getvalue()) == out.getvalue()
    if refused:
        raise BadInput(f"{path.name}: {max(refused, key=len)}")
    return None


def _prepared_task() -> Task:
    """A small task, made or opened in the cache that HEADSTART_CACHE names."""
    from headstart.tasks.listops import ListOpsSpec
    from headstart.tasks.task import open_task

    return open_task(ListOpsSpec(train=12, val=4, test=4, min_length=5, max_length=12), Path())


def _caches() -> list[Files]:
    with tempfile.TemporaryDirectory() as folder, _cache(Path(folder)):
        _prepared_task()
        return [{name: data for name, data in files_of(Path(folder)).items() if not name.endswith(".lock")}]


@contextlib.contextmanager
def _cache(folder: Path) -> Iterator[None]:
    before = os.environ.get("HEADSTART_CACHE")
    os.environ["HEADSTART_CACHE"] = str(folder)
    try:
        yield
    finally:
        del os.environ["HEADSTART_CACHE"]
        if before is not None:
            os.environ["HEADSTART_CACHE"] = before


def _read_cache(path: Path) -> object:
    """Damage is made anew; what is wrong behind right digests is refused."""
    from headstart.data.prepared import cache_entries

    with _cache(path):
        entries, task = cache_entries(), _prepared_task()
    return entries, [split.inputs(0) for split in (task.train, task.val, task.test)]


def _tokenisers() -> list[Files]:
    from support import words

    with tempfile.TemporaryDirectory() as folder:
        words.saved_t5(Path(folder, "t5"))
        words.saved_bert(Path(folder, "bert"))
        own = ("tokenizer.json", "vocab.txt", "tokenizer_config.json")
        return [
            {name: content for name, content in files_of(Path(folder, kind)).items() if Path(name).name in own}
            for kind in ("t5", "bert")
        ]


def _read_tokeniser(path: Path) -> object:
    from headstart.checkpoints.folder import Folder
    from headstart.checkpoints.tokeniser import piece_names, pieces_of, tokeniser_text, unknown_share

    vectors = 40 if (path / "tokenizer.json").exists() else 26
    text = tokeniser_text(Folder(path), vectors, True)
    return pieces_of(text, TEXTS, 40), unknown_share(text, TEXTS, 40), piece_names(text)


def _read_exported(path: Path) -> object:
    """What skops hands over: bytes of two files, in an object that it has made."""
    from headstart.estimator.exported import ExportedClassifier

    files = {file.name: np.frombuffer(file.read_bytes(), dtype=np.uint8) for file in path.iterdir()}
    try:
        return ExportedClassifier(files).model
    except BadInput as error:  # files within the file have no names of their own
        raise BadInput(f"{path.name}: {error}") from None


PLUGIN = b'''"""A mixer of my own."""
import math
from dataclasses import dataclass

from headstart import MixerSpec, register_mixer
from torch import nn
import helper


class Mean(nn.Module):
    def forward(self, x, valid, draw=None, bias=None):
        return x * helper.SCALE + f"{math.pi:.3f}".count("1") * 1e-3


class MeanSpec(MixerSpec):
    """Nothing mixes."""
    kind: str = "my_mean"

    def build(self, width, length, causal):
        return Mean()


register_mixer("my_mean", MeanSpec)
'''


def _plugins() -> list[Files]:
    """A plugin by itself, and beside a study that names it."""
    both: Files = {"data.py": PLUGIN, "helper.py": b"SCALE = 2\n\n\ndef half(x):\n    return x / 2  # a comment\n"}
    study = STUDY.replace(b"[stages.pretrain]", b'requires = { data = "0123456789abcdef" }\n[stages.pretrain]', 1)
    return [both, {f"data/{name}": content for name, content in {"study.toml": study, **both}.items()}]


def _read_plugin(path: Path) -> object:
    """Up to what is run: the source is read, taken apart and hashed. A study that names it imports nothing."""
    from headstart.api import Study
    from headstart.plugins.identity import plugin_identity

    if path.is_file():
        return plugin_identity(path)
    if not (path / "study.toml").exists() or not (path / "data.py").exists():
        raise BadInput(f"{path.name}: is lost")
    before = {name: sys.modules.get(name) for name in ("data", "helper")}
    with contextlib.chdir(path):
        try:
            Study("study.toml", data=path, store=path / "runs")
        except BadInput as error:
            assert before == {name: sys.modules.get(name) for name in before}
            if "requires" not in str(error):
                raise
    return plugin_identity(path / "data.py")


def _models() -> list[Files]:
    from headstart.serve.folder import save_model
    from support.made_models import made, walks

    out: list[Files] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, network in (("bare", False), ("both", True)):
            root = Path(folder) / name
            save_model(made(walks(), ("summary", "kernels"), network=network), root)
            out.append(files_of(root))
    return out


def _read_model(path: Path) -> object:
    """Open, and predict sequences of the kind that it was made for, unless it was made for others."""
    from headstart.serve.folder import load_model
    from support.made_models import walks

    served = load_model(path)
    with contextlib.suppress(BadInput):
        served.predict(walks(4))
    return served


DOORS: dict[str, Parser] = {
    "labels": Parser(_labels, read_data),
    "model": Parser(_models, _read_model),
    "store": Parser(_stores, _read_store),
    "cache": Parser(_caches, _read_cache),
    "tokeniser": Parser(_tokenisers, _read_tokeniser),
    "skops": Parser(_models, _read_exported),
    "plugin": Parser(_plugins, _read_plugin),
    "archive": Parser(archive_samples, read_archive),
}
