"""The Markdown page of a report: what fits a screen first, all else below folds.

Above the folds stand the answer, the command, one figure, one table, the paper's table with ours in it and at most five
caveats, in at most `MOST_WORDS` words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from headstart import words
from headstart.report.answer import OUTCOME_VERBS
from headstart.report.claim_numbers import OF_TEST
from headstart.report.claims import OUTCOMES, TOO_SMALL, Part, Verdict, difference_text
from headstart.report.content import Content, command
from headstart.report.figures.style import Drawing
from headstart.report.tables.paper import in_layout
from headstart.report.tables.report_table import ReportTable, markdown, to_markdown
from headstart.report.tables.scores import short_pivot, short_table
from headstart.statistics import Difference
from headstart.study.paper.challenge import challenge_line

MOST_WORDS = 600
"""Above the folds."""
MOST_CAVEATS = 5
MOST_OF_CAVEAT = 80
"""Words of one above the folds, in whole sentences; all of a longer one stands below."""
LISTED_ROWS = 20
"""Rows of the table that the first screen has room for; of more, arms stand by columns."""
UNRECORDED = "unknown"
"""The version of a stage that was trained from a copy of the code that is not installed."""
TOLD_COLUMNS = 3
"""Columns of the first claim that the answer tells."""
FIRST_FIGURES = ("forest", "axis-")
"""Beginnings of the names of figures that may stand above the folds: the first of them that there are."""


def results_page(
    content: Content,
    figures: Sequence[Drawing] = (),
    undrawn: Sequence[str] = (),
    folder: str = "",
    numbers: str = "",
) -> str:
    """The page. Nothing foreign in it is read as markup.

    figures: those that stand as PNG beside the page, or where `folder` begins their links. undrawn: which are missing,
    and why. numbers: file of results beside the page, in place of study.toml.
    """
    results, setting = content.results, list(_setting(content, numbers))
    top = [f"# {markdown(results.title or results.name)}", markdown(short_answer(content))]
    top += [
        markdown(" ".join([f"{words.sentences(results.setting)}."] * bool(results.setting) + [trained_with(content)]))
    ]
    top += [markdown(challenge_line(challenge)) for challenge in content.challenges]
    top += setting[:-1]
    kinds = ([figure for figure in figures if figure.name.startswith(kind)] for kind in FIRST_FIGURES)
    first = next(filter(None, kinds), [])
    top += [text for figure in first for text in _figure(figure, folder)]
    table = short_table(results) if len(results.table) <= LISTED_ROWS else short_pivot(results)
    later: list[str] = []
    for each in (table, in_layout(results)):
        if each is not None:
            (top if _fits([*top, _table(each)]) else later).append(_table(each))
    caveats = [str(caveat) for caveat in results.caveats]
    short = [_first_sentences(caveat) for caveat in caveats[:MOST_CAVEATS]]
    number = max(k for k in range(len(short) + 1) if k == 0 or _fits([*top, *short[:k]]))
    if number:
        top += ["## What to keep in mind", _bullets(short[:number])]
    rest = [caveat for k, caveat in enumerate(caveats) if k >= number or short[k] != caveat]
    folds = [
        ("All of the table", [*later, *map(_table, filter(None, [content.pivot, content.table]))]),
        (content.claims_heading, list(_claims(content))),
        ("Beside the paper, cell by cell", [*map(_table, filter(None, [content.beside]))]),
    ]
    for more in content.more.values():
        titled = replace(more, title=words.sentences(results.setting))
        folds.append((more.title, [_table(titled)]))
    folds += [(figure.title, _figure(figure, folder)) for figure in figures if figure not in first]
    folds += [("Figures that are not here", [markdown(reason) for reason in undrawn])]
    folds += [("More to keep in mind", [_bullets(rest)] if rest else [])]
    folds += [("Data and methods", [setting[-1], markdown(content.answer), markdown(content.methods)])]
    folds += [("Cost and provenance", [_cost(content), *_provenance(content)])]
    return "\n\n".join([*top, *(_fold(title, parts) for title, parts in folds if parts)]) + "\n"


def _fits(parts: Sequence[str]) -> bool:
    """Whether these stand above the folds together, with the headings that there may be."""
    return words_of("\n".join(parts)) <= MOST_WORDS - 20


def _first_sentences(text: str) -> str:
    """The sentences that the first screen has room for, the first of them always."""
    sentences = re.split(r"(?<=\.) (?=[A-Z])", text)
    fitting = [k for k in range(1, len(sentences) + 1) if words_of(" ".join(sentences[:k])) <= MOST_OF_CAVEAT]
    return " ".join(sentences[: max(fitting, default=1)])


def words_of(text: str) -> int:
    """Words of a text, numbers among them; marks of Markdown are none."""
    return len(re.findall(r"[^\s|`*#\\-]*\w[^\s|]*", text))


def short_answer(content: Content) -> str:
    """The first claim that was checked with its outcome, if there is one of test scores; without claims all."""
    checked = [verdict for verdict in content.verdicts if any(part.difference for part in verdict.parts)]
    checked.sort(key=lambda verdict: verdict.claim.quantity not in OF_TEST)
    if not checked:
        return content.answer
    so_far = content.answer.partition(": ")[0] + ": " if content.answer.startswith("So far") else ""
    rest = [part for verdict in content.verdicts if verdict is not checked[0] for part in verdict.parts]
    stand = "stands" if len(rest) == 1 else "stand"
    gone = sum(part.outcome == "withdrawn" for part in rest)
    of_these = f"; {gone} {OUTCOME_VERBS['withdrawn'][gone != 1]}, since {TOO_SMALL}" if gone else ""
    more = f" {words.many(len(rest), 'more outcome')} of claims {stand} below{of_these}." if rest else ""
    return f"{so_far}{_verdict_text(checked[0])}{more}"


def _verdict_text(verdict: Verdict) -> str:
    """`Claim: Self-pretraining beats training from scratch. Outcome: holds on image (+0.070 [0.055, 0.084], n 6).`"""
    outcomes = []
    for outcome in OUTCOMES:
        parts = [part for part in verdict.parts if part.outcome == outcome and part.difference is not None]
        each = []
        for part in parts[:TOLD_COLUMNS]:
            assert part.difference is not None, "only those are kept"
            numbers = [difference_text(verdict.claim, part.difference) + _over(verdict, part.difference)]
            numbers += [f"n {part.difference.n}", part.standing, _doubt(verdict, part)]
            each.append(f"{part.column} ({', '.join(filter(None, numbers))})")
        if each:
            more = [f"{len(parts) - TOLD_COLUMNS} more"] if len(parts) > TOLD_COLUMNS else []
            why = f", since {TOO_SMALL}" if outcome == "withdrawn" else ""
            outcomes.append(f"{outcome} on {words.listed([*each, *more])}{why}")
    return f"Claim: {verdict.claim.says.rstrip('.')}. Outcome: {'; '.join(outcomes)}."


def _over(verdict: Verdict, gap: Difference) -> str:
    """` over 0.9` behind what a score is more than a number; of one that is the same at all seeds the score stands."""
    claim = verdict.claim
    return f" over {claim.than:g}" if claim.fixed and claim.than and not (gap.level and not gap.constant) else ""


def _doubt(verdict: Verdict, part: Part) -> str:
    """Why an interval without 0 leaves a claim undecided."""
    if part.outcome != "undecided" or part.difference is None or not part.difference.clear:
        return ""
    if verdict.claim.within is not None:
        return f"reaches beyond ±{verdict.claim.within:g}"
    return "not clear among all verdicts of this page" if part.uncorrected else ""


def _figure(figure: Drawing, folder: str) -> list[str]:
    caption = markdown(figure.caption)
    return [f"![{caption}]({folder}{figure.file})"]


def _table(table: ReportTable) -> str:
    return to_markdown(table).rstrip()


def _fold(title: str, parts: Sequence[str]) -> str:
    """Markdown that a click opens; `markdown` has the site read what is inside."""
    return "\n\n".join([f'<details markdown="1"><summary>{markdown(title)}</summary>', *parts, "</details>"])


def _setting(content: Content, numbers: str) -> Iterator[str]:
    """The command (that of the page alone, where none of a built-in study makes the results again), the data that it
    read, the scale with what it changes, and what stood in for absent data."""
    results = content.results
    again = command(content.plan)
    if numbers and "study.toml" in again:
        yield markdown(
            f"These settings are not those of a built-in study. They stand in {numbers} beside this page, and this "
            "command makes the page again:"
        )
        again = f"headstart report --from {numbers} -o {numbers.removesuffix('.json')}.md"
    yield f"```\n{again}\n```"
    texts = [_data(content)]
    if results.scale:
        note = f": {results.scale_note.rstrip('.')}" if results.scale_note else ""
        texts.append(f"{results.scale_text}{note}.")
    if results.stood_in:
        texts.append(
            f"Stand-in data: {results.stood_in}. No score that rests on them can be held against one on the data meant."
        )
    yield markdown(" ".join(texts))


def _data(content: Content) -> str:
    """`Data read: mnist; generated or bundled: pairs.`: what the data folder held, without which numbers are others."""
    read: dict[str, None] = {}
    generated: dict[str, None] = {}
    for cell in content.plan.cells:
        stand_ins = content.plan.study.stood_in.get(cell.column, {})
        for planned in cell.chain:
            task = planned.spec.task
            if task is not None and not task.generated:
                read[task.kind] = None
            elif task is not None and planned.name not in stand_ins:
                generated[task.kind] = None
    rest = f"; generated or bundled: {words.listed(list(generated))}" if generated else ""
    return f"Data read: {words.listed(list(read)) or 'none'}{rest}."


def _claims(content: Content) -> Iterator[str]:
    if not content.verdicts:
        return
    if content.claims_source:
        yield markdown(content.claims_source)
    yield markdown(content.claims_note)
    yield _bullets(content.verdicts)


def _bullets(items: Iterable[object]) -> str:
    return "\n".join(f"- {markdown(str(item))}" for item in items)


def _cost(content: Content) -> str:
    """By stage: how many are distinct, how many are finished, and what these cost; then all together."""
    names: dict[str, list[str]] = {}
    for identity, planned in content.plan.every_stage.items():
        names.setdefault(markdown(planned.name), []).append(identity)
    order = [*map(markdown, content.plan.study.stages), *names]
    names = {name: names[name] for name in order if name in names}
    lines = ["| stage | distinct | finished | training FLOP | time |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, identities in [*names.items(), ("all", list(content.plan.every_stage))]:
        budgets = [content.finished[i].get("budget", {}) for i in identities if i in content.finished]
        flops, seconds = (sum(float(budget.get(key) or 0) for budget in budgets) for key in ("flops", "seconds"))
        cost = f"{words.measure(flops, 'FLOP')} | {words.duration(seconds)}"
        lines.append(f"| {name} | {len(identities)} | {len(budgets)} | {cost} |")
    lines += ["", "Time covers training and its evaluations, summed over stages, which may have run side by side."]
    return "\n".join(lines)


def trained_with(content: Content) -> str:
    """`Trained with headstart 0.1.0 (commit not recorded).`: every version that trained a stage."""
    runs = [result.get("provenance", {}).get("versions", {}) for result in content.finished.values()]
    texts = dict.fromkeys(_version(str(run.get("headstart", UNRECORDED))) for run in runs)
    return f"Trained with {words.listed(sorted(texts))}." if texts else "No stage is trained yet."


def _version(text: str) -> str:
    if text in ("", UNRECORDED):
        return "a version of headstart that was not recorded"
    return f"headstart {text}" if "commit" in text else f"headstart {text} (commit not recorded)"


def _provenance(content: Content) -> Iterator[str]:
    """When and on what the stages ran: every value that occurs."""
    runs = [result.get("provenance", {}) for result in content.finished.values()]
    if not runs:
        return
    days = sorted({str(run["started"])[:10] for run in runs if run.get("started")})
    lines = [f"Begun: {' to '.join(dict.fromkeys((days[0], days[-1])))}"] if days else []
    for name in ("machine", "device", "threads", "way", "precision"):
        values = dict.fromkeys(words.plain(run[name]) for run in runs if name in run)
        lines += [f"{name.capitalize()}: {words.listed(list(values))}"] if values else []
    versions = dict.fromkeys(f"{name} {version}" for run in runs for name, version in run.get("versions", {}).items())
    lines += [f"Versions: {', '.join(versions)}"] if versions else []
    yield _bullets([*lines, *_parts(content)])


def _parts(content: Content) -> list[str]:
    """Which seeds, and of which arms, ran on which machine and when, where that is not the same of all."""
    ran: dict[tuple[str, int], list[tuple[str, str]]] = {}
    for cell in content.plan.cells:
        provenance = content.finished.get(cell.chain[-1].identity, {}).get("provenance", {})
        torch = provenance.get("versions", {}).get("torch")
        names = [str(provenance[name]) for name in ("machine", "device") if name in provenance]
        machine = ", ".join([*names, *([f"torch {torch}"] if torch else [])])
        if machine:
            ran.setdefault((machine, cell.seed), []).append((cell.arm, str(provenance.get("started", ""))[:10]))
    groups: dict[tuple[str, str], list[str]] = {}
    for (machine, seed), runs in ran.items():
        arms, days = ({run[i] for run in runs} for i in (0, 1))
        who = "" if arms == {*content.results.arms} else f" of {words.listed(sorted(arms))}"
        when = " to ".join(dict.fromkeys((min(days), max(days))))
        groups.setdefault((who, f"{machine}, begun {when}"), []).append(str(seed))
    lines = [
        f"Seed{'s' * (len(seeds) > 1)} {words.listed(seeds)}{who}: {where}" for (who, where), seeds in groups.items()
    ]
    return lines if len(lines) > 1 else []
