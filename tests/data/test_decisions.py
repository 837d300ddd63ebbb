"""What each column of a table is taken for: why, how surely, and what else it could be; in one table and as JSON."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from support.command import command
from support.made_tables import numbers, read, why, wide, write

from headstart.data import LayoutSpec, check_targets
from headstart.data.layout import Decision
from headstart.data.sources import explained_sequences
from headstart.errors import BadInput


def decided(path: Path, **settings: str) -> dict[str, Decision]:
    """The decisions on a file by the names of its columns; `shape` on the whole table."""
    decisions = explained_sequences(path, LayoutSpec(**settings))[1]
    return {decision.column or decision.role: decision for decision in decisions}


def long(path: Path, *extra: str, **columns: list[object]) -> Path:
    """A long table of 12 recordings of 6 positions, whose columns are these (each of 72 cells)."""
    names = list(columns)
    rows = [",".join(str(columns[name][i]) for name in names) for i in range(72)]
    return write(path, "\n".join([",".join(names), *rows, *extra]) + "\n")


SIDES = {
    "piece": [i // 6 for i in range(72)],
    "state": ["ab"[i // 6 % 2] for i in range(72)],
    "time": [i % 6 * 0.02 for i in range(72)],
    "force": numbers(72, 1)[:, 0].tolist(),
}


def test_every_column_has_a_role_a_reason_a_confidence_and_an_option(tmp_path: Path) -> None:
    made = decided(write(tmp_path / "f.csv", "\n".join(wide())))
    assert {name: (d.role, d.option) for name, d in made.items()} == {
        "shape": ("shape", "--layout"),
        "id": ("id", "--id"),
        "label": ("target", "--target"),
        "t0": ("values", "--values"),
    }
    assert (made["t0"].last, made["t0"].count, made["t0"].confidence) == ("t5", 6, "certain")
    assert made["label"].why == "texts, 2 different in 12 rows, and named as targets are"
    assert all(d.why and d.confidence for d in made.values())


def test_what_stands_in_a_column_decides_before_its_name(tmp_path: Path) -> None:
    made = decided(long(tmp_path / "f.csv", **{"q" if name == "piece" else name: x for name, x in SIDES.items()}))
    assert (made["q"].role, made["q"].by, made["time"].role, made["state"].role) == ("id", "content", "time", "target")
    assert made["force"].role == "values"


def test_a_name_against_its_cells_is_unsure_and_what_else_a_column_could_be_is_said(tmp_path: Path) -> None:
    rows = [f"{i % 3},{'ab'[i % 2]},{20 + i % 7},{x[0]},{x[1]},{x[2]}" for i, x in enumerate(numbers(24, 3))]
    made = decided(write(tmp_path / "f.csv", "\n".join(["id,label,age,t0,t1,t2", *rows])), group="")
    assert made["id"].confidence == "unsure"
    assert made["label"].confidence == "certain"
    assert (made["age"].role, made["age"].otherwise) == ("", ("target", "values"))


def test_what_was_set_is_certain(tmp_path: Path) -> None:
    made = decided(write(tmp_path / "f.csv", "\n".join(wide())), id="id", target="")
    assert (made["id"].by, made["id"].confidence, made["label"].role) == ("setting", "certain", "")


def test_the_table_is_shown_and_given_to_programs(tmp_path: Path) -> None:
    long(tmp_path / "f.csv", **SIDES)
    env = {**os.environ, "COLUMNS": "200"}
    shown = command("show", "f.csv", cwd=tmp_path, env=env).stdout
    assert all(text in shown for text in ("taken for", "--time-column", "long: a row per position"))
    document = json.loads(command("show", "f.csv", "--json", cwd=tmp_path, env=env).stdout)
    columns = {column["column"]: column for column in document["columns"]}
    assert (columns["piece"]["role"], columns["piece"]["option"]) == ("id", "--id")
    assert columns["piece"]["why"] in shown
    assert document["facts"]["rows"] == 12
    assert all(note in shown for note in document["notes"])
    assert len(document["notes"]) == 2


def test_both_commands_of_a_question_end_well_as_they_stand(tmp_path: Path) -> None:
    rows = [f"{'ab'[i % 2]},{'xyz'[i % 3]},{i}.5,{i}.25,{i}.75" for i in range(12)]
    write(tmp_path / "my file.csv", "\n".join(["label,class,t0,t1,t2", *rows]))
    asked = command("show", "my file.csv", "--na", "?", cwd=tmp_path)
    assert asked.returncode == 2
    ways = [line.strip() for line in asked.stderr.splitlines() if line.startswith("  headstart show")]
    assert ways[0] == "headstart show 'my file.csv' --na '?' --target label"
    import shlex

    for way in ways[:2]:
        assert command(*shlex.split(way)[1:], cwd=tmp_path).returncode == 0


def test_pieces_that_are_counted_anew_for_each_subject_are_told_apart_by_both(tmp_path: Path) -> None:
    anew = {"subject": [f"s{i // 24}" for i in range(72)], "trial": [i // 6 % 4 for i in range(72)]}
    rest = {name: x for name, x in SIDES.items() if name != "piece"}
    result = read(long(tmp_path / "f.csv", **anew, **rest))
    assert (result.layout.id, result.layout.group, result.layout.target, len(result)) == (
        "subject,trial",
        "subject",
        "state",
        12,
    )
    assert result.ids is not None
    assert result.ids[5] == "s1/1"
    assert result.channels == ("force",)
    again = read(tmp_path / "f.csv", **result.layout.fixed().model_dump(exclude_defaults=True))
    assert again.ids == result.ids
    rest["time"] = [i * 0.02 for i in range(72)]
    assert read(long(tmp_path / "g.csv", **anew, **rest)).layout.id == "subject,trial"
    assert len(read(tmp_path / "g.csv", id="subject,trial")) == 12


@pytest.mark.parametrize("name", ["who", "subject", "probe"])
def test_texts_of_which_each_row_has_another_one_are_ids(name: str, tmp_path: Path) -> None:
    rows = [f"p{i * 7},{'ab'[i % 2]},{x[0]},{x[1]},{x[2]}" for i, x in enumerate(numbers(12, 3))]
    result = read(write(tmp_path / "f.csv", "\n".join([f"{name},label,t0,t1,t2", *rows])))
    assert (result.layout.id, result.layout.unused) == (name, ())


def test_texts_with_blanks_and_dates_are_no_ids(tmp_path: Path) -> None:
    rows = [f"a note {i},2024-05-{i + 1:02},{'ab'[i % 2]},{x[0]},{x[1]},{x[2]}" for i, x in enumerate(numbers(12, 3))]
    result = read(write(tmp_path / "f.csv", "\n".join(["note,seen,label,t0,t1,t2", *rows])))
    assert (result.layout.id, result.layout.unused) == (None, ("note", "seen"))


def test_numbers_of_persons_and_times_of_rows_are_never_values() -> None:
    x, order = numbers(24, 2), np.random.default_rng(0).permutation(24)
    features = {"mean": x[:, 0], "std": x[:, 1], "label": list("ab" * 12)}
    layout = read({"subject": (101 + 7 * np.arange(24))[order], **features}).layout
    assert (layout.id, layout.channels[0].columns) == ("subject", ("mean", "std"))
    layout = read({"time": np.sort(x[:, 0])[order] * 50, **features}).layout
    assert (layout.time, layout.channels[0].columns) == ("time", ("mean", "std"))


def test_without_a_target_a_channel_of_one_value_in_each_sequence_is_offered(tmp_path: Path) -> None:
    rows = [f"r{i},{t},{numbers(12, 8)[i, t]},{i % 2}" for i in range(12) for t in range(8)]
    path = write(tmp_path / "f.csv", "\n".join(["id,t,eda,stress", *rows]))
    with pytest.raises(BadInput, match="has no target to learn") as caught:
        check_targets(read(path), "f.csv")
    assert str(caught.value).split("\n")[1:] == ["  headstart fit FILE --target stress"]
    check_targets(read(path, target="stress"), "f.csv")


def test_without_a_target_columns_that_nothing_uses_are_offered(tmp_path: Path) -> None:
    rows = [f"r{i},{20 + i % 9},{i % 7},{x[0]},{x[1]},{x[2]}" for i, x in enumerate(numbers(24, 3))]
    path = write(tmp_path / "f.csv", "\n".join(["id,age,dose (mg),t0,t1,t2", *rows]))
    with pytest.raises(BadInput) as caught:
        check_targets(read(path), "f.csv")
    assert str(caught.value).split("\n") == [
        "f.csv: has no target to learn; give one of these:",
        "  headstart fit FILE --target age",
        "  headstart fit FILE --target 'dose (mg)'",
    ]


def test_a_label_beside_a_subject_is_the_target(tmp_path: Path) -> None:
    x = numbers(24, 3)
    columns = {"subject": [f"s{i // 4}" for i in range(24)], "gesture": list("abb" * 8)}
    result = read({**columns, **{f"t{k}": x[:, k] for k in range(3)}})
    assert (result.layout.target, result.layout.group) == ("gesture", "subject")
    assert np.isin(result.labels, ("a", "b")).all()


def test_a_group_of_few_words_beside_another_class_may_be_the_target_and_is_asked_about(tmp_path: Path) -> None:
    """The arms of a trial stand in a column named group; taken for what a split keeps together, sex was the target."""
    rows = [f"s{i},{'MF'[i // 2 % 2]},{('control', 'patient')[i % 2]},{i % 7}.5,{i % 5}.5,{i % 3}.5" for i in range(40)]
    path = write(tmp_path / "a.csv", "\n".join(["id,sex,group,t0,t1,t2", *rows, ""]))
    message = why(path)
    assert "'sex' and 'group' (control and patient) may each be the target" in message
    assert [line.split(maxsplit=3)[-1] for line in message.splitlines()[1:]] == [
        "--target group",
        "--target sex --group ''",
    ]
    assert read(path, target="group").classes == ("control", "patient")
    assert read(path, target="sex", group="").groups is None
    batches = write(tmp_path / "b.csv", path.read_text().replace("control", "b1").replace("patient", "b2"))
    assert read(batches).layout.target == "sex"
