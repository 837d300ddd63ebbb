"""The studies of Amos et al.: what is shared, what is tied, how large models are, what scales leave legal."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.planning import SCALES, planned

from headstart.checkpoints.released import released_config
from headstart.models.heads import Output
from headstart.models.mixers.parallel import ParallelSpec
from headstart.models.mixers.s4 import S4Spec
from headstart.models.model import ModelSpec, build_model
from headstart.sequence import Signature
from headstart.stage import StageSpec, TrainStage
from headstart.study.language.papers import read_paper
from headstart.study.language.plan import Cell, Plan, make_plan
from headstart.study.language.spec import read_study
from headstart.tasks import open_task
from headstart.tasks.outline import outlined

TABLES = ("amos-1", "amos-2", "amos-3", "amos-7", "amos-8", "amos-9")
FIGURES = ("amos-f3", "amos-f4", "amos-f5")
ALL = [f"{name}-{which}" for name in (*TABLES, *FIGURES) for which in ("described", "published")]
IMAGE = Signature(input="floats", width=1, length=1024, shortest=1024, target="class", classes=10)
PIXELS = Output("sequence", 10)


def cells(plan: Plan, arm: str, column: str = "") -> list[Cell]:
    return [cell for cell in plan.cells if cell.arm == arm and column in ("", cell.column)]


def specs(plan: Plan, arm: str, column: str = "") -> Iterator[StageSpec]:
    for cell in cells(plan, arm, column):
        for stage in cell.chain:
            yield stage.spec


def trained(plan: Plan) -> list[StageSpec]:
    """The specs of all stages but checkpoints, which are read."""
    return [stage.spec for stage in plan.stages.values() if stage.spec.model.kind != "checkpoint"]


def identities(plan: Plan, arm: str, column: str, stage: str) -> set[str]:
    return {s.identity for cell in cells(plan, arm, column) for s in cell.chain if s.name == stage}


def model(plan: Plan, arm: str, column: str) -> ModelSpec:
    models = {spec.model for spec in specs(plan, arm, column)}
    assert len(models) == 1, "both stages of a chain have one model"
    return models.pop()


@pytest.mark.parametrize("name", TABLES)
def test_arms_and_columns_are_those_of_the_papers_cells(name: str, nowhere: Path) -> None:
    paper, plan = read_paper(name), planned(f"{name}-described", "paper", nowhere)
    assert tuple(plan.study.columns) == paper.columns
    assert {row.arm for row in paper.rows if row.arm} <= set(plan.study.arms)


@pytest.mark.parametrize("name", [f"{name}-described" for name in (*TABLES, *FIGURES)])
def test_tiny_runs_every_arm_of_the_paper_with_three_seeds(name: str, nowhere: Path) -> None:
    plan = planned(name, "tiny", nowhere)
    rows = {row.arm for row in read_paper(name.removesuffix("-described")).rows if row.arm}
    assert rows <= {cell.arm for cell in plan.cells}
    assert all(len({c.seed for c in cells(plan, arm)}) == 3 for arm in plan.study.arms)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ALL)
def test_a_scale_keeps_rates_budgets_and_batches_legal(name: str, scale: str, nowhere: Path) -> None:
    for spec in trained(planned(name, scale, nowhere)):
        assert 0 < spec.optim.lr <= 1e-2
        assert not spec.budget.empty
        assert spec.optim.decay == "all-kernel", "kernels of state spaces do not decay"
        examples = _examples(spec)
        assert spec.optim.batch_size <= examples, spec.task
        steps = spec.budget.total_steps(examples // spec.optim.batch_size, 1)
        assert spec.optim.warmup_steps < steps / 2, "most of a budget is not warm-up"


def _examples(spec: StageSpec) -> int:
    """Train examples that a stage goes over."""
    sizes = {
        "digits": 1097,
        "image": 45_000,
        "scifar": 45_000,
        "text": 22_500,
        "retrieval": 147_086,
        "speech": 84_843,
        "bidmc": 4_700,
    }
    whole = sizes.get(spec.task.kind, 0) or spec.task.train
    return math.floor(spec.task.labelled or whole * spec.task.fraction)


@pytest.mark.parametrize("name", ALL)
def test_the_rate_is_constant_after_a_warm_up_since_the_paper_names_no_schedule(name: str, nowhere: Path) -> None:
    for spec in trained(planned(name, "paper", nowhere)):
        assert (spec.optim.schedule, spec.optim.warmup_steps) == ("constant", 2000)


def test_state_space_models_fine_tune_for_at_most_200_epochs(nowhere: Path) -> None:
    for name in ALL:
        for stage in planned(name, "paper", nowhere).stages.values():
            if isinstance(stage.spec, TrainStage):
                assert (stage.spec.budget.epochs or 0) <= 200, (name, stage.name)
    assert {s.budget.epochs for s in specs(planned("amos-2", "paper", nowhere), "s4")} == {200}


SCALED = [(name, scale) for name in ALL for scale in ("tiny", "small")]


# The positive control keeps at small the step sizes of 1,024 positions, which its pilot chose, and so does S4 on CIFAR-10.
@pytest.mark.slow
@pytest.mark.parametrize(("name", "scale"), [*SCALED, ("positive-control", "tiny")])
def test_step_sizes_of_s4_are_scaled_with_the_length_of_the_sequences(name: str, scale: str, nowhere: Path) -> None:
    lengths = {cell.column: _positions(cell) for cell in planned(name, "paper", nowhere).cells}
    for cell in planned(name, scale, nowhere).cells:
        mixers = [part for mixer in cell.chain[-1].spec.model.mixers for part in getattr(mixer, "mixers", (mixer,))]
        for mixer in (mixer for mixer in mixers if isinstance(mixer, S4Spec)):
            paper = 1e-4 if cell.column.startswith("pathx") else 1e-3
            assert mixer.dt_max == pytest.approx(0.1 / paper * mixer.dt_min)
            if scale == "small" and cell.column.startswith(("image", "scifar")) and _positions(cell) == 256:
                assert mixer.dt_min == paper
                continue
            ratio = (mixer.dt_min / paper) * _positions(cell) / lengths[cell.column]
            assert 0.45 < ratio < 2.3, (cell.column, _positions(cell), mixer)


def _positions(cell: Cell) -> int:
    """Positions of the longest sequence of a cell's task."""
    task = outlined(cell.chain[-1].spec.task, Path("nowhere"))
    assert task is not None
    return task.signature.length


