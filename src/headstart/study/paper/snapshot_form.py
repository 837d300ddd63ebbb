"""The form of a file of results, and what a run in it may be called."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from headstart.documents import ANY, ANY_TABLE, COUNT, INSTANT, NAME, NUMBER, SHARE, TEXT, WHOLE_NUMBER, Form
from headstart.errors import BadInput
from headstart.store.forms import BUDGET, MONITOR, PARAMETERS, PROVENANCE, SCORE_FORMS

if TYPE_CHECKING:
    from headstart.study.language.spec import StudySpec

_RUNS: Form = [{"arm": NAME, "column": NAME, "seed": WHOLE_NUMBER, "settings": ANY_TABLE, "stages": {ANY: NAME}}]
_FACTS: Form = {
    "kind": TEXT,
    "sizes": {ANY: COUNT},
    "chance": {"accuracy?": SHARE, ANY: NUMBER},
    "notes": [TEXT],
    "labels": [TEXT],
    "positions": COUNT,
    "asked?": (COUNT, None),
}
_STAGE: Form = {
    "settings": COUNT,
    "seed": WHOLE_NUMBER,
    "status": NAME,
    "monitor?": MONITOR,
    "scores?": SCORE_FORMS,
    "budget?": BUDGET,
    "title?": TEXT,
    "source?": TEXT,
    "started?": (INSTANT, None),
    "attempts?": (COUNT, None),
    "machine?": COUNT,
    "parameters?": COUNT,
    "records?": {"step?": [COUNT], ANY: [(NUMBER, None)]},
    "answers?": {"count": COUNT, "right": TEXT},
}
FORM: Form = {
    "study": TEXT,
    "rows": [ANY_TABLE],
    "claims": [ANY_TABLE],
    "caveats": [TEXT],
    "definition": ANY_TABLE,
    "facts": {ANY: _FACTS},
    "measures": {ANY: {ANY: NUMBER}},
    "runs": _RUNS,
    "trials?": _RUNS,
    "baselines": _RUNS,
    "settings": [{"spec": ANY_TABLE, "data": (TEXT, None)}],
    "machines": [PROVENANCE],
    "parameters": [PARAMETERS],
    "stages": {ANY: _STAGE},
    "challenges?": [
        {
            **dict.fromkeys(("date", "says", "column", "difference", "outcome", "made_by"), TEXT),
            "seeds": [WHOLE_NUMBER],
        }
    ],
}
"""Of the file, besides its format."""


def check_settings(run: Mapping[str, Any], study: StudySpec) -> None:
    """Raises: BadInput where a run has a setting that is no value of an axis, or a learning rate that is no number."""
    for path, value in run["settings"].items():
        rate = path.rsplit(".", 1)[-1] != "lr" or NUMBER.fits(value)
        searched = study.search and study.search.holds(path, value)
        if not (searched or value in study.axes.get(path, ())) or not rate:
            raise BadInput(f"runs: that of {run['arm']!r} has {path} = {value!r}, which is no value of an axis")


def check_runs(runs: Iterable[Mapping[str, Any]], study: StudySpec, *, once: bool) -> None:
    """Raises: BadInput where a run has a name or a setting that the study does not define, or stands there twice (once:
    it may not, as a trial of a search may, which draws a setting anew or trains it with a larger budget)."""
    keys = set()
    for run in runs:
        check_settings(run, study)
        for table, names in (("arms", [run["arm"]]), ("columns", [run["column"]]), ("stages", run["stages"])):
            if lost := [name for name in names if name not in getattr(study, table)]:
                raise BadInput(f"runs: that of {run['arm']!r} has {lost[0]!r}, which is not in definition.{table}")
        key = run["arm"], run["column"], run["seed"], json.dumps(run["settings"], sort_keys=True)
        if once and key in keys:
            raise BadInput(f"runs: seed {run['seed']} of {run['arm']!r} on {run['column']!r} stands there twice")
        keys.add(key)
