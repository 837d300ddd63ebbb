"""From a study to its distinct stages, and what a wrong study is told."""

from pathlib import Path
from typing import Any

import pytest

from headstart.documents import parse_override
from headstart.errors import BadInput
from headstart.models.model import ModelSpec
from headstart.spec import merge
from headstart.stage import identity
from headstart.study.language.files import as_given, built_in_studies
from headstart.study.language.plan import Plan, make_plan
from headstart.study.language.spec import read_study

DATA = Path("no-data-needed")
STUDY: dict[str, Any] = {
    "name": "small",
    "stages": {
        "pretrain": {"objective": {"kind": "masked"}, "budget": {"epochs": 2}},
        "finetune": {"objective": {"kind": "classify"}, "budget": {"epochs": 1}},
    },
    "columns": {
        "a": {"task": {"kind": "listops", "train": 40, "val": 20, "test": 20, "min_length": 5, "max_length": 30}},
        "b": {
            "task": {"kind": "listops", "train": 60, "val": 20, "test": 20, "min_length": 5, "max_length": 30},
            "pretrain": {"objective": {"mask_rate": 0.3}},
        },
    },
    "arms": {
        "scratch": {},
        "self_pretrained": {"finetune": {"parent": "pretrain", "start": ["take(all-head)"]}},
    },
    "axes": {"pretrain.optim.lr": [1e-3], "finetune.optim.lr": [1e-4, 1e-3], "seed": [0, 1, 2]},
    "report": {"choose": ["finetune.optim.lr"], "against": "scratch"},
}


BARE = {"report": {"choose": None, "against": "scratch"}}


def plan(*overrides: str, **changes: Any) -> Plan:
    return make_plan(read_study(merge(STUDY, changes), overrides), DATA)


def why(*overrides: str, **changes: Any) -> str:
    with pytest.raises(BadInput) as caught:
        plan(*overrides, **changes)
    return str(caught.value)


def test_runs_share_their_pretraining() -> None:
    result = plan()
    assert len(result.cells) == 2 * 2 * 2 * 3
    # 2 columns x 3 seeds of pretraining, 2 x 3 x 2 of each arm's fine-tuning.
    assert sum(p.name == "pretrain" for p in result.stages.values()) == 6
    assert len(result.stages) == 6 + 24


def test_parents_come_first() -> None:
    seen: set[str] = set()
    for planned in plan().stages.values():
        if planned.spec.parent is not None:
            assert any(p.spec == planned.spec.parent for p in plan().stages.values() if p.identity in seen)
        seen.add(planned.identity)


def test_an_axis_of_a_stage_that_an_arm_has_not_does_not_multiply_it() -> None:
    result = plan("pretrain.optim.lr=[1e-4, 1e-3]")
    assert sum(c.arm == "scratch" for c in result.cells) == 12
    assert sum(c.arm == "self_pretrained" for c in result.cells) == 24
    scratch = next(c for c in result.cells if c.arm == "scratch")
    assert set(scratch.settings) == {"finetune.optim.lr"}


def test_a_pretraining_of_no_epochs_is_the_same_as_none() -> None:
    result = plan("pretrain.budget.epochs=0")
    by_arm = {arm: {c.chain[-1].identity for c in result.cells if c.arm == arm} for arm in STUDY["arms"]}
    assert by_arm["scratch"] == by_arm["self_pretrained"]
    assert len(result.stages) == 12


def test_arms_win_over_columns_and_columns_over_stages_and_the_command_line_over_all() -> None:
    specs = {c.column: c.chain[0].spec for c in plan().cells if c.arm == "self_pretrained"}
    assert specs["a"].objective.mask_rate == 0.1, "the task's own rate"
    assert specs["b"].objective.mask_rate == 0.3, "the column's"
    arm = {"self_pretrained": {"pretrain": {"objective": {"mask_rate": 0.4}}}}
    specs = {c.column: c.chain[0].spec for c in plan(arms=arm).cells if c.arm == "self_pretrained"}
    assert {s.objective.mask_rate for s in specs.values()} == {0.4}
    result = plan("pretrain.objective.mask_rate=0.5", arms=arm)
    assert {c.chain[0].spec.objective.mask_rate for c in result.cells if len(c.chain) > 1} == {0.5}


