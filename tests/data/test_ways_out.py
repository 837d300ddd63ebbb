"""What is wrong with a file is one line with a way out, and the way out is taken: the options of the message are given
(in Python the layout), and the file is read."""

import ast
import io
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from data.test_findings import CASES, IDS, Case, findings
from support.made_tables import numbers, wide, write

from headstart.data import LayoutSpec, read_sequences
from headstart.errors import BadInput
from headstart.verbs.data import layout_of
from headstart.verbs.options import LayoutOptions, option_name
from headstart.ways import WORDS_WAY, in_python, typed

Lines = list[str]
NAMES = {option_name(LayoutOptions, name): name for name in LayoutOptions.__dataclass_fields__}


def cells(word: str, *rows: int) -> Lines:
    """A wide table with this word in a cell of some rows."""
    lines = wide(24)
    for row in rows:
        lines[row] = lines[row].rsplit(",", 1)[0] + f",{word}"
    return lines


def long(head: str, row: Callable[[int, int], str], each: int = 6) -> Lines:
    """A long table of 12 recordings."""
    return [head, *(row(i, step) for i in range(12) for step in range(each))]


def shuffled(lines: Lines) -> Lines:
    """The same rows in another order."""
    order = np.random.default_rng(0).permutation(len(lines) - 1)
    return [lines[0], *(lines[1 + i] for i in order)]


X = numbers(240, 3)
BAD: dict[str, Lines] = {
    "one word": cells("x/y", 3),
    "one word in many rows": cells("--", *range(3, 20)),
    "several words": [*cells("x/y", 3, 4)[:6], *cells("#DIV/0!", 8, 9)[6:]],
    "infinite": cells("inf", 3, 7),
    "a target with words": ["y,t0,t1,t2", *(f"{x[0] if i != 4 else '<0.1'},{i}.5,{x[1]},{x[2]}" for i, x in enumerate(X[:40]))],
    "a target of percents": ["target,t0,t1,t2", *(f"{i}%,{x[0]},{x[1]},{x[2]}" if i % 9 else f"{i},{x[0]},{x[1]},{x[2]}" for i, x in enumerate(X[:40]))],
    "two targets": ["label,class,t0,t1,t2", *(f"{'ab'[i % 2]},{'xyz'[i % 3]},{x[0]},{x[1]},{x[2]}" for i, x in enumerate(X[:24]))],
    "shuffled samples": shuffled(long("stueck,nth,a,b,label", lambda i, t: f"{i},{t},{X[6 * i + t][0]},{X[6 * i + t][1]},{'ab'[i % 2]}")),
    "sorted classes": ["kind,a,b", *(f"{1 + i // 20},{x[0]},{x[1]}" for i, x in enumerate(X[:60]))],
    "blocks without an id": ["x,y,z,state", *(f"{x[0]},{x[1]},{x[2]},{'ab'[i // 20 % 2]}" for i, x in enumerate(X[:160]))],
    "a decimal comma or thousands": ["label;t0;t1", *(f"{'ab'[i % 2]};{i + 1},{100 + i};{i + 2},{200 + i}" for i in range(24))],
    "a limb in each row": long("recording,state,time,limb,value", lambda i, t: f"r{i},{'ab'[i % 2]},{20 * (t // 2) + 7 * (t % 2)},{'uv'[t % 2]},{X[6 * i + t][0]}"),
    "a time that is none": long("id,label,time,x", lambda i, t: f"r{i},{'ab'[i % 2]},step{t}a,{X[6 * i + t][0]}"),
    "the same time twice": long("id,label,time,x", lambda i, t: f"r{i},{'ab'[i % 2]},{t // 2},{X[6 * i + t][0]}"),
    "a label that changes": long("id,label,time,x", lambda i, t: f"r{i},{'ab'[t % 2]},{t},{X[6 * i + t][0]}"),
    "a quote that stays open": [wide(24)[0], *(line.replace("s05", 's05"').replace(",a,", ",a,") for line in wide(24)[1:3]), '"s99,a,1,2,3,4,5,6', *wide(24)[4:]],
}  # fmt: skip
"""What is wrong with a file, and its lines; each message names an option that reads it."""
IN_PYTHON = ("two targets", "sorted classes", "blocks without an id", "a limb in each row", "the same time twice")


