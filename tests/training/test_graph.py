"""A step that reads its numbers from the device is the plain step, recorded or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from support.tape import Tape, taped, tensors_of
from support.thinned import thinned

from headstart.models.model import ModelSpec, build_model
from headstart.objectives import ClassifySpec, MaskedSpec, ObjectiveSpec, RegressSpec, RetrieveSpec
from headstart.seeds import Draw
from headstart.sequence import Examples, Signature, collate
from headstart.spec import read
from headstart.training import batches, graph
from headstart.training.batches import Batches
from headstart.training.graph import GraphedStep
from headstart.training.loop import BudgetSpec, Progress, TrainConfig, train
from headstart.training.optim import FlatParameters, OptimSpec, Weights, rates_and_undecayed, step_numbers
from headstart.training.step import TrainStep, on_device

UNITS, LENGTH, BATCH = 22, 12, 4
"""Five full batches an epoch, and one of two."""
STEPS = 40
"""Six epochs and four steps, two looks for NaN, ten evaluations."""


@dataclass(frozen=True)
class Case:
    """What is trained: each case brings in something that a recorded step must carry."""

    objective: ObjectiveSpec
    model: dict[str, Any] = field(default_factory=dict)
    optim: dict[str, Any] = field(default_factory=dict)
    paired: bool = False
    ragged: bool = False
    tokens: bool = False

    def make(self, record: Any, steps: int = STEPS) -> tuple[TrainConfig, Progress]:
        number = isinstance(self.objective, RegressSpec)
        signature = Signature(
            "tokens" if self.tokens else "floats",
            5 if self.tokens else 2,
            LENGTH,
            LENGTH,
            "number" if number else "class",
            classes=3,
            paired=self.paired,
        )
        dtype = torch.float64 if self.optim.get("precision") == "float64" else torch.float32
        feed = Batches(_examples(self, number), np.arange(UNITS), torch.device("cpu"), dtype)
        spec = read(ModelSpec, {"width": 16, "blocks": 2, **self.model})
        model = build_model(spec, signature, self.objective.output(signature), 0).to(dtype)
        names = [name for name, _ in model.named_parameters()]
        rates, undecayed = rates_and_undecayed(model)
        flat = FlatParameters(model, names, {name for name in names if "weight" in name} - undecayed, rates)
        optim = read(OptimSpec, {"batch_size": BATCH, "lr": 1e-2, **self.optim})
        return (
            TrainConfig(self.objective, signature, optim, BudgetSpec(steps=steps), 7, feed, feed, record=record),
            Progress(model, flat),
        )


def _examples(case: Case, number: bool) -> Examples:
    draw = np.random.default_rng(0)
    rows = UNITS * (2 if case.paired else 1)
    lengths = draw.integers(5, LENGTH + 1, rows) if case.ragged else np.full(rows, LENGTH)
    values = draw.standard_normal((int(lengths.sum()), 2)).astype(np.float32)
    target = draw.standard_normal(rows).astype(np.float32) if number else draw.integers(0, 3, rows)
    return Examples(
        draw.integers(0, 5, len(values)) if case.tokens else values,
        np.concatenate([[0], np.cumsum(lengths)]),
        target,
        np.arange(rows),
        paired=case.paired,
    )


MASKED = MaskedSpec(mask_rate=0.5, loss="l1")
CASES = {
    "masks": Case(MASKED),
    "masked tokens": Case(MaskedSpec(mask_rate=0.3, loss="tokens"), tokens=True),
    "joined tokens": Case(MaskedSpec(mask_rate=0.3, loss="tokens"), {"encoder": {"patch": 5}}, tokens=True),
    "dropout, running statistics, clipping": Case(ClassifySpec(), {"dropout": 0.2, "norm": "batch"}, {"clip": 0.1}),
    "decay, warm-up, pools": Case(ClassifySpec(), optim={"weight_decay": 0.1, "warmup_steps": 9, "length_pool": 2}),
    "rates of their own": Case(RegressSpec(), {"mixer": {"kind": "s4d"}}, {"weight_decay": 0.1}),
    "pairs": Case(RetrieveSpec(), paired=True),
    "bfloat16": Case(MASKED, {"position": {"kind": "rotary"}}, {"precision": "bfloat16"}),
}


def eager(step: Callable[[], None]) -> Callable[[], None]:
    """Plays by calling: the step itself, without a recording."""
    step()
    return step


def run(case: Case, record: Any, steps: int = STEPS) -> tuple[Progress, list[Any]]:
    setting, progress = case.make(record, steps)
    records = [tick.record for tick in train(setting, progress) if tick.record is not None]
    return progress, [{k: v for k, v in record.items() if k != "seconds"} for record in records]


def same(first: Progress, second: Progress) -> bool:
    """All tensors and numbers equal to the bit, times apart."""
    (tensors, numbers), (others, theirs) = first.state(), second.state()
    numbers.pop("seconds"), theirs.pop("seconds")
    if numbers != theirs or tensors.keys() != others.keys():
        return False
    return all(torch.equal(tensors[name], others[name]) for name in tensors)


@pytest.mark.parametrize("record", [taped, pytest.param(eager, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_recorded_steps_give_the_bits_of_plain_ones(name, record):
    (plain, records), (played, theirs) = run(CASES[name], None), run(CASES[name], record)
    assert (plain.how, played.how) == ("plain: asked for", "recorded")
    assert records == theirs
    assert all(record["train"].keys() == record["val"].keys() for record in records)
    assert same(plain, played)


def test_a_tape_freezes_what_python_works_out():
    """The stand-in can fail: a plain step that is recorded keeps the rate of its own time."""
    weights = []
    for played in (True, False):
        config, progress = Case(ClassifySpec(), optim={"warmup_steps": 2}).make(None)
        flat, batch, optim = progress.flat, config.train.batch(np.arange(BATCH)), config.optim
        step = TrainStep(progress.model, config.objective, config.signature, optim, (flat.tensors, {}), flat.groups)
        trained = Weights(flat.weights, flat.tensors)

        def take(index, step=step, trained=trained, flat=flat, batch=batch, optim=optim):
            step(trained, flat.moments, {}, batch, step_numbers(optim, flat.groups, STEPS, index), 7, 0)

        tape = Tape([*tensors_of(flat), *tensors_of(batch), *progress.model.buffers()])
        with tape:
            take(0)
        if played:
            tape.play()
        else:
            take(1)
        weights.append(flat.weights)
    assert float((weights[0] - weights[1]).abs().max()) > 1e-3


def test_a_step_that_asks_for_a_number_is_not_recorded_and_training_goes_on_plainly(monkeypatch):
    real = TrainStep.forward_loss

    def asking(*arguments):
        sums, statistics = real(*arguments)
        assert float(sums["loss"].detach()) > 0
        return sums, statistics

    monkeypatch.setattr(TrainStep, "forward_loss", asking)
    (plain, records), (played, theirs) = run(CASES["masks"], None), run(CASES["masks"], taped)
    assert played.how.startswith("plain: a step could not be recorded (aten._local_scalar_dense")
    assert records == theirs
    assert same(plain, played)


def test_a_seed_that_is_made_a_tensor_in_the_step_is_not_recorded(monkeypatch):
    """What a GPU would have to wait for: a number that Python copies to it."""
    real = TrainStep.forward_loss
    monkeypatch.setattr(TrainStep, "forward_loss", lambda *arguments: real(*arguments[:-2], 7, 0))
    assert "a tensor that Python made" in run(CASES["masks"], taped)[0].how


def test_a_stage_resumed_between_recorded_steps_ends_as_one_in_one_go():
    whole, records = run(CASES["decay, warm-up, pools"], taped)
    setting, first = CASES["decay, warm-up, pools"].make(taped)
    seen, state = [], None
    for tick in train(setting, first):
        seen += [tick.record] if tick.record is not None else []
        if tick.step == 15:  # In the middle of the third epoch.
            state = tick.state()
            break
    assert state is not None
    setting, second = CASES["decay, warm-up, pools"].make(taped)
    second.restore(*state)
    seen += [tick.record for tick in train(setting, second) if tick.record is not None]
    assert second.how == "recorded"
    assert [{k: v for k, v in record.items() if k != "seconds"} for record in seen] == records
    assert same(whole, second)


def test_a_loss_that_is_no_number_ends_recorded_steps_where_it_ends_plain_ones():
    case = Case(RegressSpec(), optim={"lr": 1e30, "schedule": "constant"})
    (plain, records), (played, theirs) = run(case, None, 100), run(case, taped, 100)
    assert (plain.diverged, played.diverged) == (True, True)
    assert plain.step == played.step == 10  # The first evaluation.
    assert records == theirs


def test_weights_that_become_no_number_between_evaluations_are_seen_within_twenty_steps():
    case = Case(RegressSpec())
    for record in (None, taped):
        setting, progress = case.make(record, 400)
        progress.rest.watched = False  # else it is memory that has changed
        for tick in train(setting, progress):
            if tick.step == 24:
                progress.flat.weights.fill_(float("nan"))
        assert (progress.diverged, progress.step) == (True, 40)


def test_where_steps_are_not_recorded_they_are_taken_plainly_and_say_why(monkeypatch):
    progress, records = run(CASES["masks"], "auto")
    assert progress.how == "plain: steps are not recorded on this device"
    other, theirs = run(CASES["masks"], None)
    assert records == theirs
    assert same(progress, other)
    setting, progress = CASES["masks"].make(taped)
    still = Progress(progress.model, FlatParameters(progress.model, [], set(), {}))
    next(train(setting, still))
    assert still.how == "plain: nothing is trained"
    monkeypatch.setattr(batches, "room", lambda _: 0.0)
    assert run(CASES["masks"], taped, 1)[0].how == "plain: the examples are too many to be held on the device"


def doubled(name: str) -> Case:
    """A case whose sequences differ in length, in float64: AdamW makes whole steps of float32's rounding."""
    return replace(CASES[name], ragged=True, optim={**CASES[name].optim, "precision": "float64"})


