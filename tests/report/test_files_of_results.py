"""A report made again from its file of results, without the store; files of seeds and arms that were run apart."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.finished import fill, study
from support.made_up import LR

from headstart.api import Study
from headstart.api import run as run_here
from headstart.errors import BadInput
from headstart.report.content import read_content
from headstart.report.page import write_report
from headstart.report.results_page import results_page
from headstart.statistics import Difference, paired_difference
from headstart.store import seal
from headstart.study.paper.compare import Gain, gains, pooled
from headstart.study.paper.snapshot import Snapshot, read_file, read_snapshot, take_snapshot
from headstart.text import json_lines
from headstart.verbs.compare import print_pooled
from headstart.verbs.options import FolderOptions, StudyOptions
from headstart.verbs.run import Outputs, report, report_files, report_study
from headstart.verbs.terminal import print_error

POOLED = r"^\| digits \| accuracy \| 32 \| (.*) \|$"
FORMS = ("table.md", "table.csv", "table.tex")


def bound(folder: Path, *words: str, keep: int = 10**6, **more: Any) -> Study:
    """A finished study, made up, in a store of its own."""
    finished = Study(study(**more), words, store=folder / "runs", data=folder)
    fill(finished.plan, finished.store, keep)
    return finished


def saved(finished: Study, name: str = "results") -> Path:
    """Its file of results, as `--json` writes it."""
    path, results = finished.store.root.parent / f"{name}.json", finished.results()
    content = read_content(finished.plan, results, finished.store)
    Outputs(json=str(path)).write(content, finished.store)
    return path


def edited(path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A copy of a file with something changed."""
    document = json.loads(path.read_text())
    change(document)
    copy = path.with_name(f"edited-{path.name}")
    copy.write_text(json_lines(document))
    return copy


def page(snapshot: Snapshot) -> str:
    return results_page(read_content(snapshot.plan, snapshot.results(), snapshot))


@pytest.mark.slow
def test_the_tables_and_the_page_of_a_file_are_those_of_the_store(tmp_path: Path) -> None:
    report = {"choose": [LR], "against": "scratch", "match": "scratch", "sweep": "test", "gain": True}
    claims = [{"says": "It helps", "higher": "self_pretrained", "lower": "scratch"}]
    finished = bound(tmp_path, report=report, claims=claims)
    snapshot = read_snapshot([saved(finished)])
    stored = finished.results()
    curves = stored.curves()
    shutil.rmtree(finished.store.root)
    again = snapshot.results()
    assert again == stored, "every row, average, caveat, fact and claim"
    assert again.curves() == curves
    assert snapshot.plan.stages == finished.plan.stages, "specs, names and identities"
    fill(finished.plan, finished.store)
    first, second = tmp_path / "store", tmp_path / "file"
    write_report(finished.plan, stored, finished.store, first)
    write_report(snapshot.plan, again, snapshot, second)
    for name in (*FORMS, "sweep.csv", "study.toml"):
        assert (second / name).read_bytes() == (first / name).read_bytes()
    lacking = "This page was made from a file of results."
    texts = [(folder / "results.md").read_text() for folder in (first, second)]
    fold = '<details markdown="1"><summary>{}</summary>.*?</details>'
    for i, title in enumerate(("What pretraining learnt to fill in", "Figures that are not here")):
        texts[i] = re.sub(fold.format(title), "", texts[i], flags=re.DOTALL)
    assert texts[0].split() == texts[1].split()
    assert lacking in (second / "page.html").read_text()
    names = {path.name for path in second.glob("*.png")}
    assert {path.name for path in first.glob("*.png")} - names == {"reconstruction-digits.png"}
    assert {"sweep-digits.png", "curves-digits.png", "gains.png"} <= names


