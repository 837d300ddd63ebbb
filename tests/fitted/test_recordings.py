"""What the page of a fit draws of the data: every class, the surest mistakes, in the values and the time of the file."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from support.made_outcomes import NASTY, outcome

from headstart import SequenceClassifier
from headstart.cli import app
from headstart.data import read_sequences
from headstart.data.layout import LayoutSpec
from headstart.fitted.leaderboard import leaderboard_of
from headstart.fitted.outcome import Answers
from headstart.fitted.page import write_page
from headstart.fitted.recordings import (
    BUCKETS,
    OPEN_CLASSES,
    SHOWN_CLASSES,
    Shown,
    _clock,
    open_classes,
    path_of,
    png,
    shown_recordings,
    worst_rows,
)
from headstart.fitted.wording import answer, plainly
from headstart.report.figures.predictions import confusion_of
from headstart.sequence import IGNORE
from headstart.tasks.own import OwnSpec

UNUSUAL = re.compile(r"\b(arms?|partial, served|absent|detectable)\b", re.IGNORECASE)


def shown(folder: Path, rows: list[str], labels: tuple[str, ...], **layout: Any) -> Shown:
    """The recordings of a file with these rows; the model that serves answers the first class, and 0."""
    (folder / "data.csv").write_text("\n".join(rows) + "\n")
    spec = OwnSpec(file="data.csv", layout=layout)
    task, facts = spec.opened(folder), spec.facts(folder)
    source = read_sequences(folder / "data.csv", spec.layout)
    target = np.asarray(task.test.target)
    sure = np.linspace(0.99, 0.5, len(target))[:, None]
    guess = np.hstack([sure, np.repeat((1 - sure) / max(len(labels) - 1, 1), max(len(labels) - 1, 0), axis=1)])
    answers = Answers(target.astype(np.int64), guess) if labels else Answers(target, np.zeros(len(target)))
    item = replace(outcome(("a", "b"), pretrained=False), labels=labels, occlusion=None, records={})
    return shown_recordings(item, task, facts, source, task.test, answers)


def wide(labels: list[str], length: int = 8) -> list[str]:
    rng = np.random.default_rng(0)
    values = [",".join(f"{x:.3f}" for x in 5 + rng.normal(size=length)) for _ in labels]
    heads = ",".join(f"t{i}" for i in range(length))
    return [f"label,{heads}", *(f"{label},{row}" for label, row in zip(labels, values, strict=True))]


def test_three_recordings_of_each_class_are_drawn_in_the_values_of_the_file(tmp_path: Path) -> None:
    drawn = shown(tmp_path, wide(["rest", "walk", "run"] * 20), ("rest", "run", "walk"))
    assert [group.name for group in drawn.groups] == ["rest", "run", "walk"]
    assert [len(group.recordings) for group in drawn.groups] == [3, 3, 3]
    strips = [strip for group in drawn.groups for item in group.recordings for strip in item.strips]
    assert {(strip.low, strip.high) for strip in strips} == {(strips[0].low, strips[0].high)}
    assert 0 < float(strips[0].low) < 5 < float(strips[0].high)  # not standardised
    assert all(strip.path.startswith("M0.0 ") and strip.path.count("L") == 7 for strip in strips)
    assert drawn.groups[0].recordings[0].end == "7"


def test_recordings_of_a_class_are_spread_over_it_as_neighbours_may_be_pieces_of_one(tmp_path: Path) -> None:
    rows = [f"{'ab'[i % 2]},{i // 20},{i},{i + 1},{i + 2}" for i in range(120)]
    drawn = shown(tmp_path, ["label,group,t0,t1,t2", *rows], ("a", "b"), group="group")
    for group in drawn.groups:
        assert len({item.strips[0].path for item in group.recordings}) == 3
        heights = [float(item.strips[0].path.split()[1].split("L")[0]) for item in group.recordings]
        assert max(heights) - min(heights) > 20


def test_the_surest_mistakes_come_first_and_have_the_true_and_the_predicted_class(tmp_path: Path) -> None:
    drawn = shown(tmp_path, wide(["rest", "walk"] * 40), ("rest", "walk"))
    assert drawn.wrong == 8
    assert len(drawn.mistakes) == 5
    assert {(item.true, item.predicted) for item in drawn.mistakes} == {("walk", "rest")}
    shares = [float(item.sure.removesuffix(" %")) for item in drawn.mistakes]
    assert shares == sorted(shares, reverse=True)


def test_rows_without_a_label_are_no_mistakes_and_the_largest_errors_of_numbers_come_first() -> None:
    sure = np.array([[0.2, 0.8], [0.1, 0.9], [0.9, 0.1], [0.3, 0.7]])
    assert worst_rows(Answers(np.array([0, IGNORE, 0, 0]), sure)) == ([0, 3], 2)
    assert worst_rows(Answers(np.array([1.0, 2.0, np.nan, 4.0]), np.array([1.5, 5.0, 0.0, 4.0]))) == ([1, 0], 2)
    assert worst_rows(Answers(np.zeros(0), np.zeros((0, 2)))) == ([], 0)


def test_numbers_are_shown_from_both_ends_and_the_middle_in_their_own_unit(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    drawn = shown(tmp_path, wide([f"{x:.2f}" for x in rng.uniform(50, 190, 60)]), (), target_kind="number")
    ends = [[float(item.true) for item in group.recordings] for group in drawn.groups]
    assert [len(part) for part in ends] == [3, 3, 3]
    assert 50 <= max(ends[0]) < min(ends[1]) < max(ends[1]) < min(ends[2]) <= 190
    assert not any(item.true == item.predicted for item in drawn.mistakes)


def test_time_has_the_unit_of_its_column_and_three_channels_of_more_are_drawn(tmp_path: Path) -> None:
    heads = "id,time_s,ax (g),ay (g),az (g),gyro,activity"
    rows = [f"r{i},{j * 0.02:.2f},{i},{j},{i + j},1,{'ab'[i % 2]}" for i in range(30) for j in range(11)]
    drawn = shown(tmp_path, [heads, *rows], ("a", "b"), id="id", time="time_s", target="activity")
    first = drawn.groups[0].recordings[0]
    assert first.end == "0.2 s"
    assert [strip.channel for strip in first.strips] == ["ax (g)", "ay (g)", "az (g)"]
    assert "the first 3 of 4 channels" in drawn.caption


def test_windows_of_a_folder_are_drawn_in_the_seconds_of_its_clock_and_names_of_classes_are_whole(
    tmp_path: Path,
) -> None:
    names, folder = ("at rest, lying down, both arms beside the body", "walk"), tmp_path / "data.csv"
    folder.mkdir()
    for k in range(8):
        rows = [f"{j / 50:.2f},{(j % 7) * k},{names[j // 50 % 2]}" for j in range(400)]
        (folder / f"r{k}.csv").write_text("time_s,x,label\n" + "\n".join(row.replace(", ", " ") for row in rows) + "\n")
    source = read_sequences(folder, LayoutSpec(target="label", window="1s"))
    step, unit = _clock(source)
    assert step == pytest.approx(0.02)
    assert unit == "s"
    assert confusion_of(np.zeros(2, int), np.zeros(2, int), names).rows[0][1] == names[0]


def test_of_letters_the_first_hundred_and_twenty_are_shown(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    rows = [f"{''.join(rng.choice(list('ACGT'), 150))},{'xy'[i % 2]}" for i in range(60)]
    drawn = shown(tmp_path, ["sequence,label", *rows], ("x", "y"))
    first = drawn.groups[0].recordings[0]
    assert first.text.removesuffix(" …") in {row[:120] for row in rows}
    assert (first.text.endswith(" …"), first.end, first.strips) == (True, "150 letters", ())


def test_letters_of_several_bytes_are_counted_as_letters(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = [
        f"{''.join(rng.choice(list('日本語のé'), 170))} {'gut' if i % 2 else 'arg'},{'xy'[i % 2]}" for i in range(60)
    ]
    first = shown(tmp_path, ["text,label", *rows], ("x", "y"), kind="text").groups[0].recordings[0]
    assert first.end == "174 letters"
    assert len(first.text.removesuffix(" …")) == 120
    assert "\ufffd" not in first.text


def test_a_channel_that_is_missing_throughout_is_drawn_empty(tmp_path: Path) -> None:
    rows = [f"r{i},{j},{i + j},,{'ab'[i % 2]}" for i in range(30) for j in range(5)]
    drawn = shown(tmp_path, ["id,time,x,y,c", *rows], ("a", "b"), id="id", time="time", target="c", values=("x", "y"))
    assert [bool(strip.path) for strip in drawn.groups[0].recordings[0].strips] == [True, False]


def test_of_many_classes_the_commonest_stand_open_and_the_others_in_a_fold(tmp_path: Path) -> None:
    names = tuple(f"k{i:02}" for i in range(50))
    drawn = shown(tmp_path, wide([name for i, name in enumerate(names) for _ in range(10 if i else 30)]), names)
    assert (len(drawn.groups), len(drawn.more)) == (OPEN_CLASSES, SHOWN_CLASSES - OPEN_CLASSES)
    assert drawn.groups[0].name == "k00"
    assert f"Of 50 classes the {SHOWN_CLASSES} commonest" in drawn.caption


@pytest.mark.parametrize(
    ("classes", "strips", "few"), [(3, 3, 4), (8, 1, 8), (8, 0, 8), (9, 1, 4), (4, 3, 4), (5, 2, 4), (60, 1, 4)]
)
def test_all_classes_stand_open_where_the_answer_is_not_far_below(classes: int, strips: int, few: int) -> None:
    assert open_classes(classes, strips) == few


def test_a_long_recording_is_drawn_by_the_ends_of_each_stretch_and_gaps_break_its_line() -> None:
    values = np.zeros(100_000)
    values[77_777] = 9.0  # a spike is not lost
    path = path_of(values, 0.0, 9.0)
    assert path.count("L") <= 2 * BUCKETS
    assert " 2.0" in path
    gap = path_of(np.array([0.0, 1.0, np.nan, 1.0, 0.0]), 0.0, 1.0)
    assert (gap.count("M"), gap.count("L")) == (2, 2)
    assert path_of(np.full(3, 4.0), 4.0, 4.0).count("L") == 2
    assert path_of(np.full(500, np.nan), 0.0, 1.0) == ""


def test_an_image_is_drawn_as_one() -> None:
    content = base64.b64decode(png(np.linspace(0, 1, 35)[:, None], 7, 5).partition(",")[2])
    assert content.startswith(b"\x89PNG")
    assert content[16:24] == (7).to_bytes(4, "big") + (5).to_bytes(4, "big")


def test_the_page_has_the_data_first_then_the_answer_the_matrix_the_mistakes_and_a_fold(tmp_path: Path) -> None:
    names = tuple(sorted((NASTY[0], "plain")))
    drawn = shown(tmp_path, wide(["plain", NASTY[0]] * 40), names)
    item = replace(outcome(names, pretrained=False), occlusion=None, records={})
    text = write_page(item, None, drawn)
    order = [
        "Your data</h2>",
        "The answer</h2>",
        "Right and wrong on test</h2>",
        "The surest mistakes</h2>",
        'class="fold"',
    ]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert "<script" not in text
    assert text.count("<path ") == 6 + 5
    assert (
        text.count('<div class="recordings close">') == 2
    )  # side by side on a phone, which texts and mistakes are not
    assert "--no-examples" in text
    assert re.search(r"<h3><bdi>plain</bdi> <small>", text)  # a name keeps its direction to itself
    assert not UNUSUAL.findall(re.sub("<style>.*?</style>", "", text, flags=re.DOTALL))


@pytest.mark.parametrize("labels", [("a", "b"), ()])
def test_without_a_test_split_right_and_wrong_are_those_of_validation(labels: tuple[str, ...]) -> None:
    item = replace(outcome(labels, test=60, pretrained=False), occlusion=None, records={})
    text = write_page(replace(item, test=Answers(np.zeros(0), np.zeros((0, 2)) if labels else np.zeros(0))))
    assert "Right and wrong on validation" in text
    assert "60 validation sequences by which it was chosen" in text


def test_the_leaderboard_is_short_and_sorted_by_validation() -> None:
    item = outcome()
    board = item.leaderboard()
    assert board[0]._fields == ("model", "validation", "test", "seconds", "predicts", "share")
    assert [line.validation for line in board] == sorted((line.validation for line in board), reverse=True)
    assert [line.model for line in board if line.predicts] == [item.serves]
    assert "| model | validation accuracy | test accuracy | seconds |\n" in str(board)
    first, second = (line.model for line in board[:2])
    averaged = leaderboard_of(item.results, "ensemble", {first: 0.7, second: 0.3})
    assert [line.share for line in averaged[:2]] == [0.7, 0.3]
    assert "| seconds | share |\n" in str(averaged)


def test_an_outcome_and_what_serves_have_a_repr_of_at_most_twenty_lines() -> None:
    item = outcome()
    many = replace(item, results=replace(item.results, table=item.results.table * 20))
    for text in (repr(item), repr(many), repr(item.served)):
        assert len(text.splitlines()) <= 20
        assert not UNUSUAL.search(text)
    assert item.answer in repr(item)


def test_sentences_on_a_study_say_models_and_names_stay_as_they_are() -> None:
    assert plainly("at the best arm's score; all arms share") == "at the best model's score; all models share"
    assert plainly("column 'arm' is not used, 'left arm' neither") == "column 'arm' is not used, 'left arm' neither"
    item = outcome()
    best = item.candidate(item.winner)
    assert not UNUSUAL.search(
        answer(item.results, item.candidates, best, best, {"self_pretrained": "self-pretraining"})
    )


@pytest.mark.parametrize("guide", ["your-own-data", "ecg", "dna", "sound", "instruments"])
def test_the_guides_of_a_fit_have_no_word_of_studies(guide: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / "guide" / f"{guide}.md").read_text("utf-8")
    assert not UNUSUAL.findall(text)


def test_the_help_of_fit_and_of_the_estimators_has_no_word_of_studies() -> None:
    command = typer.main.get_command(app).commands["fit"]  # type: ignore[attr-defined]
    texts = [str(option.help) for option in command.params if option.param_type_name == "option"]
    assert not UNUSUAL.findall(" ".join([str(command.help), *texts, str(SequenceClassifier.__doc__)]))
    assert not re.search(r"\bstages?\b", " ".join(texts))


@pytest.mark.parametrize("long", [False, True])
def test_recordings_that_are_timed_by_dates_are_drawn_in_seconds(long: bool, tmp_path: Path) -> None:
    rows = [f"2024-03-01 10:{k // 60:02d}:{k % 60:02d},{(k * 7) % 11}" for k in range(0, 120, 2)]
    for i in range(4):
        (tmp_path / "ab"[i % 2]).mkdir(exist_ok=True)
        (tmp_path / "ab"[i % 2] / f"{i}.csv").write_text("\n".join(["timestamp,x", *rows]) + "\n")
    path = tmp_path
    if long:
        path = tmp_path / "long.csv"
        lines = [f"{i},{row},{'ab'[i % 2]}" for i in range(4) for row in rows]
        path.write_text("\n".join(["id,timestamp,x,label", *lines]) + "\n")
    assert _clock(read_sequences(path)) == (2.0, "s")
