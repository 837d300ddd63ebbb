"""Frozen features of a pretrained encoder of texts or proteins, alone or joined with n-grams.

A row has the same bits in whatever company it is read; those of sequences that were met before are remembered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from headstart.baselines.features import Features, FeatureTable
from headstart.baselines.fitting import FittedFacts, Shapes
from headstart.baselines.ngrams import SMALL_VOCABULARY, Ngrams, fit_ngrams
from headstart.baselines.remembered import KNOWN_ROWS, digest_of, remember
from headstart.data.alphabets import ALPHABETS
from headstart.errors import BadInput
from headstart.sequence import Examples
from headstart.spec import read

if TYPE_CHECKING:  # what serves another model of a folder does without torch
    from headstart.checkpoints.encoder import EncoderModelSpec
    from headstart.models.model import SequenceModel

ENCODER_PREFIX = "encoder."
TOKENISER = "tokeniser"
"""Name of its bytes among the arrays."""
VOCABULARIES = {"text": 256, "protein": len(ALPHABETS["protein"])}
"""Tokens of a task of such sequences: bytes, letters."""
TENTHS = (4, 8, 2)
"""Length of a row of standardised features beside n-grams of length 1, in tenths, of which val chooses. On film reviews
0.4 was best with 200 and 1,000 labels, 0.8 with 50 (docs/benchmarks/fit-texts.md)."""
CHECKED = 1_000
"""Sequences whose letters are looked at."""


@dataclass(frozen=True)
class Encoded(Features):
    """An encoder and its weights, by name, float32; the tokeniser's bytes among them."""

    encoder: EncoderModelSpec
    weights: Mapping[str, np.ndarray]
    kind: str = "encoded"
    threaded: ClassVar[bool] = False

    @property
    def size(self) -> int:
        return self.encoder.size

    def arrays(self) -> dict[str, np.ndarray]:
        return {ENCODER_PREFIX + name: array for name, array in self.weights.items()}

    @staticmethod
    def shapes(facts: FittedFacts) -> Shapes:
        encoder = encoder_of(facts.encoder)
        facts.check(facts.size == encoder.size, "size")
        return _shapes(encoder)

    @classmethod
    def from_arrays(cls, facts: FittedFacts, arrays: Mapping[str, np.ndarray]) -> Encoded:
        own = {name.removeprefix(ENCODER_PREFIX): x for name, x in arrays.items() if name.startswith(ENCODER_PREFIX)}
        return cls(encoder_of(facts.encoder), own)

    def transform(self, examples: Examples) -> np.ndarray:
        """(n, D) float32."""
        from headstart.checkpoints.encoder import means

        rows = self.pieces(examples)
        keys = [hashlib.sha256(self._digest + row.tobytes()).digest() for row in rows]
        wanted = {key: row for key, row in zip(keys, rows, strict=True) if key not in KNOWN_ROWS}
        # What is remembered is bounded: a row may be forgotten before all of them stand side by side.
        fresh = dict[bytes, np.ndarray]()
        if wanted:
            inner, model, encoder = self.encoder.kind == "protein", self._model, self.encoder
            made = means(model, list(wanted.values()), self.size, inner, encoder.positions, encoder.at_once)
            fresh = dict(zip(wanted, made, strict=True))
        out = np.empty((len(examples), self.size), np.float32)
        for at, key in enumerate(keys):
            out[at] = fresh[key] if key in fresh else KNOWN_ROWS[key]
        for key, row in fresh.items():
            remember(key, row)
        return out

    def pieces(self, examples: Examples) -> list[np.ndarray]:
        """Ids (L,) int64 of the pieces of each sequence."""
        sequences = sequences_of(self.encoder.kind, examples)
        if self.encoder.kind == "protein":
            return [self.encoder.rows_of(sequence) for sequence in sequences]
        from headstart.checkpoints.tokeniser import pieces_of

        return pieces_of(self._tokeniser, sequences, self.encoder.length)

    def check(self, examples: Examples) -> float:
        """The share of the pieces of the first sequences that the encoder does not know. Raises: BadInput where it
        knows none."""
        some = sequences_of(self.encoder.kind, examples.take(np.arange(min(examples.units, CHECKED))))
        if self.encoder.kind == "protein":
            letters = "".join(some)
            share = sum(letter not in self.encoder.symbols for letter in letters) / max(len(letters), 1)
        else:
            from headstart.checkpoints.tokeniser import unknown_share

            share = unknown_share(self._tokeniser, some, self.encoder.length)
        if share == 1.0:
            raise BadInput(
                f"its tokeniser knows no letter of the sequences ({some[0][:20]!r}); take a checkpoint of their "
                "language, or leave it out"
            )
        return share

    @cached_property
    def _tokeniser(self) -> str:
        try:
            return self.weights[TOKENISER].tobytes().decode()
        except UnicodeDecodeError:
            raise BadInput("model.encoder: its tokeniser is damaged; save the model again") from None

    @cached_property
    def _model(self) -> SequenceModel:
        import torch

        tensors = {name: torch.tensor(x) for name, x in self.weights.items() if name != TOKENISER}
        return self.encoder.built(tensors)

    @cached_property
    def _digest(self) -> bytes:
        return digest_of(self.encoder, self.weights)


