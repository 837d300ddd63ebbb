"""The studies of Rothermel et al.: the same runs behind three tables, one language model per seed and size."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support.planning import SCALES, planned

from headstart.initial import apply_start, trainable
from headstart.models.model import build_model
from headstart.parameters import leaves
from headstart.study.language.papers import read_paper
from headstart.study.language.plan import Plan
from headstart.tasks import open_task

NAMES = tuple(f"rothermel-{number}" for number in (1, 2, 3, 4))
PUBLISHED = tuple(f"{name}-published" for name in NAMES)


@pytest.mark.parametrize("name", [*NAMES, *PUBLISHED])
def test_arms_and_columns_are_those_of_the_papers_cells(name: str, nowhere: Path) -> None:
    paper, plan = read_paper(name.removesuffix("-published")), planned(name, "paper", nowhere)
    assert plan.study.paper == name.removesuffix("-published")
    assert set(plan.study.columns) == set(paper.columns)
    assert {row.arm for row in paper.rows if row.arm} == set(plan.study.arms)


@pytest.mark.parametrize("names", [NAMES, PUBLISHED])
@pytest.mark.parametrize("scale", SCALES)
def test_tables_1_to_3_are_of_the_same_runs(scale: str, names: tuple[str, ...], nowhere: Path) -> None:
    first, second, third = (set(planned(name, scale, nowhere).stages) for name in names[:3])
    assert first == second == third


@pytest.mark.parametrize("names", [NAMES, PUBLISHED])
def test_columns_of_twelve_blocks_are_the_runs_of_table_1(names: tuple[str, ...], nowhere: Path) -> None:
    first, fourth = planned(names[0], "paper", nowhere), planned(names[3], "paper", nowhere)

    def runs(plan: Plan, column: str) -> set[tuple[str, ...]]:
        return {tuple(s.identity for s in cell.chain) for cell in plan.cells if cell.column == column}

    for column in ("mnist", "cifar10", "cifar10_lra"):
        assert runs(first, column) == runs(fourth, f"{column}_whole")
        assert not runs(first, column) & runs(fourth, f"{column}_half")


@pytest.mark.parametrize(("name", "sizes"), [("rothermel-1", 1), ("rothermel-4", 2)])
@pytest.mark.parametrize("scale", SCALES)
def test_one_language_model_per_seed_and_size_serves_all_columns_and_rates(
    name: str, sizes: int, scale: str, nowhere: Path
) -> None:
    plan = planned(name, scale, nowhere)
    count = Counter(stage.name for stage in plan.stages.values())
    assert count["language"] == (1 if scale == "paper" else len(plan.study.axes["seed"])) * sizes
    sources = {stage.spec.model.source for stage in plan.stages.values() if stage.spec.model.kind == "checkpoint"}
    models = {"gpt2"} if sizes == 1 else {"gpt2", "distilgpt2"}
    assert sources == (models if scale == "paper" else set())


def test_the_paper_sweeps_rates_over_four_decades_with_three_seeds(nowhere: Path) -> None:
    plan = planned("rothermel-1", "paper", nowhere)
    count = Counter(stage.name for stage in plan.stages.values())
    assert plan.study.axes["finetune.optim.lr"] == [1e-6, 1e-5, 1e-4, 1e-3, 1e-2]
    assert count["finetune"] == 4 * 4 * 5 * 3
    assert plan.study.report.match == plan.study.report.against == "frozen_pretrained"
    steps = {cell.column: cell.chain[-1].spec.budget.steps for cell in plan.cells}
    assert steps == {"listops": 300_000, "mnist": 400_000, "cifar10": 400_000, "cifar10_lra": 300_000}


@pytest.mark.parametrize("scale", SCALES)
def test_figures_1_to_3_show_test_at_every_rate_and_mark_that_of_lu_et_al(scale: str, nowhere: Path) -> None:
    study = planned("rothermel-1", scale, nowhere).study
    assert (study.report.sweep, study.report.choose) == ("test", ("finetune.optim.lr",))
    mark, rates = study.report.mark, study.axes["finetune.optim.lr"]
    assert mark is not None
    assert (mark.setting, mark.value) == ("finetune.optim.lr", 1e-3)
    assert min(rates) <= mark.value <= max(rates)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", [*NAMES, *PUBLISHED])
def test_models_are_causal_and_read_the_last_position(name: str, scale: str, nowhere: Path) -> None:
    for stage in planned(name, scale, nowhere).stages.values():
        model = stage.spec.model
        if model.kind == "checkpoint":
            continue
        assert (model.causal, model.pool, model.position.kind) == (True, "last", "learned")
        assert stage.spec.optim.weight_decay == 0 or stage.name == "language"
        assert 1e-6 <= stage.spec.optim.lr <= 1e-2
        if scale == "paper":
            assert (model.width, model.mixers[0].heads, model.feed_forward.width) == (768, 12, 3072)
            assert model.blocks in (6, 12)
            assert stage.spec.optim.batch_size == 8 or stage.name == "language"


@pytest.mark.parametrize("name", [*NAMES, *PUBLISHED])
def test_the_title_says_where_the_start_is_gpt_2(name: str, nowhere: Path) -> None:
    assert "GPT-2" in planned(name, "paper", nowhere).study.title


@pytest.mark.parametrize(("described", "published"), list(zip(NAMES, PUBLISHED, strict=True)))
def test_the_released_code_clips_drops_out_and_changes_images_and_nothing_else(
    described: str, published: str, nowhere: Path
) -> None:
    plain, other = (planned(name, "paper", nowhere) for name in (described, published))
    assert len(plain.cells) == len(other.cells)
    tasks = {}
    for ours, theirs in zip(plain.cells, other.cells, strict=True):
        assert (ours.arm, ours.column, ours.seed, ours.settings) == (
            theirs.arm,
            theirs.column,
            theirs.seed,
            theirs.settings,
        )
        assert [s.identity for s in ours.chain[:-1]] == [s.identity for s in theirs.chain[:-1]], "language is ours"
        last_ours, last_theirs = ours.chain[-1].spec, theirs.chain[-1].spec
        assert (last_theirs.optim.clip, last_theirs.model.dropout) == (1.0, 0.1)
        assert (last_ours.optim.clip, last_ours.model.dropout) == (None, 0.0)
        same = {
            "optim": last_ours.optim,
            "task": last_ours.task,
            "model": last_theirs.model.model_copy(update={"dropout": last_ours.model.dropout}),
        }
        assert last_theirs.model_copy(update=same) == last_ours
        tasks[theirs.column.removesuffix("_half").removesuffix("_whole")] = last_theirs.task, last_ours.task
    assert (tasks["mnist"][0].side, tasks["mnist"][1].side, tasks["mnist"][0].tile) == (28, 32, 4)
    assert not tasks["mnist"][0].augment
    assert (tasks["cifar10"][0].channels, tasks["cifar10"][1].channels) == ("rgb", "grey")
    assert [tasks[name][0].augment for name in ("cifar10", "cifar10_lra")] == [True, True]
    assert [tasks[name][1].augment for name in ("cifar10", "cifar10_lra")] == [False, False]
    assert "listops" not in tasks or tasks["listops"][0] == tasks["listops"][1]


def test_frozen_is_all_but_input_output_positions_and_norms_and_the_start_is_all_but_input_and_output(
    nowhere: Path,
) -> None:
    plan = planned("rothermel-1", "tiny", nowhere)
    chain = next(cell.chain for cell in plan.cells if cell.arm == "frozen_pretrained")
    built = []
    for stage in chain:
        task = open_task(stage.spec.task, nowhere)
        built.append(build_model(stage.spec.model, task.signature, stage.spec.objective.output(task.signature), 0))
    language, model = built
    end = chain[-1].spec
    of = leaves(model)
    learn = {of[name] for name in trainable(model, end.trainable)}
    assert learn == {"encoder", "position", "norm", "head"}
    rows = {row["part"]: row for row in apply_start(model, end.start, language.state_dict(), 0).to_json()}
    taken = {part for part, row in rows.items() if row["taken"]}
    assert taken == set(of.values()) - {"encoder", "head"}
    assert all(row["taken"] == row["total"] for part, row in rows.items() if part in taken)
