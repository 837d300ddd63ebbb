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
import fit_page
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
        return fit_page.PAGE.read_text() if "--write" in words else ""

    dataset, made = files(tmp_path), []
    monkeypatch.setattr(fit_page, "PAGE", tmp_path / "fit.md")
    monkeypatch.setattr(fit_against, "all_sets", lambda *_: [dataset])
    for module in (fit_against, fit_page):
        monkeypatch.setattr(module, "sets_of", lambda part: ["waves"] if part == "reporting" else [])
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
    assert "| set | gap | fit 60 s | gradient boosting | Mantis (frozen) |" in text
    assert "Mantis is read by its authors' package" in text
    assert "Not measured: fit 60 s on waves (not run)." in text
    (tmp_path / "fit.json").unlink()
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
    assert f"Not measured: fit 60 s on waves (not run); InceptionTime (1 network) on waves ({why})." in text
    fails("a crash")
    with pytest.raises(SystemExit, match="waves, quant: "):
        benchmark.run("--methods", "quant", "--part", "reporting")
    assert not (benchmark.results / "waves-quant-0.json").exists()


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
    for module in (fit_against, fit_page):
        monkeypatch.setattr(module, "sets_of", lambda part: parts.get(part, []))
    for part in parts:
        benchmark.run("--methods", "boosting", "ngrams", "--part", part)
    assert not list(benchmark.results.glob("waves-ngrams*")), "waves have no letters"
    row = json.loads((benchmark.results / "letters-ngrams-0.json").read_text())
    assert row["accuracy"] > 0.9
    assert row["date"]
    assert row["machine"]
    text = benchmark.run("--methods", "fit", "boosting", "ngrams", "--write")
    before, after = text.split("<summary>Images, texts, proteins and nested lists")
    assert "TF-IDF" not in before
    assert "| set | gap | fit 60 s | gradient boosting | TF-IDF |" in after
    assert "Not measured: fit 60 s on waves (not run); fit 60 s on letters (not run)." in after


