"""Folders of FASTA files: a file or a folder for each class."""

from pathlib import Path

import numpy as np
import pytest
from support.made_tables import read, why

from headstart import BadInput
from headstart.data import LayoutSpec, read_sequences


def fasta(path: Path, count: int = 6, head: str = "s") -> None:
    draw = np.random.default_rng(len(path.name))
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = (f">{head}{i}\n{''.join(draw.choice(list('ACDEFGHIKLMNPQRSTVWY'), 20))}\n" for i in range(count))
    path.write_text("".join(entries), "utf-8")


def test_files_of_sequences_are_classes_and_their_ids_are_told_apart(tmp_path: Path) -> None:
    for name in ("pos", "neg"):
        fasta(tmp_path / f"{name}.fasta")
    result = read(tmp_path)
    assert (result.classes, result.kind, len(result)) == (("neg", "pos"), "protein", 12)
    assert result.ids is not None
    assert result.ids[0] == "neg.fasta:s0"
    assert result.places.of(1).endswith("neg.fasta:3")
    assert any("labels are the names of the files, 'neg', 'pos'" in note for note in result.notes)
    alone = read_sequences(tmp_path / "pos.fasta", result.layout.fixed())
    assert (len(alone), alone.labels[0]) == (6, None)


def test_words_of_splits_among_others_make_no_classes_where_each_file_has_another_one(tmp_path: Path) -> None:
    for name in ("a/loc_our_val_set", "a/loc_test_set", "a/hard", "b/train_left", "b/train_right"):
        fasta(tmp_path / f"{name}.fasta")
    splits = read(tmp_path / "a")
    assert splits.layout.target is None
    assert any("are taken for splits and read together" in note for note in splits.notes)
    assert read(tmp_path / "b").classes == ("left", "right")


def test_folders_and_parts_of_names_come_before_names_of_files(tmp_path: Path) -> None:
    for name in ("a/amp/one.fa", "a/amp/two.fa", "a/none/one.fa", "b/amp_2020.fa", "b/none_2020.fa"):
        fasta(tmp_path / name, head=name[-6])
    assert read(tmp_path / "a").classes == ("amp", "none")
    assert read(tmp_path / "b").classes == ("amp", "none")
    assert read(tmp_path / "b", label_from="{label}_{year}.fa").classes == ("amp", "none")


def test_files_of_splits_or_of_one_sequence_are_no_classes(tmp_path: Path) -> None:
    for name in ("train", "test"):
        fasta(tmp_path / "splits" / f"{name}.fasta", head=name)
    result = read(tmp_path / "splits")
    assert (result.target, len(result)) == ("none", 12)
    assert any("are taken for splits" in note for note in result.notes)
    for name in "abc":
        fasta(tmp_path / "single" / f"{name}.fasta", 1, name)
    assert read(tmp_path / "single").target == "none"


def test_a_link_that_leads_out_and_a_damaged_file_are_named(tmp_path: Path) -> None:
    fasta(tmp_path / "out.fasta")
    fasta(tmp_path / "in" / "pos.fasta")
    (tmp_path / "in" / "neg.fasta").symlink_to(tmp_path / "out.fasta")
    assert "neg.fasta: is a link that leads out of its folder" in why(tmp_path / "in")
    (tmp_path / "in" / "neg.fasta").unlink()
    (tmp_path / "in" / "neg.fasta").write_text("no header\nACGT\n", "utf-8")
    assert "neg.fasta:1: comes before the first header" in why(tmp_path / "in")


def test_a_folder_of_letters_is_read_by_the_layout_of_its_fit(tmp_path: Path) -> None:
    for name in ("pos", "neg"):
        fasta(tmp_path / f"{name}.fasta")
    fixed = read(tmp_path).layout.fixed()
    assert isinstance(fixed, LayoutSpec)
    assert len(read_sequences(tmp_path, fixed)) == 12


@pytest.mark.parametrize("name", ["P{k}", "sp|P{k}|NAME{k}_HUMAN", "P{k}.1"])
def test_a_table_of_labels_beside_a_file_of_sequences_labels_them_by_their_ids(name: str, tmp_path: Path) -> None:
    entries = [
        f">{name.format(k=k)} Protein {k}\nMKVL{'ACDEFGHIKLMNPQRSTVWY' * 2}{'AK'[k % 2]}\n" for k in range(10, 20)
    ]
    (tmp_path / "seqs.fasta").write_text("".join(entries))
    rows = [f"P{k},{('kinase', 'gpcr')[k % 2]}" for k in range(19, 9, -1)]
    (tmp_path / "labels.csv").write_text("\n".join(["accession,family", *rows]))
    result = read_sequences(tmp_path / "seqs.fasta")
    assert (result.layout.target, result.labels) == ("family", ("kinase", "gpcr") * 5)
    assert "labels are in 'labels.csv'" in result.notes
    with pytest.raises(
        BadInput, match=r"holds one file of sequences, which a folder is not needed for; give .*seqs\.fasta"
    ):
        read_sequences(tmp_path)


def test_a_table_of_labels_that_lacks_a_sequence_or_has_one_twice_is_told(tmp_path: Path) -> None:
    fasta(path := tmp_path / "seqs.fasta")
    ids = [str(name) for name in read(path).ids or ()]
    rows = [f"{name},{'ab'[k % 2]}" for k, name in enumerate(ids)]
    (tmp_path / "labels.csv").write_text("\n".join(["id,label", *rows[1:]]))
    lost = [note for note in read(path).notes if "labels.csv" in note]
    assert lost == [
        f"'labels.csv' names not all sequences ({ids[0]!r} is not there), and is not used; add their rows, with an "
        "empty label where none is known"
    ]
    (tmp_path / "labels.csv").write_text("\n".join(["id,label", *rows[1:], f"{ids[0]},"]))
    assert read(path).labels == (None, *(row[-1] for row in rows[1:]))
    (tmp_path / "labels.csv").write_text("\n".join(["id,label", *rows, rows[0]]))
    assert read(path).labels == tuple(row[-1] for row in rows), "the same row twice"
    (tmp_path / "labels.csv").write_text("\n".join(["id,label", *rows, f"{ids[0]},b"]))
    with pytest.raises(BadInput, match=rf"'{ids[0]}' stands in a row above, too .* with another 'label'"):
        read(path)


def test_texts_that_may_hold_one_a_line_are_asked_about_and_both_answers_read_them(tmp_path: Path) -> None:
    for name, letters in (("pos", "ACGT"), ("neg", "GGCA")):
        lines = ["".join(row) for row in np.random.default_rng(0).choice(list(letters), (12, 30))]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    message = why(tmp_path)
    assert "each file may be one text, or hold a text a line" in message
    assert [line.split(maxsplit=3)[-1] for line in message.splitlines()[1:]] == ["--target file", "--target ''"]
    result = read(tmp_path, target="file")
    assert (len(result), result.classes, set(result.lengths.tolist())) == (24, ("neg", "pos"), {30})
    assert np.array_equal(read_sequences(tmp_path, result.layout.fixed()).values, result.values)
    assert len(read(tmp_path, target="")) == 2
