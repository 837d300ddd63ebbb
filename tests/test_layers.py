"""A module imports only the layers below it, and its siblings."""

import ast
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

import headstart

ROOT, TESTS = Path(headstart.__file__).parent, Path(__file__).parent
LAYERS: dict[str, int] = {
    "documents": 0,
    "errors": 0,
    "late": 0,
    "atomic": 0,
    "disk": 0,
    "statistics": 0,
    "words": 0,
    "guard": 0,
    "limits": 0,
    "seeds": 0,
    "sequence": 0,
    "spec": 0,
    "store": 0,
    "text": 0,
    "ways": 0,
    "data": 1,
    "tasks": 2,
    "models": 2,
    "baselines": 2,
    "checkpoints": 2,
    "parameters": 3,
    "objectives": 3,
    "initial": 3,
    "training": 4,
    "kinds": 4,
    "normal": 0,
    "plugins": 4,
    "stage": 5,
    "runner": 5,
    "study": 6,
    "analysis": 6,
    "core": 6,
    "serve": 6,
    "report": 7,
    "tracking": 7,
    "bench": 7,
    "fitted": 7,
    "request": 7,
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


@dataclass
class SourceFile:
    """What the tests ask of a file, which is parsed once."""

    imports: list[ast.Import | ast.ImportFrom] = field(default_factory=list)
    """Late ones and those for types included."""
    calls: set[str] = field(default_factory=set)
    """Functions that it calls by their name alone."""
    names: set[str] = field(default_factory=set)
    """Of locals, parameters and functions."""
    homes: set[str] = field(default_factory=set)
    """Constants and types that it defines, but type variables, which each module that is generic has."""


@cache
def source_file(path: Path) -> SourceFile:
    tree, out = ast.parse(path.read_text("utf-8")), SourceFile()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            out.imports.append(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            out.calls.add(node.func.id)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            out.names.add(node.id)
        elif isinstance(node, ast.arg):
            out.names.add(node.arg)
        elif isinstance(node, ast.FunctionDef) and (name := node.name.removeprefix("_")) != "place":  # a verb
            out.names.add(name)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            out.homes.add(node.name)
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            inner = [n for target in targets for n in (target.elts if isinstance(target, ast.Tuple) else [target])]
            variable = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "TypeVar"
            out.homes |= {n.id for n in inner if isinstance(n, ast.Name) and not variable}
    return out


def _imported(path: Path) -> list[str]:
    """Parts that a file imports."""
    parts = []
    for node in source_file(path).imports:
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "headstart":  # a room that is a file: `from headstart import words`
                names = [f"headstart.{alias.name}" for alias in node.names if alias.name in LAYERS] or names
        parts += [n.split(".")[1] if "." in n else "" for n in names if n.split(".")[0] == "headstart"]
    return parts


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


def test_models_are_tied_to_checkpoints_by_their_table_alone() -> None:
    for path in (ROOT / "models").rglob("*.py"):
        assert not {"checkpoints", "baselines"} & set(_imported(path)), path


FLOORS = ("language", "results", "paper")
"""Of `study/`, from below: what a study says, what it found, what may be said of that."""


def test_no_file_of_a_study_imports_a_floor_above_its_own() -> None:
    wrong = []
    for path in (ROOT / "study").rglob("*.py"):
        parts = path.relative_to(ROOT / "study").parts
        if len(parts) == 1:
            assert path.name == "__init__.py", f"{path} stands on no floor"
            continue
        for name in modules_imported(path):
            floor = name.split(".")[2] if name.startswith("headstart.study.") else parts[0]
            if FLOORS.index(floor) > FLOORS.index(parts[0]):
                wrong.append(f"{'/'.join(parts)} imports {name}")
    assert not wrong


def test_nothing_prints_or_warns_outside_the_command_line() -> None:
    for path in ROOT.rglob("*.py"):
        if _part(path) in ("cli", "verbs"):
            continue
        assert "print" not in source_file(path).calls, path


MODULES = {
    ".".join(["headstart", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__"): path
    for path in ROOT.rglob("*.py")
}


def modules_imported(path: Path) -> set[str]:
    """Modules that a file names in an import."""
    names: set[str] = set()
    for node in source_file(path).imports:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        else:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in MODULES else str(node.module) for name in inner}
    return names & set(MODULES)


def _circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """Groups of modules of which each reaches each."""
    reached = {}
    for start in graph:
        open_, seen = [start], set[str]()
        while open_:
            new = graph[open_.pop()] - seen
            seen |= new
            open_ += new
        reached[start] = seen
    return {frozenset({a, *(b for b in reached[a] if a in reached[b])}) for a in graph if a in reached[a]}


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {name: modules_imported(path) - {name} for name, path in MODULES.items()}
    assert not _circles(graph)


def test_circles_are_found_whatever_leads_into_them() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a", "c"}, "e": set[str]()}
    assert _circles(graph) == {frozenset({"b", "c"})}


NO_NOUNS = {"found", "given", "said", "told", "one", "place", "kept", "known"}
"""Names that no local, parameter, function or file has: it is called after what it is."""


@pytest.mark.parametrize("root", [ROOT, TESTS, TESTS.parent / "benchmarks"], ids=["package", "tests", "benchmarks"])
def test_names_are_nouns_of_the_field(root: Path) -> None:
    files = {path: source_file(path).names & NO_NOUNS for path in root.rglob("*.py")}
    assert not {path.name: names for path, names in files.items() if names}
    assert not [path for path in files if path.stem in NO_NOUNS]


LONGEST_FILE = 500
"""Lines that a file has at most: a file is cut where its idea ends, not for a number."""


def test_no_file_is_longer_than_500_lines() -> None:
    lines = {name: len(path.read_text("utf-8").splitlines()) for name, path in MODULES.items()}
    assert not {name: count for name, count in lines.items() if count > LONGEST_FILE}


def test_no_two_test_files_have_one_name() -> None:
    """pytest imports a test file by its name alone, where its folder is no package: the second of a name is not run."""
    names = Counter(path.name for path in TESTS.rglob("test_*.py"))
    assert not [name for name, count in names.items() if count > 1]


MEASURING = 5_500
"""Lines of `benchmarks/` at most: a script whose question is answered goes, and its page says at which commit it stood."""


def test_the_scripts_that_measure_stay_few() -> None:
    scripts = (TESTS.parent / "benchmarks").glob("*.py")
    assert sum(len(path.read_text("utf-8").splitlines()) for path in scripts) <= MEASURING


FIT_LINES = 3200
"""Lines of `fit/` at most: it plans, trains, chooses and serves; what is shown of that stands in `fitted/`."""


def test_fit_stays_small_enough_to_be_read_in_an_hour() -> None:
    lines = [len(path.read_text("utf-8").splitlines()) for path in (ROOT / "fit").rglob("*.py")]
    assert sum(lines) <= FIT_LINES


def test_a_constant_that_says_most_says_most_of_what() -> None:
    bare = [str(path) for path in ROOT.rglob("*.py") if re.search(r"^(\w+, )*MOST\b", path.read_text(), re.MULTILINE)]
    assert not bare, "give it a noun, as in MOST_ROWS"


def _homes() -> dict[str, list[str]]:
    """Constants and types of all modules, by name: where each is defined. Names of one module's own are left out."""
    homes: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for name in source_file(path).homes:
            if name[0].isupper():
                homes.setdefault(name, []).append(module)
    return homes


HANDED_ON = {"CONFIG_FILE", "WEIGHTS_FILE"}
"""Names of the files of a model, which `serve` has from its door, `headstart.core`."""


def test_a_constant_or_a_type_has_one_home() -> None:
    assert not {n: modules for n, modules in _homes().items() if len(modules) > 1 and n not in HANDED_ON}
