"""Stages that are read: a checkpoint as a parent, `like`, what their identity holds, and what is refused."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from support.checkpoints import saved, weights
from support.made_tasks import MadeSpec

import headstart
from headstart.api import Study
from headstart.checkpoints.read import read_checkpoint
from headstart.checkpoints.spec import CheckpointSpec
from headstart.errors import BadInput
from headstart.models.model import ModelSpec
from headstart.spec import merge, read
from headstart.stage import StageSpec, begin, identity, read_stage, settings_of_class
from headstart.store import Store
from headstart.study.language.estimate import survey
from headstart.tasks import open_task

NOWHERE = Path("nowhere")
GPT2: dict[str, Any] = {"model_type": "gpt2", "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 64}
BERT: dict[str, Any] = {
    **{"model_type": "bert", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2},
    **{"intermediate_size": 12, "max_position_embeddings": 64},
}
STUDY: dict[str, Any] = {
    "name": "started",
    "stages": {
        "small": {"checkpoint": {"source": "small"}},
        "finetune": {"objective": {"kind": "classify"}, "budget": {"steps": 2}},
    },
    "columns": {"digits": {"task": {"kind": "digits", "labelled": 60}, "model": {"like": "small", "blocks": 1}}},
    "arms": {
        "scratch": {},
        "pretrained": {"finetune": {"parent": "small", "start": ["take(backbone+position)"]}},
        "frozen": {"finetune": {"parent": "small", "start": ["take(backbone)"], "trainable": "encoder+position+head"}},
    },
    "axes": {"seed": [0, 1]},
    "report": {"baselines": False, "against": "scratch"},
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of weights, with one small GPT-2; nothing is in the hub's cache."""
    monkeypatch.setenv("HEADSTART_WEIGHTS", str(tmp_path / "weights"))
    monkeypatch.setattr("headstart.checkpoints.source._cache", lambda: "")
    return saved(tmp_path / "weights" / "small", GPT2)


def study(tmp_path: Path, **more: Any) -> Study:
    return Study(merge(STUDY, more), store=tmp_path / "runs", data=tmp_path)


def checkpoint_stage(source: str | Path, **more: Any) -> StageSpec:
    return read_stage({"checkpoint": {"source": str(source), **more}})


def child(parent: StageSpec, *start: str, **more: Any) -> StageSpec:
    table = {"task": MadeSpec(), "objective": {"kind": "classify"}, "budget": {"steps": 1}}
    model = {"like": "small"}
    return read_stage(merge(table, {"model": model, "parent": parent, "start": start or ("take(backbone)",)}, more))


def begun(stage: StageSpec) -> Any:
    parent = stage.parent
    assert parent is not None
    weights_of = begin(parent, None, None).finish().best
    return begin(stage, open_task(stage.task, NOWHERE), weights_of)


def test_a_checkpoint_is_a_parent_like_any_other_read_once_for_all_arms_and_seeds(tmp_path: Path, folder: Path) -> None:
    bound = study(tmp_path)
    (stage,) = [planned for planned in bound.plan.stages.values() if planned.name == "small"]
    assert stage.arms == ("pretrained", "frozen")
    assert stage.label == "small (checkpoint)"
    results = headstart.run(bound)
    assert {row.n for row in results.table} == {2}
    store = Store(tmp_path / "runs")
    ours = dict(read_checkpoint(folder).tensors())
    weights = store.weights(stage.identity)
    assert weights.keys() == ours.keys()
    assert all(torch.equal(weights[name], ours[name]) for name in ours)
    result = store.result(stage.identity)
    assert result is not None
    assert result["budget"]["steps"] == 0
    assert result["parameters"]["total"] == sum(x.numel() for x in ours.values())
    assert {row["part"] for row in result["parameters"]["account"]} == {
        *("position", "norm", "query_key", "value_output", "feed_forward")
    }
    frozen = next(cell.chain[-1] for cell in bound.plan.cells if cell.arm == "frozen")
    begun_with = store.weights(frozen.identity)
    for name in ours:
        if name.startswith("blocks.0."):
            assert torch.equal(begun_with[name], ours[name]), name
    before = {name: store.stage(name) for name in bound.plan.stages}
    headstart.run(study(tmp_path))
    assert {name: store.stage(name) for name in bound.plan.stages} == before


