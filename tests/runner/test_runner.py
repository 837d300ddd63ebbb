"""The runner: parents first, nothing twice, nothing lost, and on past failures."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support import stand_ins
from support.stand_ins import ENGINE, FakeStage, child, renamed, stage
from support.store_content import content, differences

from headstart import atomic
from headstart.errors import NO_PROCESSES, BadInput
from headstart.runner import worker
from headstart.runner.events import Failed, Finished, Notice, Skipped, StageProgress, Started, Stopped, Waiting
from headstart.runner.job import Agenda, Job, Runtime
from headstart.runner.local import FOR_MEMORY, Inline, WorkerDied, WorkerReport
from headstart.runner.perform import Interrupted, _signals, perform, time_steps
from headstart.stage import identity
from headstart.store import ClaimedStage, Store, files
from headstart.study.language.plan import make_plan
from headstart.study.language.spec import read_study

perform_module = sys.modules["headstart.runner.perform"]
INLINE = Runtime(device="cpu", save_every=0.0)


def run(store: Store, *stages: FakeStage, **runtime: Any) -> list[Any]:
    return list(perform(stages, store, Runtime(**{"device": "cpu", "save_every": 0.0, **runtime}), ENGINE))


def kinds(events: list[Any]) -> list[str]:
    """Events without progress, as `Kind name`."""
    return [f"{type(e).__name__} {e.name}" for e in events if not isinstance(e, StageProgress)]


def bits(store: Store, *stages: FakeStage) -> dict[str, Any]:
    return content(store, [spec.identity for spec in stages])


@pytest.mark.parametrize("workers", [0, 2])
def test_parents_go_first_and_a_second_run_skips_all(tmp_path: Path, workers: int) -> None:
    parent = stage("pretrain")
    first, second = child(parent, "a", seed=1), child(parent, "b", seed=2)
    events = run(Store(tmp_path), second, first, parent, workers=workers)
    assert kinds(events)[:2] == ["Started pretrain", "Finished pretrain"]
    assert sorted(kinds(events)[2:]) == ["Finished a", "Finished b", "Started a", "Started b"]
    assert next(e for e in events if isinstance(e, StageProgress)).steps == 10
    again = run(Store(tmp_path), second, first, parent, workers=workers)
    assert sorted(kinds(again)) == ["Skipped a", "Skipped b", "Skipped pretrain"]
    assert all(e.result["provenance"]["attempts"] == 1 for e in again)


def test_workers_and_inline_give_equal_bits(tmp_path: Path) -> None:
    parent = stage("pretrain")
    stages = (parent, child(parent, frozen=True))
    run(Store(tmp_path / "a"), *stages)
    run(Store(tmp_path / "b"), *stages, workers=1)
    assert not differences(Store(tmp_path / "a"), bits(Store(tmp_path / "b"), *stages))


def test_a_result_says_how_it_came_about(tmp_path: Path) -> None:
    planned = stage("pretrain")
    finished = run(Store(tmp_path), planned, threads=1)[-1]
    assert isinstance(finished, Finished)
    provenance = finished.result["provenance"]
    assert set(provenance["versions"]) == {"python", "headstart", "torch", "numpy", "safetensors"}
    assert (provenance["device"], provenance["threads"], provenance["precision"]) == ("cpu", 1, "float32")
    assert provenance["attempts"] == 1
    assert finished.result["parameters"]["total"] == 11
    assert finished.result == Store(tmp_path).result(planned.identity)


def test_frozen_tensors_are_kept_once_where_the_parent_has_them(tmp_path: Path) -> None:
    store, parent = Store(tmp_path), stage("pretrain")
    last = child(parent, frozen=True, weights="last")
    grandchild = child(last, "grandchild", frozen=True, seed=4)
    run(store, parent, last, grandchild)
    result = store.result(last.identity)
    assert result is not None
    assert result["references"] == {"frozen": {"identity": parent.identity, "weights": "last"}}
    own, _ = files.unseal(store.folder(grandchild.identity) / "best.safetensors")
    assert set(own) == {"x"}
    assert torch.equal(store.weights(grandchild.identity)["frozen"], store.weights(parent.identity)["frozen"])


@pytest.mark.parametrize("workers", [0, 1])
def test_a_failing_stage_says_why_and_the_others_go_on(tmp_path: Path, workers: int) -> None:
    store, bad, good = Store(tmp_path), stage("bad", trouble="raise"), stage("good", seed=1)
    below = child(bad, "below")
    events = run(store, bad, below, good, workers=workers)
    failed = {e.name: e for e in events if isinstance(e, Failed)}
    assert failed["bad"].message == "ArithmeticError: five is too many"
    assert failed["bad"].tried
    assert failed["below"].message == f"not tried: its parent bad {bad.identity} failed"
    assert not failed["below"].tried
    assert "Finished good" in kinds(events)
    assert (store.status(bad.identity), store.status(below.identity)) == ("failed", "absent")
    text = (store.folder(bad.identity) / "failure.txt").read_text()
    assert text.startswith("ArithmeticError: five is too many\n")
    assert "Traceback (most recent call last)" in text
    assert "second line" in text


def test_a_failed_stage_is_tried_again_from_its_last_state(tmp_path: Path) -> None:
    bad = stage("bad", trouble="raise")
    run(Store(tmp_path), bad)
    events = run(Store(tmp_path), bad)
    assert isinstance(events[0], Started)
    assert (events[0].attempt, events[0].step) == (2, 4)


def test_a_diverged_stage_is_finished_as_such_and_its_children_are_not_tried(tmp_path: Path) -> None:
    store, bad = Store(tmp_path), stage("bad", trouble="nan")
    below, deeper = child(bad, "below"), child(child(bad, "below"), "deeper")
    for _ in range(2):
        events = run(store, bad, below, deeper)
        assert kinds(events)[-2:] == ["Failed below", "Failed deeper"]
        assert events[-2].message == f"not tried: its parent bad {bad.identity} diverged"
        assert events[-1].message == f"not tried: its parent below {below.identity} failed"
    assert isinstance(events[0], Skipped)
    assert store.status(bad.identity) == "diverged"
    assert store.records(bad.identity)[-1]["val"]["loss"] is None


def test_a_missing_task_is_a_failure_with_its_own_words(tmp_path: Path) -> None:
    from support.stand_ins import FakeTask

    events = run(Store(tmp_path), stage("lost", task=FakeTask(missing=True)))
    assert [e.message for e in events if isinstance(e, Failed)] == ["FileNotFoundError: data: no such folder"]


def test_a_parent_that_is_not_among_the_stages_must_be_in_the_store(tmp_path: Path) -> None:
    parent = stage("pretrain")
    events = run(Store(tmp_path), child(parent))
    assert kinds(events) == ["Failed child"]
    assert events[0].message == f"not tried: its parent {parent.identity} is absent"
    run(Store(tmp_path), parent)
    assert kinds(run(Store(tmp_path), child(parent))) == ["Started child", "Finished child"]


def test_a_worker_killed_once_is_replaced_and_the_stage_goes_on_with_equal_bits(tmp_path: Path) -> None:
    killed, good = stage("killed", trouble="kill once", scratch=str(tmp_path)), stage("good", seed=2)
    store = Store(tmp_path / "a")
    events = run(store, killed, good, workers=1)
    assert [e.text for e in events if isinstance(e, Notice)] == [
        "its worker was killed by SIGKILL (by the system if memory ran out; give fewer --workers then); "
        "the stage is tried once more"
    ]
    assert {"Finished killed", "Finished good"} <= set(kinds(events))
    again = [e for e in events if isinstance(e, Started) and e.name == "killed"]
    assert [(e.attempt, e.step) for e in again] == [(1, 0), (2, 4)]
    run(Store(tmp_path / "b"), killed)
    assert not differences(store, bits(Store(tmp_path / "b"), killed))


class KillsForMemory(Inline):
    """A slot of this process that says of its first jobs that their worker was killed, for memory or for `why`."""

    def __init__(self, kills: int, why: str = FOR_MEMORY, tail: str = "") -> None:
        super().__init__(perform_module.work, perform_module.never)
        self.kills, self.sparing, self.why, self.tail = kills, list[bool](), why, tail

    def start(self, key: str, job: Any) -> None:
        self.sparing.append(job[2].sparing)
        super().start(key, job)

    def wait(self, timeout: float) -> list[WorkerReport]:
        if self.kills:
            self.kills -= 1
            self.close()
            return [WorkerDied(self._key, self.why, self.tail)]
        return super().wait(timeout)


@pytest.mark.parametrize("kills", [1, 2])
def test_a_stage_whose_worker_was_killed_for_memory_is_tried_once_more_with_less_in_memory_and_the_others_go_on(
    kills: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = KillsForMemory(kills)
    monkeypatch.setattr(perform_module, "_pool", lambda *_: pool)
    large, good = stage("large"), stage("good", seed=2)
    events = run(Store(tmp_path), large, good, workers=2)
    why = "its worker was killed by the system, as memory ran out (SIGKILL)"
    way = "; give fewer --workers, a smaller optim.batch_size, or allow more memory"
    assert [e.text for e in events if isinstance(e, Notice)] == [
        f"{why}{way}; the stage is tried once more, with less in memory: its examples are read "
        "batch by batch, and from here on half as many stages run at a time"
    ]
    assert pool.sparing == [False, True, False]
    assert {"Finished good", "Finished large" if kills == 1 else "Failed large"} <= set(kinds(events))
    failed = [f"{why}, twice{way}"] if kills == 2 else []
    assert [e.message for e in events if isinstance(e, Failed)] == failed


def test_a_worker_that_may_start_no_thread_says_what_the_limit_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = "Traceback (most recent call last):\nRuntimeError: can't start new thread"
    monkeypatch.setattr(perform_module, "_pool", lambda *_: KillsForMemory(2, "ended with exit code 1", tail))
    (failed,) = [e for e in run(Store(tmp_path), stage("a"), workers=1) if isinstance(e, Failed)]
    assert failed.message == f"its worker ended with exit code 1, twice: {NO_PROCESSES}"


@pytest.mark.slow
def test_a_worker_killed_twice_makes_the_stage_failed_and_the_others_go_on(tmp_path: Path) -> None:
    killed, good = stage("killed", trouble="kill", scratch=str(tmp_path)), stage("good", seed=2)
    store = Store(tmp_path / "runs")
    events = run(store, killed, good, workers=1)
    assert [e.message for e in events if isinstance(e, Failed)] == [
        "its worker was killed by SIGKILL (by the system if memory ran out; give fewer --workers then), twice"
    ]
    assert "Finished good" in kinds(events)
    assert store.status(killed.identity) == "failed"


def test_a_damaged_finished_stage_is_done_again_with_equal_bits_and_it_is_said(tmp_path: Path) -> None:
    store, parent = Store(tmp_path), stage("pretrain")
    stages = (parent, child(parent, frozen=True))
    run(store, *stages)
    before = bits(store, *stages)
    path = store.folder(parent.identity) / "best.safetensors"
    path.write_bytes(path.read_bytes()[:-3])
    events = run(Store(tmp_path), *stages)
    assert kinds(events) == ["Notice pretrain", "Started pretrain", "Finished pretrain", "Skipped child"]
    assert "best.safetensors: its digest does not fit; the damaged stage is kept as" in events[0].text
    assert f"{parent.identity}.damaged-1 and is done again" in events[0].text
    assert not differences(store, before)


def test_a_full_disk_loses_nothing_and_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned, store = stage("one"), Store(tmp_path / "a")
    whole = atomic.write_all
    left = 3000

    def almost_full(file: int, data: bytes) -> None:
        nonlocal left
        left -= len(data)
        if left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        whole(file, data)

    monkeypatch.setattr(atomic, "write_all", almost_full)
    failed = run(store, planned)[-1]
    assert isinstance(failed, Failed)
    assert "the disk is full (No space left on device); what was saved before is kept" in failed.message
    assert "Make room, or move the store" in failed.message
    monkeypatch.undo()
    states = list(store.folder(planned.identity).glob("state-*"))
    assert states
    events = run(store, planned)
    assert isinstance(events[0], Started)
    assert events[0].step > 0
    run(Store(tmp_path / "b"), planned)
    assert not differences(store, bits(Store(tmp_path / "b"), planned))


@pytest.mark.parametrize(("save_every", "pause", "saved"), [(3.0, 1.0, [3, 6, 9]), (1e6, 25.0, [3, 6, 9])])
def test_states_are_saved_by_time_and_at_least_once_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save_every: float, pause: float, saved: list[int]
) -> None:
    steps: list[int] = []
    clock = [0.0]
    monkeypatch.setattr(ClaimedStage, "save", lambda _, step, *__: steps.append(step))
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(stand_ins, "time", SimpleNamespace(sleep=lambda s: clock.__setitem__(0, clock[0] + s)))
    run(Store(tmp_path), stage(steps=10, pause=pause), save_every=save_every)
    assert steps == saved


@pytest.mark.parametrize("cost", [0.5, 2.0, 14.0])
def test_states_that_cost_much_are_saved_seldom_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cost: float
) -> None:
    """Each step takes 7 s: with their states and the last one, which a stop asks for, no stage is much longer."""
    moments: list[float] = []
    clock = [0.0]

    def pass_by(seconds: float) -> None:
        clock[0] += seconds

    def save(*_: Any) -> None:
        pass_by(cost)
        moments.append(clock[0])

    monkeypatch.setattr(ClaimedStage, "save", save)
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(stand_ins, "time", SimpleNamespace(sleep=pass_by))
    run(Store(tmp_path), stage(steps=500, pause=7.0), save_every=20.0)
    # The first state costs more than its size tells, and every other follows 19 times the cost of the one before.
    gaps = [later - sooner for sooner, later in pairwise(moments)]
    assert moments[0] == 21.0 + cost
    assert min(gaps) >= 20 * cost
    assert max(gaps) <= max(20.0, 19 * cost) + 7.0 + cost
    assert cost * len(gaps) <= 0.05 * (moments[-1] - moments[0]) + 1e-9


def test_a_time_limit_cuts_what_runs_and_the_next_run_goes_on_to_equal_bits(tmp_path: Path) -> None:
    slow, store = stage("slow", steps=40, pause=0.02), Store(tmp_path / "a")
    events = run(store, slow, stage("other", steps=40, pause=0.02, seed=1), limit=0.3, save_every=20.0)
    assert kinds(events) == ["Started slow", "Stopped slow"]
    assert events[-1].reason == "limit"
    assert store.status(slow.identity) == "cut"
    assert "the time limit of 0.3 s was reached" in store.entry(slow.identity).message
    started = run(store, slow)[0]
    assert isinstance(started, Started)
    assert started.step > 0
    run(Store(tmp_path / "b"), slow)
    assert not differences(store, bits(Store(tmp_path / "b"), slow))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_ctrl_c_saves_and_the_next_run_goes_on_to_equal_bits(tmp_path: Path, workers: int) -> None:
    stages = [stage(f"s{i}", steps=60, pause=0.01, seed=i) for i in range(2)]
    store = Store(tmp_path / "a")
    events: list[Any] = []
    asked: list[bool] = []
    before = signal.getsignal(signal.SIGINT)
    runtime = Runtime(device="cpu", workers=workers, save_every=20.0)

    def consume() -> None:
        for event in perform(stages, store, runtime, ENGINE):
            events.append(event)
            if isinstance(event, StageProgress) and event.step > 10 and not asked:
                asked.append(True)
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted, match="interrupted; 2 of 2 stages are left"):
        consume()
    assert signal.getsignal(signal.SIGINT) is before
    stopped = [e for e in events if isinstance(e, Stopped)]
    assert stopped
    assert {e.reason for e in stopped} == {"interrupted"}
    # A worker that was still loading its libraries has nothing to save.
    assert "partial" in {store.status(e.identity) for e in stopped} <= {"partial", "absent"}
    resumed = run(store, *stages, workers=workers)
    assert any(isinstance(e, Started) and e.step > 10 for e in resumed)
    run(Store(tmp_path / "b"), *stages)
    assert not differences(store, bits(Store(tmp_path / "b"), *stages))


SPIN = """
import sys
sys.path[:0] = [sys.argv[1]]
from support.stand_ins import ENGINE, stage
from headstart.runner.job import Runtime
from headstart.runner.perform import Interrupted, _signals, perform, time_steps
from headstart.stage import identity
from headstart.store import Store
runtime = Runtime(device="cpu", workers=1)
try:
    for event in perform([stage(trouble="spin")], Store(sys.argv[2]), runtime, ENGINE):
        print(type(event).__name__, flush=True)
