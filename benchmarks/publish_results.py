"""Make every page of docs/results again from its results, and their index.

    python benchmarks/publish_results.py

A page comes there with its results and figures beside it by

    headstart report STUDY -o docs/results/NAME.md                  # from the store
    headstart report --from A.json B.json -o docs/results/NAME.md   # from files of results, joined

and this command follows. No store and no data are needed. `gains` pools the results that are here, and those of single
seeds in seeds/; `pretraining-pays` (pretraining_pays.py) is made of its seeds there, too, and `own` (own_results.py) of the
numbers beside it. The index has the rows of texts/questions.toml.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import fit_page
import numpy as np
import own_results
import pretraining_pays
from harness import HERE, RESULTS, filled, parser_of
from harness import markdown as markdown_table

from headstart import words
from headstart.report.claims import HEADLINE_SEEDS, Part, verdicts
from headstart.report.figures.forest import STATE_NAMES, ForestLine, LineSide, effect_of_paper, forest
from headstart.report.figures.style import png
from headstart.report.page import publish_page
from headstart.report.tables.report_table import markdown
from headstart.statistics import Difference
from headstart.study.paper.compare import over_sets_line
from headstart.study.paper.snapshot import read_snapshot
from headstart.study.results.results import Results
from headstart.verbs.compare import print_pooled

ROOT = HERE.parent
PAYS = pretraining_pays.NAME
SEEDS = f"seeds/{PAYS}-[0-9].json"
"""A page made of the files of its seeds, which would be large if joined."""
POOLED = ("amos-f5.json", "coser-1.json", "positive-control.json", "which-part.json", "labels.json", SEEDS)
"""Results with self-pretraining beside training from scratch in the same batches; a pilot is not among them."""
SERIES = ("EOGVerticalSignal", "Earthquakes", "FaceAll", "Strawberry", "SyntheticControl")
NAMES = {
    "cifar_patches": "patches of CIFAR-10",
    "image": "CIFAR-10 by one or four pixels",
    "mnist": "MNIST",
    "text": "film reviews of 256 characters",
    **{f"own: {name}/{name}_TRAIN": "five sets of time series" for name in SERIES},
    **dict.fromkeys(["own: dna/uci_splice", "own: promoters-Ecoli/pieces"], "two sets of DNA"),
    "own: spoken-digits/train": "spoken digits",
}
FEW_STEPS = 1_000
INDEX = "README.md"
MOST = 13 + 7
"""Pages, at most: few that are worth reading; seven are of pretrained backbones (`lu-`, and what of these is withdrawn)."""
QUESTIONS = HERE / "texts" / "questions.toml"
RULE = ["---", "---", "---:", "---:", "---:", "---", "---"]
MARK = "<!-- evidence: made by benchmarks/publish_results.py -->"
"""Around what is made in the README."""
STATES: dict[str, LineSide] = {name: side for side, name in STATE_NAMES.items()}
"""Outcome -> its colour."""
HEADS = ["question", "where", "the paper's", "ours [95 %]", "n", "what ours is", "verdict"]


def remake(folder: Path) -> list[Path]:
    """Write every page that has its results beside it again; returns the pages."""
    return [publish_page(read_snapshot([file]), file.with_suffix(".md"))[0] for file in studies(folder)]


def studies(folder: Path) -> list[Path]:
    """The files of results of studies, in the order of their names: all but the numbers of `own`."""
    return sorted(file for file in folder.glob("*.json") if file.name != own_results.NUMBERS.name)


def gains_page() -> tuple[str, bytes]:
    """What self-pretraining gained in all results that are kept here: the page, and its figure as PNG."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(ROOT):
        files = [str(file) for pattern in POOLED for file in sorted(RESULTS.relative_to(ROOT).glob(pattern))]
        page, numbers = Path(folder, "gains.md"), Path(folder, "gains.json")
        print_pooled(files, page, numbers)
        document = json.loads(numbers.read_text("utf-8"))
        table, comparisons, whole = page.read_text("utf-8"), document["comparisons"], document["over_sets"]
    low, high = whole["interval"]
    over = Difference(whole["gain"], None, low, high, whole["sets"])
    parts, lines, draw = [], [], np.random.default_rng(0)
    kinds = [NAMES.get(gain["data"], gain["data"]) for gain in comparisons]
    for kind in dict.fromkeys(kinds):
        values = np.array([gain["gain"] for gain, name in zip(comparisons, kinds, strict=True) if name == kind])
        low, high = np.quantile(draw.choice(values, (4000, len(values))).mean(1), [0.025, 0.975]).tolist()
        parts.append(f"| {kind} | {len(values)} | {(values > 0).sum()} | {words.signed(values.mean())} |")
        lines.append(ForestLine("", kind, values.mean(), low, high, f"{(values > 0).sum()} of {len(values)} above 0"))
    figure = forest(lines, "mean gain in test accuracy over the comparisons")
    assert figure is not None, "there are comparisons"
    seeds = sorted({gain["n"] for gain in comparisons})
    clear = sum(gain["interval"] is not None and gain["interval"][0] > 0 for gain in comparisons)
    sides = []
    for few in (True, False):
        side = np.array([gain["gain"] for gain in comparisons if (gain["steps"] <= FEW_STEPS) == few])
        mean = words.signed(side.mean())
        sides.append(f"{(side > 0).sum()} of {len(side)} are above 0 ({mean} on average)")
    text = filled(
        "gains",
        parts=parts,
        fewest=seeds[0],
        most=seeds[-1],
        clear=clear,
        comparisons=len(comparisons),
        whole=over_sets_line(over),
        steps=FEW_STEPS,
        few=sides[0],
        many=sides[1],
        table=table,
    )
    return text, png(figure)