def test_labels_do_not_change_a_stage_that_uses_none() -> None:
    few = plan("task.labelled=30")
    pretrained = {p.identity for p in plan().stages.values() if p.name == "pretrain"}
    assert {p.identity for p in few.stages.values() if p.name == "pretrain"} == pretrained
    assert {p.spec.task.labelled for p in few.stages.values() if p.name == "finetune"} == {30}


def test_a_setting_of_one_arm_is_overridden_in_that_arm_alone() -> None:
    cells = plan("arms.scratch.model.width=8", "finetune.model.blocks=1", arms={"a.b": {}}).cells
    widths = {cell.arm: {planned.spec.model.width for planned in cell.chain} for cell in cells}
    assert widths["scratch"] == {8}
    assert 8 not in widths["self_pretrained"] | widths["a.b"]
    dotted = plan("arms.a.b.finetune.model={blocks=1, width=16}", arms={"a.b": {}}).cells
    assert {cell.chain[-1].spec.model.width for cell in dotted if cell.arm == "a.b"} == {16}


def test_a_setting_of_one_column_is_overridden_there_alone() -> None:
    column = {"task": {"kind": "digits"}, "model": {"width": 32}}
    cells = plan("columns.b.model.width=8", "columns.b.task.labelled=20", columns={"b": column}).cells
    settings = {(cell.column, last.model.width, last.task.labelled) for cell in cells for last in [cell.chain[-1].spec]}
    assert {row for row in settings if row[0] == "b"} == {("b", 8, 20)}
    assert all(width != 8 and labelled != 20 for column, width, labelled in settings if column != "b")
    with pytest.raises(BadInput, match=r"arm 'wide' sets it and wins; override arms\.wide\.model\.width instead"):
        plan("columns.b.model.width=8", columns={"b": column}, arms={"wide": {"model": {"width": 16}}})


def test_an_axis_of_the_model_is_chosen_only_where_the_study_says_so() -> None:
    axes = {"model.width": [8, 16], "finetune.model.blocks": [1, 2], "finetune.optim.lr": [1e-3], "seed": [0]}
    result = plan(**{**BARE, "axes": axes})
    assert result.choose == ("pretrain.optim.lr", "finetune.optim.lr")
    named = plan("report.choose=['model.width']", **{**BARE, "axes": axes})
    assert named.choose == ("model.width",)


@pytest.mark.parametrize(
    ("changes", "location"),
    [
        ({"stages": {"finetune": {"model": {"width": "wide"}}}}, "stages.finetune.model.width: 'wide'"),
        ({"columns": {"b": {"model": {"width": "wide"}}}}, "columns.b.model.width: 'wide'"),
        ({"columns": {"b": {"finetune": {"optim": {"lrr": 1}}}}}, "columns.b.finetune.optim.lrr: no 'lrr'"),
        ({"arms": {"scratch": {"model": {"width": "wide"}}}}, "arms.scratch.model.width: 'wide'"),
        ({"axes": {"model.width": ["wide"]}}, "axes.model.width: 'wide'"),
        ({"report": {"claims": ["a > b"]}}, "report.claims: 'claims' is a key of the study, and in TOML"),
        ({"axes": {"title": "T"}}, "axes.title: 'title' is a key of the study, and in TOML"),
        ({"arms": {"scratch": {"extends": "digits"}}}, "arms.scratch.extends: 'extends' is a key of the study"),
        (
            {
                "arms": {"scratch": {"variant": "v"}},
                "columns": {n: {"variants": {"v": {"model": {"width": "x"}}}} for n in "ab"},
            },
            "columns.a.variants.v.model.width: 'x'",
        ),
    ],
)
def test_a_mistake_is_named_where_it_is_written(changes: dict[str, Any], location: str) -> None:
    assert why(**changes).startswith(location)


def test_a_stage_is_named_by_its_arms_column_seed_and_rate() -> None:
    result = plan("finetune.optim.lr=[1e-3]", "seed=[4]")
    texts = result.runs_of()
    last = {(cell.arm, cell.column): texts[cell.chain[-1].identity] for cell in result.cells}
    assert last["scratch", "b"] == "scratch on b, seed 4, rate 0.001"
    alone = plan("finetune.optim.lr=[1e-3]", "seed=[4]", "columns=['a']", arms={"other": {}, "third": {}})
    texts = alone.runs_of()
    assert {texts[name] for name in alone.stages} == {
        "scratch and 2 more, seed 4, rate 0.001",
        "self_pretrained, seed 4, rate 0.001",
    }


