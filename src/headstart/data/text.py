"""Text files as lines, packed or not, by their path or by their name in a folder or archive; wrong lines are named.
And what separates the cells of a line."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from headstart.data.archives import absent, incomplete, listed, members, reading, unpacked
from headstart.data.encodings import likely_encodings
from headstart.data.layout import TEXTS, is_role, plain
from headstart.errors import BadInput, Mistakes, nearest
from headstart.text import count_numbers, is_number
from headstart.ways import field_name, option

ABOVE, LOOKED_AT = 30, 200
"""Rows among which one of words above the numbers is looked for; rows and columns that are looked at for it."""
HEADED_CELLS = 200_000
"""Cells below a header that are looked at, or a few lines."""
ODD_BYTES = 2**14
"""Bytes of lines that are not of the encoding, by which another one is told."""
LEAST_FALLING = 6
"""Numbers that fall from the first to the last by chance in one row of 720."""
LEAST_NAMES = 4
"""Words among numbers from which on they may be names."""
LINE = 2**26
"""Characters or bytes that one line may have."""

BINARY = {
    b"PK\x03\x04": "a zip file or a spreadsheet",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"\x93NUMPY": "a .npy file",
    b"\xd0\xcf\x11\xe0": "a spreadsheet",
    b"%PDF": "a PDF file",
}
"""How files begin that are not text, whatever their name."""
CUT_SIZE, FEW_LINES = 2**18, 8
"""Characters of lines, or a few lines, by which it is told what separates cells."""
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
SAME_SHARE = 0.8
"""Share of rows that a mark cuts alike, or of cells that are numbers."""
CLOSED_SHARE = 0.9
"""Share of lines that end in the same mark, where it is none between cells."""
COMMA = re.compile(r"^[+-]?\d+,\d+(?:[eE][+-]?\d+)?$")
"""A number with a decimal comma, or of thousands."""
POINTED = re.compile(r"^[+-]?[1-9]\d{0,2}\.\d{3}$")
"""What may be a number of thousands with a point between them."""
THOUSANDS = re.compile(r"^[+-]?[1-9]\d{0,2}(?:(?:,\d{3})+\.\d+|(?:,\d{3}){2,3}|(?:\.\d{3})+,\d+|(?:\.\d{3}){2,3})$")
"""A number with marks between thousands: 1,234.5 or 1.234,5 or 1,234,567."""
FILE_NAME = re.compile(
    r"\S.{0,300}\.(csv|tsv|txt|dat|wav|mp3|flac|ogg|png|jpe?g|tiff?|bmp|gif|npy|npz|mat|edf|hea|json|parquet)", re.I
)
"""A name of a file that may hold a sequence."""
_SCALAR = re.compile(r"\bnp\.\w+\(([^()]*)\)")
"""A number as numpy writes it inside of a list of Python's."""
UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def text_lines(path: Path, encoding: str, mistakes: Mistakes) -> Iterator[str]:
    """Lines with their ends, as an editor counts them (a line ends at a newline, a return, or both). A file that begins
    with a byte-order mark of UTF-16 is in it.

    A line that is not of this encoding is a mistake; it is given with what stands in for the wrong bytes, so that
    lines stay counted. Raises: BadInput for what is not text at all.
    """
    with reading(path):
        with unpacked(path) as file:
            start = file.read(4096)
        encoding = true_encoding(start, encoding)
        check_text(path, start, encoding)
        with unpacked(path) as file:
            name = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
            wide = name.startswith(("utf-16", "utf-32"))
            text = io.TextIOWrapper(file, name, newline="", errors="strict" if wide else "surrogateescape")
            try:
                yield from _checked(path, text, encoding, mistakes)
            except UnicodeError as error:
                raise BadInput(
                    f"{path}: is not {encoding} ({error}); save it as UTF-8, or give its {option('encoding')}"
                ) from None


