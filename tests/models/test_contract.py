"""The contract of mixers catches each way to break it, and says so."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from support.mixers import check_facts, example_of
from torch import Tensor, nn

from headstart.errors import Broken
from headstart.models.contract import MIXER_CHECKS, check_mixer, counted_flops, growth
from headstart.models.mixers.mixer import MixerSpec


class Mean(nn.Module):
    """The running or the whole mean of valid positions, through one layer: a mixer that holds to the contract."""

    parts: ClassVar[dict[str, str]] = {"output": "value_output"}

    def __init__(self, width: int, causal: bool) -> None:
        super().__init__()
        self.causal, self.output = causal, nn.Linear(width, width)

    def forward(self, x: Tensor, valid: Tensor | None, draw: Any = None) -> Tensor:
        values = x if valid is None else x.masked_fill(~valid[:, :, None], 0.0)
        there = torch.ones_like(x[..., :1]) if valid is None else valid[:, :, None].to(x.dtype)
        if self.causal:
            mean = values.cumsum(1) / there.cumsum(1)
        else:
            mean = values.sum(1, keepdim=True).expand_as(x) / there.sum(1, keepdim=True)
        out: Tensor = self.output(mean)
        return out


class MeanSpec(MixerSpec):
    kind: str = "mean"

    def build(self, width: int, length: int, causal: bool) -> nn.Module:
        return Mean(width, causal)

    def flops(self, width: int, length: int, causal: bool) -> float:
        return 2.0 * length * width**2


Forward = Callable[[Mean, Tensor, Tensor | None, Any], Tensor]
true_forward: Any = Mean.forward


def changed(
    forward: Forward | None = None, start: Callable[[Mean], None] | None = None, **more: Any
) -> type[MixerSpec]:
    """A spec like MeanSpec whose module has another forward, is changed after building, or other attributes."""

    class Other(Mean):
        pass

    if forward is not None:
        Other.forward = forward  # type: ignore[method-assign, assignment]

    class OtherSpec(MeanSpec):
        def build(self, width: int, length: int, causal: bool) -> nn.Module:
            module = Other(width, causal)
            if start is not None:
                start(module)
            return module

    for name, value in more.items():
        setattr(OtherSpec, name, value)
    return OtherSpec


def leaks(self: Mean, x: Tensor, valid: Tensor | None, draw: Any = None) -> Tensor:
    return true_forward(self, x, None, draw)


def flipped(self: Mean, x: Tensor, valid: Tensor | None, draw: Any = None) -> Tensor:
    return true_forward(self, x.flip(1), None if valid is None else valid.flip(1), draw)


def flattened(self: Mean, x: Tensor, valid: Tensor | None, draw: Any = None) -> Tensor:
    return true_forward(self, x, valid, draw).mean(1)


def nothing(self: Mean, x: Tensor, valid: Tensor | None, draw: Any = None) -> Tensor:
    return self.output(x)


def broken_numbers(self: Mean, x: Tensor, valid: Tensor | None, draw: Any = None) -> Tensor:
    return true_forward(self, x, valid, draw) * float("nan")


def remembers(self: Any, x: Tensor, valid: Tensor | None, draw: Any = None) -> Tensor:
    self.count += 1
    return true_forward(self, x, valid, draw)


def chance(self: Mean, x: Tensor, valid: Tensor | None, draw: Any = None) -> Tensor:
    return true_forward(self, x, valid, draw) + torch.rand_like(x)


def branches(self: Mean, x: Tensor, valid: Tensor | None, draw: Any = None) -> Tensor:
    out = true_forward(self, x, valid, draw)
    return -out if float(self.output.weight.detach().sum()) > 0 else out


def extra(module: Mean) -> None:
    module.unused = nn.Parameter(torch.zeros(2))


def spun(module: Mean) -> None:
    module.phase = nn.Parameter(torch.zeros(2, dtype=torch.complex64))


def counting(module: Mean) -> None:
    module.register_buffer("count", torch.zeros(()))


def hidden(self: Any, x: Tensor, valid: Tensor | None, draw: Any = None) -> Tensor:
    return true_forward(self, x, valid, draw) + x @ self.tensors[0]


def behind(self: Mean, x: Tensor, valid: Tensor | None, draw: Any = None) -> Tensor:
    """Whole chunks of 64 positions are rolled the wrong way."""
    out, whole = true_forward(self, x, valid, draw), x.shape[1] // 64 * 64
    chunks = x[:, :whole].unflatten(1, (-1, 64)).roll(-1, 2).flatten(1, 2) if whole else x[:, :0]
    return out + torch.cat([chunks, x[:, whole:]], 1)


def seeding(module: Any) -> None:
    torch.manual_seed(0)
    module.output.reset_parameters()


def reseeding(module: Any) -> None:
    nn.init.normal_(module.output.weight, generator=torch.Generator().manual_seed(0))
    nn.init.zeros_(module.output.bias)


def unseeded(module: Any) -> None:
    nn.init.normal_(
        module.output.weight, generator=torch.Generator().manual_seed(int(np.random.default_rng().integers(9**9)))
    )


def numpy_seeding(module: Any) -> None:
    np.random.seed(0)


def listed(module: Any) -> None:
    module.tensors = [module.output.weight]


def misnamed(module: Any) -> None:
    module.undecayed = {"outputs"}


def misplaced(module: Any) -> None:
    module.parts = {"output": "value"}


def stating(share: float) -> Callable[..., float]:
    """A closed form that states another share of the true one."""

    def flops(_: Any, width: int, length: int, __: bool) -> float:
        return share * 2.0 * length * width**2

    return flops


BROKEN: list[tuple[str, type[MixerSpec], str]] = [
    ("shape", changed(flattened), r"shape \(3, 12, 16\) torch.float32 went in, \(3, 16\)"),
    ("shape", changed(broken_numbers), "NaN or infinity in the output at length 12"),
    ("mixing", changed(nothing), "the first position reaches no later one"),
    ("padding", changed(leaks), "other numbers in the padding moved a valid position.*at most 1e-05.* in float32"),
    ("causality", changed(flipped), r"mixer 'mean' \(causal\): position 1 of 12 and later ones moved an earlier one"),
    ("causality", changed(behind), "position 1 of 515 and later ones moved an earlier one"),
    ("padding", changed(behind), r"other numbers in the padding moved a valid position \(515 positions\)"),
    ("seeds", changed(start=seeding), "build seeds torch's generator, so that every seed and every block starts alike"),
    ("seeds", changed(start=numpy_seeding), "build seeds numpy's generator"),
    ("seeds", changed(start=reseeding), "builds with two seeds have the same weights, 'output.weight' among them"),
    ("seeds", changed(start=unseeded), "two builds with one seed have other weights"),
    ("causality", changed(can_be_causal=False), r"build\(causal=True\) must raise BadInput"),
    ("gradients", changed(start=extra), "no gradient reaches 'unused'; use it, or set its requires_grad False"),
    ("purity", changed(remembers, counting), "a forward changed 'count'; keep no state between calls"),
    ("purity", changed(chance), r"two equal calls gave two answers; draw random numbers with `draw\(name, shape\)`"),
    ("names", changed(start=misnamed), "undecayed names 'outputs': no 'outputs'; did you mean 'output"),
    ("names", changed(start=misplaced), "parts: no 'value'; did you mean 'value_output'"),
    ("names", changed(start=spun), "'phase' is torch.complex64; keep a complex one as two real ones"),
    ("flops", changed(flops=stating(1.5)), "says 9216, a count 6144; correct it"),
    ("stacking", changed(branches), "cannot be stacked"),
    ("stacking", changed(hidden, listed), "'output.weight', trained in a stack and apart: they differ"),
]


@pytest.mark.parametrize(("check", "cls", "words"), BROKEN, ids=[f"{c}-{i}" for i, (c, _, _) in enumerate(BROKEN)])
def test_each_way_to_break_the_contract_is_caught_in_words(check: str, cls: type[MixerSpec], words: str) -> None:
    with pytest.raises(Broken, match=words):
        MIXER_CHECKS[check](example_of(cls))


def test_a_mixer_that_holds_to_the_contract_passes_every_check() -> None:
    assert check_mixer(MeanSpec) == dict.fromkeys(MIXER_CHECKS)


def test_all_checks_of_a_broken_class_are_told_at_once_whatever_it_raises() -> None:
    def fails(self: Mean, x: Tensor, valid: Tensor | None, draw: Any = None) -> Tensor:
        raise KeyError("lost")

    problems = check_mixer(changed(fails))
    assert problems["shape"] == "KeyError: 'lost'"
    assert problems["names"] is None


def test_work_that_a_count_cannot_see_may_be_stated_with_words() -> None:
    cls = changed(flops=stating(1.5), uncounted="the running mean")
    MIXER_CHECKS["flops"](example_of(cls))
    with pytest.raises(Broken, match="a count 6144"):
        MIXER_CHECKS["flops"](example_of(changed(flops=stating(0.5), uncounted="the mean")))


def test_untrue_facts_are_named() -> None:
    true = {"cost": "L", "causal": True, "parameters": 128 * 129}
    check_facts(MeanSpec, true)
    for name, value in (("cost", "L^2"), ("causal", False), ("parameters", 1)):
        with pytest.raises(Broken, match=re.escape(f"the table's {name} is {value!r}, the module's {true[name]!r}")):
            check_facts(MeanSpec, {**true, name: value})
    check_facts(MeanSpec, {})
    with pytest.raises(Broken, match="the table: no 'costs'; did you mean 'cost'"):
        check_facts(MeanSpec, {"costs": "L"})


def forms() -> Iterator[tuple[str, Callable[[int], float]]]:
    yield "L", lambda n: 3.0 * n + 7
    yield "L log L", lambda n: 40.0 * n + 2.0 * n * math.log2(n)
    yield "L^1.5", lambda n: 100.0 * n + n**1.5
    yield "L^2", lambda n: 1e5 * n + n**2


@pytest.mark.parametrize(("cost", "form"), list(forms()))
def test_a_cost_is_read_from_the_growth_of_the_closed_form(cost: str, form: Callable[[int], float]) -> None:
    assert growth(form) == cost


def test_counts_hold_products_transforms_and_attention() -> None:
    x = torch.randn(3, 16)
    assert counted_flops(lambda: x @ x.T) == 2 * 3 * 3 * 16
    assert counted_flops(lambda: torch.fft.rfft(x)) == 3 * 2.5 * 16 * 4
    assert counted_flops(lambda: torch.fft.irfft(torch.fft.rfft(x), n=16)) == 2 * 3 * 2.5 * 16 * 4
    assert counted_flops(lambda: torch.fft.fft(x.to(torch.complex64))) == 3 * 5 * 16 * 4
    q = torch.randn(2, 3, 8, 4)
    seen = torch.nn.functional.scaled_dot_product_attention
    assert counted_flops(lambda: seen(q, q, q)) == 2 * 2 * 3 * 8 * 8 * (4 + 4)
