"""What is served, put together from the stages of a fit: the best network, and the models without gradients."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headstart.data import LayoutSpec
from headstart.errors import BadInput
from headstart.fit.candidates import NETWORKS, winner
from headstart.fit.outcome import Candidate
from headstart.plugins import plugins_of
from headstart.runner.machine import version
from headstart.serve.config import NETWORK, ModelConfig, NetworkConfig, Preparation
from headstart.serve.model import Served
from headstart.stage.finished import FinishedStage, open_stage
from headstart.store import Store
from headstart.tasks.own import OwnFacts


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
    classics = {candidate.name: open_stage(store, candidate.best().identity, data).model() for candidate in without}
    stage = None if network is None else open_stage(store, network.best().identity, data)
    preparation = Preparation(
        kind=facts.kind,
        symbols=facts.symbols,
        channels=facts.channels,
        classes=facts.labels,
        mean=facts.mean,
        deviation=facts.deviation,
        low=facts.low,
        high=facts.high,
        patch=stage.spec.task.patch if stage is not None else 1,
        missing=stage is not None and stage.task.signature.missing,
    )
    config = ModelConfig(
        made_by=f"headstart {version('headstart')}",
        layout=layout,
        preparation=preparation,
        network=None if stage is None or network is None else _network_config(stage, network),
        classics={name: fitted.facts for name, fitted in classics.items()},
        serve=serve if serve in classics else NETWORK,
        plugins={} if stage is None else {plugin.name: plugin.digest for plugin in plugins_of(stage.spec.model)},
    )
    return Served(config, None if stage is None else stage.model().float(), classics)


def _network_config(stage: FinishedStage, network: Candidate) -> NetworkConfig:
    return NetworkConfig(
        model=stage.spec.model,
        objective=stage.spec.objective,
        length=stage.task.signature.length,
        temperature=network.best().temperature,
        arm=network.name,
    )
