"""Publish studies as measured: perform each and copy its page of results to docs/results/.

    python benchmarks/publish_results.py [--scale tiny] [--store DIR] [--data DIR] [--workers 2] [--as NAME]
                                         (--missing [--published] | STUDY [STUDY ...]) [name=value ...]

A study that is finished in the store is not trained again. `--missing`: every study with scales, in the papers' words,
that has no page yet; `--published`: also those as the released code does. The page is `docs/results/STUDY.md`
(`STUDY-SCALE.md` for another scale than tiny), its figures stand in `docs/results/figures/`, and
`docs/results/README.md` lists all pages.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from headstart.api import Study
from headstart.report.answer import OUTCOME_VERBS
from headstart.study.files import built_in_studies, short_name
from headstart.study.spec import read_study
from headstart.study.words import NONE, sentences

RESULTS = Path(__file__).parents[1] / "docs" / "results"
OTHER = "Besides the papers"
KINDS = ("As the papers say", "As released code trains", "Open questions", "Larger than tiny", OTHER)
CLAIMS = re.compile(
    r"(?:of (?P<several>\d+) directions|the one direction) that .*? could be checked here,? "
    r"(?P<told>[^.]*)\.",
    re.IGNORECASE,
)
FIGURE = re.compile(r"(!\[[^\]]*\]\()([^)/]+\.png)\)")


def publish(study: Study, name: str) -> Path:
    """Copy the page and the figures that it shows; returns the page."""
    page = (study.report_folder / "results.md").read_text("utf-8")
    figures = RESULTS / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for match in FIGURE.finditer(page):
        shutil.copy(study.report_folder / match[2], figures / f"{name}-{match[2]}")
    target = RESULTS / f"{name}.md"
    target.write_text(FIGURE.sub(rf"\1figures/{name}-\2)", page), "utf-8")
    return target


def index() -> None:
    """List every page in tables, by kind, with how many of its directions hold and their sums."""
    lines = [
        "# Results, as measured here",
        "",
        "One page per study: the command, the table, the paper's numbers beside ours, the outcome of the "
        "paper's claims, the figures, the cost, the machine and the date. `tiny` studies end in minutes and run "
        "on stand-ins where a data set is not at hand: their numbers say something of directions, nothing of "
        "the papers' sizes.",
        "",
        "A direction is one sentence of a paper (or one question of a study) on one task. It *holds* where the "
        "95 % interval over seeds lies on its side, is *the other way round* where the interval lies on the "
        "other, *does not hold* where two that are called equal differ by more than the margin, and is "
        "*undecided* where the interval contains both answers, as most do over three seeds. Nothing is corrected for the "
        "number of directions, and pages share runs: one difference may count on several.",
        "",
    ]
    kinds: dict[str, list[tuple[Path, str, str]]] = {kind: [] for kind in KINDS}
    for page in sorted(RESULTS.glob("*.md"), key=lambda page: page.stem):
        if page.name != "README.md":
            title, answer = page.read_text("utf-8").split("\n\n")[:2]
            kinds[_kind(page.stem, answer)].append((page, title.removeprefix("# "), answer))
    for kind, pages in kinds.items():
        if not pages:
            continue
        lines += [f"## {kind}", ""]
        if kind == OTHER:
            lines += [f"- [{page.stem}]({page.name}): {sentences([title, answer])}." for page, title, answer in pages]
        else:
            found = [outcomes(answer) for _, _, answer in pages]
            total: Counter[str] = sum(found, Counter())
            lines += [
                f"| page | what | stand-in data | {' | '.join(OUTCOME_VERBS)} |",
                f"|---|---|---|{'---:|' * len(OUTCOME_VERBS)}",
            ]
            lines += [
                f"| [{page.stem}]({page.name}) | {title} | {_stood_in(answer)} | {_counts(one)} |"
                for (page, title, answer), one in zip(pages, found, strict=True)
            ]
            lines += [f"| **together** | {total.total()} directions on {len(pages)} pages | | {_counts(total)} |"]
        lines.append("")
    (RESULTS / "README.md").write_text("\n".join(lines).rstrip("\n") + "\n", "utf-8")


def outcomes(answer: str) -> Counter[str]:
    """How many directions came out how, from the sentence that a page begins with (`headstart.report.answer`)."""
    # Pages of older versions say "not seen" of what is undecided.
    claims = CLAIMS.search(answer.replace("not seen", "undecided"))
    if claims is None:
        return Counter()
    if claims["several"] is None:
        return Counter(outcome for outcome, (one, _) in OUTCOME_VERBS.items() if claims["told"] == one)
    found = {
        outcome: re.search(rf"(\d+) (?:{one}|{several})(?:,| and | \(|$)", claims["told"])
        for outcome, (one, several) in OUTCOME_VERBS.items()
    }
    return Counter({outcome: int(number[1]) for outcome, number in found.items() if number})


def _kind(name: str, answer: str) -> str:
    if "direction" not in answer:
        return OTHER
    if name.endswith(("-small", "-paper")):
        return "Larger than tiny"
    if name.endswith("-published"):
        return "As released code trains"
    return "Open questions" if "the study asks about" in answer else "As the papers say"


def _stood_in(answer: str) -> str:
    """`yes`, `1 of 2 columns`, or a dash."""
    found = re.match(r"With stand-in data(?: in ([^:]*))?:", answer)
    return (found[1] or "yes") if found else NONE


def _counts(found: Counter[str]) -> str:
    return " | ".join(str(found[outcome] or NONE) for outcome in OUTCOME_VERBS)


def missing(scale: str, published: bool) -> list[str]:
    """Studies with scales that have no page, by their short names; what released code does otherwise if asked for."""
    names = [name for name in built_in_studies() if published or not name.endswith("-published")]
    short = [short_name(name) for name in names if read_study(name).scale]
    return [name for name in short if not (RESULTS / f"{page_name(name, scale)}.md").is_file()]


def page_name(study: str, scale: str) -> str:
    """A study's page at a scale: `coser-1`, `coser-1-published`, `coser-1-small`."""
    return short_name(study) if scale in ("tiny", "none") else f"{short_name(study)}-{scale}"


