"""Every study that comes with the package, at every scale, without any data."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.planning import has_scales
from support.thinned import thinned

from headstart.runner.events import StepTime
from headstart.spec import digest, read
from headstart.stage import StageSpec
from headstart.study.language.costs import Speed, data_set, speed_here, speed_of, study_costs
from headstart.study.language.estimate import survey
from headstart.study.language.files import built_in_studies, study_path, table_of
from headstart.study.language.plan import Plan, make_plan
from headstart.study.language.scales import SCALES, at_scale, with_bases
from headstart.study.language.spec import read_study
from headstart.tasks import TASKS
from headstart.tasks.task import available

STUDIES = list(built_in_studies())
CORE_FLOPS = 45e9
"""FLOPs a second of one core by which scales are sized: what matrix products of their models reach on a core with
AVX-512. At scale `small` no study takes more than SMALL_HOURS core-hours by it."""
SMALL_HOURS = 15.0
SCALED = [(name, scale) for name in STUDIES if has_scales(name) for scale in SCALES]
UNSCALED = [(name, None) for name in STUDIES if not has_scales(name)]
FEW_STAGES = 40
LARGER = {
    **dict.fromkeys(["positive-control"], 30.0),
    **{"positive-control-regularised": 55.0, "coser-1-flops": 40.0, "query-key-lengths": 50.0},
    **dict.fromkeys(["coser-3-described", "coser-3-published", "lu-18-described", "lu-18-published"], 20.0),
    **{f"rothermel-{table}-{way}": 16.0 for table in (1, 2, 3) for way in ("described", "published")},
}
"""Core-hours, by an estimate in float32, of studies that ask two questions whose answers share stages (the positive control, and
S4 beside it; in bfloat16 it took 9), or whose arms want rates so far apart that two do not do for all (frozen and trained
layers on two tasks), or that have each random start of frozen blocks twice, by width and with a deviation of 0.02; and of three that are
meant for a GPU, where each takes minutes (decision 36)."""


def planned(name: str, scale: str | None, folder: Path) -> Plan:
    return make_plan(read_study(name, scale=scale, data=folder), folder, absent="open")


def test_every_table_and_figure_of_the_papers_has_its_study() -> None:
    wanted = [f"coser-{n}" for n in range(1, 6)] + [f"amos-{n}" for n in (1, 2, 3, 7, 8, 9, "f3", "f4", "f5")]
    wanted += [f"rothermel-{n}" for n in range(1, 5)]
    wanted += [f"lu-{n}" for n in (*range(1, 19), 20, 21, "f3")]
    assert {f"{name}-{words}" for name in wanted for words in ("described", "published")} <= set(STUDIES)
    assert {"lu-f6-described", "tied-start", "which-part", "matched", "short-range", "lu-lstm", "lu-swept"} <= set(
        STUDIES
    )


def test_the_lstm_question_differs_in_norms_gains_and_trained_parts_alone(tmp_path: Path) -> None:
    for scale in ("small", "paper"):
        specs = [s.spec.model_dump() for s in planned("lu-lstm", scale, tmp_path).stages.values() if s.name == "train"]
        asked = {
            (m["norm"], m["mixer"]["norm"], m["mixer"]["gain"], spec["trainable"], bool(spec["start"]))
            for spec in specs
            for m in [spec["model"]]
        }
        cells = [("layer", "none", "unit"), ("none", "cell", "unit"), ("none", "cell", "small")]
        trained = ("all", "encoder+norm+head")
        assert asked == {(*norms, part, False) for norms in cells for part in trained} | {(*cells[0], "all", True)}
        assert all(spec["task"]["bits"] == 5 and spec["model"]["blocks"] == 3 for spec in specs)
        assert 3e-4 in {spec["optim"]["lr"] for spec in specs}


def test_the_swept_question_gives_every_arm_the_same_rates_and_trains_what_the_tables_train(tmp_path: Path) -> None:
    plan = planned("lu-swept", "small", tmp_path)
    rates: dict[tuple[str, str], set[float]] = {}
    for cell in plan.cells:
        rates.setdefault((cell.arm, cell.column), set()).add(cell.chain[-1].spec.optim.lr)
    assert len(rates) == 15 * 2
    assert all(1e-3 in of and of == rates["pretrained", "mnist"] for of in rates.values())
    trained = {cell.arm: str(cell.chain[-1].spec.trainable) for cell in plan.cells}
    alone = {arm.removeprefix("random_"): part for arm, part in trained.items() if "output" in arm}
    parts = {"output_input": "head+encoder", "output_position": "head+position", "output_norm": "head+norm"}
    assert alone == {"output": "head", **parts}
    assert {len(cell.chain) for cell in plan.cells if cell.arm.startswith("random")} == {1}


@pytest.mark.parametrize(
    "name", ["lu-2-described", "lu-2-published", "lu-17-described", "lu-17-published", "amos-2-described"]
)
def test_a_title_says_at_which_scale_arms_are_the_checkpoints_that_they_are_called_by(name: str) -> None:
    assert re.search(r"at scale paper[;,] else (a backbone|backbones) of our own", read_study(name).title)


@pytest.mark.parametrize(("name", "scale"), thinned([*SCALED, *UNSCALED], 4))
def test_a_study_plans_without_data_each_stage_once_and_its_listed_cost_counts_them(
    name: str, scale: str | None, tmp_path: Path
) -> None:
    plan = planned(name, scale, tmp_path)
    assert plan.study.name == name
    assert plan.study.title
    assert {cell.arm for cell in plan.cells} == set(plan.study.arms)
    for stage in plan.stages.values():
        chain: list[StageSpec] = [stage.spec]
        while chain[-1].parent is not None:
            chain.append(chain[-1].parent)
        lacking = [
            bool(spec.model.lacks) or (spec.task is not None and not available(spec.task, tmp_path)) for spec in chain
        ]
        assert stage.open == any(lacking)
    digests = [digest(stage.spec.document()) for stage in plan.stages.values()]
    assert len(digests) == len(set(digests))
    assert listed()[name, scale] == len(plan.stages), "run benchmarks/study_costs.py"
    if scale == "tiny":
        assert len(plan.stages) <= FEW_STAGES
        assert not any(stage.open for stage in plan.stages.values())
        assert plan.study.scale_note


SPEECH, FILMS = ("speech:commands", "speech (digits)"), ("retrieval:aan", "retrieval (imdb_films)")
OF_ONE_KIND = {SPEECH, FILMS}
"""(Absent, what stands in) at small: spoken digits are recordings of words as Speech Commands are, pairs of film reviews are
pairs of texts as AAN's are. All else would answer another question than the one that is asked."""