def test_a_stage_that_is_read_says_only_what_it_reads(tmp_path: Path, folder: Path) -> None:
    spec = next(planned.spec for planned in study(tmp_path).plan.stages.values() if planned.name == "small")
    content = read_checkpoint(folder).content
    own = {"kind": "checkpoint", "source": "small", "content": content, "whole": False}
    assert spec.model_dump(mode="json") == {"checkpoint": own}
    shutil.rmtree(folder)
    again = read_stage(spec.model_dump(mode="json"))
    assert again == spec
    assert identity(again, NOWHERE) == identity(spec, NOWHERE)


def test_an_identity_holds_content_and_no_place_and_no_form(tmp_path: Path) -> None:
    tensors = weights(GPT2)
    forms = {
        "plain": saved(tmp_path / "plain", GPT2, tensors),
        "shards": saved(tmp_path / "shards", GPT2, tensors, shards=3),
        "headed": saved(tmp_path / "headed", GPT2, {**tensors, "lm_head.weight": torch.ones(5, 8)}),
        "double": saved(tmp_path / "double", GPT2, {name: x.double() for name, x in tensors.items()}),
    }
    (forms["headed"] / "README.md").write_text("---\nlicense: mit\n---\n")
    plain = identity(checkpoint_stage(forms["plain"]), NOWHERE)
    assert {identity(checkpoint_stage(path), NOWHERE) for path in forms.values()} == {plain}
    stages = [child(checkpoint_stage(path)) for path in forms.values()]
    assert len({identity(stage, NOWHERE) for stage in stages}) == 1
    tensors["ln_f.bias"] = tensors["ln_f.bias"] + 1
    other = saved(tmp_path / "other", GPT2, tensors)
    assert identity(checkpoint_stage(other), NOWHERE) != plain, "whatever part a child takes"
    fields = saved(tmp_path / "fields", {**GPT2, "layer_norm_epsilon": 1e-6}, weights(GPT2))
    assert identity(checkpoint_stage(fields), NOWHERE) != plain


def test_a_content_is_remembered_by_path_size_and_time(
    tmp_path: Path, own_cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = identity(checkpoint_stage("small"), NOWHERE)
    assert len(list((own_cache / "fingerprints").iterdir())) == 1
    from headstart.checkpoints import spec as of_specs

    of_specs._content.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr("headstart.checkpoints.read.Checkpoint.content_of", None)
        assert identity(checkpoint_stage("small"), NOWHERE) == first
    saved(folder, GPT2, weights(GPT2, seed=1))
    assert identity(checkpoint_stage("small"), NOWHERE) != first


def test_like_fills_in_what_is_not_given_and_is_not_stored() -> None:
    like = read(ModelSpec, {"like": "small", "blocks": 1, "dropout": 0.1, "position": {"length": 40}})
    written = read(
        ModelSpec,
        {
            **{"width": 8, "blocks": 1, "mixer": {"kind": "attention", "heads": 2}, "norm_epsilon": 1e-5},
            **{"feed_forward": {"width": 32, "activation": "gelu_tanh"}, "position": {"kind": "learned", "length": 40}},
            **{"causal": True, "dropout": 0.1},
        },
    )
    assert like == written
    assert "like" not in like.model_dump(mode="json")
    medium = read(ModelSpec, {"like": "openai-community/gpt2-medium"})
    assert (medium.width, medium.blocks, medium.mixers[0].heads) == (1024, 24, 16)
    longformer = read(ModelSpec, {"like": "longformer-base-4096", "blocks": 3})
    assert len(longformer.mixers) == 3
    assert read(ModelSpec, {"like": "t5-small", "position": {"kind": "none"}}).position.kind == "none"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"like": "gpt3"}, r"model\.like: 'gpt3' is neither a folder nor in .*sizes of these are known without: gpt2"),
        ({"like": "./none"}, r"model\.like: there is no folder './none'"),
        ({"kind": "kernels", "like": "gpt2"}, r"model\.like: no 'like'"),
        ({"like": "gpt2", "widht": 8}, r"model\.widht: no 'widht'; did you mean 'width'"),
        ({"like": 3}, r"model\.like: 3 should be a valid string"),
    ],
)
def test_a_like_that_cannot_be_is_refused(model: dict[str, Any], message: str) -> None:
    table = {"task": MadeSpec(), "objective": {"kind": "classify"}, "budget": {"steps": 1}, "model": model}
    with pytest.raises(BadInput, match=message):
        read_stage(settings_of_class(table))


