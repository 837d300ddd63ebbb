"""A served network as one module, from values as a person has them to the answer: what an ONNX file states."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from headstart.errors import BadInput
from headstart.models.exporting import exportable_network
from headstart.sequence import Batch
from headstart.serve.config import NETWORK
from headstart.serve.model import Served


class Whole(nn.Module):
    """Cutting, standardising, patches, the network, temperature and the target's own unit, without reading.

    Shapes: values (B, L, F) float32 in the person's own units, or (B, L) int64 ids; valid (B, L) bool, true where the
    sequence is and false behind it; observed (B, L, F) bool, only where the model knows missing values -> (B, K)
    float32 probabilities, or (B,) float64 numbers. NaN among the values counts as missing. What stands at padded and
    at missing places may be anything. Positions beyond `limit` are cut off.
    Raises: BadInput where there is no network, or a mixer refuses to be exported.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, served: Served) -> None:
        super().__init__()
        known, config = served.config.preparation, served.config.network
        if served.network is None or config is None:
            raise BadInput(
                f"export: there is no network here, only {', '.join(served.choices)}, and classic models have no ONNX "
                "form; fit one with a network"
            )
        self.known, self.temperature = known, config.temperature
        self.limit: int = served.limit(NETWORK) or config.length
        self.network = exportable_network(served.network, config.length)
        for name in ("mean", "deviation"):
            self.register_buffer(name, torch.tensor(getattr(known, name), dtype=torch.float32))

    @property
    def inputs(self) -> dict[str, str]:
        """Name -> type and shape in words, in their order."""
        if self.known.kind != "numbers":
            return {"values": "int64 (batch, length)", "valid": "bool (batch, length)"}
        shape = f"(batch, length, {self.known.width})"
        out = {"values": f"float32 {shape}", "valid": "bool (batch, length)"}
        return {**out, "observed": f"bool {shape}"} if self.known.missing else out

    @property
    def output(self) -> tuple[str, str]:
        """Name, type and shape in words."""
        count = len(self.known.classes)
        return ("probabilities", f"float32 (batch, {count})") if count else ("number", "float64 (batch)")

    def forward(self, values: Tensor, valid: Tensor, observed: Tensor | None = None) -> Tensor:
        # Picked and not sliced: of a slice torch 2.11 does not know how long it is while it makes the graph.
        kept = torch.arange(torch.sym_min(values.shape[1], self.limit))  # type: ignore[no-untyped-call]
        values, valid = values[:, kept], valid[:, kept]
        if self.known.kind == "numbers":
            there = valid[:, :, None] & ~values.isnan()
            batch = self._numbers(values, valid, there if observed is None else there & observed[:, kept])
        else:
            batch = Batch(torch.where(valid, values, 0), valid, valid)
        scores: Tensor = self.network(batch)
        if self.known.classes:
            return (scores / self.temperature).softmax(-1)
        low, high, numbers = self.known.low, self.known.high, scores[:, 0].double()
        return numbers if low is None or high is None else (numbers + 1) / 2 * (high - low) + low

    def _numbers(self, values: Tensor, valid: Tensor, there: Tensor) -> Batch:
        """Numbers as the network sees them; `there` (B, L, F) where there is one."""
        if self.known.mean:
            values = (values - self.mean) / self.deviation
        values, patch = torch.where(there, values, 0.0), self.known.patch
        if patch > 1:
            more = -values.shape[1] % patch
            values, there = (
                torch.unflatten(pad(x, (0, 0, 0, more)), 1, (-1, patch)).flatten(2) for x in (values, there)
            )
            valid = torch.unflatten(pad(valid, (0, more)), 1, (-1, patch))[:, :, 0]
        return Batch(values, valid, valid, observed=there if self.known.missing else None)
