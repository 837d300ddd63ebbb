"""A checkpoint as a kind of model: its weights are read, and stages start from them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor

from headstart.atomic import stamps
from headstart.checkpoints.fields import Fields
from headstart.checkpoints.folder import CARD_FILE, CONFIG_FILE, INDEX_FILE, VOCABULARY_FILE
from headstart.checkpoints.read import Checkpoint, fields_of, read_checkpoint
from headstart.checkpoints.released import released_config
from headstart.checkpoints.source import absent, find_folder
from headstart.checkpoints.tokeniser import SETTINGS_FILE, TOKENISER_FILE
from headstart.data.prepared import remembered
from headstart.errors import BadInput
from headstart.models.kind import ModelKind
from headstart.spec import neutral, place

READING_VERSION = 1
"""Version of how tensors of files become ours; raised where equal files give other numbers."""
Stamps = tuple[tuple[str, int, int, int], ...]


class CheckpointSpec(ModelKind):
    """Weights that were made elsewhere."""

    kind: Literal["checkpoint"] = "checkpoint"
    source: str = place(min_length=1)
    """A folder, a name in the folder of weights (`--weights`), or a repository that the hub's cache holds."""
    content: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    """The digest of the weights that are meant, as `headstart show SOURCE` prints it; others are refused. Not given:
    whatever the source holds."""

    whole: bool = neutral(False)
    """Of BERT and T5: the vectors of pieces of text and the tokeniser are read, too, for a task `pieces`."""

    way: ClassVar[str] = "read"
    described: ClassVar[tuple[str, ...]] = ("kind", "source", "content", "whole")
    where: ClassVar[str] = "checkpoint"

    @property
    def shows_not(self) -> str:
        return "the pretrained weights are one draw; the spread over seeds does not hold that of pretraining."

    @property
    def lacks(self) -> str:
        """Where it was looked for, unless its content is known or its folder is here."""
        at_hand = self.content is not None or find_folder(self.source) is not None
        return "" if at_hand else f"{self.where}.source: {absent(self.source)}"

    @property
    def absent(self) -> bool:
        """Whether its folder is not here."""
        return find_folder(self.source) is None

    @property
    def sized(self) -> bool:
        """Whether its folder is here, or its sizes are known by its name."""
        return released_config(self.source) is not None or find_folder(self.source) is not None

    @property
    def fields(self) -> Fields:
        """What it is without its weights. Raises: BadInput unless it is `sized`."""
        folder = find_folder(self.source)
        return (
            fields_of(self.source, self.whole)
            if folder is None
            else _opened(folder, _stamps(folder), self.whole).fields
        )

    def opened(self) -> Checkpoint:
        """The checkpoint at its source. Raises: BadInput where it is absent or cannot be read."""
        folder = find_folder(self.source)
        if folder is None:
            raise BadInput(f"{self.where}.source: {absent(self.source)}")
        return _opened(folder, _stamps(folder), self.whole)

    def loaded(self) -> tuple[Checkpoint, dict[str, Tensor], str]:
        """The checkpoint, all of its tensors by our names in float32, and their content.

        Raises: BadInput where it is not what `content` says, as it was when the stage was planned.
        """
        checkpoint = self.opened()
        tensors = dict(checkpoint.tensors())
        content = checkpoint.content_of(tensors.items())
        if self.content not in (None, content):
            raise BadInput(
                f"{checkpoint.source}: the weights have changed since this run was planned (their content was "
                f"{self.content[:16]}..., and is {content[:16]}...); give the command again to take them as they are"
            )
        return checkpoint, tensors, content

    def settled(self) -> CheckpointSpec:
        """With its content, where the source is at hand. Raises: BadInput where that is not the one that is meant."""
        folder = find_folder(self.source)
        if folder is None:
            return self
        content = _content(folder, _stamps(folder), self.whole)
        if self.content not in (None, content):
            raise BadInput(
                f"{self.where}.content: {folder} holds {content}, and {self.content} is meant; name the source of "
                "that, or leave the content out"
            )
        return self.model_copy(update={"content": content})

    def describe(self) -> str:
        """`that of the checkpoint gpt2`."""
        return f"that of the checkpoint {self.source}"

    def describe_work(self, title: str) -> str:
        """`read the weights of gpt2 (...), which were made elsewhere`."""
        return f"read the weights of {title or self.source}, which were made elsewhere"


class ModelSource(CheckpointSpec):
    """The same as `source` and `content` of a model that reads a checkpoint itself."""

    whole: bool = neutral(True)
    where: ClassVar[str] = "model"


def _stamps(folder: Path) -> Stamps:
    """Of all files that a checkpoint is read from; where one cannot be read, the reader says so."""
    names = (CONFIG_FILE, INDEX_FILE, VOCABULARY_FILE, CARD_FILE, TOKENISER_FILE, SETTINGS_FILE)
    files = [path for path in folder.iterdir() if path.suffix == ".safetensors" or path.name in names]
    return tuple(stamps(sorted(path for path in files if path.exists())))


@lru_cache(maxsize=16)
def _opened(folder: Path, stands: Stamps, whole: bool = False) -> Checkpoint:
    del stands
    return read_checkpoint(folder, whole)


@lru_cache(maxsize=64)
def _content(folder: Path, stands: Stamps, whole: bool = False) -> str:
    checkpoint = _opened(folder, stands, whole)
    document = {
        "reading": READING_VERSION,
        "names": checkpoint.used,
        "fields": checkpoint.fields.document,
        "files": stamps(checkpoint.files),
    }
    return remembered(document, lambda: checkpoint.content)
