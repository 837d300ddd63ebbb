"""Writes docs/results/withdrawn.md: `python docs/withdrawn.py` (`make results` calls it).

Verdicts that rest on frozen random blocks that hardly mix (decision 28): what the pages said, and what runs with blocks
drawn by width say now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, product
from pathlib import Path
from unittest.mock import patch

from headstart import words
from headstart.report import claims
from headstart.report.claims import Part, Verdict
from headstart.report.tables.report_table import markdown
from headstart.statistics import Difference, paired_difference
from headstart.study.language.papers import STEP_QUANTITIES, claim_key
from headstart.study.paper.snapshot import Snapshot, read_snapshot
from headstart.study.results.results import Results
from headstart.study.results.rows import test_gap

RESULTS = Path(__file__).parent / "results"
PAGE = RESULTS / "withdrawn.md"


@dataclass(frozen=True)
class Rerun:
    """A page with withdrawn verdicts: what it was made of, and the results of the runs by width, if there are any."""

    page: str
    before: Path
    after: tuple[Path, ...] = ()
    remark: str = ""
    """What controls leave of the new verdicts."""

    def verdicts(self) -> list[Again]:
        """What was withdrawn, as it was judged before, and the verdict of the new runs."""
        parts = dict[tuple[str, str], Part]()
        if self.after:
            new = snapshot_of(*self.after).results()
            parts = {(key_of(v), part.column): part for v in claims.verdicts(new, new.paper) for part in v.parts}
        old = withdrawn(snapshot_of(self.before).results())
        return [Again(verdict, was, parts.get((key_of(verdict), was.column))) for verdict, was in old]


@dataclass(frozen=True)
class Again:
    """A verdict that was withdrawn, and what became of it; None where no new run asks it."""

    verdict: Verdict
    was: Part
    now: Part | None

    @property
    def of_steps(self) -> bool:
        """Whether it is about the number of steps, not about a score."""
        return self.verdict.claim.quantity in STEP_QUANTITIES

    @property
    def line(self) -> list[str]:
        """Its row: the claim, where, what it was and what it is."""
        where = NAMES[self.was.column]
        return [self.verdict.claim.says, where, outcome(self.verdict, self.was), outcome(self.verdict, self.now)]


RERUNS = (
    Rerun("lu-2", RESULTS / "seeds" / "lu-2-unscaled.json", (RESULTS / "lu-2.json",)),
    Rerun(
        "lu-18",
        RESULTS / "seeds" / "lu-18-unscaled.json",
        (RESULTS / "lu-18.json",),
        "Where the output layer alone trains, the lead on MNIST is one of scale, and language has no lead over random "
        "blocks with its statistics: see the controls on the [page](lu-18.md).",
    ),
    Rerun("lu-swept", RESULTS / "lu-swept.json", (RESULTS / "lu-swept-by-width.json",)),
    Rerun(
        "rothermel-1",
        RESULTS / "rothermel-1.json",
        tuple(sorted((RESULTS / "seeds").glob("rothermel-1-by-width-[0-9].json"))),
        "At 5,000 steps; the page has up to 15,000.",
    ),
)
ARMS = {
    "random": "random, drawn by width",
    "random_unscaled": "random, N(0, 0.02)",
    "statistics": "statistics of language",
    "fpt": "language",
    "bit": "bits",
    "vit": "pictures",
}
OLD_ARMS = ("random", "fpt", "bit", "vit")
"""Of the former page of lu-2; its random blocks were drawn with 0.02."""
COLUMNS = {"xor": "XOR", "xor_32": "XOR, 32 bits", "mnist": "MNIST", "cifar10": "CIFAR-10 patches"}
NAMES = COLUMNS | {"memory": "bit memory", "bit_xor": "XOR"}
CONTROLLED, CONTROLLED_COLUMNS = ("random", "statistics", "fpt"), ("mnist", "cifar10")
RATES = [RESULTS / "seeds" / f"lu-2-by-width-{name}.json" for name in ("0", "rates")]
MORE_STEPS = RESULTS / "seeds" / "lu-2-by-width-steps.json"
"""The controls, of seed 0: other rates, and at 3e-3 four times the steps."""
SCALED, PLAIN = "lu-2-scaled-start", "lu-2-without-dropout"
CHANGES = {
    "nothing": ("lu-2", "lu-2"),
    "language pretrained from blocks drawn by width": (SCALED, "lu-2"),
    "fine-tuned without dropout": (PLAIN, PLAIN),
    "both": (f"{SCALED}-without-dropout", PLAIN),
    "both, at 1e-2 for 12,000 steps": ("lu-2-all-changed", "lu-2-all-changed"),
}
"""What is changed -> the results of language, and those of random blocks by width; of the seeds that all have."""
TEXT = """# Withdrawn verdicts: what pages said of frozen random blocks, and what new runs say

