"""Data that have to be registered for, end to end: small files in the official layout, at scale paper, one step each."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import wavfile

from headstart.runner.events import Failed, Finished
from headstart.runner.job import Runtime
from headstart.runner.perform import perform
from headstart.store import Store
from headstart.study.language.plan import make_plan
from headstart.study.language.spec import read_study

ONE_STEP = [
    f"{stage}.{key}"
    for stage in ("pretrain", "finetune")
    for key in ("budget.steps=1", "budget.evaluate_every=1", "optim.batch_size=2", "optim.warmup_steps=0")
]
NARROW = ["model.width=16", "model.blocks=1"]
"""Of sequences of 16,000 positions and more: at the papers' own width the scores alone take half an hour."""


def aan(root: Path) -> None:
    """The three tables of Long Range Arena's release: label, two ids, two texts of a paper each."""
    folder = root / "lra_release" / "tsv_data"
    folder.mkdir(parents=True)
    for split, count in (("train", 8), ("eval", 4), ("test", 4)):
        lines = [f"{i % 2}.0\tP{i}\tQ{i}\t{split} first {i} \t{split} second {i}\n" for i in range(count)]
        (folder / f"new_aan_pairs.{split}.tsv").write_text("".join(lines), "utf-8")


def speech_commands(root: Path) -> None:
    """The archive with its two lists of held-out recordings, one second of 16,000 samples each."""
    random = np.random.default_rng(0)
    words = ("yes", "no")
    (root / "speech_commands").mkdir()
    lists = {"validation_list.txt": range(4, 6), "testing_list.txt": range(6, 8)}
    with tarfile.open(root / "speech_commands" / "speech_commands_v0.02.tar.gz", "w:gz") as archive:
        files: dict[str, bytes] = {}
        for name, held_out in lists.items():
            files[name] = "".join(f"{word}/{i}_nohash_0.wav\n" for word in words for i in held_out).encode()
        for word in words:
            for i in range(8):
                content = io.BytesIO()
                wavfile.write(content, 16000, random.integers(-9000, 9000, 16000).astype(np.int16))
                files[f"{word}/{i}_nohash_0.wav"] = content.getvalue()
        for name, content_ in files.items():
            info = tarfile.TarInfo(f"./{name}")
            info.size = len(content_)
            archive.addfile(info, io.BytesIO(content_))


def pathx256(root: Path) -> None:
    """A folder of images of 256 x 256 pixels with its lists of labels."""
    folder = root / "lra_release" / "pathfinder256" / "curv_contour_length_14"
    random = np.random.default_rng(0)
    (folder / "metadata").mkdir(parents=True)
    (folder / "imgs" / "0").mkdir(parents=True)
    lines = []
    for i in range(10):
        Image.fromarray(random.integers(0, 256, (256, 256), dtype=np.uint8)).save(
            folder / "imgs" / "0" / f"sample_{i}.png"
        )
        lines.append(f"imgs/0 sample_{i}.png {i} {i % 2} 1.0 14 4 2 0.5 1 1")
    (folder / "metadata" / "0.npy").write_text("\n".join(lines) + "\n", "utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "study", "words", "positions"),
    [
        (aan, "amos-2", ['columns=["retrieval"]', 'arms=["s4_self_pretrained"]'], 17),
        (speech_commands, "amos-3", ['columns=["speech"]', 'arms=["s4_self_pretrained"]', *NARROW], 16_000),
        (
            pathx256,
            "amos-2",
            [
                *('columns=["pathx256"]', 'arms=["s4_self_pretrained"]', *NARROW),
                *("task.kind=pathfinder_files", "task.size=256"),
            ],
            65_536,
        ),
    ],
)
def test_a_chain_at_the_papers_lengths_runs_on_files_in_the_official_layout(
    make: Callable[[Path], None], study: str, words: list[str], positions: int, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    make(data)
    spec = read_study(
        study,
        [*words, "seed=[0]", "report.baselines=false", "report.against=s4_self_pretrained", *ONE_STEP],
        scale="paper",
        data=data,
    )
    plan = make_plan(spec, data)
    assert [stage.name for stage in plan.cells[0].chain] == ["pretrain", "finetune"]
    events = list(perform(plan.stages.values(), Store(tmp_path / "runs"), Runtime(data, "cpu", 0, 1)))
    assert not [event for event in events if isinstance(event, Failed)]
    done = {event.identity: event.result for event in events if isinstance(event, Finished)}
    assert set(done) == set(plan.stages)
    for result in done.values():
        assert (result["status"], result["budget"]["steps"]) == ("complete", 1)
        assert result["budget"]["tokens"] <= 2 * 2 * positions
