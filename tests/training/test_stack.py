"""A stack of stages: whatever becomes of one, the others are what they are alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from support.stacked import begun, differences, finished, together, turns
from support.tape import taped
from support.thinned import thinned
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from headstart.errors import StackTooLarge
from headstart.models.mixers import MIXERS
from headstart.models.mixers.mixer import MixerSpec
from headstart.plugins.kinds import PluginEntry
from headstart.stage.trained import TrainedRun
from headstart.training import stack as stacks
from headstart.training.batches import Batches
from headstart.training.stack import Stack

BASE: dict[str, Any] = {
    "objective": {"kind": "classify"},
    "budget": {"steps": 30, "evaluate_every": 5},
    "model": {"width": 8, "blocks": 1, "mixer": {"kind": "attention", "heads": 2}},
    "optim": {"lr": 1e-3, "batch_size": 10, "epsilon": 1e-4, "precision": "float64"},
}
CASES: dict[str, dict[str, Any]] = {
    "classes": {},
    "numbers, of which some are missing": {"objective": {"kind": "regress"}, "made": {"shape": "numbers"}},
    "a class of each position": {"made": {"shape": "positions"}},
    "pairs": {"objective": {"kind": "retrieve"}, "made": {"shape": "pairs"}},
    "weighted classes": {"objective": {"class_weights": (0.2, 0.8), "label_smoothing": 0.1}},
    "masked tokens in spans": {"objective": {"kind": "masked", "span": 2, "loss": "tokens"}, "made": {"tokens": True}},
    "masked tokens that are joined": {
        "objective": {"kind": "masked", "loss": "tokens"},
        "model": {"encoder": {"patch": 5}},
        "made": {"tokens": True},
    },
    "masked numbers with gaps": {"objective": {"kind": "masked"}, "made": {"gaps": True}},
    "causal": {"objective": {"kind": "causal"}, "model": {"causal": True}, "made": {"tokens": True}},
    "pools of lengths": {"optim": {"length_pool": 2}},
    "sgd": {"optim": {"kind": "sgd", "epsilon": 1e-8, "weight_decay": 0.1}},
    "muon": {"optim": {"kind": "muon", "weight_decay": 0.1}},
    "rates of a mixer's own": {"model": {"mixer": {"kind": "s4d", "state": 4}}, "optim": {"weight_decay": 0.1}},
    "features of frozen layers": {"trainable": "head", "budget": {"steps": None, "epochs": 6, "evaluate_every": 1}},
    "features that are pooled": {"trainable": "head", "model": {"norm": "none"}, "budget": {"steps": 40}},
}

RECORDED = [(case, shared) for case in CASES if not case.startswith("features") for shared in (False, True)]


@pytest.mark.parametrize("case", CASES)
def test_stages_of_every_sort_agree_with_those_alone(case: str) -> None:
    own = [{"seed": 0}, {"seed": 1, "optim": {"lr": 5e-3}}, {"seed": 2, "optim": {"clip": 0.1}}]
    alone, stacked = ([begun(mine, BASE, **CASES[case]) for mine in own] for _ in range(2))
    records = [finished(live) for live in alone]
    for live in stacked:  # what a stage does before its first step
        for feed in live.progress.features.values():
            assert len(list(feed.fill())) > 1
    assert bool(stacked[0].progress.features) == case.startswith("features")
    theirs = together(stacked)
    assert max(differences(alone, stacked)) <= 1e-10
    for mine, other in zip(records, theirs, strict=True):
        assert [row["step"] for row in mine] == [row["step"] for row in other]
        assert [row["val"]["loss"] for row in mine] == pytest.approx([row["val"]["loss"] for row in other], 1e-9)


@pytest.mark.parametrize(("case", "shared"), thinned(RECORDED, 5))
def test_recorded_steps_of_a_stack_are_its_plain_ones(case: str, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Played by a stand-in for a CUDA graph: to the bit, with a set of each stage's own and with one for all.

    Five stages in three places, with budgets of their own: they join and leave, and batches that end an epoch are short.
    """
    monkeypatch.setattr(Batches, "picks", property(lambda self: self.fits))  # held, as on a GPU
    own: list[dict[str, Any]] = [{"seed": s, "budget": {"steps": n}} for s, n in enumerate((60, 55, 40, 25, 60))]
    own[1]["optim"], own[2]["optim"] = {"lr": 5e-3}, {"clip": 0.1}
    check_recorded(own, case, shared)


