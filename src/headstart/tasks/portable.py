"""A loaded task as bytes for a machine that has not its files, and back: arrays as safetensors, all else as JSON.

What only people look at (pictures, texts) stays behind: stages need none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from headstart.data.prepared import Builder, prepared, split_arrays
from headstart.errors import BadInput
from headstart.sequence import Signature
from headstart.tasks.task import SPLITS, WHOLE_DATA, Baseline, Task, TaskSpec, each_split

_FACTS = ("per_position", "paired", "scale", "shift")


def packed(spec: TaskSpec, data: Path) -> tuple[dict[str, Any], bytes]:
    """(facts, arrays) of a loaded task, before folds, fraction, labels and patches.

    Raises: BadInput where the data are not there, or examples change by a function that cannot be sent.
    """
    from safetensors.numpy import save

    task = spec.model_copy(update=WHOLE_DATA).load(data)
    if task.fresh is not None or task.augment is not None:
        raise BadInput(
            f"task.kind: {spec.kind!r} makes train examples anew in each epoch by a function that cannot be sent to "
            "another machine; leave --on out, or give its spec a method `augmentation`"
        )
    arrays = {} if task.blocks is None else {"blocks": task.blocks}
    for name in SPLITS:
        arrays |= split_arrays(name, task.split(name))
    facts = {
        "signature": asdict(task.signature),
        "labels": list(task.labels),
        "notes": list(task.notes),
        "baselines": [asdict(baseline) for baseline in task.baselines],
        "fingerprint": task.fingerprint,
        "decided": task.decided,
        "splits": {name: {fact: getattr(task.split(name), fact) for fact in _FACTS} for name in SPLITS},
    }
    return facts, bytes(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))


def unpacked(facts: dict[str, Any], fetch: Callable[[], bytes]) -> Task:
    """The task of `packed`, its arrays memory-mapped from the cache of this machine.

    facts: with `digest`, of all the content. fetch: gives the bytes of the arrays; asked once per machine.
    """

    def build(builder: Builder) -> dict[str, Any]:
        from safetensors.numpy import load

        for name, array in load(fetch()).items():
            builder.save(name, array)
        return facts

    ready = prepared("received", {"content": facts["digest"]}, build, private=True)
    return Task(
        Signature(**ready.facts["signature"]),
        **each_split(lambda name: ready.split(name, **ready.facts["splits"][name])),
        labels=tuple(ready.facts["labels"]),
        notes=tuple(ready.facts["notes"]),
        baselines=tuple(Baseline(**baseline) for baseline in ready.facts["baselines"]),
        fingerprint=ready.facts["fingerprint"],
        decided=ready.facts["decided"],
        blocks=ready.arrays.get("blocks"),
    )
