"""What is told to the flash kernel, with a slow kernel in its place: the same attention as with a mask."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from headstart.models.mixers import attend as attend_module
from headstart.models.mixers import flash as flash_module
from headstart.models.mixers.attend import attend
from headstart.models.mixers.flash import applies, boundaries, flash, runs
from headstart.models.mixers.local_attention import causal_windows, windows
from headstart.training.evaluate import forward_precision


def slow_varlen(query: Tensor, key: Tensor, value: Tensor, *sizes: Any, causal: bool) -> Tensor:
    """Each sequence by itself; causal ones end together. Sizes as torch's: ends of queries, of keys, the longest."""
    ends, keys_ends, longest, longest_keys = sizes
    assert ends.dtype == keys_ends.dtype == torch.int32
    assert (ends[-1], keys_ends[-1]) == (len(query), len(key)) == (len(query), len(value))
    parts = []
    for i in range(len(ends) - 1):
        q, (k, v) = query[ends[i] : ends[i + 1]], (x[keys_ends[i] : keys_ends[i + 1]] for x in (key, value))
        assert len(q) <= longest
        assert len(k) <= longest_keys
        if not len(q):
            continue
        assert len(k), "queries that see nothing"
        scores = torch.einsum("qhe,khe->hqk", q, k) * q.shape[-1] ** -0.5
        if causal:
            seen = torch.ones(len(q), len(k), dtype=torch.bool).tril(len(k) - len(q))
            scores = scores.masked_fill(~seen, -torch.inf)
        parts.append(torch.einsum("hqk,khe->qhe", scores.softmax(-1), v))
    return torch.cat(parts)


@pytest.fixture
def flashing(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Takes the flash kernel wherever a caller allows it; lists the shapes of its queries."""
    shapes: list[tuple[int, ...]] = []

    def varlen(query: Tensor, *rest: Any, causal: bool) -> Tensor:
        shapes.append(tuple(query.shape))
        return slow_varlen(query, *rest, causal=causal)

    monkeypatch.setattr(flash_module, "varlen", varlen)
    monkeypatch.setattr(attend_module, "applies", lambda _: True)
    return shapes


def tensors(batch: int, queries: int, keys: int) -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    shapes = ((batch, 2, queries, 4), (batch, 2, keys, 4), (batch, 2, keys, 4))
    return [torch.randn(*shape, generator=draw, dtype=torch.float64).requires_grad_() for shape in shapes]


def same(first: Tensor, second: Tensor, inputs: list[Tensor], where: Tensor | None = None) -> bool:
    """Outputs and gradients within 1e-12, where they count."""
    weight = torch.ones_like(first) if where is None else where.to(first.dtype).expand_as(first)
    grads = [torch.autograd.grad((out * out * weight).sum(), inputs) for out in (first, second)]
    pairs = [(first * weight, second * weight), *zip(*grads, strict=True)]
    return all(torch.allclose(a, b, rtol=0, atol=1e-12) for a, b in pairs)


def test_ragged_keys_are_a_run_of_the_row(flashing, monkeypatch):
    inputs = tensors(3, 9, 9)
    valid = torch.arange(9) < torch.tensor([9, 4, 1])[:, None]
    out = attend(*inputs, valid[:, None, None], run=True)
    monkeypatch.setattr(attend_module, "applies", lambda _: False)
    assert flashing == [(27, 2, 4)]
    assert same(out, attend(*inputs, valid[:, None, None], run=True), inputs)


@pytest.mark.parametrize("window", [1, 3, 4, 12])
@pytest.mark.parametrize("length", [9, 12])
def test_windows_and_their_neighbours_are_runs(window, length, flashing, monkeypatch):
    inputs = tensors(3, length, length)
    valid = torch.arange(length) < torch.tensor([length, 5, 1])[:, None]
    out = windows(*inputs, valid, window)
    assert len(flashing) == 1
    monkeypatch.setattr(attend_module, "applies", lambda _: False)
    assert same(out, windows(*inputs, valid, window), inputs, valid[:, None, :, None])


@pytest.mark.parametrize("window", [1, 3, 4])
def test_a_causal_window_ends_with_its_keys(window, flashing, monkeypatch):
    inputs = tensors(2, 10, 10)
    out = causal_windows(*inputs, window)
    assert len(flashing) == 1
    monkeypatch.setattr(attend_module, "applies", lambda _: False)
    assert same(out, causal_windows(*inputs, window), inputs)


def test_a_row_without_keys_sees_all_as_elsewhere(flashing):
    inputs = tensors(2, 3, 5)
    seen = torch.tensor([[False] * 5, [False, True, True, False, False]])
    first, count = runs(seen)
    assert (first.tolist(), count.tolist()) == ([0, 1], [5, 2])
    keys, queries = boundaries(first, count, 5, 3)
    assert (keys.tolist(), queries.tolist()) == ([0, 0, 5, 5, 6, 8, 10], [0, 0, 3, 3, 3, 6, 6])
    assert same(flash(*inputs, seen, causal=False), flash(*inputs, seen | ~seen.any(-1, True), causal=False), inputs)
    assert len(flashing) == 2


def test_it_is_off_by_default_and_on_a_cpu(monkeypatch):
    query = torch.zeros(1, 1, 8, 8, dtype=torch.bfloat16)
    assert not applies(query)
    monkeypatch.setenv("HEADSTART_FLASH", "1")
    assert not applies(query), "a CPU has no such kernel"
    with forward_precision(torch.device("cpu"), "bfloat16"):
        assert flash_module.precision(query.float()) == torch.bfloat16
    assert flash_module.precision(query.float()) == torch.float32


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("causal", [False, True])
def test_the_kernel_itself_agrees(causal, monkeypatch):
    monkeypatch.setenv("HEADSTART_FLASH", "1")
    draw = torch.Generator().manual_seed(0)
    inputs = [torch.randn(3, 2, 64, 16, generator=draw).to("cuda", torch.bfloat16).requires_grad_() for _ in range(3)]
    valid = torch.arange(64, device="cuda") < torch.tensor([64, 20, 1], device="cuda")[:, None]
    take = (lambda *x: causal_windows(*x, 16)) if causal else (lambda *x: attend(*x, valid[:, None, None], run=True))
    assert applies(inputs[0])
    first = take(*inputs)
    grads = torch.autograd.grad(first.float().square().sum(), inputs)
    monkeypatch.delenv("HEADSTART_FLASH")
    second = take(*inputs)
    others = torch.autograd.grad(second.float().square().sum(), inputs)
    for a, b in [(first, second), *zip(grads, others, strict=True)]:
        assert float((a - b).abs().max()) <= 0.03 * float(b.abs().max())