def true_encoding(start: bytes, encoding: str) -> str:
    """The encoding of a file that begins so: UTF-16 where its mark says it and nothing else was set."""
    return "utf-16" if start.startswith(UTF16_MARKS) and encoding == "utf-8" else encoding


def check_text(path: Path, start: bytes, encoding: str) -> None:
    """Raises: BadInput where a file begins as no text does, or its encoding is not known."""
    try:
        wide = codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))
        "".encode(encoding)
    except LookupError:
        raise BadInput(
            f"{path}: {field_name('encoding')}: {encoding!r} is not an encoding of text; utf-8, latin-1 and utf-16 are "
            "some"
        ) from None
    for magic, what in BINARY.items():
        if start.startswith(magic):
            raise BadInput(f"{path}: is {what}, not text; give it the ending that says so, or save it as CSV")
    if start.startswith(UTF16_MARKS) and not wide:
        raise BadInput(f"{path}: is UTF-16, not {encoding}; leave {option('encoding')} out")
    if b"\0" in start and not wide:
        odd, even = start[1::2].count(0), start[::2].count(0)
        wide_text = max(odd, even) > len(start) // 4 > 8 * min(odd, even)  # no letter has two bytes of zero
        name = f"utf-16-{'le' if odd > even else 'be'}"
        way = f", or {option('encoding', name)} where it is UTF-16" if wide_text else ""
        raise BadInput(f"{path}: is not text (byte {start.index(0)} is 0); give a text file{way}")


def _checked(path: Path, text: io.TextIOWrapper, encoding: str, mistakes: Mistakes) -> Iterator[str]:
    count, wrong, first, what, odd = 0, 0, "", "", bytearray()
    while line := text.readline(LINE + 1):
        count += 1
        if len(line) > LINE:
            raise BadInput(f"{path}:{count}: has more than {LINE} characters; give one row a line")
        if not line.isascii():
            try:
                line.encode("utf-8", "strict")
            except UnicodeEncodeError as error:
                wrong += 1
                what = what or f"byte {ord(line[error.start]) - 0xDC00:#04x} after {line[: error.start][-20:]!r}"
                first = first or f"{path}:{count}"
                odd += line.encode("utf-8", "surrogateescape") if len(odd) < ODD_BYTES else b""
        yield line
    if wrong:
        many = f", {wrong:,} such lines" if wrong > 1 else ""
        likely = [f"{option('encoding', name)}, which reads {word!r}" for name, word in likely_encodings(bytes(odd))]
        mistakes.add(first, f"is not {encoding} ({what}{many}); save it as UTF-8, or give {' or '.join(likely)}")


def printable(text: str) -> str:
    """The text with control characters written as escapes, so that no terminal obeys them."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def lines(path: Path, mistakes: Mistakes) -> Iterator[tuple[str, str]]:
    """(place, text) of each line that is UTF-8. Lines end at a newline only."""
    with reading(path), unpacked(path) as file:
        yield from _lines(file, str(path), mistakes)


def _lines(file: BinaryIO, name: str, mistakes: Mistakes) -> Iterator[tuple[str, str]]:
    row = 0
    while line := file.readline(LINE + 1):
        row, location = row + 1, f"{name}, row {row + 1}"
        if len(line) > LINE:
            raise BadInput(f"{location}: has more than {LINE} bytes; give one example per line")
        text = decoded(line.removesuffix(b"\n").removesuffix(b"\r"), location, mistakes)
        if text is not None:
            yield location, text


def decoded(content: bytes, location: str, mistakes: Mistakes) -> str | None:
    """UTF-8 as text, or None and a mistake."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        mistakes.add(
            location, f"is not UTF-8 (byte {content[error.start]:#04x} at {error.start}); convert the file to UTF-8"
        )
        return None


