"""What each command begins with, and what must hold after a disturbed one and another."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

from headstart.store import Store
from support.checkpoints import GPT2, saved, started_study
from support.points.attempts import (
    KILLED,
    TRACKER,
    Attempt,
    Change,
    Point,
    alike,
    attempt,
    made_ready,
    of_process,
    points_of,
    warmed,
)
from support.points.power import Power, put
from support.points.recorded import Recorder, State, put_back, read_ends, state_key
from support.store_content import content, differences

SMALL = """
name = "points"
[stages.finetune]
objective = { kind = "classify" }
budget = { steps = 1 }
[columns.waves]
task = { kind = "waves", length = 96, train = 32, val = 10, test = 10 }
model = { width = 32, blocks = 1, mixer = { kind = "attention", heads = 2 } }
[arms.scratch]
[axes]
seed = [0]
[report]
baselines = false
"""
PRETRAIN = """[stages.pretrain]
objective = { kind = "masked" }
budget = { steps = 3, evaluate_every = 2 }
"""
FROZEN = """[arms.frozen]
finetune = { parent = "pretrain", start = ["take(all-head)"], trainable = "head" }
"""
STUDY = SMALL.replace("[stages.finetune]", f"{PRETRAIN}[stages.finetune]").replace("[arms.scratch]\n", FROZEN)
RUN = ("run", "points.toml", "--workers=0", "--device=cpu")
FIT = (
    *("fit", "train.csv", "--target=label", "--time=10m", "--seeds=1", "--folds=1", "--no-pretrain", "--no-examples"),
    *("--workers=0", "--device=cpu", "finetune.budget.steps=1", "finetune.optim.lr=[0.001]"),
)
NOISY = re.compile(r"\.lock$|/(stage|result|plan)\.json$|/records\.jsonl$|\.index$|(^|/)reports/|\.(md|html)$")
"""Files that name times, which no two runs share; of stages `store_content` compares all else."""
ENDS = 12
"""Operations at each end of a command with workers that are its own: two files, with their folder, or two reports."""
WAYS_OUT = re.compile(
    r"give |make room|name another|again|check the disk|another (file|folder|store|disk)|--\w+|close ", re.I
)


@dataclass(frozen=True)
class Verb:
    """A command, what makes the folder that it begins in."""

    words: tuple[str, ...]
    begin: Callable[[Path], None]
    only: str = ""
    """Operations of a kind that begins so are counted: the others are those of another command."""
    needs: tuple[str, ...] = ()
    """Packages of an extra that it takes."""

    @property
    def lacking(self) -> list[str]:
        """Those that are not installed here."""
        return [name for name in self.needs if find_spec(name) is None]


@dataclass
class Reference:
    """What an undisturbed command makes of a folder: its files, the bytes of those that two commands write alike, the
    stages of its store, and its operations."""

    verb: Verb
    base: Path
    operations: list[Change]
    files: Counter[str]
    exact: dict[str, bytes]
    stages: Mapping[str, Any] = field(default_factory=dict)
    cuts: dict[Any, list[str]] = field(default_factory=dict)
    """The same of power cuts, by what is on the disk and whether somebody looks first."""
    mended: dict[frozenset[Any], list[str]] = field(default_factory=dict)
    """What does not hold after another command, which is given once for each disk: by what is on it."""

    @property
    def promised(self) -> list[str]:
        """Files that are there where a command ends well, without another one."""
        return [name for name in self.files if not re.search(r"^cache/|\.lock$", name)]

    @property
    def counted(self) -> list[Change]:
        """The operations that fail in turn."""
        return [change for change in self.operations if change.kind.startswith(self.verb.only)]

    @property
    def points(self) -> list[Point]:
        """All of them."""
        points = points_of(self.operations)
        return [point for point in points if self.change(point).kind.startswith(self.verb.only)]

    def change(self, point: Point) -> Change:
        """The operation of a point."""
        return of_process(self.operations, point.process)[point.number]

    @property
    def apart(self) -> bool:
        """Whether each point needs a command of its own: several processes, or libraries, write at once."""
        return bool(self.verb.only) or any(change.process for change in self.operations)

    def of_each(self, stride: int, offset: int) -> list[Point]:
        """The trials of each so many-th operation; offset: taken modulo what there is, so that commands differ."""
        numbers = sorted({(point.process, point.number) for point in self.trials})
        taken = set(numbers[offset % min(stride, len(numbers)) :: stride])
        return [point for point in self.trials if (point.process, point.number) in taken]

    def head(self, point: Point) -> str:
        """What happens at a point, in words."""
        change = self.change(point)
        worker = f" of worker {point.process}" if point.process else ""
        return f"operation {point.number}{worker} ({change.kind} {Path(change.file).name}), {point.fault}"

    @property
    def trials(self) -> list[Point]:
        """Those that leave the files each in another way, and that no other command or worker has as well."""
        return [point for point in self.points if not alike(point, self.operations) and self._own(point)]

    def _own(self, point: Point) -> bool:
        """Of a command with workers: its first and last operations, since those between are of a command without them,
        too; and each operation of a worker once, by the workers in turn, since they do the same."""
        workers = max(change.process for change in self.operations)
        if point.process:
            return point.number % workers == point.process - 1 or not point.number
        count = len(of_process(self.operations, 0))
        return not workers or point.number < ENDS or point.number >= count - ENDS


TEMPORARY = r"^\.(.+)\.[0-9a-f]{16}\.tmp$"
STAMPED = re.compile(r"(cache/(?:fingerprints/|prepared/\.?own-))[0-9a-f]+")
"""Names that follow from when a file was written."""


def listing(folder: Path) -> Counter[str]:
    """The names of all files and empty folders, and how often each is there where it follows from times; those of
    trackers, which may be dropped in a run, are left out."""
    paths = [path for path in folder.rglob("*") if not path.is_dir() or not any(path.iterdir())]
    paths = [path for path in paths if path.relative_to(folder).parts[:2] != ("runs", "tracking")]
    return Counter(STAMPED.sub(r"\1*", path.relative_to(folder).as_posix()) for path in paths)


def restored(base: Path) -> Path:
    """The folder as the command begins in it, always under the same name."""
    here = base / "here"
    shutil.rmtree(here, ignore_errors=True)
    shutil.copytree(base / "begin", here, symlinks=True)
    return here


def make_reference(verb: Verb, base: Path) -> Reference:
    """Begin, and perform it twice without a disturbance."""
    made_ready()
    made = base.parent / verb.begin.__name__
    if not made.exists():
        made.mkdir(parents=True)
        verb.begin(made)
    shutil.copytree(made, base / "begin", symlinks=True)
    stage = next(iter(Store(base / "begin" / "runs").names()), "") if (base / "begin" / "runs").is_dir() else ""
    verb = replace(verb, words=tuple(word.format(stage=stage) for word in verb.words))
    warmed(restored(base), verb.words)
    ends = []
    for _ in range(2):
        here = restored(base)
        tried = attempt(here, verb.words)
        assert tried.code == 0, tried.text
        files = listing(here)
        ends.append({name: (here / name).read_bytes() for name in files if (here / name).is_file()})
    first, second = ends
    exact = {name: data for name, data in second.items() if first.get(name) == data and not NOISY.search(name)}
    store = Store(here / "runs")
    stages = content(store, store.names()) if (here / "runs").is_dir() else {}
    return Reference(verb, base, tried.operations, files, exact, stages)


def finished(folder: Path) -> dict[str, int]:
    """Results of the store, and when each was written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in (folder / "runs").glob("[0-9a-f]*/result.json")}