def stood_in(name: str, absent: Callable[[str], bool]) -> set[str]:
    """What stands in at small in any column of a study, also in those that the scale leaves out.

    absent: whether a data set, as `data_set` names it, is not at hand; it is asked with an empty name of generated ones.
    """
    path = study_path(name)

    def lacks(task: Mapping[str, Any]) -> bool:
        return absent(data_set(read(TASKS[task["kind"]].load(), task)))

    study = at_scale(with_bases(table_of(path), path), "small", lacks, ["columns"])
    return {stand_in["kind"] for stages in study["stood_in"].values() for stand_in in stages.values()}


@pytest.mark.parametrize("name", sorted({name for name, _ in SCALED}))
def test_at_small_only_real_data_of_the_same_kind_stand_in(name: str) -> None:
    assert not stood_in(name, bool), "nothing that is generated"
    for absent in {data for cost in study_costs(lambda _: True) if cost.study == name for data in cost.reads}:
        assert {(absent, kind) for kind in stood_in(name, absent.__eq__)} <= OF_ONE_KIND


@pytest.mark.parametrize(("name", "absent", "kind"), [("amos-3", *SPEECH), ("amos-2", *FILMS)])
def test_at_small_spoken_digits_and_film_reviews_stand_in(name: str, absent: str, kind: str) -> None:
    assert stood_in(name, absent.__eq__) == {kind}


@cache
def listed() -> dict[tuple[str, str | None], int]:
    """(study, scale) -> its stages where no data are at hand, as `headstart ls studies` lists them."""
    return {(cost.study, cost.scale or None): cost.stages for cost in study_costs(lambda _: False)}


def test_the_costs_of_every_study_are_listed() -> None:
    assert set(listed()) == {*SCALED, *UNSCALED}
    assert all(cost.flops > 0 and cost.examples >= cost.steps > 0 for cost in study_costs(lambda _: False))


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_mqar_asks_the_queries_of_zoologys_figure_of_blocks_without_feed_forward_layers(
    scale: str, tmp_path: Path
) -> None:
    specs = [stage.spec.model_dump() for stage in planned("mqar", scale, tmp_path).stages.values()]
    networks = [spec for spec in specs if spec["model"]["kind"] == "sequence"]
    tasks = {tuple(spec["task"][key] for key in ("length", "pairs", "power", "random_others")) for spec in networks}
    assert tasks == {(64, 4, 0.01, False), (128, 8, 0.01, False), (256, 16, 0.01, False)}
    assert {(spec["model"]["blocks"], spec["model"]["feed_forward"]["kind"]) for spec in networks} == {(2, "none")}
    sizes = {(spec["model"]["width"], spec["seed"]) for spec in networks}
    assert sizes == {(width, seed) for width in (32, 64, 128) for seed in range(6 if scale == "small" else 3)}
    assert {"attention", "hyena"} <= {spec["model"]["mixer"]["kind"] for spec in networks}


def test_mqar_at_tiny_names_its_length_and_gives_s4d_steps_that_reach_as_far(tmp_path: Path) -> None:
    study = planned("mqar", "tiny", tmp_path)
    specs = [(cell.column, cell.chain[-1].spec.model_dump()) for cell in study.cells]
    assert {(column, spec["task"]["length"]) for column, spec in specs} == {("length_16", 16)}
    kernels = [spec["model"]["mixer"] for _, spec in specs if spec["model"]["mixer"]["kind"] == "s4d"]
    whole = next(
        stage.spec.model_dump()["model"]["mixer"]
        for stage in planned("mqar", "paper", tmp_path).stages.values()
        if stage.spec.model_dump()["model"]["mixer"]["kind"] == "s4d"
    )
    ends = ("dt_min", "dt_max")
    assert [kernel[end] for kernel in kernels for end in ends] == [
        pytest.approx(4 * whole[end]) for _ in kernels for end in ends
    ]


