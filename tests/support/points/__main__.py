"""Take all points of commands: `python -m support.points [NAME ...] [--stride N]`, from the folder `tests`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from support.counts import add_run, changed
from support.points.trials import VERBS, added, cut_power, take_points

if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("names", nargs="*", metavar="COMMAND", help=", ".join(VERBS))
    words.add_argument("--stride", type=int, default=1, help="each so many-th, beginning with the offset")
    words.add_argument("--daily", type=int, default=0, metavar="N", help="N times as many as the daily tests take")
    words.add_argument("--offset", type=int, default=0, help="the first of them")
    words.add_argument("--power", action="store_true", help="cut the power after operations")
    words.add_argument("--json", type=Path)
    options = words.parse_args()
    if options.daily and options.json is not None:
        words.error("--json counts each so many-th point: give --stride")
    began = time.monotonic()
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a folder of its own in it
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        take = cut_power if options.power else take_points
        rows = take(options.names or list(VERBS), Path(folder), options.stride, options.offset, options.daily)
    if options.json is not None:
        with changed(options.json) as document:
            sums = document.setdefault("power" if options.power else "points", {})
            sums |= rows if options.power else {name: added(sums.get(name, {}), row) for name, row in rows.items()}
            add_run(document, "power" if options.power else "points", round((time.monotonic() - began) / 60, 1))
    sys.exit(any(row["findings"] for row in rows.values()))