def test_an_arm_has_one_seed_of_its_own_at_most() -> None:
    text = "arms.scratch.seed: [0, 1]: an arm has the seeds of the axis; leave it out, or give one"
    assert text in why(arms={"scratch": {"seed": [0, 1]}})


def test_a_list_makes_an_axis_a_value_fixes_it_and_arms_can_be_kept() -> None:
    assert len(plan("finetune.optim.lr=3e-4", "seed=[7]").cells) == 2 * 2
    assert {c.seed for c in plan("seed=7").cells} == {7}
    result = plan("finetune.optim.weight_decay=[0.0, 0.1]", "arms=['scratch']", "columns=['a']")
    assert result.choose == ("finetune.optim.lr", "finetune.optim.weight_decay")
    assert len(result.cells) == 2 * 2 * 3
    assert "task.fraction" not in plan("task.fraction=[0.5, 1.0]").choose


def test_another_measure_of_the_budget_replaces_the_one_that_stands() -> None:
    result = plan("finetune.budget.steps=5")
    assert {p.spec.budget.steps for p in result.stages.values() if p.name == "finetune"} == {5}


def test_an_arm_with_another_optimiser_keeps_what_all_optimisers_have() -> None:
    stage = {"kind": "sgd", "momentum": 0.5, "batch_size": 16, "warmup_steps": 3, "clip": 1.0}
    for kind in ("muon", "adamw"):
        arms = {"arms": {"scratch": {"finetune": {"optim": {"kind": kind}}}}, "stages": {"finetune": {"optim": stage}}}
        chains = {c.arm: c.chain[-1].spec.optim for c in plan(**arms).cells}
        own, other = chains["scratch"], chains["self_pretrained"]
        assert (own.kind, own.momentum, other.kind, other.momentum) == (kind, None, "sgd", 0.5)
        assert (own.batch_size, own.warmup_steps, own.clip) == (16, 3, 1.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"arms": {"scratch": {"finetune": {"optim": {"lrr": 1.0}}}}},
            "finetune.optim.lrr: no 'lrr'; did you mean 'lr'?",
        ),
        ({"arms": {"scratch": {"finetun": {}}}}, "arms.scratch.finetun: no 'finetun'; did you mean 'finetune'?"),
        (
            {"arms": {"scratch": {"finetune": {"parent": "pretran"}}}},
            "finetune.parent: no 'pretran'; did you mean 'pretrain'?",
        ),
        ({"columns": {"a": {"task": {"kind": "listop"}}}}, "task.kind: no 'listop'; did you mean 'listops'?"),
        (
            {"axes": {"optim.lr": [1e-3]}},
            "axes: 'optim.lr' names no stage; write 'pretrain.optim.lr' or 'finetune.optim.lr'",
        ),
        ({"axes": {"finetune.optim.lr": []}}, "axes.finetune.optim.lr: the list is empty"),
        (
            {"report": {"against": "scrach"}},
            "report.against: no 'scrach'; did you mean 'scratch'?; name another, as in report.against=scratch",
        ),
        ({"report": {"gain": True, "against": None}}, "report.gain: a gain is one over an arm"),
        ({"report": {"sweep": "train"}}, "report.sweep: 'train' should be 'val' or 'test'"),
        (
            {"report": {"mark": {"setting": "finetun.optim.lr", "value": 1e-3, "says": "x"}}},
            "report.mark.setting: 'finetun.optim.lr': no 'finetun'; did you mean 'finetune'?",
        ),
        (
            {"report": {"choose": ["finetune.optim.rl"]}},
            "report.choose: no 'finetune.optim.rl'; did you mean 'finetune.optim.lr'?",
        ),
        ({"arms": {"self_pretrained": {"finetune": {"start": []}}}}, "a parent is named but nothing of it is taken"),
        ({"arms": {"scratch": {"finetune": {"start": ["take(all)"]}}}}, "'take(all)' needs a parent"),
        (
            {"arms": {"scratch": {"finetune": {"budget": {"epochs": 1, "steps": 2}}}}},
            "give exactly one of epochs, steps, tokens, flops or flops_of",
        ),
        ({"stages": {"finetune": {"parent": "finetune", "start": ["take(all)"]}}}, "its own ancestor"),
        ({"arms": {"scratch": {"model": {"width": "wide"}}}}, "model.width: 'wide' should be a valid integer"),
        ({"name": "a/b"}, "name: 'a/b' becomes a folder's name"),
    ],
)
def test_a_wrong_study_is_told_where_what_and_the_way_out(changes: dict[str, Any], message: str) -> None:
    assert message in why(**changes)


