"""One stage on several ranks: processes that share each batch, add up their gradients, and hold equal weights.

Every rank runs the same loop on its part of the same global batch; masks and dropout are keyed by example, so that
parts change nothing. Per step there is one sum over ranks of the objective's sums, one of the flat gradient, and two of
each batch norm, forward and backward. What is decided on the way follows from these sums alone, so that all ranks
decide alike; rank 0 alone scores validation, saves and publishes.

Words and environment are torchrun's: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from safetensors.torch import load, save

from headstart.errors import first_line
from headstart.models.norms import BatchNorm, Tensors
from headstart.objectives import Sums

RANK_PATIENCE = timedelta(hours=1)
"""How long a rank waits for another one: for a machine that has gone without a word. A process that ends is noticed at
once, by its closed connections."""
_LOOK = timedelta(seconds=1)  # between looks whether there is a next stage; there is no limit to that

T = TypeVar("T")


class LostRank(RuntimeError):
    """Another rank has ended or cannot be reached; the stage goes on from its last state, on any number of ranks."""


class RankFailed(RuntimeError):
    """Another rank raised; the message is its own."""


@dataclass(frozen=True)
class Launch:
    """What torchrun says of this process: its rank, of how many, and the same on this machine."""

    rank: int
    count: int
    local_rank: int
    local_count: int


def launch() -> Launch | None:
    """This process as torchrun started it, as one of several; None where it stands alone."""
    environment = os.environ
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= environment.keys():
        return None
    rank, count = int(environment["RANK"]), int(environment["WORLD_SIZE"])
    local = (int(environment.get("LOCAL_RANK", rank)), int(environment.get("LOCAL_WORLD_SIZE", count)))
    return Launch(rank, count, *local) if count > 1 else None


def own_device(device: str) -> str:
    """The GPU of this rank where each has one of its own: `cuda:N`; as it is elsewhere."""
    placed = launch()
    return f"cuda:{placed.local_rank}" if device == "cuda" and placed is not None else device


def meeting_place(count: int) -> tuple[Any, list[dict[str, str]]]:
    """A store at 127.0.0.1 by which `count` processes of this machine come together, and the environment of each.

    This process holds the store, as torchrun's agent does, so that no rank takes it along.
    """
    from torch._C._distributed_c10d import TCPStore

    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    # The store closes the socket.
    store = TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach())
    common = {
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
    }
    return store, [{**common, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]


class _Total(torch.autograd.Function):
    """The sum over ranks, of values and, backwards, of gradients: each rank's loss depends on every rank's values."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: float) -> torch.Tensor:
        ctx.weight = weight
        return _summed(x * weight)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        # The gradient of an idle rank's loss counts as little as its values do.
        return _summed(grad * ctx.weight) * ctx.weight, None


