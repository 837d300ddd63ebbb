"""Proteins and DNA from FASTA files, tables and JSON: small files of our own, the real ones, and what is wrong."""

import json
import lzma

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headstart.data.alphabets import ALPHABETS
from headstart.data.letters import encode, read_fasta, spoken
from headstart.errors import BadInput, Mistakes
from headstart.tasks.fasta import PROMOTERS, FastaSpec, HomologySpec


def word(seed, letters="ACGT", length=40):
    return "".join(np.random.default_rng(seed).choice(list(letters), length))


def entries(count, seed, label=None, letters="ACGT"):
    """FASTA of sequences in lines of 15 letters."""
    out = []
    for i in range(count):
        text = word(1000 * seed + i, letters, 30 + i)
        out += [f">s{i}" + ("" if label is None else f" {label(i)} more")]
        out += [text[j : j + 15] for j in range(0, 45, 15)]
    return [line for line in out if line]


def put(root, files):
    for name, lines in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    return root


@pytest.fixture
def own(tmp_path):
    label = ("left", "right")
    return put(
        tmp_path,
        {
            f"fasta/{split}.fa": entries(n, k, lambda i: label[i % 2])
            for k, (split, n) in enumerate({"train": 40, "test": 10}.items())
        },
    )


def promoters(tmp_path, first=30, two=40):
    names = PROMOTERS["ecoli"]
    return put(tmp_path, {f"promoters/{names[0]}": entries(first, 1), f"promoters/{names[1]}": entries(two, 2)})


def why(data, **settings):
    with pytest.raises(BadInput) as caught:
        FastaSpec(**settings).load(data)
    return str(caught.value)


def test_a_class_by_file_is_split_in_proportion_and_by_content(tmp_path):
    task = FastaSpec().load(promoters(tmp_path))
    assert task.labels == ("other", "promoter")
    assert (len(task.train), len(task.val), len(task.test)) == (50, 6, 14)
    assert np.bincount(task.test.target).tolist() == [8, 6]
    assert task.signature.width == 15
    splits = (task.train, task.val, task.test)
    everything = {task.text(x.inputs(i)) for x in splits for i in range(len(x))}
    slow = {word(1000 * seed + i, length=30 + i)[:45] for seed, n in ((1, 30), (2, 40)) for i in range(n)}
    assert everything == slow


def test_a_label_in_the_header_and_official_splits(own):
    task = FastaSpec(source="files", letters="dna").load(own)
    assert (len(task.train), len(task.val), len(task.test)) == (36, 4, 10)
    assert task.labels == ("left", "right")
    assert task.test.target.tolist() == [0, 1] * 5
    assert task.text(task.test.inputs(2)) == word(1002, length=32)
    other = FastaSpec(source="files", letters="dna", label_word=3)
    with pytest.raises(BadInput, match="every train sequence has label 'more'"):
        other.load(own)


def test_files_of_ones_own_may_be_a_class_each_and_packed(tmp_path):
    data = put(
        tmp_path,
        {
            "fasta/enzyme.faa": entries(20, 1, letters="ACDEFGHIKL"),
            "fasta/other.fasta": entries(30, 2, letters="MNPQRSTVWY"),
        },
    )
    task = FastaSpec(source="files").load(data)
    assert task.labels == ("enzyme", "other")
    path = tmp_path / "fasta/other.fasta"
    (tmp_path / "fasta/other.fasta.xz").write_bytes(lzma.compress(path.read_bytes()))
    path.unlink()
    assert FastaSpec(source="files").load(data).fingerprint == task.fingerprint


def test_small_letters_are_letters_and_long_sequences_lose_their_rest(tmp_path):
    names = PROMOTERS["ecoli"]
    data = put(tmp_path, {f"promoters/{names[0]}": entries(30, 1), f"promoters/{names[1]}": entries(40, 2)})
    task = FastaSpec(length=35).load(data)
    assert task.signature.length == 35
    assert any("sequences are longer than 35 letters and lose their rest" in note for note in task.notes)
    path = data / "promoters" / names[0]
    path.write_text(path.read_text().replace("A", "a"))
    assert np.array_equal(FastaSpec(length=35).load(data).train.values, task.train.values)


