"""A Ray cluster of two nodes on loopback, in a process of its own: it does what a line on standard input says.

`add` and `remove` a second node; the end of the input ends the cluster. Every answer is a line.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # else Ray looks for 127.0.0.1 under the machine's own address
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]),
}
NODE: dict[str, Any] = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "object_store_memory": 100_000_000}


class LoopbackCluster:
    """The process, from the side of a test. `environment`: what a driver needs to be one of this cluster."""

    def __init__(self, cwd: Path, client_port: int) -> None:
        environment = {**os.environ, **ENVIRONMENT}
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(client_port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=cwd,
            env=environment,
        )
        self.address = self._answer()
        self.client = f"ray://127.0.0.1:{client_port}"
        self.environment = {**environment, "RAY_ADDRESS": self.address}

    def tell(self, word: str) -> None:
        """`add` or `remove` the second node, and wait until that is done."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        assert self._answer() == word

    def close(self) -> None:
        """End the cluster."""
        with self.process:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait(60)

    def _answer(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("answer "):
                return line.removeprefix("answer ").strip()
        raise AssertionError(f"the cluster ended with exit code {self.process.wait(60)}")


def lines() -> Iterator[str]:
    for line in sys.stdin:
        yield line.strip()


def serve(client_port: int) -> None:
    """The main function of the cluster's process."""
    cluster_utils: Any = importlib.import_module("ray.cluster_utils")
    head = {**NODE, "include_dashboard": False, "ray_client_server_port": client_port}
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
    try:
        second = cluster.add_node(**NODE)
        print(f"answer {cluster.address}", flush=True)
        for word in lines():
            if word == "add":
                second = cluster.add_node(**NODE)
            elif word == "remove":
                cluster.remove_node(second, allow_graceful=False)
            print(f"answer {word}", flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
