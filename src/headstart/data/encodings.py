"""In which encoding bytes are that are not UTF-8: the one by which they are letters of one script, as in words."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

LIKELY_WITHIN, MOST_OFFERED = 0.15, 3
"""Scores below the best one that are named too, and how many are."""
WIDE = {
    "cp932": ("日時間刻温度電圧流力正常異状態番号付値振動回転名称分類機械のアトスイルンッ", 0x88, 0x97),
    "gb18030": ("时间温度电压流力正常故障转速标签类别状态设备编号日期数据值样本名称位置振动的", 0xB0, 0xD7),
    "big5": ("時間溫度電壓流力正常故障轉速標籤類別狀態設備編號日期數據值樣本名稱位置振動的", 0xA4, 0xC6),
    "cp949": ("시간온도전압류력정상고장상태번호날짜값진동회전이름분류설비데이터", 0xB0, 0xC8),
    "euc_jp": ("日時間刻温度電圧流力正常異状態番号付値振動回転名称分類機械のアトスイルンッ", 0xB0, 0xCF),
}
"""Encodings of two bytes a letter: letters that tables of measurements have often, first bytes of usual letters."""
NARROW = {
    "cp1251": "оеаинтсрвлкмдпуя",
    "koi8-r": "оеаинтсрвлкмдпуя",
    "cp866": "оеаинтсрвлкмдпуя",
    "cp1253": "αοιετσνηυρςόίκμπ",
}
"""Encodings of one byte a letter, of other letters than Latin ones: those that texts have most often."""
TURKISH = bytes((0xD0, 0xDD, 0xDE, 0xF0, 0xFD, 0xFE))
"""Letters of Turkish in cp1254, which are others in cp1252."""
TURKISH_TOO = "çöüâîûÇÖÜÂÎÛ".encode("cp1254")
"""The other letters beyond ASCII that Turkish has."""
TURKISH_SHARE = 0.9
"""Share of letters beyond ASCII that are these, from which on a text may be Turkish."""


def likely_encodings(content: bytes) -> list[tuple[str, str]]:
    """(an encoding, a word as it reads it) of the likeliest ones of these bytes, the best first; at least one."""
    scores = {name: _wide(content, name) for name in WIDE} | {name: _narrow(content, name) for name in NARROW}
    scores |= {name: _latin(content, name) for name in ("cp1252", "cp1250")}
    letters = content.translate(None, bytes(range(0xC0)))
    if letters.translate(None, TURKISH) != letters and (
        len(letters.translate(None, TURKISH + TURKISH_TOO)) <= (1 - TURKISH_SHARE) * len(letters)
    ):
        # Icelandic has its letter at these places too, which begins words; Turkish ones stand within them.
        within = re.search(r"\w\u00fe", content.decode("cp1252", "replace")) is not None
        scores["cp1254"] = scores["cp1252"] + (0.01 if within else -0.01) * (scores["cp1252"] > 0)
    best = max(scores.values())
    if best <= 0:
        return [("latin-1", _word(content.decode("latin-1")))]
    order = sorted(scores, key=lambda name: -scores[name])
    out: dict[str, str] = {}
    for name in order:
        word = _word(content.decode(name, "replace"))
        if scores[name] > best - LIKELY_WITHIN and word not in out.values():
            out[name] = word
    return list(out.items())[:MOST_OFFERED]


def _text(content: bytes, encoding: str) -> str:
    """The text, "" where the bytes are none of this encoding (one that is cut at the end, or a few, are let pass)."""
    text = content.decode(encoding, "replace")
    return text if text.count("\ufffd") <= len(text) // 1_000 + 1 else ""


def _joined(text: str) -> float:
    """The share of letters beyond ASCII that stand beside another one, as in words of other scripts."""
    pairs = [(not a.isascii(), not b.isascii()) for a, b in pairwise(f" {text} ")]
    beyond = sum(not letter.isascii() for letter in text)
    beside = sum(a[1] and (a[0] or b[1]) for a, b in pairwise(pairs))
    return beside / max(beyond, 1)


def _wide(content: bytes, encoding: str) -> float:
    text = _text(content, encoding)
    letters, first, last = WIDE[encoding]
    beyond = [letter for letter in text if not letter.isascii() and letter != "\ufffd"]
    usual = often = 0
    for letter in beyond:
        code = letter.encode(encoding)
        kana = "\u3041" <= letter <= "\u30ff" or "\uff00" <= letter <= "\uff5e" or letter in "、。℃°"
        usual += kana or (len(code) == 2 and first <= code[0] <= last)
        often += letter in letters
    return _joined(text) * (0.6 * usual + 0.8 * often) / len(beyond) if beyond else 0.0


def _narrow(content: bytes, encoding: str) -> float:
    text = _text(content, encoding)
    beyond = [letter for letter in text if not letter.isascii()]
    often = sum(letter.lower() in NARROW[encoding] for letter in beyond)
    odd = sum(b.isupper() and a.islower() for a, b in pairwise(text))
    odd += sum(a.isalpha() and b.isalpha() and a.isascii() != b.isascii() for a, b in pairwise(text))  # in one word
    return _joined(text) * max(often - 2 * odd, 0) / len(beyond) if beyond else 0.0


def _latin(content: bytes, encoding: str) -> float:
    """Of letters that stand alone among others, the share that are Latin ones, or marks that no word holds."""
    text = _text(content, encoding)
    beyond = [(a, b, c) for (a, b), (_, c) in pairwise(pairwise(f" {text} ")) if not b.isascii()]
    good = 0
    for before, letter, behind in beyond:
        latin = unicodedata.name(letter, "").startswith("LATIN")
        good += latin or (letter in "°µ²³±§€–“”’·×" and not (before.islower() and behind.islower()))
    plainly = 0.02 * (encoding == "cp1252")
    return (1 - 0.9 * _joined(text)) * good / len(beyond) + plainly * bool(good) if beyond else 0.0


def _word(text: str) -> str:
    """The first word with a letter beyond ASCII."""
    marks = str.maketrans(dict.fromkeys(",;|\t\"'=:", " "))
    return next((word[:20] for word in text.translate(marks).split() if not word.isascii()), "")
