"""`bench mixers` and `bench train`: measure, print a table, and write it with its JSON and picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from headstart.bench import mixers, pages, train
from headstart.bench.machine import devices, sentence, setting
from headstart.bench.train import read_models
from headstart.runner.machine import choose_device
from headstart.store import publish, publish_json
from headstart.verbs.terminal import console, table, writable_folder

T = TypeVar("T")


def bench_mixers(
    names: str | None,
    own: str | None,
    plugins: Sequence[str],
    lengths: str,
    width: int,
    batch: int,
    device: str,
    threads: int,
    limit: float,
    out: str,
) -> None:
    """Every mixer at every length."""
    at, chosen = mixers.read_lengths(lengths), mixers.read_mixers(names, own, plugins)
    mixers.check_width(list(chosen), width)
    folder, places = writable_folder("-o", out), devices(choose_device(device), device)
    where = [setting(place, threads) for place in places]
    cases = [
        mixers.Case(name, length, place, threads, width, batch, given)
        for place in places
        for name, given in chosen.items()
        for length in at
    ]
    cells = list(_with_bar(mixers.survey(cases, limit), len(cases), "cells"))
    made = pages.mixer_table(cells)
    text = f"D {width}, batch {batch}. {pages.MIXERS_TEXT}"
    _print(where, [made], [text])
    document = {"width": width, "batch": batch, "rows": [asdict(cell) for cell in cells]}
    _write(
        folder,
        "mixers",
        "Mixers: time and memory against length",
        where,
        [text, pages.markdown(made)],
        document,
        _picture(folder, cells),
    )


def bench_train(models: str, device: str, threads: int, limit: float, out: str) -> None:
    """Training steps beside a plain loop."""
    names = read_models(models)
    folder, places = writable_folder("-o", out), devices(choose_device(device), device)
    where = [setting(place, threads) for place in places]
    measured = (speed for place in places for speed in train.survey(names, place, threads, limit))
    speeds = list(_with_bar(measured, len(names) * len(places), "models"))
    tables, peaks = [pages.train_table(speeds), pages.share_table(speeds)], pages.peaks(speeds)
    _print(where, tables, [peaks, pages.TRAIN_TEXT])
    _write(
        folder,
        "train",
        "Training: tokens per second beside a plain loop",
        where,
        [
            pages.TRAIN_TEXT,
            pages.markdown(tables[0]),
            peaks,
            "Where the time of a step of ours goes:",
            pages.markdown(tables[1]),
        ],
        {
            "rows": [
                {**asdict(one), "tokens_per_second": one.tokens_per_second, "share_of_peak": one.share_of_peak}
                for one in speeds
            ]
        },
        None,
    )


def _with_bar(found: Iterable[T], total: int, what: str) -> Iterator[T]:
    out = console(stderr=True)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=out, disable=not out.is_terminal
    ) as bar:
        line = bar.add_task(f"measuring {what}", total=total)
        for one in found:
            bar.advance(line)
            yield one


def _print(where: list[dict[str, Any]], tables: list[pages.Table], texts: list[str]) -> None:
    out = console()
    for place in where:
        out.print(sentence(place))
    for heads, rows in tables:
        out.print(table(heads, rows, right=range(1, len(heads))))
    for text in texts:
        out.print(text)


def _picture(folder: Path, cells: list[mixers.Cell]) -> str | None:
    """Draw time against length; the name of the file, or None where nothing was timed."""
    from headstart.bench.pages import times
    from headstart.report.figures.style import svg

    figure = times(cells)
    if figure is None:
        return None
    publish(folder / "mixers.svg", svg(figure))
    return "mixers.svg"


def _write(
    folder: Path,
    name: str,
    title: str,
    where: list[dict[str, Any]],
    texts: list[str],
    document: dict[str, Any],
    picture: str | None,
) -> None:
    shown = [f"![Seconds of a step against length]({picture})"] if picture else []
    page = [
        f"# {title}",
        *(f"Measured {sentence(place)}." for place in where),
        *texts,
        *shown,
        f"`headstart bench {name} --threads {where[0]['threads']}` makes this page.",
    ]
    publish(folder / f"{name}.md", ("\n\n".join(page) + "\n").encode())
    publish_json(folder / f"{name}.json", {"format": 1, "measured": where, **document})
    files = [f"{name}.md", f"{name}.json", *([picture] if picture else [])]
    console().print(f"wrote {', '.join(str(folder / file) for file in files)}")
