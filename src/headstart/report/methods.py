"""A methods paragraph that can be pasted into a paper: made of the specs, so that it cannot say otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headstart import words
from headstart.errors import BadInput
from headstart.models.outline import without_numbers
from headstart.report.tables.report_table import PRINTED_LINES
from headstart.report.tables.settings import chain_of
from headstart.spec import flat
from headstart.stage import TrainStage
from headstart.study.results.results import Results, TaskFacts
from headstart.study.results.rows import Row

if TYPE_CHECKING:
    from torch import nn

    from headstart.models.mixers.mixer import MixerSpec
    from headstart.study.language.plan import Plan, PlannedStage

Settings = Mapping[str, Any]

NAMED_SETTINGS = (
    "task",
    "checkpoint",
    "seed",
    "parent",
    "weights",
    "start",
    "trainable",
    "optim.kind",
    "optim.momentum",
    "optim.lr",
    "optim.batch_size",
    "optim.schedule",
    "optim.warmup",
    "optim.cooldown_share",
    "optim.accumulate",
    "optim.average",
    "optim.weight_decay",
    "optim.decay",
    "optim.rate_shares",
    "optim.clip",
    "budget.epochs",
    "budget.steps",
    "budget.tokens",
    "budget.share",
)
"""Settings, or beginnings of their names, that have words of their own; others are told by name where they differ.
Models and objectives say of themselves which settings they describe."""
DECAYED_PARTS = {
    "all": "all weights (on norms and biases too)",
    "all-kernel": "all weights but kernels (on norms and biases too)",
    "all-norm-bias": "all weights but norms and biases",
}
"""Parts that decay, in words."""
ASKED_POSITIONS = 16
"""Positions of a mixer that is built to be asked, and not to be used."""
VERBS = {
    "draw": "here draw(part, s) puts normal numbers around 0 of standard deviation s in place of a part's weights",
    "mimetic": "here mimetic(part) puts weights of which the products of queries and keys are near a multiple of the "
    "identity, and those of values and outputs near minus one (Trockman and Kolter 2023), in place of a part's weights",
    "match": "here match(part) puts normal numbers of the mean and the standard deviation of each of the parent's "
    "tensors in place of a part's weights",
}


def methods(plan: Plan, results: Results, stages: Iterable[Mapping[str, Any]]) -> str:
    """The paragraph. `stages` are the result.json of the stages behind the table (versions, machines, cost)."""
    done = list(stages)
    titles = {str(result.get("identity", "")): str(result.get("title", "")) for result in done}
    parts = [_question(results), *_tasks(results), *_stages(plan, results, titles), _choice(plan, results)]
    parts += [_reported(results), _computed(done)]
    return " ".join(part for part in parts if part)


def _question(results: Results) -> str:
    arms = words.many(len(results.arms), "arm")
    arms += f" ({words.listed(results.arms)})" if len(results.arms) <= PRINTED_LINES else ""
    columns = words.listed(results.columns) if len(results.columns) <= 8 else f"{len(results.columns)} columns"
    return f"We {'compared' if len(results.arms) > 1 else 'trained'} {arms} on {columns}."


def _tasks(results: Results) -> list[str]:
    columns_of: dict[str, list[str]] = {}
    for column in results.columns:
        for text in dict.fromkeys(_sizes(facts) for facts in results.facts_of(column)):
            if text:
                columns_of.setdefault(text, []).append(column)
    return [f"On {words.listed(columns)} there are {text}." for text, columns in columns_of.items()]


def _sizes(facts: TaskFacts) -> str:
    sizes = facts.sizes
    if not {"train", "val", "test"} <= set(sizes):
        return ""
    labelled = sizes.get("labelled", sizes["train"])
    note = f" ({labelled:,} of them labelled)" if labelled != sizes["train"] else ""
    return (
        f"{sizes['train']:,} training examples{note}, {sizes['val']:,} validation examples and "
        f"{sizes['test']:,} test examples"
    )


def _stages(plan: Plan, results: Results, titles: Mapping[str, str]) -> list[str]:
    """One sentence per distinct model, stage and start, with the arms or columns that it holds for.

    titles: identity -> what the model of the finished stage is called.
    """
    if len(results.table) > PRINTED_LINES:
        return [f"Models and training of {len(results.table):,} rows are not told here; a file of `--json` has them."]
    chains = {row.key: chain_of(plan, row) for row in results.table}
    apart = _apart([planned for chain in chains.values() for planned in chain], results)
    models: dict[str, list[str]] = {}
    # Stages in the study's order, so that pretraining is told before what starts from it.
    trained: dict[str, dict[str, list[str]]] = {name: {} for name in plan.study.stages}
    starts: dict[str, dict[str, list[str]]] = {name: {} for name in plan.study.stages}
    for key, chain in chains.items():
        texts = {
            planned.name: f"was {planned.spec.model.describe()}" + _also(_spec(planned), apart[""]) for planned in chain
        }
        for name, text in texts.items():
            whose = "" if len(set(texts.values())) == 1 else f" of stage {name}"
            keys = models.setdefault(f"the model{whose} {text}", [])
            keys += [key] * (key not in keys)
        for planned, parent in zip(chain, [None, *chain], strict=False):
            spec = _spec(planned)
            text = _stage(planned, spec, chain[-1].spec.task.kind, results, titles.get(planned.identity, ""))
            text += _also(spec, apart[planned.name])
            trained[planned.name].setdefault(text, []).append(key)
            if isinstance(planned.spec, TrainStage):
                starts[planned.name].setdefault(_start(planned, spec, parent), []).append(key)
    rows_of = {row.key: row for row in results.table}
    sets: tuple[dict[str, set[str]], dict[str, set[str]]] = {}, {}
    for key, row in rows_of.items():
        sets[0].setdefault(row.arm, set()).add(key)
        sets[1].setdefault(row.column, set()).add(key)
    out = [
        f"{_where(keys, rows_of, sets)}{text}."
        for table in (models, *trained.values(), *starts.values())
        for text, keys in table.items()
    ]
    began = " ".join(
        entry for chain in chains.values() for planned in chain for entry in getattr(planned.spec, "start", ())
    )
    out += [f"{text}." for verb, text in VERBS.items() if f"{verb}(" in began]
    return [text[:1].upper() + text[1:] for text in out]


def _spec(planned: PlannedStage) -> Settings:
    table: Settings = planned.spec.model_dump(mode="json")
    return table


def _apart(stages: Iterable[PlannedStage], results: Results) -> dict[str, list[str]]:
    """Settings without words of their own that differ: those of any model (under ""), and by stage those of its
    training. What is swept is named with the choice."""
    values: dict[str, dict[str, set[str]]] = {"": {}}
    for planned in stages:
        training = values.setdefault(planned.name, {})
        model, objective = planned.spec.model.described, getattr(planned.spec.objective, "described", ())
        described = (
            *NAMED_SETTINGS,
            *(f"model.{name}" for name in model),
            *(f"objective.{name}" for name in objective),
        )
        for path, value in flat(_spec(planned), whole=["parent"]).items():
            if not path.startswith(described) and f"{planned.name}.{path}" not in results.names:
                of = values[""] if path.startswith("model.") else training
                of.setdefault(path, set()).add(repr(value))
    return {name: [path for path, seen in settings.items() if len(seen) > 1] for name, settings in values.items()}


def _also(spec: Settings, paths: Sequence[str]) -> str:
    """` (model.residual false)`: settings by their names."""
    leaves = flat(spec, whole=["parent"])
    named = [f"{path} {words.plain(leaves[path])}" for path in paths if path in leaves]
    return f" ({', '.join(named)})" if named else ""


def _where(keys: Sequence[str], rows_of: Mapping[str, Row], sets: Sequence[Mapping[str, set[str]]]) -> str:
    """`in scratch, `, `on listops, `, `in scratch on listops, ` or nothing where it holds for all.

    rows_of: key -> row, of all rows. sets: arm -> keys, column -> keys.
    """
    chosen = set(keys)
    if len(chosen) == len(rows_of):
        return ""
    rows = [row for key, row in rows_of.items() if key in chosen] if len(chosen) > 1 else [rows_of[key] for key in keys]
    arms, columns = (list(dict.fromkeys(names)) for names in ([r.arm for r in rows], [r.column for r in rows]))
    for word, of, names in (("in", sets[0], arms), ("on", sets[1], columns)):
        whole = [name for name in names if of[name] <= chosen]
        if set().union(*(of[name] for name in whole)) == chosen:
            return f"{word} {words.listed(whole)}, "
    if len(rows) == sum(len(sets[0][arm] & sets[1][column]) for arm in arms for column in columns):
        return f"in {words.listed(arms)} on {words.listed(columns)}, "
    return f"in {words.listed(sorted(chosen))}, "


def _stage(planned: PlannedStage, spec: Settings, reported: str, results: Results, title: str) -> str:
    """What a stage did, with its task where that is not the reported one. title: of its finished model."""
    task = reported if planned.spec.task is None else planned.spec.task.kind
    elsewhere = f" on {task}" if task != reported else ""
    if not isinstance(planned.spec, TrainStage):
        return f"stage {planned.name}{elsewhere} {planned.spec.model.describe_work(title)}"
    optim, budget = spec["optim"], spec["budget"]
    swept = f"{planned.name}.optim.lr" in results.names
    rate = "a swept learning rate" if swept else f"learning rate {words.plain(optim['lr'])}"
    warm = f"{optim['warmup_steps']:,} steps of" if optim["warmup_steps"] else ""
    warm = words.percent(optim["warmup_share"]) if optim["warmup_share"] else warm
    rates, spared = _own_training(planned)
    of = "these" if rates else "that"  # a part's own rate is shared too
    shares = [f"{words.plain(share)} of {of} for {part}" for part, share in optim.get("rate_shares", {}).items()]
    settings = [
        " and ".join([rate, *(f"{own} for {tensors} whatever that is" for own, tensors in rates.items()), *shares]),
        f"batch size {optim['batch_size']}",
        planned.spec.optim.describe_schedule() + (f" after {warm} warm-up" if warm else ""),
    ]
    average = optim.get("average")
    settings += (
        [f"scored at an average of weights that keeps {words.plain(average)} of itself a step"] if average else []
    )
    settings += [_decay(optim["weight_decay"], optim["decay"], spared)] if optim["weight_decay"] else []
    settings += [f"gradients clipped to norm {words.plain(optim['clip'])}"] if optim["clip"] else []
    length = next(f"{words.plain(budget[k])} {k}" for k in ("epochs", "steps", "tokens") if budget[k] is not None)
    frozen = "" if spec["trainable"] == "all" else f", training only {spec['trainable']}"
    return (
        f"stage {planned.name}{elsewhere} {planned.spec.objective.describe()} with {planned.spec.optim.describe()} "
        f"({', '.join(settings)}) for "
        f"{length}{frozen}"
    )


def _decay(amount: float, parts: str, spared: Mapping[str, list[str]]) -> str:
    """What weight decay shrinks. spared: tensors of mixers that it never does, by the part that they are in."""
    of = DECAYED_PARTS.get(parts, f"the parts {parts}{'' if 'bias' in parts else ' (on their biases too)'}")
    names = [name for part, several in spared.items() if f"-{part}" not in parts for name in several]
    return f"weight decay {words.plain(amount)} on {of}{f', not on {words.listed(names)}' if names else ''}"


def _own_training(planned: PlannedStage) -> tuple[dict[str, str], dict[str, list[str]]]:
    """What mixers say of the training of their tensors: by its own rate those that have one, and by part those that
    never decay. Of a whole model of a person's own nothing is known."""
    rates: dict[str, list[str]] = {}
    spared: dict[str, list[str]] = {}
    model = planned.spec.model
    for mixer in {mixer.describe(): mixer for mixer in getattr(model, "mixers", ())}.values():
        module = _mixer(mixer, model.width, model.causal)
        parts: Mapping[str, str] = getattr(module, "parts", {})
        own: Mapping[str, float] = getattr(module, "rates", {})
        for name, rate in own.items():
            names = rates.setdefault(words.plain(rate), [])
            names += [text] if (text := f"{name} of {mixer.kind}") not in names else []
        for name in sorted(getattr(module, "undecayed", ())):
            names = spared.setdefault(parts.get(name, name), [])
            names += [text] if (text := f"{name} of {mixer.kind}") not in names else []
    return {rate: words.listed(names) for rate, names in rates.items()}, spared


