"""The loop as a library: a module of one's own on arrays, a Dataset or Examples."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import headstart
from headstart.errors import BadInput
from headstart.models.heads import Output
from headstart.models.model import ModelSpec, SequenceModel, build_model
from headstart.sequence import Examples, Signature
from headstart.spec import read
from headstart.stage import begin, read_stage
from headstart.tasks.task import open_task

BUDGET = {"epochs": 10}
OPTIM = {"lr": 1e-2, "batch_size": 16}


class Net(nn.Module):
    """Per position, pooled over what is there; with batch norm and dropout."""

    def __init__(self, features: int = 2, outputs: int | None = 2, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, width))
        self.norm = nn.BatchNorm1d(width)
        self.output = None if outputs is None else nn.Linear(width, outputs)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.layers(x).transpose(1, 2)).transpose(1, 2)
        if self.output is None:
            return x + x.mean(1, keepdim=True)
        valid = torch.arange(x.shape[1]) < lengths[:, None]
        result: torch.Tensor = self.output((x * valid[:, :, None]).sum(1) / lengths[:, None])
        return result


def net(**sizes: Any) -> Net:
    torch.manual_seed(0)
    return Net(**sizes)


def arrays(count: int = 96, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(n, 6, 2) floats whose mean says their class."""
    X = np.random.default_rng(seed).normal(size=(count, 6, 2)).astype(np.float32)
    return X, (X.mean((1, 2)) > 0).astype(np.int64)


TRAIN, VAL = arrays(), arrays(32, 1)


def equal(first: nn.Module, second: nn.Module) -> bool:
    states = first.state_dict(), second.state_dict()
    return all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_a_module_is_left_with_the_weights_that_are_best_on_val() -> None:
    module = net()
    done = headstart.train(module, TRAIN, VAL, optim=OPTIM, budget=BUDGET, device="cpu")
    assert done.module is module
    assert not module.training
    best = max(done.records, key=lambda record: float(record["val"]["accuracy"]))
    assert done.best_step == best["step"]
    assert done.scores["accuracy"] == best["val"]["accuracy"] > 0.9
    assert headstart.evaluate(module, VAL, device="cpu") == done.scores
    assert all(weight.requires_grad for weight in module.parameters())
    storages = {weight.untyped_storage().data_ptr() for weight in module.parameters()}
    assert len(storages) == len(list(module.parameters())), "each can be saved by itself"


def test_the_default_batch_is_at_most_all_examples() -> None:
    x = np.random.default_rng(0).normal(size=(12, 5, 2)).astype(np.float32)
    y = np.arange(12) % 2
    small = (x[:9], y[:9])
    module, other = net(), net()
    headstart.train(module, small, (x[9:], y[9:]), budget={"epochs": 2}, device="cpu")
    headstart.train(other, small, (x[9:], y[9:]), budget={"epochs": 2}, optim={"batch_size": 9}, device="cpu")
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), other.parameters(), strict=True))
    headstart.pretrain(net(outputs=None), x[:9], x[9:], objective="masked", budget={"epochs": 1}, device="cpu")


def test_it_is_the_loop_of_the_stages() -> None:
    table = {
        "task": {"kind": "listops", "train": 48, "val": 16, "test": 4, "min_length": 5, "max_length": 12},
        "model": {"width": 8, "blocks": 1, "dropout": 0.1},
        "objective": {"kind": "classify"},
        "optim": {"batch_size": 8, "weight_decay": 0.1},
        "budget": {"steps": 9},
        "seed": 3,
    }
    spec = read_stage(table)
    task = open_task(spec.task, Path("data"))
    run = begin(spec, task, None)
    list(run.steps())
    assert isinstance(spec.model, ModelSpec)
    model = build_model(spec.model, task.signature, spec.objective.output(task.signature), spec.seed)
    settings = {name: table[name] for name in ("optim", "budget", "seed", "objective")}
    done = headstart.train(model, task.train, task.val, device="cpu", **settings)  # type: ignore[arg-type]
    assert all(torch.equal(value, run.finish().best[name]) for name, value in model.state_dict().items())
    assert done.scores == run.finish().scores["best"]["val"]


