"""`headstart fit` on real sets: from scratch, self-pretrained and without a network; how they rank, and when it helps.

    python benchmarks/own_results.py --data DIR [--work DIR] [--time SECONDS] [--workers N] [SET ...]

DIR holds ucr/, uea/, biology/, fsdd/ and imdb/ (docs/results/own.md names their sources). Each set is fitted with the
defaults and its official test split, where it has one; self-pretraining is taken even where `fit` would leave it out, so
that each set has the comparison. A set that is finished in the work folder is not done again, so that the sets may be
fitted on several days. When all are there, the numbers go to docs/results/own.json, and `make results` makes the page,
docs/results/own.md, of them.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness import PAGES, RESULTS, Set, all_sets, days_of, filled, markdown, once, parser_of, plain_name
from scipy.stats import rankdata, studentized_range
from scipy.stats import t as t_distribution

from headstart.fit.perform import fit_sequences
from headstart.fitted.outcome import FitCandidate, Outcome
from headstart.report.figures.style import MARKERS, canvas, legend_of, png
from headstart.request.settings import FitSettings
from headstart.runner.machine import machine, version
from headstart.statistics import LEVEL, Difference, corrected
from headstart.words import duration, listed, score, signed

PAGE = RESULTS / "own.md"
NUMBERS = PAGE.with_suffix(".json")
MODELS = ("scratch", "self_pretrained", "kernels", "summary", "majority")
NETWORKS = ("scratch", "self_pretrained")
KINDS = dict.fromkeys((*NETWORKS, "inception"), "network")
"""Name here -> in fit.md, which has the best network alone."""
FURTHEST = 5
"""Sets of the largest losses, which the page names."""
RANKS = ("model", "mean rank", "mean test accuracy")
SELF, BEST = "self-pretrained less from scratch, 95 % over runs", "best network less kernels (n-grams)"
"""Marks of the figure."""


def measure(dataset: Set, work: Path, seconds: float, workers: int) -> dict[str, Any]:
    """A fit of one set, as JSON material."""
    name = plain_name(dataset.name)
    train, test, unlabelled = dataset.files(work / "files" / name)
    settings = FitSettings(layout=dataset.layout, test=test, unlabelled=unlabelled, time=seconds, pretrain=True)
    begun = time.monotonic()
    outcome = fit_sequences(train, settings, out=work / "fits" / name, store=work / "runs" / name, workers=workers)
    return {
        "name": dataset.name,
        "family": dataset.family,
        "time": seconds,
        "seconds": round(time.monotonic() - begun, 1),
        "sizes": dict(outcome.sizes),
        "classes": len(outcome.labels),
        "length": outcome.card.facts["lengths"]["median"],
        "serves": outcome.serves,
        "served": outcome.test.scores["accuracy"],
        "plan": list(outcome.plan),
        "models": {c.name: _row(c) for c in outcome.candidates},
        "gain": _gain(outcome),
        "machine": machine(),
        "versions": {package: version(package) for package in ("torch", "headstart")},
        "date": date.today().isoformat(),
    }


def _row(candidate: FitCandidate) -> dict[str, Any]:
    row = candidate.row
    return {
        "n": row.n,
        "chosen": dict(row.chosen),
        "seconds": round(row.budget.get("seconds", 0.0), 3),
        **{
            split: None if score is None else {"mean": score.mean, "sem": score.sem}
            for split, score in (("val", row.val), ("test", row.test))
        },
    }


def _gain(outcome: Outcome) -> dict[str, Any] | None:
    gap = next((c.row.difference for c in outcome.candidates if c.name == "self_pretrained"), None)
    return None if gap is None else {"mean": gap.mean, "low": gap.low, "high": gap.high, "n": gap.n}


def test_of(result: Mapping[str, Any], model: str) -> float | None:
    """Mean test accuracy of one model of a set, where it was trained."""
    scored = result["models"].get(model, {}).get("test")
    return None if not scored else float(scored["mean"])


def rivals_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Set -> the best test accuracy of another project's classifier there (rows of fit_against.py, seed 0)."""
    best: dict[str, float] = {}
    for row in rows:
        if row["method"] != "fit" and row["seed"] == 0 and row.get("accuracy") is not None:
            best[row["set"]] = max(best.get(row["set"], 0.0), row["accuracy"])
    return best


