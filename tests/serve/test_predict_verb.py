"""`headstart predict`: predictions to a file or the screen, everything else that matters to standard error."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.made_models import made, texts

from headstart.cli import main
from headstart.data import LayoutSpec, read_blocks, read_sequences
from headstart.serve.folder import save_model

Case = tuple[Path, Path]


def table(rows: int = 24, length: int = 10, seed: int = 0, head: str = "id,kind,who", **cells: Any) -> str:
    """A wide CSV: ids, labels and groups before t0, t1, ...; `cells` are placed as r<row>_<column>=text."""
    rng = np.random.default_rng(seed)
    lines = [",".join([*head.split(","), *(f"t{i}" for i in range(length))])]
    cell_of = {"id": lambda i: f"s{i:02}", "kind": lambda i: ("calm", "wild")[i % 2], "who": lambda i: f"p{i // 2}"}
    for i in range(rows):
        line = [cell_of[name](i) for name in head.split(",")] + [f"{x:.3f}" for x in rng.normal(size=length).cumsum()]
        for path, text in cells.items():
            row, _, column = path[1:].partition("_")
            if int(row) == i:
                line[lines[0].split(",").index(column)] = text
        lines.append(",".join(line))
    return "\n".join(lines) + "\n"


@pytest.fixture
def fitted(tmp_path: Path) -> Case:
    """A model folder of a network and three classic models, and the file that they were fitted to."""
    file = tmp_path / "train.csv"
    file.write_text(table())
    s = read_sequences(file, LayoutSpec(target="kind", group="who"))
    assert (s.layout.id, s.classes) == ("id", ("calm", "wild"))
    save_model(made(s, ("majority", "summary", "kernels"), serve="kernels"), tmp_path / "model")
    return tmp_path / "model", file


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of `headstart predict`."""
    with pytest.raises(SystemExit) as caught:
        main(["predict", *map(str, words)])
    done = capsys.readouterr()
    assert "Traceback" not in done.err
    return caught.value.code, done.out, done.err  # type: ignore[return-value]


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def test_ids_and_order_come_back_with_a_probability_per_class(fitted: Case, capsys: Any, tmp_path: Path) -> None:
    model, file = fitted
    code, out, err = run(capsys, model, file, "-o", tmp_path / "out.csv")
    assert (code, out) == (0, "")
    output = rows((tmp_path / "out.csv").read_text())
    assert [row["id"] for row in output] == [f"s{i:02}" for i in range(24)]
    assert set(output[0]) == {"id", "prediction", "p_calm", "p_wild"}
    assert all(row["prediction"] == ("calm" if float(row["p_calm"]) > 0.5 else "wild") for row in output)
    assert "on the 24 rows with a label: accuracy " in err
    assert "24 predictions of kernels in " in err


def test_without_a_file_the_table_goes_to_standard_output_alone(fitted: Case, capsys: Any, tmp_path: Path) -> None:
    model, file = fitted
    run(capsys, model, file, "-o", tmp_path / "out.csv")
    code, out, err = run(capsys, model, file)
    assert code == 0
    assert out == (tmp_path / "out.csv").read_text()
    assert "rows with a label" in err


def test_another_model_of_the_folder_can_be_asked(fitted: Case, capsys: Any) -> None:
    model, file = fitted
    answers = {use: run(capsys, model, file, "--use", use)[1] for use in ("network", "majority", "summary", "kernels")}
    assert len(set(answers.values())) == 4
    assert run(capsys, model, file)[1] == answers["kernels"]
    code, out, err = run(capsys, model, file, "--use", "netwrok")
    assert (code, out) == (2, "")
    assert err == "headstart: --use: no 'netwrok'; did you mean 'network'?\n"


def test_a_file_without_labels_ids_and_groups_is_predicted(fitted: Case, capsys: Any, tmp_path: Path) -> None:
    model, file = fitted
    bare = tmp_path / "bare.csv"
    bare.write_text("\n".join(",".join(line.split(",")[3:]) for line in file.read_text().splitlines()))
    code, out, err = run(capsys, model, bare)
    assert code == 0
    assert [row["row"] for row in rows(out)] == [str(i + 1) for i in range(24)]
    assert "with a label" not in err
    same = rows(run(capsys, model, file)[1])
    assert [row["p_calm"] for row in rows(out)] == [row["p_calm"] for row in same]


def test_columns_in_another_order_and_more_of_them_change_nothing(fitted: Case, capsys: Any, tmp_path: Path) -> None:
    model, file = fitted
    lines = [line.split(",") for line in file.read_text().splitlines()]
    turned = tmp_path / "turned.csv"
    other = [[*line[:2:-1], "7" if i else "extra", line[0]] for i, line in enumerate(lines)]
    turned.write_text("\n".join(map(",".join, other)))
    output, same = rows(run(capsys, model, turned)[1]), rows(run(capsys, model, file)[1])
    assert [row["p_calm"] for row in output] == [row["p_calm"] for row in same]
    assert [row["id"] for row in output] == [row["id"] for row in same]


