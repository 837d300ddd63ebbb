"""Does an average of all models that are not clearly worse serve better than the best one? On stored fits of fit_against.py.

    python benchmarks/fit_average.py --data DIR [--work DIR] [--fit-time SECONDS] SET ...

The work folder holds finished fits of `fit_against.py --methods fit`. Each member is fitted again on all train rows where that is
not done yet, its answers are kept beside the fits, and every rule is computed from them. The rules stand in
docs/benchmarks/fit-members.md, and were committed before the first fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from fit_against import SEED, shuffled
from fit_page import SHUFFLED
from harness import Set, all_sets, files_of, interval_text, markdown, once, over_sets, parser_of, plain_name

from headstart.baselines.average import CLEARLY, LEAST_MEMBER, LEAST_TRUE, gains, greedy_shares
from headstart.baselines.measures import fit_temperature, heated, reliability
from headstart.core import Runtime, perform
from headstart.data import read_sequences
from headstart.fit.again import planned_again
from headstart.fit.arms import constant_names
from headstart.fit.choice import best_of, of_enough_runs
from headstart.fit.choose import Chosen, _by_last_weights, compare
from headstart.fit.plan_file import FitPlan
from headstart.fit.prepared import prepare
from headstart.fit.serving import served_model
from headstart.request.settings import FitSettings
from headstart.request.source import read_source
from headstart.serve.config import NETWORK


def answers_of(dataset: Set, work: Path, seconds: float) -> dict[str, Any]:
    """What each member of a stored fit answers: to the rows that a run did not see, and fitted again to test rows."""
    train, test = files_of(dataset, work)[:2]
    assert test is not None, "sets with test rows of their own alone"
    folder = work / "fits" / f"{plain_name(dataset.name)}-{seconds:g}s-{SEED}"
    root = Path(f"{folder}-store")
    settings = FitSettings(layout=dataset.layout, time=seconds, test_share=0.0, split_seed=SEED)
    fit = prepare(read_source(str(train), settings, root), settings, root, folder, "cpu")
    plan = FitPlan.load(folder, fit.made_for, settings, part=False)
    assert plan is not None, "the fit is of these settings"
    study = fit.studied(plan.study)
    chosen, members = compare(fit, study), dict[str, Any]()
    rows = read_sequences(test, read_sequences(train, dataset.layout).layout.fixed())
    networks = [item for item in chosen.candidates if item.is_network]
    several = [item for item in chosen.candidates if not (item.is_network or item.members)]
    pool = [item for item in several if item.name not in constant_names()] + (
        [_by_last_weights(fit, best_of(networks))] if networks else []
    )
    for item in pool:
        again = planned_again(study, item, fit.store)
        for _ in perform(again.stages, fit.store, Runtime(fit.data, fit.device, 0, 1)):
            pass
        network, name = (item, NETWORK) if item.is_network else (None, item.name)
        first = Chosen(chosen.results, chosen.candidates, item, item, network)
        tests = [served_model(fit, each).predict(rows, name) for each in (first, replace(first, again=again))]
        runs = {
            "" if item.row.expected == 1 else str(model.seed): (model.val.labelled.target, model.val.labelled.predicted)
            for model in item.models
        }
        members[name] = {
            "arm": item.name,
            "runs": {run: [target.tolist(), predicted.round(7).tolist()] for run, (target, predicted) in runs.items()},
            "first": tests[0].round(7).tolist(),
            "test": tests[1].round(7).tolist(),
        }
    best, lead = chosen.serves, best_of(of_enough_runs([item for item in chosen.candidates if not item.members]))
    names = {item.name: NETWORK for item in networks}
    return {
        "truth": [fit.facts.labels.index(label or "") for label in rows.labels],
        "folds": len(fit.splits),
        "counts": list(fit.facts.counts),
        "members": members,
        "serves": [names.get(name, name) for name in best.parts()],
        "lead": names.get(lead.name, lead.name),
        "shares": list(best.shares) or [1.0],
    }


@dataclass(frozen=True)
class Answers:
    """Of one set. runs: of each member by seed ("": one for all) the targets (n,) and probabilities (n, K). test: of each
    fitted again, first: of its best run. serves: shares of what serves today. lead: the best on validation, by whatever it leads."""

    truth: np.ndarray
    folds: int
    runs: Mapping[str, Mapping[str, tuple[np.ndarray, np.ndarray]]]
    test: Mapping[str, np.ndarray]
    first: Mapping[str, np.ndarray]
    serves: Mapping[str, float]
    lead: str

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Answers:
        """As they are kept."""
        runs = {
            name: {run: (np.array(target), np.array(p)) for run, (target, p) in member["runs"].items()}
            for name, member in kept["members"].items()
        }
        test, first = ({name: np.array(m[key]) for name, m in kept["members"].items()} for key in ("test", "first"))
        serves = dict(zip(kept["serves"], kept["shares"], strict=True))
        return cls(np.array(kept["truth"]), kept["folds"], runs, test, first, serves, kept["lead"])

    def common(self, names: Sequence[str]) -> tuple[np.ndarray, list[np.ndarray], int]:
        """Targets and each one's probabilities of the rows out of fold that all saw, and how often each row is there."""
        drawn = [name for name in names if "" not in self.runs[name]] or [names[0]]
        seeds = [run for run in self.runs[drawn[0]] if all(run in self.runs[name] for name in drawn)]
        parts = [[self.runs[name].get(run, self.runs[name].get("")) for run in seeds] for name in names]
        target = np.concatenate([part[0] for part in parts[0] if part])
        predicted = [np.concatenate([part[1] for part in side if part]) for side in parts]
        return target, predicted, 1 if self.folds > 1 else len(seeds)

    def worse(self, name: str, best: str, accuracy: bool) -> tuple[float, float]:
        """How much worse a member is than another on the rows that both saw, and the standard error."""
        target, predicted, copies = self.common([name, best])
        at = np.arange(len(target))
        each = [
            p.argmax(1) != target if accuracy else -np.log(np.maximum(p[at, target], LEAST_TRUE)) for p in predicted
        ]
        difference = np.mean(np.split(each[0].astype(float) - each[1], copies), axis=0)
        return float(difference.mean()), float(difference.std(ddof=1) / len(difference) ** 0.5)

    def near(self, accuracy: bool) -> dict[str, float]:
        """Equal shares of all that are within one standard error of the best."""
        best, *others = self.test
        for name in others:
            best = name if self.worse(name, best, accuracy)[0] < 0 else best
        close = [name for name in self.test if name == best or np.less_equal(*self.worse(name, best, accuracy))]
        return dict.fromkeys(close, 1 / len(close))

    def greedy(self, margin: bool) -> dict[str, float]:
        """Shares of the average of greedy selection; with a margin of what serves where it gains no more."""
        names = list(self.test)
        target, predicted, copies = self.common(names)
        columns = np.stack([p[np.arange(len(target)), target] for p in predicted], axis=1)
        each = np.ones(len(target))
        shares = greedy_shares(columns, each, True)
        shares = np.where(shares >= LEAST_MEMBER, shares, 0)
        shares /= shares.sum()
        single = columns @ [self.serves.get(name, 0.0) for name in names]
        if margin and ((shares > 0).sum() < 2 or not gains(columns @ shares, single, each, True, copies)):
            return dict(self.serves)
        return {name: float(share) for name, share in zip(names, shares, strict=True) if share}

    def both(self) -> dict[str, float]:
        """Kernels and the network."""
        names = [name for name in ("kernels", NETWORK) if name in self.test]
        return dict.fromkeys(names, 1 / len(names))

    def temperature(self, shares: Mapping[str, float]) -> float:
        """Of their average."""
        target, predicted, _ = self.common([*shares])
        average = np.tensordot([*shares.values()], predicted, axes=1)
        return fit_temperature(np.log(np.maximum(average, LEAST_TRUE)), target, True)

    def served(self, shares: Mapping[str, float], again: bool = True) -> np.ndarray:
        """Test probabilities of an average. again: of what is fitted again."""
        test = self.test if again else self.first
        average = np.tensordot([*shares.values()], [test[name] for name in shares], axes=1)
        return heated(average, self.temperature(shares)) if len(shares) > 1 else average

    def marks(self, rule: str) -> tuple[np.ndarray, np.ndarray, float]:
        """(n,) right and log-loss of each test row, and the calibration error, by a rule or of a member."""
        shares = RULES[rule](self) if rule in RULES else {rule: 1.0}
        p = self.served(shares, again=rule != SECOND)
        right = p.argmax(1) == self.truth
        loss = -np.log(np.maximum(p[np.arange(len(p)), self.truth], LEAST_TRUE))
        return right.astype(float), loss, reliability(self.truth, p).error