@pytest.mark.parametrize("name", ["amos-1", "amos-2", "amos-3", "amos-7", "amos-f4"])
def test_every_model_of_tiny_can_be_built(name: str, nowhere: Path) -> None:
    tasks = {}
    for spec in {stage.spec.model_copy(update={"seed": 0}) for stage in planned(name, "tiny", nowhere).stages.values()}:
        task = tasks.setdefault(spec.task, None) or open_task(spec.task, nowhere)
        tasks[spec.task] = task
        assert build_model(spec.model, task.signature, spec.objective.output(task.signature), 0)


# Table 1


@pytest.mark.parametrize("column", ["listops", "text", "retrieval", "image", "pathfinder"])
def test_an_efficient_attention_differs_from_the_transformer_in_its_mixer_alone(column: str, nowhere: Path) -> None:
    plan = planned("amos-1", "paper", nowhere)
    plain = model(plan, "scratch", column)
    for arm in set(plan.study.arms) - {"scratch", "masked", "causal"}:
        other = model(plan, arm, column)
        assert other.model_copy(update={"mixer": plain.mixer}) == plain
        assert (other.mixers[0].kind, other.mixers[0].heads) == (arm, plain.mixers[0].heads)


def test_the_causal_arm_is_causal_throughout_and_predicts_the_next_element(nowhere: Path) -> None:
    plan = planned("amos-1", "paper", nowhere)
    assert all(spec.model.causal for spec in specs(plan, "causal"))
    asked = {
        (cell.column, cell.chain[0].spec.objective.kind, cell.chain[0].spec.objective.loss)
        for cell in cells(plan, "causal")
    }
    assert asked == {
        ("listops", "causal", "tokens"),
        ("text", "causal", "tokens"),
        ("retrieval", "causal", "tokens"),
        ("image", "causal", "l1"),
        ("pathfinder", "causal", "levels"),
        ("pathx", "causal", "levels"),
    }
    assert not any(spec.model.causal for arm in ("scratch", "masked") for spec in specs(plan, arm))


