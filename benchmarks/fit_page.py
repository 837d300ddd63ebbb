"""The page of `fit` beside rivals, docs/benchmarks/fit.md, and its figure: made of the rows in the JSON beside it.

The rows come there by `fit_against.py --write`; a column is a rival, or `fit` with its seconds.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from harness import HERE, NONE, PAGES, days_of, filled, interval_text, markdown, over_sets, sets_of, write
from scipy import stats

from headstart.statistics import holm, ranks
from headstart.words import listed, many, signed

PAGE = PAGES / "fit.md"
PARTS = ("reporting", "choosing", "other")
"""Of fit_against.toml."""
SHUFFLED = ", labels shuffled"
CONTROL = tuple(name + SHUFFLED for name in ("SyntheticControl", "Strawberry", "splice junctions"))
"""Sets on which nothing can be learnt: two of numbers, with many classes and with few that are not equally frequent, and letters."""
OURS = "fit"
TIMES = (20, 60, 300)
COLUMNS = tuple(f"{OURS} {time} s" for time in TIMES)
ALL_TIMES = (10, *TIMES, 600)
EVERY = tuple(f"{OURS} {time} s" for time in ALL_TIMES)
"""Of the figure and of folded tables."""
MAIN = COLUMNS[1]
"""The column of `fit` that is compared with rivals."""
RIVALS = ("minirocket", "multirocket_hydra", "quant", "boosting", "inception")
MANTIS, NGRAMS = "mantis", "ngrams"
TITLES = {
    OURS: "fit",
    "minirocket": "MiniRocket",
    "multirocket_hydra": "MultiRocket-Hydra",
    "hydra": "Hydra",
    "quant": "QUANT",
    "boosting": "gradient boosting",
    "inception": "InceptionTime (1 network)",
    MANTIS: "Mantis (frozen)",
    NGRAMS: "TF-IDF",
}
BEST_PUBLISHED = "HIVE-COTE 2"
FEW_EPOCHS = 20
"""Epochs of the network below which its accuracy says little."""
FEWEST = 3
"""Sets over which an interval is told."""
NEAR, CALIBRATED = 1.05, 0.04
"""Of the goals: log-loss over that of the best model, and the mean calibration error, at most."""
Row = Mapping[str, Any]
Table = Mapping[str, Mapping[str, Row]]
"""Set -> column -> what was measured."""


def gather(rows: Sequence[Row]) -> None:
    """Put rows among those beside the page, in the place of such of the same set, method and time, and make the page."""
    path = PAGE.with_suffix(".json")
    before = json.loads(path.read_text("utf-8")) if path.exists() else []
    order = [*(name for part in PARTS for name in sets_of(part)), *CONTROL]
    every = {
        (order.index(row["set"]), [*TITLES].index(row["method"]), row.get("given", 0)): row for row in [*before, *rows]
    }
    path.write_text(json.dumps([every[key] for key in sorted(every)], indent=1) + "\n", "utf-8")
    publish(PAGE)


def publish(path: Path = PAGE) -> None:
    """Write the page and the figure of the rows beside it."""
    measured = json.loads(path.with_suffix(".json").read_text("utf-8"))
    tables = [table_of(measured, part) for part in PARTS]
    path.with_suffix(".svg").write_text(
        picture({name: row for table in tables for name, row in table.items()}), "utf-8"
    )
    write(path, page(measured))


def table_of(measured: Sequence[Row], part: str) -> Table:
    """What was measured on the sets of a part, in its order."""
    out: dict[str, dict[str, Row]] = {name: {} for name in sets_of(part)}
    for row in measured:
        if row["set"] in out and row["accuracy"] is not None:
            out[row["set"]][_column(row)] = row
    return {name: rows for name, rows in out.items() if rows}


def _column(row: Row) -> str:
    return f"{OURS} {row['given']:g} s" if row["method"] == OURS else str(row["method"])


def page(measured: Sequence[Row]) -> str:
    """The page: the answer, the goals, the sets for reporting, losses first, then the others below folds."""
    parts = {part: table_of(measured, part) for part in PARTS}
    methods = [name for name in (*RIVALS, MANTIS) if any(row["method"] == name for row in measured)]
    sides = parts["reporting"], parts["choosing"]
    gaps = [gap for name in sides[0] if (gap := gap_of(sides[0][name], methods)) is not None]
    fits = [row for row in measured if row["method"] == OURS]
    letters = {name: row for side in sides for name, row in side.items() if NGRAMS in row}
    return filled(
        "fit",
        sets=len(gaps),
        lost=sum(gap < 0 for gap in gaps),
        level=sum(gap == 0 for gap in gaps),
        won=sum(gap > 0 for gap in gaps),
        mean=_mean_gap(sides[0], methods),
        published=tuple(published_goal(side) for side in sides),
        never=tuple(chance_goal(side) for side in sides),
        half=tuple(half_goal(side) for side in sides),
        loss=tuple(loss_goal(side) for side in sides),
        calibration=tuple(calibration_goal(side) for side in sides),
        longer=tuple(longer_goal(side) for side in sides),
        whole=tuple(longer_goal({n: over_time(row) for n, row in side.items()}, EVERY) for side in sides),
        times="\n".join(markdown(["set", *EVERY], [line for part in parts.values() for line in time_lines(part)])),
        clock=_clock(fits),
        reporting=_lines(sides[0], methods),
        choosing=_lines(sides[1], methods),
        other=_lines(parts["other"], [*methods, NGRAMS]),
        dna=_lines(letters, [NGRAMS]),
        against=tuple("\n".join(markdown(AGAINST, against_each(side, methods))) for side in sides),
        summary=tuple(
            "\n".join(markdown(SUMMARY, summary(side, [column, *methods]))) for column in COLUMNS[:2] for side in sides
        ),
        served=markdown(SERVED, [line for part in parts.values() for line in served_lines(part)]),
        control=control_lines(measured),
        agree=tuple(_agreement(parts, column) for column in EVERY if column != COLUMNS[0]),
        learnt=tuple(_learnt(parts, column) for column in COLUMNS),
        lacking="; ".join(_lacking(parts, methods, measured)) or "nothing",
        days=_days(fits),
        rivals=_days([row for row in measured if row["method"] != OURS]),
        machine=listed(sorted({row["machine"] for row in measured})),
        made_by=listed(sorted({row["made_by"] for row in fits if "made_by" in row})),
        epochs=_epochs(measured),
        mantis=_mantis(methods),
        sources="; ".join(f"{name}: {rows['source']}" for name, rows in as_published().items()),
    )


def as_published() -> dict[str, dict[str, Any]]:
    """Method -> what its authors published: `source`, `other_splits` where it is of other splits, accuracy by set."""
    return tomllib.loads((HERE / "fit_published.toml").read_text("utf-8"))


def gap_of(row: Mapping[str, Row], methods: Sequence[str]) -> float | None:
    """Accuracy of `fit` at 60 s less that of the best rival, to four decimals."""
    rivals = [row[m]["accuracy"] for m in methods if m in row]
    return round(row[MAIN]["accuracy"] - max(rivals), 4) if MAIN in row and rivals else None


def _mean_gap(rows: Table, methods: Sequence[str]) -> str:
    """The gap over sets."""
    whole = [row for row in rows.values() if gap_of(row, methods) is not None]
    pairs = [_pair(max(row[m]["accuracy"] for m in methods if m in row), row[MAIN]["accuracy"]) for row in whole]
    return _text(pairs) if pairs else NONE


def _pair(first: float, second: float) -> tuple[np.ndarray, np.ndarray]:
    return np.array([first]), np.array([second])


def _text(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> str:
    return interval_text(over_sets(pairs))


def _lines(rows: Table, methods: Sequence[str]) -> list[str]:
    """A line per set, those where `fit` loses most to the best rival first; published figures in columns of their own."""
    columns = [*(c for c in COLUMNS if c == MAIN or any(c in row for row in rows.values())), *methods]
    beside = {name: shares for name, shares in as_published().items() if rows.keys() & shares.keys()}
    heads = [f"{name}, {shares.get('other_splits', 'published')}" for name, shares in beside.items()]
    lines = []
    for name, row in sorted(rows.items(), key=lambda pair: gap if (gap := gap_of(pair[1], methods)) is not None else 9):
        best, gap = max(each["accuracy"] for each in row.values()), gap_of(row, methods)
        cells = [name, NONE if gap is None else signed(gap)]
        for column in columns:
            text = f"{row[column]['accuracy']:.3f}" if column in row else NONE
            text = f"**{text}**" if column in row and row[column]["accuracy"] == best else text
            cells.append(
                f"{text} ({row[column]['seconds']:.0f} s)" if column.startswith("fit ") and column in row else text
            )
        lines.append([*cells, *(f"{shares[name]:.3f}" if name in shares else NONE for shares in beside.values())])
    return markdown(["set", "gap", *(TITLES.get(c, c) for c in columns), *heads], lines) if lines else []


def published_goal(rows: Table) -> str:
    """Whether mean accuracy at 60 s is at least what HIVE-COTE 2's authors published."""
    theirs = as_published()[BEST_PUBLISHED]
    pairs = [(theirs[name], row[MAIN]["accuracy"]) for name, row in rows.items() if name in theirs and MAIN in row]
    if not pairs:
        return NONE
    before, after = (mean(side) for side in zip(*pairs, strict=True))
    text = f"{after:.4f} against {before:.4f}, {_text([_pair(*pair) for pair in pairs])}, {len(pairs)} sets"
    return f"{_verdict(after >= before)}: {text}"