def _mixer(spec: MixerSpec, width: int, causal: bool) -> nn.Module | None:
    """A mixer, for what it says of its tensors; None where a changed file of results names one that cannot be."""
    try:
        with without_numbers():
            return spec.build(width, ASKED_POSITIONS, causal)
    except BadInput:
        return None
    except (NotImplementedError, RuntimeError, TypeError):
        if type(spec).__module__.partition(".")[0] == __package__.partition(".")[0]:  # of a size that no tensor has
            return None
        return spec.build(width, ASKED_POSITIONS, causal)  # one of a person's own that looks at its numbers


def _start(planned: PlannedStage, spec: Settings, parent: PlannedStage | None) -> str:
    """How a stage's weights began."""
    entries = words.listed(list(spec["start"]))
    if parent is None:
        source = "fresh weights" + (f" with {entries}" if entries else "")
    else:
        source = f"the {spec['weights']} weights of {parent.name} by {entries}"
    unusual = planned.spec.model.describe_fresh()
    return f"stage {planned.name} started from {source}{f', {unusual}' if unusual else ''}"


def _choice(plan: Plan, results: Results) -> str:
    axes: Mapping[str, Sequence[Any]] = plan.study.axes
    seeds: dict[str, set[int]] = {arm: set() for arm in plan.study.arms}
    for cell in plan.cells:
        seeds.setdefault(cell.arm, set()).add(cell.seed)
    each = {*map(len, seeds.values())}
    most = max(each, default=1)
    repeated = f"Every run was repeated with {words.many(most, 'seed')}" if most > 1 else ""
    repeated = f"Runs were repeated with {min(each)} to {words.many(most, 'seed')}" if len(each) > 1 else repeated
    repeated += ", which validate on different folds" if repeated and results.folds > 1 else ""
    search = plan.study.search
    swept = (
        [f"{path} over {space}" for path, space in search.over.items()]
        if search
        else [
            f"{name} over {{{', '.join(words.plain(v) for v in axes[name])}}}"
            for name in plan.choose
            if name in axes and len(axes[name]) > 1
        ]
    )
    if not swept:
        return f"{repeated}; nothing was tuned." if repeated else "Nothing was tuned."
    metric = words.listed(list(dict.fromkeys(words.metric(r.metric) for r in results.table)))
    chosen = [
        f"{words.settings(row.chosen, results.names)} for {row.arm}"
        + (f" on {row.column}" if len(results.columns) > 1 else "")
        for row in results.table
        if row.chosen
    ]
    same = {words.settings(row.chosen, results.names) for row in results.table if row.chosen}
    listed = f" The choice was {words.listed(chosen)}." if 0 < len(chosen) <= 8 else ""
    if len(same) == 1 and len(chosen) > 1:
        listed = f" The choice was {same.pop()} in every arm."
    lead = f"{repeated}. We" if repeated else "We"
    if search is not None:
        sampler = "at random" if search.sampler == "random" else "by a tree-structured Parzen estimator (Optuna)"
        return (
            f"{lead} searched {words.listed(swept)}: {search.trials} trials for each arm and column, drawn {sampler}, "
            f"all with the seed {search.seed}.{search.pruned} The setting with the best validation {metric} was "
            f"chosen once and trained anew with fresh seeds, which alone are reported.{listed}"
        )
    return (
        f"{lead} swept {words.listed(swept)} and took, for each arm and column, the setting with the best "
        f"mean validation {metric} over {results.run_noun}s; settings at which a run diverged were left out.{listed}"
    )


