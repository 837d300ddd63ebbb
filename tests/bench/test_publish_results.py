"""Published pages are made of the results beside them, and the index answers one question a row."""

from __future__ import annotations

import json
import math
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.thinned import thinned

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))

import pretraining_pays
import publish_results as published
import withdrawn

from headstart import statistics as statistics_of
from headstart import words
from headstart.fit import defaults
from headstart.report.claims import Part
from headstart.report.results_page import MOST_WORDS, words_of
from headstart.statistics import Difference
from headstart.study.paper.compare import gains
from headstart.study.paper.snapshot import Snapshot, read_snapshot
from headstart.verbs import compare
from headstart.verbs import run as perform
from headstart.verbs.run import Outputs, report_files

FILES = published.studies(published.RESULTS)
PAGES = sorted(path.stem for path in published.RESULTS.glob("*.md") if path.name != published.INDEX)
WITHOUT_RESULTS = {"own", "gains", "withdrawn", published.PAYS}
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
        for module in (published, compare, perform, withdrawn):
            patch.setattr(module, "read_snapshot", remembered)
        yield


@pytest.mark.parametrize("file", thinned(FILES, 3), ids=[file.stem for file in FILES])
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
    assert published.gains_page()[0] == page, "run: make results"
    (line,) = [line for line in page.splitlines() if line.startswith("| image | accuracy | 32 | 157 |")]
    snapshots = {file.name: published.read_snapshot([file]) for file in FILES}
    alike = {name for name, snapshot in snapshots.items() if list(gains(snapshot.plan, snapshot.results()))}
    assert alike == {name for name in published.POOLED if name != published.SEEDS}, "no page is left out for its gains"
    assert "+0.026 | +0.070" in line, "self-pretrained S4 is held against S4 from scratch, not against the Transformer"


def test_the_page_of_withdrawn_verdicts_has_each_of_them_as_it_was_and_as_it_is_now() -> None:
    text = (published.RESULTS / "withdrawn.md").read_text()
    assert withdrawn.page() == text, "run: make results"
    lost = [
        part
        for rerun in withdrawn.RERUNS
        for claim in json.loads(rerun.before.read_text())["claims"]
        for part in claim["columns"]
        if part["outcome"] == "withdrawn"
    ]
    assert f"{len(lost)} verdicts on four pages were" in text
    standing = {file for file in FILES if '"withdrawn"' in file.read_text()}
    assert standing == {rerun.before for rerun in withdrawn.RERUNS if rerun.before in FILES}
    again = [verdict for rerun in withdrawn.RERUNS for verdict in rerun.verdicts()]
    assert len(again) == len(lost)
    asked = [verdict.now for verdict in again if verdict.now]
    assert f"{len(asked)} of them are asked again" in text
    assert not [part for part in asked if part.outcome == "withdrawn"]


def test_lu_2_says_above_its_folds_what_its_controls_leave_of_the_lag() -> None:
    gaps = withdrawn.changed("mnist")
    assert all(gap.n == 6 for gap in gaps.values())
    plain, scaled, no_dropout, both, everything = gaps.values()
    lags = [words.score(-gap.mean) for gap in (plain, scaled, no_dropout, everything)]
    text = "FPT lags by {}, by {} where pretraining starts by width, by {} without dropout; with both it is undecided at 3e-3"
    screen = (published.RESULTS / "lu-2.md").read_text().split("<details")[0].replace("\\", "")
    assert f"{text.format(*lags[:3])} ({words.difference(both)}; CIFAR-10 too), and lags by {lags[3]} at 1e-2" in screen
    assert not both.clear
    assert not withdrawn.changed("cifar10")["both"].clear


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
    shown |= {"index.png", "index-narrow.png"}
    assert {path.name for path in (published.RESULTS / "figures").iterdir()} == shown, "no figure is left over"
    assert all(file.stat().st_size < 1.7e6 for file in FILES)


