"""`run`, `demo`, `report` and `--dry-run`: a study from the command line to its table and page."""

from __future__ import annotations

import csv
import io
import json as json_module
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from headstart import disk
from headstart.api import Study
from headstart.atomic import publish
from headstart.errors import BadInput
from headstart.guard import guarded
from headstart.plugins import load_plugins
from headstart.report.checklist import checklist as filled_checklist
from headstart.report.content import Content, read_content
from headstart.report.tables.report_table import to_rich
from headstart.report.tables.scores import PAGE_ONLY, check_pivot, make_table
from headstart.runner.job import Runtime
from headstart.runner.machine import NO_COMMIT, choose_device, keep_freed_memory, release
from headstart.runner.perform import perform
from headstart.runner.ranks import check_ranks, follows
from headstart.spec import digest
from headstart.store import Store
from headstart.study.language.costs import speed_here
from headstart.study.language.estimate import probes
from headstart.study.language.files import publish_study
from headstart.study.language.plan import Plan
from headstart.study.language.scales import stand_in_told, stand_ins_told
from headstart.study.paper.snapshot import Snapshot, only_run, read_snapshot, take_snapshot
from headstart.study.results.columns import side_by_side
from headstart.study.results.results import Results
from headstart.text import escaped, json_lines, many
from headstart.tracking import Tracking
from headstart.verbs.checks import prepared_with_bar, print_precision
from headstart.verbs.compare import print_pooled
from headstart.verbs.display import watch
from headstart.verbs.options import FolderOptions, StudyOptions, inches, study_of
from headstart.verbs.terminal import check_replaceable, console, hanging, study_files, writable_file, writable_folder

if TYPE_CHECKING:
    from headstart.verbs.live import LivePage

PAGES = (".html", ".htm", ".pdf", ".tex", ".txt", ".csv", ".json")
"""Endings of files that a person may expect of --out, which writes a folder."""
WORTH_TIMING = 60.0
"""Seconds of a run, as predicted from its FLOPs, from which on steps of its stages are timed before it."""


class Outputs:
    """Files that a study is written to besides its report, refused before anything is trained where they cannot be.

    json: all results, of which the report can be made again; `-` prints them alone on standard output. tidy: a row per
    score of every run, .csv or .parquet; beside it, with `-curves` in its name, each number recorded on the way.
    figure_width: `3.3in`, `85mm` or `8.5cm`, of the figures that are files (None: as they stand on the page). out: a
    folder for the report, or NAME.md for a page with its results and figures beside it. pivot: the table as arms by
    columns in the terminal, and before the long one on the page. pool: gains over all files in place of a report.
    Raises: BadInput naming the option.
    """

    def __init__(
        self,
        json: str | None = None,
        tidy: str | None = None,
        figure_width: str | None = None,
        out: str | None = None,
        pivot: bool = False,
        pool: bool = False,
    ) -> None:
        self.pivot, self.pool = pivot, pool
        self.width = None if figure_width is None else inches(figure_width)
        self.printed = sys.stdout if json == "-" else None
        self.json = None if self.printed or json is None else writable_file("--json", json)
        self.tidy = None if tidy is None else writable_file("--tidy", tidy)
        self.page = writable_file("--out", out) if out is not None and out.endswith(".md") else None
        self.folder = Path(out) if out is not None and self.page is None else None
        if self.folder is not None and (self.folder.is_file() or self.folder.suffix in PAGES):
            raise BadInput(f"--out: {out!r} is a file, or looks like the name of one; name a folder, or a file NAME.md")
        if self.page is not None and figure_width is not None:
            raise BadInput(
                "--figure-width: a page of Markdown shows figures as they are; name a folder as --out instead"
            )
        if self.tidy is not None and self.tidy.suffix not in (".csv", ".parquet"):
            raise BadInput(f"--tidy: {tidy!r} ends neither in .csv nor in .parquet; name a file that does")

    def check_alone(self, checklist: bool) -> None:
        """Raises: BadInput where the checklist is asked for, which is printed alone, and files of the table too."""
        if checklist and (self.json or self.tidy or self.printed or self.pivot):
            raise BadInput(
                "--checklist: --json, --tidy and --pivot go with the table; leave them out, or give two commands"
            )

    def check_apart(self, study: Study) -> None:
        """Raises: BadInput where a file that is to be written is one that the study reads, or a stage's."""
        marks = {"--json": '"rows"', "--tidy": "weights", "--out": "headstart"}
        for option, path in (("--json", self.json), ("--tidy", self.tidy), ("--out", self.page)):
            if path is not None and path.exists():
                check_replaceable(option, path, [marks[option]], study_files(study), study.store.root)

    def apart(self) -> AbstractContextManager[Any]:
        """Where JSON is printed, all else goes to standard error."""
        return nullcontext() if self.printed is None else redirect_stdout(sys.stderr)

    def write(self, content: Content, store: Store | Snapshot) -> list[str]:
        """Write the files; returns a line for each."""
        lines, results = [], content.results
        if self.json is not None or self.printed is not None:
            snapshot = store if isinstance(store, Snapshot) else take_snapshot(content.plan, results, store)
            text = json_lines(snapshot.document(results, [verdict.document() for verdict in content.verdicts]))
            if self.printed is not None:
                self.printed.write(text)
            else:
                assert self.json is not None, "one of the two is there"
                publish(self.json, text.encode())
                lines.append(f"rows {self.json}")
        if self.tidy is not None:
            curves = self.tidy.with_stem(f"{self.tidy.stem}-curves")
            for path, rows in ((self.tidy, results.scores()), (curves, results.curves())):
                publish(path, tidy_bytes(rows, path.suffix))
                lines.append(f"tidy {path}")
        return lines


