"""Components of a model that are built with random numbers of their own, whatever else is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch

from headstart.errors import BadInput
from headstart.seeds import bits, generators_seeded

M = TypeVar("M")


def seeded(seed: int, name: str, make: Callable[[], M]) -> M:
    """Build one component with random numbers of its own: its values do not depend on what else is there.

    Raises: BadInput where building it seeds torch's generator, or changes a setting of torch that other code rests on.
    """
    number, before = int(bits(seed, f"init/{name}")), torch_settings()
    with generators_seeded(number):
        component = make()
        again = torch.initial_seed() != number
    changed = [what for what, value in torch_settings().items() if value != before[what]]
    if changed:
        _restore(before)
        raise BadInput(
            f"model: building {name} changes {changed[0]}, on which all stages of this process rest; leave it as it is"
        )
    if again:
        raise BadInput(
            f"model: building {name} seeds torch's generator, so that all seeds would start with the same weights; "
            "leave that out: the stage's seed has seeded it"
        )
    return component


def torch_settings() -> dict[str, Any]:
    """Settings of torch that all code of a process rests on, by what a message calls them."""
    return {
        "torch's default type of numbers": torch.get_default_dtype(),
        "torch's default device": str(torch.get_default_device()),
        "torch's precision of matrix products": torch.get_float32_matmul_precision(),
        "whether torch is deterministic": torch.are_deterministic_algorithms_enabled(),
        "torch's number of threads": torch.get_num_threads(),
    }


def _restore(settings: Mapping[str, Any]) -> None:
    """Set what `torch_settings` gave, but for the device."""
    number_type, _, precision, deterministic, threads = settings.values()
    torch.set_default_dtype(number_type)
    torch.set_float32_matmul_precision(precision)
    torch.use_deterministic_algorithms(deterministic)
    torch.set_num_threads(threads)
