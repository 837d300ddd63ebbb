"""Data in memory as Python users hand them over: arrays, labels of any type, and sequences made of arrays."""

from __future__ import annotations

import numpy as np

from headstart.data.labels import class_name
from headstart.data.layout import Channel, Layout, LayoutSpec
from headstart.data.preparation import Preparation
from headstart.data.sequences import Sequences
from headstart.data.text import number_name
from headstart.errors import Places


def sequences_of(
    values: np.ndarray, offsets: np.ndarray, observed: np.ndarray | None, preparation: Preparation
) -> Sequences:
    """Sequences out of arrays, without labels and ids, as a model with this preparation reads them.

    values: (S, F) numbers or (S,) ids; offsets: (n + 1,); observed: (S, F) bool, None where nothing is missing.
    """
    channels = tuple(Channel(name, ()) for name in preparation.channels)
    layout = Layout("an array", "wide", channels, LayoutSpec(), kind=preparation.kind, symbols=preparation.symbols)
    none = (None,) * (len(offsets) - 1)
    return Sequences(values, offsets, observed, none, None, None, preparation.channels, layout, Places("an array"))


def label_names(classes: np.ndarray) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(texts, names) of labels of any type: as a model folder holds them (1.0 as `1`), and such as survive reading:
    without blanks at their ends, none empty or `nan`, each once."""
    texts = tuple(number_name(label) if isinstance(label, float) else str(label) for label in classes.tolist())
    names = tuple(map(class_name, texts))
    if len(set(names)) < len(names) or any(name.lower() in ("", "nan") for name in names):
        names = tuple(f"class {i}: {name}".strip() for i, name in enumerate(names))
    return texts, names
