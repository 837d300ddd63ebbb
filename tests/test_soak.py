"""Each fault once, at an instant that a seed chooses; `make soak MINUTES=30` goes on with other seeds."""

import importlib.util
import json
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.fuzz import __main__ as fuzzing
from support.points.trials import DAILY, VERBS
from support.soak import __main__ as soaking
from support.soak.__main__ import soak
from support.soak.trials import COUNTED, NEED_A_DISK, TRIALS, make_reference, may_mount


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return make_reference(tmp_path_factory.mktemp("reference"))


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIALS)
def test_a_disturbed_run_ends_with_the_bits_of_an_undisturbed_one(name, reference, tmp_path):
    if name in NEED_A_DISK and not may_mount():
        pytest.skip("no right to mount a small disk here")
    TRIALS[name][0](random.Random(f"{name}/test"), reference, tmp_path, Counter())


def test_the_page_of_reliability_says_what_was_counted(monkeypatch):
    folder = Path(__file__).parents[1] / "docs" / "benchmarks"
    monkeypatch.syspath_prepend(folder.parents[1] / "benchmarks")
    document = json.loads((folder / "reliability.json").read_text("utf-8"))
    specification = importlib.util.spec_from_file_location(
        "reliability", folder.parents[1] / "benchmarks/reliability.py"
    )
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    assert (folder / "reliability.md").read_text("utf-8") == module.page(document)
    assert not document["findings"]


def test_the_counts_of_reliability_fit_the_trials_and_seeds_that_they_are_of():
    """No seed counts twice, and no trial counts more than it can do."""
    file = Path(__file__).parents[1] / "docs" / "benchmarks" / "reliability.json"
    document = json.loads(file.read_text("utf-8"))
    assert set(COUNTED) == set(TRIALS)
    patterns = {name: re.compile(pattern) for name, (pattern, _, _) in COUNTED.items()}
    for key in document["counts"]:
        assert sum(bool(pattern.fullmatch(key)) for pattern in patterns.values()) == 1, key
    for name, (_, least, most) in COUNTED.items():
        trials = document["trials"].get(name, 0)
        assert trials <= document["seeds"][name] - document["first"].get(name, document["seeds"][name]), name
        number = sum(n for key, n in document["counts"].items() if patterns[name].fullmatch(key))
        assert least * trials <= number <= most * trials, name
    for name, row in document["fuzz"].items():
        assert row["trials"] <= row["seed"] - row["first"], name
        assert row["read"] + row["refused"] <= row["trials"], name
        assert bool(row["findings"]) == (row["read"] + row["refused"] < row["trials"]), name
    for name, row in document["points"].items():
        assert row["tried"] <= row["trials"] <= row["points"], name
        assert row["operations"] < row["points"], name
        assert row["daily"] <= row["tried"], name
    assert {*document["points"]} == {*VERBS}
    daily, whole = (sum(row[key] for row in document["points"].values()) for key in ("daily", "trials"))
    assert daily * DAILY >= whole
    for name, row in document["power"].items():
        assert row["tried"] <= row["states"], name
        assert (row["tried"] == row["states"]) == (row["stride"] == 1), name


def test_counts_of_damaged_files_add_up_and_go_on_with_other_seeds(tmp_path):
    file = tmp_path / "counts.json"
    words = ["toml", "--minutes", "0.002", "--seed", "5", "--json", str(file), "--folder", str(tmp_path)]
    rows = []
    for _ in range(2):
        with pytest.raises(SystemExit) as end:
            fuzzing.main(words)
        assert not end.value.code
        rows.append(json.loads(file.read_text())["fuzz"]["toml"])
    assert rows[0]["first"] == rows[1]["first"] == 5
    assert rows[1]["seed"] > rows[0]["seed"] > 5
    assert rows[1]["trials"] == rows[1]["read"] + rows[1]["refused"] > rows[0]["read"] + rows[0]["refused"] > 0


@pytest.mark.slow
def test_counts_of_runs_at_once_add_up_and_no_two_of_them_have_one_seed(tmp_path):
    """A run that read the file before another has written it would write over its counts, and take its seeds again."""
    file, script = (
        tmp_path / "counts.json",
        (
            "import sys; from pathlib import Path; from support.counts import changed, seeds\n"
            "for _ in range(50):\n"
            "    with changed(Path(sys.argv[1])) as document:\n"
            "        print(seeds(document.setdefault('seeds', {}), 'race'))\n"
            "        document['number'] = document.get('number', 0) + 1\n"
        ),
    )
    command = [sys.executable, "-c", script, str(file)]
    runs = [subprocess.Popen(command, cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    taken = [line for run in runs for line in run.communicate()[0].split()]
    assert json.loads(file.read_text())["number"] == 100
    assert sorted(map(int, taken)) == list(range(100))


def test_a_trial_of_a_soak_adds_its_counts_to_those_that_another_run_has_written_since(tmp_path, monkeypatch):
    file = tmp_path / "counts.json"
    file.write_text(json.dumps({"counts": {"races": 3}, "seeds": {"race": 5}}))
    numbers = []

    def trial(random, reference, folder, counts):  # another run writes meanwhile
        numbers.append(random.random())
        document = json.loads(file.read_text())
        assert document["seeds"]["race"] == 6
        file.write_text(json.dumps({**document, "counts": {"races": 10}}))
        counts["races"] += 1

    monkeypatch.setattr(soaking, "TRIALS", {"race": (trial, 1)})
    monkeypatch.setattr(soaking, "make_reference", lambda _: SimpleNamespace(seconds=0.0))
    monkeypatch.setattr(soaking, "time", SimpleNamespace(monotonic=iter([0.0, 0.0, 99.0]).__next__))
    assert soak(1, {}, ["race"], file) == 0
    document = json.loads(file.read_text())
    assert (document["counts"], document["seeds"]) == ({"races": 11}, {"race": 6})
    assert numbers == [random.Random("race/5").random()]
