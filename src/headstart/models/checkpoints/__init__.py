"""Weights made elsewhere, read into our own blocks: the table of families, by the `model_type` of a config.json.

A family is one value of `family.Family` and one line here. `read.read_checkpoint` reads a folder of one.
"""

from __future__ import annotations

from headstart.spec import Entry


def _family(path: str, summary: str, source: str) -> Entry:
    return Entry(f"headstart.models.checkpoints.{path}", summary, source)


FAMILIES: dict[str, Entry] = {
    "bert": _family("bert:BERT", "BERT", "Devlin et al. 2019"),
    "esm": _family("bert:ESM", "ESM-2, with its vectors of amino acids", "Lin et al. 2023"),
    "gpt2": _family("gpt:GPT2", "GPT-2 and DistilGPT-2", "Radford et al. 2019"),
    "gpt_neox": _family("gpt:GPT_NEOX", "GPT-NeoX and Pythia", "Black et al. 2022"),
    "longformer": _family("bert:LONGFORMER", "Longformer, without its global positions", "Beltagy et al. 2020"),
    "t5": _family("t5:T5", "the encoder of T5", "Raffel et al. 2020"),
    "vit": _family("bert:VIT", "ViT, without its patches", "Dosovitskiy et al. 2021"),
}
OWN = "headstart"
"""The name of what `headstart fit` and `save_pretrained` write, among the families."""
READERS: dict[str, Entry] = FAMILIES | {OWN: _family("own:OWN_FAMILY", "a network of headstart's own", "")}
"""All families that are read: those of others, and model folders of headstart."""