def test_a_file_carries_which_test_examples_were_answered_rightly(tmp_path: Path) -> None:
    finished = bound(tmp_path)
    for cell in finished.plan.cells:
        identity = cell.chain[-1].identity
        right = torch.arange(100) < round(
            100 * finished.store.entry(identity).result["scores"]["best"]["test"]["accuracy"]
        )
        output = torch.stack([1.0 - right.float(), right.float()], 1)
        tensors = {
            "test/output": output,
            "test/target": torch.ones(100, dtype=torch.long),
            "test/index": torch.arange(100),
        }
        path = finished.store.root / identity / "predictions.safetensors"
        path.write_bytes(seal(tensors, {"identity": identity}))
    stored = finished.results()
    assert all(row.difference.both for row in stored.table if row.difference is not None)
    file = saved(finished)
    again = read_snapshot([file]).results()
    assert again.answers == stored.answers
    assert [row.difference for row in again.table] == [row.difference for row in stored.table]
    worse = edited(file, lambda d: next(s for s in d["stages"].values() if "answers" in s)["answers"].update(count=3))
    with pytest.raises(BadInput, match=r"stages\.\w+\.answers\.right: holds .*write the file again"):
        read_snapshot([worse])


@pytest.mark.parametrize("name", ["amos-f4", "coser-5", "digits", "mixers", "mqar", "rothermel-1"])
def test_the_plan_of_a_built_in_study_is_read_back_as_it_was(name: str, tmp_path: Path) -> None:
    planned = Study(name, store=tmp_path / "runs", data=tmp_path)
    results = planned.results(baselines=False)
    file = tmp_path / "plan.json"
    file.write_text(json_lines(take_snapshot(planned.plan, results, planned.store).document(results, [])))
    plan = read_file(file).plan
    assert (plan.cells, plan.baselines) == (planned.plan.cells, planned.plan.baselines)
    assert (plan.stages, plan.study) == (planned.plan.stages, planned.plan.study)


def test_a_file_made_of_a_file_is_the_same(tmp_path: Path) -> None:
    file = saved(bound(tmp_path))
    report_files([str(file)], Outputs(json=str(tmp_path / "again.json"), out=str(tmp_path / "report")))
    assert (tmp_path / "again.json").read_bytes() == file.read_bytes()
    assert max(map(len, file.read_text().splitlines())) < 5000, "a line for each stage"
    assert (tmp_path / "report" / "page.html").is_file()


def test_seeds_that_were_run_apart_join_to_what_one_store_gives(tmp_path: Path) -> None:
    table = study()
    table["stages"] = {name: {**stage, "budget": {"steps": 2}} for name, stage in table["stages"].items()}
    table["report"] |= {"baselines": False}
    parts = {"a": ["seed=[0, 1]"], "b": ["seed=2"]}
    files, whole = [], tmp_path / "whole"
    for name, words in parts.items():
        run_here(table, words, store=tmp_path / name / "runs", data=tmp_path)
        files.append(saved(Study(table, words, store=tmp_path / name / "runs", data=tmp_path)))
        shutil.copytree(tmp_path / name / "runs", whole, dirs_exist_ok=True)
    stored = Study(table, store=whole, data=tmp_path).results()
    for order in (files, files[::-1], [*files, files[0]]):
        joined = read_snapshot(order).results()
        assert joined.table == stored.table, "rows, runs and differences, whatever the order of the files"
        assert joined.caveats == stored.caveats
    assert [row.n for row in joined.table] == [3, 3]


def test_what_is_unfinished_in_one_file_is_taken_from_the_other(tmp_path: Path) -> None:
    whole = bound(tmp_path)
    first, second = bound(tmp_path / "a", keep=0), bound(tmp_path / "b", keep=0)
    baselines = [*whole.plan.baselines]
    for part, cells in ((first, [*whole.plan.cells[:7], *baselines]), (second, whole.plan.cells[7:])):
        for planned in (planned for cell in cells for planned in cell.chain):
            folder = part.store.root / planned.identity
            shutil.copytree(whole.store.root / planned.identity, folder, dirs_exist_ok=True)
    alone = read_snapshot([saved(first)]).results()
    assert [(row.arm, row.n, row.expected) for row in alone.table] == [("scratch", 3, 3), ("self_pretrained", 1, 3)]
    assert "not finished; the choice may change" in str(alone)
    joined = read_snapshot([saved(first), saved(second)]).results()
    assert joined.table == whole.results().table
    assert not joined.partial