def findings(reference: Reference, point: Point) -> list[str]:
    """What does not hold after a command that is disturbed at a point, and an undisturbed one."""
    for _ in range(3 if point.process else 1):  # which worker takes which stage may differ
        here = restored(reference.base)
        disturbed = attempt(here, reference.verb.words, point)
        if point.number < len(of_process(disturbed.operations, point.process)):
            break
    wrong = list(_of_end(disturbed, disturbed.operations, point))
    wrong += _unwritten(reference, disturbed, listing(here))
    if point.process and point.fault.startswith(("killed", "cut")):  # another worker has done it
        wrong += [f"without a second command {line}" for line in _of_folder(reference, here, {})]
    return [f"{reference.head(point)}: {line}" for line in wrong + _again(reference, here, finished(here))]


def recorded_findings(reference: Reference, points: Sequence[Point]) -> list[str]:
    """As `findings` of each of these points, which all lie on the way of one process."""
    here, words = restored(reference.base), reference.verb.words
    watch = partial(Recorder, folder=here, points=points, seconds=180)
    done = attempt(here, words, watch=watch, seconds=36_000)
    assert done.code == 0, done.text
    ends = read_ends(here)
    wrong = []
    for point in points:
        head, (disturbed, state) = reference.head(point), ends.get(point, (None, None))
        if disturbed is None or state is None:
            wrong.append(f"{head}: only {len(done.operations)} operations")
        else:
            lines = [*_of_end(disturbed, done.operations, point), *_unwritten(reference, disturbed, state)]
            lines += _mended(reference, state)
            wrong += [f"{head}: {line}" for line in lines]
    return wrong


