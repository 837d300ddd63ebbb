"""Make every page of docs/results again from its results, and their index.

    python benchmarks/publish_results.py

A page comes there with its results and figures beside it by

    headstart report STUDY -o docs/results/NAME.md                  # from the store
    headstart report --from A.json B.json -o docs/results/NAME.md   # from files of results, joined

and this command follows. No store and no data are needed. `gains` pools the results that are here, and those of single
seeds in seeds/; `pretraining-pays` (pretraining_pays.py) is made of its seeds there, too, and `own` (own_results.py) of the
numbers beside it. A page without results beside it is listed with its first sentences and left as it is.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import own_results
import pretraining_pays
from harness import HERE, RESULTS, filled, parser_of
from harness import markdown as markdown_table

from headstart import words
from headstart.report.answer import answer
from headstart.report.claims import OUTCOMES, TOO_SMALL, Part, Verdict, difference_text, verdicts
from headstart.report.page import publish_page
from headstart.report.tables.report_table import markdown
from headstart.study.language.papers import STEP_QUANTITIES
from headstart.study.paper.snapshot import read_snapshot
from headstart.study.results.results import Results
from headstart.text import sentence
from headstart.verbs.compare import print_pooled

ROOT = HERE.parent
PAYS = pretraining_pays.NAME
SEEDS = f"seeds/{PAYS}-[0-9].json"
"""A page made of the files of its seeds, which would be large if joined."""
POOLED = ("coser-1.json", "positive-control.json", "which-part.json", "labels.json", SEEDS)
"""Results with self-pretraining beside training from scratch in the same batches; a pilot is not among them."""
SERIES = ("EOGVerticalSignal", "Earthquakes", "FaceAll", "Strawberry", "SyntheticControl")
NAMES = {
    "cifar_patches": "patches of CIFAR-10",
    "image": "CIFAR-10 by one or four pixels",
    "mnist": "MNIST",
    **{f"own: {name}/{name}_TRAIN": "five sets of time series" for name in SERIES},
    **dict.fromkeys(["own: dna/uci_splice", "own: promoters-Ecoli/pieces"], "two sets of DNA"),
    "own: spoken-digits/train": "spoken digits",
}
FEW_STEPS = 1_000
INDEX = "README.md"
MOST = 12 + 5
"""Pages, at most: few that are worth reading; five are of pretrained backbones (`lu-`)."""
ROOM = 30
"""Lines of claims that the first screen of the index has room for."""
LISTED = 3
"""Columns whose differences are listed; of more, the span is given."""
OURS = ", our question"
HEADS = ["verdict", "claim: columns, differences and seeds", "page"]


def remake(folder: Path) -> list[Path]:
    """Write every page that has its results beside it again; returns the pages."""
    return [publish_page(read_snapshot([file]), file.with_suffix(".md"))[0] for file in studies(folder)]


def studies(folder: Path) -> list[Path]:
    """The files of results of studies, in the order of their names: all but the numbers of `own`."""
    return sorted(file for file in folder.glob("*.json") if file.name != own_results.NUMBERS.name)


def gains_page() -> str:
    """What self-pretraining gained in all results that are kept here, one table."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(ROOT):
        files = [str(file) for pattern in POOLED for file in sorted(RESULTS.relative_to(ROOT).glob(pattern))]
        page, numbers = Path(folder, "gains.md"), Path(folder, "gains.json")
        print_pooled(files, page, numbers)
        table, comparisons = page.read_text("utf-8"), json.loads(numbers.read_text("utf-8"))["comparisons"]
    parts = []
    kinds = [NAMES.get(gain["data"], gain["data"]) for gain in comparisons]
    for kind in dict.fromkeys(kinds):
        values = [gain["gain"] for gain, name in zip(comparisons, kinds, strict=True) if name == kind]
        above, mean = sum(value > 0 for value in values), words.signed(sum(values) / len(values))
        parts.append(f"on {kind} {above} of {len(values)} comparisons are above 0, {mean} on average")
    seeds = sorted({gain["n"] for gain in comparisons})
    clear = sum(gain["interval"] is not None and gain["interval"][0] > 0 for gain in comparisons)
    sides = []
    for few in (True, False):
        values = [gain["gain"] for gain in comparisons if (gain["steps"] <= FEW_STEPS) == few]
        above, mean = sum(value > 0 for value in values), words.signed(sum(values) / len(values))
        sides.append(f"{above} of {len(values)} are above 0 ({mean} on average)")
    return filled(
        "gains",
        parts=words.listed(parts),
        fewest=seeds[0],
        most=seeds[-1],
        clear=clear,
        comparisons=len(comparisons),
        steps=FEW_STEPS,
        few=sides[0],
        many=sides[1],
        table=table,
    )


