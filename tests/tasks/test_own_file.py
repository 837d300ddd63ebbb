"""A person's own file as a task: what it holds, how it is split, what its identity is, and what is told of it."""

import os
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from support.command import command
from support.trivial import trivial_scores

import headstart
from headstart.data import LayoutSpec, read_sequences
from headstart.data.splits import dealt, joined, overlaps
from headstart.errors import BadInput
from headstart.seeds import normal
from headstart.sequence import IGNORE
from headstart.spec import read
from headstart.stage import identity, read_stage
from headstart.study.language.plan import make_plan
from headstart.study.language.spec import read_study
from headstart.tasks import open_task
from headstart.tasks.own import OwnSpec
from headstart.tasks.task import SPLITS, content


def table(count=60, length=6, *, label=lambda i: "ab"[i % 2], gap=lambda *_: False, more=lambda *_: ""):
    """Lines of a wide table: id, label, group, t0, t1, ...; a sequence's own waves, no two alike."""
    lines = [",".join(["id", "label", "patient", *(f"t{j}" for j in range(length))])]
    for i in range(count):
        noise = normal(1, "row", i, np.arange(length))
        cells = ["" if gap(i, j) else f"{np.sin(j * (1 + i % 2)) + 0.3 * noise[j]:.4f}" for j in range(length)]
        lines.append(",".join([f"s{i}", label(i), more(i), *cells]))
    return lines


def write(folder, lines, name="train.csv"):
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder


def of(folder, name="train.csv", **settings):
    return read(OwnSpec, {"kind": "own", "file": name, **settings}, "task")


def task(folder, name="train.csv", **settings):
    return of(folder, name, **settings).load(folder)


def why(folder, name="train.csv", **settings):
    with pytest.raises(BadInput) as caught:
        of(folder, name, **settings).load(folder)
    return str(caught.value).replace(f"{folder}/", "")


def held(task, name):
    """Row numbers of a split."""
    return set(task.split(name).index.tolist())


def notes(task):
    return "\n".join(task.notes)


def test_a_table_becomes_a_task_with_names_gaps_and_the_layout_that_was_guessed(tmp_path):
    write(tmp_path, table(label=lambda i: ["sick", "well", ""][i % 3], gap=lambda i, j: j == 2 and i % 5 == 0))
    result = task(tmp_path, target="label")
    assert result.labels == ("sick", "well")
    assert (result.signature.input, result.signature.width, result.signature.length) == ("floats", 1, 6)
    assert result.signature.missing
    assert "read as comma-separated with a header; a row per sequence, in the 6 columns 't0' to 't5'" in notes(result)
    assert "guessed: shape, id" in notes(result)
    assert "train.csv" not in notes(result)
    gaps = sum(int((~result.split(name).observed).sum()) for name in SPLITS)
    assert gaps == 12
    assert all((result.split(name).values[~result.split(name).observed] == 0).all() for name in SPLITS)


def test_every_row_is_on_one_side_and_classes_are_in_proportion(tmp_path):
    write(tmp_path, table(100, label=lambda i: "a" if i % 4 else "b"))
    result = task(tmp_path, target="label")
    assert [len(result.split(name)) for name in SPLITS] == [60, 20, 20]
    assert held(result, "train") | held(result, "val") | held(result, "test") == set(range(100))
    for name, rare in zip(SPLITS, (15, 5, 5), strict=True):
        assert int((result.split(name).target == 1).sum()) == rare
    other = task(tmp_path, target="label", split_seed=1)
    assert held(other, "test") != held(result, "test")
    assert [len(task(tmp_path, target="label", test_share=0.5).split(name)) for name in SPLITS] == [30, 20, 50]


def test_rows_without_a_label_are_in_train_alone(tmp_path):
    write(tmp_path, table(60, label=lambda i: "ab"[i % 2] if i < 40 else ""))
    result = task(tmp_path, target="label")
    assert set(range(40, 60)) <= held(result, "train")
    assert (result.val.target != IGNORE).all()
    assert (result.test.target != IGNORE).all()
    assert len(result.train.labelled_units()) == 24
    assert "20 of 44 train sequences have no label and serve pretraining alone" in notes(result)


