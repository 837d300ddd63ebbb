"""Plans of built-in studies where no data are at hand."""

from functools import cache, lru_cache
from pathlib import Path

from headstart.study.language.files import study_path, table_of
from headstart.study.language.plan import Plan, make_plan
from headstart.study.language.scales import with_bases
from headstart.study.language.spec import read_study

SCALES = ("tiny", "small", "paper")


@cache
def has_scales(name: str) -> bool:
    """Whether a built-in study has scales, of which one is to be named."""
    path = study_path(name)
    return bool(with_bases(table_of(path), path).get("scales"))


@lru_cache
def planned(name: str, scale: str, folder: Path) -> Plan:
    """The plan of a study at a scale; stages whose data are absent are open."""
    return make_plan(read_study(name, scale=scale, data=folder), folder, absent="open")
