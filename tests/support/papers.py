"""Made-up papers for the tests of reports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headstart.report.tables import paper as paper_table
from headstart.report.tables.report_table import ReportTable
from headstart.study.language.papers import Paper, make_paper
from headstart.study.results.results import Results


def made(**more: Any) -> Paper:
    """A table of two of our arms, one quoted row and an average, in percent."""
    table = {
        "source": "Doe and Roe, A made-up paper, table 1",
        "paper": "coser",
        "metric": "accuracy",
        "unit": "percent",
        "heads": {"a": "DIGITS", "b": "MNIST", "c": "PATHX", "average": "AVG."},
        "rows": [
            {
                "row": "FROM SCRATCH",
                "arm": "scratch",
                "cells": {"a": "40.2", "b": "41.0 ± 0.5", "c": {"text": "x", "kind": "at chance"}, "average": "43.7"},
            },
            {
                "row": "+SPT",
                "arm": "self_pretrained",
                "cells": {
                    "a": {"text": "56.0 (+0.8)", "erratum": "printed +0.8; 56.0 is 15.8 over 40.2"},
                    "b": "60.0",
                    "c": "70.0",
                    "average": "62.0",
                },
            },
            {"row": "S4 (OTHERS)", "why": "quoted from another paper", "kind": "quoted", "cells": {"a": "88.7"}},
        ],
        "claims": [
            {"says": "Self-pretraining beats training from scratch", "higher": "self_pretrained", "lower": "scratch"}
        ],
        **more,
    }
    return make_paper("made-up", table)


def beside(results: Results, paper: Paper) -> ReportTable:
    """The table of these results beside this paper's cells."""
    table = paper_table.beside(replace(results, paper=paper))
    assert table is not None
    return table
