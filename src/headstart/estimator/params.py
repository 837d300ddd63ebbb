"""Parameters of estimators as the settings of a fit."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from headstart.data import LayoutSpec
from headstart.errors import BadInput

if TYPE_CHECKING:
    from headstart.fit.settings import FitSettings


def fit_settings(estimator: Any, layout: LayoutSpec) -> FitSettings:
    """The parameters of an estimator as a fit has them. Raises: BadInput for one that cannot be."""
    from headstart.fit.settings import FitSettings, read_time

    start, count, balanced = _seed(estimator.random_state), estimator.seeds, getattr(estimator, "class_weight", None)
    if not isinstance(count, numbers.Integral) or count < 1:
        raise BadInput(f"seeds: {count!r} is no number of networks; give 1 or more")
    if balanced not in (None, "balanced"):
        raise BadInput(f"class_weight: {balanced!r} is neither None nor 'balanced'")
    for name, low in (("validation_fraction", 1e-9), ("test_fraction", 0.0)):
        value = getattr(estimator, name)
        if not isinstance(value, (int, float)) or not low <= value < 1:
            raise BadInput(f"{name}: {value!r} is no share of the rows; give a number between 0 and 1")
    rates = _rates(estimator.learning_rates)
    for name in ("epochs", "pretrain_epochs"):
        _check_number(name, getattr(estimator, name))
    if not isinstance(estimator.time, str):
        _check_number("time", estimator.time)
    return FitSettings(
        layout=layout,
        time=read_time(estimator.time) if isinstance(estimator.time, str) else estimator.time,
        seeds=tuple(int(start) * int(count) + i for i in range(int(count))),
        split_seed=start,
        rates=rates,
        epochs=estimator.epochs,
        pretrain_epochs=estimator.pretrain_epochs,
        balanced=balanced is not None,
        serve=estimator.serve,
        pretrain=bool(estimator.pretrain),
        val_share=float(estimator.validation_fraction),
        test_share=float(estimator.test_fraction),
    )


def _seed(random_state: Any) -> int:
    if random_state is None or isinstance(random_state, numbers.Integral):
        return int(random_state or 0)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _rates(rates: Any) -> tuple[float, ...] | None:
    if rates is None:
        return None
    values = np.atleast_1d(np.asarray(rates, dtype=object)).tolist()
    for value in values:
        _check_number("learning_rates", value, needed=True)
    return tuple(map(float, values))


def _check_number(name: str, value: Any, needed: bool = False) -> None:
    numeric = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if numeric or (value is None and not needed):
        return
    raise BadInput(f"{name}: {value!r} is no number; give one" + ("" if needed else ", or None"))


def workers_of(n_jobs: Any) -> int:
    """Processes besides this one, 0 where this one trains."""
    from headstart.runner.machine import cores

    if n_jobs is not None and not isinstance(n_jobs, numbers.Integral):
        raise BadInput(f"n_jobs: {n_jobs!r} is no number of processes; give None, -1 or a whole number")
    count = 1 if n_jobs is None else int(n_jobs)
    count = count if count >= 0 else max(1, cores() + 1 + count)
    return count if count > 1 else 0
