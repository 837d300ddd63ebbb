"""The command line: words to a study, a store and a runtime; answers to text. Heavy imports wait for their verb."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Annotated, Any

import typer

from headstart.errors import NO_MEMORY, BadInput
from headstart.limits import follow_quota
from headstart.text import escaped
from headstart.verbs import options as opt
from headstart.verbs.groups import bench, store_verbs
from headstart.verbs.verb import command, open_streams, refuse_repeats
from headstart.ways import typed

IMPORTED = 0.05
"""Seconds after which an import is interrupted once more."""

app = typer.Typer(
    name="headstart",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    help="Train sequence models from data-driven starting weights, and compare them fairly.",
)

app.callback()(opt.show_version)
app.add_typer(bench, name="bench")
app.add_typer(store_verbs, name="store")


@command(app, lasting=True)
def demo(*, store: opt.StoreOption = None, work: opt.WorkOptions, json: opt.JsonOption = None) -> None:
    """Compare training from scratch and self-pretraining in minutes. Both spend equal FLOPs; 40 labels."""
    from headstart.api import Study
    from headstart.verbs.run import Outputs, run_study

    study = Study("few-labels", store=store)
    done = run_study(study, study.runtime(**vars(work)), Outputs(json))
    typer.echo(
        "\nTry next:\n  headstart show sources symbols=8 min_length=32 max_length=32\n"
        "  headstart run few-labels task.labelled=200 'seed=[0,1,2]'",
        err=json == "-",
    )
    raise typer.Exit(done)


@command(app, lasting=True)
def run(
    *,
    study: opt.StudyArgument,
    overrides: opt.Overrides = None,
    dry_run: opt.DryRunOption = False,
    measure: opt.MeasureOption = False,
    way: opt.RunOptions,
    folders: opt.FolderOptions,
    files: opt.FileOptions,
    reading: opt.StudyOptions,
    pivot: opt.PivotOption = False,
    track: opt.TrackOption = None,
    serve: Annotated[
        int | None,
        typer.Option(
            "--serve",
            min=0,
            max=65535,
            metavar="PORT",
            help="Show the running study as a page; its address is printed.",
        ),
    ] = None,
) -> None:
    """Run a study: train what is missing, then print its table."""
    with uncollected() if dry_run else nullcontext():
        from headstart.runner.stacks import read_stack
        from headstart.verbs.dry_run import dry_run_study
        from headstart.verbs.run import Outputs, run_study

        stack = read_stack(way.stack)
        bound = opt.study_of(study, overrides, folders, reading, absent="open" if dry_run else "refuse")
        if dry_run and way.on:
            raise BadInput(f"--on: {way.on!r}: --dry-run estimates for this machine and trains nothing; leave one out")
        runtime = bound.runtime(**{**vars(way), "stack": stack})
        if measure and not dry_run:
            raise BadInput("--measure: it times steps for an estimate; give --dry-run with it")
        if serve is not None and dry_run:
            raise BadInput(f"--serve: {serve}: --dry-run trains nothing that a page could follow; leave one out")
        outputs = Outputs(**vars(files), pivot=pivot)
        if dry_run:
            return dry_run_study(bound, runtime, measured=measure)
    raise typer.Exit(run_study(bound, runtime, outputs, track or [], serve))


@command(app, lasting=True)
def report(
    *,
    words: Annotated[list[str] | None, typer.Argument(metavar="[STUDY [name=value ...]]", help="As for `run`.")] = None,
    sources: Annotated[
        list[str] | None, typer.Option("--from", metavar="FILE ...", help="Files written by --json.")
    ] = None,
    out: Annotated[
        str | None, typer.Option("-o", "--out", metavar="FOLDER|NAME.md", help="Folder or .md file.")
    ] = None,
    folders: opt.FolderOptions,
    files: opt.FileOptions,
    reading: opt.StudyOptions,
    pivot: opt.PivotOption = False,
    pool: Annotated[bool, typer.Option("--pool", help="Pool gains over the files of --from.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Every study of the store with its answer, on one page.")
    ] = False,
    checklist: Annotated[
        bool, typer.Option("--checklist", "--neurips", help="Print the checklist of conferences.")
    ] = False,
) -> None:
    """Print a study's table and write its page; train nothing. It reads the store, or files of results."""
    if every:
        from headstart.verbs.report_all import report_all

        other = {**vars(files), "from": sources, "out": out, "pivot": pivot, "pool": pool, "checklist": checklist}
        other |= {"mixer": reading.mixer, "scale": reading.scale}
        return report_all(words or [], folders, reading.plugin or [], other)
    from headstart.verbs.run import Outputs, report

    outputs = Outputs(**vars(files), out=out, pivot=pivot, pool=pool)
    report(words or [], sources or [], folders, reading, outputs, checklist)


