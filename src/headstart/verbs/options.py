"""Arguments and options of the command line, each declared once: alone, or as a field of a group of options.

A group is a frozen dataclass; `verb.command` puts its fields among a verb's options, and the verb gets one value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from headstart.errors import BadInput

if TYPE_CHECKING:
    from headstart.api import Study


def study_names(incomplete: str) -> list[str]:
    """Built-in studies that begin so, for the completion of a shell."""
    from headstart.study.language.files import built_in_studies

    return [name for name in built_in_studies() if name.startswith(incomplete)]


def data_there(folder: str | None) -> str | None:
    """The folder that `--data` names. Raises: BadInput where there is none: stand-ins would take the data's place."""
    if folder and not os.path.isdir(folder):
        raise BadInput(f"--data: there is no folder {folder!r}; name the folder that holds the data sets")
    return folder


STUDY_HELP = "A study file (.toml) or the name of a built-in study."
StudyArgument = Annotated[str, typer.Argument(metavar="STUDY", help=STUDY_HELP, autocompletion=study_names)]
StoreOption = Annotated[
    str | None,
    typer.Option("--store", metavar="DIR", help="Folder of what was trained (default: HEADSTART_STORE, else ./runs)."),
]
DATA = "Folder of data sets (HEADSTART_DATA, else ./data)."
DataOption = Annotated[str | None, typer.Option("--data", metavar="DIR", help=DATA, callback=data_there)]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", min=0, max=1024, metavar="N", help="Worker processes (default: one per core; 0: none)."),
]
ThreadsOption = Annotated[
    int, typer.Option("--threads", min=1, max=1024, metavar="N", help="Threads of each training; results depend on it.")
]
DeviceOption = Annotated[str, typer.Option("--device", metavar="NAME", help="auto, cpu, cuda (every GPU) or cuda:N.")]
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
GpusOption = Annotated[
    float | None,
    typer.Option("--gpus-per-stage", min=0, metavar="N", help="GPUs that a stage takes on a cluster, as 0.25 or 1."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the plan and what it costs; train nothing.")]
MeasureOption = Annotated[
    bool, typer.Option("--measure", help="With --dry-run: time a few steps of each kind of stage here.")
]
JsonOption = Annotated[str | None, typer.Option("--json", metavar="FILE", help="Write results as JSON (-: print it).")]
TrackOption = Annotated[
    list[str] | None,
    typer.Option("--track", metavar="NAME", help="Log training to tensorboard, wandb or mlflow; repeatable."),
]


def _use_weights(folder: str | None) -> str | None:
    """Make a folder that of checkpoints, for this process and those that it starts. Raises: BadInput for none."""
    if folder is not None:
        if not os.path.isdir(folder):
            raise BadInput(f"--weights: {folder!r} is not a folder; name one that holds a folder for each checkpoint")
        os.environ["HEADSTART_WEIGHTS"] = folder
    return folder


def _use_memory(size: str | None) -> str | None:
    """Let this process, and those that it starts, take so much. Raises: BadInput for what is no size, or too little."""
    from headstart.limits import allow_memory

    allow_memory(size)
    return size


MemoryOption = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        callback=_use_memory,
        help="At most: 4G, 800M (default: what machine and container leave free).",
    ),
]
WeightsOption = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="DIR",
        callback=_use_weights,
        help="Folder of checkpoints (HEADSTART_WEIGHTS, else ./weights).",
    ),
]


@dataclass(frozen=True)
class FolderOptions:
    """Where stages, data sets and checkpoints are."""

    store: StoreOption = None
    data: DataOption = None
    weights: WeightsOption = None


@dataclass(frozen=True)
class StudyOptions:
    """How a study is read besides its overrides."""

    mixer: MixerOption = None
    plugin: PluginOption = None
    scale: ScaleOption = None


@dataclass(frozen=True)
class WorkOptions:
    """How many stages are at work, and with how many threads each."""

    workers: WorkersOption = None
    threads: ThreadsOption = 1


@dataclass(frozen=True)
class RunOptions(WorkOptions):
    """How stages are performed: what a `Runtime` is made of."""

    device: DeviceOption = "auto"
    stack: Annotated[
        str,
        typer.Option("--stack", metavar="auto|off|K", help="Train stages that differ in numbers alone K at a time."),
    ] = "auto"
    on: Annotated[
        str, typer.Option("--on", metavar="CLUSTER", help="ray (this machine's), or ray://HOST:10001; default: here.")
    ] = ""
    gpus_per_stage: GpusOption = None
    ranks: Annotated[
        int | None,
        typer.Option("--ranks", min=1, max=1024, metavar="N", help="Processes that train each stage together."),
    ] = None


