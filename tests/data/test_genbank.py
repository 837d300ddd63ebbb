"""GenBank: what is read of entries, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from support.made_tables import read, why, write

RNG = np.random.default_rng(5)
LETTERS = ["".join(RNG.choice(list("acgt"), 70 + i)) for i in range(12)]
NAMES = ["Escherichia coli", "Bacillus subtilis"]


def entry(i: int) -> str:
    """An entry with two lines of definition and of letters."""
    letters = LETTERS[i]
    lines = [
        f"LOCUS       AB{i:04} {len(letters)} bp    DNA     linear   BCT 01-JAN-2020",
        f"DEFINITION  {NAMES[i % 2]} gene {i},",
        "            partial sequence.",
        f"ACCESSION   AB{i:04}",
        f"VERSION     AB{i:04}.1",
        f"SOURCE      {NAMES[i % 2]}",
        f"  ORGANISM  {NAMES[i % 2]}",
        "            Bacteria; Pseudomonadati.",
        "FEATURES             Location/Qualifiers",
        f"     source          1..{len(letters)}",
        '                     /note="ORIGIN unknown"',
        "ORIGIN      ",
    ]
    for at in range(0, len(letters), 60):
        row = letters[at : at + 60]
        lines.append(f"{at + 1:>9} " + " ".join(row[k : k + 10] for k in range(0, len(row), 10)))
    return "\n".join([*lines, "//\n"])


def test_letters_organism_and_definition_of_entries_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "f.gb", "".join(map(entry, range(12))))
    sequences = read(path)
    assert [sequences.speak(i) for i in range(12)] == [text.upper() for text in LETTERS]
    assert sequences.labels == tuple(NAMES[i % 2] for i in range(12))
    assert (sequences.ids or ())[:2] == ("AB0000.1", "AB0001.1")
    assert (sequences.layout.target, sequences.layout.kind) == ("organism", "dna")
    assert read(path, target="definition").labels[0] == "Escherichia coli gene 0, partial sequence"
    assert read(write(tmp_path / "f", path.read_text())).labels == sequences.labels


def test_entries_without_letters_or_end_are_named(tmp_path: Path) -> None:
    whole = "".join(map(entry, range(3)))
    lines = whole.splitlines(keepends=True)
    bare = "".join(line for line in lines if not line.strip()[:1].isdecimal())
    assert "f.gb:1: 'AB0000.1' has no letters below ORIGIN; download it in full" in why(write(tmp_path / "f.gb", bare))
    assert "the file is cut short" in why(write(tmp_path / "f.gb", whole[:-20]))
    assert "before the one above ends" in why(write(tmp_path / "f.gb", whole.replace("//\n", "", 1)))
    assert "holds no entry of GenBank" in why(write(tmp_path / "f.gb", "x\n"))
