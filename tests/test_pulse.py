"""Progress of a fit is said at least once in two seconds, of whatever pieces."""

import time

import pytest

from headstart.verbs import pulse as module
from headstart.verbs.pulse import Pulse


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY", 0.15)
    monkeypatch.setattr(module, "SHORT", 0.05)
    monkeypatch.setattr(module, "LOOK", 0.02)


def test_pieces_that_are_each_shorter_than_the_pause_between_lines_are_told_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pulse = Pulse(10.0, time.monotonic())
    for number in range(5):
        with pulse.at(f"piece {number}"):
            time.sleep(0.12)
    lines = capsys.readouterr().err.splitlines()
    assert 2 <= len(lines) <= 4
    assert all(line.startswith("piece ") and "of the time gone" in line for line in lines)


def test_pieces_that_are_all_too_short_to_be_told_of_are_told_of_in_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    pulse = Pulse(10.0, time.monotonic())
    with pulse.at("files"):
        for number in range(40):
            pulse.begins(f"file {number}")
            time.sleep(0.02)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= 2
    assert all(line.startswith("file ") for line in lines)


def test_a_line_in_a_terminal_fits_a_narrow_one_and_its_time_is_never_cut() -> None:
    pulse = Pulse(10.0, 0.0)
    pulse.begins("reading " + "x" * 200 + ".csv")
    line = pulse.line(5.0, module.LINE_WIDTH)
    assert len(line) == module.LINE_WIDTH
    assert line.endswith("…: 50% of the time gone, about 5.0 s left")
    assert pulse.line(5.0).startswith("reading " + "x" * 200 + ".csv: 50%")


def test_of_a_moment_and_of_an_empty_piece_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    pulse = Pulse(None, time.monotonic() - 10)
    with pulse.at("a moment"):
        pass
    with pulse.at("a long piece"):
        pulse.begins("")
        time.sleep(0.2)
    assert capsys.readouterr().err == ""
