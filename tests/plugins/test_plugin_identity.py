"""What a plugin is: the source text of its modules, and nothing that means nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headstart import normal
from headstart.errors import BadInput
from headstart.normal import decoded, normal_form
from headstart.plugins.identity import plugin_identity

SAMPLE = '''# -*- coding: utf-8 -*-
"""Docstring of the
module.~~~
"""
import torch  # ü comment


@dataclass~~~
class A:
    'doc' "two"  # x
    x = 1; y = 2\t
    b = (1 +   # a comment
         2)

    def f(self, ä="é # no comment"):
        "ünï"
        s = """a~~~
~~~~~~~~~~~
  # not a comment
b"""
        name = f"{s!r:>{10}} # {ä}" f\'\'\'
   {s}~~~
\'\'\'
        return \\
            s
    async def g(self): r"""raw
doc"""; return 1
'''.replace("~", " ")
NORMAL = '''import torch
@dataclass
class A:
    x = 1; y = 2
    b = (1 +
         2)
    def f(self, ä="é # no comment"):
        s = """a~~~
~~~~~~~~~~~
  # not a comment
b"""
        name = f"{s!r:>{10}} # {ä}" f\'\'\'
   {s}~~~
\'\'\'
        return \\
            s
    async def g(self): ; return 1'''.replace("~", " ")
OTHERS = [f"python3.{minor}" for minor in (12, 13, 14)]


def digest(folder: Path, files: dict[str, str], plugin: str = "my_mixer.py") -> str:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return plugin_identity(folder / plugin).digest


def test_the_normal_form_keeps_all_that_means_something_and_nothing_else() -> None:
    assert normal_form(SAMPLE) == NORMAL


def test_the_digest_of_a_plugin_is_frozen(tmp_path: Path) -> None:
    """Equal on Python 3.11 to 3.13; a change makes every stage with a plugin be trained again."""
    assert digest(tmp_path, {"my_mixer.py": SAMPLE.replace("import torch", "import my_b")}) == "1697ba8a1a6defdb"
    assert digest(tmp_path, {"my_b.py": "X = 1\n"}) == "9dadb5471f2d2c6c"


@pytest.mark.parametrize("python", OTHERS)
def test_another_python_makes_the_same_normal_form(tmp_path: Path, python: str) -> None:
    (tmp_path / "sample.py").write_text(SAMPLE, encoding="utf-8")
    code = (
        "import runpy, sys; m = runpy.run_path(sys.argv[1]); text = m['decoded'](open('sample.py', 'rb').read());"
        "sys.stdout.buffer.write(m['normal_form'](text).encode())"
    )
    try:
        done = subprocess.run([python, "-c", code, normal.__file__], cwd=tmp_path, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip(f"no {python} here")
    if b"command not found" in done.stderr:
        pytest.skip(f"no {python} here")
    assert done.stdout.decode() == NORMAL, done.stderr.decode()


def test_comments_docstrings_blanks_and_the_name_of_the_file_do_not_count(tmp_path: Path) -> None:
    before = digest(tmp_path, {"my_mixer.py": "def f(x):\n    return x\n"})
    for text in (
        '"""Said."""\n\n\ndef f(x):  # why\n    """Says."""\n\n    return x   \n# end',
        "def f(x):\r\n    return x\r\n",
        "\ufeffdef f(x):\n    return x",
    ):
        (tmp_path / "other_name.py").write_bytes(text.encode())
        assert plugin_identity(tmp_path / "other_name.py").digest == before, text
    assert digest(tmp_path, {"my_mixer.py": "def f(x):\n    return  x\n"}) != before
    assert digest(tmp_path, {"my_mixer.py": 'def f(x):\n    "a"\n    return "# a"\n'}) != before


def test_the_text_of_strings_counts_to_the_last_blank(tmp_path: Path) -> None:
    first = digest(tmp_path, {"my_mixer.py": 'X = """a  \n\n# b"""\n'})
    assert digest(tmp_path, {"my_mixer.py": 'X = """a\n\n# b"""\n'}) != first
    assert digest(tmp_path, {"my_mixer.py": 'X = """a  \n# b"""\n'}) != first
    assert digest(tmp_path, {"my_mixer.py": 'X = """a  \n\n"""\n'}) != first


