"""Modules with shapes and without numbers: what a plan, a header check or a count of weights builds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode


@contextmanager
def without_numbers() -> Iterator[None]:
    """What is built inside has shapes and types alone: torch's device `meta`, without the second that it takes first.

    There torch does arithmetic in Python, which imports its compiler. Here an operation on each number by itself takes
    the shape from its inputs, and the type from the same operation on one number.
    """
    with torch.device("meta"), _Shapes():  # type: ignore[no-untyped-call]
        yield


def shapes_alone(device: torch.device) -> AbstractContextManager[None]:
    """`without_numbers` for the device `meta`; for any other nothing changes."""
    return without_numbers() if device.type == "meta" else nullcontext()


M = TypeVar("M", bound=nn.Module)


def again(module: M) -> M:
    """Another module of the same shapes, with parameters of its own, which have no numbers either."""
    new, own = copy(module), dict[int, nn.Parameter]()
    for path, part in module.named_modules(remove_duplicate=False):
        parameters = {
            name: None if p is None else own.setdefault(id(p), nn.Parameter(p.data, p.requires_grad))
            for name, p in part._parameters.items()
        }
        inner = copy(part) if path else new
        inner._parameters = parameters
        inner._modules = dict(part._modules)
        inner._buffers = {name: None if b is None else torch.empty_like(b) for name, b in part._buffers.items()}
        if path:
            above, _, name = path.rpartition(".")
            new.get_submodule(above)._modules[name] = inner
    return new


class _Shapes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Arithmetic, random numbers and ranges on the device `meta`."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch's own switch: True, which is its default, imports the compiler."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """The operation's result."""
        options = dict(kwargs or {})
        tensors = [x for x in args if isinstance(x, torch.Tensor)]
        devices = [x.device for x in tensors] or [torch.device(options.get("device") or "meta")]
        if any(device.type != "meta" for device in devices):
            return func(*args, **options)
        name = func._schema.name
        if name.endswith("_") and not name.endswith("__"):  # in place; torch 2.11 has no tag that says so
            return args[0]
        if torch.Tag.pointwise in func.tags and "out" not in options:
            single = [_single(x) if isinstance(x, torch.Tensor) else x for x in args]
            shape = np.broadcast_shapes(*(tuple(x.shape) for x in tensors))  # torch's own imports sympy
            return _empty(shape, func(*single, **options).dtype)
        if torch.Tag.nondeterministic_seeded in func.tags and not tensors:
            return _empty(args[0], options.get("dtype") or torch.get_default_dtype())
        packet = func.overloadpacket
        if packet is torch.ops.aten.arange:
            steps = func(*args, **{**options, "device": torch.device("cpu")})
            return _empty(steps.shape, steps.dtype)
        if packet in _ALIKE:
            return _empty(args[0].shape, options.get("dtype") or args[0].dtype)
        if packet is torch.ops.aten.diag_embed and len(args) == 1:
            return _empty((*args[0].shape, args[0].shape[-1]), args[0].dtype)
        if packet is torch.ops.aten.mv:
            return _empty(args[0].shape[:1], args[0].dtype)
        if packet is torch.ops.aten._linalg_eigh:
            return _empty(args[0].shape[:-1], args[0].dtype.to_real()), _empty(args[0].shape, args[0].dtype)
        if packet is torch.ops.aten.stack:
            first, axis = args[0][0], (args[1] if len(args) > 1 else 0) % (args[0][0].dim() + 1)
            return _empty((*first.shape[:axis], len(args[0]), *first.shape[axis:]), first.dtype)
        if packet is torch.ops.aten.repeat:
            lead = (1,) * (len(args[1]) - args[0].dim())
            return _empty([size * n for size, n in zip((*lead, *args[0].shape), args[1], strict=True)], args[0].dtype)
        return func(*args, **options)


_ALIKE = tuple(
    getattr(torch.ops.aten, name)
    for name in ("tril", "triu", "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like")
)
"""Operations whose result has the shape of their first argument."""


def _single(x: torch.Tensor) -> torch.Tensor:
    return torch.ones((1,) * x.dim(), dtype=x.dtype, device="cpu")


def _empty(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(tuple(shape), dtype=dtype, device="meta")
