"""Text that is not UTF-8: the message names the encoding by which it is words, and that one reads the file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.made_tables import numbers, read, why, write

from headstart.data import LayoutSpec, read_sequences
from headstart.data.encodings import likely_encodings

WORDS = {
    "cp932": ("時刻,温度,状態", ("正常", "異常")),
    "euc_jp": ("サンプル,値,ラベル", ("正常", "異常")),
    "gb18030": ("时间,电压,类别", ("轴承内圈", "正常")),
    "big5": ("時間,溫度,標籤", ("正常", "故障")),
    "cp949": ("시간,온도,상태", ("정상", "고장")),
    "cp1251": ("Время,Давление,Метка", ("норма", "авария")),
    "koi8-r": ("Время,Давление,Метка", ("норма", "авария")),
    "cp866": ("Время,Давление,Метка", ("норма", "авария")),
    "cp1253": ("Χρόνος,Θερμοκρασία,Κατάσταση", ("καλή", "κακή")),
    "cp1250": ("Cykl,Napięcie,Stan", ("zużyty", "żywy")),
    "cp1252": ("Größe,Länge,Zustand", ("gut", "beschädigt")),
}


def lines(encoding: str) -> str:
    """A header of three names and rows of a label and six numbers."""
    names, labels = WORDS[encoding]
    header = ",".join(["label", *(f"{name} {i}" for i, name in enumerate(names.split(",") * 2))])
    rows = (",".join([labels[i % 2], *map(str, row)]) for i, row in enumerate(numbers(12, 6).tolist()))
    return "\n".join([header, *rows]) + "\n"


@pytest.mark.parametrize("encoding", WORDS)
def test_the_encoding_that_a_message_names_first_reads_the_file(encoding: str, tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", lines(encoding).encode(encoding))
    message = why(path)
    way = re.search(r"--encoding (\S+?), which reads '([^']+)'", message)
    assert way is not None, message
    assert way[2] in lines(encoding)
    result = read(path, encoding=way[1])
    assert (len(result), set(result.classes)) == (12, set(WORDS[encoding][1]))


@pytest.mark.parametrize("text", ["Temp. [°C]", "µV", "m/s²", "Año", "état", "Prüfstand – Süd"])
def test_one_sign_of_a_western_text_is_none_of_two_bytes(text: str) -> None:
    name, word = likely_encodings(text.encode("cp1252"))[0]
    assert (name, word in text) == ("cp1252", True)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_its_mark_is_told_with_the_option_that_reads_it(encoding: str, tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", lines("cp1252").encode(encoding))
    assert f"or --encoding {encoding} where it is UTF-16" in why(path)
    assert len(read(path, encoding=encoding)) == 12


def test_bytes_that_are_no_words_of_any_script_are_offered_latin_1() -> None:
    assert likely_encodings(b"a\x81b")[0][0] == "latin-1"


def test_a_folder_of_texts_is_told_the_encoding_that_reads_it(tmp_path: Path) -> None:
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        for i in range(4):
            write(tmp_path / label / f"{i}.txt", f"Температура двигателя {label} {i}\n".encode("cp1251"))
    assert "or give --encoding cp1251, which reads 'Температура'" in why(tmp_path)
    assert len(read(tmp_path, encoding="cp1251")) == 8


@pytest.mark.parametrize("encoding", ["cp1254", "cp1252", "cp1251", "cp932"])
def test_a_folder_of_texts_in_another_encoding_gets_one_message_whose_way_works(encoding: str, tmp_path: Path) -> None:
    texts = {
        "cp1254": ["iyi değil, kötü bir şey", "çok güzel, teşekkürler"],
        "cp1252": ["très bon, génial", "pas terrible, déçu"],
        "cp1251": ["очень хорошо, спасибо", "плохой товар, не советую"],
        "cp932": ["とても良い商品です", "悪い商品でした"],
    }[encoding]
    for k in range(8):
        (tmp_path / "ab"[k % 2]).mkdir(exist_ok=True)
        (tmp_path / "ab"[k % 2] / f"{k}.txt").write_bytes(f"{texts[k % 2]} {k}".encode(encoding))
    message = why(tmp_path)
    assert "8 texts of 8 are not utf-8 (such as 'a/0.txt'); save them as UTF-8, or give" in message
    assert message.count("\n") == 0
    name = message.split("--encoding ")[1].split(",")[0]
    assert name == encoding
    assert len(read_sequences(tmp_path, LayoutSpec(encoding=name))) == 8


def test_texts_of_utf_16_with_its_mark_are_read(tmp_path: Path) -> None:
    for k in range(4):
        (tmp_path / "ab"[k % 2]).mkdir(exist_ok=True)
        (tmp_path / "ab"[k % 2] / f"{k}.txt").write_text(f"grün {k}", encoding="utf-16")
    assert read_sequences(tmp_path).lengths.tolist() == [len("grün 0".encode())] * 4


def test_icelandic_is_not_taken_for_turkish() -> None:
    for text in ("það er þarna", "Alþingi er elsta löggjafarþing; íþróttir eru stundaðar"):
        assert likely_encodings(text.encode("cp1252"))[0][0] == "cp1252"


def test_czech_is_not_offered_as_turkish() -> None:
    text = "Tento film byl výborný, ale poněkud příliš dlouhý a místy nudný"
    assert "cp1254" not in dict(likely_encodings(text.encode("cp1250")))
