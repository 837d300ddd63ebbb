"""Arguments and options that several verbs have."""

from __future__ import annotations

import errno
import functools
import io
import os
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Annotated, Any, ParamSpec, TypeVar

import typer

from headstart.errors import BadInput

P = ParamSpec("P")
R = TypeVar("R")


def study_names(incomplete: str) -> list[str]:
    """Built-in studies that begin so, for the completion of a shell."""
    from headstart.study.language.files import built_in_studies

    return [name for name in built_in_studies() if name.startswith(incomplete)]


def data_there(folder: str | None) -> str | None:
    """The folder that `--data` names. Raises: BadInput where there is none: stand-ins would take the data's place."""
    if folder and not os.path.isdir(folder):
        raise BadInput(f"--data: there is no folder {folder!r}; name the folder that holds the data sets")
    return folder


STUDY = "A study file (.toml) or the name of a built-in study."
StudyArgument = Annotated[str, typer.Argument(metavar="STUDY", help=STUDY, autocompletion=study_names)]
StoreOption = Annotated[
    str | None, typer.Option("--store", metavar="DIR", help="Folder of stages (default: HEADSTART_STORE, else ./runs).")
]
DATA = "Folder of data sets (HEADSTART_DATA, else ./data)."
DataOption = Annotated[str | None, typer.Option("--data", metavar="DIR", help=DATA, callback=data_there)]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", min=0, max=1024, metavar="N", help="Worker processes (default: one per core; 0: none)."),
]
ThreadsOption = Annotated[
    int, typer.Option("--threads", min=1, max=1024, metavar="N", help="Threads of each stage; results depend on it.")
]
DeviceOption = Annotated[str, typer.Option("--device", metavar="NAME", help="auto, cpu, cuda (every GPU) or cuda:N.")]
StackOption = Annotated[
    str, typer.Option("--stack", metavar="auto|off|K", help="Train stages that differ in numbers alone K at a time.")
]
RanksOption = Annotated[
    int | None, typer.Option("--ranks", min=1, max=1024, metavar="N", help="Processes that train each stage together.")
]
PretrainOption = Annotated[
    bool | None,
    typer.Option("--pretrain/--no-pretrain", help="Self-pretrain a network (default: where it is worth the time)."),
]
AugmentOption = Annotated[
    list[str] | None,
    typer.Option("--augment", metavar="NAME", help="A further network on augmented numbers: jitter, scale, warp."),
]
SplitOption = Annotated[str, typer.Option("--split", metavar="HOW", help="random, or time: train first, test last.")]
TestShareOption = Annotated[
    float, typer.Option("--test-share", metavar="SHARE", help="Of the rows, to test on (0: none).")
]
MixerOption = Annotated[
    str | None, typer.Option("--mixer", metavar="MODULE:CLASS", help="A mixer of your own; each arm gets a twin.")
]
OneMixerOption = Annotated[
    str | None, typer.Option("--mixer", metavar="MODULE:CLASS", help="A mixer of your own, besides those of headstart.")
]
PluginOption = Annotated[
    list[str] | None,
    typer.Option("--plugin", metavar="FILE.py|MODULE", help="Run code of your own that registers kinds; repeatable."),
]
ScaleOption = Annotated[
    str | None, typer.Option("--scale", metavar="SCALE", help="tiny (default), small or paper, where a study has them.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[name=value ...]", help="Settings that override the file, in TOML; a list is swept."),
]
UseOption = Annotated[
    str | None, typer.Option("--use", metavar="NAME", help="Use this model of the folder: network, kernels, ...")
]
PivotOption = Annotated[bool, typer.Option("--pivot", help="The table as arms by columns.")]
OnOption = Annotated[
    str, typer.Option("--on", metavar="CLUSTER", help="ray (this machine's), or ray://HOST:10001; default: here.")
]
GpusOption = Annotated[
    float | None,
    typer.Option("--gpus-per-stage", min=0, metavar="N", help="GPUs that a stage takes on a cluster, as 0.25 or 1."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the plan and what it costs; train nothing.")]
JsonOption = Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write results as JSON (-: print it).")]
TidyOption = Annotated[str | None, typer.Option("--tidy", metavar="FILE", help="Scores and curves: .csv, .parquet.")]
TrackOption = Annotated[
    list[str] | None,
    typer.Option("--track", metavar="NAME", help="Log training to tensorboard, wandb or mlflow; repeatable."),
]
WidthOption = Annotated[str | None, typer.Option("--figure-width", metavar="WIDTH", help="Of figures: 3.3in, 85mm.")]
ServeOption = Annotated[
    str,
    typer.Option(
        "--serve", metavar="NAME", help="auto (best on validation), network, kernels, ensemble, a plugin's model, ..."
    ),
]
BackboneOption = Annotated[
    str | None, typer.Option("--backbone", metavar="MODEL", help="Add an arm: frozen layers of a checkpoint.")
]
StartOption = Annotated[
    str | None,
    typer.Option("--start", metavar="MODEL", help="Add an arm: from the weights of a model folder, or a stage."),
]


def _use_weights(folder: str | None) -> str | None:
    """Make a folder that of checkpoints, for this process and those that it starts. Raises: BadInput for none."""
    if folder is not None:
        if not os.path.isdir(folder):
            raise BadInput(f"--weights: {folder!r} is not a folder; name one that holds a folder for each checkpoint")
        os.environ["HEADSTART_WEIGHTS"] = folder
    return folder


WeightsOption = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="DIR",
        callback=_use_weights,
        help="Folder of checkpoints (HEADSTART_WEIGHTS, else ./weights).",
    ),
]


