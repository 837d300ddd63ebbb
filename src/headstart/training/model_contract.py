"""What every whole model of a person's own must hold to: checks that say in words what fails."""

from __future__ import annotations

import copy
import itertools
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from headstart.errors import Broken, nearest
from headstart.models.contract import CUTS, LENGTH, LENGTHS, LONG, LONG_CUTS, LONG_LENGTHS
from headstart.models.counting import counted_flops, flops_are_off
from headstart.models.norms import Tensors
from headstart.models.own import OwnModel, OwnModelSpec, own_signature
from headstart.objectives import ClassifySpec, ObjectiveSpec, RegressSpec
from headstart.parameters import LEAVES, leaves
from headstart.seeds import Draw, below, normal
from headstart.sequence import Batch, Examples, Signature
from headstart.text import many
from headstart.training.batches import Batches
from headstart.training.loop import BudgetSpec, Progress, TrainConfig, train
from headstart.training.objective_contract import problem_of, problems_of
from headstart.training.optim import OptimSpec, flat_parameters
from headstart.training.rehearsal import replaced

ANSWER_TOLERANCE = 1e-4
"""How far padding, or the future of a causal model, may move an answer: a share of the largest (float32)."""
MODEL_WIDTH, MODEL_CLASSES, MODEL_EXAMPLES = 5, 3, 12
TRAINED_STEPS = 6
"""Of the training that is broken off in its middle and gone on with."""


@dataclass(frozen=True)
class ModelCase:
    """A model on one sort of data: token ids or floats, and what is asked."""

    spec: OwnModelSpec
    signature: Signature
    objective: ObjectiveSpec
    lengths: tuple[int, ...] = LENGTHS

    @property
    def long(self) -> ModelCase:
        """The same on sequences in which chunks of up to 256 positions have borders."""
        return replace(self, signature=replace(self.signature, length=LONG), lengths=LONG_LENGTHS)

    def __str__(self) -> str:
        where = "position" if self.signature.per_position else "sequence"
        asked = "" if self.spec.head else f", a {self.signature.target} per {where}"
        return f"on {self.signature.input}{asked}"

    def build(self, seed: int = 0) -> OwnModel:
        """A fresh network."""
        return self.spec.network(self.signature, self.objective.output(self.signature), seed)

    @property
    def examples(self) -> Examples:
        """Sequences of 12, 7 and 1 positions (or other lengths) in turn, with a target."""
        lengths = [self.lengths[i % len(self.lengths)] for i in range(MODEL_EXAMPLES)]
        at = np.arange(sum(lengths))
        tokens = self.signature.input == "tokens"
        values = (
            below(0, "contract/x", MODEL_WIDTH, at)
            if tokens
            else normal(0, "contract/x", at[:, None], np.arange(MODEL_WIDTH))
        )
        count = at if self.signature.per_position else np.arange(MODEL_EXAMPLES)
        numbers = self.signature.target == "number"
        target = normal(0, "contract/y", count).astype(np.float32) if numbers else count % MODEL_CLASSES
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        index, single = np.arange(MODEL_EXAMPLES), self.signature.per_position
        x = values.astype(np.int64 if tokens else np.float32)
        return Examples(x, offsets, target, index, per_position=single)

    def batches(self) -> Batches:
        """The examples on this machine's CPU."""
        return Batches(self.examples, np.arange(MODEL_EXAMPLES), torch.device("cpu"), torch.float32)

    def batch(self, rows: Sequence[int] = (0, 1, 2)) -> Batch:
        """Some of them."""
        return self.batches().batch(np.array(rows))


def draw(batch: Batch) -> Draw:
    """Random numbers of a training step on this batch."""
    return Draw(0, 0, batch.index)


def cases(spec: OwnModelSpec) -> Iterator[ModelCase]:
    """Sorts of data; what a model answers besides is its head's part, unless it has none."""
    for form in ("tokens", "floats"):
        for target, each in (
            itertools.product(("class", "number"), (False, True)) if not spec.head else [("class", False)]
        ):
            classes = MODEL_CLASSES if target == "class" else 0
            signature = Signature(form, MODEL_WIDTH, LENGTH, 1, target, classes=classes, per_position=each)  # type: ignore[arg-type]
            yield ModelCase(spec, signature, ClassifySpec() if classes else RegressSpec())


