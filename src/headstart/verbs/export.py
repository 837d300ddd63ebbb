"""`headstart export`: the network of a model folder as a file that other runtimes serve."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from headstart.errors import BadInput
from headstart.verbs.terminal import console

if TYPE_CHECKING:
    from headstart.serve.model import Served


def export_model(folder: str, onnx: str, use: str | None) -> None:
    """Write the network of a folder to `onnx`, and say what goes in, what comes out and how it compares with torch.

    Raises: BadInput where the folder serves another model and `use` does not ask for the network, and as `load_model`
    and `export_onnx`.
    """
    from headstart.data.text import printable
    from headstart.serve.folder import load_model
    from headstart.serve.onnx import export_onnx

    served = load_model(folder)
    _check_network(served, folder, use)
    done = export_onnx(served, Path(onnx))
    name, answer = done.output
    takes = "; ".join(f"{name} {shape}" for name, shape in done.inputs.items())
    longest = max(length for _, length in done.runs)
    out = console()
    for line in (
        f"{done.path}: {done.size:,} bytes",
        f"takes {takes}; gives {name} {answer}",
        f"largest difference to torch {done.difference:.1e}, over {len(done.runs)} runs of 1 to "
        f"{max(rows for rows, _ in done.runs)} sequences of up to {longest:,} positions",
    ):
        out.print(Text(printable(line)))


def _check_network(served: Served, folder: str, use: str | None) -> None:
    """Raises: BadInput where the model that is asked for is no network."""
    from headstart.serve.config import NETWORK

    name = served.chosen(use)
    if name == NETWORK:
        return
    way = "--use network exports its network" if NETWORK in served.choices else "fit one with a network"
    raise BadInput(f"{folder}: {'serves ' if use is None else ''}{name!r}, which has no ONNX form; {way}")