SECOND = "G without the second fit"
RULES: dict[str, Callable[[Answers], Mapping[str, float]]] = {
    "today": lambda answers: answers.serves,
    "A greedy": lambda answers: answers.greedy(False),
    f"B greedy, {CLEARLY} standard errors": lambda answers: answers.greedy(True),
    "C equal, near by log-loss": lambda answers: answers.near(False),
    "D equal, near by accuracy": lambda answers: answers.near(True),
    "E kernels and network": lambda answers: answers.both(),
    "F without the clear lead": lambda answers: {answers.lead: 1.0},
    SECOND: lambda answers: answers.serves,
}


def table(sets: Mapping[str, Answers]) -> list[str]:
    """Each rule over the sets."""
    lines, first = [], [answers.marks("today") for answers in sets.values()]
    for rule, shares in RULES.items():
        marks = [answers.marks(rule) for answers in sets.values()]
        cells = [f"{np.mean([len(shares(answers)) for answers in sets.values()]):.1f}"]
        for i in (0, 1):
            cells += [f"{np.mean([np.mean(mark[i]) for mark in marks]):.3f}"]
            pairs = [(np.asarray(a[i]), np.asarray(b[i])) for a, b in zip(first, marks, strict=True)]
            cells += [interval_text(over_sets(pairs)) if rule != "today" else ""]
        least = [min(answers.marks(name)[1].mean() for name in answers.test) for answers in sets.values()]
        near = sum(mark[1].mean() <= 1.05 * each for mark, each in zip(marks, least, strict=True))
        lines.append([rule, *cells, f"{near} of {len(sets)}", f"{np.mean([mark[2] for mark in marks]):.3f}"])
    heads = ["rule", "models", "accuracy", "gain", "log-loss", "change", "within 5 % of the best member", "calibration"]
    return markdown(heads, lines)