@dataclass(frozen=True)
class FileOptions:
    """Files that results are written to besides the report."""

    json: JsonOption = None
    tidy: Annotated[str | None, typer.Option("--tidy", metavar="FILE", help="Scores and curves: .csv, .parquet.")] = (
        None
    )
    figure_width: Annotated[
        str | None, typer.Option("--figure-width", metavar="WIDTH", help="Of figures: 3.3in, 85mm.")
    ] = None


@dataclass(frozen=True)
class LayoutOptions:
    """How a file of sequences is read: fields of `LayoutSpec`, which is slow to import, while `--help` answers at once.

    What is None was not given.
    """

    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="NAME",
            help="Column of the target: its name, or its position in a file without a header.",
        ),
    ] = None
    id: Annotated[str | None, typer.Option("--id", metavar="NAME", help="Column of the ids.")] = None
    time: Annotated[
        str | None,
        typer.Option(
            "--time-column",
            metavar="NAME",
            help="Column of the time: of each position of a long table, else of each sequence.",
        ),
    ] = None
    group: Annotated[
        str | None, typer.Option("--group", metavar="NAME", help="Column of the subject that several rows may share.")
    ] = None
    values: Annotated[
        list[str] | None,
        typer.Option("--values", metavar="NAME", help="A column of the sequence, or a run such as 't*' (repeatable)."),
    ] = None
    shape: Annotated[
        str | None, typer.Option("--layout", metavar="SHAPE", help="wide, text, list, long or columns.")
    ] = None
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KIND", help="numbers, text, dna, protein or tokens.")
    ] = None
    target_kind: Annotated[
        str | None, typer.Option("--target-kind", metavar="KIND", help="Whether the target is a class or a number.")
    ] = None
    na: Annotated[
        list[str] | None, typer.Option("--na", metavar="WORD", help="A word for a missing value (repeatable).")
    ] = None
    delimiter: Annotated[
        str | None, typer.Option("--delimiter", metavar="MARK", help="The character that separates cells.")
    ] = None
    decimal: Annotated[str | None, typer.Option("--decimal", metavar="MARK", help="Of numbers: '.' or ','.")] = None
    quote: Annotated[
        str | None, typer.Option("--quote", metavar="MARK", help="The character that quotes cells; '' for none.")
    ] = None
    encoding: Annotated[str | None, typer.Option("--encoding", metavar="NAME", help="Of a text file (utf-8).")] = None
    skip: Annotated[
        int | None, typer.Option("--skip", min=0, metavar="N", help="Lines above the header of a text table.")
    ] = None
    units_row: Annotated[
        int | None, typer.Option("--units-row", min=0, metavar="N", help="Rows of units below the header.")
    ] = None
    comment: Annotated[
        str | None, typer.Option("--comment", metavar="MARK", help="How lines begin that are no rows; '' for none.")
    ] = None
    thousands: Annotated[
        str | None, typer.Option("--thousands", metavar="MARK", help="Between thousands: '.', ',', ' ' or \"'\".")
    ] = None
    time_format: Annotated[
        str | None, typer.Option("--time-format", metavar="FORM", help="Of times: '%d.%m.%Y %H:%M:%S'.")
    ] = None
    label_from: Annotated[
        str | None,
        typer.Option(
            "--label-from", metavar="PATTERN", help="The label in names of files: '{who}_{label}_{take}.wav'."
        ),
    ] = None
    padding: Annotated[
        str | None,
        typer.Option("--padding", metavar="WHAT", help="Cut off: zeros, last (value repeated), front or both."),
    ] = None
    label_case: Annotated[
        str | None, typer.Option("--label-case", metavar="WHAT", help="fold: classes whatever their case and blanks.")
    ] = None
    strand: Annotated[
        str | None,
        typer.Option("--strand", metavar="WHAT", help="Of DNA: one is read for either; both: are read."),
    ] = None
    window: Annotated[
        str | None,
        typer.Option("--window", metavar="LENGTH", help="Cut recordings into windows: 500 positions, or 5s, 200ms."),
    ] = None
    step: Annotated[
        str | None, typer.Option("--step", metavar="LENGTH", help="From a window to the next (default: its length).")
    ] = None
    window_label: Annotated[
        str | None,
        typer.Option("--window-label", metavar="RULE", help="Where it changes: majority, end, or drop the window."),
    ] = None
    rate: Annotated[
        float | None,
        typer.Option("--rate", metavar="HZ", help="Positions per second that every recording is brought to."),
    ] = None
    time_unit: Annotated[
        str | None, typer.Option("--time-unit", metavar="UNIT", help="Of times as numbers: ns, us, ms, s, min or h.")
    ] = None
    sheet: Annotated[str | None, typer.Option("--sheet", metavar="NAME", help="The sheet of a workbook.")] = None


