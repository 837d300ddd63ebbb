"""A trivial rule that a task knows of itself, such as the distance of two marked discs: by its scores alone."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from headstart.baselines.contract import FittedSpec


class TaskRuleSpec(FittedSpec):
    """`name`: of one of the task's `baselines`; empty: the first."""

    kind: Literal["task"] = "task"
    name: str = ""
    way: ClassVar[str] = "known"

    def title(self, facts: Any) -> str:
        """Its name."""
        del facts
        return self.name

    def describe(self) -> str:
        """The rule by its name."""
        return f"the task's own trivial rule{f' {self.name!r}' if self.name else ''}"
