"""Frozen features of a pretrained model of series, under a linear readout.

Each sequence passes the encoder by itself, all of its channels together, so that its features are the same bits in
whatever company it is read; those of sequences that were met before are remembered.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from headstart.baselines.features import Features, filled, observed
from headstart.baselines.fitting import FittedFacts, Shapes
from headstart.baselines.linear import Linear, PenalisedSpec
from headstart.errors import BadInput
from headstart.sequence import Examples, Signature
from headstart.spec import place, read

if TYPE_CHECKING:  # what serves another model of a folder does without torch
    from headstart.checkpoints.series import Reader, SeriesFields, SeriesModelSpec
    from headstart.checkpoints.spec import CheckpointSpec

MOST_FEATURES = 16_384
"""Features of a sequence at most; of more channels the mean over channels is taken."""
CHANNELS_AT_ONCE = 64
"""Channels that pass the encoder at once."""
REMEMBERED = 2**28
"""Bytes of features that a process remembers; the oldest are forgotten first."""
ENCODER_PREFIX = "encoder."
_known: OrderedDict[bytes, np.ndarray] = OrderedDict()


@dataclass(frozen=True)
class Embedding(Features):
    """An encoder and its weights, by name, float32; of `channels` channels of a sequence the features stand side by
    side, or there is their mean."""

    encoder: SeriesModelSpec
    weights: Mapping[str, np.ndarray]
    channels: int
    kind: str = "embedding"
    threaded: ClassVar[bool] = False

    @property
    def size(self) -> int:
        return size_of(self.encoder, self.channels)

    def arrays(self) -> dict[str, np.ndarray]:
        return {ENCODER_PREFIX + name: array for name, array in self.weights.items()}

    @staticmethod
    def shapes(facts: FittedFacts) -> Shapes:
        encoder = encoder_of(facts.encoder)
        facts.check(facts.size == size_of(encoder, facts.width), "size")
        return {ENCODER_PREFIX + name: ("float32", shape) for name, shape in encoder.shapes().items()}

    @classmethod
    def from_arrays(cls, facts: FittedFacts, arrays: Mapping[str, np.ndarray]) -> Embedding:
        own = {name.removeprefix(ENCODER_PREFIX): x for name, x in arrays.items() if name.startswith(ENCODER_PREFIX)}
        return cls(encoder_of(facts.encoder), own, facts.width)

    def transform(self, examples: Examples) -> np.ndarray:
        """(n, P) float32. Gaps are crossed in straight lines where the encoder knows none."""
        import torch

        none = np.zeros(self.channels)
        values, there = filled(examples, none, none + 1), observed(examples, examples.as_seen(examples.values))
        out = np.empty((len(examples), self.size), np.float32)
        for row, (first, last) in enumerate(zip(examples.offsets[:-1], examples.offsets[1:], strict=True)):
            x, seen = (np.ascontiguousarray(part[first:last].T) for part in (values, there))
            key = hashlib.sha256(self._digest + repr(x.shape).encode() + x.tobytes() + seen.tobytes()).digest()
            if key not in _known:
                with torch.inference_mode():
                    parts = [
                        self._reader(
                            torch.from_numpy(x[i : i + CHANNELS_AT_ONCE]).double(),
                            torch.from_numpy(seen[i : i + CHANNELS_AT_ONCE]),
                        )
                        for i in range(0, self.channels, CHANNELS_AT_ONCE)
                    ]
                    every = torch.cat(parts)
                _remember(key, (every if self.size == every.numel() else every.mean(0)).reshape(-1).numpy())
            out[row] = _known[key]
        return out

    @cached_property
    def _reader(self) -> Reader:
        import torch

        return self.encoder.reader({name: torch.from_numpy(x) for name, x in self.weights.items()})

    @cached_property
    def _digest(self) -> bytes:
        digest = hashlib.sha256(self.encoder.model_dump_json().encode())
        for name in sorted(self.weights):
            digest.update(np.ascontiguousarray(self.weights[name]).data)
        return digest.digest()


def _remember(key: bytes, row: np.ndarray) -> None:
    while _known and (len(_known) + 1) * row.nbytes > REMEMBERED:
        _known.popitem(last=False)
    _known[key] = row


def size_of(encoder: SeriesModelSpec, channels: int) -> int:
    """P."""
    return encoder.size * (channels if encoder.size * channels <= MOST_FEATURES else 1)


def encoder_of(table: Mapping[str, Any]) -> SeriesModelSpec:
    """An encoder's settings as `FittedFacts` hold them. Raises: BadInput where they are none."""
    from headstart.checkpoints.mantis import MantisSpec
    from headstart.checkpoints.series import PatchedSpec

    own = MantisSpec if str(table.get("kind")).startswith("mantis") else PatchedSpec
    encoder: SeriesModelSpec = read(own, table, "model.encoder")
    return encoder


