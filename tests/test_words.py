"""How numbers and settings read."""

from __future__ import annotations

import pytest

from headstart import words
from headstart.statistics import Difference, Estimate


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.44, "0.440"),
        (-0.05, "−0.050"),
        (0.0, "0.000"),
        (-4.6e-18, "0.000"),
        (2e-5, "2e−05"),
        (1234.5678, "1234.6"),
        (None, "—"),
        (float("nan"), "—"),
    ],
)
def test_a_score_has_three_decimals_where_they_say_something(value: float | None, text: str) -> None:
    assert words.score(value) == text


def test_an_estimate_shows_its_error_and_one_run_shows_none() -> None:
    assert words.plus_minus(Estimate(0.44, 0.012, 5)) == "0.440 ± 0.012"
    assert words.plus_minus(Estimate(0.44, 0.0001, 5)) == "0.440 ± 0.000"
    assert words.plus_minus(Estimate(0.44, None, 1)) == "0.440"
    assert words.plus_minus(None) == "—"


def test_a_difference_shows_its_sign_and_interval() -> None:
    assert words.difference(Difference(0.14, 0.02, 0.07, 0.2, 5)) == "+0.140 [0.070, 0.200]"
    assert words.difference(Difference(-0.14, None, None, None, 1)) == "−0.140"
    assert words.difference(None) == words.interval(None) == "—"


def test_no_interval_without_a_width_is_printed() -> None:
    same = Difference(0.05, 0.0, 0.05, 0.05, 6)
    assert words.difference(same) == "+0.050 on 6 of 6"
    assert words.interval(same) == "0.050 on 6 of 6"
    steps = Difference(-400.0, 0.0, -400.0, -400.0, 3, (Estimate(0.0, 0.0, 3), Estimate(400.0, 0.0, 4)))
    assert words.whole_difference(steps) == "−400 on 3 of 3 and 4 of 4"
    near = Difference(0.05, 1e-4, 0.0498, 0.0502, 6)
    assert words.difference(near) == "+0.050 [0.0498, 0.0502]"
    assert words.interval(near) == "0.0498 to 0.0502"


def test_counts_and_times_are_short() -> None:
    counts = (7, 0.5, 950.4, 4200, 1_300_000, 5.1e12)
    assert [words.count(v) for v in counts] == ["7", "0.5", "950", "4.2k", "1.3M", "5.1T"]
    assert words.measure(4.4e12, "FLOP") == "4.4 TFLOP"
    assert words.measure(12, "B") == "12 B"
    spans = (3.24, 41.2, 125, 1500, 11520, None)
    assert [words.duration(v) for v in spans] == ["3.2 s", "41 s", "2 min 5 s", "25 min", "3 h 12 min", "—"]
    long = (172_799, 172_800, 2_073_600, 731 * 86400, 4.572e10)
    assert [words.duration(v) for v in long] == ["47 h 59 min", "2.0 days", "24 days", "2.0 years", "1,449 years"]
    assert [words.times(v) for v in (1.25, 2.5, 30.4)] == ["1.25 times", "2.5 times", "30 times"]


def test_names_of_settings_are_as_short_as_they_can_be() -> None:
    names = words.short_names(["pretrain.optim.lr", "finetune.optim.lr", "model.width"])
    assert list(names.values()) == ["pretrain lr", "finetune lr", "width"]
    clash = words.short_names(["a.x.kind", "a.y.kind"])
    assert list(clash.values()) == ["a.x.kind", "a.y.kind"]
    values = {"model.width": 64, "finetune.optim.lr": 1e-3, "seed": 3}
    assert words.settings(values, names) == "width 64, finetune lr 0.001"
    assert words.settings({}, names) == "—"


def test_values_of_settings_read_as_words() -> None:
    assert words.plain({"kind": "attention", "heads": 4}) == "attention(heads=4)"
    assert words.plain([True, None, 3e-4]) == "[true, none, 0.0003]"
    assert words.listed(["a", "b", "c"]) == "a, b and c"
    assert words.listed([]) == ""


def test_sentences_are_parted_by_stops_but_not_after_a_question() -> None:
    assert words.sentences(["Does it help?", "", "On digits.", "Scale tiny"]) == "Does it help? On digits. Scale tiny"
    assert words.sentences(["Scale tiny"]) == "Scale tiny"
    assert words.sentences([]) == ""