def test_the_index_and_the_readme_have_a_row_per_question_with_its_verdict() -> None:
    rows = published.answers(published.RESULTS)
    text = (published.RESULTS / published.INDEX).read_text()
    assert text == published.index(rows), "run: make results"
    readme = (published.ROOT / "README.md").read_text()
    assert readme == published.with_evidence(readme, rows), "run: make results"
    assert len(rows) <= 20
    assert sum(row.first for row in rows) == 8
    assert all(len(f"{row.says}".split()) <= 8 for row in rows)
    assert all((published.RESULTS / f"{row.page}.md").is_file() for row in rows)
    outcomes = {"holds", "contradicts", "undecided", "withdrawn"}
    assert {row.badge.split(",")[0] for row in rows} <= outcomes
    headlines = [row for row in rows if row.badge in ("holds", "contradicts")]
    assert all(row.part.difference is not None and row.part.difference.n >= 8 for row in headlines)
    assert all(row.line.hollow for row in rows if row not in headlines)


def test_contradictions_come_first_in_their_group_and_explorations_in_a_table_of_their_own() -> None:
    def row(group: str, says: str, outcome: Any, standing: Any = "") -> published.Answer:
        part = Part("c", outcome, Difference(0.1, 0.01, 0.05, 0.15, 8), standing=standing)
        return published.Answer(group, says, "page", "small", part, 0.2, False)

    rows = [row("G", "a", "the other way round"), row("G", "b", "holds"), row("G", "c", "holds", "exploratory")]
    first, second = published.index(rows).split("Exploratory")
    assert [line.split(" | ")[-1] for line in first.splitlines() if "](page.md)" in line] == [
        "**contradicts** |",
        "holds |",
    ]
    assert "[c](page.md)" in second
    assert "| +0.200 | +0.100 \\[0.050, 0.150\\] | 8 | small |" in first


def test_a_question_that_no_page_answers_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    questions = tmp_path / "questions.toml"
    row = '{ page = "coser-1", claim = "Nothing", column = "image", says = "x", what = "y" }'
    questions.write_text(f'[[group]]\nsays = "G"\nrows = [{row}]\n')
    monkeypatch.setattr(published, "QUESTIONS", questions)
    with pytest.raises(KeyError, match="no claim begins with 'Nothing'"):
        published.answers(published.RESULTS)


@pytest.mark.parametrize("file", thinned(FILES, 3), ids=[file.stem for file in FILES])
def test_a_published_page_has_at_most_600_words_above_its_folds(file: Path) -> None:
    text = file.with_suffix(".md").read_text()
    assert words_of(text.split("<details")[0]) <= MOST_WORDS
    assert re.search(
        r"^(Scale .*)?Trained with .*(headstart \S+ \(commit|a version of headstart that was not)", text, re.M
    )
    assert text.count("<details") == text.count("</details>") > 3


@pytest.mark.parametrize("name", [*PAGES])
def test_a_page_has_short_paragraphs_and_at_most_five_caveats_above_its_folds(name: str) -> None:
    screen = (published.RESULTS / f"{name}.md").read_text().split("<details")[0]
    lines = [line for line in screen.splitlines() if not line.startswith(("|", "!"))]
    assert max(map(words_of, lines)) <= 130
    assert sum(line.startswith("- ") for line in screen.partition("## What to keep in mind")[2].splitlines()) <= 5


def test_real_language_says_how_its_lead_changes_with_steps() -> None:
    """The output layer is not at its end, so that a difference belongs to its number of steps."""
    file = published.RESULTS / "real-language.json"
    table = json.loads(file.read_text())
    leads = []
    for column in ("mnist", "cifar10"):
        for step in (1_000, 4_000):
            scores: dict[str, list[float]] = {"pretrained": [], "random": []}
            for run in table["runs"]:
                if run["column"] == column and run["arm"] in scores:
                    records = table["stages"][run["stages"]["finetune"]]["records"]
                    scores[run["arm"]].append(records["val.accuracy"][records["step"].index(step)])
            leads.append(words.signed(statistics.mean(scores["pretrained"]) - statistics.mean(scores["random"])))
    mnist, cifar = (f"from {leads[i]}" for i in (0, 2))
    text = file.with_suffix(".md").read_text()
    assert f"{mnist} at 1,000 steps to {leads[1]} at 4,000 on MNIST, and {cifar} to {leads[3]} on CIFAR-10" in text