def test_an_axis_runs_over_what_a_model_is_like(tmp_path: Path) -> None:
    saved(tmp_path / "weights" / "wide", {**GPT2, "n_embd": 16})
    arms = {"arms": {name: {} for name in ("scratch",)}, "axes": {"model.like": ["small", "wide"]}}
    bound = Study({**STUDY, **arms}, store=tmp_path / "runs", data=tmp_path)
    assert [cell.chain[-1].spec.model.width for cell in bound.plan.cells] == [8, 16]


def test_absent_weights_are_planned_open_and_refused_when_trained(tmp_path: Path, folder: Path) -> None:
    study = merge(STUDY, {"stages": {"small": {"checkpoint": {"source": "gpt2"}}}})
    study["arms"]["pretrained"]["finetune"]["start"] = ["take(backbone)"]
    study["columns"] = {"digits": {"task": {"kind": "digits"}, "model": {"like": "gpt2", "blocks": 1}}}
    plan = Study(study, store=tmp_path / "runs", data=tmp_path, absent="open").plan
    assert [planned.open for planned in plan.stages.values()].count(True) == 5
    costs = {cost.planned.name: cost for cost in survey(plan)}
    assert costs["small"].parameters == 12 * 7_087_872 + 1024 * 768 + 2 * 768
    shutil.rmtree(folder)
    unknown = merge(STUDY, {"columns": {"digits": {"model": {"like": "gpt2", "width": 12}}}})
    plan = Study(unknown, store=tmp_path / "runs", data=tmp_path, absent="open").plan
    assert {cost.planned.name for cost in survey(plan)} == {"finetune"}, "that of scratch"
    with pytest.raises(BadInput) as error:
        Study(unknown, store=tmp_path / "runs", data=tmp_path)
    assert "checkpoint.source: 'small' is neither a folder nor in" in str(error.value)
    assert "`headstart prepare small`" in str(error.value)
    assert "columns." not in str(error.value)


ESM: dict[str, Any] = {
    **{"model_type": "esm", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2},
    **{"intermediate_size": 12, "vocab_size": 4, "position_embedding_type": "rotary"},
}