def pays_results(folder: Path) -> Results | None:
    """The seeds of the study of when self-pretraining pays, joined; None where there are none."""
    files = sorted(folder.glob(SEEDS))
    return read_snapshot(files).results() if files else None


@dataclass(frozen=True)
class Answer:
    """A row of the index: the question, the page that answers it, and the part of a claim's verdict that does."""

    group: str
    says: str
    page: str
    what: str
    part: Part
    paper: float | None
    first: bool

    @property
    def badge(self) -> str:
        """What it comes to."""
        contradicted = self.part.outcome in ("the other way round", "does not hold")
        outcome = "contradicts" if contradicted else self.part.outcome
        return ", ".join(filter(None, [outcome, self.part.standing]))

    @property
    def line(self) -> ForestLine:
        """As the figure draws it."""
        gap = self.part.difference
        assert gap is not None, "a question without an answer is not in the index"
        hollow, state = bool(self.part.standing) or gap.n < HEADLINE_SEEDS, STATES[self.badge.split(",")[0]]
        return ForestLine(
            self.group, self.says, gap.mean, gap.low, gap.high, f"n {gap.n}  {self.badge}", self.paper, hollow, state
        )

    @property
    def cells(self) -> list[str]:
        """The row of the table."""
        paper = words.NONE if self.paper is None else words.signed(self.paper)
        gap = self.part.difference
        assert gap is not None, "a question without an answer is not in the index"
        ours = markdown(words.difference(gap))
        badge = f"**{self.badge}**" if self.badge.startswith("contradicts") else self.badge
        return [self.group, f"[{self.says}]({self.page}.md)", paper, ours, str(gap.n), self.what, badge]


def answers(folder: Path) -> list[Answer]:
    """The rows of the index, by group, contradictions first. Raises: KeyError for a claim or column that is not there."""
    out = []
    for group in tomllib.loads(QUESTIONS.read_text("utf-8"))["group"]:
        rows = [_answer(folder, group["says"], row) for row in group["rows"]]
        out += sorted(rows, key=lambda row: not row.badge.startswith("contradicts"))
    return out


def _answer(folder: Path, group: str, row: Mapping[str, str]) -> Answer:
    results = read_snapshot(sorted(folder.glob(row.get("files", f"{row['page']}.json")))).results()
    for verdict in verdicts(results, results.paper):
        for part in verdict.parts:
            if verdict.claim.says.startswith(row["claim"]) and part.column == row["column"]:
                higher, lower = verdict.claim.higher, verdict.claim.lower
                plain = isinstance(higher, str) and isinstance(lower, str) and not verdict.claim.at
                paper = effect_of_paper(results, str(higher), str(lower), part.column) if plain else None
                return Answer(group, row["says"], row["page"], row["what"], part, paper, "first" in row)
    raise KeyError(f"{row['page']}: no claim begins with {row['claim']!r} and has a column {row['column']!r}")


def index(rows: Sequence[Answer]) -> str:
    """One row per question; those whose claims are younger than their runs in a table of their own."""
    tables = []
    for late in (False, True):
        chosen = [row for row in rows if (row.part.standing == "exploratory") == late]
        lines = [row.cells for row in chosen]
        for i in reversed(range(1, len(lines))):  # a question stands once
            lines[i][0] *= lines[i][0] != lines[i - 1][0]
        tables += ["", "Exploratory (the claim is younger than its runs):", ""] if late and chosen else []
        tables += markdown_table(HEADS, lines, rule=RULE) if chosen else []
    kind = words.interval_kind(row.part.difference for row in rows)
    return filled("results", tables="\n".join(tables), kind=kind)


def with_evidence(readme: str, rows: Sequence[Answer]) -> str:
    """The README with the rows that stand there, between its two marks."""
    before, _, rest = readme.partition(f"{MARK}\n")
    _, _, after = rest.partition(MARK)
    lines = [row.cells for row in rows if row.first]
    table = [line.replace("](", "](docs/results/") for line in markdown_table(HEADS, lines, rule=RULE)]
    return "\n".join([before.rstrip("\n"), "", MARK, "", *table, "", MARK]) + after


def index_figure(rows: Sequence[Answer], narrow: bool = False) -> bytes:
    """The rows that are no exploration as a forest plot, PNG. narrow: for a screen that has no room for the numbers."""
    drawn = [row.line for row in rows if row.part.standing != "exploratory"]
    width, line = (4.4, 0.19) if narrow else (10.0, 0.145)
    figure = forest(drawn, "difference in test score", width=width, line=line, numbers=not narrow)
    assert figure is not None, "there are rows"
    return png(figure, dots=200)


def main() -> None:
    parser_of(__doc__).parse_args()
    for page in remake(RESULTS):
        print(page)
    fit_page.publish()
    if own_results.NUMBERS.exists():
        own_results.publish(RESULTS)
    if (pays := pays_results(RESULTS)) is not None:
        print(pretraining_pays.publish(pays, RESULTS))
    text, figure = gains_page()
    (RESULTS / "gains.md").write_text(text, "utf-8")
    (RESULTS / "figures" / "gains.png").write_bytes(figure)
    rows = answers(RESULTS)
    (RESULTS / INDEX).write_text(index(rows), "utf-8")
    (ROOT / "README.md").write_text(with_evidence((ROOT / "README.md").read_text("utf-8"), rows), "utf-8")
    for name, narrow in (("index.png", False), ("index-narrow.png", True)):
        (RESULTS / "figures" / name).write_bytes(index_figure(rows, narrow))


if __name__ == "__main__":
    main()