def refusal(path: Path, spec: LayoutSpec) -> str:
    """What is said of a file."""
    with pytest.raises(BadInput) as caught:
        read_sequences(path, spec)
    return str(caught.value)


def options_of(message: str) -> list[dict[str, list[str]]]:
    """The settings that a message names with values: of a question one for each answer, else all together."""
    parts = [line for line in message.split("\n")[1:] if line.startswith("  ")] or [message]
    out = []
    for part in parts:
        settings: dict[str, list[str]] = {}
        for match in re.finditer(r"(--[a-z][a-z-]+) ('[^']*'|[^\s,;)]+)", part):
            if match[1] in NAMES and match[2] not in ("and", "or", "a", "another", "pieces", "where", "which", "those"):
                settings.setdefault(NAMES[match[1]], []).append(shlex.split(match[2])[0])
        out.append(settings)
    return out


@pytest.mark.parametrize("what", BAD)
def test_a_message_is_a_line_and_each_way_out_that_it_names_ends_well(what: str, tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", "\n".join(BAD[what]) + "\n")
    with typed(["show", "f.csv"]):
        message = refusal(path, LayoutSpec())
    question = "give one of these:" in message
    assert question or len(message.split("\n")) == 1
    ways = options_of(message)
    assert any(ways), message
    for way in ways:
        fields = {name: values if name in ("na", "values") else values[0] for name, values in way.items()}
        sequences = read_sequences(path, layout_of(LayoutOptions(**fields)))
        assert len(sequences) > 1, way


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_each_option_that_a_finding_names_with_a_value_reads_the_file_without_it(case: Case, tmp_path: Path) -> None:
    path = case.make(tmp_path)
    (text,) = findings(case.name, read_sequences(path, LayoutSpec(**case.settings)))
    (way,) = options_of(text)
    assert bool(way) or not case.mend or "group" in case.mend
    for field, values in way.items():
        fields = case.settings | {field: values if field in ("na", "values") else values[0]}
        assert not findings(case.name, read_sequences(path, layout_of(LayoutOptions(**fields)))), (field, values)


def sounds(folder: Path, *forms: tuple[int, int]) -> None:
    """A folder of each class with recordings of 300 samples in turn of these (rates, channels)."""
    from scipy.io import wavfile

    for i in range(8):
        rate, channels = forms[i % len(forms)]
        path = folder / "ab"[i // 4] / f"{i}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        wavfile.write(path, rate, (numbers(300, channels, i) * 3000).astype(np.int16))


def tables(folder: Path, *steps: float) -> None:
    """The same of tables with a clock of these steps in turn."""
    for i in range(8):
        rows = [f"{t * steps[i % len(steps)]:.2f},{x[0]}" for t, x in enumerate(numbers(40, 1, i))]
        (folder / "ab"[i // 4]).mkdir(parents=True, exist_ok=True)
        write(folder / "ab"[i // 4] / f"{i}.csv", "\n".join(["time,x", *rows]))


FOLDERS: dict[str, tuple[Callable[[Path], None], dict[str, str], str]] = {
    "two rates of sound": (lambda p: sounds(p, (8000, 1), (16000, 1)), {}, "has 16000 samples per second"),
    "one file in stereo": (
        lambda p: sounds(p, *[(8000, 1)] * 7, (8000, 2)),
        {},
        "has 2 channels, the first file has 1",
    ),
    "two rates of tables": (lambda p: tables(p, 0.01, 0.02), {}, "recordings have several rates"),
    "windows that are too long": (
        lambda p: tables(p, 0.01),
        {"window": "2s"},
        "8 recordings are shorter than a window",
    ),
}


@pytest.mark.parametrize("what", FOLDERS)
def test_what_is_said_of_a_folder_is_one_line_and_its_ways_out_end_well(what: str, tmp_path: Path) -> None:
    make, fields, words = FOLDERS[what]
    make(tmp_path / "f")
    message = refusal(tmp_path / "f", LayoutSpec(**fields))
    assert words in message
    assert len(message.split("\n")) == 1
    (way,) = options_of(message)
    assert way
    for name, values in way.items():
        for value in values:
            setting = {name: float(value) if name == "rate" else value}
            s = read_sequences(tmp_path / "f", layout_of(LayoutOptions(**{**fields, **setting})))
            assert len(s) >= 8, (name, value)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"window": "5s"}, "f.csv: --window: 5s is a time, and nothing says how long a position lasts"),
        ({"step": "5"}, "f.csv: --step: is of windows, and none are cut; give --window with it, or leave it out"),
        ({"label_from": "{label}_{take}"}, "leave it out, and name that column (--target label)"),
        ({"target_kind": "number"}, "the target 'a' is not a finite number; correct it, or take it for a class with"),
        ({"kind": "dna"}, "no column looks like a sequence (text; "),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value[:30],
)
def test_what_is_wrong_with_an_option_of_a_wide_table_names_it(
    fields: dict[str, str], words: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "f.csv", "\n".join(wide(24)))
    with typed(["show", "f.csv"]):
        message = refusal(path, layout_of(LayoutOptions(**fields)))
    assert words in message
    assert "--layout long" not in message
    if "label_from" in fields or "target_kind" in fields:
        (way,) = options_of(message)
        fields = {name: way[name][0] for name in ("target", "target_kind") if name in way}
        assert read_sequences(path, layout_of(LayoutOptions(**fields))).classes == ("a", "b")


def test_in_python_messages_name_the_layout_and_that_ends_well() -> None:
    frames = [pd.read_csv(io.StringIO("\n".join(BAD[what]))) for what in IN_PYTHON]
    for frame in frames:
        with pytest.raises(BadInput) as caught:
            read_sequences(frame)
        assert "--" not in str(caught.value)
        layouts = [ast.literal_eval(text) for text in re.findall(r"layout=(\{[^}.]*\})", str(caught.value))]
        assert layouts
        for layout in layouts:
            assert len(read_sequences(frame, LayoutSpec(**layout))) > 1


def test_an_option_of_a_message_is_said_as_it_is_typed() -> None:
    from headstart.ways import asked, option, settings

    assert option("na", "n/a", "--") == "--na n/a --na '--'"
    assert settings({"id": "my id", "time": "t"}) == "--id 'my id' --time-column t"
    with in_python():
        assert option("na", "n/a") == "layout={'na': ['n/a']}"
        assert option("channels_first", "true") == "layout={'channels_first': True}"
        assert settings({"id": "my id", "time": "t"}) == "layout={'id': 'my id', 'time': 't'}"
        assert asked("q", {"id": "a"}) == "q; give one of these:\n  layout={'id': 'a'}"


def test_words_that_are_asked_for_as_tokens_are_read_in_each_form_that_the_message_names(tmp_path: Path) -> None:
    words = [[f"w{(i * k) % 7}" for k in range(12)] for i in range(1, 13)]
    wide = ["label,t0,t1", *(f"{'ab'[i % 2]},{row[5]},{row[7]}" for i, row in enumerate(words))]
    cells = ["label,t", *(f"{'ab'[i % 2]},{' '.join(row)}" for i, row in enumerate(words))]
    for lines, values in ((wide, ("t0", "t1")), (cells, ("t",))):
        message = refusal(
            write(tmp_path / "f.csv", "\n".join(lines)), LayoutSpec(kind="tokens", values=values, target="label")
        )
        assert message.endswith(WORDS_WAY) or f"{WORDS_WAY})" in message
    rows = [f"r{i},{'ab'[i % 2]},{k},{word}" for i, row in enumerate(words) for k, word in enumerate(row)]
    lists = [json.dumps({"label": "ab"[i % 2], "t": row}) for i, row in enumerate(words)]
    for path in (
        write(tmp_path / "long.csv", "\n".join(["id,label,position,word", *rows])),
        write(tmp_path / "lists.jsonl", "\n".join(lists)),
    ):
        result = read_sequences(path)
        assert (result.kind, len(result), len(result.layout.symbols)) == ("tokens", 12, 7)
