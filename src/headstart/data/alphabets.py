"""Letters of sequences and their ids, and how many inputs a kind of sequence has."""

from __future__ import annotations

ALPHABETS = {"protein": "ABCDEFGHIKLMNOPQRSTUVWXYZ", "dna": "ACGTRYSWKMBDHVN"}
"""Letters in the order of their ids: the 20 amino acids with B, O, U, X and Z (25); the bases with IUPAC's 11 letters
for several (15)."""
LETTER_NAMES = {"protein": "amino acid", "dna": "base"}


def input_width(kind: str, channels: int, symbols: int) -> int:
    """F of numbers in so many channels, V of ids of a text, of letters, or of tokens with so many symbols.

    Raises: KeyError for another kind.
    """
    widths = {"numbers": channels, "text": 256, "tokens": symbols}
    return widths[kind] if kind in widths else len(ALPHABETS[kind])
