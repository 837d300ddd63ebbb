"""Names of folders of recordings: which of them are classes, splits, persons or days."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from headstart.data.file_labels import DAY_NAME, PARTICIPANT, PERSON, holds_labels, only_label, roles_of_folders
from headstart.data.layout import SPLIT_WORDS, LayoutSpec
from headstart.data.table import Column, Table, arrow_texts
from headstart.errors import BadInput
from headstart.ways import asked, option

FOLD_NAME = re.compile(r"(cv)?[_ -]?folds?[_ -]?\d+", re.IGNORECASE)
"""Names of a part of a data set that is tested at a time: fold1, fold_10."""
_WORD = re.compile(r"[a-z]+")


def class_folders(table: Table, paths: Sequence[tuple[str, ...]], spec: LayoutSpec) -> None:
    """A column for each level of folders, `folder`, `folder 2` and so on, and which of them is the class.

    It is the outermost one that is no split (train, test), does not hold all others, and is no person in whose folders
    the same classes stand again: these are groups. Raises: BadInput where the same names stand in several folders, so
    that either level may be the class.
    """
    depth = min(map(len, paths))
    names = ["folder", *(f"folder {level}" for level in range(2, depth + 1))]
    if not any(paths):
        return
    for level, name in enumerate(names):
        cells = [path[level] if level < len(path) else None for path in paths]
        table.columns[name] = Column(name, "text", arrow_texts(cells))
    if spec.target is not None:
        return
    for level, name in enumerate(names):
        here = sorted({path[level] for path in paths if level < len(path)})
        some = ", ".join(map(repr, here[:4]))
        inner = len(names) > level + 1
        if all(item.lower() in SPLIT_WORDS for item in here):
            then = f"the class is the folder inside ({names[level + 1]!r})" if inner else "no file has a label"
            table.notes.append(
                f"folders {some} are taken for splits and read together, and {then}; to keep them apart, fit one "
                "folder alone, or name each in a study (task.file, task.val, task.test)"
            )
            if not inner:
                table.roles["target"] = ""
            continue
        if all(map(DAY_NAME.fullmatch, here)):
            _days(table, name, here, spec)
            if not inner:
                table.roles["target"] = ""
            continue
        if all(map(FOLD_NAME.fullmatch, here)) and len(here) > 1:
            _days(table, name, here, spec, "folds")
            if not inner:
                table.roles["target"] = ""
            continue
        if len({path[level:] for path in paths}) == 1 < len(paths) and not spec.optional:
            table.roles["target"] = ""
            table.notes.append(
                f"all files are in the folder {some}, which is no class ({option('target', name)}: it is)"
            )
            return
        if not inner or len({path[level + 1] for path in paths}) == 1:
            table.roles["target"] = name
            return
        if len(here) == 1:
            continue
        pairs, below = {path[level : level + 2] for path in paths}, sorted({path[level + 1] for path in paths})
        again = len(pairs) >= 2 * len(below)  # most names stand in several folders
        persons = all(map(PERSON.fullmatch, here)), all(map(PERSON.fullmatch, below))
        if persons == (True, False) and len(pairs) > len(below):
            table.roles["group"] = name
            continue
        if all(map(DAY_NAME.fullmatch, below)):
            table.roles["target"] = name
            _days(table, names[level + 1], below, spec)
            return
        if not again:
            table.roles["target"] = name
            return
        if not persons[1]:
            question = (
                f"{table.places.source}: the folders {some} hold folders of the same names ({below[0]!r}), so that "
                "either may be the class"
            )
            raise BadInput(asked(question, {"target": name}, {"target": names[level + 1]}))
        table.roles["target"] = name
        if spec.group is None:
            table.roles["group"] = names[level + 1]
            table.notes.append(
                f"folders such as {below[0]!r} stand in several classes and are taken for persons, each in one split "
                f"({option('group', '')}: they are none)"
            )
        return


def hold_classes(paths: Sequence[tuple[str, ...]]) -> bool:
    """Whether a level of folders has several names that are neither splits, folds, days nor persons."""

    def is_class(name: str) -> bool:
        other = FOLD_NAME.fullmatch(name) or DAY_NAME.fullmatch(name) or PERSON.fullmatch(name)
        return not other and name.lower() not in SPLIT_WORDS

    levels: list[set[str]] = [set() for _ in range(max(map(len, paths), default=0))]
    for path in set(paths):
        for level, name in enumerate(path):
            levels[level].add(name)
    return any(sum(map(is_class, level)) > 1 for level in levels)


def person_folders(table: Table, paths: Sequence[tuple[str, ...]], spec: LayoutSpec) -> None:
    """Take folders of persons, of several files each, for groups, where labels stand elsewhere."""
    for level in range(min(map(len, paths))) if spec.group is None and "group" not in table.roles else ():
        cells = [path[level] for path in paths]
        if all(map(PERSON.fullmatch, cells)) and 1 < len(set(cells)) < len(cells) and "folder" not in table.columns:
            table.columns["folder"] = Column("folder", "text", arrow_texts(cells))
            table.roles["group"] = "folder"


def roles_beside(
    table: Table, paths: Sequence[tuple[str, ...]], columns: Mapping[str, Column], spec: LayoutSpec
) -> bool:
    """Whether a table beside files has their labels; folders of persons are groups then, else folders are classes."""
    splits = all(part.lower() in SPLIT_WORDS for path in paths for part in path)
    label = only_label(columns) if splits and spec.target is None else ""
    table.roles |= {"target": label} if label else {}
    persons = participant_folders(table, paths, columns, spec)
    labels = table.roles.get("target") in columns or holds_labels(columns, spec)
    if not persons:
        (person_folders if labels else class_folders)(table, paths, spec)
    return labels


def participant_folders(
    table: Table, paths: Sequence[tuple[str, ...]], columns: Mapping[str, Column], spec: LayoutSpec
) -> bool:
    """Whether a table of labels names folders of participants, which are then groups. Raises: BadInput where a column
    of it may be the class, and so may the folders around these."""
    persons = [word or "" for word in columns[PARTICIPANT].words] if PARTICIPANT in columns else []
    if not persons or not all(person in path for person, path in zip(persons, paths, strict=True)):
        return False
    roles = roles_of_folders(table.places.source, columns, spec)
    around = [path[: path.index(person)] for person, path in zip(persons, paths, strict=True)]
    if hold_classes(around):
        class_folders(table, around, spec)
    folder = table.roles.get("target")
    if folder and "target" in roles and not spec.optional:
        question = f"{table.places.source}: its folders may be the classes, or a column of the table that names them"
        raise BadInput(asked(question, {"target": folder}, {"target": roles["target"]}))
    table.roles |= roles
    return True


def _days(table: Table, name: str, folders: Sequence[str], spec: LayoutSpec, what: str = "days") -> None:
    """Take folders that are named by days, or by folds, for groups."""
    if spec.group is None and len(folders) > 1 and "group" not in table.roles:
        table.roles["group"] = name
    table.notes.append(
        f"folders such as {folders[0]!r} are named as {what} are, which are no classes: each is in one split "
        f"({option('target', name)} takes them for classes)"
    )


def split_stems(stems: Sequence[str]) -> list[str]:
    """Names of files that name splits: by a word alone (`train`), or, where several do and each has another one, among
    other words (`GunPoint_TRAIN` and `GunPoint_TEST`, but not `train_left` and `train_right`)."""
    alone = [stem for stem in stems if stem.lower() in SPLIT_WORDS]
    ends = {stem: next((word for word in _WORD.findall(stem.lower()) if word in SPLIT_WORDS), "") for stem in stems}
    named = [stem for stem in stems if ends[stem]]
    return named if len({ends[stem] for stem in named}) == len(named) > 1 else alone


def data_sets(names: Sequence[str]) -> list[str]:
    """Folders each of which holds a table for each split of a data set, as an archive of data sets does; none where one
    of these tables stands elsewhere."""
    folders: dict[str, set[str]] = {}
    for name in names:
        at, _, file = name.rpartition("/")
        folders.setdefault(at, set()).add(file.partition(".")[0])
    whole = "" not in folders and all(len(stems) == len(split_stems(sorted(stems))) > 1 for stems in folders.values())
    return sorted(folders) if whole else []
