"""Damaged files of every format are read or refused in words that name the file; `python -m support.fuzz` looks longer."""

import io
import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from support.fuzz.apart import in_forks
from support.fuzz.damage import damage
from support.fuzz.parser import Parser
from support.fuzz.parsers import PARSERS
from support.fuzz.run import Finding, outcome, run, written

from headstart.data import read_sequences
from headstart.data.apart import arrays_apart
from headstart.data.archives import reading
from headstart.documents import from_toml
from headstart.errors import BadInput

FEW = {"mat": 1, "hdf5": 1, "store": 6, "cache": 8, "packed_store": 12, "model": 15}
"""How often the slow ones are tried here: the first two are read in a process of their own."""


NAMES = [pytest.param(name, marks=pytest.mark.slow) if name == "packed_store" else name for name in PARSERS]
"""The slowest one, of several files within one, is tried by `make test-all`."""


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_is_read_or_refused_in_words(name, tmp_path):
    parser = PARSERS[name]
    samples = parser.seeds()
    for files in samples:
        parser.read(written(files, tmp_path))

    for number in range(FEW.get(name, 25)):
        files = damage(samples, Random(f"{name}/{number}")).files()
        assert outcome(parser, written(files, tmp_path), files) in ("read", "refused")


def test_a_signalling_nan_is_missing_like_any_other(tmp_path):
    values = np.arange(24, dtype=np.uint32).reshape(2, 6, 2)
    values[1, 4, 1] = 0xFFA80000
    file = io.BytesIO()
    np.save(file, values.view(np.float32))
    files = {"data.npy": file.getvalue()}
    assert outcome(PARSERS["npy"], written(files, tmp_path), files) == "read"


def test_numbers_of_both_signs_whose_product_no_float_holds_are_read(tmp_path):
    values = np.arange(1, 25, dtype=np.float32).reshape(4, 6)
    values[0, 0], values[1, 1], values[3, 5] = -3e38, 0, 3e38
    file = io.BytesIO()
    np.save(file, values)
    files = {"data.npy": file.getvalue()}
    assert outcome(PARSERS["npy"], written(files, tmp_path), files) == "read"


@pytest.mark.parametrize("key", ["\ud800", "unknown \ud800"])
def test_a_key_of_half_a_character_is_refused_in_words(key, tmp_path):
    files = dict(PARSERS["model"].seeds()[0])
    name = next(name for name in files if name.endswith("config.json"))
    files[name] = json.dumps({**json.loads(files[name]), key: 1}).encode()
    assert outcome(PARSERS["model"], written(files, tmp_path), files) == "refused"


@pytest.mark.parametrize("file", ["model\0.safetensors", "\ud800", "a" * 300])
def test_an_index_that_names_what_no_file_can_be_called_is_refused_in_words(file, tmp_path):
    files = dict(next(files for files in PARSERS["checkpoint"].seeds() if any("index.json" in name for name in files)))
    name = next(name for name in files if "index.json" in name)
    index = json.loads(files[name])
    index["weight_map"] = {**index["weight_map"], next(iter(index["weight_map"])): file}
    files[name] = json.dumps(index).encode()
    assert outcome(PARSERS["checkpoint"], written(files, tmp_path), files) == "refused"


@pytest.mark.parametrize("value", ["x" * 1_000_000, list(range(10_000)), 10**4_000])
def test_a_long_value_leaves_its_place_and_the_way_out_in_a_message(value):
    text = str(BadInput(f"study.toml: axes.seed: {value!r} is not a number; give another"))
    assert len(text) < 2_000
    assert text.startswith("study.toml: axes.seed: ")
    assert text.endswith("is not a number; give another")


def test_a_thousand_mistakes_are_not_a_thousand_lines():
    lines = str(BadInput("\n".join(f"study.toml: claims[{i}]: {i} should be a table" for i in range(1000)))).split("\n")
    assert (len(lines), lines[-1]) == (25, "and 976 lines more")


@pytest.mark.parametrize("start", ["", "[", "x = {", "[ "])
@pytest.mark.parametrize("part", ["a", '"a b"', "'.'", "a "])
def test_a_key_of_toml_of_very_many_parts_is_refused_at_once(start: str, part: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match="a key in it has more than 100 parts"):
        from_toml(f'name = "x"\n{start}' + ".".join([part] * 200_000) + " = 1")
    for text in ("a" * 10**6, "a." * 99 + "a = 1", f'x = "{"a." * 300}"', '"' * 10**5, "x = [" + "1.5," * 10**5 + "]"):
        with suppress(ValueError):
            from_toml(text)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("name", ["study", "model", "checkpoint", "results", "json"])
@pytest.mark.parametrize(
    "value", ["[" * 20_000 + "]" * 20_000, "[" * 10**6, '{"a":' * 20_000, "[" * 200 + "]" * 200, "9" * 10**5]
)
def test_brackets_and_numbers_without_end_are_refused_at_every_door_of_documents(name, value, tmp_path):
    files = dict(PARSERS[name].seeds()[0])
    file = next(name for name in files if name.endswith((".toml", "config.json", "data.json")))
    files[file] = f"x = {value}\n".encode() if name == "study" else f'{{"x": {value}}}'.encode()
    began = time.process_time()
    assert outcome(PARSERS[name], written(files, tmp_path), files) == "refused"
    assert time.process_time() - began < 5