def _mended(reference: Reference, state: State) -> list[str]:
    """What does not hold after another command on this disk."""
    key = state_key(state)
    if key not in reference.mended:
        here = reference.base / "here"
        put_back(here, state)  # what the command began with stays the same files: their times are in a cache
        reference.mended[key] = _again(reference, here, finished(here))
    return reference.mended[key]


def _again(reference: Reference, here: Path, before: Mapping[str, int]) -> list[str]:
    """Give the command again, and say what does not hold then. before: results that were there, and when they came."""
    second = attempt(here, reference.verb.words)
    if second.code:
        return [f"the second command ends with {second.code}: {second.text[-600:]}"]
    return list(_of_folder(reference, here, before))


def _unwritten(reference: Reference, disturbed: Attempt, names: Iterable[str]) -> Iterator[str]:
    """What a command lacks that said nothing of a refusal, and ended well, but for the index, which any other makes.
    names: of what is there then."""
    lacking = sorted({*reference.promised} - {*names, "runs/.index"}) if disturbed.code == 0 else []
    yield from (f"{name} is not there, though the command ended with 0" for name in lacking)


LOCKS = re.compile(r"\.lock(s/[^/]*)? is |\.locks is ")
"""Findings of files that have no bytes: they may come and go with the power."""


def power_states(reference: Reference) -> tuple[list[dict[str, dict[str, str]]], Path]:
    """What a disk may hold after each operation, in each way, where the power goes then; and the folder of the bytes."""
    here, blobs = restored(reference.base), reference.base / "blobs"
    blobs.mkdir(exist_ok=True)
    done = attempt(here, reference.verb.words, watch=partial(Power, here, blobs))
    assert done.code == 0, done.text
    return [json.loads(line) for line in done.lines], blobs


def power_findings(
    reference: Reference, states: Mapping[str, Mapping[str, str]], blobs: Path, number: int
) -> list[str]:
    """What does not hold after a power cut behind the operation of this number, and another command.

    Where it is the last one, all must be there without it.
    """
    wrong, seen, last = list[str](), list[Mapping[str, str]](), number == len(reference.operations) - 1
    kind, name, *_ = reference.operations[number]
    for way, state in states.items():
        if state in seen:
            continue
        seen.append(state)
        key = (frozenset(state.items()), number % 2, last)
        if key not in reference.cuts:
            reference.cuts[key] = list(_after_a_cut(reference, state, blobs, bool(number % 2), last))
        lines = reference.cuts[key]
        wrong += [f"power after operation {number} ({kind} {Path(name).name}), {way}: {line}" for line in lines]
    return wrong


def _after_a_cut(reference: Reference, state: Mapping[str, str], blobs: Path, looks: bool, last: bool) -> Iterator[str]:
    """looks: a person does so first, with `ls`, which writes an index."""
    here = reference.base / "here"
    put(state, blobs, here)
    promised = reference.promised if last else []
    yield from (f"{file} is lost at the end" for file in promised if not (here / file).exists())
    if looks:
        listed = attempt(here, ("ls",))
        if listed.code not in (0, 2):
            yield f"`ls` ends with {listed.code}: {listed.text[-300:]}"
        if not reference.files["runs/.index"]:
            (here / "runs" / ".index").unlink(missing_ok=True)
    yield from (line for line in _again(reference, here, {}) if not LOCKS.search(line))


def _of_end(disturbed: Attempt, operations: Sequence[Change], point: Point) -> Any:
    """The end of the disturbed command, which did these: killed, absorbed, or refused in words."""
    own = of_process(operations, point.process)
    if point.number >= len(own):
        yield f"only {len(own)} operations"
    elif point.fault.startswith(("killed", "cut")):
        if disturbed.code != (0 if point.process else KILLED):
            yield f"ended with {disturbed.code} in spite of it: {disturbed.text[-400:] if point.process else ''}"
    elif own[point.number].kind.startswith(TRACKER):
        words = "" if own[point.number].kind.endswith("close") else "it is left out from here on, and the run goes on"
        if disturbed.code or words not in " ".join(disturbed.text.split()):
            yield f"ended with {disturbed.code}: {disturbed.text[-700:]}"
    elif disturbed.code not in (0, 1, 2) or "Traceback" in disturbed.text:
        yield f"ended with {disturbed.code}: {disturbed.text[-700:]}"
    elif disturbed.code:
        kind, name, *_ = own[point.number]
        plain = re.sub(TEMPORARY, r"\1", Path(name).name)
        names = {plain, Path(name).parent.name, *([Path(name).parent.parent.name] if "." in plain else [])}
        if kind == "sync":  # of a folder: for the sake of a file in it
            names |= {
                re.sub(TEMPORARY, r"\1", Path(file).name)
                for _, file, *_ in operations
                if str(Path(file).parent) == name
            }
        words = " ".join(disturbed.text.split())
        if not any(part in words for part in names if part) or not WAYS_OUT.search(words):
            yield f"names no file or no way out ({disturbed.code}): {words[-400:]}"


