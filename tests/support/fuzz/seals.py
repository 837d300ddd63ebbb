"""Digests that are right again after a change, so that damage comes past them: whoever makes a file can compute them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from headstart.data import prepared
from headstart.documents import canonical
from headstart.store import files

_WRONG = (ValueError, TypeError, LookupError, AttributeError, RuntimeError, OverflowError, MemoryError)
"""What a document of another form raises here: then it stays as it is."""


def sealed(content: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files, in which every digest of ours is that of what it is of: of tensors, of the config beside weights, of
    the files of a stage, of a stage's documents and of a packed store's members."""
    out = dict(content)
    for name in out:
        if name.endswith(".safetensors"):
            config = _document(out.get(_beside(name, "config.json")))
            out[name] = _sealed_tensors(out[name], {} if config is None else {"config": _digest(config)})
    for name in out:
        if PurePosixPath(name).name == prepared.SEAL and (document := _document(out[name])) is not None:
            with contextlib.suppress(Exception):  # whatever numpy raises of a damaged array
                out[name] = _sealed_arrays(document, name, out)
    for last in ("stage.json", "result.json", "manifest.json"):  # each holds digests of those before
        for name in out:
            if PurePosixPath(name).name == last and (document := _document(out[name])) is not None:
                with contextlib.suppress(*_WRONG):
                    _seal_document(document, name, out)
                    out[name] = json.dumps(document).encode()
    return out


def _seal_document(document: dict[str, Any], name: str, out: Mapping[str, bytes]) -> None:
    listed = document.get("files", {})
    for inner in listed:
        if (member := _beside(name, inner)) in out:
            digest = hashlib.sha256(out[member]).hexdigest()
            listed[inner] = {"size": len(out[member]), "digest": digest} if "manifest" in name else digest
    if document.pop("digest", None) is not None:
        document["digest"] = _digest(document)


def _sealed_arrays(seal: dict[str, Any], name: str, out: Mapping[str, bytes]) -> bytes:
    """The seal over prepared arrays."""
    files = {
        path.stem: out[path.as_posix()] for path in map(PurePosixPath, out) if path.parent == PurePosixPath(name).parent
    }
    arrays = {stem: data for stem, data in files.items() if stem != PurePosixPath(name).stem}
    seal["sizes"] = {stem: len(data) for stem, data in arrays.items()}
    seal["fingerprint"] = prepared._fingerprint({stem: np.load(io.BytesIO(data)) for stem, data in arrays.items()})
    seal.pop("digest", None)
    return json.dumps({**seal, "digest": prepared._digest(seal)}).encode()


def _sealed_tensors(content: bytes, more: Mapping[str, Any]) -> bytes:
    """Of one of our files, whose head says what its digest is of."""
    from safetensors.torch import load

    with contextlib.suppress(Exception):
        size = int.from_bytes(content[:8], "little")
        head = json.loads(content[8 : 8 + size])
        note = json.loads(head["__metadata__"]["headstart"])
        meta, tensors = note["meta"] | {key: more[key] for key in more if key in note["meta"]}, load(content)
        note |= {"meta": meta, "digest": files._digest(tensors, meta, files._bytes_of)}
        head["__metadata__"]["headstart"] = json.dumps(note)
        text = json.dumps(head).encode()
        return len(text).to_bytes(8, "little") + text + content[8 + size :]
    return content


def _document(content: bytes | None) -> dict[str, Any] | None:
    with contextlib.suppress(*_WRONG):
        document = json.loads(content or b"")
        return document if isinstance(document, dict) else None
    return None


def _digest(document: Any) -> str:
    return hashlib.sha256(canonical(document)).hexdigest()


def _beside(name: str, other: str) -> str:
    return str(PurePosixPath(name).parent / other)
