"""The command line: words to a study, a store and a runtime; answers to text. Heavy imports wait for their verb."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated, Any

import typer

from headstart.errors import BadInput
from headstart.text import escaped
from headstart.verbs import options as opt
from headstart.verbs.data import layout_options
from headstart.verbs.groups import bench, store_verbs

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


@opt.lasting_command(app)
def demo(
    store: opt.StoreOption = None,
    workers: opt.WorkersOption = None,
    threads: opt.ThreadsOption = 1,
    json: opt.JsonOption = None,
) -> None:
    """Compare training from scratch and self-pretraining in minutes. Both spend equal FLOPs; 40 labels."""
    from headstart.api import Study
    from headstart.verbs.perform import Outputs, run_study

    study = Study("few-labels", store=store)
    done = run_study(study, study.runtime(workers=workers, threads=threads), Outputs(json))
    typer.echo(
        "\nTry next:\n  headstart show sources symbols=8 min_length=32 max_length=32\n"
        "  headstart run few-labels task.labelled=200 'seed=[0,1,2]'",
        err=json == "-",
    )
    raise typer.Exit(done)


@opt.lasting_command(app)
def run(
    study: opt.StudyArgument,
    overrides: opt.Overrides = None,
    dry_run: opt.DryRunOption = False,
    workers: opt.WorkersOption = None,
    threads: opt.ThreadsOption = 1,
    device: opt.DeviceOption = "auto",
    stack: opt.StackOption = "auto",
    on: opt.OnOption = "",
    gpus_per_stage: opt.GpusOption = None,
    ranks: opt.RanksOption = None,
    store: opt.StoreOption = None,
    data: opt.DataOption = None,
    _weights: opt.WeightsOption = None,
    json: opt.JsonOption = None,
    tidy: opt.TidyOption = None,
    figure_width: opt.WidthOption = None,
    mixer: opt.MixerOption = None,
    plugin: opt.PluginOption = None,
    scale: opt.ScaleOption = None,
    pivot: opt.PivotOption = False,
    track: opt.TrackOption = None,
) -> None:
    """Run a study: train what is missing, then print its table."""
    from headstart.api import Study
    from headstart.runner.stacks import read_stack
    from headstart.verbs.dry_run import dry_run_study
    from headstart.verbs.perform import Outputs, run_study

    ways: dict[str, Any] = {"on": on, "gpus_per_stage": gpus_per_stage, "ranks": ranks, "stack": read_stack(stack)}
    settings = {"store": store, "data": data, "mixer": mixer, "scale": scale}
    bound = Study(study, overrides or [], plugins=plugin or [], absent="open" if dry_run else "refuse", **settings)
    if dry_run and on:
        raise BadInput(f"--on: {on!r}: --dry-run estimates for this machine and trains nothing; leave one out")
    runtime = bound.runtime(workers=workers, threads=threads, device=device, **ways)
    outputs = Outputs(json, tidy, figure_width, pivot=pivot)
    if dry_run:
        return dry_run_study(bound, runtime)
    raise typer.Exit(run_study(bound, runtime, outputs, track or []))


@opt.lasting_command(app)
def report(
    words: Annotated[list[str] | None, typer.Argument(metavar="[STUDY [name=value ...]]", help="As for `run`.")] = None,
    files: Annotated[
        list[str] | None, typer.Option("--from", metavar="FILE ...", help="Files written by --json.")
    ] = None,
    out: Annotated[
        str | None, typer.Option("-o", "--out", metavar="FOLDER|NAME.md", help="Folder or .md file.")
    ] = None,
    store: opt.StoreOption = None,
    data: opt.DataOption = None,
    _weights: opt.WeightsOption = None,
    json: opt.JsonOption = None,
    tidy: opt.TidyOption = None,
    figure_width: opt.WidthOption = None,
    mixer: opt.MixerOption = None,
    plugin: opt.PluginOption = None,
    scale: opt.ScaleOption = None,
    pivot: opt.PivotOption = False,
    pool: Annotated[bool, typer.Option("--pool", help="Pool gains over the files of --from.")] = False,
    checklist: Annotated[bool, typer.Option("--checklist", help="Print the checklist of conferences.")] = False,
) -> None:
    """Print a study's table and write its page; train nothing. It reads the store, or files of results."""
    from headstart.verbs.perform import Outputs, report

    settings = {"store": store, "data": data, "mixer": mixer, "scale": scale}
    outputs = Outputs(json, tidy, figure_width, out, pivot, pool)
    report(words or [], files or [], settings, plugin or [], outputs, checklist)


