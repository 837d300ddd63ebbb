"""A whole model of a person's own: a torch module that stands in a study like the models that come with headstart."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from headstart.errors import BadInput, OwnCall, flops_of
from headstart.models.counting import counted_flops
from headstart.models.heads import Output, PoolKind, build_head, head_flops
from headstart.models.kind import ModelKind
from headstart.models.model import Network
from headstart.models.norms import Tensors
from headstart.models.outline import without_numbers
from headstart.models.seeding import seeded
from headstart.seeds import Draw, bits, generators_seeded
from headstart.sequence import Batch, Signature
from headstart.spec import digest
from headstart.text import plain


class OwnModelSpec(ModelKind):
    """Base of the specs of whole models of one's own, to be registered by `headstart.register_model(name, Spec)`.

    A subclass gives its `kind`, fields of its own, and `build`. The module's `forward(x, lengths)` (or `forward(x)`)
    takes x (B, L) int64 or (B, L, F) float and lengths (B,) int64, and gives (B, L, D) with D = `width`, a field or a
    class attribute; a head is put on top. With `head = False` it gives the outputs themselves: (B, K) for K classes,
    (B, T) for T numbers, (B, L, K) or (B, L, T) where the target is per position.
    Masked and missing numbers are 0; masked tokens have the id `signature.width - 1`, one more than the task has, so
    that `nn.Embedding(signature.width, D)` holds a vector for them.

    causal: the module's word that no position sees a later one. parts: prefix of a tensor's name in the module ->
    leaf (`headstart.parameters.LEAVES`), for `start` and `trainable`; what no prefix names is `mixer_rest`, a part of
    `mixer`, `backbone` and `all`.
    """

    pool: PoolKind = "mean"
    """How positions become one vector under a head."""
    head: ClassVar[bool] = True
    splits: ClassVar[bool] = False
    uncounted: ClassVar[str] = ""
    """Which work a `flops` of one's own states and a count misses, in words."""
    causal: ClassVar[bool] = False
    parts: ClassVar[Mapping[str, str]] = {}

    def describe(self) -> str:
        """`a model of the authors' own, 'my_conv' (width 32, dropout 0.1)`."""
        fields = [name for name in type(self).model_fields if name not in ("kind", "pool")]
        settings = ", ".join(f"{name.replace('_', ' ')} {plain(getattr(self, name))}" for name in fields)
        pooling = f", with {self.pool} pooling" if self.head else ""
        return f"a model of the authors' own, {self.kind!r}" + (f" ({settings})" if settings else "") + pooling

    @property
    def alone(self) -> str:
        """A stack cannot give each of its models torch's random numbers."""
        return f"the model {self.kind!r} is of a plugin and draws torch's own random numbers, of which a stack has none"

    def build(self, signature: Signature) -> nn.Module:
        """The module; its fresh weights are drawn from torch's generator (or numpy's, or Python's), which the stage's
        seed has seeded."""
        raise BadInput(f"model.kind: {self.kind!r} builds nothing; give its class `build(signature)`, as in the guide")

    def flops(self, signature: Signature, length: int) -> float:
        """FLOPs of a forward pass of the module over one sequence: a count of products, convolutions and FFTs.

        They are counted at the longest length and at powers of two, and the cost of a position is taken as linear in
        between. A subclass that knows better says so, and in `uncounted` what a count cannot see.
        """
        return _counted(self, signature).at(length)

    def answered(self, objective: Any) -> Any:
        """The objective. Raises: ValueError where a model without a head of ours is asked for something else."""
        if not self.head and not objective.uses_target:
            raise ValueError(
                f"objective: {objective.kind!r} needs a head of its own, and a model of kind {self.kind!r} gives "
                "outputs (head = False); let its forward give (B, L, D), or leave this stage out"
            )
        return objective

    def network(self, signature: Signature, output: Output, seed: int) -> OwnModel:
        """The module under its head. Raises: BadInput where no width is known, or pairs meet no head."""

        def build() -> nn.Module:
            with OwnCall(f"model.kind: build of {type(self).__name__}"):
                return self.build(own_signature(signature))

        net = seeded(seed, "model", build)
        if not isinstance(net, nn.Module):
            raise BadInput(f"model.kind: {self.kind!r}: build gives {type(net).__name__}; return a torch nn.Module")
        if not self.head:
            if output.kind == "pair":
                raise BadInput(f"model.kind: {self.kind!r} has no head of ours, which joins pairs; set head = True")
            return OwnModel(net, None, output.size, signature, self.parts, self.kind)
        width = getattr(self, "width", None)
        if not isinstance(width, int) or width < 1:
            raise BadInput(f"model.kind: {self.kind!r} says no width; write `width: int = 64`, the D of (B, L, D)")
        head = seeded(seed, "head", lambda: build_head(output, width, self.pool))
        return OwnModel(net, head, width, signature, self.parts, self.kind)

    def layer_flops(self, signature: Signature, output: Output, length: int) -> list[tuple[str, float]]:
        """FLOPs of a forward pass over one sequence: of the module, and of its head."""
        head = head_flops(output, self.width, length) if self.head else 0.0  # type: ignore[attr-defined]
        name = f"model.kind: flops of {type(self).__name__}"
        own = own_signature(signature)
        with OwnCall(name):
            flops = self.flops(own, length)
        return [("net", flops_of(name, flops)), ("head", head)]


