"""Published pages are made of the results beside them, and the index names every claim."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.finished import fill, study

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import pretraining_pays
import publish_results as published

from headstart.api import Study
from headstart.fit import defaults
from headstart.report.claims import Part, Verdict
from headstart.statistics import Difference
from headstart.study.language.papers import Claim
from headstart.study.paper.snapshot import Snapshot, read_snapshot
from headstart.verbs import compare
from headstart.verbs import run as perform
from headstart.verbs.run import Outputs, report_files, report_study

FILES = published.studies(published.RESULTS)
PAGES = sorted(path.stem for path in published.RESULTS.glob("*.md") if path.name != published.INDEX)
WITHOUT_RESULTS = {"own", "gains", published.PAYS}
"""Pages that scripts of their own write."""
SUMMARY = ("rows", "claims", "caveats")
"""Of a file, what is computed from the rest, whose last digits another version of scipy may change."""


@pytest.fixture(scope="module", autouse=True)
def _published_files_are_read_once() -> Iterator[None]:
    """Snapshots of the files beside the pages, of which most tests here read many; made files are read each time."""
    read: dict[tuple[Path, ...], Snapshot] = {}

    def remembered(files: Iterable[str | Path], option: str = "--from") -> Snapshot:
        paths = tuple(Path(file).resolve() for file in files)
        if not all(path.is_relative_to(published.RESULTS.resolve()) for path in paths):
            return read_snapshot(paths, option)
        if paths not in read:
            read[paths] = read_snapshot(paths, option)
        return read[paths]

    with pytest.MonkeyPatch.context() as patch:
        for module in (published, compare, perform):
            patch.setattr(module, "read_snapshot", remembered)
        yield


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_published_page_is_what_report_from_makes_of_its_results(file: Path, tmp_path: Path) -> None:
    page = tmp_path / f"{file.stem}.md"
    report_files([str(file)], Outputs(out=str(page)))
    assert page.read_text() == file.with_suffix(".md").read_text(), "run: make results"
    made, content = (
        {k: v for k, v in json.loads(p.read_text()).items() if k not in SUMMARY}
        for p in (page.with_suffix(".json"), file)
    )
    assert made == content
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == set(re.findall(r"\]\(figures/([^)]+)\)", page.read_text()))
    assert all((published.RESULTS / "figures" / name).is_file() for name in names)


def test_the_pooled_table_is_made_of_the_results_that_are_here() -> None:
    page = (published.RESULTS / "gains.md").read_text()
    assert published.gains_page() == page, "run: make results"
    (line,) = [line for line in page.splitlines() if line.startswith("| image | accuracy | 32 |")]
    assert "+0.026 | +0.070" in line, "self-pretrained S4 is held against S4 from scratch, not against the Transformer"


def test_the_page_of_when_self_pretraining_pays_is_made_of_its_seeds_and_fit_says_what_it_counts() -> None:
    results = published.pays_results(published.RESULTS)
    assert results is not None
    assert pretraining_pays.page_of(results) == (published.RESULTS / f"{published.PAYS}.md").read_text(), (
        "run: make results"
    )
    every = [*pretraining_pays.points_of(results), *pretraining_pays.points_of_own()]
    assert pretraining_pays.groups(every) == defaults.GAINED
    assert (pretraining_pays.hits(every, pretraining_pays.by_unlabelled), len(every)) == defaults.RIGHT
    by_val = [*pretraining_pays.points_of(results, "val"), *pretraining_pays.points_of_own(split="val")]
    assert [point.name for point in by_val] == [point.name for point in every]
    assert any(val.gain != test.gain for val, test in zip(by_val, every, strict=True))


def test_a_rule_is_right_only_on_sets_that_it_was_not_fitted_to() -> None:
    """Two sets where unlabelled sequences help, two where all have a label: their own gains must not decide for them."""
    points = [
        pretraining_pays.Point(name, 10, rows, 2, gain)
        for name, rows, gain in (("a", 90, 0.1), ("b", 90, 0.2), ("c", 10, 0.0), ("d", 10, 0.1), ("d2", 10, 0.1))
    ]
    assert pretraining_pays.groups(points) == {True: (2, 2), False: (2, 3)}
    # "d" and "d2" are one source by their letters; without them the rule says that "c", alone, does not gain.
    assert pretraining_pays.hits(points, pretraining_pays.by_unlabelled) == 2
    assert pretraining_pays.hits(points[:3], pretraining_pays.commoner) == 0


def test_few_pages_are_published_each_with_its_results() -> None:
    assert len(PAGES) <= published.MOST
    assert {*PAGES} - {file.stem for file in FILES} == WITHOUT_RESULTS
    texts = [(published.RESULTS / f"{name}.md").read_text() for name in PAGES]
    shown = {name for text in texts for name in re.findall(r"\]\(figures/([^)]+)\)", text)}
    assert {path.name for path in (published.RESULTS / "figures").iterdir()} == shown, "no figure is left over"
    assert all(file.stat().st_size < 1.7e6 for file in FILES)


def test_the_index_is_made_of_the_results_and_names_each_claim_on_its_first_screen() -> None:
    text = (published.RESULTS / published.INDEX).read_text()
    assert text == published.index(published.RESULTS), "run: make results"
    screen = "\n".join(text.splitlines()[:40])
    assert screen.count("\n| ") == text.count("\n| "), "every line of the table of claims"


def with_claims(folder: Path, name: str, **more: Any) -> None:
    claims = [
        {"says": "It helps.", "higher": "self_pretrained", "lower": "scratch"},
        {"says": "It hurts", "higher": "scratch", "lower": "self_pretrained"},
        {"says": "Both are as good", "higher": "scratch", "lower": "self_pretrained", "within": 0.01},
        {"says": "It is a story"},
    ]
    finished = Study(study(claims=claims, **more), store=folder / "runs", data=folder)
    fill(finished.plan, finished.store)
    report_study(finished, Outputs(out=str(folder / "pages" / f"{name}.md")))


def test_claims_are_listed_by_verdict_with_seeds_interval_and_page(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    with_claims(tmp_path, "first")
    (folder / "own.md").write_text("# Own data\n\nOn 29 sets. Little.\n\nMore.\n")
    lines = published.index(folder).splitlines()
    table = [line for line in lines if line.startswith("| ")]
    assert table[0] == "| verdict | claim: columns, differences and seeds | page |"
    assert [re.sub(r", detectable 0\.\d+;", ";", line) for line in table[2:]] == [
        "| holds | It helps: digits +0.210 \\[0.185, 0.235\\]; n 3 | [first](first.md), our question |",
        "| the other way round | It hurts: digits −0.210 \\[−0.235, −0.185\\]; n 3 | [first](first.md), our question |",
        "| does not hold | Both are as good: digits −0.210 \\[−0.235, −0.185\\]; n 3 | [first](first.md), our question |",
    ]
    assert "- [own](own.md): Own data. On 29 sets. Little." in lines
    (about,) = [line for line in lines if line.startswith("- [first]")]
    assert about.startswith("- [first](first.md): Does it help? Of 3 directions that the study asks about")
    assert published.remake(folder) == [folder / "first.md"]


def test_a_claim_on_many_columns_has_the_span_of_its_differences() -> None:
    claim = Claim(says="It helps", higher="a", lower="b")
    gaps = [Difference(0.1 * i, 0.1, 0.1 * i - 0.3, 0.1 * i + 0.3, 3 + i % 2) for i in range(1, 5)]
    parts = tuple(Part(f"c{i}", "undecided", gap) for i, gap in enumerate(gaps))
    ((_, _, page),) = published._claims("a", False, [Verdict(claim, parts, own=True)])
    assert page == f"a{published.OURS}", "a question beside the claims of a paper"
    (line,) = published._claims("a", False, [Verdict(claim, parts)])
    span = "+0.100 to +0.400, all intervals within \\[−0.200, +0.700\\]"
    assert line[1] == f"It helps: 4 columns, {span}; n 4 and 3"
    (line,) = published._claims("a", False, [Verdict(claim, parts[:2])])
    assert re.fullmatch(r"It helps: c0 \+0\.100 .*; c1 \+0\.200 .*; n 4 and 3", line[1])


def test_undecided_claims_of_a_page_share_a_line_where_claims_are_many() -> None:
    lines = [
        [verdict, f"{claim}: digits +{i}", page]
        for i, (verdict, claim, page) in enumerate(
            [("holds", "It helps", "a"), ("holds", "It does", "a"), ("undecided", "A", "a"), ("undecided", "B", "a")]
        )
    ]
    assert published._together(lines) == lines
    many = lines * 10
    short = published._together(many)
    assert len(short) == 21
    assert short[-1] == ["undecided", "<br>".join(["A: digits +2", "B: digits +3"] * 10), "a"]
    assert [line for line in short if line[0] == "holds"] == [line for line in many if line[0] == "holds"]


def test_the_study_of_when_self_pretraining_pays_looks_at_validation_ten_times() -> None:
    assert pretraining_pays.budget(10.0, (600, 1_500)) == {"steps": 600, "evaluate_every": 60.0}
    assert pretraining_pays.budget(9e9, (600, 1_500)) == {"steps": 1_500, "evaluate_every": 150.0}