def test_letters_of_a_task_meet_a_checkpoints_vectors_by_their_symbols_also_without_its_folder(
    tmp_path: Path, folder: Path
) -> None:
    esm = saved(folder.with_name("esm"), ESM)
    (esm / "vocab.txt").write_text("<unk> K A M\n")
    rows = [f"{'MKA' * 8 if i % 2 else 'AAK' * 8}{'MAKC'[i % 4]}{'K' * (i % 7)},{'ab'[i % 2]}" for i in range(56)]
    (tmp_path / "letters.csv").write_text("\n".join(["sequence,label", *rows]) + "\n")
    content = CheckpointSpec(source=str(esm)).settled().content
    model = {"width": 8, "blocks": 1, "mixer": {"kind": "attention", "heads": 2}, "encoder": {"masked": "zero"}}
    start = ['take(encoder, rows="symbols")']
    table = {
        "name": "letters",
        "stages": {
            "esm": {"checkpoint": {"source": str(esm), "content": content}},
            "finetune": {"objective": {"kind": "classify"}, "budget": {"steps": 1}, "trainable": "head"},
        },
        "columns": {
            "own": {"task": {"kind": "own", "file": "letters.csv", "layout": {"kind": "protein"}}, "model": model}
        },
        "arms": {"a": {"finetune": {"parent": "esm", "start": start}}},
        "report": {"baselines": False},
    }

    def bound(**more: Any) -> Study:
        return Study(merge(table, more), store=tmp_path / "runs", data=tmp_path)

    headstart.run(bound())
    theirs = dict(read_checkpoint(esm).tensors())["encoder.weight"]
    shutil.rmtree(esm)
    later = bound(axes={"seed": [1]})
    headstart.run(later)
    store, row_of = Store(tmp_path / "runs"), {"K": 1, "A": 2, "M": 3}
    ours = store.weights(later.plan.cells[0].chain[-1].identity)["encoder.weight"]
    assert torch.equal(ours, theirs[[row_of.get(letter, 0) for letter in "ABCDEFGHIKLMNOPQRSTUVWXYZ"]])


def test_a_study_may_name_the_content_that_it_means(tmp_path: Path, folder: Path) -> None:
    content = read_checkpoint(folder).content
    named = {"stages": {"small": {"checkpoint": {"content": content}}}}
    assert study(tmp_path, **named).plan.stages.keys() == study(tmp_path).plan.stages.keys()
    with pytest.raises(BadInput, match=f"checkpoint.content: .*holds {content}, and {'0' * 64} is meant"):
        study(tmp_path, stages={"small": {"checkpoint": {"content": "0" * 64}}})
    with pytest.raises(BadInput, match=r"checkpoint\.content: 'abc' "):
        study(tmp_path, stages={"small": {"checkpoint": {"content": "abc"}}})
    shutil.rmtree(folder)
    assert not any(p.open for p in study(tmp_path, **merge(named, {"columns": KNOWN_SIZES})).plan.stages.values())


KNOWN_SIZES: dict[str, Any] = {"digits": {"model": {"like": "gpt2", "width": 12}}}


def test_a_checkpoint_that_changes_during_a_run_fails_its_stage_in_words(tmp_path: Path, folder: Path) -> None:
    bound = study(tmp_path)
    saved(folder, GPT2, weights(GPT2, seed=1))
    with pytest.raises(RuntimeError, match="the weights have changed since this run was planned"):
        headstart.run(bound)
    store = Store(tmp_path / "runs")
    states = {planned.name: store.status(i) for i, planned in bound.plan.stages.items() if planned.name == "small"}
    assert states == {"small": "failed"}
    assert {row.n for row in headstart.run(study(tmp_path)).table} == {2}, "the same command takes them as they are"


def test_a_damaged_copy_is_set_aside_and_read_again(tmp_path: Path) -> None:
    bound = study(tmp_path)
    headstart.run(bound)
    store = Store(tmp_path / "runs")
    (name,) = [i for i, planned in bound.plan.stages.items() if planned.name == "small"]
    path = store.folder(name) / "best.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert store.problem(name)
    headstart.run(study(tmp_path))
    assert store.problem(name) is None
    assert store.folder(name).with_name(f"{name}.damaged-1").is_dir()


KILLED = """
import os, signal, sys
from headstart.api import Study, run
from headstart.stage.read import ReadRun

ReadRun.finish = lambda self: os.kill(os.getpid(), signal.SIGKILL)
run(Study(sys.argv[1], store=sys.argv[2], data=sys.argv[2]))
"""


