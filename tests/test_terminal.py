"""What comes to the terminal: no text of others that it would act on."""

from __future__ import annotations

import errno
import io
import json
import logging
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headstart import cli
from headstart.errors import Damaged, lacks_processes
from headstart.runner.events import Failed
from headstart.text import escaped, json_lines
from headstart.verbs.display import Display
from headstart.verbs.pulse import Pulse
from headstart.verbs.terminal import console, hanging, print_error, table

ACTED_ON = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
NASTY = "a\x1b[2J\x1b]0;pwned\x07\x9b31m\u202eb\u2066c\u200fd\x7f\x00e\r"


def output(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_a_text_of_others_is_shown_with_escapes_however_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for stderr in (False, True):
        out = console(stderr=stderr)
        rows = [[NASTY, Text(NASTY)]] * 3
        grid = Table(title=NASTY)
        grid.add_column(NASTY)
        grid.add_row(NASTY)
        for item in (NASTY, Text(NASTY), table([NASTY, "b"], rows), table(["a", NASTY], rows * 100), hanging(NASTY)):
            out.print(item)
        out.print(grid, NASTY, [NASTY])
    text = output(capsys)
    assert not ACTED_ON.search(text)
    assert r"a\x1b[2J\x1b]0;pwned" in text
    assert r"\x9b31m\u202eb\u2066c\u200fd\x7f\x00e" in text


def test_no_line_ends_in_blanks_which_a_narrower_terminal_would_show_as_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    grid = Table.grid(padding=(0, 2))
    grid.add_row(Text("kind"), Text("numbers"))
    grid.add_row(Text("length"), Text("a long sentence " * 20))
    for item in (grid, hanging("some words " * 30), table(["a", "b"], [["x", "longer"], ["longer", "y"]])):
        console().print(item)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 8
    assert [line for line in lines if line != line.rstrip()] == []


def test_colours_of_ones_own_reach_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = console()
    assert isinstance(out, Console)
    out = type(out)(file=(stream := io.StringIO()), force_terminal=True, color_system="standard")
    out.print(Text(NASTY, style="red"))
    assert stream.getvalue().startswith("\x1b[31ma\\x1b[2J")


@pytest.mark.parametrize("error", [OSError(2, "gone", NASTY), cli.BadInput(NASTY)])
def test_an_error_is_said_without_what_a_terminal_acts_on(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    assert print_error(error) == 2
    assert not ACTED_ON.search(output(capsys).replace("\n", ""))


@pytest.mark.parametrize("kind", [Damaged, cli.BadInput, partial(OSError, 2, "gone")])
def test_whatever_kind_an_error_is_of_it_is_said_in_few_lines(kind: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert print_error(kind("x" * 1_000_000)) == 2
    assert len(output(capsys)) < 2_000


def test_a_remark_of_a_log_is_said_without_what_a_terminal_acts_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("headstart"), "propagate", False)
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    logging.getLogger("headstart.records").warning("%s", NASTY)
    assert r"\x1b[2J" in (text := output(capsys))
    assert not ACTED_ON.search(text)


def test_a_study_with_escapes_is_shown_and_planned_in_plain_letters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        'name = "x"\n# \x9b31m \u202e\ntitle = "T\\u001b[2J\\u202e"\n[stages.s]\nobjective = { kind = "classify" }\n'
        'budget = { steps = 2 }\n[columns.d]\ntask = { kind = "digits", fraction = 0.1 }\n'
        'model = { width = 8, blocks = 1 }\n[arms.a]\n[scales.tiny]\nnote = "N\\u001b[2J"\n',
        "utf-8",
    )
    for words in (["show", str(study)], ["run", str(study), "--dry-run", "--store", str(tmp_path / "runs")]):
        with pytest.raises(SystemExit) as end:
            cli.main(words)
        assert end.value.code == 0
        text = output(capsys)
        assert not ACTED_ON.search(text)
        assert r"\x1b[2J" in text or r"\x9b31m" in text


def test_json_says_with_escapes_of_its_own_what_a_terminal_acts_on() -> None:
    document = {"name": NASTY, "rows": [{NASTY: "é\ud800"}]}
    text = json_lines(document)
    assert json.loads(text) == document
    assert not ACTED_ON.search(text.replace("\n", ""))
    assert "é" in text


def test_letters_of_all_languages_stay_as_they_are() -> None:
    text = "é ±  日本語 עברית \u200d👩\u200d🔬\tx\ny"
    assert escaped(text) == text


def test_a_reason_that_fails_many_stages_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    left: Any = SimpleNamespace(costs={}, follow=lambda _: None, seconds=lambda: None)
    with Display(left, 0, lambda: None, {}) as display:
        for number in range(70):
            display.show(Failed(f"id{number}", "finetune", "plugin.py changed since this run began"))
        display.show(Failed("other", "finetune", "no memory"))
        display.show(Failed("child", "finetune", "not tried: its parent other failed", tried=False))
    assert len(display.failed) == 72
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("failed")]
    assert lines == [
        "failed   finetune id0: plugin.py changed since this run began",
        "failed   finetune other: no memory",
        "failed   69 more stages as id0 did, for the same reason",
        "failed   1 stage not tried: parents failed or diverged",
    ]


def test_a_piece_that_goes_on_after_the_time_is_over_says_how_long_it_has_been() -> None:
    pulse = Pulse(5.0, 100.0)
    pulse.begins("drawing the page")
    assert pulse.line(102.0) == "drawing the page: 40% of the time gone, about 3.0 s left"
    assert pulse.line(112.0) == "drawing the page: 12 s elapsed of 5.0 s"


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (RuntimeError("can't start new thread"), "raise the limit (`ulimit -u`)"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "raise the limit (`ulimit -u`)"),
        (MemoryError(), "allow more (`ulimit -v`, the container's limit)"),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), "allow more (`ulimit -v`"),
    ],
)
def test_a_limit_of_the_machine_is_said_in_a_line_and_ends_with_1(error: Exception, part: str, capsys: Any) -> None:
    assert print_error(error) == 1
    err = capsys.readouterr().err
    assert part in err
    assert err.count("\n") == 1


def test_a_write_that_would_wait_is_no_lack_of_processes() -> None:
    assert lacks_processes("BlockingIOError: [Errno 11] Resource temporarily unavailable")
    assert not lacks_processes("BlockingIOError: [Errno 11] write could not complete without blocking")


@pytest.mark.parametrize(("option", "value"), [("--seeds", "0"), ("--folds", "0"), ("--seeds", "many")])
def test_a_value_that_an_option_cannot_have_is_named(option: str, value: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["fit", "f.csv", option, value])
    assert end.value.code == 2
    assert f"'{option}': '{value}' should be" in capsys.readouterr().err