@command(app, lasting=True)
def challenge(
    *,
    page: Annotated[
        str, typer.Argument(metavar="PAGE.json", help="Results beside a page, as `report -o` writes them.")
    ],
    seeds: Annotated[int, typer.Option("--seeds", min=2, max=1000, metavar="N", help="Fresh seeds.")] = 8,
    way: opt.RunOptions,
    folders: opt.FolderOptions,
) -> None:
    """Train a page's first claim anew with fresh seeds. Its outcome is written onto the page."""
    from headstart.verbs.challenge import challenge

    raise typer.Exit(challenge(page, seeds, folders, way))


@command(app)
def compare(
    *,
    first: Annotated[str, typer.Argument(metavar="A", help="A stage's id, a study, a report's folder or JSON.")],
    second: Annotated[str, typer.Argument(metavar="B", help="What it is compared with, of the same sort.")],
    folders: opt.FolderOptions,
    scale: opt.ScaleOption = None,
    plugin: opt.PluginOption = None,
) -> None:
    """Show two stages, studies or reports side by side. It shows settings, scores and curves."""
    from headstart.verbs.compare import print_comparison

    print_comparison(first, second, folders.store, folders.data, scale, plugin or ())


@command(app)
def predict(
    *,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model folder, as `headstart fit` writes it.")],
    file: Annotated[str, typer.Argument(metavar="FILE", help="Sequences, in the layout of the fitted file.")],
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[name=value ...]", help="Settings of the file's layout.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("-o", "--out", metavar="FILE", help=".csv, .tsv, .jsonl or .parquet (default: CSV, printed)."),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            "--confidence", metavar="SHARE", help="Add prediction sets or intervals of this coverage, such as 0.9."
        ),
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option("--explain", metavar="FILE", help="Where the model looks in each sequence: a table, and a page."),
    ] = None,
    spans: Annotated[bool, typer.Option("--spans", help="Join windows of one class: recording, start, end, class.")] = (
        False
    ),
    use: opt.UseOption = None,
    plugin: opt.PluginOption = None,
    layout: opt.LayoutOptions,
    _memory: opt.MemoryOption = None,
) -> None:
    """Predict the sequences of a file with a fitted model. Ids and order are those of the file."""
    from headstart.verbs.predict import predict_file

    predict_file(model, file, out, use, layout, settings or [], plugin or [], confidence, explain, spans)


@command(app)
def export(
    model: Annotated[str, typer.Argument(metavar="MODEL|STAGE", help="The folder of a model, or a stage's id.")],
    onnx: Annotated[str | None, typer.Option("--onnx", metavar="FILE", help="Write a model's network.")] = None,
    sklearn: Annotated[
        str | None, typer.Option("--sklearn", metavar="FILE", help="Write a model as an estimator that skops reads.")
    ] = None,
    out: Annotated[str | None, typer.Option("-o", "--out", metavar="FILE", help="Write a stage's weights.")] = None,
    last: Annotated[bool, typer.Option("--last", help="The stage's last weights instead of its best.")] = False,
    use: opt.UseOption = None,
    plugin: opt.PluginOption = None,
    store: opt.StoreOption = None,
) -> None:
    """Write a model as ONNX, for scikit-learn, or as safetensors. Takes a model folder, or a stage."""
    from headstart.verbs.predict import export

    export(model, {"--onnx": onnx, "--sklearn": sklearn, "-o": out}, last, use, plugin or [], store)


