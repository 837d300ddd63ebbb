"""Plans of built-in studies where no data are at hand."""

from functools import lru_cache
from pathlib import Path

from headstart.study.language.plan import Plan, make_plan
from headstart.study.language.spec import read_study

SCALES = ("tiny", "small", "paper")


@lru_cache
def planned(name: str, scale: str, folder: Path) -> Plan:
    """The plan of a study at a scale; stages whose data are absent are open."""
    return make_plan(read_study(name, scale=scale, data=folder), folder, absent="open")
