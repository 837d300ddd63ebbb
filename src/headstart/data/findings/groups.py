"""What may be wrong with groups: names that differ in how they are written, and names that hold the class."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from headstart.data.findings.finding import Finding, short
from headstart.data.labels import folded
from headstart.data.sequences import Sequences
from headstart.data.splits import ACROSS
from headstart.text import counted
from headstart.ways import option

HOLDING = 0.9
"""Share of the groups whose names hold their class from which on it is said."""
_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")
_JOINTS = " _.-/"


def groups(s: Sequences, _: dict[str, Any]) -> Iterator[Finding]:
    """Groups of which several are one as it seems, so that one subject stands in train and test."""
    if s.groups is None:
        return
    yield from _alike(s.groups)
    if s.target == "class" and not s.per_position:
        yield from _with_class(s, s.groups)


def _alike(names: tuple[str, ...]) -> Iterator[Finding]:
    """Names that differ in case, blanks or zeros before a number."""
    alike: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        alike.setdefault(_ZEROS.sub("", folded(name)), []).append(name)
    several = [same for same in alike.values() if len(same) > 1]
    if several:
        first = " and ".join(f"{short(name)!r} ({names.count(name):,})" for name in several[0][:3])
        head = f"{counted(len(several), 'group is', 'groups are')} written in several ways"
        tail = f": where these are one, rows of it in test {ACROSS} train; write each in one way"
        yield Finding(
            f"{head}, such as {first}{tail}",
            f"{head}{tail}",
        )


def _with_class(s: Sequences, names: tuple[str, ...]) -> Iterator[Finding]:
    """Names such as s01_walk beside s01_run, where walk and run are classes; not patient_1 beside control_1, whose
    numbers count the subjects of each class."""
    labels: dict[str, set[str]] = {}
    for name, label in zip(names, s.labels, strict=True):
        if label is not None:
            labels.setdefault(name, set()).add(label)
    rests: dict[str, list[str]] = {}
    for name, own in labels.items():
        rest = re.sub(rf"(?<![^\W_]){re.escape(min(own).lower())}(?![^\W_])", "", name.lower(), count=1)
        if len(own) == 1 and rest != name.lower() and not rest.strip(_JOINTS).isdigit():
            rests.setdefault(rest.strip(_JOINTS), []).append(name)
    several = [same for same in rests.values() if len(same) > 1]
    if several and sum(map(len, rests.values())) >= HOLDING * len(labels):
        example = " and ".join(repr(short(name)) for name in several[0][:3])
        tail = (
            f": where the rest of a name is the subject, rows of it in test {ACROSS} train; give {option('group')} a "
            "column of the subjects alone"
        )
        head = f"the names of {len(labels):,} groups hold their class"
        yield Finding(f"{head}, such as {example}{tail}", f"{head}{tail}")
