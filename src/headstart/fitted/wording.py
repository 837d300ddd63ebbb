"""What a fit says, on the screen, the page and the model card: no row, id, place or name of a file among it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from headstart import words
from headstart.core import Results, Task, plugins_of
from headstart.data import flatters
from headstart.fitted.outcome import ALIKE, Answers, FitCandidate, Outcome
from headstart.report.tables.report_table import ReportTable, TableCell, TableLine
from headstart.report.tables.scores import COST_NOTE, make_table
from headstart.statistics import LEVEL, detectable, mean, t_quantile
from headstart.tasks.own import OwnFacts
from headstart.text import first_few, sentence, short
from headstart.ways import again, argument

NORMAL = 1.96
"""Standard errors that a 95 % interval reaches to each side."""
WIDE_INTERVAL = 0.1
"""An interval of the difference wider than this says little."""
USUAL_CONFIDENCE = 0.9
"""Coverage of sets of classes for which the page warns of too few held-out sequences."""
FEW_OF_CLASS = 10
"""Train sequences of a class below which it is named."""
EXPLAINED = {
    "accuracy": "Accuracy: the share of sequences whose class was right.",
    "weighted_accuracy": "Class-weighted accuracy: the share of sequences whose class was right, where each class "
    "weighs the same: a sequence weighs more the rarer its class is in train.",
    "balanced_accuracy": "Balanced accuracy: that share for each class by itself, averaged, so that small classes "
    "count as much as large ones.",
    "macro_f1": "Macro-F1: for each class the harmonic mean of how many of it were found and how many said to be of "
    "it were, averaged over classes.",
    "r2": "R²: the share of the variance of the true numbers that is explained; 1 is perfect, 0 is no better than "
    "always saying their mean.",
    "mae": "MAE: the mean distance from the true number, in the target's unit.",
    "rmse": "RMSE: the same with large errors weighing more (the root of the mean squared error).",
}
_ARMS = re.compile(r"(?<!['\w])arm(s?)(?!\w|'(?!s\b))")
_DRAW = re.compile(r"its own binomial standard error is (\S+) at the best arm's score")
EMPTY = ("chosen", "difference")
"""Columns of a study's table that a fit shows only where something stands in them."""
HEADS = {"arm": "model", "n": "runs", "budget": "cost of a run", "tried": "settings tried"}
"""Heads of a study's table, as a fit has them."""
STATES = {"absent": "not trained", "partial": "some runs"}
"""States of a study's rows, in words that stand by themselves."""
HIDDEN = ("layout", "note")
"""Lines of a data card that may name a file."""


def answer(
    results: Results,
    candidates: Sequence[FitCandidate],
    best: FitCandidate,
    serves: FitCandidate,
    helps: Mapping[str, str],
    untried: Sequence[str] = (),
) -> str:
    """The first sentences of the screen and of the page: the best model, and what self-pretraining and a checkpoint
    helped.

    helps: name of a network -> what may have helped it, in words. untried: sentences on what was not planned.
    """
    by_name = {candidate.name: candidate for candidate in candidates}
    base, run = by_name.get(results.against or ""), words.runs_are(results.folds)
    texts = [_winner(candidates, best, serves, run), *untried]
    for name, subject in helps.items():
        texts += _helped(by_name.get(name), base, subject, run)
    return " ".join(texts)


