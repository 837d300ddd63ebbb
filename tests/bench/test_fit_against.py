"""The page of `fit` beside rivals: which weights Mantis reads, what its row rests on, and why a row is absent."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import lzma
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from support.series_models import saved_series

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import fit_against
import fit_rivals
import harness
from harness import Set

from headstart.baselines.embedding import Embedding, EmbeddingSpec
from headstart.data import read_sequences
from headstart.data.layout import LayoutSpec
from headstart.errors import BadInput

CLASSES = ("slow", "fast")


def waves(count: int, seed: int, length: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """(n, 2, L) float32 and (n,): the class is how fast the first channel swings, behind noise."""
    random, target = np.random.default_rng(seed), np.arange(count) % 2
    x = random.normal(size=(count, 2, length))
    x[:, 0] += 1.5 * np.sin(np.arange(length) * (1 + target[:, None]) / 4)
    return x.astype(np.float32), target


def embedded(model: Embedding, x: np.ndarray) -> np.ndarray:
    """Features of (n, F, L) by our own reader, which stretches by itself."""
    read = model.encoder.reader({name: torch.from_numpy(array) for name, array in model.weights.items()})
    rows = [read(torch.from_numpy(row).double(), torch.ones(row.shape, dtype=torch.bool)) for row in x]
    return np.stack([row.reshape(-1).numpy() for row in rows])


@pytest.fixture
def authors(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stands for the package of Mantis's authors: its features are those of our reader. What it was asked for."""
    asked: list[Any] = []

    class Network:
        def __init__(self, **settings: Any) -> None:
            asked.append((type(self).__name__, settings))

        def from_pretrained(self, folder: str) -> Embedding:
            return EmbeddingSpec(source=folder).features(1)

    class Trainer:
        def __init__(self, device: str, network: Embedding) -> None:
            self.network = network

        def transform(self, x: np.ndarray) -> np.ndarray:
            asked.append(x.shape)
            return embedded(self.network, x)

    kinds = {name: type(name, (Network,), {}) for name in ("MantisV1", "MantisV2")}
    monkeypatch.setitem(sys.modules, "mantis", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "mantis.architecture", SimpleNamespace(**kinds))
    monkeypatch.setitem(sys.modules, "mantis.trainer", SimpleNamespace(MantisTrainer=Trainer))
    return asked


@pytest.mark.parametrize(("kind", "name"), [("mantis", "MantisV1"), ("mantis_v2", "MantisV2")])
def test_mantis_is_logistic_regression_on_features_of_stretched_channels(
    kind: str, name: str, tmp_path: Path, authors: list[Any]
) -> None:
    folder = saved_series(tmp_path, kind)
    (train, target), (test, _) = waves(24, 0), waves(15, 1)
    predicted = fit_rivals.mantis(train, target, test, 0, str(folder))
    settings = {"device": "cpu", "return_transf_layer": 2, "output_token": "combined"}
    assert authors == [(name, settings), (24, 2, 32), (15, 2, 32)]
    model = EmbeddingSpec(source=str(folder)).features(2)
    scale = StandardScaler().fit(embedded(model, train))
    readout = LogisticRegression(max_iter=1_000).fit(scale.transform(embedded(model, train)), target)
    shares = readout.predict_proba(scale.transform(embedded(model, test)))
    assert predicted.tolist() == shares.argmax(1).tolist()
    assert len(set(predicted.tolist())) == 2


def files(folder: Path) -> Set:
    """A set of 24 and 15 series in CSV files."""
    for side, count in (("train", 24), ("test", 15)):
        x, target = waves(count, count)
        lines = [",".join([CLASSES[k], *(f"{v:.5f}" for v in row[0])]) for row, k in zip(x, target, strict=True)]
        head = ",".join(["label", *(f"t{i}" for i in range(x.shape[2]))])
        (folder / f"{side}.csv").write_text("\n".join([head, *lines]) + "\n")
    layout = LayoutSpec(target="label")
    return Set("waves", "made up", lambda _: (folder / "train.csv", folder / "test.csv", None), layout)


