"""`store`: remove what no study reaches, pack a study's stages into a file, unpack them, verify all digests."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from headstart.documents import canonical
from headstart.errors import BadInput
from headstart.store import DONE, Store, store_folder
from headstart.store.cleaning import Contents, read_contents
from headstart.store.files import damages
from headstart.store.tensors import damaged_files
from headstart.study.results.listing import stage_rows
from headstart.tasks.own import FILE_FIELDS
from headstart.verbs.terminal import check_replaceable, console, study_files, table, writable_file
from headstart.words import measure

if TYPE_CHECKING:
    from headstart.api import Study

FILE_PLACES = (*FILE_FIELDS, "source")
"""Fields of tasks and checkpoints that say where files are."""
_ANCHOR = re.compile(r'id="stage-([0-9a-f]{16})"')


def verify_store(words: Sequence[str], folder: str | None) -> int:
    """Read all files of finished stages, or of those that are named, and name the damaged ones; the exit code."""
    store, out = Store(store_folder(folder)), console()
    if not store.root.is_dir():
        raise BadInput(
            f"verify: there is no store {str(store.root)!r}, and nothing to verify; name one with --store or "
            "HEADSTART_STORE"
        )
    out.print(f"store {store.root}")
    names = [store.find(word) for word in words]
    for name in names:
        if (status := store.status(name)) in ("absent", "partial", "running", "cut"):
            raise BadInput(f"verify: stage {name} is {status}; only finished stages have digests, run its study first")
    finished, problems = 0, dict[str, list[str]]()
    for name in names or store.names():
        problems[name] = list(_problems(store, name))
        finished += bool(problems[name]) or store.status(name) in DONE
    shared = [] if names else damaged_files(store.root)
    for line in [*shared, *(line for lines in problems.values() for line in lines)]:
        out.print(Text(f"damaged: {line}"), soft_wrap=True)
    damaged = sum(map(bool, problems.values()))
    if not damaged and not shared:
        out.print(f"{finished:,} finished stages, every file as it was written")
        return 0
    out.print(f"{damaged:,} of {finished:,} finished stages are damaged, and {len(shared):,} tensors that stages share")
    out.print("`headstart run` of its study does a damaged stage again, and keeps the damaged folder beside it")
    return 1


def _problems(store: Store, name: str) -> Iterator[str]:
    """What is wrong with a stage that is, or was, finished."""
    if not os.path.lexists(store.folder(name) / "result.json"):
        return
    try:
        yield from damages(store.folder(name))
    except BadInput as error:  # a newer format
        yield str(error)


def pack_study(study: Study, file: str) -> None:
    """Write the finished stages of a study into a file, with the study itself."""
    from headstart.store.packing import MANIFEST, pack
    from headstart.study.language.files import to_toml

    path, store, out = writable_file("-o", file), study.store, console()
    check_replaceable("-o", path, [MANIFEST], study_files(study), store.root)
    out.print(f"store {store.root}")
    stages = [name for name, planned in study.plan.every_stage.items() if not planned.open]
    if damaged := store.damaged(stages):
        raise BadInput(f"pack: {damaged[0]}")
    finished = [name for name in stages if store.status(name) in DONE]
    if not finished:
        raise BadInput(f"pack: no stage of {study.spec.name!r} is finished in {store.root}; run the study first")
    text = to_toml(study.spec.model_dump(mode="json")).encode()
    files, size = pack(store, finished, study.report_folder.name, text, path)
    out.print(f"packed {len(finished):,} stages in {files:,} files: {path}, {measure(size, 'B')}")
    if left := len(study.plan.every_stage) - len(finished):
        out.print(f"{left:,} stages of the study are not finished, and not in it")


def check_listing(store: Store) -> None:
    """Read and print all that `ls` and `gc` do of a store. Raises: whatever values of wrong types lead to."""
    from headstart.verbs.look import printed_cells

    for row in stage_rows(store):
        printed_cells(row)
    read_contents(store)


def unpack_file(file: str, folder: str | None) -> int:
    """Take the stages of a packed file into a store; the exit code: 1 where some were refused."""
    from headstart.store.packing import unpack

    if Path(file).is_dir():
        raise BadInput(f"store unpack: {file!r} is a folder; name a file that `headstart store pack` wrote")
    store, out = Store(store_folder(folder)), console()
    out.print(f"store {store.root}")
    outcome = unpack(store, Path(file), check_listing)
    for name, status in outcome.there.items():
        out.print(f"left as it is: {name} is there already ({status})")
    for name, reason in outcome.refused.items():
        out.print(Text(f"refused: {name}: {reason}"), soft_wrap=True)
    out.print(f"unpacked {len(outcome.taken):,} of {outcome.stages:,} stages")
    if outcome.report is not None:
        out.print(Text(f"`headstart report {outcome.report}` prints the study's table"))
    return 1 if outcome.refused else 0


def clean_store(
    studies: Sequence[str],
    folder: str | None,
    data: str | None,
    plugins: Sequence[str],
    *,
    yes: bool = False,
    recent: bool = False,
) -> None:
    """Show what studies and reports reach, and what they do not; with `yes`, remove the latter."""
    store, out = Store(store_folder(folder)), console()
    out.print(f"store {store.root}")
    contents = read_contents(store)
    reached = dict(_reached(contents, studies, {"store": store.root, "data": data, "plugins": plugins}))
    rows = [_row(contents, name, contents.with_parents(stages), reached) for name, stages in reached.items()]
    cleaning = contents.cleaning(set[str]().union(*reached.values()), recent=recent)
    if cleaning.left:
        rows.append(["kept for another reason", *_sizes(contents, list(cleaning.left))])
    rows.append(["reached by no study", *_sizes(contents, cleaning.removable)])
    out.print(table(["study or report", "stages", "size", "frees alone"], rows, right=(1, 2, 3)))
    left, gone = dict(cleaning.left), 0
    if yes:
        reasons = dict(contents.remove(cleaning.removable))
        left |= {name: reason for name, reason in reasons.items() if reason}
        gone = len(reasons) - sum(map(bool, reasons.values()))
    for name, reason in sorted(left.items()):
        out.print(Text(f"kept: {name}: {reason}"), soft_wrap=True)
    freed = measure(contents.freed([name for name in cleaning.removable if name not in left]), "B")
    if yes:
        out.print(f"removed {gone:,} folders, {freed}")
    elif cleaning.removable:
        out.print(f"nothing was removed; --yes removes {len(cleaning.removable):,} folders and frees {freed}")
        out.print(
            "Stages of a study without a report in this store are kept only if you name the study: "
            "`headstart store gc STUDY ...`; those of `headstart fit` with the study.toml of its model folder: "
            "`headstart store gc model/study.toml ...`"
        )
    else:
        out.print("there is nothing to remove")


def _row(contents: Contents, name: str, stages: set[str], reached: dict[str, set[str]]) -> list[Any]:
    """What a study reaches, and what its removal alone would free: all that no other one reaches."""
    others = contents.with_parents(stage for other, theirs in reached.items() if other != name for stage in theirs)
    return [
        name,
        f"{len(stages):,}",
        measure(contents.size(stages), "B"),
        measure(contents.freed(stages - others), "B"),
    ]


def _sizes(contents: Contents, names: Sequence[str]) -> list[str]:
    return [f"{len(names):,}", measure(contents.size(names), "B"), measure(contents.freed(names), "B")]


def _reached(contents: Contents, studies: Sequence[str], settings: dict[str, Any]) -> Iterator[tuple[str, set[str]]]:
    """Name -> stages of the studies that are named, at every scale, and of those whose reports the store keeps.

    Raises: BadInput where a study cannot be planned, so that its stages are not known.
    """
    for word in dict.fromkeys(studies):
        yield word, set().union(*(_planned(contents, word, scale, settings) for scale in _scales(word)))
    for folder in sorted(path for path in (contents.store.root / "reports").glob("*") if path.is_dir()):
        page, study = folder / "page.html", folder / "study.toml"
        anchors = set[str](_ANCHOR.findall(page.read_text("utf-8", errors="replace"))) if page.is_file() else set[str]()
        # A study that is newer than its page is running, or was broken off.
        if page.is_file() and (not study.is_file() or study.stat().st_mtime_ns <= page.stat().st_mtime_ns):
            yield f"reports/{folder.name}", anchors
        elif study.is_file():
            try:
                yield f"reports/{folder.name}", anchors | _planned(contents, str(study), None, settings)
            except BadInput as error:
                if page.is_file():
                    yield f"reports/{folder.name}", anchors
                    continue
                way = "name what it needs (--plugin, --data), or delete the folder"
                raise BadInput(f"gc: {folder}: which stages are its own is not known: {error}; {way}") from None


def _scales(word: str) -> list[str | None]:
    from headstart.study.language.files import study_path, table_of
    from headstart.study.language.scales import with_bases

    path = study_path(word)
    return list(with_bases(table_of(path), path).get("scales", {})) or [None]


def _planned(contents: Contents, word: str, scale: str | None, settings: dict[str, Any]) -> set[str]:
    """The stages of a study; one whose data are absent is known by its spec, as the store has it."""
    from headstart.api import Study

    study = Study(word, **settings, scale=scale, absent="open")
    stages = study.plan.every_stage
    names = {identity for identity, planned in stages.items() if not planned.open}
    if study.searched is not None and (len(names) < len(stages) or [*study.store.damaged(names)]):
        raise BadInput(
            "search: its later trials follow from stages whose data are absent, or whose files are damaged; "
            "`headstart run` mends these"
        )
    specs = {_movable(planned.spec.model_dump(mode="json")) for planned in stages.values() if planned.open}
    if specs:
        stored = {name: _movable((contents.store.entry(name).stage or {}).get("spec")) for name in contents.stages}
        names |= {name for name, spec in stored.items() if spec in specs}
    return names


def _movable(spec: Any) -> bytes:
    """A spec to compare with others: files by their names, in whatever folder they are."""

    def named(value: Any) -> Any:
        if isinstance(value, dict):
            names = {
                key: Path(item).name for key, item in value.items() if key in FILE_PLACES and isinstance(item, str)
            }
            return {**{key: named(item) for key, item in value.items()}, **names}
        return [named(item) for item in value] if isinstance(value, list) else value

    return canonical(named(spec))
