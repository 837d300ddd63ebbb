"""`check`, `prepare`, `doctor`, and `show` of a task: verbs that open data and models but train nothing."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from headstart.checkpoints.released import RELEASED, RELEASED_SERIES
from headstart.checkpoints.source import weights_folder
from headstart.errors import BadInput, nearest
from headstart.limits import cores, in_words, memory
from headstart.models import MODELS
from headstart.models.mixers import MIXERS
from headstart.objectives import OBJECTIVES
from headstart.plugins import Plugin, load_class, load_plugins, own_kinds
from headstart.plugins.kinds import PluginEntry
from headstart.runner.machine import SLOW_BFLOAT16, choose_device, has_bfloat16, slow_precision
from headstart.spec import Spec, read, set_path
from headstart.study.language.budgets import Absences, Lack
from headstart.study.language.plan import Plan
from headstart.tasks import TASKS, Task, TaskSpec, data_folder
from headstart.text import many
from headstart.training.optimizers import OPTIMIZERS
from headstart.training.schedules import SCHEDULES
from headstart.verbs.options import FolderOptions, StudyOptions, study_of
from headstart.verbs.terminal import console, hanging, table
from headstart.words import count

S = TypeVar("S", bound=Spec)


def task_spec(name: str, overrides: Sequence[str]) -> TaskSpec:
    """A task by name with `field=value` settings."""
    cls: type[TaskSpec] = TASKS[name].load()
    return _with_settings(cls, name, overrides, "task")


def _with_settings(cls: type[S], name: str, overrides: Sequence[str], sort: str) -> S:
    """A spec of this kind with `field=value` settings."""
    return read(cls, settings_of(name, overrides, sort), name=sort)


def settings_of(name: str, overrides: Sequence[str], sort: str) -> dict[str, Any]:
    """The table of a study that `field=value` settings of a kind stand for."""
    from headstart.documents import parse_override

    fields: dict[str, Any] = {"kind": name}
    for word in overrides:
        path, value = parse_override(word)
        set_path(fields, path.removeprefix(f"{sort}.").split("."), value)
    return fields


def show_task(name: str, overrides: Sequence[str], data: str | None) -> None:
    """`headstart show TASK`: signature, splits, labels, and an example as the model sees it."""
    from headstart.tasks import open_task
    from headstart.verbs.task_view import describe

    out, fields = console(), TASKS[name].load().model_fields
    settings = {word.partition("=")[0].strip().removeprefix("task.").partition(".")[0] for word in overrides}
    if needed := [field for field, info in fields.items() if info.is_required() and field not in settings]:
        words = " ".join(f"{field}=..." for field in needed)
        return out.print(f"`headstart show {name} {words}` also shows its splits, its labels and an example.")
    spec = task_spec(name, overrides)
    out.print("\n\n".join(describe(spec, open_task(spec, data_folder(data)))))


def prepare_one(what: str, overrides: Sequence[str], data: str | None, workers: int | None) -> None:
    """`headstart prepare WHAT`: the data of a task, or the weights of a checkpoint."""
    from headstart.verbs.checkpoints import is_checkpoint, prepare_checkpoint

    if what not in TASKS and is_checkpoint(what):
        if overrides:
            raise BadInput(f"prepare: {overrides[0]!r} is a setting, and {what!r} a checkpoint; settings are of tasks")
        return prepare_checkpoint(what)
    return prepare_task(what, overrides, data, workers)


def prepare_task(name: str, overrides: Sequence[str], data: str | None, workers: int | None) -> None:
    """`headstart prepare TASK`: build or read the data, with a bar."""
    if name not in TASKS:
        listed = "`headstart ls tasks` and `headstart ls checkpoints` list them"
        raise BadInput(f"prepare: {nearest(name, [*TASKS, *RELEASED, *RELEASED_SERIES], listed)}")
    task = prepared_with_bar(task_spec(name, overrides), data_folder(data), workers)
    sizes = ", ".join(f"{split} {task.split(split).units:,}" for split in ("train", "val", "test"))
    console().print(f"{name} is ready: {sizes}; fingerprint {task.fingerprint[:16]}")


def prepared_with_bar(spec: TaskSpec, data: Path, workers: int | None = None) -> Task:
    """Build or read a task's data, with a bar on standard error where that is a terminal."""
    from headstart.tasks.task import prepare

    out = console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=out,
        disable=not out.is_terminal,
        transient=True,
    ) as bar:
        line = bar.add_task(f"preparing {spec.kind}", total=None)
        return prepare(
            spec,
            data,
            workers or cores(),
            lambda done, total: bar.update(line, completed=done, total=total),
        )


