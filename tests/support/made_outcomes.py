"""Outcomes of fits, made up: no network is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from headstart.analysis.occlusion import Occlusion
from headstart.baselines.measures import scores_of, softmax
from headstart.data import LayoutSpec, Preparation, Sequences, data_card, read_sequences
from headstart.fit.arms import without_gradients
from headstart.fitted.outcome import Answers, FitCandidate, Outcome, TrainedModel
from headstart.models.heads import Output
from headstart.models.model import ModelSpec, build_model
from headstart.objectives import ClassifySpec, RegressSpec
from headstart.sequence import Examples, Signature
from headstart.serve.config import ModelConfig, NetworkConfig
from headstart.serve.model import Served
from headstart.statistics import Estimate, estimate, paired_difference
from headstart.study.results.results import Results
from headstart.study.results.rows import Point, Row, Run
from support.made_models import fit_method

NASTY = ("<script>alert(1)</script>", "=1+1", "[red]x", "🙂 {{ 7*7 }} $x_1$", "a|b, \"c\" & 'd'")
SEEDS = (0, 1, 2)
NETWORKS = ("scratch", "self_pretrained")
LR = "finetune.optim.lr"


def outcome(
    labels: tuple[str, ...] = ("rest", "walk", "run"),
    *,
    test: int = 120,
    pretrained: bool = True,
    serves: str = "",
    winner: str = "",
    patch: int = 1,
    channels: int = 1,
    seed: int = 0,
    metric: str = "",
) -> Outcome:
    """A fit of numbers in waves. No labels: the target is a number. test: rows of the test split, which may be 0."""
    rng = np.random.default_rng(seed)
    s = data(labels, channels, rng)
    metric = metric or ("accuracy" if labels else "r2")
    names = ["scratch", *(["self_pretrained"] if pretrained else []), "kernels", "summary", "majority"]
    winner = winner or names[-4]
    served = served_model(s, labels, patch, serves or winner)
    tested = answers(labels, test, rng)
    raw = softmax(np.log(tested.predicted) * 2.2) if labels and test else None
    results, candidates = compared(names, labels, metric, test, rng)
    chosen = TrainedModel(0, "", tested, tested, (0.0, 0.0), temperature=1.7)
    candidates = tuple(replace(candidate, models=(chosen,)) for candidate in candidates)
    return Outcome(
        title=f"{len(s):,} sequences",
        card=data_card(s),
        labels=labels,
        candidates=candidates,
        winner=winner,
        serves=serves or winner,
        served=served,
        test=tested,
        uncalibrated=raw,
        results=results,
        answer=f"The best on validation is {winner}. It is what predict serves.",
        notes=("The test split has few sequences.", "Classes are of very different size."),
        plan=("network: 2 blocks of attention, width 32", "training: 900 steps of 16 sequences, rates 0.001, 0.003"),
        sizes={"train": len(s) - 100 - test, "val": 100, "test": test, "labelled": len(s) - 150 - test},
        occlusion=Occlusion(np.exp(-(np.linspace(-2, 2, 20) ** 2)) * 0.2, np.full(20, 0.02), _what(labels), 100),
        records=records(results),
        versions={"headstart": "0.1.0", "torch": "2.13.0", "numpy": "2.4.0"},
        seeds=SEEDS,
    )


def _what(labels: tuple[str, ...]) -> str:
    return "probability of the true class" if labels else "absolute error"


def data(labels: tuple[str, ...], channels: int, rng: np.random.Generator) -> Sequences:
    """Waves of unequal length; the last class has few rows."""
    rows = [rng.normal(size=(int(rng.integers(40, 60)), channels)).astype(np.float32) for _ in range(500)]
    rows[7] = rows[3]
    if not labels:
        return read_sequences(rows, labels=rng.uniform(50, 190, 500).tolist(), name="secret.csv")
    target = [labels[i % max(len(labels) - 1, 1)] for i in range(500)]
    target[-2:] = [labels[-1]] * 2
    return read_sequences(rows, labels=target, name="secret.csv")


def answers(labels: tuple[str, ...], count: int, rng: np.random.Generator) -> Answers:
    """Right about four times in five, or with an error of a tenth of the range."""
    if not labels:
        target = rng.uniform(50, 190, count)
        return Answers(target, target + rng.normal(0, 14, count))
    target = np.minimum(rng.geometric(min(0.9, 2 / len(labels)), count) - 1, len(labels) - 1)
    scores = rng.normal(size=(count, len(labels)))
    scores[np.arange(count), target] += 2.4
    return Answers(target.astype(np.int64), softmax(scores))


def compared(
    names: list[str], labels: tuple[str, ...], metric: str, test: int, rng: np.random.Generator
) -> tuple[Results, tuple[FitCandidate, ...]]:
    """The study, and its arms as models that could be served."""
    rows: list[Row] = []
    candidates = []
    for index, name in enumerate(names):
        seeds = SEEDS if name in (*NETWORKS, "kernels") else (0,)
        level = 0.9 - 0.03 * abs(index - 1) - (0.4 if name == "majority" else 0.0)
        val, scores = ({seed: level + 0.01 * float(rng.normal()) for seed in seeds} for _ in range(2))
        line = row(name, metric, val, scores if test else {})
        if test and name == "self_pretrained":
            line = replace(line, difference=paired_difference(line.by_seed(), rows[0].by_seed()))
        rows.append(line)
        candidates.append(FitCandidate(line, _text(name), _more(labels, line.test), is_network=name in NETWORKS))
    arms = tuple(line.arm for line in rows)
    return Results("fit", "T", arms, ("data",), "scratch", (LR,), tuple(rows)), tuple(candidates)


def _text(name: str) -> str:
    return {
        "scratch": "network, from random weights",
        "self_pretrained": "network, self-pretrained on the sequences",
        "kernels": "random convolution kernels with ridge",
        "summary": "a linear model of summary features",
        "majority": "shares of the classes, or the mean",
    }[name]


def _more(labels: tuple[str, ...], tested: Estimate | None) -> dict[str, Estimate]:
    if tested is None:
        return {}
    target = np.array([0, 1, 1, 0])
    predicted = np.eye(2)[[0, 1, 0, 0]] if labels else np.array([0.1, 1.2, 0.8, 0.0])
    scores = scores_of(target if labels else target.astype(float), predicted, 2 if labels else 0)
    return {
        name: replace(tested, mean=value if name.endswith("se") or name == "mae" else tested.mean)
        for name, value in scores.items()
    }


def row(arm: str, metric: str, val: dict[int, float], test: dict[int, float]) -> Row:
    """An arm: a network at two rates, of which the second is chosen, or another model at its only setting."""
    before = ((("pretrain", "p{}"),) if arm == "self_pretrained" else ()) + (("finetune", arm + "{}"),)
    runs = tuple(
        Run(
            seed,
            "complete",
            tuple((name, text.format(seed)) for name, text in before),
            val[seed],
            test.get(seed),
            {"seconds": 12.0},
            {},
        )
        for seed in val
    )
    settings = [{LR: 0.001}, {LR: 0.003}] if arm in NETWORKS else [{}]
    chosen = Point(settings[-1], "complete", estimate(val.values()), estimate(test.values()), runs)
    points = (*(Point(other, "complete", Estimate(0.7, 0.01, 3), None, runs) for other in settings[:-1]), chosen)
    return Row(
        arm,
        "data",
        settings[-1],
        "measured",
        metric,
        True,
        len(val),
        len(val),
        chosen.val,
        chosen.test,
        None,
        {"seconds": 12.0},
        {},
        {},
        points,
        runs,
        "own",
    )


def records(results: Results) -> dict[str, list[Mapping[str, Any]]]:
    """Ten epochs of every stage."""
    out: dict[str, list[Mapping[str, Any]]] = {}
    for line in results.table:
        for run in line.runs if line.arm in NETWORKS else ():
            for name, identity in run.stages:
                score = "r2" if name == "pretrain" else line.metric
                out[identity] = [
                    {
                        "step": 10 * e,
                        "epoch": e,
                        "train": {"loss": 2 / e},
                        "val": {"loss": 2.2 / e, score: 0.9 - 0.5 / e},
                    }
                    for e in range(1, 11)
                ]
    return out


def served_model(s: Sequences, labels: tuple[str, ...], patch: int, serves: str) -> Served:
    """An untrained network, and the classic model that is served (or the majority)."""
    channels = tuple(s.channels)
    low, high = (None, None) if labels else (50.0, 190.0)
    preparation = Preparation(
        kind="numbers",
        channels=channels,
        classes=labels,
        mean=(0.0,) * len(channels),
        deviation=(1.0,) * len(channels),
        patch=patch,
        missing=patch > 1,
        low=low,
        high=high,
    )
    signature = preparation.signature(64 // patch, patch)
    spec = ModelSpec(width=8, blocks=2)
    objective = ClassifySpec() if labels else RegressSpec()
    network = build_model(spec, signature, Output("sequence", max(len(labels), 1)), seed=0).eval()
    plain = Signature("floats", len(channels), 64, 1, "class" if labels else "number", len(labels))
    x = Examples(s.values, s.offsets, s.codes() if labels else s.numbers().astype(np.float32), np.arange(len(s)))
    classic = serves if serves in without_gradients() else "majority"
    fitted = fit_method(classic, x, plain)
    network_config = NetworkConfig(model=spec, objective=objective, length=64 // patch, temperature=2.6, arm="scratch")
    config = ModelConfig(
        layout=LayoutSpec(),
        preparation=preparation,
        network=network_config,
        classics={classic: fitted.facts},
        serve=serves if serves in without_gradients() else "network",
    )
    return Served(config, network, {classic: fitted})


def examples(patch: int = 1, channels: int = 1, size: int = 4, length: int = 40) -> dict[str, np.ndarray]:
    """Predictions of a masked stage."""
    rng = np.random.default_rng(1)
    inputs = np.sin(np.arange(length * patch)[None] / 4 + rng.uniform(0, 6, (size, 1)))
    wide = np.repeat(inputs[..., None], channels, -1).reshape(size, length, patch * channels).astype(np.float32)
    return {
        "val/inputs": wide,
        "val/masked": rng.random((size, length)) < 0.3,
        "val/valid": np.ones((size, length), dtype=bool),
        "val/output": wide + 0.1,
    }
