"""The normal form of source text: what is left when comments, docstrings and blanks that mean nothing are cut out.

Spans are cut out of the text by their positions and nothing is written anew, so that Python 3.11 to 3.13 agree:
their syntax trees and their tokens of f-strings differ. Needs the standard library alone.
"""

from __future__ import annotations

import ast
import io
import tokenize

Span = tuple[int, int]
"""Offsets of the first character and of the one behind the last."""

_BLANKS = " \t\f"
_KEPT = "\0"  # stands for a line end within a string; no source may hold this character
_BODIES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def decoded(source: bytes) -> str:
    """The text of a Python file, by its coding comment (PEP 263), with line ends as `\\n`.

    Raises: SyntaxError or UnicodeDecodeError where it is not text.
    """
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    return source.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


def normal_form(text: str) -> str:
    """The text without comments, docstrings, blanks at ends of lines and blank lines; strings stay as they are.

    Raises: SyntaxError where it is not Python.
    """
    tree = ast.parse(text)
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    comments, strings = _tokens(text, starts)
    docstrings = _docstrings(tree, text.split("\n"), starts)
    letters = list(text)
    for first, end in strings:
        letters[first:end] = [_KEPT if letter == "\n" else letter for letter in letters[first:end]]
    for first, end in comments + docstrings:
        letters[first:end] = [""] * (end - first)
    lines = [line.rstrip(_BLANKS) for line in "".join(letters).split("\n")]
    # A blank line ends what a backslash continues.
    ends = [False, *(line.endswith("\\") for line in lines)]
    return "\n".join(line for line, end in zip(lines, ends, strict=False) if line or end).replace(_KEPT, "\n")


def _tokens(text: str, starts: list[int]) -> tuple[list[Span], list[Span]]:
    """Spans of comments and of strings; from Python 3.12 on an f-string is many tokens, here it is one span."""
    comments: list[Span] = []
    strings: list[Span] = []
    depth = begin = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        first, end = (starts[row - 1] + column for row, column in (token.start, token.end))
        name = tokenize.tok_name[token.type]
        if name in ("FSTRING_START", "TSTRING_START"):
            begin = first if depth == 0 else begin
            depth += 1
        elif name in ("FSTRING_END", "TSTRING_END"):
            depth -= 1
            strings += [(begin, end)] if depth == 0 else []
        elif depth == 0 and name == "STRING":
            strings.append((first, end))
        elif depth == 0 and name == "COMMENT":
            comments.append((first, end))
    return comments, strings


def _docstrings(tree: ast.Module, lines: list[str], starts: list[int]) -> list[Span]:
    def offset(row: int, column: int) -> int:
        """Columns of a syntax tree count bytes of UTF-8."""
        return starts[row - 1] + len(lines[row - 1].encode()[:column].decode())

    spans: list[Span] = []
    for node in ast.walk(tree):
        if not isinstance(node, _BODIES) or not node.body or not isinstance(node.body[0], ast.Expr):
            continue
        value = node.body[0].value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            assert value.end_lineno is not None
            assert value.end_col_offset is not None
            spans.append((offset(value.lineno, value.col_offset), offset(value.end_lineno, value.end_col_offset)))
    return spans
