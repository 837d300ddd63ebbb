"""Damage good files at random and open them: `python -m support.fuzz [NAME ...] --minutes 5 --seed 0 [--json FILE]`.

Minutes are of the processor. What was found stays in the folder, as files that can be opened again. Counts add up under
`fuzz` in the JSON file, and each run goes on with the seeds that the last one has not used.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from support.counts import add_run, changed, seeds
from support.fuzz.parsers import PARSERS
from support.fuzz.run import Counts, run

MANY = 10_000_000
"""Seeds that a run keeps for itself: more than it takes."""


def main(arguments: Sequence[str] | None = None) -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PARSERS))
    words.add_argument("--minutes", type=float, default=5, help="of the processor, each")
    words.add_argument("--clock", type=float, help="minutes of the clock at which a format ends all the same")
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    words.add_argument("--json", type=Path)
    options = words.parse_args(arguments)
    document: dict[str, Any] = {}
    failed, minutes = False, 0.0
    for name in options.names or list(PARSERS):
        with changed(options.json, document) as counts:
            row = counts.setdefault("fuzz", {}).setdefault(name, {"seed": options.seed, "findings": {}})
            seed = seeds(row, "seed", number=MANY)
            row.setdefault("first", seed)
        summed = Counts(seed)

        def add(result: Counts, name: str = name, summed: Counts = summed) -> None:
            """What has come since it was added last."""
            with changed(options.json, document) as counts:
                row = counts["fuzz"][name]
                for key in ("minutes", "clock", "trials", "read", "refused"):
                    more = getattr(result, key) - getattr(summed, key)
                    row[key] = round(row.get(key, 0) + more, 3)
                    setattr(summed, key, getattr(result, key))
                row["findings"] |= {key: Path(sample).name for key, sample in result.findings.items()}

        result = run(name, options.minutes, seed, options.folder / name, options.clock, add)
        failed, minutes = failed or bool(result.findings), minutes + result.minutes
        print(json.dumps({"parser": name, **asdict(result)}), flush=True)
    with changed(options.json, document) as counts:
        add_run(counts, "fuzz", round(minutes, 2))
    sys.exit(failed)


if __name__ == "__main__":
    main()
