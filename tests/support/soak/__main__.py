"""Disturb runs for some minutes: `python -m support.soak --minutes 30 --json FILE`, from the folder `tests`.

Counts add up in the file over several calls: each goes on with the seeds that the last one has not used.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from support.counts import add_run, read_counts, write_counts
from support.soak.trials import NEED_A_DISK, TRIALS, Broken, make_reference, may_mount


def soak(minutes: float, document: dict[str, Any], names: list[str], save: Path | None = None) -> None:
    """Run trials in turn and add to the counts of `document`, which is written to `save` after each."""
    counts: Counter[str] = Counter(document.setdefault("counts", {}))
    seeds: dict[str, int] = document.setdefault("seeds", {})
    findings: list[str] = document.setdefault("findings", [])
    turns = [name for name in names for _ in range(TRIALS[name][1])]
    random.Random(0).shuffle(turns)
    with tempfile.TemporaryDirectory() as folder:
        reference = make_reference(Path(folder))
        print(f"an undisturbed run takes {reference.seconds:.2f} s", flush=True)
        end, turn = time.monotonic() + 60 * minutes, 0
        while time.monotonic() < end:
            name = turns[turn % len(turns)]
            seed = seeds.get(name, 0)
            trial = Path(folder) / f"{name}-{seed}"
            trial.mkdir()
            try:
                TRIALS[name][0](random.Random(f"{name}/{seed}"), reference, trial, counts)
            except Broken as error:
                findings.append(f"{name}, seed {seed}: {error}")
                print(findings[-1], flush=True)
            shutil.rmtree(trial)
            seeds[name] = seed + 1
            turn += 1
            document["counts"] = dict(sorted(counts.items()))
            write_counts(save, document)
    add_run(document, "soak", minutes)
    write_counts(save, document)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("names", nargs="*", metavar="TRIAL", help=", ".join(TRIALS))
    words.add_argument("--minutes", type=float, default=30)
    words.add_argument("--json", type=Path)
    options = words.parse_args()
    names = options.names or [name for name in TRIALS if may_mount() or name not in NEED_A_DISK]
    document = read_counts(options.json)
    before = len(document.get("findings", []))
    soak(options.minutes, document, names, options.json)
    print(json.dumps(document, indent=1))
    sys.exit(len(document["findings"]) > before)


if __name__ == "__main__":
    main()
