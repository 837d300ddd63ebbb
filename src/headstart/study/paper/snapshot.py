"""A study's results as one JSON file: all that its report is made of but weights and predictions; files are joined.

A file holds the study, its runs, and of each stage the spec, the scores, the records of its evaluations, the budget and
where it ran. Choosing, pairing and reporting are done anew from them, by the code that reads a store.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from headstart import words
from headstart.documents import from_json, misfits
from headstart.errors import BadInput, Damaged
from headstart.spec import read
from headstart.stage import StageSpec, content_digest, read_stage, settings_of_class
from headstart.store import StageEntry, Store
from headstart.study.language.plan import Cell, Plan, PlannedStage, stages_of
from headstart.study.language.spec import StudySpec, check_requires, check_study
from headstart.study.paper.compare import filled
from headstart.study.paper.snapshot_form import FORM, check_runs, check_settings
from headstart.study.paper.summary import summarise
from headstart.study.results.answers import RightAnswers
from headstart.study.results.collect import RunRecord, undamaged
from headstart.study.results.columns import side_by_side
from headstart.study.results.results import Results, TaskFacts
from headstart.tasks import data_folder

SNAPSHOT_FORMAT = 1
"""Version of the file. A file of a later one is refused."""
LARGEST_SNAPSHOT = 2**28
"""Bytes of a file that is read."""
RESULT_KEYS = ("status", "monitor", "scores", "budget", "title")
"""Keys of a result that are kept as they are."""
SHARED_TABLES = ("settings", "machines", "parameters")
"""What many stages have in common is written once, and named by its index."""


@dataclass(frozen=True)
class Snapshot:
    """What a store holds of a study's stages, without weights and predictions; read by the same names as `Store`.

    contents: identity -> digest of the loaded data that the stage reads. measures: quantity -> identity of a reported
    stage -> what was read from weights. answers: identity of a reported stage -> which test examples it answered
    rightly. challenges: what came of the page's claim on fresh seeds, the oldest first.
    """

    plan: Plan
    entries: Mapping[str, StageEntry]
    curves: Mapping[str, Sequence[RunRecord]]
    facts: Mapping[str, TaskFacts]
    contents: Mapping[str, str]
    measures: Mapping[str, Mapping[str, float]]
    challenges: tuple[Mapping[str, Any], ...] = ()
    answers: Mapping[str, RightAnswers] = field(default_factory=dict)

    def entry(self, identity: str) -> StageEntry:
        """What is known of one stage."""
        return self.entries.get(identity) or StageEntry(identity, "absent", None, None)

    def result(self, identity: str) -> dict[str, Any] | None:
        """The stage's result, without files; None where it is not finished."""
        return self.entry(identity).result

    def status(self, identity: str) -> str:
        """As the store said."""
        return self.entry(identity).status

    def records(self, identity: str) -> Sequence[RunRecord]:
        """Step, epoch and scores of each evaluation."""
        return self.curves.get(identity, ())

    def predictions(self, identity: str) -> dict[str, Any]:
        """Raises: Damaged, since there are none."""
        raise Damaged(f"stage {identity}: a file of results has no predictions")

    def results(self) -> Results:
        """The study's results, chosen and paired anew."""
        results = summarise(self.plan, self.result, self.status, self.facts, self.records, self.answers.get)
        table = []
        for row in results.table:
            last = {run.stages[-1][1]: run.seed for run in row.runs}
            of_row = {
                quantity: {last[identity]: value for identity, value in values.items() if identity in last}
                for quantity, values in self.measures.items()
            }
            table.append(replace(row, measures={quantity: seeds for quantity, seeds in of_row.items() if seeds}))
        return replace(results, table=tuple(table))

    def document(self, results: Results, claims: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The file: `rows`, `claims` and `caveats` for readers, the rest to make the report again."""
        shared: dict[str, dict[str, int]] = {name: {} for name in SHARED_TABLES}
        stages = {i: self._stage_document(planned, shared) for i, planned in self.plan.every_stage.items()}
        return {
            "format": SNAPSHOT_FORMAT,
            "study": results.name,
            "rows": results.rows(),
            "claims": list(claims),
            "caveats": [str(caveat) for caveat in results.caveats],
            "definition": self.plan.study.model_dump(mode="json"),
            "facts": {key: asdict(facts) for key, facts in self.facts.items()},
            "measures": {quantity: dict(values) for quantity, values in self.measures.items()},
            "runs": [_run_document(cell) for cell in self.plan.cells],
            **({"trials": [_run_document(cell) for cell in self.plan.trials]} if self.plan.trials else {}),
            "baselines": [_run_document(cell) for cell in self.plan.baselines],
            **{name: [json.loads(text) for text in texts] for name, texts in shared.items()},
            "stages": stages,
            **({"challenges": list(self.challenges)} if self.challenges else {}),
        }

    def _stage_document(self, planned: PlannedStage, shared: Mapping[str, dict[str, int]]) -> dict[str, Any]:
        def index(name: str, value: Any) -> int:
            return shared[name].setdefault(json.dumps(value), len(shared[name]))

        entry, identity = self.entry(planned.identity), planned.identity
        settings = planned.spec.model_dump(mode="json", exclude={"seed", "parent"})
        document: dict[str, Any] = {
            "settings": index("settings", {"spec": settings, "data": self.contents.get(identity)}),
            "seed": planned.spec.seed,
            "status": entry.status,
        }
        if entry.result is None:
            return document
        result = dict(entry.result)
        provenance = dict(result.get("provenance", {}))
        times = {name: provenance.pop(name) for name in ("started", "attempts") if name in provenance}
        document |= {name: result[name] for name in RESULT_KEYS if name in result} | times
        if source := result.get("model", {}).get("source"):
            document["source"] = source
        if (answers := self.answers.get(identity)) is not None:
            document["answers"] = answers.document()
        return document | {
            "machine": index("machines", provenance),
            "parameters": index("parameters", result.get("parameters", {})),
            "records": _columns(self.records(identity)),
        }


def take_snapshot(plan: Plan, results: Results, store: Store) -> Snapshot:
    """What the store holds of a plan's stages. results: those of the plan, whose facts and measures are kept."""
    entries = {identity: store.entry(identity) for identity in plan.every_stage}
    records = undamaged(store.records)
    digests = {i: content_digest(p.spec.task, plan.data) for i, p in plan.every_stage.items() if not p.open}
    measures: dict[str, dict[str, float]] = {}
    for row in results.table:
        for quantity, seeds in row.measures.items():
            last = {run.seed: run.stages[-1][1] for run in row.runs}
            measures.setdefault(quantity, {}).update({last[seed]: value for seed, value in seeds.items()})
    return Snapshot(
        plan,
        {i: replace(entry, status="partial") if entry.status == "running" else entry for i, entry in entries.items()},
        {identity: records(identity) for identity, entry in entries.items() if entry.result is not None},
        results.facts,
        {identity: digest for identity, digest in digests.items() if digest is not None},
        measures,
        answers=results.answers,
    )


def _run_document(cell: Cell) -> dict[str, Any]:
    return {
        "arm": cell.arm,
        "column": cell.column,
        "seed": cell.seed,
        "settings": dict(cell.settings),
        "stages": {planned.name: planned.identity for planned in cell.chain},
    }


def _columns(records: Sequence[RunRecord]) -> dict[str, list[Any]]:
    """Records as columns: `step`, `epoch`, and `val.accuracy` of each evaluation (None where there is no number)."""
    rows: list[dict[str, Any]] = [
        {"step": record["step"], "epoch": record.get("epoch")}
        | {f"{split}.{name}": value for split in ("train", "val") for name, value in record.get(split, {}).items()}
        for record in records
    ]
    return {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}


def _records(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """What `_columns` wrote, as records."""
    out: list[dict[str, Any]] = []
    for values in zip(*columns.values(), strict=True):
        record: dict[str, Any] = {}
        for name, value in zip(columns, values, strict=True):
            split, _, metric = name.partition(".")
            if not metric:
                record[name] = value
            elif value is not None:
                record.setdefault(split, {})[metric] = value
        out.append(record)
    return out


def read_snapshot(files: Iterable[str | Path], option: str = "--from") -> Snapshot:
    """The results of one study in one file or several; arms and columns of which no run is finished are left out.

    Raises: BadInput for a file that is not a whole one of this format, and where files are not of the same study,
    hold unequal scores of equal stages, or no finished run.
    """
    parts = {str(file): read_file(Path(file), option) for file in files}
    for (name, part), (other_name, other) in itertools.combinations(parts.items(), 2):
        _check_same_study(name, part, other_name, other)
        _check_same_runs(name, part, other_name, other)
    return only_run(_joined([*parts.values()]), f"{option}: {words.listed([*parts])}")


def only_run(snapshot: Snapshot, name: str = "report") -> Snapshot:
    """The snapshot without arms and columns of which no run is finished. Raises: BadInput where that leaves none."""
    groups, _ = side_by_side(snapshot.plan)
    finished = [cells for cells in groups.values() if any(snapshot.result(cell.chain[-1].identity) for cell in cells)]
    if not finished:
        raise BadInput(f"{name}: no run of {snapshot.plan.study.name!r} is finished; finish one first")
    chosen = {id(cell) for cells in finished for cell in cells}
    plan = snapshot.plan.with_runs(cell for cell in snapshot.plan.cells if id(cell) in chosen)
    return replace(snapshot, plan=plan)


def read_file(path: Path, option: str = "--from") -> Snapshot:
    """One file as it was written. Raises: BadInput for a file that is not a whole one of this format."""
    try:
        size = path.stat().st_size
        if size > LARGEST_SNAPSHOT or not (path.is_file() or path.is_dir()):
            what = f"has {size:,} bytes, more than {LARGEST_SNAPSHOT:,}" if path.is_file() else "is no plain file"
            raise BadInput(f"{option}: {str(path)!r} {what}; name a file that --json wrote")
        document = from_json(path.read_text("utf-8"))
        json.dumps(document, ensure_ascii=False).encode()  # half a character stands in no file that was written here
    except OSError as error:
        raise BadInput(f"{option}: {str(path)!r} cannot be read: {error.strerror}") from None
    except ValueError as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{option}: {str(path)!r} is not JSON ({error}); name a file that --json wrote") from None
    version = document.get("format") if isinstance(document, Mapping) else None
    if version != SNAPSHOT_FORMAT or "stages" not in document:
        why = "it holds the table without the stages" if version == SNAPSHOT_FORMAT else f"its format is {version!r}"
        raise BadInput(
            f"{option}: {str(path)!r} is not a whole file of results of format {SNAPSHOT_FORMAT} ({why}); "
            "name one that `headstart run STUDY --json FILE` or `headstart report STUDY --json FILE` wrote"
        )
    try:
        if wrong := next(misfits(document, FORM), None):
            raise BadInput(f"{wrong}; write the file again")
        return _Reader(document).snapshot()
    except BadInput as error:
        raise BadInput("\n".join(f"{option}: {path}: {line}" for line in str(error).splitlines())) from None


class _Reader:
    """One document as a snapshot."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self._specs: dict[str, StageSpec] = {}
        chains = [list(run["stages"].values()) for run in reversed(document["runs"])]
        self._parents = {stage: parent for chain in chains for parent, stage in itertools.pairwise(chain)}

    def snapshot(self) -> Snapshot:
        document, stages = self.document, self.document["stages"]
        for identity, stage in stages.items():
            self._check_stage(identity, stage)
        for key, value in document["facts"].items():
            if odd := sorted({*value} - {fact.name for fact in fields(TaskFacts)}):
                raise BadInput(f"facts.{key}: {odd[0]!r} is no fact of a task; write the file again")
        check_requires(document["definition"])
        study: StudySpec = read(StudySpec, document["definition"], "definition")
        try:
            check_study(study)
        except BadInput as error:
            raise BadInput("\n".join(f"definition.{line}" for line in str(error).splitlines())) from None
        lists = [document["runs"], document["baselines"], document.get("trials", [])]
        for run in lists[1]:
            check_settings(run, study)
        check_runs(lists[0], study, once=True)
        check_runs(lists[2], study, once=False)
        cells, baselines, trials = (tuple(map(self._cell, runs)) for runs in lists)
        plan = Plan(study, cells, stages_of((*trials, *cells)), data_folder(None), baselines, trials)
        digests = {identity: document["settings"][stage["settings"]]["data"] for identity, stage in stages.items()}
        return Snapshot(
            plan,
            {identity: self._entry(identity, stage) for identity, stage in stages.items()},
            {identity: _records(stage["records"]) for identity, stage in stages.items() if "records" in stage},
            {
                key: TaskFacts(**value | {name: tuple(value[name]) for name in ("notes", "labels")})
                for key, value in document["facts"].items()
            },
            {identity: digest for identity, digest in digests.items() if digest is not None},
            document["measures"],
            tuple(document.get("challenges", ())),
            {
                i: RightAnswers.read(stage["answers"], f"stages.{i}")
                for i, stage in stages.items()
                if "answers" in stage
            },
        )

    def _check_stage(self, identity: str, stage: Mapping[str, Any]) -> None:
        """Raises: BadInput where a stage names what the file does not have, or its records are of unequal length."""
        shared = {"settings": "settings", "machine": "machines", "parameters": "parameters"}
        for key, name in shared.items():
            if key in stage and stage[key] >= len(self.document[name]):
                raise BadInput(f"stages.{identity}.{key}: {stage[key]} is more than {name!r} has; write the file again")
        lost = [key for key in ("monitor", "budget", "machine", "parameters", "records") if key not in stage]
        if "scores" in stage and lost:
            raise BadInput(f"stages.{identity}.{lost[0]}: is missing; write the file again")
        if (columns := stage.get("records")) and ("step" not in columns or len({*map(len, columns.values())}) > 1):
            raise BadInput(f"stages.{identity}.records: no 'step', or columns of unequal length; write the file again")

    def _cell(self, run: Mapping[str, Any]) -> Cell:
        chain: list[PlannedStage] = []
        if not run["stages"]:
            raise BadInput(f"runs: that of {run['arm']!r} has no stage; write the file again")
        for name, identity in run["stages"].items():
            if identity not in self.document["stages"]:
                raise BadInput(f"runs: that of {run['arm']!r} names the stage {identity!r}, which is not in 'stages'")
            if identity not in self._specs:
                stage = self.document["stages"][identity]
                table = self.document["settings"][stage["settings"]]["spec"]
                own = {"seed": stage["seed"]} | ({"parent": chain[-1].spec} if chain else {})
                self._specs[identity] = read_stage(settings_of_class(table | own), name)
            chain.append(PlannedStage(name, self._specs[identity], identity))
        if chain[-1].spec.task is None:
            raise BadInput(
                f"runs: that of {run['arm']!r} ends in {name!r}, a stage without a task; write the file again"
            )
        return Cell(run["arm"], run["column"], run["seed"], run["settings"], tuple(chain))

    def _entry(self, identity: str, stage: Mapping[str, Any]) -> StageEntry:
        if "scores" not in stage:
            return StageEntry(identity, stage["status"], None, None)
        times = {name: stage[name] for name in ("started", "attempts") if name in stage}
        result = {name: stage[name] for name in RESULT_KEYS if name in stage} | {
            "identity": identity,
            "provenance": {**self.document["machines"][stage["machine"]], **times},
            "parameters": self.document["parameters"][stage["parameters"]],
            "model": {"source": stage.get("source", "")},
        }
        return StageEntry(identity, stage["status"], {"parent": self._parents.get(identity)}, result)


def _check_same_study(name: str, part: Snapshot, other_name: str, other: Snapshot) -> None:
    """Raises: BadInput naming what differs where stages of both differ in more than the seed."""
    first, second = _described(part, other), _described(other, part)
    apart = [key for key in dict.fromkeys([*first, *second]) if first.get(key) != second.get(key)]
    if apart:
        values = [words.plain(table.get(apart[0], words.NONE)) for table in (first, second)]
        more = f" (and {words.many(len(apart) - 1, 'other setting')})" if len(apart) > 1 else ""
        raise BadInput(
            f"--from: {apart[0]} is {values[0]} in {name} and {values[1]} in {other_name}{more}; join files of one "
            "study, whose stages are equal but for the seed"
        )


def _described(part: Snapshot, other: Snapshot) -> dict[str, Any]:
    """All that two files of one study have in common, by full names: the study, the stages of runs that both have with
    the digests of their data, and what is known of tasks. No seed is among it, nor a fold that goes by the seed."""
    study = part.plan.study.model_dump(mode="json")
    folds = {value for key, value in filled(study).items() if key.endswith("task.fold")}
    by_seed = {"seed", "fold"} if "seed" in folds else {"seed"}
    study["arms"] = {name: bundle for name, bundle in study["arms"].items() if name in other.plan.study.arms}
    table = filled({name: study[name] for name in ("name", "scale", "stages", "arms", "axes", "search", "requires")})
    shared = {_key(cell) for cell in other.plan.cells}
    for cell in {_key(cell): cell for cell in part.plan.cells if _key(cell) in shared}.values():
        for planned in cell.chain:
            spec = {key: value for key, value in planned.spec.document(places=False).items() if key != "parent"}
            spec["data"] = part.contents.get(planned.identity)
            table |= filled(spec, f"{cell.arm} on {cell.column}: {planned.name}.")
    for key, facts in part.facts.items():
        if key in other.facts:
            table |= filled(asdict(facts), f"task {facts.kind}: ")
    return {key: value for key, value in table.items() if key.rsplit(".", 1)[-1] not in by_seed}


def _key(cell: Cell) -> tuple[str, ...]:
    return cell.arm, cell.column, json.dumps(cell.settings, sort_keys=True)


def _check_same_runs(name: str, part: Snapshot, other_name: str, other: Snapshot) -> None:
    """Raises: BadInput where a run of both has other stages, or a stage of both other scores."""
    runs = {(*_key(cell), cell.seed): cell for cell in other.plan.cells}
    for cell in part.plan.cells:
        twin = runs.get((*_key(cell), cell.seed), cell)
        for planned, same in zip(cell.chain, twin.chain, strict=False):
            where = f"--from: seed {cell.seed} of {cell.arm} on {cell.column}, stage {planned.name}"
            if planned.identity != same.identity:
                text = f"{where} is {planned.identity} in {name} and {same.identity} in {other_name}"
                raise BadInput(f"{text}: its data or code differ; leave one of the files out")
            first, second = (filled((side.result(planned.identity) or {}).get("scores", {})) for side in (part, other))
            apart = [key for key in first if second and first[key] != second.get(key)]
            if apart and planned.spec.seeded:
                text = f"{first[apart[0]]!r} in {name} and {second.get(apart[0])!r} in {other_name}"
                raise BadInput(
                    f"{where} ({planned.identity}): {apart[0]} is {text}; a seed counts once, so leave out the file "
                    f"whose run of it is not to count (`headstart compare {name} {other_name}` shows what differs, and "
                    "the machines)"
                )


def _joined(parts: Sequence[Snapshot]) -> Snapshot:
    """All runs of all parts, each once, by arm, column and seed; title, claims and layout are those of the first."""
    if len(parts) == 1:
        return parts[0]
    cells = {(*_key(cell), cell.seed): cell for part in reversed(parts) for cell in part.plan.cells}
    every = [cell for part in parts for cell in part.plan.cells]
    arms, columns = ([*dict.fromkeys(names)] for names in ([c.arm for c in every], [c.column for c in every]))
    order = {key: number for number, key in enumerate(dict.fromkeys(_key(cell) for cell in every))}

    def rank(cell: Cell) -> tuple[int, int, int, int]:
        return arms.index(cell.arm), columns.index(cell.column), order[_key(cell)], cell.seed

    runs = tuple(sorted(cells.values(), key=rank))
    entries: dict[str, StageEntry] = {}
    for identity, entry in (item for part in parts for item in part.entries.items()):
        if identity not in entries or (entries[identity].result is None and entry.result is not None):
            entries[identity] = entry
    measures: dict[str, dict[str, float]] = {}
    for quantity, values in (item for part in parts for item in part.measures.items()):
        measures.setdefault(quantity, {}).update(values)
    baselines = {cell.chain[-1].identity: cell for part in parts for cell in part.plan.baselines}
    drawn = {(c.arm, c.column): part.plan.trials for part in parts for c in part.plan.trials}
    trials = tuple(c for key, several in drawn.items() for c in several if (c.arm, c.column) == key)
    fixed, data = tuple(baselines.values()), parts[0].plan.data
    plan = Plan(_study_of(parts, runs), runs, stages_of((*trials, *runs)), data, fixed, trials)
    return Snapshot(
        plan,
        entries,
        {key: records for part in reversed(parts) for key, records in part.curves.items() if records},
        {key: facts for part in parts for key, facts in part.facts.items()},
        {key: digest for part in parts for key, digest in part.contents.items()},
        measures,
        answers=dict(item for part in parts for item in part.answers.items()),
    )


def _study_of(parts: Sequence[Snapshot], runs: Iterable[Cell]) -> StudySpec:
    """The first study with the arms and columns of all, over all seeds."""
    studies = [part.plan.study for part in parts]
    table = studies[0].model_dump(mode="json")
    seeds = sorted({cell.seed for cell in runs})
    for key in ("arms", "columns"):
        table[key] = {name: bundle for study in studies for name, bundle in getattr(study, key).items()}
    for bundle in table["arms"].values():
        for name in (name for name in table["stages"] if isinstance(bundle.get(name), dict)):
            bundle[name] = {key: value for key, value in bundle[name].items() if key != "seed"}
    table["axes"] = {**table["axes"], "seed": seeds}
    return read(StudySpec, table, "definition")