def check_one(
    what: str | None,
    overrides: Sequence[str],
    data: str | None,
    reading: StudyOptions,
) -> None:
    """`headstart check WHAT`: a study is planned and fitted, a kind of anything is held to its contract."""
    from headstart.study.language.files import built_in_studies, is_built_in

    loaded = load_plugins(reading.plugin or [])
    if reading.mixer is not None:
        what = what or load_class(reading.mixer, "--mixer", "mixer")
    if what is None and loaded:
        _check_plugins(loaded, overrides, data)
        return
    if what is None:
        raise BadInput(
            "check: name a study, a task, a mixer, an objective or a model of your own, or give --plugin FILE.py or "
            "module:Class"
        )
    if ":" in what:
        what = load_class(what, "check")
    if what in MIXERS:
        _check_mixer(what, overrides)
        return
    if what in TASKS and not is_built_in(what):
        _check_task(what, overrides, data)
        return
    if what in MODELS and isinstance(MODELS[what], PluginEntry):
        _check_model(what, overrides)
        return
    if what in OBJECTIVES and not is_built_in(what):
        _check_objective(what, overrides)
        return
    if is_built_in(what) or what.endswith(".toml"):
        _check_study(what, overrides, data, reading)
        return
    file = what if what.endswith(".py") else f"{what}.py"
    if file == what or Path(file).is_file():
        raise BadInput(f"check: {file!r} is code; `headstart check --plugin {file}` checks the kinds that it registers")
    names = [
        *TASKS,
        *MIXERS,
        *OBJECTIVES,
        *(k for k in MODELS if isinstance(MODELS[k], PluginEntry)),
        *built_in_studies(),
    ]
    listed = "`headstart ls studies`, `ls tasks` and `ls mixers` list them"
    raise BadInput(f"check: {nearest(what, names, listed)} (a study file ends in .toml)")


def _check_plugins(plugins: Sequence[Plugin], overrides: Sequence[str], data: str | None) -> None:
    """Every kind that plugins have registered and that has a contract. Raises: BadInput with all that fails."""
    problems = []
    checks: dict[str, Callable[[str], None]] = {
        "mixer": lambda kind: _check_mixer(kind, overrides),
        "task": lambda kind: _check_task(kind, overrides, data),
        "model": lambda kind: _check_model(kind, overrides),
        "objective": lambda kind: _check_objective(kind, overrides),
        "optimizer": lambda kind: _check_optimizer(kind, overrides),
        "schedule": lambda kind: _check_schedule(kind, overrides),
    }
    for sort, check in checks.items():
        for kind in own_kinds(plugins, sort):
            try:
                check(kind)
            except BadInput as error:
                problems.append(str(error))
    if problems:
        raise BadInput("\n".join(problems))


def _check_mixer(name: str, overrides: Sequence[str]) -> None:
    from headstart.models.contract import check_mixer

    _print_checks(f"mixer {name!r}", check_mixer(MIXERS[name].load(), settings_of(name, overrides, "mixer")))


def _check_model(name: str, overrides: Sequence[str]) -> None:
    from headstart.models.own import OwnModelSpec
    from headstart.training.model_contract import check_model

    cls, what = MODELS[name].load(), f"model {name!r}"
    if not issubclass(cls, OwnModelSpec):
        text = "is fitted without gradients, and such models have no contract; `headstart check STUDY` plans its stages"
        console().print(Text(f"{what} {text}"))
        return
    problems, notes = check_model(_with_settings(cls, name, overrides, "model"))
    _print_checks(what, problems, notes)


def _check_objective(name: str, overrides: Sequence[str]) -> None:
    from headstart.training.objective_contract import check_objective

    spec = _with_settings(OBJECTIVES[name].load(), name, overrides, "objective")
    _print_checks(f"objective {name!r}", check_objective(spec))


def _check_optimizer(name: str, overrides: Sequence[str]) -> None:
    from headstart.training.optimizer_contract import check_optimizer

    spec = _with_settings(OPTIMIZERS[name].load(), name, overrides, "optim")
    _print_checks(f"optimizer {name!r}", check_optimizer(spec))


def _check_schedule(name: str, overrides: Sequence[str]) -> None:
    from headstart.training.optim import OptimSpec
    from headstart.training.optimizer_contract import check_schedule

    spec = _with_settings(SCHEDULES[name].load(), name, overrides, "schedule")
    _print_checks(f"schedule {name!r}", check_schedule(OptimSpec(schedule=spec)))


def _check_task(name: str, overrides: Sequence[str], data: str | None) -> None:
    from headstart.tasks import open_task
    from headstart.tasks.contract import check_task
    from headstart.tasks.remarks import hints

    prepare_task(name, overrides, data, None)
    spec, folder = task_spec(name, overrides), data_folder(data)
    _print_checks(f"task {name!r}", check_task(spec, folder), hints(open_task(spec, folder)))


