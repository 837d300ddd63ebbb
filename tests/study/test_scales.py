"""A study's bases, scales and stand-ins: what is laid over what, and what is refused."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headstart.api import Study
from headstart.errors import BadInput
from headstart.study.language.plan import Plan, make_plan
from headstart.study.language.scales import StandIn, stand_in_told, stand_ins_told
from headstart.study.language.spec import StudySpec, read_study
from headstart.study.paper.summary import summarise
from headstart.training.loop import BudgetSpec

STUDY = """
name = "two"
[stages.pretrain]
objective = { kind = "masked" }
budget = { epochs = 200 }
[stages.finetune]
objective = { kind = "classify" }
budget = { epochs = 100 }
[columns.image]
task = { kind = "image" }
model = { width = 64 }
finetune = { optim = { batch_size = 16 } }
[columns.listops]
task = { kind = "listops" }
[arms.scratch]
[arms.self_pretrained]
model = { blocks = 3 }
finetune = { parent = "pretrain", start = ["take(all-head)"] }
[axes]
"finetune.optim.lr" = [1e-4, 1e-3]
seed = [0, 1, 2]
[scales.tiny]
note = "little of it"
model = { width = 16, blocks = 1 }
finetune = { budget = { steps = 3 } }
[scales.tiny.columns.listops]
task = { max_length = 20, min_length = 2, train = 40, val = 20, test = 20 }
[scales.tiny.arms.self_pretrained]
pretrain = { budget = { epochs = 2 } }
[scales.tiny.axes]
seed = [0]
[scales.tiny.stand_in.image]
task = { kind = "digits" }
[scales.small]
only = { columns = ["listops"] }
"""


def study(scale: str | None = None, *words: str, data: Path | None = None) -> StudySpec:
    return read_study(tomllib.loads(STUDY), words, scale=scale, data=data)


def planned(spec: StudySpec, folder: Path) -> Plan:
    return make_plan(spec, folder, absent="open")


def refused(text: str, scale: str | None = None) -> str:
    with pytest.raises(BadInput) as caught:
        read_study(tomllib.loads(text), scale=scale)
    return str(caught.value)


def test_a_scale_lies_over_columns_and_below_arms(tmp_path: Path) -> None:
    plan = planned(study("tiny"), tmp_path)
    models = {cell.arm: cell.chain[-1].spec.model for cell in plan.cells}
    assert {model.width for model in models.values()} == {16}
    assert (models["scratch"].blocks, models["self_pretrained"].blocks) == (1, 3)


def test_a_scale_changes_budgets_arms_axes_and_single_columns(tmp_path: Path) -> None:
    plan = planned(study("tiny"), tmp_path)
    specs = [p.spec for p in plan.stages.values()]
    assert {(s.budget.steps, s.budget.epochs) for s in specs if s.objective.kind == "classify"} == {(3, None)}
    assert {s.budget.epochs for s in specs if s.objective.kind == "masked"} == {2}
    assert {cell.seed for cell in plan.cells} == {0}
    assert {s.task.train for s in specs if s.task.kind == "listops"} == {40}
    assert {
        s.optim.batch_size
        for s in specs
        if s.task.kind == "image" and s.parent is None and s.objective.kind == "classify"
    } == {16}


def test_tiny_is_the_scale_where_none_is_asked_for() -> None:
    assert study() == study("tiny")
    assert study().scale == "tiny"


def test_the_paper_scale_is_the_file_itself(tmp_path: Path) -> None:
    spec = study("paper")
    assert spec.scale == "paper"
    assert not spec.scale_note
    assert {p.spec.budget.epochs for p in planned(spec, tmp_path).stages.values()} == {100, 200}


def test_a_stand_in_takes_the_place_of_absent_data_alone(tmp_path: Path) -> None:
    spec = study("tiny", data=tmp_path)
    digits = StandIn(kind="digits", meant="image")
    assert spec.stood_in == {"image": {"pretrain": digits, "finetune": digits}}
    kinds = {cell.column: cell.chain[-1].spec.task.kind for cell in planned(spec, tmp_path).cells}
    assert kinds == {"image": "digits", "listops": "listops"}
    assert not study("tiny").stood_in
    assert not study("tiny", 'columns=["listops"]', data=tmp_path).stood_in


def test_the_first_stand_in_whose_data_are_at_hand_is_taken(tmp_path: Path) -> None:
    table: dict[str, Any] = tomllib.loads(STUDY)
    table["columns"]["image"]["task"] = {"kind": "speech"}
    digits = {"task": {"source": "digits", "length": 8000}}
    table["scales"]["tiny"]["stand_in"] = {"image": [digits, {"task": {"kind": "waves"}}]}

    def taken(*at_hand: str) -> tuple[Any, Any]:
        study = read_study(table, scale="tiny", at_hand=lambda task: task.generated or task.source in at_hand)
        return study.columns["image"]["task"], {s.kind for s in study.stood_in.get("image", {}).values()}

    assert taken("commands", "digits") == ({"kind": "speech"}, set())
    assert taken("digits") == ({"kind": "speech", "source": "digits", "length": 8000}, {"speech (digits)"})
    assert taken() == ({"kind": "waves"}, {"waves"})
    # The same by the files of a data folder.
    (tmp_path / "fsdd").mkdir()
    (tmp_path / "fsdd" / "0_jane_0.wav").write_bytes(b"")
    assert read_study(table, scale="tiny", data=tmp_path).stood_in["image"]["finetune"].kind == "speech (digits)"


def test_other_data_that_a_scale_puts_in_place_of_a_stages_own_are_stand_ins_too() -> None:
    table: dict[str, Any] = tomllib.loads(STUDY)
    table["scales"]["tiny"]["pretrain"] = {"task": {"kind": "pairs"}}
    study = read_study(table, scale="tiny")
    assert study.stood_in["listops"] == {"pretrain": StandIn(kind="pairs", meant="listops")}
    assert not read_study(table, scale="small").stood_in


def test_every_size_of_a_column_whose_data_are_absent_is_marked(tmp_path: Path) -> None:
    spec = study("tiny", "finetune.task.fraction=[0.5,1.0]", 'report={"choose"=["finetune.optim.lr"]}', data=tmp_path)
    rows = summarise(planned(spec, tmp_path), lambda _: None).table
    marks = {row.column: row.stand_in for row in rows}
    assert marks == {
        **{f"image fraction={part}": "digits for image" for part in ("0.5", "1")},
        **{f"listops fraction={part}": "" for part in ("0.5", "1")},
    }


def test_what_stands_in_is_told_with_the_stage_where_it_is_not_the_reported_one() -> None:
    stands = {
        "pretrain": StandIn(kind="digits", meant="image"),
        "finetune": StandIn(kind="digits", meant="image"),
        "elsewhere": StandIn(kind="listops", meant="text"),
    }
    assert stand_in_told("image_1", stands, ["pretrain", "finetune"], "finetune") == "digits for image_1"
    assert stand_in_told("image_1", stands, stands, "finetune") == (
        "digits for image_1 and listops for text in stage elsewhere of image_1"
    )
    assert stand_in_told("image_1", stands, ["pretrain", "other"], "other") == (
        "digits for image in stage pretrain of image_1"
    )
    assert stand_in_told("image_1", stands, ["other"], "other") == ""


def test_stand_ins_of_several_columns_are_told_by_kind_and_each_once() -> None:
    stage = "digits for image in stage elsewhere of pathfinder_1"
    texts = ["digits for image_1", "", "waves for speech", stage, "digits for image_4", "digits for image_1"]
    assert stand_ins_told(texts) == f"digits for image_1 and image_4; waves for speech; {stage}"
    assert stand_ins_told([""]) == ""


def test_a_stage_without_data_has_an_open_identity(tmp_path: Path) -> None:
    plan = planned(study("paper"), tmp_path)
    for cell in plan.cells:
        assert all(p.open == (cell.column == "image") for p in cell.chain)
    assert len({p.identity for p in plan.stages.values()}) == len(plan.stages)


def test_a_study_to_be_trained_refuses_absent_data_and_names_the_ways_out(tmp_path: Path) -> None:
    with pytest.raises(
        BadInput,
        match=r"(?s)image.*columns\.image: its data are not there.*"
        r'columns=\["listops"\].*--scale tiny',
    ):
        Study(tomllib.loads(STUDY), scale="paper", data=tmp_path, store=tmp_path / "runs")


def test_words_on_the_command_line_win_over_what_a_scale_keeps() -> None:
    assert list(study("small").columns) == ["listops"]
    assert list(study("small", 'columns=["image"]').columns) == ["image"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[scales.small]", "[scales.smal]", "scales: no 'smal'; did you mean 'small'?"),
        ("[scales.tiny.columns.listops]", "[scales.tiny.columns.listop]", "scales.tiny.columns: no 'listop'"),
        ("[scales.tiny.arms.self_pretrained]", "[scales.tiny.arms.pretrained]", "scales.tiny.arms: no 'pretrained'"),
        ("[scales.tiny.stand_in.image]", "[scales.tiny.stand_in.images]", "scales.tiny.stand_in: no 'images'"),
        (
            'only = { columns = ["listops"] }',
            'only = { column = ["listops"] }',
            "scales.small.only.column: no 'column'",
        ),
        ('only = { columns = ["listops"] }', 'only = { columns = ["list"] }', "scales.small.only.columns: no 'list'"),
        ('note = "little of it"', 'nota = "little of it"', "scales.tiny.nota: no 'nota'; did you mean 'note'?"),
        (
            "pretrain = { budget = { epochs = 2 } }",
            "pretrain = { budge = { epochs = 2 } }",
            "scales.tiny.arms.self_pretrained.pretrain.budge: no 'budge'; did you mean 'budget'?",
        ),
        ('name = "two"', 'name = "two"\npaper = "nope"', "paper: no 'nope'"),
        ('name = "two"', 'name = "two"\nscale = "small"', "scale: a study with scales takes its scale from --scale"),
    ],
)
@pytest.mark.parametrize("scale", ["tiny", "small"])
def test_a_name_that_is_not_there_is_refused_with_its_place(old: str, new: str, message: str, scale: str) -> None:
    assert message in refused(STUDY.replace(old, new), scale)


def places(table: dict[str, Any], *before: str) -> Iterator[tuple[str, ...]]:
    for key, value in table.items():
        yield (*before, key)
        if isinstance(value, dict):
            yield from places(value, *before, key)


MORE = [
    "extends",
    "only",
    "only.columns",
    "paper",
    "report",
    "report.match",
    "report.figures",
    "scales.tiny.only",
    "scales.tiny.only.arms",
    "scales.tiny.report",
    "scales.tiny.variants",
    "scales.paper",
    "arms.scratch.variant",
    "scales.tiny.columns.image.variants",
    "columns.image.variants.recurrent.variants",
    "stages.finetune.start",
]


@pytest.mark.parametrize(
    "wrong", ["text", 3, True, [], {}, ["x"], [[]], [{}], {"x": 1}, {"columns": 3}, None], ids=repr
)
def test_whatever_stands_in_a_wrong_place_is_taken_or_refused_in_words(wrong: Any, tmp_path: Path) -> None:
    places_of = dict.fromkeys([*places(with_variants()), *(tuple(path.split(".")) for path in MORE)])
    for path in places_of:
        table = with_variants()
        inner = table
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = wrong
        if wrong is None:
            del inner[path[-1]]
        # Any other exception is a traceback, and fails the test.
        with contextlib.suppress(BadInput):
            planned(read_study(table, data=tmp_path), tmp_path)


def test_one_name_to_keep_may_go_without_a_list() -> None:
    text = STUDY.replace('only = { columns = ["listops"] }', 'only = { columns = "listops" }')
    assert list(read_study(tomllib.loads(text), scale="small").columns) == ["listops"]


def test_a_stand_in_that_is_absent_too_stands_in_for_nothing(tmp_path: Path) -> None:
    text = STUDY.replace('task = { kind = "digits" }', 'task = { kind = "mnist" }')
    assert not read_study(tomllib.loads(text), data=tmp_path).stood_in


def test_a_task_that_is_no_task_is_refused_with_its_column(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"columns\.image\.pretrain\.task\.kind: no 'imag'; did you mean 'image'"):
        read_study(tomllib.loads(STUDY.replace('kind = "image"', 'kind = "imag"')), data=tmp_path)


def test_a_scale_that_a_study_does_not_have_is_refused() -> None:
    plain = STUDY[: STUDY.index("[scales.tiny]")]
    assert "--scale: no ''" in refused(STUDY, "")
    assert refused(plain, "tiny") == "--scale: this study has no scales; leave the option out"
    assert refused(plain.replace('name = "two"', 'name = "two"\nscale = "tiny"'), "small") == (
        "--scale: this study is written out at scale tiny; leave the option out"
    )
    assert "--scale: no 'large'" in refused(STUDY, "large")


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_lies_over_those_that_it_extends_from_left_to_right(tmp_path: Path) -> None:
    write(tmp_path, "base.toml", STUDY)
    write(tmp_path, "part.toml", "[stages.pretrain.budget]\nsteps = 7\n[columns.image.model]\nwidth = 8\n")
    path = write(
        tmp_path,
        "own.toml",
        'name = "own"\nextends = ["base.toml", "part.toml"]\n'
        'only = { columns = ["image"] }\n[columns.image.model]\nblocks = 5\n',
    )
    spec = read_study(path, scale="paper")
    assert (spec.name, list(spec.columns), list(spec.arms)) == ("own", ["image"], ["scratch", "self_pretrained"])
    assert spec.columns["image"]["model"] == {"width": 8, "blocks": 5}
    assert spec.stages["pretrain"]["budget"] == {"steps": 7}


def test_arms_of_a_file_replace_those_of_its_base(tmp_path: Path) -> None:
    write(tmp_path, "base.toml", STUDY[: STUDY.index("[scales.tiny]")])
    path = write(tmp_path, "own.toml", 'name = "own"\nextends = "base.toml"\n[arms.only_this]\n')
    assert list(read_study(path).arms) == ["only_this"]


@pytest.mark.parametrize(
    ("extends", "message"),
    [
        ('"nowhere.toml"', "extends: no file"),
        ('"digitz"', "extends: no 'digitz'; did you mean 'digits'?"),
        ('"own.toml"', "extends: 'own.toml' extends itself"),
        ("3", "extends: 3 is neither a name nor a list of names"),
        ('["base.toml", "base.toml"]', "has a name twice; keep one of them"),
    ],
)
def test_a_base_that_cannot_be_is_refused(tmp_path: Path, extends: str, message: str) -> None:
    path = write(tmp_path, "own.toml", f'name = "own"\nextends = {extends}\n[arms.a]\n')
    with pytest.raises(BadInput, match=message.replace("?", r"\?")):
        read_study(path)


def test_files_that_extend_others_in_depth_or_by_doubling_end_at_once(tmp_path: Path) -> None:
    for number in range(12):
        for name in "ab":
            base = f'extends = ["a{number + 1}.toml", "b{number + 1}.toml"]\n'
            write(tmp_path, f"{name}{number}.toml", base if number < 11 else STUDY)
    assert list(read_study(tmp_path / "a0.toml", scale="paper").columns)
    for number in range(30):
        write(tmp_path, f"c{number}.toml", f'extends = "c{number + 1}.toml"\n')
    with pytest.raises(BadInput, match="is one of more than 16 studies in a row"):
        read_study(tmp_path / "c0.toml")
    names = [f"d{number}.toml" for number in range(150)]
    for name in names:
        write(tmp_path, name, 'title = "T"\n')
    path = write(tmp_path, "wide.toml", f"extends = {names}\n")
    with pytest.raises(BadInput, match="or of 100 in all; write what they say into fewer files"):
        read_study(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = " + "[" * 1_000 + "]" * 1_000, "nested more than 100 deep"),
        ("x = " + "[" * 150 + "]" * 150, "nested more than 100 deep"),
        ("[" + ".".join("a" * 200) + "]", "a key in it has more than 100 parts"),
        ("x = " + "9" * 5_000, "a number in it has too many digits"),
    ],
)
def test_brackets_and_digits_without_end_are_no_study(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadInput, match=rf"own\.toml: this is not valid TOML: .*{message}"):
        read_study(write(tmp_path, "own.toml", f"{text}\n"))
    with pytest.raises(BadInput, match=r"override: stages\.x: .* is not a TOML value"):
        read_study(
            write(tmp_path, "own.toml", STUDY), [f"stages.x={text.partition(' = ')[2] or '[' * 200 + ']' * 200}"]
        )


def test_files_that_extend_each_other_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "own.toml", 'name = "own"\nextends = "other.toml"\n')
    write(tmp_path, "other.toml", 'extends = "own.toml"\n')
    with pytest.raises(BadInput, match=r"^own\.toml: other\.toml: extends: 'own\.toml' extends itself$"):
        read_study(path)


def test_a_part_alone_is_no_study(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="arms: there is none"):
        read_study(write(tmp_path, "own.toml", 'name = "own"\nextends = "lra"\n'))


def test_a_share_of_a_budget_leaves_no_trace_of_how_it_was_said() -> None:
    assert BudgetSpec(epochs=150, share=0.2).document() == BudgetSpec(epochs=30).document()
    assert BudgetSpec(steps=150, share=0.5) == BudgetSpec(steps=75)
    assert BudgetSpec(epochs=3, share=0.1) == BudgetSpec(epochs=0.3)
    assert BudgetSpec(epochs=3, share=0).empty


def test_arms_that_divide_a_budget_plan_to_what_they_say(tmp_path: Path) -> None:
    table: dict[str, Any] = tomllib.loads(STUDY)
    for share in (0.0, 0.25):
        table["arms"][f"share_{share:g}"] = {
            "pretrain": {"budget": {"share": share}},
            "finetune": {"parent": "pretrain", "start": ["take(all-head)"], "budget": {"share": 1 - share}},
        }
    plan = planned(read_study(table, scale="small"), tmp_path)
    chains = {cell.arm: cell.chain for cell in plan.cells if cell.seed == 0}
    assert [p.spec.budget.epochs for p in chains["share_0.25"]] == [50, 75]
    assert chains["share_0"][-1].identity == chains["scratch"][-1].identity


def test_a_paper_study_is_found_by_its_short_name() -> None:
    assert read_study("coser-1").name == "coser-1-described"


def with_variants(**more: Any) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads(STUDY)
    for column, width in (("image", 8), ("listops", 24)):
        table["columns"][column]["variants"] = {
            "recurrent": {"model": {"width": width, "mixer": {"kind": "s4"}}},
            "slow": {"finetune": {"optim": {"lr": 1e-5}}},
        }
    table["arms"]["s4"] = {"variant": ["recurrent", "slow"], "model": {"blocks": 7}}
    del table["axes"]["finetune.optim.lr"]
    return {**table, **more}


def test_a_variant_lies_over_its_column_and_below_the_arm_that_takes_it(tmp_path: Path) -> None:
    plan = planned(read_study(with_variants(), scale="paper"), tmp_path)
    models = {(cell.arm, cell.column): cell.chain[-1].spec for cell in plan.cells if cell.seed == 0}
    assert [models["s4", c].model.width for c in ("image", "listops")] == [8, 24]
    assert [models["scratch", c].model.width for c in ("image", "listops")] == [64, 64]
    s4 = models["s4", "image"]
    assert (s4.model.mixers[0].kind, s4.model.blocks, s4.optim.lr) == ("s4", 7, 1e-5)


def test_a_scale_changes_variants_of_all_columns_and_of_one(tmp_path: Path) -> None:
    table = with_variants()
    table["scales"]["tiny"]["variants"] = {"recurrent": {"model": {"width": 4}}}
    table["scales"]["tiny"]["columns"]["listops"]["variants"] = {"recurrent": {"model": {"width": 2}}}
    plan = planned(read_study(table, scale="tiny"), tmp_path)
    widths = {cell.column: cell.chain[-1].spec.model.width for cell in plan.cells if cell.arm == "s4"}
    assert widths == {"image": 4, "listops": 2}


def test_a_variant_that_a_column_lacks_is_refused() -> None:
    table = with_variants()
    del table["columns"]["listops"]["variants"]["slow"]
    with pytest.raises(BadInput, match=r"arms\.s4\.variant: columns\.listops: no 'slow'"):
        read_study(table, scale="paper")
    table = with_variants()
    table["scales"]["tiny"]["variants"] = {"recurent": {}}
    with pytest.raises(BadInput, match=r"scales\.tiny\.variants: no 'recurent'; did you mean 'recurrent'"):
        read_study(table)