def test_labels_are_kept_among_those_that_there_are(tmp_path):
    write(tmp_path, table(60, label=lambda i: "ab"[i % 2] if i < 40 else ""))
    for fraction in (1.0, 0.5):
        some = open_task(of(tmp_path, target="label", labelled=8, fraction=fraction), tmp_path)
        assert len(some.train.labelled_units()) == 8
    with pytest.raises(BadInput, match="25 is more than the 24 labelled train examples; give at most 24"):
        open_task(of(tmp_path, target="label", labelled=25), tmp_path)


def test_exact_copies_stay_on_one_side_and_bare_copies_of_test_rows_are_left_out(tmp_path):
    lines = table(40)
    again = [line.replace("s", "again", 1) for line in lines[1:31]]
    bare = [line.replace(",a,", ",,", 1).replace(",b,", ",,", 1) for line in lines[1:]]
    write(tmp_path, [*lines, *again])
    result = task(tmp_path, target="label")
    assert set(overlaps(result).values()) == {0}
    assert sum(len(result.split(name)) for name in SPLITS) == 70
    assert "30 sequences are exact copies of others; copies are kept in one split" in notes(result)
    write(tmp_path, [*lines, *bare], "bare.csv")
    result = task(tmp_path, "bare.csv", target="label")
    assert set(overlaps(result).values()) == {0}
    assert (len(result.train), len(result.val), len(result.test)) == (48, 8, 8)
    assert "16 sequences without a label are left out: each is a copy of one of val or test" in notes(result)
    write(tmp_path, [*lines, lines[1].replace(",a,", ",b,")], "odd.csv")
    assert "1 sequence has copies with another label" in notes(task(tmp_path, "odd.csv", target="label"))


