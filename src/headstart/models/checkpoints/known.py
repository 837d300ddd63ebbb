"""Configs of checkpoints that are known by their names: what `like` needs without any file.

Source: the config.json that each was published with, of which the keys that say something about the blocks stand here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def _gpt2(width: int, blocks: int, heads: int) -> dict[str, Any]:
    return {"model_type": "gpt2", "n_embd": width, "n_layer": blocks, "n_head": heads, "n_positions": 1024}


KNOWN: Mapping[str, Mapping[str, Any]] = {
    "gpt2": _gpt2(768, 12, 12),
    "gpt2-medium": _gpt2(1024, 24, 16),
    "gpt2-large": _gpt2(1280, 36, 20),
    "distilgpt2": _gpt2(768, 6, 12),
}
