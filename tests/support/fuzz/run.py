"""Open damaged files in one process and keep what must not have happened.

The process may take 1 GiB on top of what Python and the libraries take, and 10 s of the processor an input. Counts as a finding: anything
raised but BadInput (warnings are errors), a message that does not name the file, is longer than a screen or holds
control characters, too much memory or time.
"""

from __future__ import annotations

import faulthandler
import json
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

from headstart.errors import BadInput
from support.fuzz.damage import damaged
from support.fuzz.parser import Files, Parser
from support.fuzz.parsers import PARSERS

MEMORY = 2**30
SECONDS = 10
ROUND = 300
"""Inputs until the clock is looked at and the seed goes up by one."""
LINES, CHARACTERS = 25, 2000
"""Most lines of a message, and most characters of a line."""


class Finding(Exception):
    """What an input did that it must not do."""


@contextmanager
def limited() -> Iterator[None]:
    """At most SECONDS of the processor, and ten times as many where something is waited for.

    Raises: TimeoutError, or Finding where a parser has taken that for an error of its file and gone on.
    """
    late: list[str] = []

    def stop(*_: object) -> None:
        late.append(f"took longer than {SECONDS} s")
        raise TimeoutError(late[0])

    clocks = ((signal.SIGPROF, signal.ITIMER_PROF, SECONDS), (signal.SIGALRM, signal.ITIMER_REAL, 10 * SECONDS))
    previous = [signal.signal(number, stop) for number, _, _ in clocks]
    try:
        for _, clock, seconds in clocks:
            signal.setitimer(clock, seconds)
        yield
    except BadInput:
        if late:
            raise Finding(late[0]) from None
        raise
    finally:
        for (number, clock, _), before in zip(clocks, previous, strict=True):
            signal.setitimer(clock, 0)
            signal.signal(number, before)


def written(files: Files, folder: Path) -> Path:
    """Write the files into the (emptied) folder; the file or folder that is to be opened."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder / next(iter(files)).partition("/")[0]


def outcome(parser: Parser, path: Path, files: Files) -> str:
    """`read` or `refused`. Raises: Finding, or whatever the parser raised that it must not."""
    try:
        with limited(), warnings.catch_warnings():
            warnings.simplefilter("error")
            parser.read(path)
    except BadInput as error:
        if any(isinstance(cause, MemoryError) for cause in causes(error)):
            raise Finding("took all memory that it may, and was refused only then") from error
        check_message(str(error), path, files)
        return "refused"
    return "read"


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and those that it was raised for or behind, the last one first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def check_message(text: str, path: Path, files: Files) -> None:
    """Raises: Finding for a message that names no file, is too long, or holds control characters."""
    if not any(name in text for name in (path.name, *(Path(name).name for name in files))):
        raise Finding(f"names no file: {text[:200]}")
    lines = text.split("\n")
    if len(lines) > LINES or max(map(len, lines)) > CHARACTERS:
        raise Finding(f"message of {len(lines)} lines, the longest of {max(map(len, lines))} characters: {text[:200]}")
    if strange := {c for c in text if not c.isprintable() and c not in "\n\t"}:
        raise Finding(f"message with control characters: {sorted(strange)[:5]} in {text[:200]!r}")


def signature(error: BaseException) -> str:
    """What makes two findings one: the kind of error, and where it was raised in the package."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/headstart/" in frame.filename] or frames[-1:]
    where = "".join(f" at {Path(x.filename).name}:{x.lineno}" for x in own[-1:] if not isinstance(error, Finding))
    words = f": {str(error).partition(':')[0]}" if isinstance(error, Finding) else ""
    return f"{type(error).__name__}{where}{words}"


def keep(error: BaseException, findings: dict[str, str], folder: Path, name: str) -> None:
    """Keep the files that `current` holds, and what they did; once for each signature, whatever it was found as before.

    What is raised again may be another error than the one that the search looked for: its key may be there already.
    """
    key = signature(error)
    if key in findings:
        return
    sample = folder / f"finding-{len(findings)}"
    (folder / "current").rename(sample)
    (folder / "current").mkdir()
    text = "".join(traceback.format_exception(error)[-4:])[-1500:]
    (sample.with_suffix(".txt")).write_text(text)
    findings[key] = str(sample)
    print(f"{name}: {key}\n{text}", flush=True)


def run(name: str, minutes: float, first_seed: int, folder: Path, report: Path) -> None:
    """Fuzz one parser; writes counts and findings to `report` after every round."""
    faulthandler.enable()
    parser = PARSERS[name]
    samples = parser.seeds()
    current = folder / "current"
    current.mkdir(parents=True, exist_ok=True)
    for files in samples:
        parser.read(written(files, current))  # imports what the parser needs; a good file that is refused ends the run
    limit = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    counts = {"read": 0, "refused": 0}
    findings: dict[str, str] = {}
    end, number = time.monotonic() + 60 * minutes, first_seed

    def attempt(files: Files) -> None:
        if time.monotonic() > end:
            return
        try:
            counts[outcome(parser, written(files, current), files)] += 1
        except Exception as error:
            if signature(error) in findings:
                return
            raise

    while time.monotonic() < end:
        search = settings(
            max_examples=ROUND,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
            verbosity=Verbosity.quiet,  # the files are written out instead
        )
        try:
            search(seed(number)(given(damaged(samples))(attempt)))()
        except Exception as raised:
            error: BaseException = raised.exceptions[0] if isinstance(raised, BaseExceptionGroup) else raised
            keep(error, findings, folder, name)
        number += 1
        document = {"parser": name, "seeds": [first_seed, number - 1], **counts, "findings": findings}
        report.write_text(json.dumps(document))
