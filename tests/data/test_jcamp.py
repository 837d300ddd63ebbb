"""Spectra of JCAMP-DX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.made_tables import read, why, write

from headstart.data import read_sequences

Y = np.random.default_rng(8).integers(-900, 3000, (8, 25))


def spectrum(i: int, form: str = "XYDATA", falling: bool = False, text: str = "") -> str:
    """A spectrum of 25 points from 400 to 640, factors included."""
    x, y = np.arange(400, 641, 10), Y[i]
    x, y = (x[::-1], y[::-1]) if falling else (x, y)
    head = [f"##TITLE=sample {i} $$ made", "##JCAMP-DX=4.24", f"##FIRSTX={x[0]}", f"##LASTX={x[-1]}", "##XFACTOR=1"]
    head += ["##YFACTOR=0.001", "##NPOINTS=25", f"##$Class={'ab'[i % 2]}"]
    if form == "XYDATA":
        rows = [f"{x[k]}" + "".join(f"{v:+d}" for v in y[k : k + 6]) for k in range(0, 25, 6)]
        rows = [row.replace("+", " ") for row in rows] if text == "blanks" else rows
    else:
        rows = [f"{a}, {b};" for a, b in zip(x, y, strict=True)]
    name = {"XYDATA": "##XYDATA=(X++(Y..Y))"}.get(form, f"##{form}=(XY..XY)")
    return "\n".join([*head, name, *rows, "##END="]) + "\n"


@pytest.mark.parametrize("form", ["XYDATA", "XYPOINTS"])
@pytest.mark.parametrize("falling", [True, False])
def test_spectra_of_a_folder_are_sequences_from_the_smallest_x_on(tmp_path: Path, form: str, falling: bool) -> None:
    for i in range(8):
        write(tmp_path / f"{i}.jdx", spectrum(i, form, falling, text="blanks" if i == 3 else ""))
    sequences = read(tmp_path)
    np.testing.assert_allclose(sequences.values.reshape(8, 25), Y / 1000, rtol=1e-6)
    assert (sequences.layout.target, sequences.layout.clock, sequences.channels) == ("class", "x", ("y",))
    single = read_sequences(tmp_path / "5.jdx", sequences.layout.fixed())
    np.testing.assert_allclose(single.values[:, 0], Y[5] / 1000, rtol=1e-6)
    assert read(tmp_path / "5.jdx").lengths.tolist() == [25]


def test_what_is_no_plain_curve_is_refused_with_what_to_export(tmp_path: Path) -> None:
    whole = spectrum(0)
    rows = whole.splitlines(keepends=True)
    cases = {
        whole.replace(
            rows[9], "400A234J12K5%S\n"
        ): "compressed (SQZ, DIF or DUP), which is not read; export it as AFFN",
        whole.replace(rows[9], ""): "says 25 points from 400 to 640 and holds 19; write it again",
        whole + whole: "holds several curves; save each as a file of its own",
        whole.replace("XYDATA", "NTUPLES"): "has no ##XYDATA= or ##XYPOINTS= (but 'TITLE'",
        "nothing\n": "is no file of JCAMP-DX",
    }
    for text, message in cases.items():
        refusal = why(write(tmp_path / "f.jdx", text))
        assert message in refusal
        assert "\n" not in refusal