def same_rows(results: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows of rivals that saw the test rows of the fit: of sets with a test file of their own, and all of its rows."""
    own = {result["name"]: result["sizes"]["test"] for result in results if "from its own file" in result["plan"][0]}
    return [row for row in rows if own.get(row["set"]) == row["test"]]


def gain_of(result: Mapping[str, Any]) -> Difference | None:
    """The gain of self-pretraining with its interval over paired runs."""
    gain = result["gain"]
    if gain is None:
        return None
    n, half = gain["n"], None if gain["low"] is None else (gain["high"] - gain["low"]) / 2
    sem = None if half is None else half / float(t_distribution.ppf(0.975, n - 1))
    return Difference(gain["mean"], sem, gain["low"], gain["high"], n)


def late(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Sets whose time left less than half of the steps, with the share."""
    out = []
    for result in results:
        for line in result["plan"]:
            share = re.search(r"leaves (\d+) ?% of the steps", line)
            if share and int(share[1]) < 50:
                out.append(f"{result['name']} ({share[1]} %)")
    return out


def gap_of(result: Mapping[str, Any], rivals: Mapping[str, float]) -> float:
    """What is served less the best of all others on test: our own models and the rivals. Below 0: a loss."""
    others = [
        test for model in result["models"] if model != result["serves"] and (test := test_of(result, model)) is not None
    ]
    return float(result["served"]) - max([*others, *([rivals[result["name"]]] if result["name"] in rivals else [])])


def ranks(results: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Mean rank of each model on test over the sets that have all of them; equal scores share a rank."""
    whole = [rankdata([-test for test in row]) for row in whole_rows(results)]
    return {m: float(sum(row[i] for row in whole) / len(whole)) for i, m in enumerate(MODELS)} if whole else {}


def same_served(results: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> str:
    """Where the fits of fit.md with the same time serve the same kind of model, and where not, in words."""
    later = {(row["set"], row["given"]): row["serves"] for row in rows if row["method"] == "fit"}
    pairs = [(r["name"], r["serves"], later.get((r["name"], r["time"]))) for r in results]
    both = [(name, here, there) for name, here, there in pairs if there]
    other = [
        f"{name} ({here} here, {there} there)"
        for name, here, there in both
        if KINDS.get(here, here) != KINDS.get(there, there)
    ]
    return f"on {len(both) - len(other)} of {len(both)} sets" + (f", not on {listed(other)}" if other else "")


def best_network(result: Mapping[str, Any]) -> float | None:
    """Test accuracy of the best network of a set; None where none was trained."""
    return max((x for m in (*NETWORKS, "inception") if (x := test_of(result, m)) is not None), default=None)


def plot(results: Sequence[Mapping[str, Any]], path: Path) -> None:
    """What each set gains: by self-pretraining, with its interval over runs, and by the best network over kernels."""
    gains = {result["name"]: gap for result in results if (gap := gain_of(result)) is not None}
    order = sorted(gains, key=lambda name: gains[name].mean)
    pairs = {result["name"]: (best_network(result), test_of(result, "kernels")) for result in results}
    with canvas(False, 5.6, 0.9 + 0.17 * len(order)) as (figure, look):
        axes = figure.add_subplot()
        axes.axvline(0, color=look.quiet, linewidth=0.8)
        for y, name in enumerate(order):
            gap, (network, kernels) = gains[name], pairs[name]
            if gap.low is not None and gap.high is not None:
                axes.plot([gap.low, gap.high], [y, y], color=look.colour(0), linewidth=1.2)
            axes.plot([gap.mean], [y], MARKERS[0], color=look.colour(0), markersize=4, label=SELF if not y else None)
            if network is not None and kernels is not None:
                more = network - kernels
                axes.plot([more], [y], MARKERS[1], color=look.colour(1), markersize=4, label=BEST if not y else None)
        axes.set_yticks(range(len(order)), order, fontsize=7)
        axes.set(xlabel="gain in test accuracy", xlim=(-0.6, 0.25), ylim=(-0.7, len(order) - 0.3))
        legend_of(figure, axes)
    path.write_bytes(png(figure, 150))


def whole_rows(results: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """Test accuracies of each set that has all of MODELS, in their order."""
    rows = [[test_of(result, model) for model in MODELS] for result in results]
    return [[test for test in row if test is not None] for row in rows if None not in row]


def critical(models: int, sets: int) -> float:
    """Mean ranks that differ by less are not told apart (Nemenyi's test at 5 %, Demsar 2006); endless without sets."""
    if not sets:
        return math.inf
    return float(
        studentized_range.ppf(LEVEL, models, math.inf) / math.sqrt(2) * math.sqrt(models * (models + 1) / (6 * sets))
    )


def page_of(results: Sequence[Mapping[str, Any]]) -> str:
    """The page, of the results of all sets."""
    rows = json.loads((PAGES / "fit.json").read_text("utf-8"))
    rivals = rivals_of(same_rows(results, rows))
    gaps = {result["name"]: round(gap_of(result, rivals), 3) for result in results}
    lost, level = sum(gap < 0 for gap in gaps.values()), sum(gap == 0 for gap in gaps.values())
    order = sorted(ranks(results).items(), key=lambda pair: pair[1])
    mean = dict(zip(MODELS, np.mean(whole_rows(results), axis=0), strict=True)) if order else {}
    gains = {result["name"]: gap for result in results if (gap := gain_of(result)) is not None}
    clear = {name: gap.mean for name, gap in gains.items() if gap.clear}
    above = sum(gain > 0 for gain in clear.values())
    standing = sum(p < 1 - LEVEL for p in corrected(gains).values())
    middle = statistics.median(gap.mean for gap in gains.values()) if gains else math.nan
    ahead = sum((best_network(result) or 0.0) > (test_of(result, "kernels") or 0.0) for result in results)
    times = Counter(result["time"] for result in results)
    usual = times.most_common(1)[0][0]
    longer = [(t, sorted({r["family"] for r in results if r["time"] == t})) for t in sorted(times) if t != usual]
    allowed = [
        f"{duration(usual)} a set",
        *(f"{duration(t)} on the {times[t]} of {listed(names)}" for t, names in longer),
    ]
    where = listed(list(dict.fromkeys(result["machine"] for result in results)))
    versions = {f"{name} {value}" for result in results for name, value in result["versions"].items()}
    return filled(
        "own",
        sets=len(results),
        allowed=listed(allowed),
        lost=lost,
        level=level,
        won=len(results) - lost - level,
        ahead=ahead,
        above=above,
        below=len(clear) - above,
        standing=standing,
        compared=len(gains),
        undecided=len(gains) - len(clear),
        middle=signed(middle),
        apart=f"{critical(len(MODELS), len(whole_rows(results))):.2f}",
        ranked=len(whole_rows(results)),
        ranks=markdown(RANKS, [[name, f"{rank:.2f}", score(mean[name])] for name, rank in order]) if order else "",
        furthest=listed([f"{name} {signed(gaps[name])}" for name in sorted(gaps, key=lambda n: gaps[n])[:FURTHEST]]),
        most=listed([f"{name} {signed(clear[name])}" for name in sorted(clear, key=lambda n: clear[n])]),
        same=same_served(results, rows),
        late=f"The time left less than half of the usual steps on {listed(few)}." if (few := late(results)) else "",
        usual=usual,
        days=days_of([result["date"] for result in results]),
        where=where,
        versions=", ".join(sorted(versions)),
        whole=duration(sum(result["seconds"] for result in results)),
    )


def publish(folder: Path) -> None:
    """Write the page and its figure of the numbers in a folder."""
    results = json.loads((folder / NUMBERS.name).read_text("utf-8"))
    (folder / "figures").mkdir(exist_ok=True)
    plot(results, folder / "figures" / "own.png")
    (folder / PAGE.name).write_text(page_of(results), "utf-8")


def main() -> None:
    words = parser_of(__doc__)
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--work", type=Path, default=Path("own-results"))
    words.add_argument("--time", type=float, default=300.0)
    words.add_argument("--workers", type=int, default=2)
    words.add_argument("sets", nargs="*")
    options = words.parse_args()
    every = all_sets(options.data, options.work)
    results = []
    for dataset in every:
        if options.sets and dataset.name not in options.sets:
            continue
        path, seconds = options.work / "fits" / f"{plain_name(dataset.name)}.json", dataset.times * options.time
        results.append(once(path, partial(measure, dataset, options.work, seconds, options.workers)))
        text = ", ".join(f"{m} {score(test)}" for m in MODELS if (test := test_of(results[-1], m)) is not None)
        print(f"{dataset.name}: {text} ({duration(results[-1]['seconds'])})", flush=True)
    if len(results) == len(every):  # the same command without names makes the numbers of what is finished
        NUMBERS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
        publish(NUMBERS.parent)
        print(PAGE)


if __name__ == "__main__":
    main()