def test_labels_that_the_fit_did_not_see_are_counted_and_said(fitted: Case, capsys: Any, tmp_path: Path) -> None:
    model, _ = fitted
    new = tmp_path / "new.csv"
    new.write_text(table(r0_kind="[red]x", r1_kind="=1+1", r2_kind="", seed=1))
    code, out, err = run(capsys, model, new)
    assert (code, len(rows(out))) == (0, 24)
    assert "2 rows have labels that the fit did not see ('=1+1', '[red]x'), and are not scored" in err
    assert "on the 21 rows with a label: accuracy" in err


def test_the_score_is_that_of_the_predictions(fitted: Case, capsys: Any) -> None:
    model, file = fitted
    _, out, err = run(capsys, model, file, "--use", "network")
    right = np.mean([row["prediction"] == ("calm", "wild")[i % 2] for i, row in enumerate(rows(out))])
    assert f"accuracy {right:.4g}, " in err


def test_longer_sequences_are_cut_and_gaps_are_said(fitted: Case, capsys: Any, tmp_path: Path) -> None:
    model, _ = fitted
    new = tmp_path / "new.csv"
    new.write_text(table(length=15, r3_t2="", r4_t2="nan"))
    code, _, err = run(capsys, model, new, "--use", "network")
    assert code == 0
    assert "24 of 24 sequences are longer than the 10 positions that network was fitted to; only the first count" in err
    assert "0.56 % of the values are missing, in the fit none were" in err
    assert "are longer" not in run(capsys, model, new, "--use", "kernels")[2]


def test_a_file_that_does_not_fit_is_refused_with_a_way_out(fitted: Case, capsys: Any, tmp_path: Path) -> None:
    model, _ = fitted
    new = tmp_path / "new.csv"
    for text, message in (
        ("id,kind\na,calm\n", "values"),
        (table(r5_t3="n/a!", r6_t4="1e400"), "new.csv:7 column 't3': 'n/a!' is not a number"),
        ("", "is empty; give a file with rows"),
        ("id,x0,x1\na,1,2\n", "values"),
    ):
        new.write_text(text)
        code, out, err = run(capsys, model, new)
        assert (code, out) == (2, ""), text
        assert err.startswith("headstart: ")
        assert message in err
    code, _, err = run(capsys, model, tmp_path / "none.csv")
    assert (code, "is not there; give the path" in err) == (2, True)
    code, _, err = run(capsys, tmp_path / "none", new)
    assert (code, "there is no such folder; name one that holds" in err) == (2, True)


def test_options_win_over_the_layout_of_the_fit(fitted: Case, capsys: Any, tmp_path: Path) -> None:
    model, file = fitted
    new = tmp_path / "new.csv"
    new.write_text(file.read_text().replace("kind", "truth").replace("t0", "x0").replace(",", ";"))
    lines = new.read_text().splitlines()
    names = [name for name in lines[0].split(";") if name[0] in "tx" and name != "truth"]
    values = [word for name in names for word in ("--values", name)]
    code, out, err = run(capsys, model, new, "--target", "truth", *values)
    assert (code, "on the 24 rows with a label" in err) == (0, True)
    assert [row["p_calm"] for row in rows(out)] == [row["p_calm"] for row in rows(run(capsys, model, file)[1])]
    assert "with a label" not in run(capsys, model, new, "target=''", *values)[2]
    code, _, err = run(capsys, model, file, "--target", "troth")
    assert code == 2
    assert "target: there is no column 'troth'; name another, or leave --target out" in err


def test_the_file_that_is_read_is_never_written_over(fitted: Case, capsys: Any, tmp_path: Path) -> None:
    model, file = fitted
    before = file.read_bytes()
    (tmp_path / "link.csv").symlink_to(file)
    for out in (file, tmp_path / "link.csv"):
        code, _, err = run(capsys, model, file, "-o", out)
        assert (code, "is the file that is read; name another for the predictions" in err) == (2, True)
    assert file.read_bytes() == before


def test_only_predictions_are_replaced_by_predictions(fitted: Case, capsys: Any, tmp_path: Path) -> None:
    model, file = fitted
    for name in ("other.csv", "other.csv.gz", "other.parquet", "other.jsonl"):
        path = tmp_path / name
        path.write_bytes(b"x,label\n1,a\n")
        code, _, err = run(capsys, model, file, "-o", path)
        assert (code, "is there, and headstart did not write it" in err) == (2, True), err
        assert path.read_bytes() == b"x,label\n1,a\n"
        path.unlink()
        assert [run(capsys, model, file, "-o", path)[0] for _ in range(2)] == [0, 0]


