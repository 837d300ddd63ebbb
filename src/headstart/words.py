"""How numbers, settings and sentences of several columns are written: the same in tables, caveats, plots and pages."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headstart.errors import BadInput
from headstart.statistics import FEWEST_PAIRS, LEVEL, Difference, Estimate
from headstart.statistics import ROUNDING as ROUNDING
from headstart.text import listed as listed
from headstart.text import many as many
from headstart.text import percent as percent
from headstart.text import plain as plain
from headstart.ways import argument

NONE = "\N{EM DASH}"
"""What stands where there is no number."""

MINUS = "\N{MINUS SIGN}"


Texts = Iterator[tuple[str, str]]
"""(column, text); an empty column stands for all."""

LISTED_NUMBERS = 4
"""Numbers of several columns that are listed; of more, the span is given."""
_ONE = rf"[{MINUS}+]?\d+(?:[.,]\d+)*(?:e[+-]\d+)?"
NUMBER_TEXT = re.compile(rf"(?<![\w.=-]){_ONE}(?: (?:to|±) {_ONE})?(?![\w=-])")
"""A number, an interval, or a mean with its error."""

KERNEL_WORDS = {
    True: {
        "kernels": "random and competing convolution kernels with ridge",
        "summary": "a linear model of summary features",
        "majority": "shares of the classes, or the mean",
    },
    False: {
        "kernels": "a linear model of n-grams",
        "summary": "a linear model of single symbols and pairs",
        "majority": "shares of the classes, or the mean",
    },
}
"""Models without gradients in words, for numbers or for symbols."""


def score(value: float | None) -> str:
    """A score with three decimals; fewer of a large one, two significant digits of a tiny one.

    What is left of a sum that is 0 but for rounding counts as 0.
    """
    if value is None or value != value:
        return NONE
    size = abs(value)
    if size < ROUNDING:
        return "0.000"
    text = f"{value:.3f}" if 0.0005 <= size < 100 or value == 0 else (f"{value:.2g}" if size < 1 else f"{value:.5g}")
    return text.replace("-", MINUS)


def signed(value: float | None) -> str:
    """A difference with its sign."""
    if value is None:
        return NONE
    text = score(value)
    return text if value < 0 or float(f"{value:.3f}") == 0 else f"+{text}"


def plus_minus(value: Estimate | None) -> str:
    """`0.440 ± 0.012`: a mean and its standard error, or the mean alone where n is 1."""
    if value is None:
        return NONE
    if value.sem is None:
        return score(value.mean)
    near = 0.0005 <= abs(value.mean) < 100
    return f"{score(value.mean)} ± {f'{value.sem:.3f}' if near else score(value.sem)}"


ARM_WORDS = {
    "self_pretrained": "self-pretrained",
    "query_key": "queries and keys",
    "value_output": "values and outputs",
    "feed_forward": "feed-forward",
    "random_unscaled": "random, N(0, 0.02)",
}
"""Words of arms' names as a paper prints them."""


def printed_arm(name: str) -> str:
    """An arm as a paper prints it: `+ feed-forward` of `and_feed_forward`."""
    for word, text in ARM_WORDS.items():
        name = name.replace(word, text)
    return ("+ " + name.removeprefix("and_") if name.startswith("and_") else name).replace("_", " ")


def interval(gap: Difference | None) -> str:
    """`0.070 to 0.200`; a dash where there is none.

    Of a difference that is the same at all seeds, which has no interval, `0.050 on 6 of 6`.
    """
    if gap is None or gap.interval is None:
        return NONE
    if gap.constant:
        return f"{score(gap.mean)}{_on_all(gap)}"
    return " to ".join(_ends(gap))


def difference(gap: Difference | None) -> str:
    """`+0.140 [0.070, 0.200]`: a difference and its interval; `+0.050 on 6 of 6` of one without a spread."""
    if gap is None:
        return NONE
    interval = f" [{', '.join(_ends(gap))}]" if gap.interval else ""
    return f"{signed(gap.mean)}{_on_all(gap) if gap.constant else interval}"


def of_seeds(gap: Difference) -> str:
    """The difference with its interval over seeds, whatever the one over test examples is."""
    low, high = gap.over_seeds or (None, None)
    return difference(replace(gap, low=low, high=high, both=None, both_error=0.0, alone=None))


def over_examples(gap: Difference) -> str:
    """`[0.004, 0.146]`: the interval over seeds and test examples; a dash without answers to these."""
    if gap.both is None:
        return NONE
    low, high = gap.both
    return f"[{', '.join(_ends(replace(gap, low=low, high=high)))}]"


def whole_difference(gap: Difference) -> str:
    """`+1,400 [200, 2,600]`: the same of counts."""
    text = f" [{', '.join(_ends(gap, whole=True))}]" if gap.interval else ""
    return f"{gap.mean:+,.0f}{_on_all(gap) if gap.constant else text}".replace("-", MINUS)