def _of_folder(reference: Reference, here: Path, before: Mapping[str, int]) -> Any:
    now = listing(here)
    yield from (f"{name} is left over" for name in sorted(now - reference.files))
    yield from (f"{name} is lost" for name in sorted(reference.files - now))
    for name, data in reference.exact.items():
        if name in now and (here / name).read_bytes() != data:
            yield f"{name} has other bytes"
    if reference.stages:
        yield from differences(Store(here / "runs"), reference.stages)
    after = finished(here)
    yield from (f"stage {name} is done twice" for name, when in before.items() if after.get(name, when) != when)


def begin_study(folder: Path) -> None:
    """A study, and its data prepared."""
    (folder / "points.toml").write_text(STUDY)
    (folder / "cache").mkdir()


def begin_small(folder: Path) -> None:
    """A study of one stage, which several workers share by its seeds."""
    begin_study(folder)
    (folder / "points.toml").write_text(SMALL)


def begin_finished(folder: Path) -> None:
    """The same, all of it trained."""
    begin_study(folder)
    assert attempt(folder, RUN).code == 0


def begin_results(folder: Path) -> None:
    """The file of its results alone."""
    begin_finished(folder)
    assert attempt(folder, ("report", "points.toml", "--json=rows.json")).code == 0
    shutil.rmtree(folder / "runs")


def begin_two(folder: Path) -> None:
    """The same with stages of another seed, which no study needs any more."""
    begin_study(folder)
    for seeds in ("seed=[1]", "seed=[0]"):
        assert attempt(folder, (*RUN, seeds)).code == 0
    shutil.rmtree(folder / "runs" / "reports")


def begin_pack(folder: Path) -> None:
    """A packed study, and a folder without a store."""
    begin_finished(folder)
    assert attempt(folder, ("store", "pack", "points.toml", "-o", "packed.zip")).code == 0
    shutil.rmtree(folder / "runs")


def begin_table(folder: Path) -> None:
    """A table of DNA."""
    random, lines = Random(0), ["id,label,dna"]
    for row in range(40):
        letters = random.choices("ACGT", k=30)
        if row % 2:
            letters[5:11] = "TATAAT"
        lines.append(f"s{row},{'ab'[row % 2]},{''.join(letters)}")
    (folder / "train.csv").write_text("\n".join(lines) + "\n")
    (folder / "cache").mkdir()


def begin_model(folder: Path) -> None:
    """A model that was fitted to it."""
    begin_table(folder)
    tried = attempt(folder, FIT)
    assert tried.code == 0, tried.text


def begin_checkpoint(folder: Path) -> None:
    """A small checkpoint, and a study that starts from it."""
    saved(folder / "weights" / "small", {**GPT2, "n_positions": 64})
    (folder / "points.toml").write_text(started_study("small", "small", "small", "backbone+position"))
    (folder / "cache").mkdir()


def begin_empty(folder: Path) -> None:
    """Nothing but an empty cache."""
    (folder / "cache").mkdir()


