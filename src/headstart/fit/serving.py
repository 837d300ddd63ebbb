"""The last step of a fit: the models of a folder, the one that serves among them, and all that is said of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from headstart.analysis.occlusion import affordable, looked
from headstart.baselines.measures import softmax
from headstart.core import Failed, FinishedStage, Runtime, plugins_of
from headstart.data import Profile
from headstart.fit.arms import arms, without_gradients
from headstart.fit.budget import AFTER, REPORT
from headstart.fit.choose import Chosen
from headstart.fit.plan import Planned
from headstart.fit.prepared import Fit
from headstart.fitted.curve import curve_of, curve_text
from headstart.fitted.outcome import Answers, FitCandidate, Outcome, TrainedModel, held_out
from headstart.fitted.recordings import Shown, shown_recordings
from headstart.fitted.wording import answer, notes, title
from headstart.sequence import Examples
from headstart.serve.config import NETWORK, ModelConfig, NetworkConfig
from headstart.serve.model import Served, of_examples
from headstart.ways import argument


def serve(
    fit: Fit, planned: Planned, chosen: Chosen, failures: Sequence[Failed] = (), *, interrupted: bool = False
) -> Outcome:
    """What was compared and chosen, and what is served, put together.

    failures: stages that failed. interrupted: in the least time, from what is finished; the notes say what was left
    out.
    """
    results, best, serves = chosen.results, chosen.best, chosen.serves
    served = served_model(fit, chosen)
    model, labels = serves.best(), fit.facts.labels
    split, answers = held_out_rows(fit, model)
    stages = dict.fromkeys(identity for row in results.table for identity in row.stages)
    looked_at = 0 if interrupted else affordable(served)
    seconds = max((np.inf if fit.left is None else fit.left) - REPORT, 0.0)
    # A message may name files of this machine, and what is noted travels with the page.
    lost = [event.name if event.tried else f"{event.name}, whose parent failed or diverged" for event in failures]
    remarks = notes(
        results,
        serves,
        sum(not fit.store.finished(identity) for identity in planned.study.stages),
        labels,
        fit.task.train.target,
        lost,
        interrupted=interrupted,
        alone=chosen.alone,
        short=fit.settings.time is not None and fit.settings.time - fit.ready <= AFTER,
        spare=0.0 if fit.left is None else seconds,
        little=[row.arm for row in results.table if row.arm not in without_gradients()] * planned.plan.too_little,
    )
    learnt = planned.plan.learnt
    if learnt is not None:
        models = f"Models without a network learn from {learnt:,} of {fit.basis.rows:,} train sequences"
        remarks.insert(0, f"{models}: give more {argument('time')} or {argument('memory')} for all of them.")
    spare = 0.0 if interrupted else seconds
    curve = curve_of(chosen.candidates, serves, fit.store, fit.data, fit.task, fit.basis.class_weights, spare)
    if fit.source.part is not None:
        remarks.insert(0, f"{fit.source.part.text.capitalize()}: give more {argument('time')} for all of them.")
    return Outcome(
        title=title(fit.facts),
        card=fit.card,
        labels=labels,
        candidates=chosen.candidates,
        winner=best.name,
        serves=serves.name,
        served=served,
        test=model.test,
        uncalibrated=softmax(model.raw) if model.raw is not None and labels and len(model.raw) else None,
        results=results,
        answer=answer(results, chosen.candidates, best, serves, *helped(planned.plan.study["arms"], chosen.candidates)),
        plan=planned.plan.texts,
        notes=(*curve_text(curve), *remarks),
        sizes={name: fit.task.split(name).units for name in ("train", "val", "test")}
        | {"labelled": len(fit.task.train.labelled_units())},
        occlusion=looked(
            partial(of_examples, served), split, answers.target, bool(labels), most=looked_at, seconds=seconds
        ),
        records={identity: list(fit.store.records(identity)) for identity in stages},
        versions={"headstart": Runtime.version("release"), **{x: Runtime.version(x) for x in ("torch", "numpy")}},
        seeds=tuple(sorted({cell.seed for cell in planned.study.cells})),
        again=chosen.again is not None,
        curve=curve,
    )


def helped(planned: Collection[str], candidates: Sequence[FitCandidate]) -> tuple[dict[str, str], list[str]]:
    """(name of a network -> what may have helped it, in words; what is said of those that were not planned)."""
    helps, untried, trained = dict[str, str](), list[str](), {candidate.name for candidate in candidates}
    for arm in arms().values():
        asked = {name: words for name, words in arm.helps.items() if name in (planned if arm.missed else trained)}
        helps |= asked
        untried += [arm.missed] if arm.missed and not asked else []
    return helps, untried


def held_out_rows(fit: Fit, model: TrainedModel) -> tuple[Examples, Answers]:
    """The test split and what a model answered to it; without one, validation as that model had it."""
    if len(model.test.target):
        return fit.task.test, model.test
    folds = len(fit.splits)
    if folds > 1:  # a run's own fold, which is a further repetition from so many seeds on
        return fit.spec.model_copy(update={"folds": folds, "fold": model.seed}).opened(fit.data).val, model.val
    return fit.task.val, model.val


def recordings(fit: Fit, chosen: Chosen, outcome: Outcome) -> Shown:
    """What the page draws of the data."""
    rows = held_out_rows(fit, chosen.serves.best())
    return shown_recordings(outcome, fit.task, fit.facts, fit.source.sequences, *rows)


def served_model(fit: Fit, chosen: Chosen) -> Served:
    """Every model that `predict` may be asked for: the best network, and each arm without gradients at its best seed;
    where an ensemble serves, the models that it averages.

    What was fitted again on train and validation stands in its place; temperatures and errors stay those of the runs
    that were chosen. Raises: BadInput where a stage of it is gone.
    """
    again = {} if chosen.again is None else chosen.again.identities
    by_name = {item.name: _at_last(item, again) for item in chosen.candidates}
    serves, network, facts = by_name[chosen.serves.name], chosen.network and by_name[chosen.network.name], fit.facts
    best = {name: item.best() for name, item in by_name.items()} | serves.parts()
    stage: FinishedStage | None = None
    classics, errors = {}, {}
    for item in by_name.values():
        if (item.is_network and item is not network) or (item.members and item is not serves):
            continue
        name = NETWORK if item is network else item.name
        fitted_again = not again.keys().isdisjoint(item.parts())
        errors[name] = held_out(item, fitted_again, len(fit.splits), best[item.name])
        if item.members:
            continue
        opened = FinishedStage.opened(fit.store, again.get(item.name, best[item.name].identity), fit.data)
        if item is network:
            stage = opened
        else:
            classics[name] = opened.model()
    read = {} if stage is None else {"patch": stage.spec.task.patch, "missing": stage.task.signature.missing}
    config = ModelConfig(
        made_by=f"headstart {Runtime.version('release')}",
        layout=fit.source.layout,
        preparation=facts.preparation(**read),
        network=None if stage is None or network is None else _network_config(stage, network.name, best[network.name]),
        classics={name: fitted.facts for name, fitted in classics.items()},
        serve=NETWORK if serves.is_network else serves.name,
        ensemble=tuple(NETWORK if network and name == network.name else name for name in serves.members),
        shares=serves.shares,
        temperature=serves.best().temperature if serves.members else 1.0,
        held_out=errors,
        profile=Profile.of(fit.source.sequences),
        plugins={} if stage is None else {plugin.name: plugin.digest for plugin in plugins_of(stage.spec.model)},
    )
    return Served(config, None if stage is None else stage.model().float(), classics)


def _at_last(item: FitCandidate, again: Collection[str]) -> FitCandidate:
    """A candidate; where its network is fitted again, with the temperature and the errors on held-out sequences of the
    last weights of its runs, which are far surer than the best where these come early."""
    same = item.parts().keys().isdisjoint(again)
    return item if same else replace(item, models=tuple(model.last or model for model in item.models))


def _network_config(stage: FinishedStage, arm: str, network: TrainedModel) -> NetworkConfig:
    return NetworkConfig(
        model=stage.spec.model,
        objective=stage.spec.objective,
        length=stage.task.signature.length,
        temperature=network.temperature,
        arm=arm,
    )
