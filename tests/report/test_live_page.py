"""`run --serve`: a page of the running study, from the records alone, to who has its address alone."""

from __future__ import annotations

import contextlib
import html
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support.finished import NASTY, fill, study
from support.html_reader import Reader

from headstart.cli import main
from headstart.errors import BadInput
from headstart.report.live import live_page
from headstart.store import Store, publish_json
from headstart.store.locks import Locks
from headstart.study.language.plan import Plan, make_plan
from headstart.study.language.spec import read_study
from headstart.verbs.live import LivePage

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is made for each look, and no last look is waited for."""
    monkeypatch.setattr("headstart.verbs.live.SPARED", 0.0)
    monkeypatch.setattr("headstart.verbs.live.LAST_LOOK", 0.0)


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[tuple[Plan, Store]]:
    """A study with a hostile title, of which a run is finished, one runs, and one has failed with a hostile reason."""
    plan, store = make_plan(read_study(study(NASTY)), tmp_path), Store(tmp_path / "runs")
    fill(plan, store, keep=1)
    running, failed = plan.cells[1].last, plan.cells[2].last
    for planned in (running, failed):
        folder = store.root / planned.identity
        folder.mkdir()
        stage = {"name": planned.name, "spec": {}, "parent": None, "identity": planned.identity}
        publish_json(folder / "stage.json", stage)
    line = {"step": 5, "epoch": 7, "train": {"loss": 2.0}, "val": {"loss": 1.25, "accuracy": 0.375}}
    (store.root / running.identity / "records.jsonl").write_text(json.dumps(line) + "\n" + '{"step": 6, "ep')
    (store.root / failed.identity / "failure.txt").write_text(f"no memory {NASTY}\n")
    lock = Locks(store.root / ".locks").acquire(running.identity)
    assert lock is not None
    yield plan, store
    lock.release()


def test_the_page_shows_what_runs_what_failed_the_table_and_the_curves(begun: tuple[Plan, Store]) -> None:
    plan, store = begun
    page = Reader(live_page(plan, store))
    total = len(plan.every_stage)
    for text in (
        f"4 of {total} stages done, 1 running, 1 failed.",
        "scratch, seed 1, rate 0.001",
        "loss 1.250, accuracy 0.375",
        "1 of 3",
        "no memory <script>",
        "Learning curves",
    ):
        assert text in page.said, text
    assert page.tags.count("img") == 1
    assert page.tags.count("script") == 1
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.sources)
    assert page.links == []


def test_curves_are_there_before_anything_is_chosen(begun: tuple[Plan, Store]) -> None:
    plan, store = begun
    (store.root / plan.cells[0].last.identity / "result.json").unlink()
    shown = live_page(plan, store)
    assert "at the settings that have come furthest" in shown
    assert shown.count("<img") == 1


def test_nothing_foreign_is_markup_and_the_one_script_has_a_nonce(begun: tuple[Plan, Store]) -> None:
    plan, store = begun
    shown = live_page(plan, store, "abc", ended=NASTY)
    assert "<script>" not in shown
    assert "script-src 'nonce-abc'; connect-src 'self'; style-src" in shown
    assert html.escape(NASTY, quote=False).replace("'", "&#39;") in shown
    assert 'data-ended="yes"' in shown


@pytest.fixture
def served() -> Iterator[LivePage]:
    """A page that says how often it was made; each is due at once."""
    pages = iter(range(1000))
    with LivePage(0, lambda nonce, ended: f"<main>{next(pages)} {nonce} {ended}</main>") as live:
        yield live


def get(live: LivePage, path: str | None = None, host: str | None = None, verb: str = "GET") -> HTTPResponse:
    """The answer of the page's server."""
    parts = urlsplit(live.address)
    connection = HTTPConnection(str(parts.hostname), parts.port or 0, timeout=10)
    connection.request(verb, parts.path if path is None else path, headers={"Host": host or parts.netloc})
    return connection.getresponse()


def test_the_page_is_served_at_its_address_alone(served: LivePage) -> None:
    parts = urlsplit(served.address)
    assert parts.hostname == "127.0.0.1"
    assert len(parts.path) > 20
    answer = get(served)
    assert (answer.status, answer.getheader("Cache-Control")) == (200, "no-store")
    assert answer.getheader("X-Frame-Options") == "DENY"
    assert re.match(rb"<main>\d+ \S{20,} ", answer.read())
    assert get(served, host=f"localhost:{parts.port}").status == 200
    for path in ("/", parts.path[:-2], parts.path + "x", "/../" + parts.path, "/%00"):
        assert get(served, path).status == 404, path


def test_a_request_in_the_name_of_another_host_is_refused(served: LivePage) -> None:
    port = urlsplit(served.address).port
    for host in (f"evil.example:{port}", "127.0.0.1", f"127.0.0.1.evil.example:{port}", f"0.0.0.0:{port}"):
        answer = get(served, host=host)
        assert (answer.status, b"main" in answer.read()) == (403, False), host


def test_only_reading_is_possible(served: LivePage) -> None:
    assert get(served, verb="POST").status == 501
    head = get(served, verb="HEAD")
    assert (head.status, head.read()) == (200, b"")


