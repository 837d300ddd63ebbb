"""The model card: what a stranger needs, its scores as the fit has them, and nothing of the data but counts."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from support.made_outcomes import NASTY, outcome

from headstart import words
from headstart.fitted.card import model_card
from headstart.fitted.outcome import Answers, Outcome
from headstart.report.tables.report_table import markdown


@pytest.fixture(scope="module")
def classes() -> Outcome:
    return outcome()


def section(text: str, title: str) -> str:
    return text.split(f"## {title}\n")[1].split("\n## ")[0]


def test_the_card_has_what_a_stranger_needs(classes: Outcome) -> None:
    text = model_card(classes)
    assert text.startswith("---\nlibrary_name: headstart\ntags:\n- headstart\n- sequence-classification\n")
    assert re.findall("^## (.*)$", text, re.MULTILINE) == [
        "What it is",
        "How to use it",
        "The data it was fitted to",
        "Scores",
        "Limits",
        "How it was made",
    ]
    assert text.index(markdown(classes.answer)) < text.index("## What it is")
    assert "headstart predict model/ new.csv -o predictions.csv" in text
    assert 'SequenceClassifier.from_pretrained("model/")' in text
    assert "Classes, in the order of their probabilities: “rest”, “walk”, “run”." in text
    assert "versions: headstart 0.1.0, torch 2.13.0" in text
    assert "seeds: 0, 1 and 2" in text
    assert "parameters)" in section(text, "What it is")


def test_every_model_has_its_scores_and_the_difference_its_interval(classes: Outcome) -> None:
    lines = section(model_card(classes), "Scores")
    for candidate in classes.candidates:
        row, name = candidate.row, markdown(candidate.name)
        line = next(text for text in lines.splitlines() if text.replace("**", "").startswith(f"| {name} "))
        assert words.plus_minus(row.val) in line
        assert words.plus_minus(row.test) in line
        assert row.difference is None or markdown(words.difference(row.difference)) in line
        assert f"- {name}: {candidate.text}" in lines
    assert "(95 % interval)" in lines
    assert "expected calibration error" in lines


def test_scores_of_before_a_second_fit_are_not_said_to_be_those_of_what_is_served(classes: Outcome) -> None:
    once, again = (section(model_card(replace(classes, again=again)), "Scores") for again in (False, True))
    assert "The served model on test: accuracy" in once
    assert "On test, before it was fitted again: accuracy" in again
    assert "The served model on test" not in again


def test_a_regressor_says_what_it_is_in_its_own_words() -> None:
    text = model_card(outcome((), test=60))
    assert "A regressor of sequences" in text
    assert "- sequence-regression\n" in text
    assert "SequenceRegressor" in text
    assert "predict_proba" not in text
    assert "| model | chosen | val R² | test R² |" in text
    assert "Classes, in the order" not in text


def test_the_card_holds_no_file_place_command_or_single_value(classes: Outcome) -> None:
    text = model_card(replace(classes, notes=(*classes.card.findings, "Kept.")))
    assert "secret" not in text
    assert "/home" not in text
    assert "Kept." in text
    assert not any(markdown(finding) in text for finding in classes.card.findings)
    least = classes.card.channels[0][2]
    assert least not in text
    assert "| channel | missing |" in text


def test_foreign_names_are_never_markup() -> None:
    text = model_card(replace(outcome(NASTY), title=NASTY[0], notes=(NASTY[1], NASTY[0])))
    assert "<script" not in text
    assert "{{" not in text
    rows = section(text, "The data it was fitted to").split("| class |")[1].split("\n\n")[0].splitlines()[2:]
    assert len(rows) == len(NASTY)
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)


def test_the_limits_name_what_was_hardly_measured(classes: Outcome) -> None:
    target = np.array([0] * 30 + [1] * 2)
    few = replace(classes, test=Answers(target, np.eye(3)[target]), notes=("Two seeds.",), uncalibrated=None)
    limits = section(model_card(few), "Limits")
    assert "Test held fewer than 5 sequences of “walk”, “run”" in limits
    assert "- Two seeds." in limits
    assert "40 to 59 positions" in limits


def test_without_a_test_split_the_card_says_so() -> None:
    text = model_card(outcome(test=0))
    assert "No sequence was held out for a test" in text
    assert "nan" not in text
    assert "hardly measured" not in text
    model_card(outcome((), test=0))


def test_a_classic_model_that_is_served_is_named_as_such() -> None:
    text = model_card(outcome(("a", "b"), pretrained=False, serves="summary", winner="summary"))
    assert "Served is **summary**: a linear model of summary features." in text
    assert "It holds `network` and `summary`" in text