def _winner(candidates: Sequence[FitCandidate], best: FitCandidate, serves: FitCandidate, run: str) -> str:
    row = best.row
    on_test = f" (test {words.plus_minus(row.test)})" if row.test is not None else ""
    scores = f"{words.metric(row.metric)} {words.plus_minus(row.val)} on validation{on_test}"
    if best.members:
        first = max((c for c in candidates if not c.members), key=lambda candidate: candidate.worth)
        single = f"the best model alone, {first.name}, has {words.score(first.worth)} on validation"
        return _served(f"The best is {best.text}: {scores}; {single}", best, serves)
    if best.answers_alike:
        none = "no model tells the sequences apart: on validation none is better than one answer for all"
        return _served(f"The model {best.name} ({best.text}) is taken: {scores}; {none}", best, serves)
    networks, others = ([c for c in candidates if c.is_network is side and not c.members] for side in (True, False))
    network = max(networks, key=lambda candidate: candidate.worth, default=None)
    model, beside, late = f"{best.name} ({best.text})", "", ""
    judged = best if best.is_network else network
    if judged is not None and any(m.last is not None and m.last.val is not m.val for m in judged.models):
        late = " with the last weights of its runs"
    rival = max(others, key=lambda candidate: candidate.worth, default=None) if best.is_network else network
    if rival is not None and rival.row.n != best.row.n and min(rival.row.expected, best.row.expected) > 1:
        sides = best.on_common_runs(rival)
        own, its = (words.score(mean(side)) for side in sides)
        beside = f"; on the {words.many(len(sides[0]), run)} that both have, it has {own} and {rival.name} {its}"
    if best.is_network or network is None:
        chosen = f"; it was chosen by the {words.score(best.worth)} that it has{late}" if late else ""
        sentence = f"The best model is {model}: {scores}{chosen}{beside}"
    elif (gap := network.lead(best)).mean > ALIKE * abs(best.worth):
        unclear = f"the lead of the network {network.name}{late} on validation is not clear: {words.difference(gap)}"
        sentence = f"The model {model} is taken as the simpler one: {scores}; {unclear}"
    elif abs(gap.mean) <= ALIKE * abs(best.worth):
        sentence = f"The model {model} is as good as the best network: {scores}{beside}"
    else:
        sentence = f"The model {model} beats the networks: {scores}"
        alone = f"; the best network{late} has {words.score(network.worth)} on validation" if network.row.val else ""
        sentence += beside or alone
    return _served(sentence, best, serves)


def _served(sentence: str, best: FitCandidate, serves: FitCandidate) -> str:
    if serves is best:
        return f"{sentence}. It is what predict serves."
    return f"{sentence}. As asked for, predict serves {serves.name}."


def _helped(pretrained: FitCandidate | None, scratch: FitCandidate | None, subject: str, run: str) -> Iterator[str]:
    """Whether a network is ahead of the one from scratch; subject: what helps it, in words. run: `seed` or `fold`."""
    if pretrained is None or scratch is None:
        trained = "neither network" if pretrained is scratch else "only one of the two networks"
        yield f"Whether {subject} helped is not known: {trained} was trained to its end."
        return
    gap, name = pretrained.row.difference, words.metric(pretrained.row.metric)
    if gap is None:
        yield f"Whether {subject} helped is not known: no sequences were held out as a test."
        return
    text = f"{words.difference(gap)} test {name} over training from scratch"
    if gap.interval is None:
        yield f"Whether {subject} helped is undecided with one {run} ({text})."
        return
    drawn = draw_error(pretrained, scratch)
    power = detectable(gap)
    seeds = words.many(gap.n, run) + ("" if power is None else f", which would show {words.score(power)} or more")
    beside = f", and a standard error of {words.score(drawn)} from the draw of the test sequences" if drawn else ""
    if gap.clear and (drawn is None or abs(gap.mean) > NORMAL * drawn):
        verb = "helped" if gap.mean > 0 else "hurt"
        yield f"{subject[0].upper()}{subject[1:]} {verb}: {text} ({seeds}{beside})."
    else:
        yield f"Whether {subject} helped is undecided: {text} ({seeds}{beside})."
    low, high = gap.interval
    wide = max(high - low, 2 * NORMAL * (drawn or 0.0))
    if wide > WIDE_INTERVAL:
        yield f"This comparison is underpowered: its interval is {words.score(wide)} wide."


def draw_error(first: FitCandidate, second: FitCandidate) -> float | None:
    """Standard error of the difference in accuracy of two networks from the draw of the test sequences alone: over
    sequences, of the mean over shared seeds. None for numbers, or fewer than two sequences."""
    pairs = [(a.test, b.test) for a in first.models for b in second.models if a.seed == b.seed]
    if not pairs or pairs[0][0].predicted.ndim != 2 or len(pairs[0][0].target) < 2:
        return None
    right = [[(side.predicted.argmax(1) == side.target).astype(float) for side in pair] for pair in pairs]
    gaps = np.mean([a - b for a, b in right], axis=0)
    return float(gaps.std(ddof=1) / np.sqrt(len(gaps)))


