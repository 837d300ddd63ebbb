"""Vital signs from windows and from records: small files of our own, and every way for them to be wrong."""

import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.made_data_sets import bidmc

from headstart.errors import BadInput, Mistakes
from headstart.tasks.bidmc import BidmcSpec, read_columns, read_signals

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data"
SECONDS = 40


def signals(seed, seconds=SECONDS):
    rng = np.random.default_rng(seed)
    rows = ["Time [s], RESP, PLETH, V, AVR, II"]
    rows += [
        f"{float(f'{i / 125:.5g}'):g},0.3,{rng.normal():.5f},0.5,,{rng.normal(3, 2):.5f}"
        for i in range(125 * seconds + 1)
    ]
    return rows


def numerics(seed, seconds=SECONDS):
    return [
        "Time [s], HR, PULSE, RESP, SpO2",
        *(f"{t},{80 + 5 * seed + t % 3},{90},{15 + seed},{95 + seed % 4}" for t in range(seconds + 1)),
    ]


@pytest.fixture
def records(tmp_path):
    folder = tmp_path / "bidmc" / "bidmc_csv"
    folder.mkdir(parents=True)
    for i in range(6):
        (folder / f"bidmc_{i + 1:02d}_Signals.csv").write_text("\n".join(signals(i)))
        (folder / f"bidmc_{i + 1:02d}_Numerics.csv").write_text("\n".join(numerics(i)))
    return tmp_path


def of(data, **settings):
    return BidmcSpec(source="records", length=500, stride=500, **settings).load(data)


def why(data, **settings):
    with pytest.raises(BadInput) as caught:
        BidmcSpec(**settings).load(data)
    return str(caught.value)


def everything(task):
    splits = (task.train, task.val, task.test)
    return {int(x.index[i]): (x.inputs(i), float(x.target[i])) for x in splits for i in range(len(x))}


def test_windows_keep_their_splits_and_targets_go_from_minus_one_to_one(tmp_path):
    task = BidmcSpec(length=40).load(bidmc(tmp_path))
    assert (len(task.train), len(task.val), len(task.test)) == (68, 12, 20)
    assert (task.signature.target, task.signature.width, task.signature.length) == ("number", 2, 40)
    assert (float(task.train.target.min()), float(task.train.target.max())) == (-1, 1)
    plain = BidmcSpec(length=40, scale_target=False).load(tmp_path)
    rates = [
        float(line.rpartition(":")[2])
        for line in (tmp_path / "bidmc/BIDMC32HR_TRAIN.ts").read_text().split("\n")
        if line.count(":") == 2
    ]
    assert np.allclose(plain.train.target, np.array(rates)[plain.train.index])
    low, high = plain.train.target.min(), plain.train.target.max()
    assert np.allclose(task.test.target, 2 * (plain.test.target - low) / (high - low) - 1, atol=1e-5)
    assert "stands as -1 to 1" in task.notes[1]
    assert "windows of one patient may stand in train, val and test" in task.notes[0]


def test_a_window_is_the_samples_and_the_mean_of_the_numbers_that_it_covers(records):
    task = of(records, scale_target=False, standardise=False)
    windows = everything(task)
    assert len(windows) == 6 * 10
    for record in range(6):
        rows = signals(record)[1:]
        for k in range(10):
            window, target = windows[10 * record + k]
            fields = [row.split(",") for row in rows[500 * k : 500 * (k + 1)]]
            assert np.array_equal(window, np.float32([[float(f[5]), float(f[2])] for f in fields]))
            covered = [80 + 5 * record + t % 3 for t in range(4 * k, 4 * k + 4)]
            assert target == pytest.approx(np.mean(covered))


