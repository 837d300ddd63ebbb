"""Folders of images, recordings or texts, a folder for each class, as a table."""

from __future__ import annotations

import io
import os
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import ModuleType

import numpy as np

from headstart.data.annotations import ANNOTATION
from headstart.data.archives import HEADERS, check_link, listed, members, reading, visible
from headstart.data.array_folders import (
    ABOUT,
    axes_by_file,
    classes_by_file,
    folder_of_arrays,
    is_array_file,
    parts_of_one,
)
from headstart.data.class_folders import class_folders, data_sets, hold_classes, roles_beside, split_stems
from headstart.data.clock import RATE_BEFORE
from headstart.data.encodings import likely_encodings
from headstart.data.exports import like_number
from headstart.data.file_labels import (
    PERSON,
    add_persons,
    holds_labels,
    labelled_by_name,
    labelled_by_table,
    labelled_by_texts,
    labels_in_texts,
    labels_tables,
)
from headstart.data.folder_tables import JSON_TABLES, folder_of_tables, is_recording_table
from headstart.data.layout import LayoutSpec, by_role
from headstart.data.letter_folders import by_line, folder_of_letters, is_letter_file
from headstart.data.recordings import folder_of_signals
from headstart.data.rows import list_column
from headstart.data.sensor_files import folder_of_sensors, holds_sensors, refuse_sensors, sensors_of
from headstart.data.sounds import at_rate, decoder_of, read_sound, sample_form, sound_rate
from headstart.data.sources import format_of
from headstart.data.table import Column, Table, arrow_texts
from headstart.data.text import ODD_BYTES, UTF16_MARKS
from headstart.errors import BadInput, Mistakes, Places, one_line
from headstart.store.plain import leads_out
from headstart.text import counted, first_few, many
from headstart.ways import asked, option

ENDINGS = {
    "images": (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".ppm", ".webp"),
    "recordings": (".wav", ".flac", ".mp3", ".ogg"),
    "signals": (".edf", ".bdf", ".hea", ".vhdr"),
    "texts": (".txt",),
}
OWN_FILES = ("stage.json", "model.safetensors")
"""Files in folders of a store or of a model, whose other files are no recordings."""
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "PPM", "WEBP")
PIXELS = 2**24
"""Pixels that one image may have."""
VALUES = 2**29
"""Values that a folder may hold: 2 GiB."""
TABLES = (".csv", ".tsv", ".txt", ".dat", ".tab", ".parquet", ".npy", ".npz", ".json", ".jsonl", ".xlsx", ".mat")
"""Files beside others that may hold their labels, or a recording each."""
FEW_TEXTS = 8
"""Texts about a data set beside its files, and tables that may label these, at most."""
LOOKED_FILES, LEAST_LINES, LEAST_CELLS = 3, 8, 10
"""Texts that are looked at, and lines of numbers that each holds at least, where these are tables; cells of a line that
may begin with a name."""
_MARKS = re.compile(r"\s*[;\t]\s*|,\s+|,(?=[^\d])|\s+|,(?=\d)")
FILE_FORM, FILE_CHANNELS = "the form of the files", "the number of channels of the files"
"""What files still show that were brought to one form: how fine their levels are, and what was mixed."""
GREY = ("1", "L", "LA")
"""Modes of Pillow for grey images of at most 8 bits a pixel."""