def check_outputs(case: ModelCase) -> None:
    """Batches of unequal lengths, of equal ones, of one sequence and of one position are answered, in numbers."""
    model = case.build()
    batch = case.batch()
    hidden = [replace(batch, masked=batch.valid)] if case.spec.head else []
    for some in (batch, case.batch([0]), case.batch([2]), case.batch([0, 3]), *hidden):
        wanted = case.objective.output(case.signature)
        shape = (*some.inputs.shape[: 2 if wanted.kind == "position" else 1], wanted.size)
        try:
            answer = model(some)
        except IndexError as error:
            if some.masked is None or case.signature.input == "floats":
                raise
            raise Broken(
                f"a masked token has the id signature.width - 1 = {MODEL_WIDTH}, which it cannot take ({error}); give "
                "the embedding signature.width rows"
            ) from None
        if tuple(answer.shape) != shape:
            raise Broken(f"it gives {tuple(answer.shape)} for inputs {tuple(some.inputs.shape)}; let it give {shape}")
        if not bool(answer.isfinite().all()):
            raise Broken(f"NaN or infinity in the answer to sequences of {some.valid.sum(1).tolist()} positions")
    if not bool(model(batch, draw(batch), {}).isfinite().all()):
        raise Broken("NaN or infinity in the answer in training")


def _answers(model: OwnModel, batch: Batch) -> Tensor:
    """What must not follow padding: vectors at the valid positions under a head, or outputs."""
    with torch.no_grad():
        x = model.embed(batch)
    return x[batch.valid] if x.shape[:2] == batch.valid.shape and x.ndim == 3 else x


def _close(what: str, first: Tensor, second: Tensor) -> None:
    far, scale = float((first - second).abs().max()), float(first.abs().max())
    if not far <= ANSWER_TOLERANCE * scale:
        raise Broken(
            f"{what} by {far:.1e}, {far / max(scale, 1e-300):.1e} of the scale; at most {ANSWER_TOLERANCE:g} is allowed"
        )


def check_padding(case: ModelCase) -> None:
    """Neither what padding holds nor that it is there moves an answer, at 12 positions and at 515."""
    for each in (case, case.long):
        model, batch, size = each.build(), each.batch(), f"at {each.lengths[0]} positions "
        answer, moved = _answers(model, batch), _answers(model, replaced(batch, ~batch.valid, case.signature))
        _close(f"{size}other values in the padding move an answer", answer, moved)
        alone = torch.cat([_answers(model, each.batch([row])) for row in range(len(each.lengths))])
        _close(f"{size}a sequence alone and one padded beside longer ones differ", answer, alone)


def check_causality(case: ModelCase) -> None:
    """Where the spec says `causal = True`, no position sees a later one, of 12 and of 515."""
    if not (case.spec.causal and case.spec.head):
        return
    for each, cuts in ((case, CUTS), (case.long, LONG_CUTS)):
        model, batch = each.build(), each.batch([0])
        first, positions = _answers(model, batch), torch.arange(each.lengths[0])[None]
        for cut in cuts:
            second = _answers(model, replaced(batch, positions >= cut, case.signature))
            what = f"causal is True, and of {each.lengths[0]} positions those from {cut} on move an earlier one"
            _close(what, first[:cut], second[:cut])