def test_copies_stay_in_train_and_double_labels_are_said(tmp_path):
    data = promoters(tmp_path)
    names = [data / "promoters" / name for name in PROMOTERS["ecoli"]]
    names[0].write_text(names[0].read_text() + f">again\n{word(1000, length=30)}\n")
    names[1].write_text(names[1].read_text() + f">again\n{word(1001, length=31)}\n")
    task = FastaSpec().load(data)
    drawn = {task.text(task.split(n).inputs(i)) for n in ("val", "test") for i in range(len(task.split(n)))}
    assert word(1000, length=30) not in drawn
    assert word(1001, length=31) not in drawn
    assert "1 of the sequences occur with more than one label" in task.notes


def test_copies_in_official_files_are_counted(own):
    test = own / "fasta/test.fa"
    test.write_text(test.read_text() + f">copy right\n{word(3, length=33)}\n")
    assert FastaSpec(source="files", letters="dna").load(own).notes == (
        "of the 11 test sequences, 1 also stand in train",
    )


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([">a left", "ACGT", "ACZT"], "row 3: letter 3 is 'Z', no base"),
        ([">a left", "ACGT*"], "row 2: letter 5 is '*', no base"),
        ([">a left", "AC-GT"], "row 2: letter 3 is '-', no base"),
        ([">a left", "ACé"], "row 2: letter 3 is 'é', no base"),
        ([">a left", ">b right", "ACGT"], "row 1: 'a left' has a header and no sequence"),
        ([">a", "ACGT"], "row 1: the header 'a' has no word 2, which is the label"),
        (["ACGT"], "row 1: comes before the first header"),
        ([">a up", "ACGT"], "row 1: label 'up' does not occur in train"),
        ([], "holds no sequence that can be read"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_row(own, lines, words):
    path = own / "fasta/test.fa"
    path.write_text("\n".join(lines))
    assert words in why(own, source="files", letters="dna")


def test_what_is_missing_is_named(own, tmp_path):
    (own / "fasta/test.fa").unlink()
    assert "test.fa is missing" in why(own, source="files")
    assert f"splice or biology of {own}" in why(own, source="splice")
    promoters(tmp_path)
    (tmp_path / "promoters/Ecoli_prom.fa").unlink()
    assert f"{tmp_path / 'promoters' / 'Ecoli_prom.fa'} is missing" in why(tmp_path)
    (own / "fasta/train.fasta").write_text(">a b\nAC")
    assert "has several files named train" in why(own, source="files")


def test_rows_of_a_table_and_what_is_wrong_with_them(tmp_path):
    rows = ["label\tid\tsequence", *(f"{('EI', 'IE', 'N')[i % 3]}\tx{i}\t{word(i)}" for i in range(60))]
    data = put(tmp_path, {"splice/uci_splice.tsv": rows})
    task = FastaSpec(source="splice").load(data)
    assert task.labels == ("EI", "IE", "N")
    path = put(tmp_path, {"splice/uci_splice.tsv": [*rows, "EI\tx", "EI\tx\t", "\tx\tACG", "N\tx\tAC?"]})
    text = why(path, source="splice")
    for words in (
        "row 62: has 2 fields",
        "row 63: the sequence is empty",
        "row 64: the label is ''",
        "row 65: letter 3 is '?'",
    ):
        assert words in text


def test_deeploc_says_that_its_train_file_is_not_there(tmp_path):
    def some(n, k):
        return entries(n, k, lambda i: ("Nucleus-U", "Cell.membrane-M")[i % 2], "ACDEFGHIKL")

    data = put(
        tmp_path, {"deeploc/deeploc_our_val_set.fasta": some(40, 1), "deeploc/deeploc_test_set.fasta": some(9, 2)}
    )
    task = FastaSpec(source="deeploc").load(data)
    assert task.labels == ("Cell.membrane", "Nucleus")
    assert (len(task.train), len(task.val), len(task.test)) == (36, 4, 9)
    assert "deeploc_our_train_set.fasta is not there" in task.notes[0]
    put(tmp_path, {"deeploc/deeploc_our_train_set.fasta": some(60, 3)})
    whole = FastaSpec(source="deeploc").load(data)
    assert (len(whole.train), len(whole.val), len(whole.test)) == (60, 40, 9)
    assert whole.notes == ()


def protein(i, fold=None, length=30):
    return {
        "primary": word(i, ALPHABETS["protein"], length + i),
        "fold_label": i % 3 if fold is None else fold,
        "id": f"d{i}",
    }


def homology(root, train=12, listed=False):
    def text(some):
        return [json.dumps(some, indent=1)] if listed else [json.dumps(row) for row in some]

    return put(
        root,
        {
            "remote_homology/remote_homology_train.json": text([protein(i) for i in range(train)]),
            "remote_homology/remote_homology_valid.json": text([protein(100 + i) for i in range(4)]),
            "remote_homology/remote_homology_test_fold_holdout.json": text([protein(i) for i in range(200, 205)]),
            "remote_homology/remote_homology_test_family_holdout.json": text([protein(i) for i in range(300, 303)]),
        },
    )


def test_folds_of_proteins_are_read_from_lines_and_lists(tmp_path):
    task = HomologySpec().load(homology(tmp_path / "a"))
    assert (len(task.train), len(task.val), len(task.test)) == (12, 4, 5)
    assert (task.signature.width, task.signature.classes) == (25, 3)
    assert task.text(task.test.inputs(1)) == protein(201)["primary"]
    assert task.test.target.tolist() == [i % 3 for i in range(200, 205)]
    assert task.notes[0] == "not the official remote homology: 3 folds in train (official: 1195)"
    listed = homology(tmp_path / "b", listed=True)
    assert HomologySpec().load(listed).fingerprint == task.fingerprint
    assert len(HomologySpec(test="family").load(listed).test) == 3


def test_long_proteins_are_left_out_and_counted(tmp_path):
    task = HomologySpec(length=231).load(homology(tmp_path))
    assert len(task.test) == 1
    assert task.signature.length == 230
    assert task.notes[1] == "proteins of 231 amino acids or more are left out: 4 of test"


def test_what_is_wrong_with_a_protein_is_said_with_its_row(tmp_path):
    path = homology(tmp_path) / "remote_homology/remote_homology_valid.json"
    lines = [
        json.dumps(protein(1)),
        "{",
        "3",
        json.dumps({"primary": "AC"}),
        json.dumps({"primary": "", "fold_label": 1}),
        json.dumps({"primary": "ACJ", "fold_label": 1}),
        json.dumps({"primary": "AC", "fold_label": None}),
    ]
    path.write_text("\n".join(lines))
    with pytest.raises(BadInput) as caught:
        HomologySpec().load(tmp_path)
    for words in (
        "row 2: is not JSON",
        "row 3: is not a JSON object",
        "row 4: has fold_label None and primary 'AC'",
        "row 5: has fold_label 1 and primary ''",
        "row 6: letter 3 is 'J', no amino acid",
        "row 7: the label is None",
    ):
        assert f"{path}, {words}" in str(caught.value)
    path.write_text(json.dumps([protein(1), protein(2, fold=9), 4]))
    with pytest.raises(BadInput, match=r"valid\.json, protein 3: is not a JSON object"):
        HomologySpec().load(tmp_path)
    path.unlink()
    with pytest.raises(BadInput, match=r"remote_homology_valid\.json is missing; TAPE's .* http"):
        HomologySpec().load(tmp_path)


@given(st.sampled_from(sorted(ALPHABETS)), st.data())
def test_letters_are_encoded_without_loss(letters, data):
    text = data.draw(st.text(ALPHABETS[letters], min_size=1))
    ids = encode(text, letters, "here", Mistakes())
    assert ids.max() < len(ALPHABETS[letters])
    assert spoken(letters)(ids) == text
    assert np.array_equal(encode(text.lower(), letters, "here", Mistakes()), ids)


@given(st.lists(st.text(max_size=20) | st.text("ACGT>;\n ", max_size=12), max_size=12))
def test_any_text_gives_entries_or_mistakes_and_nothing_else(lines):
    mistakes = Mistakes()
    for _, header, ids in read_fasta(((f"row {i}", line) for i, line in enumerate(lines)), "dna", mistakes):
        assert isinstance(header, str)
        assert len(ids) > 0
        assert ids.max() < 15


def test_the_real_sequences(linked):
    if not (linked / "biology").is_dir():
        pytest.skip("../shared/data/biology is not here")
    ecoli = FastaSpec().load(linked)
    assert len(ecoli.train) + len(ecoli.val) + len(ecoli.test) == 839 + 3000
    assert (ecoli.signature.length, ecoli.labels) == (81, ("other", "promoter"))
    splice = FastaSpec(source="splice").load(linked)
    assert len(splice.train) + len(splice.val) + len(splice.test) == 767 + 768 + 1655
    assert (splice.signature.length, splice.labels) == (60, ("EI", "IE", "N"))
    deeploc = FastaSpec(source="deeploc").load(linked)
    assert (len(deeploc.train) + len(deeploc.val), len(deeploc.test)) == (1678, 2768)
    assert (deeploc.signature.width, len(deeploc.labels)) == (25, 11)
    assert "deeploc_our_train_set.fasta is not there" in deeploc.notes[0]
