"""Every door at which a person sees text of others, with all that such text may try there."""

from __future__ import annotations

import csv
import io
import json
import logging
import re
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from rich.text import Text
from support.finished import fill, study, written
from support.made_outcomes import outcome
from support.made_up import facts, make_plan, shelf

from headstart import cli
from headstart.analysis.occlusion import Explained
from headstart.errors import BadInput
from headstart.fitted.card import model_card
from headstart.fitted.outcome import Outcome
from headstart.fitted.page import write_page
from headstart.guard import FORMULA_STARTS
from headstart.report.figures.arms import compared
from headstart.report.figures.forest import ForestLine, forest
from headstart.report.figures.style import svg
from headstart.report.live import live_page
from headstart.report.page import filled
from headstart.report.tables.report_table import to_csv, to_latex, to_markdown, to_rich
from headstart.report.tables.scores import make_table
from headstart.serve.predictions import Predictions, to_json_lines
from headstart.serve.predictions import to_csv as predictions_csv
from headstart.store import Store
from headstart.study.language.plan import make_plan as plan_of
from headstart.study.language.spec import read_study
from headstart.study.paper.summary import summarise
from headstart.study.results.results import Results
from headstart.text import json_lines
from headstart.verbs.explain import _page as explaining_page
from headstart.verbs.report_all import STUDIES_TEMPLATE, StudyLine
from headstart.verbs.terminal import console, hanging, print_error, table

