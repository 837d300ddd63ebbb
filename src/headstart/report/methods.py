"""A methods paragraph that can be pasted into a paper: made of the specs, so that it cannot say otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headstart.study import words
from headstart.study.results import Facts, Results

if TYPE_CHECKING:
    from headstart.study.plan import Plan, PlannedStage

Spec = Mapping[str, Any]

LOSSES = {"l1": "absolute error", "l2": "squared error", "levels": "cross-entropy over input levels",
          "tokens": "cross-entropy over tokens"}

FEED_FORWARD = {"mlp": "an MLP as", "glu": "a gated linear unit as", "none": "no"}


def methods(plan: Plan, results: Results, stages: Iterable[Mapping[str, Any]]) -> str:
    """The paragraph. `stages` are the result.json of the stages behind the table (versions, machines, cost)."""
    parts = [_question(results), *_tasks(results), *_stages(plan, results), _choice(plan, results)]
    parts += [_reported(results), _computed(list(stages))]
    return " ".join(part for part in parts if part)


def _question(results: Results) -> str:
    arms = f"{words.many(len(results.arms), 'arm')} ({words.listed(results.arms)})"
    columns = words.listed(results.columns) if len(results.columns) <= 8 else f"{len(results.columns)} columns"
    return f"We compared {arms} on {columns}."


def _tasks(results: Results) -> list[str]:
    said = {}
    for column in results.columns:
        for facts in results.facts_of(column):
            text = _sizes(facts)
            if text:
                said[text] = f"On {column} there are {text}."
    return list(said.values())


def _sizes(facts: Facts) -> str:
    sizes = facts.sizes
    if not {"train", "val", "test"} <= set(sizes):
        return ""
    labelled = sizes.get("labelled", sizes["train"])
    kept = f" ({labelled:,} of them labelled)" if labelled != sizes["train"] else ""
    return (f"{sizes['train']:,} training examples{kept}, {sizes['val']:,} validation examples and "
            f"{sizes['test']:,} test examples")


def _stages(plan: Plan, results: Results) -> list[str]:
    """One sentence per distinct stage, model and start, with the arms or columns that it holds for."""
    models: dict[str, list[str]] = {}
    # Stages in the study's order, so that pretraining is told before what starts from it.
    named: dict[str, dict[str, list[str]]] = {name: {} for name in plan.study.stages}
    starts: dict[str, list[str]] = {}
    for row in results.table:
        chain = next((c.chain for c in plan.cells if (c.arm, c.column) == (row.arm, row.column)), ())
        for planned in chain:
            spec: Spec = planned.spec.model_dump(mode="json")
            models.setdefault(_model(spec.get("model", {})), []).append(row.key)
            named.setdefault(planned.name, {}).setdefault(_stage(planned, spec, results), []).append(row.key)
        starts.setdefault(_start(chain), []).append(row.key)
    every = [row.key for row in results.table]
    out = []
    for said in (models, *named.values(), starts):
        for text, keys in said.items():
            if text:
                out.append(f"{_where(keys, every, results)}{text}.")
    return [text[:1].upper() + text[1:] for text in out]


def _where(keys: Sequence[str], every: Sequence[str], results: Results) -> str:
    """`In scratch: `, `On listops: ` or nothing where it holds for all."""
    held = set(keys)
    if held == set(every):
        return ""
    for column_first, names in ((False, results.arms), (True, results.columns)):
        of = {n: {r.key for r in results.table if (r.column if column_first else r.arm) == n} for n in names}
        whole = [name for name, found in of.items() if found and found <= held]
        if set().union(*(of[name] for name in whole)) == held:
            return f"{'on' if column_first else 'in'} {words.listed(whole)}, "
    return f"in {words.listed(sorted(held))}, "


def _model(model: Spec) -> str:
    if not model:
        return ""
    mixers = model.get("mixer")
    mixer = words.listed([_kind(m) for m in mixers]) if isinstance(mixers, list) else _kind(mixers)
    position = words.plain((model.get("position") or {}).get("kind", "none"))
    norm = model.get("norm", "layer")
    placed = "no normalisation" if norm == "none" else f"{norm} normalisation {model.get('norm_place', '')}".strip()
    return (f"the model had {words.many(int(model.get('blocks', 0)), 'block')} of {mixer}, width "
            f"{model.get('width')}, {position} positions, {placed} each mixer, "
            f"{FEED_FORWARD.get(_kind(model.get('feed_forward')), 'a')} feed-forward layer and "
            f"{model.get('pool', 'mean')} pooling"
            + (", causal" if model.get("causal") else "")
            + (f", dropout {words.plain(model['dropout'])}" if model.get("dropout") else ""))


def _kind(spec: Any) -> str:
    if not isinstance(spec, Mapping):
        return words.plain(spec)
    heads = f" ({spec['heads']} heads)" if spec.get("heads") else ""
    return f"{spec.get('kind', '')}{heads}"


def _stage(planned: PlannedStage, spec: Spec, results: Results) -> str:
    optim, budget = spec.get("optim", {}), spec.get("budget", {})
    if not optim or not budget:
        return ""
    swept = f"{planned.name}.optim.lr" in results.names
    rate = "a swept learning rate" if swept else f"learning rate {words.plain(optim.get('lr'))}"
    warm = optim.get("warmup_share") or 0.0
    warmed = f" after {words.percent(warm)} warm-up" if warm else ""
    schedule = f"{optim.get('schedule', 'constant')} schedule{warmed}"
    decay = f", weight decay {words.plain(optim['weight_decay'])}" if optim.get("weight_decay") else ""
    length = next((f"{words.plain(budget[k])} {k}" for k in ("epochs", "steps", "tokens")
                   if budget.get(k) is not None), "")
    frozen = "" if spec.get("trainable", "all") == "all" else f", training only {spec['trainable']}"
    return (f"stage {planned.name} {_objective(spec.get('objective', {}))} with AdamW ({rate}, batch size "
            f"{optim.get('batch_size')}, {schedule}{decay}) for {length}{frozen}")


def _objective(objective: Spec) -> str:
    kind = objective.get("kind")
    loss = LOSSES.get(str(objective.get("loss")), "")
    scored = f" ({loss})" if loss else ""
    if kind == "masked":
        share = objective.get("mask_rate")
        masked = f"{words.percent(share)} of the positions" if isinstance(share, float) else "masked positions"
        return f"reconstructed {masked}, hidden at random{scored}, without labels,"
    if kind == "causal":
        return f"predicted each next position{scored}, without labels,"
    verbs = {"classify": "classified sequences", "regress": f"predicted numbers{scored}",
             "retrieve": "classified pairs of sequences"}
    return verbs.get(str(kind), str(kind))


def _start(chain: Sequence[PlannedStage]) -> str:
    """How the reported stage's weights began."""
    if not chain:
        return ""
    if len(chain) == 1:
        return f"stage {chain[0].name} started from fresh weights"
    spec: Spec = chain[-1].spec.model_dump(mode="json")
    taken = words.listed([str(s) for s in spec.get("start", ())])
    which = spec.get("weights", "best")
    return f"stage {chain[-1].name} started from the {which} weights of {chain[-2].name} by {taken}"


