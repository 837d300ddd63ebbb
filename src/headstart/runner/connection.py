"""A process as the driver of a Ray cluster: where that is, whether its nodes fit, and what they have room for."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from headstart.documents import from_json
from headstart.errors import BadInput, one_line
from headstart.runner import node
from headstart.runner.job import Runtime
from headstart.runner.local import signals_kept

_ANSWER = 5.0  # seconds that an address has to answer
_INTRODUCTION = 120.0  # seconds that nodes have to say what they have installed; their first process starts then
_COUNT_AGAIN = 5.0  # seconds between two looks at which nodes there are
_WITHOUT = 600.0  # seconds that a run waits for a node where there is none left
_LONGEST_ADDRESS = 300  # characters that are read of the file of the current cluster
_INSTALL = "pip install 'headstart[cluster]'"


class Connection:
    """This process as the driver of a cluster whose nodes fit; `close` ends what was begun here."""

    def __init__(self, on: str) -> None:
        self.ray: Any = _import_ray(on)
        self.is_ours = not self.ray.is_initialized()
        self._quiet = contextlib.ExitStack()
        if self.is_ours:
            _init(self.ray, on)
            self._quiet.enter_context(_quiet())
        try:
            self._check_versions()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Leave the cluster, unless the caller of the run had joined it before."""
        _connections.clear()
        if self.is_ours:
            self.ray.shutdown()
        self._quiet.close()

    def nodes(self) -> list[dict[str, Any]]:
        """Nodes that are alive, with `NodeID`, `NodeManagerAddress` and `Resources`."""
        return [node for node in self.ray.nodes() if node["Alive"]]

    def _check_versions(self) -> None:
        """Raises: BadInput where a node has other versions than this machine, or does not say which."""
        affinity = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        ask = self.ray.remote(num_cpus=0, max_retries=0)(node.introduce)
        asked = [
            (each["NodeManagerAddress"], ask.options(scheduling_strategy=affinity(each["NodeID"], soft=False)).remote())
            for each in self.nodes()
        ]
        end, here = time.monotonic() + _INTRODUCTION, node.versions()
        for address, reference in asked:
            try:
                answer = self.ray.get(reference, timeout=max(1.0, end - time.monotonic()))
            except self.ray.exceptions.GetTimeoutError:
                raise BadInput(
                    f"--on: node {address} has not answered in {_INTRODUCTION:.0f} s; see `ray status`, or remove it"
                ) from None
            except self.ray.exceptions.TaskUnschedulableError:  # the node has gone since it was listed
                continue
            except self.ray.exceptions.RayError as error:
                lacks = "No module named 'headstart'" in str(error)
                what = "has no headstart" if lacks else f"cannot run headstart ({last_line(error)})"
                raise BadInput(
                    f"--on: node {address} {what}; install headstart {here['headstart']} with its extra [cluster] there"
                ) from None
            there = None
            with contextlib.suppress(ValueError):
                there = from_json(answer if isinstance(answer, str) else "")
            if not isinstance(there, dict):
                raise BadInput(f"--on: node {address} does not say its versions; see that it runs this headstart")
            for name in here:
                if there.get(name) != here[name]:
                    raise BadInput(
                        f"--on: node {address} has {name} {there.get(name)}, and this machine has {here[name]}; "
                        "install the same on both"
                    )


_connections: dict[str, Connection] = {}


def connect(on: str) -> Connection:
    """The connection to a cluster; the same until it is closed.

    Raises: BadInput where Ray is not installed, no cluster answers, or nodes have other versions.
    """
    if on not in _connections:
        _connections[on] = Connection(on)
    return _connections[on]