Frozen random blocks were drawn with GPT-2's deviation of 0.02, which is right at its width of 768. At width 64 they
hardly mix positions, so that whatever was pretrained looked good beside them: {count} verdicts on four pages were
withdrawn ([decision 28](../decisions/0028-random-start.md)). {done} of them are asked again, of blocks whose deviation
grows to 0.0693 at width 64:

{summary}

## Verdicts of lu-2

{verdicts}

Differences in test accuracy with 95 % intervals; "was" is what the old runs said. Holm's correction is over all
verdicts of a run. More than the random start has changed. lu-2 and lu-18 had a rate of 1e-3 and no dropout, and have
3e-3 and dropout of 0.1 in fine-tuning; the rates of lu-swept ended at 1e-2, and end at 3e-2. In lu-18 and lu-swept
language starts by width, too ([decision 43](../decisions/0043-pretraining-starts-by-width.md)). The machine is another;
five seeds of lu-2 are the same. Beside random blocks of 0.02, language leads on MNIST in the new runs of lu-2, too, by
{unscaled}; the rest of the old lead went with the other settings.

## Is it the start of pretraining, or dropout?

Language was pretrained from blocks of 0.02, and dropout acts on frozen blocks that were pretrained without. Language
less random blocks, with 95 % t-intervals over {same} seeds:

{changes}

By the rule, written before the runs ([seeds](seeds/README.md)), the verdict stands where the interval lies below 0,
depends on what is changed where it contains 0 (both, on either data), and would turn round above it. Statistics of
language are level with random blocks here: the lag is not one of scale.

<details markdown="1"><summary>Is it the rate, or the number of steps? Seed 0 alone</summary>

Seed 0 alone: test accuracy at the weights of the best validation score, in bold at the rate of the best one (which
need not be the best on test). Language gains most from higher rates and more steps, but stays behind random blocks on
MNIST: by {at_best[mnist]} at the best rate of each, by {after_steps} after 12,000 steps. On CIFAR-10 patches it is
{at_best[cifar10]} behind. The rule of this control, written before its runs ([seeds](seeds/README.md)), counts less
than 0.02 as too close: there, the verdict may depend on the rate.

{rates}

</details>

<details markdown="1"><summary>Test accuracy of lu-2's frozen blocks</summary>

{scores}

Above: as its page had it, at 1e-3, {before} seeds, with random blocks of 0.02 throughout. Below: the new
seeds at 3e-3, the rate that seed 0 chose for all arms, mean ± standard error.

</details>

{folds}

<details markdown="1"><summary>Our own questions of the new runs of lu-2</summary>

{questions}

</details>

The new runs were trained with {trained}.
"""
FOLD = """<details markdown="1"><summary>{title}</summary>

{table}

