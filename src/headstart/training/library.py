"""Training a torch module of one's own by the loop that trains every stage: `train`, `pretrain` and `evaluate`."""

from __future__ import annotations

import copy
import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import nn

from headstart.errors import BadInput
from headstart.models.counting import frozen_blocks
from headstart.models.heads import Output, build_head
from headstart.models.model import Network, SequenceModel
from headstart.models.norms import BatchNorm
from headstart.models.own import OwnModel
from headstart.models.seeding import seeded
from headstart.objectives import CausalSpec, MaskedSpec, ObjectiveField, ObjectiveSpec
from headstart.sequence import Batch, Examples, Signature
from headstart.spec import Seed, Spec, read
from headstart.store import SaveTimes
from headstart.training.arrays import Data, examples_of, labelled_examples
from headstart.training.batches import Batches
from headstart.training.evaluate import evaluate as evaluate_batches
from headstart.training.features import FeatureBatches, feature_batches
from headstart.training.loop import BudgetSpec, Progress, TrainConfig, train_whole
from headstart.training.optim import OptimField, OptimSpec, flat_parameters
from headstart.training.run_folder import attributes_of, claimed_folder


class _Recipe(Spec):
    """What is trained and how, read as the settings of a stage are."""

    objective: ObjectiveField
    optim: OptimField = Field(default_factory=OptimSpec)
    budget: BudgetSpec
    seed: Seed = 0


@dataclass(frozen=True)
class Trained:
    """What training left; the module itself holds the best weights.

    records: one per evaluation, `step`, `epoch`, `rate` and the scores `train` and `val` among it. scores: on val, at
    the best weights. best_step: when they were seen (0 with no evaluation); steps: how many were taken. status:
    `diverged` where the loss was not finite.
    """

    module: nn.Module
    records: Sequence[Mapping[str, Any]] = field(repr=False)
    scores: Mapping[str, float]
    best_step: int
    steps: int
    status: Literal["complete", "diverged"]


def train(
    module: nn.Module,
    train: Data,
    val: Data,
    *,
    objective: str | Mapping[str, Any] | ObjectiveSpec | None = None,
    optim: Mapping[str, Any] | OptimSpec | None = None,
    budget: Mapping[str, Any] | BudgetSpec | None = None,
    on_record: Callable[[dict[str, Any]], object] | None = None,
    device: str = "auto",
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    save_every: float = 20.0,
) -> Trained:
    """Train a module in place, and leave it with the weights that are best on `val`.

    module: `forward(x)` or `forward(x, lengths)` with x (B, L) int64 or (B, L, F) float32, padded with 0, and lengths
    (B,); gives (B, K) for K classes, (B, T) for T numbers, or (B, L, K) or (B, L, T) where the target is per position.
    Parameters with `requires_grad = False` stay as they are; where those of a model of `headstart.load` lie below all
    that train, what they make of an example is computed once, as in a study. train, val: see `Data`; missing numbers
    (NaN) are 0.
    objective: `classify` or `regress`, by its name or with its settings (default: by the target's type).
    optim, budget: as in a study (default: AdamW at 1e-3, 10 epochs, batches of 32 or of
    all examples where there are fewer); `patience` is a setting of the budget.
    on_record: called with a copy of each record. seed: of the order of the examples and of dropout.
    folder: where states are saved every `save_every` seconds, or less often where that would take more than 5% of the
    time: the same call goes on from there, to equal bits, and a training that is finished is not done again; one with
    other data, settings or another text of the module's classes is another one. device: `auto`, `cpu`, `cuda` or
    `cuda:N`.
    Raises: BadInput where module, data and settings do not fit, or the folder holds a run from other weights, or of a
    module that gave other outputs from them.
    """
    _check_call(module, on_record)
    sets = {"train": labelled_examples(train, "train"), "val": labelled_examples(val, "val")}
    signature = _signature(sets)
    recipe = _recipe(objective or _by_target(signature), optim, budget, seed)
    if not recipe.objective.uses_target:
        raise BadInput(f"objective: {recipe.objective.kind!r} asks for no target; call headstart.pretrain")
    accelerator = _device(device)
    dtype = torch.float64 if recipe.optim.precision == "float64" else torch.float32
    module.to(device=accelerator, dtype=dtype)
    network, signature = _network(module, signature, recipe.objective, sets["train"], accelerator, dtype)
    return _trained(module, network, signature, recipe, sets, on_record, folder, save_every)


