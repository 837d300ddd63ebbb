"""Models without numbers: the shapes and types of those with numbers, at the cost of no compiler."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from headstart.models.heads import Output
from headstart.models.mixers import MIXERS
from headstart.models.model import ModelSpec, build_model
from headstart.models.outline import without_numbers
from headstart.sequence import Signature
from headstart.spec import read

POSITIONS = ("none", "learned", "sinusoidal", "rotary", "relative")
SIGNATURE = Signature("tokens", 7, 12, 12, "class", classes=3)


def shapes(mixer, position):
    spec = read(ModelSpec, {"width": 8, "blocks": 2, "mixer": {"kind": mixer}, "position": {"kind": position}})
    model = build_model(spec, SIGNATURE, Output("sequence", 3), 0)
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    return {name: (tuple(x.shape), x.dtype) for name, x in tensors.items()}


@pytest.mark.parametrize(
    ("mixer", "position"), [*((mixer, "none") for mixer in MIXERS), *(("attention", kind) for kind in POSITIONS)]
)
def test_shapes_and_types_are_those_of_a_model_with_numbers(mixer, position):
    whole = shapes(mixer, position)
    with without_numbers():
        assert shapes(mixer, position) == whole


def test_nothing_is_drawn_and_nothing_has_numbers():
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    with without_numbers():
        x = torch.stack([torch.randn(3, 4) * 2, torch.arange(12.0).view(3, 4).tril()], -1)
    assert (x.device.type, x.shape, x.dtype) == ("meta", (3, 4, 2), torch.float32)
    assert torch.equal(before, torch.random.get_rng_state())


def test_types_are_those_of_the_operation():
    with without_numbers():
        whole, double = torch.arange(3), torch.arange(3.0, dtype=torch.float64)
        types = [x.dtype for x in (whole / 2, whole * 2, whole > 1, whole * double)]
        assert types == [torch.float32, torch.int64, torch.bool, torch.float64]
        assert (torch.ones(2, 1) + torch.ones(3)).shape == (2, 3)
        assert torch.ones(2).mul_(3).shape == (2,)
        assert torch.zeros_like(whole, dtype=torch.float32).dtype == torch.float32
        assert torch.ones(3, 1).repeat(5, 2, 4).shape == (5, 6, 4)
        assert torch.rand_like(double.view(3, 1)).shape == (3, 1)
        assert torch.diag(whole).shape == (3, 3)
        assert (torch.ones(2, 3) @ torch.ones(3)).shape == (2,)
        angles, vectors = torch.linalg.eigh(1j * torch.ones(3, 3, dtype=torch.float64))
        assert (angles.shape, angles.dtype) == ((3,), torch.float64)
        assert (vectors.shape, vectors.dtype) == ((3, 3), torch.complex128)


def test_a_tensor_with_numbers_stays_one():
    with without_numbers():
        assert (torch.ones(2, device="cpu") * 3).tolist() == [3.0, 3.0]


def test_planning_does_not_import_the_compiler():
    words = (
        "import sys; from headstart.api import Study; Study('few-labels', store='none');"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", words], check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("mixer", ["inception", "s4d"])
def test_the_outline_of_a_network_that_fit_makes_imports_neither_compiler_nor_symbolic_mathematics(mixer):
    """A served one is compared with its outline before it is read: with these it takes a second more."""
    words = (
        "import sys; from test_without_numbers import shapes, without_numbers\n"
        f"with without_numbers(): shapes({mixer!r}, 'none')\n"
        "sys.exit(len({'sympy', 'torch._dynamo'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", words], check=False, cwd=Path(__file__).parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("study", ["few-labels", "film-reviews"])
def test_a_dry_run_imports_neither_compiler_nor_symbolic_mathematics(study, tmp_path):
    """Torch's own broadcasting and `zeros_like` on the device `meta` would, and the mean of a matched tensor did."""
    words = (
        f"import sys; from headstart.cli import main; sys.argv = ['headstart', 'run', {study!r}, '--dry-run'];\n"
        "late = lambda: 3 * bool({'sympy', 'torch._dynamo'} & set(sys.modules))\n"
        "try: main()\nexcept SystemExit as end: sys.exit(end.code or late())\n"
        "sys.exit(late())"
    )
    done = subprocess.run([sys.executable, "-c", words], check=False, cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_a_plan_of_s4_imports_no_compiler_and_has_the_shapes_of_a_model_with_numbers():
    code = (
        "import sys, torch\n"
        "from headstart.models.mixers.s4 import S4Spec\n"
        "from headstart.models.outline import without_numbers\n"
        "real = {name: x.shape for name, x in S4Spec().build(8, 16, False).named_parameters()}\n"
        "with without_numbers():\n"
        "    outline = S4Spec().build(8, 16, False)\n"
        "assert {name: x.shape for name, x in outline.named_parameters()} == real\n"
        "assert all(x.is_meta and x.dtype == torch.float32 for x in outline.parameters())\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
