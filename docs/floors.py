"""Draws the rooms of the package on their floors, from the imports in the code: `python docs/floors.py`.

`python docs/floors.py core` says which rooms the door of that name stands on, with the lines of the modules that it
needs; `data` the same of the other door.

A room is a folder or a file of `src/headstart`; each of the three floors of `study/` is one. A room stands one floor
above the highest room that it imports. Arrows that follow from others are left out: of a -> b, b -> c and a -> c the
last.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "headstart"
PICTURE = Path(__file__).parent / "images" / "floors.svg"
DOORS = ("", "__main__", "cli", "api")
"""Rooms that only gather what is below them: what Python and the command line open."""
WIDTH, ROW, HEIGHT, GAP = 640, 62, 34, 12
"""Of the picture, of a floor, of a room, and between rooms, in pixels."""

Graph = Mapping[str, set[str]]


def room_of(module: str) -> str:
    """The room of a module, by its name without `headstart.`: `study/results`, `models`, `spec`."""
    parts = module.split(".")
    return "/".join(parts[:2]) if parts[0] == "study" and len(parts) > 1 else parts[0]


def modules() -> Iterator[tuple[str, Path]]:
    """(name without `headstart.`, file) of every module."""
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        yield ".".join(parts).removesuffix(".__init__").replace("__init__", ""), path


def graph() -> dict[str, set[str]]:
    """Room -> the rooms that it imports, late imports and those for types included."""
    names = dict(modules())
    out: dict[str, set[str]] = {room_of(name): set() for name in names}
    for name, path in names.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            imported: list[str] = []
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "headstart":
                head = str(node.module).partition(".")[2]
                inner = [f"{head}.{alias.name}".strip(".") for alias in node.names]
                imported = [item if item in names else head for item in inner]
            elif isinstance(node, ast.Import):
                imported = [a.name.partition(".")[2] for a in node.names if a.name.split(".")[0] == "headstart"]
            out[room_of(name)] |= {room_of(item) for item in imported} - {room_of(name)}
    return {room: others for room, others in out.items() if room != "study"}


def floors(rooms: Graph) -> dict[str, int]:
    """Room -> its floor, 0 the lowest. Raises: ValueError where rooms import each other in a circle."""
    heights: dict[str, int] = {}

    def height(room: str, above: tuple[str, ...] = ()) -> int:
        if room in above:
            raise ValueError(f"a circle: {' -> '.join((*above, room))}")
        if room not in heights:
            heights[room] = max((1 + height(other, (*above, room)) for other in rooms[room] & set(rooms)), default=0)
        return heights[room]

    for room in rooms:
        height(room)
    return heights


def reduced(rooms: Graph) -> set[tuple[str, str]]:
    """The arrows that do not follow from others."""

    def reach(room: str) -> set[str]:
        seen: set[str] = set()
        open_ = list(rooms[room])
        while open_:
            if (other := open_.pop()) not in seen and other in rooms:
                seen.add(other)
                open_ += rooms[other]
        return seen

    below = {room: reach(room) for room in rooms}
    return {
        (a, b) for a in rooms for b in rooms[a] & set(rooms) if not any(b in below[c] for c in rooms[a] if c in below)
    }


def lines() -> dict[str, int]:
    """Lines of Python of each room."""
    out: dict[str, int] = {}
    for name, path in modules():
        out[room_of(name)] = out.get(room_of(name), 0) + len(path.read_text("utf-8").splitlines())
    return out


def needed(door: str) -> dict[str, int]:
    """Room -> lines of its modules that a door needs: the homes of its names, and what these import, late imports too.

    Imports for types alone do not count, nor does what a table names in a text (`MIXERS`, `MODELS`, ...).
    """
    files = dict(modules())
    table = next(
        node.value
        for node in ast.walk(ast.parse(files[door].read_text("utf-8")))
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_HOMES"
    )
    waiting, seen = list(ast.literal_eval(table).values()), set[str]()
    while waiting:
        if (name := waiting.pop()) in seen or name not in files:
            continue
        seen.add(name)
        waiting += [".".join(name.split(".")[:i]) for i in range(1, name.count(".") + 1)]
        tree = ast.parse(files[name].read_text("utf-8"))
        types = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
            for part in node.body
            for inner in ast.walk(part)
        }
        for node in ast.walk(tree):
            ours = isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "headstart"
            if isinstance(node, ast.ImportFrom) and ours and id(node) not in types:
                head = str(node.module).partition(".")[2]
                inner = [f"{head}.{alias.name}".strip(".") for alias in node.names]
                waiting += [item if item in files else head for item in inner]
    out: dict[str, int] = {}
    for name in seen - {""}:
        out[room_of(name)] = out.get(room_of(name), 0) + len(files[name].read_text("utf-8").splitlines())
    return dict(sorted(out.items(), key=lambda item: -item[1]))


def picture() -> str:
    """The drawing as SVG, in the colours of the page that it is on."""
    rooms = {room: others for room, others in graph().items() if room not in DOORS}
    heights, counts = floors(rooms), lines()
    rows = [sorted(room for room in rooms if heights[room] == floor) for floor in range(max(heights.values()) + 1)]
    middle: dict[str, tuple[float, float]] = {}
    boxes = []
    for floor, row in enumerate(reversed(rows)):
        if middle:
            above = {room: [middle[a][0] for a in middle if room in rooms[a]] or [WIDTH / 2] for room in row}
            row = sorted(row, key=lambda room: sum(above[room]) / len(above[room]))
        widths = [8 * max(len(room), 5) + 22 for room in row]
        space = (WIDTH - sum(widths) - GAP * (len(row) - 1)) / 2
        for room, width in zip(row, widths, strict=True):
            top = 10 + floor * ROW
            middle[room] = space + width / 2, top
            boxes.append(
                f'<rect x="{space:.0f}" y="{top}" width="{width}" height="{HEIGHT}" rx="4"/>'
                f'<text x="{middle[room][0]:.0f}" y="{top + 15}">{room}</text>'
                f'<text class="small" x="{middle[room][0]:.0f}" y="{top + 28}">{counts[room]:,}</text>'
            )
            space += width + GAP
    arrows = []
    for a, b in sorted(reduced(rooms)):
        (x, y), (z, w) = middle[a], middle[b]
        y += HEIGHT
        arrows.append(f'<path d="M{x:.0f} {y} C{x:.0f} {y + 24} {z:.0f} {w - 24} {z:.0f} {w}"/>')
    style = (
        "text{font:12px sans-serif;text-anchor:middle;fill:#888}.small{font-size:10px}"
        "rect{fill:none;stroke:#888}path{fill:none;stroke:#888;stroke-opacity:.35}"
    )
    height = 10 + ROW * len(rows)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"><style>{style}</style>\n'
        + "\n".join([*arrows, *boxes])
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        below = needed(sys.argv[1])
        rooms = ", ".join(f"{room} {count:,}" for room, count in below.items())
        sys.stdout.write(f"{sum(below.values()):,} lines: {rooms}\n")
    else:
        PICTURE.write_text(picture(), "utf-8")