def _choice(plan: Plan, results: Results) -> str:
    axes: Mapping[str, Sequence[Any]] = plan.study.axes
    seeds = axes.get("seed", ())
    repeated = f"Every run was repeated with {words.many(len(seeds), 'seed')}" if len(seeds) > 1 else ""
    swept = [f"{name} over {{{', '.join(words.plain(v) for v in axes[name])}}}"
             for name in plan.choose if name in axes and len(axes[name]) > 1]
    if not swept:
        return f"{repeated}; nothing was tuned." if repeated else "Nothing was tuned."
    metric = words.listed(list(dict.fromkeys(words.metric(r.metric) for r in results.table)))
    chosen = [f"{words.settings(row.chosen, results.names)} for {row.arm}"
              + (f" on {row.column}" if len(results.columns) > 1 else "")
              for row in results.table if row.chosen]
    same = {words.settings(row.chosen, results.names) for row in results.table if row.chosen}
    told = f" The choice was {words.listed(chosen)}." if 0 < len(chosen) <= 8 else ""
    if len(same) == 1 and len(chosen) > 1:
        told = f" The choice was {same.pop()} in every arm."
    lead = f"{repeated}. We" if repeated else "We"
    return (f"{lead} swept {words.listed(swept)} and took, for each arm and column, the setting with the best "
            f"mean validation {metric} over seeds; settings at which a run diverged were left out.{told}")


def _reported(results: Results) -> str:
    seeds = sorted({row.n for row in results.table if row.n})
    if not seeds:
        return ""
    n = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    spread = " with their standard error" if seeds[-1] > 1 else ""
    paired = ", and differences paired by seed with 95 % t-intervals" if results.against and seeds[-1] > 1 else ""
    return ("The test set was scored once per run, at the weights of the best validation score, and was not "
            f"used for any choice. We report means over n = {n} seeds{spread}{paired}.")


def _computed(stages: Sequence[Mapping[str, Any]]) -> str:
    if not stages:
        return ""
    provenance = [s.get("provenance", {}) for s in stages]
    versions = {f"{k} {v}": None for p in provenance for k, v in p.get("versions", {}).items()}
    machines = {f"{p.get('device', '')} ({p.get('machine', '')})": None for p in provenance}
    precision = {str(p.get("precision", "")): None for p in provenance}
    seconds = sum(float(s.get("budget", {}).get("seconds") or 0.0) for s in stages)
    flops = sum(float(s.get("budget", {}).get("flops") or 0.0) for s in stages)
    return (f"All {words.many(len(stages), 'training stage')} took {words.duration(seconds)} and about "
            f"{words.measure(flops, 'FLOP')} in {words.listed(list(precision))} on {words.listed(list(machines))}, "
            f"with {words.listed(list(versions))}.")