def test_a_study_without_arms_is_refused() -> None:
    with pytest.raises(BadInput, match=r"arms: there is none; a study compares arms"):
        read_study({**STUDY, "arms": {}, "report": {}})


def test_overrides_that_cannot_be_read_are_refused() -> None:
    assert "is not name=value" in why("finetune.optim.lr")
    for word in ("arms.scratch.=3", ".=3", "finetune..lr=3", "report.=3"):
        assert f"override: {word!r} lacks a name beside a dot (for example finetune.optim.lr=[" in why(word)
    assert "is not a TOML value" in why("finetune.optim.lr=[1e-3")
    assert "is not a TOML value" in why("finetune.optim.lr=1e-3x")
    assert "override: 'optim.lr' names no stage" in why("optim.lr=1e-3")
    assert "override: arms: no 'scrath'; did you mean 'scratch'?" in why("arms=['scrath']")


def test_an_override_is_laid_over_the_file_before_it_is_checked_but_hides_no_other_mistake() -> None:
    broken = {"axes": {"seed": [1, 1]}}
    assert why(**broken) == "axes.seed: [1, 1] holds a value twice"
    assert why("model.width=8", **broken) == "axes.seed: [1, 1] holds a value twice"
    assert why("optim.lr=1e-3", **broken) == "axes.seed: [1, 1] holds a value twice", "that of the file comes first"
    assert {cell.seed for cell in plan("seed=[4]", **broken).cells} == {4}
    assert "report.average.columns: no 'q'; there are: a, b" in why("report.average.columns=['q']")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"axes": {"seed": 3}}, "axes.seed: 3 should be a list"),
        ({"report": {"choose": "seed"}}, "report.choose: 'seed' should be a list"),
        ({"stood_in": 3}, "stood_in: 3 should be a table of settings"),
        ({"arms": {"scratch": {"model": 3}}}, "arms.scratch.model: 3 should be a table of settings"),
        ({"arms": {"scratch": {"finetune": {"model": 3}}}}, "arms.scratch.finetune.model: 3 should be a table of set"),
    ],
)
def test_what_an_override_goes_through_has_the_right_shape(changes: dict[str, Any], message: str) -> None:
    for words in ([], ["seed=4"], ["columns=['a']"], ["model.width=8"]):
        assert message in why(*words, **changes)


def test_a_spec_in_a_table_of_python_takes_overrides_as_a_table_does() -> None:
    spec = {"arms": {"scratch": {"model": ModelSpec(width=8)}}}
    table = {"arms": {"scratch": {"model": ModelSpec(width=8).model_dump()}}}
    for words in ([], ["model.blocks=1"]):
        assert [*plan(*words, **spec).stages] == [*plan(*words, **table).stages]