class Stopped(Exception):
    """Raised where a training is cut short."""


def test_frozen_layers_of_a_headstart_model_are_computed_once_as_in_a_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def probed(folder: Path | None = None, stop: int = 0, norm: str = "layer") -> tuple[SequenceModel, Any]:
        spec = read(ModelSpec, {"width": 8, "blocks": 2, "norm": norm})
        model = build_model(spec, Signature("floats", 2, 6, 6, "class", classes=2), Output("sequence", 2), 0)
        for name, weight in model.named_parameters():
            weight.requires_grad_(name.startswith("head."))
        model.blocks[0].register_forward_pre_hook(lambda *_: calls.append(1))
        calls.clear()

        def cut(record: dict[str, Any]) -> None:
            if record["step"] == stop:
                raise Stopped

        settings: dict[str, Any] = {"optim": OPTIM, "budget": {"epochs": 6}, "device": "cpu", "on_record": cut}
        return model, headstart.train(model, TRAIN, VAL, folder=folder, save_every=0.0, **settings)

    once, trained = probed()
    assert len(calls) <= 96 / 16 + 32 / 16 + 4, "each batch of train and val, and looks at the first examples"
    assert all(weight.requires_grad == name.startswith("head.") for name, weight in once.named_parameters())
    with pytest.raises(Stopped):
        probed(tmp_path, stop=18)
    again, _ = probed(tmp_path)
    assert equal(once, again), "a state goes on to equal bits"
    probed(norm="batch")
    assert len(calls) <= 96 / 16 + 32 / 16 + 4, "statistics of frozen norms stand still"
    monkeypatch.setattr("headstart.training.features.FEATURE_BYTES", 0)
    plain, other = probed()
    assert len(calls) > 6 * 6
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(once.state_dict()[name], value, rtol=0, atol=1e-5)
    assert trained.scores["loss"] == pytest.approx(other.scores["loss"], abs=1e-5)


def test_arrays_a_dataset_and_examples_are_the_same_data() -> None:
    tensors = tuple(torch.from_numpy(part) for part in TRAIN)
    modules = []
    for data in (TRAIN, tensors, TensorDataset(*tensors), Examples.from_arrays(*TRAIN), ([*TRAIN[0]], [*TRAIN[1]])):
        modules.append(net())
        headstart.train(modules[-1], data, VAL, budget={"steps": 3}, device="cpu")
    assert all(equal(module, modules[0]) for module in modules[1:])


class Rows(torch.utils.data.Dataset[torch.Tensor]):
    """Sequences without targets, each a tensor (L, F)."""

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.rows[index]


def test_a_dataset_of_inputs_alone_is_pretrained_on_and_not_read_as_pairs() -> None:
    inputs = torch.from_numpy(TRAIN[0])
    modules = []
    for data in (inputs, TensorDataset(inputs), Rows(inputs)):
        modules.append(net(outputs=None))
        result = headstart.pretrain(modules[-1], data, VAL[0], budget={"steps": 3}, optim=OPTIM)
        assert "records" not in repr(result)
    assert all(equal(module, modules[0]) for module in modules[1:])
    with pytest.raises(
        BadInput, match=r"train: items of the Dataset have \[3\] parts; let each be \(x, y\), or x alone"
    ):
        headstart.train(net(), TensorDataset(inputs, inputs, inputs), VAL)
    with pytest.raises(BadInput, match=r"there is no target|differ in"):
        headstart.train(net(), Rows(inputs), VAL)


@pytest.mark.parametrize(
    ("shape", "per_position"), [((48,), None), ((48, 2), None), ((48, 9), False), ((48, 9), None), ((48, 9, 2), None)]
)
def test_numbers_of_a_sequence_and_of_each_position_are_trained_on(
    shape: tuple[int, ...], per_position: bool | None
) -> None:
    X = np.random.default_rng(0).normal(size=(48, 9))
    y = np.random.default_rng(1).normal(size=shape)
    data = Examples.from_arrays(X, y, per_position=per_position)
    size = 1 if per_position is None and shape[1:] in ((), (9,)) else shape[-1]
    each = nn.Linear(1, size)
    module = each if data.per_position else nn.Sequential(each, Mean())
    done = headstart.train(module, data, data, budget={"steps": 3}, device="cpu")
    assert np.isfinite(done.scores["r2"])
    assert per_position is not None or headstart.evaluate(module, (X, y), device="cpu") == done.scores