def _verdict(holds: bool) -> str:
    return "yes" if holds else "**no**"


def _right(row: Row) -> np.ndarray:
    """(n,) whether each test row was answered rightly."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(row["right"]), np.uint8), count=row["test"]).astype(float)


def chance_goal(rows: Table) -> str:
    """Whether no set is lower with 60 s or more than with 20 s by more than chance: an exact sign test of the test rows
    that one of both answers rightly, corrected over the sets of each time (Holm)."""
    first, tests = COLUMNS[0], []
    for later in EVERY[2:]:
        names = [name for name, row in rows.items() if {first, later} <= {*row}]
        changes = [_right(rows[name][later]) - _right(rows[name][first]) for name in names]
        counts = [(int((change < 0).sum()), int((change > 0).sum())) for change in changes]
        p = holm([float(stats.binomtest(a, a + b).pvalue) if a + b else 1.0 for a, b in counts])
        tests += [(p[i], f"{names[i]} at {later.removeprefix('fit ')}", *counts[i]) for i in range(len(names))]
    below = sorted((test for test in tests if test[2] > test[3]), key=lambda test: (test[0], test[3] - test[2]))
    lost = [test for test in below if test[0] < 0.05]
    words = [f"{name} ({a} right answers lost, {b} won, p {p:.2g})" for p, name, a, b in lost or below[:1]]
    fewer = f"{len(below)} of {len(tests)} lower" + (f", the clearest {words[0]}" if words else "")
    return f"{_verdict(not lost)}: {listed(words) if lost else fewer}" if tests else NONE


def half_goal(rows: Table) -> str:
    """How much of the gap between the best single model over sets and the best of each set is taken by what is served."""
    fits = [row[MAIN] for row in rows.values() if MAIN in row]
    if not fits:
        return NONE
    names = set.intersection(*(set(fit["models"]) for fit in fits))
    scores = {name: mean(fit["models"][name]["accuracy"] for fit in fits) for name in names}
    family = max(scores, key=lambda name: scores[name])
    gap = mean(max(model["accuracy"] for model in fit["models"].values()) for fit in fits) - scores[family]
    taken = mean(fit["accuracy"] for fit in fits) - scores[family]
    share = f" ({taken / gap:.0%})" if gap and taken > 0 else ""
    return f"{_verdict(2 * taken >= gap)}: {taken:+.4f} of {gap:+.4f} over `{family}`{share}".replace(
        "-", "\N{MINUS SIGN}"
    )


def loss_goal(rows: Table) -> str:
    """On how many sets the log-loss of what is served is near that of the best of its models, and where not."""
    fits = {name: row[MAIN] for name, row in rows.items() if MAIN in row}
    over = {n: fit["log_loss"] / min(model["log_loss"] for model in fit["models"].values()) for n, fit in fits.items()}
    far = [f"{name} {over[name] - 1:+.0%}" for name in sorted(over, key=lambda name: -over[name]) if over[name] > NEAR]
    text = f"{_verdict(not far)}: on {len(over) - len(far)} of {len(over)}"
    return (f"{text}; not {listed(far)}" if far else text) if over else NONE


def calibration_goal(rows: Table) -> str:
    """The mean calibration error; where it is stored, beside what it would be if the probabilities were right."""
    fits = [row[MAIN] for row in rows.values() if MAIN in row]
    errors = [fit["calibration_error"] for fit in fits]
    text = f"{_verdict(mean(errors) <= CALIBRATED)}: {mean(errors):.3f}" if errors else NONE
    both = [(fit["calibration_error"], fit["calibration_by_chance"]) for fit in fits if "calibration_by_chance" in fit]
    if both:
        own, chance = (mean(side) for side in zip(*both, strict=True))
        text += f"; on {len(both)} sets {own:.3f}, by chance alone {chance:.3f}: {signed(own - chance)} above it"
    return text


def over_time(row: Mapping[str, Row]) -> dict[str, Row]:
    """What was measured of `fit`, the shortest time first."""
    return {column: row[column] for column in EVERY if column in row}


def time_lines(rows: Table) -> Iterator[list[str]]:
    """Accuracy at each time, and the processor seconds of it."""
    for name, row in rows.items():
        texts = {c: f"{fit['accuracy']:.3f} ({fit['seconds']:.0f} s)" for c, fit in over_time(row).items()}
        yield [name, *(texts.get(column, NONE) for column in EVERY)]


def _clock(fits: Sequence[Row]) -> str:
    """At which times whose fits had seconds of the processor; of sets with their own labels."""
    fits = [row for row in fits if row["set"] not in CONTROL]
    own = [[row["set"] for row in fits if row["given"] == t and row.get("clock") == "processor"] for t in ALL_TIMES]
    counts = [sum(row["given"] == time for row in fits) for time in ALL_TIMES]
    sides = zip(ALL_TIMES, own, counts, strict=True)
    return listed([f"{t} s ({'all' if len(x) == n else listed(x)})" for t, x, n in sides if x]) or "none"


def longer_goal(rows: Table, columns: Sequence[str] = COLUMNS) -> str:
    """Accuracy and log-loss at these times, over the sets that have all."""
    whole = [[row[column] for column in columns] for row in rows.values() if {*columns} <= {*row}]
    if len(whole) < FEWEST:
        return f"too few sets have all of these times ({len(whole)})"
    means = [
        ", ".join(f"{mean(row[i][key] for row in whole):.3f}" for i in range(len(columns)))
        for key in ("accuracy", "log_loss")
    ]
    gain = over_sets([(_right(row[0]), _right(row[-1])) for row in whole])
    less = over_sets([_pair(row[0]["log_loss"], row[-1]["log_loss"]) for row in whole])
    helps, harms = gain[1] > 0 or less[2] < 0, gain[2] < 0 or less[1] > 0
    texts = [f"{text}, {interval_text(change)}" for text, change in zip(means, (gain, less), strict=True)]
    verdict = "undecided" if helps == harms else _verdict(helps)
    return f"{verdict}: accuracy {texts[0]}; log-loss {texts[1]}; {len(whole)} sets"


AGAINST = ("rival", "sets", "wins / ties / losses", "difference", "p")
SUMMARY = ("method", "mean rank", "mean accuracy", "median processor seconds")
SHUFFLED_HEADS = (
    *("set", "time", "serves", "accuracy", "commonest", "log-loss", "commonest"),
    *("calibration", "its page says"),
)
SERVED = (
    "set",
    *(f"serves, {t} s" for t in ALL_TIMES),
    *("accuracy", "its best", "log-loss", "its best", "calibration", "by chance"),
)


def against_each(rows: Table, methods: Sequence[str]) -> list[list[str]]:
    """A line for each rival, run here or published for the official test rows: how often `fit` is more accurate, by how much."""
    official = {f"{name}, published": shares for name, shares in as_published().items() if "other_splits" not in shares}
    lines = []
    for rival in (*methods, *official):
        theirs = official.get(rival) or {name: row[rival]["accuracy"] for name, row in rows.items() if rival in row}
        pairs = [(theirs[name], row[MAIN]["accuracy"]) for name, row in rows.items() if name in theirs and MAIN in row]
        if not pairs:
            continue
        gains = np.array([after - before for before, after in pairs])
        even = np.where(np.abs(gains) < 5e-5, 0.0, gains)  # what is published has four decimals
        chance = float(stats.wilcoxon(even).pvalue) if even.any() else 1.0
        counts = " / ".join(str(int(side.sum())) for side in (even > 0, even == 0, even < 0))
        text = _text([_pair(*pair) for pair in pairs])
        lines.append(
            [TITLES.get(rival, rival), str(len(pairs)), counts, text, f"{chance:.2f}" if chance >= 0.005 else "< 0.01"]
        )
    return lines


def summary(rows: Table, columns: Sequence[str]) -> list[list[str]]:
    """Lines of method, mean rank, mean accuracy and median seconds over the sets that have all of these columns."""
    whole = [[row[column] for column in columns] for row in rows.values() if all(column in row for column in columns)]
    order = [ranks([round(each["accuracy"], 9) for each in row]) for row in whole]
    lines = []
    for i, column in enumerate(columns if whole else ()):
        accuracy, seconds = mean(row[i]["accuracy"] for row in whole), median(row[i]["seconds"] for row in whole)
        lines.append(
            [TITLES.get(column, column), f"{mean(row[i] for row in order):.2f}", f"{accuracy:.4f}", f"{seconds:.1f}"]
        )
    return sorted(lines, key=lambda line: float(line[1]))


def served_lines(rows: Table) -> Iterator[list[str]]:
    """What is served at each time, and at 60 s its scores beside those of the best of its own models by each."""
    for name, row in rows.items():
        if MAIN not in row:
            continue
        fit, models = row[MAIN], row[MAIN]["models"].values()
        serves = [row[column]["serves"] if column in row else NONE for column in EVERY]
        scores = [
            fit["accuracy"],
            max(m["accuracy"] for m in models),
            fit["log_loss"],
            min(m["log_loss"] for m in models),
        ]
        chance = f"{fit['calibration_by_chance']:.3f}" if "calibration_by_chance" in fit else NONE
        yield [name, *serves, *(f"{score:.3f}" for score in [*scores, fit["calibration_error"]]), chance]


def control_lines(measured: Sequence[Row]) -> list[str]:
    """A line for each set with shuffled labels: accuracy and log-loss of what is served, and of the commonest class."""
    lines = []
    for row in (row for row in measured if row["set"] in CONTROL):
        scores = [each[key] for key in ("accuracy", "log_loss") for each in (row, row["models"]["majority"])]
        cells = [f"{row['given']:g} s", row["serves"], *(f"{score:.3f}" for score in scores)]
        lines.append(
            [
                row["set"].removesuffix(SHUFFLED),
                *cells,
                f"{row['calibration_error']:.3f}",
                row["says"].partition(". ")[0],
            ]
        )
    return markdown(SHUFFLED_HEADS, lines, rule=[*["---"] * 3, *["---:"] * 5, "---"]) if lines else []


def _agreement(parts: Mapping[str, Table], later: str) -> str:
    """On how many sets the same model is served with the least time and with more, and where not."""
    sets = [pair for rows in parts.values() for pair in rows.items()]
    both = {
        name: [row[c]["serves"] for c in (COLUMNS[0], later)] for name, row in sets if {COLUMNS[0], later} <= {*row}
    }
    other = [f"{name} ({first}, then {last})" for name, (first, last) in both.items() if first != last]
    return f"on {len(both) - len(other)} of {len(both)} sets" + (f" (not {listed(other)})" if other else "")


def _learnt(parts: Mapping[str, Table], column: str) -> str:
    """Sets on which models without a network learnt from a part of the rows, with how many."""
    fits = [(name, row[column]) for rows in parts.values() for name, row in rows.items() if column in row]
    return listed([f"{name} ({fit['learnt']:,})" for name, fit in fits if fit.get("learnt")]) or "none"


def _days(rows: Sequence[Row]) -> str:
    return days_of([row["date"] for row in rows]) if rows else NONE


def _lacking(parts: Mapping[str, Table], methods: Sequence[str], measured: Sequence[Row]) -> list[str]:
    """Which methods have no accuracy on which sets, and why."""
    errors = {(_column(row), row["set"]): row["error"] for row in measured if row.get("error")}
    return [
        f"{TITLES.get(column, column)} on {name} ({errors.get((column, name), 'not run')})"
        for rows in parts.values()
        for name, column in product(rows, [MAIN, *methods])
        if column not in rows[name]
    ]


def _epochs(measured: Sequence[Row]) -> str:
    """For how many epochs the network was trained, and where for few."""
    epochs = {row["set"]: row["epochs"] for row in measured if row["method"] == "inception" and "epochs" in row}
    few = [name for name, number in epochs.items() if number < FEW_EPOCHS]
    if not epochs:
        return ""
    return f", which is {min(epochs.values()):,} to {max(epochs.values()):,} epochs" + (
        f" (fewer than {FEW_EPOCHS} on {listed(few)}, where its accuracy says little)" if few else ""
    )


def _mantis(methods: Sequence[str]) -> str:
    if MANTIS not in methods:
        return "Mantis is absent because its weights were not available."
    return (
        "Mantis is read by its authors' package (benchmarks/fit_mantis.txt), not by ours: logistic regression on frozen features "
        "of its third layer, which its authors chose on UCR, whose sets are most of these."
    )


WIDTH, HEIGHT, LEFT, RIGHT, EDGE = 560, 330, 76, 155, 20
"""Pixels of the figure, and of what lies around its lines."""
FAR = 0.005
"""Changes of accuracy at the longest time whose set is named in the figure."""


def picture(rows: Table) -> str:
    """The figure as SVG, in colours that are read on a light and on a dark page: how accuracy changes with time, a thin line for
    each set through the times that it has, and their mean, each step over the sets that have both times. Heights are square
    roots."""
    sets = {name: over_time(row) for name, row in rows.items()}
    first = COLUMNS[0]
    lines = {
        name: {
            t: fits[c]["accuracy"] - fits[first]["accuracy"] for t, c in zip(ALL_TIMES, EVERY, strict=True) if c in fits
        }
        for name, fits in sets.items()
        if first in fits and len(fits) > 1
    }
    counts = {time: sum(time in line for line in lines.values()) for time in ALL_TIMES}
    whole = {ALL_TIMES[0]: 0.0}
    for before, after in pairwise(ALL_TIMES):
        if steps := [line[after] - line[before] for line in lines.values() if {before, after} <= {*line}]:
            whole[after] = whole.get(before, 0.0) + mean(steps)
    if lines:
        lines["mean"] = {time: value - whole.get(TIMES[0], 0.0) for time, value in whole.items() if counts[time]}
    reach = max((abs(value) for line in lines.values() for value in line.values()), default=0.01)
    ticks = [sign * step for step in (0.01, 0.05, 0.1, 0.2, 0.3, 0.5) if step <= 1.1 * reach for sign in (1, -1)]
    places = dict(zip(ALL_TIMES, np.interp(np.log(ALL_TIMES), np.log([10, 600]), [LEFT, WIDTH - RIGHT]), strict=True))

    def height(value: float) -> float:
        most = 1.05 * max(reach, 0.01) ** 0.5
        return float(np.interp(np.sign(value) * abs(value) ** 0.5, [-most, most], [HEIGHT - 3 * EDGE, EDGE]))

    parts = []
    for time, x in places.items():
        for below, text in ((36, f"{time} s"), (22, many(counts[time], "set"))):
            parts.append(f'<text x="{x:.0f}" y="{HEIGHT - below}" text-anchor="middle">{text}</text>')
    for value in (0.0, *ticks):
        parts.append(f'<path class="rule" d="M{LEFT} {height(value):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 22}" y="{height(value) + 4:.1f}" text-anchor="end">{value:+.2f}</text>')
    free = float(HEIGHT)
    for name, line in sorted(lines.items(), key=lambda pair: [*pair[1].values()][-1]):
        end, last = [*line][-1], [*line.values()][-1]
        path = "L".join(f"{places[t]:.1f} {height(y):.1f}" for t, y in line.items())
        parts.append(f'<path class="{"mean" if name == "mean" else "set"}" d="M{path}"><title>{name}</title></path>')
        if name == "mean" or (abs(last) >= FAR and end >= TIMES[-1]):
            free = min(height(last) + 4, free - 11)
            parts.append(f'<text x="{WIDTH - RIGHT + 6}" y="{free:.1f}">{name} {signed(last)}</text>')
    style = (
        "text{font:11px sans-serif;fill:#888}path{fill:none}.rule{stroke:#888;stroke-opacity:.25}"
        ".set{stroke:#888;stroke-opacity:.7}.mean{stroke:#2a86c8;stroke-width:3}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" viewBox="0 0 {WIDTH} {HEIGHT}"><style>{style}</style>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )
