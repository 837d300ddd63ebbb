"""Long Range Arena's TSV files of ListOps, written small."""

from pathlib import Path

import numpy as np
import pytest
from support.listops import evaluate

from headstart.errors import BadInput
from headstart.spec import read
from headstart.tasks import open_task
from headstart.tasks.listops import ListOpsFilesSpec, ListOpsSpec
from headstart.tasks.listops.generate import decode


def write(folder: Path, rows: dict[str, list[tuple[str, int]]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for split, pairs in rows.items():
        lines = ["Source\tTarget", *(f"( {text} )\t{answer}" for text, answer in pairs)]
        (folder / f"basic_{split}.tsv").write_text("\n".join(lines) + "\n")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    generated = ListOpsSpec(min_length=3, max_length=40, train=30, val=12, test=12).load(tmp_path)
    rows = {}
    for split in ("train", "val", "test"):
        x = generated.split(split)
        texts = [decode(x.values[a:b]) for a, b in zip(x.offsets[:-1], x.offsets[1:], strict=True)]
        assert x.target is not None
        rows[split] = list(zip(texts, x.target.tolist(), strict=True))
    write(tmp_path / "lra_release" / "listops-1000", rows)
    return tmp_path


def test_what_was_written_is_read_again(data: Path) -> None:
    generated = ListOpsSpec(min_length=3, max_length=40, train=30, val=12, test=12).load(data)
    task = open_task(ListOpsFilesSpec(), data)
    for split in ("train", "val", "test"):
        ours, theirs = task.split(split), generated.split(split)
        assert np.array_equal(ours.values, theirs.values)
        assert np.array_equal(ours.offsets, theirs.offsets)
        assert np.array_equal(ours.target, theirs.target)
        assert ours.target is not None
        assert evaluate(ours.values[: ours.offsets[1]]) == ours.target[0]
    assert task.signature.classes == 10


def test_mistakes_are_gathered_with_file_and_row(data: Path) -> None:
    path = data / "lra_release" / "listops-1000" / "basic_val.tsv"
    path.write_text("Source\tTarget\n[MAX 1 2 ]\t2\n[MAXX 1 2 ]\t2\n[MIN 1 2 ] 1\n[MIN 1 ]\t17\n( )\t3\n")
    with pytest.raises(BadInput) as caught:
        open_task(ListOpsFilesSpec(), data)
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert "basic_val.tsv, row 3" in lines[0]
    assert "did you mean '[MAX'?" in lines[0]
    assert "basic_val.tsv, row 4" in lines[1]
    assert lines[1].endswith("is not one digit after a tab (1 more like it)")
    assert "without a symbol" in lines[2]


def test_a_file_without_the_header_or_that_is_no_text_is_refused(data: Path) -> None:
    path = data / "lra_release" / "listops-1000" / "basic_test.tsv"
    path.write_text("[MAX 1 2 ]\t2\n")
    with pytest.raises(BadInput, match="is not the header"):
        open_task(ListOpsFilesSpec(), data)
    path.write_bytes(b"Source\tTarget\n\xff\xfe\n")
    with pytest.raises(BadInput, match="is not UTF-8"):
        open_task(ListOpsFilesSpec(), data)


def test_absent_files_are_named_with_where_they_come_from(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"looks for basic_train.tsv, .*archive"):
        open_task(read(ListOpsFilesSpec, {}), tmp_path)
