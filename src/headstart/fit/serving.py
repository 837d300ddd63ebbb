"""What is served, put together from the stages of a fit: the best network, and the models without gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headstart.data import LayoutSpec
from headstart.errors import BadInput
from headstart.fit.candidates import NETWORKS, winner
from headstart.fit.outcome import Candidate, TrainedModel
from headstart.runner.machine import version
from headstart.serve.config import NETWORK, ModelConfig, NetworkConfig, Preparation
from headstart.serve.model import Served
from headstart.stage import StageSpec, load_model, stage_from_json
from headstart.store import Store
from headstart.tasks.own import OwnFacts
from headstart.tasks.task import Task, open_task


@dataclass(frozen=True)
class _Loaded:
    """The model of a finished stage, its spec and its task."""

    model: Any
    spec: StageSpec
    task: Task


def serving(serve: str, best: Candidate, candidates: Sequence[Candidate]) -> tuple[Candidate, Candidate | None]:
    """(the candidate that is served, the best network). serve: `auto`, `network` or the name of an arm.

    Raises: BadInput where it was not trained to its end.
    """
    networks = [candidate for candidate in candidates if candidate.name in NETWORKS]
    network = winner(networks) if networks else None
    if serve == "auto":
        return best, network
    by_name = {candidate.name: candidate for candidate in candidates} | ({"network": network} if network else {})
    if serve not in by_name:
        raise BadInput(f"--serve: {serve!r}, but none was trained to its end; give the same command again")
    return by_name[serve], network


def served_model(
    facts: OwnFacts,
    layout: LayoutSpec,
    serve: str,
    network: Candidate | None,
    candidates: Sequence[Candidate],
    store: Store,
    data: Path,
) -> Served:
    """Every model that `predict` may be asked for: the best network, and each arm without gradients at its best seed.

    Raises: BadInput where a stage of it is gone.
    """
    without = [candidate for candidate in candidates if candidate.name not in NETWORKS]
    classics = {candidate.name: _load(candidate.best(), store, data).model for candidate in without}
    loaded = None if network is None else _load(network.best(), store, data)
    preparation = Preparation(
        kind=facts.kind,
        symbols=facts.symbols,
        channels=facts.channels,
        classes=facts.labels,
        mean=facts.mean,
        deviation=facts.deviation,
        low=facts.low,
        high=facts.high,
        patch=loaded.spec.task.patch if loaded is not None else 1,
        missing=loaded is not None and loaded.task.signature.missing,
    )
    config = ModelConfig(
        made_by=f"headstart {version('headstart')}",
        layout=layout,
        preparation=preparation,
        network=None if loaded is None or network is None else _network_config(loaded, network),
        classics={name: fitted.facts for name, fitted in classics.items()},
        serve=serve if serve in classics else NETWORK,
    )
    return Served(config, None if loaded is None else loaded.model.float().eval(), classics)


def _network_config(loaded: _Loaded, network: Candidate) -> NetworkConfig:
    return NetworkConfig(
        model=loaded.spec.model,
        objective=loaded.spec.objective,
        length=loaded.task.signature.length,
        temperature=network.best().temperature,
        arm=network.name,
    )


def _load(model: TrainedModel, store: Store, data: Path) -> _Loaded:
    document, result = store.stage(model.identity), store.result(model.identity)
    if document is None or result is None:
        raise BadInput(f"stage {model.identity}: is no longer in the store {store.root}; give the same command again")
    spec = stage_from_json(document["spec"])
    task = open_task(spec.task, data)
    return _Loaded(load_model(spec, task, store.weights(model.identity, "best"), result), spec, task)