@pytest.mark.parametrize(
    "imports",
    [
        "import helper",
        "from helper import X",
        "import os\nfrom between import Y",
        "def late():\n    from between import Y",
        "try:\n    import helper as h\nexcept ImportError:\n    h = None",
    ],
)
def test_every_module_beside_it_that_is_pulled_in_counts(tmp_path: Path, imports: str) -> None:
    files = {"my_mixer.py": imports + "\n", "between.py": "from helper import X as Y\n", "other.py": "Z = 1\n"}
    before = digest(tmp_path, {**files, "helper.py": "X = 1\n"})
    assert digest(tmp_path, {"helper.py": "X = 1  # a comment\n"}) == before
    assert digest(tmp_path, {"other.py": "Z = 2\n"}) == before, "what is not imported does not count"
    assert digest(tmp_path, {"helper.py": "X = 2\n"}) != before


def test_two_helpers_that_change_places_are_another_plugin(tmp_path: Path) -> None:
    root = {"my_mixer.py": "import a, b\n"}
    assert digest(tmp_path, {**root, "a.py": "X = 1\n", "b.py": "X = 2\n"}) != digest(
        tmp_path, {"a.py": "X = 2\n", "b.py": "X = 1\n"}
    )


def test_modules_of_its_package_count_wherever_the_package_lies_and_whatever_it_is_called(tmp_path: Path) -> None:
    files = {"__init__.py": "", "mixers.py": "from . import core\nfrom .core.gate import G\n", "core/__init__.py": ""}
    gate = {"core/gate.py": "G = 1\n"}
    before = digest(tmp_path / "lab", {**files, **gate}, "mixers.py")
    assert digest(tmp_path / "elsewhere" / "bench", {**files, **gate}, "mixers.py") == before
    assert digest(tmp_path / "lab", {"core/gate.py": "G = 2\n"}, "mixers.py") != before
    assert digest(tmp_path / "lab", {**gate, "core/__init__.py": "print()"}, "mixers.py") != before, "it is run, too"


def test_installed_packages_are_recorded_and_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "my_mixer.py").write_text("import numpy\nimport sklearn.linear_model\nimport os, not_there_at_all\n")
    plugin = plugin_identity(tmp_path / "my_mixer.py")
    assert set(plugin.packages) == {"numpy", "scikit-learn", "not_there_at_all"}
    assert plugin.packages["not_there_at_all"] == "not installed"
    assert plugin.packages["numpy"][0].isdigit()
    assert [module.name for module in plugin.modules] == ["my_mixer"]


def test_code_elsewhere_that_nothing_installed_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lab").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "lab"))
    before = digest(tmp_path / "mine", {"my_mixer.py": "import lab_layers\n", "../lab/lab_layers.py": "X = 1\n"})
    assert digest(tmp_path / "mine", {"../lab/lab_layers.py": "X = 2\n"}) != before


def test_a_module_is_found_by_its_name_without_being_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    by_file = digest(tmp_path, {"pack/__init__.py": "raise SystemExit", "pack/mine.py": "X = 1\n"}, "pack/mine.py")
    assert plugin_identity("pack.mine").digest == by_file
    assert "pack" not in sys.modules


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere.py", "no file 'nowhere.py'"),
        ("nowhere", "nowhere cannot be imported"),
        ("a/b", "'a/b' is neither a .py file nor a module"),
        ("", "'' is neither a .py file nor a module"),
        ("mine.toml", "mine.toml: is not a file of Python; name one that ends in .py"),
        ("random.py", "'random' is a module that Python needs"),
        ("torch.py", "'torch' is a module that headstart needs"),
        ("broken.py", "broken.py: line 2: "),
        ("bytes.py", "is not Python text"),
        ("compiled", "is compiled and has no source"),
    ],
)
def test_what_is_no_plugin_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("random", "torch"):
        (tmp_path / f"{name}.py").write_text("X = 1\n")
    (tmp_path / "mine.toml").write_text("")
    (tmp_path / "broken.py").write_text("X = 1\ndef f(:\n")
    (tmp_path / "bytes.py").write_bytes(b"X = '\xff'\n")
    (tmp_path / "compiled.cpython-311-x86_64-linux-gnu.so").write_bytes(b"")
    (tmp_path / "compiled.abi3.so").write_bytes(b"")
    with pytest.raises(BadInput) as error:
        plugin_identity(source)
    assert str(error.value).startswith("--plugin: ")
    assert message in str(error.value)
    assert str(error.value).count("--plugin: ") == 1