def test_real_language_says_what_is_left_of_its_lead_beside_a_wider_random_start() -> None:
    page = published.RESULTS / "real-language.json"
    wide = published.read_snapshot(sorted((published.RESULTS / "seeds").glob("real-language-wide-[0-5].json")))
    others, results = wide.results(), published.read_snapshot([page]).results()
    texts = []
    for column, name in (("mnist", "MNIST"), ("cifar10", "CIFAR-10")):
        first, second = results.row("pretrained", column), others.row("random", column)
        assert first is not None
        assert second is not None
        gap = statistics_of.paired_difference(first.by_seed(), second.by_seed())
        assert gap is not None
        assert gap.n == 6
        texts.append(f"{words.difference(gap)} on {name}")
    text = page.with_suffix(".md").read_text().replace("\\", "")
    assert f"drawn at 0.05, nearer to MiniLM's own, its lead on test is {words.listed(texts)}." in text


def test_real_language_says_first_what_a_readout_without_a_rate_leaves_of_its_lead() -> None:
    read = json.loads((published.RESULTS / "seeds" / "real-language-readout.json").read_text())
    texts = dict[str, str]()
    for column, arms in read.items():
        by_seed = {arm: {int(seed): score for seed, score in scores.items()} for arm, scores in arms.items()}
        for arm in ("random", "statistics", "random at 0.05"):
            gap = statistics_of.paired_difference(by_seed["pretrained"], by_seed[arm])
            assert gap is not None
            assert gap.n == 3
            texts[f"{column} {arm}"] = words.difference(gap)
    page = (published.RESULTS / "real-language.md").read_text().split("<details")[0].replace("\\", "")
    for arm, name in (("random", "random blocks"), ("statistics", "its statistics")):
        assert f"less {name} {texts[f'mnist {arm}']} and {texts[f'cifar10 {arm}']}" in page
    whole = (published.RESULTS / "real-language.md").read_text().replace("\\", "")
    assert f"at 0.05 by that readout {texts['mnist random at 0.05']} and {texts['cifar10 random at 0.05']}." in whole
    index = (published.RESULTS / published.INDEX).read_text().replace("\\", "")
    for column in ("mnist", "cifar10"):
        assert f"by ridge {texts[f'{column} statistics'].split(' ')[0]}, undecided" in index


def test_numbers_in_the_rows_of_the_index_are_those_of_the_results() -> None:
    """Numbers that `what ours is` says of the FLOPs, of where the best weights lie and of other settings."""
    of_flops = {}
    for answer in published.answers(published.RESULTS):
        if times := re.search(r"([\d.]+) x FLOPs", answer.what):
            results = published.read_snapshot([published.RESULTS / f"{answer.page}.json"]).results()
            rows = {row.arm: row for row in results.in_column(answer.part.column)}
            of_flops[answer.says] = times[1], rows["self_pretrained"].share("flops", rows["scratch"])
    assert len(of_flops) == 4
    assert all(f"{value:.{len(printed) // 2}f}" == printed for printed, value in of_flops.values()), of_flops
    what = {f"{answer.page}: {answer.says}": answer.what for answer in published.answers(published.RESULTS)}
    table = json.loads((published.RESULTS / "positive-control.json").read_text())
    stages = [table["stages"][run["stages"]["finetune"]] for run in table["runs"] if run["arm"] == "scratch_long"]
    shares = sorted(stage["scores"]["best"]["step"] / stage["scores"]["last"]["step"] for stage in stages)
    text = f"best at {shares[0]:.0%} to {shares[-1]:.0%} of its steps".replace("%", "", 1).replace("%", " %")
    assert text in what["positive-control: 256 positions, equal FLOPs"]
    swept = published.read_snapshot([published.RESULTS / "lu-swept.json"]).results()
    trained, frozen = (swept.row(arm, "mnist") for arm in ("and_feed_forward", "pretrained"))
    assert trained is not None
    assert frozen is not None
    at_first = [row.points[0].test.mean for row in (trained, frozen) if row.points[0].test]
    assert trained.points[0].settings == frozen.points[0].settings == {"finetune.optim.lr": 1e-3}
    text = f"{words.signed(at_first[0] - at_first[1])} at the paper's rate"
    assert text in what["lu-swept: feed-forward trained against frozen, MNIST"]


