"""Frozen tensors, kept once per content: in files that every stage which holds them links into its folder.

`<store>/.tensors/<content>.safetensors` is found by later stages; `<stage>/frozen/<content>.safetensors` is the same
file under a second name (a hard link). So a folder of a stage is whole by itself: deleting or copying any stage leaves
the others as they are, and the file goes with its last name. Where a file system has no hard links, a stage has a copy.
`content` is the SHA-256 of the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headstart import disk
from headstart.atomic import disk_full, publish, sync_folder
from headstart.errors import Damaged
from headstart.store.files import known_digest, seal, unseal
from headstart.store.plain import check_inside, inside

if TYPE_CHECKING:
    import torch

TENSOR_INDEX, FROZEN = ".tensors", "frozen"
LARGE_TENSOR = 2**16
"""Bytes of a tensor from which on it has a file of its own."""
LEAST_FROZEN = 2**14
"""Bytes of all frozen tensors of a stage, below which they stay in its own files."""
_KEY = "tensor"
_NAME = re.compile(r"[0-9a-f]{64}\.safetensors|\..*\.tmp")


def shared_names(
    best: Mapping[str, torch.Tensor], last: Mapping[str, torch.Tensor], frozen: Collection[str]
) -> set[str]:
    """Names of frozen tensors that are the same in both, where there is enough of them."""
    import torch

    def same(name: str) -> bool:
        return best[name].dtype == last[name].dtype and torch.equal(best[name], last[name])

    names = {name for name in frozen if name in best and same(name)}
    return names if sum(best[name].nbytes for name in names) >= LEAST_FROZEN else set()


def keep(folder: Path, tensors: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Give a stage's folder these tensors; name -> file in it. Files of an earlier attempt that are not asked for go.

    A large tensor has a file of its own; the small ones are together in one.
    Raises: OSError (a full disk, say).
    """
    check_inside(folder, FROZEN)
    large = [name for name in sorted(tensors) if tensors[name].nbytes >= LARGE_TENSOR]
    groups = {(name,): {_KEY: tensors[name]} for name in large}
    small = {name: tensors[name] for name in sorted(tensors.keys() - set(large))}
    files = {}
    for names, group in (*groups.items(), *([(tuple(small), small)] if small else [])):
        content = seal(group, {})
        file = f"{FROZEN}/{hashlib.sha256(content).hexdigest()}.safetensors"
        put(folder.parent, folder / file, partial(publish, data=content))
        files.update(dict.fromkeys(names, file))
    if (folder / FROZEN).is_dir():
        for path in (folder / FROZEN).iterdir():
            if f"{FROZEN}/{path.name}" not in files.values():
                disk.unlink(path)
        sync_folder(folder / FROZEN)
    return files


def read(folder: Path, files: Mapping[str, str]) -> dict[str, torch.Tensor]:
    """The tensors of a stage's folder. Raises: Damaged where one is missing or not what was kept."""
    tensors: dict[str, torch.Tensor] = {}
    for file in dict.fromkeys(files.values()):
        try:
            content = unseal(inside(folder, file))[0]
        except (FileNotFoundError, NotADirectoryError):
            raise Damaged(f"{folder / file}: is missing") from None
        names = [name for name in files if files[name] == file]
        tensors |= {name: (content[name] if name in content else content[_KEY]).clone() for name in names}
    return tensors


def put(root: Path, path: Path, write: Callable[[Path], None]) -> None:
    """Give a stage's folder `frozen/<content>.safetensors`, as a link to the one file of the index where that can be.

    write: makes a file of this content; called only where the index of the store `root` has none that is sound.
    """
    check_inside(root, f"{TENSOR_INDEX}/{path.name}")
    check_inside(path.parent.parent, FROZEN)
    source = root / TENSOR_INDEX / path.name
    for folder in (path.parent, source.parent):
        disk.make_folder(folder)
    try:
        for _ in range(3):  # another process may keep the same file at this moment, or prune it
            disk.unlink(path, missing_ok=True)
            if not source.exists():
                write(path)
                with contextlib.suppress(FileExistsError):
                    disk.link(path, source)
                    return
            elif _sound(source):
                with contextlib.suppress(FileNotFoundError):
                    disk.link(source, path)
                    return
            else:
                disk.unlink(source, missing_ok=True)
    except OSError as error:
        if disk_full(error):
            raise
    disk.unlink(path, missing_ok=True)
    write(path)


def prune(root: Path) -> None:
    """Delete files of the index that no stage holds any more, as far as that can be."""
    index = root / TENSOR_INDEX
    check_inside(root, TENSOR_INDEX)
    if not index.is_dir():
        return
    for path in index.iterdir():
        if not _NAME.fullmatch(path.name):  # it is not ours
            continue
        with contextlib.suppress(OSError):  # another process did it, or the next one can
            if path.lstat().st_nlink == 1:
                disk.unlink(path)


def damaged_files(root: Path) -> list[str]:
    """Files of the index that are not what was kept, a line for each."""
    check_inside(root, TENSOR_INDEX)
    paths = sorted((root / TENSOR_INDEX).iterdir()) if (root / TENSOR_INDEX).is_dir() else []
    return [f"{path}: its digest does not fit" for path in paths if not _sound(path)]


def _sound(path: Path) -> bool:
    """Whether a file of the index is what its name says; one that another process deletes meanwhile is nobody's."""
    try:
        return path.name.endswith(".tmp") or known_digest(path) == path.stem
    except FileNotFoundError:
        return True
    except Damaged:
        return False
