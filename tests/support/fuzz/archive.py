"""Archives of strangers: links, devices, paths that lead out, archives in archives, what unpacks without end, sizes that lie."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from random import Random

from headstart.data import archives
from headstart.errors import BadInput, Mistakes
from support.fuzz.parser import Files, read_data, short_of_memory

CURVE = b"t,x\n" + b"".join(b"%d,%d\n" % (k, k * k) for k in range(12))
MEMBERS = {f"set/{label}/{number}.csv": CURVE for label in "ab" for number in range(2)}
ENDINGS = {"": "", "gz": "gz", "bz2": "bz2", "xz": "xz"}
NAMES = (
    *("../out", "/etc/passwd", "a/../../b", ".", "", "a//b", "a\0b", "\x1b[2J", "\u202egnp", "x" * 5_000, "a/" * 2_000),
    *("C:\\x", "set/a/0.csv", "\udcff", ".hidden", "a\nb", "a/./b"),
)
SIZES = (-1, -512, 1, 2**33, 2**63, 10**30)
TYPES = (
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.CHRTYPE,
    tarfile.FIFOTYPE,
    tarfile.DIRTYPE,
    tarfile.GNUTYPE_SPARSE,
    b"~",
)


def tar_of(members: Mapping[str, bytes], packing: str = "") -> bytes:
    """A tar archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=f"w:{packing}") as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def zip_of(members: Mapping[str, bytes], random: Random | None = None) -> bytes:
    """A zip archive. random: one member in four archives has another name, is a link, encrypted or of another size."""
    out = io.BytesIO()
    odd = random.choice(sorted(members)) if random is not None and members and random.random() < 0.25 else None
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        if odd is not None and random is not None:
            info = archive.getinfo(odd)
            how = random.randrange(5)
            if how == 0:
                info.filename = random.choice(NAMES).encode("utf-8", "replace").decode()
            elif how == 1:
                info.external_attr = random.choice((0o120777, 0o020666, 0o010666, 0o040755)) << 16
            elif how == 2:
                info.flag_bits |= random.choice((1, 0x20, 0x40))
            elif how == 3:
                info.file_size = random.choice((0, 1, 2**31, 2**33, 2**62))
            else:
                info.compress_type = random.choice((0, 12, 14, 93, 99))
    return out.getvalue()


def archive_samples() -> list[Files]:
    """Archives of each packing; one holds others, one what unpacks to 16 MB from some bytes."""
    nested = {**MEMBERS, "set/more.zip": zip_of(MEMBERS), "set/more.tar.gz": tar_of(MEMBERS, "gz")}
    out: list[Files] = [{f"data.tar{'.' * bool(way)}{way}": tar_of(MEMBERS, way)} for way in ENDINGS.values()]
    out += [{"data.zip": zip_of(MEMBERS)}, {"data.zip": zip_of(nested)}, {"data.tgz": tar_of(nested, "gz")}]
    return [*out, {"data.tbz2": tar_of({**MEMBERS, "zeros": bytes(2**24)}, "bz2")}]


def changed_tar(content: bytes, random: Random) -> bytes:
    """The archive, of which one to three members have another name, kind, size, link or note; its sums are right."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = [(info, file.read() if (file := archive.extractfile(info)) else b"") for info in archive]
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(members))
        info, data = members[at]
        how = random.randrange(7)
        if how == 0:
            info.name = random.choice(NAMES)
        elif how == 1:
            info.type, info.linkname = random.choice(TYPES), random.choice(NAMES)
        elif how == 2:
            info.pax_headers = {
                random.choice(("size", "path", "linkpath", "mtime", "GNU.sparse.map", "hdrcharset")): "9" * 40
            }
        elif how == 3:
            info.pax_headers = {"comment": "x" * random.choice((10, 9_000, 2**20)), "size": str(random.choice(SIZES))}
        elif how == 4:
            info.size = random.choice((0, 1, len(data) + 512, 2**33, 2**60))
        elif how == 5:
            members.insert(at, (info, data))
        else:
            members[at] = (info, data[: random.randrange(len(data) + 1)])
    out = io.BytesIO()
    for info, data in members:
        try:
            out.write(info.tobuf(random.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)), "utf-8", "surrogateescape"))
        except (ValueError, TypeError, AttributeError):  # what no head can say
            out.write(info.tobuf(tarfile.PAX_FORMAT, "utf-8", "replace") if info.size < 2**33 else bytes(512))
        out.write(data + bytes(-len(data) % 512))
    return out.getvalue() + bytes(1024 * random.randrange(2))


def read_archive(path: Path) -> object:
    """As data, which names what is inside, and as the official archive of a data set, of which members are read."""
    mistakes = Mistakes()
    try:
        listed = dict(archives.members(path, lambda name: name.endswith(".csv"), mistakes))
    except BadInput as error:
        if short_of_memory(error):
            raise
        listed = {}
    for name in listed:
        parts = PurePosixPath(name)
        assert not parts.is_absolute(), name
        assert ".." not in parts.parts, name
    try:
        return read_data(path)
    except BadInput as error:
        if "which is not read; unpack it: " not in str(error) or not str(error).isprintable():
            raise
        return str(error)  # what a sound archive holds is said
