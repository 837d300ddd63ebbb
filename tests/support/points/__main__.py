"""Take all points of commands: `python -m support.points [NAME ...] [--stride N]`, from the folder `tests`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from support.counts import add_run, read_counts, write_counts
from support.points.trials import VERBS, take_points

if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("names", nargs="*", metavar="COMMAND", help=", ".join(VERBS))
    words.add_argument("--stride", type=int, default=1, help="0: as the daily tests do")
    words.add_argument("--json", type=Path)
    options = words.parse_args()
    began = time.monotonic()
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a folder of its own in it
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        rows = take_points(options.names or list(VERBS), Path(folder), options.stride or None)
    if options.json is not None:
        document = read_counts(options.json)
        document.setdefault("points", {}).update(rows)
        add_run(document, "points", round((time.monotonic() - began) / 60, 1))
        write_counts(options.json, document)
    sys.exit(any(row["findings"] for row in rows.values()))
