"""A stage on several ranks gives the numbers of one rank, up to the order of summation."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from support.ranks import MADE, case, ended, processes, trained

TESTS = Path(__file__).parents[1]
CASES = [(3, name) for name in MADE] + [(2, name) for name in ("classify", "float32", "masked", "retrieve")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@cache
def shared(folder: Path, count: int) -> dict[str, torch.Tensor]:
    """What the cases come to on so many ranks, trained one after another by the same processes."""
    file, names = folder / f"{count}.safetensors", [name for number, name in CASES if number == count]
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    with processes([str(TESTS / "support" / "ranks.py"), str(file), *names], count, PYTHONPATH=path) as ranks:
        texts = ended(ranks, 240)
    assert [code for code, _ in texts] == [0] * count, texts
    return load_file(file)


@cache
def alone(name: str) -> dict[str, torch.Tensor]:
    return trained(case(name))


@pytest.mark.slow
@pytest.mark.parametrize(("count", "name"), CASES)
def test_twenty_steps_on_several_ranks_are_those_of_one(folder: Path, count: int, name: str) -> None:
    double = case(name).optim.precision == "float64"
    # A bias of keys moves no answer (softmax): its gradient is rounding alone, which AdamW divides by its own size.
    noise = () if double else ("key.bias",)
    limit, far = 1e-10 if double else 1e-5, {}
    for key, value in alone(name).items():
        other = shared(folder, count)[f"{name}|{key}"]
        assert other.dtype == value.dtype
        if not key.endswith(noise):
            far[key] = float((value - other).abs().max() / value.abs().max().clamp_min(1e-3))
    assert {key: value for key, value in far.items() if not value <= limit} == {}
