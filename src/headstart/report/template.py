"""What every page is made with: one style sheet, escaping of all that is foreign, figures that stand in the page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headstart.study import words

if TYPE_CHECKING:
    from jinja2 import Environment

STYLE = Path(__file__).with_name("style.css")


def environment() -> Environment:
    """Templates in which text is escaped, a missing name is an error, and `style` is the style sheet."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    made = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters.update(score=words.score, duration=words.duration, count=words.count, plain=words.plain)
    made.globals["style"] = Markup(STYLE.read_text(encoding="utf-8"))  # noqa: S704 -- the package's own file
    return made
