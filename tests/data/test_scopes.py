"""Exports of oscilloscopes: what is about the device is no channel, and times that no cell has are made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from data import test_plates as plates
from support.made_tables import numbers, read, why, write

from headstart.data import LayoutSpec
from headstart.data.instruments import INSTRUMENTS, Head, instrument_table
from headstart.errors import Mistakes

COUNT = 60
VALUES = numbers(2, COUNT)
TIMES = [round(-1e-3 + 1e-5 * i, 8) for i in range(COUNT)]
ABOUT = [
    ("Record Length", "2.5e+03", "Points"),
    ("Sample Interval", "1e-05", ""),
    ("", "", ""),
    ("Source", "CH1", ""),
    ("Vertical Units", "V", ""),
    ("Probe Atten", "1.0", ""),
    ("Serial Number", "C0", ""),
]


def rows(channels: int = 1, times: bool = True, end: str = "") -> list[str]:
    values = VALUES[:channels].T.tolist()
    cells = [[repr(TIMES[i]), *map(str, row)] if times else list(map(str, row)) for i, row in enumerate(values)]
    return [",".join(row) + end for row in cells]


def beside(lines: list[str], width: int) -> list[str]:
    about = [",".join(ABOUT[i][:width] if i < len(ABOUT) else [""] * width) for i in range(len(lines))]
    return [f"{a},{line}" for a, line in zip(about, lines, strict=True)]


KEYS = ["Record Length,Analog:60", "Sample Interval,1e-05", "Vertical Units,CH1:V,CH2:V", "Source,CH1,CH2"]
AGILENT = ["Revision,0", "Type,raw", "XInc,1E-05", "XOrg,-1E-03", "XUnits,second", "YUnits,Volt"]
FORMS = {
    "three columns about the device": (1, beside(rows(end=","), 3)),
    "two columns about the device": (1, beside(rows(), 2)),
    "columns about the device before each channel": (
        1,
        [f"{a},,{b}" for a, b in zip(beside(rows(), 3), beside(rows(), 3), strict=True)],
    ),
    "lines about the device": (2, ["Model,X3", "Point Format,Y", "", "Labels,,", "TIME,CH1,CH2", *rows(2)]),
    "a start and an increment": (
        2,
        [
            "X,CH1,CH2,Start,Increment,",
            "Sequence,Volt,Volt,-1e-03,1e-05",
            *(f"{i},{r},,," for i, r in enumerate(rows(2, False))),
        ],
    ),
    "a start and an increment in the header": (
        2,
        ["Time(s),CH1V,CH2V,t0 = -1.0e-03, tInc = 1.0e-05,", *(f",{row},," for row in rows(2, False))],
    ),
    "names and units": (2, ["x-axis,1,2", "second,Volt,Volt", *rows(2)]),
    "units below names with an end": (1, ["X,CH1,", "Second,Volt,", *rows(end=",")]),
    "units below lines about the device": (2, [*KEYS, "Second,Volt,Volt", *rows(2)]),
    "a channel alone": (1, [*AGILENT, "Data,", *rows(times=False)]),
    "times and a channel": (1, [*AGILENT, "XY Data,", *rows()]),
    "waveforms of LabVIEW": (
        2,
        [
            "waveform,[0],,[1]",
            "t0,12.03.2024 10:00:00,,12.03.2024 10:00:00",
            "delta t,1e-05,,1e-05",
            "",
            "time[0],Y[0],time[1],Y[1]",
            *(f"12.03.2024 10:00:00,{a},12.03.2024 10:00:00,{b}" for a, b in VALUES.T.tolist()),
        ],
    ),
    "a waveform of segments": (
        1,
        [
            "LECROYWS434,36352,Waveform",
            "Segments,1,SegmentSize,60",
            "Segment,TrigTime,TimeSinceSegment1",
            "#1,12-Mar-2024 10:00:00,0",
            "Time,Ampl",
            *rows(),
        ],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_channels_of_an_oscilloscope_are_read_and_nothing_about_the_device_is(form: str, tmp_path: Path) -> None:
    channels, lines = FORMS[form]
    path = write(tmp_path / "f.csv", "\n".join(lines) + "\n")
    message = why(path)
    assert "'time' never falls" in message.casefold()
    assert "--window 100" in message
    result = read(path, window=20)
    assert (len(result), len(result.channels), result.lengths.tolist()) == (3, channels, [20] * 3)
    assert np.allclose(result.values, VALUES[:channels].T, atol=1e-6)
    again = read(path, **dict(result.layout.fixed()))
    assert np.array_equal(again.values, result.values)


@pytest.mark.parametrize("form", FORMS)
def test_a_folder_of_recordings_of_an_oscilloscope_is_one_sequence_a_file(form: str, tmp_path: Path) -> None:
    for label in ("sound", "worn"):
        (tmp_path / label).mkdir()
        for i in range(3):
            write(tmp_path / label / f"F{i}.csv", "\n".join(FORMS[form][1]) + "\n")
    result = read(tmp_path)
    assert (len(result), len(result.channels), result.classes) == (6, FORMS[form][0], ("sound", "worn"))


def test_a_mistake_in_a_recording_of_an_oscilloscope_has_its_line(tmp_path: Path) -> None:
    lines = list(FORMS["three columns about the device"][1])
    lines[40] = lines[40].replace(str(VALUES[0, 40]), "clipped")
    assert "f.csv:41 column 'CH1': 'clipped'" in why(write(tmp_path / "f.csv", "\n".join(lines)), window=20)


def test_a_table_whose_first_column_is_named_second_keeps_its_names(tmp_path: Path) -> None:
    lines = ["second,ax,start,increment", *(f"{i},{x},1,2" for i, x in enumerate(VALUES[0].tolist()))]
    assert read(write(tmp_path / "f.csv", "\n".join(lines)), window=20).channels[0] == "ax"


MARKERS = ("Hip", "Knee")
PLACES = numbers(COUNT, 6)
FRAMES = [",".join(map(str, row)) for row in PLACES.tolist()]
NAMES = tuple(f"{marker} {axis}" for marker in MARKERS for axis in "XYZ")
FOLLOWED = [f"{i + 1},0,{row}" for i, row in enumerate(FRAMES)]
VICON = ["Trajectories", "100", ",,Hip,,,Knee,,", "Frame,Sub Frame,X,Y,Z,X,Y,Z", ",,mm,mm,mm,mm,mm,mm", *FOLLOWED]
MOVEMENTS = {
    "names of markers over frames": VICON,
    "names of markers in a line alone": [
        "NO_OF_FRAMES\t60",
        "FREQUENCY\t100",
        "DATA_INCLUDED\t3D",
        "\t".join(["MARKER_NAMES", *MARKERS]),
        *(row.replace(",", "\t") for row in FRAMES),
    ],
    "frames and times": [
        "Format Version,1.23,Take Name,A",
        ",,Hip,Hip,Hip,Knee,Knee,Knee",
        "Frame,Time (Seconds),X,Y,Z,X,Y,Z",
        *(f"{i},{i / 100},{row}" for i, row in enumerate(FRAMES)),
    ],
}


@pytest.mark.parametrize("form", MOVEMENTS)
def test_markers_of_a_camera_are_channels_and_windows_are_in_seconds(form: str, tmp_path: Path) -> None:
    path = write(tmp_path / "f.tsv", "\n".join(MOVEMENTS[form]) + "\n")
    result = read(path, window="0.2s")
    assert (len(result), result.lengths.tolist(), result.channels) == (3, [20] * 3, NAMES)
    assert np.allclose(result.values, PLACES, atol=1e-6)


def test_a_second_table_of_movements_is_refused_with_its_line(tmp_path: Path) -> None:
    lines = [*VICON, "", "Devices", "1000", *VICON[2:]]
    assert f"f.csv:{len(VICON) + 2}: another table begins here ('Devices')" in why(
        write(tmp_path / "f.csv", "\n".join(lines)), window=20
    )


NEW_BRAIN = ["%OpenBCI Raw EXG Data", "%Number of channels = 2", "%Sample Rate = 250 Hz", "%Board = made"]
OLD_BRAIN = ["%OpenBCI Raw EEG Data", "%", "%Sample Rate = 250.0 Hz", "%First Column = SampleIndex"]
LOGGED = ["1600000000", "32", *map(str, VALUES[0].tolist())]
BRAINS = {
    "new": [
        *NEW_BRAIN,
        "Sample Index, EXG Channel 0, EXG Channel 1, Other, Other, Timestamp, Other, Timestamp (Formatted)",
        *(
            f"{i % 256}, {a}, {b}, 0, 0, {1.6e9 + i / 250}, 0, 2021-01-01 00:00:00.1"
            for i, (a, b) in enumerate(VALUES.T)
        ),
    ],
    "old": [
        *OLD_BRAIN,
        *(f"{i % 256}, {a}, {b}, 0.00, 0.00, 0.00, 13:40:00.1, 1609459200123" for i, (a, b) in enumerate(VALUES.T)),
    ],
}


@pytest.mark.parametrize("form", BRAINS)
def test_channels_of_a_brain_are_read_and_counters_and_clocks_are_none(tmp_path: Path, form: str) -> None:
    for name in ("left/1.txt", "left/2.txt", "right/1.txt", "right/2.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, "\n".join(BRAINS[form]) + "\n")
    sequences = read(tmp_path)
    assert sequences.channels == ("EXG Channel 0", "EXG Channel 1")
    np.testing.assert_allclose(sequences.values[:COUNT], VALUES.T, rtol=1e-6)
    assert sequences.steps is not None
    assert sequences.steps[0] == pytest.approx(1 / 250)
    assert sequences.classes == ("left", "right")


CURVES = [
    "".join(f"{'ab'[k % 2]}{k},," for k in range(4)),
    "Wavelength (nm),Abs," * 4,
    *("".join(f"{400 + 2 * i},{VALUES[0, i] + k:.4f}," for k in range(4)) for i in range(COUNT)),
    "",
    *(f"{'ab'[k % 2]}{k}\nCollection Time: 5/3/2024 10:00:00\n  Instrument   Cary 60\n" for k in range(4)),
]


SPECTRUM = [
    *("TITLE\ts1", "XUNITS\tNANOMETERS", "YUNITS\tABSORBANCE", f"NPOINTS\t{COUNT}", "XYDATA"),
    *(f"{400 + 2 * i}.0\t{v}" for i, v in enumerate(VALUES[0].tolist())),
    *("", "##### Extended Information", "[Comments]", "Sample name\ts1", "Band width\t1.5 nm"),
]


def test_a_spectrum_ends_where_lines_about_the_device_begin(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "s.txt", "\n".join(SPECTRUM) + "\n")
    result = read(tmp_path)
    assert (result.channels, result.lengths.tolist(), result.layout.target) == (("ABSORBANCE",), [COUNT] * 2, "folder")
    assert np.allclose(result.values[:COUNT, 0], VALUES[0], atol=1e-6)


def test_curves_beside_each_other_end_where_lines_about_them_begin(tmp_path: Path) -> None:
    result = read(write(tmp_path / "f.csv", "\r\n".join(CURVES)))
    assert (len(result), result.ids, result.lengths.tolist()) == (4, ("a0", "b1", "a2", "b3"), [COUNT] * 4)
    assert np.allclose(result.values[:, 0], np.concatenate([VALUES[0] + k for k in range(4)]), atol=1e-4)
    assert "4 curves stand beside each other; what stands below them is not read" in result.notes


def test_each_form_of_the_table_tells_an_example_that_the_others_before_it_do_not(tmp_path: Path) -> None:
    examples = [
        *(lines for _, lines in FORMS.values()),
        *MOVEMENTS.values(),
        *BRAINS.values(),
        LOGGED,
        CURVES,
        SPECTRUM,
    ]
    touching = [f"{i:4d}" + "".join(f"{1000 * v - 2000:8.2f}" for v in row) for i, row in enumerate(PLACES)]
    parts = ["[Header]", "Version\t5.97", "[Curve]", "Time\tIntensity", *(f"{i}\t{v}" for i, v in enumerate(VALUES[0]))]
    printed = ["id | x", "---+---", *(f"{i} | {v}" for i, v in enumerate(VALUES[0]))]
    blocks = [
        "Interval=\t0.01 s",
        "ChannelTitle=\tECG\tResp",
        *(f"{i / 100}\t{v}\t{-v}" for i, v in enumerate(VALUES[0])),
    ]
    first = set()
    for text in ["\n".join(lines) for lines in [*examples, touching, parts, printed, blocks]] + [
        *plates.FORMS.values()
    ]:
        tells = (
            path
            for path, form in INSTRUMENTS.items()
            if instrument_table(Head(text.splitlines(keepends=True), LayoutSpec(), "f.csv", Mistakes()), {path: form})
            is not None
        )
        first.add(next(tells, ""))
    assert first - {""} == set(INSTRUMENTS)