@dataclass(frozen=True)
class FitOptions:
    """Fields of `FitSettings`, by their names, as words: `time` as 5m, `seeds` as their number."""

    val: Annotated[
        str | None, typer.Option("--val", metavar="FILE", help="Sequences to choose on (default: a fifth is held out).")
    ] = None
    test: Annotated[
        str | None, typer.Option("--test", metavar="FILE", help="Test sequences (default: a fifth is held out).")
    ] = None
    unlabelled: Annotated[
        str | None, typer.Option("--unlabelled", metavar="FILE", help="More sequences, for self-pretraining alone.")
    ] = None
    time: Annotated[
        str | None, typer.Option("--time", metavar="TIME", help="Limit for the whole fit: 90s, 5m, 1h (5m on a CPU).")
    ] = None
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, max=100, metavar="N", help="Number of seeds (3, or K).")
    ] = None
    folds: Annotated[int | None, typer.Option("--folds", min=1, metavar="K", help="Cross-validation folds.")] = None
    balanced: Annotated[bool, typer.Option("--balanced", help="Weight all classes equally.")] = False
    serve: Annotated[
        str,
        typer.Option(
            "--serve",
            metavar="NAME",
            help="auto (best on validation), network, kernels, ensemble, a plugin's model, ...",
        ),
    ] = "auto"
    split_seed: Annotated[int, typer.Option("--split-seed", metavar="N", help="Another draw of the splits.")] = 0
    val_share: Annotated[float, typer.Option("--val-share", metavar="SHARE", help="Of the rows, to choose on.")] = 0.2
    split: Annotated[str, typer.Option("--split", metavar="HOW", help="random, or time: train first, test last.")] = (
        "random"
    )
    test_share: Annotated[
        float, typer.Option("--test-share", metavar="SHARE", help="Of the rows, to test on (0: none).")
    ] = 0.2
    no_group: Annotated[bool, typer.Option("--no-group", help="Split rows of one group apart.")] = False
    pretrain: Annotated[
        bool | None,
        typer.Option("--pretrain/--no-pretrain", help="Self-pretrain a network (default: where it is worth the time)."),
    ] = None


@dataclass(frozen=True)
class ArmOptions:
    """Checkpoints and models that a fit takes further arms from: fields of `FitSettings` too."""

    backbone: Annotated[
        str | None, typer.Option("--backbone", metavar="MODEL", help="Add a model: frozen layers of a checkpoint.")
    ] = None
    start: Annotated[
        str | None,
        typer.Option(
            "--start",
            metavar="MODEL",
            help="Add a model: from the weights of a model folder, or of an id of the store.",
        ),
    ] = None


def option_name(group: type, field: str) -> str:
    """`--time-column` of the field `time` of `LayoutOptions`: how an option is written."""
    (option,) = get_type_hints(group, include_extras=True)[field].__metadata__
    return str(option.default)  # typer keeps the first name there: in Annotated it is no default


def as_words(*groups: Any) -> list[str]:
    """Groups of options as they are written on the command line; what is None is left out."""
    words = []
    for group in groups:
        for field in fields(group):
            value = getattr(group, field.name)
            for part in value if isinstance(value, list) else [] if value is None else [value]:
                words += [option_name(type(group), field.name), str(part)]
    return words


def study_of(
    word: str,
    overrides: Sequence[str] | None,
    folders: FolderOptions,
    options: StudyOptions,
    *,
    absent: Literal["refuse", "open"] = "refuse",
) -> Study:
    """The study that words and options describe. Raises: BadInput where it, its data or its stages do not fit."""
    from headstart.api import Study

    reading: dict[str, Any] = {"mixer": options.mixer, "scale": options.scale, "plugins": options.plugin or []}
    return Study(word, overrides or [], store=folders.store, data=folders.data, absent=absent, **reading)


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