class OwnModel(Network):
    """A module of one's own, and the head where it has one of ours.

    In training torch's, numpy's and Python's own generators are seeded by the stage's seed and the batch, so that a
    stage that was killed goes on with equal bits. Buffers may be changed by a forward in training: they are state,
    saved with the weights; those with `persistent=False` are caches. A batch norm whose own weights do not train stands
    still. size: the last axis of what the module gives, None: not checked.
    """

    recordable = False

    def __init__(
        self,
        net: nn.Module,
        head: nn.Module | None,
        size: int | None,
        signature: Signature,
        parts: Mapping[str, str] | None = None,
        kind: str = "",
    ) -> None:
        super().__init__()
        if not isinstance(parts or {}, Mapping):
            raise BadInput(
                f"model.kind: {kind!r}: parts is {parts!r}; write the beginnings of tensors' names with the part of "
                'each, as in {"embed": "encoder"}'
            )
        self.net, self.head, self.size, self.kind = net, head, size, kind or type(net).__name__
        self.parts, self.saved = dict(parts or {}), frozenset(net.state_dict())
        self.hidden_token = signature.width
        self.takes_lengths = takes_lengths(net)

    def forward(self, batch: Batch, draw: Draw | None = None, statistics: Tensors | None = None) -> Tensor:
        """The head's answer, or the module's own: (B, size), (B, L, size) or, for pairs, (B / 2, size)."""
        x = self.embed(batch, draw, statistics)
        if self.head is None:
            return x
        return self.head(x, None if batch.full else batch.valid)

    def exportable(self, length: int) -> nn.Module:
        """What is exported in its place, for at most `length` positions."""
        return OwnAtLength(self, length)

    def embed(self, batch: Batch, draw: Draw | None = None, statistics: Tensors | None = None) -> Tensor:
        """What the module gives: (B, L, D), or outputs where it has no head of ours."""
        inputs = self._inputs(batch)
        inputs = inputs.clone() if inputs is batch.inputs else inputs  # a module may write into what it gets
        self._set_mode(training=draw is not None)
        before = dict(self.net.named_buffers())
        with _generators(draw, inputs.device):
            x = self.net(inputs, batch.valid.sum(1)) if self.takes_lengths else self.net(inputs)
        self._keep_buffers(before, statistics)
        shape = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        whole, short = (*inputs.shape[:2], self.size), (len(inputs), self.size)
        fits = self.size is None or shape == whole or (shape == short and self.head is None)
        if not fits or not isinstance(x, Tensor):
            wanted = f"(B, L, D) = {whole}" if self.head is not None else f"(B, K) = {short} or (B, L, K) = {whole}"
            raise BadInput(f"model: {self.kind!r} gives {shape} for inputs {tuple(inputs.shape)}; let it give {wanted}")
        return x

    def _inputs(self, batch: Batch) -> Tensor:
        inputs = batch.inputs
        if not inputs.is_floating_point():
            return inputs if batch.masked is None else inputs.masked_fill(batch.masked, self.hidden_token)
        if batch.observed is not None:
            inputs = inputs.masked_fill(~batch.observed, 0.0)
        return inputs if batch.masked is None else inputs.masked_fill(batch.masked[:, :, None], 0.0)

    def _set_mode(self, training: bool) -> None:
        """Training or evaluation; normalisation that does not train stands still."""
        self.net.train(training)
        if training:
            any_trains = any(weight.requires_grad for weight in self.net.parameters())
            for module in self.net.modules():
                if isinstance(module, nn.modules.batchnorm._NormBase):
                    own = [weight.requires_grad for weight in module.parameters(recurse=False)]
                    module.train(any(own) if own else any_trains)

    def _keep_buffers(self, before: Mapping[str, Tensor], statistics: Tensors | None) -> None:
        """Saved buffers that the module has replaced are the old tensors again; new values are handed out."""
        for name, value in list(self.net.named_buffers()):
            if name in self.saved and name in before and value is not before[name]:
                path, _, own = name.rpartition(".")
                self.net.get_submodule(path)._buffers[own] = before[name]
                if statistics is not None:
                    statistics[f"net.{name}"] = value.detach()