def _summed(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    _collective(lambda: dist.all_reduce(x))
    return x


def _collective(call: Callable[[], Any]) -> None:
    """Raises: LostRank where it fails."""
    try:
        call()
    except RuntimeError as error:
        raise LostRank(
            f"another rank has ended, or cannot be reached ({first_line(error)}); the same command goes on from the "
            "last state, on any number of ranks"
        ) from None


@dataclass(eq=False)
class Ranks:
    """This process, `rank` of `count`, among those that train a stage together; alone it does nothing."""

    rank: int = 0
    count: int = 1
    backend: str = ""
    _weight: float = field(default=1.0, init=False)

    def __str__(self) -> str:
        return f"{self.count} ranks ({self.backend})" if self.count > 1 else "alone"

    def part(self, units: np.ndarray) -> np.ndarray:
        """This rank's units of a batch.

        Where there are fewer than ranks, one without any goes through the first, so that all ranks take the same steps,
        and what it adds to every sum counts 0.
        """
        own = units[self.rank :: self.count]
        self._weight = float(len(own) > 0)
        return own if len(own) else units[:1]

    def total(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of x over ranks, the same on each; gradients pass through it."""
        if self.count == 1:
            return x
        out: torch.Tensor = _Total.apply(x, self._weight)  # type: ignore[no-untyped-call]
        return out

    @torch.no_grad()
    def sums(self, sums: Sums) -> Sums:
        """An objective's sums over the global batch, by one sum in float64."""
        if self.count == 1:
            return sums
        flat = self.total(torch.cat([x.detach().double().reshape(-1) for x in sums.values()]))
        pieces = flat.split_with_sizes([x.numel() for x in sums.values()])
        return {name: piece.view(x.shape).to(x.dtype) for (name, x), piece in zip(sums.items(), pieces, strict=True)}

    def join(self, model: torch.nn.Module) -> None:
        """Give a model's batch norms statistics over ranks, and rank 0's weights to all."""
        for module in model.modules():
            if isinstance(module, BatchNorm):
                module.total = self.total
        with torch.no_grad():
            for value in model.state_dict().values():
                _collective(lambda value=value: dist.broadcast(value, 0))  # type: ignore[misc]

    def from_first(self, compute: Callable[[], T]) -> T:
        """What rank 0 computes (JSON), on all ranks."""
        if self.count == 1:
            return compute()
        own = json.dumps(compute()).encode() if self.rank == 0 else b""
        value: T = json.loads(self._bytes(own))
        return value

    def in_step(self, ticks: Iterator[T]) -> Iterator[T]:
        """The ticks of a stage; the other ranks take each when rank 0 goes on to it."""
        while self.goes_on(True):
            tick = next(ticks, None)
            if tick is not None:
                yield tick
            elif self.rank == 0:
                return

    def goes_on(self, decision: bool) -> bool:
        """Rank 0's decision, on all ranks."""
        flag = torch.tensor([int(decision)])
        _collective(lambda: dist.broadcast(flag, 0))
        return bool(flag)

    def stage(self, order: Mapping[str, Any], tensors: Mapping[str, Tensors]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Rank 0's stage, on all ranks: an order (JSON), and groups of tensors by name, on the CPU."""
        groups = {name: [*group] for name, group in tensors.items()}
        # A number stands for the names, which may hold anything, and a copy for each tensor: they may share memory.
        flat = {f"{name}/{i}": group[key].clone() for name, group in tensors.items() for i, key in enumerate(group)}
        head = json.loads(self._bytes(json.dumps({"order": order, "groups": groups}).encode()))
        values = load(self._bytes(save(flat) if self.rank == 0 else b""))
        return head["order"], {
            name: {key: values[f"{name}/{i}"] for i, key in enumerate(keys)} for name, keys in head["groups"].items()
        }

    def _bytes(self, data: bytes) -> bytes:
        """Rank 0's bytes, on all ranks."""
        size = torch.tensor([len(data)])
        _collective(lambda: dist.broadcast(size, 0))
        buffer = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
        buffer = buffer if self.rank == 0 else torch.empty(int(size), dtype=torch.uint8)
        _collective(lambda: dist.broadcast(buffer, 0))
        return buffer.numpy().tobytes()


ALONE = Ranks()
"""One process, as nearly always."""


class World:
    """All processes of a run. Rank 0 opens a group for each stage, and the others wait for it; a group that breaks
    takes nothing else with it.

    Raises: LostRank where the processes do not come together.
    """

    def __init__(self) -> None:
        from torch.distributed.rendezvous import rendezvous

        try:
            self._store, self.rank, self.count = next(iter(rendezvous("env://", timeout=RANK_PATIENCE)))
        except RuntimeError as error:
            raise LostRank(f"the ranks do not come together: {error}") from None
        self._turn = 0

    def awaits(self) -> bool:
        """Wait until rank 0 opens a group; False when the run is over."""
        key = f"stage/{self._turn}"
        while True:
            try:
                self._store.wait([key], _LOOK)
                return bool(self._store.get(key) == b"open")
            except dist.DistStoreError:
                continue  # not yet
            except RuntimeError:
                return False  # who held the store has ended

    def end(self) -> None:
        """Say to the other ranks that the run is over."""
        self._announce(b"over")

    def _announce(self, word: bytes) -> None:
        # Counted in the store: a rank 0 that is started anew goes on where the other ranks are.
        self._turn = int(self._store.add("stages", 1)) - 1
        self._store.set(f"stage/{self._turn}", word)

    @contextmanager
    def group(self, device: str) -> Iterator[Ranks]:
        """The ranks of the next stage.

        Raises: RankFailed with another rank's message; LostRank where it went without.
        """
        from torch._C._distributed_c10d import PrefixStore

        if self.rank == 0:
            self._announce(b"open")
        turn, self._turn = self._turn, self._turn + 1
        on_gpu = device.startswith("cuda")
        try:
            prefixed = PrefixStore(f"group/{turn}", self._store)
            _collective(
                lambda: dist.init_process_group(
                    "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
                    store=prefixed,
                    rank=self.rank,
                    world_size=self.count,
                    timeout=RANK_PATIENCE,
                )
            )
            ranks = Ranks(self.rank, self.count, "nccl" if on_gpu else "gloo")
            yield ranks
            if self.rank == 0:
                ranks.goes_on(False)
        except LostRank:
            key = f"failure/{turn}"
            if self._store.check([key]):
                raise RankFailed(self._store.get(key).decode()) from None
            raise
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()

    def fail(self, message: str) -> None:
        """Say, before the connections close, why the stage of this moment fails here."""
        self._store.set(f"failure/{self._turn - 1}", f"rank {self.rank} of {self.count}: {message}")


@cache
def joined() -> World:
    """The processes that this one was started among."""
    return World()
