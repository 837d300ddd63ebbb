"""The plan of a fit as a file in the folder of its model, where the same command finds it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from headstart import disk
from headstart.core import Store
from headstart.errors import BadInput, Damaged
from headstart.request.settings import FitSettings
from headstart.spec import Spec, read
from headstart.text import listed

PLAN = "plan.json"
"""The file of a plan in the folder of a model."""
LITTLE = "that is too little for networks to learn from"
"""Begins the line of a plan whose networks take so few steps."""


class FitPlan(Spec):
    """What a fit resolved: a study of the networks, the seconds it should take here, and what was decided, in words."""

    kind: str = "headstart plan"
    made_for: str
    """Digest of the data and of the settings; a plan for others is not this one."""
    made_by: str = ""
    study: dict[str, Any]
    seconds: float = Field(ge=0)
    texts: tuple[str, ...]
    part: bool = False
    """It is for a part of a file, which depends on the time."""
    learnt: int | None = None
    """Rows of train that models without gradients are fitted on (None: all)."""
    time: float | None = None
    """Those of the command."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Those of the command."""

    @property
    def too_little(self) -> bool:
        """Whether its networks take too few steps to learn, so that nothing is gained by finishing them."""
        return any(text.startswith(LITTLE) for text in self.texts)

    @classmethod
    def load(cls, folder: Path, wanted: str, settings: FitSettings, *, part: bool = False) -> FitPlan | None:
        """The plan that an earlier run of the same command left; None where it had another limit of time, or no network
        where one is asked for. part: of a part of the data, which depends on the time.

        Raises: BadInput where it was made for something else.
        """
        path = folder / PLAN
        anew = f"give another folder with -o, or delete {PLAN} to plan anew"
        try:
            plan = read(cls, Store.read_document(path), str(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except BadInput as error:
            raise BadInput(f"{error}\n{path}: is not a plan that this headstart reads; {anew}") from None
        except Damaged as error:
            raise BadInput(f"{error}; delete it to plan anew") from None
        if plan.made_for != wanted and (part or plan.part):
            return None
        if plan.made_for != wanted:
            now = settings.document()
            differ = [name for name in now if plan.settings and plan.settings.get(name) != now[name]]
            which = f" ({listed(differ)})" if differ else ""
            raise BadInput(f"{path}: was made for other data or settings{which}; {anew}")
        arms = plan.study.get("arms", {})
        networks = any("kind" not in arm.get("model", {}) for arm in arms.values()) or not settings.asks_for_network
        listed_seeds = any("seed" in arm for arm in arms.values())  # of a headstart whose arms had seeds of their own
        return plan if plan.time == settings.time and networks and not listed_seeds else None

    def save(self, folder: Path, settings: FitSettings) -> None:
        """Write the plan where the same command finds it."""
        disk.make_folder(folder)
        plan = self.model_copy(update={"time": settings.time, "settings": settings.document()})
        Store.save_document(folder / PLAN, plan.model_dump(mode="json"))
