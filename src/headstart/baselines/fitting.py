"""What every model without gradients is: a spec that fits it, predictions, and itself as arrays and facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Protocol

import numpy as np
from pydantic import Field, model_validator

from headstart.baselines.products import one_product_thread
from headstart.errors import BadInput, nearest
from headstart.models import MODELS
from headstart.models.kind import ModelKind
from headstart.sequence import IGNORE, Examples, Signature
from headstart.spec import Spec, read

Shapes = dict[str, tuple[str, tuple[int, ...]]]
"""Name of an array -> its dtype and shape."""
NUMBERS_AT_ONCE, POSITIONS_AT_ONCE = 1 << 22, 1 << 17
"""Numbers that are made for answers at once, and positions of the sequences that they are made of: larger tables are
paged in anew each time."""
FEW_POSITIONS, FEW_UNITS = 1 << 14, 32
"""Positions that are not worth another thread, and units that are not worth a look at how many there are (3 ms)."""
SECONDS_AT_LEAST = 0.1
"""What a model without gradients takes, however few sequences there are."""
OLD_SIZES = ("channels", "dilations", "longest", "placed")
"""Entries of `sizes` that stand beside them in files of earlier versions."""


class FittedFacts(Spec):
    """What is known of a fitted model beside its arrays: JSON. Array shapes follow from it, so that a file's header
    can be compared before anything is read.
    """

    method: str
    """The kind of the model, a line of `models.MODELS`."""
    features: str = "none"
    """What the model looks at, in the kind's words; `size` of them per sequence."""
    input: Literal["tokens", "floats"]
    """Of the signature (classes 0: numbers)."""
    width: int = Field(ge=1)
    """Of the signature (classes 0: numbers)."""
    classes: int = Field(ge=0)
    """Of the signature (classes 0: numbers)."""
    targets: int = Field(ge=1)
    """Of the signature (classes 0: numbers)."""
    paired: bool = False
    """Of the signature (classes 0: numbers)."""
    size: int = Field(default=0, ge=0)
    sizes: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    """Further numbers that the shapes of the kind's arrays follow from."""
    temperature: float = Field(default=1.0, gt=0)
    """Scores are divided by it before they become probabilities."""
    strength: tuple[float, ...] = ()
    """What was chosen, per fit: alpha of a ridge regression, C of a logistic one."""
    per_position: bool = False
    used: int = Field(default=0, ge=0)
    """Labelled units that it was fitted on, of so many `labels`."""
    labels: int = Field(default=0, ge=0)
    encoder: dict[str, Any] = Field(default_factory=dict)
    """Settings of a frozen encoder that makes the features."""

    @model_validator(mode="before")
    @classmethod
    def _gather_old_sizes(cls, table: Any) -> Any:
        if not isinstance(table, Mapping) or not any(name in table for name in OLD_SIZES):
            return table
        rest = {name: value for name, value in table.items() if name not in OLD_SIZES}
        return {**rest, "sizes": {name: table[name] for name in OLD_SIZES if name in table}}

    @property
    def outputs(self) -> int:
        """Scores per sequence, or per position."""
        return self.targets * max(self.classes, 1)

    @property
    def share_used(self) -> str:
        """`, 5,000 of 50,000 labels` where some were left out."""
        return "" if self.used == self.labels else f", {self.used:,} of {self.labels:,} labels"

    @property
    def columns(self) -> int:
        """Features per sequence or pair."""
        return self.size * (4 if self.paired else 1)

    def check(self, right: bool, name: str) -> None:
        """Raises: BadInput naming the fact or array that cannot be, unless it is right."""
        if not right:
            raise BadInput(f"model.{self.method}: {name!r} does not fit the other facts; save the model again")


