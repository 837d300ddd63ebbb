"""What `Results` show of themselves in Python: the report's folder, its page and each of its figures."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from headstart.atomic import holds_files
from headstart.errors import BadInput, nearest
from headstart.store import Store
from headstart.study.language.plan import Plan
from headstart.study.results.results import Results
from headstart.text import listed


@dataclass(frozen=True)
class ReportViews:
    """Of the results of this plan, whose stages are in this store. origin: as of `headstart.api.Study`."""

    plan: Plan
    store: Store
    origin: str = ""

    def write(self, results: Results, folder: str | os.PathLike[str]) -> Path:
        """The report in a folder, as `headstart report` writes it; its page.

        Raises: BadInput for a file, or a folder with other files in it.
        """
        from headstart.report.page import write_report  # matplotlib is slow to import

        path = Path(folder)
        if path.exists() and not path.is_dir():
            raise BadInput(f"write: {os.fspath(folder)!r} is a file; name a folder for the report")
        if holds_files(path) and not (path / "results.md").is_file():
            raise BadInput(f"write: {os.fspath(folder)!r} holds other files; name an empty folder, or one of a report")
        return write_report(self.plan, results, self.store, path, origin=self.origin)

    def page(self, results: Results) -> str:
        """The page, as HTML that needs no other file."""
        from headstart.report.page import write_report

        with TemporaryDirectory() as folder:
            return write_report(self.plan, results, self.store, Path(folder), origin=self.origin).read_text("utf-8")

    def figure(self, results: Results, name: str) -> Any:
        """A figure of matplotlib: by its whole name (`sweep-digits`), or its beginning where one alone has it.

        Raises: BadInput with the names that there are.
        """
        from headstart.report.figures.collect import drawings

        every = {drawing.name: drawing for drawing in drawings(self.plan, results, self.store)[0]}
        alike = [name] if name in every else [own for own in every if own.startswith(f"{name}-")]
        if len(alike) > 1:
            raise BadInput(f"figure: {name!r} is {listed(alike, 'or')}; name one of them")
        drawn = every[alike[0]].figure() if alike else None
        if drawn is None:
            raise BadInput(f"figure: {nearest(name, list(every))}")
        return drawn
