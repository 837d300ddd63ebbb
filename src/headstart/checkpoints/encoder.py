"""Encoders of texts and of proteins, whole: what their blocks make of a sequence, as one vector, frozen.

Letters: n sequences, L pieces of a sequence, D the width of the blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from headstart.checkpoints.bert import BERT
from headstart.checkpoints.family import Family, TensorShape, line
from headstart.checkpoints.fields import Fields
from headstart.checkpoints.t5 import T5
from headstart.limits import memory
from headstart.models.heads import Output
from headstart.models.model import SequenceModel, build_model
from headstart.sequence import Batch, Signature
from headstart.spec import Spec
from headstart.text import many

MOST_PIECES = {"text": 256, "protein": 1_024}
"""Pieces of a sequence that are read at most, the marks of its ends among them: of texts as many as sentence encoders
were tuned on, of proteins as many as ESM-2 was trained on."""
EVEN_PIECES = 16
"""Sequences are padded to a multiple of so many pieces: then a row has the same bits in whatever company."""
PIECES_AT_ONCE = 2_048
"""Pieces that pass the blocks at once, padding among them; more make nothing faster. Where memory is short there are
fewer, which changes no bit of a row."""
BATCH_SHARE = 0.5
"""Of the memory that is free, so much at most is for what the blocks hold of these pieces."""


class EncoderModelSpec(Spec):
    """An encoder without its weights."""

    kind: Literal["text", "protein"]
    """What it reads: bytes of a text, by its own tokeniser, or letters of amino acids."""
    model: dict[str, Any]
    """Fields of a `ModelSpec`."""
    positions: int | None = Field(default=None, ge=1)
    """For so many it has learned vectors (None: any number)."""
    length: int = Field(ge=3, le=2**16)
    """Pieces that are read of a sequence at most, the marks of its ends among them."""
    vocabulary: int = Field(ge=1, le=2**24)
    """Vectors of pieces."""
    tokeniser: int = Field(default=0, ge=0, le=2**24)
    """Bytes of the tokeniser, as UTF-8."""
    symbols: tuple[str, ...] = ()
    """What each vector stands for, of a protein's."""

    @property
    def fields(self) -> Fields:
        """Of its blocks and vectors."""
        return Fields("", self.model, self.positions, self.vocabulary, self.symbols)

    @property
    def size(self) -> int:
        """D."""
        return self.fields.spec.width

    @property
    def flops(self) -> float:
        """About what the longest sequence costs: each number of the blocks multiplies each vector once."""
        each = sum(int(np.prod(shape)) for name, shape in self.shapes().items() if name.startswith("blocks."))
        return 2.0 * self.length * each + 4.0 * self.length**2 * self.size * self.fields.spec.blocks

    @property
    def at_once(self) -> int:
        """Pieces that may pass the blocks at once here and now: of each they hold some 24 vectors, as measured."""
        room, each = memory(), 4.0 * 24 * self.size
        return PIECES_AT_ONCE if room is None else max(1, min(PIECES_AT_ONCE, int(BATCH_SHARE * room.size / each)))

    def shapes(self) -> dict[str, TensorShape]:
        """Of each tensor, by our names."""
        return self.fields.shapes()

    def built(self, weights: Mapping[str, Tensor], precision: torch.dtype = torch.float32) -> SequenceModel:
        """The model with these weights."""
        spec = self.fields.spec
        length = min(-(-self.length // EVEN_PIECES) * EVEN_PIECES, self.positions or 2**24)
        signature = Signature("tokens", self.vocabulary, length, 1, "class", classes=2)
        model = build_model(spec, signature, Output("sequence", 2), 0)
        model.load_state_dict({**model.state_dict(), **weights})
        return model.to(precision).eval()

    def rows_of(self, sequence: str) -> np.ndarray:
        """Ids (L,) int64 of a protein between its marks, as ESM-2 was trained on it."""
        table = _rows(self.symbols)
        unknown = table.get("<unk>", 0)
        inside = [table.get(letter, unknown) for letter in sequence[: self.length - 2]]
        ends = [[table[mark]] if mark in table else [] for mark in ("<cls>", "<eos>")]
        return np.array([*ends[0], *inside, *ends[1]], dtype=np.int64)


@lru_cache(maxsize=4)
def _rows(symbols: tuple[str, ...]) -> dict[str, int]:
    return {symbol: row for row, symbol in enumerate(symbols)}


@torch.inference_mode()
def means(
    model: SequenceModel,
    rows: Sequence[np.ndarray],
    width: int,
    inner: bool,
    longest: int | None = None,
    at_once: int = PIECES_AT_ONCE,
) -> np.ndarray:
    """(n, D) float32: the mean over the pieces of each row (L,) of ids; inner: without the marks of its ends.

    Rows of like lengths pass the blocks together, `at_once` pieces or one row, padded to a multiple of `EVEN_PIECES`,
    without gradients. longest: positions that the model has.
    """
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    padded = -(-lengths // EVEN_PIECES) * EVEN_PIECES
    padded = padded if longest is None else np.minimum(padded, longest)
    out = np.empty((len(rows), width), np.float32)
    for size in np.unique(padded).tolist():
        same, few = np.flatnonzero(padded == size), max(1, at_once // size)
        for begin in range(0, len(same), few):
            some = same[begin : begin + few]
            ids = np.zeros((len(some), size), np.int64)
            for at, row in enumerate(some):
                ids[at, : lengths[row]] = rows[row]
            there = torch.from_numpy(np.arange(size) < lengths[some, None])
            x = model.embed(Batch(torch.from_numpy(ids), there, torch.from_numpy(some)))
            if inner:  # proteins of one letter have a mark on either side, and the letter between
                there = torch.from_numpy((np.arange(size) > 0) & (np.arange(size) < lengths[some, None] - 1))
            # In float64, so that the order of what is added says nothing.
            total = torch.where(there[:, :, None], x, 0.0).double().sum(1)
            out[some] = (total / there.sum(1, keepdim=True)).float().numpy()
    return out


@dataclass(frozen=True)
class EncoderFields(Fields):
    """Those of an encoder of texts, with the vectors of its pieces. tokeniser: as the text of a tokenizer.json."""

    tokeniser: str = field(default="", kw_only=True)
    rules: bool = field(default=False, kw_only=True)
    """BERT's rules cut texts where there is no tokenizer.json."""

    @property
    def encoder(self) -> EncoderModelSpec:
        """Its settings."""
        most = min(MOST_PIECES["text"], self.length or 2**16)
        bytes_ = len(self.tokeniser.encode())
        sizes = {"positions": self.length, "length": most, "vocabulary": self.vocabulary, "tokeniser": bytes_}
        return EncoderModelSpec.model_validate({"kind": "text", "model": dict(self.model), **sizes})

    def describe(self) -> str:
        """What it makes of a sequence, in words."""
        return f"{many(self.spec.blocks, 'block')}, width {self.spec.width}; {self.vocabulary:,} pieces of text"

    @property
    def document(self) -> list[Any]:
        return [self.spec.document(), self.tokeniser]


def protein_encoder(fields: Fields) -> EncoderModelSpec:
    """The settings of a checkpoint with vectors of amino acids (ESM-2)."""
    sizes = {"positions": fields.length, "length": MOST_PIECES["protein"], "vocabulary": fields.vocabulary}
    table = {"kind": "protein", "model": dict(fields.model), **sizes, "symbols": fields.symbols}
    return EncoderModelSpec.model_validate(table)


def _whole(family: Family, kind: str, vectors: str, default: int, dropped: str, rules: bool) -> Family:
    """A family with its vectors of pieces, which its blocks alone do without."""

    def fields(config: Any) -> EncoderFields:
        vocabulary = config.number("vocab_size", default)
        return EncoderFields(kind, family.model(config), family.length(config), vocabulary, rules=rules)

    return replace(
        family,
        lines=lambda config: (line("encoder.weight", vectors), *family.lines(config)),
        dropped={pattern: text for pattern, text in family.dropped.items() if text != "token vectors"}
        | ({dropped: "another name of the token vectors"} if dropped else {}),
        fields=fields,
    )


BERT_WHOLE = _whole(BERT, "bert", "embeddings.word_embeddings.weight", 30_522, "", True)
T5_WHOLE = _whole(T5, "t5", "shared.weight", 32_128, r"(encoder|decoder)\.embed_tokens\.weight", False)
