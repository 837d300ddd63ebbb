"""Every key of a study file: type, choices, default and what it does, from the specs and their docstrings."""

from __future__ import annotations

import inspect
import re
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
from headstart.spec import Spec
from headstart.stage import TrainStage
from headstart.study.language.papers import Claim
from headstart.study.language.spec import AverageSpec, MarkSpec, ReportSpec, StudySpec
from headstart.tasks import TASKS, TaskSpec
from headstart.text import sentence
from headstart.training.loop import BudgetSpec
from headstart.training.optim import OptimSpec


@dataclass(frozen=True)
class Key:
    """One key as a person writes it: type with choices and bounds in words, default as TOML, what it does."""

    name: str
    type: str
    default: str
    text: str


@dataclass(frozen=True)
class Section:
    """Keys of one table: its name (`optim`, `attention`), where it stands in a study, and what it is in a sentence."""

    name: str
    where: str
    summary: str
    keys: tuple[Key, ...]


TABLES: Mapping[str, tuple[str, type[Spec], str]] = {
    "study": ('name = "..."', StudySpec, "What stands at the top of a study file."),
    "stage": ("[stages.NAME]", TrainStage, "One training phase; arms and columns set the same keys."),
    "checkpoint": ("checkpoint = { ... }", CheckpointSpec, "What a stage reads instead of training."),
    "optim": ("optim = { ... }", OptimSpec, "How weights are changed: by AdamW, SGD or Muon."),
    "budget": ("budget = { ... }", BudgetSpec, "How long a stage trains: exactly one amount is given."),
    "feed_forward": ("model.feed_forward = { ... }", FeedForwardSpec, "What follows each mixer, position by position."),
    "position": ("model.position = { ... }", PositionSpec, "How a model knows positions."),
    "encoder": ("model.encoder = { ... }", EncoderSpec, "How inputs become vectors."),
    "report": ("[report]", ReportSpec, "What is chosen, compared, averaged and drawn."),
    "average": ("report.average = { ... }", AverageSpec, "An average over columns."),
    "mark": ("report.mark = { ... }", MarkSpec, "A value that plots of a sweep mark."),
    "claims": ("[[claims]]", Claim, "A direction that is asked about, which the report then checks."),
    "scales": ("[scales.NAME]", Spec, "What `--scale NAME` (tiny, small or paper) lays over the study."),
    "task": ("task = { ... }", TaskSpec, "Keys that a task of every kind has."),
    "layout": ("task.layout = { ... }", LayoutSpec, "What is known of a file of one's own; the rest is guessed."),
}
"""Tables of a study that have no kinds, and the keys that tasks of every kind have: where, spec, summary."""
_WRITTEN = {
    "study": (
        Key("extends", "text or list of text", "[]", "Files or built-in studies that this one is laid over, in order."),
        Key("only", "table", "{}", "`{ columns = [...], arms = [...] }`: which of what the bases hold is kept."),
        Key("scales", "table", "{}", "`[scales.tiny]`, `small`, `paper`: settings that `--scale` lays over columns."),
    ),
    "stage": (
        Key(
            "checkpoint",
            "table",
            "not given",
            "Weights to read instead of training; no other key counts then.",
        ),
        Key(
            "variants", "table", "{}", "Of a column: named settings, `[columns.NAME.variants.NAME]`, for arms to take."
        ),
        Key("variant", "text or list of text", "[]", "Of an arm: which variants of each column it takes."),
    ),
    "scales": (
        Key("note", "text", "not given", "What the scale is, in a sentence that the report prints."),
        Key("only", "table", "{}", "`{ columns = [...], arms = [...] }`: which of them the scale keeps."),
        Key("columns", "table", "{}", "`columns.NAME`: settings that are laid over this column."),
        Key("arms", "table", "{}", "`arms.NAME`: settings that are laid over this arm."),
        Key("variants", "table", "{}", "Settings that are laid over the variants of every column, by their names."),
        Key("axes", "table", "{}", "Axes that replace those of the study with the same name, or are added."),
        Key("report", "table", "{}", "Keys of `[report]` that the scale changes."),
        Key(
            "stand_in", "table", "{}", "`stand_in.COLUMN`: settings, or a list of them, for where its data are absent."
        ),
        Key("STAGE", "table", "{}", "Settings of this stage; keys of `stage` without its name are for all stages."),
    ),
}
"""Keys that a file may have and that are resolved while it is read."""