def test_a_group_is_on_one_side_unless_that_is_not_wanted(tmp_path):
    write(tmp_path, table(96, more=lambda i: f"p{i // 2 % 12}", label=lambda i: "ab"[i % 2] if i % 8 else ""))
    result = task(tmp_path, target="label", group="patient")
    sides = {name: {row // 2 % 12 for row in held(result, name)} for name in SPLITS}
    assert not sides["train"] & sides["test"]
    assert not sides["train"] & sides["val"]
    assert not sides["val"] & sides["test"]
    assert all(sides.values())
    assert "12 groups, each in one split" in notes(result)
    assert "without a label are left out" in notes(result)
    mixed = task(tmp_path, target="label", group="patient", by_group=False)
    assert "groups of test also stand in train or val (by_group is false)" in notes(mixed)
    assert sum(len(mixed.split(name)) for name in SPLITS) == 96


def test_groups_too_few_to_be_split_are_refused_with_the_way_out(tmp_path):
    write(tmp_path, table(40, more=lambda i: "pq"[i % 2]))
    text = why(tmp_path, target="label", group="patient", split_seed=0)
    assert "task.val_share: 0.2 and task.test_share: 0.2 of 40 labelled sequences, 2 of them apart" in text
    assert "by_group=false" in text
    write(tmp_path, table(3), "few.csv")
    assert "leave none for" in why(tmp_path, "few.csv", target="label")
    write(tmp_path, table(30, label=lambda i: f"name {i}"), "single.csv")
    assert "each of 30 classes has one labelled sequence" in why(tmp_path, "single.csv", target="label")
    write(tmp_path, table(30, more=lambda _: "p"), "alone.csv")
    text = why(tmp_path, "alone.csv", target="label", group="patient")
    assert "all 30 labelled sequences are of one group, which leaves none for val; give different groups, or by" in text
    write(tmp_path, ["id,label,t0,t1,t2", *(f"s{i},{'ab'[i % 2]},1,2,4" for i in range(30))], "equal.csv")
    text = why(tmp_path, "equal.csv", target="label")
    assert text.endswith("all 30 labelled sequences are equal, which leaves none for val; give different sequences")


def test_the_column_of_a_file_without_a_header_may_be_a_number(tmp_path):
    write(tmp_path, [f"{'ab'[i % 2]},{i},{i * i % 7},{i % 3}" for i in range(60)])
    layouts = [LayoutSpec(target=target, header=False) for target in (1, "1")]
    assert layouts[0] == layouts[1]
    assert read_sequences(tmp_path / "train.csv", layouts[0]).classes == ("a", "b")
    with pytest.raises(ValidationError):
        LayoutSpec(target=True)


def test_numbers_are_scaled_by_train_alone_and_channels_standardised_by_what_train_shows(tmp_path):
    write(tmp_path, table(60, label=lambda i: f"{50 + i * 1.5}", gap=lambda i, j: j == 1 and i % 3 == 0))
    result = task(tmp_path, target="label")
    assert result.signature.target == "number"
    assert result.labels == ()
    assert result.train.target.min() == -1
    assert result.train.target.max() == 1
    assert "the range of train, stand as -1 to 1" in notes(result)
    seen = result.train.values[result.train.observed]
    assert abs(seen.mean()) < 1e-4
    assert abs(seen.std() - 1) < 1e-4
    plain = task(tmp_path, target="label", standardise=False, scale_target=False)
    assert plain.train.target.min() >= 50
    assert sorted(held(plain, "test")) == sorted(held(result, "test"))
    flat = write(tmp_path, table(60, label=lambda *_: "2.5"), "flat.csv")
    text = why(flat, "flat.csv", target="label", layout={"target_kind": "number"})
    assert "every train sequence has the target 2.5" in text


def test_numbers_that_standardising_takes_for_0_are_refused(tmp_path):
    """Spectral densities of strain, about 1e-46: read, they would be zeros, and a score a guess."""
    lines = table()
    tiny = write(tmp_path, [lines[0], *(re.sub(r"(\.\d{4})", r"\1e-46", line) for line in lines[1:])], "tiny.csv")
    assert "a fit takes all for 0; multiply them" in why(tiny, "tiny.csv", target="label")


def test_texts_dna_and_tokens_are_ids_that_can_be_read_again(tmp_path):
    words = {"text": "grün über {}", "dna": "ACGTTGCA{}", "tokens": "up down up {}"}
    ends = {"text": str, "dna": lambda i: "ACGT"[i % 4] * (1 + i), "tokens": lambda i: "up " * i + "down"}
    for kind, form in words.items():
        lines = ["label,sequence", *(f"{'xy'[i % 2]},{form.format(ends[kind](i))}" for i in range(20))]
        if kind == "tokens":
            lines = ["id,time,label,word"] + [
                f"s{i},{t},{'xy'[i % 2]},{word}"
                for i in range(20)
                for t, word in enumerate(form.format(ends[kind](i)).split())
            ]
        write(tmp_path, lines, f"{kind}.csv")
        result = task(tmp_path, f"{kind}.csv", target="label")
        assert result.signature.input == "tokens"
        assert result.text is not None
        text = result.text(result.val.inputs(0))
        assert text == form.format(ends[kind](int(result.val.index[0])))
    assert result.signature.width == 2


def test_without_a_target_every_row_can_be_pretrained_on_and_is_split(tmp_path):
    write(tmp_path, table(50))
    result = task(tmp_path, target="")
    assert result.signature.target == "none"
    assert [result.split(name).target for name in SPLITS] == [None] * 3
    assert [len(result.split(name)) for name in SPLITS] == [30, 10, 10]
    assert of(tmp_path, target="").defaults(result.signature)["objective"] == "masked"


def test_a_second_file_is_the_test_split_and_what_it_shares_is_said(tmp_path):
    lines = table(50, more=lambda i: f"p{i % 10}")
    write(tmp_path, [*lines[:41], lines[1].replace("s0", "s90")])
    write(tmp_path, [lines[0], *lines[31:51], lines[5].replace(",a,", ",,")], "test.csv")
    result = task(tmp_path, target="label", group="patient", test="test.csv")
    assert len(result.test) == 20
    assert held(result, "test") == set(range(41, 61))
    assert "of the 20 test sequences, " in notes(result)
    assert sum(overlaps(result)[name, "test"] for name in ("train", "val")) == 10
    assert "10 of the 10 groups of test also stand in train or val" in notes(result)
    assert "1 sequence is an exact copy of another; copies are kept in one split, the test file's apart" in notes(
        result
    )
    assert "1 sequence of the test file has no label and is left out" in notes(result)


def test_a_test_file_that_does_not_fit_is_refused(tmp_path):
    lines = table(40)
    write(tmp_path, lines)
    write(tmp_path, [lines[0], lines[1].replace(",a,", ",c,")], "labels.csv")
    text = why(tmp_path, target="label", test="labels.csv")
    assert "labels.csv:2: label 'c' is none of 'a', 'b'" in text
    write(tmp_path, [lines[0], lines[1].replace(",a,", ",,")], "none.csv")
    assert "task.test: none.csv has no label in 'label'" in why(tmp_path, target="label", test="none.csv")
    write(tmp_path, [line.replace("t", "u") for line in lines], "names.csv")
    assert "no column" in why(tmp_path, target="label", test="names.csv")
    np.savez(tmp_path / "a.npz", x=np.ones((4, 9, 2)) * 0.5, y=np.arange(4) % 2)
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "b.npz", x=rng.normal(size=(20, 9, 3)), y=np.arange(20) % 2)
    text = why(tmp_path, "b.npz", test="a.npz")
    assert "a.npz holds numbers in 2 channels, task.file numbers in 3" in text


def stage(folder, name="train.csv", **settings):
    task = of(folder, name, target="label", **settings)
    return read_stage(
        {"task": task, "objective": {"kind": "classify"}, "budget": {"epochs": 1}, "model": {"width": 8, "blocks": 1}},
    )


def test_an_identity_is_that_of_the_content_wherever_it_is(tmp_path):
    lines = table()
    places = [tmp_path / "one", tmp_path / "two"]
    for folder, name in zip(places, ("train.csv", "moved.csv"), strict=True):
        folder.mkdir()
        write(folder, lines, name)
    first = identity(stage(places[0]), places[0])
    assert identity(stage(places[1], "moved.csv"), places[1]) == first
    assert identity(stage(places[0], str(places[1] / "moved.csv")), places[0]) == first
    unused = [line if i != 7 else line.replace("s6", "other") for i, line in enumerate(lines)]
    assert identity(stage(write(tmp_path, unused)), tmp_path) == first, "an id decides nothing"
    others = {
        "cell": [line if i != 7 else line[:-1] + str((int(line[-1]) + 1) % 10) for i, line in enumerate(lines)],
        "label": [line if i != 7 else line.replace(",a,", ",b,") for i, line in enumerate(lines)],
        "name": [line.replace(",a,", ",c,") for line in lines],
        "gap": [
            line if i != 7 else ",".join([*line.split(",")[:4], "", *line.split(",")[5:]])
            for i, line in enumerate(lines)
        ],
        "row": lines[:-1],
    }
    ids = {
        what: identity(stage(write(tmp_path, other, f"{what}.csv"), f"{what}.csv"), tmp_path)
        for what, other in others.items()
    }
    assert len({first, *ids.values()}) == 6
    settings = [{"split_seed": 1}, {"val_share": 0.3}, {"by_group": False}, {"standardise": False}]
    assert len({first, *(identity(stage(places[0], **fields), places[0]) for fields in settings)}) == 5


def test_a_file_that_changes_in_place_is_read_again(tmp_path):
    lines = table()
    write(tmp_path, lines)
    before, first = content(of(tmp_path, target="label"), tmp_path), task(tmp_path, target="label")
    write(tmp_path, [*lines, lines[1].replace("s0", "s90").replace(",0.", ",7.")])
    assert content(of(tmp_path, target="label"), tmp_path) != before
    assert sum(len(task(tmp_path, target="label").split(n)) for n in SPLITS) == 1 + sum(
        len(first.split(n)) for n in SPLITS
    )


def test_a_folder_of_texts_is_a_file_too_and_each_of_its_files_counts(tmp_path):
    for i in range(20):
        folder = tmp_path / "mails" / "ab"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i}.txt").write_text(f"text number {i}")
    spec = of(tmp_path, "mails")
    assert spec.load(tmp_path).labels == ("a", "b")
    before = content(spec, tmp_path)
    (tmp_path / "mails" / "a" / "0.txt").write_text("another text")
    assert content(spec, tmp_path) != before


