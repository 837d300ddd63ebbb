"""Frozen features of models of series: under a linear readout, as stages, and as what a saved model holds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.made_tasks import MadeSpec
from support.series_models import saved_series

import headstart.baselines.embedding as embedding
import headstart.baselines.remembered as remembered
from headstart.baselines import from_arrays, shapes
from headstart.baselines.embedding import Embedding, EmbeddingSpec
from headstart.baselines.remembered import KNOWN_ROWS
from headstart.checkpoints import SERIES
from headstart.errors import BadInput
from headstart.sequence import Examples
from headstart.stage import StageSpec, begin, identity, load_model, read_stage
from headstart.tasks import open_task

NOWHERE = Path("nowhere")
CLASSIFY: dict[str, Any] = {"objective": {"kind": "classify"}}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small models in the folder of weights; nothing is in the hub's cache."""
    monkeypatch.setattr("headstart.checkpoints.source._cache", lambda: "")
    monkeypatch.setenv("HEADSTART_WEIGHTS", str(tmp_path / "weights"))
    monkeypatch.chdir(tmp_path)
    for kind in SERIES:
        saved_series(tmp_path / "weights" / kind, kind)
    return tmp_path


def stage(source: str, task: Any = None, **more: Any) -> StageSpec:
    model = {"kind": "embedding", "source": source}
    return read_stage({"task": task or MadeSpec(gaps=True), "model": model, **CLASSIFY, **more})


def values_of(count: int, channels: int, gaps: float = 0.1) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    values = [rng.normal(size=(rng.integers(1, 70), channels)) for _ in range(count)]
    for x in values:
        x[rng.random(x.shape) < gaps] = np.nan
    return values


def rows(count: int, channels: int) -> Examples:
    return Examples.from_arrays(values_of(count, channels), np.arange(count) % 2)


@pytest.mark.parametrize("kind", SERIES)
def test_a_row_does_not_depend_on_its_company_or_on_what_is_remembered(kind: str) -> None:
    x = rows(12, 3)
    features = EmbeddingSpec(source=kind).features(3)
    whole = features.transform(x)
    assert whole.shape == (12, 3 * features.encoder.size)
    KNOWN_ROWS.clear()
    for row in (11, 4, 0):
        assert np.array_equal(features.transform(x.take(np.array([row]))), whole[row : row + 1])
    single = Examples.from_arrays([values_of(12, 3)[5][:, 1:2]], np.zeros(1, dtype=int))
    alone = EmbeddingSpec(source=kind).features(1).transform(single)
    size = features.encoder.size
    assert np.abs(alone[0] - whole[5, size : 2 * size]).max() < 1e-5 * np.abs(whole[5]).max(), "channels one by one"


def test_of_many_channels_the_mean_over_them_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    x = rows(3, 5)
    features = EmbeddingSpec(source="moment").features(5)
    whole = features.transform(x).reshape(3, 5, -1)
    monkeypatch.setattr(embedding, "MOST_FEATURES", 4 * features.encoder.size)
    monkeypatch.setattr(embedding, "CHANNELS_AT_ONCE", 2)
    KNOWN_ROWS.clear()
    assert features.transform(x) == pytest.approx(whole.mean(1), abs=1e-6)
    KNOWN_ROWS.clear()


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    KNOWN_ROWS.clear()
    features = EmbeddingSpec(source="moment").features(1)
    monkeypatch.setattr(remembered, "REMEMBERED", 3 * 4 * features.size)
    features.transform(rows(10, 1))
    assert len(KNOWN_ROWS) == 3


@pytest.mark.parametrize(
    ("shape", "objective"), [("class", "classify"), ("numbers", "regress"), ("pairs", "retrieve")], ids=str
)
def test_a_stage_keeps_what_it_learned_and_finds_the_encoder_again(shape: Any, objective: str, folder: Path) -> None:
    spec = stage("chronos_bolt", MadeSpec(shape=shape, gaps=True), objective={"kind": objective}).settled()
    task = open_task(spec.task, NOWHERE)
    run = begin(spec, task, None)
    assert list(run.steps()) == []
    done = run.finish()
    assert sorted(done.best) == ["intercept", "weights"]
    assert "regression on frozen features of chronos_bolt" in done.title
    fitted = load_model(spec, task, done.best, {"model": json.loads(json.dumps(done.model))})
    expected = done.predictions["test/output"].numpy().squeeze()
    predicted = np.asarray(fitted.predict(task.test.take(task.test.labelled_units())))
    predicted = np.log(predicted) if shape != "numbers" else predicted
    assert predicted.squeeze() == pytest.approx(expected, abs=1e-5)
    whole = fitted.arrays()
    assert {name: (str(x.dtype), x.shape) for name, x in whole.items()} == shapes(done.model)
    shutil.rmtree(folder / "weights")
    again = from_arrays(done.model, whole)
    assert np.array_equal(again.predict(task.val), fitted.predict(task.val)), "a saved model needs no source"
    embedding._weights.cache_clear()
    with pytest.raises(BadInput, match=r"model\.source: 'chronos_bolt' is neither a folder nor in"):
        load_model(spec, task, done.best, {"model": done.model})


