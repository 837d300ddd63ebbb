"""A network as an ONNX file: the same answers, at any number of sequences and any length, or one message."""

import ast
import errno
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from support.made_models import made, texts, tokens, walks
from torch import nn

from headstart.cli import main
from headstart.data import LayoutSpec, read_sequences
from headstart.errors import BadInput
from headstart.models.exporting import exportable
from headstart.models.mixers import MIXERS
from headstart.serve import onnx as onnx_module
from headstart.serve.folder import save_model
from headstart.serve.model import Served
from headstart.serve.onnx import EXTRA, Exported, Whole, answers_of, compared, export_onnx, feeds, made_up

LONGEST = 20  # positions of the longest of `walks`
needs_extra = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in EXTRA),
    reason="onnx, onnxscript and onnxruntime are not installed: pip install 'headstart[onnx]'",
)

VARIANTS: list[dict[str, Any]] = [
    *({"kind": kind, **spec.load().example} for kind, spec in MIXERS.items()),
    {"kind": "local_attention", "window": 64},
    {"kind": "longformer", "window": 3, "global_positions": 0},
    {"kind": "longformer", "window": 3, "global_positions": 4, "separate": False},
    {"kind": "bigbird", "block": 4, "global_blocks": 0, "random": 2},
    {"kind": "linformer", "rank": 4, "shared": False},
    {"kind": "s4d", "state": 4, "gate": "none", "directions": 1},
    {"kind": "lstm", "directions": 2},
    {"kind": "lstm", "state": 5},
    {"kind": "lstm", "directions": 2, "norm": "cell"},
    {"kind": "mega", "state": 4, "attention": "laplace"},
    {"kind": "mega", "state": 4, "attention": "laplace", "chunk": 8},
    {"kind": "mega", "state": 4, "chunk": 8},
    {"kind": "reformer", "chunk": 8},
    {"kind": "parallel", "combine": "sum", "norm": False},
]


def built(variant: dict[str, Any], causal: bool, theta: float | None) -> nn.Module | None:
    """A mixer of width 16, or None where this variant cannot be."""
    spec = MIXERS[variant["kind"]].load().model_validate(variant)
    if (causal and (not spec.can_be_causal or variant.get("directions") == 2)) or (theta and not spec.rotary):
        return None
    torch.manual_seed(1)
    more = {"theta": theta} if theta else {}
    return spec.build(16, LONGEST, causal, **more).eval()


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda x: " ".join(map(str, x.values()))[:50])
def test_what_a_mixer_exports_answers_as_the_mixer(variant: dict[str, Any]) -> None:
    count = 0
    for causal in (False, True):
        for theta in (None, 1e4):
            mixer = built(variant, causal, theta)
            if mixer is None:
                continue
            exported_module, count = exportable(mixer, LONGEST), count + 1
            for sizes in ([1], [2, 1], [7, 3, 7], [19, 20, 5, 1]):
                x = torch.randn(len(sizes), max(sizes), 16)
                valid = torch.arange(max(sizes)) < torch.tensor(sizes)[:, None]
                with torch.no_grad():
                    expected, answer = mixer(x, valid), exported_module(x, valid)
                assert (expected - answer)[valid].abs().max() < 1e-5 * max(1.0, expected[valid].abs().max())
                assert not answer.isnan().any()
    assert count


SERVED: dict[str, Any] = {
    "numbers": lambda: (walks(), {}),
    "channels with gaps": lambda: (walks(channels=2, gaps=True), {}),
    "patches": lambda: (walks(channels=2, gaps=True), {"patch": 3}),
    "patches without gaps": lambda: (walks(), {"patch": 4, "missing": False}),
    "gaps that the fit did not know": lambda: (walks(gaps=True), {"missing": False}),
    "longest": lambda: (walks(), {"longest": 11}),
    "target": lambda: (walks(numbers=True), {}),
    "target without a range": lambda: (walks(numbers=True), {"low": None, "high": None}),
    "raw": lambda: (walks(), {"mean": (), "deviation": ()}),
    "text": lambda: (texts("text"), {}),
    "dna": lambda: (texts(), {}),
    "tokens": lambda: (tokens(), {}),
    "joined letters": lambda: (texts("text"), {"model": {"encoder": {"patch": 4}, "position": {"kind": "learned"}}}),
    "max": lambda: (walks(), {"model": {"pool": "max", "norm": "batch", "feed_forward": {"kind": "glu"}}}),
    "last": lambda: (walks(), {"model": {"pool": "last", "causal": True, "position": {"kind": "rotary"}}}),
    "learned": lambda: (walks(), {"model": {"position": {"kind": "learned"}, "norm_place": "after"}}),
    "GPT-NeoX's": lambda: (walks(), {"model": {"position": {"kind": "rotary", "share": 0.5}, "parallel": True}}),
    "T5's": lambda: (
        walks(),
        {"model": {"position": {"kind": "relative", "buckets": 8, "far": 9}, "norm": "rms", "embedding_norm": True}},
    ),
    "bare": lambda: (
        walks(),
        {
            "mixer": "s4d",
            "model": {
                "norm": "none",
                "residual": False,
                "position": {"kind": "none"},
                "encoder": {"masked": "channel"},
            },
        },
    ),
}