def _print_checks(what: str, problems: Mapping[str, str | None], notes: Iterable[str] = ()) -> None:
    """A table of checks and what is wrong, and notes. Raises: BadInput naming those that fail."""
    rows = [[check, "fails" if problem else "ok", problem or ""] for check, problem in problems.items()]
    console().print(Text(what))
    console().print(table(["check", "", "what is wrong"], rows))
    for note in notes:
        console().print(hanging(note))
    broken = [check for check, problem in problems.items() if problem]
    if broken:
        raise BadInput(f"check: {what} does not keep the contract: {', '.join(broken)}")


def _check_study(what: str, overrides: Sequence[str], data: str | None, reading: StudyOptions) -> None:
    study = study_of(what, overrides, FolderOptions(data=data), reading, absent="open")
    for note in study.notes:
        console().print(Text(note))
    plan = study.plan
    costs = study.survey()
    flops = sum(cost.flops for cost in costs)
    at = f" at scale {study.spec.scale}" if study.spec.scale else ""
    lost = [p for p in plan.stages.values() if p.open]
    absences = Absences(study.data)
    absent = {p.identity: absences.of(p.spec) for p in lost}
    apart = [identity for identity, lack in absent.items() if lack.data]
    console().print(
        f"{plan.study.name}{at} is sound: {many(len(plan.cells), 'run')} of "
        f"{many(len(plan.every_stage), 'distinct stage')}, {count(flops)}FLOP"
        + (f", without {many(len(apart), 'stage')} whose data are not in {study.data}" if apart else "")
    )
    print_absent(absent.values())
    print_precision(plan, choose_device("auto"))


def print_absent(lacks: Collection[Lack]) -> None:
    """Which files of data and of checkpoints are not here, and the way out."""
    data = {text: "data" for lack in lacks for text in lack.data}
    for text, what in {**data, **{text: "weights" for lack in lacks for text in lack.models}}.items():
        console().print(hanging(f"absent {what}: {text}"))


def print_precision(plan: Plan, device: str) -> None:
    """Warn where stages compute in a precision that this machine is slow at."""
    if note := slow_precision({planned.spec.precision for planned in plan.stages.values()}, device):
        console().print(note, style="yellow", markup=False, highlight=False)


def examine_machine(store: str | None, data: str | None) -> int:
    """`headstart doctor`: versions, device, folders; 1 if something keeps training from working."""
    from importlib import metadata

    import torch

    from headstart.store import store_folder

    rows: list[tuple[str, str, str]] = []

    def add(sound: bool, what: str, text: str) -> None:
        rows.append(("ok" if sound else "bad", what, text))

    add(sys.version_info >= (3, 11), "python", sys.version.split()[0])
    for name in ("headstart", "torch", "numpy", "safetensors", "pydantic", "scikit-learn", "scipy", "matplotlib"):
        try:
            add(True, name, metadata.version(name))
        except metadata.PackageNotFoundError:
            add(False, name, f"missing: pip install {name}")
    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "cpu"
    add(True, "device", f"{device}, {cores()} cores")
    if (free := memory()) is not None:
        add(True, "memory", f"{in_words(free.size)} free {free.limit}".strip())
    fast = has_bfloat16()
    if fast is not None:
        rows.append(("ok", "bfloat16", "instructions of this CPU") if fast else ("--", "bfloat16", SLOW_BFLOAT16))
    for extra, module in (("hf", "huggingface_hub"), ("onnx", "onnxruntime"), ("track", "tensorboard")):
        try:
            add(True, f"extra [{extra}]", metadata.version(module))
        except metadata.PackageNotFoundError:
            rows.append(("--", f"extra [{extra}]", f"not installed: pip install 'headstart[{extra}]'"))
    folder = store_folder(store)
    nearest = _nearest_folder(folder)
    writable = nearest.is_dir() and os.access(nearest, os.W_OK)
    room = f"{shutil.disk_usage(nearest).free / 1e9:.0f} GB free"
    no = f"{nearest} cannot be written: name another folder with --store or HEADSTART_STORE"
    add(writable, "store", f"{folder} ({room if writable else no})")
    sets = data_folder(data)
    absent = "" if sets.is_dir() else " does not exist (needed for tasks that read files)"
    rows.append(("--" if absent else "ok", "data", f"{sets}{absent}"))
    weights = weights_folder()
    absent = "" if weights.is_dir() else " does not exist (needed for pretrained checkpoints)"
    rows.append(("--" if absent else "ok", "weights", f"{weights}{absent}"))
    console().print(table(["", "what", "found"], rows))
    return int(any(state == "bad" for state, _, _ in rows))


def _nearest_folder(path: Path) -> Path:
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path