class Mean(nn.Module):
    """(B, L, D) -> (B, D)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(1)


def test_records_are_shown_and_cannot_change_a_result() -> None:
    plain, watched = net(), net()
    headstart.train(plain, TRAIN, VAL, budget=BUDGET, device="cpu")
    steps = []

    def watch(record: dict[str, Any]) -> None:
        steps.append(record["step"])
        record["val"].clear()
        torch.rand(3)

    done = headstart.train(watched, TRAIN, VAL, budget=BUDGET, device="cpu", on_record=watch)
    assert equal(plain, watched)
    assert steps == [record["step"] for record in done.records]
    assert all(record["val"] for record in done.records)


def test_patience_ends_training_and_frozen_weights_stay() -> None:
    module = net()
    module.layers.requires_grad_(False)
    before = module.layers[0].weight.clone()
    budget = {"epochs": 200, "evaluate_every": 1, "patience": 2}
    done = headstart.train(module, TRAIN, VAL, optim=OPTIM, budget=budget, device="cpu")
    assert done.steps < 200 * 6
    assert torch.equal(module.layers[0].weight, before)
    assert not module.layers[0].weight.requires_grad


def test_numbers_and_sequences_of_different_lengths() -> None:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(length, 1)).astype(np.float32) for length in rng.integers(2, 9, 64)]
    y = np.array([row.mean() for row in X], dtype=np.float32)
    module = net(features=1, outputs=1)
    done = headstart.train(module, (X[:48], y[:48]), (X[48:], y[48:]), optim=OPTIM, budget={"epochs": 60}, device="cpu")
    assert done.scores["r2"] > 0.8


@pytest.mark.parametrize("objective", ["masked", "causal"])
def test_a_module_is_pretrained_on_inputs_alone(objective: str) -> None:
    X = np.cumsum(np.random.default_rng(0).normal(size=(96, 8, 2)), 1).astype(np.float32)
    module = net(outputs=None)
    before = net(outputs=None)
    settings: dict[str, Any] = {"optim": OPTIM, "budget": {"epochs": 20}, "device": "cpu"}
    done = headstart.pretrain(module, X[:64], X[64:], objective=objective, **settings)
    first, last = done.records[0]["val"]["loss"], done.scores["loss"]
    assert last < first
    assert not equal(module, before)
    assert module.state_dict().keys() == before.state_dict().keys()


class Tokens(nn.Module):
    def __init__(self, rows: int, width: int = 8) -> None:
        super().__init__()
        self.embed = nn.Embedding(rows, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.embed(x)
        return y + y.mean(1, keepdim=True)


def test_tokens_need_a_row_for_what_is_masked() -> None:
    X = np.random.default_rng(0).integers(0, 5, size=(64, 7))
    done = headstart.pretrain(Tokens(6), X[:48], X[48:], budget={"steps": 20}, device="cpu")
    assert set(done.scores) >= {"loss", "accuracy"}
    with pytest.raises(BadInput, match=r"cannot take these tokens .*; give its embedding a row for each, and in pretr"):
        headstart.pretrain(Tokens(5), X[:48], X[48:], device="cpu")
    with pytest.raises(BadInput, match="vocabulary: 3 is not above the token 4; give at least 5"):
        headstart.pretrain(Tokens(6), X[:48], X[48:], vocabulary=3, device="cpu")


SCRIPT = """
import sys
sys.path[:0] = {path!r}
import torch, headstart
from test_library import Net, TRAIN, VAL