def test_damaged_stages_are_named_and_the_rest_is_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = bound(tmp_path)
    sound, name = saved(whole), whole.plan.cells[0].chain[-1].identity
    curve = json.loads(sound.read_text())["stages"][name]["records"]
    folder = whole.store.folder(name)
    records = (folder / "records.jsonl").read_bytes()
    (folder / "records.jsonl").write_bytes(b"{\n")
    lost = saved(whole, "lost")
    assert f"{folder / 'records.jsonl'}: " in caplog.text
    assert "its stage is in no curve" in caplog.text
    for files in ([sound, lost], [lost, sound]):
        document = json.loads(saved_again(files, tmp_path / "joined.json").read_text())
        assert document["stages"][name]["records"] == curve, "in any order of the files"
    (folder / "records.jsonl").write_bytes(records)
    (folder / "result.json").write_bytes((folder / "result.json").read_bytes()[:50])
    results = whole.results()
    assert [row.n for row in results.table] == [3, 3]
    assert "1 of 6 runs failed" in str(results.caveats)


def test_a_table_is_printed_where_its_page_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = bound(tmp_path)

    def refused(*_: Any) -> Path:
        raise OSError(errno.EROFS, "Read-only file system", str(tmp_path / ".study.toml.0123456789abcdef.tmp"))

    monkeypatch.setattr("headstart.report.page.write_report", refused)
    with pytest.raises(OSError, match="Read-only") as caught:
        report_study(whole)
    assert "self_pretrained" in capsys.readouterr().out
    assert print_error(caught.value) == 2
    assert f"{tmp_path / 'study.toml'}: Read-only file system; give access there" in capsys.readouterr().err


def saved_again(files: list[Path], path: Path) -> Path:
    """The file of results that a report of files writes."""
    report_files([str(file) for file in files], Outputs(json=str(path), out=str(path.with_suffix(".md"))))
    return path


def test_seeds_that_each_hold_out_a_fold_join_and_folds_that_were_set_do_not(tmp_path: Path) -> None:
    def at(fold: Any, seed: int) -> Path:
        column = study()["columns"]["digits"]
        columns = {"digits": {**column, "task": {"kind": "digits", "folds": 3, "fold": fold}}}
        return saved(bound(tmp_path / f"{fold}-{seed}", f"seed=[{seed}]", columns=columns))

    joined = read_snapshot([at("seed", seed) for seed in range(3)]).results()
    assert [row.n for row in joined.table] == [3, 3]
    with pytest.raises(BadInput, match=r"task\.fold is 0 in .* and 1 in"):
        read_snapshot([at(0, 0), at(1, 1)])


def test_a_file_holds_whether_runs_validate_on_folds_and_its_page_says_what_the_store_says(tmp_path: Path) -> None:
    def finished(fold: Any) -> Study:
        column = {**study()["columns"]["digits"], "task": {"kind": "digits", "folds": 3, "fold": fold}}
        return bound(tmp_path / f"{fold}", columns={"digits": column})

    lacking = re.compile(
        r"This page was made from a file of results\..*?\n|## What pretraining .*?(?=\n## )", re.DOTALL
    )
    for part, folds in ((finished("seed"), 3), (finished(0), 1)):
        snapshot, stored = read_snapshot([saved(part)]), part.results()
        assert stored.folds == snapshot.results().folds == folds
        own = results_page(read_content(part.plan, stored, part.store))
        again, own = (lacking.sub("", text).split() for text in (page(snapshot), own))
        assert again == own
        text = " ".join(own)
        folded = [phrase in text for phrase in ("over n folds", "over folds", "paired by fold", "paired folds")]
        plain = [phrase in text for phrase in ("over n seeds", "over seeds", "paired seeds")]
        assert (set(folded), set(plain)) == ({folds > 1}, {folds == 1})


def test_one_run_at_each_of_several_folds_is_no_mean_over_folds(tmp_path: Path) -> None:
    """Folds as an axis are settings: a row's runs are those of one fold, and differ in their seeds."""
    column = {**study()["columns"]["digits"], "task": {"kind": "digits", "folds": 3, "fold": 0}}
    axes = {**study()["axes"], "finetune.task.fold": [0, 1, 2], "pretrain.task.fold": [0]}
    assert bound(tmp_path, columns={"digits": column}, axes=axes).results().folds == 1


