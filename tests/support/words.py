"""Small random encoders of texts in folders of their own, each with a tokeniser of a few pieces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from support.checkpoints import saved, weights

PIECES = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "film", "plot", "was", "is", "good", "bad", "very"),
    *("##ly", "##ing", "act", "and", ".", ",", "!", "b", "##a", "##d", "un", "##good"),
]
BERT: dict[str, Any] = {
    **{"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2},
    **{"intermediate_size": 24, "max_position_embeddings": 40, "vocab_size": len(PIECES)},
}
T5: dict[str, Any] = {
    **{"model_type": "t5", "d_model": 16, "d_kv": 8, "num_heads": 2, "num_layers": 2, "d_ff": 24},
    **{"vocab_size": 40, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12},
}
UNIGRAMS = ["<pad>", "</s>", "<unk>", *(f"▁{word}" for word in PIECES[5:14]), "▁", *"abdfgilmnopstvy.,!"]


def saved_bert(folder: Path, seed: int = 0, pieces: list[str] | None = None, **changes: Any) -> Path:
    """A BERT with a vocab.txt."""
    config = {**BERT, **changes}
    random = torch.Generator().manual_seed(seed + 1)
    vectors = torch.randn(config["vocab_size"], config["hidden_size"], generator=random)
    saved(folder, config, {"embeddings.word_embeddings.weight": vectors, **weights(config, seed)})
    (folder / "vocab.txt").write_text("\n".join(pieces or PIECES) + "\n")
    return folder


def saved_t5(folder: Path, seed: int = 0) -> Path:
    """A T5 with a tokenizer.json of unigrams, whose table of vectors was rounded up."""
    random = torch.Generator().manual_seed(seed + 1)
    vectors = torch.randn(T5["vocab_size"], T5["d_model"], generator=random)
    saved(folder, T5, {"shared.weight": vectors, **weights(T5, seed)})
    tokens = [
        {"id": i, "content": name, "special": True, "single_word": False, "lstrip": False, "rstrip": False}
        | {"normalized": False}
        for i, name in enumerate(UNIGRAMS[:3])
    ]
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    single = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}]
    table = {
        "version": "1.0",
        "truncation": {"max_length": 4, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": None,
        "added_tokens": tokens,
        "normalizer": None,
        "pre_tokenizer": space,
        "post_processor": {
            **{
                "type": "TemplateProcessing",
                "single": single,
                "pair": [*single, {"Sequence": {"id": "B", "type_id": 0}}],
            },
            "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}},
        },
        "decoder": space,
        "model": {
            **{"type": "Unigram", "unk_id": 2, "byte_fallback": False},
            "vocab": [[word, -float(len(UNIGRAMS) - len(word))] for word in UNIGRAMS],
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(table, ensure_ascii=False))
    return folder
