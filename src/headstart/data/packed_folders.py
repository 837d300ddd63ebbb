"""Archives of files, which are not read: what is inside, and the commands that unpack and read it."""

from __future__ import annotations

import shlex
import tarfile
import zipfile
from itertools import islice
from pathlib import Path, PurePosixPath

from headstart.data.archives import NO_ARCHIVE, reading, tar_members, visible
from headstart.errors import BadInput
from headstart.text import first_few, many
from headstart.ways import typed_again

ARCHIVES = {
    "zip": "a zip archive",
    "tar tgz tbz tbz2 txz": "a tar archive",
    "7z": "an archive of 7-Zip",
    "rar": "an archive of RAR",
}
"""What archives are, by endings."""
MOST_INSIDE = 100_000
"""Files of an archive that are looked at."""


def packed(path: Path, ending: str) -> BadInput | None:
    """What refuses an archive, with its files and the commands that unpack it and go on; None of another file."""
    what = next((text for endings, text in ARCHIVES.items() if ending in endings.split()), None)
    if what is None:
        return None
    stem = path.with_name(path.name.split(".")[0] or path.name)
    target = stem if stem != path and not stem.exists() else path.with_name(f"{path.name}.files")
    words = shlex.quote(str(path)), shlex.quote(str(target))
    if what.startswith("an"):
        unpack = "7z x {0} -o{1}" if ending == "7z" else "unrar x {0} {1}/"
        return BadInput(f"{path}: is {what}, which is not read; {unpack.format(*words)} && {typed_again(path, target)}")
    with reading(path):
        try:
            every, locked = _names(path, ending == "zip")
        except BadInput:
            raise
        except (zipfile.BadZipFile, tarfile.TarError, NotImplementedError, ValueError, OverflowError) as error:
            with path.open("rb") as file:
                begun = file.read(2) == b"PK"
            why = f"is no whole archive ({str(error)[:80]}); get it again" if begun else NO_ARCHIVE
            return BadInput(f"{path}: {why}")
    names = sorted(n for n in every if visible(n.removeprefix("./")) and not n.startswith("__MACOSX/"))
    if not every:
        return BadInput(f"{path}: is {what} without a file; give another one")
    names = names or sorted(every)
    some = f"{what} of {many(len(names), 'file')} ({first_few([repr(name) for name in names], 3)})"
    if locked:
        return BadInput(f"{path}: is {some}, which is encrypted; unpack it with its password, and give what is inside")
    within = target / names[0]
    if len(names) > 1:
        tops = {PurePosixPath(name).parts[:1] for name in names}  # a file may lack a name
        within = target.joinpath(*tops.pop()) if len(tops) == 1 else target
    if any(PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts for name in every):
        return BadInput(f"{path}: is {some}, whose names lead out of it; have it packed again")
    unpack = "python3 -m zipfile -e {0} {1}" if ending == "zip" else "mkdir -p {1} && tar -xf {0} -C {1}"
    unpack = unpack.format(*words)
    return BadInput(f"{path}: is {some}, which is not read; unpack it: {unpack} && {typed_again(path, within)}")


def _names(path: Path, zipped: bool) -> tuple[list[str], bool]:
    """The files of an archive, and whether they are encrypted."""
    if zipped:
        with zipfile.ZipFile(path) as archive:
            infos = [info for info in archive.infolist()[:MOST_INSIDE] if not info.filename.endswith("/")]
            names = [info.filename for info in infos]
            locked = any(info.flag_bits & 1 for info in infos)
    else:
        members = [member for _, member in islice(tar_members(path), MOST_INSIDE)]
        names, locked = [member.name.removeprefix("./") for member in members if member.isfile()], False
    return names, locked
