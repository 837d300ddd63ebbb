"""Text of others in cells that a spreadsheet opens."""

import pytest

from headstart.guard import guarded


@pytest.mark.parametrize("text", ["=1+1", "+SUM(A1)", "-2+3", "@now", "  =1", "\uff1d1+1", "-", "--1", "-1 ", "+1=2"])
def test_what_a_spreadsheet_would_run_stands_behind_a_quote(text: str) -> None:
    assert guarded(text) == f"'{text}"


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        (";=HYPERLINK(1)", ";'=HYPERLINK(1)"),
        ("a; =1+1", "a; '=1+1"),
        ("a,@now", "a,'@now"),
        ("a\t-2+3", "a\t'-2+3"),
        ("a|+SUM(A1)", "a|'+SUM(A1)"),
        ("a\n=1", "a\n'=1"),
        ("\t=1", "'\t'=1"),
        ("\r=1", "'\r'=1"),
        ('a;"=1"', 'a;"\'=1"'),
        ('"=1', "'\"=1"),
        ("=1;=2", "'=1;'=2"),
        ("a;\uff1d1", "a;'\uff1d1"),
    ],
)
def test_what_another_mark_than_that_of_the_file_would_begin_a_cell_with_is_guarded_too(text: str, safe: str) -> None:
    assert guarded(text) == safe
    assert guarded(safe) == safe


@pytest.mark.parametrize("text", ["[0.5, -1.5]", "-1", "1;-2;+3e5", "a, b; c", "x;'=1", '{"a": 1, "b": -2}'])
def test_lists_of_numbers_and_plain_lists_stay_as_they_are(text: str) -> None:
    assert guarded(text) == text


@pytest.mark.parametrize("text", ["", "a=1", "red", "[red]x", "-1", "+1", "-0.5", "-1e-3", "-.5", "3-4", "'=1"])
def test_plain_words_and_plain_numbers_stay_as_they_are(text: str) -> None:
    assert guarded(text) == text