</details>"""
HEADS = ["claim", "on", "was", "new runs, drawn by width"]


def withdrawn(results: Results) -> Iterator[tuple[Verdict, Part]]:
    """What is withdrawn on the page of these results, as it was judged before."""
    now = claims.verdicts(results, results.paper)
    with patch.object(claims, "no_evidence", return_value=False):
        before = claims.verdicts(results, results.paper)
    for verdict, former in zip(now, before, strict=True):
        for part, old in zip(verdict.parts, former.parts, strict=True):
            if part.outcome == "withdrawn" and old.difference is not None:
                yield verdict, old


def outcome(verdict: Verdict, part: Part | None) -> str:
    """`holds: +0.422 [0.373, 0.470], n 6`; of a part that is not there that it is not measured."""
    if part is None or part.difference is None:
        return "not measured"
    standing = f", {part.standing}" if part.standing else ""
    gap = part.difference
    return markdown(f"{part.outcome}{standing}: {claims.difference_text(verdict.claim, gap)}, n {gap.n}")


def key_of(verdict: Verdict) -> str:
    """What the claim compares, whatever its words."""
    return claim_key(verdict.claim.model_dump(mode="json", exclude_defaults=True))


Control = dict[tuple[str, str], dict[str, tuple[float, float]]]
"""Column and arm -> rate -> score on validation and on test."""


def control(files: Sequence[Path]) -> Control:
    """Scores of one seed at each rate."""
    scored: Control = {}
    for row in [row for file in files for row in snapshot_of(file).results().table]:
        for point in row.points:
            if point.val is not None and point.test is not None:
                rate = words.plain(point.settings["finetune.optim.lr"])
                scored.setdefault((row.column, row.arm), {})[rate] = point.val.mean, point.test.mean
    return scored


def best_rate(scores: dict[str, tuple[float, float]]) -> str:
    """The rate of the best score on validation."""
    return max(scores, key=lambda rate: scores[rate][0])


def behind(scores: Control, column: str) -> str:
    """How far language is behind random blocks on test, each at its best rate."""
    random, language = (of[best_rate(of)][1] for of in (scores[column, arm] for arm in ("random", "fpt")))
    return words.score(random - language)


def changed(column: str) -> dict[str, Difference]:
    """Language less random blocks with each of `CHANGES`, at the seeds that all of them have, by a t-interval."""
    sides: dict[str, tuple[dict[int, float], ...]] = {}
    for name, files in CHANGES.items():
        rows = [results_of(file).row(arm, column) for arm, file in zip(("fpt", "random"), files, strict=True)]
        if all(rows):
            sides[name] = tuple(row.by_seed() for row in rows if row is not None)
    seeds = set[int].intersection(*(set(side) for both in sides.values() for side in both))
    gaps = {}
    for name, (language, random) in sides.items():
        gap = paired_difference({seed: language[seed] for seed in seeds}, random)
        assert gap is not None, "there are seeds"
        gaps[name] = gap
    return gaps


@cache
def snapshot_of(*files: Path) -> Snapshot:
    """What these files hold together, read once."""
    return read_snapshot(files)


def results_of(name: str) -> Results:
    """Those of a page, or of a control, whose seeds are files of their own."""
    return snapshot_of(*files_of(name)).results()


def files_of(name: str) -> tuple[Path, ...]:
    """The file of a page, or those of the seeds of a control."""
    page_of = RESULTS / f"{name}.json"
    return (page_of,) if page_of.is_file() else tuple(sorted((RESULTS / "seeds").glob(f"{name}-[0-9].json")))


def control_table(scores: Control, more_steps: Control) -> str:
    """A line for each column and arm with its test score at each rate, and after more steps."""
    rates = list(scores[CONTROLLED_COLUMNS[0], CONTROLLED[0]])
    lines = []
    for column, arm in product(CONTROLLED_COLUMNS, CONTROLLED):
        of = scores[column, arm]
        cells = [("**{}**" if rate == best_rate(of) else "{}").format(words.score(of[rate][1])) for rate in rates]
        after = [words.score(test) for _, test in more_steps.get((column, arm), {}).values()] or [words.NONE]
        lines.append([COLUMNS[column], ARMS[arm], *cells, *after])
    return table(["on", "frozen blocks", *rates, "0.003, 12,000 steps"], once(lines))


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """In Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in (heads, ["---"] * len(heads), *lines))


def scores(results: Results, arms: Sequence[str]) -> list[list[str]]:
    """A line for each arm with its test score on each column."""
    rows = {(row.arm, row.column): row.test for row in results.table}
    return [[ARMS[arm], *(words.plus_minus(rows.get((arm, column))) for column in COLUMNS)] for arm in arms]


