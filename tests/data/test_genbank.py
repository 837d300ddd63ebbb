"""GenBank: what is read of entries, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.made_tables import read, why, write

RNG = np.random.default_rng(5)
LETTERS = ["".join(RNG.choice(list("acgt"), 70 + i)) for i in range(12)]
PROTEINS = ["".join(RNG.choice(list("ACDEFGHIKLMNPQRSTVWY"), 70 + i)) for i in range(12)]
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


def embl(i: int, protein: bool = False) -> str:
    """The same entry as EMBL has it, or one of UniProt."""
    letters = PROTEINS[i] if protein else LETTERS[i]
    end = f"AB{i:04}_X  Reviewed; {len(letters)} AA." if protein else f"AB{i:04}; SV 1; linear; mRNA; STD; PRO."
    lines = [f"ID   {end}", "XX", f"AC   AB{i:04};", "XX", f"DE   {NAMES[i % 2]} gene {i},", "DE   partial sequence."]
    lines += ["XX", f"OS   {NAMES[i % 2]}", "OC   Bacteria; Pseudomonadati.", "RT   ;", "FH   Key   Location"]
    lines += [f"FT   source          1..{len(letters)}", "XX", f"SQ   Sequence {len(letters)} BP; 9 A; 0 other;"]
    for at in range(0, len(letters), 60):
        row = letters[at : at + 60]
        cells = " ".join(row[k : k + 10] for k in range(0, len(row), 10))
        lines.append(f"     {cells}" + ("" if protein else f"{at + len(row):>10}"))
    return "\n".join([*lines, "//\n"])


@pytest.mark.parametrize("ending", ["embl", "txt", "dat", "seq"])
@pytest.mark.parametrize("protein", [False, True])
def test_entries_of_embl_and_uniprot_are_read_whatever_the_name_of_the_file(
    tmp_path: Path, ending: str, protein: bool
) -> None:
    s = read(write(tmp_path / f"f.{ending}", "".join(embl(i, protein) for i in range(12))))
    assert [s.speak(i) for i in range(12)] == (PROTEINS if protein else [text.upper() for text in LETTERS])
    assert s.ids == tuple(f"AB{i:04}{'_X' if protein else ''}" for i in range(12))
    assert s.labels == tuple(NAMES[i % 2] for i in range(12))
    assert s.kind == ("protein" if protein else "dna")


def test_entries_of_embl_that_are_not_whole_are_named(tmp_path: Path) -> None:
    whole = embl(0)
    assert "ends within an entry" in why(write(tmp_path / "f.embl", whole[:-3]))
    bare = "".join(line for line in whole.splitlines(keepends=True) if not line.startswith("     "))
    assert "'AB0000' has no letters below SQ; download it in full" in why(write(tmp_path / "f.embl", bare))


@pytest.mark.parametrize("ending", ["txt", "dat", "csv"])
def test_entries_in_a_file_named_as_text_are_told_by_their_beginning(tmp_path: Path, ending: str) -> None:
    assert read(write(tmp_path / f"f.{ending}", "".join(map(entry, range(12))))).kind == "dna"
    fasta = "".join(f">s{i} {'ab'[i % 2]}\n{text}\n" for i, text in enumerate(LETTERS))
    s = read(write(tmp_path / f"f.{ending}", fasta))
    assert [s.speak(i) for i in range(12)] == [text.upper() for text in LETTERS]
    quoted = "".join(f"> so he wrote {i}\nand so on\n" for i in range(12))
    assert read(write(tmp_path / f"g.{ending}", quoted)).kind == "text"


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
