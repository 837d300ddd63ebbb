"""The built-in studies at work every day: of each kind, a few stages go from the plan through training to the table.

`test_paper_studies.py` (slow) trains the cheapest stage of every kind that any study holds.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.planning import has_scales

import headstart
from headstart.runner.events import Failed, Finished
from headstart.study.language.files import built_in_studies
from headstart.study.language.spec import read_study

STEPS = 2
KINDS = {
    "few-labels": ("sources", ("scratch_long", "self_pretrained")),  # as many FLOPs as another arm
    "which-part": ("digits", ("only_feed_forward",)),
    "mixers": ("digits", ("lstm_pretrained",)),
    "mqar": ("length_16", ("attention", "delta_net")),
    "coser-1-described": ("listops", ("self_pretrained",)),
    "coser-4-described": ("image", ("query_key",)),
    "amos-1-described": ("image", ("causal", "longformer")),
    "amos-2-described": ("image", ("s4_self_pretrained", "spade", "pythia")),
    "amos-3-described": ("bidmc_hr", ("s4",)),  # regression
    "amos-f4-described": ("pathx", ("self_pretrained",)),  # kernels, which are measured
    "lu-2-described": ("xor", ("fpt", "bit", "vit")),  # three parents of other data; frozen blocks
    "lu-10-described": ("listops", ("output",)),  # the output layer alone
    "lu-lstm": ("bit_xor", ("cell",)),
    "rothermel-1-described": ("mnist", ("frozen_pretrained", "unfrozen_random")),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_study_of_every_kind_is_planned_trained_and_collected(name: str, tmp_path: Path) -> None:
    column, arms = KINDS[name]
    scale = "tiny" if has_scales(name) else None
    whole = read_study(name, scale=scale)
    trained = [stage for stage, table in whole.stages.items() if not table.get("checkpoint")]
    study = headstart.Study(
        name,
        [
            f"columns={json.dumps([column])}",
            f"arms={json.dumps(arms)}",
            f"report.against={arms[0]}",
            "seed=[0]",
            *(f"{stage}.budget.steps={STEPS}" for stage in trained),
            *(f"{stage}.optim.warmup_steps=0" for stage in trained if stage in ("language", "pictures")),
            *(f"{axis}={json.dumps(values[:1])}" for axis, values in whole.axes.items() if axis != "seed"),
        ],
        scale=scale,
        store=tmp_path / "runs",
        data=tmp_path,
    )
    events = list(study.perform(workers=0))
    assert not [event for event in events if isinstance(event, Failed)]
    steps = {event.identity: event.result["budget"]["steps"] for event in events if isinstance(event, Finished)}
    assert set(steps) == set(study.plan.every_stage)
    assert all(steps[identity] == STEPS for identity in study.plan.stages)
    rows = {row.arm: row for row in study.results().table if row.arm in arms}
    assert set(rows) == set(arms)
    for row in rows.values():
        assert row.test is not None
        assert row.test.n == 1


def test_the_studies_of_every_paper_and_of_our_own_questions_are_among_them() -> None:
    assert {name.split("-")[0] for name in KINDS if name.endswith("-described")} == {
        name.split("-")[0] for name in built_in_studies() if name.endswith("-described")
    }