def test_a_coding_comment_decides_how_bytes_are_read() -> None:
    assert decoded("# -*- coding: latin-1 -*-\nX = 'é'".encode("latin-1")).endswith("X = 'é'")


@pytest.mark.parametrize("text", ["(" * 20_000 + ")" * 20_000, "-" * 20_000 + "1", "a" + ".a" * 20_000])
def test_brackets_and_names_without_end_are_refused_or_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "deep.py").write_text(f"x = {text}\n")
    try:
        assert plugin_identity(tmp_path / "deep.py").name == "deep"
    except BadInput as error:
        assert re.search(r"deep\.py:( is nested too deep for Python| line 1: too many nested)", str(error))  # noqa: PT017


def test_a_module_of_a_name_that_no_file_has_is_not_looked_for(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "__init__.py").write_text("")
    (tmp_path / "long.py").write_text(f"import {'x' * 10_000}\nimport own.{'x' * 10_000}\n")
    assert [module.name for module in plugin_identity(tmp_path / "long.py").modules] == ["long", "own"]


@pytest.mark.parametrize(
    ("code", "line", "name"),
    [
        (
            "import importlib.util\ns = importlib.util.spec_from_file_location('h', 'helper.py')",
            2,
            "spec_from_file_location",
        ),
        ("from importlib.machinery import SourceFileLoader as S", 1, "SourceFileLoader"),
        ("def f():\n    exec(open('helper.py').read())", 2, "exec"),
        ("import builtins\nbuiltins.exec(open('helper.py').read())", 2, "exec"),
        ("import runpy", 1, "runpy"),
        ("x = eval(text)", 1, "eval"),
        ("__import__(name)", 1, "__import__"),
        ("import importlib\nimportlib.import_module(name)", 2, "import_module"),
        ("import importlib\nK = importlib.import_module('helper').K", 2, "import_module"),
        ("exec('from helper import K')", 1, "exec"),
        ("from importlib import import_module as load", 1, "import_module"),
        ("import importlib\nload = importlib.import_module", 2, "import_module"),
        ("import sys\nhelper = sys.modules[name]", 2, "sys.modules"),
        ("import sys\nsys.modules.get('helper')", 2, "sys.modules"),
        ("from sys import modules", 1, "sys.modules"),
        ("import __main__", 1, "__main__"),
        ("import sys\nsys.modules['__main__'].K", 2, "sys.modules"),
        ("run = exec\nrun(open('helper.py').read())", 1, "exec"),
        ("import builtins\nrun = builtins.exec", 2, "exec"),
        ("import ctypes\nlib = ctypes.CDLL('./kernel.so')", 2, "CDLL"),
    ],
)
def test_code_that_the_text_does_not_show_is_refused(tmp_path: Path, code: str, line: int, name: str) -> None:
    (tmp_path / "helper.py").write_text("K = 1\n")
    for files in ({"my_mixer.py": code}, {"my_mixer.py": "import other", "other.py": code}):
        with pytest.raises(BadInput) as error:
            digest(tmp_path, files)
        assert f"{list(files)[-1]}: line {line}: {name} may run code" in str(error.value)
        assert "write `import` and its name" in str(error.value)


def test_the_mode_of_a_network_and_modules_of_torch_are_no_hidden_code(tmp_path: Path) -> None:
    code = "import sys\ndef f(net):\n    net.eval()\n    for m in net.modules(): pass\n"
    assert digest(tmp_path, {"my_mixer.py": code})


def test_a_package_without_an_init_file_counts_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    (tmp_path / "src" / "lab_without_init").mkdir(parents=True)
    digests = []
    for value in (1, 2):
        (tmp_path / "src" / "lab_without_init" / "layers.py").write_text(f"K = {value}\n")
        digests.append(digest(tmp_path / "exp", {"my_mixer.py": "from lab_without_init.layers import K"}))
    assert digests[0] != digests[1]


def test_a_blank_line_behind_a_backslash_ends_a_statement(tmp_path: Path) -> None:
    codes = ("def f(x):\n    y = x \\\n\n    -1\n    return y", "def f(x):\n    y = x \\\n    -1\n    return y")
    assert len({digest(tmp_path, {"my_mixer.py": code}) for code in codes}) == 2