def notes(
    results: Results,
    serves: FitCandidate,
    left: int,
    labels: tuple[str, ...],
    train: np.ndarray | None,
    failed: Sequence[str],
    *,
    interrupted: bool = False,
    alone: str = "",
    short: bool = False,
    spare: float = 0.0,
    little: Collection[str] = (),
) -> list[str]:
    """What must be known beside the table, the gravest first: what this fit lacks, then the caveats of its study.

    left: stages that are not done. train: targets of the train split. failed: stages, by name. interrupted: by Ctrl-C.
    alone: why the model that serves was not fitted again on train and validation together; empty where it was. short:
    another run of the same time would have no room for more. spare: seconds of the time that are left. little:
    networks, by name, that take too few steps to learn.
    """
    texts, more = list[str](), list(results.caveats)
    if failed:
        lost = words.listed(list(dict.fromkeys(failed)))
        texts.append(f"Not every stage was trained ({lost}): what depends on those is not in the table.")
    elif left:
        end = "The fit was interrupted" if interrupted else "The time was over"
        if spare >= 1 and not interrupted:
            end = "The part of the time that is for training (comparing and writing have theirs) was over"
        way = f"To finish them, {again(argument('time') if short else '')}."
        if little:
            others = [row.arm for row in results.table if row.unfinished and row.arm not in little and not short]
            rest = f"to finish {words.listed(others)}, {again()}" if others else "to finish these would not help"
            way = f"The networks take too few steps to learn: give more {argument('time')}; {rest}."
        more = [caveat for caveat in more if caveat.kind != "partial"]
        runs = [f"{row.unfinished} of {row.arm}" for row in results.table if row.unfinished]
        lacking = f" ({words.listed(runs)} are left)" if runs else ""
        texts.append(
            f"{end} before all was done{lacking}, so that some models have fewer {results.run_noun}s than others, and "
            f"the choice may change. {way}"
        )
    if interrupted:
        texts.append(
            "Left out because the fit was interrupted: fitting the model that is served again on train and validation "
            "together, and where it looks."
        )
    elif alone:
        texts.append(f"The model that is served was not fitted again on train and validation together: {alone}.")
    model = serves.best()
    if not len(model.test.target):
        texts.append("No sequence was held out as a test: the scores are those of validation, which chose the models.")
    if serves.row.metric == "r2":
        if len(model.val.target) and np.ptp(model.val.target) == 0:
            texts.append("All validation sequences have one target: models were chosen by their squared error there.")
    elif train is not None:
        texts += _rare(np.bincount(train[train >= 0].astype(np.int64), minlength=len(labels)), labels)
    # A split that holds sequences of an earlier one makes every score too good.
    return [*texts, *map(plainly, sorted(map(str, more), key=lambda text: not flatters(text)))]


def plainly(text: str) -> str:
    """A sentence on a study, with `models` for its arms; what stands between quotation marks is a name, and stays."""
    text = _DRAW.sub(r"another draw of as many may change the best arm's score by \1 (one standard error)", text)
    return _ARMS.sub(lambda match: f"model{match[1]}", text)


def _rare(counts: np.ndarray, labels: tuple[str, ...]) -> Iterator[str]:
    rare = [f"{short(labels[i])!r} ({counts[i]})" for i in np.flatnonzero(counts < FEW_OF_CLASS)]
    if rare:
        yield f"Classes with fewer than {FEW_OF_CLASS} train sequences are hardly learnt: {first_few(rare)}."
    if len(counts) > 1 and counts.min() and counts.max() > 5 * counts.min():
        yield (
            "Classes are of very different size: read balanced accuracy and macro-F1 beside accuracy; --balanced "
            "makes all classes weigh the same."
        )


def models_table(outcome: Outcome) -> ReportTable:
    """The table of the study, with the other measures of a person's own data; which model is served is marked."""
    measures = {
        f"test {words.metric(name)}": {c.name: c.more[name] for c in outcome.candidates if name in c.more}
        for name in measures_of(outcome)[1:]
    }
    return in_plain_words(make_table(outcome.results, measures, {outcome.serves: "predicts"}))


