"""What of the finished stages of a store must be equal, however they came about, bit by bit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from headstart.store import Store


def unfinished(store: Store, identities: Iterable[str]) -> list[str]:
    """What is damaged or not finished, in words."""
    problems = {name: store.problem(name) if store.result(name) else "not finished" for name in identities}
    return [f"{name}: {problem}" for name, problem in problems.items() if problem]


def content(store: Store, identities: Iterable[str]) -> dict[str, Any]:
    """Name -> results, records and tensors of these stages; times and memory are left out, and they must be finished."""
    out: dict[str, Any] = {}
    for identity in identities:
        assert not (lines := unfinished(store, [identity])), lines
        result: Any = store.result(identity)
        facts = {key: result[key] for key in ("status", "monitor", "scores", "parameters", "references")}
        facts["budget"] = {k: v for k, v in result["budget"].items() if k not in ("seconds", "peak_memory")}
        out[f"{identity}/result"] = facts
        out[f"{identity}/records"] = [
            {k: v for k, v in record.items() if k != "seconds"} for record in store.records(identity)
        ]
        for which in ("best", "last"):
            if f"{which}.safetensors" in result["files"]:  # a model without gradients has no last weights
                weights: Any = store.weights(identity, which)
                out |= {f"{identity}/{which}/{name}": tensor for name, tensor in weights.items()}
        out |= {f"{identity}/predictions/{name}": x for name, x in store.predictions(identity).items()}
    return out


def differences(store: Store, reference: Mapping[str, Any]) -> list[str]:
    """What of a store is damaged, not finished or not as in the `content` of another; nothing where all bits are equal."""
    identities = {name.partition("/")[0] for name in reference}
    if lines := unfinished(store, identities):
        return lines
    now = content(store, identities)
    lacking = [f"{name} is {'lacking' if name in reference else 'new'}" for name in now.keys() ^ reference.keys()]
    return lacking + [
        f"{name} differs" for name in now.keys() & reference.keys() if not _same(now[name], reference[name])
    ]


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor):
        return first.dtype == second.dtype and torch.equal(first, second)
    return bool(first == second)
