"""FLOPs of a whole model of one's own are those that torch counts in a forward, without tables that are looked up."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import Field
from torch import Tensor, nn

from headstart.models.own import OwnModelSpec
from headstart.sequence import Signature

SIGNATURE = Signature("tokens", 5000, 96, 2, "class", classes=3)


class Net(nn.Module):
    def __init__(self, vocabulary: int, width: int, reads: bool) -> None:
        super().__init__()
        self.embed, self.reads = nn.Embedding(vocabulary, width), reads
        self.layer = nn.TransformerEncoderLayer(width, 2, 2 * width, 0.0, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Any:
        if self.reads and int(lengths[0]) < 1:
            raise ValueError("empty")
        return self.layer(self.embed(x))


class NetSpec(OwnModelSpec):
    kind: Literal["counted"] = "counted"
    width: int = 8
    reads: bool = False
    settings: dict[str, int] = Field(default_factory=dict)

    def build(self, signature: Signature) -> nn.Module:
        return Net(signature.width, self.width, self.reads)


def stated(length: int, width: int = 8) -> float:
    """Four layers of attention, two of the feed-forward part, and the two products of attention."""
    return 2.0 * length * (4 * width**2 + 4 * width**2) + 2 * 2.0 * length**2 * width


@pytest.mark.parametrize("reads", [False, True], ids=["shapes alone", "looks at its numbers"])
def test_products_are_counted_and_a_table_is_not(reads: bool) -> None:
    spec = NetSpec(reads=reads)
    for length in (1, 64, 96):
        assert spec.flops(SIGNATURE, length) == stated(length)
    # Between lengths that are counted, the cost of a position is linear, which that of attention is.
    assert spec.flops(SIGNATURE, 50) == pytest.approx(stated(50))


def test_a_forward_that_cannot_be_tried_falls_back_on_its_weights() -> None:
    class Picky(Net):
        def forward(self, x: Tensor, lengths: Tensor) -> Any:
            raise ValueError("not now")

    class PickySpec(NetSpec):
        def build(self, signature: Signature) -> nn.Module:
            return Picky(signature.width, self.width, False)

    count = sum(weight.numel() for weight in PickySpec().build(SIGNATURE).parameters())
    assert PickySpec().flops(SIGNATURE, 10) == 20.0 * count
