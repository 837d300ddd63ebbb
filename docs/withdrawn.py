"""Writes docs/results/withdrawn.md: `python docs/withdrawn.py` (`make results` calls it).

Verdicts that rest on frozen random blocks that hardly mix (decision 28): what the pages said, and what lu-2, which was
run again with blocks drawn by width, says now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from unittest.mock import patch

from headstart import words
from headstart.report import claims
from headstart.report.claims import Part, Verdict
from headstart.report.tables.report_table import markdown
from headstart.study.language.papers import STEP_QUANTITIES, claim_key
from headstart.study.paper.snapshot import read_snapshot
from headstart.study.results.results import Results

RESULTS = Path(__file__).parent / "results"
PAGE = RESULTS / "withdrawn.md"
AGAIN, BEFORE = RESULTS / "lu-2.json", RESULTS / "seeds" / "lu-2-unscaled.json"
"""Results of the page that was run again, and what it was made of before."""
LEFT = ("lu-18", "lu-swept", "rothermel-1")
"""Pages with withdrawn verdicts that are not run again yet."""
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
CONTROLLED, CONTROLLED_COLUMNS = ("random", "statistics", "fpt"), ("mnist", "cifar10")
RATES = [RESULTS / "seeds" / f"lu-2-by-width-{name}.json" for name in ("0", "rates")]
MORE_STEPS = RESULTS / "seeds" / "lu-2-by-width-steps.json"
"""The controls, of seed 0: other rates, and at 3e-3 four times the steps."""
TEXT = """# Withdrawn verdicts: what pages said of frozen random blocks, and what new runs say

Frozen random blocks were drawn with GPT-2's deviation of 0.02, which is right at its width of 768. At width 64 they
hardly mix positions, so that whatever was pretrained looked good beside them: {count} verdicts on four pages were
withdrawn ([decision 28](../decisions/0028-random-start.md)). [lu-2](lu-2.md) ran again with blocks whose deviation
grows to 0.0693 at width 64. Its seed 0 chose the rate of all arms and is not reported; seeds {seeds} are.

## Test accuracy of lu-2's frozen blocks

{scores}

Above: as its page had it, at 1e-3, {before} seeds, with random blocks of 0.02 throughout. Below: the new
seeds at 3e-3, mean ± standard error, trained with {trained}.

## Verdicts of lu-2

{verdicts}

Differences in test accuracy with 95 % intervals; "was" is what the page would say with blocks of 0.02. Holm's
correction is over all verdicts of a run.

## Is it the rate, or the number of steps?

Seed 0 alone: test accuracy at the weights of the best validation score, in bold at the rate of the best one. Language
gains most from higher rates and more steps, but stays behind random blocks on MNIST: by {at_best[mnist]} at the best
rate of each, by {after_steps} after 12,000 steps. On CIFAR-10 patches it is {at_best[cifar10]} behind. The rule of this
control, written before its runs ([seeds](seeds/README.md)), counts less than 0.02 as too close: there, the verdict
may depend on the rate.

{rates}

<details markdown="1"><summary>Verdicts on the number of steps to converge</summary>

{steps}

</details>

<details markdown="1"><summary>Our own questions of the new runs</summary>

{questions}

</details>

<details markdown="1"><summary>Withdrawn, and not run again yet: {left}</summary>

{others}

</details>
"""


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
    found: Control = {}
    for row in [row for file in files for row in read_snapshot([file]).results().table]:
        for point in row.points:
            if point.val is not None and point.test is not None:
                rate = words.plain(point.settings["finetune.optim.lr"])
                found.setdefault((row.column, row.arm), {})[rate] = point.val.mean, point.test.mean
    return found


def best_rate(scores: dict[str, tuple[float, float]]) -> str:
    """The rate of the best score on validation."""
    return max(scores, key=lambda rate: scores[rate][0])


def behind(scores: Control, column: str) -> str:
    """How far language is behind random blocks on test, each at its best rate."""
    random, language = (of[best_rate(of)][1] for of in (scores[column, arm] for arm in ("random", "fpt")))
    return words.score(random - language)


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
    old = read_snapshot([BEFORE]).results()
    snapshot = read_snapshot([AGAIN])
    new = snapshot.results()
    again = claims.verdicts(new, new.paper)
    parts = {(key_of(verdict), part.column): part for verdict in again for part in verdict.parts}
    gone = list(withdrawn(old))

    def compared(of_steps: bool) -> str:
        lines = [
            [v.claim.says, COLUMNS[was.column], outcome(v, was), outcome(v, parts.get((key_of(v), was.column)))]
            for v, was in gone
            if (v.claim.quantity in STEP_QUANTITIES) == of_steps
        ]
        return table(["claim of the paper", "on", "was", "by width"], once(lines))

    own = [(verdict, part) for verdict in again if verdict.own for part in verdict.parts if part.difference is not None]
    others = [
        [f"[{name}]({name}.md)", verdict.claim.says, part.column, outcome(verdict, part)]
        for name in LEFT
        for verdict, part in withdrawn(read_snapshot([RESULTS / f"{name}.json"]).results())
    ]
    seeds = sorted({run.seed for row in new.table for run in row.runs})
    stages = [identity for row in new.table for run in row.runs for _, identity in run.stages]
    runs = [snapshot.result(identity) for identity in stages]
    versions = sorted({run["provenance"]["versions"]["headstart"] for run in runs if run})
    rates, more_steps = control(RATES), control([MORE_STEPS])
    before = scores(old, OLD_ARMS)
    before[0][0] = ARMS["random_unscaled"]
    rows = [*before, ["**new seeds**", *[""] * len(COLUMNS)], *scores(new, list(ARMS))]
    return TEXT.format(
        count=len(gone) + len(others),
        seeds=f"{seeds[0]} to {seeds[-1]}",
        before=max(row.n for row in old.table),
        trained=words.listed([f"headstart {version}" for version in versions]),
        scores=table(["frozen blocks", *COLUMNS.values()], rows),
        verdicts=compared(of_steps=False),
        steps=compared(of_steps=True),
        questions=table(
            ["question", "on", "outcome"], once([[v.claim.says, COLUMNS[p.column], outcome(v, p)] for v, p in own])
        ),
        rates=control_table(rates, more_steps),
        at_best={column: behind(rates, column) for column in CONTROLLED_COLUMNS},
        after_steps=behind(more_steps, "mnist"),
        left=words.listed(list(LEFT)),
        others=table(["page", "claim", "on", "was"], once(others, 2)),
    )


def once(lines: list[list[str]], names: int = 1) -> list[list[str]]:
    """The lines, whose first cells stand only where they change."""
    return [
        [cell * (k >= names or i == 0 or lines[i - 1][: k + 1] != line[: k + 1]) for k, cell in enumerate(line)]
        for i, line in enumerate(lines)
    ]


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
