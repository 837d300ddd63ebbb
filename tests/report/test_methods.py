"""The methods paragraph: whatever tells arms or stages apart is told, with whom it holds for."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from support import made_up
from support.finished import study

from headstart.report.methods import _reported, methods
from headstart.study.language.files import built_in_studies
from headstart.study.language.plan import make_plan
from headstart.study.language.spec import read_study
from headstart.study.paper.summary import summarise
from headstart.study.results.results import Results, TaskFacts


def paragraph(folder: Path, table: dict[str, Any] | str) -> str:
    plan = make_plan(read_study(table, data=folder), folder, absent="open")
    return methods(plan, summarise(plan, lambda _: None), [])


def armed(**arms: dict[str, Any]) -> dict[str, Any]:
    return study(arms=arms, report={"against": next(iter(arms))})


@pytest.mark.parametrize("name", built_in_studies())
def test_any_two_arms_of_a_study_are_told_apart(name: str, tmp_path: Path) -> None:
    plan = make_plan(read_study(name, data=tmp_path), tmp_path, absent="open")
    results = summarise(plan, lambda _: None)
    for column in results.columns[:2]:
        for first, second in combinations(results.in_column(column), 2):
            two = replace(results, arms=(first.arm, second.arm), columns=(column,), table=(first, second))
            text = methods(plan, two, [])
            assert f"In {first.arm}, " in text or f"In {second.arm}, " in text, (first.arm, second.arm)


def test_the_start_of_every_stage_is_told_of_one_without_a_parent_too(tmp_path: Path) -> None:
    taken = {"parent": "pretrain", "start": ["take(all-head)"]}
    text = paragraph(
        tmp_path,
        armed(
            scratch={},
            drawn={"finetune": {"start": ["draw(query_key, 0.1)"]}},
            after={"pretrain": {"start": ["draw(all, 0.2)"]}, "finetune": taken},
            matched={
                "finetune": {"parent": "pretrain", "weights": "last", "start": ["take(encoder)", "match(query_key)"]}
            },
        ),
    )
    for part in (
        "In scratch, stage finetune started from fresh weights.",
        "In drawn, stage finetune started from fresh weights with draw(query_key, 0.1).",
        "In after, stage pretrain started from fresh weights with draw(all, 0.2).",
        "In matched, stage pretrain started from fresh weights.",
        "In after, stage finetune started from the best weights of pretrain by take(all-head).",
        "In matched, stage finetune started from the last weights of pretrain by take(encoder) and match(query_key).",
        "Here draw(part, s) puts normal numbers around 0 of standard deviation s",
        "Here match(part) puts normal numbers of the mean",
    ):
        assert part in text, part
    plain = paragraph(tmp_path, study())
    assert "draw(" not in plain
    assert "match(" not in plain


def test_amos_7_says_which_arms_start_with_drawn_kernels(tmp_path: Path) -> None:
    text = paragraph(tmp_path, "amos-7")
    assert "In s4_random and dlr_random, stage finetune started from fresh weights with draw(kernel, 0.1)." in text
    assert (
        "In s4_random_self_pretrained and dlr_random_self_pretrained, stage pretrain started from fresh weights "
        "with draw(kernel, 0.1)."
    ) in text
    assert "In s4 and dlr, stage finetune started from fresh weights." in text


def test_mixers_are_told_with_what_is_not_as_usual(tmp_path: Path) -> None:
    both = {"kind": "parallel", "mixers": [{"kind": "s4", "state": 16}, {"kind": "local_attention", "window": 9}]}
    text = paragraph(
        tmp_path,
        armed(
            full={},
            tied={"model": {"mixer": {"init": "tied"}}},
            near={"model": {"mixer": {"kind": "local_attention", "heads": 2, "window": 4096}}},
            mixed={
                "model": {
                    "blocks": 3,
                    "position": {"kind": "none"},
                    "mixer": [both, {"kind": "s4d", "gate": "linear"}, {"kind": "s4d", "gate": "linear"}],
                }
            },
        ),
    )
    for part in (
        "In full, the model was a network with 1 block of attention (2 heads), width 8",
        "attention (2 heads, query, key, value and output starting as equal copies)",
        "local_attention (2 heads, window 4096)",
        "3 blocks, parallel of s4 (state 16) and local_attention (4 heads, window 9) in block 0 and s4d (",
        " in blocks 1 to 2, width 8, no positions",
    ):
        assert part in text, part


def test_warm_up_clipping_and_the_encoders_start_are_told(tmp_path: Path) -> None:
    text = paragraph(
        tmp_path,
        armed(
            plain={},
            warm={"finetune": {"optim": {"warmup_steps": 1200}}},
            shared={"finetune": {"optim": {"warmup_share": 0.1}}},
            clipped={"finetune": {"optim": {"clip": 0.5}}},
            turned={"model": {"encoder": {"init": "orthogonal"}}},
        ),
    )
    for part in (
        "cosine schedule after 1,200 steps of warm-up)",
        "cosine schedule after 10 % warm-up)",
        "gradients clipped to norm 0.5)",
        "In turned, stage finetune started from fresh weights, fresh weights of its encoder being orthogonal",
    ):
        assert part in text, part


def test_rates_of_their_own_and_what_decays_are_told(tmp_path: Path) -> None:
    still, decayed = {"position": {"kind": "none"}}, {"finetune": {"optim": {"weight_decay": 0.1}}}
    text = paragraph(
        tmp_path,
        armed(
            s4d={"model": {**still, "mixer": {"kind": "s4d", "state": 8}}, **decayed},
            mamba={"model": {**still, "mixer": {"kind": "mamba", "state": 4}}, **decayed},
            head={"finetune": {"optim": {"weight_decay": 0.1, "decay": "head"}}},
            shared={
                "model": {**still, "mixer": {"kind": "s4d", "state": 8}},
                "finetune": {"optim": {"rate_shares": {"mixer": 0.1}}},
            },
        ),
    )
    assert "and 0.001 for kernel of s4d whatever that is, batch size" in text
    assert "and 0.001 for kernel of s4d whatever that is and 0.1 of these for mixer, batch size" in text
    assert "In s4d, stage finetune" in text
    assert "weight decay 0.1 on all weights but kernels (on norms and biases too)) for" in text
    assert "not on layers.0.skip of mamba and layers.1.skip of mamba)" in text
    assert "weight decay 0.1 on the parts head (on their biases too))" in text


def test_a_test_set_that_is_scored_at_two_weights_is_not_said_to_be_scored_once() -> None:
    plan = made_up.make_plan()
    row = summarise(plan, made_up.shelf(plan).find)
    assert _reported(row).startswith(
        "The test set was scored twice per run, at the weights of the best validation score (where no table says "
        "otherwise) and at the last, and was not used"
    )
    without = [replace(r, runs=tuple(replace(run, more={}) for run in r.runs)) for r in row.table]
    assert "scored once per run, at the weights of the best" in _reported(replace(row, table=tuple(without)))


def test_a_setting_without_words_of_its_own_is_named_where_it_differs(tmp_path: Path) -> None:
    text = paragraph(
        tmp_path, armed(one={}, two={"model": {"residual": False}}, three={"finetune": {"optim": {"beta2": 0.9}}})
    )
    assert "In two, the model was" in text
    assert "pooling (model.residual false)." in text
    assert "In three, stage finetune classified" in text
    assert "(optim.beta2 0.9)." in text
    same = paragraph(tmp_path, armed(one={"model": {"residual": False}}))
    assert "model.residual" not in same


def test_a_stage_on_another_task_names_it_and_a_model_of_its_own_too(tmp_path: Path) -> None:
    elsewhere = {"task": {"kind": "waves", "length": 96}, "model": {"feed_forward": {"width": 12}}}
    text = paragraph(
        tmp_path, armed(away={"pretrain": elsewhere, "finetune": {"parent": "pretrain", "start": ["take(query_key)"]}})
    )
    assert "Stage pretrain on waves reconstructed" in text
    assert "Stage finetune classified" in text
    assert "The model of stage pretrain was" in text
    assert "an MLP of width 12 as feed-forward layer" in text


def test_columns_of_an_axis_are_told_with_their_own_values(tmp_path: Path) -> None:
    table = study(axes={"pretrain.budget.epochs": [3, 7], "seed": [0]}, report={"choose": [], "against": "scratch"})
    text = paragraph(tmp_path, table)
    assert "without labels, with AdamW (learning rate 0.001, batch size 32, cosine schedule) for 7 epochs" in text
    assert "for 3 epochs" in text


def test_columns_of_one_size_are_all_named(tmp_path: Path) -> None:
    task = study()["columns"]["digits"]
    plan = make_plan(read_study(study(columns=dict.fromkeys("abc", task))), tmp_path)
    results: Results = summarise(plan, lambda _: None)
    facts = {
        row.task: TaskFacts("digits", {"train": 1097, "labelled": 200, "val": 200, "test": 500})
        for row in results.table
    }
    text = methods(plan, replace(results, facts=facts), [])
    assert (
        "On a, b and c there are 1,097 training examples (200 of them labelled), 200 validation examples and 500 "
        "test examples."
    ) in text
