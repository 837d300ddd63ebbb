"""The average of network and kernels as a model that a fit may serve: scored and chosen on validation alone."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.made_outcomes import row

from headstart.baselines.average import gains, greedy_shares
from headstart.baselines.measures import fit_temperature, softmax
from headstart.cli import main
from headstart.core import FinishedStage
from headstart.data import read_sequences
from headstart.errors import BadInput
from headstart.fit import choose as choosing
from headstart.fit.arms import without_gradients
from headstart.fit.choice import none_better, serving, winner
from headstart.fit.ensemble import with_ensemble
from headstart.fit.perform import fit_sequences
from headstart.fitted.card import model_card
from headstart.fitted.outcome import Answers, FitCandidate, TrainedModel
from headstart.fitted.page import write_page
from headstart.request.settings import FitSettings
from headstart.serve.folder import load_model, save_model
from headstart.store import Store
from headstart.study.results.results import Results

NONE = np.zeros(0)
TARGET = np.zeros(240, dtype=np.int64)


def candidate(name: str, *shares: list[float], expected: int | None = None, test: float = 0.4) -> FitCandidate:
    """A model that gives the true class these probabilities on validation, a list of four for each seed, 60 times, and `test` on test."""
    models = []
    for seed, right in enumerate(shares):
        rows = np.tile(right, 60)
        val = Answers(TARGET, np.stack([rows, 1 - rows], axis=1))
        tested = Answers(TARGET, np.tile([[test, 1 - test]], (240, 1)))
        models.append(TrainedModel(seed, f"{name}{seed}", val, tested, (val.scores["accuracy"], 0.0)))
    scores = {model.seed: model.worth[0] for model in models}
    line = row(name, "accuracy", scores, scores)
    line = line if expected is None else replace(line, expected=expected)
    return FitCandidate(line, "in words", models=tuple(models), is_network=name not in without_gradients())


def compared(*candidates: FitCandidate, asked: bool = False) -> tuple[list[FitCandidate], FitCandidate | None]:
    """The candidates with the ensemble, and what serves by it."""
    table = tuple(item.row for item in candidates)
    results = Results("fit", "", tuple(item.name for item in candidates), ("data",), "scratch", (), table)
    results, after, serves = with_ensemble(results, candidates, NONE, asked=asked)
    assert [item.row for item in after] == list(results.table)
    return after, serves


def test_where_all_probabilities_out_of_fold_are_equal_nothing_is_averaged_and_the_majority_serves() -> None:
    models = [candidate(name, [0.6] * 4, [0.6] * 4) for name in ("kernels", "summary", "scratch")]
    after, average = compared(*models)
    assert (average, after) == (None, models)
    assert none_better(winner(models), candidate("majority", [0.6] * 4, [0.6] * 4))


WRONG_LAST, WRONG_FIRST = [0.9, 0.9, 0.9, 0.3], [0.3, 0.9, 0.9, 0.9]


def test_it_is_served_where_validation_says_so_and_named_with_its_members_and_their_shares() -> None:
    candidates, best = compared(candidate("kernels", WRONG_LAST), candidate("scratch", WRONG_FIRST))
    assert best is candidates[-1]
    assert (best.name, set(best.members), best.worth) == ("ensemble", {"scratch", "kernels"}, 1.0)
    assert sum(best.shares) == pytest.approx(1)
    assert list(best.shares) == sorted(best.shares, reverse=True)
    first, second = (f"{name} ({share:.2f})" for name, share in zip(best.members, best.shares, strict=True))
    assert best.text == f"the weighted average of the calibrated probabilities of {first} and {second}"
    assert best.row.val is not None
    assert best.row.test is not None
    assert (best.row.val.mean, best.row.test.mean) == (1.0, 0.0)
    served, network = serving("auto", best, candidates)
    assert served is best
    assert network is candidates[1]
    assert {name: model.identity for name, model in best.parts().items()} == {
        "scratch": "scratch0",
        "kernels": "kernels0",
    }


def test_of_a_model_that_has_all_of_the_weight_there_is_no_average() -> None:
    kernels, network = candidate("kernels", [0.9, 0.9, 0.9, 0.8]), candidate("scratch", [0.5, 0.4, 0.5, 0.1])
    candidates, best = compared(kernels, network)
    assert candidates == [kernels, network]
    assert best is None
    with_both, asked = compared(kernels, network, asked=True)
    assert asked is with_both[-1]
    assert asked.members == ("kernels", "scratch")


def test_an_average_that_gains_by_no_more_than_chance_is_not_served() -> None:
    rng = np.random.default_rng(0)
    single, other = rng.uniform(0.5, 1, (2, 40))
    average, many = (single + other) / 2, np.tile(single, 50)
    assert not gains(average, single, np.ones(40), True)
    assert gains(np.tile(average, 50), many, np.ones(2_000), True) == gains(average, single, np.ones(40), True, 1 / 50)
    assert not gains(np.tile(average, 50), many, np.ones(2_000), True, 50), "the same rows fifty times"


def test_test_chooses_nothing() -> None:
    right, wrong = candidate("kernels", WRONG_LAST, test=0.9), candidate("scratch", [0.1] * 4, test=0.9)
    other = candidate("scratch", [0.1] * 4, test=0.1)
    assert compared(right, wrong)[1] is None
    assert compared(right, other)[1] is None


def test_a_network_whose_best_weights_alone_lead_does_not_win(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels, networks = (
        candidate("kernels", WRONG_LAST),
        [candidate(x, [0.9] * 4) for x in ("scratch", "self_pretrained")],
    )
    last = candidate("scratch", [0.6, 0.6, 0.4, 0.4]).models[0]
    judged = list[str]()

    def by_last_weights(_: object, network: FitCandidate) -> FitCandidate:
        judged.append(network.name)
        models = [replace(model, val=last.val, worth=last.worth, last=last) for model in network.models]
        return replace(network, models=tuple(models))

    table = tuple(item.row for item in [kernels, *networks])
    results = Results("fit", "", tuple(row.arm for row in table), ("data",), "scratch", (), table)
    monkeypatch.setattr(choosing, "arms", dict)
    monkeypatch.setattr(choosing, "results_of", lambda *_: results)
    monkeypatch.setattr(choosing, "candidates_of", lambda *_: [kernels, *networks])
    monkeypatch.setattr(choosing, "_by_last_weights", by_last_weights)
    fit: Any = SimpleNamespace(settings=FitSettings(), basis=SimpleNamespace(class_weights=()), store=None, facts=None)
    study: Any = SimpleNamespace(study=SimpleNamespace(arms={}))
    assert winner([kernels, *networks]).name == "scratch"
    assert choosing.compare(fit, study).best is kernels
    assert sorted(judged) == ["scratch", "self_pretrained"], "each that would win, once"


def test_each_fold_is_averaged_with_its_own_and_a_fold_of_one_member_alone_is_left_out() -> None:
    kernels = candidate("kernels", WRONG_LAST, WRONG_FIRST, WRONG_LAST, expected=3)
    network = candidate("scratch", WRONG_FIRST, WRONG_LAST, expected=3)
    _, ensemble = compared(kernels, network)
    assert ensemble is not None
    assert (ensemble.row.n, ensemble.row.expected, ensemble.row.status) == (2, 3, "partial")
    assert [{part.identity for part in model.members} for model in ensemble.models] == [
        {"scratch0", "kernels0"},
        {"scratch1", "kernels1"},
    ]
    for model in ensemble.models:
        average = sum(s * part.val.predicted for s, part in zip(ensemble.shares, model.members, strict=True))
        by_hand = softmax(np.log(average), model.temperature)
        np.testing.assert_allclose(model.val.predicted, by_hand, atol=1e-12)


def test_a_model_of_fewer_than_half_of_the_folds_is_no_member() -> None:
    kernels = candidate("kernels", *[WRONG_LAST] * 5, expected=5)
    late = candidate("scratch", *[WRONG_FIRST] * 2, expected=5)
    assert compared(kernels, late)[1] is None
    assert compared(kernels, late, candidate("summary", *[WRONG_FIRST] * 5))[1].members == ("summary", "kernels")  # type: ignore[union-attr]


def test_a_model_that_draws_nothing_is_averaged_with_the_network_of_every_seed() -> None:
    summary = candidate("summary", WRONG_LAST, expected=1)
    _, best = compared(summary, candidate("scratch", WRONG_FIRST, WRONG_FIRST, expected=2))
    assert best is not None
    assert best.name == "ensemble"
    assert [model.seed for model in best.models] == [0, 1]


def test_the_best_network_is_a_member_and_the_commonest_class_never() -> None:
    candidates, _ = compared(
        candidate("majority", [0.9] * 4),
        candidate("kernels", WRONG_LAST),
        candidate("scratch", [0.1, 0.9, 0.1, 0.1]),
        candidate("self_pretrained", WRONG_FIRST),
    )
    assert set(candidates[-1].members) == {"self_pretrained", "kernels"}


def test_shares_are_those_of_the_least_loss_of_a_fine_grid() -> None:
    """Of two models and many rows, whose best average lies between them."""
    rng = np.random.default_rng(0)
    columns = np.stack([rng.uniform(0.2, 1, 4_000), rng.uniform(0.3, 0.9, 4_000)], axis=1)
    grid = np.linspace(0, 1, 101)
    losses = [-np.log(columns @ [share, 1 - share]).mean() for share in grid]
    best = grid[int(np.argmin(losses))]
    assert 0.1 < best < 0.9
    assert greedy_shares(columns, np.ones(4_000), True)[0] == pytest.approx(best, abs=0.06)
    errors = rng.normal(size=(4_000, 2)) * [1, 2]
    assert greedy_shares(errors, np.ones(4_000), False)[0] == pytest.approx(4 / 5, abs=0.06)


@pytest.mark.parametrize(
    "candidates",
    [
        (candidate("kernels", WRONG_LAST),),
        (candidate("scratch", WRONG_LAST), candidate("majority", WRONG_LAST)),
        (candidate("kernels", expected=2), candidate("scratch", WRONG_LAST, expected=2)),
    ],
)
def test_it_is_refused_where_a_member_is_missing(candidates: tuple[FitCandidate, ...]) -> None:
    text = "--serve: 'ensemble' averages models, and fewer than two were trained to their end on the same rows; give the same"
    with pytest.raises(BadInput, match=text):
        compared(*candidates, asked=True)
    assert compared(*candidates) == (list(candidates), None)


def rows(count: int = 60) -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    return [
        np.sin(np.arange(16) * (0.5 + 0.3 * (i % 2)) + draw.uniform(0, 6)) + draw.normal(0, 0.9, 16)
        for i in range(count)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classes", "balanced", "numbers"])
def test_its_score_is_that_of_the_answers_of_its_members_by_hand(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headstart.baselines.kernels.FEATURES", 84)
    labels = (
        [f"{x.mean():.3f}" for x in rows()] if kind == "numbers" else ["ab"[i % 2 if i < 50 else 0] for i in range(60)]
    )
    s = read_sequences(rows(), labels=labels)
    settings = FitSettings(
        time=None, epochs=2, rates=(1e-2,), pretrain=False, serve="ensemble", balanced=kind == "balanced"
    )
    outcome = fit_sequences(s, settings, store=tmp_path / "runs")
    assert outcome.serves == "ensemble"
    ensemble = outcome.candidate("ensemble")
    assert ensemble.row.n == ensemble.row.expected == 5
    store = Store(tmp_path / "runs")
    counts = np.array([sum(label == name for label in labels) for name in outcome.labels])
    for model in ensemble.models:
        answers = []
        for name, part in zip(ensemble.members, model.members, strict=True):
            other = not outcome.candidate(name).is_network
            last = FinishedStage.opened(store, part.identity, tmp_path / "runs" / "data").outputs_at_last("cpu")
            best = {name: x.numpy() for name, x in store.predictions(part.identity).items()}
            saved = {name: x.astype(np.float64) for name, x in (last or best).items()}
            output, target = saved["val/output"], saved["val/target"].reshape(-1)
            if kind == "numbers":
                answers.append(output.reshape(-1))
                continue
            weights = counts.sum() / (2 * counts) if kind == "balanced" else None
            hot = 1.0 if other else fit_temperature(output, target.astype(int), True, weights)
            answers.append(softmax(output, hot))
        mean = np.average(answers, axis=0, weights=ensemble.shares)
        if kind == "numbers":
            wanted = 1 - ((mean - target) ** 2).sum() / ((target - target.mean()) ** 2).sum()
            assert model.worth[0] == pytest.approx(wanted, abs=1e-5)
            continue
        assert model.last is not None
        np.testing.assert_allclose(model.last.val.predicted, softmax(np.log(mean), model.temperature), atol=1e-9)
        right = mean.argmax(1) == target
        spec = json.loads((tmp_path / "runs" / model.identity / "stage.json").read_text())["spec"]
        each = np.array(spec["objective"].get("class_weights") or (1.0, 1.0))[target.astype(int)]
        assert (each.min() < each.max()) == (kind == "balanced")
        assert model.worth[0] == pytest.approx((right * each).sum() / each.sum(), abs=1e-12)
    members = [outcome.candidate(name).row.val for name in ensemble.members]
    assert all(member is not None for member in members)
    save_model(outcome.served, tmp_path / "model")
    served = load_model(tmp_path / "model")
    config = served.config
    average = np.average([served.predict(s, use) for use in config.ensemble], axis=0, weights=config.shares)
    average = average if kind == "numbers" else softmax(np.log(average), config.temperature)
    np.testing.assert_allclose(served.predict(s), average, atol=1e-6)
    assert outcome.again
    assert all(config.held_out[name].again for name in ("ensemble", *config.ensemble))
    assert "All of its models were then fitted again" in model_card(outcome)
    assert "Served is ensemble: the weighted average of the" in write_page(outcome)


def test_the_command_serves_it_and_predicts_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headstart.baselines.kernels.FEATURES", 84)
    monkeypatch.chdir(tmp_path)
    head = "label," + ",".join(f"t{i}" for i in range(16))
    lines = [f"{'ab'[i % 2]}," + ",".join(f"{x:.3f}" for x in wave) for i, wave in enumerate(rows())]
    Path("train.csv").write_text("\n".join([head, *lines]) + "\n")

    def ran(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        done = capsys.readouterr()
        return int(ended.value.code or 0), done.out, done.err

    settings = ("--time", "10h", "--seeds", "1", "--folds", "1", "--workers", "0", "--no-pretrain")
    more = ("finetune.budget.steps=3", "finetune.optim.lr=1e-2", "-o", "model", "--serve", "ensemble")
    code, out, err = ran("fit", "train.csv", *settings, *more)
    assert code == 0, err
    assert "ensemble (predicts)" in out
    config = json.loads(Path("model/config.json").read_text())
    assert config["serve"] == "ensemble"
    assert len(config["ensemble"]) == len(config["shares"]) >= 2
    assert set(config["held_out"]) == {"network", "kernels", "summary", "majority", "ensemble"}
    assert "`ensemble`" in Path("model/README.md").read_text()
    shares = []
    for use in ("ensemble", *config["ensemble"]):
        code, out, _ = ran("predict", "model", "train.csv", "--use", use, "--confidence", "0.7")
        assert code == 0
        shares.append(np.array([float(line["p_a"]) for line in csv.DictReader(out.splitlines())]))
    first = np.average(shares[1:], axis=0, weights=config["shares"])
    both = softmax(np.log(np.stack([first, 1 - first], axis=1)), config["temperature"])
    np.testing.assert_allclose(shares[0], both[:, 0], atol=2e-5)  # six digits are written