def tidy_bytes(rows: Sequence[Mapping[str, Any]], ending: str) -> bytes:
    """Rows of equal keys as CSV or, with the ending `.parquet`, as Parquet. Tables and lists stand as JSON.

    A column of values of several types is one of texts. What a spreadsheet would run as a formula is quoted in CSV.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [_scalar(row.get(name)) for row in rows] for name in names}
    if ending == ".csv":
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(map(guarded, names))
        writer.writerows(
            [guarded(value) if isinstance(value, str) else value for value in line]
            for line in zip(*columns.values(), strict=True)
        )
        return out.getvalue().encode()
    import pyarrow as pa
    import pyarrow.parquet

    arrays = {}
    for name, values in columns.items():
        try:
            arrays[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            arrays[name] = pa.array([None if value is None else str(value) for value in values])
    sink = pa.BufferOutputStream()
    pyarrow.parquet.write_table(pa.table(arrays), sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _scalar(value: Any) -> Any:
    return value if value is None or isinstance(value, (str, int, float)) else json_module.dumps(value)


MANY_COLUMNS = 8
"""Columns from which on a page takes so long to draw that it is said."""


def run_study(
    study: Study,
    runtime: Runtime,
    outputs: Outputs | None = None,
    track: Sequence[str] = (),
    serve: int | None = None,
) -> int:
    """Perform a study with a progress display, print its table, write its page. Returns the exit code.

    serve: a port of this machine at which a page shows the run as it goes on. Where torchrun has started this process
    as another than rank 0, that one does all but a part of the training.
    """
    if follows(runtime):
        return len([*perform(study.plan.every_stage.values(), study.store, runtime)])
    outputs, tracking = outputs or Outputs(), Tracking(track, study.plan, study.store, "--track")
    with outputs.apart():
        if serve is None:
            return _run(study, runtime, outputs, tracking)
        from headstart.report.live import live_page
        from headstart.verbs.live import LivePage

        store = Store(study.store.root)
        with LivePage(serve, lambda nonce, ended: live_page(study.plan, store, nonce, ended)) as live:
            return _run(study, runtime, outputs, tracking, live)


def _run(study: Study, runtime: Runtime, outputs: Outputs, tracking: Tracking, live: LivePage | None = None) -> int:
    if outputs.pivot:
        check_pivot(study.spec.name, {column for column, _ in side_by_side(study.plan)[0]})
    check_ranks(runtime, study.plan.stages.values())
    slots, out = _slots(runtime), console()
    keep_freed_memory()
    out.print(f"store {study.store.root}")
    if NO_COMMIT in release():
        out.print(f"headstart {release()}")
    print_scale(study)
    if not runtime.on:
        print_precision(study.plan, choose_device(runtime.device))
    tasks = [planned.spec.task for planned in study.plan.stages.values() if planned.spec.task is not None]
    for task in {digest(task.document()): task for task in tasks}.values():
        prepared_with_bar(task, study.data)
    costs, speed = study.survey(), speed_here()
    display = watch(
        study.plan,
        study.store,
        costs,
        slots,
        speed,
        lambda: to_rich(make_table(study.results(baselines=False))) if study.plan.cells else None,
    )
    out.print(
        f"study {study.spec.name}: {many(len(study.plan.cells), 'run')} of {many(display.total, 'stage')}, "
        f"{display.done} done before"
    )
    if study.progress:
        out.print(f"search: {study.progress}; further stages are drawn as these finish")
    study.store.check(study.plan.every_stage)
    if display.done < display.total:  # else a store of somebody else's is as good
        writable_folder("--store", study.store.root)
    outputs.check_apart(study)
    begin_report(study)
    if live is not None:
        out.print(f"live {live.address}")
    rest = list(display.left.costs.values())
    long = sum(sum(cost.seconds_at(speed)) for cost in rest) > WORTH_TIMING * slots
    with display:
        timed = probes(rest, speed, slots) if long else None

        def grown() -> None:
            display.go_on(study.plan, study.store, study.survey(), slots, speed)
            display.say(study.progress)

        for event in study.perform_with(runtime, probes=timed, tracking=tracking, on_growth=grown):
            display.show(event)
    if study.plan.cells:
        with nullcontext() if live is None else live.paused:
            _answer(study.plan, study.results(), study.store, study.report_folder, outputs, study.origin)
    else:
        out.print(f"no page: {study.progress}, and nothing is chosen")
    if display.failed:
        failed = f"{len(display.failed)} of {display.total} stages failed"
        out.print(f"{failed}; once the cause is mended, the same command tries them again")
    if live is not None:
        report = outputs.page or outputs.folder or study.report_folder
        where = f"Its report is in {report}." if study.plan.cells else "It has no report yet."
        live.end(f"The run has ended. {where}")
    return 1 if display.failed else 0


def begin_report(study: Study) -> None:
    """Write down which study runs, so that `store gc` knows whose stages are there long before the page is."""
    with suppress(OSError):  # a disk that is full is said by the stages
        publish_study(study.plan.study.model_dump(mode="json"), study.report_folder, study.origin)


def _slots(runtime: Runtime) -> int:
    """Stages at a time. Raises: BadInput where the device is not there, or the cluster cannot be used."""
    if runtime.on:
        from headstart.runner.connection import Room, connect

        return Room(connect(runtime.on), runtime).slots
    choose_device(runtime.device)
    return max(runtime.workers, 1)


def print_scale(study: Study) -> None:
    """Arms that were left out, the scale, what it leaves out, and what stands in for absent data."""
    for line in scale_lines(study):
        console().print(Text(line))


def scale_lines(study: Study) -> list[str]:
    """The lines of `print_scale`."""
    spec = study.spec
    if spec.scale is None:
        return list(study.notes)
    chains: dict[str, set[str]] = {}
    for cell in study.plan.cells:
        chains.setdefault(cell.column, set()).update(planned.name for planned in cell.chain)
    texts = [
        stand_in_told(column, spec.stood_in.get(column, {}), chain, spec.reported) for column, chain in chains.items()
    ]
    stand_ins = [f"stand-in data: {stand_ins_told(texts)} (not in {study.data})"] if any(texts) else []
    scale = f"scale {spec.scale}" + (f": {spec.scale_note}" if spec.scale_note else "")
    return [*study.notes, scale, *stand_ins]


def _answer(
    plan: Plan, results: Results, store: Store | Snapshot, folder: Path, outputs: Outputs, origin: str = ""
) -> None:
    """Page, files and then, so that nothing is lost to `| head`, the table and the caveats.

    Raises: OSError where the page or a file cannot be written, after the table.
    """
    from headstart.report.figures.collect import MOST_DRAWN  # matplotlib is slow to import

    if MANY_COLUMNS <= len(results.columns) <= MOST_DRAWN["columns"]:
        console().print(f"drawing the figures of {len(results.columns)} columns, some seconds each")
    content, out, failure = read_content(plan, results, store, outputs.pivot), console(), None
    try:
        if outputs.page or outputs.folder or not isinstance(store, Store) or os.access(store.root, os.W_OK):
            lines = [f"page {_page(content, store, folder, outputs, origin)}"]
        else:
            lines = [f"no page: store {store.root} cannot be written; `headstart report` writes one to --out FOLDER"]
        lines += outputs.write(content, store)
    except OSError as error:
        lines, failure = [], error
    more = [table for name, table in content.more.items() if name not in PAGE_ONLY]
    for part in (content.pivot or content.table, *more, *filter(None, [content.beside])):
        out.print(to_rich(part))
    _list(content.claims_heading, content.verdicts, content.claims_source)
    _list("What to keep in mind", results.caveats)
    if failure is not None:
        raise failure
    out.print("\n" + "\n".join(lines))


def _page(content: Content, store: Store | Snapshot, folder: Path, outputs: Outputs, origin: str) -> Path:
    from headstart.report.page import publish_page, write_report  # matplotlib is slow to import

    plan, results = content.plan, content.results
    if outputs.page is None:
        return write_report(plan, results, store, outputs.folder or folder, outputs.width, outputs.pivot, origin)
    if isinstance(store, Snapshot):
        return publish_page(store, outputs.page, content=content)[0]
    return publish_page(only_run(take_snapshot(plan, results, store)), outputs.page, outputs.pivot)[0]


def _list(head: str, items: Sequence[object], note: str = "") -> None:
    """A heading, a note and a line for each, where there are any."""
    out = console()
    if items:
        out.print(f"\n{head}:")
    if items and note:
        out.print(Text(f"  {note}"))
    for item in items:
        out.print(hanging(item))


def report(
    words: Sequence[str],
    files: Sequence[str],
    folders: FolderOptions,
    reading: StudyOptions,
    outputs: Outputs,
    checklist: bool,
) -> None:
    """The verb: of a study with its overrides, or, where there are `files`, of these and of the words after them."""
    if not files:
        if outputs.pool:
            raise BadInput("--pool: it pools files of results; name them with --from FILE ...")
        if not words:
            raise BadInput("report: name a study, or files of its results (--from FILE ...)")
        return report_study(study_of(words[0], words[1:], folders, reading), outputs, checklist)
    plugins = reading.plugin or []
    of_study = {"store": folders.store, "data": folders.data, "mixer": reading.mixer, "scale": reading.scale}
    for name, value in of_study.items():
        if value is not None:
            raise BadInput(f"--{name}: {value!r}: --from reads files of results alone; leave --{name} out")
    if not outputs.pool:
        return report_files([*files, *words], outputs, checklist, plugins)
    if checklist or outputs.pivot or outputs.tidy or outputs.printed or outputs.folder:
        raise BadInput("--pool: it goes with --json FILE and --out NAME.md alone; leave the others out")
    load_plugins(plugins)
    return print_pooled([*files, *words], outputs.page, outputs.json)


def report_study(study: Study, outputs: Outputs | None = None, checklist: bool = False) -> None:
    """The same table and page from what is in the store; or the checklist alone, written beside the page too."""
    outputs = outputs or Outputs()
    outputs.check_alone(checklist)
    outputs.check_apart(study)
    with outputs.apart():
        if not checklist:
            console().print(f"store {study.store.root}")
            print_scale(study)
        scale = f" --scale {study.spec.scale}" if study.spec.scale else ""
        for text in study.store.damaged(study.plan.every_stage):
            console(stderr=True).print(Text(f"damaged  {text}"), soft_wrap=True)
        if not any(study.store.entry(identity).result for identity in study.plan.stages):
            raise BadInput(
                f"report: no stage of {study.spec.name!r} is finished in store {study.store.root}; "
                f"`headstart run {study.source}{scale}` trains them"
            )
        if not checklist:
            return _answer(study.plan, study.results(), study.store, study.report_folder, outputs, study.origin)
    return _print_checklist(read_content(study.plan, study.results(), study.store), study.report_folder)


def report_files(
    files: Sequence[str], outputs: Outputs | None = None, checklist: bool = False, plugins: Sequence[str] = ()
) -> None:
    """The table and page of the study whose results are in these files; no store and no data are needed."""
    outputs = outputs or Outputs()
    outputs.check_alone(checklist)
    load_plugins(plugins)
    with outputs.apart():
        snapshot = read_snapshot(files)
        results = snapshot.results()
        folder = outputs.folder or Path("reports") / results.name
        if not checklist:
            return _answer(snapshot.plan, results, snapshot, folder, outputs)
    return _print_checklist(read_content(snapshot.plan, results, snapshot), folder)


def _print_checklist(content: Content, folder: Path) -> None:
    text = filled_checklist(content)
    disk.make_folder(folder)
    publish(folder / "checklist.md", text.encode())
    sys.stdout.write(escaped(text))