def _ends(gap: Difference, whole: bool = False) -> list[str]:
    """The ends of its interval, with as many more decimals as they need to differ."""
    ends = gap.interval or ()
    texts = [f"{value:,.0f}" if whole else score(value) for value in ends]
    for decimals in range(1 if whole else 4, 17):
        if len(set(texts)) == len(texts):
            break
        texts = [f"{value:,.{decimals}f}" for value in ends]
    return [text.replace("-", MINUS) for text in texts]


def _on_all(gap: Difference) -> str:
    """` on 6 of 6`: at how many seeds, or runs of each side, a difference is the same."""
    counts = [gap.n] if gap.sides is None else [side.n for side in gap.sides]
    return f" on {' and '.join(f'{count} of {count}' for count in counts)}"


def seeds(gap: Difference, noun: str = "seed") -> str:
    """`5 paired seeds`, or `5 and 6 unpaired runs` where the two arms share no two seeds."""
    if gap.sides is None:
        return many(gap.n, f"paired {noun}")
    return f"{gap.sides[0].n} and {gap.sides[1].n} unpaired runs"


def pairing(gaps: Iterable[Difference | None], noun: str = "seed") -> str:
    """How differences were taken, by the rule of `statistics.difference`, to stand after `differences are`."""
    ways = {gap.sides is None for gap in gaps if gap is not None}
    if len(ways) > 1:
        return f"paired by {noun} where two arms share at least {FEWEST_PAIRS} {noun}s, else unpaired (Welch)"
    return (
        f"paired by {noun}"
        if True in ways or not ways
        else f"unpaired (Welch), as no arms share {FEWEST_PAIRS} {noun}s"
    )


def interval_kind(gaps: Iterable[Difference | None], noun: str = "seed") -> str:
    """What intervals of differences are: `95 % t-interval over seeds alone` without the answers to test examples."""
    counted = {gap.both is not None for gap in gaps if gap is not None and gap.interval is not None}
    if True not in counted:
        return f"{percent(LEVEL)} t-interval over {noun}s alone"
    wider = f"the wider of a t-interval over {noun}s and a bootstrap of {noun}s and test examples"
    return f"{percent(LEVEL)} interval ({f'over {noun}s alone, or ' if False in counted else ''}{wider})"


def runs_are(folds: int) -> str:
    """What the runs of a row differ in: `seed`, or `fold` where each validates on another of several."""
    return "fold" if folds > 1 else "seed"


def over_folds(means: Mapping[str, Estimate | None], again: bool) -> str:
    """Intervals of scores of validation over folds, by arm, of shares that 1 ends; empty where there are none. again:
    some are of folds that were dealt several times."""
    ends = {arm: value.interval for arm, value in means.items() if value is not None and value.interval is not None}
    each = [f"{arm} [{score(low)}, {score(min(high, 1.0))}]" for arm, (low, high) in ends.items()]
    once = " (each fold by its mean over all rounds)" if again else ""
    return f"Over folds{once}, val with a 95 % t-interval, approximate as folds share train rows: {', '.join(each)}."


def covered(folds: int, gaps: Iterable[Difference | None] = ()) -> str:
    """What standard errors and intervals cover, and what they do not. gaps: the differences beside them."""
    both = any(gap is not None and gap.both is not None for gap in gaps)
    if folds > 1:
        return (
            "Standard errors and intervals are over folds and cover which rows train and which validate; folds share "
            "most of their train rows, so that intervals are approximate, rather too narrow. Not covered are the draw "
            "of the test split and what another kind of processor changes."
        )
    if both:
        return (
            "Standard errors cover training only (seeds of initial weights, order and masks). Intervals of differences "
            "cover the draw of the test examples too, where each answer is stored. Neither covers the draw of the "
            "train data and of the split, nor what another kind of processor changes."
        )
    return (
        "Standard errors and intervals cover training only (seeds of initial weights, order and masks), not the draw "
        "of the data or of the split, nor what another kind of processor changes."
    )


