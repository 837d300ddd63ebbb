"""How fast Pathfinder is generated, and how fast it opens.

Claims, on 2 cores: 200,000 images of 32 in under 6 minutes, 200,000 of 128 in under 100 minutes, 2,000 of 256
in under 5 minutes; a prepared task opens in under 1 s.
Run: python benchmarks/pathfinder_generation.py [size] [images] [threads]   (defaults: all claims, 2 threads)
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from headstart.tasks.pathfinder import PathfinderSpec
from headstart.tasks.task import open_task

CLAIMS = {(32, 200_000): 360.0, (64, 200_000): None, (128, 200_000): 6000.0, (256, 2_000): 300.0}


def measure(size: int, images: int, threads: int, limit: float | None = None) -> bool:
    """Generate into a fresh folder, open again, print. False where the claim does not hold."""
    tenth = max(images // 10, 1)
    spec = PathfinderSpec.model_validate({"size": size, "train": images - 2 * tenth, "val": tenth, "test": tenth})
    with tempfile.TemporaryDirectory() as folder:
        began, busy = time.perf_counter(), time.process_time()
        spec.prepare(Path(folder), threads)
        built, busy = time.perf_counter() - began, time.process_time() - busy
        began = time.perf_counter()
        task = open_task(spec, Path(folder))
        opened = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1024)
    scores = ", ".join(f"{b.name} {b.test:.4f}" for b in task.baselines)
    claim = "" if limit is None else f" (claim: {limit:.0f} s)"
    print(
        f"size {size}: {images} images in {built:.1f} s{claim} with {threads} threads, "
        f"{busy:.1f} s of processor time, {1e3 * busy / images:.2f} ms each, "
        f"opened in {opened:.3f} s, peak {peak:.0f} MiB, {scores}",
        flush=True,
    )
    return opened < 1.0 and (limit is None or built < limit)


def main(numbers: list[int]) -> int:
    """All claims, or one size. Exit code 1 where one does not hold."""
    if numbers:
        size, images, threads = [*numbers, 0, 0, 0][:3]
        return 0 if measure(size, images or 10_000, threads or 2) else 1
    held = [measure(size, images, 2, limit) for (size, images), limit in CLAIMS.items()]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main([int(word) for word in sys.argv[1:]]))
