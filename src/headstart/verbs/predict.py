"""`headstart predict` and `headstart export`: what a model folder answers, and its model as a file for others."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING

import typer
from rich.text import Text

from headstart.errors import BadInput
from headstart.plugins import load_plugins
from headstart.verbs.data import layout_of
from headstart.verbs.options import LayoutOptions
from headstart.verbs.terminal import check_replaceable, console, writable_file

if TYPE_CHECKING:
    from headstart.data import LayoutSpec, Sequences
    from headstart.serve.model import Served

PASSED_ROLES = ("target", "id", "group")
SPOOLED = 2**24
"""Bytes of predictions that wait in memory before they are printed; more wait in a file."""


def predict_file(
    folder: str,
    source: str,
    out: str | None,
    use: str | None,
    flags: LayoutOptions,
    settings: Sequence[str] = (),
    plugins: Sequence[str] = (),
    confidence: float | None = None,
    explain: str | None = None,
    spans: bool = False,
) -> None:
    """Predict every sequence of a file, which is read as the fitted one was; flags and settings win over that.

    Predictions go to `out`, or as CSV to standard output; what a person should know goes to standard error: how many
    sequences were cut, gaps that the fit did not know, and the score where the file has labels. explain: the table of
    where the model looks in each sequence, beside which its page stands; the file is then read at once. spans: windows
    that are answered alike are joined.
    Raises: BadInput for whatever is wrong with the folder, the file or `out`.
    """
    from headstart.data import read_blocks
    from headstart.data.sources import BLOCK_BYTES
    from headstart.data.text import printable
    from headstart.serve.folder import load_model
    from headstart.serve.predictions import OutputFormat, check_path, joined, predictions_of, writing_predictions
    from headstart.verbs.remarks import Remarks

    target = None if out is None else Path(out)
    table = None if explain is None else Path(explain)
    for path, what, mark in ((target, "predictions", "prediction"), (table, "explanations", "drop")):
        if path is not None:
            check_path(path, what)
            if path.exists() and Path(source).exists() and path.samefile(source):
                raise BadInput(f"{path}: is the file that is read; name another for the {what}")
            check_replaceable("-o" if path is target else "--explain", path, [mark])
    if table is not None:
        writable_file("--explain", str(table))
        if target is not None and target.absolute() == table.absolute():
            raise BadInput(f"--explain: {table} is the file of -o, too; name another for the explanations")
    if spans and confidence is not None:
        raise BadInput("--spans: has one class a span, --confidence a set a window; leave one of both out")
    load_plugins(plugins)
    served = load_model(folder, use, others=False)
    name = served.chosen(use)
    held_out = served.config.held_out.get(name)
    reach = None if confidence is None or held_out is None else held_out.reach(confidence)
    if confidence is not None and reach is None:
        raise BadInput(f"--confidence: {folder} holds no errors of {name} on held-out sequences; fit it again")
    classes = served.config.preparation.classes
    if held_out is not None and confidence is not None and (warning := held_out.warning(confidence, classes)):
        console(stderr=True).print(Text(printable(warning)))
    options = layout_of(flags, settings)
    fixed = {name: getattr(options, name) for name in options.model_fields_set}
    layout, remarks = served.config.layout.model_copy(update=fixed), Remarks(served, name)
    with ExitStack() as files:
        if target is not None:
            output = files.enter_context(writing_predictions(target))
        else:  # nothing is printed of a file with a mistake
            output = OutputFormat(files.enter_context(SpooledTemporaryFile(SPOOLED)), ".csv")
        size = BLOCK_BYTES if table is None else sys.maxsize
        looks = ""
        for sequences in read_blocks(Path(source), layout, size):
            _check_roles(sequences, options)
            answers = served.predict(sequences, name)
            rows = joined(sequences, answers, classes) if spans else None
            output.add(rows or predictions_of(sequences, answers, classes, reach, output.rows))
            remarks.add(sequences, answers)
            if table is not None:
                from headstart.verbs.explain import write_explanations

                looks = write_explanations(served, name, sequences, answers, table)
        if target is None:
            _to_terminal(output.file)
    say = console(stderr=True)
    if confidence is not None and held_out is not None:
        say.print(Text(held_out.says(confidence)))
    for line in remarks.lines():
        say.print(Text(printable(line)))
    if target is not None:
        say.print(Text(printable(f"{output.rows:,} {'spans of ' * spans}predictions of {name} in {target}")))
    if looks:
        say.print(Text(printable(looks)))


def _to_terminal(file: IO[bytes]) -> None:
    """To standard output: as it is, in UTF-8, to a pipe or file; without what a terminal would obey to a terminal."""
    file.seek(0)
    for line in io.TextIOWrapper(file, "utf-8", newline=""):
        if sys.stdout.isatty():
            typer.echo("".join(c if c.isprintable() or c == "\n" else " " for c in line), nl=False)
        else:
            typer.echo(line.encode(), nl=False)


def _check_roles(sequences: Sequences, options: LayoutSpec) -> None:
    """Raises: BadInput where a column that was named now is not there; those of the fit may be absent."""
    for role in PASSED_ROLES:
        wanted = getattr(options, role)
        if wanted and getattr(sequences.layout, role) != wanted:
            raise BadInput(
                f"{sequences.layout.source}: {role}: there is no column {wanted!r}; name another, or leave --{role} out"
            )


def export(
    name: str,
    files: Mapping[str, str | None],
    last: bool,
    use: str | None,
    plugins: Sequence[str],
    store: str | None,
) -> None:
    """Write the network of a model folder to `--onnx`, the model as an estimator to `--sklearn`, or the weights of a
    stage to `-o`: files by option.

    Raises: BadInput unless just one file is named and can be written, and as what writes it.
    """
    named = {option: file for option, file in files.items() if file is not None}
    if len(named) != 1:
        raise BadInput(
            "export: name one file: --onnx FILE or --sklearn FILE for a model folder, or -o FILE.safetensors for a "
            "stage"
        )
    ((option, file),) = named.items()
    writable_file(option, file)
    ending = {"--onnx": ".onnx", "--sklearn": ".skops"}.get(option, "")
    if not file.endswith(ending):
        raise BadInput(f"{option}: {file!r} does not end in {ending}; name a file that does")
    if option == "--onnx":
        return export_model(name, file, use, plugins)
    if option == "--sklearn":
        if use is not None or last:
            raise BadInput("--sklearn: writes the model that serves; leave --use and --last out")
        load_plugins(plugins)
        return export_estimator(Path(name), Path(file))
    from headstart.store import Store, export_stage, store_folder

    if Path(name).is_dir():
        raise BadInput(f"export: {name!r} is a folder, and -o writes a stage; use --onnx or --sklearn for a model")
    check_replaceable("-o", Path(file), ["headstart"], store=Path(store_folder(store)))
    path, size = export_stage(Store(store_folder(store)), name, file, "last" if last else "best")
    console().print(Text(f"{path}: {size:,} bytes; its metadata hold the stage as JSON under the key 'headstart'"))


def export_estimator(folder: Path, path: Path) -> None:
    """Write the model of a folder for skops, and say how it is read. Raises: BadInput as `export_sklearn`."""
    check_skops()
    from headstart.estimator.exported import export_sklearn, trusted_name

    estimator = export_sklearn(folder, path)
    trusted = f"trusted=[{trusted_name(estimator)!r}]"
    out = console()
    out.print(Text(f"{path}: {path.stat().st_size:,} bytes"))
    out.print(Text(f"read it with  skops.io.load({str(path)!r}, {trusted})"), soft_wrap=True)


def check_skops() -> None:
    """Raises: BadInput where skops is not installed."""
    if find_spec("skops") is None:
        raise BadInput("export: skops is not installed; pip install 'headstart[skops]'")


def export_model(folder: str, onnx: str, use: str | None, plugins: Sequence[str] = ()) -> None:
    """Write the network of a folder to `onnx`, and say what goes in, what comes out and how it compares with torch.

    Raises: BadInput where the folder serves another model and `use` does not ask for the network, and as `load_model`
    and `export_onnx`.
    """
    from headstart.data.text import printable
    from headstart.serve.folder import load_model
    from headstart.serve.onnx import export_onnx

    load_plugins(plugins)
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
    """Raises: BadInput where the model that is asked for is not a network."""
    from headstart.serve.config import NETWORK

    name = served.chosen(use)
    if name == NETWORK:
        return
    way = "--use network exports its network" if NETWORK in served.choices else "fit one with a network"
    raise BadInput(f"{folder}: {'serves ' if use is None else ''}{name!r}, which has no ONNX form; {way}")
