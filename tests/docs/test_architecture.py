"""The map of the code says what is there."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")


def floors() -> Any:
    spec = importlib.util.spec_from_file_location("floors", ROOT / "docs" / "floors.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_of_the_floors_has_the_rooms_and_arrows_of_the_code() -> None:
    def drawn(text: str) -> list[str]:
        return re.findall(r'<text x="[^"]*" y="[^"]*">([a-z/_]+)</text>|<path d="([^"]*)"', text)

    now, stored = floors().picture(), (ROOT / "docs" / "images" / "floors.svg").read_text("utf-8")
    assert drawn(now) == drawn(stored), "run `python docs/floors.py`"


def test_every_room_has_a_question_and_every_file_that_is_named_is_there() -> None:
    table = PAGE.partition("## What each room answers")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z_/]+)`", "".join(line.split("|")[1] for line in table.splitlines() if "|" in line)))
    rooms = set(floors().graph()) - {"", "__main__"}
    assert named == rooms
    for name in re.findall(r"`([a-z_/]+\.py)`", PAGE):
        assert (ROOT / "src" / "headstart" / name).exists() or (ROOT / name).exists(), name


QUESTIONS = (
    *("generator of ListOps", "what is masked", "training loop", "picks a learning rate", "weights are loaded"),
    *("confidence interval", "names a run's folder", "list of mixers", "shares its time", "layout of a table"),
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_ten_questions_of_a_newcomer_lead_to_a_name_that_is_there(question: str) -> None:
    table = PAGE.partition("## Where is")[2].partition("\n## ")[0]
    (line,) = (line for line in table.splitlines() if question in line)
    pairs = re.findall(r"`([a-z_/]+\.py)`, `(\w+)`", line)
    assert pairs, "a file, and the function, class or table in it"
    for file, name in pairs:
        text = (ROOT / "src" / "headstart" / file).read_text("utf-8")
        assert re.search(rf"^(def|class) {name}\b|^{name}\b.*=", text, re.MULTILINE), f"{file}: {name}"


def test_the_reading_order_is_an_afternoon() -> None:
    names = re.findall(r"`([a-z_/]+\.py)`", PAGE.partition("## Fifteen")[2])
    assert len(names) == len(set(names)) == 15
    lines = sum(len((ROOT / "src" / "headstart" / name).read_text("utf-8").splitlines()) for name in names)
    assert lines <= 5000
