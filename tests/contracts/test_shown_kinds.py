"""Every kind that `headstart ls` lists is shown by `headstart show`."""

from __future__ import annotations

import contextlib

import pytest

from headstart.cli import ls
from headstart.errors import BadInput
from headstart.kinds import SORTS
from headstart.verbs.look import LIST_WORDS, print_one
from headstart.verbs.options import LayoutOptions

AT_ONCE = ("objective", "optimizer", "schedule", "reader", "arm")
"""Sorts whose kinds are shown in a moment, all of them here; of the others, which build or read something, the last."""
KINDS = [(noun, name) for noun in AT_ONCE for name in SORTS[noun].entries]
KINDS += [(noun, list(SORTS[noun].entries)[-1]) for noun in SORTS if noun not in AT_ONCE]


@pytest.mark.parametrize(("noun", "name"), KINDS)
def test_a_kind_that_is_listed_is_shown_with_its_summary(
    noun: str, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    with contextlib.suppress(BadInput):  # a task of this name, whose data are absent
        print_one(name, (), None, None, LayoutOptions())
    assert " ".join(SORTS[noun].entries[name].summary.split()) in " ".join(capsys.readouterr().out.split())


def test_the_help_of_ls_names_every_list() -> None:
    assert not [word for word in LIST_WORDS if word not in str(ls.__doc__)]
