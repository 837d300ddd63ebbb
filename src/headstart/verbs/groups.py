"""Verbs that have verbs of their own: `bench` and `store`. Heavy imports wait for their verb."""

from __future__ import annotations

from typing import Annotated

import typer

from headstart.verbs import options as opt
from headstart.verbs.verb import command

bench = typer.Typer(no_args_is_help=True, help="Measure time and memory of mixers.")
store_verbs = typer.Typer(no_args_is_help=True, help="Clean, pack, unpack and verify the folder of stages.")

BenchOutOption = Annotated[
    str, typer.Option("-o", "--out", metavar="FOLDER", help="Where tables, JSON and plot are written.")
]
BenchDeviceOption = Annotated[
    str, typer.Option("--device", metavar="NAME", help="cpu, cuda, cuda:N, or auto: the CPU, and any GPU beside it.")
]
LimitOption = Annotated[
    float, typer.Option("--limit", min=1, metavar="SECONDS", help="Longest that one process may take.")
]


@command(bench, "mixers")
def bench_mixers_verb(
    mixers: Annotated[
        str | None, typer.Option("--mixers", metavar="A,B", help="Only these (default: all; `headstart ls mixers`).")
    ] = None,
    mixer: opt.OneMixerOption = None,
    plugin: opt.PluginOption = None,
    lengths: Annotated[str, typer.Option("--lengths", metavar="L,L", help="Lengths.")] = "256,1024,4096,16384",
    width: Annotated[int, typer.Option("--width", metavar="D", help="Width of the layer.")] = 128,
    batch: Annotated[int, typer.Option("--batch", min=1, metavar="B", help="Sequences at a time.")] = 1,
    device: BenchDeviceOption = "auto",
    threads: opt.ThreadsOption = 1,
    limit: LimitOption = 120.0,
    out: BenchOutOption = "bench",
) -> None:
    """Measure a step of every mixer at several lengths. Prints parameters, FLOPs, time and memory."""
    from headstart.verbs.bench import bench_mixers

    bench_mixers(mixers, mixer, plugin or [], lengths, width, batch, device, threads, limit, out)


@command(store_verbs)
def gc(
    *,
    studies: Annotated[
        list[str] | None, typer.Argument(metavar="[STUDY ...]", help="Studies whose stages stay, at every scale.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove it; without this, nothing is removed.")] = False,
    recent: Annotated[
        bool, typer.Option("--recent", help="Also unfinished stages that changed within the last day.")
    ] = False,
    folders: opt.FolderOptions,
    plugin: opt.PluginOption = None,
) -> None:
    """Show and remove stages that no study needs. Those of named studies and of the store's reports stay."""
    from headstart.verbs.store import clean_store

    clean_store(studies or [], folders.store, folders.data, plugin or [], yes=yes, recent=recent)


@command(store_verbs)
def pack(
    *,
    study: opt.StudyArgument,
    out: Annotated[str, typer.Option("-o", "--out", metavar="FILE", help="The file, a zip.")],
    overrides: opt.Overrides = None,
    folders: opt.FolderOptions,
    reading: opt.StudyOptions,
) -> None:
    """Write a study's finished stages into one file. The study and a digest of each file go with them."""
    from headstart.verbs.store import pack_study

    pack_study(opt.study_of(study, overrides, folders, reading, absent="open"), out)


@command(store_verbs)
def unpack(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file that `headstart store pack` wrote.")],
    store: opt.StoreOption = None,
) -> None:
    """Take the stages of a packed file into the store. They are checked; a stage that is there is not replaced."""
    from headstart.verbs.store import unpack_file

    raise typer.Exit(unpack_file(file, store))


@command(store_verbs)
def verify(
    stages: Annotated[
        list[str] | None, typer.Argument(metavar="[ID ...]", help="Stages, by the first digits (default: all).")
    ] = None,
    store: opt.StoreOption = None,
) -> None:
    """Find damaged stages. Every file of the finished ones is compared with its digest (exit code 1: some differ)."""
    from headstart.verbs.store import verify_store

    raise typer.Exit(verify_store(stages or [], store))
