"""What every arm of a fit keeps to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headstart.fit import defaults
from headstart.fit.arms import ARMS, check_names, ranks
from headstart.fit.arms.arm import Arm, Frame, Spent
from headstart.fit.known import Amount, Known
from headstart.fit.settings import FitSettings
from headstart.runner.events import StepTime
from headstart.sequence import Signature

KINDS = ("numbers", "text", "dna", "protein", "tokens")
TIME = {name: StepTime(0.02, 0.001) for name in ("pretrain", "finetune")}


def known(kind: str) -> Known:
    signature = Signature("floats" if kind == "numbers" else "tokens", 4, 90, 90, "class", classes=3)
    return Known(
        {"kind": "own", "file": "x.csv"}, kind, signature, 300, 300, 60, 90, np.full(300, 90), (), Path("data")
    )


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_arm_plans_its_own_names_says_each_in_words_and_costs_time_exactly_where_it_trains(
    name: str, kind: str
) -> None:
    arm, settings, amount = ARMS[name], FitSettings(), Amount(defaults.RATES, 600, 1_000, second=True)
    frame = Frame(known(kind), defaults.Shape(), settings, amount)
    tables = arm.tables(frame)
    assert set(tables) <= set(arm.names)
    assert set(arm.helps) <= set(arm.names)
    texts = arm.texts(frame.known, settings, tables)
    assert set(tables) <= set(texts)
    assert all(text and "\n" not in text for text in texts.values())
    seconds = arm.seconds(Spent(frame.known, settings, amount, TIME))
    assert (seconds > 0) == (arm.network and bool(tables))
    assert arm.weights(frame.known) is None, "none is asked for"
    assert arm.stages(frame.known) == {}
    assert arm.title(frame.known) == ""


def test_no_two_arms_share_a_name_and_the_simplest_is_taken_of_equals() -> None:
    names = [name for arm in ARMS.values() for name in arm.names]
    assert len(set(names)) == len(names)
    assert list(ranks()) == [
        *("majority", "summary", "kernels", "embedding"),
        *("scratch", "inception", "self_pretrained"),
    ]
    assert len(set(ranks().values())) == len(ranks())


@pytest.mark.parametrize("name", [name for name, arm in ARMS.items() if arm.servable])
def test_an_arm_that_is_served_by_name_is_known_where_its_option_is_given(name: str) -> None:
    arm: Arm = ARMS[name]
    for served in arm.names:
        options = {arm.option: "here"} if arm.option else {}
        check_names(FitSettings(serve=served, **options))  # type: ignore[arg-type]