class _Outlasting:
    """A stream to which writing goes on when nobody reads it any more, as after `| head`; it goes nowhere then."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return int(self._stream.write(text))
        except OSError as error:
            self._discard(error)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._discard(error)

    def _discard(self, error: OSError) -> None:
        """What is buffered, and all that comes, is written to the null device. Raises: an error of another cause."""
        if error.errno not in (errno.EPIPE, errno.EIO):  # the second: of a terminal that has been closed
            raise error
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._stream.fileno())
        os.close(null)


def open_streams() -> None:
    """Make the standard streams take whatever is printed: one that is closed loses it, as /dev/null does, and one that
    has no sign for a letter gets an escape for it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:  # it gets the lowest free number, this one, which no other file may have
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115 - to the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not what a test has put there
            stream.reconfigure(errors="backslashreplace")


def lasting_command(app: typer.Typer) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A command that does its work to the end, whether or not its output is read to the end."""

    def decorate(verb: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(verb)
        def whole(*args: P.args, **kwargs: P.kwargs) -> R:
            output, errors = _Outlasting(sys.stdout), _Outlasting(sys.stderr)
            with redirect_stdout(output), redirect_stderr(errors):
                try:
                    return verb(*args, **kwargs)
                finally:
                    output.flush()
                    errors.flush()

        return app.command()(whole)

    return decorate


def inches(text: str) -> float:
    """`3.3in`, `85mm` or `8.5cm` in inches. Raises: BadInput for anything else, and for what no paper has room for."""
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*(in|mm|cm)", text.strip())
    width = float(match[1]) / {"in": 1.0, "mm": 25.4, "cm": 2.54}[match[2]] if match else 0.0
    if not 2 <= width <= 20:
        raise BadInput(
            f"--figure-width: {text!r} is not a width between 2 and 20 inches; give one such as 3.3in, 85mm or 8.5cm"
        )
    return width


def _print_version(wanted: bool) -> None:
    if wanted:
        from headstart import __version__

        typer.echo(f"headstart {__version__}")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
]


def show_version(version: VersionOption = False) -> None:
    """What stands before any verb."""
    del version


def refuse_repeats(command: Any) -> Any:
    """The same command, which refuses an option of one value that is given twice: the last one would win unseen."""
    for inner in getattr(command, "commands", {}).values():
        refuse_repeats(inner)
    options = [p for p in command.params if p.param_type_name == "option"]
    single = [p for p in options if p.nargs == 1 and not p.multiple and not p.is_flag]
    parse = command.parse_args

    def checked(ctx: Any, args: list[str]) -> Any:
        words = [word.partition("=")[0] for word in args]
        for option in single:
            count = sum(words.count(name) for name in option.opts if name.startswith("-"))
            if count > 1:
                raise BadInput(f"{option.opts[0]}: is given {count} times; give it once")
        return parse(ctx, args)

    command.parse_args = checked
    return command
