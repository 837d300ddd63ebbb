"""What may be set of a fit, and how times are written."""

import pytest

from headstart.errors import BadInput
from headstart.request.settings import FitSettings
from headstart.words import read_time


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("5m", 300), ("5min", 300), ("1.5h", 5400), ("1h30m", 5400), ("1m 30s", 90)],
)
def test_a_time_is_read_as_people_write_it(text: str, seconds: float) -> None:
    assert read_time(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 minutes please", "m", "-5m", "0s", "1e400", "5mm"])
def test_a_time_that_is_none_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(BadInput, match=r"--time: .*give one such as 90s, 5m or 1h"):
        read_time(text)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seeds": ()}, "seeds"),
        ({"folds": 1_000_000}, "folds: 1,000,000 are too many, as each has a model of its own; give at most 100"),
        ({"seeds": (1, 1)}, "each once"),
        ({"rates": (0.0,)}, "above 0"),
        ({"rates": ()}, "above 0"),
        ({"epochs": -1.0}, "epochs: -1.0"),
        ({"time": float("nan")}, "time: nan"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        FitSettings(**settings)


def test_places_of_files_do_not_decide_a_plan(tmp_path) -> None:
    assert FitSettings(test=tmp_path / "a.csv").document() == FitSettings(test=tmp_path / "b.csv").document()
    assert FitSettings(balanced=True).document() != FitSettings().document()


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("task.split_seed=1", "--split-seed"),
        ("seed=[1,2]", "--seeds N"),
        ('arms=["scratch"]', "headstart run"),
        ("report.against=scratch", "headstart run"),
        ("model.width=[16,32]", "sweeps finetune.optim.lr alone"),
        ("finetune.budget.epochs=3", r"in steps, not in epochs; give them: finetune\.budget\.steps=N, pretrain"),
        ("budget={flops=1e9}", "not in flops"),
        ("pretrain={budget={tokens=99}}", "not in tokens"),
    ],
)
def test_a_setting_that_would_part_networks_from_the_others_is_refused(word: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        FitSettings(overrides=(word,))


def test_settings_of_the_networks_alone_are_taken() -> None:
    words = ("finetune.optim.lr=[1e-3,3e-3,1e-2]", "model.width=16", 'finetune.start=["take(mixer)"]')
    words += ("finetune.budget.steps=40", "budget.patience=3")
    assert FitSettings(overrides=words).overrides == words