def test_an_open_connection_that_asks_nothing_keeps_nobody_from_the_page(served: LivePage) -> None:
    parts = urlsplit(served.address)
    with socket.create_connection((str(parts.hostname), parts.port or 0)):
        assert get(served).status == 200


def test_many_open_connections_take_no_more_files_than_some_and_keep_nobody_from_the_page(
    served: LivePage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may send a byte before it is silent for too long; the run needs files of its own."""
    monkeypatch.setattr("headstart.verbs.live.MOST_OPEN", 4)
    parts = urlsplit(served.address)
    sockets = []
    for _ in range(12):
        sockets.append(socket.create_connection((str(parts.hostname), parts.port or 0), timeout=10))
        sockets[-1].send(b"G")
    for old in sockets[:8]:
        assert old.recv(1) == b"", "the oldest are closed"
    assert len(served._server._open) <= 4
    assert get(served).status == 200
    for each in sockets:
        each.close()


def test_a_page_that_cannot_be_made_says_why_and_is_made_again_later() -> None:
    reasons = [OSError("the <disk> is gone")]

    def page(nonce: str, ended: str) -> str:
        if reasons:
            raise reasons.pop()
        return "there it is"

    with LivePage(0, page) as live:
        answer = get(live)
        assert (answer.status, answer.read()) == (503, b"It cannot be shown now: the &lt;disk&gt; is gone")
        assert get(live).read() == b"there it is"


def test_while_the_report_is_drawn_the_page_stays_as_it_was(served: LivePage) -> None:
    before = get(served).read()
    with served.paused:
        assert get(served).read() == before
    served.end("It is over.")
    assert b"It is over." in get(served).read()


def test_an_open_page_is_waited_for_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headstart.verbs.live.LAST_LOOK", 60.0)
    begun, answers = time.monotonic(), []
    with LivePage(0, lambda _, ended: ended):
        pass
    with LivePage(0, lambda _, ended: ended) as live:
        get(live).read()
        live.end("It is over.")
        look = threading.Timer(0.3, lambda: answers.append(get(live).read()))
        look.start()
    look.join()
    assert answers == [b"It is over."]
    assert time.monotonic() - begun < 30


def test_a_port_in_use_is_one_message_and_exit_code_2(
    served: LivePage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = str(urlsplit(served.address).port)
    message = f"--serve: {port}: another program has this port; name another port, or 0 for any that is free"
    with pytest.raises(BadInput, match=message):
        LivePage(int(port), lambda *_: "")
    for words, text in (
        (["--serve", port], message),
        (["--serve", port, "--dry-run"], "--dry-run trains nothing that a page could follow; leave one out"),
        (["--serve", "65536"], "less than or equal to 65535"),
    ):
        with pytest.raises(SystemExit) as end:
            main(["run", "digits", "--store", str(tmp_path / "runs"), *words])
        assert end.value.code == 2
        assert text in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "runs").exists()


def seen_by_a_browser(address: str, folder: Path) -> str:
    """What a browser makes of a page in some seconds, its scripts run, as text."""
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += [f"--user-data-dir={folder}", "--virtual-time-budget=10000", "--dump-dom", address]
    return Reader(subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout).said


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")
def test_a_browser_renews_the_page_until_the_run_has_ended(begun: tuple[Plan, Store], tmp_path: Path) -> None:
    plan, store = begun
    looks = []

    def page(nonce: str, ended: str) -> str:
        looks.append(nonce)
        if len(looks) == 2:  # a run has finished since the first look
            fill(plan, store, keep=4)
        return live_page(plan, store, nonce, "It is over." if len(looks) > 2 else "")

    with LivePage(0, page) as live:
        shown = seen_by_a_browser(live.address, tmp_path / "browser")
    assert "It is over." in shown
    assert "4 of 12 runs done" in shown
    assert len(looks) == 3


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")
def test_a_real_run_is_seen_in_a_browser_and_ends_as_ever(tmp_path: Path) -> None:
    (tmp_path / "tried.toml").write_text(
        """
name = "tried"
title = "Is <b>it</b> seen?"
stages.train = { objective = { kind = "classify" }, budget = { epochs = 40 } }
columns.digits.task = { kind = "digits", labelled = 200 }
columns.digits.model = { width = 8, blocks = 1, mixer = { kind = "attention", heads = 2 } }
arms.plain = {}
axes.seed = [0, 1]
"""
    )
    words = ["run", "tried.toml", "--store", "runs", "--workers", "1", "--serve", "0"]
    command = [sys.executable, "-m", "headstart", *words]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        assert run.stdout is not None
        with contextlib.closing(run.stdout):
            address = next(line.split()[1] for line in run.stdout if line.startswith("live "))
            shown = seen_by_a_browser(address, tmp_path / "browser")
            assert "Is <b>it</b> seen?" in shown
            assert re.search(r"\d of \d stages done", shown)
            rest = run.stdout.read()
    assert run.returncode == 0
    assert "page runs/reports/tried/page.html" in rest
