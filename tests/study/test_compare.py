"""Two stages and two studies side by side: settings, scores and curves, from a store that is written here."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import made_up

from headstart.errors import BadInput
from headstart.spec import merge
from headstart.statistics import paired_difference
from headstart.store import Store
from headstart.study.language.plan import Plan, make_plan
from headstart.study.language.spec import read_study
from headstart.study.paper.compare import Gain, SnapshotSection, _data, _pooled_cells, compare_stages, compare_studies
from headstart.study.paper.summary import summarise

STUDY: dict[str, Any] = {
    "name": "narrow",
    "stages": {"finetune": {"objective": {"kind": "classify"}, "budget": {"epochs": 1}}},
    "columns": {"listops": {"task": {"kind": "listops", "train": 40, "val": 20, "test": 20}, "model": {"width": 16}}},
    "arms": {"plain": {}, "deep": {"model": {"blocks": 3}}},
    "axes": {"seed": [0, 1, 2]},
    "report": {"baselines": False},
}


def planned(**changes: Any) -> Plan:
    return make_plan(read_study(merge(STUDY, changes)), Path("nowhere"))


def stored(folder: Path, plan: Plan, score: float, steps: tuple[int, ...] = (10, 20, 30)) -> Store:
    """A store in which every stage scores this, more by a hundredth per seed, and half of it at the first step."""
    store = Store(folder)
    for cell in plan.cells:
        spec, name = cell.chain[-1].spec, cell.chain[-1].identity
        test = score + cell.seed / 100
        with store.claim(name, {"name": "finetune", "spec": spec.model_dump(mode="json"), "parent": None}) as claimed:
            assert claimed is not None
            claimed.begin()
            for number, step in enumerate(steps):
                claimed.append({"step": step, "val": {"accuracy": test / 2 if number == 0 else test}})
            result = made_up.result(name, test, test)
            result["provenance"] = {}
            claimed.finish(result, {}, {}, {}, {}, {})
    return store


def section(sections: list[SnapshotSection], title: str) -> dict[str, tuple[str, ...]]:
    (part,) = [part for part in sections if part.title.startswith(title)]
    keys = part.heads.index("A") if "A" in part.heads else 1
    return {" ".join(row[:keys]): row[keys:] for row in part.rows}


@pytest.fixture
def pair(tmp_path: Path) -> tuple[list[Plan], list[Store]]:
    plans = [
        planned(),
        planned(name="wide", columns={"listops": {"model": {"width": 32}}}, arms={"other": {"seed": 0}}),
    ]
    return plans, [stored(tmp_path / "a", plans[0], 0.4), stored(tmp_path / "b", plans[1], 0.5, (20, 30, 40))]


def test_two_studies_differ_in_settings_scores_and_curves(pair: tuple[list[Plan], list[Store]]) -> None:
    plans, stores = pair
    results = [summarise(p, s.result, s.status, None, s.records) for p, s in zip(plans, stores, strict=True)]
    sections = compare_studies(plans, results, [store.records for store in stores], ("A", "B"))
    settings = section(sections, "Settings")
    assert settings["name"] == ("narrow", "wide")
    assert settings["columns.listops.model.width"] == ("16", "32")
    scores = section(sections, "Test scores")
    assert scores["deep listops"] == (
        "0.410 ± 0.006 (3 seeds)",
        "0.510 ± 0.006 (3 seeds)",
        "+0.100 on 3 of 3",
    )
    assert scores["other listops"] == ("—", "0.510 ± 0.006 (3 seeds)", "—")
    curves = section(sections, "Validation curves")
    assert {key: row for key, row in curves.items() if key.startswith("plain")} == {
        "plain listops 20": ("0.410", "0.255", "−0.155"),
        "plain listops 30": ("0.410", "0.510", "+0.100"),
    }


def test_two_stages_differ_in_settings_scores_and_curves(tmp_path: Path) -> None:
    plan = planned()
    store = stored(tmp_path, plan, 0.4)
    first, second = (next(c for c in plan.cells if (c.arm, c.seed) == key) for key in (("plain", 0), ("deep", 2)))
    sections = compare_stages(store, first.chain[-1].identity, second.chain[-1].identity)
    blocks = first.chain[-1].spec.model.blocks
    assert section(sections, "Settings") == {"model.blocks": (str(blocks), "3"), "seed": ("0", "2")}
    scores = section(sections, "Scores and cost")
    assert scores["test accuracy, best weights"] == ("0.400", "0.420", "+0.020")
    assert section(sections, "Validation accuracy")["10"] == ("0.200", "0.210", "+0.010")


def test_a_stage_that_is_not_in_the_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"compare: stage 0{16} is absent in store .*; see `headstart ls`"):
        compare_stages(Store(tmp_path), "0" * 16, "1" * 16)


def test_gains_on_own_data_are_pooled_by_the_file_and_not_all_together() -> None:
    assert _data(SimpleNamespace(kind="own", file="/data/dna/uci_splice.tsv")) == "own: dna/uci_splice"
    assert _data(SimpleNamespace(kind="mnist")) == "mnist"


def test_a_gain_that_is_the_same_at_every_seed_is_not_counted_as_clear() -> None:
    def gain(values: list[float]) -> Gain:
        gap = paired_difference(dict(enumerate(values)), dict.fromkeys(range(3), 0.0))
        assert gap is not None
        return Gain("s", "arm", "a", "digits", "accuracy", 32, 10, 100, gap, frozenset(), {})

    for values, clear in ([0.05, 0.05, 0.05], "0"), ([0.05, 0.051, 0.052], "1"):
        assert _pooled_cells([gain(values)], {})[-2] == clear
