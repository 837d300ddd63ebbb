"""Pages of the site that are made from the code, and what Markdown of ours needs to be read by MkDocs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import headstart
from headstart.cli import app
from headstart.study.language.reference import reference_page

ROOT = Path(__file__).parents[1]
BASES = (
    "headstart.models.mixers.mixer.MixerSpec",
    "headstart.models.own.OwnModelSpec",
    "headstart.objectives.ObjectiveSpec",
)
"""What a plugin derives its classes from, and `headstart` itself does not export."""
UNNAMED = ("results/", "benchmarks/", "decisions/", "index.md")
"""Beginnings of pages that stand alone."""
WIDE = ("results/README.md", "benchmarks/fit.md", "index.md")
"""Pages whose tables need the room of the list of sections, too."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the reference of keys, that of the command line, and the pages that stand in the repository's root."""
    pages = {
        "reference/keys.md": reference_page(),
        "reference/cli.md": command_line(),
        "reference/python.md": python(),
        "contributing.md": (ROOT / "CONTRIBUTING.md").read_text("utf-8"),
        "security.md": (ROOT / "SECURITY.md").read_text("utf-8"),
    }
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content.replace("](docs/", "](")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """A block that names its file (```python file=my_mixer.py) shows that name above it. Pages that the navigation does
    not name have its width, too; the index of results has the whole: it is one screen."""
    if page.file.src_uri.startswith(UNNAMED):
        page.meta["hide"] = ["navigation", *(["toc"] if page.file.src_uri in WIDE else [])]
    return re.sub(r"^```(\w+) file=(\S+)$", r"`\2`:\n\n```\1", markdown, flags=re.MULTILINE)


def python() -> str:
    """The signatures and docstrings of everything that `headstart` itself exports."""
    homes = {name: f"headstart.{headstart._HOMES.get(name, 'errors')}" for name in headstart.__all__}
    parts = ["# Python", "Everything that is imported from `headstart` itself; what changes stands in the changelog."]
    parts += [f"::: {home}.{name}" for name, home in sorted(homes.items())]
    parts.append("The classes that specs of your own are derived from, besides `TaskSpec`:")
    return "\n\n".join([*parts, *(f"::: {base}" for base in BASES)]) + "\n"


def command_line() -> str:
    """The help of every verb."""
    group: Any = typer.main.get_command(app)
    parts = ["# The command line", "Exit codes: 0 done, 1 some stages failed, 2 bad input, 130 interrupted."]
    for words, command in _commands(group, ("headstart",)):
        context = command.make_context(" ".join(words), ["--help"], resilient_parsing=True)
        parts.append(f"## {' '.join(words[1:])}\n\n```text\n{command.get_help(context).strip()}\n```")
    return "\n\n".join(parts) + "\n"


def _commands(group: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*words, name))
        else:
            yield (*words, name), command