def text_of(value: Any, location: str, mistakes: Mistakes) -> bytes | None:
    """A text as UTF-8, or None and a mistake where it is empty, no text, or cannot be UTF-8."""
    if isinstance(value, str):
        try:
            value = value.encode()
        except UnicodeEncodeError as error:  # half of a pair of escapes such as \ud83d
            mistakes.add(location, f"character {error.start} of the text is none of its own (a lone surrogate)")
            return None
    if not isinstance(value, bytes):
        mistakes.add(location, f"the text is {str(value)[:40]!r}, of type {type(value).__name__}; give a text")
    elif not value:
        mistakes.add(location, "the text is empty; leave the row out")
    elif decoded(value, location, mistakes) is not None:
        return value
    return None


ARCHIVE = re.compile(r"\.(tar|tgz|tar\.(gz|xz|bz2))$")
"""Names of archives that are looked into."""
PACKED_ENDINGS = ("", ".gz", ".xz")
"""Endings that a file may have besides its name."""


class NamedFiles(NamedTuple):
    """Where files are: each by its own path, or all of them in one of the archives."""

    names: tuple[str, ...]
    paths: Mapping[str, Path]
    archives: tuple[Path, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """What is opened on disk."""
        return self.archives or tuple(self.paths[name] for name in self.names if name in self.paths)


def find_named(
    data: Path, task: str, folders: Sequence[str], names: Sequence[str], origin: str, optional: Sequence[str] = ()
) -> NamedFiles:
    """Where the files of these names are: in one of the folders or up to two folders deeper, else in an archive.

    A file may be packed as .gz or .xz. `optional` files are read where they are there.
    Raises: BadInput naming what is missing, the folder, and where the data set comes from.
    """
    wanted = (*names, *optional)
    for root in (data / folder for folder in folders):
        there = {name: path for name in wanted if (path := _below(root, name)) is not None}
        if there:
            lost = [name for name in names if name not in there]
            if lost:
                raise incomplete(task, (root / name for name in lost), origin)
            return NamedFiles(wanted, there, ())
    archives = tuple(
        p for folder in folders for p in sorted((data / folder).glob("*")) if ARCHIVE.search(p.name) and p.is_file()
    )
    if archives:
        return NamedFiles(wanted, {}, archives)
    raise absent(task, data, folders, f"{', '.join(names)}, or a tar archive that holds it,", origin)


def texts(
    named: NamedFiles, mistakes: Mistakes, needed: Sequence[str]
) -> Iterator[tuple[str, Iterator[tuple[str, str]]]]:
    """(name, its lines as (place, text)) of each file, in no promised order; the place is `file, row n`.

    Raises: BadInput where no archive holds one of `needed`.
    """
    for name in named.names:
        if name in named.paths:
            yield name, lines(named.paths[name], mistakes)
    left, seen = set(named.names) if named.archives else set(), set()

    def wanted(member: str) -> bool:
        seen.add(PurePosixPath(member).name)
        return PurePosixPath(member).name in left

    for archive in named.archives:
        for member, content in members(archive, wanted, mistakes):
            name = PurePosixPath(member).name
            left.discard(name)
            yield name, _lines(io.BytesIO(content), f"{archive}, member {member}", mistakes)
            if not left:
                return
    mistakes.check()
    for name in needed:
        if name in left:
            places = " and ".join(map(str, named.archives))
            raise BadInput(f"{places}: {nearest(name, seen)}; name another set, or put the file beside the archive")


def _below(root: Path, name: str) -> Path | None:
    for pattern in ("", "*/", "*/*/"):
        for ending in PACKED_ENDINGS:
            for path in sorted(root.glob(f"{pattern}{name}{ending}")):
                if path.is_file():
                    return path
    return None


def archives_or_files(root: Path, pattern: re.Pattern[str]) -> tuple[Path, tuple[Path, ...]] | None:
    """(where to read, files on disk) of a folder with files whose names fit, or of its one archive, or None.

    Raises: BadInput where a folder without such files holds several archives.
    """
    if not root.is_dir():
        return None
    there = tuple(root / name for name in listed(root, lambda n: pattern.search(n) is not None))
    if there:
        return root, there
    archives = sorted(p for p in root.glob("*") if ARCHIVE.search(p.name) and p.is_file())
    if len(archives) > 1:
        raise BadInput(
            f"{root}: holds several archives ({', '.join(p.name for p in archives)}); leave the one that is meant"
        )
    return (archives[0], (archives[0],)) if archives else None


def find_delimiter(lines: Sequence[str], name: str, quote: str) -> str:
    """What separates cells: the mark that cuts most rows into one same number of them; "" where none does.

    A mark that cuts rows into different numbers of cells counts where these are numbers. A blank stands for runs of
    blanks. The ending of the file's name decides between equals.
    """
    ending = "\t" if ".tsv" in name.lower() or ".tab" in name.lower() else ","
    sizes = itertools.accumulate(map(len, lines))
    lines = [line for i, (line, size) in enumerate(zip(lines, sizes, strict=True)) if i < FEW_LINES or size < CUT_SIZE]
    best, likely = (0.0, 0.0), ""
    for mark in sorted(DELIMITERS, key=lambda mark: mark != ending):
        rows = [row for row in cut(lines, mark, quote) if row]
        counts = Counter(map(len, rows))
        size, often = max(counts.items(), key=lambda pair: (pair[1] * (pair[0] > 1), pair[0]), default=(0, 0))
        share = often / max(len(rows), 1)
        numbers = _numbers(rows, mark)
        if max(counts, default=0) > 1 and (share >= SAME_SHARE or numbers >= SAME_SHARE):
            rank = (share * (1 + (len(rows[0]) == size)), numbers)
            if rank[0] > best[0] + 0.05 or (rank[0] > best[0] - 0.05 and rank[1] > best[1] + 0.05):
                best, likely = rank, mark
    if likely and not _in_quotes(lines, likely, quote):
        return likely
    words = [blank_cells(line, quote) for line in lines if line.strip()]
    digits = sum(any(map(str.isdigit, cell)) for row in words for cell in row)  # of days and times of day, too
    alike = len(set(map(len, words[1:]))) == 1 and 2 * digits >= sum(map(len, words))
    if words and max(map(len, words)) > 2 and _numbers(words, " ") >= (0.5 if likely else 0.2 if alike else SAME_SHARE):
        return " "
    if likely:
        return likely
    table = name.lower().removesuffix(".gz").removesuffix(".xz").endswith((".csv", ".tsv", ".tab"))
    return ending if table and lines and ending in lines[0] else ""


def _in_quotes(lines: Sequence[str], mark: str, quote: str) -> bool:
    """Whether a mark stands inside of quotes that it does not begin or end, as in "a" "b, c"."""
    try:
        list(csv.reader(lines, delimiter=mark, quotechar=quote, strict=True) if quote else ())
    except csv.Error as error:
        return "expected after" in str(error)
    return False


def blank_cells(line: str, quote: str = '"') -> list[str]:
    """Cells between blanks, which may stand inside of quotes; a quote in these is written \\" or "", as R does."""
    if not quote or quote not in line:
        return line.split()
    cells = re.findall(r'"(?:[^"\\]|\\.|"")*"(?=\s|$)|\S+', line)
    return [c[1:-1].replace('\\"', '"').replace('""', '"') if len(c) > 1 and c[0] == c[-1] == '"' else c for c in cells]


def closing_mark(lines: Sequence[str]) -> str:
    """What ends nearly all lines, stands nowhere else in them, and separates nothing, as in `a,1,2;`; "" where nothing
    does."""
    there = [line.strip() for line in lines if line.strip()]
    for mark in ";|":
        closed = [line[:-1] for line in there if line.endswith(mark) and line.count(mark) == 1]
        commas = Counter(line.count(",") for line in closed)
        count, often = commas.most_common(1)[0] if commas else (0, 0)
        if count > 1 and min(len(closed), often) >= CLOSED_SHARE * len(there):
            return mark
    return ""


def unclosed(lines: Iterable[str], mark: str) -> Iterator[str]:
    """Lines without this mark at their ends."""
    return (line.rstrip().removesuffix(mark) + "\n" for line in lines)


def _numbers(rows: Sequence[Sequence[str]], mark: str) -> float:
    """The share of cells, those of the first of several rows and of the first column apart, that are numbers (with
    decimal commas too) or missing; a column without a cell is none, as two marks in place of one make it."""
    some = {i for row in rows for i, cell in enumerate(row) if cell.strip()}
    cells = [cell.strip() for row in rows[1:] or rows for i, cell in enumerate(row) if i and i in some]
    marked = (COMMA, THOUSANDS) if mark != "," else ()
    plain = (
        not cell or cell.lower() == "nan" or is_number(cell) or any(rule.match(cell) for rule in marked)
        for cell in cells
    )
    return sum(map(bool, plain)) / max(len(cells), 1)


def cut(lines: Sequence[str], mark: str, quote: str) -> list[list[str]]:
    """Lines as rows of cells, leniently; the last row may be cut."""
    rules: dict[str, Any] = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
    try:
        return list(csv.reader(lines, delimiter=mark, **rules))
    except csv.Error:
        return [line.rstrip("\r\n").split(mark) for line in lines]


def looks_like_list(words: Iterable[str | None], most: int = 50) -> bool:
    """Whether cells are lists of numbers written as text: at least two numbers in nine of ten."""
    seen = good = 0
    for word in words:
        if word is None or not word.strip():
            continue
        parts = list_parts(word[:2_000])[:-1] if len(word) > 2_000 else list_parts(word)
        numerals = sum(is_number(part) or part.lower() in ("nan", "") for part in parts)
        cut_short = "..." in parts and word.strip().startswith(
            "["
        )  # as numpy writes long arrays: told where it is read
        good += len(parts) > 1 and (numerals >= 0.9 * len(parts) or (cut_short and numerals == len(parts) - 1))
        seen += 1
        if seen == most:
            break
    return seen > 0 and good >= 0.9 * seen


def name_files(words: Iterable[str | None]) -> bool:
    """Whether nearly all cells are names of files that may hold a sequence each."""
    there = [word.strip() for word in words if word]
    return 10 * sum(FILE_NAME.fullmatch(word) is not None for word in there) > 9 * len(there) > 0


def list_parts(text: str) -> list[str]:
    """The members of a list that was written into a cell; two separators side by side hold a missing one."""
    plain = _SCALAR.sub(r"\1", text).strip().strip("[]()")
    for separator in (",", ";", "|"):
        if separator in plain:
            return [part.strip() for part in plain.split(separator)]
    return plain.split()


def number_name(value: float) -> str:
    """`3` of 3.0, `0.5` of 0.5."""
    whole = isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e16)
    return str(int(value)) if whole else repr(float(value))


