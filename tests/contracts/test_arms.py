"""What every arm of a fit keeps to."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest

import headstart
from headstart.fit import defaults
from headstart.fit.arms import ARMS, arms, check_names, ranks
from headstart.fit.arms.arm import Frame, Offer, Spent
from headstart.fit.arms.self_pretrained import TWIN, SelfPretrainedArm
from headstart.fit.basis import Amount, Basis
from headstart.request.settings import FitSettings
from headstart.runner.events import StepTime
from headstart.sequence import Signature

KINDS = ("numbers", "text", "dna", "protein", "tokens")
TIME = {name: StepTime(0.02, 0.001) for name in ("pretrain", "finetune")}


def basis(kind: str) -> Basis:
    signature = Signature("floats" if kind == "numbers" else "tokens", 4, 90, 90, "class", classes=3)
    return Basis(
        {"kind": "own", "file": "x.csv"}, kind, signature, 300, 300, 60, 90, np.full(300, 90), (), Path("data")
    )


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_arm_plans_its_own_names_says_each_in_words_and_costs_time_exactly_where_it_trains(
    name: str, kind: str
) -> None:
    arm, settings, data = arms()[name], FitSettings(), basis(kind)
    assert arm.weights(data) is None, "none is asked for"
    assert arm.stages(data) == {}
    assert set(arm.helps) <= set(arm.names)
    if not arm.wanted(data, settings):
        return
    amount = Amount(defaults.LEARNING_RATES, 600, 1_000, arms=(name,))
    frame = Frame(data, defaults.ModelShape(), settings, amount)
    tables = arm.tables(frame)
    assert tables
    assert set(tables) <= set(arm.names)
    texts = arm.texts(data, settings, tables)
    assert set(tables) <= set(texts)
    assert all(text and "\n" not in text for text in texts.values())
    assert (arm.seconds(Spent(data, amount, TIME)) > 0) == arm.network


@pytest.mark.parametrize("name", ARMS)
def test_an_arm_that_the_time_leaves_out_says_why_in_a_line_each(name: str) -> None:
    arm, settings = arms()[name], FitSettings(time=20.0)
    few, whole = (
        Amount(defaults.LEARNING_RATES, n, n, dict.fromkeys([arm.apart] if arm.apart else [], n)) for n in (1, 900)
    )
    offer = Offer(basis("dna"), settings, few, whole, fits=False, network=True, time_for=lambda _: 99.0)
    if arm.lacks(offer):
        lines = arm.left_out(offer)
        assert lines
        assert all(line and "\n" not in line for line in lines)


@pytest.mark.parametrize("kind", KINDS)
def test_the_base_has_the_time_before_every_arm_that_may_be_left_out(kind: str) -> None:
    table, data, settings = arms(), basis(kind), FitSettings()
    worth = {name: arm.worth(data, settings) for name, arm in table.items()}
    (base,) = (name for name, arm in table.items() if arm.base)
    few = Amount(defaults.LEARNING_RATES, 1, 1, {arm.apart: 1 for arm in table.values() if arm.apart})
    offer = Offer(data, settings, few, Amount(defaults.LEARNING_RATES, 900, 900), fits=False, network=True)
    assert all(worth[base] > worth[name] for name, arm in table.items() if name != base and arm.lacks(offer))


def test_names_of_models_stand_in_the_files_of_their_arms_alone() -> None:
    table = arms()
    homes = {name: Path(inspect.getfile(type(arm))) for arm in table.values() for name in arm.names}
    options = {arm.option for arm in table.values()}  # a setting may have the name of its arm
    names = [name for name in homes if name not in options] + [TWIN]
    package = Path(headstart.__file__).parent
    files = [
        path for room in ("request", "fit", "fitted", "serve", "estimator") for path in (package / room).rglob("*.py")
    ]
    for path in [*files, package / "verbs" / "fit.py"]:
        if path.name == "__init__.py" and path.parent.name == "arms":
            continue  # the table
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and node.value in names:
                home = homes.get(str(node.value), Path(inspect.getfile(SelfPretrainedArm)))
                assert path == home, f"{path}:{node.lineno}: {node.value!r} is a name of {home.name}"


def test_no_two_arms_share_a_name_and_the_simplest_is_taken_of_equals() -> None:
    names = [name for arm in arms().values() for name in arm.names]
    assert len(set(names)) == len(names)
    assert list(ranks()) == [
        *("majority", "summary", "kernels", "embedding", "joined"),
        *("scratch", "inception", "self_pretrained"),
    ]
    assert len(set(ranks().values())) == len(ranks())


@pytest.mark.parametrize("name", [name for name, arm in arms().items() if arm.servable])
def test_an_arm_that_is_served_by_name_is_known_where_its_option_is_given(name: str) -> None:
    arm = arms()[name]
    for served in arm.names:
        options = {arm.option: "here"} if arm.option else {}
        check_names(FitSettings(serve=served, **options))  # type: ignore[arg-type]