class EmbeddingSpec(PenalisedSpec):
    """Logistic regression (ridge for numbers) on what the frozen encoder of a pretrained model of series makes of each
    sequence: Chronos-Bolt, MOMENT, Mantis and MantisV2. The strength of the penalty is chosen on val (of a ridge
    regression by leaving one train example out).

    Source: Feofanov et al. 2025, for the linear readout.
    """

    kind: Literal["embedding"] = "embedding"
    source: str = place(min_length=1)
    """The model, as `checkpoint.source` names it."""
    content: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    """Digest that the model's weights must have; not given: that of the model at hand."""
    reads: ClassVar[Mapping[str, type[Features]]] = {"embedding": Embedding}

    @property
    def checkpoint(self) -> CheckpointSpec:
        """Where the weights are."""
        from headstart.checkpoints.spec import ModelSource

        return ModelSource(source=self.source, content=self.content)

    @property
    def lacks(self) -> str:
        """Where the model was looked for, unless its content is known or its folder is here."""
        return self.checkpoint.lacks

    def settled(self) -> EmbeddingSpec:
        """With the model's content. Raises: BadInput where that is another one, or the folder holds no such model."""
        checkpoint = self.checkpoint.settled()
        if not checkpoint.absent:
            self.fields(checkpoint)
        return self if checkpoint.content == self.content else self.model_copy(update={"content": checkpoint.content})

    @staticmethod
    def fields(checkpoint: CheckpointSpec) -> SeriesFields:
        """Those of a model that is here. Raises: BadInput where it is no model of series."""
        from headstart.checkpoints import SERIES
        from headstart.checkpoints.series import SeriesFields

        fields = checkpoint.fields
        if not isinstance(fields, SeriesFields):
            names = ", ".join(line.summary.partition(",")[0] for line in SERIES.values())
            raise BadInput(
                f"model.source: {checkpoint.source!r} is of family {fields.family!r}, which reads no series; name a "
                f"model of series ({names}), or take its blocks with a network: checkpoint = {{ source = ... }}"
            )
        return fields

    def check(self, signature: Signature) -> None:
        """Raises: BadInput where the task holds no numbers."""
        if signature.input != "floats":
            raise BadInput(
                "model.kind: 'embedding' reads series of numbers, and the sequences are of symbols; take 'ngrams', or "
                "a checkpoint that has vectors of such symbols"
            )

    def candidates(self, facts: FittedFacts, train: Examples, signature: Signature, seed: int) -> Iterator[Features]:
        yield self.features(signature.width)

    def features(self, channels: int) -> Embedding:
        """The encoder with its weights, for sequences of so many channels. Raises: BadInput where it is not here."""
        checkpoint = self.checkpoint if self.content else self.checkpoint.settled()
        return Embedding(self.fields(checkpoint).series, _weights(checkpoint), channels)

    def fit(
        self, train: Examples, val: Examples, signature: Signature, seed: int, class_weights: np.ndarray | None = None
    ) -> Linear:
        """As every linear model; the facts say which encoder it is."""
        self.check(signature)
        model = super().fit(train, val, signature, seed, class_weights)
        assert isinstance(model.features, Embedding)
        encoder = model.features.encoder.model_dump(mode="json")
        return replace(model, facts=model.facts.model_copy(update={"encoder": encoder}))

    def frozen(self) -> Mapping[str, np.ndarray]:
        """The encoder's weights, which a stage does not keep. Raises: BadInput where the model is not here any more."""
        return {ENCODER_PREFIX + name: array for name, array in _weights(self.checkpoint.settled()).items()}

    def title(self, facts: FittedFacts) -> str:
        """With the model's name, without its place."""
        name = self.source.rstrip("/").rpartition("/")[2]
        joined = "" if facts.width == 1 or facts.size > encoder_of(facts.encoder).size else ", the mean over channels"
        return f"{'logistic' if facts.classes else 'ridge'} regression on frozen features of {name}{joined}"

    def describe(self) -> str:
        return f"a logistic regression (ridge for numbers) on frozen features of {self.source}"


@lru_cache(maxsize=1)
def _weights(checkpoint: CheckpointSpec) -> Mapping[str, np.ndarray]:
    """All of a model's weights, by our names."""
    return {name: tensor.numpy() for name, tensor in checkpoint.loaded()[1].items()}
