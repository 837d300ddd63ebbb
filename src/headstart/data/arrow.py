"""Arrow arrays from and to numpy and Python, by their buffers: Arrow's own ways load pandas where it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Words = list[str | None]


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is one of texts, kept as bytes or not, or a dictionary of them."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    known = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
    known += [getattr(pa, name)() for name in ("string_view", "binary_view") if hasattr(pa, name)]
    return kind in known


def is_numeric(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers, or of true and false."""
    import pyarrow as pa

    return bool(pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind))


def is_list(kind: Any) -> bool:
    """Whether an Arrow type is one of lists."""
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def chunks(data: Any) -> list[Any]:
    """The parts of an Arrow array, which may be one."""
    return list(data.chunks) if hasattr(data, "chunks") else [data]


def ends(array: Any) -> np.ndarray:
    """(n + 1,) where the lists of an Arrow array begin and end in what it holds; those that are missing are empty."""
    import pyarrow.compute as pc

    return np.concatenate([[0], np.cumsum(numbers_of(pc.list_value_length(array).fill_null(0)))]).astype(np.int64)


def numbers_of(data: Any) -> np.ndarray:
    """(n,) numbers of an Arrow array, NaN where one is missing. Arrow's own way would load pandas."""
    import pyarrow as pa

    if pa.types.is_boolean(data.type):
        data = data.cast(pa.int8())
    if data.null_count:
        data = data.cast(pa.float64(), safe=False).fill_null(np.nan)
    parts = [np.from_dlpack(part) for part in chunks(data)]
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0), *parts][len(parts) > 0 :])


def texts_of(data: Any) -> Words:
    """The texts of an Arrow array."""
    return [text.decode("utf-8", "surrogatepass") if isinstance(text, bytes) else text for text in data.to_pylist()]


def arrow_texts(texts: Sequence[str | None]) -> Any:
    """Texts as an Arrow array (bytes where half of a pair of surrogates is among them).

    Arrow's own way would load pandas.
    """
    import pyarrow as pa

    try:
        kind, content = pa.large_string(), [(text or "").encode() for text in texts]
    except UnicodeEncodeError:
        kind, content = pa.large_binary(), [(text or "").encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum([0, *map(len, content)], dtype=np.int64)
    valid = None
    if None in texts:
        valid = pa.py_buffer(np.packbits([text is not None for text in texts], bitorder="little"))
    return pa.Array.from_buffers(kind, len(content), [valid, pa.py_buffer(ends), pa.py_buffer(b"".join(content))])


def arrow_numbers(values: np.ndarray) -> Any:
    """Numbers (n,) as an Arrow array."""
    import pyarrow as pa

    size = min(values.dtype.itemsize, 8)
    values = np.ascontiguousarray(values, dtype="i1" if values.dtype.kind == "b" else f"={values.dtype.kind}{size}")
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def arrow_lists(values: np.ndarray | Sequence[str], offsets: np.ndarray) -> Any:
    """Sequences one after another as an Arrow array of lists; `values` are numbers (S,) or (S, F), or S texts."""
    import pyarrow as pa

    items = arrow_numbers(values.reshape(-1)) if isinstance(values, np.ndarray) else arrow_texts(values)
    if isinstance(values, np.ndarray) and values.ndim == 2:
        items = pa.FixedSizeListArray.from_arrays(items, values.shape[1])
    return pa.LargeListArray.from_arrays(arrow_numbers(np.asarray(offsets, dtype=np.int64)), items)
