"""The model: encoder, positions, blocks and head, from a spec; pure, so that many can train as one stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator
from pydantic_core import PydanticCustomError
from torch import Tensor, nn

from headstart.errors import BadInput, OwnCall, flops_of
from headstart.models import LIKE
from headstart.models.blocks import (
    GPT2_SPREAD,
    Block,
    FeedForwardSpec,
    build_feed_forward,
    dropout,
    feed_forward_flops,
    gpt2_start,
    scaled_spread,
)
from headstart.models.encoders import EncoderSpec, build_encoder, encoder_flops, joined, spread, there
from headstart.models.heads import Output, PoolKind, build_head, head_flops
from headstart.models.kind import ModelKind
from headstart.models.mixers import MIXERS
from headstart.models.mixers.attention import AttentionSpec
from headstart.models.mixers.mixer import HeadsSpec, MixerSpec
from headstart.models.norms import NORM_EPSILON, NoNorm, NormKind, Tensors, build_norm
from headstart.models.outline import again
from headstart.models.positions import PositionSpec, Relative, build_position
from headstart.models.seeding import seeded
from headstart.seeds import Draw
from headstart.sequence import Batch, Signature
from headstart.spec import neutral, spec_of_kind
from headstart.text import listed, many, plain


def _mixers(mixers: Any) -> Any:
    """One mixer, or one per block; a mistake in a list names its number."""
    if not isinstance(mixers, (list, tuple)):
        return spec_of_kind(MIXERS, mixers)
    return tuple(_numbered(number, mixer) for number, mixer in enumerate(mixers))


def _numbered(number: int, mixer: Any) -> Any:
    try:
        return spec_of_kind(MIXERS, mixer)
    except PydanticCustomError as error:
        context: Mapping[str, Any] = error.context or {}
        lines = context.get("lines") or [(context.get("key", ""), context["text"])]
        placed = [(f"[{number}]" + (f".{where}" if where else ""), what) for where, what in lines]
        raise PydanticCustomError("nested", "{text}", {"text": context["text"], "lines": placed}) from None


MixerField = Annotated[SerializeAsAny[MixerSpec] | tuple[SerializeAsAny[MixerSpec], ...], BeforeValidator(_mixers)]


class ModelSpec(ModelKind):
    """A sequence model."""

    kind: Literal["sequence"] = neutral("sequence")
    width: int = Field(default=64, ge=1, le=2**24)
    """Width D of the blocks."""
    blocks: int = Field(default=2, ge=1, le=2**12)
    """Number of blocks."""
    mixer: MixerField = AttentionSpec()
    """One for all blocks, or a list with one per block."""
    norm: NormKind = "layer"
    """Over width (`layer`, or `rms`, which subtracts no mean), over valid positions of the batch (`batch`) or `none`.
    """
    norm_place: Literal["before", "after"] = "before"
    """`before` each layer (a last norm follows the blocks) or `after` it."""
    residual: bool = True
    """Whether a layer's input is added to its output."""
    feed_forward: FeedForwardSpec = FeedForwardSpec()
    """The layer after each mixer, see `feed_forward`."""
    position: PositionSpec = PositionSpec()
    """How the model knows positions, see `position`."""
    encoder: EncoderSpec = EncoderSpec()
    """How inputs become vectors, see `encoder`."""
    causal: bool = False
    """No position sees a later one."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Share of numbers zeroed in training after the encoder, each mixer and each feed-forward layer."""
    pool: PoolKind = "mean"
    """How a sequence becomes one vector, over its valid positions."""
    init: Literal["standard", "gpt2", "gpt2_scaled"] = neutral("standard")
    """How fresh blocks are drawn: torch's own way (`standard`), or, for blocks of attention alone, as GPT-2's: normal,
    with a deviation of 0.02 (`gpt2`), which is right from a width of 768 on, or of 0.02 sqrt(768 / width) below that
    (`gpt2_scaled`)."""
    norm_epsilon: float = neutral(NORM_EPSILON, gt=0, lt=1)
    """Added to the variance (or the mean square)."""
    embedding_norm: bool = neutral(False)
    """Whether a norm stands between positions and blocks, as in BERT."""
    parallel: bool = neutral(False)
    """Whether the feed-forward layer reads what the mixer reads, beside it and not behind it, as in GPT-NeoX."""
    like: str | None = neutral(None, exclude=True)
    """A known checkpoint (`headstart ls checkpoints`), or one at hand, whose sizes and kinds of layers are filled in
    where they are not given; only what is filled in is stored."""

    @model_validator(mode="before")
    @classmethod
    def _filled_in(cls, table: Any) -> Any:
        if not isinstance(table, Mapping) or not isinstance(table.get("like"), str):
            return table
        try:
            expand: Any = LIKE.load()
            table_like: dict[str, Any] = expand(table)
            return table_like
        except BadInput as error:
            raise PydanticCustomError("unknown_key", "{text}", {"key": "like", "text": str(error)}) from None

    @model_validator(mode="after")
    def _one_mixer_per_block(self) -> ModelSpec:
        if isinstance(self.mixer, tuple) and len(self.mixer) != self.blocks:
            raise ValueError(
                f"mixer lists {len(self.mixer)} mixers for {self.blocks} blocks; give one per block, or one for all"
            )
        if self.position.kind == "rotary" and not any(mixer.rotary for mixer in self.mixers):
            kinds = ", ".join(sorted({mixer.kind for mixer in self.mixers}))
            raise ValueError(
                f"position.kind 'rotary' turns queries and keys, and no mixer here has them "
                f"({kinds}); use 'sinusoidal', 'learned' or 'none'"
            )
        return self

    @model_validator(mode="after")
    def _positions_within_attention(self) -> ModelSpec:
        position = self.position
        whole = sorted({mixer.kind for mixer in self.mixers if mixer.rotary and not mixer.partial_rotary})
        if position.share < 1 and whole:
            share = f"position.share {position.share:g}"
            raise ValueError(f"{share}: mixer {whole[0]!r} turns whole heads; use 'attention', or leave it out")
        heads = [str(count) for count in sorted(self.biased_heads)]
        if position.kind == "relative" and len(heads) != 1:
            problem = f"mixers here have {listed(heads)} heads" if heads else "no mixer here adds it"
            raise ValueError(
                f"position.kind 'relative' is one table of numbers per head, added to the scores of 'attention', and "
                f"{problem}; use mixers of kind 'attention' with equal heads, or other positions"
            )
        return self

    @model_validator(mode="after")
    def _norms_that_there_are(self) -> ModelSpec:
        if self.norm == "none" and (self.embedding_norm or self.norm_epsilon != NORM_EPSILON):
            name = "embedding_norm" if self.embedding_norm else "norm_epsilon"
            raise ValueError(f"{name} is of a norm, and norm is 'none'; leave it out, or set norm")
        fed = self.feed_forward.kind != "none"
        if self.parallel and not (fed and self.residual and self.norm_place == "before"):
            raise ValueError(
                "parallel adds a feed-forward layer and a mixer to their common input; it takes residual = true, "
                "norm_place = 'before' and a feed_forward"
            )
        return self

    @model_validator(mode="after")
    def _gpt2_is_of_attention(self) -> ModelSpec:
        other = [m for m in self.mixers if not isinstance(m, HeadsSpec) or m.init != "independent"]
        if self.init != "standard" and other:
            raise ValueError(
                f"init {self.init!r} draws query, key, value and output layers apart, which mixer {other[0].kind!r} "
                "does not have or ties (mixer.init); use init = 'standard'"
            )
        return self

    described: ClassVar[tuple[str, ...]] = (
        *("width", "blocks", "mixer", "norm", "feed_forward", "position.kind", "encoder.init", "init"),
        *("causal", "dropout", "pool", "embedding_norm", "parallel", "encoder.patch"),
    )

    def describe(self) -> str:
        """`a network with 2 blocks of s4 (state 64), width 64, no positions, ...`."""
        norm = f"{self.norm} normalisation {self.norm_place} each layer" if self.norm != "none" else "no normalisation"
        norm += f" (epsilon {self.norm_epsilon:g})" if self.norm_epsilon != NORM_EPSILON else ""
        norm += " and of what enters the blocks" if self.embedding_norm else ""
        beside = "beside each mixer " if self.parallel else ""
        position = self.position.kind if self.position.kind != "none" else "no"
        return (
            f"a network with {self._blocks()}, width {self.width}, {position} positions, {norm}, "
            f"{self.feed_forward.describe()} {beside}and {self.pool} pooling"
            + (", causal" if self.causal else "")
            + (f", dropout {plain(self.dropout)}" if self.dropout else "")
            + (f", {self.encoder.patch} tokens joined into each position" if self.encoder.patch > 1 else "")
        )

    def describe_fresh(self) -> str:
        texts = ["fresh weights of its encoder being orthogonal"] if self.encoder.init == "orthogonal" else []
        scaled = ", their deviation scaled with the width" if self.init == "gpt2_scaled" else ""
        texts += [f"fresh blocks being drawn as GPT-2's{scaled}"] if self.init != "standard" else []
        return " and ".join(texts)

    def _blocks(self) -> str:
        """`2 blocks of attention (4 heads)`, or which mixer is in which blocks."""
        texts = [mixer.describe() for mixer in self.mixers]
        starts = [number for number in range(self.blocks) if number == 0 or texts[number] != texts[number - 1]]
        blocks = many(self.blocks, "block")
        if len(starts) == 1:
            return f"{blocks} of {texts[0]}"
        runs = [
            f"{texts[first]} in {f'block {first}' if first == last else f'blocks {first} to {last}'}"
            for first, last in zip(starts, [start - 1 for start in [*starts[1:], self.blocks]], strict=True)
        ]
        return f"{blocks}, {listed(runs)}"

    def network(self, signature: Signature, output: Output, seed: int) -> SequenceModel:
        """A fresh model. Raises: BadInput as `build_model`."""
        return build_model(self, signature, output, seed)

    def positions(self, length: int) -> int:
        """Positions that a sequence of this length has in the blocks."""
        return -(-length // self.encoder.patch)

    def kernels_at(self, lengths: Sequence[int]) -> dict[str, list[float]]:
        inside, of = [self.positions(length) for length in lengths], dict[int, list[float]]()
        for mixer in self.mixers:
            if id(mixer) not in of:
                of[id(mixer)] = [mixer.kernel_flops(self.width, length, self.causal) for length in inside]
        return {f"blocks.{i}.mixer": of[id(m)] for i, m in enumerate(self.mixers) if any(of[id(m)])}

    def layer_flops(self, signature: Signature, output: Output, length: int) -> list[tuple[str, float]]:
        """(module, FLOPs of a forward pass over one sequence) of each layer with parameters, in the order of the pass.

        Matrix products and what mixers state; norms, activations and additions are left out.
        """
        return [(name, flops) for name, (flops,) in self.layers_at(signature, output, [length])]

    def layers_at(
        self, signature: Signature, output: Output, lengths: Sequence[int]
    ) -> list[tuple[str, Sequence[float]]]:
        inside, zeros = [self.positions(length) for length in lengths], [0.0] * len(lengths)
        of: dict[int, list[float]] = {}
        encoder = [encoder_flops(signature, self.width, length, self.encoder.patch) for length in lengths]
        fed = [feed_forward_flops(self.feed_forward, self.width, length) for length in inside]
        out: list[tuple[str, Sequence[float]]] = [("encoder", encoder), ("position", zeros), ("embedding_norm", zeros)]
        for number, mixer in enumerate(self.mixers):
            if id(mixer) not in of:  # blocks of one mixer are counted once
                name = f"model.mixer: flops of {type(mixer).__name__}"
                with OwnCall(name):
                    of[id(mixer)] = [flops_of(name, mixer.flops(self.width, at, self.causal)) for at in inside]
            layers = {"mixer": of[id(mixer)]} | ({} if self.feed_forward.kind == "none" else {"feed_forward": fed})
            for layer, flops in layers.items():
                pair = [(f"blocks.{number}.norm_{layer}", zeros), (f"blocks.{number}.{layer}", flops)]
                out += pair if self.norm_place == "before" else pair[::-1]
        return [*out, ("norm", zeros), ("head", [head_flops(output, self.width, length) for length in lengths])]

    @property
    def shows_not(self) -> str:
        if not (self.causal and self.norm == "batch"):
            return ""
        return (
            "model.norm = 'batch' takes its mean and spread in training over all positions of a batch, later ones too, "
            "so that model.causal = true holds for scores and not for training; the norms 'layer' and 'rms' keep to it."
        )

    @property
    def alone(self) -> str:
        return next((reason for mixer in self.mixers if (reason := mixer.alone)), "")

    @property
    def mixed_version(self) -> int:  # type: ignore[override]
        """The highest of its mixers."""
        return max(mixer.mixed_version for mixer in self.mixers)

    @property
    def biased_heads(self) -> set[int]:
        """Numbers of heads of the mixers that add a bias to their scores."""
        return {getattr(mixer, "heads", 1) for mixer in self.mixers if mixer.takes_bias}

    @property
    def mixers(self) -> tuple[MixerSpec, ...]:
        """The mixer of each block."""
        return self.mixer if isinstance(self.mixer, tuple) else (self.mixer,) * self.blocks


class Network(nn.Module):
    """What a trained stage trains: `forward` answers an objective, `embed` gives what the head looks at.

    recordable: whether a training step may be recorded and replayed (a forward that is pure, see `SequenceModel`).
    patch: tokens of a position of `embed`.
    """

    recordable: ClassVar[bool] = True
    patch: int = 1

    def embed(self, batch: Batch, draw: Draw | None = None, statistics: Tensors | None = None) -> Tensor:
        """(B, L, D); what stands at padded positions means nothing."""
        raise NotImplementedError


class SequenceModel(Network):
    """Encoder, positions, a norm of what enters the blocks (or none), blocks, last norm, head.

    Where `patch` tokens are joined, blocks and pooling see ceil(L / patch) positions, the L of what is below. Answers
    per position are one per token again, of the sum of its own vector and the last one of its patch.

    A forward is pure: what training changes besides parameters is handed out in `statistics`. With `draw`
    dropout and other random numbers are on (training), without it they are off. `statistics`: a dict makes
    batch norms use this batch and write their new running values there, under the full names of the buffers;
    None makes them use the running values.
    """

    def __init__(self, parts: Mapping[str, nn.Module], blocks: list[Block], rate: float, patch: int = 1) -> None:
        super().__init__()
        self.encoder, self.position = parts["encoder"], parts["position"]
        self.embedding_norm = parts["embedding_norm"]
        self.blocks = nn.ModuleList(blocks)
        self.norm, self.head = parts["norm"], parts["head"]
        self.rate, self.patch = rate, patch

    def forward(self, batch: Batch, draw: Draw | None = None, statistics: Tensors | None = None) -> Tensor:
        """The head's answer: (B, size), (B, L, size) or, for pairs, (B / 2, size)."""
        valid = there(batch, self.patch)
        if batch.features is None:
            tokens = self.encoder(batch)
            x = self.lower(batch, len(self.blocks) + 1, draw, statistics, tokens)
            if self.patch > 1 and getattr(self.head, "pool", None) is None:
                x = tokens + spread(x, self.patch, tokens.shape[1])
        else:
            x = self.through(batch.features, valid, (batch.level, len(self.blocks) + 1), draw, statistics)
            valid = None if batch.level > len(self.blocks) else valid  # pooled already
        return self.head(x, valid)

    def embed(self, batch: Batch, draw: Draw | None = None, statistics: Tensors | None = None) -> Tensor:
        """(B, L, D) after the last norm; what stands at padded positions means nothing."""
        return self.lower(batch, len(self.blocks) + 1, draw, statistics)

    def lower(
        self,
        batch: Batch,
        level: int,
        draw: Draw | None = None,
        statistics: Tensors | None = None,
        encoded: Tensor | None = None,
    ) -> Tensor:
        """(B, L, D) after the first `level` blocks; with one more than there are, after the last norm.

        encoded: what the encoder gives, where it is known.
        """
        valid, x = there(batch, self.patch), self.encoder(batch) if encoded is None else encoded
        x = joined(x, there(batch), self.patch) if self.patch > 1 else x
        x = self.embedding_norm(self.position(x), valid, statistics)
        x = dropout(x, self.rate, draw, "encoder")
        return self.through(x, valid, (0, level), draw, statistics)

    def through(
        self, x: Tensor, valid: Tensor | None, levels: tuple[int, int], draw: Draw | None, statistics: Tensors | None
    ) -> Tensor:
        """Vectors x (B, L, D) of one level to those of another, see `lower`."""
        first, last = levels
        bias = self.position.bias(x.shape[1]) if isinstance(self.position, Relative) else None
        for block in list(self.blocks)[first:last]:
            x = block(x, valid, draw, statistics, bias)
        if first <= len(self.blocks) < last:
            x = self.norm(x, valid, statistics)
        return x


def _mixer(spec: MixerSpec, model: ModelSpec, length: int) -> nn.Module:
    turning: dict[str, float] = {}
    if spec.rotary and model.position.kind == "rotary":
        # `rotary = True` is a mixer's word that its `build` takes theta, `partial_rotary = True` that it takes share.
        turning = {"theta": model.position.theta}
        turning |= {"share": model.position.share} if spec.partial_rotary else {}
    name = f"model.mixer: build of {type(spec).__name__}"
    with OwnCall(name):
        module = spec.build(model.width, length, model.causal, **turning)
    if not isinstance(module, nn.Module):
        raise BadInput(f"{name} gives {type(module).__name__}; return a torch nn.Module")
    return module


def _block(spec: ModelSpec, number: int, length: int, seed: int) -> Block:
    name, width = f"blocks.{number}", spec.width
    mixer = seeded(seed, f"{name}.mixer", lambda: _mixer(spec.mixers[number], spec, length))
    fed = seeded(seed, f"{name}.feed_forward", lambda: build_feed_forward(spec.feed_forward, width))
    norms = (_norm(spec, f"{name}.norm_mixer"), _norm(spec, f"{name}.norm_feed_forward"))
    biased = spec.mixers[number].takes_bias
    return Block(mixer, fed, norms, spec.norm_place, spec.residual, spec.parallel, spec.dropout, name, biased)


def _norm(spec: ModelSpec, name: str) -> nn.Module:
    return build_norm(spec.norm, spec.width, name, spec.norm_epsilon)


def _position(spec: ModelSpec, length: int) -> nn.Module:
    return build_position(spec.position, length, spec.width, max(spec.biased_heads, default=1), spec.causal)


def model_length(spec: ModelSpec, signature: Signature) -> int:
    """Positions that the blocks of a model are built for.

    Raises: BadInput where the spec asks for fewer than the task's longest sequence has.
    """
    longest = spec.positions(signature.length)
    length = spec.position.length or longest
    if length < longest:
        raise BadInput(
            f"model.position.length: {length} is less than the task's longest sequence of "
            f"{longest}; give at least that, or leave it out"
        )
    return length


def build_model(spec: ModelSpec, signature: Signature, output: Output, seed: int) -> SequenceModel:
    """A fresh model for a task and an objective; equal seeds give equal values, component by component.

    Raises: BadInput where spec and task, or width and mixer, do not fit.
    """
    length, patch = model_length(spec, signature), spec.encoder.patch
    if patch > 1 and spec.causal and output.kind == "position":
        raise BadInput(
            f"model.encoder.patch: {patch} tokens are joined into one position, so that an answer for each token sees "
            "the next ones, which model.causal = true forbids; set patch = 1, or causal = false"
        )
    parts = {
        "encoder": seeded(seed, "encoder", lambda: build_encoder(spec.encoder, signature, spec.width)),
        "position": seeded(seed, "position", lambda: _position(spec, length)),
        "embedding_norm": _norm(spec, "embedding_norm") if spec.embedding_norm else NoNorm(),
        "norm": _norm(spec, "norm") if spec.norm_place == "before" else NoNorm(),
        "head": seeded(seed, "head", lambda: build_head(output, spec.width, spec.pool)),
    }
    blocks: list[Block] = []
    for number, mixer in enumerate(spec.mixers):
        # Without numbers blocks of one mixer are alike, and a copy is made sooner than a block.
        alike = number and mixer is spec.mixers[number - 1] and torch.get_default_device().type == "meta"
        blocks.append(again(blocks[-1]) if alike else _block(spec, number, length, seed))
    if spec.init != "standard" and torch.get_default_device().type != "meta":
        spread = scaled_spread(spec.width) if spec.init == "gpt2_scaled" else GPT2_SPREAD
        seeded(seed, "gpt2", lambda: gpt2_start(blocks, spec.blocks, spread))
    return SequenceModel(parts, blocks, spec.dropout, patch)