def mostly_numbers(cells: Sequence[str], decimal: str) -> bool:
    """Whether more than half of the cells that are not empty are numbers."""
    there = [cell for cell in cells if cell.strip()]
    return 2 * count_numbers(there, decimal) > len(there)


def words_above(
    rows: Sequence[Sequence[str]], begin: int, decimal: str, missing: Sequence[str]
) -> tuple[int | None, list[str]]:
    """(row, words) of the last row above the numbers, from `begin` on, with words in most columns of numbers; or None.

    Words that come again further down, or are among `missing`, are not meant.
    """
    seen = [[cell.strip() for cell in row[:LOOKED_AT]] for row in rows[: begin + LOOKED_AT]]
    width = max(map(len, seen))
    below = [[row[i] for row in seen[begin:] if i < len(row)] for i in range(width)]
    columns = [i for i, cells in enumerate(below) if len(cells) > 2 and mostly_numbers(cells, decimal)]
    last, words = None, []  # type: tuple[int | None, list[str]]
    for k, row in enumerate(seen[begin : begin + ABOVE] if len(columns) > 1 else [], begin):
        cells = [row[i] for i in columns if i < len(row) and row[i]]
        there = [cell for cell in cells if not is_number(cell, decimal) and cell.lower() != "nan"]
        if 2 * sum(is_number(cell, decimal) for cell in cells) > len(columns):
            break
        if 2 * len(there) > len(columns):
            again = {row[i] for row in seen[k + 1 :] for i in columns if i < len(row)}.union(missing)
            last, words = (last, words) if again.intersection(there) else (k, there)
    return last, words