def in_plain_words(table: ReportTable) -> ReportTable:
    """The table of a study as somebody reads it who compares models and knows no studies: the models that have no score
    last, and no column that is empty throughout."""
    note = table.note.replace(COST_NOTE, "The cost of a run includes its self-pretraining.")
    note = plainly(note).replace("over n ", "over ")
    if not table.lines:
        return replace(table, heads=tuple(HEADS.get(head, head) for head in table.heads), note=note)
    keys = list(table.lines[0].cells)
    columns = [
        i for i, k in enumerate(keys) if k not in EMPTY or any(line.cells[k].text != words.NONE for line in table.lines)
    ]
    lines = [
        replace(line, cells={keys[i]: _plain_cell(line, keys[i]) for i in columns})
        for line in sorted(table.lines, key=lambda line: line.status == "absent")
    ]
    heads = tuple(HEADS.get(table.heads[i], table.heads[i]) for i in columns)
    return replace(table, heads=heads, numeric=tuple(table.numeric[i] for i in columns), lines=tuple(lines), note=note)


def _plain_cell(line: TableLine, key: str) -> TableCell:
    """A cell of a line, its status in plain words."""
    cell = line.cells[key]
    if key != "arm" or line.status not in STATES:
        return cell
    return replace(cell, text=cell.text.replace(f"({line.status}", f"({STATES[line.status]}", 1))


def in_short(outcome: Outcome) -> str:
    """The answer in one sentence: how often the model that predicts is right on what it never saw, and how sure that
    is; empty where nothing was held out."""
    answers, split = outcome.held_out
    count, model = len(answers.target), outcome.candidate(outcome.serves)
    if not count:
        return ""
    which = "that it never saw" if split == "test" else "by which it was chosen"
    sequences = f"{words.many(count, f'{split} sequence')} {which}"
    if not outcome.labels:
        errors = np.abs(answers.predicted - answers.target)
        usual, mine = float(np.abs(answers.target - np.median(answers.target)).mean()), float(errors.mean())
        return (
            f"The model {model.name} ({model.text}) is off by {words.score(mine)} on average on {sequences}; always "
            f"predicting their median would be {'better, ' if usual < mine else ''}off by {words.score(usual)}."
        )
    right, ends = _right(answers)
    share, common = words.percent(right / count), int(np.bincount(answers.target.astype(np.int64)).max())
    beside = "" if right > common else "as good, " if right == common else "better, "
    return (
        f"The model {model.name} ({model.text}) names the right class of {right:,} of {sequences}: {share} "
        f"(95 % interval {words.percent(ends.low)} to {words.percent(ends.high)}); always naming the commonest class "
        f"would be {beside}right on {common:,}."
    )


def _right(answers: Answers) -> tuple[int, Any]:
    """How many classes are right, and the `low` and `high` end of the 95 % interval (Wilson) of their share."""
    from scipy.stats import binomtest

    right = int((answers.predicted.argmax(1) == answers.target).sum())
    return right, binomtest(right, len(answers.target)).proportion_ci(LEVEL, method="wilson")


def measures_of(outcome: Outcome) -> list[str]:
    """Measures of the table, the one that was chosen by first; those that no model has are left out."""
    measures = ("accuracy", "balanced_accuracy", "macro_f1") if outcome.labels else ("r2", "mae", "rmse")
    more = [name for name in measures if any(name in candidate.more for candidate in outcome.candidates)]
    return [outcome.metric, *(name for name in more if name != outcome.metric)]


def predict_command(outcome: Outcome) -> str:
    """What predicts with the folder of this fit, whose plugins lie in its `source/`."""
    return f"headstart predict model/ new.csv -o predictions.csv{plugin_options(outcome.served.config, 'model/source')}"


def served_words(outcome: Outcome) -> str:
    """The model that `predict` serves: `network, from random weights (2 blocks of attention, width 32, 21k
    parameters)`."""
    candidate, config = outcome.candidate(outcome.serves), outcome.served.config
    if not candidate.is_network or config.network is None or outcome.served.network is None:
        return candidate.text
    count = sum(weights.numel() for weights in outcome.served.network.parameters())
    return f"{candidate.text} ({config.network.size_words}, {count:,} parameters)"