def test_fine_tunings_at_several_rates_share_a_pretraining(nowhere: Path) -> None:
    plan = planned("amos-1", "paper", nowhere)
    count = Counter(stage.name for stage in plan.stages.values())
    columns, seeds, rates, arms, pretrained = 6, 3, 3, 10, 2
    assert count == {"pretrain": columns * seeds * pretrained, "finetune": columns * seeds * rates * arms}


# Table 2


def test_sizes_of_transformers_are_those_of_table_4(nowhere: Path) -> None:
    plan = planned("amos-2", "paper", nowhere)
    wanted = {
        "listops": (512, 6, 8, 1024, "mean"),
        "text": (512, 6, 8, 1024, "mean"),
        "retrieval": (128, 6, 4, 512, "mean"),
        "image": (256, 6, 4, 512, "mean"),
        "pathfinder": (128, 6, 4, 512, "mean"),
        "pathx": (128, 5, 4, 512, "max"),
    }
    for column, sizes in wanted.items():
        spec = model(plan, "rotary_self_pretrained", column)
        assert (spec.width, spec.blocks, spec.mixers[0].heads, spec.feed_forward.width, spec.pool) == sizes
        assert spec.position.kind == "rotary"
        assert model(plan, "rotary", column) == spec


def test_sizes_of_s4_are_those_of_its_configurations(nowhere: Path) -> None:
    plan = planned("amos-2", "paper", nowhere)
    wanted = {
        "listops": (128, 8, "batch", "after"),
        "text": (256, 6, "batch", "before"),
        "retrieval": (256, 6, "batch", "before"),
        "image": (512, 6, "layer", "after"),
        "pathfinder": (256, 6, "batch", "before"),
        "pathx": (256, 6, "batch", "before"),
        "pathx256": (256, 6, "batch", "before"),
    }
    for column, sizes in wanted.items():
        spec = model(plan, "s4_self_pretrained", column)
        assert (spec.width, spec.blocks, spec.norm, spec.norm_place) == sizes
        assert (spec.mixers[0].kind, spec.mixers[0].state, spec.mixers[0].kernel_rate) == ("s4", 64, 1e-3)
        assert (spec.feed_forward.kind, spec.position.kind) == ("none", "none")
        assert spec.mixers[0].dt_min == (1e-4 if column.startswith("pathx") else 1e-3)
        assert model(plan, "s4", column) == spec


@pytest.mark.parametrize("scale", SCALES)
def test_spade_has_a_frozen_s4_in_its_first_block_and_local_attention_above(scale: str, nowhere: Path) -> None:
    plan = planned("amos-2", scale, nowhere)
    for column in plan.study.columns:
        first, *above = model(plan, "spade", column).mixers
        assert isinstance(first, ParallelSpec)
        assert [first.mixers[number].kind for number in first.frozen] == ["s4"]
        assert {mixer.kind for mixer in above} == {"local_attention"}


def test_pythia_is_the_published_checkpoint_and_at_random_its_architecture(nowhere: Path) -> None:
    plan = planned("amos-2", "paper", nowhere)
    sizes = released_config("EleutherAI/pythia-70m-deduped")
    assert sizes is not None
    for cell in [*cells(plan, "pythia"), *cells(plan, "pythia_random")]:
        network = cell.chain[-1].spec.model
        assert (network.width, network.blocks, network.mixer.heads) == (512, 6, 8)
        assert (network.causal, network.parallel, network.position.share) == (True, True, sizes["rotary_pct"])
        assert network.feed_forward.width == sizes["intermediate_size"]
    for cell in cells(plan, "pythia"):
        assert cell.chain[0].spec.model.source == "EleutherAI/pythia-70m-deduped"
    spec = cells(plan, "pythia", "text")[0].chain[-1].spec
    assert (spec.optim.lr, spec.optim.batch_size, spec.optim.weight_decay) == (5e-4, 16, 0.0)


@pytest.mark.parametrize("scale", ["tiny", "small"])
def test_in_place_of_pythia_a_language_model_of_that_size_has_learnt_from_text(scale: str, nowhere: Path) -> None:
    plan = planned("amos-2", scale, nowhere)
    for cell in cells(plan, "pythia"):
        parent, child = (planned.spec for planned in cell.chain)
        assert parent.task.kind == ("pairs" if scale == "tiny" else "text")
        for field in ("width", "blocks", "mixer", "feed_forward", "position", "causal", "parallel"):
            assert getattr(parent.model, field) == getattr(child.model, field), field


