"""A stage that is read: the weights of a checkpoint, copied into the store under our names."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from headstart.checkpoints import SERIES
from headstart.checkpoints.fields import Fields
from headstart.checkpoints.source import revision_of
from headstart.errors import BadInput
from headstart.initial import SYMBOL_TENSOR, symbol_tensor
from headstart.models.model import ModelSpec, model_length
from headstart.models.norms import Tensors
from headstart.parameters import LEAVES, MIXER, SelectsNothing, leaves, select
from headstart.stage.spec import ReadStage, Size, StageOutcome, StageRun, TrainStage, peak_memory
from headstart.tasks import Task

MUST_AGREE: Mapping[str, tuple[str, ...]] = {
    "width": LEAVES,
    "residual": LEAVES,
    "mixer": MIXER,
    "causal": MIXER,
    "position": MIXER,
    "parallel": ("feed_forward",),
    "feed_forward": ("feed_forward",),
    "norm": ("norm",),
    "norm_place": ("norm",),
    "norm_epsilon": ("norm",),
    "embedding_norm": ("norm",),
}
"""Field of a model -> parts whose weights mean something else where it differs."""
WITHIN_MIXERS = ("rotary", "relative")
"""Positions that act within mixers; others may differ from the checkpoint's."""
_TAKEN = re.compile(r"\s*take\s*\(([^(),]*)")


class ReadRun(StageRun):
    """A stage whose weights are read: it takes no step and has no scores."""

    def check(self) -> None:
        """Raises: BadInput for a model of series, whose blocks read its own patches alone."""
        model = self.spec.model
        if model.sized and model.fields.family in SERIES:
            raise BadInput(
                f"checkpoint.source: {model.source!r} is a model of series, whose blocks read its own patches alone; "
                f'an arm with model = {{ kind = "embedding", source = "{model.source}" }} reads its frozen features'
            )

    @property
    def fields(self) -> Fields:
        """The checkpoint's fields."""
        fields: Fields = self.spec.model.fields
        return fields

    def finish(self) -> StageOutcome:
        """Read all of it. Raises: BadInput where it is not what it was when the stage was planned."""
        begun = time.perf_counter()
        model = self.spec.model
        checkpoint, tensors, content = model.loaded()
        if checkpoint.fields.symbols:
            tensors[SYMBOL_TENSOR] = symbol_tensor(checkpoint.fields.symbols)
        spent = {"epochs": 0.0, "steps": 0, "examples": 0, "tokens": 0, "flops": 0.0}
        scores = {which: {"step": 0, "epoch": 0.0, "train": {}, "val": {}, "test": {}} for which in ("best", "last")}
        revision = revision_of(checkpoint.source)
        facts = {
            "source": model.source,
            "family": checkpoint.fields.family,
            "revision": revision,
            "licence": checkpoint.licence,
            "content": content,
            "symbols": list(checkpoint.fields.symbols),
        }
        remarks = [f"family {checkpoint.fields.family}", f"content {content[:16]}"]
        remarks += [f"revision {revision[:12]}"] if revision else []
        remarks += [f"licence {checkpoint.licence or 'not declared'}"]
        return StageOutcome(
            "complete",
            tensors,
            tensors,
            sorted(tensors),
            {},
            scores,
            {**spent, "seconds": time.perf_counter() - begun, "peak_memory": peak_memory(torch.device("cpu"))},
            self._account(),
            {"name": "", "greater": True},
            title=f"{model.source} ({', '.join(remarks)})",
            model=facts,
        )

    def size(self) -> Size:
        """Its parameters, none of which trains here."""
        return Size(self._account()["total"])

    def weights(self) -> Tensors:
        """Tensors of the shapes that it has, without numbers; and its symbols, which an absent one leaves open."""
        fields = self.fields
        tensors = {name: torch.empty(shape, device="meta") for name, shape in fields.shapes().items()}
        if fields.vocabulary and (fields.symbols or self.spec.model.absent):
            tensors[SYMBOL_TENSOR] = symbol_tensor(fields.symbols)
        return tensors

    def _account(self) -> dict[str, Any]:
        rows: dict[str, dict[str, Any]] = {}
        shapes = self.fields.shapes()
        for name, leaf in parts_of(self.fields).items():
            none = {"total": 0, "taken": 0, "matched": 0, "drawn": 0, "fresh": 0, "frozen": 0}
            row = rows.setdefault(leaf, {"part": leaf, **none})
            for kind in ("total", "taken"):
                row[kind] += torch.Size(shapes[name]).numel()
        ordered = [rows[leaf] for leaf in LEAVES if leaf in rows]
        return {"total": sum(row["total"] for row in ordered), "trainable": 0, "account": ordered}

    @staticmethod
    def check_child(parent: ReadStage, spec: TrainStage, task: Task) -> None:
        """Raises: BadInput where a stage takes weights of the checkpoint into a model that uses them otherwise."""
        source, model = parent.model, spec.model
        if not source.sized or not isinstance(model, ModelSpec):
            return
        fields: Fields = source.fields
        taken = set(_leaves_taken(spec, fields))
        if not taken:
            return
        if spec.objective.needs_causal and not fields.spec.causal:
            raise BadInput(
                f"objective.kind: 'causal' asks for what comes next, and the blocks of checkpoint {source.source!r} "
                "look at both sides of a position; take 'masked', or a checkpoint of causal blocks such as gpt2"
            )
        for name, ours, theirs in _differences(model, fields.spec, taken):
            raise BadInput(
                f"model.{name}: {_toml(ours)} here and {_toml(theirs)} in checkpoint {source.source!r}, whose weights "
                f'this stage takes; give {_toml(theirs)}, leave it out beside model.like = "{source.source}", or '
                "take less by start"
            )
        if "position" in taken and fields.length is not None and model.position.kind == "learned":
            length = model_length(model, task.signature)
            if length > fields.length and not _learns_further_positions(spec, fields):
                raise BadInput(
                    f"model.position: the model has {length:,} positions, and checkpoint {source.source!r} has learned "
                    f"vectors for {fields.length:,}; shorten the sequences, join positions (task.patch), leave "
                    "'position' out of start, or train the others: rows=\"prefix\" there, and 'position' in trainable"
                )

    @staticmethod
    def load_model(spec: ReadStage, task: Task, weights: Tensors, result: Mapping[str, Any]) -> Any:
        """Raises: BadInput, since a checkpoint has neither inputs nor outputs of a task."""
        del task, weights, result
        raise BadInput(
            f"checkpoint.source: {spec.model.source!r} has weights of blocks alone, and nothing predicts; name a stage "
            "that starts from it"
        )