def input_words(outcome: Outcome) -> str:
    """What it takes and what it gives, in one sentence."""
    preparation = outcome.served.config.preparation
    channels = f" in {words.many(len(preparation.channels), 'channel')}" if preparation.kind == "numbers" else ""
    result = f"one of {len(outcome.labels)} classes" if outcome.labels else "a number"
    limit = outcome.served.limit()
    reader = " by the network" if outcome.candidate(outcome.serves).members else ""
    cut = f" Of longer sequences the first {limit:,} positions are read{reader}." if limit is not None else ""
    gaps = " Missing values are allowed." if preparation.missing else ""
    return f"It takes sequences of {preparation.sound}{channels} and gives {result} for each.{cut}{gaps}"


def own_score(outcome: Outcome) -> str:
    """How the served model itself did on test, and how sure that is by the number of test sequences alone."""
    answers = outcome.test.labelled
    count = len(answers.target)
    if not count:
        return "No sequence was held out for a test, so that every score here is one by which models were chosen."
    several = outcome.candidate(outcome.serves).row.n > 1
    runs = f"{outcome.results.run_noun}s"
    mean = f" The table holds means over {runs}; this is the one model of them that is served." if several else ""
    others = mean
    if groups := dict(outcome.card.head).get("groups"):
        others += (
            f" The interval takes sequences for independent; those of one group (there are {groups} in all) are alike, "
            "so that it is too narrow."
        )
    subject = "The model that is served"
    if outcome.again:
        subject = "Before it was fitted again with validation, the model that is served"
        others = others.removeprefix(mean)
    if outcome.labels:
        right, ends = _right(answers)
        return (
            f"{subject} was right on {right:,} of {words.many(count, 'test sequence')}, "
            f"{words.score(right / count)}; from a draw of that size the accuracy may be {words.score(ends.low)} to "
            f"{words.score(ends.high)} (95 % interval).{others}"
        )
    errors = np.abs(answers.predicted - answers.target)
    off, between = float(errors.mean()), ""
    if count > 1:
        reach = t_quantile(count - 1) * float(errors.std(ddof=1)) / count**0.5
        between = (
            f"; from a draw of that size it may be {words.score(max(0.0, off - reach))} to "
            f"{words.score(off + reach)} (95 % interval)"
        )
    return (
        f"{subject} was {words.score(off)} off on average on {words.many(count, 'test sequence')}"
        f"{between}. Half of its errors are below {words.score(float(np.median(errors)))}.{others}"
    )


def how_chosen(outcome: Outcome) -> str:
    """What validation decided, and that test decided nothing."""
    test = "; test was used for no choice" if len(outcome.test.target) else ""
    if outcome.serves != outcome.winner:
        text = f"Settings and weights were chosen on validation (val){test}. The model that is served was asked for."
    else:
        text = f"Settings, weights and the model that is served were chosen on validation (val){test}."
    if not outcome.again:
        return text
    what = "All of its models were" if outcome.candidate(outcome.serves).members else "It was"
    return (
        f"{text} {what} then fitted again on train and validation together; the scores here are those of the runs "
        "that chose it."
    )


def data_pairs(outcome: Outcome) -> list[tuple[str, str]]:
    """The data card's lines that name no file, and how many sequences each split has."""
    pairs = [pair for pair in outcome.card.head if pair[0] not in HIDDEN]
    splits = [f"{outcome.sizes[name]:,} {name}" for name in ("train", "val", "test") if name in outcome.sizes]
    bare = outcome.sizes.get("train", 0) - outcome.sizes.get("labelled", outcome.sizes.get("train", 0))
    more = f"; {bare:,} of train without a label, for self-pretraining" if bare > 0 else ""
    return [*pairs, ("split", ", ".join(splits) + more)] if splits else pairs