# Table 3


def test_speech_is_heard_in_windows_and_vital_signs_are_scaled(nowhere: Path) -> None:
    plan = planned("amos-3", "paper", nowhere)
    for column in ("speech", "speech_causal"):
        assert model(plan, "transformer", column).mixers[0].window == 4000
    assert model(plan, "s4", "speech_causal").causal
    assert model(plan, "s4", "bidmc_hr").mixers[0].state == 256
    for column in ("bidmc_hr", "bidmc_rr", "bidmc_spo2"):
        ends = [cell.chain[-1].spec for cell in cells(plan, "transformer_self_pretrained", column)]
        assert all((end.objective.kind, end.task.scale_target) == ("regress", True) for end in ends)
    released = planned("amos-3-published", "paper", nowhere)
    assert not any(spec.task.scale_target for spec in specs(released, "s4", "bidmc_hr"))


# Table 7


def test_starts_by_hand_are_the_very_runs_of_table_2(nowhere: Path) -> None:
    two, seven = planned("amos-2", "paper", nowhere), planned("amos-7", "paper", nowhere)
    for arm in ("s4", "s4_self_pretrained"):
        for column in ("listops", "text", "image", "pathx"):
            assert identities(seven, arm, column, "finetune") == identities(two, arm, column, "finetune")


def test_a_random_start_is_of_the_kernel_or_of_everything(nowhere: Path) -> None:
    plan = planned("amos-7", "paper", nowhere)
    for kind in ("s4", "dlr"):
        for reading, start in (("random", "draw(kernel, 0.1)"), ("random_all", "draw(all, 0.1)")):
            assert {spec.start for spec in specs(plan, f"{kind}_{reading}")} == {(start,)}
            chains = [cell.chain for cell in cells(plan, f"{kind}_{reading}_self_pretrained")]
            assert {(chain[0].spec.start, chain[1].spec.start) for chain in chains} == {((start,), ("take(all-head)",))}
    assert model(plan, "dlr", "image").mixers[0].state == 1024
    assert model(plan, "dlr", "image").mixers[0].kernel_rate == 1e-4
    released = planned("amos-7-published", "paper", nowhere)
    assert {spec.start for spec in specs(released, "s4_random")} == {("draw(all, 0.1)",)}


# Table 8, figure 5


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ["amos-8-described", "amos-8-published", "amos-f5-described", "amos-f5-published"])
def test_every_arm_has_the_same_epochs_in_all(name: str, scale: str, nowhere: Path) -> None:
    plan = planned(name, scale, nowhere)
    for column in plan.study.columns:
        totals = {
            round(sum(stage.spec.budget.epochs or 0 for stage in cell.chain), 6)
            for cell in plan.cells
            if cell.column == column
        }
        assert len(totals) == 1
        if scale == "paper":
            assert totals == {150 if column.startswith("image") else 30}


@pytest.mark.parametrize("scale", SCALES)
def test_a_share_of_nothing_is_training_from_scratch(scale: str, nowhere: Path) -> None:
    eight, curves = planned("amos-8", scale, nowhere), planned("amos-f5", scale, nowhere)
    assert all(len(cell.chain) == 1 for cell in cells(eight, "share_0"))
    shared = set(eight.study.columns) & set(curves.study.columns)
    assert shared
    for column in shared:
        assert identities(curves, "scratch", column, "finetune") == identities(eight, "share_0", column, "finetune")
        for stage in ("pretrain", "finetune"):
            runs = identities(eight, "share_40", column, stage)
            assert identities(curves, "self_pretrained", column, stage) == runs


# Table 9


@pytest.mark.parametrize(
    ("column", "wanted"), [("size_1", 1e5), ("size_2", 3e5), ("size_3", 1e6), ("size_4", 3e6), ("size_5", 1e7)]
)
@pytest.mark.parametrize("arm", ["transformer", "s4"])
def test_a_model_has_the_parameters_of_its_column(arm: str, column: str, wanted: float, nowhere: Path) -> None:
    built = build_model(model(planned("amos-9", "paper", nowhere), arm, column), IMAGE, PIXELS, 0)
    count = sum(value.numel() for value in built.parameters())
    if (arm, column) == ("s4", "size_4"):
        # The paper calls S4's Image model of table 2 one of 3M; with a state space per channel it has a third more.
        assert count == pytest.approx(4.15e6, rel=0.01)
    else:
        assert count == pytest.approx(wanted, rel=0.1)