def test_arms_that_were_run_apart_join(tmp_path: Path) -> None:
    files = [saved(bound(tmp_path / arm, f"arms=['{arm}']", report={"choose": [LR]})) for arm in study()["arms"]]
    joined = read_snapshot(files).results()
    assert joined.table == bound(tmp_path / "both", report={"choose": [LR]}).results().table
    assert joined.arms == ("scratch", "self_pretrained")


def test_the_page_says_where_and_when_each_part_was_run(tmp_path: Path) -> None:
    def moved(document: dict[str, Any]) -> None:
        for machine in document["machines"]:
            machine["machine"] = "cluster"
        for stage in document["stages"].values():
            stage["started"] = "2026-02-03T10:00:00"

    first, second = saved(bound(tmp_path / "a", "seed=[0, 1]")), saved(bound(tmp_path / "b", "seed=[2]"))
    text = page(read_snapshot([first, edited(second, moved)]))
    assert "- Begun: 2026-01-01 to 2026-02-03" in text
    assert "- Seeds 0 and 1: laptop, cpu, torch 2.13.0, begun 2026-01-01\n" in text
    assert "- Seed 2: cluster, cpu, torch 2.13.0, begun 2026-02-03\n" in text
    assert "The table mixes machines: cluster and laptop." in text
    assert "Seeds 0" not in page(read_snapshot([first]))
    arms = [saved(bound(tmp_path / arm, f"arms=['{arm}']", report={})) for arm in study()["arms"]]
    text = page(read_snapshot([arms[0], edited(arms[1], moved)]))
    assert "- Seeds 0, 1 and 2 of self\\_pretrained: cluster, cpu" in text


def test_only_what_was_run_stands_on_a_page_from_a_file(tmp_path: Path) -> None:
    claims = [
        {"says": "It helps", "higher": "self_pretrained", "lower": "scratch"},
        {"says": "It is good", "higher": "scratch", "than": 0.1},
    ]
    table = study(claims=claims, paper="coser-4")
    table["columns"]["image"] = table["columns"].pop("digits")
    finished = Study(table, store=tmp_path / "runs", data=tmp_path)
    fill(finished.plan, finished.store, keep=6)
    stored = results_page(read_content(finished.plan, finished.results(), finished.store))
    text = page(read_snapshot([saved(finished)]))
    assert "not run here" in stored
    assert "self\\_pretrained (absent)" in stored
    for absent in ("not run here", "self\\_pretrained", "self-pretrained", "It helps"):
        assert absent not in text
    assert "| image" in text, "the paper's cell beside ours"
    assert "It is good" in text


def test_a_page_is_published_with_its_results_and_figures_and_made_again_from_them(tmp_path: Path) -> None:
    finished = bound(tmp_path)
    report_study(finished, Outputs(out=str(tmp_path / "first.md")))
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("first*")}
    figures = {f"figures/first-{name}.png" for name in ("forest", "sweep-digits", "curves-digits")}
    assert names == {"first.md", "first.json", *figures}
    text = (tmp_path / "first.md").read_text()
    assert "](figures/first-sweep-digits.png)" in text
    report_files([str(tmp_path / "first.json")], Outputs(out=str(tmp_path / "second.md")))
    renamed = text.replace("first.json", "second.json").replace("first.md", "second.md")
    assert (tmp_path / "second.md").read_text() == renamed.replace("figures/first-", "figures/second-")
    assert (tmp_path / "second.json").read_bytes() == (tmp_path / "first.json").read_bytes()
    plain = bound(tmp_path / "b", f"{LR}=[1e-3]")
    report_study(plain, Outputs(out=str(tmp_path / "first.md")))
    assert not (tmp_path / "figures" / "first-sweep-digits.png").exists(), "there is no sweep any more"
    assert (tmp_path / "figures" / "second-sweep-digits.png").exists()


