"""What code of a person's own would do wrong late is seen before the first step, and nothing of the stage changes."""

from __future__ import annotations

import random
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
import torch
from support.stacked import begun, finished
from torch import Tensor, nn

from headstart.errors import BadInput
from headstart.models import MODELS
from headstart.models.mixers import MIXERS
from headstart.models.mixers.mixer import MixerSpec
from headstart.models.own import OwnModelSpec
from headstart.objectives import OBJECTIVES, ClassifySpec, Monitor
from headstart.plugins.kinds import PluginEntry
from headstart.stage.trained import TrainedRun

BASE: dict[str, Any] = {"objective": {"kind": "classify"}, "budget": {"steps": 4}, "optim": {"batch_size": 8}}


class Net(nn.Module):
    """Neighbours before each position and a layer; what else it does is its `fault`."""

    def __init__(self, width: int, inputs: int, fault: str) -> None:
        super().__init__()
        if fault == "seeding":
            torch.manual_seed(0)
        self.embed, self.last, self.fault, self.calls = nn.Linear(inputs, width), nn.Linear(width, width), fault, 0
        if fault == "building":
            nn.init.constant_(self.last.bias, float(np.random.default_rng().random()))
        if fault == "threads":
            torch.set_num_threads(torch.get_num_threads() + 1)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        length = x.shape[1]
        x = self.embed(x)
        if self.fault == "long" and length > 11:
            raise RuntimeError("too long")
        if self.fault == "short" and length < 6:
            raise RuntimeError("too short")
        if self.fault == "whole":
            return self.last(x + x.sum(1, keepdim=True))
        if self.fault == "future" and length > 6:
            return self.last(x.roll(-1, 1))
        if self.training and self.fault in ("numpy", "python", "counter", "own generator"):
            self.calls += 1
            drawn = {
                "numpy": np.random.rand,
                "python": random.random,
                "counter": lambda: 1 / self.calls,
                "own generator": np.random.default_rng().random,
            }[self.fault]
            x = x * (1 + float(drawn()))
        return self.last(x + nn.functional.pad(x, (0, 0, 1, 0))[:, :-1])


class NetSpec(OwnModelSpec):
    """A model of one's own with a fault."""

    kind: Literal["net"] = "net"
    width: int = 8
    fault: str = ""
    causal: ClassVar[bool] = True

    def build(self, signature: Any) -> nn.Module:
        return Net(self.width, signature.width, self.fault)


class AcausalSpec(NetSpec):
    """It says of itself that later positions are seen."""

    kind: Literal["acausal"] = "acausal"  # type: ignore[assignment]
    causal: ClassVar[bool] = False


class StatedSpec(NetSpec):
    """It says its FLOPs, and wrong ones."""

    kind: Literal["stated"] = "stated"  # type: ignore[assignment]

    def flops(self, signature: Any, length: int) -> float:
        return 1.0 * length


