"""One training step: forward pass, loss, backward pass, update, as a function of its arguments alone.

It is written once: taken plainly by `loop.py`, recorded by `graph.py`, and by many models together in `stack.py`:
there `forward_loss` is mapped over weights, statistics, batches and seeds with `vmap`, `update_` takes a leading axis.
Several ranks take it together, each on its part of the batch: `ranks.sums` and `ranks.total` sum over them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from headstart.errors import BadInput
from headstart.models.model import Network
from headstart.models.norms import Tensors
from headstart.objectives import ObjectiveSpec, Sums
from headstart.seeds import Draw
from headstart.sequence import Batch, Signature
from headstart.training.distributed import ALONE, Ranks
from headstart.training.evaluate import forward_precision
from headstart.training.optim import Group, Moments, Numbers, OptimSpec, Weights, update_


@dataclass(frozen=True)
class TrainStep:
    """The training step of a model. Holds what is constant; a call keeps nothing, and no branch depends on data.

    own: the trained tensors and the running statistics of `model`, by name. groups: slices of the weights that share a
    rate and a decay.
    """

    model: Network
    objective: ObjectiveSpec
    signature: Signature
    optim: OptimSpec
    own: tuple[Tensors, Tensors]
    groups: Sequence[Group]
    ranks: Ranks = ALONE
    before_update: Callable[[], None] | None = None
    """Called between the gradient and the update."""

    def __call__(
        self,
        weights: Weights,
        moments: Moments,
        statistics: Tensors,
        batch: Batch,
        numbers: Numbers,
        seed: Any,
        epoch: Any,
    ) -> Sums:
        """Take one step: changes `weights`, `moments` and `statistics` in place, returns the sums of the whole batch.

        statistics: running statistics by name. numbers: from `optim.step_numbers`. seed, epoch: of masks and dropout;
        whole numbers, or tensors on the device.
        """
        if self.optim.accumulate > 1 and weights.tensors:
            return self._in_parts(weights, moments, statistics, batch, numbers, seed, epoch)
        own, updates = self.forward_loss(weights.tensors, statistics, batch, seed, epoch)
        sums = self.ranks.sums(own)
        if weights.tensors:
            loss = mean_loss(own["loss"], sums["count"])
            grad = self.ranks.total(flat_gradient(loss, weights.tensors))
            self._look()
            update_(weights.flat, moments, grad, numbers, self.optim, self.groups)
        update_statistics(statistics, updates)
        return sums

    def _in_parts(
        self,
        weights: Weights,
        moments: Moments,
        statistics: Tensors,
        batch: Batch,
        numbers: Numbers,
        seed: Any,
        epoch: Any,
    ) -> Sums:
        """The same step, its gradient added up over parts of the batch: those of sums of losses, divided at the end."""
        own: Sums = {}
        grad = torch.zeros_like(weights.flat)
        for part in batch.parts(self.optim.accumulate, 2 if self.signature.paired else 1):
            sums, updates = self.forward_loss(weights.tensors, statistics, part, seed, epoch)
            grad += flat_gradient(sums["loss"], weights.tensors)
            own = {name: own[name] + x.detach() if own else x.detach() for name, x in sums.items()}
            update_statistics(statistics, updates)
        sums = self.ranks.sums(own)
        self._look()
        update_(
            weights.flat, moments, self.ranks.total(mean_loss(grad, sums["count"])), numbers, self.optim, self.groups
        )
        return sums

    def _look(self) -> None:
        if self.before_update is not None:
            self.before_update()

    @cached_property
    def tied(self) -> bool:
        """Whether a tensor has two names, which torch has to look for at each call: both are swapped then."""
        return any(
            len(list(each(remove_duplicate=False))) > len(list(each()))
            for each in (self.model.named_parameters, self.model.named_buffers)
        )

    def forward_loss(
        self, tensors: Tensors, statistics: Tensors, batch: Batch, seed: Any, epoch: Any, dropout: Any = None
    ) -> tuple[Sums, Tensors]:
        """The objective's sums (loss, count, scores) of one forward pass in training, and new running statistics.

        tensors: trained weights by name; what is not trained is taken from `model`. dropout: as of `Draw`.
        """
        batch = self.objective.prepare(batch, self.signature, seed, epoch)
        updates: Tensors = {}
        inputs = (batch, Draw(seed, epoch, batch.index, dropout=dropout), updates)
        with forward_precision(batch.inputs.device, self.optim.precision):
            if tensors is self.own[0] and statistics is self.own[1]:
                output = self.model(*inputs)  # Swapping tensors for themselves would take 0.1 ms.
            else:
                swapped = {**tensors, **statistics}
                output = functional_call(self.model, swapped, inputs, tie_weights=self.tied)
        return self.objective.measure(output, batch, self.signature), updates


def flat_gradient(loss: torch.Tensor, tensors: Tensors) -> torch.Tensor:
    """(P,) that of a loss, one tensor behind another; 0 where it depends on none of a tensor."""
    grads = torch.autograd.grad(loss, list(tensors.values()), materialize_grads=True)
    return torch.cat([grad.reshape(-1) for grad in grads])


@torch.no_grad()
def check_repeats(model: Network, objective: ObjectiveSpec, signature: Signature, batch: Batch, seed: int) -> None:
    """Look at code that is not headstart's: what is computed twice from the same numbers has to be the same.

    A state holds no random numbers of torch's own generator, and no stage switches a mixer to evaluation.
    Raises: BadInput naming the code and what to do.
    """
    if (kind := own_class(objective)) is not None:
        first, second = (objective.prepare(batch, signature, seed, 0) for _ in range(2))
        output = model(first)
        sums = [objective.measure(output, each, signature) for each in (first, first, second)]
        if any(not _alike(sums[0][name], other[name]) for other in sums[1:] for name in sums[0]):
            raise BadInput(
                f"objective: {kind} gives two values for one batch; make its random numbers from `seed`, `epoch` and "
                "`batch.index` with headstart.seeds.uniform, so that a stage can be repeated and resumed"
            )
    kinds = sorted({kind for module in model.modules() if (kind := own_class(module)) is not None})
    if not kinds or not model.recordable:  # a whole model of one's own, for which torch's generator is seeded
        return
    batch, mode, draw = objective.prepare(batch, signature, seed, 0), model.training, Draw(seed, 0, batch.index)
    trained = [model.train()(batch, draw, {}) for _ in range(2)]
    scored = [model.train(training)(batch) for training in (True, False)]
    model.train(mode)
    if not _alike(*trained) or not _alike(*scored):
        raise BadInput(
            f"model: {' or '.join(kinds)} gives two answers for one batch; draw random numbers with "
            "`draw(name, shape)`, which is None in evaluation, not with torch's own (nn.Dropout and the like)"
        )


def own_class(item: object) -> str | None:
    """The name of its class, if that is neither headstart's nor torch's."""
    cls = type(item)
    return None if cls.__module__.startswith(("headstart.", "torch.")) else cls.__qualname__


def _alike(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(torch.as_tensor(a), torch.as_tensor(b), rtol=1e-3, atol=1e-5, equal_nan=True)


def mean_loss(loss: Tensor, count: Tensor) -> Tensor:
    """The loss per target, or per unit of class weights, which may sum to less than 1; 0 where there is no target."""
    return loss / torch.where(count > 0, count, 1)


class StackedPrecision(TorchFunctionMode):
    """Mixed precision of a stack, whose batched products torch's own does not reach.

    Under `vmap` it adds a bias in float32 to a product in half precision, so that all that follows is float32, and
    refuses factors of two types.
    """

    PRODUCTS = (functional.linear, torch.conv1d, torch.matmul, Tensor.matmul, Tensor.__matmul__, Tensor.__rmatmul__)

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """The operation, in half precision where it is a product and autocast is on."""
        named = dict(kwargs or {})
        if func in self.PRODUCTS:
            tensors = [x for x in (*args, *named.values()) if isinstance(x, Tensor)]
            kind = tensors[0].device.type
            if torch.is_autocast_enabled(kind):
                half = torch.get_autocast_dtype(kind)
                args = [_lowered(x, half) for x in args]
                named = {name: _lowered(x, half) for name, x in named.items()}
        return func(*args, **named)


def _lowered(x: Any, half: torch.dtype) -> Any:
    return x.to(half) if isinstance(x, Tensor) and x.dtype == torch.float32 else x


@torch.no_grad()
def update_statistics(statistics: Tensors, updates: Tensors) -> None:
    """Write new running statistics to where they are kept."""
    for name, value in updates.items():
        statistics[name].copy_(value)


def on_device(number: int, device: torch.device) -> Any:
    """A whole number that a GPU reads without the CPU waiting for it; on a CPU the number itself."""
    return number if device.type == "cpu" else torch.full((), number, dtype=torch.int64, device=device)
