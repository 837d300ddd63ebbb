"""How much is trained in the time that there is."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from headstart.baselines.pieces import FIRST, TRAIN_SCORED, Pieces, sizes_of
from headstart.errors import BadInput
from headstart.fit import budget, perform, plan, prepared
from headstart.fit.again import reserved
from headstart.fit.arms import arms, kernels, without_gradients
from headstart.fit.arms.arm import Frame
from headstart.fit.basis import Amount, Basis
from headstart.fit.basis import looks as looks_of
from headstart.fit.defaults import LEAST_STEPS, ModelShape, batch_size, model_table, shape_of
from headstart.fit.perform import First
from headstart.fit.plan import Planned
from headstart.fit.plan_file import FitPlan
from headstart.models import MODELS
from headstart.request.settings import FitSettings
from headstart.runner.events import StepTime
from headstart.sequence import Signature
from headstart.study.language.plan import Plan, make_plan
from headstart.study.language.spec import read_study

SIGNATURE = Signature("floats", 1, 100, 100, "class", classes=3)


def _basis(labelled: int = 300, rows: int = 300, length: int = 100, kind: str = "numbers") -> Basis:
    task = {"kind": "own", "file": "x.csv"}
    return Basis(task, kind, SIGNATURE, labelled, rows, 60, 140, np.full(rows, length), (), Path("data"))


def _shared(settings: FitSettings, left: float, cost: Callable[[Amount], float], **more: Any) -> budget.Shares:
    """How so many seconds are shared, where an amount costs as said."""
    return budget.shared(_basis(**more), settings, left, 0.0, cost)


def test_sequences_that_are_short_enough_are_read_as_they_are() -> None:
    assert shape_of("numbers", np.full(50, 100)) == ModelShape(1, None)
    assert shape_of("text", np.full(50, 100)) == ModelShape(1, None)


def test_long_numbers_become_patches_and_long_texts_are_joined_and_cut_beyond_eight_at_a_time() -> None:
    assert shape_of("numbers", np.full(50, 1_600)) == ModelShape(10, None)
    assert shape_of("numbers", np.full(50, 1_600), squeeze=2) == ModelShape(20, None)
    assert shape_of("text", np.full(50, 513)) == ModelShape(1, None, join=2, alone=512)
    assert shape_of("dna", np.full(50, 4_096)) == ModelShape(1, None, join=8, alone=512)
    assert shape_of("protein", np.full(50, 10_000)) == ModelShape(1, 512, join=1, alone=512)
    assert shape_of("text", np.full(50, 10_000)) == ModelShape(1, 4_096, join=8, alone=512)
    assert shape_of("text", np.full(50, 1_000), squeeze=2) == ModelShape(1, None, join=4, alone=256)
    few = np.array([400] * 96 + [1_500] * 4)  # the longest twentieth is cut, and decides nothing
    assert shape_of("text", few) == ModelShape(1, 512, join=1, alone=512)


def test_one_sequence_a_thousand_times_longer_than_the_rest_decides_nothing() -> None:
    lengths = np.array([100] * 99 + [100_000])
    assert shape_of("numbers", lengths) == ModelShape(1, 400, alone=400)
    assert shape_of("text", lengths) == ModelShape(1, 400, alone=400)


def test_networks_of_long_texts_join_tokens_and_the_plan_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    basis = replace(_basis(kind="text"), signature=replace(SIGNATURE, input="tokens"), lengths=np.arange(5_001))
    shape = shape_of("text", basis.lengths)
    table = plan.study_table(basis, shape, FitSettings(), budget.whole_amount(basis, FitSettings()))
    for name in ("scratch", "self_pretrained"):
        assert table["arms"][name]["task"] == {"longest": 4_096}
        assert table["arms"][name]["model"] == {"encoder": {"patch": 8}}
    assert all("task" not in table["arms"][name] for name in ("kernels", "summary", "majority"))
    settings = FitSettings(models=("s4d_own",), pretrain=False)  # a model of a person's own joins nothing
    monkeypatch.setitem(MODELS, "s4d_own", MODELS["sequence"])
    amount = budget.whole_amount(basis, settings)
    assert plan.study_table(basis, shape, settings, amount)["arms"]["s4d_own"]["task"] == {"longest": 512}
    lines = arms()["own"].lines(Frame(basis, shape, settings, amount), ())
    assert lines == [
        "s4d_own: a model of your own, from scratch",
        "s4d_own: no positions are joined, and the first 512 are read",
    ]
    assert shape.texts(basis.lengths) == [
        "8 neighbouring positions are joined into one, so that a sequence of 4,096 has 512",
        "the first 4,096 positions of a sequence are read; 904 sequences of 5,001 have more",
    ]


@pytest.mark.parametrize(
    ("labelled", "rows", "size"), [(1, 1, 1), (5, 5, 5), (40, 900, 8), (300, 300, 16), (5_000, 5_000, 32), (3, 900, 3)]
)
def test_a_batch_is_never_larger_than_what_there_is(labelled: int, rows: int, size: int) -> None:
    assert batch_size(labelled, rows) == size


def test_without_a_limit_the_whole_of_the_default_is_trained() -> None:
    settings = FitSettings(time=None)
    shares = _shared(settings, math.inf, lambda _: 1e9)
    assert shares.amount == shares.whole == budget.whole_amount(_basis(), settings)
    assert (shares.left_out, shares.enough) == ({}, True)


def test_steps_shrink_until_they_fit_and_both_trainings_by_one_share() -> None:
    shares = _shared(FitSettings(time=60, pretrain=True), 10.0, lambda a: 0.01 * (a.steps + a.pretrain_steps))
    result, whole = shares.amount, shares.whole
    assert result.steps + result.pretrain_steps == pytest.approx(1000, abs=2)
    assert result.steps < whole.steps
    assert result.steps / whole.steps == pytest.approx(result.pretrain_steps / whole.pretrain_steps, rel=0.02)


def test_what_was_asked_for_is_not_shrunk() -> None:
    shares = _shared(FitSettings(time=60, epochs=3.0, pretrain_epochs=2.0), 0.0, lambda a: 1.0 * a.steps)
    assert shares.amount.steps == shares.whole.steps == 3 * math.ceil(300 / 16)
    assert shares.amount.pretrain_steps == shares.whole.pretrain_steps


def test_far_too_little_time_still_trains_a_little_and_says_so() -> None:
    seconds = {name: StepTime(1.0, 0.0) for name in ("pretrain", "finetune")}
    settings = FitSettings(time=1)
    fitted, enough = plan._fitted(
        replace(_basis(), task={"kind": "digits"}), ModelShape(), settings, "", seconds, 0.0, 1.0
    )
    assert 0 < fitted.study["stages"]["finetune"]["budget"]["steps"] < LEAST_STEPS
    assert not enough
    assert fitted.too_little
    assert any("too little" in line and "--time" in line for line in fitted.texts)


def test_the_time_goes_by_worth_and_what_is_taken_later_keeps_what_came_before() -> None:
    """Of 300 rows 250 have no label, so that self-pretraining is worth more than a second mixer: what both would leave it
    is too little, and the second is dropped although its own steps, which are asked for, are all there."""
    settings = FitSettings(time=60, epochs=20.0)

    def cost(amount: Amount) -> float:
        return amount.steps * sum(name in amount.arms for name in ("scratch", "self_pretrained", "second")) + (
            amount.pretrain_steps
        )

    steps = budget.whole_amount(_basis(50), settings).steps
    for left, networks in ((2 * steps + 400, ["self_pretrained"]), (3 * steps + 400, ["self_pretrained", "second"])):
        shares = _shared(settings, left, cost, labelled=50)
        assert [name for name in ("self_pretrained", "second") if name in shares.amount.arms] == networks
        assert shares.amount.pretrain_steps >= 300
        assert all(shares.left_out.values())


@pytest.mark.parametrize(
    ("kind", "networks"), [("numbers", ["scratch", "inception"]), ("text", ["scratch"]), ("dna", ["scratch"])]
)
def test_a_study_without_pretraining_has_one_network_of_each_mixer(kind: str, networks: list[str]) -> None:
    basis = _basis(kind=kind)
    settings = FitSettings(pretrain=False)
    table = plan.study_table(basis, ModelShape(), settings, budget.whole_amount(basis, settings))
    assert list(table["arms"]) == [*networks, "kernels", "summary", "majority"]


def test_networks_of_numbers_have_batch_norm_and_the_model_that_checkpoints_are_laid_over_has_none() -> None:
    for kind, norm in (("numbers", {"norm": "batch"}), ("text", {})):
        basis, settings = _basis(kind=kind), FitSettings()
        table = plan.study_table(basis, ModelShape(), settings, budget.whole_amount(basis, settings))
        models = {name: arm.get("model", {}) for name, arm in table["arms"].items()}
        assert models["scratch"] == models["self_pretrained"] == norm
        if kind == "numbers":
            assert models["inception"] == {"mixer": {"kind": "inception"}, **norm}
        assert "norm" not in table["columns"]["data"]["model"]


@pytest.mark.parametrize(
    ("override", "both"),
    [
        ("model.width=16", True),
        ("model.position.kind=learned", True),
        ("finetune.optim.weight_decay=0.1", True),
        ('model.mixer={kind="lstm"}', False),
        ("model.mixer.state=8", False),
        ('finetune.model.mixer={kind="attention"}', False),
        ("model.norm=none", True),
    ],
)
def test_a_mixer_of_a_persons_own_is_trained_alone(override: str, both: bool) -> None:
    basis = replace(_basis(), task={"kind": "digits"})
    settings = FitSettings(time=None, overrides=(override,))
    assert ("second" in budget.whole_amount(basis, settings).arms) == both
    fitted, _ = plan._fitted(basis, ModelShape(), settings, "", {}, 0.0, 1.0)
    assert ("inception" in fitted.study["arms"]) == both
    assert any("a second network, from random weights, is of inception" in line for line in fitted.texts) == both
    assert not any("leaves too few steps" in line for line in fitted.texts)


@pytest.mark.parametrize(
    ("labelled", "pretrain", "seconds", "networks"),
    [
        # All labelled, 0.02 s a step, 1,140 steps at two rates and three seeds: 137 s a network, at 70 % of the time.
        (300, None, 3000.0, ["scratch", "self_pretrained", "inception"]),
        (300, None, 330.0, ["scratch", "inception"]),
        (300, None, 220.0, ["scratch", "inception"]),
        (300, None, 150.0, ["scratch"]),
        (300, None, 25.0, ["scratch"]),
        (300, False, 25.0, ["scratch"]),
        (300, True, 330.0, ["scratch", "self_pretrained"]),
        # Some without a label: self-pretraining is expected to help more than another mixer.
        (200, None, 3000.0, ["scratch", "self_pretrained", "inception"]),
        (200, None, 250.0, ["scratch", "self_pretrained"]),
    ],
)
def test_both_mixers_are_trained_where_the_time_leaves_each_half_of_its_steps(
    labelled: int, pretrain: bool | None, seconds: float, networks: list[str]
) -> None:
    basis = replace(_basis(labelled=labelled), task={"kind": "digits"})
    settings = FitSettings(time=seconds, pretrain=pretrain)
    steps = {name: StepTime(0.02, 0.0) for name in ("pretrain", "finetune")}
    fitted, _ = plan._fitted(basis, ModelShape(), settings, "", steps, 0.0, 1.0)
    assert [arm for arm in fitted.study["arms"] if arm not in without_gradients()] == networks
    assert fitted.seconds <= seconds
    both = "inception" in networks
    assert any("a second network, from random weights, is of inception" in line for line in fitted.texts) == both
    assert any("leaves too few steps for a second network" in line for line in fitted.texts) != both


def test_what_was_asked_for_is_not_trained_twice_where_the_time_does_not_suffice() -> None:
    basis = replace(_basis(), task={"kind": "digits"})
    steps = {name: StepTime(0.02, 0.0) for name in ("pretrain", "finetune")}
    for seconds, both in ((600.0, True), (150.0, False)):
        settings = FitSettings(time=seconds, epochs=60.0, pretrain=False)
        fitted, _ = plan._fitted(basis, ModelShape(), settings, "", steps, 0.0, 1.0)
        assert ("inception" in fitted.study["arms"]) == both


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_time_for_a_whole_training_is_reserved_however_many_run_at_once(slots: int) -> None:
    basis, settings = replace(_basis(), task={"kind": "digits"}), FitSettings(time=None, pretrain=False)
    steps = {name: StepTime(0.02, 0.0) for name in ("pretrain", "finetune")}
    fitted, _ = plan._fitted(basis, ModelShape(), settings, "", steps, 0.0, float(slots))
    networks = make_plan(read_study(fitted.study), Path("data"))
    each = 0.02 * fitted.study["stages"]["finetune"]["budget"]["steps"]
    assert each <= reserved(networks, fitted.seconds, slots) <= each + plan.START


@pytest.mark.parametrize(
    ("settings", "pretrained"),
    [
        (FitSettings(time=30.0), False),
        (FitSettings(time=3000.0), True),
        (FitSettings(time=None), True),
        (FitSettings(time=30.0, pretrain=True), True),
        (FitSettings(time=30.0, pretrain_epochs=5.0), True),
        (FitSettings(time=30.0, overrides=("pretrain.optim.lr=1e-3",)), True),
        (FitSettings(time=3000.0, pretrain=False), False),
    ],
)
def test_self_pretraining_is_left_out_where_the_time_leaves_too_few_steps_unless_it_was_asked_for(
    settings: FitSettings, pretrained: bool
) -> None:
    basis = replace(_basis(), task={"kind": "digits"})
    seconds = {name: StepTime(0.02, 0.0) for name in ("pretrain", "finetune")}
    fitted, _ = plan._fitted(basis, ModelShape(), settings, "", seconds, 0.0, 1.0)
    assert ("self_pretrained" in fitted.study["arms"]) == pretrained
    left_out = [line for line in fitted.texts if "self-pretraining is skipped: the time leaves fewer than" in line]
    assert bool(left_out) == (settings.pretrain is None and not pretrained)
    if left_out:  # what it would have taken goes to training from scratch
        with_it = plan._fitted(basis, ModelShape(), replace(settings, pretrain=True), "", seconds, 0.0, 1.0)[0]
        steps = [text["stages"]["finetune"]["budget"]["steps"] for text in (fitted.study, with_it.study)]
        assert steps[0] > steps[1]


def _letters(limit: float, step: float = 0.02, **more: object) -> FitPlan:
    """The plan of 300 stretches of DNA, all labelled, at so many seconds a step."""
    basis = replace(_basis(kind="dna"), task={"kind": "digits"}, split="as it is")
    seconds = {name: StepTime(step, 0.0) for name in ("pretrain", "finetune")}
    return plan._fitted(basis, ModelShape(), FitSettings(time=limit, **more), "", seconds, 0.0, 1.0)[0]  # type: ignore[arg-type]


def test_symbols_get_a_network_only_where_there_is_time_for_a_thousand_steps_and_the_plan_says_how_much() -> None:
    """Three seeds of 1,000 steps at 0.02 s, and one that is trained again, are 80 s: 0.7 of what 123 s leave after 8 s."""
    none = _letters(90.0)
    assert list(none.study["arms"]) == ["kernels", "summary", "majority"]
    assert none.study["axes"] == {"seed": [0, 1, 2]}
    assert none.seconds == 0
    assert none.texts == (
        "split: as it is",
        "no network is trained: the time of 90 s is too little for 1,000 steps of training, and with fewer a network loses "
        "to n-grams; --time 3m would do, and --serve network or --pretrain trains one in any case",
    )
    study = make_plan(read_study(none.study), Path("data"))
    assert {stage.spec.model.kind for stage in study.stages.values()} == {"kernels", "summary", "majority"}
    assert "--time 10m would do" in _letters(90.0, 0.1).texts[-1]
    bare = replace(_basis(kind="dna", rows=900), task={"kind": "digits"})
    seconds = {name: StepTime(0.02, 0.0) for name in ("pretrain", "finetune")}
    text = plan._fitted(bare, ModelShape(), FitSettings(time=15.0), "", seconds, 0.0, 1.0)[0].texts[-1]
    assert text.startswith("nothing is pretrained: self-pretraining is expected to help: 600 of 900 training sequences")
    assert "this rule was right in" in text
    for limit, step in ((123.0, 0.02), (600.0, 0.1)):
        some = _letters(limit, step)
        assert [arm for arm in some.study["arms"] if arm not in none.study["arms"]] == ["scratch"]
        assert some.study["stages"]["finetune"]["budget"]["steps"] >= 1_000
        assert any("fewer than" in text and "--pretrain forces it" in text for text in some.texts)
    assert "self_pretrained" in _letters(1_500.0).study["arms"]


@pytest.mark.parametrize(
    "asked",
    [
        {"serve": "network"},
        {"pretrain": True},
        {"rates": (1e-3,)},
        {"epochs": 2.0},
        {"pretrain_epochs": 1.0},
        {"overrides": ("model.width=32",)},
    ],
)
def test_a_network_for_symbols_that_a_person_asked_for_is_trained_in_any_time(asked: dict[str, object]) -> None:
    assert "scratch" in _letters(20.0, **asked).study["arms"]
    assert all("scratch" not in _letters(20.0, serve=name).study["arms"] for name in ("auto", "kernels", "majority"))


def test_a_plan_without_a_network_is_no_plan_where_one_is_asked_for(tmp_path) -> None:
    settings = FitSettings(time=60.0)
    for study, again in (
        ({"arms": {"kernels": {"model": {"kind": "kernels"}}}}, False),
        ({"arms": {"scratch": {}}}, True),
    ):
        FitPlan(made_for="abc", study=study, seconds=3.0, texts=("a",)).save(tmp_path, settings)
        assert FitPlan.load(tmp_path, "abc", settings) is not None
        assert (FitPlan.load(tmp_path, "abc", replace(settings, serve="network")) is not None) == again


@pytest.mark.parametrize(("labelled", "expected"), [(300, False), (200, True)])
def test_where_it_is_not_expected_to_pay_self_pretraining_needs_half_of_the_steps(labelled, expected) -> None:
    """A time that leaves less than half of them: two rates and three seeds at 0.02 s a step."""
    basis = replace(_basis(labelled=labelled), task={"kind": "digits"})
    seconds = {name: StepTime(0.02, 0.0) for name in ("pretrain", "finetune")}
    fitted, _ = plan._fitted(basis, ModelShape(), FitSettings(time=230.0), "", seconds, 0.0, 1.0)
    assert ("self_pretrained" in fitted.study["arms"]) == expected
    text = "\n".join(fitted.texts)
    assert ("less than 50 % of the steps, and it is not expected to help; --pretrain forces it" in text) != expected
    bare = "100 of 300 training sequences have no label" if expected else "all are labelled"
    assert f"self-pretraining is {'' if expected else 'not '}expected to help: {bare}. In earlier comparisons" in text
    asked = plan._fitted(basis, ModelShape(), FitSettings(time=230.0, pretrain=True), "", seconds, 0.0, 1.0)[0]
    assert "self_pretrained" in asked.study["arms"]
    assert (
        "not expected to help but is tried all the same, because it was asked" in "\n".join(asked.texts)
    ) != expected
    ample = "\n".join(plan._fitted(basis, ModelShape(), FitSettings(time=3000.0), "", seconds, 0.0, 1.0)[0].texts)
    assert "tried all the same" not in text
    assert ("not expected to help but is tried all the same, because the time allows it: all are" in ample) != expected
    assert ("self-pretraining is expected to help: 100 of 300" in ample) == expected
    alone = plan._fitted(basis, ModelShape(), FitSettings(time=230.0, pretrain=False), "", seconds, 0.0, 1.0)[0]
    assert "expected to help" not in "\n".join(alone.texts)


def test_a_plan_is_kept_and_found_again_and_another_ones_is_refused(tmp_path) -> None:
    settings = FitSettings(time=60.0)
    FitPlan(made_for="abc", study={"name": "fit"}, seconds=3.0, texts=("a",)).save(tmp_path / "model", settings)
    plan = FitPlan.load(tmp_path / "model", "abc", settings)
    assert plan is not None
    assert (plan.study, plan.seconds, plan.texts) == ({"name": "fit"}, 3.0, ("a",))
    assert FitPlan.load(tmp_path / "nowhere", "abc", settings) is None
    assert FitPlan.load(tmp_path / "model", "abc", FitSettings(time=90.0)) is None, "more time asks for another plan"
    with pytest.raises(BadInput, match=r"plan.json: was made for other data or settings; give another folder with -o"):
        FitPlan.load(tmp_path / "model", "xyz", settings)
    with pytest.raises(BadInput, match=r"was made for other data or settings \(seeds and balanced\); give"):
        FitPlan.load(tmp_path / "model", "xyz", FitSettings(time=60.0, seeds=(0, 1), balanced=True))


def test_a_plan_of_arms_with_seeds_of_their_own_is_made_anew(tmp_path) -> None:
    for arm, again in (({"seed": [0, 1]}, False), ({}, True)):
        FitPlan(made_for="abc", study={"arms": {"kernels": arm}}, seconds=3.0, texts=()).save(tmp_path, FitSettings())
        assert (FitPlan.load(tmp_path, "abc", FitSettings()) is not None) == again


def test_a_damaged_plan_is_told(tmp_path) -> None:
    FitPlan(made_for="abc", study={}, seconds=3.0, texts=()).save(tmp_path, FitSettings())
    (tmp_path / "plan.json").write_text((tmp_path / "plan.json").read_text().replace("abc", "abd"))
    with pytest.raises(BadInput, match="digest does not fit; delete it to plan anew"):
        FitPlan.load(tmp_path, "abc", FitSettings())


def test_no_step_is_timed_where_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timed: list[ModelShape] = []
    monkeypatch.setattr(plan, "_timed", lambda _, shape, *__: timed.append(shape) or {})
    monkeypatch.setattr(plan, "_fitted", lambda *_: (None, False))
    for spent, ways in ((19.0, 0), (1.0, 3)):
        timed.clear()
        plan.plan_for(_basis(length=900), FitSettings(time=20.0), "", spent, 1, "cpu")
        assert len(timed) == ways


@pytest.mark.parametrize(
    ("serve", "usable", "limits"), [("auto", True, []), ("network", True, [1.0]), ("auto", False, [1.0])]
)
def test_a_network_that_is_asked_for_begins_also_where_the_time_is_over(serve, usable, limits, monkeypatch) -> None:
    seen: list[float] = []
    fit = SimpleNamespace(settings=FitSettings(time=1.0, serve=serve, seeds=(0,)), left=-4.0, store=None, data=Path())
    fit.device = "cpu"
    planned = Planned(FitPlan(made_for="", study={}, seconds=0.0, texts=()), Plan(None, (), {}))  # type: ignore[arg-type]
    monkeypatch.setattr(perform, "perform", lambda *words: seen.append(words[-1].limit) or [])
    monkeypatch.setattr(perform, "usable", lambda _: usable)
    perform.train(fit, planned, First(4.0, 0.0))  # type: ignore[arg-type]
    assert seen == limits


@pytest.mark.parametrize(
    ("splits", "each", "runs"), [(5, 2.5, 5), (5, 3.0, 4), (5, 9.0, 1), (1, 1.5, 2), (1, 2.5, 1), (1, 21.0, 1)]
)
def test_folds_may_take_two_thirds_of_the_time_and_further_seeds_a_fifth(splits, each, runs, monkeypatch) -> None:
    now, done = [100.0], []

    def fitted(*_: object) -> list[object]:
        done.append(now[0])
        now[0] += each
        return []

    settings, basis = FitSettings(time=20.0, seeds=(0, 1, 2, 3, 4)), _basis(kind="text")
    store = SimpleNamespace(finished=lambda _: False)
    fit = SimpleNamespace(
        settings=settings, splits=(None,) * splits, basis=basis, data=Path(), store=store, begun=100.0
    )
    fit.without_networks = lambda *_, **__: Plan(None, (), {})  # type: ignore[arg-type]
    fit.pieces, fit.part, fit.spent, fit.rest = lambda: Pieces([300], lambda _: each), lambda _: None, 0.0, 99.0
    monkeypatch.setattr(perform.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(perform, "perform", fitted)
    lines: list[object] = []
    first = perform.fit_first(fit, lines.append)  # type: ignore[arg-type]
    assert lines == ["these models alone took longer than the limit of 20 s"] * (each > 20)
    assert len(done) == runs
    assert first.seconds == runs * each

    def plan_for(basis: object, settings: object, wanted: object, spent: float, *_: object, **__: object) -> None:
        raise LookupError(spent)

    fit.source = SimpleNamespace(part=None)
    fit.folder, fit.made_for, fit.device, fit.spent = Path("nowhere"), "", "cpu", now[0] - 100.0
    monkeypatch.setattr(perform.planning, "plan_for", plan_for)
    with pytest.raises(LookupError) as stopped:
        perform.plan(fit, 2, first)  # type: ignore[arg-type]
    assert stopped.value.args == (runs * each + (5 - runs) * each / 2,), "the other runs take the cores, too"


def test_a_large_test_split_is_scored_at_the_end_alone() -> None:
    seconds = {"finetune": StepTime(0.01, 0.001), "pretrain": StepTime(0.02, 0.002)}
    amount = Amount((1e-3,), 100, 200, arms=("scratch", "self_pretrained"))
    settings = FitSettings()
    few, many = (budget.cost_of(replace(_basis(), test=n), settings, amount, seconds) for n in (100, 10_100))
    # 10,000 more at two weights, for two arms of three seeds, and for the network that is trained again: self-pretraining
    # is scored on validation alone.
    assert many - few == pytest.approx(3 * 2 * 10_000 * 2 * 0.001 + 2 * 10_000 * 0.001)
    rows = [budget.cost_of(replace(_basis(), rows=n), settings, amount, seconds) for n in (300, 1_900)]
    assert rows[0] == rows[1], "nor are the train sequences scored"


@pytest.mark.parametrize(("steps", "val", "looks"), [(1_000, 100, 10), (50, 100, 8), (50, 400, 2), (1, 0, 10)])
def test_a_training_looks_at_validation_as_often_as_it_pays(steps: int, val: int, looks: int) -> None:
    """Batches of 16: 50 steps have seen 800 sequences, as many as eight looks at 100 and two at 400."""
    basis = replace(_basis(), val=val)
    assert looks_of(basis, steps) == looks
    amount = Amount((1e-3,), steps, 2 * steps, arms=("scratch", "self_pretrained"))
    study = plan.study_table(basis, ModelShape(), FitSettings(), amount)
    budgets = [study["stages"][name]["budget"] for name in ("pretrain", "finetune")]
    assert budgets[1] == {"steps": steps, "evaluate_every": max(1, steps / looks), "scored": "held_out"}
    assert (budgets[0]["steps"], budgets[0]["scored"]) == (2 * steps, "val")


def test_few_steps_for_symbols_are_not_enough_and_come_after_a_second_rate() -> None:
    """Three seeds of 1,000 steps at 0.02 s, and one that is trained again, are 80 s, of two rates 140 s: what is not enough
    is read at fewer positions (`plan_for`)."""
    basis = replace(_basis(kind="dna"), task={"kind": "digits"}, split="as it is")
    seconds = {"finetune": StepTime(0.02, 0.0)}
    made = {}
    for limit in (120.0, 125.0, 205.0, 210.0):
        settings = FitSettings(time=limit, serve="network", pretrain=False)
        some, enough = plan._fitted(basis, ModelShape(), settings, "", seconds, 0.0, 1.0)
        made[limit] = len(some.study["axes"]["finetune.optim.lr"]), enough
        assert any("with fewer than 1,000 steps" in text for text in some.texts) == (not enough)
    assert made == {120.0: (1, False), 125.0: (1, True), 205.0: (1, True), 210.0: (2, True)}


def test_few_sequences_are_seen_more_often() -> None:
    basis = _basis(labelled=20, rows=20)
    networks = ("scratch", "self_pretrained", "second", "kernels")
    assert budget.whole_amount(basis, FitSettings()) == Amount((1e-3, 3e-3), 600, 1_000, arms=networks)


def test_a_network_waits_for_its_own_pretraining_however_many_cores_there_are() -> None:
    seconds = {"finetune": StepTime(0.1, 0.0), "pretrain": StepTime(0.1, 0.0)}
    amount = Amount((1e-3,), 1_000, 2_000, arms=("scratch", "self_pretrained"))
    alone, many = (budget.cost_of(_basis(), FitSettings(), amount, seconds, share) for share in (1.0, 64.0))
    again = 100
    assert alone == pytest.approx(3 * (2 * 100 + 200) + again, rel=1e-9)
    assert many == pytest.approx(100 + 200 + again, rel=1e-9)


def test_a_cut_is_made_in_whole_patches() -> None:
    shape = shape_of("numbers", np.array([1_000] * 99 + [90_000]))
    assert shape.patch > 1
    assert shape.longest is not None
    assert shape.longest % shape.patch == 0
    assert shape.longest <= 4_000


def test_letters_at_their_places_get_positions_and_others_none() -> None:
    cases = (("dna", [60, 60], "learned"), ("dna", [60, 61], "none"), ("numbers", [9, 9], "none"))
    for kind, lengths, position in cases:
        assert model_table(kind, 300, np.array(lengths))["position"]["kind"] == position


@pytest.mark.parametrize(
    ("positions", "channels", "labelled", "seconds", "expected"),
    [
        (400_000, 1, 2_000, None, {"also": ["hydra"]}),
        (400_000, 1, 1_000, 20.0, {"also": ["hydra"]}),
        (400_000, 3, 1_000, 20.0, {}),  # competing kernels read several channels
        (1_600_000, 1, 1_000, 20.0, {}),
        (1_600_000, 1, 1_000, 10.0, {"features": 2_520}),
        (5_000_000, 1, 50_000, None, {}),
        (200_000, 1, 6_000, 60.0, {"features": 2_520}),  # a regression of 6,000 rows on 9,996 features
        (200_000, 1, 6_000, 300.0, {"also": ["hydra"]}),
    ],
)
def test_kernels_have_fewer_features_where_they_would_take_much_of_the_time(
    positions, channels, labelled, seconds, expected
) -> None:
    lengths = np.full(positions // 100, 100)
    more = lengths, channels, seconds, labelled
    assert kernels.table_of("kernels", "numbers", *more) == {"kind": "kernels", **expected}
    assert kernels.table_of("kernels", "text", lengths, 1, seconds) == {"kind": "kernels"}
    assert kernels.table_of("kernels", "dna", lengths, 15, seconds) == {"kind": "kernels", "rough": True}
    assert kernels.table_of("summary", "numbers", lengths, 1, seconds) == {"kind": "summary"}


@pytest.mark.parametrize(
    ("rows", "length", "classes", "width", "busy"),
    [
        *((200_000, 10, 5, 0, busy) for busy in (1.0, 1.6)),
        *((50_000, 100, 2, 4, busy) for busy in (1.0, 1.6)),
        (2_000, 40, 2, 500, 1.6),
        (10_000, 20, 5, 0, 1.6),
    ],
)
def test_at_a_minute_the_sample_grows_while_there_is_time(rows, length, classes, width, busy) -> None:
    """On a machine that takes as long as reckoned, or longer by other programs; width 0: numbers."""
    train, held_out, lengths = rows * 6 // 10, np.full(rows // 5, length), np.full(rows, length)
    split = SimpleNamespace(units=rows // 5, lengths=held_out)
    scored = prepared._scored(SimpleNamespace(val=split, test=split), SimpleNamespace(time=60.0)) or rows // 5
    assert scored <= 12_000, "a tenth of the time is for the answers of one model, however short sequences are"
    kind, data = ("tokens", "dna") if width else ("floats", "numbers")
    signature = Signature(kind, width or 1, length, length, "class", classes=classes)
    tables = [kernels.table_of(each, data, lengths, 1, 60.0, train) for each in ("majority", "summary", "kernels")]
    models = [MODELS[table["kind"]].load().model_validate(table) for table in tables]

    def seconds(learnt: int) -> float:
        units = 2 * scored + min(learnt, TRAIN_SCORED)
        return sum(model.seconds(learnt, units, signature, lengths) for model in models)

    pieces, left = Pieces(sizes_of(train, 2 * classes, lambda _: True), seconds), 60.0 - 6.0 * busy
    size: int | None = pieces.first(FIRST * 60.0)
    assert busy * seconds(size) < left / 3, "the first piece has all models"
    while size is not None:
        left -= busy * seconds(size)
        pieces.took(size, busy * seconds(size))
        size = pieces.more(left)
    assert left > 0.0
    assert pieces.done >= min(train, 5_000), "neither a vocabulary nor a long table of answers stops it"