class FittedSpec(ModelKind):
    """Base of the kinds of models that are fitted."""

    way: ClassVar[str] = "fitted"
    gives_weights: ClassVar[bool] = False
    seeded: ClassVar[bool] = False

    def fit(
        self, train: Examples, val: Examples, signature: Signature, seed: int, class_weights: np.ndarray | None = None
    ) -> Fitted:
        """Fit on the train units that have a label; val chooses what is not given, and calibrates.

        class_weights (K,): how much an example of each class weighs.
        Raises: BadInput for a target that the model does not serve, or where no train unit has one.
        """
        raise BadInput(f"model.kind: {self.kind!r} fits nothing")

    def check(self, signature: Signature) -> None:
        """Raises: BadInput where it cannot serve such sequences, as far as that shows before it is fitted."""

    def memory(self, labels: int, signature: Signature, lengths: np.ndarray) -> float:
        """Bytes that fitting takes at its peak, beside the data; 0 where that is little. lengths (n,): of train."""
        return 0.0

    def seconds(self, labels: int, scored: int, signature: Signature, lengths: np.ndarray) -> float:
        """Processor seconds of fitting so many labelled units and answering so many, roughly: what decides is how they
        grow, since pieces of a fit are held against what earlier ones took. lengths (n,): of train."""
        wide = 1 if signature.input == "tokens" else signature.width  # the width of tokens is how many there may be
        return SECONDS_AT_LEAST + 1e-6 * wide * float(lengths.mean()) * (labels + scored)

    def choices(self, facts: FittedFacts) -> dict[str, Any]:
        """What a model of this spec has chosen, as fields with which nothing is chosen again."""
        return {}

    def frozen(self) -> Mapping[str, np.ndarray]:
        """Arrays that were not learned, which a stage does not keep: the spec knows where they are."""
        return {}

    @classmethod
    def shapes(cls, facts: FittedFacts) -> Shapes:
        """Of the arrays of a model with these facts. Raises: BadInput where the facts contradict each other."""
        raise BadInput(f"model.method: {facts.method!r} has no arrays")

    @classmethod
    def restore(cls, facts: FittedFacts, arrays: Mapping[str, np.ndarray]) -> Fitted:
        """The model again, from arrays of these shapes. Raises: BadInput for numbers that cannot be."""
        del arrays
        raise BadInput(f"model.method: {facts.method!r} has no arrays")

    def title(self, facts: FittedFacts) -> str:
        """What a fitted model is called, in a table."""
        return self.describe()

    def answered(self, objective: Any) -> Any:
        """The objective without what only training uses."""
        if not objective.uses_target:
            raise ValueError(
                f"objective.kind: {objective.kind!r} asks for no target, and a model of kind {self.kind!r} predicts "
                "nothing else; use classify, regress or retrieve"
            )
        smoothed = "label_smoothing" in type(objective).model_fields
        return objective.model_copy(update={"label_smoothing": 0.0}) if smoothed else objective


