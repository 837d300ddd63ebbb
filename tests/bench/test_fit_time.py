"""The page of how long fits take: each of its two tables is written by itself, and leaves the other as it stands."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import fit_time


def test_workers_are_timed_on_the_same_fit_and_leave_the_other_table_as_it_stands(tmp_path: Path, monkeypatch) -> None:
    page, commands = tmp_path / "page.md", []

    def fitted(*words: str) -> tuple[float, str]:
        commands.append(" ".join(words))
        return {"1": 60.0, "2": 37.5}[words[words.index("--workers") + 1]], ""

    monkeypatch.setattr(fit_time, "fitted", fitted)
    page.write_text("# Times\n\nas they stand\n")
    for steps in ("20", "30"):
        words = ["fit_time.py", "--times", "--workers", "1", "2", "--steps", steps, "--page", str(page)]
        monkeypatch.setattr(sys, "argv", words)
        fit_time.main()
    text = page.read_text()
    assert text.startswith("# Times\n\nas they stand\n\n## Is a fit faster with more workers?\n")
    assert text.count(f"## {fit_time.WORKERS}") == 1
    assert "| 1 | 60.0 s | 1.00 |\n| 2 | 37.5 s | 1.60 |\n" in text
    assert "--times --workers 1 2 --steps 30`" in text
    assert {command.replace("--workers 1 ", "").replace("--workers 2 ", "") for command in commands[2:]} == {
        "--time 10h --pretrain finetune.budget.steps=30 pretrain.budget.steps=30"
    }


def test_times_are_measured_anew_above_the_table_of_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Times\n\nold\n\n## {fit_time.WORKERS}\n\nas they stand\n")
    monkeypatch.setattr(
        fit_time, "fitted", lambda *_: (23.0, "  - training: 173 steps of 16\nself-training: 288 steps")
    )
    monkeypatch.setattr(sys, "argv", ["fit_time.py", "--times", "30", "--page", str(page)])
    fit_time.main()
    text = page.read_text()
    assert "old" not in text
    assert "| 30 s | 23.0 s | 288 + 173 | 0 |  | no |" in text
    assert text.endswith(f"\n\n## {fit_time.WORKERS}\n\nas they stand\n")