def said_by(whole: Whole, arrays: Any) -> np.ndarray:
    with torch.no_grad():
        return np.asarray(whole(*(torch.from_numpy(arrays[name]) for name in whole.inputs)))


@pytest.mark.parametrize("name", SERVED)
def test_the_whole_network_says_what_predict_says(name: str) -> None:
    sequences, more = SERVED[name]()
    served = made(sequences, **more)
    whole = Whole(served).eval()
    expected = served.predict(sequences)
    np.testing.assert_allclose(said_by(whole, feeds(whole.preparation, sequences)), expected, rtol=1e-5, atol=1e-5)
    assert np.ptp(expected, axis=0).min() > 1e-3, "sequences have answers of their own"
    difference, runs = compared(whole, served, lambda arrays: said_by(whole, arrays))
    assert difference < 1e-5
    lengths = {length for _, length in runs}
    assert min(lengths) == 1
    assert max(lengths) > whole.limit, "more positions than the network takes are tried too"


def test_what_stands_at_padded_and_missing_places_means_nothing() -> None:
    sequences = walks(channels=2, gaps=True)
    served = made(sequences, patch=3)
    whole = Whole(served).eval()
    arrays = dict(feeds(whole.preparation, sequences))
    expected = said_by(whole, arrays)
    there = arrays["valid"][:, :, None] & arrays["observed"]
    for empty in (np.nan, np.inf, -1e30):
        odd = {**arrays, "values": np.where(there, arrays["values"], np.float32(empty))}
        np.testing.assert_array_equal(said_by(whole, odd), expected)
    # NaN says by itself that a value is missing.
    gaps = {**arrays, "values": np.where(there, arrays["values"], np.float32(np.nan))}
    gaps["observed"] = np.ones_like(gaps["observed"])
    np.testing.assert_array_equal(said_by(whole, gaps), expected)
    ids = made(tokens())
    whole = Whole(ids).eval()
    arrays = dict(feeds(whole.preparation, tokens()))
    expected = said_by(whole, arrays)
    arrays["values"] = np.where(arrays["valid"], arrays["values"], -5)
    np.testing.assert_array_equal(said_by(whole, arrays), expected)


def test_a_difference_is_found_and_counted_as_a_share_of_the_range_of_numbers() -> None:
    for sequences, moved in ((walks(), 1e-3), (walks(numbers=True), 1e-2)):  # numbers from 10 to 20
        served = made(sequences)
        whole = Whole(served).eval()
        difference, _ = compared(whole, served, lambda arrays, w=whole, m=moved: said_by(w, arrays) + m)
        assert difference == pytest.approx(1e-3, rel=0.01)
        broken, _ = compared(whole, served, lambda arrays, w=whole: said_by(w, arrays) * np.nan)
        assert np.isnan(broken)


def stand_in(monkeypatch: pytest.MonkeyPatch, difference: float) -> None:
    """Everything about ONNX but what `export_onnx` makes of its outcome."""
    monkeypatch.setattr(onnx_module, "check_extra", lambda: None)
    monkeypatch.setattr(onnx_module, "graph_of", lambda *_: b"graph")
    monkeypatch.setattr(onnx_module, "answers_of", lambda _: None)
    monkeypatch.setattr(onnx_module, "compared", lambda *_: (difference, ((1, 1),)))