def pretrain(
    module: nn.Module,
    train: Data,
    val: Data,
    *,
    objective: str | Mapping[str, Any] | ObjectiveSpec = "masked",
    optim: Mapping[str, Any] | OptimSpec | None = None,
    budget: Mapping[str, Any] | BudgetSpec | None = None,
    on_record: Callable[[dict[str, Any]], object] | None = None,
    device: str = "auto",
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    save_every: float = 20.0,
    vocabulary: int | None = None,
) -> Trained:
    """Pretrain a module in place on inputs alone: `masked`, or `causal`, where no position may see a later one.

    A linear layer on top of the module answers the objective, and is thrown away.
    module: as for `train`, but gives (B, L, D). What is masked is 0; a masked token has the id `vocabulary` (default:
    one above the largest token of train and val), for which the module's embedding needs a row.
    Other arguments, result and errors are those of `train`; targets are not looked at.
    """
    _check_call(module, on_record)
    sets = {name: replace(examples_of(data, name), target=None) for name, data in (("train", train), ("val", val))}
    signature = _signature(sets, vocabulary)
    recipe = _recipe(objective, optim, budget, seed)
    if recipe.objective.uses_target:
        raise BadInput(f"objective: {recipe.objective.kind!r} asks for a target; call headstart.train")
    for name, examples in sets.items():
        if isinstance(recipe.objective, CausalSpec) and examples.lengths.max() < 2:
            raise BadInput(f"{name}: all sequences have one position, and 'causal' predicts the next; take 'masked'")
    accelerator = _device(device)
    dtype = torch.float64 if recipe.optim.precision == "float64" else torch.float32
    module.to(device=accelerator, dtype=dtype)
    batch = next(Batches(sets["train"], np.arange(1), accelerator, dtype).in_order())
    hidden = replace(batch, masked=batch.valid) if isinstance(recipe.objective, MaskedSpec) else batch
    x = _probe(OwnModel(module, None, None, signature), hidden)
    if x.ndim != 3 or x.shape[:2] != batch.inputs.shape[:2]:
        raise BadInput(f"module: gives {tuple(x.shape)} for inputs {tuple(batch.inputs.shape)}; let it give (B, L, D)")
    output, width = recipe.objective.output(signature), x.shape[2]
    head = seeded(seed, "head", lambda: build_head(output, width, "mean")).to(device=accelerator, dtype=dtype)
    network = OwnModel(module, head, width, signature)
    return _trained(module, network, signature, recipe, sets, on_record, folder, save_every)


def evaluate(
    module: nn.Module,
    data: Data,
    *,
    objective: str | Mapping[str, Any] | ObjectiveSpec | None = None,
    device: str = "auto",
    seed: int = 0,
) -> dict[str, float]:
    """Scores of a module on labelled data, as `train` computes them: loss, and accuracy or r2, among others.

    Raises: BadInput where module, data and objective do not fit.
    """
    _check_call(module)
    examples = labelled_examples(data, "data")
    signature = _signature({"data": examples})
    recipe = _recipe(objective or _by_target(signature), None, None, seed)
    accelerator = _device(device)
    dtype = next((x.dtype for x in module.parameters() if x.is_floating_point()), torch.float32)
    training = module.training
    module.to(accelerator)
    network, signature = _network(module, signature, recipe.objective, examples, accelerator, dtype)
    batches = Batches(examples, examples.labelled_units(), accelerator, dtype)
    scores = evaluate_batches(network, batches, recipe.objective, signature, seed=seed).scores
    module.train(training)
    return scores


