"""Finished studies and their reports, made up stage by stage without training anything."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from headstart.report.page import write_report
from headstart.store import Store, publish_json, seal
from headstart.study.language.papers import make_paper
from headstart.study.language.plan import Cell, Plan, make_plan
from headstart.study.language.spec import read_study
from headstart.study.paper.summary import summarise
from headstart.study.results.collect import gather
from headstart.study.results.results import Results
from support.made_up import LR, result

NASTY = "<script>alert('&')</script>{{ 7*7 }}"
Done = tuple[Plan, Results, Path]
"""A plan, its results and the page of its report."""


def study(title: str = "Does it help?", **more: Any) -> dict[str, Any]:
    model = {"width": 8, "blocks": 1, "mixer": {"kind": "attention", "heads": 2}, "position": {"kind": "rotary"}}
    return {
        "name": "tried",
        "title": title,
        "stages": {
            "pretrain": {"objective": {"kind": "masked"}, "budget": {"epochs": 3}},
            "finetune": {"objective": {"kind": "classify"}, "budget": {"epochs": 2}},
        },
        "columns": {"digits": {"task": {"kind": "digits", "labelled": 200}, "model": model}},
        "arms": {"scratch": {}, "self_pretrained": {"finetune": {"parent": "pretrain", "start": ["take(all-head)"]}}},
        "axes": {LR: [1e-3, 3e-3], "seed": [0, 1, 2]},
        "report": {"choose": [LR], "against": "scratch"},
        **more,
    }


def score(cell: Cell) -> tuple[float, float]:
    """The pretrained arm is 0.2 to 0.22 above; the higher rate is better."""
    up = 0.0 if cell.arm == "scratch" else 0.2 + 0.01 * cell.seed
    return 0.4 + 20 * cell.settings[LR] + up, 0.38 + 20 * cell.settings[LR] + up


def fill(plan: Plan, store: Store, keep: int = 10**6) -> None:
    """Finished stages for the first `keep` runs, as the store keeps them."""
    for cell in plan.cells[:keep]:
        for planned in cell.chain:
            metric = "r2" if planned.name == "pretrain" else "accuracy"
            folder = store.root / planned.identity
            folder.mkdir(parents=True, exist_ok=True)
            spec = planned.spec.model_dump(mode="json")
            parent = cell.chain[0].identity if planned is not cell.chain[0] else None
            publish_json(
                folder / "stage.json",
                {"name": planned.name, "spec": spec, "parent": parent, "identity": planned.identity},
            )
            publish_json(folder / "result.json", result(planned.identity, *score(cell), metric=metric))
            lines = [
                {"step": 10 * e, "epoch": e, "train": {"loss": 2.0 / e}, "val": {"loss": 2.1 / e, metric: 0.1 * e}}
                for e in (1, 2)
            ]
            (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            tensors = {"val/output": torch.zeros(2, 10)}
            if planned.name == "pretrain":
                tensors = {
                    "val/inputs": torch.randn(4, 64, 1),
                    "val/masked": torch.rand(4, 64) < 0.5,
                    "val/valid": torch.ones(4, 64, dtype=torch.bool),
                    "val/output": torch.zeros(4, 64, 1),
                }
            (folder / "predictions.safetensors").write_bytes(seal(tensors, {"identity": planned.identity}))
    titles = {"majority": "majority class", "linear": "logistic regression on flat inputs"}
    for cell in plan.baselines if keep else ():
        identity = cell.chain[-1].identity
        (store.root / identity).mkdir(parents=True, exist_ok=True)
        whole = {**result(identity, 0.1, 0.1), "title": titles.get(cell.arm, "1-nearest neighbour on flat inputs")}
        publish_json(store.root / identity / "result.json", whole)


def written(tmp_path: Path, more: dict[str, Any] | None = None, keep: int = 10**6) -> tuple[Plan, Results, Path]:
    plan = make_plan(read_study(more or study()), tmp_path)
    store = Store(tmp_path / "runs")
    fill(plan, store, keep)
    results = summarise(plan, store.result, store.status, gather(plan), store.records)
    return plan, results, write_report(plan, results, store, tmp_path / "out")


def paper_study(**more: Any) -> dict[str, Any]:
    return {**study("T", **more), "scales": {"tiny": {"note": "one block"}, "small": {}}}


def with_paper(tmp_path: Path, source: str = "Doe, table 1", stood_in: bool = True) -> tuple[Results, Path]:
    """A report of a study with a made-up paper, at a scale with stand-in data."""
    plan = make_plan(read_study(paper_study()), tmp_path)
    store = Store(tmp_path / "runs")
    fill(plan, store)
    results = summarise(plan, store.result, store.status, gather(plan), store.records)
    rows = [{"row": arm.upper(), "arm": arm, "cells": {"digits": "0.5"}} for arm in results.arms]
    paper = make_paper(
        "made-up",
        {
            "source": source,
            "paper": "coser",
            "heads": {"digits": "CIFAR10"},
            "rows": rows,
            "claims": [{"says": "It helps", "higher": "self_pretrained", "lower": "scratch"}],
        },
    )
    cells = "digits for digits" if stood_in else ""
    results = replace(results, paper=paper, table=tuple(replace(row, stand_in=cells) for row in results.table))
    return results, write_report(plan, results, store, tmp_path / "out")