@app.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A stage's id, a study, a report's folder or JSON.")],
    second: Annotated[str, typer.Argument(metavar="B", help="What it is compared with, of the same sort.")],
    store: opt.StoreOption = None,
    data: opt.DataOption = None,
    _weights: opt.WeightsOption = None,
    scale: opt.ScaleOption = None,
    plugin: opt.PluginOption = None,
) -> None:
    """Show two stages, studies or reports side by side. It shows settings, scores and curves."""
    from headstart.verbs.compare import print_comparison

    print_comparison(first, second, store, data, scale, plugin or ())


@app.command()
@layout_options
def predict(
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
    use: opt.UseOption = None,
    plugin: opt.PluginOption = None,
    layout: Any = None,
) -> None:
    """Predict the sequences of a file with a fitted model. Ids and order are those of the file."""
    from headstart.verbs.predict import predict_file

    predict_file(model, file, out, use, layout, settings or [], plugin or [], confidence, explain)


@app.command()
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


@opt.lasting_command(app)
@layout_options
def fit(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Sequences with labels: a file, or a folder.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[name=value ...]", help="layout.NAME=value, or settings of the networks' study."),
    ] = None,
    out: Annotated[str, typer.Option("-o", "--out", metavar="FOLDER", help="Where the model goes.")] = "model",
    layout: Any = None,
    val: Annotated[
        str | None, typer.Option("--val", metavar="FILE", help="Sequences to choose on (default: a fifth is held out).")
    ] = None,
    test: Annotated[
        str | None, typer.Option("--test", metavar="FILE", help="Test sequences (default: a fifth is held out).")
    ] = None,
    unlabelled: Annotated[
        str | None, typer.Option("--unlabelled", metavar="FILE", help="More sequences, for self-pretraining alone.")
    ] = None,
    time: Annotated[
        str | None, typer.Option("--time", metavar="TIME", help="Limit for the whole fit: 90s, 5m, 1h (5m on a CPU).")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, max=100, metavar="N", help="Number of seeds (3, or K).")
    ] = None,
    folds: Annotated[int | None, typer.Option("--folds", min=1, metavar="K", help="Cross-validation folds.")] = None,
    balanced: Annotated[bool, typer.Option("--balanced", help="Weight all classes equally.")] = False,
    serve: opt.ServeOption = "auto",
    split_seed: Annotated[int, typer.Option("--split-seed", metavar="N", help="Another draw of the splits.")] = 0,
    val_share: Annotated[float, typer.Option("--val-share", metavar="SHARE", help="Of the rows, to choose on.")] = 0.2,
    split: opt.SplitOption = "random",
    test_share: opt.TestShareOption = 0.2,
    no_group: Annotated[bool, typer.Option("--no-group", help="Split rows of one group apart.")] = False,
    pretrain: opt.PretrainOption = None,
    augment: opt.AugmentOption = None,
    show_examples: Annotated[bool, typer.Option("--show-examples", help="Show sequences on the page.")] = False,
    export: Annotated[
        str | None, typer.Option("--export", metavar="sklearn", help="Also FOLDER/model.skops, for scikit-learn.")
    ] = None,
    dry_run: opt.DryRunOption = False,
    workers: opt.WorkersOption = None,
    threads: opt.ThreadsOption = 1,
    device: opt.DeviceOption = "auto",
    store: opt.StoreOption = None,
    plugin: opt.PluginOption = None,
    backbone: opt.BackboneOption = None,
    start: opt.StartOption = None,
    _weights: opt.WeightsOption = None,
) -> None:
    """Fit your own sequences and save the best model. Networks and simpler models are compared side by side."""
    from headstart.verbs.fit import fit_file

    settings: dict[str, Any] = {"val": val, "test": test, "unlabelled": unlabelled, "time": time, "seeds": seeds}
    settings |= {"folds": folds, "balanced": balanced, "serve": serve, "split_seed": split_seed, "val_share": val_share}
    settings |= {"split": split, "test_share": test_share, "by_group": not no_group, "pretrain": pretrain}
    settings |= {"backbone": backbone, "start": start, "augment": tuple(augment or ())}
    ways: dict[str, Any] = {"store": store, "workers": workers, "threads": threads, "device": device}
    ways |= {"dry_run": dry_run, "show_examples": show_examples, "plugins": plugin or [], "export": export}
    raise typer.Exit(fit_file(file, out, layout, overrides or [], settings, **ways))