class OwnAtLength(nn.Module):
    """A whole model of a person's own on inputs that are padded to `length` positions, under its head where it has one.

    Shapes: a batch of (B, L) or (B, L, F) with L at most `length` -> (B, size).
    """

    def __init__(self, network: OwnModel, length: int) -> None:
        super().__init__()
        self.net, self.head, self.takes_lengths, self.length = network.net, network.head, network.takes_lengths, length

    def forward(self, batch: Batch) -> Tensor:
        positions, padded = torch.arange(batch.inputs.shape[1]), torch.arange(self.length)
        index = torch.minimum(padded, positions[-1])
        valid = batch.valid[:, index] & (padded <= positions[-1])
        x = batch.inputs[:, index]
        x = torch.where(valid if x.ndim == 2 else valid[:, :, None], x, torch.zeros((), dtype=x.dtype))
        out: Tensor = self.net(x, valid.sum(1)) if self.takes_lengths else self.net(x)
        return out if self.head is None else self.head(out, valid)


def _generators(draw: Draw | None, device: torch.device) -> AbstractContextManager[None]:
    """Generators for a forward: a function of the seed and the batch in training, always the same otherwise."""
    seed = 0 if draw is None else int(bits(draw.seed, "torch", draw.epoch, draw.index[0]))
    return generators_seeded(seed, [device] if device.type == "cuda" else [])


def takes_lengths(net: nn.Module) -> bool:
    """Whether a module's forward takes the lengths of the sequences besides."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    second = [p for p in inspect.signature(net.forward).parameters.values() if p.kind in positional][1:2]
    # A second argument with another name and a default, such as `mask=None`, means something else.
    return any(p.name == "lengths" or p.default is p.empty for p in second)


def own_signature(signature: Signature) -> Signature:
    """The task's, with one token id more: that of masked positions."""
    return replace(signature, width=signature.width + 1) if signature.input == "tokens" else signature


@dataclass
class _Counted:
    """FLOPs of a spec's module, counted at some lengths."""

    spec: OwnModelSpec
    signature: Signature
    counts: dict[int, float | None] = field(default_factory=dict)

    def at(self, length: int) -> float:
        """FLOPs at a length; 2 per weight and position where no forward can be counted."""
        longest = max(self.signature.length, length)
        knots = [*(2**power for power in range((longest - 1).bit_length())), longest]
        counted = [knot for knot in knots if self._count(knot) is not None]
        if not counted:
            return 2.0 * length * sum(weight.numel() for weight in self._built(shapes=False).parameters())
        each = [(self.counts[knot] or 0.0) / knot for knot in counted]
        return length * float(np.interp(length, counted, each))

    def _count(self, length: int) -> float | None:
        """FLOPs of one forward, of shapes alone where the module takes them; None where it fails."""
        for shapes in (True, False):
            if length not in self.counts:
                with suppress(Exception):  # a person's code may fail in any way
                    self.counts[length] = self._forward(length, shapes)
        return self.counts.setdefault(length, None)

    def _forward(self, length: int, shapes: bool) -> float:
        net, width = self._built(shapes).eval(), self.signature.width
        with torch.device("meta" if shapes else "cpu"), generators_seeded(0):
            tokens = self.signature.input == "tokens"
            x = torch.zeros(1, length, dtype=torch.int64) if tokens else torch.zeros(1, length, width)
            more = (torch.full((1,), length),) if takes_lengths(net) else ()
            return counted_flops(lambda: net(x, *more))

    def _built(self, shapes: bool) -> nn.Module:
        with without_numbers() if shapes else nullcontext(), generators_seeded(0):
            return self.spec.build(self.signature)


_counts: dict[tuple[type, str, Signature], _Counted] = {}


def _counted(spec: OwnModelSpec, signature: Signature) -> _Counted:
    """What is known of a spec's FLOPs in this process."""
    key = (type(spec), digest(spec.document()), signature)
    return _counts.setdefault(key, _Counted(spec, signature))
