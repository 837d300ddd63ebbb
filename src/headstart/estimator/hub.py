"""Model folders on a hub: sent whole, and fetched as the two files that a model needs."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from headstart import disk
from headstart.errors import BadInput, one_line
from headstart.serve.folder import CONFIG_FILE, WEIGHTS_FILE

_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def is_repository(name: str) -> bool:
    """Whether a name has the form of a repository, `owner/name`."""
    return _NAME.fullmatch(name) is not None and not name.startswith(".")


@contextmanager
def fetched(repo_id: str, revision: str | None = None, token: str | bool | None = None) -> Iterator[Path]:
    """A folder that holds the config and weights of a repository, and nothing else of it; deleted in the end.

    The files are copied out of the hub's cache, where they are links to its blobs.
    Raises: ImportError without huggingface_hub; BadInput where there is no such repository, file or connection.
    """
    hub = _library(f"{repo_id}: is not a folder here, and to look for it on the hub")
    with tempfile.TemporaryDirectory(prefix="headstart-") as folder:
        for name in (CONFIG_FILE, WEIGHTS_FILE):
            try:
                path = hub.hf_hub_download(repo_id, name, revision=revision, token=token)
            except (OSError, ValueError) as error:
                raise BadInput(
                    f"{repo_id}: {name} cannot be downloaded ({one_line(error, 160)}); give the folder of a model, or "
                    "a repository that push_to_hub wrote"
                ) from error
            disk.write_file(Path(folder) / name, Path(path).read_bytes())
        yield Path(folder)


def pushed(folder: Path, repo_id: str, *, private: bool, message: str, token: str | bool | None = None) -> str:
    """Send all files of a folder, making the repository where it is not there; the address of it.

    Raises: ImportError without huggingface_hub; BadInput where the hub refuses.
    """
    api = _library(f"{repo_id}: to send it to the hub").HfApi(token=token)
    try:
        address = api.create_repo(repo_id, private=private, exist_ok=True, repo_type="model")
        api.upload_folder(repo_id=repo_id, folder_path=str(folder), commit_message=message, repo_type="model")
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{repo_id}: the hub does not take it ({one_line(error, 160)}); log in with `hf auth login`, or give "
            "another name"
        ) from error
    return str(address)


def _library(wish: str) -> Any:
    try:
        return import_module("huggingface_hub")
    except ImportError:
        raise ImportError(f"{wish} takes the package huggingface_hub: pip install 'headstart[hf]'") from None
