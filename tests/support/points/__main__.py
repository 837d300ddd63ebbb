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
    words.add_argument("--stride", type=int, default=1, help="each so many-th operation")
    words.add_argument("--power", action="store_true", help="cut the power after operations")
    words.add_argument("--json", type=Path)
    options = words.parse_args()
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a folder of its own in it
    what, findings = "power" if options.power else "points", 0
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        for name in options.names or list(VERBS):
            began = time.monotonic()
            rows = (cut_power if options.power else take_points)([name], Path(folder), options.stride)
            findings += sum(len(row["findings"]) for row in rows.values())
            if options.json is not None:
                with changed(options.json) as document:
                    sums = document.setdefault(what, {})
                    sums |= rows if options.power else {key: added(sums.get(key, {}), rows[key]) for key in rows}
                    add_run(document, what, round((time.monotonic() - began) / 60, 2))
    sys.exit(bool(findings))