PAYLOADS = {
    "colours": "a\x1b[2J\x1b]0;pwned\x07",
    "C1": "a\x9b31m\x85",
    "direction": "a\u202eb\u2066c\u200f",
    "script": "</script></style><script>alert(1)</script>",
    "attribute": "\" onload='alert(1)' x=\"",
    "comment": "--><img src=x onerror=alert(1)><!--",
    "picture": "![x](http://e.x/a.png) [x](javascript:alert(1)) <http://e.x>",
    "table": "a | b\n| --- |\n# head\n\n- item\n***",
    "code": "`a` ``` ~~~ $x$ *b* _c_ [^1] &copy;",
    "TeX": "\\input{/etc/passwd}\\write18{id} $x^2$ %\n_&#{}~^",
    "formula": "=HYPERLINK(1)",
    "sum": "@SUM(A1);-2+3\t=1",
    "command": "-cmd|' /C calc'!A0",
    "template": "{{7*7}}{% raw %}{0.__class__}%s%n",
    "markup": "[red]a[/red][link=http://e.x]b[/link]",
    "zero": "a\0b\ud800",
    "long": "x" * 100_000,
}
PAYLOADS["all"] = "\n".join(text[:1000] for text in PAYLOADS.values())
PLAIN = "plain"
ACTED_ON = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class _Tags(HTMLParser):
    """The tags of a page with the names of their attributes, and what runs in it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(f"{tag} {' '.join(sorted(name for name, _ in attrs))}")
        assert not [name for name, value in attrs if name.startswith("on") or "javascript:" in (value or "")]


def tags(text: str) -> list[str]:
    text_alone(text)
    text.encode()
    parser = _Tags()
    parser.feed(text)
    return parser.tags


def drawn_tags(text: str) -> set[str]:
    """Of figures, whose letters are shapes: each kind of tag once."""
    assert not re.search(r'href="(?!#)', text)
    return {tag for tag in tags(text) if not tag.startswith(("path ", "use ", "g "))}


def markdown_tags(text: str) -> list[str]:
    """Of the page that a reader of Markdown makes of it."""
    markdown = pytest.importorskip("markdown", reason="is not here: pip install 'headstart[docs]'")
    return tags(markdown.markdown(text, extensions=["tables", "fenced_code"]))


def latex_tokens(text: str) -> list[str]:
    """What LaTeX acts on: commands, but those that stand for a sign, and signs that are not escaped."""
    signs = r"\\(?:textbackslash|textasciitilde|textasciicircum|textless|textgreater|textbar)\{\}|\\[&%$#_{}]|\$(?:-|\\pm|\^2)\$"
    return re.findall(r"\\[A-Za-z]+\d*|[&%$#_{}~^]", re.sub(signs, "", text))


def csv_shape(text: str) -> list[int]:
    rows = list(csv.reader(io.StringIO(text)))
    for cell in (cell for row in rows for cell in row):
        assert not cell.startswith(FORMULA_STARTS) or re.fullmatch(r"[+-][\d.e+-]+", cell), cell
    return [len(row) for row in rows]


def text_alone(text: str) -> int:
    assert not ACTED_ON.search(text.replace("\r\n", "\n").replace("\n", ""))
    return 0


def json_keys(text: str) -> Any:
    text_alone(text)
    return [sorted(json.loads(line)) for line in text.splitlines()]


def printed(*items: Any) -> str:
    screen = console()
    screen.file = io.StringIO()
    for item in items:
        screen.print(item)
    return screen.file.getvalue()


@cache
def results(text: str) -> Results:
    """A study with an arm of this name, whose title and claim say the same."""
    text = text.replace("\ud800", "")  # which no name of a study may hold
    plan = make_plan(arms={"scratch": False, text: True})
    return replace(summarise(plan, shelf(plan).find, facts=facts()), title=text)


@cache
def fitted() -> Outcome:
    item = outcome(("a", "b"), test=10)
    return replace(item, records={}, occlusion=None)


def of_fit(text: str) -> Outcome:
    item = fitted()
    channel = (text, "0", "1", "2", "3", "4")
    card = replace(item.card, head=(*item.card.head, ("file", text)), findings=(text,), channels=(channel,))
    return replace(item, title=text, answer=text, notes=(text,), plan=(text,), card=card)


def predictions(text: str) -> Predictions:
    shares = {f"p_{text}": np.array([0.5, 0.25])}
    return Predictions("id", [text, f"{text}2"], [text, "other"], shares)


def all_studies(text: str) -> str:
    line = StudyLine(text, text, text, text, text, "./x/page.html")
    return filled(STUDIES_TEMPLATE, title=text, store=text, lines=[line] * 2)


def explanation(text: str) -> str:
    numbers = np.ones((2, 3))
    return explaining_page(predictions(text), Explained(numbers, numbers, numbers), text, True, text)


def figures(text: str) -> str:
    each = [compared(results(text)), forest([ForestLine(text, text, 0.1, 0.0, 0.2, text)], text)]
    return "".join(svg(figure).decode() for figure in each if figure is not None)


def report(text: str, page: str) -> str:
    """A file of the report of a study of this title, with an arm of this name."""
    text = text.replace("\ud800", "").replace("\0", "")
    arms = {"scratch": {}, "".join(filter(str.isprintable, text))[:90].strip(): {}}
    with TemporaryDirectory() as folder:
        return written(Path(folder), study(text, arms=arms), keep=4)[2].with_name(page).read_text()


def running(text: str) -> str:
    """The page of a study that runs, a stage of which has failed."""
    text = text.replace("\ud800", "").replace("\0", "")
    with TemporaryDirectory() as folder:
        plan, store = plan_of(read_study(study(text)), Path(folder)), Store(Path(folder, "runs"))
        fill(plan, store, keep=1)
        failed = store.root / plan.cells[2].last.identity
        failed.mkdir()
        (failed / "stage.json").write_text(json.dumps({"name": text, "spec": {}, "identity": failed.name}))
        (failed / "failure.txt").write_text(text)
        return live_page(plan, store, "abc", ended=text)


def error_text(text: str) -> str:
    out = io.StringIO()
    with redirect_stderr(out):
        print_error(BadInput(f"data.csv:3: {text!r} is {text}; give another\nstudy.toml: {text}"))
        print_error(OSError(2, "no such file", text))
    return out.getvalue()


def logged(text: str) -> str:
    record = logging.LogRecord("headstart", logging.WARNING, "", 0, "%s", (text,), None)
    return cli._Escaped().format(record)


Door = tuple[Callable[[str], str], Callable[[str], Any]]
DOORS: dict[str, Door] = {
    "an error": (error_text, text_alone),
    "a log": (logged, text_alone),
    "a list in a terminal": (lambda x: printed(table([x, "b"], [[x, Text(x)]] * 3), hanging(x), x), text_alone),
    "a long list in a terminal": (lambda x: printed(table([x, "b"], [[x, x]] * 600)), text_alone),
    "results in a terminal": (lambda x: printed(to_rich(make_table(results(x)))), text_alone),
    "results as text": (lambda x: str(results(x)), text_alone),
    "results in a notebook": (lambda x: results(x)._repr_html_(), tags),
    "results in Markdown": (lambda x: to_markdown(make_table(results(x))), markdown_tags),
    "results in LaTeX": (lambda x: to_latex(make_table(results(x))), latex_tokens),
    "results as CSV": (lambda x: to_csv(make_table(results(x))), csv_shape),
    "the page of a fit": (lambda x: write_page(of_fit(x)), tags),
    "the card of a model": (lambda x: model_card(of_fit(x)).partition("\n---\n")[2], markdown_tags),
    "predictions as CSV": (lambda x: predictions_csv(predictions(x)), csv_shape),
    "predictions as JSON": (lambda x: to_json_lines(predictions(x)), lambda text: len(json_keys(text))),
    "the page of an explanation": (explanation, tags),
    "the page of all studies": (all_studies, tags),
    "the figures of results": (figures, drawn_tags),
    "the page of a study": (lambda x: report(x, "page.html"), tags),
    "the page of a study in Markdown": (lambda x: report(x, "results.md"), markdown_tags),
    "the page of a study that runs": (running, tags),
    "results as JSON": (lambda x: json_lines({"name": x, "rows": [{x: x}]}), text_alone),
}
"""What writes text of others, and what a reader, a browser or a program makes of it, which no payload may change."""


SLOW = (
    *("the page of a fit", "the card of a model", "the figures of results", "the page of a study"),
    *("the page of a study in Markdown", "the page of a study that runs"),
)
"""Take some seconds to make up or to draw: all payloads at once."""


@pytest.mark.parametrize(("door", "payload"), [(door, name) for door in DOORS if door not in SLOW for name in PAYLOADS])
def test_text_of_others_is_text_wherever_it_is_seen(door: str, payload: str) -> None:
    write, read = DOORS[door]
    assert read(write(PAYLOADS[payload])) == read(write(PLAIN))


@pytest.mark.slow
@pytest.mark.parametrize("door", SLOW)
def test_text_of_others_is_text_on_pages_that_take_long(door: str) -> None:
    write, read = DOORS[door]
    assert read(write(PAYLOADS["all"])) == read(write(PLAIN))


def test_a_million_letters_are_a_few_lines_in_a_terminal() -> None:
    name = "x" * 1_000_000
    for text in (error_text(name), printed(table([name], [[name], [Text(name)]]), hanging(name))):
        assert len(text) < 20_000
