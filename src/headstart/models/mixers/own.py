"""A researcher's own mixer: a class named as `module:Class`, on the command line or in Python, never in a file."""

from __future__ import annotations

import hashlib
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from headstart.errors import BadInput, nearest
from headstart.models.mixers import MIXERS
from headstart.models.mixers.mixer import MixerSpec
from headstart.spec import Entry


def adopt(given: str) -> str:
    """Import `module:Class` and enter it in the table of mixers; returns its kind.

    The module is looked for in the present folder too. The digest of its source (of the whole package where it is
    in one) enters the identity of every stage that uses it, so that an edit makes new stages.
    Raises: BadInput where it cannot be imported, is no MixerSpec, or takes another mixer's kind.
    """
    module_name, colon, class_name = given.partition(":")
    if not colon or not module_name or not class_name:
        raise BadInput(f"--mixer: {given!r} is no module:Class (for example my_mixer:DecaySpec)")
    module = _imported(module_name, given)
    if not hasattr(module, class_name):
        classes = [name for name, value in vars(module).items() if isinstance(value, type)]
        raise BadInput(f"--mixer: {module_name}: {nearest(class_name, classes)}")
    cls: Any = getattr(module, class_name)
    if not (isinstance(cls, type) and issubclass(cls, MixerSpec)):
        raise BadInput(
            f"--mixer: {given} is no MixerSpec; write a subclass of headstart.models.mixers.mixer.MixerSpec "
            "with build and flops (docs/guide/your-own-mixer.md)"
        )
    kind = cls.model_fields["kind"].get_default()
    if not isinstance(kind, str):
        raise BadInput(f'--mixer: {given} names no kind; write `kind: Literal["my_name"] = "my_name"`')
    known = MIXERS.get(kind)
    if known is not None and known.path != given:
        raise BadInput(f"--mixer: {given}: the kind {kind!r} is taken by {known.path}; give it another name")
    cls.source_digest = source_digest(module)
    summary = (cls.__doc__ or "").strip().partition("\n")[0]
    MIXERS[kind] = Entry(given, summary, "given by module:Class")
    return kind


def _imported(name: str, given: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BadInput(f"--mixer: {given} cannot be imported: {error}; run from its folder or install it") from None
    except SyntaxError as error:
        raise BadInput(f"--mixer: {given}: line {error.lineno}: {error.msg}") from None


def source_digest(module: ModuleType) -> str:
    """First 16 hex digits of the SHA-256 of a module's source, or of its whole top package's.

    Names inside the package count, its place on disk does not.
    """
    top = sys.modules[module.__name__.partition(".")[0]]
    file = Path(module.__file__ or "")
    folder = Path(top.__file__).parent if top.__file__ and hasattr(top, "__path__") else None
    files = sorted(folder.rglob("*.py")) if folder is not None else [file]
    total = hashlib.sha256()
    for path in files:
        name = path.relative_to(folder).as_posix() if folder is not None else path.name
        total.update(f"{name}\0{path.stat().st_size}\0".encode())
        total.update(path.read_bytes())
    return total.hexdigest()[:16]
