"""A published claim is tried again on fresh seeds, and the page says what came of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import support.finished as finished_runs
from support.command import command
from support.finished import fill, study
from support.made_up import LR

from headstart.api import Study
from headstart.errors import BadInput
from headstart.spec import read
from headstart.statistics import Difference
from headstart.study.language.papers import Claim
from headstart.study.language.plan import Cell
from headstart.study.paper.challenge import fresh_seeds, fresh_study, replication
from headstart.study.paper.snapshot import read_snapshot
from headstart.verbs import challenge as verb
from headstart.verbs.options import FolderOptions, RunOptions
from headstart.verbs.run import Outputs, report_files, report_study

CLAIM = {"says": "It helps.", "higher": "self_pretrained", "lower": "scratch"}


def published(folder: Path, claims: list[dict[str, Any]], **more: Any) -> Path:
    finished = Study(study(claims=claims, **more), store=folder / "runs", data=folder)
    fill(finished.plan, finished.store)
    report_study(finished, Outputs(out=str(folder / "page.md")))
    return folder / "page.json"


def challenged(page: Path, monkeypatch: pytest.MonkeyPatch, seeds: int = 4) -> list[Study]:
    """The studies that a challenge ran, whose stages are made up."""
    ran: list[Study] = []

    def score(cell: Cell) -> tuple[float, float]:
        up = 0.0 if cell.arm == "scratch" else 0.2 + 0.001 * (cell.seed % 7)
        return 0.4 + up, 0.4 + up

    def filled(fresh: Study, *_: object) -> int:
        monkeypatch.setattr(finished_runs, "score", score)
        fill(fresh.plan, fresh.store)
        ran.append(fresh)
        return 0

    monkeypatch.setattr(verb, "run_study", filled)
    store, data = str(page.parent / "fresh"), str(page.parent)
    assert verb.challenge(str(page), seeds, FolderOptions(store=store, data=data), RunOptions(workers=0)) == 0
    return ran


def test_a_claim_that_comes_back_is_confirmed_on_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = published(tmp_path, [CLAIM])
    (fresh,) = challenged(page, monkeypatch)
    assert {cell.seed for cell in fresh.plan.cells} == {1000, 1001, 1002, 1003}
    assert {cell.arm for cell in fresh.plan.cells} == {"scratch", "self_pretrained"}
    rates = {cell.chain[-1].spec.optim.lr for cell in fresh.plan.cells}  # type: ignore[union-attr]
    assert rates == {3e-3}, "what validation chose for the page, not the whole sweep"
    text = page.with_suffix(".md").read_text().split("<details")[0]
    assert "with 4 fresh seeds (1000 to 1003), It helps: confirmed on digits (+0.20" in text
    before = page.read_text()
    report = Outputs(out=str(tmp_path / "page.md"))
    report_files([str(page)], report)
    assert page.read_text() == before, "the line stays when the page is made again"


def test_a_second_challenge_draws_other_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = published(tmp_path, [CLAIM])
    challenged(page, monkeypatch)
    assert fresh_seeds(read_snapshot([page]), 2) == [1004, 1005]
    challenged(page, monkeypatch, 2)
    assert [entry["seeds"][0] for entry in json.loads(page.read_text())["challenges"]] == [1000, 1004]


def test_outcomes_follow_the_interval_of_the_fresh_seeds() -> None:
    before = Difference(0.1, 0.01, 0.08, 0.12, 6)

    def fresh(low: float, high: float) -> Difference:
        return Difference((low + high) / 2, 0.01, low, high, 8)

    assert replication(before, fresh(0.07, 0.13)) == "confirmed"
    assert replication(before, fresh(0.02, 0.06)) == "weaker"
    assert replication(before, fresh(-0.02, 0.06)) == "not seen"
    assert replication(before, fresh(-0.12, -0.08)) == "not seen"
    assert replication(before, None) == "not seen"
    # What the page contradicts, or leaves open, is told with it; of likeness both intervals hold 0.
    assert replication(before, fresh(0.07, 0.13), "the other way round", "the other way round") == (
        "the other way round, confirmed,"
    )
    undecided = Difference(-0.012, 0.01, -0.045, 0.021, 3)
    assert replication(undecided, fresh(-0.026, -0.001), "undecided", "the other way round") == (
        "undecided on the page and the other way round with fresh seeds,"
    )
    assert replication(undecided, fresh(-0.01, 0.01)) == "confirmed"
    assert replication(undecided, fresh(-0.3, 0.1), "holds", "undecided") == "not seen"
    # Of likeness a small difference that is clear on the page need not come back.
    assert replication(Difference(0.005, 0.001, 0.003, 0.007, 6), fresh(-0.01, 0.01), alike=True) == "confirmed"
    assert replication(before, None, "holds", "not measured") == "holds on the page and not measured with fresh seeds,"


def test_a_claim_that_the_page_contradicts_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = {"says": "It hurts.", "higher": "scratch", "lower": "self_pretrained"}
    page = published(tmp_path, [claim])
    challenged(page, monkeypatch)
    text = page.with_suffix(".md").read_text().split("<details")[0]
    assert "It hurts: the other way round, confirmed, on digits (−0.20" in text


@pytest.mark.parametrize(
    ("claim", "more", "text"),
    [
        # Both count the draw of the test examples: without it the fresh 0.40 would be below 0.42 at every seed.
        ({"higher": "scratch", "than": 0.42}, {}, "undecided on the page and undecided with fresh seeds"),
        (
            {"higher": "self_pretrained", "lower": "scratch"},
            {"axes": {LR: [1e-3], "seed": [0]}},
            "not measured on the page and holds with fresh seeds",
        ),
    ],
)
def test_what_the_page_left_open_is_told_beside_what_fresh_seeds_say(
    claim: dict[str, Any], more: dict[str, Any], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = published(tmp_path, [{"says": "So it is.", **claim}], **more)
    challenged(page, monkeypatch)
    assert f"So it is: {text}, on digits" in page.with_suffix(".md").read_text().split("<details")[0]


def test_a_claim_at_settings_of_its_own_is_tried_at_these(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fresh,) = challenged(published(tmp_path, [{**CLAIM, "at": {LR: 1e-3}}]), monkeypatch)
    assert {cell.chain[-1].spec.optim.lr for cell in fresh.plan.cells} == {1e-3}  # type: ignore[union-attr]


def test_a_page_without_a_claim_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = published(tmp_path, [{"says": "It is a story"}])
    with pytest.raises(BadInput, match="has no claim on test scores that was checked"):
        challenged(page, monkeypatch)


def test_the_fresh_study_is_read_as_any_other(tmp_path: Path) -> None:
    snapshot = read_snapshot([published(tmp_path, [CLAIM])])
    alone = read(Claim, {"says": "It learns.", "higher": "scratch", "than": 0.1}, "claims[0]")
    table = fresh_study(snapshot, snapshot.results(), alone, "digits", [1000, 1001])
    assert {cell.arm for cell in Study(table, store=tmp_path, data=tmp_path).plan.cells} == {"scratch"}


@pytest.mark.slow
def test_a_page_is_challenged_from_the_command_line(tmp_path: Path) -> None:
    def headstart(*words: str) -> Any:
        return command(*words, cwd=tmp_path, env={**os.environ, "COLUMNS": "200"})

    words = ["which-part", "--scale", "tiny", "pretrain.budget.epochs=1", "finetune.budget.epochs=1", "seed=[0, 1]"]
    assert headstart("run", *words, "--workers", "0").returncode == 0
    made = headstart("report", *words, "-o", "page.md")
    assert made.returncode == 0, made.stderr
    done = headstart("challenge", "page.json", "--seeds", "2", "--workers", "0")
    assert done.returncode == 0, done.stderr
    assert "with 2 fresh seeds (1000 to 1001)" in (tmp_path / "page.md").read_text()
    wrong = headstart("challenge", "none.json")
    assert (wrong.returncode, "none.json" in wrong.stderr) == (2, True)
