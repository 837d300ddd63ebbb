"""Test scores by slice: by length, number of pairs and the like, of tasks that tell them apart."""

from __future__ import annotations

from headstart import words
from headstart.report.tables.report_table import ReportTable, TableCell, TableLine, score_name, table_of
from headstart.study.results.results import Results


def slice_tables(results: Results) -> dict[str, ReportTable]:
    """A table for each property, by `slices-PROPERTY`: arms by its values, in rising order."""
    rows = [row for row in results.table if row.slices]
    names = dict.fromkeys(name.partition("=")[0] for row in rows for name in row.slices)
    out = {}
    for name in names:
        values = sorted(
            {int(part.partition("=")[2]) for row in rows for part in row.slices if part.startswith(f"{name}=")}
        )
        heads = {"column": ("column", False)} if len(results.columns) > 1 else {}
        heads |= {"arm": ("arm", False), **{f"{name}={value}": (str(value), True) for value in values}}
        lines = []
        for row in rows:
            cells = {
                "column": TableCell(results.label(row.column), {"column": row.column}),
                "arm": TableCell(row.arm, {"arm": row.arm}),
            }
            for part in (f"{name}={value}" for value in values):
                score = row.slices.get(part)
                cells[part] = TableCell(words.plus_minus(score), {part: score.mean if score else None})
            lines.append(TableLine("arm", cells, row.status, row.key))
        title = f"Test {score_name(row.metric for row in rows)} by {name.removesuffix(' from')}"
        note = f"Mean ± standard error over {results.run_noun}s, of what is asked in each part of the test set."
        out[f"slices-{name.replace(' ', '-')}"] = table_of(title, heads, lines, note)
    return out