def _trained(
    module: nn.Module,
    network: Network,
    signature: Signature,
    recipe: _Recipe,
    sets: Mapping[str, Examples],
    on_record: Callable[[dict[str, Any]], object] | None,
    folder: str | os.PathLike[str] | None,
    save_every: float,
) -> Trained:
    """Drive the loop to its end; records, states and best weights are what is done with its steps."""
    learn = {name: weight.requires_grad for name, weight in network.named_parameters()}
    if not any(learn.values()):
        raise BadInput("module: has no weight that trains; set requires_grad = True for some")
    first = next(network.parameters())
    batches: dict[str, Batches] = {}
    for name, examples in sets.items():
        units = examples.labelled_units() if recipe.objective.uses_target else np.arange(examples.units)
        batches[name] = Batches(examples, units, first.device, first.dtype)
        if not len(units):
            raise BadInput(f"{name}: holds no example with a target; give it some")
    count = len(batches["train"].units)
    if "batch_size" not in recipe.optim.model_fields_set and count < recipe.optim.batch_size:
        recipe = recipe.model_copy(update={"optim": recipe.optim.model_copy(update={"batch_size": count})})
    if recipe.optim.batch_size > count:
        raise BadInput(f"optim.batch_size: {recipe.optim.batch_size} is more than the {count} train examples")
    config = TrainConfig(
        recipe.objective, signature, recipe.optim, recipe.budget, recipe.seed, batches["train"], batches["val"]
    )
    recipe.optim.check_total(config.total)
    norms = {module: module.still for module in network.modules() if isinstance(module, BatchNorm)}
    for norm in norms:
        norm.still = not norm.weight.requires_grad
    try:
        with claimed_folder(folder, network, recipe.document(), sets, batches["val"]) as claim:
            trained = [name for name, learns in learn.items() if learns]
            features = _features(network, trained, config, batches)
            batches |= features
            config = replace(config, train=batches["train"], val=batches["val"])
            progress = Progress(network, flat_parameters(network, trained, recipe.optim), features=features)
            progress.rest.watched = False  # the network is a person's own, and `on_record` may write to it
            records = claim.records
            if claim.state is not None:
                progress.restore(*claim.state)
            if claim.result is None:
                saves = SaveTimes(save_every, time.monotonic())
                for info in train_whole(config, progress):
                    if info.record is not None:
                        records.append(info.record)
                        if claim.stage is not None:
                            claim.stage.append(info.record)
                        if on_record is not None:
                            _tell(on_record, info.record, network, learn)
                    if claim.stage is not None and saves.due(began := time.monotonic()):
                        state = info.state()
                        if saves.affordable(state[0], began):
                            claim.stage.save(info.step, *state)
                            saves.saved(began, time.monotonic())
                progress.load_best()
                status = "diverged" if progress.diverged else "complete"
                result: Mapping[str, Any] = {"status": status, "best_step": progress.best_step, "steps": progress.step}
                if claim.stage is not None:
                    best = {name: value.detach().clone().cpu() for name, value in network.state_dict().items()}
                    claim.stage.finish(result, best, best, {})
            else:
                result = claim.result
                network.load_state_dict(claim.weights)
            scores = evaluate_batches(
                network, batches["val"], recipe.objective, signature, seed=recipe.seed, precision=recipe.optim.precision
            ).scores
    finally:
        for name, weight in network.named_parameters():
            weight.data = weight.data.clone()  # no longer a view of the flat buffer, so that it can be saved by itself
            weight.requires_grad_(learn[name])
        for norm, still in norms.items():
            norm.still = still
    module.eval()
    return Trained(module, tuple(records), scores, result["best_step"], result["steps"], result["status"])


def _tell(
    on_record: Callable[[dict[str, Any]], object], record: dict[str, Any], network: Network, learn: Mapping[str, bool]
) -> None:
    """Call with a copy of the record, and put back what the function switched.

    Raises: BadInput where it changed what the module holds.
    """
    grad, before = torch.is_grad_enabled(), attributes_of(network)
    on_record(copy.deepcopy(record))
    torch.set_grad_enabled(grad)
    for name, weight in network.named_parameters():
        weight.requires_grad_(learn[name])
    after = attributes_of(network)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    if changed:
        raise BadInput(f"on_record: changed {changed[0]!r} of the module, and a record is to be read alone")


def _features(
    network: Network, trained: Collection[str], config: TrainConfig, batches: Mapping[str, Batches]
) -> dict[str, FeatureBatches]:
    """The splits, where frozen layers of a headstart model are computed once for each unit, as stages do it."""
    if not isinstance(network, SequenceModel) or config.total < config.per_epoch:
        return {}
    if any(isinstance(module, BatchNorm) and not module.still for module in network.modules()):
        return {}  # its statistics follow each batch, whatever trains
    with torch.no_grad():
        width = network.embed(next(batches["val"].in_order())).shape[-1]
    level = frozen_blocks(network, trained)
    return feature_batches(network, level, width, batches, config.objective, config.signature, config.optim)


def _check_call(module: Any, on_record: Any = None) -> None:
    """Raises: BadInput where these are not what their names say."""
    if not isinstance(module, nn.Module):
        raise BadInput(f"module: {module!r} is not an instance of torch.nn.Module; give one, such as Net()")
    if on_record is not None and not callable(on_record):
        raise BadInput(f"on_record: {on_record!r} cannot be called; give a function of one record")