@pytest.mark.parametrize(("many", "shown"), [(1, True), (2, False)])
def test_that_many_columns_take_long_to_draw_is_said_before(many, shown, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("headstart.verbs.run.MANY_COLUMNS", many)
    report_study(bound(tmp_path), Outputs(out=str(tmp_path / "page.md")))
    text = capsys.readouterr().out
    assert ("drawing the figures of 1 columns, some seconds each" in text) == shown
    assert text.index("page ") > text.find("drawing")


def test_what_claims_read_from_weights_is_kept(tmp_path: Path) -> None:
    finished = bound(tmp_path)
    results = finished.results()
    rows = [replace(row, measures={"kernel_rows": {0: 0.25, 2: 0.5}}) for row in results.table]
    measured = replace(results, table=tuple(rows))
    snapshot = take_snapshot(finished.plan, measured, finished.store)
    file = tmp_path / "measured.json"
    file.write_text(json_lines(snapshot.document(measured, [])))
    assert read_snapshot([file]).results().table == measured.table


def test_files_of_other_stages_are_refused_by_what_differs(tmp_path: Path) -> None:
    first = saved(bound(tmp_path / "a", "seed=[0]"))
    for word, message in (
        ("finetune.budget.epochs=7", "scratch on digits: finetune.budget.epochs is 2 in "),
        (f"{LR}=[1e-3]", f"axes.{LR} is "),
    ):
        other = saved(bound(tmp_path / word, "seed=[1]", word))
        with pytest.raises(BadInput, match=f"--from: {re.escape(message)}.*join files of one study"):
            read_snapshot([first, other])
    second = saved(bound(tmp_path / "b", "seed=[1]"))

    def other_data(document: dict[str, Any]) -> None:
        document["settings"][0]["data"] = "0123456789abcdef"

    with pytest.raises(BadInput, match=r"scratch on digits: finetune.data is — in .* and 0123456789abcdef in "):
        read_snapshot([first, edited(second, other_data)])
    with pytest.raises(BadInput, match=r"task digits: sizes.train is 1,?097 in .* and 40 in "):
        read_snapshot([first, edited(second, lambda d: next(iter(d["facts"].values()))["sizes"].update(train=40))])


def test_a_seed_with_unequal_scores_in_two_files_is_refused_by_name(tmp_path: Path) -> None:
    file = saved(bound(tmp_path))

    def other_score(document: dict[str, Any]) -> None:
        run = next(run for run in document["runs"] if run["arm"] == "scratch" and run["seed"] == 1)
        document["stages"][run["stages"]["finetune"]]["scores"]["best"]["test"]["accuracy"] = 0.9

    other = edited(file, other_score)
    with pytest.raises(BadInput) as caught:
        read_snapshot([file, other])
    text = str(caught.value)
    assert text.startswith("--from: seed 1 of scratch on digits, stage finetune (")
    assert f"best.test.accuracy is 0.4 in {file} and 0.9 in {other}; a seed counts once" in text


def test_files_that_are_not_whole_results_are_refused_with_a_way_out(tmp_path: Path) -> None:
    file = saved(bound(tmp_path))
    (tmp_path / "text.json").write_text("{")
    (tmp_path / "old.json").write_text('{"study": "a", "rows": []}')
    broken: list[tuple[Callable[[dict[str, Any]], object], str]] = [
        (lambda d: d.update(format=2), "its format is 2"),
        (
            lambda d: d["definition"]["requires"].update(mine="0123"),
            r"the plugin mine \(digest 0123\) is needed and not",
        ),
        (lambda d: d["settings"].clear(), r"stages\.\w+\.settings: 0 is more than 'settings' has"),
        (
            lambda d: [stage["records"].pop("step") for stage in d["stages"].values() if stage.get("records")],
            r"stages\.\w+\.records: no 'step', or columns of unequal length",
        ),
        (
            lambda d: next(iter(d["facts"].values())).update({"aske3": 1}),
            r"facts\.\w+: 'aske3' is no fact of a task; write the file again",
        ),
        (lambda d: d.pop("stages"), r"of results of format 1 \(it holds the table without the stages\)"),
        (lambda d: d["settings"][0]["spec"]["optim"].update(rate=1), "no 'rate'"),
        (lambda d: [stage.pop("scores", None) for stage in d["stages"].values()], "no run of 'tried' is finished"),
    ]
    for name, message in (
        ("none.json", "cannot be read: No such file"),
        ("text.json", "is not JSON"),
        ("old.json", r"is not a whole file of results of format 1 \(its format is None\).*--json FILE"),
    ):
        with pytest.raises(BadInput, match=f"--from: .*{name}.*{message}"):
            read_snapshot([tmp_path / name])
    for change, message in broken:
        with pytest.raises(BadInput, match=message):
            read_snapshot([edited(file, change)])


def test_gains_of_several_studies_are_pooled_by_batch_and_steps_per_epoch_and_count_once(tmp_path: Path) -> None:
    first, again = bound(tmp_path), bound(tmp_path / "again")
    first_file, copy = saved(first, "first"), saved(again, "again")
    # Stages of the same identity are the same runs, whichever study prints them.
    print_pooled([str(first_file), str(copy)], tmp_path / "pooled.md", tmp_path / "pooled.json")
    text = (tmp_path / "pooled.md").read_text()
    (line,) = re.findall(POOLED, text, re.MULTILINE)
    per_epoch = round(420 / 60)
    assert line == f"{per_epoch} | 420 | 1 | 1 of 1 | +0.210 | +0.210 | +0.210 | 1 | 1"
    assert f"headstart report --from {first_file} {copy} --pool" in text
    (gain,) = json.loads((tmp_path / "pooled.json").read_text())["comparisons"]
    assert (gain["study"], gain["arm"], gain["n"], gain["batch"]) == ("tried", "self_pretrained", 3, 32)
    assert gain["gain"] == pytest.approx(0.21)


def test_pooled_gains_have_a_line_for_each_number_of_steps_and_one_for_all_of_a_batch_size() -> None:
    gap = paired_difference({0: 0.5, 1: 0.51, 2: 0.5}, {0: 0.4, 1: 0.4, 2: 0.4})
    assert gap is not None
    lower = replace(gap, mean=-0.02, low=-0.05, high=0.01)

    def gain(number: int, batch: int, per_epoch: int, difference: Difference) -> Gain:
        pairs = frozenset((f"p{number}{seed}", f"s{number}{seed}") for seed in range(difference.n))
        return Gain("s", "a", "c", "digits", "accuracy", batch, per_epoch, 60 * per_epoch, difference, pairs)

    every = [
        gain(0, 32, 7, replace(lower, n=2)),  # two of the seeds of the next
        gain(0, 32, 7, gap),
        gain(1, 32, 34, gap),
        gain(2, 8, 137, gap),
        gain(3, 8, 137, lower),
    ]
    rows = pooled(every).rows
    assert [row[2:7] for row in rows] == [
        ("8", "137", "8,220", "2", "1 of 2"),
        ("32", "7", "420", "1", "1 of 1"),
        ("32", "34", "2,040", "1", "1 of 1"),
        ("32", "all", "420 to 2,040", "2", "2 of 2"),
    ]
    assert rows[0][7:10] == ("+0.042", "\N{MINUS SIGN}0.020", "+0.103")
    assert [row[10:] for row in rows] == [("1", "1"), ("1", "1"), ("1", "1"), ("2", "2")]
    assert not pooled([]).rows


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ({}, 1),
        ({"finetune": {"parent": "pretrain", "start": ["take(query_key)"]}}, 0),
        ({"finetune": {"parent": "pretrain", "start": ["take(all-head-query_key)"]}}, 0),
        ({"finetune": {"parent": "pretrain", "start": ["take(all-head)"], "optim": {"batch_size": 8}}}, 0),
        ({"pretrain": {"objective": {"kind": "classify"}}, **{}}, 0),
    ],
)
def test_a_gain_is_of_a_whole_self_pretrained_model_in_equal_batches(
    change: dict[str, Any], count: int, tmp_path: Path
) -> None:
    arm = {"finetune": {"parent": "pretrain", "start": ["take(all-head)"]}, **change}
    finished = bound(tmp_path, arms={"scratch": {}, "self_pretrained": arm})
    assert len(list(gains(finished.plan, finished.results()))) == count