@pytest.mark.slow
def test_the_network_among_the_rivals_learns_within_its_epochs_and_says_how_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fit_rivals, "EPOCHS", 25)
    (x, target), (asked, wanted) = waves(60, 0), waves(40, 1)
    assert (fit_rivals.inception(x, target, asked, 0) == wanted).mean() > 0.8
    assert fit_rivals.MORE["epochs"] == 25
    rows = [{"set": "waves", "method": "inception", "epochs": 7}, {"set": "CBF", "method": "inception", "epochs": 90}]
    assert fit_page._epochs(rows) == (
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
    shutil.copy(fit_page.PAGE.with_suffix(".json"), tmp_path / "fit.json")
    fit_page.publish(tmp_path / "fit.md")
    for suffix in (".md", ".svg"):
        assert (tmp_path / "fit").with_suffix(suffix).read_text() == fit_page.PAGE.with_suffix(suffix).read_text()
    assert "['" not in fit_page.PAGE.read_text(), "tables are lines"
    rows = json.loads((tmp_path / "fit.json").read_text())
    assert {row["test"] for row in rows if row["set"] == "ECG5000"} == {4_499}, "as the page says"


def served(wrong: str, loss: float = 0.3, **models: tuple[float, float]) -> dict[str, Any]:
    """A row of `fit` on 16 test rows. wrong: the four hexadecimal digits of those that it answers wrongly."""
    right = int(wrong, 16) ^ 0xFFFF
    scores = {name: {"accuracy": accuracy, "log_loss": lost} for name, (accuracy, lost) in models.items()}
    return {
        "accuracy": right.bit_count() / 16,
        "right": f"{right:04x}",
        "test": 16,
        "seconds": 9.0,
        "fit_seconds": 8.0,
        "log_loss": loss,
        "calibration_error": 0.03,
        "serves": "kernels",
        "models": scores or {"kernels": {"accuracy": right.bit_count() / 16, "log_loss": loss}},
    }


def test_a_set_that_longer_time_harms_by_more_than_chance_is_named() -> None:
    """Eleven answers lost and none won has p = 2 / 2 ** 11, twice that with two sets; five lost may be chance."""
    table = {
        "CBF": {"fit 20 s": served("0001"), "fit 60 s": served("0fff"), "fit 300 s": served("0001")},
        "Worms": {"fit 20 s": served("0000"), "fit 60 s": served("001f")},
    }
    text = fit_page.chance_goal(table)
    assert text == "**no**: CBF at 60 s (11 right answers lost, 0 won, p 0.002)"
    text = fit_page.chance_goal({"Worms": table["Worms"]})
    assert text == "yes: 1 of 1 lower, the clearest Worms at 60 s (5 right answers lost, 0 won, p 0.062)"
    assert fit_page.chance_goal({"CBF": {"fit 20 s": served("0001")}}) == "\N{EM DASH}"


def test_the_goals_compare_what_is_served_with_the_models_of_the_same_fits() -> None:
    """kernels are the best on average (14 of 16); the best of each set are 15 and 16; what is served takes a third of that."""
    table = {
        "CBF": {"fit 60 s": served("0001", 0.30, kernels=(14 / 16, 0.30), network=(15 / 16, 0.20))},
        "Worms": {"fit 60 s": served("0003", 0.41, kernels=(14 / 16, 0.41), network=(4 / 16, 0.9), summary=(1.0, 0.4))},
    }
    assert fit_page.half_goal(table) == "**no**: +0.0312 of +0.0938 over `kernels` (33%)"
    assert fit_page.loss_goal(table) == "**no**: on 1 of 2; not CBF +50%"
    assert fit_page.calibration_goal(table) == "yes: 0.030"
    table["CBF"]["fit 60 s"] |= {"calibration_error": 0.09, "calibration_by_chance": 0.02}
    assert fit_page.calibration_goal(table) == "**no**: 0.060; on 1 sets 0.090, by chance alone 0.020: +0.070 above it"
    assert fit_page.published_goal(table).startswith("yes: 0.9062 against 0.8766, +0.030 [")
    lines = list(fit_page.served_lines(table))
    dash = "\N{EM DASH}"
    assert lines[0] == ["CBF", dash, dash, "kernels", dash, dash, "0.938", "0.938", "0.300", "0.200", "0.090", "0.020"]
    assert lines[1][-2:] == ["0.030", dash]


def test_right_probabilities_have_a_calibration_error_that_few_rows_make() -> None:
    """Of one bin it is the mean of |share of right answers - p|, which for a binomial of n is near (2 p (1 - p) / pi n) ** 0.5."""
    for n in (25, 400):
        chances = np.tile([0.1, 0.8, 0.1], (n, 1))
        assert fit_against.error_by_chance(chances) == pytest.approx((2 * 0.8 * 0.2 / np.pi / n) ** 0.5, rel=0.12)
    assert fit_against.error_by_chance(np.eye(3)) == 0


def test_a_control_has_the_labels_of_train_rows_dealt_anew_and_all_else_as_it_was(tmp_path: Path) -> None:
    for side, count in (("train", 40), ("test", 3)):
        rows = [f"{CLASSES[i % 2]}\tword {i}\tmore" for i in range(count)]
        (tmp_path / f"{side}.tsv").write_text("\n".join(["label\tsequence\tnote", *rows]) + "\n")
    paths = tmp_path / "train.tsv", tmp_path / "test.tsv"
    dataset = fit_against.shuffled(Set("words", "text", lambda _: (*paths, None), LayoutSpec(target="label")))
    train, test = harness.files_of(dataset, tmp_path)
    assert (dataset.name, test) == ("words, labels shuffled", paths[1])
    before, after = ([line.split("\t", 1) for line in path.read_text().splitlines()] for path in (paths[0], train))
    assert [line[1] for line in before] == [line[1] for line in after]
    assert after[0] == before[0]
    assert sorted(after) != sorted(before)
    assert sorted(line[0] for line in before) == sorted(line[0] for line in after)


def test_a_line_of_the_control_stands_beside_the_commonest_class() -> None:
    models = {name: {"accuracy": accuracy, "log_loss": 0.7} for name, accuracy in (("kernels", 0.5), ("majority", 0.4))}
    row = served("00ff") | {"set": fit_page.CONTROL[0], "given": 20.0, "models": models, "says": "None leads. More."}
    lines = fit_page.control_lines([row, row | {"set": "CBF"}])
    assert lines[2:] == ["| SyntheticControl | 20 s | kernels | 0.500 | 0.400 | 0.300 | 0.700 | 0.030 | None leads |"]
    assert fit_page.control_lines([]) == []


def test_longer_time_helps_where_an_interval_over_sets_is_clear_of_0() -> None:
    wrong = {"CBF": "00ff", "Worms": "01ff", "FaceAll": "0fff"}
    table = {
        name: {"fit 20 s": served(text, 0.9), "fit 60 s": served(text, 0.8), "fit 300 s": served("0001", 0.2)}
        for name, text in wrong.items()
    }
    assert fit_page.longer_goal(table).startswith("yes: accuracy 0.396, 0.396, 0.938, +0.542 [+")
    for row in table.values():
        row["fit 300 s"] = row["fit 20 s"]
    assert fit_page.longer_goal(table).startswith("undecided: ")
    few = {name: table[name] for name in ("CBF", "Worms")}
    assert fit_page.longer_goal(few) == "too few sets have all of these times (2)"
    drawn = fit_page.picture(table)
    assert [f"<title>{name}</title>" in drawn for name in (*wrong, "mean", "films")] == [True] * 4 + [False]


def test_a_set_stands_in_the_figure_at_the_times_that_it_was_measured_at() -> None:
    row = {"fit 60 s": served("0003"), "fit 20 s": served("0001")}
    assert [*fit_page.over_time(row)] == ["fit 20 s", "fit 60 s"]
    dash = "\N{EM DASH}"
    assert [*fit_page.time_lines({"CBF": row})] == [["CBF", dash, "0.938 (9 s)", "0.875 (9 s)", dash, dash]]
    drawn = fit_page.picture({"CBF": row, "Worms": {"fit 10 s": served("0"), "fit 20 s": served("0003")}})
    assert "1 set<" in drawn
    assert "mean \N{MINUS SIGN}0.062" in drawn, "as CBF's step from 20 s to 60 s"


def test_a_fit_by_the_processors_clock_is_given_it_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: begun.append(command))
    for wall in (True, False):
        with pytest.raises(FileNotFoundError):
            fit_against._fit(
                Set("words", "text", lambda _: (tmp_path / "a.csv", tmp_path / "b.csv", None), LayoutSpec()),
                tmp_path,
                fit_against.Methods(10, tmp_path, wall=wall),
            )
    assert [command[1:3] for command in begun[::2]] == [["-m", "headstart"], ["-c", harness.CLOCK]]
    assert all(command[1:3] == ["-m", "headstart"] for command in begun[1::2])


