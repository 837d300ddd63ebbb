"""Frozen features of a pretrained model, under a linear readout: of series here, of texts and proteins in `encoded`.

Each series passes the encoder by itself, all of its channels together, so that its features are the same bits in
whatever company it is read; those of sequences that were met before are remembered.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from headstart.baselines.encoded import ENCODER_PREFIX, TOKENISER, VOCABULARIES, Encoded, Joined, joined
from headstart.baselines.features import Features, filled, observed
from headstart.baselines.fitting import FittedFacts, Shapes
from headstart.baselines.linear import Linear, PenalisedSpec
from headstart.baselines.patches import square_side
from headstart.baselines.remembered import KNOWN_ROWS, digest_of, remember
from headstart.baselines.ridge import ridge_bytes
from headstart.data.layout import SOUNDS
from headstart.errors import BadInput
from headstart.sequence import Examples, Signature
from headstart.spec import neutral, place, read

if TYPE_CHECKING:  # what serves another model of a folder does without torch
    from headstart.checkpoints.fields import Fields
    from headstart.checkpoints.series import Reader, SeriesModelSpec
    from headstart.checkpoints.spec import CheckpointSpec

MOST_FEATURES = 16_384
"""Features of a sequence at most; of more channels the mean over channels is taken."""
TIMED = 3
"""Sequences on which a model is timed."""
CHANNELS_AT_ONCE = 64
"""Channels that pass the encoder at once."""
JOINED_BYTES = 40
"""Of memory for each number of a table of frozen features beside n-grams, at the peak of a logistic regression, as
measured; of features alone 14."""


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
        encoder = series_of(facts.encoder)
        facts.check(facts.size == size_of(encoder, facts.width), "size")
        return {ENCODER_PREFIX + name: ("float32", shape) for name, shape in encoder.shapes().items()}

    @classmethod
    def from_arrays(cls, facts: FittedFacts, arrays: Mapping[str, np.ndarray]) -> Embedding:
        own = {name.removeprefix(ENCODER_PREFIX): x for name, x in arrays.items() if name.startswith(ENCODER_PREFIX)}
        return cls(series_of(facts.encoder), own, facts.width)

    def transform(self, examples: Examples) -> np.ndarray:
        """(n, P) float32. Gaps are crossed in straight lines where the encoder knows none."""
        import torch

        none = np.zeros(self.channels)
        values, there = filled(examples, none, none + 1), observed(examples, examples.as_seen(examples.values))
        out = np.empty((len(examples), self.size), np.float32)
        for row, (first, last) in enumerate(zip(examples.offsets[:-1], examples.offsets[1:], strict=True)):
            x, seen = (np.ascontiguousarray(part[first:last].T) for part in (values, there))
            key = hashlib.sha256(self._digest + repr(x.shape).encode() + x.tobytes() + seen.tobytes()).digest()
            if key not in KNOWN_ROWS:
                with torch.inference_mode():
                    parts = [
                        self._reader(
                            torch.from_numpy(x[i : i + CHANNELS_AT_ONCE]).double(),
                            torch.from_numpy(seen[i : i + CHANNELS_AT_ONCE]),
                        )
                        for i in range(0, self.channels, CHANNELS_AT_ONCE)
                    ]
                    every = torch.cat(parts)
                remember(key, (every if self.size == every.numel() else every.mean(0)).reshape(-1).numpy())
            out[row] = KNOWN_ROWS[key]
        return out

    @cached_property
    def _reader(self) -> Reader:
        import torch

        return self.encoder.reader({name: torch.from_numpy(x) for name, x in self.weights.items()})

    @cached_property
    def _digest(self) -> bytes:
        return digest_of(self.encoder, self.weights)


def size_of(encoder: SeriesModelSpec, channels: int) -> int:
    """P."""
    return encoder.size * (1 if averaged(encoder, channels) or channels == encoder.colours else channels)


def averaged(encoder: SeriesModelSpec, channels: int) -> bool:
    """Whether the mean over channels is taken, as they would have too many features side by side."""
    return channels != encoder.colours and encoder.size * channels > max(MOST_FEATURES, encoder.size)


def are_images(family: str, sets: Sequence[Examples]) -> bool:
    """Whether a family reads images, and sequences may be such by their lengths."""
    lengths, (_, *widths) = np.concatenate([x.lengths for x in sets]), sets[0].values.shape
    return family == "vit" and square_side(lengths, widths) > 0


def series_of(table: Mapping[str, Any]) -> SeriesModelSpec:
    """An encoder's settings as `FittedFacts` hold them. Raises: BadInput where they are none."""
    from headstart.checkpoints.images import ImageModelSpec
    from headstart.checkpoints.mantis import MantisSpec
    from headstart.checkpoints.series import PatchedSpec

    kinds: dict[str, type[SeriesModelSpec]] = {"mantis": MantisSpec, "mantis_v2": MantisSpec, "vit": ImageModelSpec}
    return read(kinds.get(str(table.get("kind")), PatchedSpec), table, "model.encoder")


