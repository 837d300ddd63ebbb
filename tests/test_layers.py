"""A module imports only the layers below it, and its siblings."""

import ast
from pathlib import Path

import headstart

ROOT = Path(headstart.__file__).parent
LAYERS: dict[str, int] = {
    "errors": 0,
    "guard": 0,
    "seeds": 0,
    "sequence": 0,
    "spec": 0,
    "store": 0,
    "data": 1,
    "tasks": 2,
    "models": 2,
    "baselines": 2,
    "parameters": 3,
    "objectives": 3,
    "initial": 3,
    "training": 4,
    "stage": 5,
    "runner": 5,
    "study": 6,
    "analysis": 6,
    "serve": 6,
    "report": 7,
    "bench": 7,
    "fit": 7,
    "api": 8,
    "__main__": 8,
    "verbs": 8,
    "cli": 8,
    "estimator": 8,
    "": 8,
}


def _part(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


def _imported(path: Path) -> list[str]:
    """Parts that a file imports, late imports and those for types included."""
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
        found += [n.split(".")[1] if "." in n else "" for n in names if n.split(".")[0] == "headstart"]
    return found


def test_every_file_has_its_layer() -> None:
    assert {_part(path) for path in ROOT.rglob("*.py")} <= set(LAYERS)


def test_no_file_imports_a_layer_above_it() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name or 'headstart'}"
        for path in ROOT.rglob("*.py")
        for name in _imported(path)
        if LAYERS[name] > LAYERS[_part(path)]
    ]
    assert not wrong


def test_tasks_and_models_do_not_import_each_other() -> None:
    for path in (ROOT / "tasks").rglob("*.py"):
        assert "models" not in _imported(path), path
    for path in (ROOT / "models").rglob("*.py"):
        assert "tasks" not in _imported(path), path


def test_nothing_prints_or_warns_outside_the_command_line() -> None:
    for path in ROOT.rglob("*.py"):
        if _part(path) in ("cli", "verbs"):
            continue
        calls = [
            n.func.id
            for n in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        ]
        assert "print" not in calls, path
