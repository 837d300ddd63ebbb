"""Every key of a study file: type, choices, default and what it does, from the specs and their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import PydanticUndefined

from headstart.checkpoints.spec import CheckpointSpec
from headstart.data.layout import LayoutSpec
from headstart.models import MODELS
from headstart.models.blocks import FeedForwardSpec
from headstart.models.encoders import EncoderSpec
from headstart.models.mixers import MIXERS
from headstart.models.positions import PositionSpec
from headstart.objectives import OBJECTIVES
from headstart.plugins.kinds import own_entries
from headstart.spec import Entry, Spec, texts_of
from headstart.stage import TrainStage
from headstart.study.language.papers import Claim
from headstart.study.language.search import SearchSpec
from headstart.study.language.spec import AverageSpec, MarkSpec, ReportSpec, StudySpec
from headstart.tasks import TASKS, TaskSpec
from headstart.training.loop import BudgetSpec
from headstart.training.optim import OptimSpec


@dataclass(frozen=True)
class ReferenceKey:
    """One key as a person writes it: type with choices and bounds in words, default as TOML, what it does."""

    name: str
    type: str
    default: str
    text: str


@dataclass(frozen=True)
class ReferenceSection:
    """Keys of one table: its name (`optim`, `attention`), where it stands in a study, and what it is in a sentence."""

    name: str
    where: str
    summary: str
    keys: tuple[ReferenceKey, ...]


REFERENCE_TABLES: Mapping[str, tuple[str, type[Spec], str]] = {
    "study": ('name = "..."', StudySpec, "What stands at the top of a study file."),
    "stage": ("[stages.NAME]", TrainStage, "One training phase; arms and columns set the same keys."),
    "arms": ("[arms.NAME]", Spec, "What is compared: named bundles of settings; they win over columns and stages."),
    "columns": (
        "[columns.NAME]",
        Spec,
        "On what it is compared: named bundles of settings, mostly a task and a model.",
    ),
    "axes": ("[axes]", Spec, "Settings that take several values each; every run has one of each."),
    "start": (
        'start = ["...", ...]',
        Spec,
        "What is made of the parent's weights, from left to right; the rest is fresh.",
    ),
    "parts": (
        'trainable = "head+norm"',
        Spec,
        "Names of groups of weights, in `start`, `trainable`, `optim.decay` and `optim.rate_shares`.",
    ),
    "checkpoint": ("checkpoint = { ... }", CheckpointSpec, "What a stage reads instead of training."),
    "optim": ("optim = { ... }", OptimSpec, "How weights are changed: by AdamW, SGD or Muon."),
    "budget": ("budget = { ... }", BudgetSpec, "How long a stage trains: exactly one amount is given."),
    "feed_forward": ("model.feed_forward = { ... }", FeedForwardSpec, "What follows each mixer, position by position."),
    "position": ("model.position = { ... }", PositionSpec, "How a model knows positions."),
    "encoder": ("model.encoder = { ... }", EncoderSpec, "How inputs become vectors."),
    "report": ("[report]", ReportSpec, "What is chosen, compared, averaged and drawn."),
    "average": ("report.average = { ... }", AverageSpec, "An average over columns."),
    "mark": ("report.mark = { ... }", MarkSpec, "A value that plots of a sweep mark."),
    "search": ("search = { ... }", SearchSpec, "Settings that are searched, in place of a grid."),
    "claims": (
        "[[claims]]",
        Claim,
        'A direction that is asked about, which the report checks; `claims = ["b > a by 0.01 on image"]` too.',
    ),
    "scales": ("[scales.NAME]", Spec, "What `--scale NAME` (tiny, small or paper) lays over the study."),
    "task": ("task = { ... }", TaskSpec, "Keys that a task of every kind has."),
    "layout": ("task.layout = { ... }", LayoutSpec, "What is known of a file of one's own; the rest is guessed."),
}
"""Tables of a study that have no kinds, and the keys that tasks of every kind have: where, spec, summary."""
_BUNDLE = (
    ReferenceKey("KEY", "as of stage", "not given", "A key of `stage`, such as `task` or `model`: for all stages."),
    ReferenceKey("STAGE", "table", "{}", "`STAGE = { optim = { lr = 1e-3 } }`: keys of `stage` for this stage alone."),
)
_PARTS = {
    "encoder": "What turns inputs into vectors, and what stands at masked and missing positions.",
    "position": "Vectors of positions.",
    "norm": "Norms, in blocks and after the last one.",
    "query_key": "What attention compares.",
    "value_output": "What attention hands on.",
    "kernel": "Convolution kernels and recurrences of a mixer.",
    "mixer_rest": "Whatever else a mixer has.",
    "feed_forward": "Feed-forward layers.",
    "head": "Pooling and output.",
    "mixer": "query_key + value_output + kernel + mixer_rest.",
    "backbone": "mixer + feed_forward + norm.",
    "all": "All of these.",
}
"""Each leaf and union of `parameters`, in a sentence."""
_WRITTEN = {
    "arms": (
        *_BUNDLE,
        ReferenceKey("variant", "text or list of text", "[]", "Variants of each column that this arm takes."),
    ),
    "columns": (
        *_BUNDLE,
        ReferenceKey("variants", "table", "{}", "Named settings, `[columns.NAME.variants.NAME]`, for arms to take."),
    ),
    "axes": (
        ReferenceKey("seed", "list of integer", "[0]", "Seeds of the whole chain; scores are means over them."),
        ReferenceKey(
            '"STAGE.optim.lr"',
            "list",
            "not given",
            "Rates, of which validation chooses (`report.choose`) for each arm.",
        ),
        ReferenceKey(
            '"task.NAME", "model.NAME"', "list", "not given", "A setting of all stages; each of its values is a column."
        ),
    ),
    "start": (
        ReferenceKey('"take(PART)"', "text", "not given", "The parent's weights of a part (`headstart show parts`)."),
        ReferenceKey(
            """"take(PART, rows='prefix')\"""",
            "text",
            "not given",
            "The same; of a tensor of other length its first rows.",
        ),
        ReferenceKey(
            """"take(PART, rows='symbols')\"""",
            "text",
            "not given",
            "The same; of token vectors the row of each symbol.",
        ),
        ReferenceKey(
            '"match(PART)"', "text", "not given", "Random weights with the parent's mean and spread, by tensor."
        ),
        ReferenceKey(
            '"draw(PART, STD)"', "text", "not given", "Normal numbers of this standard deviation; 0 makes zeros."
        ),
    ),
    "parts": (
        *(ReferenceKey(name, "part", "not given", text) for name, text in _PARTS.items()),
        ReferenceKey("bias", "part", "not given", "All biases, in keys of `optim` alone, as in `all-norm-bias`."),
        ReferenceKey(
            "A+B, A-B", "part", "not given", "Both parts, or the first without the second, from left to right."
        ),
        ReferenceKey("A[0:2], A[-1]", "part", "not given", "Of the first two blocks, or of the last one."),
    ),
    "search": (ReferenceKey("with", '"optuna"', '"optuna"', "What searches: pip install 'headstart[search]'."),),
    "study": (
        ReferenceKey(
            "extends", "text or list of text", "[]", "Files or built-in studies that this one is laid over, in order."
        ),
        ReferenceKey(
            "only", "table", "{}", "`{ columns = [...], arms = [...] }`: which of what the bases hold is kept."
        ),
        ReferenceKey(
            "scales", "table", "{}", "`[scales.tiny]`, `small`, `paper`: settings that `--scale` lays over columns."
        ),
    ),
    "stage": (
        ReferenceKey(
            "checkpoint",
            "table",
            "not given",
            "Weights to read instead of training; no other key counts then.",
        ),
        ReferenceKey(
            "variants", "table", "{}", "Of a column: named settings, `[columns.NAME.variants.NAME]`, for arms to take."
        ),
        ReferenceKey("variant", "text or list of text", "[]", "Of an arm: which variants of each column it takes."),
    ),
    "scales": (
        ReferenceKey("note", "text", "not given", "What the scale is, in a sentence that the report prints."),
        ReferenceKey("only", "table", "{}", "`{ columns = [...], arms = [...] }`: which of them the scale keeps."),
        ReferenceKey("columns", "table", "{}", "`columns.NAME`: settings that are laid over this column."),
        ReferenceKey("arms", "table", "{}", "`arms.NAME`: settings that are laid over this arm."),
        ReferenceKey(
            "variants", "table", "{}", "Settings that are laid over the variants of every column, by their names."
        ),
        ReferenceKey("axes", "table", "{}", "Axes that replace those of the study with the same name, or are added."),
        ReferenceKey("report", "table", "{}", "Keys of `[report]` that the scale changes."),
        ReferenceKey(
            "stand_in", "table", "{}", "`stand_in.COLUMN`: settings, or a list of them, for where its data are absent."
        ),
        ReferenceKey(
            "STAGE", "table", "{}", "Settings of this stage; keys of `stage` without its name are for all stages."
        ),
    ),
}
"""Keys that a file may have and that are resolved while it is read."""

