"""`fit`: from a person's own file to a table, a verdict and a model folder, on one screen."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from headstart import disk, words
from headstart.atomic import holds_files, publish
from headstart.data import LayoutSpec
from headstart.data.splits import ACROSS
from headstart.documents import from_json
from headstart.errors import BadInput, Damaged, one_line, reworded
from headstart.fit.arms import check_names
from headstart.fit.plan_file import PLAN
from headstart.limits import give_back
from headstart.plugins import load_plugins, own_networks
from headstart.request.settings import DEFAULT_TIME, FitSettings
from headstart.request.source import read_source
from headstart.runner.events import Event, Failed
from headstart.runner.machine import choose_device, keep_freed_memory
from headstart.store import store_folder
from headstart.store.plain import read_plain
from headstart.tasks.own import FILE_FIELDS
from headstart.verbs.data import layout_of, print_card
from headstart.verbs.options import ArmOptions, FitOptions, LayoutOptions, WorkOptions
from headstart.verbs.predict import check_skops, export_estimator
from headstart.verbs.pulse import Pulse
from headstart.verbs.terminal import console, hanging, writable_folder

if TYPE_CHECKING:
    from headstart.data import Card
    from headstart.fit.choose import Chosen, Listener
    from headstart.fit.perform import First
    from headstart.fit.plan import Planned
    from headstart.fit.prepared import Fit
    from headstart.fitted.outcome import Outcome

CONFIG = "config.json"
EARLY_FROM, EARLY, MORE_UNTIL = 30.0, 0.15, 0.3
"""Seconds from which on a first model is made of a smaller part of what is too large; the share of them for which that
part is as large as it may be; and the share that may be gone when more is read."""
LEAST_TIME = 5.0
"""Seconds of the processor that libraries, a first model and the page take: more than a shorter limit."""
SHORT_TEXT = (
    f"libraries, a first model and the page alone take about {LEAST_TIME:.0f} s of one processor; the fit ends after "
    "this limit, with a model of few rows"
)
"""What is said of less, before anything is read."""
SHOWN_NOTES = 6
"""Notes that are printed; the page has all."""
_FIELD = re.compile(
    r"\btask\.(val_share|test_share|val|test|unlabelled|folds|split_seed|split)\b"
    r"|(?:\btask: )?\b(val_share|test_share)\b|^(backbone|start)(?=: )"
)
PAGE_FILE, MODEL_CARD, STUDY_FILE, EXPORTED_FILE = "report.html", "README.md", "study.toml", "model.skops"


def split_settings(settings: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """`layout.NAME=value` words (`layout.` may be left out), and the others, which set the study of the networks."""
    layout = [word for word in settings if word.startswith("layout.") or word.split("=")[0] in LayoutSpec.model_fields]
    return layout, tuple(word for word in settings if word not in layout)


def fit_file(
    path: str,
    out: str,
    flags: LayoutOptions,
    overrides: Sequence[str],
    options: FitOptions,
    arms: ArmOptions,
    work: WorkOptions,
    *,
    store: str | None,
    device: str,
    dry_run: bool,
    show_examples: bool,
    plugins: Sequence[str] = (),
    export: str | None = None,
) -> int:
    """Fit a file. Returns the exit code. Raises: BadInput before anything is trained, where something is wrong."""
    begun = time.monotonic()
    if export is not None:
        _check_export(export, plugins)
    models = own_networks(load_plugins(plugins))
    of_layout, of_study = split_settings(overrides)
    wanted = _settings(layout_of(flags, of_layout), of_study, options, arms, models)
    folder, root = Path(out), Path(store_folder(store))
    screen = console()
    if not dry_run:
        _usable_folder(folder)
    screen.print(f"store {root}")
    writable_folder("--store", root)
    if wanted.time is not None and wanted.time < LEAST_TIME and not dry_run:
        screen.print(Text(f"--time {words.duration(wanted.time)}: {SHORT_TEXT}"))
    # The file is read and accepted before torch is loaded: a mistake in it is reported within a second.
    pulse = Pulse(wanted.time, begun)
    early = not dry_run and (wanted.time or 0) >= EARLY_FROM
    soon = replace(wanted, time=EARLY * (wanted.time or 0)) if early else wanted
    with _in_options(), pulse.at(f"reading {Path(path).name}"):
        check_names(wanted)
        source = read_source(path, soon, root)
    if options.time is None and choose_device(device) != "cpu":
        wanted = replace(wanted, time=None)
    with pulse.at("loading libraries"):
        from headstart.core import Runtime
        from headstart.fit import perform
        from headstart.fit.choose import Piece, choose, compare
        from headstart.fit.prepared import prepare

    with _in_options(), pulse.at("splitting and preparing the sequences"):
        fit = prepare(source, wanted, root, folder, device, time.monotonic() - begun)
    slots = work.workers
    if slots is None:
        slots = Runtime.slots(device, [weights.fields for weights in fit.basis.read])
    if dry_run:
        print_card(fit.card)
        screen.print()
        _print_plan(fit, perform.plan(fit, max(slots, 1), perform.forecast(fit), keep=False), slots)
        screen.print("  - this time excludes models without a network, which are fitted first")
        return 0
    small = fit if soon.time != wanted.time and source.part is not None else None
    if small is None:
        _print_head(fit.card)
    failures, heard = list[Failed](), list[str]()

    def hear(word: str | Event) -> None:
        if isinstance(word, Failed):
            failures.append(word)
        elif isinstance(word, str) and not (heard and word.startswith(perform.USABLE)):
            if word.startswith(perform.USABLE):
                heard.append(word)
            pulse.begins("")
            screen.print(Text(word))
            pulse.begins("fitting models")
            if isinstance(word, Piece):
                pulse.begins(word.removesuffix(" ..."), word.seconds)

    interruption: KeyboardInterrupt | None = None
    planned = None
    try:
        if small is not None:
            with pulse.at(f"a first model of {len(source.sequences):,} sequences"):
                perform.fit_first(small, hear, once=True)
            if wanted.time is None or time.monotonic() - begun < MORE_UNTIL * wanted.time:
                with _in_options(), pulse.at(f"reading more of {Path(path).name}"):
                    source = read_source(path, wanted, root)
                    fit = prepare(source, wanted, root, folder, device, time.monotonic() - begun)
            _print_head(fit.card)
        with pulse.at("models without gradients"):
            first = perform.fit_first(fit, hear)
        with pulse.at("planning what the time has room for"):
            planned = perform.plan(fit, max(slots, 1), first)
        _print_plan(fit, planned, slots)
        _train(fit, planned, first, hear, slots, work.threads)
        with pulse.at("comparing models"):
            chosen = choose(fit, planned.study, hear, work.threads)
        outcome = _put_together(fit, planned, chosen, failures, folder, pulse)
    except KeyboardInterrupt as error:
        usable = perform.usable(fit)
        if usable is None and small is not None:
            fit, usable = small, perform.usable(small)
        if usable is None:
            raise
        interruption = error
        screen.print(Text("interrupted: what is finished is written as a model (Ctrl-C again stops at once)"))
        planned = planned or perform.plan(fit, max(slots, 1), usable, keep=False, timed=False)
        chosen = compare(fit, planned.study)
        outcome = _put_together(fit, planned, chosen, failures, folder, pulse, interrupted=True)
    give_back()
    try:
        with pulse.at("drawing the page"):
            fault = _add_page(fit, chosen, outcome, folder, show_examples)
    except KeyboardInterrupt as error:
        interruption, fault = error, "interrupted"
    for text in causes(failures):
        screen.print(Text(text))
    _print_outcome(outcome, folder)
    if fault:
        screen.print(Text(f"the page could not be drawn ({fault}); the model is saved, and predicts without it"))
    if export is not None:
        export_estimator(folder, folder / EXPORTED_FILE)
    if interruption is not None:
        raise interruption
    return 1 if perform.broken_of(failures) or fault else 0


def _put_together(
    fit: Fit,
    planned: Planned,
    chosen: Chosen,
    failures: Sequence[Failed],
    folder: Path,
    pulse: Pulse,
    *,
    interrupted: bool = False,
) -> Outcome:
    """What is served, saved as a model; interrupted: in the least time."""
    from headstart.fit import perform
    from headstart.fit.serving import serve
    from headstart.serve.folder import save_model

    give_back()
    with pulse.at("putting the model together"):
        outcome = serve(fit, planned, chosen, failures, interrupted=interrupted)
        save_model(outcome.served, folder, {STUDY_FILE: perform.study_file(fit, planned, chosen).encode()})
    return outcome


def _add_page(fit: Fit, chosen: Chosen, outcome: Outcome, folder: Path, show_examples: bool) -> str:
    """Write the page and the card beside a model that is saved. What went wrong, "" where nothing did: a fault in a
    drawing never costs the model."""
    from headstart.fit import perform
    from headstart.fit.serving import recordings
    from headstart.fitted.card import model_card
    from headstart.fitted.page import write_page

    try:
        examples = perform.examples(fit, chosen) if show_examples else None
        drawn = recordings(fit, chosen, outcome) if show_examples else None
        texts = {PAGE_FILE: write_page(outcome, examples, drawn), MODEL_CARD: model_card(outcome)}
        for name, text in texts.items():
            publish(folder / name, text.encode())
    except (Exception, KeyboardInterrupt) as error:
        for name in (PAGE_FILE, MODEL_CARD):  # of an earlier fit
            disk.unlink(folder / name, missing_ok=True)
        if isinstance(error, KeyboardInterrupt):
            raise
        return one_line(error, 200)
    return ""


def causes(failures: Sequence[Failed]) -> list[str]:
    """Why stages failed: each cause once, with how many failed of it."""
    counts = Counter(event.message.partition("\n")[0] for event in failures if event.tried)
    return [f"{words.many(count, 'stage')} failed: {cause}" for cause, count in counts.items()]


@contextmanager
def _in_options() -> Iterator[None]:
    """Name what a person gave: `--val-share`, where an error names the field of the task."""
    try:
        yield
    except BadInput as error:
        text = _FIELD.sub(lambda match: f"--{next(filter(None, match.groups())).replace('_', '-')}", str(error))
        raise reworded(error, text.replace("task.file", "the file").replace("by_group=false", "--no-group")) from None


def _check_export(export: str, plugins: Sequence[str]) -> None:
    """Raises: BadInput where no such file can be written after the fit."""
    if export != "sklearn":
        raise BadInput(f"--export: {export!r} is not known; give sklearn (`headstart export` writes ONNX)")
    if plugins:
        raise BadInput("--export: a plugin's model has no file for skops, which cannot name it; leave one of both out")
    check_skops()


def _settings(
    layout: LayoutSpec, of_study: tuple[str, ...], options: FitOptions, arms: ArmOptions, models: tuple[str, ...]
) -> FitSettings:
    """The settings as the command line gave them, with the time limit of a CPU where none was given."""
    values: dict[str, Any] = {**vars(options), **vars(arms)}
    for name in FILE_FIELDS[1:]:
        if values[name] is not None and not (file := Path(values[name])).exists():
            raise BadInput(f"--{name}: {str(file)!r} does not exist; give the path of a file")
    files = {name: Path(values[name]) for name in FILE_FIELDS[1:] if values[name] is not None}
    values |= {**files, "by_group": not values.pop("no_group")}
    values["time"] = DEFAULT_TIME if options.time is None else words.read_time(options.time)
    values["seeds"] = None if options.seeds is None else tuple(range(options.seeds))
    return FitSettings(layout=layout, overrides=of_study, models=models, **values)


def _train(fit: Fit, planned: Planned, first: First, hear: Listener, slots: int, threads: int) -> None:
    """Train with a progress display."""
    from headstart.fit import perform
    from headstart.fit.choose import results_of
    from headstart.fitted.wording import in_plain_words
    from headstart.report.tables.report_table import to_rich
    from headstart.report.tables.scores import make_table
    from headstart.study.language.costs import speed_here
    from headstart.study.language.estimate import survey
    from headstart.verbs.display import watch

    study = planned.study
    if study.networks:
        keep_freed_memory()  # not before: tables of features are large, few, and stand one after another

    def table() -> Any:
        return to_rich(in_plain_words(make_table(results_of(fit, study))))

    with watch(study, fit.store, survey(study), slots, speed_here(), table) as display:

        def show(word: str | Event) -> None:
            hear(word)
            if isinstance(word, Event):
                display.show(word)

        perform.train(fit, planned, first, show, slots, threads)
    if study.networks:
        keep_freed_memory(False)  # what serves may be tables again
        give_back()


def _usable_folder(folder: Path) -> None:
    """The model's folder, refused before anything is trained where it is something else or cannot be written."""
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"-o: {str(folder)!r} is a file; name a folder")
    if holds_files(folder) and not _is_ours(folder):
        raise BadInput(f"-o: {str(folder)!r} holds other things; name a new folder, or an empty one")
    absent = [path for path in (folder, *folder.absolute().parents) if not path.exists()]
    writable_folder("-o", folder)
    for path in absent:  # it comes back with the first file in it: a fit that is refused leaves no empty folder
        disk.remove_folder(path)


