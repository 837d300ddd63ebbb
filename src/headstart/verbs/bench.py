"""`bench mixers`: measure, print a table, and write it with its JSON and picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from headstart.atomic import publish
from headstart.bench import mixers, pages
from headstart.bench.machine import devices, sentence, setting
from headstart.report.figures.style import svg
from headstart.runner.machine import choose_device
from headstart.store import publish_json
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
    folder, targets = writable_folder("-o", out), devices(choose_device(device), device)
    where = [setting(target, threads) for target in targets]
    cases = [
        mixers.BenchCase(name, length, target, threads, width, batch, source)
        for target in targets
        for name, source in chosen.items()
        for length in at
    ]
    cells = list(_with_bar(mixers.survey(cases, limit), len(cases), "cells"))
    blocks: list[str | pages.PageTable] = [f"D {width}, batch {batch}. {pages.MIXERS_TEXT}", pages.mixer_table(cells)]
    if figure := pages.times(cells):
        publish(folder / "mixers.svg", svg(figure))
        blocks.append("![Seconds of a step against length](mixers.svg)")
    document = {"width": width, "batch": batch, "rows": [asdict(cell) for cell in cells]}
    _publish(folder, "mixers", "Mixers: time and memory against length", where, blocks, document)


def _with_bar(results: Iterable[T], total: int, what: str) -> Iterator[T]:
    out = console(stderr=True)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=out, disable=not out.is_terminal
    ) as bar:
        line = bar.add_task(f"measuring {what}", total=total)
        for result in results:
            bar.advance(line)
            yield result


def _publish(
    folder: Path,
    name: str,
    title: str,
    where: list[dict[str, Any]],
    blocks: Sequence[str | pages.PageTable],
    document: dict[str, Any],
) -> None:
    """Print texts and tables in their order, and write them as a page, with the numbers as JSON beside it."""
    out, page, files = console(), [f"# {title}"], [f"{name}.md", f"{name}.json"]
    for block in (*(f"Measured {sentence(facts)}." for facts in where), *blocks):
        page.append(block if isinstance(block, str) else pages.markdown(block))
        if not isinstance(block, str):
            out.print(table(*block, right=range(1, len(block[0]))))
        elif block.startswith("!["):
            files.append(f"{name}.svg")
        else:
            out.print(block)
    page.append(f"`headstart bench {name} --threads {where[0]['threads']}` makes this page.")
    publish(folder / f"{name}.md", ("\n\n".join(page) + "\n").encode())
    publish_json(folder / f"{name}.json", {"format": 1, "measured": where, **document})
    out.print(f"wrote {', '.join(str(folder / file) for file in files)}")
