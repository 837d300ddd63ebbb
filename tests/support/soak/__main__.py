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

from support.counts import add_run, changed, read_counts, seeds
from support.soak.trials import NEED_A_DISK, TRIALS, Broken, make_reference, may_mount


def soak(minutes: float, document: dict[str, Any], names: list[str], save: Path | None = None) -> int:
    """Run trials in turn and add to the counts of `document`, or of the file `save`; how many findings there were."""
    turns = [name for name in names for _ in range(TRIALS[name][1])]
    random.Random(0).shuffle(turns)
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        reference = make_reference(Path(folder))
        print(f"an undisturbed run takes {reference.seconds:.2f} s", flush=True)
        end, turn = time.monotonic() + 60 * minutes, 0
        while time.monotonic() < end:
            name = turns[turn % len(turns)]
            counts, finding = Counter[str](), ""
            with changed(save, document) as sums:  # before it begins: another run may take one at the same time
                seed = seeds(sums.setdefault("seeds", {}), name)
                sums.setdefault("first", {}).setdefault(name, seed)
            trial = Path(folder) / f"{name}-{seed}"
            trial.mkdir()
            try:
                TRIALS[name][0](random.Random(f"{name}/{seed}"), reference, trial, counts)
            except Broken as error:
                finding = f"{name}, seed {seed}: {error}"
                print(finding, flush=True)
            shutil.rmtree(trial)
            turn += 1
            number += bool(finding)
            with changed(save, document) as sums:
                sums.setdefault("trials", {})[name] = sums.get("trials", {}).get(name, 0) + 1
                sums["counts"] = dict(sorted((Counter(sums.get("counts", {})) + counts).items()))
                sums.setdefault("findings", []).extend([finding] if finding else [])
    with changed(save, document) as sums:
        add_run(sums, "soak", minutes)
    return number


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("names", nargs="*", metavar="TRIAL", help=", ".join(TRIALS))
    words.add_argument("--minutes", type=float, default=30)
    words.add_argument("--json", type=Path)
    options = words.parse_args()
    names = options.names or [name for name in TRIALS if may_mount() or name not in NEED_A_DISK]
    document: dict[str, Any] = {}
    number = soak(options.minutes, document, names, options.json)
    print(json.dumps(read_counts(options.json) or document, indent=1))
    sys.exit(bool(number))


if __name__ == "__main__":
    main()
