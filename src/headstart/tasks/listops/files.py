"""ListOps as Long Range Arena released it: three TSV files of expressions and answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from headstart.data.archives import stamps
from headstart.data.prepared import Builder, Writer, prepared
from headstart.data.text import lines
from headstart.errors import BadInput, Mistakes
from headstart.tasks.build import prepared_task
from headstart.tasks.listops.generate import SYMBOLS, decode, encode
from headstart.tasks.task import LONG_RANGE_ARENA, SPLITS, Task, TaskSpec

FOLDERS = ("", "listops-1000", "lra_release/listops-1000", "lra_release/lra_release/listops-1000", "listops")
HEADER = "Source\tTarget"
ORIGIN = (
    "Long Range Arena's archive (lra_release, https://github.com/google-research/long-range-arena) holds them; name "
    "the folder above with --data or HEADSTART_DATA; the task `listops` generates the like without a download"
)


class ListOpsFilesSpec(TaskSpec):
    """Long Range Arena's own ListOps files, where someone has them; symbols and answers as in `listops`.

    Read from `basic_train.tsv`, `basic_val.tsv` and `basic_test.tsv` (header `Source<TAB>Target`; one row is
    `( [MAX 2 9 ] )<TAB>9`) in the data folder, or in `listops-1000` or `lra_release/listops-1000` there.
    Source: Tay et al. 2020.
    """

    kind: Literal["listops_files"] = "listops_files"

    shows_not: ClassVar[str] = LONG_RANGE_ARENA
    mask_rate: ClassVar[float] = 0.1

    def files(self, data: Path) -> tuple[Path, ...]:
        """The three files. Raises: BadInput naming the file looked for and the folders."""
        names = [f"basic_{split}.tsv" for split in SPLITS]
        folder = next((data / folder for folder in FOLDERS if (data / folder / names[0]).is_file()), None)
        if folder is None:
            inner = ", ".join(filter(None, FOLDERS))
            raise BadInput(f"task.kind: 'listops_files': no {names[0]} in {data}, nor in {inner} there; {ORIGIN}")
        for name in names:
            if not (folder / name).is_file():
                raise BadInput(f"task.kind: 'listops_files': no {name} in {folder}; {ORIGIN}")
        return tuple(folder / name for name in names)

    def load(self, data: Path) -> Task:
        """The whole task, memory-mapped. Raises: BadInput with up to 20 mistakes, each with file and row."""
        files = self.files(data)
        document = {"reader": self.version, "files": stamps(files)}
        ready = prepared(data, "listops-files", document, lambda builder: _build(builder, files))
        return prepared_task(ready, "tokens", len(SYMBOLS), labels=tuple("0123456789"), text=decode)


def _build(builder: Builder, files: tuple[Path, ...]) -> dict[str, Any]:
    mistakes, first = Mistakes(), 0
    for number, (split, path) in enumerate(zip(SPLITS, files, strict=True)):
        writer, answers = Writer(builder, split), []
        for tokens, answer in _rows(path, mistakes):
            writer.add(tokens)
            answers.append(answer)
        if not answers:
            mistakes.add(str(path), "holds no row below its header")
        else:
            mistakes.check()
            writer.finish(np.array(answers), np.arange(first, first + len(answers)))
        first += len(answers)
        builder.report(number + 1, len(files))
    mistakes.check()
    return {"expressions": first}


def _rows(path: Path, mistakes: Mistakes) -> Iterator[tuple[np.ndarray, int]]:
    """(symbols, answer) of each sound row; the others are noted with their row."""
    rows = lines(path, mistakes)
    place, header = next(rows, (f"{path}, row 1", ""))
    if header.strip() != HEADER:
        mistakes.add(place, f"{header[:40]!r} is not the header {HEADER!r}")
        return
    for place, line in rows:
        source, tab, answer = line.partition("\t")
        if not tab or len(answer.strip()) != 1 or answer.strip() not in "0123456789":
            mistakes.add(place, f"the answer {answer.strip()!r} is not one digit after a tab")
            continue
        try:
            tokens = encode(source, place)
        except BadInput as error:
            mistakes.add(place, str(error).partition(": ")[2])
            continue
        if len(tokens):
            yield tokens, int(answer)
        else:
            mistakes.add(place, "an expression without a symbol")
