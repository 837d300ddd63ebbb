"""Cores and memory of containers, from made-up files of control groups of both versions."""

from __future__ import annotations

import signal
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headstart import limits
from headstart.baselines.kernels import KernelsSpec
from headstart.baselines.ngrams import NgramsSpec, fit_ngrams, sizes_tried
from headstart.baselines.ridge import ridge_bytes
from headstart.data import read_sequences
from headstart.errors import BadInput
from headstart.limits import (
    ALLOWED,
    FreeMemory,
    allow_memory,
    allowed_memory,
    check_memory,
    cores,
    follow_quota,
    memory,
    memory_size,
    oom_kills,
)
from headstart.runner import local
from headstart.runner.local import FOR_MEMORY, WorkerDied, Workers
from headstart.sequence import Examples, Signature

V1 = "31 23 0:29 {inside} /sys/fs/cgroup/{name} rw,relatime - cgroup cgroup rw,{name}"
V2 = "31 23 0:29 {inside} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"


def machine(root: Path, groups: str, mounts: str, files: dict[str, str], available: int = 64_000_000) -> Path:
    """A root folder with these lines of /proc/self and these files under /sys/fs/cgroup. available: kB."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups + "\n")
    (root / "proc/self/mountinfo").write_text("1 0 8:1 / / rw - ext4 /dev/sda rw\n" + mounts + "\n")
    (root / "proc/meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable:   {available} kB\n")
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits.os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


@pytest.mark.parametrize(
    ("quota", "count"), [("max 100000", 8), ("200000 100000", 2), ("150000 100000", 2), ("20000 100000", 1)]
)
def test_a_quota_of_version_2_limits_the_cores(tmp_path: Path, quota: str, count: int) -> None:
    assert cores(machine(tmp_path, "0::/", V2.format(inside="/"), {"cpu.max": quota})) == count


@pytest.mark.parametrize(("quota", "count"), [("-1", 8), ("300000", 3), ("9900000", 8)])
def test_a_quota_of_version_1_limits_the_cores(tmp_path: Path, quota: str, count: int) -> None:
    files = {"cpu/cpu.cfs_quota_us": quota, "cpu/cpu.cfs_period_us": "100000"}
    assert cores(machine(tmp_path, "4:cpu:/\n0::/", V1.format(inside="/", name="cpu"), files)) == count


def test_the_least_quota_on_the_path_of_the_parents_holds(tmp_path: Path) -> None:
    files = {"a/cpu.max": "200000 100000", "a/b/cpu.max": "max 100000", "a/b/c/cpu.max": "500000 100000"}
    assert cores(machine(tmp_path, "0::/a/b/c", V2.format(inside="/"), files)) == 2


def test_the_quota_of_a_container_stands_at_its_mount_though_the_kernel_names_the_whole_path(tmp_path: Path) -> None:
    files = {"cpu,cpuacct/cpu.cfs_quota_us": "400000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}
    mount = V1.format(inside="/docker/4f", name="cpu,cpuacct")
    assert cores(machine(tmp_path / "own", "4:cpu,cpuacct:/docker/4f", mount, files)) == 4
    assert cores(machine(tmp_path / "of another", "4:cpu,cpuacct:/docker/other", mount, files)) == 4


def test_a_machine_without_control_groups_has_the_cores_of_its_mask(tmp_path: Path) -> None:
    assert cores(tmp_path) == 8
    assert memory(tmp_path) is None
    assert oom_kills(tmp_path) is None
    check_memory("anything", 1e18, "", tmp_path)


def test_memory_is_what_the_tightest_group_leaves_and_files_that_can_be_dropped_count_as_free(tmp_path: Path) -> None:
    files = {
        "a/memory.max": "1000000000",
        "a/memory.current": "700000000",
        "a/memory.stat": "anon 1\ninactive_file 100000000\nactive_file 7",
        "a/b/memory.max": "max",
        "a/b/memory.current": "3",
    }
    assert memory(machine(tmp_path, "0::/a/b", V2.format(inside="/"), files)) == FreeMemory(
        400_000_000, "of the 1 GB that are allowed here"
    )


def test_memory_of_version_1_is_limited_and_its_largest_number_is_no_limit(tmp_path: Path) -> None:
    mount = V1.format(inside="/", name="memory")
    files = {"memory/memory.limit_in_bytes": "2000000000", "memory/memory.usage_in_bytes": "500000000"}
    free = memory(machine(tmp_path / "limit", "4:memory:/", mount, files))
    assert free == FreeMemory(1_500_000_000, "of the 2 GB that are allowed here")
    none = {"memory/memory.limit_in_bytes": "9223372036854771712", "memory/memory.usage_in_bytes": "5"}
    assert memory(machine(tmp_path / "none", "4:memory:/", mount, none)) == FreeMemory(64_000_000 * 1024)


def test_what_does_not_fit_is_refused_with_the_sizes_and_a_way_out(tmp_path: Path) -> None:
    files = {"memory.max": "1000000000", "memory.current": "100000000"}
    root = machine(tmp_path, "0::/", V2.format(inside="/"), files)
    check_memory("a.csv: reading it", 899e6, "allow it more", root)
    with pytest.raises(
        BadInput, match=r"^a\.csv: reading it takes about 901 MB of memory, and 900 MB of the 1 GB that "
    ):
        check_memory("a.csv: reading it", 901e6, "allow it more", root)


def test_kills_for_memory_are_counted_in_the_own_group_or_else_on_the_machine(tmp_path: Path) -> None:
    files = {"a/memory.events": "oom 4\noom_kill 3", "memory.events": "oom_kill 9"}
    assert oom_kills(machine(tmp_path / "2", "0::/a", V2.format(inside="/"), files)) == 3
    files = {"memory/memory.oom_control": "under_oom 0\noom_kill 2"}
    assert oom_kills(machine(tmp_path / "1", "4:memory:/", V1.format(inside="/", name="memory"), files)) == 2
    root = machine(tmp_path / "0", "", "", {})
    (root / "proc/vmstat").write_text("nr_free_pages 4\noom_kill 5\n")
    assert oom_kills(root) == 5


def sleep(job: Any, stop: Any) -> Any:
    yield "begun"
    time.sleep(60)


@pytest.mark.parametrize(("kills", "why"), [(1, FOR_MEMORY), (0, "was killed by SIGKILL")])
def test_a_worker_that_the_kernel_killed_for_memory_is_called_that(
    monkeypatch: pytest.MonkeyPatch, kills: int, why: str
) -> None:
    count = [7]
    monkeypatch.setattr(local, "oom_kills", lambda: count[0])
    pool = Workers(1, sleep, threads=1)
    try:
        pool.start("a", None)
        while not pool.wait(1):
            pass
        count[0] += kills
        pool._slots[0].process.send_signal(signal.SIGKILL)
        reports: list[Any] = []
        while not reports:
            reports = pool.wait(1)
    finally:
        pool.close()
    assert reports == [WorkerDied("a", why, "")]


def test_a_file_that_memory_has_no_room_for_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("label,x,y,z\n" + "a,1,2,3\nb,2,3,4\n" * 20_000)
    monkeypatch.setattr(limits, "memory", lambda _: FreeMemory(10**6, "of the 1 MB that are allowed here"))
    with pytest.raises(
        BadInput, match=r"a\.csv: reading it takes about 1 MB of memory, and 1 MB of the 1 MB that are "
    ):
        read_sequences(file)


def test_the_memory_of_kernels_is_known_before_they_are_fitted() -> None:
    lengths = np.full(30_000, 300)
    signature = Signature("floats", 1, 300, "class", 2)
    bytes_needed = KernelsSpec().memory(len(lengths), signature, lengths)
    assert bytes_needed == ridge_bytes(30_000, 2_520)
    assert 0.3e9 < bytes_needed < 1e9
    assert KernelsSpec(also=("hydra", "quant")).memory(1_000, signature, lengths) > ridge_bytes(1_000, 9_996)


@pytest.mark.parametrize("letters", [4, 20])
def test_the_memory_of_n_grams_is_known_before_they_are_fitted(letters: int) -> None:
    lengths, draw = np.full(8_000, 100), np.random.default_rng(0)
    signature = Signature("tokens", letters, 100, 100, "class", classes=2)
    values = draw.integers(0, letters, lengths.sum()).astype(np.uint8)
    train = Examples(values, np.arange(8_001) * 100, np.arange(8_000) % 2, np.arange(8_000))
    (longest, placed, near), peak = sizes_tried(signature, lengths, rough=True)[-1], 0
    features = fit_ngrams(train, longest, placed, letters, near)
    tracemalloc.start()
    try:
        features.transform(train)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    for spec in (KernelsSpec(rough=True), NgramsSpec(rough=True)):
        assert 0.6 * peak < spec.memory(8_000, signature, lengths) < 1.5 * peak
        assert spec.memory(10, signature, lengths) < 1e6


@pytest.mark.parametrize(
    ("text", "size"), [("4G", 4 * 10**9), ("0.5 gb", 5 * 10**8), ("800M", 8 * 10**8), ("1GiB", 10**9), (2e9, 2 * 10**9)]
)
def test_a_size_is_read_as_it_is_written(text: str | float, size: int) -> None:
    assert memory_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "4X", "-1G", "nan", "1e999"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"--memory: .* is not a size; give one such as 4G or 800M"):
        memory_size(text)


def test_less_memory_than_the_libraries_take_is_refused_in_a_line_whose_way_out_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(ALLOWED, raising=False)
    with pytest.raises(BadInput, match=r"--memory: 10 MB is less than the 700 MB .*; give 1G or more"):
        allow_memory("10M")
    with pytest.raises(BadInput, match="--memory: 5 bytes is less than"):
        allow_memory(5)
    with allowed_memory("1G"):
        assert memory() is not None
    assert ALLOWED not in limits.os.environ


def test_what_a_person_allows_counts_beside_the_container_less_what_the_process_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = machine(tmp_path, "0::/", V2.format(inside="/"), {"memory.max": "8000000000", "memory.current": "0"})
    (root / "proc/self/statm").write_text(f"9 {10**9 // limits.os.sysconf('SC_PAGE_SIZE')} 10 0 0 0 0\n")
    monkeypatch.setenv(ALLOWED, "3000000000")
    room = memory(root)
    assert room is not None
    assert room.size == pytest.approx(2 * 10**9, rel=1e-3)
    assert room.limit == "of the 3 GB that --memory allows"
    monkeypatch.setenv(ALLOWED, "30000000000")
    assert memory(root) == FreeMemory(8 * 10**9, "of the 8 GB that are allowed here")


@pytest.mark.parametrize(("quota", "threads"), [("10000 100000", "1"), ("250000 100000", "3"), ("max 100000", None)])
def test_threads_of_libraries_follow_the_quota_and_not_the_cores_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, threads: str | None
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # so that it is put back
    monkeypatch.delenv("OMP_NUM_THREADS")
    root = machine(tmp_path, "0::/a", V2.format(inside="/"), {"cpu.max": quota})
    follow_quota(root)
    assert limits.os.environ.get("OMP_NUM_THREADS") == threads
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    follow_quota(root)
    assert limits.os.environ["OMP_NUM_THREADS"] == "7", "what a person says stands"
