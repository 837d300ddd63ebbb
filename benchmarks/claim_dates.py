"""When each claim of the built-in studies and papers was written, from the history of their files.

    python benchmarks/claim_dates.py

It writes `src/headstart/studies/claims.json`: study, or `papers/NAME` -> key of the claim (what it compares, whatever its
words) -> the first commit that has it, and when. A claim that is younger than the runs that answer it is exploratory.
"""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headstart.study.language.files import built_in_studies, studies_folder
from headstart.study.language.papers import Claim, built_in_papers, claim_key, read_paper
from headstart.study.language.spec import read_study

DATES = studies_folder() / "claims.json"


def git(*words: str) -> str:
    """What git answers in the folder of studies."""
    return subprocess.run(["git", *words], cwd=DATES.parent, capture_output=True, text=True, check=False).stdout


def versions(file: Path) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(commit, time, table) of a file, the oldest first, whatever it was called then."""
    top, commit, when = git("rev-parse", "--show-toplevel").strip(), "", ""
    for line in git(
        "-C", top, "log", "--follow", "--reverse", "--name-only", "--format=@%H %cI", "--", str(file)
    ).split("\n"):
        if line.startswith("@"):
            commit, when = line[1:].split(" ")
        elif line:
            try:
                yield commit, when, tomllib.loads(git("-C", top, "show", f"{commit}:{line}"))
            except tomllib.TOMLDecodeError:
                continue


def written(file: Path, named: Mapping[str, Path]) -> dict[str, list[str]]:
    """Key of a claim -> [commit, time] at which it first stood in the file, or in one that it extends."""
    out: dict[str, list[str]] = {}
    above = ""
    for commit, when, table in versions(file):
        above = table.get("extends", above)
        for claim in table.get("claims", ()):
            out.setdefault(claim_key(claim), [commit[:12], when])
    if isinstance(above, str) and above in named:
        out |= {key: value for key, value in written(named[above], named).items() if key not in out}
    return out


def dated(claims: tuple[Claim, ...], file: Path, named: Mapping[str, Path]) -> dict[str, list[str]]:
    """The claims that stand there now."""
    dates = written(file, named)
    keys = [claim_key(claim.model_dump(mode="json", exclude_defaults=True)) for claim in claims if claim.higher]
    return {key: dates[key] for key in keys if key in dates}


def main() -> None:
    named = {**{p.stem: p for p in (studies_folder() / "parts").glob("*.toml")}, **built_in_studies()}
    out = {name: dated(read_study(name).claims, path, named) for name, path in built_in_studies().items()}
    out |= {f"papers/{name}": dated(read_paper(name).claims, path, {}) for name, path in built_in_papers().items()}
    DATES.write_text(json.dumps({name: keys for name, keys in sorted(out.items()) if keys}, indent=1) + "\n", "utf-8")
    print(f"{DATES}: {sum(map(len, out.values()))} claims")


if __name__ == "__main__":
    main()
