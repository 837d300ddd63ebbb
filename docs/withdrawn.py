"""Writes docs/results/withdrawn.md: `python docs/withdrawn.py` (`make results` calls it).

Verdicts that rest on frozen random blocks that hardly mix (decision 28): what the pages said, and what those that were
run again with blocks drawn by width say now. A page that is run again is one more name in AGAIN, and its results of
before one more file of results/seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
AGAIN = ("lu-2",)
"""Pages that were run again. What they were made of before is in seeds/NAME-unscaled.json."""
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
CONTROLLED = ("random", "statistics", "fpt")
CONTROLS = {"lu-2-by-width-0": "", "lu-2-by-width-rates": "", "lu-2-by-width-steps": "0.003, 12,000 steps"}
"""Files of seed 0 at other rates and with more steps -> how the column is called, if not by its rate."""
TEXT = """# Withdrawn verdicts: what pages said of frozen random blocks, and what new runs say

Frozen random blocks were drawn with GPT-2's deviation of 0.02, which is right at its width of 768. At width 64 they
hardly mix positions, so that whatever was pretrained looked good beside them: {count} verdicts on four pages were
withdrawn ([decision 28](../decisions/0028-random-start.md)). [lu-2](lu-2.md) ran again with blocks whose deviation
grows to 0.0693 at width 64: its seed 0 chose the rate of all arms and is not reported, {are} are.

## Test accuracy of lu-2's frozen blocks

{scores}

Above: as its page had it, at 1e-3, {before} seeds, with random blocks of 0.02 throughout. Below: the new
seeds at 3e-3, mean ± standard error, trained with {trained}.

## Verdicts of lu-2

{verdicts}

Differences in test accuracy with 95 % intervals; "was" is what the page would say with blocks of 0.02. Holm's
correction is over all verdicts of a run.

## Is it the rate, or the number of steps?

Seed 0 alone, test accuracy at the weights of the best validation score; in bold the rate of the best validation score.
Language gains most from a higher rate than 3e-3 and from more steps, and stays behind on MNIST: by 0.068 at the best
rates, by 0.040 after 12,000 steps. On CIFAR-10 patches it is 0.012 behind at its best rate: by the rule of this control
([seeds](seeds/README.md)), less than 0.02 leaves open whether the verdict there is a matter of the rate.

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


def rates() -> str:
    """A line for each arm and column: its test score at each rate, and after more steps."""
    found: dict[tuple[str, str], dict[str, tuple[float, float]]] = {}
    for name, steps in CONTROLS.items():
        for row in read_snapshot([RESULTS / f"seeds/{name}.json"]).results().table:
            for point in row.points:
                if point.val is not None and point.test is not None and row.arm in CONTROLLED:
                    rate = steps or words.plain(point.settings["finetune.optim.lr"])
                    found.setdefault((row.column, row.arm), {})[rate] = point.val.mean, point.test.mean
    columns = list(dict.fromkeys(rate for scores in found.values() for rate in scores))
    lines = []
    for column in ("mnist", "cifar10"):
        for arm in CONTROLLED:
            scores = found[column, arm]
            best = max((rate for rate in scores if rate not in CONTROLS.values()), key=lambda rate: scores[rate][0])
            cells = [words.score(scores[rate][1]) if rate in scores else words.NONE for rate in columns]
            cells = [f"**{cell}**" if rate == best else cell for rate, cell in zip(columns, cells, strict=True)]
            lines.append([COLUMNS[column], ARMS[arm], *cells])
    return table(["on", "frozen blocks", *columns], once(lines))


def table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """In Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in (heads, ["---"] * len(heads), *lines))


def scores(results: Results, arms: Sequence[str]) -> list[list[str]]:
    """A line for each arm with its test score on each column."""
    rows = {(row.arm, row.column): row.test for row in results.table}
    return [[ARMS[arm], *(words.plus_minus(rows.get((arm, column))) for column in COLUMNS)] for arm in arms]


def page() -> str:
    """The page, from the results beside it."""
    (name,) = AGAIN
    old = read_snapshot([RESULTS / f"seeds/{name}-unscaled.json"]).results()
    snapshot = read_snapshot([RESULTS / f"{name}.json"])
    new = snapshot.results()
    again = claims.verdicts(new, new.paper)
    parts = {(key_of(verdict), part.column): part for verdict in again for part in verdict.parts}
    gone = list(withdrawn(old))
    lines: dict[bool, list[list[str]]] = {False: [], True: []}  # of scores, of steps
    for v, former in gone:
        now = parts.get((key_of(v), former.column))
        line = [v.claim.says, COLUMNS[former.column], outcome(v, former), outcome(v, now)]
        lines[v.claim.quantity in STEP_QUANTITIES].append(line)
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
    before = scores(old, OLD_ARMS)
    before[0][0] = ARMS["random_unscaled"]
    rows = [*before, ["**new seeds**", *[""] * len(COLUMNS)], *scores(new, list(ARMS))]
    return TEXT.format(
        count=len(gone) + len(others),
        are=f"seeds {words.listed([str(seed) for seed in seeds])}",
        before=max(row.n for row in old.table),
        trained=words.listed([f"headstart {version}" for version in versions]),
        scores=table(["frozen blocks", *COLUMNS.values()], rows),
        verdicts=table(["claim of the paper", "on", "was", "by width"], once(lines[False])),
        steps=table(["claim of the paper", "on", "was", "by width"], once(lines[True])),
        questions=table(
            ["question", "on", "outcome"], once([[v.claim.says, COLUMNS[p.column], outcome(v, p)] for v, p in own])
        ),
        rates=rates(),
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