def check_determinism(case: ModelCase) -> None:
    """Weights follow from the seed, random numbers of training from seed and batch; evaluation changes nothing."""
    model, again, other = case.build(0), case.build(0), case.build(1)
    first, second, third = (x.state_dict() for x in (model, again, other))
    if any(not torch.equal(value, second[name]) for name, value in first.items()):
        raise Broken("two builds with one seed have other weights; draw them with torch's generator")
    weights = [name for name, _ in model.net.named_parameters(prefix="net")]
    if weights and all(torch.equal(first[name], third[name]) for name in weights):
        raise Broken("builds with two seeds have the same weights; do not seed torch in build")
    batch = case.batch()
    steps = [copy.deepcopy(model)(batch, draw(batch), {}) for _ in range(2)]
    if not torch.equal(*steps):
        raise Broken("one step of training gives two answers; draw random numbers with torch's generator alone")
    before = {name: value.clone() for name, value in first.items()}
    if not torch.equal(model(batch), model(batch)):
        raise Broken("an evaluation repeated gives two answers; keep no state outside of buffers")
    changed = [name for name, value in model.state_dict().items() if not torch.equal(value, before[name])]
    if changed:
        raise Broken(f"a forward in evaluation changes {_own(changed[0])!r}; change buffers where self.training alone")


def _own(name: str) -> str:
    """A tensor's name in the module itself."""
    return name.removeprefix("net.")


@dataclass
class Training:
    """A short training of a fresh network, by the loop of the stages; it can be broken off after each step."""

    case: ModelCase
    progress: Progress = field(init=False)

    def __post_init__(self) -> None:
        model = self.case.build()
        names = [name for name, value in model.named_parameters() if value.requires_grad]
        self.progress = Progress(model, flat_parameters(model, names, OptimSpec(lr=1e-3)))

    def run(self, stop: int | None = None) -> tuple[Tensors, dict[str, Any]]:
        """Train to the step `stop`, or the end. The state of that moment."""
        config = TrainConfig(
            self.case.objective,
            self.case.signature,
            OptimSpec(lr=1e-3, batch_size=4),
            BudgetSpec(steps=TRAINED_STEPS, evaluate_every=2),
            0,
            self.case.batches(),
            self.case.batches(),
        )
        for info in train(config, self.progress):
            if info.step == stop:
                break
        return self.progress.state()


def check_state(case: ModelCase) -> None:
    """All that training changes is in the state dict, and a fresh network that loads it answers the same."""
    training = Training(case)
    model, batch = training.progress.model, case.batch()
    training.run()
    state = load(save({name: value.detach().clone() for name, value in model.state_dict().items()}))
    fresh = case.build(seed=1)
    sizes = {name: tuple(value.shape) for name, value in fresh.state_dict().items()}
    for name in sorted(sizes.keys() ^ state.keys()) or [n for n, x in state.items() if sizes[n] != tuple(x.shape)]:
        raise Broken(f"training adds, removes or resizes {_own(name)!r}; make every tensor in build, in its size")
    fresh.load_state_dict(state)
    if not torch.equal(model(batch), fresh(batch)):
        raise Broken(
            "a fresh network with the saved weights answers differently; keep what training changes in saved buffers "
            "(self.register_buffer without persistent=False)"
        )