def _import_ray(on: str) -> ModuleType:
    missing = [name for name in ("ray", "grpc") if importlib.util.find_spec(name) is None]
    if missing:
        raise BadInput(f"--on: it needs the package ray, which is not installed here; {_INSTALL}")
    if "ray" not in sys.modules:
        address = _address(on)
        if address and urlsplit(f"//{address}").hostname in ("127.0.0.1", "localhost"):
            # Else Ray looks for a cluster that listens on loopback alone under this machine's address in its network.
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        if on == "ray" and not os.environ.get("RAY_ADDRESS") and _has_token():
            os.environ.setdefault("RAY_AUTH_MODE", "token")  # as `ray start` does; another cluster must not see it
    ray = importlib.import_module("ray")
    importlib.import_module("ray.util.scheduling_strategies")
    return ray


def _has_token() -> bool:
    """Whether this person has a token for clusters of their own, where Ray looks for it."""
    variables = [os.environ.get(f"RAY_AUTH_TOKEN{name}") for name in ("", "_PATH")]
    return any(variables) or os.path.isfile(os.path.expanduser("~/.ray/auth_token"))


def _address(on: str) -> str:
    """The address of the cluster: `ray://` itself, RAY_ADDRESS, or that of the one that was started here; or empty.

    Raises: BadInput where this person started several here, or the file that names one belongs to somebody else.
    """
    if on != "ray":
        return on
    if address := os.environ.get("RAY_ADDRESS", ""):
        return address
    file = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir(), "ray", "ray_current_cluster")
    latest, running = _own_text(file), _own_clusters()
    if latest is not None and (latest in running or not running):
        return latest
    if len(running) > 1:
        raise BadInput(f"--on: you have several Ray clusters here ({', '.join(running)}); name one with RAY_ADDRESS")
    if not running and os.path.lexists(file):
        raise BadInput(
            f"--on: {file} is not yours, and whoever owns a cluster can run code as you; start one of your own with "
            "`ray start --head`, or name one whose owner you trust with RAY_ADDRESS"
        )
    return running[0] if running else ""


def _own_text(file: Path) -> str | None:
    """What a file of this person's says; None where it is not there, is somebody else's, or no plain file."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, encoding="utf-8") as opened:
            facts = os.fstat(descriptor)
            if facts.st_uid == os.getuid() and stat.S_ISREG(facts.st_mode):
                return opened.read(_LONGEST_ADDRESS).strip()
    return None


def _own_clusters(processes: Path = Path("/proc")) -> list[str]:
    """Addresses of the clusters of which this person has started a node here, wherever its files are.

    Ray's own file of the current cluster is elsewhere after `ray start --temp-dir`. Nothing where there is no /proc.
    """
    addresses = set()
    for process in processes.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().decode("utf-8", errors="replace").split("\0")
            if process.stat().st_uid == os.getuid() and Path(words[0]).name == "raylet":
                addresses |= {word.partition("=")[2] for word in words if word.startswith("--gcs-address=")}
    return sorted(addresses)


def _init(ray: Any, on: str) -> None:
    """Join the cluster. Raises: BadInput."""
    way = "start one with `ray start --head` (docs/guide/clusters.md), name another, or leave --on out"
    if on != "ray" and not (on.startswith("ray://") and _host_and_port(on)):
        raise BadInput(f"--on: {on!r} is neither ray nor ray://HOST:PORT; give one of them")
    address = _address(on)
    if not address:
        raise BadInput(f"--on: you have started no Ray cluster on this machine, and RAY_ADDRESS names none; {way}")
    host, port = _host_and_port(address) or ("", 0)
    try:
        socket.create_connection((host, port), _ANSWER).close()
    except OSError as error:
        raise BadInput(f"--on: no Ray cluster answers at {address} ({error.strerror or error}); {way}") from None
    # Ray puts handlers of its own in their place, and the working directory, which may be anybody's, before the modules
    # of Python and of the libraries that its workers import.
    with signals_kept(), contextlib.chdir(os.sep):
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except (RuntimeError, ConnectionError, ray.exceptions.RayError) as error:
            if "ersion" in str(error):  # Ray compares its own and Python's first
                raise BadInput(
                    f"--on: {address} runs another version: {one_line(error)}; install the same on both"
                ) from None
            raise BadInput(
                f"--on: {address} is not a Ray cluster that answers ({last_line(error)}); one with tokens needs "
                f"RAY_AUTH_MODE=token and its token in RAY_AUTH_TOKEN or ~/.ray/auth_token; else {way}"
            ) from None


def _host_and_port(address: str) -> tuple[str, int] | None:
    parts = urlsplit(address if "://" in address else f"//{address}")
    with contextlib.suppress(ValueError):
        if parts.hostname and parts.port:
            return parts.hostname, parts.port
    return None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Ray prints what nodes report, a lost one for instance, to standard output: the run says that in its own words."""
    name = "print_to_stdstream"
    worker = vars(importlib.import_module("ray._private.worker"))
    before = worker.get(name)
    worker[name] = lambda *_, **__: None
    try:
        yield
    finally:
        worker[name] = before