def _reported(results: Results) -> str:
    seeds = sorted({row.n for row in results.table if row.n})
    if not seeds:
        return ""
    n = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    spread = " with their standard error" if seeds[-1] > 1 else ""
    gaps = [row.difference for row in results.table]
    pairing = f"{words.pairing(gaps, results.run_noun)}, each with a {words.interval_kind(gaps, results.run_noun)}"
    paired = f", and differences {pairing}" if results.against and seeds[-1] > 1 else ""
    last = any("last_test" in run.more for row in results.table for run in row.runs)
    times = "twice per run, at the weights of the best validation score (where no table says otherwise) and at the last"
    once = "once per run, at the weights of the best validation score"
    return (
        f"The test set was scored {times if last else once}, and was not "
        f"used for any choice. We report means over n = {n} {results.run_noun}s{spread}{paired}."
    )


def _computed(stages: Sequence[Mapping[str, Any]]) -> str:
    if not stages:
        return ""
    provenance = [s.get("provenance", {}) for s in stages]
    versions = {f"{k} {v}": None for p in provenance for k, v in p.get("versions", {}).items()}
    machines = {f"{p.get('device', '')} ({p.get('machine', '')})": None for p in provenance}
    precision = {str(p.get("precision", "")): None for p in provenance}
    seconds = sum(float(s.get("budget", {}).get("seconds") or 0.0) for s in stages)
    flops = sum(float(s.get("budget", {}).get("flops") or 0.0) for s in stages)
    return (
        f"All {words.many(len(stages), 'training stage')} took {words.duration(seconds)} and about "
        f"{words.measure(flops, 'FLOP')} in {words.listed(list(precision))} on {words.listed(list(machines))}, "
        f"with {words.listed(list(versions))}."
    )


def tried(results: Results) -> str:
    """How many configurations each arm tried, in one sentence."""
    counts: dict[str, list[int]] = {}
    for row in results.table:
        counts.setdefault(row.arm, []).append(row.settings_tried)
    every = {count for arm in counts.values() for count in arm}
    if len(every) == 1:
        each = " in every arm and column" if len(counts) > 1 or len(results.columns) > 1 else ""
        return f"Configurations tried: {every.pop()}{each}."
    spans = [
        f"{arm} {min(count)}" + (f" to {max(count)} by column" if len(set(count)) > 1 else "")
        for arm, count in counts.items()
    ]
    return f"Configurations tried: {words.listed(spans)}."
