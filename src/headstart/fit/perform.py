"""A fit from beginning to end: prepare, plan, train, choose, serve; each step by itself, so that it can be shown."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from headstart import words
from headstart.baselines.pieces import FIRST, PART, SOON, Pieces
from headstart.core import Event, Failed, Runtime, Store, perform
from headstart.fit import plan as planning
from headstart.fit.again import reserved
from headstart.fit.arms import arms, check_names, constant_names
from headstart.fit.budget import AFTER
from headstart.fit.choose import Chosen, Listener, Piece, choose, unheard
from headstart.fit.plan import Planned
from headstart.fit.plan_file import FitPlan
from headstart.fit.prepared import Fit, prepare
from headstart.fit.serving import serve
from headstart.fitted.outcome import Outcome
from headstart.limits import give_back
from headstart.request.settings import FitSettings
from headstart.request.source import read_source
from headstart.serve.config import ENSEMBLE, NETWORK
from headstart.text import listed

USABLE = "a first usable model"


@dataclass(frozen=True)
class First:
    """What the models without gradients took. waiting: seconds of runs that are left to be done beside the networks.
    learnt: rows of train that they are fitted on (None: all)."""

    seconds: float
    waiting: float
    learnt: int | None = None


def fit_first(fit: Fit, on: Listener = unheard, *, once: bool = False) -> First:
    """Fit the models without gradients, in this process, on as many rows as the time has room for: a part first, where
    all would be late for a first model that could serve. once: in one run, without the dearest of them.

    Tells as each begins, and of that first model. With a limit of time, further seeds may take a fifth of it, further
    folds two thirds: a choice on one fold of few rows is a guess.
    """
    limit, runs, waiting = fit.settings.time or float("inf"), fit.settings.runs, 0.0
    begun = last = time.monotonic()
    pieces = fit.pieces()
    most = max(FIRST * limit - fit.spent, FIRST * limit / 2, min(SOON, (fit.rest or 0.0) / 4))
    learnt: int | None = pieces.first(SOON if once else most, lambda size: _stored(fit, size) == 1)
    while learnt is not None:
        at, stored = time.monotonic(), _stored(fit, learnt) == 1
        whole = _fit_here(fit, runs[0], on, learnt=learnt, pieces=pieces, dearest=not once)
        now = time.monotonic()
        give_back()
        if once or not whole:
            return First(now - begun, 0.0, fit.part(learnt))
        pieces.took(learnt, now - at, stored)
        learnt = None if fit.rest is None else pieces.more(fit.rest)
    if now - fit.begun > limit:
        on(f"these models alone took longer than the limit of {words.duration(limit)}")
    each, last = now - at, now  # the next run is taken to be as long as this one
    for i, seed in enumerate(runs[1:], 1):
        late = fit.rest is not None and each > fit.rest
        if late or now + each - begun > limit * (2 / 3 if len(fit.splits) > 1 else 1 / 5):
            waiting = (len(runs) - i) * each  # the others run beside the networks
            break
        _fit_here(fit, seed, on, learnt=pieces.done, pieces=pieces)
        now = time.monotonic()
        each, last = now - last, now
    slow = planning.study_without_networks(fit.basis, fit.settings, runs[0], slow=True)
    for seed in runs if slow["arms"] else ():
        if waiting and fit.settings.backbone is None:
            break  # what nobody asked for waits for the folds of the others
        _fit_here(fit, seed, on, slow=True)
        if time.monotonic() - begun > limit / 2:
            break
    return First(time.monotonic() - begun, waiting, fit.part(pieces.done))


def forecast(fit: Fit) -> First:
    """What `fit_first` will have learnt from, as far as that can be told before."""
    return First(0.0, 0.0, None if fit.rest is None else fit.part(fit.pieces().first(PART * fit.rest)))


def _fit_here(
    fit: Fit,
    seed: int,
    on: Listener,
    *,
    slow: bool = False,
    learnt: int | None = None,
    pieces: Pieces | None = None,
    dearest: bool = True,
) -> bool:
    """Fit the models of one run, the cheapest first, and tell as each begins, in later runs of the last alone.
    learnt: rows of train that they are fitted on. pieces: these rows are one; the first that looks at them is told.

    Returns whether all were. The dearest of a first piece is left out without `dearest`, or if late and not to serve.
    """
    early, seconds = (not pieces.done, pieces.forecast(learnt)) if pieces and learnt else (False, 0.0)
    stages, runs = fit.without_networks(seed, slow=slow, learnt=learnt).stages, fit.settings.runs
    order, begun, used = [*stages.values()][::-1], time.monotonic(), time.process_time()
    parts = (order[:-1], order[-1:]) if early and len(order) > 1 else (order,)
    for part in parts:
        # Where others want the processor too, a piece takes longer by as much as these models did.
        busy = max(1.0, (time.monotonic() - begun) / max(time.process_time() - used, 0.1))
        late = fit.rest is not None and busy * seconds > fit.rest and fit.settings.serve not in part[0].arms
        if part is not parts[0] and (late or not dearest) and not fit.store.finished(next(iter(stages))):
            return False
        for event in perform(part, fit.store, Runtime(fit.data, "cpu")):
            if event.begins and threading.current_thread() is threading.main_thread():
                # There is nothing to save of such a model: Ctrl-C ends it at once, and `perform` puts its own back.
                signal.signal(signal.SIGINT, signal.default_int_handler)
            if event.begins:
                rows = f" on {learnt:,} of {fit.basis.rows:,} sequences" if learnt and fit.part(learnt) else ""
                more = rows if seed == runs[0] else f"{rows}, run {runs.index(seed) + 1} of {len(runs)}"
                piece = Piece(f"fitting {words.listed(list(stages[event.identity].arms))}{more} ...")
                piece.seconds = seconds  # the last takes almost all of them
                if not more or event.identity == next(iter(stages)):
                    on(piece)
            on(event)
            if early and fit.store.finished(event.identity) and stages[event.identity].arms[0] not in constant_names():
                early = False
                on(f"{USABLE} after {words.duration(fit.spent)}; from now on Ctrl-C keeps one")
    return True


def _stored(fit: Fit, size: int) -> float:
    """Share of the models of a piece that are finished."""
    stages = fit.without_networks(fit.settings.runs[0], learnt=size).stages
    return sum(map(fit.store.finished, stages)) / max(len(stages), 1)


def usable(fit: Fit) -> First | None:
    """The most rows of train from which most models without gradients have learnt; None where no model could serve."""
    size = max(fit.pieces().sizes, key=lambda size: _stored(fit, size))
    return First(0.0, 0.0, fit.part(size)) if _stored(fit, size) else None


def plan(fit: Fit, slots: int, first: First, *, keep: bool = True, timed: bool = True) -> Planned:
    """The plan that an earlier run of the same command left, or a new one for `slots` processes, which is kept.

    first: the models without gradients. timed: steps are taken, where there is a limit of time, to tell how many fit
    into it.
    """
    settings, part = fit.settings, fit.source.part is not None
    made = FitPlan.load(fit.folder, fit.made_for, settings, part=part)
    if made is None or made.learnt != first.learnt:
        spent, basis = fit.spent + first.waiting / max(slots, 1), replace(fit.basis, learnt=first.learnt)
        made = planning.plan_for(basis, settings, fit.made_for, spent, slots, fit.device, timed=timed)
        made = made.model_copy(update={"part": part})
        if keep:
            made.save(fit.folder, settings)
    return Planned(made, fit.studied(made.study, settings.overrides))


def train(fit: Fit, planned: Planned, first: First, on: Listener = unheard, workers: int = 0, threads: int = 1) -> None:
    """Train what is not there yet, until all is done or the time is over.

    Where it is over already nothing is trained, unless nothing could be served then, or a network was asked for.
    """
    limit = None
    if fit.left is not None:
        # Whatever the plan promised: what is left of the time, less what comparing and writing take. To find where a
        # model without gradients looks is about half the work of having fitted it, and what serves is fitted again: a
        # model without gradients, or one of the networks.
        after = AFTER + (0.5 + 1 / len(fit.settings.runs)) * first.seconds
        after += reserved(planned.study, planned.plan.seconds, max(workers, 1))
        least = 0.0 if fit.settings.serve not in (NETWORK, ENSEMBLE) and usable(fit) else 1.0
        limit = max(least, fit.left - after)
        if not limit:
            return
    runtime = Runtime(fit.data, fit.device, workers, threads, limit=limit)
    for event in perform(planned.study.stages.values(), fit.store, runtime):
        on(event)


def broken_of(failures: Sequence[Failed]) -> list[str]:
    """The stages that failed by themselves, and how."""
    return [f"{event.name}: {event.message}" for event in failures if event.tried]


def study_file(fit: Fit, planned: Planned, chosen: Chosen) -> str:
    """The study that was run, as `headstart run` reads it. It may be passed on: files are named from the folder on that
    holds them all, weights from theirs on.

    Its arm `served` is the served model, where that was fitted on train and validation.
    """
    paths = [Path(path) for path in fit.source.places.values()]
    folder = os.path.commonpath([path.parent for path in paths])
    names = {str(path): path.relative_to(folder).as_posix() for path in paths}
    used = [arm.weights(fit.basis) for arm in arms().values()]
    weights = {each.source: Path(each.source).name for each in used if each is not None}
    more = " --weights FOLDER, which holds the weights" if any(map(os.path.isabs, weights)) else ""
    head = f"# headstart run THIS_FILE --data FOLDER, which holds {listed([*names.values()])}{more}\n"
    return head + planned.study.document(chosen.again.arms if chosen.again else {}, {**names, **weights})


def examples(fit: Fit, chosen: Chosen) -> dict[str, np.ndarray] | None:
    """What self-pretraining fills in on validation, of the first chosen run; None where nothing was pretrained."""
    runs = [run for row in chosen.results.table for run in row.runs if run.val is not None]
    first = next((identity for run in runs for name, identity in run.stages if name == "pretrain"), None)
    tensors = {} if first is None else fit.store.predictions(first)
    return {name: tensor.numpy() for name, tensor in tensors.items()} or None


def fit_sequences(
    data: Any,
    settings: FitSettings,
    *,
    labels: Any = None,
    groups: Any = None,
    unlabelled: Any = None,
    out: Path | None = None,
    store: Path | None = None,
    workers: int | None = 0,
    threads: int = 1,
    device: str = "auto",
    on_event: Callable[[Event], None] | None = None,
) -> Outcome:
    """Fit the sequences of a file or folder (by its path) or of memory, and compare what was fitted.

    labels, groups: one per sequence, of data in memory. unlabelled: sequences for self-pretraining alone. out: where
    the plan is kept, so that the same call goes on from it. store: of the stages (None: a folder that is deleted at the
    end, or, of a file, HEADSTART_STORE or ./runs). workers: processes (0: this one; None: one per GPU, or core).
    Raises: BadInput for wrong data or settings; RuntimeError where no network could be trained.
    """
    with _store(data, store) as root:
        begun = time.monotonic()
        check_names(settings)
        source = read_source(data, settings, root, labels, groups, unlabelled)
        fit, failures = prepare(source, settings, root, out, device, time.monotonic() - begun), list[Failed]()
        slots = Runtime.slots(device, [weights.fields for weights in fit.basis.read]) if workers is None else workers

        def hear(word: str | Event) -> None:
            if isinstance(word, Failed):
                failures.append(word)

        def train_heard(word: str | Event) -> None:
            hear(word)
            if on_event is not None and isinstance(word, Event):
                on_event(word)

        first = fit_first(fit, hear)
        timed = settings.time is not None or out is not None
        planned = plan(fit, max(slots, 1), first, timed=timed)
        train(fit, planned, first, train_heard, slots, threads)
        if broken := broken_of(failures):
            raise RuntimeError("stages failed:\n" + "\n".join(broken))
        return serve(fit, planned, choose(fit, planned.study, hear, threads), failures)


@contextmanager
def _store(data: Any, store: Path | None) -> Iterator[Path]:
    if store is not None or isinstance(data, (str, os.PathLike)):
        yield Store.root_of(store)
        return
    with tempfile.TemporaryDirectory(prefix="headstart-") as folder:
        yield Path(folder)
