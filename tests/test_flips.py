"""A bit that turns in memory is noticed, and a run that goes on from a clean state raises no alarm."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from support.flips import PLACES, STUDY, Flips, turn

from headstart.api import Study
from headstart.errors import MemoryChanged
from headstart.runner import events
from headstart.runner.job import Runtime, training
from headstart.runner.perform import _jobs
from headstart.runner.worker import perform_one
from headstart.training.memory import bit_sum, check_state, state_sums


@pytest.mark.slow
def test_a_bit_turned_in_memory_is_noticed_and_clean_resumes_end_with_equal_bits() -> None:
    flips = Flips()
    ends = {memory: {flips.disturbed(memory, Random(seed)) for seed in range(8)} for memory in PLACES[:-1]}
    assert all(some <= {"noticed", "nothing"} and "noticed" in some for some in ends.values()), ends
    assert {flips.resumed(Random(seed)) for seed in range(5)} == {"nothing"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.bool, torch.int64])
def test_each_single_bit_changes_the_sum_of_an_array_of_any_length_and_type(dtype: torch.dtype) -> None:
    for count in (0, 1, 3, 9):
        x = torch.zeros(count, dtype=dtype)
        before = bit_sum(x)
        for bit in range(count * 8 if dtype != torch.bool else 0):
            numbers = x.view(torch.uint8).numpy()
            numbers[bit // 8] ^= 1 << bit % 8
            assert bit_sum(x) != before
            numbers[bit // 8] ^= 1 << bit % 8
        assert bit_sum(x) == before
    assert bit_sum(np.arange(6)) == 15


def test_a_state_that_is_not_what_was_summed_is_named() -> None:
    state = {"weights": torch.ones(5), "moment": torch.zeros(3)}
    sums = state_sums(state)
    check_state(state, sums)
    turn(state["moment"], Random(0))
    with pytest.raises(MemoryChanged, match=r"moment of the state .* give the same command again"):
        check_state(state, sums)


def test_a_record_that_comes_out_otherwise_after_a_break_stops_the_stage_once_and_an_equal_one_does_not(
    tmp_path: Path,
) -> None:
    study = Study(STUDY, data=tmp_path / "data", store=tmp_path / "runs")
    (planned,) = study.plan.stages.values()
    (job,) = _jobs([planned], training(), study.data)
    folder = study.store.folder(job.identity)
    for turned in (False, True):
        calls = iter(range(100))

        def asked(calls: Any = calls) -> str | None:
            if next(calls) == 10:  # once before the first step, then after each: in step 10, whose state is not saved
                raise KeyboardInterrupt
            return None

        runtime = Runtime(study.data, save_every=0.0)
        with pytest.raises(KeyboardInterrupt):
            list(perform_one(job, study.store, runtime, training(), asked))
        (folder / "state-9.safetensors").unlink()
        lines = (folder / "records.jsonl").read_text().splitlines()
        last = json.loads(lines[-1])
        assert last["step"] == 9
        if turned:
            last["train"]["loss"] *= 1 + 1e-12
            (folder / "records.jsonl").write_text("\n".join([*lines[:-1], json.dumps(last)]) + "\n")
            *_, end = perform_one(job, study.store, runtime, training())
            assert isinstance(end, events.Failed)
            assert "the record of step 9, computed again, has another 'train'" in end.message
        *_, end = perform_one(job, study.store, runtime, training())
        assert isinstance(end, events.Finished), end
        shutil.rmtree(folder)
