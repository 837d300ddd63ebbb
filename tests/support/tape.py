"""What a CUDA graph does, on a CPU: operations are recorded with the numbers and tensors they had, and played again.

Python does not run when a tape is played. A number that Python worked out (a rate, a step) stays what it was, and a
tensor keeps its place in memory, as on a GPU.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

READS = ("_local_scalar_dense", "nonzero", "is_nonzero", "equal")
"""Operations whose answer goes to Python (or decides a shape): a GPU that records cannot give it."""


class Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records while it is entered; `play` performs the record again.

    tensors: tensors that were there before. Any other that an operation reads came out of Python while it recorded (a
    number made a tensor, an array), and a GPU would have to be waited for.
    """

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[tuple[Any, Any, Any, list[torch.Tensor]]] = []
        self.known = {_place(x) for x in tensors}
        self.made: list[torch.Tensor] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function.overloadpacket.__name__ in READS:
            raise RuntimeError(f"{function} asks for a number while steps are recorded")
        for tensor in tree_leaves((args, kwargs)):
            if isinstance(tensor, torch.Tensor) and _place(tensor) not in self.known:
                raise RuntimeError(f"{function} reads a tensor that Python made while steps are recorded")
        out = function(*args, **kwargs)
        tensors = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor)]
        self.known |= {_place(x) for x in tensors}
        self.made += tensors  # Held, so that no later tensor takes the place of one.
        self.operations.append((function, tree_map(_bare, args), tree_map(_bare, kwargs), tensors))
        return out

    def play(self) -> None:
        """Perform every operation again, on the same tensors, into the same tensors."""
        with torch.no_grad():
            for function, args, kwargs, held in self.operations:
                if function.is_view:
                    continue  # It looks at what is filled anyway.
                out = function(*args, **kwargs)
                if not function._schema.is_mutable:
                    filled = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor)]
                    for old, new in zip(held, filled, strict=True):
                        old.detach().copy_(new)


def _bare(x: Any) -> Any:
    return x.detach() if isinstance(x, torch.Tensor) else x


def _place(x: torch.Tensor) -> int:
    return x.untyped_storage().data_ptr()


def tensors_of(step: Any) -> Iterator[torch.Tensor]:
    """All tensors that a step can reach when it begins: the model, its weights and moments, the data, its own tables."""
    seen: set[int] = set()
    ahead = [step]
    while ahead:
        item = ahead.pop()
        if id(item) in seen or isinstance(item, (type, ModuleType, str)):
            continue
        seen.add(id(item))
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, FunctionType):
            ahead += [cell.cell_contents for cell in item.__closure__ or ()]
        else:
            ahead += gc.get_referents(item)


def taped(step: Any) -> Callable[[], None]:
    """A recorder (see `graph.Recorder`): what `step` does goes on a tape."""
    tape = Tape(tensors_of(step))
    with tape:
        step()
    return tape.play