def test_lu_18_says_above_its_folds_what_its_controls_leave_of_the_lead_of_language() -> None:
    seeds = published.RESULTS / "seeds"
    names = ("lu-18-output-statistics", "lu-18-without-dropout")
    statistics_alone, no_dropout = (
        published.read_snapshot([seeds / f"{name}-{seed}.json" for seed in range(6, 12)]).results() for name in names
    )
    page = published.read_snapshot([published.RESULTS / "lu-18.json"]).results()
    read = json.loads((seeds / "lu-18-readout.json").read_text())

    def less(first: dict[int, float], second: dict[int, float]) -> str:
        gap = statistics_of.paired_difference(first, second)
        assert gap is not None
        assert gap.n == 6
        return words.difference(gap)

    def of(results: Any, arm: str, column: str) -> dict[int, float]:
        row = results.row(arm, column)
        assert row is not None
        return dict(row.by_seed())

    texts = []
    for column in ("mnist", "cifar10"):
        ridge = less(*({int(seed): score for seed, score in scores.items()} for scores in read[column].values()))
        scale = less(of(page, "output", column), of(statistics_alone, "output", column))
        arms = (of(no_dropout, arm, column) for arm in ("output_position", "random_output_position"))
        texts.append((ridge, scale, less(*arms)))
    mnist, cifar = texts
    screen = published.RESULTS.joinpath("lu-18.md").read_text().split("<details")[0].replace("\\", "")
    rates = published.read_snapshot([seeds / f"lu-18-output-rates-{seed}.json" for seed in range(6, 12)]).results()
    lead = less(of(rates, "output", "mnist"), of(rates, "random_output", "mnist"))
    assert f"ridge regression on standardised features has {mnist[0]} and {cifar[0]}" in screen
    assert f"12,000 steps at the best of three rates {lead}." in screen
    assert f"it has no lead: {mnist[1]} and {cifar[1]}. " in screen
    assert f"without dropout: {mnist[2]} and {cifar[2]}." in screen


@pytest.mark.parametrize("study", ["real-language", "film-reviews"])
def test_on_shuffled_labels_features_of_language_are_no_better_than_a_guess(study: str) -> None:
    """Test accuracy, over the deals of labels where there are several, less than three standard errors above a guess."""
    table = json.loads((published.RESULTS / "seeds" / f"{study}-shuffled.json").read_text())
    page = (published.RESULTS / f"{study}.md").read_text()
    note = page.partition("With shuffled labels")[2].partition("\n")[0]
    scores: dict[str, list[float]] = {}
    for run in table["runs"]:
        stage = table["stages"][run["stages"]["finetune"]]
        assert table["settings"][stage["settings"]]["spec"]["task"]["shuffled_labels"]
        scores.setdefault(run["column"].split(" ")[0], []).append(stage["scores"]["best"]["test"]["accuracy"])
    assert scores
    for column, tests in scores.items():
        assert all(f"{score:.3f}" in note for score in tests)
        guess, examples = (0.1, 1_000) if column in ("mnist", "cifar10") else (0.5, 1_000)
        error = math.sqrt(guess * (1 - guess) / examples)
        error = math.hypot(error, statistics.stdev(tests) / math.sqrt(len(tests)) if len(tests) > 1 else 0.0)
        assert statistics.mean(tests) - guess < 3 * error


def test_on_shuffled_labels_frozen_language_is_no_better_than_a_guess() -> None:
    table = json.loads((published.RESULTS / "seeds" / "lu-2-shuffled.json").read_text())
    text = (published.RESULTS / "seeds" / "README.md").read_text()
    for column in ("mnist", "cifar10"):
        stages = [
            table["stages"][run["stages"]["finetune"]] for run in table["runs"] if run["column"].startswith(column)
        ]
        assert all(table["settings"][stage["settings"]]["spec"]["task"]["shuffled_labels"] for stage in stages)
        tests = [stage["scores"]["best"]["test"]["accuracy"] for stage in stages]
        assert len(tests) == 3
        assert all(f"{score:.3f}" in text for score in tests)
        error = math.hypot(statistics.stdev(tests) / math.sqrt(3), math.sqrt(0.09 / 10_000))
        assert statistics.mean(tests) - 0.1 < 3 * error


