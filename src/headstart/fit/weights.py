"""What is served, put together from the stages and the classic models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headstart.data import LayoutSpec
from headstart.errors import BadInput
from headstart.fit.compare import Line, Made
from headstart.models.model import SequenceModel, build_model
from headstart.runner.machine import version
from headstart.sequence import Signature
from headstart.serve.config import NETWORK, ModelConfig, NetworkConfig, Preparation
from headstart.serve.model import Served
from headstart.stage import stage_from_json
from headstart.store.stages import Store
from headstart.tasks.own import OwnFacts
from headstart.tasks.task import open_task


@dataclass(frozen=True)
class Network:
    """A trained network with what it must be given."""

    model: SequenceModel
    config: NetworkConfig
    signature: Signature
    patch: int


def served_model(
    facts: OwnFacts, layout: LayoutSpec, serve: str, network: Network | None, lines: Sequence[tuple[Line, Made]]
) -> Served:
    """Every model that `predict` may be asked for: a network, and the classic models among these lines."""
    classics = {line.candidate.name: made.fitted for line, made in lines if made.fitted is not None}
    preparation = Preparation(
        kind=facts.kind,
        symbols=facts.symbols,
        channels=facts.channels,
        classes=facts.labels,
        mean=facts.mean,
        deviation=facts.deviation,
        low=facts.low,
        high=facts.high,
        patch=network.patch if network is not None else 1,
        missing=network is not None and network.signature.missing,
    )
    config = ModelConfig(
        made_by=f"headstart {version('headstart')}",
        layout=layout,
        preparation=preparation,
        network=network.config if network is not None else None,
        classics={name: fitted.facts for name, fitted in classics.items()},
        serve=serve if serve in classics else NETWORK,
    )
    return Served(config, network.model if network is not None else None, classics)


def trained(line: Line, made: Made, store: Store, data: Path) -> Network:
    """The network of a finished stage, in evaluation, on the CPU. Raises: BadInput where the stage is gone."""
    document = store.stage(made.identity)
    if document is None:
        raise BadInput(f"stage {made.identity}: is no longer in the store {store.root}; give the same command again")
    spec = stage_from_json(document["spec"])
    signature = open_task(spec.task, data).signature
    model = build_model(spec.model, signature, spec.objective.output(signature), spec.seed)
    model.load_state_dict(store.weights(made.identity, "best"))
    config = NetworkConfig(
        model=spec.model,
        objective=spec.objective,
        length=signature.length,
        temperature=made.temperature,
        arm=line.candidate.name,
    )
    return Network(model.float().eval(), config, signature, spec.task.patch)