def test_three_million_is_the_image_model_of_table_2(nowhere: Path) -> None:
    two, nine = planned("amos-2", "paper", nowhere), planned("amos-9", "paper", nowhere)
    for ours, theirs in (("transformer", "rotary"), ("s4", "s4")):
        mine = identities(nine, f"{ours}_self_pretrained", "size_4", "pretrain")
        assert mine == identities(two, f"{theirs}_self_pretrained", "image", "pretrain")


# Figures 3 and 4


def test_fractions_are_pretrained_for_a_fixed_number_of_steps(nowhere: Path) -> None:
    plan = planned("amos-f3", "paper", nowhere)
    for cell in cells(plan, "self_pretrained"):
        data, _, percent = cell.column.partition("_")
        first, last = (stage.spec for stage in cell.chain)
        assert first.budget.steps == {"image": 10_000, "text": 40_000}[data]
        assert first.task.fraction == last.task.fraction == float(percent.replace("_", ".")) / 100
        assert first.task.split_seed == last.task.split_seed == 0, "smaller fractions lie in larger ones"


@pytest.mark.parametrize("scale", SCALES)
def test_figure_3_draws_relative_gains_over_scratch(scale: str, nowhere: Path) -> None:
    report = planned("amos-f3", scale, nowhere).study.report
    assert (report.gain, report.against) == (True, "scratch")


@pytest.mark.parametrize("stood_in", [True, False])
@pytest.mark.parametrize("scale", ["tiny", "small"])
@pytest.mark.parametrize("name", ["amos-f3-described", "amos-f3-published"])
def test_every_fraction_is_another_and_holds_every_class_at_every_scale(
    name: str, scale: str, stood_in: bool, nowhere: Path
) -> None:
    columns = list(planned(name, "paper", nowhere).study.columns)
    words = [f"columns={json.dumps(columns)}", "seed=[0]"]
    study = read_study(name, words, scale=scale, data=nowhere if stood_in else None)
    plan = make_plan(study, nowhere, absent="open")
    for data in ("image", "text"):
        specs_of = [
            next(specs(plan, "self_pretrained", f"{data}_{part}")) for part in ("0_5", "1", "5", "10", "50", "100")
        ]
        counts = [_examples(spec) for spec in specs_of]
        assert sorted(set(counts)) == counts
        assert all(spec.optim.batch_size <= count for spec, count in zip(specs_of, counts, strict=True))
        least = specs_of[0].task
        if stood_in and scale == "tiny":
            # A fraction that leaves a class empty is refused.
            assert open_task(least, nowhere).train.units >= 10
        if least.kind == "image":
            assert round(least.fraction * (50_000 - least.val)) >= 10
    tasks = {spec.task for spec in specs(plan, "scratch")}
    assert len(tasks) == len(columns)


def test_kernels_are_those_of_table_2_before_fine_tuning(nowhere: Path) -> None:
    two, figure = planned("amos-2", "paper", nowhere), planned("amos-f4", "paper", nowhere)
    assert figure.study.report.figures == ("kernels",)
    for column in ("listops", "text", "image", "pathx"):
        runs = identities(two, "s4_self_pretrained", column, "pretrain")
        assert identities(figure, "self_pretrained", column, "pretrain") == runs


# Released code


@pytest.mark.parametrize("name", [name for name in ALL if name.endswith("published")])
def test_the_released_code_ties_starts_keeps_its_rate_and_marks_masks(name: str, nowhere: Path) -> None:
    for stage in planned(name, "paper", nowhere).stages.values():
        spec = stage.spec
        assert (spec.optim.schedule, spec.optim.warmup_steps) == ("constant", 2000)
        for mixer in spec.model.mixers:
            assert mixer.kind not in ("attention", "local_attention") or mixer.init == "tied"
        if spec.objective.kind == "masked" and spec.task.loss != "tokens":
            assert spec.model.encoder.masked == "channel"
