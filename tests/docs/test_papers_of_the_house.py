"""CHANGELOG.md and AGENTS.md stay short, and what they and the CI call is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def text_of(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def test_the_changelog_has_a_line_for_each_change_under_the_usual_heads() -> None:
    _, *versions = re.split(r"^## ", text_of("CHANGELOG.md"), flags=re.MULTILINE)
    for version in versions:
        lines = version.splitlines()
        assert len(lines) <= 60
        heads = [line.removeprefix("### ") for line in lines if line.startswith("### ")]
        assert set(heads) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
        assert not [line for line in lines[1:] if line and not line.startswith(("- ", "### "))]


def test_the_newest_version_of_the_changelog_is_that_of_the_package() -> None:
    newest = re.search(r"^## \[([^]]+)\]", text_of("CHANGELOG.md"), re.MULTILINE)
    assert newest is not None
    assert f'\nversion = "{newest[1]}"\n' in text_of("pyproject.toml")
    assert f"\nversion: {newest[1]}\n" in text_of("CITATION.cff")


def test_agents_md_has_at_most_60_lines_and_names_folders_that_are_there() -> None:
    text = text_of("AGENTS.md")
    assert len(text.splitlines()) <= 60
    for row in re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \|", text, re.MULTILINE):
        for name in re.findall(r"`([a-z/_]+(?:\.py)?)`", row):
            assert (ROOT / name).exists() or (ROOT / "src" / "headstart" / name).exists(), name


@pytest.mark.parametrize("name", ["AGENTS.md", "CONTRIBUTING.md", ".github/workflows/ci.yml"])
def test_words_of_make_are_there(name: str) -> None:
    words = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:^|`|run: |\| )make (?:PYTHON=\S+ )?([a-z-]+)", text_of(name), re.MULTILINE))
    assert named
    assert named <= words


def test_a_script_that_a_page_names_is_there_or_the_page_says_at_which_commit_it_stood() -> None:
    gone = []
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for match in re.finditer(r"benchmarks/(\w+\.py)(?=(.{0,120}))", page.read_text("utf-8"), re.DOTALL):
            if not (ROOT / "benchmarks" / match[1]).exists() and not re.search(r"at\s+commit\s+[0-9a-f]{7}", match[2]):
                gone.append(f"{page.name}: {match[1]}")
    assert not gone