torch.manual_seed(0)
module = Net()
done = headstart.train(
    module, TRAIN, VAL, budget={{"steps": 80}}, device="cpu", folder=sys.argv[1], save_every=0.0,
    on_record=lambda record: print(record["step"], flush=True),
)
torch.save((module.state_dict(), dict(done.scores), [r["step"] for r in done.records]), sys.argv[1] + ".pt")
"""


@pytest.mark.slow
def test_a_training_that_was_killed_goes_on_to_equal_bits(tmp_path: Path) -> None:
    script = SCRIPT.format(path=[str(Path(__file__).parent), str(Path(__file__).parents[1])])
    (tmp_path / "script.py").write_text(script)

    def start(name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "script.py", name]
        return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)

    killed = start("killed")
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("killed/*/state-*"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.005)
    killed.kill()
    assert killed.communicate()[0].count("\n") < 10, "it was killed before its end"
    again, whole = start("killed"), start("whole")
    texts = [process.communicate()[0] for process in (again, whole)]
    assert 0 < texts[0].count("\n") <= texts[1].count("\n") == 10
    (weights, *rest), (others, *more) = (torch.load(tmp_path / f"{name}.pt") for name in ("killed", "whole"))
    assert all(torch.equal(weights[name], others[name]) for name in others)
    assert rest == more


def test_a_folder_holds_what_is_finished_and_refuses_other_starting_weights(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"budget": {"steps": 5}, "device": "cpu", "folder": tmp_path}
    first, second = net(), net()
    done = headstart.train(first, TRAIN, VAL, **settings)
    shown: list[Any] = []
    again = headstart.train(second, TRAIN, VAL, on_record=shown.append, **settings)
    assert not shown, "nothing was trained"
    assert equal(first, second)
    assert (again.scores, again.steps, list(again.records)) == (done.scores, done.steps, list(done.records))
    torch.manual_seed(1)
    with pytest.raises(BadInput, match="from other starting weights; seed torch before the module is built"):
        headstart.train(Net(), TRAIN, VAL, **settings)
    headstart.train(net(), TRAIN, VAL, **{**settings, "seed": 1})
    assert len(list(tmp_path.glob("*/result.json"))) == 2


@pytest.mark.parametrize(
    ("module", "settings", "message"),
    [
        ({"outputs": 1}, {}, r"module: gives \(1, 1\) .* asks for \(1, 2\); change its last layer"),
        ({"outputs": None}, {}, r"module: gives \(1, 6, 16\)"),
        ({}, {"optim": {"rate": 1}}, "optim.rate: no 'rate'"),
        ({}, {"optim": {"batch_size": 100}}, "optim.batch_size: 100 is more than the 96 train examples"),
        ({}, {"budget": {"epochs": 1, "steps": 2}}, "budget: give exactly one of"),
        ({}, {"budget": 40}, r"budget: 40 is not a dict; give one, such as budget=\{\"steps\": 1000\}"),
        ({}, {"optim": "sgd"}, r"optim: 'sgd' is not a dict; give one, such as optim=\{\"lr\": 1e-3\}"),
        ({}, {"objective": "classfy"}, "objective.kind: no 'classfy'; did you mean 'classify'"),
        ({}, {"objective": "masked"}, "'masked' asks for no target; call headstart.pretrain"),
        ({}, {"objective": "regress"}, "'regress' needs"),
        ({}, {"device": "gpu"}, "device: no 'gpu'; give auto, cpu, cuda or cuda:N"),
        ({}, {"device": "cuda:99"}, r"device: 'cuda:99', but torch sees \d+ GPU\(s\) here; give auto or cpu"),
        ({}, {"device": "meta"}, "device: no 'meta'; give auto, cpu, cuda or cuda:N"),
        ({}, {"val": VAL[0]}, r"val: there is no target; give \(X, y\), or call headstart.pretrain"),
        ({}, {"val": None}, r"val: is None; give \(X, y\), Examples, or a Dataset"),
        ({}, {"val": (VAL[0][:, :, :1], VAL[1])}, "train and val: differ in channels or in the kind of their targets"),
        ({}, {"train": torch.utils.data.DataLoader([])}, "train: is a DataLoader; give"),
        ({}, {"train": (TRAIN[0][:0], TRAIN[1][:0])}, "train: X: holds no sequence"),
        ({}, {"on_record": 3}, "on_record: 3 cannot be called; give a function of one record"),
        ({}, {"folder": __file__}, r"folder: '.*test_library.py' cannot be used: File exists; name another one"),
        ({}, {"train": (TRAIN[0], TRAIN[1][:3])}, "train: y: give 96 targets"),
    ],
)
def test_what_does_not_fit_is_said(module: dict[str, Any], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        headstart.train(net(**module), **{"train": TRAIN, "val": VAL, "device": "cpu", **settings})


def test_next_positions_need_two() -> None:
    with pytest.raises(BadInput, match="train: all sequences have one position, and 'causal' predicts the next; take"):
        headstart.pretrain(net(), TRAIN[0][:, :1], VAL[0], objective="causal", device="cpu")


def test_what_is_not_a_module_or_has_nothing_to_train_is_said() -> None:
    for module in (3, nn.Linear):
        with pytest.raises(BadInput, match=r"is not an instance of torch\.nn\.Module; give one, such as"):
            headstart.train(module, TRAIN, VAL)  # type: ignore[arg-type]
        with pytest.raises(BadInput, match=r"is not an instance of torch\.nn\.Module"):
            headstart.evaluate(module, VAL)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="module: has no weight that trains; set requires_grad = True for some"):
        headstart.train(net().requires_grad_(False), TRAIN, VAL)
    with pytest.raises(RuntimeError) as error:
        headstart.train(net(), (TRAIN[0][:, :, :1], TRAIN[1]), (VAL[0][:, :, :1], VAL[1]))
    assert error.value.__notes__ == ["headstart called the module with x of shape (1, 6, 1) and its lengths"]


class Scaled(nn.Module):
    """What it does is said by plain attributes, which neither sizes nor the text of the class show."""

    def __init__(self, act: Any, scale: float) -> None:
        super().__init__()
        self.inner, self.act, self.scale = Net(), act, scale

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.scale * self.inner(self.act(x), lengths)
        return result


def test_plain_attributes_of_a_module_tell_trainings_in_a_folder_apart(tmp_path: Path) -> None:
    def trained(act: Any, scale: float, folder: Path | None) -> Any:
        torch.manual_seed(0)
        settings: dict[str, Any] = {"optim": OPTIM, "budget": {"epochs": 2}, "device": "cpu", "folder": folder}
        return headstart.train(Scaled(act, scale), TRAIN, VAL, **settings).scores

    cases = [(torch.relu, 1.0), (torch.tanh, 1.0), (torch.relu, 20.0)]
    for case in (*cases, *cases):
        assert trained(*case, tmp_path) == trained(*case, None)
    assert len([path for path in tmp_path.iterdir() if (path / "result.json").exists()]) == 3


class Shifted(nn.Module):
    """Writes into its input, and has an option behind it that is not lengths."""

    rates = (0.1, 0.2)  # no learning rates of headstart's

    def __init__(self, inside: bool) -> None:
        super().__init__()
        self.layer, self.inside = nn.Linear(2, 8), inside

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        assert isinstance(scale, float)
        if self.inside:
            x -= 5
            x *= 0.01
        else:
            x = (x - 5) * 0.01
        result: torch.Tensor = self.layer(x)
        return result


def test_a_module_may_write_into_its_input_and_have_options_of_its_own() -> None:
    losses = []
    for inside in (True, False):
        torch.manual_seed(0)
        settings: dict[str, Any] = {"objective": "causal", "optim": OPTIM, "budget": {"epochs": 2}, "device": "cpu"}
        losses.append(headstart.pretrain(Shifted(inside), TRAIN[0], VAL[0], **settings).scores["loss"])
    assert losses[0] == losses[1]


def test_statistics_of_a_frozen_norm_stand_still() -> None:
    signature = Signature("floats", 2, 6, 6, "class", classes=2)
    spec = read(ModelSpec, {"width": 8, "blocks": 1, "norm": "batch", "mixer": {"kind": "attention", "heads": 2}})
    model = build_model(spec, signature, Output("sequence", 2), 0)
    for frozen in (True, False):
        for name, weight in model.named_parameters():
            weight.requires_grad_(not frozen or name.startswith("head"))
        before = {name: buffer.clone() for name, buffer in model.named_buffers()}
        headstart.train(model, (5 * TRAIN[0], TRAIN[1]), VAL, optim=OPTIM, budget={"epochs": 1}, device="cpu")
        after = dict(model.named_buffers())
        assert all(torch.equal(after[name], before[name]) for name in before) == frozen, "a later training trains all"


GAIN = {"now": 1.0}


class Gained(nn.Module):
    """What it does depends on its module's globals, which its text does not show."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Net()

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.inner(GAIN["now"] * x, lengths)
        return result