class Fitted(Protocol):
    """A model that has been fitted. `from_arrays` makes it again from what it gives here."""

    @property
    def facts(self) -> FittedFacts:
        """JSON, by `facts.model_dump()`."""
        ...

    def predict(self, examples: Examples) -> np.ndarray:
        """(n, K) probabilities, or (n,) numbers ((n, T) where there are several), float64; n sequences, pairs or
        positions.

        Raises: BadInput for sequences that are not of the kind it was fitted on.
        """
        ...

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that was learned."""
        ...


def shapes(facts: Mapping[str, Any]) -> Shapes:
    """Name -> (dtype, shape) of the arrays that belong to these facts: to compare with a file before reading it.

    Raises: BadInput naming each fact that is wrong.
    """
    checked = read(FittedFacts, facts, "model")
    return _spec_class(checked).shapes(checked)


def from_arrays(facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Fitted:
    """The model again. Raises: BadInput where facts or arrays are wrong or do not fit together."""
    checked = read(FittedFacts, facts, "model")
    cls = _spec_class(checked)
    _check_arrays(checked, arrays, cls.shapes(checked))
    return cls.restore(checked, arrays)


def _spec_class(facts: FittedFacts) -> type[FittedSpec]:
    cls = MODELS[facts.method].load() if facts.method in MODELS else None
    if cls is None or not issubclass(cls, FittedSpec):
        raise BadInput(f"model.method: {nearest(facts.method, MODELS)}; save the model again")
    return cls


def facts_of(method: str, train: Examples, signature: Signature, learns: bool = True) -> FittedFacts:
    """Facts of a signature. learns: one target a sequence, from labels.

    Raises: BadInput for a signature that the method does not serve, or where nothing has a label to learn from.
    """
    several = signature.target == "class" and signature.targets > 1
    if signature.target == "none" or (learns and (signature.per_position or several)):
        asked = "a target per position" if signature.per_position else "several classes" if several else "no target"
        raise BadInput(
            f"model.kind: the task has {asked}; {method!r} needs one class, number or row of numbers per sequence"
        )
    labels = len(train.labelled_units())
    if not labels and learns:
        raise BadInput(f"model.kind: no train example has a label for {method!r}; give some, or use 'majority'")
    return FittedFacts(
        method=method,
        input=signature.input,
        width=signature.width,
        classes=signature.classes if signature.target == "class" else 0,
        targets=signature.targets,
        paired=signature.paired,
        per_position=signature.per_position,
        used=labels,
        labels=labels,
    )


def check_kind(facts: FittedFacts, examples: Examples) -> None:
    """Raises: BadInput where sequences are not of the kind that a model was fitted on."""
    source = f"model.{facts.method}"
    kind = "tokens" if examples.values.ndim == 1 else "floats"
    if kind != facts.input:
        raise BadInput(f"{source}: was fitted on {facts.input}, got {kind}; give sequences of the same kind")
    if kind == "floats" and examples.values.shape[1] != facts.width:
        raise BadInput(
            f"{source}: was fitted on {facts.width} channels, got {examples.values.shape[1]}; give the same channels"
        )
    if kind == "tokens" and len(examples.values):
        low, high = int(examples.values.min()), int(examples.values.max())
        if low < 0 or high >= facts.width:
            raise BadInput(
                f"{source}: token {low if low < 0 else high} is not in 0..{facts.width - 1}; "
                "give tokens of the vocabulary it was fitted on"
            )
    if examples.paired != facts.paired:
        names = {True: "pairs", False: "single sequences"}
        raise BadInput(f"{source}: was fitted on {names[facts.paired]}; got {names[examples.paired]}")


def targets(examples: Examples, facts: FittedFacts) -> np.ndarray:
    """(units,) int64 classes, IGNORE where there is none; or (units, T) float64 numbers, NaN where there is none."""
    if examples.target is None:
        return np.full(examples.units, IGNORE) if facts.classes else np.full((examples.units, facts.targets), np.nan)
    target = examples.target[::2] if examples.paired else examples.target
    if facts.classes:
        return np.asarray(target.astype(np.int64))
    return np.asarray(target.reshape(len(target), facts.targets).astype(np.float64))


def pieces(examples: Examples, most: int, positions: int) -> Iterator[np.ndarray]:
    """Units in their order, at most so many at once and with at most so many positions, but always one."""
    reach = np.cumsum(examples.unit_lengths)
    first = 0
    while first < examples.units:
        before = int(reach[first - 1]) if first else 0
        last = min(first + most, int(np.searchsorted(reach, before + positions, side="right")))
        last = max(first + 1, last)
        yield np.arange(first, last)
        first = last


def by_pieces(
    examples: Examples, outputs: int, held: int, answer: Callable[[Examples], np.ndarray], threaded: bool = False
) -> np.ndarray:
    """(n, outputs) answers to n units, given piece by piece; `held`: numbers that are made of a unit at once.

    threaded: in as many threads as a matrix product would have; that has one meanwhile, since threads within threads
    wait for each other.
    """
    most, positions = max(1, NUMBERS_AT_ONCE // max(1, held)), int(examples.lengths.sum())

    def answers(room: int, each: Callable[..., Iterable[np.ndarray]] = map) -> np.ndarray:
        units = pieces(examples, most, room)
        return np.concatenate([np.zeros((0, outputs)), *each(lambda some: answer(examples.take(some)), units)])

    if not threaded or examples.units <= FEW_UNITS:
        return answers(POSITIONS_AT_ONCE)
    with one_product_thread() as threads:
        if not threads or positions <= FEW_POSITIONS:
            return answers(POSITIONS_AT_ONCE)
        from concurrent.futures import ThreadPoolExecutor

        count = threads * -(-positions // (POSITIONS_AT_ONCE * threads))  # the same number of pieces for each
        with ThreadPoolExecutor(threads) as pool:
            return answers(max(FEW_POSITIONS, -(-positions // count)), pool.map)


def _check_arrays(facts: FittedFacts, arrays: Mapping[str, np.ndarray], shapes: Shapes) -> None:
    """Raises: BadInput where names, types or shapes are not what the facts say, or a number is not finite."""
    source = f"model.{facts.method}"
    odd = sorted(set(arrays) ^ set(shapes))
    if odd:
        state = "unknown" if odd[0] in arrays else "missing"
        raise BadInput(f"{source}: array {odd[0]!r} is {state}; save the model again")
    for name, (dtype, shape) in shapes.items():
        array = arrays[name]
        if array.dtype != np.dtype(dtype) or array.shape != shape:
            raise BadInput(
                f"{source}: array {name!r} is {array.dtype} {array.shape}, its facts say {dtype} {shape}; "
                "save the model again"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise BadInput(f"{source}: array {name!r} holds a number that is not finite; fit the model again")