def test_two_files_of_the_same_settings_are_told_apart_in_one_study(tmp_path):
    write(tmp_path, table(40))
    write(tmp_path, table(60, 9, gap=lambda *at: at[1] == 4), "other.csv")
    study = read_study(
        {
            "name": "two",
            "stages": {
                "train": {
                    "objective": {"kind": "classify"},
                    "budget": {"epochs": 1},
                    "model": {"width": 8, "blocks": 1},
                    "optim": {"batch_size": 8},
                }
            },
            "columns": {
                name: {"task": {"kind": "own", "file": f"{file}.csv", "target": "label"}}
                for name, file in (("one", "train"), ("two", "other"))
            },
            "arms": {"scratch": {}},
        }
    )
    plan = make_plan(study, tmp_path)
    assert len(plan.stages) == 2
    results = headstart.run(study.model_dump(exclude_unset=True), store=tmp_path / "runs", data=tmp_path)
    sizes = [results.facts_of(column)[0].sizes["train"] for column in ("one", "two")]
    assert sizes == [24, 36]
    (stored,) = [
        e.stage["spec"]
        for e in headstart.Study(
            study.model_dump(exclude_unset=True), store=tmp_path / "runs", data=tmp_path
        ).store.listing()
        if e.stage["spec"]["task"]["file"] == "other.csv" and e.stage["name"] == "train"
    ]
    again = read_stage(stored)
    assert open_task(again.task, tmp_path).signature.length == 9
    assert identity(again, tmp_path) in plan.stages