_SCORES = '"accuracy" (of tokens and levels), "r2" (of other numbers) or "loss"'
_NAMES = {
    "stage.parent": "text",
    "masked.monitor": _SCORES,
    "causal.monitor": f'{_SCORES}; of tokens "bits_per_token" or "perplexity"',
}
"""Types that a schema does not say."""
_BOUNDS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
_TYPES = {"integer": "integer", "number": "number", "string": "text", "boolean": "true or false", "object": "table"}


def sections() -> Iterator[ReferenceSection]:
    """Every table and every kind, in the order of the reference."""
    for name, (where, spec, summary) in REFERENCE_TABLES.items():
        yield section(name, where, spec, summary)
    for noun, table in (("model", MODELS), ("objective", OBJECTIVES), ("mixer", MIXERS), ("task", TASKS)):
        for kind, entry in table.items():
            yield section(kind, f'{noun} = {{ kind = "{kind}" }}', entry.load(), entry.summary)
    for noun, kind, entry in _own_training():
        yield section(kind, f'{noun} = {{ kind = "{kind}" }}', entry.load(), entry.summary)


def _own_training() -> list[tuple[str, str, Entry]]:
    """(key, kind, entry) of optimisers and schedules of plugins; headstart's own have the keys of `optim`."""
    nouns = {"optimizer": "optim", "schedule": "optim.schedule"}
    return [(nouns[sort], kind, entry) for sort, kind, entry in own_entries() if sort in nouns]


