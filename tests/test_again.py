"""The command is to be given again only where that helps: what stood in the way may go away, or what is done is kept."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest
from fit.test_fit_verdict import candidate

import headstart
from headstart.fit.again import Again
from headstart.fit.choice import to_finish
from headstart.ways import in_python

SAYS = re.compile(
    r"\b(command|study|fit|then try) again\b|\b(same|this) (command|study) (again|goes on|tries|continues|does)\b"
)
CALLS = re.compile(r"ways\.again\(|from headstart\.ways import again")
HELPS = {
    "atomic": "a disk that was full, slow or worn, and files that other programs held open",
    "cli": "a working directory that is gone: in another one the command works",
    "errors": "a disk that was full; a bit of the memory that turned",
    "ways": "the words themselves",
    "checkpoints/spec": "weights that changed since the run was planned are taken as they are",
    "data/prepared": "a disk that gave back other bytes than were written",
    "fit/again": "time that was over: the same fit has it again, or more is asked for",
    "fit/choice": "runs that are left; more time for those that were not planned",
    "fitted/wording": "runs that are left, of which those that are done are kept",
    "plugins/load": "code that changed since the run began is taken as it is",
    "runner/cluster": "a cluster that has gone: what it sent is in the store",
    "runner/connection": "nodes that do not answer: what is done is in the store",
    "runner/job": "data, or the code of a plugin, that changed since the run began are taken as they are",
    "runner/stacks": "with a smaller stack: what was saved is kept",
    "runner/worker": "a disk that was full; a damaged stage, which is done anew",
    "serve/onnx": "data that are changed as it says",
    "stage/finished": "a stage that is not finished",
    "store/stages": "a damaged stage, which is done anew",
    "training/distributed": "a rank that ended: the run goes on from what was saved",
    "verbs/display": "a stage that was saved at a stop",
    "verbs/run": "stages that failed, once their cause is mended",
}
"""What the command is given again for, by the module that says so."""


def test_each_place_that_says_again_has_a_reason_here_for_which_that_helps() -> None:
    source = Path(headstart.__file__).parent
    says = set()
    for path in source.rglob("*.py"):
        tree = ast.parse(text := path.read_text())
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        parts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docs]
        if CALLS.search(text) or any(isinstance(part.value, str) and SAYS.search(part.value) for part in parts):
            says.add(path.relative_to(source).with_suffix("").as_posix())
    assert says == set(HELPS)


def states(*statuses: str) -> object:
    """A row of the table whose runs have these states."""
    row = candidate("scratch", [0.5] * len(statuses), [0.5] * len(statuses)).row
    runs = tuple(replace(run, status=status) for run, status in zip(row.runs, statuses, strict=True))
    return replace(row, n=0, runs=runs, points=tuple(replace(point, runs=runs) for point in row.points))


@pytest.mark.parametrize("serve", ["scratch", "network"])
def test_a_model_that_diverged_or_failed_is_not_asked_for_again(serve: str) -> None:
    assert to_finish(serve, [states("partial", "failed")]) == "give the same command again"
    assert to_finish(serve, [states("diverged", "failed")]).endswith("would again; name another model")
    assert to_finish(serve, []) == "give the same command again, with more --time"
    with in_python():
        assert to_finish(serve, []) == "fit again (where `store` names a folder, it goes on), with more time"


def test_what_no_time_of_this_length_has_room_for_asks_for_more() -> None:
    again = Again({}, {}, 30.0)
    assert not again.obstacle(None, 0.0)
    assert not again.obstacle(40.0, 60.0)
    assert again.obstacle(10.0, 60.0).endswith("give the same command again")
    assert again.obstacle(10.0, 20.0).endswith("with more --time")
