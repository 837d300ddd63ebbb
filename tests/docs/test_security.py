"""SECURITY.md: what may be opened, with its limits; each line names the test that holds it."""

import re
from pathlib import Path

import pytest
from support.fuzz.parsers import PARSERS

ROOT = Path(__file__).parents[2]
LINES = [line for line in (ROOT / "SECURITY.md").read_text("utf-8").splitlines() if line.startswith("| ")][2:]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split(" | ")[0].removeprefix("| "))
def test_each_line_names_a_test_that_is_there(line: str) -> None:
    _, limits, held = line.strip("| ").split(" | ")
    match = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)`", held)
    assert limits
    assert match
    assert f"\ndef {match[2]}(" in (ROOT / match[1]).read_text("utf-8")


def test_what_is_damaged_at_random_has_a_line() -> None:
    text = " ".join(LINES).lower()
    doors = {"packed_store": "packed store", "packed": "packed file", "texts": "folder", "tokeniser": "tokenizer.json"}
    doors |= {"json_document": "pages' json"}
    of_readers = {name for name, parser in PARSERS.items() if parser.read in (PARSERS["csv"].read, PARSERS["mat"].read)}
    for name in PARSERS.keys() - (of_readers - {"packed", "texts", "labels"}):
        assert doors.get(name, name) in text
