"""The plan of a fit as a file, which the same command finds again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from headstart.errors import BadInput
from headstart.fit.settings import FitSettings
from headstart.spec import Spec, digest, read
from headstart.store import Damaged, publish_json, read_json

PLAN = "plan.json"


class FitPlan(Spec):
    """What a fit resolved: a study of the networks, the seconds it should take here, and what was decided, in words.

    made_for: digest of the data and of the settings; a plan for others is not this one.
    """

    kind: str = "headstart plan"
    made_for: str
    made_by: str = ""
    study: dict[str, Any]
    seconds: float = Field(ge=0)
    texts: tuple[str, ...]


def made_for(content: str | None, task: Mapping[str, Any], settings: FitSettings) -> str:
    """What a plan belongs to: the data by their content, and the settings."""
    plain = {name: value for name, value in task.items() if name not in ("file", "test", "unlabelled")}
    return digest({"content": content, "task": plain, "settings": settings.document()})


def kept_plan(folder: Path, wanted: str) -> FitPlan | None:
    """The plan that an earlier run of the same command left. Raises: BadInput where it was made for something else."""
    path = folder / PLAN
    try:
        plan = read(FitPlan, {k: v for k, v in read_json(path).items() if k != "format"}, str(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except BadInput as error:
        raise BadInput(
            f"{error}\n{path}: is no plan that this headstart reads; give another folder with -o, or delete "
            "it to plan anew"
        ) from None
    except Damaged as error:
        raise BadInput(f"{error}; delete it to plan anew") from None
    if plan.made_for != wanted:
        raise BadInput(
            f"{path}: was made for other data or settings; give another folder with -o, or delete it to plan anew"
        )
    return plan


def keep_plan(folder: Path, plan: FitPlan) -> None:
    """Write the plan where the same command finds it."""
    folder.mkdir(parents=True, exist_ok=True)
    publish_json(folder / PLAN, plan.model_dump(mode="json"))
