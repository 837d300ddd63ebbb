"""Train scores of a record: those of the outputs that the training steps had, over a break too."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from support.made_tasks import MadeSpec

from headstart.objectives import ClassifySpec
from headstart.sequence import IGNORE, Batch
from headstart.spec import merge
from headstart.stage import read_stage
from headstart.stage.trained import TrainedRun
from headstart.tasks import open_task
from headstart.training.evaluate import TrainMetrics

BASE: dict[str, Any] = {
    "objective": {"kind": "classify"},
    "budget": {"epochs": 4},
    "model": {"width": 8, "blocks": 1, "dropout": 0.1, "mixer": {"kind": "attention", "heads": 2}},
    "optim": {"lr": 5e-3, "batch_size": 7},
}
"""Of 48 sequences the last batch of an epoch has 6; of 24 pairs 3."""

NUMBERS = {"task": MadeSpec(shape="numbers"), "objective": {"kind": "regress"}}
CASES: dict[str, dict[str, Any]] = {
    "classify": {},
    "weighted": {"objective": {"class_weights": [1.0, 3.0]}},
    "half precision": {"optim": {"precision": "bfloat16"}},
    "positions": {"task": MadeSpec(shape="positions")},
    "pairs": {"task": MadeSpec(shape="pairs"), "objective": {"kind": "retrieve"}},
    "numbers": NUMBERS,
    "masked tokens": {"task": MadeSpec(tokens=True), "objective": {"kind": "masked", "loss": "tokens"}},
    "masked with gaps": {"task": MadeSpec(gaps=True), "objective": {"kind": "masked", "loss": "l2"}},
}

Seen = tuple[torch.Tensor, Batch]


def started(name: str, resume: Any = None, **more: Any) -> TrainedRun:
    changes = merge(CASES[name], more)
    task = changes.pop("task", MadeSpec())
    spec = read_stage({**merge(BASE, changes), "task": task})
    return TrainedRun(spec, open_task(task, Path("none")), None, resume=resume)


def ended(run: TrainedRun) -> list[dict[str, Any]]:
    records = [tick.record for tick in run.steps() if tick.record is not None]
    return [{k: v for k, v in record.items() if k != "seconds"} for record in records]


def watched(run: TrainedRun, monkeypatch: pytest.MonkeyPatch) -> list[Seen]:
    """What training steps have the objective measure, from now on."""
    kind, seen = type(run.setting.objective), []
    real = kind.measure

    def measure(self, output, batch, signature):
        if torch.is_grad_enabled():
            seen.append((output.detach().clone(), batch))
        return real(self, output, batch, signature)

    monkeypatch.setattr(kind, "measure", measure)
    return seen


def answers(name: str, output: torch.Tensor, batch: Batch) -> list[tuple[int, int]]:
    """(answer, truth) of everything that was asked of a batch, one at a time."""
    pairs = []
    if name == "masked tokens":
        assert batch.masked is not None
        for row, position in batch.masked.nonzero().tolist():
            pairs.append((int(output[row, position].argmax()), int(batch.inputs[row, position])))
        return pairs
    assert batch.target is not None
    target = batch.target[::2] if name == "pairs" else batch.target.flatten()
    for logits, truth in zip(output.reshape(-1, output.shape[-1]), target.tolist(), strict=True):
        if truth != IGNORE:
            pairs.append((int(logits.argmax()), truth))
    return pairs


def accuracies(name: str, batches: list[Seen]) -> dict[str, float]:
    pairs = [pair for output, batch in batches for pair in answers(name, output, batch)]
    scores = {"accuracy": sum(answer == truth for answer, truth in pairs) / len(pairs)}
    if name == "weighted":
        weights = [(1.0, 3.0)[truth] for _, truth in pairs]
        hits = [weight for weight, (answer, truth) in zip(weights, pairs, strict=True) if answer == truth]
        scores["weighted_accuracy"] = sum(hits) / sum(weights)
    return scores


def r2(name: str, batches: list[Seen]) -> dict[str, float]:
    """1 - squared error / squared distance from the mean of the window, averaged over two targets or channels."""
    outputs: list[list[float]] = [[], []]
    true: list[list[float]] = [[], []]
    for output, batch in batches:
        if name == "numbers":
            assert batch.target is not None
            answer, truth, there = output, batch.target, ~batch.target.isnan()
        else:
            assert batch.masked is not None
            assert batch.observed is not None
            answer, truth, there = output, batch.inputs, batch.masked.unsqueeze(-1) & batch.observed
        for *position, column in there.nonzero().tolist():
            outputs[column].append(float(answer[(*position, column)]))
            true[column].append(float(truth[(*position, column)]))
    shares = []
    for ours, theirs in zip(outputs, true, strict=True):
        mean = sum(theirs) / len(theirs)
        error = sum((a - b) ** 2 for a, b in zip(ours, theirs, strict=True))
        shares.append(1 - error / sum((b - mean) ** 2 for b in theirs))
    return {"r2": sum(shares) / 2}


@pytest.mark.parametrize("name", CASES)
def test_train_scores_are_those_of_the_outputs_that_training_had(name, monkeypatch):
    run = started(name)
    seen = watched(run, monkeypatch)
    records = ended(run)
    assert len(seen) == run.progress.step  # No forward pass besides.
    reference = r2 if name in ("numbers", "masked with gaps") else accuracies
    last = 0
    for record in records:
        scores = dict(record["train"])
        assert scores.keys() == record["val"].keys()
        assert scores.pop("loss") > 0
        assert scores == pytest.approx(reference(name, seen[last : record["step"]]), abs=1e-6)
        last = record["step"]
    assert last == run.progress.step
    assert len({record["train"]["loss"] for record in records}) > 1


def cut(name: str, at: int) -> tuple[list[dict[str, Any]], Any]:
    """Records up to a step, and the state there."""
    records, state = [], None
    for tick in started(name).steps():
        records += [{k: v for k, v in tick.record.items() if k != "seconds"}] if tick.record is not None else []
        if tick.step == at:
            state = tick.state()
            break
    return records, state


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("at", [1, 4, 5, 6])
def test_a_window_goes_on_over_a_break(name, at):
    whole = ended(started(name))
    first, state = cut(name, at)
    assert first + ended(started(name, state)) == whole


@pytest.mark.parametrize("name", ["classify", "numbers"])
def test_a_state_of_older_versions_gives_its_window_the_loss_alone(name):
    whole, (first, state) = ended(started(name)), cut(name, 4)
    tensors = {key: value for key, value in state[0].items() if not key.startswith("running/")}
    tensors["running"] = torch.stack([state[0]["running/loss"], state[0]["running/count"]])
    numbers = state[1]
    later = started(name, (tensors, numbers))
    ticks = later.steps()
    assert next(ticks).record is None
    again = started(name, later.progress.state())  # A second break within the same window.
    for run in (started(name, (tensors, numbers)), again):
        records = first + ended(run)
        short = records[len(first)]
        assert short["train"] == {"loss": whole[len(first)]["train"]["loss"]}
        assert short["val"] == whole[len(first)]["val"]
        assert records[len(first) + 1 :] == whole[len(first) + 1 :]


def test_a_diverged_run_has_no_train_scores():
    record = ended(started("numbers", optim={"lr": 1e30, "schedule": "constant"}))[-1]
    assert record["train"] == {"loss": None}


def test_a_sum_that_is_no_number_leaves_the_loss_alone():
    running = TrainMetrics(torch.device("cpu"))
    good = {"loss": torch.tensor(3.0), "count": torch.tensor(4), "hits": torch.tensor(2)}
    running.add({**good, "hits": torch.tensor(math.inf)})
    assert running.scores(ClassifySpec()) == {"loss": 0.75}
    address = running.flat.data_ptr()
    running.clear()
    running.add(good)
    assert running.scores(ClassifySpec()) == {"loss": 0.75, "accuracy": 0.5}
    assert running.flat.data_ptr() == address