def test_the_identity_is_the_content_and_no_place(folder: Path) -> None:
    first = identity(stage("mantis"), NOWHERE)
    shutil.copytree(folder / "weights" / "mantis", folder / "copy")
    moved = stage(str(folder / "copy"))
    assert identity(moved, NOWHERE) == first
    content = moved.settled().model.content
    shutil.rmtree(folder / "copy")
    absent = stage("elsewhere", model={"kind": "embedding", "source": "elsewhere", "content": content})
    assert identity(absent, NOWHERE) == first
    saved_series(folder / "weights" / "mantis", "mantis", seed=1)
    assert identity(stage("mantis"), NOWHERE) != first
    with pytest.raises(BadInput, match=r"model\.content: .*mantis holds [0-9a-f]{64}, and [0-9a-f]{64} is meant"):
        stage("mantis", model={"kind": "embedding", "source": "mantis", "content": content}).settled()
    with pytest.raises(BadInput, match=r"model\.source: 'none' is neither a folder nor in"):
        identity(stage("none"), NOWHERE)


def test_what_is_no_model_of_series_or_no_series_gets_one_message(folder: Path) -> None:
    t5 = {"model_type": "t5", "d_model": 8, "d_kv": 4, "num_heads": 2, "num_layers": 1, "d_ff": 12}
    from support.checkpoints import GPT2, saved

    saved(folder / "weights" / "chronos-t5", {**t5, "chronos_config": {"tokenizer_class": "MeanScaleUniformBins"}})
    with pytest.raises(BadInput, match=r"chronos-t5: holds no tokenizer\.json, which says how a text becomes pieces"):
        stage("chronos-t5").settled()
    saved(folder / "weights" / "gpt2", GPT2)
    with pytest.raises(
        BadInput, match=r"model\.source: 'gpt2' is of family 'gpt2', of which no frozen features are read"
    ):
        stage("gpt2").settled()
    tokens = stage("moment", MadeSpec(tokens=True))
    with pytest.raises(BadInput, match="a model of series reads numbers, and the sequences are of symbols"):
        begin(tokens, open_task(tokens.task, NOWHERE), None)
    with pytest.raises(BadInput, match=r"model\.like: .*its blocks read its own patches alone; frozen features of it"):
        read_stage({"task": MadeSpec(), **CLASSIFY, "model": {"like": "MOMENT-1-small"}})
    taken = read_stage({"checkpoint": {"source": "moment"}})
    with pytest.raises(BadInput, match=r"checkpoint\.source: 'moment' is a model of series, whose blocks read its own"):
        begin(taken, None, None)


def test_facts_that_cannot_be_are_refused_before_anything_is_read() -> None:
    x = rows(20, 2)
    spec = EmbeddingSpec(source="moment")
    task = open_task(MadeSpec(), NOWHERE)
    fitted = spec.fit(x, x, task.signature, 0)
    assert isinstance(fitted.features, Embedding)
    facts = fitted.facts.model_dump(mode="json")
    with pytest.raises(BadInput, match=r"'size' does not fit the other facts"):
        shapes({**facts, "size": 7})
    with pytest.raises(BadInput, match=r"model\.encoder\.patch: 0 should be greater"):
        shapes({**facts, "encoder": {**facts["encoder"], "patch": 0}})
    arrays = fitted.arrays()
    with pytest.raises(BadInput, match=r"array 'encoder\.norm\.weight' is missing"):
        from_arrays(facts, {name: array for name, array in arrays.items() if name != "encoder.norm.weight"})
    assert torch.is_inference_mode_enabled() is False
