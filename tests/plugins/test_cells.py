"""Code of a notebook: texts, and plain values that they use, count as they are now; all else is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.own_code import MIXER, Cells, clean_process

from headstart.errors import BadInput
from headstart.models.mixers import MIXERS
from headstart.plugins.load import current_identity, load_plugins, plugins_of

USES = MIXER.replace("FACTOR = 1.0", "").replace("FACTOR * self.by * self.layer(x)", "act(self.layer(x))")
REGISTER = 'import headstart\nheadstart.register_mixer("scale", ScaleSpec)\n'


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cells]:
    monkeypatch.chdir(tmp_path)
    with clean_process():
        yield Cells(monkeypatch)


def digest() -> str:
    """Of the code that a study made now would run."""
    load_plugins([])
    (plugin,) = plugins_of(MIXERS["scale"].load()())
    assert current_identity(plugin).digest == plugin.digest
    return plugin.digest


EDITS = {
    "alias": (
        "def g(x): return x\naa = g\ndef g(x): return x\ndef act(x): return aa(g(x))\n",
        "def g(x): return 90.0*x\n",
    ),
    "patch": ("def act(x): return x\n", "def new(self, x, valid, draw=None): return 50.0*x\nScale.forward = new\n"),
    "swap": (
        "def act(x): return C().f(x)\nclass C:\n    def f(self, x): return x\n    def g(self, x): return 2*x\n",
        "C.f, C.g = C.g, C.f\n",
    ),
    "default": ("K = 1.0\ndef act(x, k=K): return k*x\nK = 90.0\n", "def act(x, k=K): return k*x\n"),
    "keyword": ("def act(x, *, k=1.0): return k*x\n", "act.__kwdefaults__['k'] = 90.0\n"),
    "function attribute": ("def act(x): return act.k*x\nact.k = 1.0\n", "act.k = 90.0\n"),
    "inside a list": ("L = [{'k': (1.0, [2.0])}]\ndef act(x): return L[0]['k'][1][0]*x\n", "L[0]['k'][1][0] = 90.0\n"),
    "lambda": ("act = lambda x: 1.0*x\n", "act = lambda x: 90.0*x\n"),
    "wrapped": (
        "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def inner(x): return 2.0*f(x)\n    return inner\n@twice\ndef act(x): return x\n",
        "@twice\ndef act(x): return 90.0*x\n",
    ),
    "decorated by a library": (
        "import torch\n@torch.no_grad()\ndef act(x): return x\n",
        "@torch.no_grad()\ndef act(x): return 90.0*x\n",
    ),
    "property": (
        "class C:\n    @property\n    def k(self): return 1.0\ndef act(x): return C().k*x\n",
        "class C:\n    @property\n    def k(self): return 90.0\n",
    ),
    "method of a base": (
        "class B:\n    def f(self, x): return x\n    def h(self): pass\nclass C(B):\n    def g(self): return 1\ndef act(x): return C().f(x)\n",
        "def f(self, x): return 90.0*x\nB.f = f\n",
    ),
    "form feed": ("\n\x0c\ndef act(x):\n    return 1.0*x\n", "\n\x0c\ndef act(x):\n    return 90.0*x\n"),
    "line separator": ("# \u2028\ndef act(x):\n    return 1.0*x\n", "# \u2028\ndef act(x):\n    return 90.0*x\n"),
    "special attribute": (
        "def act(x): return C().__k__*x\nclass C:\n    def f(self): pass\nC.__k__ = 1.0\n",
        "C.__k__ = 90.0\n",
    ),
    "special method of a library": (
        "import torch\nclass C:\n    def __call__(self, x): return x\ndef act(x): return C()(x)\n",
        "C.__call__ = torch.no_grad()(lambda self, x: 90.0*x)\n",
    ),
    "own kind of property": (
        "class P(property):\n    def __get__(self, o, t=None): return 1.0\nclass C:\n    k = P(lambda self: 1.0)\n    def f(self): pass\ndef act(x): return C().k*x\n",
        "def get(self, o, t=None): return 90.0\nP.__get__ = get\n",
    ),
    "class attribute": (
        "class C:\n    k = 1.0\n    def f(self, x): return self.k*x\ndef act(x): return C().f(x)\n",
        "C.k = 90.0\n",
    ),
    "global of a default": ("K = 1.0\ndef act(x, k=K): return k*x\n", "K = 90.0\n"),
    "one of several": ("act = [lambda x: x, lambda x: 2*x][0]\n", "act = [lambda x: x, lambda x: 2*x][0]; K = 1\n"),
}
"""What is defined before the class is registered, and an edit that follows."""


@pytest.mark.parametrize("name", EDITS)
def test_every_edit_of_a_notebook_is_another_identity_or_refused(cells: Cells, name: str) -> None:
    before, edit = EDITS[name]
    cells.run(USES)
    cells.run(before)
    cells.run(REGISTER)
    first = digest()
    assert digest() == first
    cells.run(edit)
    if name in ("patch", "method of a base", "special method of a library", "own kind of property"):
        with pytest.raises(BadInput, match="cannot be had, or is not the code that runs"):
            digest()
    else:
        assert digest() != first


def test_a_kernel_that_is_started_again_has_the_same_identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    digests = set()
    for _ in range(2):
        with clean_process():
            cells = Cells(monkeypatch)
            for cell in (*(before.replace("act", f"act{i}") for i, (before, _) in enumerate(EDITS.values())), USES):
                cells.run(cell)
            cells.run(f"def act(x): return {', '.join(f'act{i}' for i in range(len(EDITS)))}\n")
            cells.run(REGISTER)
            digests.add(digest())
            cells.run(USES + "  # again\n")
            cells.run(REGISTER)
            digests.add(digest())
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (
            "def make(k):\n    return lambda x: k*x\nact = make(1.0)\n",
            "uses 'k', a variable of the function that made it",
        ),
        ("def act(x, k=iter([])): return k\n", "act uses 'default 0 of act', a list_iterator"),
        ("class C:\n    k = iter([])\n    def f(self): pass\nact = C\n", "C uses 'k', a list_iterator"),
        ("class C:\n    def f(self, x): return x\nc = C()\ndef act(x): return c.f(x)\n", "act uses 'c', a C"),
        ("import torch\nT = torch.ones(3)\ndef act(x): return T[1]*x\n", "act uses 'T', a Tensor"),
        ("def act(x): return globals()['k']*x\n", "act: line 1: globals may run code"),
        ("def act(x): return eval('x')\n", "act: line 1: eval may run code"),
        ("exec('def act(x): return x')\n", "the source of act cannot be had"),
        ("import types\nm = types.ModuleType('cfg')\nm.K = 1.0\ndef act(x): return m.K*x\n", "uses 'm', a module"),
        (
            "import pathlib, sys\npathlib.Path('hlp.py').write_text('K = 1.0')\nsys.path.insert(0, '.')\nimport hlp\n"
            "def act(x): return hlp.K*x\n",
            "uses hlp, a module of yours",
        ),
    ],
)
def test_what_cannot_be_hashed_is_refused_with_the_way_out(cells: Cells, cell: str, message: str) -> None:
    cells.run(USES)
    cells.run(cell)
    with pytest.raises(BadInput, match=message) as error:
        cells.run(REGISTER)
    assert "%%writefile my.py" in str(error.value) or "write `import` and its name" in str(error.value)


def test_the_way_out_works(cells: Cells, tmp_path: Path) -> None:
    """The cells as `%%writefile my.py` writes them."""
    (tmp_path / "my.py").write_text("import torch\nT = torch.ones(3)\ndef act(x): return T[1]*x\n" + USES + REGISTER)
    (plugin,) = load_plugins(["my.py"])
    assert plugins_of(MIXERS["scale"].load()()) == (plugin,)


def test_the_values_that_counted_stand_with_the_source(cells: Cells) -> None:
    cells.run(USES)
    cells.run("K = 1.0\ndef act(x): return K*x\n")
    cells.run(REGISTER)
    (plugin,) = plugins_of(MIXERS["scale"].load()())
    text = plugin.modules[0].source.decode()
    assert "# act: K = 1.0" in text
    assert "def act(x): return K*x" in text
