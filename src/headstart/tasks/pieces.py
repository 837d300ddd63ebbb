"""Texts of your own with a class or a number each, in the pieces of a checkpoint's own tokeniser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from headstart.atomic import stamps
from headstart.data.prepared import Builder, prepared
from headstart.errors import BadInput
from headstart.sequence import Signature
from headstart.spec import place
from headstart.tasks.build import own_path, prepared_task, repeats
from headstart.tasks.own import OwnSpec
from headstart.tasks.task import SPLITS, WHOLE_DATA, Outline, Task, TaskSpec

if TYPE_CHECKING:
    from headstart.checkpoints.encoder import EncoderFields


class PiecesSpec(TaskSpec):
    """Texts of a file of your own, cut by the tokeniser of BERT or T5: tokens are what its vectors stand for.

    A row `text,label` is `A film for nobody,bad`: the pieces `[CLS] a film for nobody [SEP]`, class `bad`. A stage can
    take the vectors, too: `encoder` of a parent with checkpoint = { source = "...", whole = true }.
    """

    kind: Literal["pieces"] = "pieces"
    file: str = place(min_length=1)
    """The table of texts, as that of task `own`: its path, from the data folder on or absolute."""
    val: str | None = place(None, min_length=1)
    """A further file with the validation split, as of task `own`."""
    test: str | None = place(None, min_length=1)
    """A further file with the test split, as of task `own`."""
    tokeniser: str = place(min_length=1)
    """The checkpoint: a folder, from the data folder on or absolute, or a name as `checkpoint.source` has it. Where it
    is enters no identity; the pieces do."""
    target: str | None = None
    """Column of the target; left out: it is guessed, as of task `own`."""
    values: tuple[str, ...] = ()
    """The column of the texts; left out: it is guessed."""
    length: int = Field(default=256, ge=3, le=2**16)
    """Pieces of a text at most, the marks of its ends among them; longer texts lose their rest."""
    sizes: tuple[int, int, int, int] | None = place(None)
    """Texts of train, val and test, and pieces that the tokeniser knows: a plan goes by them while files are absent."""

    shows_not: ClassVar[str] = OwnSpec.shows_not

    @property
    def texts(self) -> OwnSpec:
        """The same texts, byte by byte."""
        return OwnSpec(
            file=self.file,
            val=self.val,
            test=self.test,
            target=self.target,
            values=self.values,
            split_seed=self.split_seed,
        )

    def outline(self) -> Outline | None:
        """Two classes, in texts that are not shorter than `length`."""
        if self.sizes is None:
            return None
        train, val, test, vocabulary = self.sizes
        signature = Signature("tokens", vocabulary, self.length, self.length, "class", 2)
        return Outline(signature, train, val, test, self.length)

    def files(self, data: Path) -> tuple[Path, ...]:
        return (*self.texts.files(data), *sorted(self._folder(data).glob("*.json")), *self._folder(data).glob("*.txt"))

    def load(self, data: Path) -> Task:
        base, fields = self.texts.opened(data), self._fields(data)
        if base.signature.input != "tokens" or base.signature.width != 256:
            raise BadInput(
                f"task.values: {self.file} holds no texts, of which a tokeniser makes pieces; name the column of the "
                'texts, or take task "own"'
            )
        document = {
            "task": self.model_copy(update=WHOLE_DATA).document(places=False),
            "texts": base.fingerprint,
            "files": stamps(self.files(data)),
        }
        ready = prepared("pieces", document, lambda builder: self._build(builder, base, fields), private=True)
        task = prepared_task(ready, "tokens", fields.vocabulary or 0, base.labels, piece_reader(fields.tokeniser))
        return replace(task, decided=base.decided)

    def _build(self, builder: Builder, base: Task, fields: EncoderFields) -> dict[str, Any]:
        from headstart.checkpoints.tokeniser import pieces_of

        most = min(self.length, fields.length or self.length)
        for name in SPLITS:
            x = base.split(name)
            ends = zip(x.offsets[:-1].tolist(), x.offsets[1:].tolist(), strict=True)
            texts = [x.values[begin:end].tobytes().decode(errors="replace") for begin, end in ends]
            rows = pieces_of(fields.tokeniser, texts, most) if texts else []
            offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
            values = np.concatenate([np.zeros(0, np.int64), *rows]).astype(np.int32)
            builder.save_split(name, replace(x, values=values, offsets=offsets))
        return {"notes": [*base.notes, *repeats(builder, "texts, in pieces,")]}

    def _folder(self, data: Path) -> Path:
        from headstart.checkpoints.source import find_folder

        inside = data / self.tokeniser
        return inside if inside.is_dir() else find_folder(self.tokeniser) or own_path(data, "tokeniser", self.tokeniser)

    def _fields(self, data: Path) -> EncoderFields:
        """Of the checkpoint. Raises: BadInput where it is none of texts."""
        from headstart.checkpoints.encoder import EncoderFields
        from headstart.checkpoints.spec import ModelSource

        fields = ModelSource(source=str(self._folder(data).absolute())).fields
        if not isinstance(fields, EncoderFields):
            raise BadInput(
                f"task.tokeniser: {self.tokeniser!r} is of family {fields.family!r}, whose tokeniser is not read; name "
                "a checkpoint of BERT or T5"
            )
        return fields


def piece_reader(tokeniser: str) -> Callable[[np.ndarray], str]:
    """Ids (L,) as their pieces."""
    from headstart.checkpoints.tokeniser import piece_names

    names = piece_names(tokeniser)
    return lambda ids: " ".join(names.get(int(row), f"<{int(row)}>") for row in np.atleast_1d(ids))
