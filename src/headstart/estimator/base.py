"""What both estimators do: read, fit, embed, and come and go as folders."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from headstart.data import LayoutSpec, Sequences
from headstart.errors import BadInput
from headstart.estimator.inputs import InputData, as_inputs, check_kind, read_inputs, served_layout
from headstart.estimator.params import fit_settings, workers_of

if TYPE_CHECKING:
    from headstart.fit.outcome import Outcome
    from headstart.serve.config import ModelConfig
    from headstart.serve.model import Served


class SequenceEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What both estimators do; their parameters are told where they are declared."""

    served_: Served
    outcome_: Outcome

    def transform(self, X: Any) -> np.ndarray:
        """(n, D) float32 embeddings: what the network's head looks at, whichever model predicts.

        Raises: BadInput where the fit has no network, or for other data than the fit had.
        """
        check_is_fitted(self)
        return self.served_.embed(self._read(X))

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write the model as a folder that `from_pretrained` and `headstart predict` read; with its card after a fit.

        Raises: BadInput where it cannot be written.
        """
        from headstart.serve.folder import save_model

        check_is_fitted(self)
        save_model(self.served_, folder, self._card())

    @classmethod
    def from_pretrained(
        cls, source: str | os.PathLike[str], *, revision: str | None = None, token: str | bool | None = None
    ) -> Self:
        """The model of a folder (of `save_pretrained` or `headstart fit`), or of a repository `owner/name` on the hub.

        Of a repository config.json and model.safetensors are downloaded, nothing else. revision, token: of the hub.
        Raises: BadInput for anything but a headstart model of this target; ImportError where the hub's package is
        needed and not there.
        """
        from headstart.estimator.hub import fetched, is_repository
        from headstart.serve.folder import load_model

        if not Path(source).exists() and isinstance(source, str) and is_repository(source):
            with fetched(source, revision, token) as folder:
                return cls()._adopt(load_model(folder), str(source))
        return cls()._adopt(load_model(source), str(source))

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool = True,
        message: str = "A model of headstart",
        token: str | bool | None = None,
    ) -> str:
        """Send what `save_pretrained` writes to the repository `owner/name`, which is made where it is not there, and
        made private unless `private` is false. The address of it.

        Raises: ImportError without the hub's package; BadInput where the hub refuses.
        """
        from headstart.estimator.hub import pushed

        check_is_fitted(self)
        with tempfile.TemporaryDirectory(prefix="headstart-") as folder:
            self.save_pretrained(folder)
            return pushed(Path(folder), repo_id, private=private, message=message, token=token)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = []  # embeddings are float32 always
        return tags

    @property
    def _n_features_out(self) -> int:
        network: Any = self.served_.network
        if network is None:
            raise BadInput("transform: the fit has no network, whose vectors these would be; fit one with a network")
        return int(network.head.output.in_features)

    def _adopt(self, served: Served, source: str) -> Self:
        """Serve what was loaded. Raises: BadInput where it predicts something else."""
        raise NotImplementedError

    def _card(self) -> Mapping[str, bytes]:
        if not hasattr(self, "outcome_"):
            return {}
        from headstart.fit.card import model_card

        return {"README.md": model_card(self.outcome_).encode()}

    def _read(self, X: Any) -> Sequences:
        """Sequences to predict, read as those of the fit were."""
        layout = self.served_.config.layout
        inputs = as_inputs(X, channels_first=layout.channels_first)
        wanted = getattr(self, "_width", None)
        if inputs.whole and wanted is not None and inputs.data.ndim == 2 and inputs.width != wanted:
            raise BadInput(
                f"X has {inputs.width} features, but {type(self).__name__} is expecting {wanted} features as input; "
                "where sequences may be longer or shorter, give a list of them"
            )
        return read_inputs(inputs, layout)

    def _inputs(self, X: Any, name: str = "X") -> InputData:
        return as_inputs(X, name, bool(self.channels_first))

    def _fit(
        self, inputs: InputData, labels: Any, target: Literal["class", "number"], X_unlabelled: Any, groups: Any
    ) -> Outcome:
        """Read, fit and keep what other methods need; `served_` comes with the caller."""
        from headstart.fit.perform import fit_sequences

        check_kind(self.kind)
        layout = LayoutSpec(kind=self.kind, target_kind=target, channels_first=bool(self.channels_first))
        sequences = read_inputs(inputs, layout, labels, groups)
        if len(sequences) < 2:
            raise BadInput("X: holds 1 sample; give sequences to learn from and others to choose on")
        fixed = served_layout(inputs, sequences)
        more = None
        if X_unlabelled is not None:
            more = read_inputs(self._inputs(X_unlabelled, "X_unlabelled"), fixed)
        outcome = fit_sequences(
            sequences,
            fit_settings(self, layout),
            unlabelled=more,
            workers=workers_of(self.n_jobs),
            device=self.device,
            store=None if self.store is None else Path(self.store),
        )
        self._remember(inputs)
        return with_config(outcome, outcome.served.config.model_copy(update={"layout": fixed}))

    def _remember(self, inputs: InputData) -> None:
        """What scikit-learn keeps of X; arrays (n, L) are compared with the fit's L by `_read`."""
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                delattr(self, name)
        if inputs.width is not None:
            self.n_features_in_ = inputs.width
        if inputs.names:
            self.feature_names_in_ = np.array(inputs.names, dtype=object)
        self._width = inputs.width if inputs.is_array and inputs.data.ndim == 2 else None


def with_config(outcome: Outcome, config: ModelConfig) -> Outcome:
    """The same outcome, whose served model has this config, and its names of classes."""
    served = replace(outcome.served, config=config)
    return replace(outcome, served=served, labels=config.preparation.classes)
