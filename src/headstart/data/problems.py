"""What is wrong with the files of a data set, gathered so that a person sees more than the first of it."""

from __future__ import annotations

from headstart.errors import BadInput

MOST = 20
"""Mistakes that are gathered before reading stops."""


class Mistakes:
    """Mistakes in the order in which they were found; each names its file and, where there are rows, its row."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, place: str, text: str) -> None:
        """Note one. Raises: BadInput with all of them once there are 20."""
        self.found.append(f"{place}: {text}")
        if len(self.found) >= MOST:
            self.found.append(f"reading stopped after {MOST} mistakes; correct these first, there may be more")
            self.check()

    def check(self) -> None:
        """Raises: BadInput with every mistake on a line of its own, where there is one."""
        if self.found:
            raise BadInput("\n".join(self.found))
