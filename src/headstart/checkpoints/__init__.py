"""Weights made elsewhere, read into our own blocks: the table of families, by the `model_type` of a config.json.

A family is one value of `family.Family` and one line here. `read.read_checkpoint` reads a folder of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headstart.spec import Entry


def _family(path: str, summary: str, source: str) -> Entry:
    return Entry(f"headstart.checkpoints.{path}", summary, source)


FAMILIES: dict[str, Entry] = {
    "bert": _family("bert:BERT", "BERT", "Devlin et al. 2019"),
    "esm": _family("bert:ESM", "ESM-2, with its vectors of amino acids", "Lin et al. 2023"),
    "gpt2": _family("gpt:GPT2", "GPT-2 and DistilGPT-2", "Radford et al. 2019"),
    "gpt_neox": _family("gpt:GPT_NEOX", "GPT-NeoX and Pythia", "Black et al. 2022"),
    "longformer": _family("bert:LONGFORMER", "Longformer, without its global positions", "Beltagy et al. 2020"),
    "t5": _family("t5:T5", "the encoder of T5", "Raffel et al. 2020"),
    "vit": _family("bert:VIT", "ViT", "Dosovitskiy et al. 2021"),
}
SERIES: dict[str, Entry] = {
    "chronos_bolt": _family("t5:CHRONOS_BOLT", "Chronos-Bolt, its encoder of series", "Ansari et al. 2024"),
    "mantis": _family("mantis:MANTIS", "Mantis, an encoder of series", "Feofanov et al. 2025"),
    "mantis_v2": _family("mantis:MANTIS_V2", "MantisV2, an encoder of series", "Feofanov et al., released code"),
    "moment": _family("t5:MOMENT", "MOMENT, its encoder of series", "Goswami et al. 2024"),
}
"""Models of series, of which frozen features are read (`baselines.embedding`); their configs tell them apart."""
WHOLE: dict[str, Entry] = {
    "bert": _family("encoder:BERT_WHOLE", "BERT, with its vectors of pieces of text", "Devlin et al. 2019"),
    "t5": _family("encoder:T5_WHOLE", "the encoder of T5, with its vectors of pieces of text", "Raffel et al. 2020"),
    "vit": _family("images:VIT_WHOLE", "ViT, with its patches", "Dosovitskiy et al. 2021"),
}
"""Families of which what stands before the blocks is read, too, where frozen features are asked for: vectors and
tokeniser of texts, patches of images."""
HEADSTART = "headstart"
"""The name of what `headstart fit` and `save_pretrained` write, among the families."""
CHECKPOINT_READERS: dict[str, Entry] = (
    FAMILIES | SERIES | {HEADSTART: _family("model_folder:OWN_FAMILY", "a network of headstart's own", "")}
)
"""All families that are read: those of others, and model folders of headstart."""


def series_kind(table: Mapping[str, Any]) -> str | None:
    """The model of series that a config belongs to, a key of `SERIES`; None where it is none."""
    architectures = table.get("architectures")
    if isinstance(architectures, (list, tuple)) and "ChronosBoltModelForForecasting" in architectures:
        return "chronos_bolt"
    if table.get("model_name") == "MOMENT":
        return "moment"
    if "transf_depth" in table and "num_patches" in table:
        return "mantis_v2" if "kernel_size" in table else "mantis"
    return None
