"""Reads a page of HTML as tests look at it: what it names, loads, links to and says."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "img", "source", "br", "hr", "input"}


class Reader(HTMLParser):
    """Collects ids, links, sources, tags and text, and refuses tags that do not nest and attributes that run code.

    `said`: the text, without that of style sheets.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.said = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        lists = {"id": self.ids, "href": self.links, "src": self.sources, "srcset": self.sources}
        for name, value in attrs:
            assert not name.startswith("on"), f"{tag} {name}"
            if name in lists:
                lists[name].append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.said += data