class Mixer(nn.Module):
    """Neighbours of the wrong side from 7 positions on."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x: Tensor, valid: Any, draw: Any = None) -> Tensor:
        x = x if valid is None else x.masked_fill(~valid[:, :, None], 0.0)
        return self.layer(x.roll(-1 if x.shape[1] > 6 else 1, 1))


class LeakySpec(MixerSpec):
    """A causal mixer that is none."""

    kind: Literal["leaky"] = "leaky"

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        return Mixer(width)

    def flops(self, width: int, length: int, causal: bool) -> float:
        return 0.1 * length * width**2


class HalvesSpec(ClassifySpec):
    """A mean where there should be a sum."""

    kind: Literal["halves"] = "halves"  # type: ignore[assignment]

    def measure(self, output: Any, batch: Any, signature: Any) -> Any:
        sums = super().measure(output, batch, signature)
        return {**sums, "loss": sums["loss"] / sums["count"]}


class AbsentSpec(ClassifySpec):
    """A monitor that is no score."""

    kind: Literal["absent"] = "absent"  # type: ignore[assignment]

    def monitored(self, signature: Any) -> Monitor:
        return Monitor("f1", greater=True)


class UnsureSpec(ClassifySpec):
    """An accuracy that is NaN at first."""

    kind: Literal["unsure"] = "unsure"  # type: ignore[assignment]
    always: bool = False

    def scores(self, totals: Any) -> dict[str, float]:
        scores = super().scores(totals)
        unsure = self.always or scores["loss"] > 0.4
        return {**scores, "accuracy": float("nan") if unsure else scores["accuracy"]}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for table, classes in (
        (MODELS, (NetSpec, StatedSpec, AcausalSpec)),
        (MIXERS, (LeakySpec,)),
        (OBJECTIVES, (HalvesSpec, AbsentSpec, UnsureSpec)),
    ):
        for cls in classes:
            monkeypatch.setitem(table, cls.model_fields["kind"].default, PluginEntry("", "", cls=cls))


def own(fault: str, **more: Any) -> TrainedRun:
    return begun({"model": {"kind": "net", "fault": fault}, **more}, BASE)


REFUSED = [
    ("future", "'net' says that it is causal, and in a sequence of 12 positions those from 6 on move an earlier one"),
    ("long", r"it fails on the longest example of train, 12 positions \(RuntimeError: too long\); nothing was trained"),
    ("short", "it fails on the shortest example of train, 5 positions"),
    ("counter", "'net' gives two answers to one step of training; draw random numbers with torch's generator"),
    ("own generator", "'net' gives two answers to one step of training"),
    ("building", "two builds of 'net' with one seed differ in 'last.bias'"),
]


@pytest.mark.parametrize(("fault", "words"), REFUSED, ids=[fault for fault, _ in REFUSED])
def test_what_would_fail_late_or_mean_nothing_is_refused_before_the_first_step(fault: str, words: str) -> None:
    live = own(fault)
    with pytest.raises(BadInput, match=words):
        next(live.steps())
    assert live.progress.step == 0


def test_a_build_that_seeds_torch_or_sets_it_up_is_refused_and_undone() -> None:
    with pytest.raises(BadInput, match="building model seeds torch's generator, so that all seeds would start with"):
        own("seeding")
    threads = torch.get_num_threads()
    with pytest.raises(BadInput, match="building model changes torch's number of threads"):
        own("threads")
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("fault", ["numpy", "python"])
def test_numbers_of_numpy_and_python_follow_from_the_seed_and_leave_their_generators_alone(fault: str) -> None:
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # type: ignore[index, union-attr]
    first, second, other = own(fault), own(fault), own(fault, seed=1)
    for live in (first, second, other):
        finished(live)
    assert torch.equal(first.progress.flat.weights, second.progress.flat.weights)
    assert not torch.equal(first.progress.flat.weights, other.progress.flat.weights)
    assert random.getstate() == before[0]
    assert np.random.get_state()[1].tolist() == before[1]  # type: ignore[index, union-attr]
    assert torch.equal(torch.get_rng_state(), before[2])


def test_a_look_at_own_code_changes_no_bit() -> None:
    looked, plain = own(""), own("")
    finished(looked)
    for _ in plain.timed_steps():
        pass
    assert looked.remarks == []
    assert plain.remarks is None
    assert torch.equal(looked.progress.flat.weights, plain.progress.flat.weights)


def test_padding_that_reaches_a_sequence_is_a_remark() -> None:
    class Loose(NetSpec):
        causal: ClassVar[bool] = False

    live = own("")
    live = begun({"model": {"kind": "net", "fault": "whole"}}, BASE)
    object.__setattr__(live.rehearsal, "spec", Loose(fault="whole"))
    (remark,) = live.rehearsal.remarks()
    assert remark.startswith("model 'net': padding moves what it makes of a sequence (of ")


def test_a_mixer_that_sees_the_future_in_long_sequences_alone_is_refused() -> None:
    model = {"width": 8, "blocks": 1, "mixer": {"kind": "leaky"}, "position": {"kind": "none"}}
    with pytest.raises(BadInput, match="Mixer says that it is causal, and in a sequence of 12 positions"):
        next(begun({"model": {**model, "causal": True}}, BASE).steps())


def test_flops_that_a_class_states_wrongly_are_a_remark() -> None:
    live = begun({"model": {"kind": "stated"}}, BASE)
    (remark,) = live.rehearsal.remarks()
    assert remark.startswith("model 'stated': its flops() says 12 where a count says 1.92e+03")
    live = begun({"model": {"width": 8, "blocks": 1, "mixer": {"kind": "leaky"}}}, BASE)
    assert any(text.startswith("mixer 'leaky': its flops() says 76.8 where") for text in live.rehearsal.remarks())


def test_sums_that_are_means_are_a_remark_and_an_absent_monitor_is_refused() -> None:
    (remark,) = begun({"objective": {"kind": "halves"}}, BASE).rehearsal.remarks()
    assert remark.startswith("objective 'halves': the sums 'loss' of a batch are not those of its halves added up")
    with pytest.raises(BadInput, match="'absent' monitors 'f1', and its scores are loss and accuracy; name one of"):
        next(begun({"objective": {"kind": "absent"}}, BASE).steps())


def test_a_score_that_is_no_number_is_no_loss_that_left_the_numbers() -> None:
    settings = {
        "budget": {"steps": 40, "evaluate_every": 4},
        "optim": {"lr": 0.004},
        "model": {"width": 8, "blocks": 1},
    }
    live = begun({"objective": {"kind": "unsure"}, **settings}, BASE)
    records = finished(live)
    assert "accuracy" not in records[0]["val"]
    assert "accuracy" in records[-1]["val"]
    assert live.progress.step == 40
    assert not live.progress.diverged
    assert live.finish().status == "complete"
    live = begun({"objective": {"kind": "unsure", "always": True}, **settings}, BASE)
    finished(live)
    with pytest.raises(BadInput, match="'unsure' gives no number for accuracy on val at any evaluation"):
        live.finish()


def test_where_an_own_class_says_that_it_is_causal_is_told() -> None:
    with pytest.raises(BadInput, match=r"where 'acausal' is one, let its class say `causal: ClassVar\[bool\] = True`"):
        begun({"model": {"kind": "acausal"}, "objective": {"kind": "causal"}}, BASE)
