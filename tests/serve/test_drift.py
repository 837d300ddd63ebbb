"""New sequences that look unlike those of the fit are noticed, and others are not."""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.made_models import made, walks

from headstart.data import LayoutSpec, Profile, profile, read_sequences
from headstart.data.profile import Drift, features_of
from headstart.data.sequences import Sequences
from headstart.estimator.inputs import warn_of_shift
from headstart.serve.config import ModelConfig
from headstart.serve.folder import load_model, save_model
from headstart.spec import read


def _numbers(count: int, seed: int = 0, length: int = 30, mean: float = 0.0, gaps: float = 0.0) -> Sequences:
    rng = np.random.default_rng(seed)
    values = rng.normal(rng.normal(mean, 1, (count, 1, 2)), 2, (count, length, 2))
    values[rng.random(values.shape) < gaps] = np.nan
    return read_sequences(list(values))


def drift(profile: Profile, s: Sequences) -> str:
    """What is said of these sequences, which are looked at in two blocks."""
    seen = Drift(profile)
    for rows in np.array_split(np.arange(len(s)), min(2, len(s))):
        seen.add(s.take(rows))
    return seen.sentence()


def test_features_are_those_of_each_sequence_by_itself() -> None:
    s = read_sequences([np.array([[1.0, np.nan], [3.0, 5.0]]), np.array([[2.0, 4.0], [2.0, 8.0], [5.0, 0.0]])])
    features = features_of(s)
    assert features["the length"].tolist() == [2, 3]
    assert features["the share of missing values"].tolist() == [0.25, 0.0]
    first, second = s.channels
    assert features[f"the mean of {first!r}"].tolist() == [2.0, 3.0]
    assert features[f"the mean of {second!r}"].tolist() == [5.0, 4.0]
    assert features[f"the spread of {second!r}"] == pytest.approx([0.0, np.std([4.0, 8.0, 0.0])])


def test_features_of_many_sequences_are_made_of_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    s = _numbers(30, gaps=0.2)
    whole, sizes = features_of(s), []
    levels = profile._levels
    monkeypatch.setattr(profile, "_levels", lambda s, a, b: (sizes.append(b - a), levels(s, a, b))[1])
    monkeypatch.setattr(profile, "LEVELLED", 100)
    parts = features_of(s)
    assert sum(sizes) == 30
    assert max(sizes) == 4
    assert list(parts) == list(whole)
    assert all(parts[name].tolist() == whole[name].tolist() for name in whole)


SHIFTED = {
    "the length": {"length": 40},
    "the mean of": {"mean": 6.0},
    "the share of missing values": {"gaps": 0.2},
}


@pytest.mark.parametrize("name", SHIFTED)
def test_a_shift_is_said_with_what_shifted(name: str) -> None:
    text = drift(Profile.of(_numbers(300)), _numbers(60, 1, **SHIFTED[name]))
    assert text.startswith("these sequences look unlike those of the fit")
    assert name in text


def _timed(step: float, count: int = 12, gap: int = 0) -> Sequences:
    """Of a table with a row per position, whose clock takes this step; `gap` positions of each are not there."""
    rng = np.random.default_rng(int(100 * step))
    time = step * np.delete(np.arange(30), np.arange(5, 5 + gap))
    clock = {"id": np.repeat(np.arange(count), len(time)), "time": np.tile(time, count)}
    return read_sequences({**clock, "x": rng.normal(size=count * len(time))}, LayoutSpec(shape="long"))


@pytest.mark.parametrize("count", [1, 2, 12])
def test_another_sampling_rate_is_said_where_a_clock_tells_it(count: int) -> None:
    profile = Profile.of(_timed(0.01))
    assert _timed(0.01).steps == pytest.approx(np.full(12, 0.01))
    text = drift(profile, _timed(0.02, count))
    assert "the step of time (mean 0.02, in the fit 0.01 with a deviation of" in text
    assert "step of time" not in drift(profile, _timed(0.01, count))
    assert "step of time" not in drift(profile, _timed(0.01, count, gap=3))


def test_steps_are_medians_within_each_sequence_whatever_its_order() -> None:
    table = {"id": list("aabbbcbb"), "time": [5.0, 2.0, 0.0, 1.0, 3.0, 7.0, 9.0, 4.0], "x": np.arange(8.0) ** 2}
    s = read_sequences(table, LayoutSpec(shape="long"))
    np.testing.assert_array_equal(s.steps, [3.0, 1.0, np.nan])
    np.testing.assert_array_equal(s.take(np.array([2, 0])).steps, [np.nan, 3.0])
    assert features_of(s)["the step of time"].tolist() == [3.0, 1.0, 2.0]


@pytest.mark.parametrize("count", [1, 3, 20, 500])
def test_sequences_from_the_same_source_raise_no_alarm(count: int) -> None:
    profile = Profile.of(_numbers(200))
    assert [text for seed in range(40) if (text := drift(profile, _numbers(count, 10 + seed)))] == []


@pytest.mark.parametrize(("count", "other", "noticed"), [(3, 3, True), (1, 1, True), (100, 2, True), (3, 0, False)])
def test_any_other_length_counts_where_all_of_the_fit_had_one(count: int, other: int, noticed: bool) -> None:
    profile = Profile.of(read_sequences(list(np.random.default_rng(0).normal(size=(50, 30)))))
    rng = np.random.default_rng(1)
    text = drift(profile, read_sequences([rng.normal(size=12 if i < other else 30) for i in range(count)]))
    assert ("the length (mean" in text) == noticed


def test_another_mix_of_letters_is_a_shift() -> None:
    rng = np.random.default_rng(0)

    def dna(share: float) -> Sequences:
        letters = [0.5 - share / 2, share / 2, share / 2, 0.5 - share / 2]
        return read_sequences(["".join(rng.choice(list("ACGT"), 80, p=letters)) for _ in range(100)])

    profile = Profile.of(dna(0.5))
    assert drift(profile, dna(0.5)) == ""
    skewed = read_sequences(["".join(rng.choice(list("ACGT"), 80, p=[0.7, 0.1, 0.1, 0.1])) for _ in range(100)])
    assert "the mix of symbols" in drift(profile, skewed)


def test_a_profile_comes_back_from_its_folder(tmp_path: Path) -> None:
    s = walks()
    served = made(s)
    profiled = served.config.model_copy(update={"profile": Profile.of(s)})
    save_model(replace(served, config=profiled), tmp_path / "model")
    assert load_model(tmp_path / "model").config.profile == Profile.of(s)


def test_a_config_of_before_has_no_profile_and_no_held_out_errors() -> None:
    document = made(walks()).config.model_dump(mode="json")
    del document["profile"], document["held_out"]
    config = read(ModelConfig, document)
    assert config.profile is None
    assert config.held_out == {}


def test_in_python_a_shift_warns_with_what_shifted_and_the_same_sequences_do_not() -> None:
    profile = Profile.of(_numbers(300))
    for name, shift in SHIFTED.items():
        with pytest.warns(UserWarning, match=f"X: these sequences look unlike those of the fit.*{name}"):
            warn_of_shift(_numbers(60, 1, **shift), profile)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_shift(_numbers(60, 1), profile)
        warn_of_shift(_numbers(2, 1, mean=6.0), profile)
        warn_of_shift(_numbers(60, 1), None)
