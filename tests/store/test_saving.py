"""Saving by cost, on a clock of our own."""

from itertools import pairwise

import pytest
import torch

from headstart.store import SaveTimes
from headstart.store.saving import SAVING_RATE


def simulated(every: float, cost: float, size: int, seconds: float, step: float = 0.5) -> list[tuple[float, float]]:
    """(begin, end) of each save of a training of so many seconds besides its saves."""
    state = {"weights": torch.empty(size, dtype=torch.uint8, device="meta")}
    saves, now, out = SaveTimes(every, 100.0), 100.0, []
    trained = 0.0
    while trained < seconds:
        now, trained = now + step, trained + step
        if saves.due(now) and saves.affordable(state, now):
            out.append((now - 100.0, now - 100.0 + cost))
            now += cost
            saves.saved(now - cost, now)
    return out


@pytest.mark.parametrize("cost", [0.0, 0.2, 1.0, 3.0, 14.0, 60.0])
def test_at_no_time_after_a_save_more_than_a_twentieth_has_been_spent(cost: float) -> None:
    spent = 0.0
    saves = simulated(20.0, cost, int(cost * SAVING_RATE), 4000.0)
    assert saves
    for begin, end in saves:
        spent += end - begin
        assert spent <= 0.05 * end + 1e-9


@pytest.mark.parametrize("cost", [0.0, 0.2, 1.0])
def test_a_state_that_is_cheap_is_saved_as_often_as_asked(cost: float) -> None:
    ends = [0.0, *(end for _, end in simulated(20.0, cost, 1000, 500.0))]
    assert max(b - a for a, b in pairwise(ends)) <= 20.5 + cost


def test_a_state_of_three_seconds_is_saved_once_a_minute() -> None:
    begins = [begin for begin, _ in simulated(20.0, 3.0, 1000, 1000.0)]
    assert max(b - a for a, b in pairwise(begins)) <= 60.5


def test_the_size_of_a_first_state_puts_it_off() -> None:
    assert simulated(20.0, 0.1, 8 * SAVING_RATE, 500.0)[0][0] == pytest.approx(8 * 19, abs=1)
    assert simulated(20.0, 0.1, SAVING_RATE, 500.0)[0][0] == 20.0


def test_one_slow_save_holds_up_the_next_one_alone() -> None:
    saves = SaveTimes(20.0, 0.0)
    saves.saved(20.0, 30.0)
    assert not saves.due(30.0 + 189.0)
    assert saves.due(30.0 + 190.0)
    saves.saved(220.0, 220.1)
    assert saves.due(240.1)


def test_zero_seconds_save_whenever_asked() -> None:
    saves = SaveTimes(0.0, 0.0)
    saves.saved(0.0, 100.0)
    assert saves.due(100.0)
    assert saves.affordable({"x": torch.empty(2**40, device="meta")}, 100.0)
