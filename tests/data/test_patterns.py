"""Patterns of names: what they match, and that no name, nearly matching, takes them long."""

from __future__ import annotations

import itertools
import re
import time
from pathlib import PurePosixPath

from headstart.data.file_labels import _BRACES, _matched
from headstart.data.layout import matching

PATTERNS = (
    "{label}",
    "{a}_{label}",
    "{a}{label}",
    "{a}b{label}",
    "x{a}/{label}.w",
    "{label}a",
    "a{a}a{label}a",
    "{a}/{label}",
)


def by_search(pattern: str, text: str) -> dict[str, str] | None:
    """As an expression that tries every way to cut a name, each part as short as it can be."""
    parts = _BRACES.split(pattern)
    rule = "".join(f"(?P<{part}>[^/]+?)" if k % 2 else re.escape(part) for k, part in enumerate(parts))
    match = re.fullmatch(rule, text)
    return match.groupdict() if match else None


def test_a_pattern_cuts_a_name_as_a_search_through_all_ways_does() -> None:
    for length in range(1, 6):
        for letters in itertools.product("ab_/", repeat=length):
            name = "".join(letters)
            text = PurePosixPath(name).name
            for pattern in PATTERNS[:-1]:
                if "." not in pattern:
                    assert _matched(pattern, name) == by_search(pattern, name if "/" in pattern else text), (
                        pattern,
                        name,
                    )
    assert _matched("{label}_{take}.wav", "a/yes_3.wav") == {"label": "yes", "take": "3"}
    assert _matched("{label}_{take}", "a/yes_3.wav") == {"label": "yes", "take": "3.wav"}
    assert _matched("x{a}/{label}.w", "xy/z.w") == {"a": "y", "label": "z"}


def test_a_name_that_nearly_matches_a_pattern_of_many_parts_takes_no_time() -> None:
    """Of files and of columns that others have named; a search tries more ways than anybody waits for."""
    began = time.process_time()
    parts = "".join(f"{{p{number}}}" for number in range(30))
    assert _matched(f"{{label}}{parts}!", "x" * 250) is None
    assert _matched(f"{{label}}-{parts.replace('}{', '}-{')}!", "-" * 250) is None
    assert matching("*" * 30 + "!", ["1" * 10_000]) == []
    assert matching("*.*" * 10 + "!", ["1.1" * 3_000]) == []
    assert time.process_time() < began + 1


def test_a_star_of_a_column_is_a_whole_number_or_a_fraction() -> None:
    assert matching("x*", ["x10", "x9", "xa", "y1"]) == ["x9", "x10"]
    assert matching("x*0", ["x10", "x20"]) == ["x10", "x20"]
    assert matching("t*_x*", ["t2_x1", "t10_x1", "t1_y"]) == ["t2_x1", "t10_x1"]
    assert matching("w*", ["w1.5", "w0.5"]) == ["w0.5", "w1.5"]
