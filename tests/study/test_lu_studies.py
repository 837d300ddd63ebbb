"""The studies of Lu et al.: runs that tables share, what parents saw, what trains, and what the released code changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.planning import planned

from headstart.stage import StageSpec
from headstart.study.language.budgets import Outlines
from headstart.study.language.files import study_path
from headstart.study.language.papers import read_paper
from headstart.study.language.plan import Plan

PICTURES = {"mnist": "mnist", "cifar_patches": "cifar10", "image": "cifar10", "digits": "digits", "pathfinder": "drawn"}
"""Kind of task -> which pictures it is of."""
DESCRIBED = sorted(file.stem for file in study_path("lu-2-described").parent.glob("lu-*-described.toml"))


def runs(plan: Plan, arm: str, column: str) -> set[tuple[str, ...]]:
    return {tuple(s.identity for s in c.chain) for c in plan.cells if (c.arm, c.column) == (arm, column)}


def specs(plan: Plan, wanted: Callable[[str], bool] = lambda _: True) -> list[tuple[str, str, StageSpec]]:
    """(arm, column, spec of the reported stage) of the arms that are wanted."""
    return [(c.arm, c.column, c.chain[-1].spec) for c in plan.cells if wanted(c.arm)]


@pytest.mark.parametrize("scale", ["tiny", "small", "paper"])
@pytest.mark.parametrize(
    ("name", "arm", "other", "same"),
    [
        ("lu-6", "random", "lu-2", "random"),
        ("lu-6", "fpt", "lu-2", "fpt"),
        ("lu-9", "fpt", "lu-2", "fpt"),
        ("lu-3", "random", "lu-2", "random"),
        ("lu-13", "fpt", "lu-2", "fpt"),
        ("lu-15", "all_four", "lu-2", "fpt"),
        ("lu-18", "output_norm", "lu-15", "output_norm"),
        ("lu-18", "random_output_norm", "lu-20", "output_norm"),
        ("lu-20", "output", "lu-21", "output"),
        ("lu-21", "all_four", "lu-2", "random"),
        ("lu-f6", "pretrained", "lu-2", "fpt"),
    ],
)
def test_tables_share_the_runs_that_they_print_twice(
    name: str, arm: str, other: str, same: str, scale: str, nowhere: Path
) -> None:
    here, there = planned(name, scale, nowhere), planned(other, scale, nowhere)
    shared = set(here.study.columns) & set(there.study.columns)
    assert "xor" in shared
    for column in shared:
        mine, theirs = runs(here, arm, column), runs(there, same, column)
        assert set() != mine & theirs in (mine, theirs)  # one of them may have a second rate


@pytest.mark.parametrize("scale", ["tiny", "small"])
def test_no_picture_of_a_column_was_seen_by_the_parent_of_its_vision_arm(scale: str, nowhere: Path) -> None:
    for words in ("described", "published"):
        vision = specs(planned(f"lu-2-{words}", scale, nowhere), lambda arm: arm == "vit")
        for _, column, spec in vision:
            assert spec.parent is not None
            assert PICTURES[spec.parent.task.kind] != PICTURES.get(spec.task.kind), column
            assert not spec.model.causal
            assert "draw(position, 0)" in spec.start


NAMES = [*(f"lu-{n}" for n in range(1, 19)), "lu-20", "lu-21", "lu-f3", "lu-f6"]


@pytest.mark.parametrize("name", NAMES)
def test_at_the_papers_scale_the_pretrained_parents_are_checkpoints(name: str, nowhere: Path) -> None:
    plan = planned(name, "paper", nowhere)
    trained = {c.chain[-2].name for c in plan.cells if len(c.chain) > 1 and c.chain[-2].spec.task is not None}
    assert trained <= {"bits"}
    small = planned(name, "small", nowhere)
    learnt = {c.arm for c in small.cells if len(c.chain) > 1 and c.arm in plan.study.arms}
    assert learnt == {c.arm for c in plan.cells if len(c.chain) > 1}
    if plan.study.paper in ("lu-f3", "lu-f6"):
        return
    paper = read_paper(name)
    assert {row.arm for row in paper.rows} == set(plan.study.arms)
    assert set(paper.columns) == set(plan.study.columns)


def test_a_frozen_gpt_2_on_cifar_10_trains_the_papers_106k_numbers_and_its_last_norm_and_biases(nowhere: Path) -> None:
    sizes = {column: spec for _, column, spec in specs(planned("lu-8", "paper", nowhere), lambda arm: arm == "random")}
    size = Outlines(nowhere).size(sizes["small"])
    assert size is not None
    frozen_of_paper = 768 * 16 + 64 * 768 + 4 * 768 * 12 + 768 * 10
    assert size.trainable == frozen_of_paper + 768 + 2 * 768 + 10 == 108_298
    assert {(spec.model.width, spec.model.blocks) for spec in sizes.values()} == {(768, 12), (1024, 24), (1280, 36)}


@pytest.mark.parametrize("name", ["lu-11", "lu-12"])
def test_cut_models_take_the_first_blocks_of_one_whole_parent(name: str, nowhere: Path) -> None:
    cut = specs(planned(name, "small", nowhere), lambda arm: arm == "pretrained")
    depths = {column: spec.model.blocks for _, column, spec in cut}
    assert all(column == f"blocks_{blocks}" for column, blocks in depths.items())
    assert len(depths) == 3
    assert {spec.parent.model.blocks for _, _, spec in cut if spec.parent} == {6}
    assert {spec.trainable for _, _, spec in cut} == {"norm+head" if name == "lu-11" else "head"}


@pytest.mark.parametrize("name", ["lu-1", "lu-3", "lu-4", "lu-5"])
def test_lstms_have_no_feed_forward_layers_and_the_released_ones_norms_inside(name: str, nowhere: Path) -> None:
    for words, norms in (("described", ("layer", "none", "unit")), ("published", ("none", "cell", "small"))):
        plan = planned(f"{name}-{words}", "paper", nowhere)
        lstms = specs(plan, lambda arm: arm.startswith("lstm"))
        assert lstms
        for arm, column, spec in lstms:
            model, mixer = spec.model, spec.model.mixers[0]
            assert (model.feed_forward.kind, mixer.kind, spec.optim.lr) == ("none", "lstm", 3e-4), (arm, column)
            assert (model.norm, mixer.norm, mixer.gain) == norms
            assert model.blocks == (3 if arm == "lstm" else 12)
            assert model.residual == (arm in ("lstm_residual", "lstm_matched"))
            assert (model.position.kind == "learned") == (arm == "lstm_matched")


def test_the_released_code_takes_batches_of_4_clips_drops_out_and_changes_images(nowhere: Path) -> None:
    plain, other = (planned(f"lu-2-{words}", "paper", nowhere) for words in ("described", "published"))
    for ours, theirs in zip(specs(plain), specs(other), strict=True):
        assert ours[:2] == theirs[:2]
        described, published = ours[2], theirs[2]
        assert (described.optim.batch_size, described.optim.clip, described.model.dropout) == (8, None, 0.1)
        assert (published.optim.batch_size, published.optim.clip, published.model.dropout) == (4, 1.0, 0.1)
        changed = ours[1] in ("mnist", "cifar10", "cifar10_lra")
        assert (described.task != published.task) == changed
        assert described.optim.lr == published.optim.lr == (1e-4 if ours[1] == "homology" else 1e-3)
        assert described.trainable == published.trainable == "encoder+norm+position+head"
        assert described.start == published.start


@pytest.mark.parametrize("scale", ["small", "paper"])
@pytest.mark.parametrize("name", DESCRIBED)
def test_what_is_described_trains_transformers_with_dropout_unless_the_output_alone_trains(
    name: str, scale: str, nowhere: Path
) -> None:
    for arm, column, spec in specs(planned(name, scale, nowhere)):
        attends = spec.model.mixers[0].kind != "lstm"
        assert spec.model.dropout == (0.1 if attends and spec.trainable != "head" else 0.0), (arm, column)


@pytest.mark.parametrize(
    ("name", "once"), [("lu-10", {"output"}), ("lu-12", {"pretrained", "random"}), ("lu-17", set())]
)
@pytest.mark.parametrize("scale", ["tiny", "paper"])
def test_tables_without_released_code_train_as_the_others_but_for_features_that_are_computed_once(
    name: str, once: set[str], scale: str, nowhere: Path
) -> None:
    plain, other = (planned(f"{name}-{words}", scale, nowhere) for words in ("described", "published"))
    for ours, theirs in zip(specs(plain), specs(other), strict=True):
        assert ours[:2] == theirs[:2]
        described, published = ours[2], theirs[2]
        assert (published.trainable == "head") == (ours[0] in once)
        assert (published.optim.clip, published.model.dropout) == (1.0, 0.0 if ours[0] in once else 0.1)
        assert published.optim.batch_size == (4 if scale == "paper" else 16)
        changed = published.task.kind in ("image", "cifar_patches") and ours[0] not in once
        assert (published.task != described.task) == changed
        assert (published.start, published.parent) == (described.start, described.parent)