@dataclass(frozen=True)
class Joined(Features):
    """Counted n-grams, rows of length 1, and beside them the frozen features, less `mean` (D,) and times `scale` (D,),
    with which their rows have a length of `tenths` tenths on train."""

    ngrams: Ngrams
    encoded: Encoded
    mean: np.ndarray
    scale: np.ndarray
    tenths: int
    kind: str = "joined"
    threaded: ClassVar[bool] = False

    @property
    def size(self) -> int:
        return self.ngrams.size + self.encoded.size

    @property
    def encoder(self) -> EncoderModelSpec:
        """The encoder's settings."""
        return self.encoded.encoder

    @property
    def sizes(self) -> dict[str, int]:
        return {**self.ngrams.sizes, "tenths": self.tenths}

    def arrays(self) -> dict[str, np.ndarray]:
        return {**self.ngrams.arrays(), **self.encoded.arrays(), "mean": self.mean, "scale": self.scale}

    @staticmethod
    def shapes(facts: FittedFacts) -> Shapes:
        encoder = encoder_of(facts.encoder)
        counted = Ngrams.shapes(facts.model_copy(update={"size": facts.size - encoder.size}))
        return {**counted, **_shapes(encoder), **dict.fromkeys(("mean", "scale"), ("float32", (encoder.size,)))}

    @classmethod
    def from_arrays(cls, facts: FittedFacts, arrays: Mapping[str, np.ndarray]) -> Joined:
        ngrams, encoded = Ngrams.from_arrays(facts, arrays), Encoded.from_arrays(facts, arrays)
        return cls(ngrams, encoded, arrays["mean"], arrays["scale"], facts.sizes.get("tenths", 0))

    @property
    def held(self) -> int:
        """Counted runs are sparse."""
        return self.encoded.size

    def transform(self, examples: Examples) -> Any:
        """(n, P) float32, sparse."""
        from scipy.sparse import csr_matrix, hstack

        return hstack([self.ngrams.transform(examples), csr_matrix(self._scaled(examples))], format="csr")

    def tables(self, examples: Examples) -> Iterator[FeatureTable]:
        yield from self.ngrams.tables(examples)
        yield slice(None), self.ngrams.size, self._scaled(examples)

    def _scaled(self, examples: Examples) -> np.ndarray:
        return np.asarray((self.encoded.transform(examples) - self.mean) * self.scale, dtype=np.float32)


def joined(encoded: Encoded, train: Examples, width: int, sizes: Mapping[str, int] | None) -> Iterator[Joined]:
    """Those of each of `TENTHS`, or of `sizes`."""
    longest = sizes["longest"] if sizes is not None else 3 if width <= SMALL_VOCABULARY else 4
    ngrams, rows = fit_ngrams(train, longest), encoded.transform(train)
    mean, spread = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
    # Rounding leaves a constant feature a deviation near 1e-7 of its size.
    scale = 1 / np.where(spread > 1e-6 * np.maximum(np.abs(mean), 1e-30), spread, np.inf) / rows.shape[1] ** 0.5
    for tenths in TENTHS if sizes is None else (sizes["tenths"],):
        own = (tenths / 10 * scale).astype(np.float32)
        yield Joined(ngrams, encoded, mean.astype(np.float32), own, tenths)


def sequences_of(kind: str, examples: Examples) -> Sequence[str]:
    """Texts, or proteins as their letters."""
    parts = [examples.values[a:b] for a, b in zip(examples.offsets[:-1], examples.offsets[1:], strict=True)]
    if kind == "text":
        return [part.astype(np.uint8).tobytes().decode(errors="replace") for part in parts]
    letters = np.array(list(ALPHABETS["protein"]))
    return ["".join(letters[part]) for part in parts]


def encoder_of(table: Mapping[str, Any]) -> EncoderModelSpec:
    """An encoder's settings as `FittedFacts` hold them. Raises: BadInput where they are none."""
    from headstart.checkpoints.encoder import EncoderModelSpec

    return read(EncoderModelSpec, table, "model.encoder")


def _shapes(encoder: EncoderModelSpec) -> Shapes:
    own: Shapes = {ENCODER_PREFIX + name: ("float32", shape) for name, shape in encoder.shapes().items()}
    return own | ({ENCODER_PREFIX + TOKENISER: ("uint8", (encoder.tokeniser,))} if encoder.tokeniser else {})