@pytest.mark.parametrize("difference", [1.5e-4, float("nan")])
def test_a_file_that_says_something_else_is_not_left_behind(
    difference: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, difference)
    with pytest.raises(BadInput, match=r"answers would differ from torch's by up to .*nothing is written"):
        export_onnx(made(walks()), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_a_full_folder_gets_one_message_and_a_good_file_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, 9e-5)
    done = export_onnx(made(walks()), tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").read_bytes() == b"graph"
    assert (done.size, done.difference) == (5, 9e-5)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(onnx_module, "publish", full)
    with pytest.raises(BadInput, match=r"m\.onnx: the disk is full; make room"):
        export_onnx(made(walks()), tmp_path / "m.onnx")


def test_what_cannot_be_exported_gets_its_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = made(walks())
    with pytest.raises(BadInput, match=r"--onnx: '.*' is a folder; name a file in it, such as '.*model\.onnx'"):
        export_onnx(served, tmp_path)
    with pytest.raises(BadInput, match=r"--onnx: there is no folder '.*nowhere'; make it"):
        export_onnx(served, tmp_path / "nowhere" / "m.onnx")
    monkeypatch.setattr(onnx_module, "check_extra", lambda: None)
    with pytest.raises(BadInput, match=r"no network here, only summary, and classic models have no ONNX form"):
        export_onnx(made(walks(), classics=("summary",), network=False), tmp_path / "m.onnx")

    wide = MIXERS["bigbird"].load()(block=2).build(16, 2_000, False)
    with pytest.raises(BadInput, match=r"model\.mixer\.block: bigbird's pattern of 1,000 blocks.*larger blocks"):
        exportable(wide, 2_000)
    assert not list(tmp_path.iterdir())


def exported(words: list[str]) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["export", *words])
    return int(stop.value.code or 0)