def words_alone(rows: Sequence[Sequence[str]], column: int) -> bool:
    """Whether the cells of a column are words of several kinds that come again, and no numbers, as labels are."""
    cells = [cell for row in rows if column < len(row) and (cell := row[column].strip())]
    return 1 < len(set(cells)) <= len(cells) // 2 and not any(map(is_number, set(cells)))


def row_names(header: Sequence[str], rows: Sequence[Sequence[str]], certain: bool, fewest: int = 2) -> bool:
    """Whether all rows have one cell more than the header, and the first one is another in each, as R writes names of
    rows. certain: no text without quotes may hold the mark between cells."""
    if not certain or len(rows) < fewest or not all(map(str.strip, header)):
        return False
    longer = all(len(row) == len(header) + 1 and row[-1].strip() for row in rows)
    return longer and len({row[0] for row in rows}) == len(rows)


def has_header(rows: Sequence[Sequence[str]], decimal: str) -> bool:
    """Whether the first row names the columns, told from what stands under it."""
    head, below = rows[0], rows[1:]
    number = partial(is_number, decimal=decimal)
    some = below[: max(FEW_LINES, HEADED_CELLS // max(len(head), 1))]
    numeric = [i for i in range(len(head)) if mostly_numbers([row[i] for row in some if i < len(row)], decimal)]
    if len(head) < LOOKED_AT:
        numeric = [i for i in numeric if not _of_names([row[i].strip() for row in some if i < len(row)], decimal)]
    named = sum(bool(head[i].strip()) and not number(head[i]) and head[i].strip().lower() != "nan" for i in numeric)
    if 2 * named > len(numeric) > 0:
        return True
    own = [i for i, cell in enumerate(head) if not any(i < len(row) and row[i] == cell for row in below)]
    if any(is_role(head[i]) or plain(head[i]) in TEXTS for i in own if not number(head[i])):
        return True
    words = [i for i, cell in enumerate(head) if not number(cell)]  # a word that comes again is a label
    if below and set(words) <= set(own) and _counts_on(head, decimal) and not _counts_on(below[0], decimal):
        return True
    if numeric or len(head) == 1 or not below:
        return False
    short = all(0 < len(cell.strip()) <= 32 and len(cell.split()) == 1 for cell in head)
    return short and len(set(head)) == len(head) == len(own)


def _of_names(cells: Sequence[str], decimal: str) -> bool:
    """Whether many cells that are no numbers are all kinds of words, as names are of which some are numbers."""
    rest = cells if count_numbers(cells, decimal) < len(cells) else ()
    words = [cell for cell in rest if cell and not is_number(cell, decimal)]
    return 5 * len(words) > len(cells) and 2 * len(set(words)) > len(words) > LEAST_NAMES


def _counts_on(row: Sequence[str], decimal: str) -> bool:
    """Whether the numbers of a row go on in equal steps, as 0, 1, 2 and 0.0, 0.1, 0.2 do, or grow beside a word, or
    fall there so often that it is no chance, as wave numbers do."""
    numbers = [float(cell.replace(decimal, ".")) for cell in row if is_number(cell, decimal)]
    steps = {round(b - a, 9) for a, b in itertools.pairwise(numbers)}
    falls = len(numbers) >= LEAST_FALLING and max(steps) < 0
    return len(numbers) > 2 and (min(steps) > 0 or falls) and (len(steps) == 1 or len(numbers) < len(row))