def test_masked_pretraining_of_gaps_and_bare_rows_carries_over_to_classes(tmp_path):
    write(
        tmp_path,
        table(
            40,
            gap=lambda i, j: (j > 3 and i % 3 == 0) or (j == 1 and i % 4 == 0),
            label=lambda i: "ab"[i % 2] if i % 5 else "",
        ),
    )
    study = {
        "name": "gaps",
        "stages": {
            "pretrain": {"objective": {"kind": "masked"}, "budget": {"epochs": 1}},
            "finetune": {"objective": {"kind": "classify"}, "budget": {"epochs": 1}},
        },
        "columns": {
            "own": {
                "task": {"kind": "own", "file": "train.csv", "target": "label"},
                "model": {"width": 8, "blocks": 1},
                "optim": {"batch_size": 8},
            }
        },
        "arms": {"scratch": {}, "self": {"finetune": {"parent": "pretrain", "start": ["take(all-head)"]}}},
    }
    results = headstart.run(study, store=tmp_path / "runs", data=tmp_path)
    assert [row.n for row in results.table if row.arm in ("scratch", "self")] == [1, 1]
    facts = results.facts_of("own")[0]
    assert facts.sizes["labelled"] < facts.sizes["train"]
    assert len(results.baselines) == 3


@pytest.mark.parametrize("label", [lambda i: "ab"[i % 2] if i % 7 else "", lambda i: f"{i * 0.5}"])
def test_baselines_are_fitted_whatever_is_missing(tmp_path, label):
    write(tmp_path, table(60, label=label, gap=lambda i, j: (j == 2 and i % 2) or j > 2 + i % 4))
    spec = of(tmp_path, target="label")
    task = open_task(spec, tmp_path)
    classed = task.signature.target == "class"
    scores = trivial_scores(spec, task, "accuracy" if classed else "r2")
    assert len(scores) == 3
    (tmp_path / "runs").mkdir()
    moved = write(tmp_path / "runs", (tmp_path / "train.csv").read_text().splitlines(), "elsewhere.csv")
    again = of(moved, str(moved / "elsewhere.csv"), target="label")
    objective = {"kind": "classify" if classed else "regress"}
    names = {
        identity(read_stage({"task": each, "objective": objective, "model": {"kind": "linear"}}), tmp_path)
        for each in (spec, again)
    }
    assert len(names) == 1, "known by content"


def test_short_fields_are_those_of_the_layout():
    short = read(OwnSpec, {"file": "a.csv", "target": "y", "na": ["n/a"], "delimiter": ";"})
    assert short == read(OwnSpec, {"file": "a.csv", "layout": {"target": "y", "na": ["n/a"], "delimiter": ";"}})
    assert read(OwnSpec, short.model_dump(mode="json")) == short
    assert (short.test_share, read(OwnSpec, {"file": "a.csv", "test": "b.csv"}).test_share) == (0.2, None)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"target": "y", "layout": {"target": "z"}},
            "target: 'y' is given, and layout.target: 'z' too; keep one of them",
        ),
        (
            {"test": "b.csv", "test_share": 0.3},
            "test_share: the test split is the file task.test; leave one of them out",
        ),
        ({"val_share": 0.5, "test_share": 0.5}, "val_share: 0.5 and test_share: 0.5 leave no train; take less"),
        ({"taget": "y"}, "task.taget: no 'taget'; did you mean 'target'?"),
        ({"layout": {"shap": "wide"}}, "task.layout.shap: no 'shap'; did you mean 'shape'?"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, text):
    with pytest.raises(BadInput) as caught:
        read(OwnSpec, {"kind": "own", "file": "a.csv", **settings}, "task")
    assert text in str(caught.value)
    with pytest.raises(BadInput, match=r"task\.file: is missing"):
        read(OwnSpec, {"kind": "own"}, "task")


