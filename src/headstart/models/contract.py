"""What every mixer must hold to: checks that say in words what fails, for the table and a user's class."""

from __future__ import annotations

import itertools
import math
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap

from headstart.errors import BadInput, Broken, nearest
from headstart.models.counting import counted_flops, flops_are_off
from headstart.models.mixers.mixer import MIXER_PARTS, MixerSpec
from headstart.seeds import Draw, generators_seeded
from headstart.spec import read

WIDTH, LENGTH = 16, 12
LENGTHS = (12, 7, 1)
"""Valid positions of the three sequences of a batch of checks."""
LONG, LONG_LENGTHS = 515, (515, 300, 70)
"""The same of a batch in which chunks of up to 256 positions have borders: a leak may show behind them alone."""
CUTS = (1, LENGTH // 2, LENGTH - 1)
LONG_CUTS = (1, 17, 33, 65, 129, 257, LONG // 2 + 2, LONG - 1)
"""Positions from which on a sequence is changed."""
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}
"""How far padding, or the future of a causal mixer, may move a position: a share of the largest output."""
STACK_TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
"""How far a stack of models may be from models trained apart, after 20 steps."""
FACTS_WIDTH, FACTS_LENGTH = 128, 1024


@dataclass(frozen=True)
class MixerCase:
    """One way to build a mixer: causal or not, with positions inside it or without.

    `inside`: `rotary`, `partly rotary`, or `bias`, one that learns, added to its scores.
    """

    spec: MixerSpec
    causal: bool
    inside: Literal["", "rotary", "partly rotary", "bias"]

    def __str__(self) -> str:
        inside = f", {self.inside}" if self.inside else ""
        return f"mixer {self.spec.kind!r} ({'causal' if self.causal else 'bidirectional'}{inside})"

    def build(self, seed: int = 0, dtype: torch.dtype | None = torch.float64, length: int = LENGTH) -> nn.Module:
        """The module with its own random numbers, in `dtype` (None: as it is built)."""
        more = {"theta": 10_000.0} if "rotary" in self.inside else {}
        more |= {"share": 0.5} if self.inside == "partly rotary" else {}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = self.spec.build(WIDTH, length, self.causal, **more)
            if self.inside == "bias":
                heads: int = self.spec.heads  # type: ignore[attr-defined]
                module.register_parameter("bias", nn.Parameter(torch.randn(heads, length, length)))
                module.register_forward_pre_hook(_with_bias)
        return module.to(dtype=dtype)


def _with_bias(module: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a forward, with the module's own bias (H, L, L) behind `draw`."""
    x, valid, draw = (*arguments, None)[:3]
    return x, valid, draw, module.bias[:, : x.shape[1], : x.shape[1]]


def cases(spec: MixerSpec) -> Iterator[MixerCase]:
    """Every way to build a mixer."""
    for causal in (False, True) if spec.can_be_causal else (False,):
        yield MixerCase(spec, causal, "")
        if spec.rotary:
            yield MixerCase(spec, causal, "rotary")
        # One direction each: causal models turn a part of a head (GPT-NeoX), the others have a bias (T5).
        if spec.partial_rotary and causal:
            yield MixerCase(spec, causal, "partly rotary")
        if spec.takes_bias and not causal:
            yield MixerCase(spec, causal, "bias")


def _normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _batch(dtype: torch.dtype, lengths: Sequence[int] = LENGTHS) -> tuple[Tensor, Tensor]:
    """x (3, L, D) and valid (3, L), padded at the end."""
    valid = torch.arange(lengths[0])[None] < torch.tensor(lengths)[:, None]
    return _normal(1, len(lengths), lengths[0], WIDTH).to(dtype), valid


def _draws(rows: slice = slice(None)) -> list[Draw | None]:
    """Evaluation and training."""
    return [None, Draw(3, 1, torch.arange(len(LENGTHS))[rows])]


def _trials(
    spec: MixerSpec, dtypes: Iterable[torch.dtype] = TOLERANCE, lengths: Sequence[int] = LENGTHS
) -> Iterator[tuple[MixerCase, nn.Module, Tensor, Tensor]]:
    """Every way to build a mixer, its module in each type of numbers, and a batch x, valid."""
    for case in cases(spec):
        for dtype in dtypes:
            yield case, case.build(dtype=dtype, length=lengths[0]), *_batch(dtype, lengths)


def _short_and_long(spec: MixerSpec) -> Iterator[tuple[MixerCase, nn.Module, Tensor, Tensor]]:
    """The same, and once more in float64 on long sequences."""
    yield from _trials(spec)
    with torch.no_grad():
        yield from _trials(spec, [torch.float64], LONG_LENGTHS)


def _largest(x: Tensor) -> float:
    return float(x.detach().abs().max())


def _close(
    case: MixerCase,
    what: str,
    first: Tensor,
    second: Tensor,
    scale: float | None = None,
    tolerances: Mapping[torch.dtype, float] = TOLERANCE,
) -> None:
    """Raises: Broken where the largest difference is above tolerance x scale (default: that of `first`)."""
    size, tolerance = _largest(first) if scale is None else scale, tolerances[first.dtype]
    far = float((first.detach() - second.detach()).abs().max())
    if not far <= tolerance * size:
        share, kind = far / max(size, 1e-300), str(first.dtype).removeprefix("torch.")
        raise Broken(
            f"{case}: {what}: they differ by {far:.1e}, {share:.1e} of the scale {size:.2g}; "
            f"at most {tolerance:.0e} is allowed in {kind}"
        )


def check_shape(spec: MixerSpec) -> None:
    """(B, L, D) -> (B, L, D) without NaN, at full length, shorter and of one position; None as all valid."""
    for case, module, x, valid in _trials(spec):
        for length, draw in itertools.product((LENGTH, 5, 1), _draws()):
            inputs, everywhere = x[:, :length], torch.ones_like(valid[:, :length])
            answer = module(inputs, everywhere, draw)
            if answer.shape != inputs.shape or answer.dtype != x.dtype:
                came = f"{tuple(answer.shape)} {answer.dtype} came out"
                raise Broken(f"{case}: shape {tuple(inputs.shape)} {x.dtype} went in, {came}")
            if not bool(answer.isfinite().all()):
                raise Broken(f"{case}: NaN or infinity in the output at length {length}")
            _close(case, "valid = None and valid = all true must be one thing", answer, module(inputs, None, draw))
        if not bool(module(x, valid).isfinite().all()):
            raise Broken(f"{case}: NaN or infinity in the output of a padded batch")


def check_mixing(spec: MixerSpec) -> None:
    """What stands at the first position reaches a later one."""
    for case, module, x, valid in _trials(spec, [torch.float64]):
        other = x.clone()
        other[:, 0] = _normal(2, len(LENGTHS), WIDTH)
        if torch.equal(module(x, valid)[0, 1:], module(other, valid)[0, 1:]):
            raise Broken(f"{case}: the first position reaches no later one; a mixer mixes along L")


def check_padding(spec: MixerSpec) -> None:
    """Neither what padding holds nor that it is there moves a valid position, at 12 positions and at 515."""
    for case, module, x, valid in _short_and_long(spec):
        lengths, longest = valid.sum(1).tolist(), valid.shape[1]
        other = torch.where(valid[:, :, None], x, 100 * _normal(2, *x.shape).to(x.dtype))
        for number, draw in enumerate(_draws()):
            answer, moved = module(x, valid, draw), module(other, valid, draw)
            scale, what = _largest(answer[valid]), "other numbers in the padding moved a valid position"
            _close(case, f"{what} ({longest} positions)", answer[valid], moved[valid], scale)
            for row, length in enumerate(lengths):
                alone = module(x[row : row + 1, :length], None, _draws(slice(row, row + 1))[number])
                what = f"a sequence of {length} differs alone and padded to {longest}"
                _close(case, what, answer[row : row + 1, :length], alone, scale)


def check_causality(spec: MixerSpec) -> None:
    """No position of a causal mixer sees a later one, of 12 and of 515; one that cannot be causal refuses to be."""
    if not spec.can_be_causal:
        try:
            spec.build(WIDTH, LENGTH, True)
        except BadInput:
            return
        raise Broken(f"mixer {spec.kind!r}: can_be_causal is False, so that build(causal=True) must raise BadInput")
    for case, module, x, _ in _short_and_long(spec):
        answer, length = module(x, None), x.shape[1]
        for position in (CUTS if length == LENGTH else LONG_CUTS) if case.causal else ():
            other = torch.cat([x[:, :position], _normal(4, *x[:, position:].shape).to(x.dtype)], 1)
            what = f"position {position} of {length} and later ones moved an earlier one"
            _close(case, what, answer[:, :position], module(other, None)[:, :position], _largest(answer))


def check_gradients(spec: MixerSpec) -> None:
    """Finite gradients reach every parameter that does not declare itself frozen (requires_grad False)."""
    for case, module, x, valid in _trials(spec, [torch.float64]):
        for number, parameter in enumerate(module.parameters()):
            # Away from the start, where a layer that begins at zero may cut the others off.
            parameter.data += 0.01 * _normal(number, *parameter.shape)
        weight = _normal(5, *x.shape)
        (module(x, valid, _draws()[1]) * weight)[valid].sum().backward()
        for name, parameter in module.named_parameters():
            if not parameter.requires_grad:
                continue
            if parameter.grad is None or not bool(parameter.grad.any()):
                raise Broken(f"{case}: no gradient reaches {name!r}; use it, or set its requires_grad False")
            if not bool(parameter.grad.isfinite().all()):
                raise Broken(f"{case}: the gradient of {name!r} has NaN or infinity in it")


def check_purity(spec: MixerSpec) -> None:
    """Equal calls give equal bits, training or not, and change no tensor of the module."""
    for case, module, x, valid in _trials(spec, [torch.float64]):
        before = {name: value.detach().clone() for name, value in _tensors(module).items()}
        for draw in _draws():
            if not torch.equal(module(x, valid, draw), module(x, valid, draw)):
                raise Broken(f"{case}: two equal calls gave two answers; draw random numbers with `draw(name, shape)`")
        for name, value in _tensors(module).items():
            if not torch.equal(before[name], value):
                raise Broken(f"{case}: a forward changed {name!r}; keep no state between calls")


def check_seeds(spec: MixerSpec) -> None:
    """Fresh weights follow from the seed: one seed gives equal ones, another one others; a build seeds no generator."""
    for case in cases(spec):
        built = [_built(case, seed) for seed in (0, 0, 1)]
        (first, _), (second, _), (third, _) = built
        if any(not torch.equal(value, second[name]) for name, value in first.items()):
            raise Broken(f"{case}: two builds with one seed have other weights; draw them with torch's generator")
        for generator, state in built[0][1].items():
            if state == built[2][1][generator]:
                raise Broken(
                    f"{case}: build seeds {generator} generator, so that every seed and every block starts alike; "
                    "leave that out"
                )
        drawn = [name for name, value in first.items() if value.numel() > 1 and len(torch.unique(value)) > 2]
        if drawn and all(torch.equal(first[name], third[name]) for name in drawn):
            raise Broken(
                f"{case}: builds with two seeds have the same weights, {drawn[0]!r} among them; draw them with torch's "
                "own generator, without a seed of your own"
            )


def _built(case: MixerCase, seed: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The parameters of a fresh module, and where each generator stands then."""
    with generators_seeded(seed):
        module = case.spec.build(WIDTH, LENGTH, case.causal)
        states = {
            "torch's": torch.get_rng_state().numpy().tobytes(),
            "numpy's": np.random.get_state()[1].tobytes(),  # type: ignore[index]
            "Python's": random.getstate(),
        }
    return {name: value.detach() for name, value in module.named_parameters()}, states


def check_names(spec: MixerSpec) -> None:
    """Parts, undecayed and rates name tensors that there are; all parameters are real floats."""
    for case in cases(spec):
        module = case.build(dtype=None)
        names = list(_tensors(module))
        for attribute in ("parts", "undecayed", "rates"):
            for prefix in getattr(module, attribute, ()):
                if not any(name == prefix or name.startswith(f"{prefix}.") for name in names):
                    raise Broken(f"{case}: {attribute} names {prefix!r}: {nearest(prefix, names)}")
        for leaf in getattr(module, "parts", {}).values():
            if leaf not in MIXER_PARTS:
                raise Broken(f"{case}: parts: {nearest(leaf, MIXER_PARTS)}")
        for name, parameter in module.named_parameters():
            if not parameter.is_floating_point():
                raise Broken(f"{case}: {name!r} is {parameter.dtype}; keep a complex one as two real ones")


def check_flops(spec: MixerSpec) -> None:
    """The closed form agrees with a count of matrix products, convolutions and FFTs of one forward."""
    for case, length in itertools.product(cases(spec), (LENGTH, 64)):
        module = case.build(length=length).requires_grad_(False)
        counted = counted_flops(partial(module, _normal(1, 1, length, WIDTH), None))
        stated = spec.flops(WIDTH, length, case.causal)
        if flops_are_off(stated, counted, spec.uncounted):
            raise Broken(
                f"{case}: flops(width={WIDTH}, length={length}) says {stated:.0f}, a count "
                f"{counted:.0f}; correct it, or say in `uncounted` what the count cannot see"
            )


def check_stacking(spec: MixerSpec) -> None:
    """Three models trained as one stack are the three trained apart, after 20 steps downhill."""
    for case, dtype in itertools.product(cases(spec), STACK_TOLERANCE):
        x, valid = _batch(dtype)
        lesson = Lesson(x, valid, _normal(6, *x.shape).to(dtype))
        apart = [trained_apart(case.build(seed, dtype), lesson, seed) for seed in range(3)]
        try:
            together = trained_as_stack([case.build(seed, dtype) for seed in range(3)], lesson)
        except (RuntimeError, UserWarning) as error:
            raise Broken(f"{case}: cannot be stacked: {error}") from error
        for name, stacked in together.items():
            alone = torch.stack([each[name] for each in apart])
            # A tensor that hardly moves from zero is compared on the scale of a small weight.
            scale = max(_largest(alone), 1e-2)
            _close(case, f"{name!r}, trained in a stack and apart", alone, stacked, scale, STACK_TOLERANCE)


@dataclass(frozen=True)
class Lesson:
    """What the copies learn: to map x (B, L, D), padded as valid (B, L) says, to target (B, L, D)."""

    x: Tensor
    valid: Tensor
    target: Tensor
    steps: int = 20
    rate: float = 0.05

    def loss(self, module: Callable[..., Tensor], seed: Any) -> Tensor:
        """Mean squared distance of the valid outputs from the target."""
        answer = module(self.x, self.valid, Draw(seed, 0, torch.arange(self.x.shape[0])))
        missed: Tensor = (answer - self.target).square().masked_fill(~self.valid[:, :, None], 0.0)
        return missed.sum() / self.valid.sum() / self.x.shape[2]

    def stepped(self, weights: Mapping[str, Tensor], slopes: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """One step downhill, of a length below `rate`: steep kernels must not blow up."""
        long = torch.stack([slope.square().sum() for slope in slopes.values()]).sum().sqrt()
        return {name: value - self.rate * slopes[name] / (1.0 + long) for name, value in weights.items()}


def learned(module: nn.Module) -> dict[str, Tensor]:
    """Copies of the parameters that learn."""
    return {name: p.detach().clone() for name, p in module.named_parameters() if p.requires_grad}


def trained_apart(module: nn.Module, lesson: Lesson, seed: int) -> dict[str, Tensor]:
    """Weights after the lesson, by plain autograd on the module's own tensors, which change."""
    weights = {name: p for name, p in module.named_parameters() if p.requires_grad}
    for _ in range(lesson.steps):
        slopes = torch.autograd.grad(lesson.loss(module, seed), list(weights.values()))
        with torch.no_grad():
            for name, value in lesson.stepped(weights, dict(zip(weights, slopes, strict=True))).items():
                weights[name].copy_(value)
    return learned(module)


def trained_as_stack(modules: Sequence[nn.Module], lesson: Lesson) -> dict[str, Tensor]:
    """Weights (models, ...) after the lesson under `vmap(grad(...))`; model i draws with the seed i.

    Raises: RuntimeError or UserWarning where an operation cannot be stacked, or only as a loop.
    """
    parameters, buffers = stack_module_state(list(modules))
    weights = {name: parameters.pop(name).detach() for name in learned(modules[0])}
    rest = {name: value.detach() for name, value in {**parameters, **buffers}.items()}

    def loss(own: dict[str, Tensor], seed: Any, still: dict[str, Tensor]) -> Tensor:
        return lesson.loss(lambda *inputs: functional_call(modules[0], {**still, **own}, inputs), seed)

    slopes = vmap(grad(loss))
    step, seeds = vmap(lesson.stepped), torch.arange(len(modules))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*batching rule.*")
        for _ in range(lesson.steps):
            weights = step(weights, slopes(weights, seeds, rest))
    return weights


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and all buffers."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


MIXER_CHECKS: dict[str, Callable[[MixerSpec], None]] = {
    "shape": check_shape,
    "mixing": check_mixing,
    "padding": check_padding,
    "causality": check_causality,
    "gradients": check_gradients,
    "purity": check_purity,
    "seeds": check_seeds,
    "names": check_names,
    "flops": check_flops,
    "stacking": check_stacking,
}


def growth(flops: Callable[[int], float], length: int = 2**22) -> str:
    """How a closed form grows with the length: `L`, `L log L`, `L^1.5` or `L^2`.

    What exceeds linear growth, f(2 L) - 2 f(L), is told by how fast it doubles itself.
    """
    first = flops(2 * length) - 2 * flops(length)
    second = flops(4 * length) - 2 * flops(2 * length)
    if first < 1e-4 * flops(length):
        return "L"
    power = round(2 * math.log2(second / first)) / 2
    return "L log L" if power == 1 else f"L^{power:g}"


def measured_facts(cls: type[MixerSpec]) -> dict[str, Any]:
    """Of a spec's defaults: `cost` (how FLOPs grow with the length), `causal`, and `parameters` at D 128, L 1,024."""
    spec = read(cls, {}, cls.__name__)
    module = spec.build(FACTS_WIDTH, FACTS_LENGTH, False)
    return {
        "cost": growth(lambda length: spec.flops(FACTS_WIDTH, length, False)),
        "causal": spec.can_be_causal,
        "parameters": sum(p.numel() for p in module.parameters()),
    }


def check_mixer(cls: type[MixerSpec], settings: Mapping[str, Any] | None = None) -> dict[str, str | None]:
    """All checks of a mixer with these settings over its example: what is wrong with each, or None where it holds."""
    problems: dict[str, str | None] = dict.fromkeys(MIXER_CHECKS)
    spec = read(cls, {**cls.example, **(settings or {})}, "mixer")
    for name, check in MIXER_CHECKS.items():
        try:
            check(spec)
        except Exception as error:  # A user's code may fail in any way; each check says its own.
            problems[name] = str(error) if isinstance(error, BadInput) else f"{type(error).__name__}: {error}"
    return problems
