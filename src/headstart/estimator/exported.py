"""A fitted model as one file that skops reads into a scikit-learn estimator: numbers and names, never a pickle.

The file holds the config and the weights of a model folder as bytes. skops makes the object and asks the reader to
trust its class by name; the bytes pass every check of a model folder before anything is made of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from headstart import disk
from headstart.atomic import publish, writing
from headstart.core import plugins_of
from headstart.errors import BadInput
from headstart.estimator.models import SequenceClassifier, SequenceRegressor
from headstart.serve.folder import CONFIG_FILE, WEIGHTS_FILE, load_model


class ExportedModel(BaseEstimator):  # type: ignore[misc]
    """What both exported estimators do: they are fitted already, and read X as the fit did.

    files: config.json and model.safetensors of a model folder, (bytes,) uint8 each.
    """

    _kind: type[SequenceClassifier | SequenceRegressor]

    def __init__(self, files: Mapping[str, np.ndarray] | None = None) -> None:
        self.files = files

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __getstate__(self) -> dict[str, Any]:
        """The files alone: what was made of them is made again."""
        return {"files": self.files}

    @property
    def model(self) -> Any:
        """The `SequenceClassifier` or `SequenceRegressor` that answers. Raises: BadInput where there is none in it."""
        if "_model" not in self.__dict__:
            with tempfile.TemporaryDirectory(prefix="headstart-") as folder:
                files = self.files if isinstance(self.files, Mapping) else {}  # a reader of skops may put anything here
                for name in (CONFIG_FILE, WEIGHTS_FILE):
                    if isinstance(content := files.get(name), np.ndarray) and content.dtype == np.uint8:
                        disk.write_file(Path(folder) / name, content.tobytes())
                self._model = self._kind.from_pretrained(folder)
        return self._model

    def fit(self, X: Any, y: Any = None) -> Any:
        """Nothing is fitted again. Raises: BadInput."""
        raise BadInput(f"fit: an exported model is fitted already; fit a new {self._kind.__name__}")

    def predict(self, X: Any) -> np.ndarray:
        """(n,) the likeliest class of each sequence, or its number in the unit of the fit's target."""
        answers: np.ndarray = self.model.predict(X)
        return answers

    def transform(self, X: Any) -> np.ndarray:
        """(n, D) float32 embeddings of the network. Raises: BadInput where there is none."""
        vectors: np.ndarray = self.model.transform(X)
        return vectors


class ExportedClassifier(ClassifierMixin, ExportedModel):  # type: ignore[misc]
    """A fitted `SequenceClassifier` in one file."""

    _kind = SequenceClassifier

    @property
    def classes_(self) -> np.ndarray:
        """(K,) the classes, in the order of `predict_proba`."""
        classes: np.ndarray = self.model.classes_
        return classes

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, K) probabilities, calibrated on validation; columns in the order of `classes_`."""
        shares: np.ndarray = self.model.predict_proba(X)
        return shares


class ExportedRegressor(RegressorMixin, ExportedModel):  # type: ignore[misc]
    """A fitted `SequenceRegressor` in one file."""

    _kind = SequenceRegressor


def trusted_name(estimator: ExportedModel) -> str:
    """The name that skops asks a reader to trust."""
    return f"{type(estimator).__module__}.{type(estimator).__qualname__}"


def export_sklearn(folder: Path, path: Path) -> ExportedModel:
    """Write the model of a folder to one file. Returns the estimator that skops reads from it, bytes compared.

    Raises: ImportError without skops; BadInput where the folder holds no model, its model is a plugin's (a file for
    skops could not name it), or the file cannot be written.
    """
    import skops.io

    config = load_model(folder, others=False).config
    if plugins_of(config):
        raise BadInput(f"{folder}: needs a plugin, which a file for skops cannot name; `headstart predict` serves it")
    files = {name: np.frombuffer((folder / name).read_bytes(), dtype=np.uint8) for name in (CONFIG_FILE, WEIGHTS_FILE)}
    estimator: ExportedModel = (ExportedClassifier if config.preparation.classes else ExportedRegressor)(files)
    data = skops.io.dumps(estimator)
    again: ExportedModel = skops.io.loads(data, trusted=[trusted_name(estimator)])
    held = again.files or {}
    if held.keys() != files.keys() or any(not np.array_equal(held[name], files[name]) for name in files):
        raise BadInput(f"{path}: skops does not read what it wrote; nothing is written. Try another version of it")
    with writing(path):
        publish(path, data)
    return again