def test_a_file_names_itself_in_its_errors(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("name = ")
    with pytest.raises(BadInput, match=r"mine.toml: this is not valid TOML"):
        read_study(path)
    with pytest.raises(BadInput, match="did you mean 'digits'"):
        read_study("digit")


@pytest.mark.parametrize("name", sorted(built_in_studies()))
def test_every_built_in_study_parses_and_plans_without_data(name: str) -> None:
    result = make_plan(read_study(name, data=DATA), DATA)
    assert result.cells
    assert result.study.name == name
    assert result.study.title


def test_an_override_in_another_measure_or_kind_replaces_an_arms_own() -> None:
    own = {"finetune": {"budget": {"epochs": 3}, "model": {"mixer": {"kind": "attention", "heads": 2}}}}
    result = plan("finetune.budget.steps=7", "model.mixer.kind=lstm", arms={"scratch": own})
    for cell in result.cells:
        spec = cell.chain[-1].spec
        assert (spec.budget.steps, spec.budget.epochs) == (7, None)
        assert spec.model.mixer.kind == "lstm"


def test_an_overriding_table_wins_over_an_axis_inside_it() -> None:
    result = plan("finetune.optim={lr=5e-4, weight_decay=0.1}")
    assert {cell.chain[-1].spec.optim.lr for cell in result.cells} == {5e-4}
    assert "finetune.optim.lr" not in result.study.axes
    assert result.choose == ()
    # A table that does not hold the rate leaves its axis alone.
    assert "finetune.optim.lr" in plan("finetune.optim={weight_decay=0.1}").study.axes


def test_an_override_for_all_stages_wins_over_an_axis_of_one() -> None:
    result = plan("model.width=8", axes={"finetune.model.width": [16, 32]})
    assert {p.spec.model.width for p in result.stages.values()} == {8}


def test_an_overridden_setting_of_models_is_for_the_arms_whose_kind_has_it() -> None:
    arms = {"scratch": {}, "kernels": {"model": {"kind": "kernels"}}}
    cells = plan("model.width=8", arms=arms).cells
    assert {cell.chain[-1].spec.model.width for cell in cells if cell.arm == "scratch"} == {8}
    assert {cell.chain[-1].spec.model.kind for cell in cells if cell.arm == "kernels"} == {"kernels"}
    only = {"kernels": {"model": {"kind": "kernels"}}}
    assert "override: model.width: no 'width'; there are: alpha, also, features, kind" in why(
        "arms=['kernels']", "model.width=8", arms=only
    )


def test_a_table_can_be_an_axis() -> None:
    result = plan("finetune.optim=[{lr=1e-3, batch_size=4}, {lr=2e-3, batch_size=8}]")
    assert {(c.chain[-1].spec.optim.lr, c.chain[-1].spec.optim.batch_size) for c in result.cells} == {
        (1e-3, 4),
        (2e-3, 8),
    }


@pytest.mark.parametrize(
    ("overrides", "changes", "message"),
    [
        (["finetune.seed=3"], {}, "'finetune.seed' is a part of what the axis 'seed' sets; override 'seed' itself"),
        (["pretrain.model.width=8"], {"axes": {"model.width": [8, 16]}}, "override 'model.width' itself"),
        (["arms.scratchy.model.width=8"], {}, "override: arms: no 'scratchy'; did you mean 'scratch'?"),
        (
            ["arms.scratch=8"],
            {},
            "override: arms.scratch: name a setting, as in arms.scratch.model.width=64",
        ),
        (["arms.scratch.optim.lr=1e-3"], {}, "override: arms.scratch: 'optim.lr' names no stage; write"),
        (["arms.scratch.model.width=[8, 16]"], {}, "one of all arms; give one value, or write model.width=[8, 16]"),
        (["arms.scratch.finetune.optim.lr=1"], {}, "the axis 'finetune.optim.lr' sets it in every arm"),
        (["amrs.scratch.model.width=8"], {}, "override: 'amrs.scratch.model.width': no 'amrs'; did you mean 'arms'?"),
        (
            ["finetune.optim.lr=1"],
            {"axes": {"finetune.optim.lr": [1.0], "finetune.optim": [{"lr": 1.0}]}},
            "'finetune.optim' and 'finetune.optim.lr' set the same thing; keep one",
        ),
        ([], {"axes": {"finetune.model.width": [8], "model.width": [8]}}, "set the same thing"),
        ([], {"axes": {"finetune.seed": [0, 1]}}, "a seed is that of the whole chain"),
        (["finetune=[1,2]"], {}, "'finetune' is a whole stage; name one of its settings"),
        (["finetune=3"], {}, "override: finetune: 3 is not a table of settings"),
        (["report.choose=['seed']"], {}, "a seed is never chosen"),
        (["arms=3"], {}, "override: arms: no '3'"),
        (["arms=[[1]]"], {}, "override: arms: no '[1]'"),
        (["columns=[]"], {}, "override: columns: the list is empty; there are: a, b"),
        ([], {"name": "a" * 101}, "has 101 characters"),
        ([], {"arms": {"\x1b[31mred": {}}}, "is not a name that can be printed"),
        ([], {"stages": {"report": {}}}, "a stage cannot be named like a key of a study"),
        (["model=5"], {}, "finetune.model: 5 should be a table"),
        (["model=5", "model.width=8"], {}, "override: pretrain.model: 5 should be a table of settings"),
        (["finetune.start='take(all)'"], {}, "finetune.start: 'take(all)' should be a list"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_way_out(
    overrides: list[str], changes: dict[str, Any], message: str
) -> None:
    assert message in why(*overrides, **changes)


def test_a_path_needs_no_quotes_on_the_command_line() -> None:
    for path in ("train.csv", "ecg/train.csv", "/data/ecg_1/train.csv", "./train.csv", "../train-2.csv"):
        assert parse_override(f"task.file={path}") == ("task.file", path)


def test_runs_that_share_a_reading_are_those_that_are_read_alone() -> None:
    """Seeds of one setting are read once; folds, fitted models and budgets in FLOPs are the cases that could differ."""
    arms = {
        "majority": {"finetune": {"model": {"kind": "majority"}}},
        "kernels": {"finetune": {"model": {"kind": "kernels"}}},
        "long": {"finetune": {"budget": {"flops_of": "self_pretrained"}}},
        "untrained": {
            "pretrain": {"budget": {"epochs": 0}},
            "finetune": {"parent": "pretrain", "start": ["take(all-head)"]},
        },
    }
    columns = {"own": {"task": {"kind": "digits", "folds": 3, "fold": "seed"}}}

    def runs(*seeds: int) -> list[tuple[Any, ...]]:
        cells = plan("seed=" + str(list(seeds)), arms=arms, columns=columns).cells
        return [(c.arm, c.column, c.seed, *[(s.name, s.spec, s.identity) for s in c.chain]) for c in cells]

    together, alone = runs(0, 1, 2), [run for seed in (0, 1, 2) for run in runs(seed)]
    assert sorted(map(str, together)) == sorted(map(str, alone))
    assert all(identity(spec, DATA) == name for run in together for _, spec, name in run[3:])
    ids = {
        arm: {run[-1][-1] for run in together if run[:2] == (arm, "a")} for arm in ("scratch", "kernels", "majority")
    }
    assert [len(names) for names in ids.values()] == [6, 3, 1]


@pytest.mark.parametrize("seed", ["true", "1.5", "'a'", "9223372036854775808"])
def test_a_seed_that_is_none_is_refused_after_others_too(seed: str) -> None:
    assert "seed" in why(f"seed=[0, {seed}]")


def test_a_place_that_an_override_reaches_into_is_named_with_it() -> None:
    line = "arms.one.finetune.model.mixer: no 'kind' given"
    assert (
        as_given(line, "digits", ["model.mixer.heads=2", "seed=0"]) == f"digits.toml with model.mixer.heads=2: {line}"
    )
    assert as_given(line, "digits", ["seed=0"]) == f"digits.toml: {line}"
    assert as_given(line, {}, []) == line


def test_arms_without_the_one_that_others_are_compared_with_are_kept_and_nothing_is_compared() -> None:
    study = read_study({**STUDY, "report": {**STUDY["report"], "match": "scratch"}}, ['arms=["self_pretrained"]'])
    assert list(study.arms) == ["self_pretrained"]
    assert (study.report.against, study.report.match) == (None, None)
    assert study.without == (
        "nothing is compared: the arm 'scratch' is left out; keep it, or name another, as in "
        "report.against=self_pretrained"
    )
    assert not read_study(STUDY, ['arms=["scratch"]']).without
    named = read_study(STUDY, ['arms=["self_pretrained"]', "report.against=self_pretrained"])
    assert (named.report.against, named.without) == ("self_pretrained", "")


def test_a_study_of_more_runs_than_can_be_planned_is_refused_before_one_is() -> None:
    values = list(range(1, 101))
    axes = {f"finetune.optim.{name}": values for name in ("lr", "clip", "warmup_steps")}
    axes["finetune.budget.epochs"] = values
    assert "axes: arms, columns and values make 1,200,000,000 runs, and a study has at most 100,000" in why(axes=axes)
