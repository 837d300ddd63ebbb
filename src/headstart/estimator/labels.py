"""Labels of any type as names of classes, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from headstart.data.labels import class_name
from headstart.data.table import number_name
from headstart.serve.config import ModelConfig

LabelType = Literal["text", "integer", "number", "boolean"]


def label_type(classes: np.ndarray) -> LabelType:
    """What the labels are in Python."""
    kinds: dict[str, LabelType] = {"b": "boolean", "i": "integer", "u": "integer", "f": "number"}
    return kinds.get(classes.dtype.kind, "text")


def label_texts(classes: np.ndarray) -> tuple[str, ...]:
    """The labels as text, as a model folder holds them: 1.0 as `1`, the rest as Python writes them."""
    return tuple(number_name(label) if isinstance(label, float) else str(label) for label in classes.tolist())


def safe_names(classes: np.ndarray) -> tuple[str, ...]:
    """A name for each label that survives reading: without blanks at its ends, none empty or `nan`, each once."""
    names = tuple(map(class_name, label_texts(classes)))
    if len(set(names)) < len(names) or any(name.lower() in ("", "nan") for name in names):
        return tuple(f"class {i}: {name}".strip() for i, name in enumerate(names))
    return names


def labels_of(config: ModelConfig) -> np.ndarray:
    """(K,) labels in the order of a model's numbers, of the type that they had in the fit."""
    names = config.preparation.classes
    labels: Sequence[Any] = names
    if config.label_type == "integer":
        labels = [int(name) for name in names]
    elif config.label_type == "number":
        labels = [float(name) for name in names]
    elif config.label_type == "boolean":
        labels = [name == "True" for name in names]
    return np.array(labels)


def with_labels(config: ModelConfig, classes: np.ndarray) -> ModelConfig:
    """The config of a fit on `safe_names`, with the labels' own names and type in it."""
    texts = dict(zip(safe_names(classes), label_texts(classes), strict=True))
    named = tuple(texts[name] for name in config.preparation.classes)
    preparation = config.preparation.model_copy(update={"classes": named})
    return config.model_copy(update={"preparation": preparation, "label_type": label_type(classes)})