def test_what_is_wrong_is_told_with_its_place(tmp_path, monkeypatch):
    write(tmp_path, table(40, label=lambda *_: "a"))
    data = tmp_path / "data"
    with pytest.raises(BadInput) as caught:
        of(data, target="label").load(data)
    assert str(caught.value) == (
        f"task.file: {data / 'train.csv'} is not there; give an absolute path, or one from the data folder on, which "
        "--data or HEADSTART_DATA names"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=r"\(train\.csv is in this folder: --data \.\)"):
        of(data, target="label").load(data)
    assert "every label is 'a'" in why(tmp_path, target="label")
    assert "task.test: none.csv is not there" in why(tmp_path, target="label", test="none.csv")
    assert "target: no column 'lable'; did you mean 'label'?" in why(tmp_path, target="lable")


def test_the_command_line_shows_and_checks_it(tmp_path):
    write(tmp_path, table(40))

    def headstart_(*words):
        return command(*words, "--data", ".", cwd=tmp_path, env={**os.environ, "COLUMNS": "200"})

    output = headstart_("show", "own", "file=train.csv", "target=label")
    assert "train      24; length 6" in output.stdout, output.stderr
    assert "note: read as comma-separated" in output.stdout
    checked = headstart_("check", "own", f"file={tmp_path}/train.csv", "target=label")
    assert "own is ready: train 24, val 8, test 8" in checked.stdout, checked.stderr
    lost = headstart_("show", "own", "file=tran.csv")
    assert lost.returncode == 2
    assert "tran.csv is not there" in lost.stderr


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=40))
def test_what_belongs_together_directly_or_by_others_is_joined(pairs):
    kinds = [np.array(kind) for kind in zip(*pairs, strict=True)]
    result = joined(*kinds)
    for kind in kinds:
        assert all(len(set(result[kind == value])) == 1 for value in kind)
    slow = np.arange(len(pairs))
    for _ in pairs:
        for kind in kinds:
            slow = np.array([slow[kind == value].min() for value in kind])
    assert result.tolist() == slow.tolist()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), min_size=1, max_size=120), st.integers(0, 9))
def test_rows_of_a_block_are_never_dealt_to_two_sides(rows, seed):
    target, block = (np.array(x) for x in zip(*rows, strict=True))
    target = np.where(target == 3, IGNORE, target)
    sides = dealt(target, block, {"val": 0.2, "test": 0.2}, seed)
    blocks = [set(block[rows]) for rows in sides.values()]
    assert not blocks[0] & blocks[1]
    assert not blocks[0] & blocks[2]
    assert not blocks[1] & blocks[2]
    every = np.concatenate(list(sides.values()))
    assert len(every) == len(set(every.tolist()))
    assert set(np.flatnonzero(target != IGNORE)) <= set(every)
    assert not (target[np.concatenate([sides["val"], sides["test"]])] == IGNORE).any()


@given(st.integers(0, 99))
def test_single_rows_are_dealt_in_proportion_to_within_one_of_each_class(seed):
    target = np.array([0] * 50 + [1] * 13 + [2])
    sides = dealt(target, np.arange(64), {"val": 0.2, "test": 0.3}, seed)
    for name, share in (("train", 0.5), ("val", 0.2), ("test", 0.3)):
        counts = np.bincount(target[sides[name]], minlength=3)
        assert (np.abs(counts - share * np.array([50, 13, 1])) <= 1).all()
    assert 63 in sides["train"], "a class with one member is learned, not tested"


def test_a_way_to_change_train_sequences_that_is_gone_is_told(tmp_path):
    write(tmp_path, table())
    assert "task: augment: is gone" in why(tmp_path, augment=["jitter"])