def test_files_without_a_gain_are_refused_when_pooled(tmp_path: Path) -> None:
    finished = bound(tmp_path, arms={"scratch": {}, "again": {"finetune": {"optim": {"warmup_steps": 2}}}})
    with pytest.raises(BadInput, match=r"--pool: no study holds a self-pretrained arm .*; name files of studies"):
        print_pooled([str(saved(finished))], None, None)
    with pytest.raises(BadInput, match="--pool: it pools files of results; name them with --from FILE"):
        report(["digits"], [], FolderOptions(), StudyOptions(), Outputs(pool=True), False)
    with pytest.raises(BadInput, match=r"--pool: it goes with --json FILE and --out NAME\.md alone"):
        report([], ["a.json"], FolderOptions(), StudyOptions(), Outputs(pool=True, pivot=True), False)


@pytest.mark.parametrize("name", ["..", "../../outside", "/outside", "a/b", "", "x" * 200, "a\x1b[2J"])
def test_a_file_whose_study_has_the_name_of_another_place_is_refused_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    file = edited(saved(bound(tmp_path, keep=2)), lambda d: d["definition"].update(name=name))
    folder = tmp_path / "deep" / "work"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BadInput, match=r"edited-results\.json: definition\.name: "):
        report_files([str(file)])
    assert sorted(tmp_path.rglob("*")) == before


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to all values of a document, of lists and of tables of many alike the first two."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in [*value][: 2 if path and path[-1] in ("stages", "facts") else None]:
            yield from _leaves(value[key], (*path, key))
    elif isinstance(value, list):
        for number in range(min(len(value), 1)):
            yield from _leaves(value[number], (*path, number))