def pays_results(folder: Path) -> Results | None:
    """The seeds of the study of when self-pretraining pays, joined; None where there are none."""
    files = sorted(folder.glob(SEEDS))
    return read_snapshot(files).results() if files else None


def index(folder: Path) -> str:
    """Every claim that was checked, those that hold first; then the pages, and what was removed."""
    pages = {file.stem: read_snapshot([file]).results() for file in studies(folder)}
    pays = pays_results(folder)
    results = {**pages, **({} if pays is None else {PAYS: pays})}
    pages_of = {name: (f"[{name}]({name}.md)", value.paper is None) for name, value in results.items()}
    lines = [line for name, value in results.items() for line in _claims(*pages_of[name], verdicts(value, value.paper))]
    ordered = [line for outcome in OUTCOMES for line in lines if line[0] == outcome != "withdrawn"]
    about = [
        f"- [{file.stem}]({file.name}): {_about(file, pages.get(file.stem))}"
        for file in sorted(folder.glob("*.md"))
        if file.name != INDEX
    ]
    table = markdown_table(HEADS, _together(ordered), rule=["---"] * len(HEADS))
    gone = list(dict.fromkeys(line[-1].removesuffix(OURS) for line in lines if line[0] == "withdrawn"))
    withdrawn = ["", f"Withdrawn, since {TOO_SMALL}: verdicts of {words.listed(gone)}."] if gone else []
    return filled("results", table=[*(table if ordered else []), *withdrawn], pages=about)


def _claims(page: str, ours: bool, checked: Iterable[Verdict]) -> list[list[str]]:
    """A line for each claim and outcome: the columns on which it came out so, with their differences and seeds.

    ours: the page has no paper, so that every claim is a question of our own.
    """
    lines = []
    for verdict in checked:
        for outcome in OUTCOMES:
            parts = [part for part in verdict.parts if part.outcome == outcome and part.difference is not None]
            if parts:
                says = f"{verdict.claim.says.rstrip('.')}: {_differences(verdict, parts)}"
                lines.append([outcome, markdown(says), page + OURS * (ours or verdict.own)])
    return lines


def _differences(verdict: Verdict, parts: Sequence[Part]) -> str:
    """Each column's difference, or the span of many with the ends of their intervals; then the seeds."""
    gaps = [part.difference for part in parts if part.difference is not None]
    seeds = f"n {words.listed(list(dict.fromkeys(str(gap.n) for gap in gaps)))}"
    steps = verdict.claim.quantity in STEP_QUANTITIES
    if len(gaps) <= LISTED:
        texts = [difference_text(verdict.claim, gap) for gap in gaps]
        return "; ".join([*(f"{part.column} {text}" for part, text in zip(parts, texts, strict=True)), seeds])
    ends = [end for gap in gaps for end in gap.interval or ()]
    means = [gap.mean for gap in gaps]
    lowest, highest, low, high = (
        f"{value:+,.0f}".replace("-", words.MINUS) if steps else words.signed(value)
        for value in (min(means), max(means), min(ends, default=min(means)), max(ends, default=max(means)))
    )
    return f"{len(gaps)} columns, {lowest} to {highest}, all intervals within [{low}, {high}]; {seeds}"


def _together(lines: Sequence[list[str]]) -> list[list[str]]:
    """The lines; where they are many, claims of the same page and outcome share a cell: undecided first, then the most."""
    groups: dict[tuple[str, str], list[list[str]]] = {}
    for line in lines:
        groups.setdefault((line[0], line[-1]), []).append(line)
    for key in sorted(groups, key=lambda key: (key[0] != "undecided", -len(groups[key]))):
        if sum(map(len, groups.values())) > ROOM or (len(lines) > ROOM and key[0] == "undecided"):
            groups[key] = [[key[0], "<br>".join(line[1] for line in groups[key]), key[1]]]
    return [line for members in groups.values() for line in members]


def _about(file: Path, results: Results | None) -> str:
    """Title and answer of a page."""
    if results is not None:
        return markdown(words.sentences([results.heading, sentence(answer(results), results.arms)]))
    title, text = file.read_text("utf-8").split("\n\n")[:2]
    return f"{title.removeprefix('# ')}. {text}"


def main() -> None:
    parser_of(__doc__).parse_args()
    for page in remake(RESULTS):
        print(page)
    if own_results.NUMBERS.exists():
        own_results.publish(RESULTS)
    if (pays := pays_results(RESULTS)) is not None:
        print(pretraining_pays.publish(pays, RESULTS))
    (RESULTS / "gains.md").write_text(gains_page(), "utf-8")
    (RESULTS / INDEX).write_text(index(RESULTS), "utf-8")


if __name__ == "__main__":
    main()