def data_findings(outcome: Outcome) -> list[str]:
    """What may be wrong with the data, as counts: the card's own findings name places."""
    facts = outcome.card.facts
    copies, channels = facts["copies"], facts["channels"]
    rows, odd, apart, ids = copies["rows"], copies["with other labels"], copies["in two groups"], facts["repeated ids"]
    still = sum(channel["min"] is not None and channel["min"] == channel["max"] for channel in channels)
    gone = sum(channel["min"] is None for channel in channels)
    same = "1 sequence is an exact copy of another" if rows == 1 else f"{rows:,} sequences are exact copies of others"

    def has(count: int) -> str:
        return "has" if count == 1 else "have"

    texts = {
        f"{same}; copies stay in one split.": rows,
        f"{words.many(odd, 'set')} of copies {has(odd)} different labels: nothing can tell these apart.": odd,
        f"{words.many(apart, 'set')} of copies {has(apart)} members in two groups, so that groups leak.": apart,
        f"{words.many(ids, 'id')} {has(ids)} several rows.": ids,
        f"{words.many(still, 'channel')} {has(still)} one value throughout.": still,
        f"{words.many(gone, 'channel')} {'is' if gone == 1 else 'are'} missing throughout.": gone,
    }
    return [*(text for text, count in texts.items() if count), *(f"{sentence(text)}." for text in facts["doubts"])]


def caveats(outcome: Outcome) -> list[str]:
    """The notes of the fit without the data card's findings, which name places; what makes scores too good stays. Then
    what must be known before sets of classes are used."""
    config, usual = outcome.served.config, f"{argument('confidence')} {USUAL_CONFIDENCE:g}"
    held = config.held_out.get(config.serve)
    warning = "" if held is None else held.warning(USUAL_CONFIDENCE, config.preparation.classes)
    return [
        *(note for note in outcome.notes if flatters(note) or note not in outcome.card.findings),
        *([f"Before sets of classes are used (predict with {usual}): {warning}."] if warning else ()),
    ]


def filling_score(outcome: Outcome) -> str:
    """How well self-pretraining fills in what was hidden, at its best on validation; empty where there was none."""
    runs = [run for row in outcome.results.table for run in row.runs]
    parents = dict.fromkeys(identity for run in runs for _, identity in run.stages[:-1])
    best: dict[str, list[float]] = {"accuracy": [], "r2": []}
    for identity in parents:
        for name, scores in best.items():
            lines = [record.get("val", {}) for record in outcome.records.get(identity, ())]
            scores += [max(line[name] for line in lines if name in line)] if any(name in line for line in lines) else []
    if best["accuracy"]:
        return f"It names {words.percent(mean(best['accuracy']))} of the hidden symbols right on validation."
    if best["r2"]:
        share = words.score(mean(best["r2"]))
        return (
            f"On validation it explains {share} of the variance of the hidden values (R²: 1 is perfect, 0 no "
            "better than their mean)."
        )
    return ""


def title(facts: OwnFacts) -> str:
    """What the model is."""
    what = {
        "numbers": "sequences of numbers",
        "text": "texts",
        "dna": "DNA",
        "protein": "proteins",
        "tokens": "sequences of tokens",
    }[facts.kind]
    return f"A classifier of {what} into {len(facts.labels)} classes" if facts.labels else f"A regressor of {what}"


def split_in_words(task: Task, *, by_time: bool, grouped: bool, folds: int, files: Sequence[str]) -> str:
    """How the rows were dealt out. folds: of train and val, 1 where one part is val. files: splits from own files."""
    sizes = ", ".join(f"{task.split(name).units:,} {name}" for name in ("train", "val", "test"))
    how = "each class in proportion" if task.signature.target == "class" else "drawn at random"
    how = "in the order of time" if by_time else how
    how = "each group on one side" if grouped else how
    if folds > 1:
        how += f"; each run chooses on another of {folds} folds of train and val"
    return "; ".join([sizes, how]) + "".join(f", {name} from its own file" for name in files)


def plugin_options(value: Any, folder: str | os.PathLike[str]) -> str:
    """` --plugin FOLDER/my_mixer.py` for each plugin of a spec, whose sources lie in that folder."""
    return "".join(f" --plugin {folder}/{plugin.word}" for plugin in plugins_of(value))