@pytest.mark.slow
def test_a_run_that_is_killed_while_it_reads_goes_on_where_it_was(tmp_path: Path) -> None:
    tomli_w = pytest.importorskip("tomli_w")
    (tmp_path / "study.toml").write_text(tomli_w.dumps(STUDY))
    words = [sys.executable, "-c", KILLED, str(tmp_path / "study.toml"), str(tmp_path / "runs")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == -signal.SIGKILL, done.stderr
    bound, store = study(tmp_path), Store(tmp_path / "runs")
    (name,) = [i for i, planned in bound.plan.stages.items() if planned.name == "small"]
    assert store.status(name) == "partial"
    assert {row.n for row in headstart.run(bound).table} == {2}
    assert (store.stage(name) or {})["attempts"] == 2


@pytest.mark.parametrize(
    ("start", "more", "message"),
    [
        (
            "take(backbone)",
            {"model": {"feed_forward": {"activation": "gelu"}}},
            "model.feed_forward.activation: 'gelu' here and 'gelu_tanh' in checkpoint 'small'",
        ),
        ("take(mixer)", {"model": {"causal": False}}, "model.causal: false here and true in checkpoint 'small'"),
        ("take(norm)", {"model": {"norm_epsilon": 1e-6}}, "model.norm_epsilon: 1e-06 here and 1e-05 in checkpoint"),
        (
            "take(all-encoder-head)",
            {"model": {"width": 16}},
            "model.width: 16 here and 8 in checkpoint 'small', whose weights this stage takes; give 8, leave it out beside "
            'model.like = "small", or take less by start',
        ),
        ("take(mixer)", {"model": {"mixer": {"heads": 4}}}, "model.mixer[0].heads: 4 here and 2 in checkpoint 'small'"),
        ("take(mixer)", {"model": {"mixer": {"kind": "s4d"}}}, "model.mixer[0].kind: 's4d' here and 'attention'"),
        (
            "take(position)",
            {"model": {"position": {"length": 65}}},
            "model.position: the model has 65 positions, and checkpoint 'small' has learned vectors for 64",
        ),
        (
            'take(backbone+position, rows="prefix")',
            {"model": {"position": {"length": 65}}, "trainable": "norm+head"},
            "model.position: the model has 65 positions, and checkpoint 'small' has learned vectors for 64",
        ),
        (
            'take(backbone+position, rows="prefix")',
            {"model": {"position": {"length": 65}}, "trainable": "encoder+head"},
            "model.position: the model has 65 positions, and checkpoint 'small' has learned vectors for 64",
        ),
        ("take(all)", {}, "the parent has no tensor 'encoder.masked'"),
    ],
)
def test_weights_that_would_mean_something_else_are_refused(start: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as error:
        begun(child(checkpoint_stage("small"), start, **more))
    assert message in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (
            'take(backbone+position, rows="prefix")',
            {"model": {"position": {"length": 65}}, "trainable": "position+head"},
        ),
        ("take(feed_forward)", {"model": {"mixer": {"kind": "s4d"}, "causal": False}}),
        ("take(mixer)", {"model": {"feed_forward": {"activation": "relu"}, "norm_epsilon": 1e-6, "norm": "rms"}}),
        ("take(backbone)", {"model": {"position": {"kind": "sinusoidal"}, "blocks": 1}}),
        ("match(mixer)", {"model": {"causal": False}}),
        ("take(norm)", {"model": {"position": {"length": 65}}}),
    ],
)
def test_what_is_not_taken_may_differ(start: str, more: dict[str, Any]) -> None:
    assert begun(child(checkpoint_stage("small"), start, **more)).account.rows