def main() -> None:
    words = argparse.ArgumentParser(description="Perform studies and publish their pages.")
    words.add_argument("--scale", default="tiny")
    words.add_argument("--store", default=None)
    words.add_argument("--data", default=None)
    words.add_argument("--workers", default="2")
    words.add_argument("--as", dest="name", default=None, help="name of the page of a single study")
    words.add_argument("--missing", action="store_true", help="all studies without a page")
    words.add_argument("--published", action="store_true", help="with --missing: also those as released code does")
    words.add_argument("given", nargs="*", help="studies, then name=value settings for all of them")
    given = words.parse_args()
    overrides = [word for word in given.given if "=" in word]
    more = [f"--{key}={value}" for key, value in (("store", given.store), ("data", given.data)) if value]
    names = [word for word in given.given if "=" not in word]
    if given.published and not given.missing:
        words.error("--published goes with --missing; otherwise name the studies")
    names += missing(given.scale, given.published) if given.missing else []
    if not names and not given.missing:
        words.error("name a study, or give --missing")
    for name in names:
        scale = [] if given.scale == "none" else [f"--scale={given.scale}"]
        done = subprocess.run(
            [sys.executable, "-m", "headstart", "run", name, *overrides, *scale, *more, f"--workers={given.workers}"],
            check=False,
        )
        if done.returncode:
            print(f"{name}: exit code {done.returncode}, no page", file=sys.stderr)
            continue
        study = Study(name, overrides, store=given.store, data=given.data, scale=given.scale if scale else None)
        print(publish(study, given.name or page_name(study.spec.name, given.scale)))
        index()


if __name__ == "__main__":
    main()
