"""Plans of built-in studies where no data are at hand."""

from functools import cache, lru_cache
from pathlib import Path

from headstart.study.language.files import base_path, study_path, table_of
from headstart.study.language.plan import Plan, make_plan
from headstart.study.language.scales import names_of
from headstart.study.language.spec import read_study

SCALES = ("tiny", "small", "paper")


def has_scales(name: str) -> bool:
    """Whether a built-in study has scales, of which one is to be named."""
    return _scaled(study_path(name))


@cache
def _scaled(path: Path) -> bool:
    """Whether a file or one that it extends has scales: nothing is merged for that, which takes a second for all studies."""
    table = table_of(path)
    bases = [base_path(name, path.parent) for name in names_of(table.get("extends", ()))]
    return bool(table.get("scales")) or any(_scaled(base) for base in bases)


@lru_cache
def planned(name: str, scale: str, folder: Path) -> Plan:
    """The plan of a study at a scale; stages whose data are absent are open."""
    return make_plan(read_study(name, scale=scale, data=folder), folder, absent="open")