WORDS: Mapping[str, str] = {
    "kind": "Which kind it is; the other keys depend on it.",
    "stage.task": "The data set, `{ kind = ... }`.",
    "stage.objective": "What is asked of the model, `{ kind = ... }`.",
    "stage.parent": "Name of the stage whose weights this one starts from.",
    "stage.start": 'What is made of the parent\'s weights, from left to right: `"take(PART)"`, '
    '`"take(PART, rows=\'prefix\')"`, `"take(PART, rows=\'symbols\')"`, `"match(PART)"`, '
    '`"draw(PART, STD)"`; the rest is fresh.',
    "stage.optim": "How weights are changed, see `optim`.",
    "stage.budget": "How long the stage trains, see `budget`.",
    "seed": "Seed of weights, order, masks and dropout; an axis `seed` sets it for the whole chain.",
    "optim.warmup_steps": "Steps over which the learning rate rises linearly from 0 to its peak.",
    "optim.warmup_share": "The same as a share of all steps of the stage; give one of the two.",
    "optim.batch_size": "Examples in a batch.",
    "optim.final_share": "Of the peak learning rate, what is left at the end of a cosine schedule.",
    "optim.weight_decay": "Weight decay: decoupled for AdamW and Muon, part of the gradient for SGD.",
    "optim.beta1": "Decay of the running mean of gradients.",
    "optim.beta2": "Decay of the running mean of squared gradients.",
    "optim.epsilon": "Added to the denominator of the update.",
    "budget.epochs": "Passes over the train examples.",
    "budget.steps": "Optimiser steps; 0 starts a model and does not train it.",
    "budget.tokens": "Valid positions trained on.",
    "report.average": "An average over columns, as a table of its own; see `average`.",
    "average.over": "What is averaged over.",
    "average.columns": "The columns that count; without any, all of them.",
    "mark.setting": "The full name of the swept setting, such as `finetune.optim.lr`.",
    "mark.value": "The value that is marked.",
    "mark.says": "What the mark is called in the plot.",
    "claims.says": "The claim in a sentence, as the report prints it.",
    "claims.higher": "The arm that is said to have more; two arms stand for what the first has more than the second.",
    "claims.lower": "The arm that is said to have less, or two arms as in `higher`.",
    "claims.quantity": "What is compared: a score, a number of steps or a measure of trained weights.",
    "study.name": "The name of the study; reports are filed under it.",
    "study.title": "The heading of its table and page.",
    "study.stages": "`[stages.NAME]`, in the order of the chain; the last one's scores are reported.",
    "study.columns": "`[columns.NAME]`: bundles of settings, mostly a task and the model for it.",
    "study.arms": "`[arms.NAME]`: bundles of settings that are compared with each other; a list `seed` names the "
    "seeds of an arm's runs.",
    "study.axes": "`[axes]`: full name of a setting = list of its values.",
    "study.claims": "`[[claims]]`: directions that the report checks, see `claims`.",
    "study.report": "`[report]`: what is chosen, compared and drawn, see `report`.",
    "study.scale_note": "Written while a scale is applied, not by hand.",
    "study.stood_in": "Written while a scale is applied, not by hand.",
    "model.width": "Width D of the blocks.",
    "model.blocks": "Number of blocks.",
    "claims.columns": "The columns that the claim is about; without any, all of them.",
    "organism": "Name of the organism, as the files have it.",
    "ucr.name": "Name of the data set in the archive, such as `ECG200`.",
    "uea.name": "Name of the data set in the archive, such as `BasicMotions`.",
    "stage.model": "The model, `{ kind = ... }`; without a kind a network, see `model`.",
    "stage.weights": "Which weights of the parent are taken, the best by validation or the last.",
    "stage.trainable": "The parts that learn, such as `head` or `all-query_key`.",
    "model.feed_forward": "The layer after each mixer, see `feed_forward`.",
    "model.position": "How the model knows positions, see `position`.",
    "model.encoder": "How inputs become vectors, see `encoder`.",
    "alpha": "Penalty of the readout; chosen on validation where it is not given.",
    "mask_rate": "Share of the positions that are hidden; the task's own where it is not given.",
    "monitor": "The validation score by which the best weights are chosen.",
    "label_smoothing": "Share of the target's probability that is spread over all classes.",
    "regress.loss": "`l1` or `l2` between outputs and targets.",
    "heads": "Heads, which divide the width.",
    "state": "Size of the state (of each channel, where channels have their own).",
    "directions": "1: from left to right; 2: both. Not given: 2, or 1 in a causal model.",
    "local_attention.window": "Positions of a window; a query sees its own window and the one on either side.",
    "longformer.window": "Positions that a query sees on each side.",
    "mega.chunk": "Positions of a piece that attention sees, into which the sequence is cut; not given: no pieces.",
    "reformer.chunk": "Positions of a bucket, about; a row of at most so many has one bucket.",
    "block": "Positions of a block.",
    "rank": "Length that keys and values are projected to.",
    "features": "Random features.",
    "features_seed": "Seed of the random features.",
    "hashes": "Rounds of hashing.",
    "kernel_rate": "Learning rate of the kernel's parameters; not given: that of the optimiser.",
    "dt_min": "Smallest step size that a state starts with.",
    "dt_max": "Largest step size that a state starts with.",
    "decay_min": "Smallest decay that a state starts with.",
    "decay_max": "Largest decay that a state starts with.",
    "gate": "What follows the recurrence: a gated linear unit, a linear layer or nothing.",
    "hidden": "Width of the hidden layer.",
    "expand": "Inner width as a multiple of the model's.",
    "filter": "Positions of the short convolution.",
    "attention": "The attention function.",
    "mega.shared": "Width of queries and keys; not given: half the model's.",
    "mega.hidden": "Width of values; not given: twice the model's.",
    "mega.attention": "`laplace` is the paper's for the Long Range Arena but for its texts.",
    "folds": "Train and val are dealt out anew into so many folds, each class in proportion.",
    "fold": 'The fold that is val, from 0 (from `folds` on one of a further repetition); `"seed"`: the run\'s seed.',
    "bit_memory.strings": "Number of strings.",
    "bit_memory.bits": "Bits of each string.",
    "bit_memory.chunk": "Bits of a position.",
    "s4d.init": "`legs`: the eigenvalues of HiPPO-LegS' normal part; `lin`: -1/2 + i pi n.",
    "embedding.source": "The model, as `checkpoint.source` names it.",
    "embedding.content": "Digest that the model's weights must have; not given: that of the model at hand.",
    "own.val": "A further file, whose labelled rows are the validation split; without it `val_share` of `file` are.",
    "own.test": "A further file, whose labelled rows are the test split; without it `test_share` of `file` are.",
    "own.val_share": "Share of the labelled rows that is the validation split; 0.2 where it is not given.",
    "own.test_share": "Share of the labelled rows that is the test split; 0.2 where it is not given; 0: no test split.",
    "own.target": "Column of the target, as in `layout`.",
    "own.target_kind": "Whether the target is a class or a number; asked for where whole numbers may be either.",
    "own.id": "Column of the ids, as in `layout`.",
    "own.time": "Column of the times, as in `layout`.",
    "own.group": "Column of the groups, whose rows stay in one split.",
    "own.values": "Columns that hold the sequence, as in `layout`.",
    "own.na": "Words that stand for a missing value, as in `layout`.",
    "own.delimiter": "What separates the cells of a text file, as in `layout`.",
    "layout.target": 'Column of the target (its number from 1 without a header; of FASTA `word 2`); `""`: none.',
    "layout.id": 'Column of the ids, named as `target` is; `""`: none.',
    "layout.time": 'Column of the times, which order the rows of a long table; `""`: none.',
    "layout.group": 'Column of the groups, whose rows stay in one split; `""`: none.',
    "layout.delimiter": "What separates the cells of a text file.",
    "layout.quote": 'What stands around a text that holds the delimiter; `""`: nothing does.',
    "layout.decimal": "What stands before the decimals.",
    "layout.header": "Whether the first line names the columns.",
    "layout.encoding": "The encoding of a text file.",
    "layout.format": "Format of the file; `auto`: by its name.",
    "mixers": "The mixers that stand side by side, each `{ kind = ... }`.",
    "train": "Train units (an integer), or which of the official ones.",
    "val": "Validation units.",
    "test": "Test units, or which official test set.",
    "data_seed": "Seed of the generated data.",
    "endless": "New train examples in every epoch.",
    "val_share": "Share of the train examples that is held out for validation.",
    "val_per_class": "Validation examples of each class.",
    "split": "Which split is used.",
    "augment": "Whether train examples are changed in each epoch.",
    "standardise": "Whether values are brought to mean 0 and deviation 1, as train has them.",
    "size": "Side of the pictures, in pixels.",
    "contour_length": "Dashes of the contour.",
    "label_word": "Number of the word in a header that is the label.",
    "by_group": "Whether the rows of a group stay in one split.",
}
"""What keys do that their spec's docstring does not describe, by `table.key` or, where many kinds have it, by key."""
_FIRST = ("folds", "fold")
"""Keys whose words win over those of docstrings, which describe them together."""
_SCORES = '"accuracy" (of tokens and levels), "r2" (of other numbers) or "loss"'
_NAMES = {
    "stage.parent": "text",
    "masked.monitor": _SCORES,
    "causal.monitor": f'{_SCORES}; of tokens "bits_per_token" or "perplexity"',
}
"""Types that a schema does not say."""
_BOUNDS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
_TYPES = {"integer": "integer", "number": "number", "string": "text", "boolean": "true or false", "object": "table"}


