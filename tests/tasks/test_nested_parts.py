"""Parts of train, and of what is scored: each class has its share, and fewer rows are a part of more."""

from pathlib import Path

import numpy as np
import pytest

from headstart.tasks.own import OwnSpec

COUNTS = {"often": 400, "seldom": 90, "rare": 12}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    names = [name for name, count in COUNTS.items() for _ in range(count)]
    path.write_text("label,t0,t1\n" + "".join(f"{name},{i}.5,{i % 7}\n" for i, name in enumerate(names)))
    return path


def test_fewer_rows_of_train_are_a_part_of_more_and_hold_each_class(file: Path) -> None:
    before: set[int] = set()
    for rows in (3, 30, 150, 10_000):
        task = OwnSpec(file=str(file), rows=rows).opened(file.parent)
        assert task.train.units == min(rows, 301)
        index = set(task.train.index.tolist())
        assert before <= index
        assert task.train.target is not None
        assert len(np.unique(task.train.target)) == 3
        before = index
    shares = np.bincount(task.train.target.astype(int)) / task.train.units
    some = OwnSpec(file=str(file), rows=150).opened(file.parent).train.target
    assert some is not None
    assert np.bincount(some.astype(int)) / 150 == pytest.approx(shares, abs=0.02)


def test_val_and_test_are_scored_in_part_and_val_trains_whole(file: Path) -> None:
    whole = OwnSpec(file=str(file)).opened(file.parent)
    some = OwnSpec(file=str(file), scored=40).opened(file.parent)
    assert (some.val.units, some.test.units) == (40, 40)
    assert some.train.units == whole.train.units
    again = OwnSpec(file=str(file), scored=40, validation=0).opened(file.parent)
    assert again.train.units == whole.train.units + whole.val.units


def test_rows_that_leave_a_class_out_are_refused_and_all_are_what_they_were(file: Path) -> None:
    with pytest.raises(ValueError, match=r"task\.rows: 2 leaves no train example of class"):
        OwnSpec(file=str(file), rows=2).opened(file.parent)
    assert "rows" not in OwnSpec(file=str(file)).document()
    assert "scored" not in OwnSpec(file=str(file)).document()