TRACKED = ("notes", "wandb", "mlflow")
"""Trackers of one run: lines of text, and two whose libraries have stand-ins here."""
VERBS: dict[str, Verb] = {
    "run": Verb(RUN, begin_study),
    "run --json --tidy": Verb((*RUN, "--json=rows.json", "--tidy=tidy.csv"), begin_finished),
    "run with a checkpoint": Verb(RUN, begin_checkpoint),
    "run --workers": Verb(("run", "points.toml", "--workers=2", "--device=cpu", "seed=[0, 1]"), begin_small),
    "run --track": Verb((*RUN, *(f"--track={name}" for name in TRACKED)), begin_study, TRACKER),
    "run --track tensorboard": Verb((*RUN, "--track=tensorboard"), begin_study, TRACKER, ("tensorboard",)),
    "report": Verb(("report", "points.toml", "--out=page", "--json=rows.json", "--tidy=tidy.csv"), begin_finished),
    "report -o page.md": Verb(("report", "points.toml", "--out=page.md"), begin_finished),
    "report --from": Verb(("report", "--from", "rows.json", "--out=page.md", "--tidy=tidy.csv"), begin_results),
    "report --checklist": Verb(("report", "points.toml", "--checklist"), begin_finished),
    "report --all": Verb(("report", "--all"), begin_finished),
    "ls stages --json": Verb(("ls", "stages", "--json=rows.json"), begin_finished),
    "fit": Verb(FIT, begin_table),
    "predict -o csv": Verb(("predict", "model", "train.csv", "-o", "out.csv.gz"), begin_model),
    "predict -o parquet": Verb(("predict", "model", "train.csv", "-o", "out.parquet"), begin_model),
    "predict --explain": Verb(
        ("predict", "model", "train.csv", "-o", "out.csv", "--explain", "looks.csv"), begin_model
    ),
    "export a stage": Verb(("export", "{stage}", "-o", "weights.safetensors"), begin_finished),
    "export --sklearn": Verb(("export", "model", "--sklearn", "model.skops"), begin_model),
    "export --onnx": Verb(("export", "model", "--onnx", "model.onnx", "--use=network"), begin_model),
    "prepare": Verb(("prepare", "listops", "task.train=40", "task.val=10", "task.test=10", "--workers=0"), begin_empty),
    "prepare --clear": Verb(("prepare", "--clear"), begin_model),
    "store gc": Verb(("store", "gc", "points.toml", "--yes", "--recent"), begin_two),
    "store pack": Verb(("store", "pack", "points.toml", "-o", "packed.zip"), begin_finished),
    "store unpack": Verb(("store", "unpack", "packed.zip"), begin_pack),
}


DAILY = 10
"""`make test` takes every so many-th operation of each command, with all that can happen to it; `make test-all` takes all."""


def take_points(names: Sequence[str], base: Path, stride: int = 1) -> dict[str, Any]:
    """Take every point of each `stride`-th operation of these commands; what was found is printed as it comes."""
    out: dict[str, Any] = {}
    for name in names:
        if absent := VERBS[name].lacking:
            print(name, f"left out: {', '.join(absent)} is not installed", sep="\n  ", flush=True)
            continue
        reference = make_reference(VERBS[name], base / re.sub(r"\W+", "-", name))
        trials = reference.of_each(stride, list(VERBS).index(name))
        if reference.apart:
            wrong = [line for point in trials for line in findings(reference, point)]
        else:
            wrong = recorded_findings(reference, trials)
        of_a_day = reference.of_each(DAILY, list(VERBS).index(name))
        rows: list[Sequence[Any]] = [reference.counted, reference.points, reference.trials, trials, of_a_day]
        out[name] = dict(zip(("operations", "points", "trials", "tried", "daily"), map(len, rows), strict=True))
        print(name, out[name], *wrong, sep="\n  ", flush=True)
        out[name] |= {"disks": 0 if reference.apart else len(reference.mended), "findings": wrong}
    return out


def cut_power(names: Sequence[str], base: Path, stride: int = 1) -> dict[str, Any]:
    """As `take_points`, of power that goes after each `stride`-th operation and the last."""
    out: dict[str, Any] = {}
    for name in names:
        reference = make_reference(VERBS[name], base / re.sub(r"\W+", "-", name))
        states, blobs = power_states(reference)
        numbers = sorted({*range(0, len(states), stride), len(states) - 1})
        distinct = [len({json.dumps(way, sort_keys=True) for way in state.values()}) for state in states]
        wrong = [line for number in numbers for line in power_findings(reference, states[number], blobs, number)]
        tried = sum(distinct[number] for number in numbers)
        out[name] = {"operations": len(states), "states": sum(distinct), "tried": tried}
        print(name, out[name], *wrong, sep="\n  ", flush=True)
        out[name] |= {"stride": stride, "findings": wrong}
    return out


def added(before: Mapping[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """The counts of a command: of several sweeps over the same operations those of the larger one, with what all found."""
    if any(before.get(key) != row[key] for key in ("operations", "points", "trials")):
        return row
    larger = row if row["tried"] >= before["tried"] else before
    return {**larger, "daily": row["daily"], "findings": list(dict.fromkeys([*before["findings"], *row["findings"]]))}
