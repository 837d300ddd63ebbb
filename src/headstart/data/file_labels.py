"""Labels of files: in a table beside them, and in the names of the files themselves."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from headstart.data.archives import check_link, reading
from headstart.data.folder_tables import is_recording_table, read_table
from headstart.data.layout import LayoutSpec, by_role, plain
from headstart.data.order import FEW_VALUES, WORDS
from headstart.data.table import Column, Table, Words, arrow_texts
from headstart.errors import BadInput, Mistakes
from headstart.text import counted, first_few, in_order, is_number
from headstart.ways import asked, field_name, option

# fmt: off
LABEL_TABLES = ("labels", "label", "metadata", "meta", "annotations", "annotation", "index", "manifest", "targets",
    "participants")
# fmt: on
"""Names, without their endings, of tables of labels beside files."""
RECORDED = frozenset(
    ("fs", "rate", "length", "duration", "samples", "size", "path", "split", "fold", "channels", "frequency")
)
"""Words of what a table says of files that is no label."""
PARTICIPANT = "participant"
"""The column of the folders that a table of labels names."""
SUBJECTS_OF_CLASS, SUBJECTS = 3, 4
"""Subjects of each class, and of all, from which on parts of names are taken for them, so that each split has one."""
WHOLE_LIST = ".whole.txt"
"""The file of a folder that is a part of another one with the names of all files of that."""
LONGEST_LABEL = 200
"""Bytes that are read of a text that may be a label."""
_OF_FILE = re.compile(r"([_.-](label|target|class))?\.txt$", re.IGNORECASE)
_BRACES = re.compile(r"\{(\w+)\}")
_NUMBERED = re.compile(r"[A-Za-z]\w*-?\d+")
"""Names of a participant that names of files may hold."""
_JOINTS = re.compile(r"(?:[_\s.]|(?<!^sub)-)+")
"""What stands between parts of names; sub-01, as BIDS names persons, is one."""
PERSON = re.compile(
    r"(subj(ect)?|sub|s|p|pt|id|patient|participant|person|speaker|spk|user|animal|donor)[_ -]?\d+", re.IGNORECASE
)
"""Names of a person: p01, subject_3."""
DAY_NAME = re.compile(
    r"(19|20)\d\d[-_. ]?(0[1-9]|1[0-2])[-_. ]?([0-2]\d|3[01])([T _-]?\d{1,2}([-_.h]?\d\d){0,2})?|"
    r"\d{1,2}[-_. ]\d{1,2}[-_. ](19|20)\d\d"
)
"""Names that are a day, or a time of one: 2024-03-12, 20240312_1405, 12.3.2024."""


def labels_tables(names: Sequence[str]) -> list[str]:
    """Files that may be the table of labels of the others: by name, or alone on the level of the folder itself."""
    tables = [name for name in names if is_recording_table(name)]
    named = [name for name in tables if _is_named(name)]
    top = [name for name in tables if "/" not in name and name not in named]
    own = {name: set(map(str.lower, WORDS.findall(name.partition(".")[0]))) for name in top}
    top = [name for name in top if not own[name] & {"prediction", "predictions", "predicted"}]  # of an earlier model
    others: list[str] = []
    if len(top) > 1:  # train_labels.csv beside sample_submission.csv
        others = [name for name in top if own[name] & {"submission", "test", "testing"}]
        top = [name for name in top if own[name] & {*LABEL_TABLES, "train", "training"} and name not in others]
    return sorted(named, key=lambda name: name.count("/")) + ([*top, *others] if len(top) == 1 < len(names) else [])


def _is_named(name: str) -> bool:
    return plain(PurePosixPath(name).name.partition(".")[0]) in LABEL_TABLES


def labelled_by_table(
    path: Path, tables: Sequence[str], files: Sequence[str], spec: LayoutSpec
) -> tuple[str, dict[str, Column]] | None:
    """(the table, its columns in the order of the files), of the first that has a column of names of these files.

    Raises: BadInput where it names files that are not there, or one file twice.
    """
    keys, whole = _keys(files), {}
    with suppress(OSError):
        whole = _keys((path / WHOLE_LIST).read_bytes().decode(errors="surrogateescape").splitlines())
    for name in tables:
        try:
            wrong = Mistakes()
            table = read_table(path / name, spec, wrong)
            wrong.check()
        except BadInput:
            if _is_named(name) and not name.endswith(".json"):  # which may be about anything
                raise
            continue
        column = max(table.columns.values(), key=lambda column: _matches(column.words, keys), default=None)
        if column is None or not _matches(column.words, keys):
            if columns := _of_folders(table, files):
                return name, columns
            continue
        return name, _joined(path / name, table, column, files, keys, whole)
    return None


def _of_folders(table: Table, files: Sequence[str]) -> dict[str, Column]:
    """The columns of a table that names a folder of each file, such as that of a participant, or a part of its name
    with a letter and a number, in the order of the files; none where it does not. These names are the column
    `participant`."""
    for column in table.columns.values():
        rows = {(word or "").strip(): row for row, word in enumerate(column.words)}
        named = {word for word in rows if len(rows) == table.rows and _NUMBERED.fullmatch(word)}
        of_files = [
            [*(part for part in path.parts[:-1] if part in rows), *named.intersection(_JOINTS.split(path.stem))]
            for path in map(PurePosixPath, files)
        ]
        folders = [next(iter(parts), None) for parts in of_files]
        at = [rows[folder] for folder in folders if folder is not None]
        if len(at) == len(files) and len(set(at)) > 1:
            others = {n: c for n, c in table.columns.items() if c is not column and c.type in ("number", "text")}
            out = {n: Column(n, c.type, arrow_texts([c.words[row] for row in at])) for n, c in others.items()}
            return {**out, PARTICIPANT: Column(PARTICIPANT, "text", arrow_texts(folders))}
    return {}


def roles_of_folders(source: str, columns: Mapping[str, Column], spec: LayoutSpec) -> dict[str, str]:
    """The roles of the columns of a table that names folders: each of these is a group. Raises: BadInput where several
    columns may be the label."""
    texts = {name: [word or "" for word in c.words] for name, c in columns.items() if c.type == "text"}
    few = [name for name, words in texts.items() if name != PARTICIPANT and _is_label(words)]
    few = by_role("target", few)[:1] or few
    if len(few) > 1 and spec.target is None and not spec.optional:
        question = f"{source}: the table that names its folders has several columns that may be the label"
        raise BadInput(asked(question, *({"target": name} for name in few)))
    return {"group": PARTICIPANT} | ({"target": few[0]} if len(few) == 1 and spec.target is None else {})


def labels_in_texts(path: Path, names: Sequence[str], spec: LayoutSpec) -> tuple[dict[str, str], list[str]]:
    """(the word in the text beside each file, which has its name: `r0.csv` and `r0.txt`, or `r0_label.txt`, by that
    name, the files without these texts); nothing where they stand beside no files. Raises: BadInput where they do, and
    are no labels."""
    others = {os.path.splitext(name)[0]: name for name in names if not name.lower().endswith(".txt")}
    texts = {_OF_FILE.sub("", name): name for name in names if name.lower().endswith(".txt")}
    if len(texts) < 2 or not texts.keys() <= others.keys():
        return {}, [*names]
    words = {}
    for stem, name in texts.items():
        check_link(path, path / name)
        with (path / name).open("rb") as file:
            words[stem] = file.read(LONGEST_LABEL).decode("utf-8-sig", "replace").strip()
    cells = list(words.values())
    if not (all(map(is_number, cells)) or (_is_label(cells) and not any("\n" in cell for cell in cells))):
        if not spec.optional:
            stem, name = next(iter(texts.items()))
            raise BadInput(
                f"{path}: holds texts beside files of their names ({others[stem]!r} and {name!r}), which are not one "
                "number or class each; move them into a folder of their own, and give the folder of what is read"
            )
        words = {}
    return words, [name for name in names if name not in texts.values()]


def labelled_by_texts(words: Mapping[str, str], files: Sequence[str]) -> tuple[str, dict[str, Column]] | None:
    """As `labelled_by_table`, of the words of `labels_in_texts`."""
    cells = [words.get(os.path.splitext(file)[0]) for file in files]
    return ("*.txt", {"label": Column("label", "text", arrow_texts(cells))}) if words else None


def labels_beside(path: Path) -> list[Path]:
    """Tables beside a file that are named as tables of labels are."""
    with reading(path):
        names = sorted(file.name for file in path.parent.iterdir() if file.is_file() and not file.is_symlink())
    named = [path.parent / name for name in names if is_recording_table(name) and _is_named(name)]
    return [file for file in named if file != path]


def labels_of(path: Path, names: Sequence[str], spec: LayoutSpec) -> dict[str, Column]:
    """The columns of a table of labels in the order of recordings of these names; none where it does not name all."""
    wrong, wanted = Mistakes(), {*names}
    table = read_table(path, spec, wrong)
    wrong.check()
    for column in table.columns.values():
        rows: dict[str, int] = {}
        again: list[tuple[int, int]] = []
        for row, word in enumerate(column.words):
            if (first := rows.setdefault((word or "").strip(), row)) != row:
                again.append((first, row))
        if all(name in rows for name in names):
            for first, row in again:
                unlike = [other.name for other in table.columns.values() if other.words[first] != other.words[row]]
                if unlike and (column.words[row] or "").strip() in wanted:
                    raise BadInput(
                        f"{table.places.of(row)}: {column.words[row]!r} stands in a row above, too "
                        f"({table.places.of(first)}), with another {unlike[0]!r}; give each sequence one row"
                    )
            at = [rows[name] for name in names]
            others = (other for other in table.columns.values() if other is not column)
            texts = {other.name: other for other in others if other.type in ("number", "text")}
            return {n: Column(n, c.type, arrow_texts([c.words[row] for row in at])) for n, c in texts.items()}
    return {}


def _keys(files: Sequence[str]) -> dict[str, str]:
    """The file that a path, a name or a name without its ending stands for, where only one does."""
    counts: Counter[str] = Counter()
    out: dict[str, str] = {}
    for file in files:
        name = PurePosixPath(file).name
        for key in {file, name, os.path.splitext(name)[0], os.path.splitext(file)[0]}:
            counts[key] += 1
            out[key] = file
    return {key: file for key, file in out.items() if counts[key] == 1}


def _file_of(word: str | None, keys: dict[str, str]) -> str | None:
    cell = (word or "").strip().replace("\\", "/").removeprefix("./")
    return keys.get(cell) or keys.get(PurePosixPath(cell).name)


def _matches(words: Words, keys: dict[str, str]) -> int:
    """How many cells name files."""
    return len({file for word in words if (file := _file_of(word, keys)) is not None})


def _joined(
    path: Path, table: Table, column: Column, files: Sequence[str], keys: dict[str, str], whole: dict[str, str]
) -> dict[str, Column]:
    rows: dict[str, int] = {}
    absent: list[str] = []
    for row, word in enumerate(column.words):
        file = _file_of(word, keys)
        if file is None and _file_of(word, whole) is not None:
            continue
        if file is None:
            absent.append(repr(word or ""))
        elif rows.setdefault(file, row) != row:
            raise BadInput(
                f"{table.places.of(row)}: {word!r} is the file of a row above ({table.places.of(rows[file])}); give "
                "each file one row"
            )
    if absent:
        raise BadInput(
            f"{path}: names {counted(len(absent), 'file that is', 'files that are')} not there "
            f"({first_few(absent, 3)}); add them, or leave their rows out"
        )
    out = {}
    for name, other in table.columns.items():
        if name != column.name and other.type in ("number", "text"):
            words = other.words
            out[name] = Column(name, other.type, arrow_texts([words[rows[f]] if f in rows else None for f in files]))
    return out


def holds_labels(columns: Mapping[str, Column], spec: LayoutSpec) -> bool:
    """Whether a table of labels has a column that is one: the one that was set, by its name, or of few texts."""
    if spec.target or by_role("target", columns):
        return not spec.target or spec.target in columns
    rest = [column for name, column in columns.items() if not by_role("group", [name])]
    return any(column.type == "text" and _is_label([word or "" for word in column.words]) for column in rest)


def only_label(columns: Mapping[str, Column]) -> str:
    """The one column of a table of labels beside the names of files, where it is neither a group nor a fact of how
    these were recorded; "" where there are more."""
    name = next(iter(columns)) if len(columns) == 1 else ""
    words = {word.lower() for word in WORDS.findall(name)}
    return "" if words & RECORDED or any(by_role(role, [name]) for role in ("group", "id", "time")) else name


def labelled_by_name(table: Table, files: Sequence[str], spec: LayoutSpec) -> bool:
    """Make a column of each part of the names of files: as `label_from` names them, else where one part has few
    values. Whether there are such parts.

    Raises: BadInput for a pattern that names no label or is not that of a file, and where two parts may be the label.
    """
    if spec.label_from is None:
        return _guessed(table, files)
    names = _BRACES.findall(spec.label_from)
    source, way = table.places.source, option("label_from", "{speaker}_{label}_{take}.wav")
    if not by_role("target", names):
        raise BadInput(
            f"{source}: {field_name('label_from')}: {spec.label_from!r} names no label; give one such as {way}"
        )
    if len(set(names)) < len(names):
        raise BadInput(
            f"{source}: {field_name('label_from')}: {spec.label_from!r} names a part twice; give each a name of its own"
        )
    matches = [_matched(spec.label_from, file) for file in files]
    lost = [repr(file) for file, match in zip(files, matches, strict=True) if match is None]
    if lost and not spec.optional:
        raise BadInput(
            f"{source}: {field_name('label_from')}: {counted(len(lost), 'file is', 'files are')} not named as "
            f"{spec.label_from!r} says "
            f"({first_few(lost, 3)}); correct the pattern, or leave these files out"
        )
    for name in names:
        cells = [match[name] if match else None for match in matches]
        table.columns[name] = Column(name, "text", arrow_texts(cells))
    table.roles["target"] = by_role("target", names)[0]
    if group := by_role("group", names):
        table.roles["group"] = group[0]
    return True


def _matched(pattern: str, file: str) -> dict[str, str] | None:
    """The parts of a file's path, where the pattern has folders, else of its name; with its ending or without."""
    text = file if "/" in pattern else PurePosixPath(file).name
    parts = _BRACES.split(pattern)
    match = _cut(parts[::2], parts[1::2], text)
    return match or (_cut(parts[::2], parts[1::2], os.path.splitext(text)[0]) if "." not in pattern else None)


