"""The tokeniser of a checkpoint's own: how its makers cut a text into the pieces that its vectors stand for.

What is read is `tokenizer.json`, else `vocab.txt` with the rules of BERT's WordPiece; no code of a folder is run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from headstart.checkpoints.folder import VOCABULARY_FILE, Folder
from headstart.documents import from_json
from headstart.errors import BadInput, one_line

TOKENISER_FILE, SETTINGS_FILE = "tokenizer.json", "tokenizer_config.json"
SPARE_VECTORS = 128
"""Fewer vectors than so many may stand for no piece: makers round the size of the table up."""
UNKNOWN_PIECE, BEGIN_MARK, END_MARK = "[UNK]", "[CLS]", "[SEP]"


def tokeniser_text(files: Folder, vectors: int, rules: bool) -> str:
    """A folder's tokeniser as the text of a tokenizer.json, without padding and cutting. vectors: that the checkpoint
    has. rules: a vocab.txt alone is enough, with the rules of BERT.

    Raises: BadInput where it is missing, cannot be read, or is of another checkpoint.
    """
    name, text = TOKENISER_FILE, files.text(TOKENISER_FILE)
    if text is None and rules and (words := files.text(VOCABULARY_FILE)) is not None:
        name, settings = VOCABULARY_FILE, files.table(SETTINGS_FILE) or {}
        text = _word_pieces(files.path / name, words.splitlines(), settings.get("do_lower_case") is not False)
    if text is None:
        also = f" or {VOCABULARY_FILE}" if rules else ""
        raise BadInput(
            f"{files.path}: holds no {TOKENISER_FILE}{also}, which says how a text becomes pieces; put the one "
            "that the model was published with beside the weights"
        )
    path = files.path / name
    plain, count = _whole(path, text)
    if not 0 <= vectors - count < SPARE_VECTORS:
        raise BadInput(
            f"{path}: has {count:,} pieces, and the checkpoint vectors for {vectors:,}; it is the tokeniser of another "
            "checkpoint: put its own beside the weights"
        )
    return plain


def _whole(path: Path, text: str) -> tuple[str, int]:
    """A tokeniser without padding and cutting, and how many pieces it has. Raises: BadInput where it is none."""
    try:
        table = from_json(text)  # the library ends the process where its brackets are nested too deep
        if lost := sorted(
            _marks(table.get("post_processor"), "SpecialToken") - _marks(table.get("post_processor"), "")
        ):
            raise ValueError(f"its rules name {lost[0]!r}, which is none of its marks")
        plain = json.dumps({**table, "padding": None, "truncation": None}, ensure_ascii=False)
        return plain, _opened(plain).get_vocab_size(with_added_tokens=True)
    except BadInput:
        raise
    except Exception as error:  # the library raises plain exceptions of its own
        raise BadInput(f"{path}: is no tokeniser ({one_line(error, 120)}); download it again") from None


def tokeniser_alone(path: Path) -> tuple[str, int]:
    """A tokenizer.json, or the one of a folder, as `tokeniser_text` gives it, and how many pieces it has.

    Raises: BadInput where there is none.
    """
    folder, name = (path, TOKENISER_FILE) if path.is_dir() else (path.parent, path.name)
    if (text := Folder(folder).text(name)) is None:
        raise BadInput(f"{folder / name}: is not there; name a folder with a {TOKENISER_FILE}, or that file")
    return _whole(folder / name, text)


@lru_cache(maxsize=2)
def _cut(text: str) -> tuple[Any, int | None]:
    tokeniser = _opened(text)
    return tokeniser, _unknown_row(tokeniser, text)


def _unknown_row(tokeniser: Any, text: str) -> int | None:
    """The number of the piece that stands for what it does not know, None without one."""
    model = json.loads(text)["model"]
    row: int | None = tokeniser.token_to_id(model["unk_token"]) if model.get("unk_token") else model.get("unk_id")
    return row


def _marks(rules: Any, of: str) -> set[str]:
    """Marks that the templates of rules name (of: "SpecialToken"), or have (""), rules within rules among them."""
    if isinstance(rules, list):
        return {mark for rule in rules for mark in _marks(rule, of)}
    if not isinstance(rules, dict):
        return set()
    if rules.get("type") != "TemplateProcessing":
        return _marks(rules.get("processors"), of)
    if not of:
        return set(rules.get("special_tokens") or ())
    pieces = [piece for name in ("single", "pair") for piece in rules.get(name) or () if isinstance(piece, dict)]
    return {str(piece[of].get("id")) for piece in pieces if isinstance(piece.get(of), dict)}


@contextmanager
def _rules() -> Iterator[None]:
    """Raises: BadInput where rules of a tokeniser, which the library has not checked before, fail at a text."""
    try:
        yield
    except BaseException as error:  # the library panics with one that is no Exception
        panic = "Panic" in type(error).__name__
        if isinstance(error, MemoryError) or not (panic or isinstance(error, Exception)):
            raise
        raise BadInput(
            f"{TOKENISER_FILE}: its rules fail at a text ({one_line(error, 120)}); put the one that the model was "
            "published with beside the weights"
        ) from None


def ids_of(text: str, part: str) -> tuple[np.ndarray, int]:
    """Ids (L,) int64 of the pieces of a part of a text, without marks of its ends, and how many are unknown."""
    tokeniser, unknown = _cut(text)
    with _rules():
        ids = np.array(tokeniser.encode(part, add_special_tokens=False).ids, dtype=np.int64)
    return ids, 0 if unknown is None else int((ids == unknown).sum())


def _word_pieces(path: Path, pieces: Sequence[str], lower: bool) -> str:
    """BERT's rules with these pieces."""
    rows = {piece: row for row, piece in enumerate(pieces)}
    lost = [piece for piece in (UNKNOWN_PIECE, BEGIN_MARK, END_MARK) if piece not in rows]
    if lost:
        raise BadInput(
            f"{path}: lacks {lost[0]!r}, which BERT's rules need; put the {TOKENISER_FILE} or the {VOCABULARY_FILE} of "
            "this checkpoint beside its weights"
        )
    ends = [(BEGIN_MARK, rows[BEGIN_MARK]), (END_MARK, rows[END_MARK])]
    text = [{"SpecialToken": {"id": BEGIN_MARK, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    text.append({"SpecialToken": {"id": END_MARK, "type_id": 0}})
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [
                {"id": rows[name], "content": name, "special": True, "single_word": False, "lstrip": False}
                | {"rstrip": False, "normalized": False}
                for name in ("[PAD]", UNKNOWN_PIECE, BEGIN_MARK, END_MARK, "[MASK]")
                if name in rows
            ],
            "normalizer": {
                **{"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True},
                **{"strip_accents": None, "lowercase": lower},
            },
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {
                **{
                    "type": "TemplateProcessing",
                    "single": text,
                    "pair": [*text, {"Sequence": {"id": "B", "type_id": 1}}],
                },
                "special_tokens": {name: {"id": name, "ids": [row], "tokens": [name]} for name, row in ends},
            },
            "decoder": None,
            "model": {
                **{"type": "WordPiece", "unk_token": UNKNOWN_PIECE, "continuing_subword_prefix": "##"},
                **{"max_input_chars_per_word": 100, "vocab": rows},
            },
        },
        ensure_ascii=False,
    )


def _opened(text: str) -> Any:
    """The tokeniser of the library. Raises: BadInput without it."""
    try:
        library = import_module("tokenizers")
    except ImportError:
        raise BadInput(
            "to read texts through a tokeniser takes the package tokenizers: pip install 'headstart[hf]'"
        ) from None
    return library.Tokenizer.from_str(text)


@lru_cache(maxsize=2)
def _cut_to(text: str, most: int) -> Any:
    tokeniser = _opened(text)
    tokeniser.enable_truncation(most)
    return tokeniser


def pieces_of(text: str, texts: Sequence[str], most: int) -> list[np.ndarray]:
    """Ids (L,) int64 of the pieces of each text, the marks of its ends among them, of which there are `most` at most.

    text: of the tokeniser, as `tokeniser_text` gives it. A text without any piece has that of number 0.
    """
    with _rules():
        encodings = _cut_to(text, most).encode_batch(list(texts))
    return [np.array(each.ids or [0], dtype=np.int64) for each in encodings]


@lru_cache(maxsize=2)
def piece_names(text: str) -> dict[int, str]:
    """What stands for each number."""
    return {row: piece for piece, row in _opened(text).get_vocab(with_added_tokens=True).items()}


def unknown_share(text: str, texts: Sequence[str], most: int) -> float:
    """Share of the pieces of these texts, the marks of their ends apart, that the tokeniser does not know; 1 where
    there are none."""
    tokeniser = _cut_to(text, most)
    row = _unknown_row(tokeniser, text)
    familiar = lost = 0
    with _rules():
        encodings = tokeniser.encode_batch(list(texts))
    for each in encodings:
        unknown = [piece == row for piece in each.ids]  # which is itself a mark in the eyes of the library
        lost += sum(unknown)
        familiar += sum(not mark and not odd for mark, odd in zip(each.special_tokens_mask, unknown, strict=True))
    return lost / (familiar + lost) if familiar + lost else 1.0
