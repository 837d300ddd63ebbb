"""Damage good files at random and open them: `python -m support.fuzz [NAME ...] --minutes 5 --seed 0 [--json FILE]`.

Each parser runs in a process of its own; one that dies is a finding too. What was found stays in the folder that is
printed, as files that can be opened again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

from support.fuzz.parsers import PARSERS
from support.fuzz.run import run


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PARSERS))
    words.add_argument("--minutes", type=float, default=5)
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    words.add_argument("--json", type=Path)
    options = words.parse_args()
    documents: list[dict[str, Any]] = []
    for name in options.names or PARSERS:
        folder = options.folder / name / str(os.getpid())
        folder.mkdir(parents=True, exist_ok=True)
        report = folder / "report.json"
        arguments = (name, options.minutes, options.seed, folder, report)
        process = multiprocessing.get_context("spawn").Process(target=run, args=arguments)
        process.start()
        process.join(60 * options.minutes + 300)
        if process.is_alive():
            process.kill()
            process.join()
        document = json.loads(report.read_text()) if report.exists() else {"parser": name, "findings": {}}
        if process.exitcode:
            document["findings"][f"the process ended with {process.exitcode}"] = str(folder / "current")
        documents.append(document)
        print(json.dumps(document), flush=True)
        if options.json:
            options.json.write_text(json.dumps(documents, indent=1) + "\n")
    sys.exit(any(document["findings"] for document in documents))


if __name__ == "__main__":
    main()