def _cut(literals: Sequence[str], names: Sequence[str], text: str) -> dict[str, str] | None:
    """What stands between literals, by name: at least a letter, without a slash, and as little as the rest allows.

    An expression of `re` gives the same, but of names that nearly match it tries every way to cut them.
    """
    goals = {len(text) - len(literals[-1])} if text.endswith(literals[-1]) else set()
    ways: list[dict[int, int]] = []  # of each part from the last one on: where it begins -> where it ends
    for literal in reversed(literals[:-1]):
        ends, end = dict[int, int](), -1
        for start in range(len(text) - 1, -1, -1):
            end = start + 1 if start + 1 in goals else end
            end = -1 if text[start] == "/" else end
            if end >= 0:
                ends[start] = end
        ways.append(ends)
        befores = {start - len(literal) for start in ends}
        goals = {start for start in befores if start >= 0 and text.startswith(literal, start)}
    if 0 not in goals:
        return None
    match, end = dict[str, str](), 0
    for literal, name, ends in zip(literals, names, reversed(ways), strict=False):
        start = end + len(literal)
        end = ends[start]
        match[name] = text[start:end]
    return match


def _guessed(table: Table, files: Sequence[str]) -> bool:
    stems = [os.path.splitext(PurePosixPath(file).name)[0] for file in files]
    rows = [_JOINTS.split(stem) for stem in stems]
    if len({len(row) for row in rows}) > 1 or len(rows[0]) < 2 or len(files) < 4:
        return False
    parts = list(zip(*rows, strict=True))
    few = [k for k, cells in enumerate(parts) if _is_label(cells)]
    persons = [
        k for k, cells in enumerate(parts) if all(map(PERSON.fullmatch, cells)) and 1 < len(set(cells)) < len(files)
    ]
    if not few:
        return False
    if all(_is_word_of_numbers(parts[k]) for k in few):  # S01_A01_R1: A01 may be the class as well as R1
        few = [k for k in range(len(parts)) if k in few or (k not in persons and _is_word_of_numbers(parts[k]))]
    if few[0] > 0 and _is_digit(parts[0]) and any(all(map(str.isdigit, cells)) for cells in parts[1:]):
        few = [0, *few]  # 7_anna_3: a class, or one of few persons or sessions
    if not persons and few[0] > 0 and _is_numbered(parts[0]):  # anna1_yes_3: what comes first holds several takes
        persons = [0]
    patterns = []
    for label in few:
        names = {label: "label"} | ({persons[0]: "subject"} if persons else {})
        joints = _JOINTS.findall(stems[0])
        text = "".join(f"{{{names.get(k, f'part{k + 1}')}}}{(*joints, '')[k]}" for k in range(len(parts)))
        patterns.append(text + os.path.splitext(files[0])[1])
    if len(few) > 1:
        some = [f"part {k + 1} ({first_few(list(map(repr, in_order(set(parts[k])))), 3)})" for k in few]
        question = f"{table.places.source}: the label may be in names such as {files[0]!r}, as {' or '.join(some)}"
        raise BadInput(asked(question, *({"label_from": pattern} for pattern in patterns)))
    table.columns["label"] = Column("label", "text", arrow_texts(list(parts[few[0]])))
    table.roles["target"] = "label"
    if persons:
        table.columns["subject"] = Column("subject", "text", arrow_texts(list(parts[persons[0]])))
        table.roles["group"] = "subject"
    table.notes.append(
        f"labels are part {few[0] + 1} of the names, such as {files[0]!r} "
        f"({option('label_from', patterns[0])} says it; another pattern names another part)"
    )
    return True


