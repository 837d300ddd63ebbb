"""Long recordings cut into windows: where they lie, their labels, their splits, and what is answered to them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.io import wavfile
from support.made_tables import why, wide, write

from headstart.data.layout import LayoutSpec
from headstart.data.sources import read_sequences
from headstart.errors import BadInput
from headstart.serve.predictions import joined, predictions_of
from headstart.tasks.own import OwnSpec

RNG = np.random.default_rng(5)


def table(recordings: int = 4, rows: int = 100, labels: str = "a", step: int = 20, **more: Any) -> pd.DataFrame:
    at = np.arange(rows)
    parts = [
        {
            "recording": f"r{r}",
            "time_ms": at * step,
            "x": 1000.0 * r + at,
            "label": [labels[i % len(labels)] for i in at],
        }
        for r in range(recordings)
    ]
    return pd.concat([pd.DataFrame({**part, **more}) for part in parts], ignore_index=True)


def cut(data: Any, **fields: Any) -> Any:
    return read_sequences(data, LayoutSpec(**{"window": 10, **fields}))


@pytest.mark.parametrize(("window", "step"), [(10, None), (10, 5), (30, 7), ("200ms", "0.1s"), (100, None)])
def test_windows_tile_their_recordings_from_the_first_position_on(window: Any, step: Any) -> None:
    s = cut(table(), window=window, step=step)
    length = 10 if window == "200ms" else window
    each = 5 if step == "0.1s" else step or length
    starts = range(0, 100 - length + 1, each)
    expected = [1000.0 * r + np.arange(start, start + length) for r in range(4) for start in starts]
    assert np.array_equal(s.values.reshape(len(s), -1), expected)
    assert s.groups == tuple(f"r{r}" for r in range(4) for _ in starts)
    assert np.allclose(s.windows.ends - s.windows.starts, length * (0.02 if s.windows.seconds else 1))


def test_the_label_of_a_window_in_which_it_changes_is_the_rule_s() -> None:
    frame = table(2, 20)
    frame["label"] = [*"aaaaaabbbb", *"bbbbbbbbba"] * 2
    assert cut(frame).labels == ("a", "b", "a", "b")
    assert cut(frame, window_label="end").labels == ("b", "a", "b", "a")
    assert cut(frame, window=5, window_label="drop").labels == ("a", "b", "a", "b")
    frame["label"] = [*range(10), *range(10)] * 2
    assert cut(frame, target_kind="number").labels == ("4.5",) * 4
    assert cut(frame, target_kind="number", window_label="end").labels == ("9",) * 4


def test_a_served_model_cuts_every_window_whatever_its_label() -> None:
    frame = table(2, 20)
    frame["label"] = [*"aaaaaabbbb", *"bbbbbbbbba"] * 2
    s = cut(frame, window=5, window_label="drop")
    again = read_sequences(frame, s.layout.fixed())
    assert (len(s), len(again)) == (4, 8)
    assert again.labels.count(None) == 4
    assert len(read_sequences(frame.drop(columns="label"), s.layout.fixed())) == 8


def test_no_recording_is_in_two_splits(tmp_path: Path) -> None:
    frame = table(12, 40, step=20)
    frame["x"] = RNG.normal(size=len(frame))
    frame["label"] = frame["recording"].map(lambda name: "ab"[int(name[1:]) % 2])
    frame.to_csv(tmp_path / "all.csv", index=False)
    spec = OwnSpec(file=str(tmp_path / "all.csv"), layout=LayoutSpec(window=10, step=3), split_seed=3)
    task = spec.opened(tmp_path)
    s = read_sequences(tmp_path / "all.csv", LayoutSpec(window=10, step=3))
    sides = [{s.groups[row] for row in split.index.tolist()} for split in (task.train, task.val, task.test)]
    assert sum(map(len, (task.train, task.val, task.test))) == len(s) == 132
    assert all(sides)
    assert sum(map(len, sides)) == len(set.union(*sides)) == 12
    assert "12 groups, each in one split" in " ".join(task.notes)


def test_overlapping_windows_of_noise_score_at_chance_unless_recordings_are_split_apart(tmp_path: Path) -> None:
    frame = table(40, 60)
    frame["x"] = RNG.normal(size=len(frame))
    frame["label"] = np.repeat(RNG.permutation(list("ab" * 20)), 60)
    frame.to_csv(tmp_path / "noise.csv", index=False)
    shares = {}
    for by_group in (True, False):
        layout = LayoutSpec(window=20, step=2)
        task = OwnSpec(file=str(tmp_path / "noise.csv"), layout=layout, by_group=by_group).opened(tmp_path)
        train, test = (split.values.reshape(-1, 20) for split in (task.train, task.test))
        # Neighbours share all but two values, so that the nearest shifted window tells the recording.
        near = (train[None, :, 2:] - test[:, None, :-2]).__pow__(2).sum(-1).argmin(1)
        shares[by_group] = float((task.train.target[near] == task.test.target).mean())
    assert abs(shares[True] - 0.5) < 0.2
    assert shares[False] > 0.8


def test_a_window_in_time_needs_a_clock_and_the_message_says_which_option_gives_one(tmp_path: Path) -> None:
    rows = [f"r{r},{i % 7},a" for r in range(4) for i in range(30)]
    path = write(tmp_path / "plain.csv", "\n".join(["recording,x,label", *rows]))
    text = why(path, shape="auto", window="200ms")
    assert "--time-column" in text
    assert "--rate 50" in text
    assert set(cut(path, window="200ms", rate=50).lengths.tolist()) == {10}


def test_windows_longer_than_recordings_are_counted_and_named_in_one_message(tmp_path: Path) -> None:
    frame = table(5, 100)
    frame = frame[(frame["recording"] > "r1") | (frame["time_ms"] < 400)]
    frame.to_csv(tmp_path / "all.csv", index=False)
    text = why(tmp_path / "all.csv", shape="auto", window="1s")
    assert "2 recordings are shorter than a window of 50 positions, of 5 ('r0': 20 positions, 'r1': 20" in text
    assert "--window 20" in text
    assert len(cut(tmp_path / "all.csv", window=20)) == 17


def test_a_window_longer_than_the_rows_of_a_wide_table_makes_no_recording_of_its_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", "\n".join(wide(12, 30)))
    words = "12 recordings are shorter than a window of 99 positions, of 12 ('s00': 30 positions, 's01': 30"
    assert words in why(path, shape="auto", window=99)
    assert len(cut(path, window=10)) == 36


def test_rows_without_a_recording_are_one_until_clock_or_subject_change() -> None:
    frame = table(3, 50).drop(columns="recording")
    s = cut(frame)
    assert (len(s), len(set(s.groups)), s.channels) == (15, 3, ("x",))
    frame["time_ms"] = np.arange(150) * 20
    assert (len(cut(frame)), len(set(cut(frame).groups))) == (15, 1)
    frame["subject"] = np.repeat([7, 8, 9], 50)
    s = cut(frame)
    assert (s.layout.group, s.channels, len(set(s.groups))) == ("subject", ("x",), 3)
    again = read_sequences(frame.iloc[:50].drop(columns=["label", "subject"]), s.layout.fixed())
    assert len(again) == 5


def test_the_files_of_a_folder_are_recordings_with_a_label_each_or_in_each_row(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    for r in range(4):
        rows = [f"{i * 0.02:.2f},{i},{'ab'[i // 20 % 2]}" for i in range(60)]
        write(tmp_path / "rows" / f"r{r}.csv", "\n".join(["time,x,label", *rows]))
        lines = [line.rpartition(",")[0] for line in rows]
        folder = tmp_path / "each" / "ab"[r % 2]
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / f"r{r}.csv", "\n".join(["time,x", *lines]))
    s = cut(tmp_path / "rows", window="400ms")
    assert (s.labels, len(set(s.groups))) == (("a", "b", "a") * 4, 4)
    single = read_sequences(tmp_path / "rows" / "r0.csv", s.layout.fixed())
    assert (len(single), single.windows.seconds) == (3, True)
    s = cut(tmp_path / "each", window="400ms", step=10)
    assert (len(s), s.classes) == (20, ("a", "b"))
    assert np.allclose(s.windows.starts[:5], np.arange(5) * 0.2)


def test_sound_is_cut_by_its_rate(tmp_path: Path) -> None:
    for r in range(4):
        (tmp_path / "ab"[r % 2]).mkdir(exist_ok=True)
        wavfile.write(tmp_path / "ab"[r % 2] / f"{r}.wav", 8000, RNG.integers(-99, 99, 2000).astype(np.int16))
    s = cut(tmp_path, window="100ms", step="50ms")
    assert (len(s), set(s.lengths.tolist()), s.classes, len(set(s.groups))) == (16, {800}, ("a", "b"), 4)
    assert np.allclose(s.windows.starts[:4], [0, 0.05, 0.1, 0.15])
    assert len(read_sequences(tmp_path / "a" / "0.wav", s.layout.fixed())) == 4


def test_arrays_are_cut_with_one_label_each() -> None:
    x = RNG.normal(size=(6, 50, 2))
    s = read_sequences(x, LayoutSpec(window=20, step=10), labels=list("ababab"))
    assert (len(s), s.labels[:4], s.labels[4:8]) == (24, ("a",) * 4, ("b",) * 4)
    assert np.array_equal(s.values[:20], x[0, :20].astype(np.float32))
    assert np.allclose(s.windows.mean(np.arange(24.0)), [1.5, 5.5, 9.5, 13.5, 17.5, 21.5])


def test_predictions_have_a_row_for_each_window_or_for_each_span() -> None:
    s = cut(table(2, 40), window=20, step=10)
    answers = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.1, 0.9], [0.2, 0.8], [0.4, 0.6]])
    each = predictions_of(s, answers, ("a", "b"))
    assert each.heads == ("recording", "start", "end", "prediction", "p_a", "p_b")
    assert [row[:3] for row in each.rows()][1] == ("r0", pytest.approx([0.2, 0.6]), "a")
    spans = joined(s, answers, ("a", "b"))
    assert spans.heads == ("recording", "start", "end", "prediction", "p")
    rows = [(key, *np.round(within, 6), label, round(share[0], 6)) for key, within, label, share in spans.rows()]
    assert rows == [("r0", 0.0, 0.5, "a", 0.8), ("r0", 0.5, 0.8, "b", 0.8), ("r1", 0.0, 0.8, "b", 0.766667)]
    with pytest.raises(BadInput, match="no windows"):
        joined(s.take(np.arange(2)).followed_by(s), answers, ("a", "b"))


@pytest.mark.parametrize("value", ["5 parsecs", "0", "-3", "s", "1.5", "0s"])
def test_a_length_that_is_none_is_refused_with_examples(value: str, tmp_path: Path) -> None:
    table().to_csv(tmp_path / "all.csv", index=False)
    with pytest.raises(ValueError, match="no length; give positions, such as 500, or time, such as 5s"):
        LayoutSpec(window=value)


def test_a_layout_without_windows_has_the_digest_that_it_had() -> None:
    assert not {"window", "step", "window_label", "time_unit"} & set(LayoutSpec().document())