def test_without_the_extra_the_verb_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    save_model(made(walks()), tmp_path / "model")
    for name in ("onnx", "onnxscript"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        sys.modules[name].__spec__ = importlib.util.spec_from_loader(name, None)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert exported([str(tmp_path / "model"), "--onnx", str(tmp_path / "m.onnx")]) == 2
    message = capfd.readouterr()
    assert message.err == "headstart: export: onnxruntime is not installed; pip install 'headstart[onnx]'\n"
    assert not message.out
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_folder_that_serves_a_classic_model_says_how_its_network_is_exported(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    both = made(walks(), classics=("kernels",), serve="kernels")
    save_model(both, tmp_path / "both")
    save_model(made(walks(), classics=("summary",), network=False), tmp_path / "bare")
    for words, message in (
        (["both"], "serves 'kernels', which has no ONNX form; --use network exports its network"),
        (["both", "--use", "kernels"], "'kernels', which has no ONNX form; --use network exports its network"),
        (["both", "--use", "netwrk"], "did you mean 'network'?"),
        (["bare"], "serves 'summary', which has no ONNX form; fit one with a network"),
    ):
        assert exported([str(tmp_path / words[0]), *words[1:], "--onnx", str(tmp_path / "m.onnx")]) == 2
        assert message in capfd.readouterr().err
    assert not (tmp_path / "m.onnx").exists()


class Doubtful(nn.Module):
    """A mixer without a word of its own about graphs, whose branch on its numbers none can state."""

    def forward(self, x: torch.Tensor, valid: torch.Tensor | None, draw: None = None) -> torch.Tensor:
        return x if x.sum() > 0 else -x


@needs_extra
def test_a_mixer_that_no_graph_can_state_is_refused_with_the_way_out(tmp_path: Path) -> None:
    served = made(walks())
    assert served.network is not None
    served.network.blocks[1].mixer = Doubtful()
    with pytest.raises(BadInput, match=r"cannot state this network as a graph \(.*\); `headstart predict` serves it"):
        export_onnx(served, tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


GROUPS = (
    ("attention", "linear_attention", "linformer", "performer", "reformer"),
    ("bigbird", "local_attention", "longformer", "parallel"),
    ("dlr", "s4", "s4d", "mega", "lstm", "inception"),
    ("min_gru", "gru", "gated_linear_attention", "retnet"),
    pytest.param(("delta_net", "mamba", "hyena", "rwkv6"), marks=pytest.mark.slow),
    pytest.param(("based", "mamba2"), marks=pytest.mark.slow),
    pytest.param(("gated_delta_net", "rwkv7"), marks=pytest.mark.slow),
)


def answers_as_predicted(served: Served, done: Exported, sequences: Any) -> None:
    preparation = served.config.preparation
    run, expected = answers_of(done.path.read_bytes()), served.predict(sequences, "network")
    np.testing.assert_allclose(run(feeds(preparation, sequences)), expected, rtol=1e-5, atol=1e-5)
    for row in range(2):
        result = sequences.take(np.array([row]))
        np.testing.assert_allclose(run(feeds(preparation, result)), expected[[row]], rtol=1e-5, atol=1e-5)


@needs_extra
@pytest.mark.parametrize("kinds", GROUPS, ids=lambda kinds: " ".join(kinds))
def test_a_file_of_every_mixer_answers_as_predict_does(
    kinds: tuple[str, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mixers = [{"kind": kind, **MIXERS[kind].load().example} for kind in kinds]
    rotary = "rotary" if any(MIXERS[kind].load().rotary for kind in kinds) else "learned"
    sequences = walks(channels=2, gaps=True)
    served = made(sequences, mixer=mixers, model={"blocks": len(kinds), "position": {"kind": rotary}})
    done = export_onnx(served, tmp_path / "m.onnx")
    assert done.difference < 1e-5
    answers_as_predicted(served, done, sequences)
    # Ten times the longest of the fit: its first positions count.
    answers_as_predicted(served, done, walks(channels=2, gaps=True, n=3, least=200, most=200, seed=3))
    assert capfd.readouterr() == ("", ""), "nothing is printed"


@needs_extra
def test_a_file_of_causal_mixers_answers_as_predict_does(tmp_path: Path) -> None:
    mixers = [{"kind": kind, **MIXERS[kind].load().example} for kind in ("performer", "bigbird", "reformer")]
    mixers += [{"kind": "local_attention", "window": 6}, {"kind": "longformer", "window": 3}]
    mixers += [{"kind": "mega", "state": 4, "attention": "laplace", "chunk": 8}, {"kind": "lstm", "state": 5}]
    mixers += [{"kind": "lstm", "norm": "cell", "gain": "small"}]
    sequences = walks()
    served = made(sequences, mixer=mixers, model={"blocks": len(mixers), "causal": True, "pool": "last"})
    done = export_onnx(served, tmp_path / "m.onnx")
    assert done.difference < 1e-5
    answers_as_predicted(served, done, sequences)


@needs_extra
@pytest.mark.parametrize(
    ("name", "mixer"),
    [
        ("patches", "attention"),
        ("patches without gaps", {"kind": "lstm", "directions": 2}),
        ("longest", "s4d"),
        ("target", {"kind": "s4d", "directions": 1, "gate": "none"}),
        ("text", "attention"),
        ("tokens", "mega"),
        ("joined letters", "s4d"),
    ],
    ids=lambda x: x if isinstance(x, str) else x["kind"],
)
def test_a_file_of_every_kind_of_data_answers_as_predict_does(name: str, mixer: Any, tmp_path: Path) -> None:
    sequences, more = SERVED[name]()
    served = made(sequences, mixer=mixer, **more)
    done = export_onnx(served, tmp_path / "m.onnx")
    assert done.difference < 1e-5
    answers_as_predicted(served, done, sequences)
    for rows, length in ((1, 1), (4, 2), (2, 57)):
        answers_as_predicted(served, done, made_up(served, max(rows, 2), length))


@needs_extra
@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_network_of_a_few_positions_is_exported_too(length: int, tmp_path: Path) -> None:
    served = made(walks(least=length, most=length), mixer="s4d", model={"blocks": 1})
    assert export_onnx(served, tmp_path / "m.onnx").difference < 1e-5


@needs_extra
def test_the_verb_writes_a_file_that_says_what_it_is_and_not_where_it_was_made(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnxruntime

    save_model(made(walks(), classics=("summary",), serve="summary"), tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    assert exported(["model", "--onnx", "m.onnx", "--use", "network"]) == 0
    output = capfd.readouterr()
    assert not output.err
    assert "takes values float32 (batch, length, 1); valid bool (batch, length)" in output.out
    assert "gives probabilities float32 (batch, 2)" in output.out
    assert "largest difference to torch" in output.out
    content = (tmp_path / "m.onnx").read_bytes()
    for folder in (str(tmp_path), str(Path(torch.__file__).parent), str(Path(onnx_module.__file__).parent), ".py"):
        assert folder.encode() not in content
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    notes = session.get_modelmeta().custom_metadata_map
    assert json.loads(notes["classes"]) == ["calm", "wild"]
    assert (notes["kind"], notes["longest"]) == ("numbers", str(LONGEST))
    assert [item.shape for item in session.get_inputs()] == [["batch", "length", 1], ["batch", "length"]]
    again = export_onnx(made(walks()), tmp_path / "again.onnx")
    assert again.path.read_bytes() == content, "equal networks give equal bytes"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.onnx", "m.onnx", "model"]


@needs_extra
@pytest.mark.parametrize("gaps", [False, True])
def test_the_program_of_the_guide_runs_the_file(
    gaps: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "exporting.md").read_text("utf-8")
    program = guide.split("```python file=serve.py\n")[1].split("```")[0]
    sequences = read_sequences([[3.1, 2.9, 2.2, 1.7], [3.0, 3.4]], LayoutSpec(kind="numbers"))
    served = made(walks(gaps=gaps))
    export_onnx(served, tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "serve.py", "exec"), {})  # noqa: S102
    output = [ast.literal_eval(line) for line in capsys.readouterr().out.splitlines()]
    for actual, expected in zip(output, served.predict(sequences), strict=True):
        assert list(actual) == ["calm", "wild"]
        assert list(actual.values()) == pytest.approx(expected, abs=1e-3)
