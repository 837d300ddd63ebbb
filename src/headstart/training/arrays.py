"""What a person hands to `headstart.train`, as Examples."""

from __future__ import annotations

from typing import Any

import torch

from headstart.errors import BadInput
from headstart.sequence import Examples

Data = Any
"""`Examples`, a torch `Dataset` of (x, y), or (X, y): arrays or tensors (n, L) or (n, L, F), or n sequences; x or X
alone where there is no target."""


def labelled_examples(data: Data, name: str) -> Examples:
    """Examples with targets. Raises: BadInput where there are none."""
    examples = examples_of(data, name)
    if examples.target is None:
        raise BadInput(f"{name}: there is no target; give (X, y), or call headstart.pretrain")
    return examples


def examples_of(data: Data, name: str) -> Examples:
    """Examples of what a person gave as `name`. Raises: BadInput where it is none of what `Data` lists."""
    if isinstance(data, Examples):
        return data
    if data is None or isinstance(data, torch.utils.data.DataLoader):
        what = "None" if data is None else "a DataLoader"
        raise BadInput(f"{name}: is {what}; give (X, y), Examples, or a Dataset of (x, y)")
    X, y = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    if isinstance(data, torch.utils.data.Dataset):
        items = [data[number] for number in range(len(data))]  # type: ignore[arg-type]
        # An item that is one tensor is a sequence: its first two positions are no (x, y).
        items = [item if isinstance(item, (tuple, list)) else (item,) for item in items]
        sizes = {len(item) for item in items}
        if sizes not in ({1}, {2}):
            raise BadInput(f"{name}: items of the Dataset have {sorted(sizes)} parts; let each be (x, y), or x alone")
        X, y = [item[0] for item in items], [item[1] for item in items] if sizes == {2} else None
    try:
        return Examples.from_arrays(_plain(X), None if y is None else _plain(y))
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from None


def _plain(values: Any) -> Any:
    """Tensors as arrays, also within a list."""
    if isinstance(values, torch.Tensor):
        return values.detach().cpu().numpy()
    return [_plain(value) for value in values] if isinstance(values, (list, tuple)) else values