def _set(document: dict[str, Any], path: tuple[Any, ...], value: Any) -> None:
    table: Any = document
    for key in path[:-1]:
        table = table[key]
    table[path[-1]] = value


WRONG = (None, "x", -1, 10**400, 1e308, float("nan"), [], {}, True, [["x"]], "\x1b[2J\u202e", "\ud800")


def test_no_value_of_another_type_ends_in_anything_but_a_report_or_a_refusal_that_names_file_and_key(
    tmp_path: Path,
) -> None:
    file = saved(bound(tmp_path, keep=3))
    document = json.loads(file.read_text())
    paths = [path for path in _leaves(document) if path[0] not in ("rows", "claims", "caveats")]
    refused = 0
    for number, path in enumerate(paths):
        changed = json.loads(file.read_text())
        _set(changed, path, WRONG[number % len(WRONG)])
        copy = tmp_path / "changed.json"
        copy.write_text(json.dumps(changed))
        with suppress(BadInput):
            page(read_snapshot([copy]))
            continue
        with pytest.raises(BadInput, match=r"--from: (.*changed\.json|no run of)"):
            read_snapshot([copy])
        refused += 1
    assert refused > len(paths) / 2


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("scores.best.val.accuracy", "0.5", "'0.5' should be a number"),
        ("scores.best.test.accuracy", 1e308, r"1e\+308 should be a number of at most 1e\+150"),
        ("budget.tokens", True, "True should be a number"),
        ("records.step", ["x"], "'x' should be a whole number of 0 or more"),
        ("monitor.greater", "yes", "'yes' should be true or false"),
        ("machine", 99, "99 is more than 'machines' has"),
    ],
)
def test_a_value_of_another_type_is_named_with_its_key(tmp_path: Path, key: str, value: Any, message: str) -> None:
    def change(document: dict[str, Any]) -> None:
        stage = next(stage for stage in document["stages"].values() if "scores" in stage)
        _set(stage, tuple(key.split(".")), value)

    with pytest.raises(BadInput, match=rf"edited-results\.json: stages\.\w+\.{re.escape(key)}(\[0\])?: {message}"):
        read_snapshot([edited(saved(bound(tmp_path, keep=2)), change)])


def test_brackets_without_end_are_refused_in_words(tmp_path: Path) -> None:
    for depth in (200, 100_000):
        (tmp_path / "deep.json").write_text('{"format": 1, "stages": ' + "[" * depth + "]" * depth + "}")
        with pytest.raises(BadInput, match="its brackets are nested more than 100 deep"):
            read_snapshot([tmp_path / "deep.json"])


def test_what_is_no_file_of_a_usual_size_is_refused_before_it_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(2**40)
    for name, message in (
        ("pipe.json", "is no plain file"),
        ("large.json", "has 1,099,511,627,776 bytes, more than 268,435,456"),
        ("/dev/zero", "is no plain file"),
    ):
        with pytest.raises(BadInput, match=f"--from: .*{message}; name a file that --json wrote"):
            read_snapshot([tmp_path / name])


