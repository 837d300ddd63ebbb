"""The studies of Coser and Orvieto and the open questions: what is shared, what differs, what is equal."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from support.planning import SCALES, planned

from headstart.models.heads import Output
from headstart.models.mixers.attention import AttentionSpec
from headstart.models.mixers.local_attention import LocalAttentionSpec
from headstart.models.model import ModelSpec, build_model
from headstart.objectives import MaskedSpec
from headstart.parameters import leaves, select
from headstart.sequence import Signature
from headstart.stage import StageSpec
from headstart.study.language.estimate import survey
from headstart.study.language.papers import read_paper
from headstart.study.language.plan import Plan
from headstart.study.paper.summary import summarise

TABLES = [f"coser-{n}" for n in range(1, 6)]
QUESTIONS = ("tied-start", "which-part", "matched", "short-range", "labels")
PIXELS = Signature(input="floats", width=1, length=64, shortest=64, target="class", classes=10)

# The appendix "Experimental details": width, blocks, heads, feed-forward, rates and batches of fine-tuning and of
# pretraining, weight decay, share of masked positions, loss.
APPENDIX: dict[str, tuple[Any, ...]] = {
    "listops": (512, 6, 8, 1024, 1e-4, 1e-3, 64, 128, 0.1, 0.1, "tokens"),
    "text": (512, 6, 8, 1024, 1e-4, 5e-4, 64, 32, 0.1, 0.15, "tokens"),
    "retrieval": (128, 4, 4, 512, 5e-4, 5e-3, 16, 32, 0.0, 0.15, "tokens"),
    "image": (64, 3, 4, 128, 1e-3, 1e-3, 16, 32, 0.0, 0.5, "l2"),
    "pathfinder": (128, 4, 4, 512, 5e-4, 1e-3, 16, 32, 0.0, 0.5, "levels"),
}


def chain(plan: Plan, arm: str, column: str, seed: int = 0) -> dict[str, StageSpec]:
    """The specs of the first run of an arm, by the names of its stages."""
    cell = next(c for c in plan.cells if (c.arm, c.column, c.seed) == (arm, column, seed))
    return {stage.name: stage.spec for stage in cell.chain}


def attention(spec: StageSpec) -> AttentionSpec:
    (mixer,) = set(spec.model.mixers)
    assert isinstance(mixer, AttentionSpec)
    return mixer


def masked(spec: StageSpec) -> MaskedSpec:
    assert isinstance(spec.objective, MaskedSpec)
    return spec.objective


@pytest.mark.parametrize("column", APPENDIX)
def test_sizes_rates_and_losses_are_those_of_the_appendix(column: str, nowhere: Path) -> None:
    stages = chain(planned("coser-1-described", "paper", nowhere), "self_pretrained", column)
    before, after = stages["pretrain"], stages["finetune"]
    model = after.model
    assert before.model == model
    settings = (
        model.width,
        model.blocks,
        attention(after).heads,
        model.feed_forward.width,
        after.optim.lr,
        before.optim.lr,
        after.optim.batch_size,
        before.optim.batch_size,
        after.optim.weight_decay,
        masked(before).mask_rate,
        masked(before).loss,
    )
    assert settings == APPENDIX[column]
    assert before.optim.weight_decay == after.optim.weight_decay
    assert (before.budget.epochs, after.budget.epochs) == (200, 100)
    assert before.task == after.task


@pytest.mark.parametrize("column", APPENDIX)
def test_described_is_rotary_annealed_and_held_out(column: str, nowhere: Path) -> None:
    for spec in chain(planned("coser-1-described", "paper", nowhere), "self_pretrained", column).values():
        assert spec.model.position.kind == "rotary"
        assert (spec.optim.schedule, spec.optim.warmup_steps, spec.optim.warmup_share) == ("cosine", 0, 0.05)
        assert attention(spec).init == "independent"
        assert spec.model.encoder.masked == "vector"
        assert spec.model.pool == ("max" if column == "image" else "mean")
        assert getattr(spec.task, "split", "") != "published"


@pytest.mark.parametrize("column", APPENDIX)
def test_published_differs_from_described_where_the_code_does(column: str, nowhere: Path) -> None:
    floats = column in ("image", "pathfinder")
    stages = chain(planned("coser-1-published", "paper", nowhere), "self_pretrained", column)
    for spec in stages.values():
        assert spec.model.position.kind == "sinusoidal"
        assert spec.optim.schedule == "cosine", "the paper says full cosine annealing, and released no code"
        assert attention(spec).init == "tied"
        assert spec.model.encoder.masked == ("channel" if floats else "vector")
        assert spec.model.pool == "mean"
    assert masked(stages["pretrain"]).head == ("none" if column == "text" else "linear")
    assert getattr(stages["finetune"].task, "split", "") != "published", "no choice reads test"
    if column == "image":
        assert (masked(stages["pretrain"]).loss, masked(stages["pretrain"]).monitor) == ("l1", "loss")


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("scale", SCALES)
def test_published_has_the_arms_columns_and_sizes_of_described(name: str, scale: str, nowhere: Path) -> None:
    described, published = (planned(f"{name}-{which}", scale, nowhere) for which in ("described", "published"))
    assert list(described.study.columns) == list(published.study.columns)
    assert list(described.study.arms) == list(published.study.arms)
    chains = [
        [(c.arm, c.column, c.seed, dict(c.settings), [s.name for s in c.chain]) for c in plan.cells]
        for plan in (described, published)
    ]
    assert chains[0] == chains[1]
    for stage in published.stages.values():
        assert (stage.spec.model.position.kind, stage.spec.optim.schedule) == ("sinusoidal", "cosine")
        assert attention(stage.spec).init == "tied"
    sizes = [
        [
            (s.spec.model.width, s.spec.model.blocks, s.spec.optim.lr, s.spec.optim.batch_size, s.spec.budget)
            for c in plan.cells
            for s in c.chain
        ]
        for plan in (described, published)
    ]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("name", TABLES)
def test_the_papers_cells_have_an_arm_and_a_column_to_stand_beside(name: str, nowhere: Path) -> None:
    study = planned(f"{name}-described", "paper", nowhere).study
    assert study.paper is not None
    paper = read_paper(study.paper)
    assert {row.arm for row in paper.rows if row.arm} == set(study.arms)
    assert {column for row in paper.rows for column in row.cells} == set(study.columns)


@pytest.mark.parametrize("name", ["coser-1", "coser-2", "coser-3", "coser-4"])
def test_a_table_measured_on_a_file_is_open_until_its_data_are_there(name: str, nowhere: Path) -> None:
    plan = planned(f"{name}-described", "paper", nowhere)
    for cell in plan.cells:
        assert cell.chain[-1].open == (cell.column not in ("listops", "pathfinder"))


def test_the_last_row_of_table_2_is_the_second_of_table_1(nowhere: Path) -> None:
    first, second = planned("coser-1-described", "paper", nowhere), planned("coser-2-described", "paper", nowhere)
    for column in second.study.columns:
        assert chain(first, "self_pretrained", column) == chain(second, "share_100", column)
        assert chain(first, "scratch", column) == chain(second, "share_0", column)


def test_table_2_pretrains_for_the_epochs_that_an_arm_is_named_after(nowhere: Path) -> None:
    plan = planned("coser-2-described", "paper", nowhere)
    for arm in plan.study.arms:
        epochs = 2 * float(arm.removeprefix("share_").replace("_", "."))
        stages = chain(plan, arm, "listops")
        assert list(stages) == (["pretrain", "finetune"] if epochs else ["finetune"])
        if epochs:
            assert stages["pretrain"].budget.epochs == epochs


def test_table_2_pretrains_for_the_same_shares_at_every_scale(nowhere: Path) -> None:
    shares = {}
    for scale in SCALES:
        plan = planned("coser-2-described", scale, nowhere)
        epochs = [
            float(chain(plan, arm, "image")["pretrain"].budget.epochs or 0)
            for arm in plan.study.arms
            if arm != "share_0"
        ]
        shares[scale] = [round(n / epochs[-1], 6) for n in epochs]
    assert shares["tiny"] == shares["small"] == shares["paper"] == [0.005, 0.05, 0.25, 0.5, 0.75, 1.0]


def test_table_3_freezes_attention_and_then_feed_forward_layers_too(nowhere: Path) -> None:
    plan = planned("coser-3-described", "paper", nowhere)
    assert {stage.name for stage in plan.stages.values()} == {"finetune"}
    of = leaves(build_model(ModelSpec(width=8, blocks=2), PIXELS, Output("sequence", 10), 0))
    frozen = {}
    for arm in plan.study.arms:
        trained = select(chain(plan, arm, "image")["finetune"].trainable, of)
        frozen[arm] = {leaf for name, leaf in of.items() if name not in trained}
    attention_only = {"query_key", "value_output"}
    assert frozen == {
        "scratch": set(),
        "attention_frozen": attention_only,
        "attention_and_feed_forward_frozen": {*attention_only, "feed_forward"},
    }


@pytest.mark.parametrize("which", ["described", "published"])
@pytest.mark.parametrize("scale", SCALES)
def test_the_arms_of_table_4_share_one_pretraining_per_column_and_seed(which: str, scale: str, nowhere: Path) -> None:
    plan = planned(f"coser-4-{which}", scale, nowhere)
    parents: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for cell in plan.cells:
        if cell.arm != "scratch":
            parents[cell.column, cell.seed].add(cell.chain[0].identity)
    assert all(len(identities) == 1 for identities in parents.values())
    names = Counter(stage.name for stage in plan.stages.values())
    assert names["pretrain"] == len(parents) == len(plan.study.axes["seed"]) * len(plan.study.columns)
    assert {stage.spec.model.blocks for stage in plan.stages.values()} == {1}


@pytest.mark.parametrize("scale", SCALES)
def test_figure_2_pretrains_elsewhere_on_the_other_task_with_the_same_model(scale: str, nowhere: Path) -> None:
    plan = planned("coser-5-described", scale, nowhere)
    for column in plan.study.columns:
        swapped, own = chain(plan, "pretrained_elsewhere", column), chain(plan, "self_pretrained", column)
        assert list(swapped) == ["elsewhere", "finetune"]
        assert list(own) == ["pretrain", "finetune"]
        assert swapped["elsewhere"].model == swapped["finetune"].model == own["pretrain"].model
        assert swapped["elsewhere"].model.blocks == int(column[-1])
        assert (swapped["elsewhere"].task.kind == "pathfinder") == column.startswith("image")
        assert swapped["elsewhere"].task.patch == swapped["finetune"].task.patch
        assert own["pretrain"].task.kind == own["finetune"].task.kind


def test_figure_2_marks_digits_for_image_only_where_a_run_reads_them(nowhere: Path) -> None:
    rows = summarise(planned("coser-5-described", "tiny", nowhere), lambda _: None).table
    assert {(row.column, row.arm): row.stand_in for row in rows} == {
        **{("image_1", arm): "digits for image_1" for arm in ("scratch", "self_pretrained", "pretrained_elsewhere")},
        ("pathfinder_1", "scratch"): "",
        ("pathfinder_1", "self_pretrained"): "",
        ("pathfinder_1", "pretrained_elsewhere"): "digits for image in stage elsewhere of pathfinder_1",
    }


@pytest.mark.parametrize("name", [*(f"{t}-{w}" for t in TABLES for w in ("described", "published")), *QUESTIONS])
def test_stages_of_tiny_fit_their_tasks(name: str, nowhere: Path) -> None:
    plan = planned(name, "tiny", nowhere)
    assert {cell.seed for cell in plan.cells} == {0, 1, 2}
    assert all(cost.steps > 0 for cost in survey(plan) if cost.planned.identity in plan.stages)


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("scale", ["small", "paper"])
def test_a_question_without_a_paper_has_at_least_five_seeds_and_the_same_rates_for_every_arm(
    name: str, scale: str, nowhere: Path
) -> None:
    plan = planned(name, scale, nowhere)
    assert plan.study.paper is None
    assert len({cell.seed for cell in plan.cells}) >= 5
    counts = Counter((cell.arm, cell.column, cell.seed) for cell in plan.cells)
    assert len(set(counts.values())) == 1


def test_tied_and_independent_starts_differ_in_nothing_else(nowhere: Path) -> None:
    plan = planned("tied-start", "small", nowhere)
    for column in plan.study.columns:
        for kind in ("scratch", "self_pretrained"):
            independent, tied = (chain(plan, f"{kind}_{init}", column) for init in ("independent", "tied"))
            assert list(independent) == list(tied)
            for name in independent:
                assert (attention(independent[name]).init, attention(tied[name]).init) == ("independent", "tied")
                plain = independent[name].model.model_copy(update={"mixer": tied[name].model.mixer})
                assert plain == tied[name].model
                assert independent[name].optim == tied[name].optim
                assert independent[name].budget == tied[name].budget
                assert independent[name].task == tied[name].task


def test_each_part_alone_and_all_but_it_are_the_whole_without_the_head(nowhere: Path) -> None:
    plan = planned("which-part", "tiny", nowhere)
    spec = chain(plan, "scratch", "digits")["finetune"].model
    model = spec.model_copy(update={"position": spec.position.model_copy(update={"kind": "learned"})})
    of = leaves(build_model(model, PIXELS, Output("sequence", 10), 0))
    whole = set(select("all-head", of))

    def taken(arm: str) -> set[str]:
        (entry,) = chain(plan, arm, "digits")["finetune"].start
        return set(select(entry.removeprefix("take(").removesuffix(")"), of))

    parts = [arm.removeprefix("only_") for arm in plan.study.arms if arm.startswith("only_")]
    assert taken("self_pretrained") == whole
    assert set().union(*(taken(f"only_{part}") for part in parts)) == whole
    for part in parts:
        assert not taken(f"only_{part}") & taken(f"all_but_{part}")
        assert taken(f"only_{part}") | taken(f"all_but_{part}") == whole
    assert Counter(stage.name for stage in plan.stages.values())["pretrain"] == 3


@pytest.mark.parametrize("scale", ["tiny", "small"])
def test_matched_arms_cost_equal_flops_and_try_as_many_configurations(scale: str, nowhere: Path) -> None:
    plan = planned("matched", scale, nowhere)
    cost = {stage_cost.planned.identity: stage_cost.flops for stage_cost in survey(plan)}
    spent: defaultdict[tuple[str, str], set[float]] = defaultdict(set)
    tried: defaultdict[tuple[str, str], set[tuple[Any, ...]]] = defaultdict(set)
    for cell in plan.cells:
        spent[cell.column, cell.arm].add(sum(cost[stage.identity] for stage in cell.chain))
        tried[cell.column, cell.arm].add(tuple(cell.settings.items()))
    for column in plan.study.columns:
        (long,), (pretrained,) = spent[column, "scratch_long"], spent[column, "self_pretrained"]
        (short,) = spent[column, "scratch"]
        assert long == pytest.approx(pretrained, rel=1e-3)
        assert short < 0.6 * long
        assert len({len(tried[column, arm]) for arm in plan.study.arms}) == 1


def test_a_window_leaves_most_of_a_sequence_out_of_sight(nowhere: Path) -> None:
    plan = planned("short-range", "tiny", nowhere)
    for arm in ("window", "window_self_pretrained"):
        for spec in chain(plan, arm, "digits").values():
            (mixer,) = set(spec.model.mixers)
            assert isinstance(mixer, LocalAttentionSpec)
            assert 3 * mixer.window < PIXELS.length / 4
    whole, narrow = (chain(plan, arm, "digits")["finetune"] for arm in ("attention", "window"))
    assert whole.model.model_copy(update={"mixer": narrow.model.mixer}) == narrow.model
    assert whole.optim == narrow.optim