@command(app, lasting=True)
def fit(
    *,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Sequences with labels: a file, or a folder.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[name=value ...]", help="layout.NAME=value, or settings of the networks' study."),
    ] = None,
    out: Annotated[str, typer.Option("-o", "--out", metavar="FOLDER", help="Where the model goes.")] = "model",
    layout: opt.LayoutOptions,
    options: opt.FitOptions,
    show_examples: Annotated[
        bool, typer.Option("--show-examples/--no-examples", help="Draw sequences on the page.")
    ] = True,
    export: Annotated[
        str | None, typer.Option("--export", metavar="sklearn", help="Also FOLDER/model.skops, for scikit-learn.")
    ] = None,
    dry_run: opt.DryRunOption = False,
    work: opt.WorkOptions,
    device: opt.DeviceOption = "auto",
    store: opt.StoreOption = None,
    plugin: opt.PluginOption = None,
    arms: opt.ArmOptions,
    _weights: opt.WeightsOption = None,
    _memory: opt.MemoryOption = None,
) -> None:
    """Fit your own sequences and save the best model. Networks and simpler models are compared side by side."""
    from headstart.verbs.fit import fit_file

    ways: dict[str, Any] = {"store": store, "device": device, "plugins": plugin or [], "export": export}
    ways |= {"dry_run": dry_run, "show_examples": show_examples}
    raise typer.Exit(fit_file(file, out, layout, overrides or [], options, arms, work, **ways))


@command(app)
def ls(
    *,
    words: Annotated[list[str] | None, typer.Argument(metavar="[LIST|column=pattern ...]")] = None,
    folders: opt.FolderOptions,
    json: opt.JsonOption = None,
    plugin: opt.PluginOption = None,
) -> None:
    """List stages, studies, tasks, mixers and other kinds. Lists: studies, tasks, mixers, models, objectives,
    optimizers, schedules, readers, checkpoints, arms (of a fit). Of stages all, or those with arm=scratch."""
    from headstart.verbs.look import print_listing

    print_listing(words or ["stages"], folders.store, json, folders.data, plugin or ())


@command(app)
def show(
    *,
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="A stage's id, a study, a table or kind of one, a checkpoint, a file.")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[name=value ...]", help="Settings of a task (fraction=0.1), or of a file's layout."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Of a data file: print it as JSON.")] = False,
    folders: opt.FolderOptions,
    layout: opt.LayoutOptions,
    plugin: opt.PluginOption = None,
) -> None:
    """Show a stage, study, task, mixer, checkpoint or data file. `show optim` has the keys of the optimiser, `show
    arms`, `axes`, `start` or `parts` those of a study."""
    from headstart.verbs.look import print_one

    print_one(what, overrides or [], folders.store, folders.data, layout, json, plugin or ())


@command(app)
def check(
    *,
    what: Annotated[
        str | None,
        typer.Argument(metavar="[WHAT]", help="A study, a task, a mixer, a model of your own, or module:Class."),
    ] = None,
    overrides: opt.Overrides = None,
    data: opt.DataOption = None,
    _weights: opt.WeightsOption = None,
    reading: opt.StudyOptions,
) -> None:
    """Check a study, a task, a mixer or a model of your own. It reports what is wrong, and where."""
    from headstart.verbs.checks import check_one

    check_one(what, overrides or [], data, reading)


@command(app)
def prepare(
    what: Annotated[str | None, typer.Argument(metavar="TASK|MODEL", help="A task, or a checkpoint.")] = None,
    overrides: opt.Overrides = None,
    data: opt.DataOption = None,
    _weights: opt.WeightsOption = None,
    workers: opt.WorkersOption = None,
    listed: Annotated[bool, typer.Option("--list", help="List the prepared data in the cache, with sizes.")] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Remove all prepared data from the cache.")] = False,
) -> None:
    """Prepare a task's data, or read or download a checkpoint. Data are generated or read once, and kept."""
    if listed or clear:
        from headstart.verbs.data import show_cache

        return show_cache(what, listed, clear)
    if what is None:
        raise BadInput(
            "prepare: name a task (`headstart ls tasks` lists them) or a checkpoint, or give --list or --clear"
        )
    from headstart.verbs.checks import prepare_one

    prepare_one(what, overrides or [], data, workers)