def test_what_a_search_must_find_is_found_kept_and_the_search_goes_on(tmp_path, monkeypatch):
    """The control: a reader that ends its process, raises what it must not, asks for all memory, waits or names no file."""

    def read(path: Path) -> None:
        letter = path.read_bytes()[:1] or b"a"
        if letter == b"a":
            return
        wrong: dict[int, Callable[[], object]] = {
            0: lambda: os.kill(os.getpid(), signal.SIGKILL),
            1: lambda: {}["key"],
            2: lambda: bytearray(2**31),
            3: lambda: [0 for _ in iter(int, 1)],
        }
        wrong.get(letter[0] % 5, lambda: None)()
        raise BadInput("a file is damaged")

    monkeypatch.setattr("support.fuzz.run.SECONDS", 0.1)
    monkeypatch.setitem(PARSERS, "made", Parser(lambda: [{"a.bin": b"a"}], read))
    counts = run("made", 0.03, 0, tmp_path, clock=2)
    heads = {key.partition(" at ")[0].partition(":")[0] for key in counts.findings}
    assert heads == {"the process ended with -9", "KeyError", "MemoryError", "TimeoutError", "Finding"}
    assert all(Path(sample).is_dir() and Path(f"{sample}.txt").stat().st_size for sample in counts.findings.values())
    assert counts.trials > counts.read > 0


@pytest.mark.parametrize("raised", [MemoryError("no room"), TimeoutError("took longer than 10 s")])
def test_a_refusal_for_want_of_memory_or_time_is_a_finding(raised, tmp_path, monkeypatch):
    """A reader that takes either for a damaged file has no answer within its limits all the same."""

    def read(path: Path) -> None:
        try:
            if isinstance(raised, TimeoutError):
                os.kill(os.getpid(), signal.SIGPROF)  # as the clock of the processor does
            raise raised
        except (OSError, MemoryError) as error:
            raise BadInput(f"{path}: cannot be read") from error

    path = written({"a.bin": b"a"}, tmp_path)
    with pytest.raises(Finding, match="memory" if isinstance(raised, MemoryError) else "longer"):
        outcome(Parser(seeds=lambda: [], read=read), path, {"a.bin": b"a"})


def test_a_reader_that_goes_on_when_its_time_is_over_is_a_finding(tmp_path):
    def read(path: Path) -> None:
        with suppress(OSError):
            os.kill(os.getpid(), signal.SIGPROF)

    path = written({"a.bin": b"a"}, tmp_path)
    with pytest.raises(Finding, match="longer"):
        outcome(Parser(seeds=lambda: [], read=read), path, {"a.bin": b"a"})


def test_what_is_kept_of_a_want_of_memory_has_the_damage_that_asks_for_it(tmp_path, monkeypatch):
    first = [True]

    def read(path: Path) -> None:
        with reading(path):
            if path.read_bytes() != b"a":
                raise MemoryError
        if not first:  # a plain refusal
            raise BadInput("a.bin: is damaged")
        first.clear()

    monkeypatch.setitem(PARSERS, "made", Parser(lambda: [{"a.bin": b"a"}], read))
    (sample,) = run("made", 0.001, 0, tmp_path, clock=1).findings.values()
    assert Path(sample, "a.bin").read_bytes() != b"a"


def test_a_door_of_several_readers_hides_no_want_of_memory(tmp_path, monkeypatch):
    files = PARSERS["archive"].seeds()[0]

    def members(root: Path, wanted: object, mistakes: object) -> object:
        with reading(root):
            raise MemoryError

    monkeypatch.setattr("support.fuzz.archive.archives.members", members)
    with pytest.raises(Finding, match="took all memory"):
        outcome(PARSERS["archive"], written(files, tmp_path), files)


def _short_of_memory(path: Path) -> object:
    raise MemoryError


def _refused_for_want_of_memory(path: Path) -> object:
    with reading(path):
        raise MemoryError


def _slow(path: Path, seconds: float = 0.3) -> object:
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass
    raise BadInput(f"{path}: is damaged")


def _endless(path: Path) -> object:
    return _slow(path, 5)


@pytest.mark.parametrize(
    ("reader", "message"),
    [
        (_short_of_memory, "took all memory"),
        (_refused_for_want_of_memory, "took all memory"),
        (_slow, "took longer than 0.1 s"),
    ],
)
def test_what_a_process_of_its_own_takes_to_read_a_file_is_seen_too(reader, message, tmp_path, monkeypatch):
    """It answers by a file, or not at all, which is a refusal to whoever waits for it."""
    monkeypatch.setattr("support.fuzz.apart.SECONDS", 0.1)
    path = written({"a.bin": b"a"}, tmp_path)
    task = f"{__name__}:{reader.__name__}"
    parser = Parser(seeds=lambda: [], read=lambda path: in_forks(path, lambda: arrays_apart(task, path, "file")))
    with pytest.raises((Finding, AssertionError), match=message):
        outcome(parser, path, {"a.bin": b"a"})


def test_a_library_that_never_ends_is_ended_by_what_it_takes_of_the_processor(tmp_path, monkeypatch):
    """HDF5 goes round for ever in 6 kB; a clock of half a minute alone would let it."""
    monkeypatch.setattr("headstart.data.apart.WORK", 0)
    path = written({"a.bin": b"a"}, tmp_path)
    with pytest.raises(BadInput, match="what reads it stopped"):
        in_forks(path, lambda: arrays_apart(f"{__name__}:_endless", path, "file"))


def test_a_file_of_arrow_is_given_no_room_beyond_its_size(tmp_path):
    """834 bytes whose first four say that 1.3 GB follow."""
    (tmp_path / "a.arrow").write_bytes(b"\0RRO" + bytes(830))
    whole = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(whole)
    pa.set_memory_pool(pool)
    try:
        with pytest.raises(BadInput, match="is not a whole Arrow file"):
            read_sequences(tmp_path / "a.arrow")
    finally:
        pa.set_memory_pool(whole)
    assert pool.max_memory() < 100_000
