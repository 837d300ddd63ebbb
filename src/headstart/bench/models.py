"""The models that training is measured with, and made-up data of the right shape for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headstart.errors import BadInput, nearest
from headstart.models.model import ModelSpec
from headstart.objectives import ClassifySpec
from headstart.seeds import bits
from headstart.sequence import Examples, Signature
from headstart.spec import read


@dataclass(frozen=True)
class Example:
    """A model at a published size, and a batch of full length for it.

    `batch` is one sequence where a step would else take longer than a person waits: tokens/s hardly depend on it there.
    """

    model: dict[str, Any]
    signature: Signature
    batch: int
    source: str

    @property
    def spec(self) -> ModelSpec:
        """The model's spec."""
        return read(ModelSpec, self.model, place="model")


def _attention(width: int, blocks: int, heads: int, feed_forward: int) -> dict[str, Any]:
    return {
        "width": width,
        "blocks": blocks,
        "mixer": {"kind": "attention", "heads": heads},
        "feed_forward": {"width": feed_forward},
        "position": {"kind": "rotary"},
    }


EXAMPLES: dict[str, Example] = {
    "digits": Example(
        _attention(32, 2, 4, 128),
        Signature("floats", 1, 64, 64, "class", classes=10),
        32,
        "the built-in study `digits`",
    ),
    "image": Example(
        _attention(64, 3, 4, 128),
        Signature("floats", 1, 1024, 1024, "class", classes=10),
        32,
        "Amos et al. 2023, table 4",
    ),
    "text": Example(
        _attention(512, 6, 8, 1024),
        Signature("tokens", 135, 2048, 2048, "class", classes=2),
        1,
        "Amos et al. 2023, table 4",
    ),
    "listops": Example(
        _attention(512, 6, 8, 1024),
        Signature("tokens", 15, 2000, 2000, "class", classes=10),
        1,
        "Amos et al. 2023, table 4",
    ),
}


def read_models(text: str) -> list[str]:
    """`digits,image` as names. Raises: BadInput."""
    names = [word.strip() for word in text.split(",")]
    for name in names:
        if name not in EXAMPLES:
            raise BadInput(f"--models: {nearest(name, EXAMPLES)}")
    return names


def made_up(example: Example) -> Examples:
    """One batch of random examples."""
    signature, units = example.signature, example.batch
    total = units * signature.length
    offsets = np.arange(units + 1, dtype=np.int64) * signature.length
    noise = bits(0, "bench/values", np.arange(total))
    values = (
        (noise % signature.width).astype(np.int64)
        if signature.input == "tokens"
        else ((noise % 256)[:, None].astype(np.float32) / 128 - 1)
    )
    target = (bits(0, "bench/target", np.arange(units)) % signature.classes).astype(np.int64)
    return Examples(values, offsets, target, np.arange(units))


OBJECTIVE = ClassifySpec()