@command(app)
def slurm(
    *,
    study: opt.StudyArgument,
    overrides: opt.Overrides = None,
    nodes: Annotated[int, typer.Option("--nodes", min=1, metavar="N", help="Machines.")] = 1,
    cpus: Annotated[int, typer.Option("--cpus", min=1, metavar="N", help="CPUs of each machine.")] = 4,
    gpus: Annotated[int, typer.Option("--gpus", min=0, metavar="N", help="GPUs of each machine.")] = 0,
    time: Annotated[str, typer.Option("--time", metavar="TIME", help="Limit, as Slurm takes it.")] = "04:00:00",
    partition: Annotated[str | None, typer.Option("--partition", metavar="NAME", help="Slurm partition.")] = None,
    gpus_per_stage: opt.GpusOption = None,
    work: opt.WorkOptions,
    folders: opt.FolderOptions,
    reading: opt.StudyOptions,
) -> None:
    """Print a batch file that performs a study on Slurm. It starts Ray inside an allocation."""
    from headstart.verbs.slurm import batch_file

    places: dict[str, Any] = {"nodes": nodes, "cpus": cpus, "gpus": gpus, "time": time, "partition": partition}
    text = batch_file(study, overrides or [], folders, reading, gpus_per_stage, work, **places)
    typer.echo(text, nl=False)


@command(app)
def schema(plugin: opt.PluginOption = None) -> None:
    """Print the JSON schema of a study file (for editors)."""
    from json import dumps

    from headstart.plugins import load_plugins
    from headstart.study.language.schema import study_schema

    load_plugins(plugin or ())
    typer.echo(dumps(study_schema(), indent=2))


@command(app)
def doctor(*, folders: opt.FolderOptions) -> None:
    """Report versions, devices and folders of this machine."""
    from headstart.verbs.checks import examine_machine

    raise typer.Exit(examine_machine(folders.store, folders.data))


class _Escaped(logging.Formatter):
    """Messages without what a terminal would act on."""

    def format(self, record: logging.LogRecord) -> str:
        """The message."""
        return escaped(super().format(record))


@contextmanager
def uncollected() -> Iterator[None]:
    """Python's search for cycles is off: in the imports and objects of a plan, which last, it takes 0.5 s."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def interrupt(number: int, frame: FrameType | None) -> None:
    """What Ctrl-C does: it ends what is done; within an import a moment later, since Python passes over an exception in
    what that calls at the end of a module.

    Raises: KeyboardInterrupt.
    """
    if frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        threading.Timer(IMPORTED, os.kill, (os.getpid(), number)).start()
        return
    raise KeyboardInterrupt


def _check_surroundings() -> None:
    """Raises: BadInput where the working directory is gone, or SOURCE_DATE_EPOCH is no number: the libraries would end
    in errors of their own."""
    if not (date := os.environ.get("SOURCE_DATE_EPOCH", "0")).strip().lstrip("+-").isdecimal():
        raise BadInput(f"SOURCE_DATE_EPOCH: {date!r} is not a whole number of seconds; set one, or unset it")
    try:
        os.getcwd()
    except OSError:
        raise BadInput("the working directory is gone; go to another one (`cd`), and give the command again") from None


def main(argv: list[str] | None = None) -> None:
    """Entry point. Exit codes: 0 done, 1 some stages failed or no room on a disk, 2 bad input, 130 interrupted."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Escaped())
    if argv is None:  # this process is the command: to look for cycles at its end takes 0.8 s with all libraries
        atexit.register(gc.freeze)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # as it is not where nobody can press Ctrl-C
            signal.signal(signal.SIGINT, interrupt)
    open_streams()
    follow_quota()
    try:
        _check_surroundings()
        verbs = refuse_repeats(typer.main.get_command(app))
        with typed(sys.argv[1:] if argv is None else argv):
            code: Any = verbs.main(args=argv, prog_name="headstart", standalone_mode=False)
    except (BrokenPipeError, SystemExit) as end:  # who read the output has stopped reading, as `head` does
        if isinstance(end, SystemExit) and not isinstance(end.__context__, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Exception as error:
        try:
            from headstart.verbs.terminal import print_error

            code = print_error(error)
        except MemoryError:  # there is not even enough to import that
            sys.stderr.write(f"headstart: {NO_MEMORY}\n")
            code = 1
        if code is None:
            raise
    raise SystemExit(code if isinstance(code, int) else 0)