def check_resume(case: ModelCase) -> None:
    """A training that was broken off goes on from its saved state to equal bits."""
    whole, killed, again = Training(case), Training(case), Training(case)
    expected, _ = whole.run()
    again.progress.restore(*copy.deepcopy(killed.run(TRAINED_STEPS // 2)))
    tensors, _ = again.run()
    for name, value in expected.items():
        if not torch.equal(value, tensors[name]):
            what = _own(name.removeprefix("buffer/").removeprefix("best/"))
            raise Broken(
                f"a training that was broken off at step {TRAINED_STEPS // 2} of {TRAINED_STEPS} ends with another "
                f"{what!r}; draw random numbers with torch's generator, and keep state in buffers"
            )


def check_gradients(case: ModelCase) -> None:
    """Finite gradients reach every parameter that is not frozen by its own requires_grad."""
    model, batch = case.build(), case.batch(range(MODEL_EXAMPLES))
    for number, parameter in enumerate(model.parameters()):
        # Away from the start, where a layer that begins at zero may cut the others off.
        noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number))
        parameter.data += 0.01 * noise.to(parameter.dtype)
    sums = case.objective.measure(model(batch, draw(batch), {}), batch, case.signature)
    names, weights = zip(*[pair for pair in model.named_parameters() if pair[1].requires_grad], strict=True)
    grads = torch.autograd.grad(sums["loss"], weights, materialize_grads=True)
    wild = [_own(name) for name, grad in zip(names, grads, strict=True) if not bool(grad.isfinite().all())]
    if wild:
        raise Broken(f"the gradient of {wild[0]!r} has NaN or infinity in it")
    idle = [_own(name) for name, grad in zip(names, grads, strict=True) if not bool(grad.any())]
    if idle:
        raise Broken(f"no gradient reaches {', '.join(map(repr, idle))}; use them, or set their requires_grad False")


def check_parts(case: ModelCase) -> None:
    """`parts` names tensors that there are by leaves that there are; every tensor has a leaf."""
    names = [_own(name) for name in case.build().state_dict()]
    for prefix, leaf in case.spec.parts.items():
        if not any(name == prefix or name.startswith(f"{prefix}.") for name in names):
            raise Broken(f"parts: {prefix!r} begins no tensor's name; {nearest(prefix, names)}")
        if leaf not in LEAVES:
            raise Broken(f"parts: {nearest(leaf, LEAVES)}")


def check_flops(case: ModelCase) -> None:
    """FLOPs are a finite number above 0 that grows with the length, and those counted in a forward."""
    short, whole = (case.spec.flops(own_signature(case.signature), length) for length in (1, LENGTH))
    if not 0 <= short <= whole < float("inf"):
        raise Broken(f"flops says {short:g} for one position and {whole:g} for {LENGTH}; give a number that grows")
    model, batch = case.build(), case.batch([0])
    counted = counted_flops(lambda: model.embed(batch))
    if flops_are_off(whole, counted, case.spec.uncounted):
        raise Broken(
            f"flops says {whole:.0f} for {LENGTH} positions, a count {counted:.0f}; leave flops out, correct it, or "
            "say in `uncounted` what the count cannot see"
        )


MODEL_CHECKS: dict[str, Callable[[ModelCase], None]] = {
    "outputs": check_outputs,
    "padding": check_padding,
    "causality": check_causality,
    "determinism": check_determinism,
    "saved state": check_state,
    "resuming": check_resume,
    "gradients": check_gradients,
    "parts": check_parts,
    "flops": check_flops,
}


def check_model(spec: OwnModelSpec) -> tuple[dict[str, str | None], list[str]]:
    """All checks of a whole model: what is wrong with each, or None where it holds; and what a person should know.

    A model may be for tokens or for floats alone, and one without a head of ours for some targets alone: the checks
    hold where it can be built and run.
    """
    problems: dict[str, str | None] = dict.fromkeys(MODEL_CHECKS)
    refused = {}
    usable = []
    for case in cases(spec):
        try:
            with warnings.catch_warnings():
                # A model for classes alone builds a layer of 0 outputs where numbers are asked for.
                warnings.filterwarnings("ignore", "Initializing zero-element tensors")
                case.build()(case.batch())
                if not spec.head:
                    check_outputs(case)
            usable.append(case)
        except Exception as error:  # A person's code may fail in any way.
            refused[case] = problem_of(error)
    if not usable:
        texts = list(dict.fromkeys(refused.values()))
        several = "; ".join(f"{case}: {text}" for case, text in refused.items())
        return {"outputs": texts[0] if len(texts) == 1 else several}, []
    problems |= problems_of(MODEL_CHECKS, usable)
    facts = [] if any(problems.values()) else _facts(usable[0])
    return problems, [*(f"not {case}: {text}" for case, text in refused.items()), *facts]


def _facts(case: ModelCase) -> Iterator[str]:
    """What a person may want to set: the parts of the module, and its FLOPs."""
    model = case.build().eval()
    of: Mapping[str, str] = leaves(model)
    counts = Counter(of[name] for name in of if not name.startswith("head."))
    yield "parts: " + ", ".join(f"{leaf} ({many(counts[leaf], 'tensor')})" for leaf in LEAVES if counts[leaf])
    batch = case.batch([0])
    counted = counted_flops(lambda: model.embed(batch))
    stated = case.spec.flops(own_signature(case.signature), LENGTH)
    yield f"FLOPs of a sequence of {LENGTH}: flops() says {stated:,.0f}, torch counts {counted:,.0f} in products"