@pytest.mark.parametrize("case", thinned(["pools of lengths", "classes", "a class of each position", "pairs"], 4))
def test_recorded_steps_read_the_examples_of_the_epoch(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each epoch of each stage has examples of its own: other ones, of other lengths where lengths differ."""
    monkeypatch.setattr(Batches, "picks", property(lambda self: self.fits))
    check_recorded([{"seed": s, "budget": {"steps": n}} for s, n in enumerate((60, 60, 40, 25, 60))], case, False, True)


def other_examples(train: Batches, epoch: int, seed: int) -> Batches:
    """As many examples of the set, drawn with replacement."""
    units = np.random.default_rng([seed, epoch]).integers(0, len(train.units), len(train.units))
    return Batches(train.examples.take(train.units[units]), np.arange(len(units)), train.device, train.dtype)


def check_recorded(own: list[dict[str, Any]], case: str, shared: bool, fresh: bool = False) -> None:
    """Stages in three places of a stack give the same bits whether their steps are recorded or not."""
    played: list[int] = []

    def record(step: Any) -> Any:
        play = taped(step)

        def again() -> None:
            played.append(1)
            play()

        return again

    def trained(record: Any) -> tuple[list[TrainedRun], list[Any]]:
        stack = Stack()
        stages = [begun(mine, BASE, **CASES[case]) for mine in own]
        for live in stages:
            train, seed = live.setting.train, live.setting.seed
            made = partial(other_examples, train, seed=seed) if fresh else None
            live.setting = replace(live.setting, record=record, fresh=made)
            if shared:
                live.join(stack)
        records = together(stages, 3, stack)
        assert stack.refusal == ""
        return stages, [[{k: v for k, v in row.items() if k != "seconds"} for row in rows] for rows in records]

    (plain, records), (recorded, theirs) = trained(None), trained(record)
    assert len(played) >= 10
    assert [live.progress.how for live in plain] != [live.progress.how for live in recorded]
    assert max(differences(plain, recorded)) == 0
    assert records == theirs


@pytest.mark.parametrize("mixer", ["delta_net", "linformer", "mamba", "attention"])
def test_in_half_precision_products_of_a_stack_are_as_precise_as_those_alone(mixer: str) -> None:
    model = {"mixer": {"kind": mixer, **({} if mixer == "mamba" else {"heads": 2})}}
    seen: list[torch.dtype] = []
    alone, stacked = (
        [begun({"seed": s}, BASE, model=model, optim={"precision": "bfloat16"}) for s in (0, 1)] for _ in range(2)
    )
    for live in alone:
        finished(live)
    layer = stacked[0].model.get_submodule("blocks.0.mixer")
    layer.register_forward_hook(lambda *call: seen.append(call[-1].dtype))
    stack = Stack()
    together(stacked, None, stack)
    assert stack.refusal == ""
    assert set(seen) == {torch.bfloat16}
    assert 0 < max(differences(alone, stacked)) <= 1e-2


def test_half_precision_agrees_within_its_rounding() -> None:
    alone, stacked = ([begun({"seed": s}, BASE, optim={"precision": "bfloat16"}) for s in (0, 1)] for _ in range(2))
    for live in alone:
        finished(live)
    together(stacked)
    assert stacked[0].progress.how == "stacked, 2 models"
    assert 0 < max(differences(alone, stacked)) <= 1e-2


def test_bits_do_not_depend_on_the_company() -> None:
    def weights(seeds: list[int]) -> torch.Tensor:
        stages = [begun({"seed": s}, BASE, model={"mixer": {"kind": "s4d", "state": 4}}) for s in seeds]
        together(stages)
        return stages[seeds.index(0)].progress.flat.weights

    first = weights([0])
    assert all(torch.equal(first, weights(seeds)) for seeds in ([0, 1], [3, 0, 4], [4, 3, 2, 1, 0]))


def test_a_model_that_diverges_changes_no_bit_of_the_others_and_its_place_goes_to_the_next() -> None:
    def run(rate: float) -> Any:
        own = [{"seed": 0}, {"seed": 1, "optim": {"lr": rate}}, {"seed": 2}, {"seed": 3}, {"seed": 4}]
        stages = [begun(mine, BASE, optim={"schedule": "constant"}, objective={"kind": "classify"}) for mine in own]
        order = [number for number, _ in turns(stages, Stack(), 3)]
        return stages, order

    (calm, turns_of_calm), (wild, turns_of_wild) = run(1e-3), run(1e300)
    assert [live.progress.diverged for live in wild] == [False, True, False, False, False]
    assert wild[1].progress.step < 30
    # Stage 3 takes the place as soon as it is free.
    assert turns_of_wild.index(3) < turns_of_calm.index(3)
    for number in (0, 2):
        mine, theirs = calm[number].progress.state(), wild[number].progress.state()
        assert all(torch.equal(value, theirs[0][name]) for name, value in mine[0].items())
        assert bool(torch.isfinite(theirs[0]["weights"]).all())
    alone = [begun({"seed": 3}, BASE, optim={"schedule": "constant"})]
    finished(alone[0])
    assert max(differences(alone, [wild[3]])) <= 1e-10


def test_a_model_whose_patience_ends_leaves_and_the_others_go_on() -> None:
    own = [{"seed": 0}, {"seed": 1, "budget": {"patience": 1, "evaluate_every": 1}, "optim": {"lr": 1e-9}}, {"seed": 2}]
    alone, stacked = ([begun(mine, BASE) for mine in own] for _ in range(2))
    for live in alone:
        finished(live)
    together(stacked)
    steps = [live.progress.step for live in stacked]
    assert steps == [live.progress.step for live in alone]
    assert steps[1] < steps[0] == steps[2] == 30
    assert max(differences(alone, stacked)) <= 1e-10


def test_stages_at_other_steps_of_their_epochs_and_budgets_train_together() -> None:
    """Two at a time, budgets of their own: the short batch that ends an epoch comes to each at another moment."""
    own = [{"seed": s, "budget": {"steps": steps}} for s, steps in enumerate((7, 30, 12, 9, 21))]
    alone, stacked = ([begun(mine, BASE) for mine in own] for _ in range(2))
    for live in alone:
        finished(live)
    together(stacked, size=2)
    assert [live.progress.step for live in stacked] == [7, 30, 12, 9, 21]
    assert max(differences(alone, stacked)) <= 1e-10


def test_a_state_of_a_stack_goes_on_alone_and_one_of_a_stage_alone_in_a_stack() -> None:
    whole = [begun({"seed": s}, BASE) for s in (0, 1)]
    for live in whole:
        finished(live)
    first, second = ([begun({"seed": s}, BASE) for s in (0, 1)] for _ in range(2))
    states: dict[int, Any] = {}
    for number, tick in turns(first, Stack()):
        if tick.step == 13:
            states[number] = tick.state()
    for number, live in enumerate(second):
        live.progress.restore(*states[number])
    finished(second[0])
    other = begun({"seed": 0}, BASE)
    for tick in other.steps():
        if tick.step == 4:
            break
    third = [begun({"seed": 0}, BASE), second[1]]
    third[0].progress.restore(*tick.state())
    together(third)
    assert max(differences(whole, second)) <= 1e-10
    assert max(differences(whole, third)) <= 1e-10


def test_a_state_whose_sums_come_in_another_order_goes_on_beside_a_fresh_stage() -> None:
    """A file gives its tensors in any order: hits must not be added to losses."""
    alone, first, second = ([begun({"seed": s}, BASE) for s in (0, 1)] for _ in range(3))
    for tick in first[1].steps():
        if tick.step == 13:
            tensors, numbers = tick.state()
            break
    second[1].progress.restore(dict(reversed(tensors.items())), numbers)
    expected = [[tick.record for tick in live.steps() if tick.record is not None] for live in alone]
    records: list[list[Any]] = [[], []]
    for number, tick in turns(second, Stack()):
        if tick.record is not None:
            records[number].append(tick.record)
    assert records[0]
    for mine, theirs in zip(records, expected, strict=True):
        for record, other in zip(reversed(mine), reversed(theirs), strict=False):
            assert record["step"] == other["step"]
            assert record["train"] == pytest.approx(other["train"], rel=1e-6)


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts torch's operations by name, without those that only look at memory."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        if not function.is_view and name != "_unsafe_view":
            self.names[name] += 1
        return function(*args, **(kwargs or {}))


def operations(count: int) -> Counter[str]:
    """Of one step of so many models: of one alone, or of a stack."""
    model = {"width": 16, "blocks": 2, "position": {"kind": "rotary"}, "mixer": {"kind": "attention", "heads": 4}}
    stages = [begun({"seed": seed, "model": model}, BASE, optim={"precision": "float32"}) for seed in range(count)]
    stack = Stack()
    live = [stages[0].timed_steps()] if count == 1 else [stack.ticks(live.setting, live.progress) for live in stages]
    for _ in range(3):
        for ticks in live:
            next(ticks)
    with Operations() as counted:
        for ticks in live:
            next(ticks)
    return counted.names


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 4, 3)])
def test_layers_of_a_stack_take_inputs_of_any_shape_also_a_vector_of_parameters(shape: tuple[int, ...]) -> None:
    layer, x = nn.Linear(3, 5), torch.randn(shape)
    expected = layer(x)
    with stacks._Biases():
        torch.testing.assert_close(layer(x), expected)


def test_a_step_of_a_stack_has_as_many_products_as_one_of_a_model_alone_and_as_many_operations_for_any_size() -> None:
    alone, small, large = operations(1), operations(2), operations(6)
    products = ("mm", "addmm", "bmm", "baddbmm")
    assert sum(alone[name] for name in products) == small["bmm"] == large["bmm"]
    assert not any(large[name] for name in products if name != "bmm"), "models are in the batch of every product"
    padded = "constant_pad_nd"  # of each member's batch, where a CPU puts them together
    assert small - Counter({padded: small[padded]}) == large - Counter({padded: large[padded]})
    norms = 2 * 2 + 1
    assert large["mul"] == alone["mul"] + 3 * norms, "weights of norms, and their gradients; no bias is multiplied"
    assert sum(small.values()) < 1.5 * sum(alone.values())


def test_what_cannot_be_mapped_goes_on_alone_with_its_own_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Any:
        raise RuntimeError("no rule for this\nand more")

    alone, stacked = ([begun({"seed": s}, BASE) for s in (0, 1)] for _ in range(2))
    for live in alone:
        finished(live)
    monkeypatch.setattr(stacks._Rows, "_forward", refused)
    stack = Stack()
    together(stacked, stack=stack)
    assert stack.refusal == "no rule for this"
    assert max(differences(alone, stacked)) == 0


def test_a_stack_that_exceeds_memory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    stacked = [begun({"seed": s}, BASE) for s in (0, 1)]
    monkeypatch.setattr(stacks._Rows, "_forward", full)
    with pytest.raises(StackTooLarge, match="2"):
        together(stacked)


def test_stages_that_differ_in_more_than_numbers_are_refused() -> None:
    stages = [begun({}, BASE), begun({"model": {"width": 16}}, BASE)]
    with pytest.raises(ValueError, match="differ in numbers alone"):
        together(stages)


class Tied(nn.Module):
    """Sums from both sides, through one layer that has two names."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.onward, self.back = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.back.weight = self.onward.weight

    def forward(self, x: Any, valid: Any, draw: Any = None) -> Any:
        x = x if valid is None else x.masked_fill(~valid[:, :, None], 0.0)
        return self.onward(x).cumsum(1) + self.back(x.flip(1)).cumsum(1).flip(1)


class TiedSpec(MixerSpec):
    """A mixer with a tensor of two names."""

    kind: str = "tied"

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        return Tied(width)

    def flops(self, width: int, length: int, causal: bool) -> float:
        return 4.0 * length * width**2


def test_a_tensor_of_two_names_trains_in_a_stack_as_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MIXERS, "tied", PluginEntry("", "", cls=TiedSpec))
    own = [{"seed": seed, "model": {"mixer": TiedSpec()}} for seed in range(3)]
    alone, stacked = ([begun(mine, BASE) for mine in own] for _ in range(2))
    for live in alone:
        finished(live)
    stack = Stack()
    together(stacked, stack=stack)
    assert stack.refusal == ""
    assert max(differences(alone, stacked)) <= 1e-10
