"""A model folder gives back the bits that went in, and whatever else is in it is refused in words."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import pickle
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.made_models import made, rewritten, texts, tokens, walks

from headstart import atomic
from headstart.core import Folder
from headstart.errors import BadInput
from headstart.models.mixers import MIXERS
from headstart.serve import folder as folder_module
from headstart.serve.folder import load_model, save_model
from headstart.spec import Entry

ALL = ("majority", "summary", "kernels")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A folder with a network and two classic models."""
    save_model(made(walks(channels=2, gaps=True), ("majority", "summary"), patch=3), tmp_path / "model")
    return tmp_path / "model"


def why(folder: Path) -> str:
    """Why a folder is refused, without where the test made it."""
    with pytest.raises(BadInput) as caught:
        load_model(folder)
    return str(caught.value).replace(f"{folder.parent}/", "")


@pytest.mark.parametrize("mixer", [kind for kind, line in MIXERS.items() if line.path.startswith("headstart.")])
def test_a_network_of_every_mixer_comes_back_bit_for_bit(mixer: str, tmp_path: Path) -> None:
    s = walks(channels=2, gaps=True)
    served = made(s, mixer=mixer, model={"norm": "batch"})
    save_model(served, tmp_path)
    again = load_model(tmp_path)
    assert again.config == served.config
    assert served.network is not None
    assert again.network is not None
    assert not again.network.training
    held = again.network.state_dict()
    assert all(torch.equal(held[name], tensor) for name, tensor in served.network.state_dict().items())
    np.testing.assert_array_equal(again.predict(s), served.predict(s))


@pytest.mark.parametrize("s", [walks(numbers=True), texts("dna"), texts("text"), tokens()], ids=lambda s: s.kind)
def test_every_model_of_a_folder_comes_back_for_every_kind(s: Any, tmp_path: Path) -> None:
    served = made(s, ALL, serve="kernels")
    save_model(served, tmp_path)
    again = load_model(tmp_path)
    assert again.choices == served.choices
    for use in (None, *served.choices):
        np.testing.assert_array_equal(again.predict(s, use), served.predict(s, use))


def test_a_folder_without_a_network_comes_back(tmp_path: Path) -> None:
    s = walks()
    served = made(s, ("summary",), network=False)
    save_model(served, tmp_path)
    np.testing.assert_array_equal(load_model(tmp_path).predict(s), served.predict(s))


def test_a_person_can_read_the_config_and_the_names_in_it(tmp_path: Path) -> None:
    s = walks()
    odd = ("=1+1", "[red]x", "caf\u00e9 \U0001f600", "half \udcff")
    renamed = tuple(odd[i % 4] for i in range(len(s)))
    s = dataclasses.replace(s, labels=renamed)
    served = made(s)
    save_model(served, tmp_path, {"README.md": b"# A model\n"})
    assert load_model(tmp_path).config.preparation.classes == served.config.preparation.classes
    assert (tmp_path / "README.md").read_bytes() == b"# A model\n"
    plain = dataclasses.replace(s, labels=tuple(label.replace("\udcff", "") for label in renamed))
    save_model(made(plain), tmp_path)
    assert "café \U0001f600" in (tmp_path / "config.json").read_text("utf-8")
    assert sorted(os.listdir(tmp_path)) == ["README.md", "config.json", "model.safetensors"]


def test_equal_models_have_equal_files(tmp_path: Path) -> None:
    for name in "ab":
        save_model(made(walks(), ("summary",)), tmp_path / name)
    for file in ("config.json", "model.safetensors"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_spaces_and_escapes_of_a_config_do_not_matter(saved: Path) -> None:
    document = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps(dict(reversed(document.items()))))
    load_model(saved)