def parts_of(fields: Fields) -> dict[str, str]:
    """The leaf of each tensor of a checkpoint, by our names."""
    of = leaves(fields.outline())
    return {name: of[name] for name in fields.shapes()}


def _leaves_taken(spec: TrainStage, fields: Fields) -> Iterator[str]:
    """The leaves of a checkpoint of which a start takes some tensors; what it does not have is refused elsewhere."""
    of = parts_of(fields)
    for entry in spec.start:
        match = _TAKEN.match(entry)
        try:
            yield from (of[name] for name in select(match[1].strip(), of)) if match else ()
        except BadInput:
            continue


def _learns_further_positions(spec: TrainStage, fields: Fields) -> bool:
    """Whether a stage takes the positions that there are and trains those behind them, which start fresh."""
    try:
        trained = select(spec.trainable, parts_of(fields))
    except SelectsNothing:
        return False
    return "position.table" in trained and any("prefix" in entry for entry in spec.start)


def _differences(model: ModelSpec, theirs: ModelSpec, taken: set[str]) -> Iterator[tuple[str, Any, Any]]:
    """(name of a setting, ours, theirs) where a part that is taken would mean something else."""
    for name, parts in MUST_AGREE.items():
        if not taken & set(parts) or (name == "position" and theirs.position.kind not in WITHIN_MIXERS):
            continue
        pair = [_plain(spec, name, min(model.blocks, theirs.blocks)) for spec in (model, theirs)]
        for key in pair[1]:
            if pair[0].get(key) != pair[1][key]:
                yield key, pair[0].get(key), pair[1][key]


def _plain(model: ModelSpec, name: str, blocks: int) -> dict[str, Any]:
    """Full name of each setting -> its value, mixers block by block where they differ."""
    value = model.model_dump(mode="json", include={name})[name]
    if name == "mixer":
        mixers = [mixer.model_dump(mode="json", exclude={"init"}) for mixer in model.mixers[:blocks]]
        return {f"mixer[{i}].{key}": x for i, mixer in enumerate(mixers) for key, x in mixer.items()}
    if name == "feed_forward":
        value = {**value, "width": value["width"] or 4 * model.width}
    if name == "position":
        value = {key: x for key, x in value.items() if key != "length"}
    return {f"{name}.{key}": x for key, x in value.items()} if isinstance(value, dict) else {name: value}


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "nothing" if value is None else repr(value)