@app.command()
def ls(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[tasks|mixers|checkpoints|studies|column=pattern ...]")
    ] = None,
    store: opt.StoreOption = None,
    data: opt.DataOption = None,
    _weights: opt.WeightsOption = None,
    json: opt.JsonOption = None,
) -> None:
    """List stages, tasks, mixers, checkpoints or studies. Of stages all, or those with arm=scratch, task=list*."""
    from headstart.verbs.look import print_listing

    print_listing(words or ["stages"], store, json, data)


@app.command()
@layout_options
def show(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="A stage's id, a study, a table or kind of one, a checkpoint, a file.")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[name=value ...]", help="Settings of a task (fraction=0.1), or of a file's layout."),
    ] = None,
    store: opt.StoreOption = None,
    data: opt.DataOption = None,
    _weights: opt.WeightsOption = None,
    layout: Any = None,
) -> None:
    """Show a stage, study, task, mixer, checkpoint or data file. `show optim` has the keys of the optimiser."""
    from headstart.verbs.look import print_one

    print_one(what, overrides or [], store, data, layout)


@app.command()
def check(
    what: Annotated[
        str | None,
        typer.Argument(metavar="[WHAT]", help="A study, a task, a mixer, a model of your own, or module:Class."),
    ] = None,
    overrides: opt.Overrides = None,
    data: opt.DataOption = None,
    _weights: opt.WeightsOption = None,
    mixer: opt.MixerOption = None,
    plugin: opt.PluginOption = None,
    scale: opt.ScaleOption = None,
) -> None:
    """Check a study, a task, a mixer or a model of your own. It reports what is wrong, and where."""
    from headstart.verbs.checks import check_one

    check_one(what, overrides or [], data, mixer, scale, plugin or [])


@app.command()
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


@app.command()
def slurm(
    study: opt.StudyArgument,
    overrides: opt.Overrides = None,
    nodes: Annotated[int, typer.Option("--nodes", min=1, metavar="N", help="Machines.")] = 1,
    cpus: Annotated[int, typer.Option("--cpus", min=1, metavar="N", help="CPUs of each machine.")] = 4,
    gpus: Annotated[int, typer.Option("--gpus", min=0, metavar="N", help="GPUs of each machine.")] = 0,
    time: Annotated[str, typer.Option("--time", metavar="TIME", help="Limit, as Slurm takes it.")] = "04:00:00",
    partition: Annotated[str | None, typer.Option("--partition", metavar="NAME", help="Slurm partition.")] = None,
    gpus_per_stage: opt.GpusOption = None,
    workers: opt.WorkersOption = None,
    threads: opt.ThreadsOption = 1,
    store: opt.StoreOption = None,
    data: opt.DataOption = None,
    weights: opt.WeightsOption = None,
    mixer: opt.MixerOption = None,
    plugin: opt.PluginOption = None,
    scale: opt.ScaleOption = None,
) -> None:
    """Print a batch file that performs a study on Slurm. It starts Ray inside an allocation."""
    from headstart.verbs.slurm import batch_file

    settings = {"store": store, "data": data, "mixer": mixer, "scale": scale}
    options = {"weights": weights, "gpus-per-stage": gpus_per_stage, "workers": workers, "threads": threads}
    places: dict[str, Any] = {"nodes": nodes, "cpus": cpus, "gpus": gpus, "time": time, "partition": partition}
    typer.echo(batch_file([study, *(overrides or [])], settings, plugin or [], options, **places), nl=False)


@app.command()
def schema() -> None:
    """Print the JSON schema of a study file (for editors)."""
    from json import dumps

    from headstart.study.language.schema import study_schema

    typer.echo(dumps(study_schema(), indent=2))


@app.command()
def doctor(store: opt.StoreOption = None, data: opt.DataOption = None, _weights: opt.WeightsOption = None) -> None:
    """Report versions, devices and folders of this machine."""
    from headstart.verbs.checks import examine_machine

    raise typer.Exit(examine_machine(store, data))


class _Escaped(logging.Formatter):
    """Messages without what a terminal would act on."""

    def format(self, record: logging.LogRecord) -> str:
        """The message."""
        return escaped(super().format(record))


def main(argv: list[str] | None = None) -> None:
    """Entry point. Exit codes: 0 done, 1 some stages failed or no room on a disk, 2 bad input, 130 interrupted."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Escaped())
    opt.open_streams()
    try:
        command = opt.refuse_repeats(typer.main.get_command(app))
        code: Any = command.main(args=argv, prog_name="headstart", standalone_mode=False)
    except BrokenPipeError:  # who read the output has stopped reading, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except Exception as error:
        from headstart.verbs.terminal import print_error

        if (code := print_error(error)) is None:
            raise
    raise SystemExit(code if isinstance(code, int) else 0)