def by_set(sets: Mapping[str, Answers]) -> list[str]:
    """What each member and each rule has on the test rows of each set."""
    lines = []
    for name, answers in sets.items():
        for title in (*answers.test, *RULES):
            right, loss, error = answers.marks(title)
            shares = RULES[title](answers) if title in RULES else {}
            parts = ", ".join(f"{member} {share:.2f}" for member, share in shares.items())
            runs = f"{len(answers.runs[title])} runs" if title in answers.runs else parts
            lines.append([name, title, runs, f"{right.mean():.3f}", f"{loss.mean():.3f}", f"{error:.3f}"])
    return markdown(["set", "rule or member", "shares, or runs", "accuracy", "log-loss", "calibration error"], lines, 3)


def main() -> None:
    words = parser_of(__doc__)
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--work", type=Path, default=Path("runs/fit-against"))
    words.add_argument("--fit-time", type=float, default=60.0)
    words.add_argument("sets", nargs="+", metavar="SET")
    options = words.parse_args()
    work, seconds, sets = options.work.absolute(), options.fit_time, dict[str, Answers]()
    for dataset in all_sets(options.data, work):
        for other in (dataset, shuffled(dataset) if dataset.name + SHUFFLED in options.sets else dataset):
            if other.name in options.sets and other.name not in sets:
                path = work / "members" / f"{plain_name(other.name)}-{seconds:g}s.json"
                sets[other.name] = Answers.of(once(path, partial(answers_of, other, work, seconds)))
                print(other.name, flush=True)
    print("\n".join([*by_set(sets), "", *table(sets)]))


if __name__ == "__main__":
    main()