def test_what_is_no_model_folder_says_so(tmp_path: Path, saved: Path) -> None:
    no = "there is no such folder; name one that holds config.json and model.safetensors"
    assert why(tmp_path / "none") == f"none: {no}"
    assert why(saved / "config.json") == f"config.json: {no}"
    (tmp_path / "empty").mkdir()
    assert why(tmp_path / "empty").startswith(
        "empty: holds no config.json; name the folder that the model was saved to"
    )
    (saved / "model.safetensors").unlink()
    assert why(saved).startswith(
        "model: holds neither model.safetensors nor model.safetensors.index.json; save or download"
    )


@pytest.mark.parametrize("name", ["pytorch_model.bin", "best.pt", "model.pkl", "last.CKPT", "model.joblib"])
def test_pickled_weights_are_never_opened(saved: Path, name: str) -> None:
    (saved / "model.safetensors").unlink()
    (saved / name).write_bytes(pickle.dumps(print))
    assert why(saved).startswith(
        f"model/{name}: pickled weights are not read, since opening them can run code; take a version of the model with "
        "model.safetensors, or convert it where you trust it"
    )


def test_pickled_weights_beside_ours_are_passed_over(saved: Path) -> None:
    (saved / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    load_model(saved)


CONFIGS: dict[str, tuple[str, str]] = {
    "of transformers": ('{"model_type": "bert"}', "is the config of a model of another library (model_type 'bert')"),
    "of something": ('{"lr": 1}', "is not a config of a headstart model"),
    "no table": ("[1]", "holds no JSON object but list; save or download it again"),
    "no JSON": ("{", "is not JSON ("),
    "deep": ("[" * 200_000, "is not JSON ("),
    "long": (" " * (2**24 + 1), "has 16,777,217 bytes, at most 16,777,216 are read; save or download it again"),
    "newer": ('{"kind": "headstart model", "format": 2}', "format 2 is newer than this headstart reads (1); install"),
    "too little": ('{"kind": "headstart model"}', "model/config.json: layout: is missing\nmodel/config.json: prepa"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_of_another_kind_is_told_from_ours(saved: Path, name: str) -> None:
    text, message = CONFIGS[name]
    (saved / "config.json").write_text(text)
    assert why(saved).startswith(f"model/config.json: {message}" if name != "too little" else message)


def _mixer(document: Any) -> Any:
    return document["network"]["model"]["mixer"]


CHANGED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "unknown key": (lambda d: d.update(x_run="os.system"), "model/config.json: x_run: no 'x_run'; there are: "),
    "unknown key within": (
        lambda d: d["preparation"].update(chanels=1),
        "model/config.json: preparation.chanels: no 'chanels'; did you mean 'channels'?",
    ),
    "a wrong value": (lambda d: d["network"].update(temperature=-1.0), "network.temperature: -1.0 should be greater"),
    "a mixer that is none": (
        lambda d: _mixer(d).update(kind="atention"),
        "network.model.mixer.kind: no 'atention'; did you mean 'attention'?; a model folder names no code",
    ),
    "a module": (lambda d: _mixer(d).update(kind="os:system"), "network.model.mixer.kind: no 'os:system'"),
    "a kind that is not a word": (lambda d: _mixer(d).update(kind=[]), "network.model.mixer.kind: no '[]'"),
    "width": (
        lambda d: d["network"]["model"].update(width=2**24),
        "holds a network of 2 blocks of width 16, by config.json it has 2 of width 16777216",
    ),
    "blocks": (
        lambda d: d["network"]["model"].update(blocks=4096),
        "holds a network of 2 blocks of width 16, by config.json it has 4096",
    ),
    "heads": (lambda d: _mixer(d).update(heads=5), "model/config.json: network.model.mixer.heads: "),
    "classes": (lambda d: d["preparation"].update(classes=["a", "b", "c"]), "classics.majority: is for other data"),
    "length": (lambda d: d["network"].update(length=2**27), "bytes of constants, at most 268,435,456 are made; lower"),
    "a length beyond all": (
        lambda d: d["network"].update(length=2**62),
        "model/config.json: network.length: 4,611,686,018,427,387,904 is more than is read, at mo",
    ),
    "places": (
        lambda d: d["network"]["model"].update(position={"kind": "rotary", "length": 2**27}),
        "bytes of constants, at most",
    ),
    "learned places": (
        lambda d: d["network"]["model"].update(position={"kind": "learned", "length": 2**27}),
        "lacks 'network.position.table', the model of config.json has it; save the model again",
    ),
    "features": (
        lambda d: d["network"]["model"].update(mixer={"kind": "performer", "features": 2**40}),
        "network.model.mixer.features: 1,099,511,627,776 is more than is read, at most 65,536; lower it",
    ),
    "state": (
        lambda d: d["network"]["model"].update(mixer={"kind": "s4", "state": 2**16}),
        "network.model.mixer.state: 65,536 is more than is read, at most 1,024",
    ),
    "solved states": (
        lambda d: d["network"]["model"].update(mixer={"kind": "s4", "state": 4096}),
        "network.model.mixer.state: 4,096 is more than is read, at most 1,024",
    ),
    "many features": (
        lambda d: d["network"]["model"].update(mixer={"kind": "performer", "features": 65_536}),
        "network.model.mixer: performer (4 heads, features 65536) takes",
    ),
    "many hashes": (
        lambda d: d["network"]["model"].update(mixer={"kind": "reformer", "hashes": 65_536}),
        "more than is read of a model of this size; lower its numbers",
    ),
    "wide windows": (
        lambda d: d["network"]["model"].update(
            mixer={"kind": "bigbird", "random": 0, "block": 1, "window": 65_535, "global_blocks": 65_536}
        ),
        "more than is read of a model of this size; lower its numbers",
    ),
    "hashes": (
        lambda d: d["network"]["model"].update(mixer={"kind": "reformer", "hashes": 60, "chunk": 1}),
        "holds 'network.blocks.0.mixer.key.bias', the model of config.json does not",
    ),
    "feed-forward": (
        lambda d: d["network"]["model"].update(feed_forward={"kind": "mlp", "width": 2**27}),
        "'network.blocks.0.feed_forward.back.weight' is F32 [16, 64], by config.json it is F32 "
        "[16, 134217728]; save the model again",
    ),
    "another mixer": (lambda d: d["network"]["model"].update(mixer={"kind": "lstm"}), "the model of config.json"),
    "no gaps": (lambda d: d["preparation"].update(missing=False), "holds 'network.encoder.missing', the model of conf"),
    "kernels": (lambda d: d["classics"].update(kernels=d["classics"]["majority"] | {"method": "kernels"}), "kernels"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_config_that_asks_for_something_else_allocates_nothing(
    saved: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, message = CHANGED[name]
    rewritten(saved, config=change)

    def never(*_: Any) -> Any:
        raise AssertionError("weights were read, or a network was built")

    monkeypatch.setattr(Folder, "arrays", never)
    monkeypatch.setattr(folder_module, "_network", never)
    reason = why(saved)
    assert message in reason
    assert reason.startswith("model/")


WEIGHTS: dict[str, tuple[Callable[[dict[str, torch.Tensor]], Any], str]] = {
    "one more": (lambda t: t.update(more=torch.zeros(1)), "holds 'more', the model of config.json does not; save"),
    "one less": (lambda t: t.pop("network.norm.weight"), "lacks 'network.norm.weight', the model of config.json has"),
    "another type": (
        lambda t: t.update({"network.norm.weight": torch.zeros(16).double()}),
        "'network.norm.weight' is F64 [16], by config.json it is F32 [16]; save the model again",
    ),
    "another shape": (
        lambda t: t.update({"summary.weights": torch.zeros(2, 2)}),
        "'summary.weights' is F32 [2, 2], by config.json it is F32 [",
    ),
    "nothing": (lambda t: t.clear(), "lacks 'network.head.output.weight', the model of config.json has it"),
    "no head": (lambda t: t.pop("network.head.output.weight"), "lacks 'network.head.output.weight', the model of"),
    "not a number": (
        lambda t: t["network.norm.weight"].fill_(torch.nan),
        "'network.norm.weight' holds a number that is not finite; fit the model again",
    ),
    "infinite": (lambda t: t["summary.intercept"].fill_(torch.inf), "'summary.intercept' holds a number that is not"),
    "a spread of 0": (lambda t: t["summary.spread"].fill_(0.0), "'spread' does not fit the other facts"),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_are_not_those_of_the_config_are_refused(saved: Path, name: str) -> None:
    change, message = WEIGHTS[name]
    rewritten(saved, weights=change)
    assert message in why(saved)


def test_weights_that_are_cut_short_are_refused_at_every_length(saved: Path) -> None:
    path = saved / "model.safetensors"
    whole = path.read_bytes()
    for length in [*range(0, 40), 500, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:length])
        message = why(saved)
        assert message.startswith("model/model.safetensors: ")
        assert "cut short" in message
    path.write_bytes(whole + b"x")
    assert "is cut short, damaged or not a safetensors file" in why(saved)


def test_no_flipped_bit_of_the_weights_is_taken_for_a_model(saved: Path) -> None:
    path, s = saved / "model.safetensors", walks(channels=2, gaps=True)
    whole, right = path.read_bytes(), load_model(saved).predict(s)
    for position in {*range(0, 300, 3), *np.linspace(300, len(whole) - 1, 100).astype(int).tolist()}:
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        try:
            again = load_model(saved)
        except BadInput:
            continue
        np.testing.assert_array_equal(again.predict(s), right)  # the header's padding may hold any blank


def test_a_header_is_bounded_and_must_be_one(saved: Path) -> None:
    path = saved / "model.safetensors"

    def header(content: bytes, data: bytes = b"") -> str:
        path.write_bytes(struct.pack("<Q", len(content)) + content + data)
        return why(saved)

    for content in (
        b"[]",
        b"{",
        b'{"a": 1}',
        b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F9", "shape": [1], "data_offsets": [0, 4]}}',
        b'{"a": {"dtype": "F32", "shape": [true], "data_offsets": [0, 4]}}',
        b"[" * 100_000,
    ):
        assert "is cut short, damaged or not a safetensors file" in header(content, bytes(4))
    shape = b'{"a": {"dtype": "F32", "shape": [99999999999, 99999999999], "data_offsets": [0, 4]}}'
    assert "is cut short, damaged or not a safetensors file" in header(shape, bytes(4))
    path.write_bytes(struct.pack("<Q", 2**63) + bytes(64))
    assert "is cut short, damaged or not a safetensors file" in why(saved)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", 2**30))
        file.truncate(2**30 + 100)
    assert "header too large" in why(saved)


def test_a_config_does_not_go_with_other_weights(saved: Path, tmp_path: Path) -> None:
    other = made(walks(channels=2, gaps=True, seed=5), ("majority", "summary"), patch=3)
    save_model(other, tmp_path / "other")
    (saved / "model.safetensors").write_bytes((tmp_path / "other" / "model.safetensors").read_bytes())
    assert why(saved) == (
        "model: config.json was changed, or comes from another model than model.safetensors; take both from one save "
        "(another model of the folder is chosen with --use, not in the file)"
    )


def test_links_out_of_the_folder_are_not_followed(saved: Path, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (saved / name).rename(tmp_path / name)
        (saved / name).symlink_to(tmp_path / name)
        assert why(saved) == (f"model/{name}: leads out of its folder, to {name}; put a copy of the file in its place")
        (saved / name).unlink()
        (tmp_path / name).rename(saved / f"kept {name}")
        (saved / name).symlink_to(saved / f"kept {name}")
    load_model(saved)
    (tmp_path / "linked").symlink_to(saved)
    load_model(tmp_path / "linked")  # where the folder itself lies is its owner's affair


def test_a_name_that_is_no_file_is_refused(saved: Path) -> None:
    (saved / "config.json").unlink()
    os.mkfifo(saved / "config.json")
    assert why(saved).startswith("model: holds no config.json; name the folder that the model was saved to")


def test_a_mixer_of_no_plugin_that_the_folder_knows_is_neither_saved_nor_loaded(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MIXERS, "mine", Entry("headstart.models.mixers.attention:AttentionSpec", ""))
    rewritten(saved, config=lambda d: _mixer(d).update(kind="mine"))
    monkeypatch.setitem(MIXERS, "mine", Entry("my_mixer:DecaySpec", "", "given by module:Class"))
    assert "network.model.mixer.kind: no 'mine'" in why(saved)
    served = made(walks())
    monkeypatch.setitem(MIXERS, "attention", Entry("my_mixer:DecaySpec", "", "given by module:Class"))
    with pytest.raises(BadInput, match="come with headstart, or from a plugin whose digest it holds"):
        save_model(served, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_full_disk_and_a_folder_that_cannot_be_written_get_one_message(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = load_model(saved)
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadInput, match=r"the model cannot be written .*; give access there, or name anot"):
        save_model(before, tmp_path / "file" / "model")

    def full(file: int, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def read_only(*_: Any) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(atomic, "write_all", full)
        with pytest.raises(BadInput, match=r"the disk is full; make room"):
            save_model(before, saved)
    with monkeypatch.context() as patch:
        patch.setattr(atomic.os, "open", read_only)
        with pytest.raises(BadInput, match=r"the model cannot be written \(Permission denied\)"):
            save_model(before, saved)
    assert sorted(os.listdir(saved)) == ["config.json", "model.safetensors"]
    load_model(saved)


@pytest.mark.parametrize("name", ["config.json", "../README.md", "a/b", "", ".."])
def test_other_files_stand_beside_the_model_and_nowhere_else(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match=r"is not a name for a file beside config\.json and model.safetensors"):
        save_model(made(walks()), tmp_path / "model", {name: b"x"})
    assert not (tmp_path / "README.md").exists()


def test_a_config_that_names_models_that_are_not_there_is_not_saved(tmp_path: Path) -> None:
    served = made(walks(), ("majority",))
    with pytest.raises(BadInput, match="its config names network, majority, there are network"):
        save_model(dataclasses.replace(served, classics={}), tmp_path)


def test_a_model_that_memory_has_no_room_for_is_refused_before_its_numbers_are_read(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "LOADED_BYTES", 1e15)
    monkeypatch.setattr(Folder, "arrays", lambda _: pytest.fail("the numbers are read"))
    assert re.search(r"loading its model takes about .* GB of memory, and .* are free; allow it more, or", why(saved))


def _filled(name: str, value: float) -> Callable[[dict[str, torch.Tensor]], None]:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        for key in (key for key in tensors if key.startswith(name) and tensors[key].is_floating_point()):
            tensors[key] = torch.full_like(tensors[key], value)

    return change


@pytest.mark.parametrize(
    ("use", "config", "weights"),
    [
        ("majority", None, _filled("majority.said", -1.0)),
        ("majority", None, _filled("majority.said", 0.0)),
        ("network", None, _filled("network", 1e30)),
        ("network", lambda document: document["network"].update(temperature=5e-324), None),
        ("network", lambda document: document["preparation"].update(mean=[1e30, 1e30]), None),
    ],
)
def test_a_changed_folder_behind_right_digests_gives_probabilities_or_says_that_it_does_not(
    use: str, config: Any, weights: Any, saved: Path, recwarn: pytest.WarningsRecorder
) -> None:
    rewritten(saved, config, weights)
    with pytest.raises(
        BadInput, match=f"model: {use} gives no probabilities for sequence 1 of 12: .*; save or download"
    ):
        load_model(saved).predict(walks(channels=2, gaps=True), use)
    assert not recwarn.list


def test_numbers_beyond_what_a_float_holds_are_not_predicted(tmp_path: Path) -> None:
    s = walks(numbers=True)
    save_model(made(s, ("summary",)), tmp_path)
    rewritten(tmp_path, lambda document: document["preparation"].update(low=-1.7e308, high=1.7e308))
    with pytest.raises(BadInput, match="model: summary gives no number for sequence 1 of 12: inf"):
        load_model(tmp_path).predict(s, "summary")