def _hooked(scale: float) -> nn.Module:
    module = Net()
    module.register_forward_hook(lambda *call: scale * call[-1])
    return module


@pytest.mark.parametrize("way", ["global", "hook", "closure"])
@pytest.mark.parametrize("finished", [True, False])
def test_a_folder_is_refused_for_a_module_that_computes_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, finished: bool
) -> None:
    def built(scale: float) -> nn.Module:
        class Closed(Net):
            def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
                return super().forward(scale * x, lengths)

        monkeypatch.setitem(GAIN, "now", scale)
        return {"global": Gained, "hook": lambda: _hooked(scale), "closure": Closed}[way]()

    def trained(scale: float, folder: Path | None, **more: Any) -> Any:
        torch.manual_seed(0)
        settings: dict[str, Any] = {"optim": OPTIM, "budget": {"epochs": 2}, "device": "cpu", "folder": folder}
        return headstart.train(built(scale), TRAIN, VAL, **settings, **more)

    def stop(record: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    if finished:
        trained(1.0, tmp_path)
    else:
        with pytest.raises(KeyboardInterrupt):
            trained(1.0, tmp_path, on_record=stop)
    with pytest.raises(
        BadInput, match="a module that gave other outputs from the same weights: a function, global, hook"
    ):
        trained(20.0, tmp_path)
    assert trained(1.0, tmp_path).scores == trained(1.0, None).scores
    assert trained(20.0, tmp_path / "other").scores == trained(20.0, None).scores


class WithTable(nn.Module):
    """A constant in a buffer that is not saved."""

    table: torch.Tensor

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.inner = Net()
        self.register_buffer("table", torch.tensor(scale), persistent=False)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.table * self.inner(x, lengths)
        return result


def test_buffers_that_no_state_holds_tell_trainings_in_a_folder_apart(tmp_path: Path) -> None:
    def trained(scale: float, folder: Path | None) -> Any:
        torch.manual_seed(0)
        settings: dict[str, Any] = {"optim": OPTIM, "budget": {"epochs": 2}, "device": "cpu", "folder": folder}
        return headstart.train(WithTable(scale), TRAIN, VAL, **settings).scores

    for scale in (1.0, 20.0, 1.0):
        assert trained(scale, tmp_path) == trained(scale, None)


def test_what_a_record_function_switches_changes_no_result() -> None:
    plain = headstart.train(net(), TRAIN, VAL, optim=OPTIM, budget={"epochs": 3}, device="cpu")

    def switch(record: dict[str, Any]) -> None:
        torch.set_grad_enabled(False)
        module.requires_grad_(False)

    module = net()
    switched = headstart.train(module, TRAIN, VAL, optim=OPTIM, budget={"epochs": 3}, device="cpu", on_record=switch)
    assert [record["val"] for record in switched.records] == [record["val"] for record in plain.records]
    assert all(weight.requires_grad for weight in module.parameters())
    scaled = Scaled(torch.relu, 1.0)
    with pytest.raises(BadInput, match="on_record: changed 'scale' of the module"):
        headstart.train(scaled, TRAIN, VAL, device="cpu", on_record=lambda _: setattr(scaled, "scale", 50.0))