def _of_runs(key: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda document: [run.update({key: value}) for run in document["runs"]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_of_runs("arm", "another"), r"that of 'another' has 'another', which is not in definition\.arms"),
        (_of_runs("column", "another"), r"has 'another', which is not in definition\.columns"),
        (lambda d: d["runs"].extend(d["baselines"]), r"which is not in definition\.arms"),
        (
            lambda d: [run.update(stages={f"x{k}": v for k, v in run["stages"].items()}) for run in d["runs"]],
            r"which is not in definition\.stages",
        ),
        (lambda d: d["runs"].append(d["runs"][0]), r"seed 0 of 'scratch' on 'digits' stands there twice"),
        (
            lambda d: [facts["chance"].update(accuracy=-1e150) for facts in d["facts"].values()],
            r"chance\.accuracy: -1e\+150 should be a number from 0 to 1",
        ),
        (
            lambda d: [stage.update(started="2026-11-28T10:18:44+00:44+00:00") for stage in d["stages"].values()],
            r"started: '2026-11-28T10:18:44\+00:44\+00:00' should be a time as 2026-11-28T10:18:44\+00:00",
        ),
    ],
)
def test_runs_that_do_not_fit_the_study_of_their_file_are_refused(
    change: Callable[[dict[str, Any]], object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=rf"edited-results\.json: .*{message}"):
        read_snapshot([edited(saved(bound(tmp_path, keep=4)), change)])


def test_scores_of_the_largest_size_are_told_apart(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        for number, run in enumerate(document["runs"]):
            scores = document["stages"][[*run["stages"].values()][-1]].get("scores", {})
            for at in scores.values():
                at["test"]["accuracy"] = 1e150 * (-1) ** number

    assert "e+150" in page(read_snapshot([edited(saved(bound(tmp_path)), change)]))


def test_runs_without_a_rate_that_others_of_their_arm_have_are_outside_its_window(tmp_path: Path) -> None:
    file = saved(bound(tmp_path, report={"choose": [LR]}))
    rates = sorted({run["settings"][LR] for run in json.loads(file.read_text())["runs"]})

    def change(document: dict[str, Any]) -> None:
        for run in document["runs"]:
            if run["settings"][LR] == rates[0]:
                del run["settings"][LR]

    rows = read_snapshot([edited(file, change)]).results().table
    assert all(window.low > rates[0] for row in rows for window in row.windows.values())
    assert any({} in [point.settings for point in row.points] for row in rows)


def test_a_run_that_ends_in_a_stage_without_a_task_is_refused(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["settings"].append({"spec": {"checkpoint": {"source": "a", "content": "0" * 64}}, "data": None})
        last = [*document["runs"][0]["stages"].values()][-1]
        document["stages"][last]["settings"] = len(document["settings"]) - 1

    with pytest.raises(BadInput, match="ends in 'finetune', a stage without a task; write the file again"):
        read_snapshot([edited(saved(bound(tmp_path, keep=4)), change)])


@pytest.mark.parametrize("hidden", [10**13, 10**30])
def test_a_mixer_of_a_size_that_no_tensor_has_ends_no_page(hidden: int, tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        models = [settings["spec"]["model"] for settings in document["settings"]]
        for model in (model for model in models if "mixer" in model):
            model |= {"mixer": {"kind": "hyena", "hidden": hidden}, "position": {"kind": "none"}}

    assert "hyena" in page(read_snapshot([edited(saved(bound(tmp_path)), change)]))


@pytest.mark.slow
def test_a_megabyte_of_ten_thousand_arms_is_a_page_in_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(bound(tmp_path, axes={LR: [1e-3], "seed": [0]}, arms={"scratch": {}}))

    def multiplied(document: dict[str, Any]) -> None:
        (run,) = document["runs"]
        document["runs"] = [{**run, "arm": f"a{i}"} for i in range(10_000)]
        document["definition"]["arms"] = {f"a{i}": {} for i in range(10_000)}
        document["definition"]["report"]["against"], document["rows"] = "a0", []

    many, began = edited(path, multiplied), time.process_time()
    report_files([str(many)], Outputs(out=str(tmp_path / "out")))
    assert time.process_time() - began < 30, "8 s on a quiet core, 87 s before its tables were cut"
    assert "of 10,000 lines, the best among them" in capsys.readouterr().out
    assert (tmp_path / "out" / "page.html").stat().st_size < 10**7