RAGGED = [name for name in CASES if name != "bfloat16"]


@pytest.mark.parametrize("name", thinned(RAGGED, 2))
def test_sequences_of_different_length_have_a_recorded_step_for_each_padded_length(name, monkeypatch):
    monkeypatch.setattr(graph, "bucket", lambda length, longest: min(-(-length // 4) * 4, longest))
    steps: list[GraphedStep] = []
    real = GraphedStep.start_epoch
    monkeypatch.setattr(GraphedStep, "start_epoch", lambda self, *a: (steps.append(self), real(self, *a))[1])
    case = doubled(name)
    (plain, records), (played, theirs) = run(case, None, 80), run(case, taped, 80)
    assert played.how == "recorded"
    assert set(steps[-1].replays) >= ({8, 12} if case.optim.get("length_pool") else {12})
    assert all(length % 4 == 0 for length in steps[-1].replays)
    far = (plain.flat.weights - played.flat.weights).abs().max()
    assert float(far) <= 1e-9 * float(plain.flat.weights.abs().max())
    assert [record["step"] for record in records] == [record["step"] for record in theirs]
    losses = [[record["train"]["loss"] for record in each] for each in (records, theirs)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-9)


def test_padded_lengths_are_few_and_waste_at_most_a_quarter():
    lengths = {length: batches.bucket(length, 5000) for length in range(1, 5001)}
    assert all(length <= padded <= max(1.25 * length, length + 7) for length, padded in lengths.items())
    assert len(set(lengths.values())) <= 4 * 13
    assert batches.bucket(70, 72) == 72
    assert batches.bucket(12, 12) == 12


def fresh_epochs(setting: TrainConfig, ragged: bool) -> Callable[[int], Batches]:
    """Examples of each epoch's own, as many in each; later epochs have longer ones where they differ in length."""

    def fresh(epoch: int) -> Batches:
        draw = np.random.default_rng(epoch)
        low = min(5 + epoch, LENGTH)
        lengths = draw.integers(low, LENGTH + 1, UNITS) if ragged else np.full(UNITS, LENGTH)
        values = draw.standard_normal((int(lengths.sum()), 2)).astype(np.float32)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        examples = Examples(values, offsets, draw.integers(0, 3, UNITS), UNITS * epoch + np.arange(UNITS))
        return Batches(examples, np.arange(UNITS), setting.train.device, setting.train.dtype)

    return fresh


@pytest.mark.parametrize("ragged", [False, True])
def test_epochs_with_examples_of_their_own_are_recorded_once(ragged, monkeypatch):
    monkeypatch.setattr(graph, "bucket", lambda _, longest: longest)
    recorded = []
    outcomes = []
    for record in (None, lambda step: (recorded.append(1), taped(step))[1]):
        setting, progress = (doubled("masks") if ragged else CASES["masks"]).make(record)
        setting = replace(setting, fresh=fresh_epochs(setting, ragged))
        list(train(setting, progress))
        outcomes.append(progress)
    plain, played = outcomes
    assert played.how == "recorded"
    far = float((plain.flat.weights - played.flat.weights).abs().max())
    assert far <= (1e-9 if ragged else 0) * float(plain.flat.weights.abs().max())
    # Of seven epochs the longer ones need more room than the first left; after each such a step is recorded anew.
    assert (1 < len(recorded) < 7) if ragged else len(recorded) == 1


def test_a_recorder_of_the_device_is_taken_by_itself(monkeypatch):
    monkeypatch.setitem(graph.RECORDERS, "cpu", taped)
    assert run(CASES["masks"], "auto")[0].how == "recorded"


@pytest.mark.parametrize(
    ("switch", "equal", "how"),
    [
        (None, True, graph.cuda_graph),
        (None, False, graph.cuda_graph),
        ("0", True, "HEADSTART_GRAPHS=0 asks for it"),
    ],
)
def test_which_steps_of_a_gpu_are_recorded(switch, equal, how, monkeypatch):
    batches = SimpleNamespace(device=torch.device("cuda"), fits=True, equal=equal)
    monkeypatch.delenv("HEADSTART_GRAPHS", raising=False)
    if switch is not None:
        monkeypatch.setenv("HEADSTART_GRAPHS", switch)
    assert graph.choose_recorder("auto", batches, trained=True, alone=True) == how


def test_the_first_steps_are_not_recorded_and_no_other_is_performed_twice(monkeypatch):
    calls = []
    real = GraphedStep.__call__
    monkeypatch.setattr(GraphedStep, "__call__", lambda self, *a: (calls.append(1), real(self, *a))[1])
    progress, _ = run(CASES["masks"], taped, 12)
    assert len(calls) == graph.WARM + 1
    assert progress.step == 12


def test_numbers_on_the_device_draw_the_same_masks_and_dropout():
    setting, _ = CASES["masks"].make(None)
    batch = setting.train.batch(np.arange(5))
    there = [torch.full((), number, dtype=torch.int64) for number in (7, 3)]
    masked = setting.objective.prepare(batch, setting.signature, 7, 3).masked
    two = setting.objective.prepare(batch, setting.signature, *there).masked
    assert torch.equal(cast(torch.Tensor, masked), cast(torch.Tensor, two))
    assert torch.equal(Draw(7, 3, batch.index)("a", (5, 4)), Draw(*there, batch.index)("a", (5, 4)))
    assert on_device(7, torch.device("cpu")) == 7
    assert on_device(7, torch.device("meta")).shape == ()


@pytest.mark.parametrize("name", ["masks", "pairs", "ragged", "ragged pairs", "per position", "missing"])
def test_a_batch_picked_by_rows_on_the_device_is_the_batch_of_its_units(name):
    ragged, position = name not in ("masks", "pairs"), name == "per position"
    examples = _examples(replace(CASES["pairs" if "pairs" in name else "masks"], ragged=ragged), number=position)
    draw = np.random.default_rng(1)
    if position:
        examples = replace(examples, target=draw.standard_normal(len(examples.values)), per_position=True)
    if name == "missing":
        examples = replace(examples, observed=draw.random(examples.values.shape) < 0.7)
    feed = Batches(examples, np.arange(3, UNITS), torch.device("cpu"), torch.float32)
    places = np.array([5, 0, 18])
    length = LENGTH if not ragged else int(feed.lengths[places].max()) + 2
    expected = collate(examples, feed.units[places], length).to(feed.device, feed.dtype)
    picked = feed.picked(torch.from_numpy(feed.rows(places)), length)
    assert picked.tensors().keys() == expected.tensors().keys()
    for key, value in expected.tensors().items():
        assert value.dtype == picked.tensors()[key].dtype
        assert torch.equal(value.nan_to_num(7.0), picked.tensors()[key].nan_to_num(7.0)), key
    assert list(picked.index) == list(examples.index[examples.rows(feed.units[places])])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_cuda_graph_agrees_with_plain_steps():
    outcomes = []
    for record in (None, "auto"):
        setting, progress = CASES["masks"].make(record)
        progress.model.cuda()
        names = list(progress.flat.tensors)
        progress = Progress(progress.model, FlatParameters(progress.model, names, set(), {}))
        feed = Batches(setting.train.examples, np.arange(UNITS), torch.device("cuda"), torch.float32)
        list(train(replace(setting, train=feed, val=feed, budget=BudgetSpec(steps=20)), progress))
        outcomes.append(progress)
    assert outcomes[1].how == "recorded"
    plain, graphed = (progress.flat.tensors for progress in outcomes)
    # The gradient of a key's bias is zero but for rounding, and AdamW makes whole steps of rounding.
    far = max(float((plain[name] - graphed[name]).abs().max()) for name in plain if "key.bias" not in name)
    assert far <= 1e-5 * float(outcomes[0].flat.weights.abs().max())
