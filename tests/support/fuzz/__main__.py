"""Damage good files at random and open them: `python -m support.fuzz [NAME ...] --minutes 5 --seed 0 [--json FILE]`.

Each parser runs in a process of its own; one that dies is a finding too. What was found stays in the folder that is
printed, as files that can be opened again. Counts add up under `fuzz` in the JSON file, and each run goes on with the
seeds that the last one has not used.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

from support.counts import add_run, changed, seeds
from support.fuzz.parsers import PARSERS
from support.fuzz.run import run

MANY = 1_000_000
"""Seeds that a run keeps for itself: more than it takes."""


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PARSERS))
    words.add_argument("--minutes", type=float, default=5)
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    words.add_argument("--json", type=Path)
    options = words.parse_args()
    document: dict[str, Any] = {}
    names = options.names or list(PARSERS)
    failed = False
    for name in names:
        folder = options.folder / name / str(os.getpid())
        folder.mkdir(parents=True, exist_ok=True)
        report = folder / "report.json"
        with changed(options.json, document) as counts:
            row = counts.setdefault("fuzz", {}).setdefault(
                name, {"minutes": 0, "seed": options.seed, "read": 0, "refused": 0, "findings": []}
            )
            seed = seeds(row, "seed", number=MANY)
        arguments = (name, options.minutes, seed, folder, report)
        process = multiprocessing.get_context("spawn").Process(target=run, args=arguments)
        process.start()
        process.join(60 * options.minutes + 300)
        if process.is_alive():
            process.kill()
            process.join()
        result: dict[str, Any] = {"read": 0, "refused": 0, "findings": {}}
        if report.exists():
            result = json.loads(report.read_text())
        if process.exitcode:
            result["findings"][f"the process ended with {process.exitcode}"] = str(folder / "current")
        with changed(options.json, document) as counts:
            row = counts["fuzz"][name]
            row["minutes"] += options.minutes
            row["read"] += result["read"]
            row["refused"] += result["refused"]
            row["findings"] += result["findings"]
        failed = failed or bool(result["findings"])
        print(json.dumps({"parser": name, **result}), flush=True)
    with changed(options.json, document) as counts:
        add_run(counts, "fuzz", options.minutes * len(names))
    sys.exit(failed)


if __name__ == "__main__":
    main()
