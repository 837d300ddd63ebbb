"""Small files and tables of our own, and what reading them says."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headstart.data import LayoutSpec, Sequences, read_sequences
from headstart.errors import BadInput


def write(path: Path, content: str | bytes) -> Path:
    """A file with this text (or these bytes)."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def numbers(count: int = 12, length: int = 6, seed: int = 0) -> np.ndarray:
    """(count, length) numbers with four digits, as a file holds them."""
    return np.random.default_rng(seed).normal(size=(count, length)).round(4)


def wide(
    count: int = 12, length: int = 6, mark: str = ",", label: Callable[[int], str] = lambda i: "ab"[i % 2]
) -> list[str]:
    """Lines of a wide table with a header: id, label, t0, t1, ..."""
    lines = [mark.join(["id", "label", *(f"t{i}" for i in range(length))])]
    for i, row in enumerate(numbers(count, length)):
        lines.append(mark.join([f"s{i:02}", label(i), *(f"{x:.4f}" for x in row)]))
    return lines


def read(path: Any, **settings: Any) -> Sequences:
    """Sequences of a file or object with a layout of these settings."""
    return read_sequences(path, LayoutSpec(**settings))


def why(source: Any, name: str = "X", labels: Any = None, **settings: Any) -> str:
    """Why something is refused, without the folder that the test made."""
    with pytest.raises(BadInput) as caught:
        read_sequences(source, LayoutSpec(**settings), labels=labels, name=name)
    folder = getattr(source, "parent", "")
    return str(caught.value).replace(f"{folder}/", "")