def test_an_ending_is_refused_before_anything_is_read(fitted: Case, capsys: Any, tmp_path: Path) -> None:
    model, _ = fitted
    for option, what, name in (("-o", "predictions", "out.xlsx"), ("--explain", "explanations", "where.html")):
        code, _, err = run(capsys, model, tmp_path / "none.csv", option, tmp_path / name)
        assert (code, f"{what} are written as .csv" in err) == (2, True)


def test_texts_and_numbers_are_predicted_too(tmp_path: Path, capsys: Any) -> None:
    letters = tmp_path / "train.fasta"
    s = texts("dna")
    letters.write_text("".join(f">s{i} {s.labels[i]}\n{s.speak(i)}\n" for i in range(len(s))))
    read = read_sequences(letters, LayoutSpec(target="word 2"))
    save_model(made(read, ("kernels",)), tmp_path / "dna")
    code, out, err = run(capsys, tmp_path / "dna", letters)
    assert (code, len(rows(out)), "on the 12 rows with a label" in err) == (0, 12, True)

    file = tmp_path / "numbers.jsonl"
    lines = [{"x": [float(i), 2.0, 3.0 + j], "y": 10 + i / 1.1} for i in range(12) for j in (0, 1)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    read = read_sequences(file, LayoutSpec(target="y", target_kind="number"))
    save_model(made(read, ("summary",), serve="summary"), tmp_path / "number")
    code, out, err = run(capsys, tmp_path / "number", file, "-o", tmp_path / "out.jsonl")
    assert (code, "on the 24 rows with a label: R² " in err) == (0, True)
    output = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert list(output[0]) == ["row", "prediction"]
    assert np.corrcoef([line["prediction"] for line in output], [line["y"] for line in lines])[0, 1] > 0.9


def test_a_long_table_is_predicted_by_id_in_the_order_of_its_times(tmp_path: Path, capsys: Any) -> None:
    rng, file = np.random.default_rng(0), tmp_path / "long.csv"
    lines = ["who,when,x,y,state"]
    for i in range(12):
        steps = range(int(rng.integers(4, 9)))
        lines += [f"p{i},{when},{rng.normal():.3f},{rng.normal() + i % 2:.3f},{'ab'[i % 2]}" for when in steps]
    file.write_text("\n".join(lines))
    s = read_sequences(file, LayoutSpec(shape="long", id="who", time="when", target="state"))
    save_model(made(s, ("summary",)), tmp_path / "model")
    code, out, err = run(capsys, tmp_path / "model", file)
    assert (code, "on the 12 rows with a label" in err) == (0, True)
    assert [row["who"] for row in rows(out)] == [f"p{i}" for i in range(12)]
    turned = [lines[0].replace("when", "at"), *reversed(lines[1:])]
    file.write_text("\n".join(turned))
    _, again, _ = run(capsys, tmp_path / "model", file, "--time-column", "at")
    assert {row["who"]: row["p_a"] for row in rows(again)} == {row["who"]: row["p_a"] for row in rows(out)}


def test_marks_of_others_are_no_markup_on_the_screen(fitted: Case, capsys: Any, tmp_path: Path) -> None:
    model, _ = fitted
    new = tmp_path / "new.csv"
    new.write_text(table(r0_kind="\x1b[31mred", r1_id="[bold]x[/bold]"))
    _, out, err = run(capsys, model, new)
    assert "\x1b" not in err
    assert rows(out)[1]["id"] == "[bold]x[/bold]"


def test_a_model_folder_is_not_changed_by_predicting(fitted: Case, capsys: Any) -> None:
    model, file = fitted
    before = {name: (model / name).read_bytes() for name in os.listdir(model)}
    run(capsys, model, file)
    assert before == {name: (model / name).read_bytes() for name in os.listdir(model)}


def test_a_class_may_have_any_name(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "train.csv"
    file.write_text(table(r0_kind="=1+1", r1_kind="=1+1", r2_kind="\U0001f600", r3_kind="\U0001f600"))
    s = read_sequences(file, LayoutSpec(target="kind"))
    served = made(s, ("majority",), serve="majority")
    shares = replace(served.classics["majority"], shares=np.array([0.7, 0.1, 0.1, 0.1]))  # type: ignore[type-var]
    save_model(replace(served, classics={"majority": shares}), tmp_path / "model")
    _, out, _ = run(capsys, tmp_path / "model", file)
    assert out.splitlines()[0] == "id,prediction,p_=1+1,p_calm,p_wild,p_\U0001f600"
    assert {row["prediction"] for row in rows(out)} == {"'=1+1"}


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.parquet", "out.csv.gz"])
def test_a_file_of_several_blocks_is_answered_as_one(
    name: str, fitted: Case, capsys: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    model, _ = fitted
    file = tmp_path / "new.csv"
    file.write_text(table(300, r299_kind="odd", r298_t9=""))
    remarks: list[str] = []
    for size in (2**24, 2_000):
        monkeypatch.setattr(read_blocks, "__defaults__", (size,))
        code, _, err = run(capsys, model, file, "-o", tmp_path / f"{len(remarks)}{name}")
        assert code == 0
        remarks.append(err.replace(f"{len(remarks)}{name}", name))
    assert remarks[0] == remarks[1]
    assert "1 sequence ends in missing values" in remarks[0]
    assert "1 row has a label that the fit did not see ('odd')" in remarks[0]
    whole, parts = (read_sequences(tmp_path / f"{i}{name}", LayoutSpec(target="prediction")) for i in range(2))
    assert (whole.ids, whole.labels) == (parts.ids, parts.labels)
    np.testing.assert_allclose(whole.values, parts.values, atol=1e-6)


def test_nothing_is_written_or_printed_of_a_file_whose_last_block_is_wrong(
    fitted: Case, capsys: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    model, _ = fitted
    file = tmp_path / "new.csv"
    file.write_text(table(300, r290_t3="bad"))
    monkeypatch.setattr(read_blocks, "__defaults__", (2_000,))
    for options in ((), ("-o", tmp_path / "out.csv")):
        code, out, err = run(capsys, model, file, *options)
        assert (code, out) == (2, "")
        assert "new.csv:292 column 't3': 'bad' is not a number" in err
    assert not list(tmp_path.glob("*out.csv*"))


@pytest.mark.parametrize("use", ["kernels", "network", "majority"])
def test_explanations_are_a_row_for_each_window_and_a_page(
    fitted: Case, tmp_path: Path, use: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model, file = fitted
    path = tmp_path / "looks.csv"
    code, out, err = run(capsys, model, file, "--use", use, "--explain", path)
    assert code == 0
    assert rows(out) == rows(run(capsys, model, file, "--use", use)[1])
    assert f"where {use} looks in 24 sequences: {path}, and the first 24 on {tmp_path / 'looks.html'}" in " ".join(
        err.split()
    ).replace("- ", "-")
    table = rows(path.read_text())
    assert [row["first"] for row in table[:10]] == [str(i) for i in range(1, 11)]
    assert [row["prediction"] for row in table[::10]] == [row["prediction"] for row in rows(out)]
    drops = np.array([float(row["drop"]) for row in table])
    assert (drops == 0).all() if use == "majority" else (drops != 0).any()
    page = (tmp_path / "looks.html").read_text()
    assert page.count('<tr><th scope="row">s') == 24
    assert "s00" in page
    assert "<script" not in page


def test_windows_of_a_recording_are_told_apart_on_the_page_of_explanations() -> None:
    from headstart.analysis.occlusion import Explained
    from headstart.serve.predictions import Predictions
    from headstart.verbs.explain import _page

    within = {"start": np.array([0.0, 2.5]), "end": np.array([2.5, 5.0])}
    predictions = Predictions("recording", ["p0.csv", "p0.csv"], ["sit", "run"], {}, within)
    places = np.array([[1, 2], [1, 2]])
    page = _page(predictions, Explained(np.full((2, 2), 0.1), places, places), "summary", True, "looks.csv")
    assert [f"p0.csv, {times}</th>" in page for times in ("0 to 2.5", "2.5 to 5")] == [True, True]
    assert "<h1>Where the model “summary” looks</h1>" in page


def test_explanations_are_refused_where_they_cannot_be_had(
    fitted: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, file = fitted
    (tmp_path / "alone.csv").write_text("\n".join(file.read_text().splitlines()[:2]) + "\n")
    cases: dict[tuple[object, ...], str] = {
        (tmp_path / "alone.csv", "--explain", tmp_path / "x.csv"): "holds one sequence",
        (file, "--explain", file): "is the file that is read; name another for the explanations",
        (file, "-o", tmp_path / "x.csv", "--explain", tmp_path / "x.csv"): "is the file of -o, too",
        (file, "--explain", tmp_path / "x.pdf"): ".csv",
        (file, "--explain", tmp_path / "none" / "x.csv"): "is not a file in an existing folder",
    }
    for words, message in cases.items():
        code, _, err = run(capsys, model, *words)
        assert (code, message in err) == (2, True), (words, err)
        assert not (tmp_path / "x.csv").exists()