def sections() -> Iterator[Section]:
    """Every table and every kind, in the order of the reference."""
    for name, (where, spec, summary) in TABLES.items():
        yield section(name, where, spec, summary)
    for noun, table in (("model", MODELS), ("objective", OBJECTIVES), ("mixer", MIXERS), ("task", TASKS)):
        for kind, entry in table.items():
            yield section(kind, f'{noun} = {{ kind = "{kind}" }}', entry.load(), entry.summary)


def sections_named(name: str) -> list[Section]:
    """The sections that `name` stands for: a table, a kind, or `model` for the keys of networks."""
    wanted = "sequence" if name == "model" else name
    return [part for part in sections() if part.name == wanted]


def section_names() -> list[str]:
    """All names of sections, `model` for `sequence` too."""
    return ["model", *TABLES, *MODELS, *OBJECTIVES, *MIXERS, *TASKS]


def section(name: str, where: str, spec: type[Spec], summary: str = "") -> Section:
    """The keys of one spec. A class of a plugin's is described as far as its docstring goes."""
    schema = spec.model_json_schema()
    definitions = schema.get("$defs", {})
    properties = definitions.get(spec.__name__, schema).get("properties", {})
    texts = _described(spec)
    group = "model" if name == "sequence" else name
    keys = tuple(
        Key(
            key,
            _NAMES.get(f"{group}.{key}") or _type(properties.get(key, {}), definitions),
            _default(info.get_default(call_default_factory=True)),
            _as_toml(sentence(_words(group, key) or texts.get(key) or WORDS.get(key, ""))),
        )
        for key, info in spec.model_fields.items()
        if key != "kind" or (name in TABLES and "const" not in properties.get(key, {}))
    )
    return Section(
        name, where, summary or (inspect.getdoc(spec) or "").partition("\n")[0], keys + _WRITTEN.get(name, ())
    )