def _signature(sets: Mapping[str, Examples], vocabulary: int | None = None) -> Signature:
    """What the data say of themselves. Raises: BadInput where two sets are of different kinds."""
    every = list(sets.values())
    first = every[0]
    tokens, target = first.values.ndim == 1, first.target
    kinds = {(x.values.shape[1:], None if x.target is None else x.target.dtype.kind, x.per_position) for x in every}
    if len(kinds) > 1:
        raise BadInput(f"{' and '.join(sets)}: differ in channels or in the kind of their targets; give both alike")
    largest = max(int(x.values.max()) for x in every) + 1 if tokens else 0
    if vocabulary is not None and vocabulary < largest:
        raise BadInput(f"vocabulary: {vocabulary} is not above the token {largest - 1}; give at least {largest}")
    kind: Literal["class", "number", "none"] = "none"
    if target is not None:
        kind = "number" if target.dtype.kind == "f" else "class"
    return Signature(
        "tokens" if tokens else "floats",
        (vocabulary or largest) if tokens else first.values.shape[1],
        max(int(x.lengths.max()) for x in every),
        min(int(x.lengths.min()) for x in every),
        kind,
        classes=max(int(x.target.max()) for x in every if x.target is not None) + 1 if kind == "class" else 0,
        targets=target.shape[-1] if kind == "number" and target is not None and target.ndim == 2 else 1,
        per_position=first.per_position,
        missing=any(x.observed is not None for x in every),
    )


def _by_target(signature: Signature) -> str:
    return "classify" if signature.target == "class" else "regress"


def _recipe(objective: Any, optim: Any, budget: Any, seed: int) -> _Recipe:
    table = {"kind": objective} if isinstance(objective, str) else objective
    for name, value, way in (("budget", budget, '{"steps": 1000}'), ("optim", optim, '{"lr": 1e-3}')):
        if isinstance(value, (int, float, str)):
            raise BadInput(f"{name}: {value!r} is not a dict; give one, such as {name}={way}")
    settings = {"objective": table, "budget": budget or {"epochs": 10}, "seed": seed}
    recipe = read(_Recipe, settings if optim is None else {**settings, "optim": optim})
    if isinstance(recipe.objective, MaskedSpec) and recipe.objective.mask_rate is None:
        return recipe.model_copy(update={"objective": recipe.objective.model_copy(update={"mask_rate": 0.15})})
    return recipe


def _network(
    module: nn.Module,
    signature: Signature,
    objective: ObjectiveSpec,
    examples: Examples,
    device: torch.device,
    dtype: torch.dtype,
) -> tuple[Network, Signature]:
    """The module as the loop takes it, and the signature with the classes that it answers.

    Raises: BadInput where it does not give the outputs that the objective asks for.
    """
    batch = next(Batches(examples, np.arange(1), device, dtype).in_order())
    network = module if isinstance(module, Network) else OwnModel(module, None, None, signature)
    x = _probe(network, batch)
    if signature.target == "class" and x.shape[-1] > signature.classes:
        signature = replace(signature, classes=x.shape[-1])
    asked: Output = objective.output(signature)
    wanted = (*batch.inputs.shape[: 2 if asked.kind == "position" else 1], asked.size)
    if tuple(x.shape) != wanted:
        raise BadInput(
            f"module: gives {tuple(x.shape)} for inputs {tuple(batch.inputs.shape)}, and {objective.kind!r} on these "
            f"data asks for {wanted}; change its last layer, or the objective"
        )
    return network, signature


@torch.no_grad()
def _probe(network: Network, batch: Batch) -> torch.Tensor:
    """What the network gives for a batch. Raises: BadInput where it cannot take it."""
    try:
        answer: torch.Tensor = network(batch)
    except IndexError as error:
        raise BadInput(
            f"module: cannot take these tokens ({error}); give its embedding a row for each, and in pretraining one "
            "more for what is masked (`vocabulary` says how many tokens there are)"
        ) from None
    except Exception as error:  # of the person's own code, whose traceback says where
        error.add_note(f"headstart called the module with x of shape {tuple(batch.inputs.shape)} and its lengths")
        raise
    return answer


def _device(name: str) -> torch.device:
    """Raises: BadInput for a device that is not known, or not there."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        return torch.device("cuda" if count else "cpu")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", str(name)):
        raise BadInput(f"device: no {str(name)!r}; give auto, cpu, cuda or cuda:N")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= count:
        raise BadInput(f"device: {str(name)!r}, but torch sees {count} GPU(s) here; give auto or cpu")
    return device