def _is_ours(folder: Path) -> bool:
    """Whether an earlier fit made this folder, and no other program."""
    for name, kind in ((PLAN, "headstart plan"), (CONFIG, "headstart model")):
        with suppress(OSError, ValueError, Damaged):
            document = from_json(read_plain(folder / name))
            if isinstance(document, dict) and document.get("kind") == kind:
                return True
    return False


def _print_head(card: Card) -> None:
    grid = Table.grid(padding=(0, 2))
    for name, text in card.head:
        grid.add_row(Text(name), Text(text))
    console().print(grid)
    for finding in card.findings[:SHOWN_NOTES]:
        console().print(Text(f"  ! {finding}"))
    if len(card.findings) > SHOWN_NOTES:
        console().print(Text(f"  ! {len(card.findings) - SHOWN_NOTES} more: headstart show FILE"))


def _print_plan(fit: Fit, planned: Planned, slots: int) -> None:
    screen, plan = console(), planned.plan
    screen.print(Text("plan:"))
    for line in plan.texts:
        screen.print(hanging(line))
    for note in fit.task.notes:
        if ACROSS in note:
            screen.print(hanging(f"scores will be too good: {note}"))
    at_once = f", {slots} networks at a time" if slots > 1 else ""
    if plan.seconds:
        limit = fit.settings.time or plan.seconds
        cut = f", cut off at the limit of {words.duration(limit)}" if plan.seconds > limit else ""
        screen.print(hanging(f"about {words.duration(plan.seconds)} of training on {fit.device}{at_once}{cut}"))


def _print_outcome(outcome: Outcome, folder: Path) -> None:
    from headstart.fitted.wording import plugin_options
    from headstart.report.tables.report_table import to_rich

    screen = console()
    screen.print()
    screen.print(Text(outcome.answer, style="bold"))
    screen.print(to_rich(outcome.leaderboard().table()))
    notes = list(dict.fromkeys([*outcome.gravest, *outcome.notes]))
    for note in notes[:SHOWN_NOTES]:
        screen.print(hanging(note, "- "))
    if len(notes) > SHOWN_NOTES:
        screen.print(f"- {len(notes) - SHOWN_NOTES} more on the page")
    screen.print()
    page = f"page {folder / PAGE_FILE}\n" if (folder / PAGE_FILE).is_file() else ""
    screen.print(
        Text(
            f"model {folder}\n{page}study {folder / STUDY_FILE}\n"
            f"next  headstart predict {folder} NEW_FILE -o predictions.csv"
            f"{plugin_options(outcome.served.config, folder / 'source')}"
        )
    )