def last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()


class Room:
    """What a stage takes of a cluster, and how many have room on its nodes.

    Raises: BadInput where no node has room for a single one, or the settings contradict each other.
    """

    def __init__(self, connection: Connection, runtime: Runtime) -> None:
        self._connection, self._most = connection, runtime.workers
        self.cpus, device, share = runtime.threads, runtime.device, runtime.gpus_per_stage
        if device not in ("auto", "cpu", "cuda"):
            raise BadInput(
                f"--device: {device!r}: on a cluster Ray says which GPU a stage gets; give auto, cpu or cuda"
            )
        largest = max((self._of(node, "GPU") for node in connection.nodes()), default=0.0)
        if share is None:
            share = 0.0 if device == "cpu" or (device == "auto" and not largest) else 1.0
        if (device == "cpu") != (share == 0) and device != "auto":
            raise BadInput(f"--gpus-per-stage: {share:g} does not go with --device {device}; leave one of them out")
        if share > 1 and share % 1:
            raise BadInput(f"--gpus-per-stage: {share:g}: above one GPU Ray gives whole ones; give {int(share) + 1}")
        if share > largest:
            raise BadInput(
                f"--gpus-per-stage: {share:g} asked, and no node of the cluster has more than {largest:g}; ask for "
                "less, give --device cpu, or start nodes that have more"
            )
        self.gpus, self.device = share, "cuda" if share else "cpu"
        self._counted, self._slots, self._had = -_COUNT_AGAIN, 0, time.monotonic()
        if not self.slots:
            most = max((self._of(node, "CPU") for node in connection.nodes()), default=0.0)
            raise BadInput(
                f"--threads: a stage takes {self.cpus} CPU(s) and {share:g} GPU(s), and no node of the cluster has "
                f"them together (at most {most:g} CPUs); give fewer --threads, or start larger nodes"
            )

    @property
    def slots(self) -> int:
        """Stages that may be under way now. Raises: BadInput where no node has had room for long."""
        now = time.monotonic()
        if now - self._counted >= _COUNT_AGAIN:
            self._counted = now
            self._slots = sum(map(self._stages, self._connection.nodes()))
            self._had = now if self._slots else self._had
            if now - self._had > _WITHOUT:
                raise BadInput(
                    f"--on: no node of the cluster has had room for a stage in {_WITHOUT / 60:.0f} minutes; start "
                    "nodes and give the same command again: what is done is in the store"
                )
        # More than there is room for wait in Ray's queue, which makes a cluster grow that can.
        return self._most or self._slots

    def _stages(self, node: Mapping[str, Any]) -> int:
        stages = int(self._of(node, "CPU") // self.cpus)
        if self.gpus:
            gpus = int(self._of(node, "GPU"))
            stages = min(stages, gpus * int(1 / self.gpus + 1e-9) if self.gpus < 1 else int(gpus // self.gpus))
        return stages

    @staticmethod
    def _of(node: Mapping[str, Any], resource: str) -> float:
        return float(node["Resources"].get(resource, 0.0))