def page() -> str:
    """The page, from the results beside it."""
    reruns = {rerun: rerun.verdicts() for rerun in RERUNS}
    first, *others = RERUNS
    old, new = snapshot_of(first.before).results(), snapshot_of(*first.after).results()
    again = claims.verdicts(new, new.paper)
    own = [(verdict, part) for verdict in again if verdict.own for part in verdict.parts if part.difference is not None]
    rates, more_steps = control(RATES), control([MORE_STEPS])
    rows_of = {row.arm: row for row in new.table if row.column == "mnist"}
    unscaled = test_gap(rows_of["fpt"], rows_of["random_unscaled"])
    before = scores(old, OLD_ARMS)
    before[0][0] = ARMS["random_unscaled"]
    rows = [*before, ["**new seeds**", *[""] * len(COLUMNS)], *scores(new, list(ARMS))]
    folds = [fold("lu-2: the number of steps to converge", [each for each in reruns[first] if each.of_steps])]
    for rerun in others:
        folds.append(fold(rerun.page, [each for each in reruns[rerun] if each.now], rerun.remark))
    left = [
        [f"[{rerun.page}]({rerun.page}.md)", *each.line[:-1]]
        for rerun, all_of in reruns.items()
        for each in all_of
        if not each.now
    ]
    if left:
        folds.append(FOLD.format(title="Not asked again yet", table=table(["page", *HEADS[:-1]], once(left, 2))))
    every = [each for all_of in reruns.values() for each in all_of]
    gaps = {column: changed(column) for column in CONTROLLED_COLUMNS}
    changes = [
        [name, *(markdown(words.difference(gaps[column].get(name))) for column in CONTROLLED_COLUMNS)]
        for name in CHANGES
    ]
    new_files = [rerun.after for rerun in RERUNS if rerun.after]
    new_files += [files_of(name) for name in dict.fromkeys(chain.from_iterable(CHANGES.values()))]
    return TEXT.format(
        same=gaps["mnist"]["both"].n,
        changes=table(["changed", *(COLUMNS[column] for column in CONTROLLED_COLUMNS)], changes),
        count=len(every),
        done=sum(each.now is not None for each in every),
        summary=table(
            ["page", "withdrawn", "asked again", "hold", "the other way round", "undecided", "seeds"],
            [summary(rerun, all_of) for rerun, all_of in reruns.items()],
        ),
        before=max(row.n for row in old.table),
        unscaled=words.difference(unscaled),
        trained=words.listed(sorted(set().union(*map(trained_with, new_files)))),
        scores=table(["frozen blocks", *COLUMNS.values()], rows),
        verdicts=table(HEADS, once([each.line for each in reruns[first] if not each.of_steps])),
        folds="\n\n".join(folds),
        questions=table(
            ["question", "on", "outcome"], once([[v.claim.says, COLUMNS[p.column], outcome(v, p)] for v, p in own])
        ),
        rates=control_table(rates, more_steps),
        at_best={column: behind(rates, column) for column in CONTROLLED_COLUMNS},
        after_steps=behind(more_steps, "mnist"),
    )


def summary(rerun: Rerun, verdicts: Sequence[Again]) -> list[str]:
    """A page's line: how many verdicts were withdrawn, and what the new runs make of them."""
    now = [each.now for each in verdicts if each.now]
    counts = Counter(part.outcome for part in now)
    kinds = [str(counts[kind]) if now else words.NONE for kind in ("holds", "the other way round", "undecided")]
    assert sum(counts[kind] for kind in ("holds", "the other way round", "undecided")) == len(now)
    seeds = words.NONE
    if rerun.after:
        runs = {run.seed for row in snapshot_of(*rerun.after).results().table for run in row.runs}
        seeds = f"{min(runs)} to {max(runs)}"
    pages = dict.fromkeys([rerun.page, *(file.stem for file in rerun.after if file.parent == RESULTS)])
    links = ", ".join(f"[{name}]({name}.md)" for name in pages)
    return [links, str(len(verdicts)), str(len(now)), *kinds, seeds]


def trained_with(files: Sequence[Path]) -> set[str]:
    """The versions of headstart that trained the runs of these results."""
    snapshot = snapshot_of(*files)
    stages = {identity for row in snapshot.results().table for run in row.runs for _, identity in run.stages}
    results = [snapshot.result(identity) for identity in stages]
    return {f"headstart {result['provenance']['versions']['headstart']}" for result in results if result}


def fold(title: str, verdicts: Sequence[Again], remark: str = "") -> str:
    """A folded table of verdicts, before and now, and a remark below it."""
    lines = table(HEADS, once([each.line for each in verdicts]))
    return FOLD.format(title=title, table="\n\n".join(filter(None, [lines, remark])))


def once(lines: list[list[str]], names: int = 1) -> list[list[str]]:
    """The lines, whose first cells stand only where they change."""
    return [
        [cell * (k >= names or i == 0 or lines[i - 1][: k + 1] != line[: k + 1]) for k, cell in enumerate(line)]
        for i, line in enumerate(lines)
    ]


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