def add_persons(table: Table, files: Sequence[str]) -> None:
    """A column of the first part of the names of files, where it is numbered (or the whole name, where it is a
    person's) and holds several files each: `subject`, which is the group, where each class has several, else `part 1`.
    One that counts the files of each class (take01 of both) is none, but by a word for persons."""
    parts = [_JOINTS.split(PurePosixPath(file).stem) for file in files]
    first = [part[0] for part in parts]
    if (min(map(len, parts)) > 1 or all(map(PERSON.fullmatch, first))) and _is_numbered(first):
        labels = table.columns[table.roles["target"]].words if table.roles.get("target") in table.columns else []
        pairs = {*zip(labels, first, strict=False)}
        if len(pairs) == len(files) and not all(map(PERSON.fullmatch, first)):
            return
        of_class = Counter(label for label, _ in pairs)
        several = len({*first}) >= SUBJECTS and min(of_class.values(), default=0) >= SUBJECTS_OF_CLASS
        name = "subject" if several else "part 1"
        if name not in table.columns:
            table.columns[name] = Column(name, "text", arrow_texts(first))
            note = f"the first part of names such as {files[0]!r} is taken for the subject, each in one split"
            table.notes += [f"{note} ({option('group', '')}: it is none)"] if name == "subject" else []


def _is_numbered(cells: Sequence[str]) -> bool:
    """Whether a part of names is one word with several numbers, each of them in several names."""
    return _is_word_of_numbers(cells) and len(set(cells)) > 2


def _is_word_of_numbers(cells: Sequence[str]) -> bool:
    """Whether a part of names is one word with several numbers, each of them in several names: A01, A02."""
    kinds = len(set(cells))
    alike = len({re.sub(r"\d+$", "", cell) for cell in cells}) == 1 and cells[0][:1].isalpha()
    return alike and kinds > 1 and 2 * kinds <= len(cells)


def _is_digit(cells: Sequence[str]) -> bool:
    """Whether a part of names is a digit that repeats as classes do."""
    return all(len(cell) == 1 and cell.isdigit() for cell in cells) and 1 < len(set(cells)) <= len(cells) // 2


def _is_label(cells: Sequence[str]) -> bool:
    """Whether a part of names repeats as names of classes do, and is neither a number nor a person."""
    kinds = len(set(cells))
    words = all(cell[:1].isalpha() for cell in cells) and not all(map(PERSON.fullmatch, cells))
    numbered = kinds > 2 and len({re.sub(r"\d+", "", cell) for cell in cells}) == 1
    return words and not numbered and 1 < kinds <= FEW_VALUES and 2 * kinds <= len(cells)
