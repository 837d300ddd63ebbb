"""The studies of Rothermel et al.: the same runs behind three tables, one language model per seed and size."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from planning import SCALES, planned

from headstart.initial import apply_start, trainable
from headstart.models.model import build_model
from headstart.parameters import leaves
from headstart.study.papers import read_paper
from headstart.study.plan import Plan
from headstart.tasks import open_task

NAMES = tuple(f"rothermel-{number}" for number in (1, 2, 3, 4))


@pytest.mark.parametrize("name", NAMES)
def test_arms_and_columns_are_those_of_the_papers_cells(name: str, nowhere: Path) -> None:
    paper, plan = read_paper(name), planned(name, "paper", nowhere)
    assert set(plan.study.columns) == set(paper.columns)
    assert {row.arm for row in paper.rows if row.arm} == set(plan.study.arms)


@pytest.mark.parametrize("scale", SCALES)
def test_tables_1_to_3_are_of_the_same_runs(scale: str, nowhere: Path) -> None:
    first, second, third = (set(planned(name, scale, nowhere).stages) for name in NAMES[:3])
    assert first == second == third


def test_columns_of_twelve_blocks_are_the_runs_of_table_1(nowhere: Path) -> None:
    one, four = planned("rothermel-1", "paper", nowhere), planned("rothermel-4", "paper", nowhere)

    def runs(plan: Plan, column: str) -> set[tuple[str, ...]]:
        return {tuple(s.identity for s in cell.chain) for cell in plan.cells if cell.column == column}

    for column in ("mnist", "cifar10", "cifar10_lra"):
        assert runs(one, column) == runs(four, f"{column}_12")
        assert not runs(one, column) & runs(four, f"{column}_6")


@pytest.mark.parametrize(("name", "sizes"), [("rothermel-1", 1), ("rothermel-4", 2)])
@pytest.mark.parametrize("scale", SCALES)
def test_one_language_model_per_seed_and_size_serves_all_columns_and_rates(
    name: str, sizes: int, scale: str, nowhere: Path
) -> None:
    count = Counter(stage.name for stage in planned(name, scale, nowhere).stages.values())
    assert count["language"] == 3 * sizes


def test_the_paper_sweeps_rates_over_four_decades_with_three_seeds(nowhere: Path) -> None:
    plan = planned("rothermel-1", "paper", nowhere)
    count = Counter(stage.name for stage in plan.stages.values())
    assert plan.study.axes["finetune.optim.lr"] == [1e-6, 1e-5, 1e-4, 1e-3, 1e-2]
    assert count["finetune"] == 4 * 4 * 5 * 3
    assert plan.study.report.match == plan.study.report.against == "frozen_pretrained"
    steps = {cell.column: cell.chain[-1].spec.budget.steps for cell in plan.cells}
    assert steps == {"listops": 300_000, "mnist": 400_000, "cifar10": 400_000, "cifar10_lra": 300_000}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", NAMES)
def test_models_are_causal_and_read_the_last_position(name: str, scale: str, nowhere: Path) -> None:
    for stage in planned(name, scale, nowhere).stages.values():
        model = stage.spec.model
        assert (model.causal, model.pool, model.position.kind) == (True, "last", "learned")
        assert stage.spec.optim.weight_decay == 0 or stage.name == "language"
        assert 1e-6 <= stage.spec.optim.lr <= 1e-2
        if scale == "paper":
            assert (model.width, model.mixers[0].heads, model.feed_forward.width) == (768, 12, 3072)
            assert model.blocks in (6, 12)
            assert stage.spec.optim.batch_size == 8 or stage.name == "language"


@pytest.mark.parametrize("name", NAMES)
def test_the_title_says_that_the_start_is_no_gpt_2(name: str, nowhere: Path) -> None:
    assert "GPT-2" in planned(name, "paper", nowhere).study.title


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
