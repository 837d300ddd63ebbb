"""Where a checkpoint is: a folder, a name in the folder of weights, or a repository in the hub's cache; its download.

Nothing here imports torch, and only `download` goes online.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from headstart.checkpoints.folder import (
    CARD_FILE,
    CONFIG_FILE,
    INDEX_FILE,
    PICKLED_ENDINGS,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
)
from headstart.checkpoints.released import REPOSITORIES
from headstart.errors import BadInput, one_line

FETCHED = (
    *(CONFIG_FILE, WEIGHTS_FILE, INDEX_FILE, "model-*-of-*.safetensors", VOCABULARY_FILE, CARD_FILE),
    *("tokenizer.json", "tokenizer_config.json"),
)
"""Files that are downloaded; code and pickled weights are not among them."""
_REPOSITORY = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")


def weights_folder() -> Path:
    """HEADSTART_WEIGHTS, which `--weights` sets, else ./weights."""
    return Path(os.environ.get("HEADSTART_WEIGHTS") or "weights")


def find_folder(source: str | os.PathLike[str], hub: bool = True) -> Path | None:
    """The folder of a checkpoint on this machine, or None where there is none.

    source: a folder; a name in the folder of weights, with or without its owner's; or (`hub`) a repository,
    `owner/name`, of which the hub's cache holds a version with weights. The first of these is taken.
    """
    text = os.fspath(source)
    plain = Path(text)
    if plain.is_dir() and ((plain / CONFIG_FILE).is_file() or not _REPOSITORY.fullmatch(text)):
        return plain
    if not _REPOSITORY.fullmatch(text):
        return None
    for name in dict.fromkeys((text, text.rpartition("/")[2])):
        if (folder := weights_folder() / name).is_dir():
            return folder
    return _cached(text, _cache()) if hub else None


def revision_of(folder: Path) -> str | None:
    """The version of a folder of the hub's cache; None of any other folder."""
    path = folder.resolve()
    return path.name if path.parent.name == "snapshots" else None


def absent(source: str) -> str:
    """What to say where a checkpoint is not on this machine: where it was looked for, and the way out."""
    if not _REPOSITORY.fullmatch(source):
        return f"there is no folder {source!r}; name one that holds {CONFIG_FILE} and {WEIGHTS_FILE}"
    cache = "" if _cache() else ", which takes the package huggingface_hub: pip install 'headstart[hf]'"
    return (
        f"{source!r} is neither a folder nor in {weights_folder()} (HEADSTART_WEIGHTS names another) nor in the cache "
        f"of the hub{cache}; put the folder with its {CONFIG_FILE} and {WEIGHTS_FILE} there, or let `headstart prepare "
        f"{source}` download it"
    )


def repositories(source: str) -> list[str]:
    """Repositories that a name may stand for, the most likely one first."""
    return list(dict.fromkeys((REPOSITORIES.get(source, source), source)))


def download(source: str) -> Path:
    """Fetch config, weights, vocabulary and card of a repository into the hub's cache; its folder there.

    Raises: BadInput without huggingface_hub, without a connection, or where there is no such repository.
    """
    way = f"put the model's folder into {weights_folder()}, or name that with --weights"
    if not _REPOSITORY.fullmatch(source):
        raise BadInput(f"prepare: {source!r} is neither a folder nor a repository of the hub, owner/name; name one")
    try:
        hub = import_module("huggingface_hub")
    except ImportError:
        raise BadInput(
            f"prepare: to download {source!r} takes the package huggingface_hub: pip install 'headstart[hf]'; or {way}"
        ) from None
    repository = repositories(source)[0]
    try:
        folder = Path(hub.snapshot_download(repository, allow_patterns=list(FETCHED)))
    except (OSError, ValueError) as error:
        raise BadInput(
            f"prepare: {repository} cannot be downloaded ({one_line(error, 160)}); check the name and the connection, "
            f"or {way}"
        ) from None
    _cached.cache_clear()
    return folder


def forget_hub() -> None:
    """Forget what the hub's cache held: it may have changed since, in a process that lives long."""
    _cached.cache_clear()


def _cache() -> str:
    """The hub's cache; empty without huggingface_hub, which alone knows where it is."""
    try:
        return str(import_module("huggingface_hub.constants").HF_HUB_CACHE)
    except ImportError:
        return ""


@lru_cache(maxsize=64)
def _cached(source: str, cache: str) -> Path | None:
    """The newest version of a repository in the cache that holds weights of any form."""
    for repository in repositories(source) if cache else ():
        # The library is slow to import: it is asked only where the cache has a folder of that name.
        if not (Path(cache) / f"models--{repository.replace('/', '--')}").is_dir():
            continue
        hub: Any = import_module("huggingface_hub")
        try:
            folder = Path(hub.snapshot_download(repository, cache_dir=cache, local_files_only=True))
        except (OSError, ValueError):
            continue
        # Pickled weights count: their refusal says more than that nothing is there.
        if any(path.suffix in (".safetensors", *PICKLED_ENDINGS) for path in folder.iterdir()):
            return folder
    return None
