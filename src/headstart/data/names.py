"""What names of columns tell: roles by the words people use, and runs of numbered columns such as t0, t1, ..."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

# fmt: off
TARGET = ("label", "target", "class", "y", "category", "outcome", "diagnosis", "labels", "targets", "classlabel",
    "classname", "classid")
IDS = ("id", "ids", "uid", "uuid", "key", "sampleid", "seriesid", "sequenceid", "seqid", "recordid", "record",
    "caseid", "case", "rowid", "series", "sample", "accession", "filename", "file", "path", "name", "trial",
    "trialid", "episode", "session", "sessionid",
    "visit", "visitid", "recording", "recordingid", "run", "segment", "window", "beat")
TIME = ("time", "timestamp", "datetime", "date", "t", "step", "timestep", "position", "pos", "index", "frame",
    "tick", "seconds", "second", "sec", "ms", "minute", "hour", "day", "order")
GROUP = ("group", "groups", "subject", "patient", "participant", "person", "speaker", "user", "animal", "donor",
    "subjectid", "patientid", "participantid", "personid", "speakerid", "userid", "animalid", "groupid", "donorid")
TEXTS = ("text", "sequence", "seq", "review", "sentence", "content", "document", "comment", "message", "body", "dna",
    "protein", "primary")
# fmt: on
ROLES = {"target": TARGET, "id": IDS, "time": TIME, "group": GROUP}

_PARTS = re.compile(r"\d+")


@lru_cache(maxsize=100_000)
def plain(name: str) -> str:
    """A name without case and marks: `Patient_ID` is `patientid`."""
    return re.sub(r"[\W_]+", "", name.lower())


def is_role(name: str) -> bool:
    """Whether a name is one that targets, ids, times or groups have."""
    return any(plain(name) in names for names in ROLES.values())


def by_role(role: str, names: Iterable[str]) -> list[str]:
    """Those of the names that are used for a role, the likelier first."""
    known = ROLES[role]
    return sorted((name for name in names if plain(name) in known), key=lambda name: known.index(plain(name)))


def numbered(names: Sequence[str]) -> dict[str, list[str]]:
    """Runs of names that differ in one whole number, as `pattern -> names in the order of their numbers`.

    `t*` stands for t0, t1, ... Where names hold two numbers (t0_x1) the one that makes fewer and longer runs counts.
    Names that are themselves numbers with a fraction make none.
    """
    first, last = _runs(names, 0), _runs(names, -1)
    return first if len(first) < len(last) else last


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Names that `pattern` stands for, where `*` is a whole number, in the order of their numbers."""
    rule = re.compile("(\\d+)".join(re.escape(part) for part in pattern.split("*")))
    found = [(int(match[1]), name) for name in names if (match := rule.fullmatch(name)) is not None]
    return [name for _, name in sorted(found, key=lambda pair: pair[0])]


def lost(pattern: str, names: Sequence[str]) -> list[str]:
    """Names that a run of numbers lacks between its first and its last, where it lacks few: a run of 0, 1, 2, 4 has
    lost 3, one of 0, 5, 10 or of 3, 17, 20 has its own steps."""
    rule = re.compile("(\\d+)".join(re.escape(part) for part in pattern.split("*")))
    numbers = [int(match[1]) for name in names if (match := rule.fullmatch(name)) is not None]
    if len(numbers) < 5 or numbers[-1] - numbers[0] + 1 - len(numbers) > max(1, len(numbers) // 10):
        return []
    gone = sorted(set(range(numbers[0], numbers[-1] + 1)) - set(numbers))
    width = len(names[0]) - len(pattern) + 1 if len({len(name) for name in names}) == 1 else 1
    return [pattern.replace("*", f"{number:0{width}}") for number in gone]


def _runs(names: Sequence[str], which: int) -> dict[str, list[str]]:
    found: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        parts = list(_PARTS.finditer(name))
        if not parts or _is_fraction(name):
            continue
        number = parts[which]
        if len(number[0]) <= 18 and "*" not in name:
            pattern = f"{name[: number.start()]}*{name[number.end() :]}"
            found.setdefault(pattern, []).append((int(number[0]), name))
    return {
        pattern: [name for _, name in sorted(run, key=lambda pair: pair[0])]
        for pattern, run in found.items()
        if len(run) > 1
    }


def _is_fraction(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return not name.strip().isdecimal()