class EmbeddingSpec(PenalisedSpec):
    """Logistic regression (ridge for numbers) on what a frozen encoder makes of each sequence: of
    series Chronos-Bolt, MOMENT, Mantis and MantisV2; of small images ViT; of texts BERT and T5, through their own
    tokenisers; of proteins ESM-2. The strength of the penalty is chosen on val (of a ridge regression of series by
    leaving one train example out).

    Source: Feofanov et al. 2025, for the linear readout.
    """

    kind: Literal["embedding"] = "embedding"
    source: str = place(min_length=1)
    """The model, as `checkpoint.source` names it."""
    content: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    """Digest that the model's weights must have; not given: that of the model at hand."""
    pieces: int | None = neutral(None, ge=3)
    """Of texts and proteins: how many pieces are read at most, where that is fewer than usual (256 of a text, 1,024 of
    a protein)."""
    ngrams: bool = neutral(False)
    """Of texts and proteins: beside counted runs of up to 4 bytes, or 3 letters, in one regression."""
    reads: ClassVar[Mapping[str, type[Features]]] = {"embedding": Embedding, "encoded": Encoded, "joined": Joined}

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
    def fields(checkpoint: CheckpointSpec) -> Fields:
        """Those of a model that is here. Raises: BadInput where no frozen features of it are read."""
        from headstart.checkpoints import SERIES
        from headstart.checkpoints.encoder import EncoderFields
        from headstart.checkpoints.series import SeriesFields

        fields = checkpoint.fields
        if not isinstance(fields, (SeriesFields, EncoderFields)) and not fields.symbols:
            names = ", ".join(line.summary.partition(",")[0] for line in SERIES.values())
            raise BadInput(
                f"model.source: {checkpoint.source!r} is of family {fields.family!r}, of which no frozen features are "
                f"read; name a model of series ({names}), of images (ViT), of texts (BERT, T5) or of proteins "
                "(ESM-2), or take its blocks with a network: checkpoint = { source = ... }"
            )
        return fields

    def check(self, signature: Signature) -> None:
        """Raises: BadInput where the task holds no sequences that the model reads, as far as it is here."""
        from headstart.checkpoints.series import SeriesFields

        if self.checkpoint.absent:
            return
        fields = self.fields(self.checkpoint)
        if isinstance(fields, SeriesFields):
            if signature.input != "floats":
                raise BadInput(
                    "model.source: a model of series reads numbers, and the sequences are of symbols; take 'ngrams', "
                    "or a checkpoint that has vectors of such symbols"
                )
            if fields.series.colours and signature.width not in (1, fields.series.colours):
                raise BadInput(
                    f"model.source: {self.source!r} reads images of 1 or {fields.series.colours} channels, and the "
                    f"sequences have {signature.width}; name a model of series"
                )
            return
        kind = "protein" if fields.symbols else "text"
        if signature.input != "tokens" or signature.width != VOCABULARIES[kind]:
            what = "numbers" if signature.input != "tokens" else f"of {signature.width} symbols"
            raise BadInput(
                f"model.source: {self.source!r} reads {SOUNDS[kind]} ({VOCABULARIES[kind]} symbols), and the sequences "
                f"are {what}; name another model"
            )

    def candidates(self, facts: FittedFacts, train: Examples, signature: Signature, seed: int) -> Iterator[Features]:
        features = self.features(signature.width)
        if isinstance(features, Encoded) and self.ngrams:
            return joined(features, train, signature.width, self.sizes)
        return iter([features])

    def features(self, channels: int) -> Embedding | Encoded:
        """The encoder with its weights, for sequences of so many channels. Raises: BadInput where it is not here."""
        from headstart.checkpoints.encoder import EncoderFields, protein_encoder
        from headstart.checkpoints.series import SeriesFields

        checkpoint = self.checkpoint if self.content else self.checkpoint.settled()
        fields, weights = self.fields(checkpoint), _weights(checkpoint)
        if isinstance(fields, SeriesFields):
            return Embedding(fields.series, weights, channels)
        encoder = fields.encoder if isinstance(fields, EncoderFields) else protein_encoder(fields)
        few = min(self.pieces or encoder.length, encoder.length)
        return Encoded(encoder.model_copy(update={"length": few}), weights)

    def memory(self, labels: int, signature: Signature, lengths: np.ndarray) -> float:
        """That of the regression, of texts and proteins of that beside n-grams; the encoder is there already."""
        fields: Any = self.fields(self.checkpoint)
        if signature.input == "tokens":
            return float(JOINED_BYTES * labels * fields.spec.width)
        return ridge_bytes(labels, size_of(fields.series, signature.width))

    def within(self, train: Examples, count: int, seconds: float) -> tuple[EmbeddingSpec, float]:
        """The same, and what features of `count` sequences take here: of texts and proteins with a half or a quarter of
        the pieces, where more than `seconds` would go by. Raises: BadInput as `timed`."""
        spec, taken = self, self.timed(train, count)
        features = self.features(1)
        for part in (2, 4) if isinstance(features, Encoded) else ():
            if taken > seconds:
                spec = self.model_copy(update={"pieces": features.encoder.length // part})
                taken = spec.timed(train, count)
        return spec, taken

    def describe_features(self, fields: Any, channels: int) -> str:
        """`384 of each sequence, the mean over its first 256 pieces`."""
        if hasattr(fields, "series"):
            size: int = size_of(fields.series, channels)
            mean = ", the mean over channels" if averaged(fields.series, channels) else ""
            return f"{size:,} of each sequence{mean}"
        from headstart.checkpoints.encoder import MOST_PIECES, PIECES_AT_ONCE, EncoderFields, protein_encoder

        encoder = fields.encoder if isinstance(fields, EncoderFields) else protein_encoder(fields)
        most, few = self.pieces or MOST_PIECES[encoder.kind], encoder.at_once
        batch = f", {few:,} pieces at a time, as memory is short" if few < PIECES_AT_ONCE else ""
        return f"{encoder.size:,} of each sequence, the mean over its first {most:,} pieces{batch}"

    def timed(self, train: Examples, count: int) -> float:
        """Seconds that features of `count` sequences take here, about: measured on a few of middle length. Raises:
        BadInput where the encoder knows no letter of the sequences."""
        some = train.take(np.argsort(train.lengths, kind="stable")[len(train) // 2 :][:TIMED])
        features = self.features(some.values.shape[-1])
        if isinstance(features, Encoded):
            try:
                features.check(train)
            except BadInput as error:
                raise BadInput(f"backbone: {self.source.rpartition('/')[2]!r}: {error}") from None
        features.transform(some.take(np.arange(1)))
        begun = time.perf_counter()
        features.transform(some.take(np.arange(1, len(some))))
        return (time.perf_counter() - begun) / max(1, len(some) - 1) * count

    def fit(
        self, train: Examples, val: Examples, signature: Signature, seed: int, class_weights: np.ndarray | None = None
    ) -> Linear:
        """As every linear model; the facts say which encoder it is."""
        self.check(signature)
        model = super().fit(train, val, signature, seed, class_weights)
        assert isinstance(model.features, (Embedding, Encoded, Joined))
        encoder = model.features.encoder.model_dump(mode="json")
        return replace(model, facts=model.facts.model_copy(update={"encoder": encoder}))

    def frozen(self) -> Mapping[str, np.ndarray]:
        """The encoder's weights, which a stage does not keep. Raises: BadInput where the model is not here any more."""
        return {ENCODER_PREFIX + name: array for name, array in _weights(self.checkpoint.settled()).items()}

    def title(self, facts: FittedFacts) -> str:
        """With the model's name, without its place."""
        name = self.source.rstrip("/").rpartition("/")[2]
        more = " and n-grams" if facts.features == "joined" else ""
        if facts.features == "embedding" and averaged(series_of(facts.encoder), facts.width):
            more = ", the mean over channels"
        return f"{'logistic' if facts.classes else 'ridge'} regression on frozen features of {name}{more}"

    def describe(self) -> str:
        return f"a logistic regression (ridge for numbers) on frozen features of {self.source}"


@lru_cache(maxsize=1)
def _weights(checkpoint: CheckpointSpec) -> Mapping[str, np.ndarray]:
    """All of a model's weights, by our names, and the bytes of its tokeniser."""
    read_from, tensors, _ = checkpoint.loaded()
    out = {name: tensor.numpy() for name, tensor in tensors.items()}
    text = getattr(read_from.fields, TOKENISER, "")
    return out | ({TOKENISER: np.frombuffer(text.encode(), np.uint8).copy()} if text else {})