def test_splits_share_no_record(records):
    task = of(records)
    whose = [{int(i) // 10 for i in x.index} for x in (task.train, task.val, task.test)]
    assert [len(some) for some in whose] == [4, 1, 1]
    assert len(set.union(*whose)) == 6
    others = [frozenset(of(records, split_seed=seed).test.index.tolist()) for seed in range(4)]
    assert len(set(others)) > 1


def test_windows_may_overlap_and_each_vital_sign_has_its_column(records):
    task = BidmcSpec(source="records", length=1000, stride=250, vital="RR", scale_target=False).load(records)
    assert len(everything(task)) == 6 * 17
    assert {target for _, target in everything(task).values()} == set(range(15, 21))
    assert {t for _, t in everything(of(records, vital="SpO2", scale_target=False)).values()} == {95, 96, 97, 98}


def test_windows_without_a_number_or_a_signal_are_left_out_and_counted(records):
    path = records / "bidmc/bidmc_csv/bidmc_01_Numerics.csv"
    rows = path.read_text().split("\n")
    rows[1:5] = [f"{t},NaN,90,15,95" for t in range(4)]
    rows[5] = "4,,90,15,95"
    path.write_text("\n".join(rows))
    path = records / "bidmc/bidmc_csv/bidmc_02_Signals.csv"
    rows = path.read_text().split("\n")
    rows[1:501] = [row.rpartition(",")[0] + "," for row in rows[1:501]]
    rows[501] = rows[501].rpartition(",")[0] + ",NaN"
    path.write_text("\n".join(rows))
    task = of(records)
    assert len(everything(task)) == 58
    assert "2 windows without a HR or a signal are left out" in task.notes
    assert task.signature.missing


def test_equal_windows_of_two_records_stand_in_one_split(records):
    flat = [signals(0)[0], *(",".join([row.split(",")[0], "0,0,0,0,0"]) for row in signals(0)[1:])]
    for i in range(6):
        path = records / f"bidmc/bidmc_csv/bidmc_{i + 1:02d}_Signals.csv"
        path.write_text("\n".join([*flat[:501], *path.read_text().split("\n")[501:]]))
    task = of(records)
    assert "2 windows of val and test that also stand in an earlier split are left out" in task.notes
    assert (len(task.train), len(task.val), len(task.test)) == (40, 9, 9)


def test_packed_records_are_read(records):
    before = of(records).fingerprint
    for path in sorted((records / "bidmc/bidmc_csv").glob("*_Signals.csv")):
        path.with_name(path.name + ".xz").write_bytes(lzma.compress(path.read_bytes()))
        path.unlink()
    assert of(records).fingerprint == before


@pytest.mark.parametrize(
    ("what", "row", "text", "words"),
    [
        ("Signals", 0, "Time [s], RESP, V, AVR, I, III", "1: has no column 'II' and no 'PLETH'"),
        ("Signals", 9, "0.064,1,2", "10: has 3 cells, the header has 6; the row is cut short"),
        ("Signals", 9, "0.064,0,x7,0,0,0", "10 column 'PLETH': 'x7' is not a number; give a number, or nothing"),
        ("Signals", 9, "0.064,0,inf,0,0,0", "10 column 'PLETH': 'inf' is infinite"),
        ("Signals", 9, "0.5,0,1,0,0,0", "10: the time is 0.5 s, 125 samples per second give 0.064 s"),
        ("Numerics", 3, ",80,80,15,95", "4: the time is missing"),
        ("Numerics", 0, "Time [s], PULSE, x, y, z", "1: has no column 'HR'"),
    ],
)
def test_what_is_wrong_with_a_record_is_said_with_its_row(records, what, row, text, words):
    path = records / f"bidmc/bidmc_csv/bidmc_03_{what}.csv"
    rows = path.read_text().split("\n")
    rows[row] = text
    path.write_text("\n".join(rows))
    message = why(records, source="records", length=500)
    assert f"{path}:{words}" in message


def test_what_is_wrong_with_two_records_is_said_at_once(records):
    paths = [records / f"bidmc/bidmc_csv/bidmc_0{i}_Signals.csv" for i in (2, 5)]
    for path in paths:
        path.write_text(path.read_text().replace("0.064,", "0.064,,", 1))
    message = why(records, source="records", length=500)
    assert f"{paths[0]}:10: has 7 cells, the header has 6" in message
    assert message.endswith("(1 more like it)")


def test_missing_files_and_impossible_settings_are_named(records, tmp_path):
    assert "BIDMC32HR_TRAIN.ts" in why(tmp_path / "none")
    assert "physionet.org" in why(tmp_path / "none", source="records")
    assert "leaves no window with a HR in the records of train" in why(records, source="records", length=9000)
    assert "leave no train record of 6" in why(records, source="records", length=500, val_share=0.5, test_share=0.5)
    folder = records / "bidmc/bidmc_csv"
    (folder / "bidmc_05_Numerics.csv").unlink()
    assert f"{folder / 'bidmc_05_Numerics.csv'} is missing" in why(records, source="records")
    for path in folder.glob("bidmc_0[3-6]*"):
        path.unlink()
    assert "has 2 records, and train, val and test need one each" in why(records, source="records")


def test_what_is_wrong_with_windows_is_said(tmp_path):
    path = bidmc(tmp_path) / "bidmc/BIDMC32HR_TEST.ts"
    assert "has 2 channels of 40 values, not 2 of task.length = 4000" in why(tmp_path)
    text = path.read_text()
    path.write_text(text + "1,2:3,4:80\n" + ":".join([",".join(["1"] * 40)] * 2 + ["NaN"]))
    message = why(tmp_path, length=40)
    assert f"{path}, row 30: has 2 values, the header says 40" in message
    assert f"{path}, row 31: the target is NaN; leave the row out" in message
    path.write_text(text.replace("@targetLabel", "@classLabel"))
    assert "a task with a number as target needs @targetLabel true" in why(tmp_path, length=40)


@given(st.lists(st.text(max_size=20) | st.text("0123456789.,-naif", max_size=12), max_size=8))
def test_any_rows_give_a_table_or_mistakes(tmp_path_factory, rows):
    path, mistakes = tmp_path_factory.getbasetemp() / "any.csv", Mistakes()
    path.write_text("\n".join(["Time [s],II,PLETH", *rows]), "utf-8")
    table, _ = read_columns(path, ("II", "PLETH"), mistakes)
    assert bool(len(table)) != bool(mistakes.texts)
    assert table.shape[1] == 3
    assert np.isfinite(table[:, 0]).all()


def test_the_real_record():
    path = SHARED / "physio" / "bidmc_01_Signals.csv.xz"
    if not path.is_file():
        pytest.skip("../shared/data/physio is not here")
    table = read_signals(path, Mistakes())
    assert table.shape == (60_001, 3)
    assert table[-1, 0] == 480
    assert table[1].tolist() == [0.008, 0.67059, 0.43206]