def test_rows_of_a_set_method_and_time_take_the_place_of_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit_page, "PAGE", tmp_path / "fit.md")
    monkeypatch.setattr(fit_page, "publish", lambda _: None)
    rows = [{"set": "CBF", "method": "fit", "given": seconds, "seed": 0} for seconds in (60.0, 20.0)]
    fit_page.gather([*rows, {"set": "CBF", "method": "quant", "seed": 0}])
    fit_page.gather([rows[0] | {"accuracy": 1.0}])
    after = json.loads((tmp_path / "fit.json").read_text())
    assert [(row["method"], row.get("given"), "accuracy" in row) for row in after] == [
        ("fit", 20.0, False),
        ("fit", 60.0, True),
        ("quant", None, False),
    ]


def test_what_others_published_stands_beside_and_is_no_rival_where_it_is_of_other_splits() -> None:
    table = {
        name: {"fit 60 s": served(wrong)} for name, wrong in (("Worms", "000f"), ("FaceAll", "000f"), ("waves", "0"))
    }
    lines = {line[0]: line[1:] for line in fit_page.against_each(table, [])}
    assert lines["HIVE-COTE 2, published"][:2] == ["2", "0 / 0 / 2"]
    assert not any("MultiRocket-Hydra" in name for name in lines)
    head, _, *rows = fit_page._lines(table, [])
    assert head.endswith("| QUANT, published | MultiRocket-Hydra, 30 other splits |")
    assert {row.count("\N{EM DASH}") for row in rows if "waves" in row} == {5}
    sets = {name for part in fit_page.PARTS for name in fit_page.sets_of(part)}
    for published in fit_page.as_published().values():
        assert {name for name, value in published.items() if isinstance(value, float)} < sets
