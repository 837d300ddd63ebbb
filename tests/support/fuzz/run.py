"""Open damaged files in forks of this process, and keep what must not have happened.

A fork may take 1 GiB on top of what Python and the libraries take, and 10 s of the processor an input. Counts as a finding: anything
raised but BadInput (warnings are errors), a message that does not name the file, is longer than a screen or holds
control characters, too much memory or time, and an end of the fork.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from headstart.errors import BadInput
from support.fuzz.damage import Damage, damage
from support.fuzz.parser import Files, Parser, short_of_memory
from support.fuzz.parsers import PARSERS

MEMORY = 2**30
SECONDS = 10
"""Of the processor; what is beyond Python's reach for five more is ended by the kernel."""
ROUND = 5
"""Seconds of the processor until a fork gives way to a new one."""
LINES, CHARACTERS = 25, 2000
"""Most lines of a message, and most characters of a line."""


class Finding(Exception):
    """What an input did that it must not do."""


@dataclass
class Counts:
    """What came of the inputs of seeds `first` to `first + trials - 1`. minutes: of the processor; clock: of the clock."""

    first: int
    read: int = 0
    refused: int = 0
    trials: int = 0
    minutes: float = 0.0
    clock: float = 0.0
    findings: dict[str, str] = field(default_factory=dict)


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
    else:
        if late:
            raise Finding(late[0])
    finally:
        for (number, clock, _), before in zip(clocks, previous, strict=True):
            signal.setitimer(clock, 0)
            signal.signal(number, before)


def written(files: Files, folder: Path) -> Path:
    """Write the files into the (emptied) folder; the file or folder that is to be opened."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
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
        if short_of_memory(error):
            raise Finding("took all memory that it may, and was refused only then") from error
        check_message(str(error), path, files)
        return "refused"
    return "read"


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


def error_of(parser: Parser, files: Files, folder: Path) -> BaseException | None:
    """What the files do in a folder that they must not do."""
    try:
        outcome(parser, written(files, folder), files)
    except Exception as error:
        return error
    return None


def smaller(parser: Parser, trial: Damage, key: str, folder: Path) -> Damage:
    """With as few of the changes as do the same."""
    for change in trial.changes:
        less = trial.without(change)
        error = error_of(parser, less.files(), folder)
        if error is not None and signature(error) == key:
            trial = less
    return trial


def run(
    name: str,
    minutes: float,
    first: int,
    folder: Path,
    clock: float | None = None,
    listener: Callable[[Counts], object] = id,
) -> Counts:
    """Open damaged files of one format until so many minutes of the processor are over, or of the clock (`clock`).

    Input k is damaged by the seed `NAME/k`. folder: where the files of findings are kept. listener: is given the counts now and then.
    """
    parser, counts = PARSERS[name], Counts(first)
    samples = parser.seeds()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as base:  # noqa: S108
        current = Path(base, "current")
        current.mkdir()
        for files in samples:
            parser.read(
                written(files, current)
            )  # imports what the parser needs; a good file that is refused ends the run
        began = time.monotonic()
        while counts.minutes < minutes and (clock is None or counts.clock < clock):
            left = 60 * min(minutes - counts.minutes, clock - counts.clock if clock is not None else minutes)
            _fork(name, samples, counts, min(left, ROUND), current, folder)
            counts.clock = (time.monotonic() - began) / 60
            listener(counts)
    return counts


def _fork(name: str, samples: list[Files], counts: Counts, seconds: float, current: Path, folder: Path) -> None:
    """Some seconds of the processor in a fork, which says a line of each input; `counts` are added to."""
    reader, writer = os.pipe()
    seed = counts.first + counts.trials
    process = os.fork()
    if not process:
        os.close(reader)
        try:
            _inputs(name, samples, {*counts.findings}, seed, seconds, current, folder, writer)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as lines:
        for line in lines:
            counts.trials += 1
            word, _, key = line.rstrip("\n").partition(" ")
            if word == "found":
                counts.findings.setdefault(*json.loads(key))
            else:
                setattr(counts, word, getattr(counts, word) + 1)
    _, status, used = os.wait4(process, 0)
    counts.minutes += (used.ru_utime + used.ru_stime) / 60
    if status:
        seed = counts.first + counts.trials
        files = damage(samples, Random(f"{name}/{seed}")).files()
        key = f"the process ended with {os.waitstatus_to_exitcode(status)}"
        counts.findings.setdefault(key, str(keep(files, folder / str(seed), f"{name}: {key}")))
        counts.trials += 1


def _inputs(
    name: str, samples: list[Files], seen: set[str], seed: int, seconds: float, current: Path, folder: Path, writer: int
) -> None:
    """Inputs of one seed after another, for some seconds; a line is written of each. seen: of findings, not kept again."""
    faulthandler.enable()
    parser = PARSERS[name]
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY,) * 2)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    began = time.monotonic()
    while time.process_time() < seconds and time.monotonic() - began < 20 * seconds + SECONDS:
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + SECONDS) + 6, hard))
        trial = damage(samples, Random(f"{name}/{seed}"))
        files = trial.files()
        failure: Exception | None = None
        try:
            line = outcome(parser, written(files, current), files)
        except Exception as error:  # what is done about it would be raised behind it here
            failure = error
        if failure is not None:
            key = signature(failure)
            text = f"{name}, seed {seed}: {''.join(traceback.format_exception(failure)[-4:])[-1500:]}"
            sample = folder / str(seed)
            if key not in seen:
                keep(smaller(parser, trial, key, current).files(), sample, text)
            seen.add(key)
            line = f"found {json.dumps([key, str(sample)])}"
        os.write(writer, f"{line}\n".encode())
        seed += 1


def keep(files: Files, sample: Path, text: str) -> Path:
    """Write the files of a finding, and what they did beside them."""
    sample.mkdir(parents=True, exist_ok=True)
    written(files, sample)
    sample.with_suffix(".txt").write_text(text)
    print(text, flush=True)
    return sample