def sections_named(name: str) -> list[ReferenceSection]:
    """The sections that `name` stands for: a table, a kind, or `model` for the keys of networks."""
    wanted = "sequence" if name == "model" else name
    return [part for part in sections() if part.name == wanted]


def section_names() -> list[str]:
    """All names of sections, `model` for `sequence` too."""
    own = [kind for _, kind, _ in _own_training()]
    return ["model", *REFERENCE_TABLES, *MODELS, *OBJECTIVES, *MIXERS, *TASKS, *own]


KIND = "Which kind it is; the other keys depend on it."


def section(name: str, where: str, spec: type[Spec], summary: str = "") -> ReferenceSection:
    """The keys of one spec. A class of a plugin's is described as far as its docstring goes."""
    schema = spec.model_json_schema()
    definitions = schema.get("$defs", {})
    properties = definitions.get(spec.__name__, schema).get("properties", {})
    group, texts = "model" if name == "sequence" else name, texts_of(spec)
    keys = tuple(
        ReferenceKey(
            key,
            _NAMES.get(f"{group}.{key}") or _type(properties.get(key, {}), definitions),
            _default(info.get_default(call_default_factory=True)),
            " ".join((texts.get(key) or (KIND if key == "kind" else "")).split()),
        )
        for key, info in spec.model_fields.items()
        if key != "kind" or (name in REFERENCE_TABLES and "const" not in properties.get(key, {}))
    )
    return ReferenceSection(
        name, where, summary or (inspect.getdoc(spec) or "").partition("\n")[0], keys + _WRITTEN.get(name, ())
    )


def _type(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """A JSON schema in words: `integer, at least 1`; `"mean", "max" or "last"`; `list of text`."""
    if "$ref" in schema:
        return _type(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "enum" in schema or "const" in schema:
        choices = [inline_toml(choice) for choice in schema.get("enum", [schema.get("const")])]
        return " or ".join(filter(None, [", ".join(choices[:-1]), choices[-1]]))
    if "anyOf" in schema:
        parts = [_type(part, definitions) for part in schema["anyOf"] if part.get("type") != "null"]
        return " or ".join(dict.fromkeys(parts))
    if schema.get("type") == "array":
        items = schema.get("items")
        return f"list of {_type(items, definitions)}" if items else f"list of {schema.get('maxItems', '')}".strip()
    bounds = [f"{word} {schema[name]:,}" for name, word in _BOUNDS.items() if abs(schema.get(name, 2**53)) < 2**53]
    return ", ".join([_TYPES.get(schema.get("type", ""), "value"), *bounds])


def _default(value: Any) -> str:
    if value is PydanticUndefined:
        return "required"
    return "its defaults" if isinstance(value, Spec) else "not given" if value is None else inline_toml(value)


def inline_toml(value: Any) -> str:
    """A value as it stands behind `=` in a study; of a spec what differs from its defaults."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"'{value}'" if '"' in value else f'"{value}"'
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(inline_toml, value))}]"
    if isinstance(value, Spec):
        changed = {
            name: item for name, item in value if name == "kind" or item != type(value).model_fields[name].default
        }
        return inline_toml(changed)
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{name} = {inline_toml(item)}' for name, item in value.items())} }}" if value else "{}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def reference_page() -> str:
    """The whole reference as Markdown."""
    out = ["# Every key of a study file", _INTRODUCTION]
    heading = ""
    for part in sections():
        is_table = REFERENCE_TABLES.get(part.name, ("",))[0] == part.where
        noun = "Tables" if is_table else f"Kinds of {part.where.partition(' ')[0]}"
        if noun != heading:
            heading = noun
            out.append(f"## {heading}")
        name = part.name if is_table or part.name not in REFERENCE_TABLES else f"{part.name} ({noun.lower()})"
        out.append(f"### {name}\n\n`{part.where}`: {part.summary}")
        if part.keys:
            rows = ([f"`{key.name}`", key.type, f"`{key.default}`", key.text] for key in part.keys)
            lines = ("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
            out.append("| key | type | default | what it does |\n|---|---|---|---|\n" + "\n".join(lines))
        else:
            out.append("It has no keys besides `kind`.")
    return "\n\n".join(out) + "\n"


_INTRODUCTION = """This page is made from the code. In a terminal, `headstart show NAME` prints the same of one table or
kind: `headstart show optim`, `headstart show model`, `headstart show classify`. *not given* means that the key is left
out by default; what happens then stands in the last column."""
