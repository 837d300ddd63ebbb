"""A command whose files are written in ways that lose something, to see whether trials find each: `python -m
support.points.control`, from the folder `tests`, which prints what was found.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headstart import atomic, cli, disk
from support.points import attempts, trials
from support.points.trials import Verb, make_reference, power_findings, power_states, recorded_findings


def in_place(path: Path, data: bytes) -> None:
    """What was there is gone before the new bytes are."""
    disk.write_file(path, data)


def left_over(path: Path, data: bytes) -> None:
    """A file that was begun stays where it cannot be finished."""
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}.tmp")
    file = disk.create(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    disk.write(file, data)
    disk.sync(file)
    os.close(file)
    disk.replace(temporary, path)
    atomic.sync_folder(path.parent, path)


def unflushed(path: Path, data: bytes) -> None:
    """The name may be on the disk before the bytes are."""
    temporary = path.with_name(f".{path.name}.{'0' * 16}.tmp")
    disk.append(temporary, data, os.O_TRUNC)
    disk.replace(temporary, path)
    atomic.sync_folder(path.parent, path)


def unsaid(path: Path, data: bytes) -> None:
    """Nobody is told where it could not be written."""
    with contextlib.suppress(OSError):
        atomic.publish(path, data)


WAYS: Mapping[str, Callable[[Path, bytes], None]] = {
    "sound": atomic.publish,
    **{way.__name__: way for way in (in_place, left_over, unflushed, unsaid)},
}
"""Name of a file -> how it is written."""


def begin(folder: Path) -> None:
    """Each file with a first line."""
    folder.mkdir(exist_ok=True)
    for name in WAYS:
        if name != "unsaid":
            (folder / name).write_text("first\n" * 50)


def command(words: Sequence[str]) -> None:
    """Gives each file a last line, unless it has one."""
    code = 0
    try:
        for name, write in WAYS.items():
            before = Path(name).read_text() if Path(name).exists() else ""
            if not before.endswith("last\n"):
                write(Path(name), f"{before}last\n".encode())
    except OSError as error:
        print(atomic.refused(error), flush=True)
        code = 1
    raise SystemExit(code)


def main() -> None:
    """Print the findings: a fault of each kind at the first write of each file, and the power at the end."""
    vars(cli)["main"] = command
    for module in (attempts, trials):  # nothing of a study is needed
        vars(module)["made_ready"] = lambda: None
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a folder of its own in it
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        reference = make_reference(Verb((), begin), Path(folder) / "control")
        writes = [i for i, change in enumerate(reference.operations) if change.kind == "write"]
        points = [p for p in reference.points if p.number in writes and p.fault in ("cut short", "ENOSPC")]
        print(*recorded_findings(reference, points), sep="\n")
        states, blobs = power_states(reference)
        print(*power_findings(reference, states[-1], blobs, len(states) - 1), sep="\n")


if __name__ == "__main__":
    main()
