"""Text of others in cells that a spreadsheet opens."""

import pytest

from headstart.guard import guarded


@pytest.mark.parametrize(
    "text", ["=1+1", "+SUM(A1)", "-2+3", "@now", "  =1", "\t=1", "\r=1", "\uff1d1+1", "-", "--1", "-1 ", "+1=2"]
)
def test_what_a_spreadsheet_would_run_stands_behind_a_quote(text: str) -> None:
    assert guarded(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "a=1", "red", "[red]x", "-1", "+1", "-0.5", "-1e-3", "-.5", "3-4", "'=1"])
def test_plain_words_and_plain_numbers_stay_as_they_are(text: str) -> None:
    assert guarded(text) == text