@pytest.fixture
def benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script with one set for reporting, whose rivals run in this process; it is called with words."""

    def run(command: list[str], **_: Any) -> None:
        monkeypatch.setattr(sys, "argv", [str(word) for word in command[1:]])
        fit_rivals.main()

    def script(*words: str) -> str:
        options = ["--data", str(tmp_path), "--work", str(tmp_path / "work"), "--environment", str(tmp_path / "rivals")]
        monkeypatch.setattr(sys, "argv", ["fit_against.py", *options, *words])
        fit_against.main()
        return fit_against.PAGE.read_text() if "--write" in words else ""

    dataset, made = files(tmp_path), []
    monkeypatch.setattr(fit_against, "PAGE", tmp_path / "fit.md")
    monkeypatch.setattr(fit_against, "all_sets", lambda *_: [dataset])
    monkeypatch.setattr(fit_against, "sets_of", lambda part: ["waves"] if part == "reporting" else [])
    monkeypatch.setattr(fit_against, "environment", lambda *asked: made.append(asked) or Path(sys.executable))
    started = SimpleNamespace(**{**vars(subprocess), "run": run})
    monkeypatch.setattr(fit_against, "subprocess", started)
    return SimpleNamespace(run=script, made=made, results=tmp_path / "work" / "results", started=started)


def test_weights_of_mantis_give_it_a_row_and_without_them_there_is_none(
    benchmark: Any, tmp_path: Path, authors: list[Any]
) -> None:
    folders = [str(saved_series(tmp_path / f"{seed}", "mantis_v2", seed)) for seed in (0, 1)]
    for folder in folders:
        benchmark.run("--methods", "boosting", "--mantis", folder, "--part", "reporting")
    lists = {(folder.name, packages.name) for folder, packages in benchmark.made}
    assert lists == {("rivals", "fit_against.txt"), ("rivals-mantis", "fit_mantis.txt")}
    results = sorted(path.name for path in benchmark.results.iterdir())
    contents = sorted(fit_against.Methods(20, tmp_path, Path(folder)).content[:8] for folder in folders)
    assert results == ["waves-boosting-0.json", *(f"waves-mantis-{content}-0.json" for content in contents)]
    rows = [json.loads((benchmark.results / name).read_text()) for name in results]
    assert all(row["accuracy"] > 0.5 for row in rows), "classes are told apart"
    assert [row["weights"][:8] for row in rows[1:]] == contents
    text = benchmark.run("--methods", "fit", "boosting", "--mantis", folders[0], "--write")
    assert "| set | gap | headstart fit | gradient boosting | Mantis (frozen) |" in text
    assert "Mantis is read by its authors' package" in text
    assert "Not measured: headstart fit on waves (not run)." in text
    text = benchmark.run("--methods", "fit", "boosting", "--write")
    assert "Mantis (frozen)" not in text
    assert "Mantis is absent because its weights were not available." in text


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (None, "--methods: 'mantis' reads weights, which cannot be downloaded here; add --mantis FOLDER"),
        ("moment", "--mantis: '.*' holds a model of family 'moment'; name a folder with config.json and"),
    ],
)
def test_mantis_without_its_weights_is_refused(kind: str | None, message: str, tmp_path: Path) -> None:
    folder = None if kind is None else saved_series(tmp_path, kind)
    with pytest.raises(BadInput, match=message):
        fit_against.Methods(20, tmp_path, folder).variant("mantis")


def test_a_method_that_gives_up_says_why_on_the_page(benchmark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_rivals, "INCEPTION_SECONDS", 0.0)
    x, target = waves(6, 0)
    with pytest.raises(SystemExit) as ended:
        fit_rivals.inception(x, target, x, 0)

    def fails(text: Any) -> None:
        def run(command: list[str], **_: Any) -> None:
            raise subprocess.CalledProcessError(1, command, stderr=f"a warning\n{text}\n".encode())

        benchmark.started.run = run

    benchmark.run("--methods", "boosting", "--part", "reporting")
    fails(ended.value)
    benchmark.run("--methods", "inception", "--part", "reporting")
    text = benchmark.run("--methods", "boosting", "inception", "--write")
    why = "no epoch of its training ends within 0 processor seconds"
    assert f"Not measured: InceptionTime (1 network) on waves ({why})." in text
    fails("a crash")
    with pytest.raises(SystemExit, match="waves, quant: "):
        benchmark.run("--methods", "quant", "--part", "reporting")
    assert not (benchmark.results / "waves-quant-0.json").exists()


def test_the_page_says_which_rows_of_a_set_without_an_official_table_were_tested() -> None:
    rows = [{"set": "ECG5000", "test": 4_499}, {"set": "CBF", "test": 900}]
    assert "has 4,499 of its 4,500 official rows" in fit_against._of_splits(rows)
    assert "were not used here" in fit_against._of_splits([*rows, {"set": "ECG5000", "test": 100}])
    assert "ECG5000" not in fit_against._of_splits(rows[1:])


def letters(folder: Path) -> Set:
    """Two tables of letters whose class is a word in them."""
    random = np.random.default_rng(0)
    for side, count in (("train", 60), ("test", 30)):
        rows = ["label\tsequence"]
        for number in range(count):
            word = ("GATTACA", "CCGGTTA")[number % 2]
            noise = "".join(random.choice(list("ACGT"), 20))
            rows.append(f"{CLASSES[number % 2]}\t{noise}{word}{noise[::-1]}")
        (folder / f"letters-{side}.tsv").write_text("\n".join(rows) + "\n")
    files = folder / "letters-train.tsv", folder / "letters-test.tsv", None
    return Set("letters", "DNA", lambda _: files, LayoutSpec(target="label"))


def test_sets_of_neither_list_have_a_section_with_n_grams_as_a_rival_of_letters(
    benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = files(tmp_path), letters(tmp_path)
    parts = {"reporting": ["waves"], "other": ["letters"]}
    monkeypatch.setattr(fit_against, "all_sets", lambda *_: both)
    monkeypatch.setattr(fit_against, "sets_of", lambda part: parts.get(part, []))
    for part in parts:
        benchmark.run("--methods", "boosting", "ngrams", "--part", part)
    assert not list(benchmark.results.glob("waves-ngrams*")), "waves have no letters"
    row = json.loads((benchmark.results / "letters-ngrams-0.json").read_text())
    assert row["accuracy"] > 0.9
    assert row["date"]
    assert row["machine"]
    text = benchmark.run("--methods", "fit", "boosting", "ngrams", "--write")
    before, after = text.split("## Images, texts, proteins and nested lists")
    assert "TF-IDF" not in before
    assert "| set | gap | headstart fit | gradient boosting | TF-IDF |" in after
    assert "Not measured: headstart fit on waves (not run)." in before
    assert "Not measured: headstart fit on letters (not run)." in after


@pytest.mark.slow
def test_the_network_among_the_rivals_learns_within_its_epochs_and_says_how_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fit_rivals, "EPOCHS", 25)
    (x, target), (asked, wanted) = waves(60, 0), waves(40, 1)
    assert (fit_rivals.inception(x, target, asked, 0) == wanted).mean() > 0.8
    assert fit_rivals.MORE["epochs"] == 25
    rows = [{"set": "waves", "method": "inception", "epochs": 7}, {"set": "CBF", "method": "inception", "epochs": 90}]
    assert fit_against._of_epochs(rows) == (
        ", which is 7 to 90 epochs (fewer than 20 on waves, where its accuracy says little)"
    )


def test_images_proteins_and_lists_become_tables_of_so_many_rows_of_every_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "OTHERS", 4)
    data = tmp_path / "data"
    for folder in ("mnist", "cifar10", "biology", "listops"):
        (data / folder).mkdir(parents=True)
    random = np.random.default_rng(0)
    for side in ("train", "t10k"):
        pixels = random.integers(0, 256, (5, 784), np.uint8)
        for kind, head, body in (("images-idx3", 16, pixels.tobytes()), ("labels-idx1", 8, bytes(range(5)))):
            (data / "mnist" / f"{side}-{kind}-ubyte.gz").write_bytes(gzip.compress(bytes(head) + body))
    with tarfile.open(data / "cifar10" / "cifar10_jpeg.tar.xz", "w:xz") as archive:
        for side, kind, number in itertools.product(("train", "test"), ("cat", "dog"), range(3)):
            image = io.BytesIO()
            Image.fromarray(random.integers(0, 256, (32, 32, 3), np.uint8)).save(image, "JPEG")
            _add(archive, f"./{side}/{kind}/{number}.jpg", image.getvalue())
    with tarfile.open(data / "biology" / "protein.tar.xz", "w:xz") as archive:
        for name in ("deeploc_our_val_set", "deeploc_test_set"):
            records = [f">P{i} {('Nucleus-M', 'Plastid-S')[i >= 6]}\nMKV{'A' * i}\n" for i in range(12)]
            _add(archive, f"./deeploc/{name}.fasta", "".join([*records, f">P Nucleus-M\n{'A' * 501}\n"]).encode())
    with lzma.open(data / "listops" / "test_d20s.tsv.xz", "wt") as file:
        file.write("".join(f"{i % 10}\t( [MAX {i} ] )\n" for i in range(9)))
    for dataset in harness.other_sets(data):
        train, test, _ = dataset.files(tmp_path / dataset.name)
        rows = read_sequences(train, dataset.layout)
        asked = read_sequences(test, rows.layout.fixed())
        assert len(rows) == len(asked) == 4
        classes = {"MNIST": 4, "CIFAR-10": 2, "proteins": 2, "ListOps": 4}
        assert len(rows.classes) == classes[dataset.name]
        assert rows.lengths.max() == {"MNIST": 784, "CIFAR-10": 1024, "proteins": 12, "ListOps": 12}[dataset.name]


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def test_the_page_is_made_of_the_rows_beside_it(tmp_path: Path) -> None:
    shutil.copy(fit_against.PAGE.with_suffix(".json"), tmp_path / "fit.json")
    fit_against.publish(tmp_path / "fit.md")
    assert (tmp_path / "fit.md").read_text() == fit_against.PAGE.read_text()


def test_what_others_published_stands_beside_and_is_no_rival_where_it_is_of_other_splits() -> None:
    table = {"Worms": {"fit": (0.7532, 9.0, 1)}, "FaceAll": {"fit": (0.8, 9.0, 1)}, "waves": {"fit": (1.0, 9.0, 1)}}
    lines = {line[0]: line[1:] for line in fit_against.against_published(table)}
    assert lines["HIVE-COTE 2, published"][:2] == ["2", "0 / 1 / 1"]
    assert not any("MultiRocket-Hydra" in name for name in lines)
    head, _, *rows = fit_against._lines(table, ["fit"], fit_against.as_published())
    assert head.endswith("| QUANT, published | MultiRocket-Hydra, 30 other splits |")
    assert {row.count("\N{EM DASH}") for row in rows if "waves" in row} == {5}
    sets = {name for part in fit_against.PARTS for name in fit_against.sets_of(part)}
    for published in fit_against.as_published().values():
        assert {name for name, value in published.items() if isinstance(value, float)} < sets
