"""Code of a notebook: all that it uses counts as it is now, or is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.own_code import MIXER, Cells, clean_process

from headstart.errors import BadInput
from headstart.models.mixers import MIXERS
from headstart.plugins.identity import current_identity
from headstart.plugins.load import load_plugins, plugins_of

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
    "closure": ("def make(k):\n    def f(x): return k*x\n    return f\nact = make(1.0)\n", "act = make(90.0)\n"),
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
    "class attribute": ("class C:\n    k = 1.0\n    def f(self, x): return self.k*x\nact = C().f\n", "C.k = 90.0\n"),
    "instance": (
        "class C:\n    def __init__(self): self.k = 1.0\n    def f(self, x): return self.k*x\n"
        "c = C()\ndef act(x): return c.f(x)\n",
        "c.k = 90.0\n",
    ),
    "function attribute": ("def act(x): return act.k*x\nact.k = 1.0\n", "act.k = 90.0\n"),
    "inside a list": ("L = [{'k': (1.0, [2.0])}]\ndef act(x): return L[0]['k'][1][0]*x\n", "L[0]['k'][1][0] = 90.0\n"),
    "array": ("import numpy as np\nA = np.ones(3)\ndef act(x): return A[1]*x\n", "A[1] = 90.0\n"),
    "tensor": ("import torch\nT = torch.ones(3)\ndef act(x): return T[1]*x\n", "T[1] = 90.0\n"),
    "module": (
        "from torch import nn\nnet = nn.Linear(1, 1)\nnet.weight.data.fill_(1); net.bias.data.fill_(1)\ndef act(x): return net(x)\n",
        "net.weight.data += 1\n",
    ),
    "lambda": ("act = lambda x: 1.0*x\n", "act = lambda x: 90.0*x\n"),
    "partial": (
        "import functools\ndef f(x, k): return k*x\nact = functools.partial(f, k=1.0)\n",
        "act.keywords['k'] = 9\n",
    ),
    "wrapped": (
        "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def inner(x): return 2.0*f(x)\n    return inner\n"
        "@twice\ndef act(x): return x\n",
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
    "dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass C:\n    k: float = 1.0\n"
        "    def f(self, x): return self.k*x\nc = C()\ndef act(x): return c.f(x)\n",
        "c = C(90.0)\n",
    ),
    "text that is evaluated": ("K = 1.0\ndef act(x): return eval('K')*x\n", "K = 90.0\n"),
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
        "class P(property):\n    def __get__(self, o, t=None): return 1.0\nclass C:\n    k = P(lambda self: 1.0)\n"
        "    def f(self): pass\ndef act(x): return C().k*x\n",
        "def get(self, o, t=None): return 90.0\nP.__get__ = get\n",
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_every_edit_of_a_notebook_is_another_identity(cells: Cells, name: str) -> None:
    before, edit = EDITS[name]
    cells.run(USES)
    cells.run(before)
    cells.run(REGISTER)
    first = digest()
    assert digest() == first
    cells.run(edit)
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
            "import torch\ndef make(g):\n    return lambda x: g\nact = make(torch.Generator())\n",
            "uses 'g', a Generator",
        ),
        ("def act(x, k=iter([])): return k\n", "act uses 'k', a list_iterator of the notebook"),
        ("class C:\n    k = open('mine.txt', 'w')\n    def f(self): pass\nact = C\n", "C uses 'k', a TextIOWrapper"),
        ("def act(x): return globals()['k']*x\n", "act: line 1: globals may run code"),
        ("def act(x): return eval(text)*x\n", "act: line 1: eval may run code"),
        ("act = [lambda x: x, lambda x: 2*x][0]\n", "the source of <lambda> cannot be had"),
        ("exec('def act(x): return x')\n", "the source of act cannot be had"),
        ("import numpy as np\ndef act(x): return u(x)\nu = np.frompyfunc(lambda x: x, 1, 1)\n", "'u', a ufunc"),
        (
            "import types\nm = types.ModuleType('cfg')\nm.K = 1.0\ndef act(x): return m.K*x\n",
            "uses cfg, a module of yours",
        ),
        (
            "import importlib.util, pathlib\npathlib.Path('hlp.py').write_text('K = 1.0')\n"
            "s = importlib.util.spec_from_file_location('hlp', 'hlp.py')\nh = importlib.util.module_from_spec(s)\n"
            "s.loader.exec_module(h)\ndef act(x): return h.K*x\n",
            "uses hlp, a module of yours",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(cells: Cells, cell: str, message: str) -> None:
    cells.run(USES)
    cells.run(cell)
    with pytest.raises(BadInput, match=message):
        cells.run(REGISTER)
    if "k" in vars(cells.main.__dict__.get("act", object)):
        cells.main.act.k.close()


def test_the_values_that_counted_stand_with_the_source(cells: Cells) -> None:
    cells.run(USES)
    cells.run(EDITS["closure"][0])
    cells.run(REGISTER)
    (plugin,) = plugins_of(MIXERS["scale"].load()())
    text = plugin.modules[0].source.decode()
    assert "# make.<locals>.f: k = 1.0" in text
    assert "def f(x): return k*x" in text