except Interrupted:
    print("interrupted, first")
except KeyboardInterrupt:
    print("interrupted, second")
    sys.exit(130)
"""


@pytest.mark.slow
def test_the_second_ctrl_c_stops_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SPIN, str(Path(__file__).parents[1]), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        assert [driver.stdout.readline() for _ in range(2)] == ["Started\n", "StageProgress\n"]
        time.sleep(0.5)  # it says no more: it spins in step 5
        driver.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert driver.poll() is None  # it waits for a worker that cannot answer
        driver.send_signal(signal.SIGINT)
        assert driver.wait(5) == 130
        assert driver.stdout.read() == "interrupted, second\n"


def test_a_stage_that_another_process_holds_is_waited_for_and_its_result_used(tmp_path: Path) -> None:
    planned, other = stage("one"), stage("other", seed=1)
    store = Store(tmp_path)
    events: list[Any] = []
    with store.claim(planned.identity, {"name": "one"}) as folder:
        assert folder is not None
        both = perform([planned, other], Store(tmp_path), INLINE, ENGINE)
        thread = threading.Thread(target=lambda: events.extend(both))
        thread.start()
        time.sleep(0.7)
        assert thread.is_alive()
        folder.begin()
        folder.finish({"status": "complete", "provenance": {"attempts": 1}}, {}, {}, {})
    thread.join(5)
    assert kinds(events) == ["Waiting one", "Started other", "Finished other", "Skipped one"]
    assert any(isinstance(e, Waiting) for e in events)


def test_two_runs_on_one_store_do_each_stage_once(tmp_path: Path) -> None:
    parents = [stage(f"p{i}", seed=i, pause=0.01) for i in range(2)]
    stages = parents + [child(p, f"c{i}", seed=i, pause=0.01) for p in parents for i in range(3)]
    both: list[list[Any]] = [[], []]
    runtime = Runtime(device="cpu", workers=1)
    threads = [
        threading.Thread(target=lambda out=out: out.extend(perform(stages, Store(tmp_path), runtime, ENGINE)))
        for out in both
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    finished = [e.identity for events in both for e in events if isinstance(e, Finished)]
    assert sorted(finished) == sorted(s.identity for s in stages)
    assert all(Store(tmp_path).stage(s.identity)["attempts"] == 1 for s in stages)  # type: ignore[index]
    for events in both:
        ended = [e.identity for e in events if isinstance(e, (Finished, Skipped))]
        assert sorted(ended) == sorted(s.identity for s in stages)


def test_a_partial_stage_goes_on_with_the_threads_it_began_with(tmp_path: Path) -> None:
    planned = stage(steps=40, pause=0.02)
    run(Store(tmp_path), planned, limit=0.4, threads=2)
    events = run(Store(tmp_path), planned, threads=1)
    notices = [e.text for e in events if isinstance(e, Notice)]
    assert notices == ["goes on with 2 threads, as it began (not 1: its bits depend on it)"]
    assert events[-1].result["provenance"]["threads"] == 2


def test_another_torch_within_a_stage_is_said_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = stage(steps=40, pause=0.02)
    run(Store(tmp_path), planned, limit=0.4)
    monkeypatch.setattr("headstart.runner.worker.version", lambda _: "9.9")
    events = run(Store(tmp_path), planned)
    notice = next(e.text for e in events if isinstance(e, Notice))
    assert notice == (
        f"torch changed within the stage ({torch.__version__} then 9.9): "
        "its bits may differ from those of a run in one go"
    )
    assert events[-1].result["provenance"]["versions"]["torch"] == f"{torch.__version__} then 9.9"


def test_an_unknown_device_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--device: 'gpu' is none of auto, cpu, cuda"):
        run(Store(tmp_path), stage(), device="gpu")
    if not torch.cuda.is_available():
        with pytest.raises(BadInput, match="--device: cuda, but torch sees none here; use auto or cpu"):
            run(Store(tmp_path), stage(), device="cuda")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_steps_are_timed_before_a_run_in_as_many_workers_as_it_has(tmp_path: Path, workers: int) -> None:
    plan = make_plan(read_study("digits", ["arms=['scratch']", "seed=[0]", "finetune.optim.lr=[1e-3]"]), tmp_path)
    (planned,) = plan.stages.values()
    short = planned.spec.budget.model_copy(update={"epochs": None, "steps": 2, "evaluate_every": 2.0})
    runtime = Runtime(data=tmp_path, device="cpu", workers=workers)
    times = time_steps({"a": planned.spec, "b": planned.spec}, runtime)
    assert set(times) == {"a", "b"}
    assert all(0 < time.unit < time.step < 1 for time in times.values())
    spec = planned.spec.model_copy(update={"budget": short})
    wanted = replace(planned, spec=spec, identity=identity(spec, tmp_path))
    events = list(perform([wanted], Store(tmp_path / "runs"), runtime, probes={"a": planned.spec}))
    assert [type(e).__name__ for e in events if not isinstance(e, StageProgress)] == [
        *["Timed"] * max(workers, 1),
        "Started",
        "Finished",
    ]


@pytest.mark.parametrize("seed", range(5))
def test_the_agenda_takes_the_first_by_rank_of_those_that_are_ready(tmp_path: Path, seed: int) -> None:
    """Against all waiting stages compared each time: parents and others in turn, longest chains first."""
    draw = random.Random(seed)
    jobs: list[Job] = []
    for number in range(40):
        parent = draw.choice([None, None, *[job.identity for job in jobs]])
        jobs.append(Job("s", f"{number:016x}", None, parent))
    agenda = Agenda(draw.sample(jobs, len(jobs)), Store(tmp_path))
    order = list(agenda.jobs)
    parents = {job.parent for job in jobs}

    def below(job: Job) -> tuple[int, int]:
        under = [below(other) for other in jobs if other.parent == job.identity]
        return max((1 + chain for chain, _ in under), default=0), sum(1 + count for _, count in under)

    waiting, done, running = {job.identity for job in jobs}, set[str](), list[str]()
    while len(done) < len(jobs):
        wanted = draw.randint(0, 3)
        sought = sum(identity in parents for identity in running) < wanted
        ready = [job for job in jobs if job.identity in waiting and job.parent in {None, *done}]
        expected = min(
            ready,
            key=lambda j: ((j.identity in parents) != sought, *(-n for n in below(j)), order.index(j.identity)),
            default=None,
        )
        job = agenda.take(wanted)
        assert (job and job.identity) == (expected and expected.identity)
        if job is not None:
            waiting.remove(job.identity)
            running.append(job.identity)
        if running and (job is None or draw.random() < 0.6):
            identity = running.pop(draw.randrange(len(running)))
            if draw.random() < 0.2:
                agenda.put_back(identity)
                waiting.add(identity)
            else:
                agenda.end(identity, "complete")
                done.add(identity)
        assert list(agenda.hopeless()) == []
    assert agenda.left == 0


def test_thousands_of_stages_are_not_searched_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [Job("s", f"{number:016x}", None, None) for number in range(3000)]
    agenda, looks = Agenda(jobs, Store(tmp_path)), []
    real = Agenda._ready
    monkeypatch.setattr(Agenda, "_ready", lambda self, job: (looks.append(1), real(self, job))[1])
    monkeypatch.setattr(Agenda, "_missing_parent", lambda *_: looks.append(1))
    while (job := agenda.take(1)) is not None:
        agenda.end(job.identity, "complete")
        assert list(agenda.hopeless()) == []
    assert len(looks) == 3000


def test_children_of_a_stage_that_failed_end_with_it_and_theirs_too(tmp_path: Path) -> None:
    jobs = [Job("s", f"{number:016x}", None, f"{number - 1:016x}" if number else None) for number in range(4)]
    agenda = Agenda(jobs, Store(tmp_path))
    first = agenda.take(1)
    assert first is not None
    assert list(agenda.hopeless()) == []
    agenda.end(first.identity, "failed")
    assert [job.identity for job, _ in agenda.hopeless()] == [job.identity for job in jobs[1:]]
    assert (agenda.left, agenda.take(1), list(agenda.hopeless())) == (0, None, [])
    outside = Agenda([Job("s", "b" * 16, None, "a" * 16)], Store(tmp_path))
    assert [why for _, why in outside.hopeless()] == [f"its parent {'a' * 16} is absent"]


def test_half_of_the_slots_serve_those_that_wait_and_half_finish_rows(tmp_path: Path) -> None:
    few, many = stage("few"), stage("many", seed=1)
    children = [child(few, "c0"), *(child(many, f"c{i}", seed=i) for i in range(1, 4))]
    leaves = [renamed(stage(seed=10 + i), f"leaf{i}") for i in range(3)]
    parent_of = {c.identity: (few if c.name == "c0" else many).identity for c in children}
    everything = [*leaves, few, many, *children]
    jobs = [Job(s.name, s.identity, s.spec, parent_of.get(s.identity)) for s in everything]

    def order(slots: int) -> list[str]:
        """Names as they start, where every stage takes equally long."""
        agenda, names = Agenda(list(jobs), Store(tmp_path)), []
        while agenda.left:
            taken = []
            while len(taken) < slots and (job := agenda.take(slots // 2)) is not None:
                taken.append(job)
            for job in taken:
                agenda.end(job.identity, "complete")
            names += [job.name for job in taken]
        return names

    assert order(1) == ["leaf0", "leaf1", "leaf2", "many", "c1", "c2", "c3", "few", "c0"]
    assert order(2) == ["many", "leaf0", "few", "leaf1", "leaf2", "c0", "c1", "c2", "c3"]


def test_a_terminal_that_is_closed_stops_a_run_as_ctrl_c_does_unless_nohup_was_asked_for() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where the tests themselves run under nohup
    try:
        with _signals() as interruption:
            os.kill(os.getpid(), signal.SIGHUP)
            assert interruption.count == 1
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with _signals() as interruption:
            os.kill(os.getpid(), signal.SIGHUP)
            assert interruption.count == 0
    finally:
        signal.signal(signal.SIGHUP, before)