def test_the_numbers_of_the_readme_are_those_of_its_pages() -> None:
    readme = " ".join((published.ROOT / "README.md").read_text().split())
    own = (published.RESULTS / "own.md").read_text()
    sets, ahead = (int(re.findall(text, own)[0]) for text in (r"On (\d+) sets", r"A network is ahead .* on (\d+)\."))
    assert f"on {sets - ahead} of {sets} real sets" in readme
    kinds = re.findall(r"^\| [^|]+ \| \d+ \| \d+ \| (\S+) \|$", (published.RESULTS / "gains.md").read_text(), re.M)
    lowest, *_, highest = sorted(kinds, key=lambda kind: float(kind.replace(words.MINUS, "-")))
    assert f"between {lowest} (MNIST) and {highest}" in readme
    fit = (published.ROOT / "docs" / "benchmarks" / "fit.md").read_text()
    behind, of = re.findall(r"rivals on (\d+) of (\d+) sets kept for reporting", fit)[0]
    assert f"On {behind} of {of} held-out sets the best of the others is ahead at 60 s" in readme
    (imdb,) = re.findall(r"^\| IMDb, 1,000 labels \| (−0\.\d+) \|.*\*\* \|$", fit, re.M)
    assert imdb.startswith(words.MINUS)
    ranked = re.findall(r"^\| method \| mean rank .*\n\|.*\n((?:\|.*\n)+)", fit, re.M)
    for table in ranked[:2]:
        rows = [line.split(" | ") for line in table.splitlines()]
        assert len(rows) == 6
        assert rows[0][0] == "| fit 20 s"
        assert float(rows[0][1]) == min(float(row[1]) for row in rows)
        assert float(rows[0][2]) == max(float(row[2]) for row in rows)
    demo = (published.ROOT / "docs" / "demo.md").read_text()
    paragraph = readme.partition("raises the test accuracy")[2].partition("The data are made")[0]
    numbers = re.findall(r"[+−]?0\.\d{3}", paragraph)
    assert len(numbers) >= 9
    assert not [number for number in numbers if number not in demo]


@pytest.mark.parametrize("name", PAGES)
def test_every_page_names_the_version_and_the_commit_of_its_runs_or_the_newest_of_their_time(name: str) -> None:
    text = (published.RESULTS / f"{name}.md").read_text()
    assert re.search(r"[Tt]rained with headstart 0|, headstart 0", text)
    assert (
        re.search(r"\(commit [0-9a-f]{12}\)|newest was [0-9a-f]{12}", text) or "names the commits of its runs" in text
    )
    assert "headstart unknown" not in text


def test_the_newest_commits_are_those_of_the_dates_of_the_stages() -> None:
    """Where git has the history: the commit is not younger than the stage, and the next one is."""
    if _git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("no history here")
    count = 0
    for file in FILES:
        document = json.loads(file.read_text())
        begun: dict[str, list[str]] = {}
        for stage in document["stages"].values():
            if stage.get("started"):
                begun.setdefault(document["machines"][stage["machine"]]["versions"]["headstart"], []).append(
                    stage["started"]
                )
        for version, times in begun.items():
            commits = re.findall(r"(?<!commit )\b[0-9a-f]{12}\b", version)
            ends = (min(times), max(times))[: len(commits)]
            assert [
                _git("log", "-1", "--first-parent", f"--before={end}", "--format=%H")[:12] for end in ends
            ] == commits
            count += len(commits)
    assert count > 10


def _git(*words: str) -> str:
    """What git answers, nothing where it or the history is not there."""
    git = shutil.which("git")
    if git is None:
        return ""
    return subprocess.run([git, *words], cwd=published.ROOT, capture_output=True, text=True, check=False).stdout.strip()


@pytest.mark.parametrize("name", sorted([*WITHOUT_RESULTS, "README"]))
def test_a_page_that_a_script_writes_has_at_most_600_words_above_its_folds_too(name: str) -> None:
    assert words_of((published.RESULTS / f"{name}.md").read_text().split("<details")[0]) <= MOST_WORDS


def test_the_study_of_when_self_pretraining_pays_looks_at_validation_ten_times() -> None:
    assert pretraining_pays.budget(10.0, (600, 1_500)) == {"steps": 600, "evaluate_every": 60.0}
    assert pretraining_pays.budget(9e9, (600, 1_500)) == {"steps": 1_500, "evaluate_every": 150.0}
