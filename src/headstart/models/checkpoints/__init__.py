"""Weights made elsewhere, read into our own blocks: the table of families, by the `model_type` of a config.json.

A family is one value of `family.Family` and one line here. `read.read_checkpoint` reads a folder of one.
"""

from __future__ import annotations

from headstart.spec import Entry


def _family(path: str, summary: str, source: str) -> Entry:
    return Entry(f"headstart.models.checkpoints.{path}", summary, source)


FAMILIES: dict[str, Entry] = {
    "gpt2": _family("gpt:GPT2", "GPT-2 and DistilGPT-2", "Radford et al. 2019"),
}