def _words(group: str, key: str) -> str | None:
    return WORDS.get(f"{group}.{key}") or (WORDS[key] if key in _FIRST else None)


def _as_toml(text: str) -> str:
    """The words of a docstring as they stand in a study file."""
    for python, toml in (("None", "left out"), ("True", "`true`"), ("False", "`false`")):
        text = re.sub(rf"(?<![\w`]){python}(?![\w`])", toml, text)
    return text[:1].upper() + text[1:]


def _described(spec: type[Spec]) -> dict[str, str]:
    """Key -> what the docstrings of the class and its bases say of it: `name: text`, several to a paragraph."""
    out: dict[str, str] = {}
    names = "|".join(sorted(map(re.escape, spec.model_fields), key=len, reverse=True))
    entry = re.compile(rf"(?:^|(?<=[.;)] ))((?:`?(?:{names})`?(?:, | or | and )?)+)(?: \([^)]*\))?: ")
    for cls in reversed(spec.__mro__):
        document = inspect.cleandoc(cls.__dict__.get("__doc__") or "")
        for paragraph in document.split("\n\n"):
            text = re.split(r"(?:^| )(?:Shapes|Raises|Source): ", " ".join(paragraph.split()))[0]
            _, *parts = entry.split(text)
            for heads, body in zip(parts[::2], parts[1::2], strict=True):
                out.update(dict.fromkeys(re.findall(rf"\b(?:{names})\b", heads), body.strip(" ;")))
    return out


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
        is_table = TABLES.get(part.name, ("",))[0] == part.where
        noun = "Tables" if is_table else f"Kinds of {part.where.partition(' ')[0]}"
        if noun != heading:
            heading = noun
            out.append(f"## {heading}")
        name = part.name if is_table or part.name not in TABLES else f"{part.name} ({noun.lower()})"
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