def count(value: float | None) -> str:
    """`950`, `4.2k`, `1.3M`, `2.0G`, `5.1T`: a count in three digits at most."""
    if value is None:
        return NONE
    for size, letter in ((1e21, "Z"), (1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            short = value / size
            return f"{short:.0f}{letter}" if short >= 100 else f"{short:.1f}{letter}"
    return f"{value:.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:.3g}"


def measure(value: float | None, unit: str) -> str:
    """`4.4 TFLOP`, `412 MB`: a count with its unit."""
    text = count(value)
    head = text.rstrip("kMGTPEZ")
    return text if value is None else f"{head} {text[len(head) :]}{unit}"


def duration(seconds: float | None) -> str:
    """`3.2 s`, `41 s`, `2 min 5 s`, `3 h 12 min`, `24 days`, `1,450 years`."""
    if seconds is None:
        return NONE
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s" if whole < 600 else f"{round(whole / 60)} min"
    if (days := seconds / 86400) < 2:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    number, unit = (days, "days") if days < 730 else (days / 365.25, "years")
    return f"{number:,.0f} {unit}" if number >= 9.95 else f"{number:.1f} {unit}"


_UNIT_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600}


def read_time(text: str) -> float:
    """`90`, `90s`, `5m`, `1.5h`, `1h30m` in seconds. Raises: BadInput for anything else."""
    amounts = re.findall(r"(\d+(?:\.\d+)?)\s*(min|[smh])", text)
    if re.fullmatch(r"\d+(\.\d+)?", text):
        amounts = [(text, "s")]
    elif not amounts or "".join(f"{number}{unit}" for number, unit in amounts) != re.sub(r"\s", "", text):
        raise BadInput(f"{argument('time')}: {text!r} is not a time; give one such as 90s, 5m or 1h")
    seconds = math.fsum(float(number) * _UNIT_SECONDS[unit] for number, unit in amounts)
    if seconds < 1:
        raise BadInput(f"{argument('time')}: {text!r} is less than a second; give one such as 90s, 5m or 1h")
    return seconds


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Each dotted name -> the shortest form that names no other: `lr`, `pretrain lr`, or all of it."""
    forms = {name: (leaf := name.rsplit(".", 1)[-1], f"{name.split('.', 1)[0]} {leaf}") for name in names}
    every = [form for pair in forms.values() for form in pair]
    return {name: next((form for form in pair if every.count(form) == 1), name) for name, pair in forms.items()}


def settings(values: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """`lr 0.003, width 64` of the settings that have a name here, or a dash where none has."""
    return ", ".join(f"{names[k]} {plain(v)}" for k, v in values.items() if k in names) or NONE


def sentences(parts: Iterable[str]) -> str:
    """`Does it help? On digits. Scale tiny`: a stop between two, but after a question; empty ones left out."""
    texts = [part.rstrip(".") for part in parts if part]
    return " ".join([*(text if text.endswith("?") else f"{text}." for text in texts[:-1]), *texts[-1:]])


def arms(names: Sequence[str], every: Sequence[str]) -> str:
    """Arms of a column by name; of more than three, all or all but one of `every` in short."""
    rest = [name for name in every if name not in names]
    return listed(names) if len(names) < 4 or len(rest) > 1 else " but ".join(["every arm", *rest])


def times(value: float) -> str:
    """`1.25 times`, `2.5 times`, `30 times`."""
    return f"{value:.2f} times" if value < 2 else (f"{value:.1f} times" if value < 10 else f"{value:.0f} times")


METRIC_NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "weighted_accuracy": "class-weighted accuracy",
    "macro_f1": "macro-F1",
    "r2": "R²",
    "mae": "MAE",
    "rmse": "RMSE",
}
"""Names of scores as a reader writes them."""


def metric(name: str) -> str:
    """A score's name as a reader writes it; one that is not in the table without its underscores."""
    return METRIC_NAMES.get(name, name.replace("_", " "))


def once(texts: Texts) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each text once, with its columns."""
    where: dict[str, dict[str, None]] = {}
    for column, text in texts:
        where.setdefault(text, {}).update({column: None} if column else {})
    yield from ((text, tuple(columns)) for text, columns in where.items())


def merged(texts: Texts) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Texts that differ in their numbers alone are one, with the numbers in the order of the columns."""
    groups: dict[tuple[str, int], dict[str, str]] = {}
    for column, text in texts:
        skeleton = NUMBER_TEXT.sub("#", text) if column else text
        number = next(n for n in itertools.count() if column not in groups.get((skeleton, n), {}))
        groups.setdefault((skeleton, number), {})[column] = text
    for by_column in groups.values():
        members = list(by_column.values())
        numbers = [_several(column) for column in zip(*map(NUMBER_TEXT.findall, members), strict=True)]
        between = NUMBER_TEXT.split(members[0])
        pairs = itertools.zip_longest(between, numbers, fillvalue="")
        yield "".join(itertools.chain.from_iterable(pairs)), tuple(filter(None, by_column))


def _several(numbers: Sequence[str]) -> str:
    """`0.1`, `0.1 and 0.2`, or `0.1 to 0.5` of many."""
    if len(set(numbers)) == 1:
        return numbers[0]
    if len(numbers) <= LISTED_NUMBERS or any(" to " in number for number in numbers):
        return listed(numbers)
    ordered = sorted(numbers, key=lambda text: float(text.split(" ")[0].replace(MINUS, "-").replace(",", "")))
    return f"{ordered[0]} to {ordered[-1]}"
