"""What changed train sequences (`augment` of task `own`) gain for the network of `headstart fit` on small sets of numbers.

    python benchmarks/fit_augment.py --data DIR [--work DIR] [--folds N] [--write]

Of each small choosing set of benchmarks/fit_against.toml (UCR, fewer labels than `fit` takes folds for) the train rows are
dealt into the five folds of `fit`; no row of the official test split is read. The network that `fit` trains from random
weights is trained with its steps and rates, as it is and with each way to change the train sequences, and validated on the
fold that is left out: at the rate with the best mean, as `fit` chooses it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from harness import PAGES, Set, all_sets, files_of, filled, gain_text, made_here, markdown, parser_of, sets_of, write

from headstart.fit.budget import whole_amount
from headstart.fit.defaults import FEW_ROWS, FOLDS, shape_of
from headstart.fit.perform import Fit
from headstart.fit.plan import study_table, with_places
from headstart.fit.settings import FitSettings
from headstart.fit.source import read_source
from headstart.runner.job import Runtime
from headstart.runner.perform import perform
from headstart.stage import TrainStage
from headstart.store import Store
from headstart.study.language.plan import make_plan
from headstart.study.language.spec import read_study

WAYS = {
    "none": [],
    "jitter": ["jitter"],
    "scale": ["scale"],
    "warp": ["warp"],
    "all": ["jitter", "scale", "warp"],
}
SETS = ("ECG200", "ArrowHead", "OSULeaf")
"""Of those for choosing. Others say less, or take longer: on Trace and on a fold of Coffee the network was right on every
validation row, PigCVP has two rows of each class, and Computers takes as long as these three."""


def measured(dataset: Set, work: Path, folds: int) -> tuple[int, dict[str, np.ndarray]]:
    """Rows of a set, and (2, folds) accuracy and loss of each way on the folds that it is validated on."""
    store = work / "augment" / "store"
    settings = FitSettings(
        layout=dataset.layout, time=None, test_share=0.0, pretrain=False, folds=FOLDS, seeds=tuple(range(folds))
    )
    train = files_of(dataset, work)[0]
    fit = Fit(read_source(str(train), settings, store), settings, store, None, "cpu")
    table = study_table(fit.known, shape_of("numbers", fit.known.lengths), settings, whole_amount(fit.known, settings))
    scratch: dict[str, Any] = table["arms"]["scratch"]
    table["arms"] = {
        name: {**scratch, "task": {**scratch.get("task", {}), **({"augment": way} if way else {})}}
        for name, way in WAYS.items()
    }
    table["report"] = {**table["report"], "against": "none"}
    plan = make_plan(read_study(with_places(table, fit.known)), fit.data)
    list(perform(plan.stages.values(), Store(store), Runtime(fit.data, "cpu")))
    scores: dict[str, dict[float, list[tuple[float, float]]]] = {name: {} for name in WAYS}
    for cell in plan.cells:
        stage = cell.chain[-1]
        result = Store(store).result(stage.identity)
        assert result is not None, f"{cell.arm} is not finished"
        assert isinstance(stage.spec, TrainStage)
        val = result["scores"]["best"]["val"]
        scores[cell.arm].setdefault(stage.spec.optim.lr, []).append((val["accuracy"], val["loss"]))
    best = {name: max(map(np.array, rates.values()), key=lambda x: x.mean(0)[0]).T for name, rates in scores.items()}
    return len(train.read_text("utf-8").splitlines()), best


def main() -> None:
    words = parser_of(__doc__)
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--work", type=Path, default=Path("runs/fit-augment"))
    words.add_argument("--folds", type=int, default=FOLDS, help="how many of the five folds are validated on")
    words.add_argument("--write", action="store_true")
    options = words.parse_args()
    work = options.work.absolute()
    known = {dataset.name: dataset for dataset in all_sets(options.data, work)}
    accuracy, loss, lines = [], [], []
    for name in SETS:
        assert name in sets_of("choosing"), f"{name} is not for choosing"
        rows, ways = measured(known[name], work, options.folds)
        assert rows < FEW_ROWS
        accuracy.append([ways[way][0].mean() for way in WAYS])
        loss.append([ways[way][1].mean() for way in WAYS])
        lines.append([name, f"{rows:,}", *(f"{x:.3f} ({y:.3f})" for x, y in zip(accuracy[-1], loss[-1], strict=True))])
        print("  ".join(lines[-1]), flush=True)
    table, losses = np.array(accuracy), np.array(loss)
    gains = [f"{way} {gain_text(table[:, i] - table[:, 0])}" for i, way in enumerate(WAYS) if i]
    less = [f"{way} {gain_text(losses[:, i] - losses[:, 0])}" for i, way in enumerate(WAYS) if i]
    text = filled(
        "fit-augment",
        table=markdown(["set", "rows", *WAYS], lines),
        folds=options.folds,
        of=FOLDS,
        sets=len(lines),
        gains=", ".join(gains),
        less=", ".join(less),
        made=made_here("headstart"),
    )
    print(text)
    if options.write:
        write(PAGES / "fit-augment.md", text)


if __name__ == "__main__":
    main()