def test_a_causal_objective_is_refused_on_blocks_that_look_at_both_sides(tmp_path: Path) -> None:
    saved(tmp_path / "weights" / "bert", BERT)
    more = {"task": MadeSpec(tokens=True), "objective": {"kind": "causal"}}
    for causal in (True, False):
        model = {"like": "bert", "causal": causal}
        with pytest.raises(
            BadInput, match=r"objective\.kind: 'causal' .* blocks of checkpoint 'bert' look at both sides"
        ):
            begun(child(checkpoint_stage("bert"), model=model, **more))
    assert begun(child(checkpoint_stage("small"), **more))


def test_a_stage_that_is_read_is_not_reported_and_not_trained(tmp_path: Path) -> None:
    alone = {**STUDY, "stages": {"small": STUDY["stages"]["small"]}, "arms": {"a": {}}, "report": {}}
    with pytest.raises(BadInput, match=r'small\.checkpoint: .* has no scores.*a stage after it with parent = "small"'):
        Study(alone, store=tmp_path / "runs", data=tmp_path)
    for name, value in (("start", ["draw(head, 1)"]), ("trainable", "head")):
        with pytest.raises(BadInput, match=f"{name}: a model of kind 'checkpoint' is not trained"):
            study(tmp_path, stages={"small": {name: value}})
    with pytest.raises(BadInput, match=r"checkpoint: is of one stage; write small\.checkpoint or finetune\.checkpoint"):
        study(tmp_path, arms={"scratch": {"checkpoint": {"source": "small"}}})
    with pytest.raises(BadInput, match="did you mean 'source'"):
        study(tmp_path, stages={"small": {"checkpoint": {"sorce": "small"}}})
    headstart.run(study(tmp_path))
    name = next(i for i, planned in study(tmp_path).plan.stages.items() if planned.name == "small")
    with pytest.raises(BadInput, match="'small' has weights of blocks alone, and nothing predicts"):
        headstart.load(name, store=tmp_path / "runs", data=tmp_path)


def test_one_override_makes_a_trained_parent_a_checkpoint(tmp_path: Path) -> None:
    trained = {
        **STUDY,
        "stages": {"language": {"objective": {"kind": "masked"}, "budget": {"steps": 1}}, **STUDY["stages"]},
    }
    arms = {"pretrained": {"finetune": {"parent": "language", "start": ["take(backbone)"]}}}
    words = ["language.checkpoint.source=small"]
    bound = Study({**trained, "arms": arms, "report": {}}, words, store=tmp_path / "runs", data=tmp_path)
    assert [planned.label for planned in bound.plan.cells[0].chain] == ["language (checkpoint)", "finetune"]


def test_a_page_says_where_weights_came_from_and_that_they_are_one_draw(tmp_path: Path, folder: Path) -> None:
    from headstart.report.page import write_report
    from headstart.study.paper.snapshot import read_snapshot, take_snapshot

    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    bound = study(tmp_path)
    results = headstart.run(bound)
    caveat = "pretrained and frozen: the pretrained weights are one draw; the spread over seeds does not hold that"
    assert any(caveat in str(text) for text in results.caveats)
    write_report(bound.plan, results, bound.store, tmp_path / "page")
    text = (tmp_path / "page" / "results.md").read_text()
    content = read_checkpoint(folder).content[:16]
    for words in (f"read the weights of small (family gpt2, content {content}, licence mit)", caveat):
        assert words in text
    snapshot = take_snapshot(bound.plan, results, bound.store)
    file = tmp_path / "results.json"
    file.write_text(json.dumps(snapshot.document(results, [])))
    again = read_snapshot([file])
    assert again.results().rows() == results.rows()
    assert any(caveat in str(text) for text in again.results().caveats)


def test_the_spec_of_a_checkpoint_alone_reads_no_numbers(folder: Path) -> None:
    spec = read(CheckpointSpec, {"source": "small"})
    data = folder / "model.safetensors"
    whole = data.read_bytes()
    data.write_bytes(whole[:-4])
    with pytest.raises(BadInput, match="cut short"):
        spec.settled()
    data.write_bytes(whole)
    assert spec.fields.spec.width == 8
