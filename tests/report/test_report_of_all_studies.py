"""`report --all`: every study of a store with its answer, whatever one of them is."""

from __future__ import annotations

import html
from pathlib import Path

import pytest
from support.finished import NASTY, fill, study

from headstart.cli import main
from headstart.store import Store
from headstart.study.language.files import publish_study
from headstart.study.language.plan import make_plan
from headstart.study.language.spec import read_study


def code(words: list[str]) -> object:
    """The exit code of `report --all`."""
    with pytest.raises(SystemExit) as end:
        main(["report", "--all", *words])
    return end.value.code


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with a finished study, one that has not begun and has a hostile title, and one that nobody can read."""
    store = Store(tmp_path / "runs")
    for name, title, keep in (("tried", "Does it help?", 10**6), ("later", NASTY, 0)):
        more = {} if keep else {"columns": {"digits": {"task": {"kind": "digits", "labelled": 100}, "model": MODEL}}}
        plan = make_plan(read_study({**study(title, **more), "name": name}), tmp_path)
        fill(plan, store, keep)
        publish_study(plan.study.model_dump(mode="json"), store.root / "reports" / name, "")
    (store.root / "reports" / "broken").mkdir()
    (store.root / "reports" / "broken" / "study.toml").write_text("name = ")
    return store.root


MODEL = {"width": 8, "blocks": 1, "mixer": {"kind": "attention", "heads": 2}, "position": {"kind": "rotary"}}


def test_every_study_stands_with_its_answer_and_one_that_cannot_be_read_with_its_reason(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code(["--store", str(root)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    page = html.unescape((root / "reports" / "index.html").read_text("utf-8"))
    assert f"store {root}: 3 studies" in shown
    assert "tried (12 of 12 runs done, " in shown
    for text in (shown, page):
        assert "self_pretrained beats scratch: test accuracy 0.650" in text
        assert "0 of 12 runs done" in text
        assert "It cannot be read: " in text
        assert "this is not valid TOML" in text
    assert "<script>" not in (root / "reports" / "index.html").read_text("utf-8")


def test_words_and_options_of_one_study_are_refused_and_so_is_a_store_without_reports(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, message in (
        (["digits"], "report --all: digits belongs to one study; leave it out, or leave --all out"),
        (["--json", "x.json"], "report --all: --json belongs to one study"),
        (["--figure-width", "3in"], "report --all: --figure-width belongs to one study"),
        (["--store", str(tmp_path / "none")], "has no report yet; `headstart run STUDY` writes one"),
    ):
        assert code(words if "--store" in words else ["--store", str(root), *words]) == 2
        assert message in " ".join(capsys.readouterr().err.split())


def test_a_search_that_has_chosen_nothing_says_how_far_it_is(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("optuna")
    search = {"trials": 4, "over": {"finetune.optim.lr": "loguniform 1e-4 1e-1"}}
    table = {**study("Which rate?"), "name": "searched", "axes": {"seed": [0, 1]}, "report": {}, "search": search}
    spec = read_study(table)
    publish_study(spec.model_dump(mode="json"), root / "reports" / "searched", "")
    assert code(["--store", str(root)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "searched: Nothing is chosen yet: 0 of 8 trials are finished." in shown