@pytest.mark.parametrize("name", ["amos-3-described", "rothermel-4-described", "matched"])
@pytest.mark.parametrize("there", [True, False])
def test_the_listed_costs_are_of_the_data_at_hand(name: str, there: bool, tmp_path: Path) -> None:
    listed = next(c for c in study_costs(lambda _: there) if (c.study, c.scale) == (name, "small"))
    study = read_study(name, scale="small", at_hand=lambda task: there or task.generated)
    plan = make_plan(study, tmp_path, absent="open")
    costs = [cost for cost in survey(plan) if cost.planned.identity in plan.stages]
    assert (listed.stages, listed.steps) == (len(costs), sum(cost.steps for cost in costs))
    assert listed.flops == pytest.approx(sum(cost.flops for cost in costs), rel=1e-3)
    scoring = sum(cost.unit_flops * (cost.evaluated + cost.scored) for cost in costs)
    assert listed.scoring == pytest.approx(scoring, rel=1e-3)
    assert set(listed.stood_in) == set(study.stood_in)
    assert set(listed.reads) == {data_set(stage.spec.task) for stage in plan.stages.values()} - {""}


EVIDENCE = sorted({name for name, _ in SCALED})
SWEEP = 6
"""Learning rates from which on a sweep is the question."""


def test_only_the_first_studies_have_no_scales() -> None:
    assert [name for name, _ in UNSCALED] == ["digits", "few-labels"]


@pytest.mark.parametrize("name", EVIDENCE)
def test_small_has_six_seeds_or_three_where_a_sweep_is_the_question(name: str) -> None:
    axes = read_study(name, scale="small").axes
    sweep = max((len(values) for path, values in axes.items() if path.endswith("optim.lr")), default=1)
    assert len(axes["seed"]) >= (3 if sweep >= SWEEP else 6), "a sign-flip test over five pairs cannot reach 0.05"


@pytest.mark.parametrize(
    "absent", [(), ("retrieval:aan", "speech:commands", "bidmc:windows"), None], ids=["whole", "without", "nothing"]
)
def test_small_takes_at_most_fifteen_core_hours(absent: tuple[str, ...] | None) -> None:
    core = Speed(StepTime.LEAST, CORE_FLOPS)
    hours = {
        cost.study: core.seconds(cost.steps, cost.flops + cost.scoring) / 3600
        for cost in study_costs(lambda name: absent is not None and name not in absent)
        if cost.scale == "small" and cost.study in EVIDENCE
    }
    assert set(hours) == set(EVIDENCE)
    assert not {name: value for name, value in hours.items() if value > LARGER.get(name, SMALL_HOURS)}


BACKBONES = ("lu-2-described", "lu-10-described", "lu-18-described", "lu-swept", "lu-lstm")
"""The five published pages of pretrained backbones; lu-18 has the rows of lu-20, too."""
BACKBONES_HOURS, QUESTION_HOURS = 45.0, 8.0
"""Core-hours of them together, and of each of the two questions of our own."""


@pytest.mark.slow
def test_the_pages_of_backbones_together_and_their_two_questions_alone_keep_their_limits(tmp_path: Path) -> None:
    """Each distinct stage counts once: the tables share the language model that most arms start from."""
    core, seconds = Speed(StepTime.LEAST, CORE_FLOPS), dict[str, float]()
    for name in BACKBONES:
        study = read_study(name, scale="small", at_hand=lambda _: True)
        own = {
            cost.planned.identity: core.seconds(
                cost.steps, cost.flops + cost.unit_flops * (cost.evaluated + cost.scored)
            )
            for cost in survey(make_plan(study, tmp_path, absent="open"))
        }
        assert own
        assert name.endswith("described") or sum(own.values()) <= QUESTION_HOURS * 3600
        assert name != "lu-18-described" or own.keys() & seconds.keys()
        seconds |= own
    assert sum(seconds.values()) <= BACKBONES_HOURS * 3600


def test_a_pace_is_read_from_enough_finished_stages() -> None:
    guess = Speed(step=0.01, rate=1e9)
    stages = [json.loads(f'{{"budget": {{"steps": 100, "flops": 1e9, "seconds": {n}}}}}') for n in (2, 4, 40)]
    speed = speed_of(stages, guess)
    assert speed is not None
    assert speed.seconds(100, 1e9) == pytest.approx(4)
    assert speed.seconds(0, 1e9) == pytest.approx(2)
    assert speed_of(stages[:2], guess) is None


def test_a_pace_without_stages_counts_steps_and_flops() -> None:
    pace = speed_here()
    assert pace.seconds(1000, 0) == pytest.approx(1000 * pace.step)
    assert pace.seconds(0, 1e12) < pace.seconds(1000, 1e12)
