"""The model that serves is fitted again with what validation chose, not with what leaked rows would choose."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.command import command

from headstart.baselines.kernels import KernelsSpec
from headstart.baselines.measures import fit_temperature, softmax
from headstart.baselines.summary import SummarySpec
from headstart.cli import main
from headstart.data import read_sequences
from headstart.fit import choose as choose_module
from headstart.fit.again import Again
from headstart.fit.perform import fit_sequences
from headstart.fit.prepared import Fit
from headstart.fitted.card import model_card
from headstart.fitted.evidence import drawings
from headstart.fitted.outcome import FitCandidate, Outcome
from headstart.fitted.wording import own_score
from headstart.request.settings import FitSettings
from headstart.runner.events import Event, StageProgress
from headstart.runner.machine import torch_settings
from headstart.sequence import Examples, Signature
from headstart.serve.folder import load_model, save_model
from headstart.stage import StageSpec, read_stage
from headstart.stage.trained import TrainedRun
from headstart.store import Store
from headstart.study.language.plan import make_plan
from headstart.study.language.spec import read_study
from headstart.study.results.rows import Row
from headstart.tasks import Task, open_task


def noise(rows: int, classes: int = 2) -> Examples:
    draw = np.random.default_rng(0)
    values = draw.normal(size=(rows * 20, 1)).astype(np.float32)
    return Examples(values, np.arange(rows + 1) * 20, draw.integers(0, classes, rows), np.arange(rows))


FLOATS = Signature("floats", 1, 20, 20, "class", classes=2)
TOKENS = Signature("tokens", 4, 20, 20, "class", classes=2)


@pytest.mark.parametrize("spec", [SummarySpec(), KernelsSpec(features=84)], ids=["logistic", "ridge"])
def test_a_fit_with_the_choices_of_another_chooses_nothing(spec: SummarySpec | KernelsSpec) -> None:
    train, val, nothing = noise(60), noise(20), noise(20).take(np.arange(0))
    first = spec.fit(train, val, FLOATS, 0)
    settled = spec.model_copy(update=spec.choices(first.facts))
    again = settled.fit(train, nothing, FLOATS, 0)
    assert again.facts.strength == pytest.approx(first.facts.strength)
    assert again.facts.temperature == first.facts.temperature
    np.testing.assert_allclose(again.predict(val), first.predict(val), atol=1e-6)


def test_n_grams_are_those_that_were_chosen_though_a_row_of_another_length_has_come() -> None:
    draw = np.random.default_rng(0)
    values = draw.integers(0, 4, 400 * 20).astype(np.uint8)
    examples = Examples(values, np.arange(401) * 20, (values.reshape(400, 20)[:, 7] > 1).astype(int), np.arange(400))
    spec = KernelsSpec()
    first = spec.fit(examples.take(np.arange(300)), examples.take(np.arange(300, 400)), TOKENS, 0)
    assert first.facts.sizes["placed"] == 20
    odd = Examples(values[:-1], np.append(np.arange(400) * 20, 7999), examples.target, examples.index)
    again = spec.model_copy(update=spec.choices(first.facts)).fit(odd, examples.take(np.arange(0)), TOKENS, 0)
    assert again.facts.sizes == first.facts.sizes
    # Without choices of another: whatever a fifth chooses is fitted, wherever the odd row stands.
    assert spec.fit(odd, examples.take(np.arange(0)), TOKENS, 0).facts.sizes["longest"] in (3, 6)


def test_subjects_that_come_back_do_not_make_the_served_model_sure(tmp_path: Path) -> None:
    """Noise of 12 rows a subject, labels by subject: a penalty chosen across rows of one subject would be far too weak."""
    draw = np.random.default_rng(0)
    lines = ["person,label," + ",".join(f"t{i}" for i in range(16))]
    for person in range(24):
        own = draw.normal(size=16) * 2
        for _ in range(8):
            row = own + draw.normal(size=16) * 0.3
            lines.append(f"p{person},{'ab'[person % 2]}," + ",".join(f"{x:.3f}" for x in row))
    (tmp_path / "train.csv").write_text("\n".join(lines))
    words = ("--target", "label", "--group", "person", "--serve", "summary", "--time", "90s", "--workers", "0")
    few = ("--no-pretrain", "--seeds", "1", "finetune.budget.steps=1")
    done = command("fit", "train.csv", *few, *words, "-o", "model", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    served = json.loads((tmp_path / "model" / "config.json").read_text())["classics"]["summary"]
    study = (tmp_path / "model" / "study.toml").read_text()
    (alpha,) = {
        float(line.split("alpha = ")[1].split(",")[0].split(" ")[0].rstrip("}"))
        for line in study.splitlines()
        if "alpha = " in line
    }
    assert served["strength"][0] == pytest.approx(1 / alpha)


def waves(count: int = 60) -> list[np.ndarray]:
    """Noisy waves of two frequencies, in turn."""
    draw = np.random.default_rng(0)
    return [
        np.sin(np.arange(16) * (0.5 + 0.3 * (i % 2)) + draw.uniform(0, 6)) + draw.normal(0, 0.9, 16)
        for i in range(count)
    ]


def fitted(root: Path, numbers: bool = False, **settings: Any) -> Outcome:
    """Networks of 40 steps on few waves, in two folds."""
    labels = [f"{x.mean():.3f}" for x in waves()] if numbers else ["ab"[i % 2] for i in range(60)]
    few = {"rates": (1e-2, 2e-2), "folds": 2, "pretrain": False, "serve": "network"}
    steps = ("finetune.budget.steps=40", "finetune.budget.evaluate_every=5", "pretrain.budget.steps=4")
    s = read_sequences(waves(), labels=labels)
    return fit_sequences(s, FitSettings(time=None, overrides=steps, **{**few, **settings}), store=root)


def read_spec(root: Path, identity: str) -> StageSpec:
    document = Store(root).stage(identity)
    assert document is not None
    return read_stage(document["spec"])


def whole(root: Path, spec: StageSpec) -> Task:
    """The task as it was first dealt, without folds."""
    return open_task(spec.task.model_copy(update={"folds": None, "fold": None}), root / "data")


def served_stages(root: Path) -> list[str]:
    """Stages without validation."""
    documents = {file.parent.name: json.loads(file.read_text()) for file in root.glob("*/stage.json")}
    return [name for name, document in documents.items() if document["spec"]["task"].get("validation") == 0]


def by_hand(spec: StageSpec, task: Task, parent: dict[str, torch.Tensor] | None = None) -> TrainedRun:
    """The stage trained to its last step."""
    run = TrainedRun(spec, task, parent)
    with torch_settings(1):  # as a fit trains
        list(run.steps())
    return run


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [False, True], ids=["classes", "numbers"])
def test_a_network_is_served_with_the_bits_of_one_trained_by_hand_on_train_and_validation(
    numbers: bool, tmp_path: Path
) -> None:
    root = tmp_path / "runs"
    outcome = fitted(root, numbers)
    candidate = outcome.candidate(outcome.serves)
    chosen = candidate.best()
    spec = read_spec(root, chosen.identity)
    task = whole(root, spec)
    last = by_hand(spec, replace(task, train=task.train.followed_by(task.val))).weights()
    served = outcome.served.network
    assert served is not None
    assert served.state_dict().keys() == last.keys()
    assert all(torch.equal(served.state_dict()[name], last[name]) for name in last)
    # Every score is of the runs that chose it.
    assert outcome.again
    assert outcome.test is chosen.test
    assert own_score(outcome).startswith("Before it was fitted again with validation, the model that is served was")
    assert "It was then fitted again on train and validation together" in model_card(outcome)
    # Its temperature and its errors are those of the last weights of these runs, here by hand.
    config = outcome.served.config
    assert config.network is not None
    hot, errors = 1.0, []
    for model in candidate.models:
        own = read_spec(root, model.identity)
        run = by_hand(own, open_task(own.task, root / "data"))
        saved = {name: x.numpy().astype(np.float64) for name, x in run._scores(0, keep=True)[1].items()}
        output, target = saved["val/output"], saved["val/target"]
        if numbers:
            facts = config.preparation
            assert facts.low is not None
            assert facts.high is not None
            off = np.abs(output.reshape(-1) - target.reshape(-1))
            errors += (off * (facts.high - facts.low) / 2).tolist()
            continue
        temperature = fit_temperature(output, target.astype(int), True)
        hot = temperature if model is chosen else hot
        answers = softmax(output, temperature)
        # Validation chose the best weights of this run, so that the last ones are compared.
        assert model.worth[0] == pytest.approx((answers.argmax(1) == target).mean(), abs=1e-12)
        errors += (1 - answers[np.arange(len(target)), target.astype(int)]).tolist()
    assert config.network.temperature == pytest.approx(hot)
    if not numbers:  # the page shows answers of the best weights, and so their temperature
        text = next(drawing.text for drawing in drawings(outcome) if drawing.name == "reliability")
        assert f"one temperature, {chosen.temperature:.3g}, chosen" in text
        assert f"{chosen.temperature:.3g}" != f"{hot:.3g}"
    held_out = config.held_out["network"]
    assert (held_out.source, held_out.again) == ("folds", True)
    assert held_out.errors == pytest.approx(sorted(errors), rel=1e-4, abs=1e-6)
    save_model(outcome.served, tmp_path / "model")
    answer = load_model(tmp_path / "model").predict(read_sequences(waves(4)))
    assert np.array_equal(answer, outcome.served.predict(read_sequences(waves(4))))


@pytest.mark.parametrize("serve", ["network", "ensemble"])
def test_a_network_that_is_not_fitted_again_has_the_errors_of_the_weights_that_are_served(
    serve: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Again, "obstacle", lambda *_: "the time was over")
    root = tmp_path / "runs"
    outcome = fitted(root, serve=serve)
    candidate, config = outcome.candidate(outcome.serves), outcome.served.config
    model = candidate.best() if serve == "network" else candidate.best().members[candidate.members.index("scratch")]
    assert model.last is not None
    assert not np.array_equal(model.last.val.predicted, model.val.predicted), "the best weights come early"
    if serve == "ensemble":
        errors = [1 - m.val.predicted[np.arange(len(m.val.target)), m.val.target] for m in candidate.models]
        members = [part for m in candidate.models for part in m.members]
    else:
        members, errors = list(candidate.models), list[np.ndarray]()
    for part in members:
        saved = {name: x.numpy() for name, x in Store(root).predictions(part.identity).items()}
        output, target = saved["val/output"], saved["val/target"].astype(int)
        if part.last is not None:
            assert part.temperature == pytest.approx(fit_temperature(output, target, True))
        answers = softmax(output, part.temperature)
        assert part.val.predicted == pytest.approx(answers)
        errors += [1 - answers[np.arange(len(target)), target]] * (serve == "network")
    held_out = config.held_out[serve]
    assert (held_out.source, held_out.again) == ("folds", False)
    assert held_out.errors == pytest.approx(sorted(np.concatenate(errors).tolist()), rel=1e-4, abs=1e-6)
    # What is compared are the last ones.
    assert all(m.worth == m.last.worth for m in members if m.last is not None)


@pytest.mark.slow
def test_a_self_pretrained_network_starts_from_the_pretraining_of_the_run_that_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def serving(
        serve: str, best: FitCandidate, candidates: Sequence[FitCandidate], rows: Sequence[Row]
    ) -> tuple[FitCandidate, FitCandidate]:
        del serve, best, rows
        asked = next(item for item in candidates if item.name == "self_pretrained")
        return asked, asked

    monkeypatch.setattr("headstart.fit.choose.serving", serving)
    root = tmp_path / "runs"
    outcome = fitted(root, pretrain=True, rates=(1e-2,))
    store, served = Store(root), outcome.served.network
    run = next(
        run
        for run in outcome.candidate("self_pretrained").row.runs
        if run.stages[-1][1] == outcome.candidate("self_pretrained").best().identity
    )
    spec, parent = (read_spec(root, identity) for _, identity in reversed(run.stages))
    names = [json.loads(file.read_text())["name"] for file in root.glob("*/stage.json")]
    assert names.count("pretrain") == 2, "one for each fold, and none more"
    (again,) = served_stages(root)
    assert (store.stage(again) or {})["parent"] == run.stages[0][1]
    task = whole(root, spec)
    spec = spec.model_copy(update={"parent": parent})
    joined = replace(task, train=task.train.followed_by(task.val))
    last = by_hand(spec, joined, store.weights(run.stages[0][1], "best")).weights()
    assert served is not None
    assert all(torch.equal(served.state_dict()[name], last[name]) for name in last)


@pytest.mark.slow
def test_all_models_of_an_ensemble_are_fitted_again_and_named_in_its_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headstart.baselines.kernels.FEATURES", 84)
    assert fit(tmp_path, "--serve", "ensemble", "finetune.optim.lr=[1e-2,2e-2]", "--folds", "2") == 0
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert all(config["held_out"][name]["again"] for name in ("ensemble", *config["ensemble"]))
    members = [config["network"]["arm"] if name == "network" else name for name in config["ensemble"]]
    assert len(members) >= 2
    labels = {config["classics"][name]["labels"] for name in members if name in config["classics"]}
    assert labels == {48}, "train and validation are four of five rows"
    study = read_study(tmp_path / "model" / "study.toml")
    planned = make_plan(study, tmp_path)
    stages = {arm: {cell.chain[-1].identity for cell in planned.cells if cell.arm == arm} for arm in study.arms}
    again = dict(zip(members, ["served", *(f"served_{name}" for name in members[1:])], strict=True))
    assert set().union(*(stages[arm] for arm in again.values())) == set(served_stages(tmp_path / "runs"))
    saved = load_model(tmp_path / "model").network
    if "network" in config["ensemble"]:
        assert saved is not None
        (network,) = stages[again[config["network"]["arm"]]]
        weights = Store(tmp_path / "runs").weights(network, "last")
        assert all(torch.equal(x, weights[name]) for name, x in saved.state_dict().items())


def fit(folder: Path, *more: str) -> int:
    """Exit code of `headstart fit` of a file of waves in this folder, in this process."""
    head = "label," + ",".join(f"t{i}" for i in range(16))
    lines = [f"{'ab'[i % 2]}," + ",".join(f"{x:.3f}" for x in wave) for i, wave in enumerate(waves())]
    (folder / "train.csv").write_text("\n".join([head, *lines]) + "\n")
    words = ("--time", "400s", "--workers", "0", "--store", "runs", "--no-pretrain", "-o", "model")
    with contextlib.chdir(folder):
        try:
            main(["fit", "train.csv", *words, "finetune.budget.steps=40", *more])
        except SystemExit as done:
            return int(done.code or 0)
    return 0


FEW = ("--folds", "2", "finetune.optim.lr=1e-2")


@pytest.mark.slow
@pytest.mark.parametrize("serve", ["kernels", "network", "ensemble"])
def test_what_takes_long_is_not_fitted_again_once_the_time_is_over(
    serve: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("headstart.baselines.kernels.FEATURES", 84)
    choose = choose_module.choose

    def late(fit: Fit, *words: Any) -> choose_module.Chosen:
        return choose(replace(fit, begun=fit.begun - 600.0), *words)

    monkeypatch.setattr(choose_module, "choose", late)
    assert fit(tmp_path, *FEW, "--serve", serve) == 0
    out = " ".join(capsys.readouterr().out.split())
    note = "was not fitted again on train and validation together: the time was over; to do it, give the same command again."
    assert note in out
    assert not served_stages(tmp_path / "runs")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert not any(held["again"] for held in config["held_out"].values())
    # The same command has its time before it now.
    monkeypatch.setattr(choose_module, "choose", choose)
    assert fit(tmp_path, *FEW, "--serve", serve) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "was not fitted again" not in out
    assert "fitted again on train and validation together ..." in out
    assert len(served_stages(tmp_path / "runs")) >= (2 if serve == "ensemble" else 1)
    assert json.loads((tmp_path / "model" / "config.json").read_text())["held_out"][serve]["again"]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_in_the_last_fit_leaves_a_model_and_the_same_command_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    perform, sent = choose_module.perform, list[int]()

    def interrupting(*words: Any) -> Iterator[Event]:
        for event in perform(*words):
            if isinstance(event, StageProgress) and not sent:
                sent.append(event.step)
                os.kill(os.getpid(), signal.SIGINT)
            yield event

    monkeypatch.setattr("headstart.runner.worker._SHOW_EVERY", 0.0)
    monkeypatch.setattr(choose_module, "perform", interrupting)
    broken, straight = tmp_path / "broken", tmp_path / "straight"
    for folder in (broken, straight):
        folder.mkdir()
    assert fit(broken, *FEW, "--serve", "network") == 130
    assert sent
    assert sent[0] < 40
    card = " ".join((broken / "model" / "README.md").read_text().split())
    assert "Left out because the fit was interrupted: fitting the model that is served again" in card
    config = json.loads((broken / "model" / "config.json").read_text())
    assert not config["held_out"]["network"]["again"]
    (again,) = served_stages(broken / "runs")
    assert Store(broken / "runs").status(again) == "partial"
    for folder in (broken, straight):
        assert fit(folder, *FEW, "--serve", "network") == 0
    assert (Store(broken / "runs").result(again) or {})["provenance"]["attempts"] == 2
    for name in ("model.safetensors", "config.json"):
        assert (broken / "model" / name).read_bytes() == (straight / "model" / name).read_bytes()
    capsys.readouterr()


@pytest.mark.slow
def test_a_network_whose_training_ends_by_validation_is_served_as_it_was_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fit(tmp_path, *FEW, "--serve", "network", "finetune.budget.patience=3") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "was not fitted again on train and validation together: its training ends by validation (budget.pat" in out
    assert not served_stages(tmp_path / "runs")