def read_folder(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """Each file is a sequence: an image pixel by pixel, row by row; a recording sample by sample (-1 to 1); a text.

    The folder below `path` that holds it is its label, its path below `path` its id; where folders stand in folders,
    see `class_folders`. Names that begin with a point are passed over.
    Raises: BadInput where the folder holds none of these, or several kinds of them, or classes cannot be told.
    """
    with reading(path):
        names = listed(path, visible)
        own = {str(PurePosixPath(name).parent) for name in names if PurePosixPath(name).name in OWN_FILES}
        names = [name for name in names if not own & set(map(str, PurePosixPath(name).parents))]
        labels, names = labels_in_texts(path, names, spec)
        for read in (parts_of_one, axes_by_file):
            if (together := read(path, names, spec)) is not None:
                return together
        read_as_tables = [n for n in names if is_recording_table(n) or _kind(n) == "texts"]
        if not spec.optional and (sets := data_sets(read_as_tables)):
            first = next((n for n in sorted(read_as_tables) if "train" in n.lower()), read_as_tables[0])
            some = first_few(list(map(repr, sets)), 3)
            raise BadInput(f"{path}: holds a data set in each folder ({some}), in splits; give {path / first}")
        aside: list[str] = []
        about = [n for n in names if _kind(n) == "texts" and PurePosixPath(n).stem.lower() in ABOUT]
        if about and len(about) == sum(_kind(name) == "texts" for name in names) and _recording_tables(names):
            aside, names = about, [name for name in names if name not in about]  # info.txt, beside tables
        kinds = Counter(kind for name in names if (kind := _kind(name)) is not None)
        tables = labels_tables(names)
        letters = sorted(filter(is_letter_file, names))
        if not kinds and len(letters) > 1 and not _recording_tables([name for name in names if name not in tables]):
            return folder_of_letters(path, letters, spec, mistakes)
        if not kinds:
            recordings = _recording_tables([name for name in names if name not in tables])
            every = _recording_tables(names)
            arrays = [name for name in names if is_array_file(name)]
            if len(arrays) > max(1, len(recordings)):
                kinds["arrays"] = len(arrays)
        if not kinds:
            if len(letters) == 1:
                raise BadInput(
                    f"{path}: holds one file of sequences, which a folder is not needed for; give {path / letters[0]}"
                )
            stems = {PurePosixPath(name).stem: name for name in every if "/" not in name}
            splits = [stems[stem] for stem in split_stems(list(stems))]
            if splits and not recordings and not spec.optional:
                first = next((name for name in splits if "train" in name.lower()), splits[0])
                raise BadInput(
                    f"{path}: holds the tables of splits ({', '.join(map(repr, splits))}); give {path / first}"
                )
            if len(every) == 1 and "/" not in every[0] and recordings in ([], every) and not spec.optional:
                raise BadInput(f"{path}: holds one table, which a folder is not needed for; give {path / every[0]}")
            plain = [name for name in names if name not in tables and "." not in name[:1]]
            if not recordings and len(plain) > 1 and _hold_numbers(path, plain):
                recordings = plain  # of endings that no program shares: .asc, .24
            for name in plain[:1] if recordings in ([], plain) else ():
                check_link(path, path / name)
                format_of(path / name)
            if not recordings:
                some = ", ".join(repr(name) for name in names[:4])
                raise BadInput(
                    f"{path}: holds no image, recording, table or .txt file{f' (but {some})' if some else ''}; name a "
                    "file, or a folder with a folder for each class"
                )
            kinds["tables"] = len(recordings)
        if len(kinds) > 1 and 0 < kinds["texts"] <= FEW_TEXTS:  # testing_list.txt, readme.txt
            above = all("/" not in name for name in names if _kind(name) == "texts")
            below = all("/" in name for name in names if _kind(name) not in (None, "texts"))
            texts = [name for name in names if _kind(name) == "texts"]
            recorded = len(texts) > 1 and _hold_numbers(path, texts)
            if above and below and 2 * len(texts) <= kinds.total() and not recorded:
                aside, kinds = texts, Counter({kind: count for kind, count in kinds.items() if kind != "texts"})
        if len(kinds) > 1:
            mixed = " and ".join(many(count, kind.removesuffix("s")) for kind, count in kinds.items())
            raise BadInput(f"{path}: holds {mixed}; name a folder that holds one kind")
        (kind,) = kinds
        if kind == "texts" and _hold_numbers(path, [name for name in names if _kind(name) == kind]):
            kind = "tables"
        paths = [PurePosixPath(name).parts[:-1] for name in names if is_array_file(name) or _kind(name) == kind]
        if kind != "tables" and not hold_classes(paths):  # meta/esc50.csv, beside sounds
            more = [name for name in names if name not in tables and is_recording_table(name)]
            tables += more if len(more) <= FEW_TEXTS else []
        if kind == "arrays" and not tables:
            arrays = sorted(name for name in names if name.lower().endswith((".npy", ".npz")))
            if (classes := classes_by_file(path, arrays, spec)) is not None:
                return classes
        if kind == "tables" and not tables:
            plain = sorted(n for n in names if is_recording_table(n) or _kind(n) == "texts")
            if (classes := classes_by_file(path, plain, spec)) is not None:
                return classes
        joined = {name for name in _recording_tables(names) if name not in tables} if kind == "tables" else set()
        table, there = _read(path, kind, set(names) - (set(tables) if kind == "tables" else set()), spec, mistakes)
        beside = labelled_by_table(path, tables, there, spec) or labelled_by_texts(labels, there)
        if kind == "texts" and beside is None and (lines := by_line(table, there, spec)) is not None:
            return lines
        notes, table.notes = table.notes, []
        annotated = _labelled_by_annotations(table, there, beside, spec)
        used = _label(table, there, beside, spec.model_copy(update={"target": ANNOTATION}) if annotated else spec)
        if annotated:
            table.roles["target"] = ANNOTATION
            table.roles |= {"group": "folder"} if "folder" in table.columns and spec.group is None else {}
        table.notes += notes
    parts = {os.path.splitext(name)[0] for name in names if name.lower().endswith(HEADERS)}
    other = len(aside) + sum(
        _kind(name) is None
        and name not in there
        and name not in joined
        and name != used
        and os.path.splitext(name)[0] not in parts
        for name in names
    )
    if other:
        table.notes.append(f"{counted(other, 'file of another kind is', 'files of other kinds are')} not read")
    windows = spec.window is not None and by_role("target", table.columns)
    inside = spec.target in table.columns or windows or _inside(table)
    labelled = inside or "target" in table.roles or "folder" in table.columns or used is not None
    if not labelled and spec.target is None and not spec.optional and holds_sensors(names):
        question = f"{path}: its folders may be sensors of one recording, or classes"
        raise BadInput(asked(question, {"target": "folder"}, {"target": ""}))
    if not (spec.optional or labelled):
        example = option("label_from", "{label}_{take}" + os.path.splitext(there[0])[1])
        table.notes.append(
            "no label is known: labels are names of folders, a table beside the files (labels.csv, with a column of "
            f"names of files), or parts of the names of files ({example})"
        )
    return table


def recordings_of(names: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """(each recording of a folder with its files, tables that may label them); no recording where the names do not tell
    that all are of one kind, or which files belong together."""
    kinds, tables = {kind for name in names if (kind := _kind(name)) is not None}, labels_tables(names)
    others = _recording_tables([name for name in names if name not in tables])
    recordings = others if not kinds else [name for name in names if _kind(name) in kinds]
    headed = [name for name in recordings if name.lower().endswith(HEADERS)]
    if (
        len(kinds) > 1
        or any(PurePosixPath(name).name in OWN_FILES for name in names)
        or (kinds == {"texts"} and others)
        or (kinds == {"signals"} and headed != recordings)
    ):
        return {}, []
    if sensors := sensors_of(Path(), recordings):
        return {key: list(own.values()) for key, own in sensors.items()}, tables
    if not headed:
        return {name: [name] for name in recordings}, tables
    stems: dict[str, list[str]] = {}
    for name in names:
        stems.setdefault(os.path.splitext(name)[0], []).append(name)
    return {name: stems[os.path.splitext(name)[0]] for name in headed}, tables


def _recording_tables(names: Sequence[str]) -> list[str]:
    """Files that may be a table of one recording; of JSON only where no other is, as it is often about the files."""
    tables = [name for name in names if is_recording_table(name)]
    others = [name for name in tables if not name.lower().removesuffix(".gz").endswith(JSON_TABLES)]
    return others or tables


def _is_table(name: str) -> bool:
    return name.lower().removesuffix(".gz").endswith(TABLES)


def _hold_numbers(path: Path, names: Sequence[str]) -> bool:
    """Whether the second half of the first texts is lines of numbers, as tables of recordings are."""
    for name in sorted(names)[:LOOKED_FILES]:
        file = path / name
        if file.is_symlink() and leads_out(file, [path]):
            return False
        with file.open("rb") as opened:
            lines = opened.read(2**16).decode("latin-1").replace("\0", "").splitlines()
        if lines and lines[0].startswith("##TITLE="):  # JCAMP-DX, which its reader refuses by this name
            return True
        rows = [_MARKS.split(line.strip(" ,;\t")) for line in lines[len(lines) // 2 : -1] if line.strip()]
        begins = [row for row in rows if row[0].strip('"')[:1] in "0123456789+-." or len(row) >= LEAST_CELLS]
        numbers = sum(2 * sum(map(like_number, row)) >= len(row) for row in begins)
        many_cells = sum(map(len, begins)) >= 2 * LEAST_CELLS
        if (numbers < LEAST_LINES and not many_cells) or 10 * numbers < 9 * len(rows) or not numbers:
            return False
    return True


def _kind(name: str) -> str | None:
    return next((kind for kind, endings in ENDINGS.items() if name.lower().endswith(endings)), None)


def _read(path: Path, kind: str, names: set[str], spec: LayoutSpec, mistakes: Mistakes) -> tuple[Table, list[str]]:
    """The sequences of files, and the names of these."""
    if kind != "tables":
        own = [name for name in names if (is_array_file(name) if kind == "arrays" else _kind(name) == kind)]
        if spec.target != "folder":
            refuse_sensors(path, sensors_of(path, own))
    if kind == "signals":
        return folder_of_signals(path, sorted(name for name in names if _kind(name) == kind), spec)
    if kind == "arrays":
        return folder_of_arrays(path, sorted(filter(is_array_file, names)), spec)
    if kind == "tables":
        recordings = [*_recording_tables(sorted(names)), *(name for name in names if _kind(name) == "texts")]
        recordings = recordings or [*names]
        if sensors := {} if spec.target == "folder" and holds_sensors(recordings) else sensors_of(path, recordings):
            return folder_of_sensors(path, sensors, spec, mistakes)
        return folder_of_tables(path, sorted(recordings), spec, mistakes)
    lists: list[np.ndarray | None] = []
    texts: list[str | None] = []
    odd: dict[str, bytes] = {}
    there: list[str] = []
    reader, total = _Reader(sound_rate(str(path), spec) if kind == "recordings" else None), 0
    for name, content in members(path, lambda name: name in names and _kind(name) == kind, mistakes):
        file = str(path / name)
        if kind == "texts":
            texts.append(_text(content, spec.encoding))
            if texts[-1] is None:
                odd[name] = content
        else:
            decoder = None if kind == "images" else decoder_of(path / name)
            image = reader.image(content, file, mistakes) if kind == "images" else None
            lists.append(image if kind == "images" else reader.sound(content, file, mistakes, decoder))
            total += 0 if lists[-1] is None else lists[-1].size
        there.append(name)
        if total > VALUES:
            raise BadInput(f"{path}: holds more than {VALUES:,} values; give fewer or smaller files")
    mistakes.check()
    if odd:
        raise _other_encoding(path, odd, len(there), spec.encoding)
    places = Places(str(path), names=[str(path / name) for name in there])
    table = Table({}, len(there), places, f"a folder of {kind}", shape="text" if kind == "texts" else "list")
    table.columns["values"] = (
        Column("values", "text", arrow_texts(texts))
        if kind == "texts"
        else list_column("values", _same_channels(lists, table), table.places)
    )
    table.rate = reader.rate if all(item is None or item.shape[1] == 1 for item in lists) else None
    if reader.rate is not None:
        table.steps, table.unit = np.full(len(there), 1 / reader.rate), 1.0
    table.notes += reader.notes(kind)
    table.made |= {name: np.array(facts) for name, facts in reader.made.items()}
    return table, there


def _label(
    table: Table, there: Sequence[str], beside: tuple[str, dict[str, Column]] | None, spec: LayoutSpec
) -> str | None:
    """Add the names of files as ids, and what labels them: a table beside them, whose name is given back, parts of
    their names, or their folders."""
    table.columns["file"] = Column("file", "text", arrow_texts(there))
    table.roles["id"] = "file"
    paths = [PurePosixPath(name).parts[:-1] for name in there]
    if spec.label_from is not None:
        labelled_by_name(table, there, spec)
    elif beside is not None:
        name, columns = beside
        table.columns |= {column: cells for column, cells in columns.items() if column not in table.columns}
        bare = sum(not any(column.words[row] for column in columns.values()) for row in range(table.rows))
        lacking = f"; {counted(bare, 'file has', 'files have')} no row there" if bare else ""
        labels = roles_beside(table, paths, columns, spec)
        table.notes.insert(0, f"{'labels are' if labels else 'what is known of the files is'} in {name!r}{lacking}")
        return name
    else:
        class_folders(table, paths, spec)
        folder = table.roles.get("target", "")
        persons = folder in table.columns and all(PERSON.fullmatch(word or "") for word in table.columns[folder].words)
        if spec.target != ANNOTATION and (not any(paths) or table.roles.get("target") == "" or persons):
            table.roles.pop("target", None)
            labelled = bool(_inside(table)) or labelled_by_name(table, there, spec)
            if persons and labelled and spec.group is None:  # sub-01/sub-01_task-rest.tsv
                table.roles["group"] = folder
            elif not labelled and (persons or any(paths)):
                table.roles["target"] = folder if persons else ""
        elif "group" not in table.roles:
            add_persons(table, there)
    return None


def _inside(table: Table) -> list[str]:
    """Columns of one value in each file that are named as targets are."""
    return by_role("target", [name for name, column in table.columns.items() if column.type in ("text", "number")])


def _labelled_by_annotations(
    table: Table, there: Sequence[str], beside: tuple[str, dict[str, Column]] | None, spec: LayoutSpec
) -> bool:
    """Whether annotations are the labels: nothing else was set, and no table or folder but those of persons has any."""
    if ANNOTATION not in table.columns or spec.target is not None:
        return False
    folders = [name.split("/")[0] for name in there if "/" in name]
    if spec.label_from or (beside and holds_labels(beside[1], spec)) or not all(map(PERSON.fullmatch, folders)):
        table.notes.append(
            f"annotations of the recordings are not used ({option('target', ANNOTATION)}: labels of windows)"
        )
        return False
    return True


class _Reader:
    """Reads images and recordings, and keeps what is to be said of all of them."""

    def __init__(self, rate: int | None) -> None:
        self.rate, self.wanted = rate, rate
        self.rates: Counter[int] = Counter()
        self.sizes: Counter[tuple[int, int]] = Counter()
        self.made: dict[str, list[float | str]] = {}
        self.clear = self.deep = 0

    def image(self, content: bytes, location: str, mistakes: Mistakes) -> np.ndarray | None:
        """(pixels, 1) of a grey image or (pixels, 3) of one in colour; None and a mistake.

        Of 0 to 255, or of what an image of more than 8 bits a pixel holds.
        """
        from PIL import Image

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of odd metadata; what cannot be read raises
                with Image.open(io.BytesIO(content), formats=FORMATS) as image:
                    if image.width * image.height > PIXELS:
                        mistakes.add(
                            location, f"has {image.width} x {image.height} pixels, at most {PIXELS:,} are read"
                        )
                        return None
                    self.sizes[image.size] += 1
                    self._was(FILE_FORM, f"{image.format} {image.mode}")
                    self.clear += image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
                    deep = image.mode in ("I", "F") or image.mode.startswith("I;16")
                    grey = deep or image.mode in GREY
                    self.deep += deep
                    plain = image if deep else image.convert("L" if grey else "RGB")
                    pixels = np.asarray(plain, dtype=np.float32)
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            problem = one_line(error, 80)
            problem = "of no known format" if "cannot identify" in problem else problem
            mistakes.add(location, f"is not an image that can be read ({problem}); give it again")
            return None
        return pixels.reshape(-1, 1 if grey else 3)

    def sound(self, content: bytes, location: str, mistakes: Mistakes, decoder: ModuleType | None) -> np.ndarray | None:
        """(samples, channels), -1 to 1, at the rate that all have; None and a mistake."""
        read = read_sound(content, location, mistakes, decoder)
        if read is None:
            return None
        rate, samples = read
        self.rates[rate] += 1
        self.rate = self.rate or rate
        form, channels = sample_form(content, os.path.splitext(location)[1])
        for name, fact in ((RATE_BEFORE, rate), (FILE_CHANNELS, channels or samples.shape[1]), (FILE_FORM, form)):
            self._was(name, fact)
        if self.wanted is not None:
            return np.asarray(at_rate(samples, rate, self.wanted) / 2.0**15, dtype=np.float32)[:, None]
        if rate != self.rate:
            mistakes.add(
                location,
                f"has {rate} samples per second, the first file has {self.rate}; set "
                f"{option('rate', str(self.rate))} to have every recording resampled and its channels mixed",
            )
            return None
        return np.asarray(samples / 2.0**15, dtype=np.float32)

    def _was(self, name: str, fact: float | str) -> None:
        self.made.setdefault(name, []).append(fact)

    def notes(self, kind: str) -> list[str]:
        """What to say of all files."""
        if kind == "images":
            sizes = ", ".join(f"{width} x {height} ({count:,})" for (width, height), count in self.sizes.most_common(3))
            notes = [f"images of {sizes}{' and others' if len(self.sizes) > 3 else ''}, pixel by pixel, row by row"]
            if len(self.sizes) > 1:
                notes.append("the images differ in size, so that a place in the sequence is another place in the image")
            if 0 < self.deep < self.sizes.total():
                notes.append(
                    f"{counted(self.deep, 'image has', 'images have')} more than 8 bits a pixel, whose levels are on "
                    "another scale"
                )
            return notes + ([f"transparency of {many(self.clear, 'image')} is not read"] if self.clear else [])
        if kind == "recordings":
            rates = ", ".join(f"{rate:,}" for rate in self.rates)
            other = self.wanted is not None and set(self.rates) != {self.wanted}
            resampled = f", resampled to {self.wanted:,}" if other else ""
            return [f"{rates} samples per second{resampled}"]
        return []


def _same_channels(lists: list[np.ndarray | None], table: Table) -> list[np.ndarray | None]:
    """Grey images among coloured ones get three equal channels. Raises: BadInput where recordings differ."""
    widths = Counter(item.shape[1] for item in lists if item is not None)
    if len(widths) < 2:
        return lists
    if set(widths) == {1, 3} and table.written == "a folder of images":
        table.notes.append(f"{widths[1]:,} grey images are read as colour, as {widths[3]:,} others are")
        return [np.repeat(item, 3, axis=1) if item is not None and item.shape[1] == 1 else item for item in lists]
    first = next(iter(widths))
    row, other = next((i, item.shape[1]) for i, item in enumerate(lists) if item is not None and item.shape[1] != first)
    raise BadInput(
        f"{table.places.of(row)}: has {other} channels, the first file has {first}; set {option('rate', '8000')} "
        "or the like to have channels mixed"
    )


def _text(content: bytes, encoding: str) -> str | None:
    """The text, of UTF-16 by its mark; None where it is in another encoding."""
    plain = encoding.lower() in ("utf-8", "utf8")
    if plain and content.startswith(UTF16_MARKS):
        encoding = "utf-16"
    try:
        return content.decode("utf-8-sig" if plain and encoding != "utf-16" else encoding)
    except (UnicodeDecodeError, LookupError):
        return None


def _other_encoding(path: Path, files: Mapping[str, bytes], count: int, encoding: str) -> BadInput:
    """What is said of texts that are in another encoding, all at once."""
    odd = b"\n".join(line for content in files.values() for line in content.splitlines() if not line.isascii())
    likely = [f"{option('encoding', name)}, which reads {word!r}" for name, word in likely_encodings(odd[:ODD_BYTES])]
    return BadInput(
        f"{path}: {many(len(files), 'text')} of {count:,} are not {encoding} (such as {next(iter(files))!r}); save "
        f"them as UTF-8, or give {' or '.join(likely)}"
    )
