"""Draws the forms that files of sequences have, for the page *which form is my file in?*: `python docs/forms.py`.

Each picture is a few cells of a table, or names of files, in colours that can be read on a light and on a dark page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent / "images" / "forms"
ROLES = {"id": "#2e9e5b", "label": "#d1741c", "time": "#9a6ac9", "group": "#b8892b", "values": "#3d8bd4", "": "#888"}
"""Colours of what a cell is: an id, a label, a time, a group, a value, or none of these."""
LETTER, LINE, PAD, LEFT = 7.3, 21, 8, 1
"""Width of a letter, height of a line, room beside a text and at the left edge, in pixels."""

Cell = tuple[str, str]
"""(role, text)."""


def row(*cells: str) -> list[Cell]:
    """Cells written as `role:text`; a text alone has no role."""
    parts = [cell.partition(":") for cell in cells]
    return [(role, text) if role in ROLES and mark else ("", f"{role}{mark}{text}") for role, mark, text in parts]


FORMS: dict[str, tuple[Sequence[Sequence[Cell]], ...]] = {
    "legend": (
        [row("values:values, the sequence itself", "label:label", "id:id", "time:time", "group:group, a person")],
    ),
    "wide": (
        [
            row("id:id", "label:state", "values:t0", "values:t1", "values:t2", "values:…"),
            row("id:r0", "label:sound", "values:0.27", "values:-0.05", "values:-0.75", "values:…"),
            row("id:r1", "label:worn", "values:1.05", "values:0.41", "values:0.62", "values:…"),
        ],
    ),
    "cell": (
        [
            row("id:id", "label:state", "values:signal"),
            row("id:r0", "label:sound", "values:[0.27, -0.05, -0.75, …]"),
            row("id:r1", "label:worn", "values:[1.05, 0.41]"),
        ],
        [
            row("label:topic", "values:text"),
            row("label:praise", "values:It runs, and quietly."),
            row("label:fault", "values:Does not start."),
        ],
    ),
    "long": (
        [
            row("id:id", "time:time", "values:x", "values:y", "label:state"),
            row("id:r0", "time:0.00", "values:0.27", "values:5.1", "label:sound"),
            row("id:r0", "time:0.05", "values:-0.05", "values:5.0", "label:sound"),
            row("id:…", "time:…", "values:…", "values:…", "label:…"),
            row("id:r1", "time:0.00", "values:1.05", "values:4.8", "label:worn"),
        ],
    ),
    "trials": (
        [
            row("group:person", "id:trial", "values:x", "values:y", "label:state"),
            row("group:p1", "id:1", "values:0.27", "values:5.1", "label:walk"),
            row("group:p1", "id:1", "values:-0.05", "values:5.0", "label:walk"),
            row("group:…", "id:…", "values:…", "values:…", "label:…"),
            row("group:p2", "id:1", "values:1.05", "values:4.8", "label:run"),
        ],
    ),
    "columns": (
        [
            row("time:time", "label:sound_1", "label:sound_2", "label:worn_1", "label:…"),
            row("time:0.00", "values:0.27", "values:0.31", "values:1.05", "values:…"),
            row("time:0.05", "values:-0.05", "values:0.02", "values:0.41", "values:…"),
            row("time:…", "values:…", "values:…", "values:…", "values:…"),
        ],
    ),
    "runs": (
        [
            row("Run 1: Time", "Run 1: Force", "Run 2: Time", "Run 2: Force", "…"),
            row("time:0.00", "values:0.27", "time:0.00", "values:1.05", "…"),
            row("time:0.05", "values:-0.05", "time:0.05", "values:0.41", "…"),
            row("time:…", "values:…", "", "", "…"),
        ],
        [
            row("labels.csv", ""),
            row("id:run", "label:state"),
            row("id:Run 1", "label:sound"),
            row("id:Run 2", "label:worn"),
        ],
    ),
    "classes": (
        [
            row("pumps/"),
            row("  label:sound/"),
            row("    id:r0.csv", "values:~"),
            row("    id:r1.csv", "values:~"),
            row("  label:worn/"),
            row("    id:r2.csv", "values:~"),
        ],
        [
            row("time:time", "values:x", "values:y"),
            row("time:0.00", "values:0.27", "values:5.1"),
            row("time:0.05", "values:-0.05", "values:5.0"),
            row("time:…", "values:…", "values:…"),
        ],
    ),
    "beside": (
        [
            row("records/"),
            row("  labels.csv"),
            row("  id:r0.csv", "values:~"),
            row("  id:r1.csv", "values:~"),
            row("  id:r2.csv", "values:~"),
        ],
        [
            row("id:file", "label:state", "group:pump"),
            row("id:r0.csv", "label:sound", "group:A"),
            row("id:r1.csv", "label:sound", "group:B"),
            row("id:r2.csv", "label:worn", "group:C"),
        ],
    ),
    "names": (
        [
            row("calls/"),
            row("  id:ann_yes_1.wav", "values:~"),
            row("  id:ann_no_1.wav", "values:~"),
            row("  id:bob_yes_1.wav", "values:~"),
        ],
        [row("group:ann", "_", "label:yes", "_", "1", ".wav")],
    ),
    "windows": (
        [
            row("walks/"),
            row("  id:person00.csv", "values:~~~"),
            row("  id:person01.csv", "values:~~~"),
        ],
        [
            row("time:time_s", "values:across", "values:along", "label:activity"),
            row("time:0.00", "values:0.02", "values:0.31", "label:sit"),
            row("time:…", "values:…", "values:…", "label:…"),
            row("time:7.05", "values:0.58", "values:0.27", "label:walk"),
        ],
    ),
    "signals": (
        [
            row("nights/"),
            row("  label:well/"),
            row("    id:n1.edf", "values:~~"),
            row("  label:ill/"),
            row("    id:n2.edf", "values:~~"),
        ],
        [
            row("sheet 'Export'"),
            row("id:id", "label:state", "values:t0", "values:t1", "values:…"),
            row("id:r0", "label:sound", "values:0.27", "values:-0.05", "values:…"),
        ],
    ),
    "letters": (
        [
            row("id:>s1", "label:bound"),
            row("values:ACGTTGACCTAGGA…"),
            row("id:>s2", "label:free"),
            row("values:TTGACAGGCTAATC…"),
        ],
        [row("texts/"), row("  label:praise/"), row("    id:a.txt"), row("  label:fault/"), row("    id:b.txt")],
    ),
    "arrays": (
        [
            row("values:X", "(n, positions)"),
            row("", "(n, positions, channels)"),
            row("label:y", "(n,)"),
            row("group:groups", "(n,)"),
        ],
    ),
    "records": (
        [
            row("["),
            row("{", 'id:"id": "r0"', 'label:"state": "worn"', 'values:"signal": [0.27, -0.05, …]', "},"),
            row("{", 'id:"id": "r1"', 'label:"state": "sound"', 'values:"signal": [1.05, 0.41, …]', "}, …"),
            row("]"),
        ],
    ),
}
"""Tables side by side by the name of the picture; a first cell that begins with blanks stands in a folder."""


def wave(left: float, top: float, width: float, colour: str) -> str:
    """A small curve."""
    points = [(left + i, top + 11 - 6 * math.sin(i / 4) * math.cos(i / 23)) for i in range(0, int(width), 2)]
    return f'<path stroke="{colour}" d="M{" ".join(f"{x:.0f} {y:.1f}" for x, y in points)}"/>'


def drawn(table: Sequence[Sequence[Cell]], left: float) -> tuple[list[str], float]:
    """(elements, width) of a table from `left` on."""
    tree = table[0][0][1].endswith("/")
    cells = [[(role or _role(text)[0], _role(text)[1]) for role, text in line] for line in table]
    alike = not tree and len({len(line) for line in cells}) == 1
    columns = max(map(len, cells))
    widths = [max((_width(line[k][1]) for line in cells if k < len(line)), default=0) for k in range(columns)]
    out, most = [], 0.0
    for i, line in enumerate(cells):
        x, y = left, LEFT + i * LINE
        for k, (role, text) in enumerate(line):
            width = widths[k] if alike or tree else _width(text)
            colour = ROLES[role]
            if not tree:
                shade = f' fill="{colour}" fill-opacity=".13"' if role else ""
                out.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{LINE}"{shade}/>')
            if set(text.strip()) == {"~"}:
                out.append(wave(x + PAD, y, 44 * len(text.strip()), colour))
                width = PAD + 44 * len(text.strip())
            else:
                inset = LETTER * (len(text) - len(text.lstrip()))
                bold = ' font-weight="bold"' if i == 0 and alike and len(cells) > 1 else ""
                place = f'x="{x + PAD + inset:.1f}" y="{y + 15}"'
                out.append(f'<text {place} fill="{colour}"{bold}>{escape(text.strip())}</text>')
            x += width
        most = max(most, x - left)
    return out, most


def _role(text: str) -> Cell:
    """Role and text of `  id:r0.csv`, which stands in a folder; (none, text) of others."""
    head, mark, rest = text.partition(":")
    blanks = len(head) - len(head.lstrip())
    return (head.strip(), " " * blanks + rest) if blanks and mark else ("", text)


def _width(text: str) -> float:
    return 2 * PAD + LETTER * len(text)


def picture(name: str) -> str:
    """One form as SVG."""
    parts: list[str] = []
    left = float(LEFT)
    for table in FORMS[name]:
        elements, width = drawn(table, left)
        parts += elements
        left += width + 28
    height = 2 * LEFT + LINE * max(map(len, FORMS[name]))
    width = left - 28 + LEFT
    style = (
        "text{font:12px ui-monospace,monospace}rect:not([fill]){fill:none}rect{stroke:#888;stroke-opacity:.4}"
        "path{fill:none}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}"><style>{style}</style>\n' + "\n".join(parts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in FORMS:
        (FOLDER / f"{name}.svg").write_text(picture(name), "utf-8")
