"""The estimators: scikit-learn's own checks, and sequences of every shape."""

import pickle
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from support.thinned import thinned

from headstart import BadInput, SequenceClassifier, SequenceRegressor
from headstart.data import LayoutSpec, read_sequences
from headstart.estimator.inputs import fit_settings, workers_of
from headstart.fit.perform import fit_sequences
from headstart.request.settings import FitSettings
from headstart.serve.folder import save_model

QUICK = {"epochs": 1, "pretrain_epochs": 1, "seeds": 1, "learning_rates": (3e-3,)}
EXPECTED = {"check_class_weight_classifiers": "weights by class are None or 'balanced', no table of numbers"}
CLOSE = estimator_checks.assert_allclose
LAYOUT = LayoutSpec()
FINE, WET = ("warm", "bright", "sun", "a fine day"), ("cold", "rain", "wind", "fog again")


@pytest.fixture(autouse=True, scope="module")
def _few_kernels():
    """A hundred kernel features for ten thousand: these tests are of data and manners, not of scores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headstart.baselines.kernels.FEATURES", 84)
        yield


def waves(n=24, lengths=(20, 20), channels=1, seed=0):
    """Slow and fast sine waves, and their classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    made = []
    for wave in y:
        steps = np.arange(rng.integers(lengths[0], lengths[1] + 1))[:, None] + rng.uniform(0, 9, channels)
        made.append(np.sin(steps * (0.3 + 0.9 * wave)) + rng.normal(0, 0.1, steps.shape))
    return [wave[:, 0] if channels == 1 else wave for wave in made], y


def bits(n=24):
    """Rows of noughts and ones, and whether they begin with a one."""
    rows = np.random.default_rng(0).integers(0, 2, (n, 12))
    return rows.tolist(), rows[:, 0].tolist()


def quick(**more):
    return SequenceClassifier(**{**QUICK, **more})


@pytest.fixture(scope="module")
def fitted():
    X, y = waves()
    return quick().fit(np.array(X), np.where(y, "fast", "slow"))


# Of the checks that fit, three run every day, of a regressor the last: it is pickled, answers a part as the whole, and
# fits again alike.
FITS_EVERY_DAY = ("check_estimators_pickle", "check_methods_subset_invariance", "check_fit_idempotent")
WITHOUT_A_FIT = re.compile(
    "tags_renamed|valid_tag|sparse|in_init|repr|cloneable|unfitted|empty_data|complex|mixin|one_label|init_or_set|array_api|constructible"
    "|get_params|set_params"
)


def checks():
    """Each check of scikit-learn, slow where it fits and does not run every day."""
    for estimator, failing in ((SequenceClassifier(**QUICK), EXPECTED), (SequenceRegressor(**QUICK), {})):
        for _, check in estimator_checks.estimator_checks_generator(estimator):
            name = check.func.__name__
            daily = FITS_EVERY_DAY if isinstance(estimator, SequenceClassifier) else FITS_EVERY_DAY[-1:]
            marks = [] if name in daily or WITHOUT_A_FIT.search(name) else [pytest.mark.slow]
            if name in failing:
                marks.append(pytest.mark.xfail(reason=failing[name], strict=True))
            yield pytest.param(clone(estimator), check, marks=marks, id=f"{type(estimator).__name__}-{_named(check)}")


def _named(check):
    return "-".join([check.func.__name__, *(f"{key}={value}" for key, value in check.keywords.items())])


@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_it_behaves_as_scikit_learn_asks(estimator, check, monkeypatch):
    if check.func is estimator_checks.check_methods_subset_invariance:
        # Embeddings are float32: sums of numbers around 1, whose order a batch's size changes on some processors,
        # agree to 1e-6 and not to the 1e-7 that this check asks of numbers near 0.
        monkeypatch.setattr(estimator_checks, "assert_allclose", _to_single_precision)
    check(estimator)


def _to_single_precision(actual, desired, rtol=None, atol=0.0, **more):
    CLOSE(actual, desired, rtol=rtol, atol=max(atol, 1e-6), **more)


def test_it_learns_and_says_so(capsys):
    X, y = waves(60)
    made = quick().fit(np.array(X), y)
    X, y = waves(40, seed=1)
    assert made.score(np.array(X), y) > 0.9
    assert made.outcome_.answer
    assert made.outcome_.served is made.served_
    assert capsys.readouterr() == ("", "")


def test_importing_it_does_not_wait_for_torch():
    code = "import sys; from headstart import SequenceClassifier as C; C(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_sequences_may_have_any_lengths_in_the_fit_and_after_it():
    X, y = waves(lengths=(8, 30))
    made = quick().fit(X, y)
    assert not hasattr(made, "n_features_in_")
    assert made.predict([np.ones(3), np.ones(60)]).shape == (2,)
    assert made.predict(np.ones((2, 5))).shape == (2,)


def test_an_array_of_another_length_is_refused_and_a_list_is_not(fitted):
    X = np.ones((3, 12))
    with pytest.raises(BadInput, match=r"X has 12 features, but SequenceClassifier is expecting 20.*give a list"):
        fitted.predict(X)
    for sequences in (list(X), X.tolist()):
        with pytest.warns(UserWarning, match=r"look unlike those of the fit.* the length \(mean 12, in the fit 20 "):
            assert fitted.predict(sequences).shape == (3,)


def test_several_channels_are_the_last_axis_or_the_first():
    X, y = waves(channels=3)
    last, first = np.array(X), np.array(X).swapaxes(1, 2)
    made, turned = quick().fit(last, y), quick(channels_first=True).fit(first, y)
    assert made.n_features_in_ == turned.n_features_in_ == 3
    np.testing.assert_array_equal(made.predict_proba(last), turned.predict_proba(first))
    np.testing.assert_array_equal(made.predict_proba(last), made.predict_proba(X))
    np.testing.assert_array_equal(made.predict_proba(last), turned.predict_proba([row.T for row in X]))
    with pytest.raises(BadInput, match="has 2 channels"):
        made.predict(last[:, :, :2])


def test_a_table_is_read_by_the_names_of_its_columns(fitted):
    pandas = pytest.importorskip("pandas")
    X, y = waves()
    table = pandas.DataFrame(np.array(X), columns=[f"t{i}" for i in range(20)])
    made = quick().fit(table, pandas.Series(np.where(y, "fast", "slow")))
    assert (made.n_features_in_, list(made.feature_names_in_)) == (20, list(table.columns))
    np.testing.assert_allclose(made.predict_proba(table), fitted.predict_proba(np.array(X)), atol=1e-6)
    np.testing.assert_array_equal(made.predict_proba(table[table.columns[::-1]]), made.predict_proba(table))
    with pytest.raises(BadInput, match=r"no column is like 't\*'"):
        made.predict(table.rename(columns=lambda name: name.replace("t", "u")))


def test_texts_are_read_letter_by_letter():
    pandas = pytest.importorskip("pandas")
    rng, y = np.random.default_rng(0), [0, 1] * 10
    texts = [" and ".join(rng.choice(WET if row else FINE, rng.integers(3, 7)).tolist()) for row in y]
    made = quick().fit(texts, y)
    assert made.served_.config.preparation.kind == "text"
    for alike in (np.array(texts), np.array(texts, dtype=object), pandas.Series(texts)):
        np.testing.assert_array_equal(made.predict_proba(alike), made.predict_proba(texts))


def test_lists_of_words_are_tokens_and_whole_numbers_are_numbers_unless_asked():
    few, y = bits()
    made = quick().fit([["up" if number else "down" for number in row] for row in few], y)
    assert made.served_.config.preparation.symbols == ("down", "up")
    assert quick().fit(few, y).served_.config.preparation.kind == "numbers"
    asked = quick(kind="tokens").fit(few, y)
    assert asked.served_.config.preparation.symbols == ("0", "1")
    assert asked.predict(few[:2]).shape == (2,)


def test_few_values_in_a_table_stay_numbers_too():
    pandas = pytest.importorskip("pandas")
    few, y = bits()
    assert quick().fit(pandas.DataFrame(few).add_prefix("t"), y).served_.config.preparation.kind == "numbers"


def test_missing_values_are_unobserved():
    X, y = waves(channels=2)
    X = np.array(X)
    X[::3, 4:7, 1] = np.nan
    made = quick(serve="network").fit(X, y)
    assert made.served_.config.preparation.missing
    zero = np.where(np.isnan(X), 0, X)
    assert np.abs(made.predict_proba(X) - made.predict_proba(zero))[::3].max() > 0
    assert np.isfinite(made.predict_proba(X)).all()


def test_none_in_a_list_is_a_missing_value():
    X, y = waves()
    rows = [[None if i == 3 else value for i, value in enumerate(row)] for row in X]
    assert quick().fit(rows, y).served_.config.preparation.missing


def test_sequences_without_labels_join_the_training_rows():
    X, y = waves()
    alone = quick().fit(X, y).outcome_.sizes
    more = quick().fit(X, y, X_unlabelled=waves(10, (5, 40), seed=3)[0]).outcome_.sizes
    assert more["train"] == alone["train"] + 10
    assert more["labelled"] == alone["labelled"]
    with pytest.raises(BadInput, match=r"X_unlabelled: holds numbers in 2 channels, X numbers in 1; give the same"):
        quick().fit(X, y, X_unlabelled=np.zeros((10, 40, 2)))
    with pytest.raises(BadInput, match=r"give those in X_unlabelled"):
        quick().fit(X, ["a", None] * 12)
    with pytest.raises(BadInput, match=r"give those in X_unlabelled"):
        quick().fit(X, pd.array(["a", "b", pd.NA] * 8))


def test_a_group_is_whole_on_one_side():
    X, y = waves()
    assert quick().fit(X, y, groups=np.arange(24) // 4).outcome_.sizes["val"] % 4 == 0
    with pytest.raises(BadInput, match="group"):
        quick().fit(X, y, groups=["one"] * 24)
    with pytest.raises(BadInput, match="groups: has 3 entries for 24"):
        quick().fit(X, y, groups=[1, 2, 3])


@pytest.mark.parametrize(
    "labels",
    thinned(
        [
            np.array([3, -10]),
            np.array([2.0, 11.0]),
            np.array([True, False]),
            np.array(["b", "a"], dtype=object),
            np.array(["1", "1.0"]),
            np.array(["nan", " x"]),
            np.array(["=1+1", "[red]\N{GRINNING FACE}"]),
            np.array([10, 9], dtype=np.uint8),
        ],
        3,
    ),
    ids=repr,
)
def test_labels_keep_their_type_and_survive_a_folder(labels, tmp_path):
    X, y = waves()
    made = quick().fit(X, labels[y])
    np.testing.assert_array_equal(made.classes_, np.unique(labels))
    assert made.classes_.dtype == labels.dtype
    assert made.predict(X).dtype == labels.dtype
    made.save_pretrained(tmp_path)
    loaded = SequenceClassifier.from_pretrained(tmp_path)
    assert loaded.classes_.tolist() == made.classes_.tolist()
    assert loaded.predict(X).tolist() == made.predict(X).tolist()
    np.testing.assert_array_equal(loaded.predict_proba(X), made.predict_proba(X))


def test_columns_of_probabilities_follow_the_classes():
    X, y = waves(60)
    made = quick().fit(X, np.array([10, 9])[y])  # as texts '10' stands before '9'
    assert made.classes_.tolist() == [9, 10]
    assert (made.predict_proba(X)[:, 0] > 0.5).tolist() == (made.predict(X) == 9).tolist()
    assert made.score(X, np.array([10, 9])[y]) > 0.9


def test_rare_classes_weigh_the_same_where_that_is_asked():
    X, y = waves(40)
    rare = [i for i in range(40) if not y[i] or i < 16]
    made = quick(class_weight="balanced", test_fraction=0.25).fit([X[i] for i in rare], y[rare])
    assert made.outcome_.metric == "weighted_accuracy"
    assert made.outcome_.sizes["test"] == len(made.outcome_.test.target) == 7


def test_numbers_come_back_in_their_own_unit(tmp_path):
    X, y = waves(40)
    target = 1e4 + 500 * y
    made = SequenceRegressor(**QUICK).fit(X, target)
    assert made.score(X, target) > 0.5
    assert 9e3 < made.predict(X).mean() < 1.1e4
    made.save_pretrained(tmp_path)
    np.testing.assert_array_equal(SequenceRegressor.from_pretrained(tmp_path).predict(X), made.predict(X))
    with pytest.raises(BadInput, match="predicts numbers; load it with SequenceRegressor"):
        SequenceClassifier.from_pretrained(tmp_path)


def test_a_folder_holds_model_and_card_and_serves_alike(fitted, tmp_path):
    X = np.array(waves(seed=5)[0])
    fitted.save_pretrained(tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"config.json", "model.safetensors", "README.md"}
    loaded = SequenceClassifier.from_pretrained(str(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_array_equal(loaded.transform(X), fitted.transform(X))
    loaded.save_pretrained(tmp_path / "again")
    row, other = (tmp_path / name / "model.safetensors" for name in ("model", "again"))
    assert row.read_bytes() == other.read_bytes()
    with pytest.raises(BadInput, match="predicts classes; load it with SequenceClassifier"):
        SequenceRegressor.from_pretrained(tmp_path / "model")


def test_a_model_of_arrays_serves_a_file_of_columns(fitted, tmp_path):
    X = np.array(waves(4)[0])
    rows = [",".join(["name", *(f"v{i}" for i in range(20))])]
    rows += [f"s{i}," + ",".join(map(repr, map(float, row))) for i, row in enumerate(X)]
    (tmp_path / "new.csv").write_text("\n".join(rows) + "\n")
    s = read_sequences(tmp_path / "new.csv", fitted.served_.config.layout)
    np.testing.assert_allclose(fitted.served_.predict(s)[:, 0], fitted.predict_proba(X)[:, 0], atol=1e-6)


def test_a_model_of_a_file_serves_arrays_and_lists(tmp_path):
    X, y = waves()
    rows = [",".join(["kind", *(f"t{i}" for i in range(20))])]
    rows += [",".join([("slow", "fast")[k], *map(repr, map(float, row))]) for row, k in zip(X, y, strict=True)]
    (tmp_path / "train.csv").write_text("\n".join(rows) + "\n")
    settings = FitSettings(time=None, seeds=(0,), rates=(3e-3,), epochs=1, pretrain_epochs=1)
    outcome = fit_sequences(tmp_path / "train.csv", settings, store=tmp_path / "store")
    save_model(outcome.served, tmp_path / "model")
    loaded = SequenceClassifier.from_pretrained(tmp_path / "model")
    assert loaded.classes_.tolist() == ["fast", "slow"]
    assert not hasattr(loaded, "outcome_")
    np.testing.assert_array_equal(loaded.predict_proba(np.array(X)), loaded.predict_proba(X))
    with pytest.warns(UserWarning, match="look unlike those of the fit"):
        assert set(loaded.predict([np.ones(7)])) <= {"fast", "slow"}


def test_the_model_that_was_asked_for_predicts_and_the_network_embeds(fitted):
    X = np.array(waves(6)[0])
    made = quick(serve="majority").fit(*waves())
    assert made.served_.config.serve == "majority"
    assert np.ptp(made.predict_proba(X), axis=0).max() == 0
    assert made.transform(X).shape == (6, len(made.get_feature_names_out()))
    assert made.transform(X).dtype == np.float32
    assert made.get_feature_names_out()[0] == "sequenceclassifier0"


def test_embeddings_can_be_a_table(fitted):
    pytest.importorskip("pandas")
    table = clone(fitted).set_output(transform="pandas").fit_transform(*waves())
    assert table.shape == (24, 32)
    assert table.columns[-1] == "sequenceclassifier31"


@pytest.mark.slow
def test_it_is_searched_and_piped_as_any_estimator():
    X, y = waves()
    search = GridSearchCV(quick(pretrain=False), {"learning_rates": [(1e-3,), 3e-3]}, cv=2, error_score="raise")
    search.fit(waves(lengths=(10, 30))[0], y)
    assert search.best_params_["learning_rates"] in ((1e-3,), 3e-3)
    piped = make_pipeline(StandardScaler(), quick())
    assert cross_val_score(piped, np.array(X), y, cv=2, error_score="raise").shape == (2,)


def test_a_fit_is_pickled_and_cloned(fitted):
    X = np.array(waves(6)[0])
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.outcome_.answer == fitted.outcome_.answer
    fresh = clone(fitted)
    assert fresh.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    for method in ("transform", "save_pretrained", "push_to_hub"):
        with pytest.raises(NotFittedError):
            getattr(fresh, method)("x")


def test_the_random_state_decides_splits_and_seeds():
    assert fit_settings(quick(), LAYOUT).seeds == (0,)
    settings = fit_settings(SequenceClassifier(random_state=7, seeds=2), LAYOUT)
    assert (settings.seeds, settings.split_seed) == ((14, 15), 7)
    drawn = [fit_settings(quick(random_state=np.random.RandomState(3)), LAYOUT).seeds for _ in range(2)]
    assert drawn[0] == drawn[1] != (0,)
    X, y = waves()
    model, same, other = (quick(random_state=seed).fit(X, y).transform(X) for seed in (None, 0, 1))
    np.testing.assert_array_equal(model, same)
    assert np.abs(model - other).max() > 1e-3


def test_nothing_is_left_behind_unless_a_store_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    X, y = waves()
    quick(store="kept").fit(X, y)
    stages = sorted((tmp_path / "kept").rglob("*.safetensors"))
    assert stages
    before = [path.stat().st_mtime_ns for path in stages]
    quick(store="kept").fit(X, y)
    assert [path.stat().st_mtime_ns for path in stages] == before
    quick().fit(X, y)
    assert {path.name for path in tmp_path.iterdir()} == {"temporary", "kept"}
    assert not list((tmp_path / "temporary").iterdir())


def test_one_process_trains_unless_more_are_asked_for(monkeypatch):
    monkeypatch.setattr("headstart.limits.cores", lambda: 4)
    counts = [workers_of(n) for n in (None, 0, 1, 2, -1, -2, -4, -9)]
    assert counts == [0, 0, 0, 2, None, 3, 0, 0], "all cores are as many processes as memory has room for, too"


@pytest.mark.parametrize(
    ("setting", "value", "text"),
    [
        ("seeds", 0, "seeds: 0 is not a number of networks"),
        ("class_weight", {0: 1}, "class_weight: .* is neither None nor 'balanced'"),
        ("validation_fraction", 0, "validation_fraction: 0 is not a share of the rows"),
        ("test_fraction", 1.0, "test_fraction: 1.0 is not a share of the rows"),
        ("learning_rates", (0.0,), r"learning_rates: \[0.0\] must be numbers above 0"),
        ("learning_rates", "fast", "learning_rates: 'fast' is not a number"),
        ("kind", "number", "kind: 'number' should be 'auto', 'numbers', 'text', 'dna', 'protein' or 'tokens'"),
        ("serve", "kernel", "serve: no 'kernel'; did you mean 'kernels'"),
        ("time", "long", "'long' is not a time; give one such as 90s"),
        ("time", [5], r"time: \[5\] is not a number"),
        ("epochs", "many", "epochs: 'many' is not a number"),
        ("n_jobs", 1.5, "n_jobs: 1.5 is not a number of processes"),
        ("device", "tpu", "'tpu' is none of auto, cpu, cuda"),
    ],
)
def test_a_wrong_setting_is_named(setting, value, text):
    with pytest.raises(BadInput, match=text):
        quick(**{setting: value}).fit(*waves())


@pytest.mark.parametrize(
    ("X", "text"),
    [
        ("train.csv", "X: is str, no data in memory"),
        (Path("train.csv"), "Path, no data in memory"),
        ([[1.0, 2.0], [1.0, [2.0]]], r"X\[1\]|row 2|X:2"),
        ([[1.0, 2.0], []] * 2, "the sequence is empty; leave the row out"),
        ([[1.0, 2.0, 3.0], {"a": 1}] * 2, "of type dict, no sequence of numbers"),
        ([[1.0, np.inf], [2.0]] * 2, "infinite"),
        ([[1.0, 2.0]], "1 sample"),
        ([], "is empty; give at least one sequence"),
        (np.ones((2, 3, 4, 5)), r"has shape \(2, 3, 4, 5\); give"),
        (np.array([[1.0, np.inf], [2.0, 3.0]]), "contains infinity"),
    ],
)
def test_data_that_are_no_sequences_are_named(X, text):
    y = [0, 1, 0, 1][: len(X)] if isinstance(X, (list, np.ndarray)) and len(X) else [0, 1]
    y = np.array([0.5]) if len(y) == 1 else np.array(y)
    fresh = quick() if len(y) > 1 else SequenceRegressor(**QUICK)
    with pytest.raises(ValueError, match=text):
        fresh.fit(X, y)


@pytest.mark.parametrize("estimator", [SequenceClassifier, SequenceRegressor])
def test_several_targets_of_a_sequence_are_refused_with_what_to_do(estimator: type) -> None:
    with pytest.raises(BadInput, match=r"y: holds 0 sample\(s\), so that there is nothing to fit"):
        SequenceClassifier(**QUICK).fit([], [])
    with pytest.raises(BadInput, match=r"y: has 3 targets for each sequence; fit one estimator on each column of y"):
        estimator().fit(np.zeros((6, 4)), np.eye(6, 3))


def long_table(descending=False):
    """A row per position of `waves`, and the classes by id."""
    X, y = waves()
    frames = {i: pd.DataFrame({"x": values}) for i, values in enumerate(X)}
    table = pd.concat(frames, names=["id", "time"]).reset_index()
    return table.sort_values(["id", "time"], ascending=[not descending, True]), pd.Series(y)


def test_labels_of_a_long_table_follow_its_ids_in_fit_and_score():
    (table, y), (turned, _) = long_table(), long_table(descending=True)
    model = quick(serve="summary", pretrain=False).fit(turned, y)
    assert model.score(table, y) == model.score(turned, y) == model.score(turned, y[::-1]) > 0.9
    assert model.predict(turned).tolist() == model.predict(table)[::-1].tolist()
    with pytest.warns(UserWarning, match=r"X: these sequences look unlike .* the step of time \(mean 2, in the fit 1 "):
        model.predict(table.assign(time=2 * table["time"]))
    for labels in (y.to_list(), y.to_numpy()):
        with pytest.raises(BadInput, match="give a series of pandas whose index holds these ids, or a dict of them"):
            quick().fit(turned, labels)


def test_arrays_with_the_channels_first_are_noticed():
    X, y = waves(channels=2)
    turned = np.stack(X).swapaxes(1, 2)
    for data in (turned, list(turned)):
        with pytest.warns(UserWarning, match="X: read as channels by positions, .*layout={'time_axis': 'first'}"):
            model = quick(serve="summary", pretrain=False).fit(data, y)
        assert model.n_features_in_ == 2
        assert model.predict(data).tolist() == model.predict(data[:20]).tolist() + model.predict(data[20:]).tolist()
    with pytest.raises(BadInput, match=r"turn each from \(positions, channels\) to \(channels, positions\)$"):
        model.predict(turned.swapaxes(1, 2))
    with pytest.raises(BadInput, match="whose sizes do not tell which axis is time"):
        quick(serve="summary", pretrain=False).fit(turned[:, :, :5], y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick(serve="summary", pretrain=False, channels_first=True).fit(turned, y)


def test_one_hot_targets_are_told_and_one_class_is_named_plainly() -> None:
    x = np.random.default_rng(0).normal(size=(12, 8))
    with pytest.raises(BadInput, match=r"y: is one-hot, a column for each class; give the classes, such as np.argmax"):
        SequenceClassifier(**QUICK).fit(x, np.eye(2)[np.arange(12) % 2])
    with pytest.raises(BadInput, match=r"y: holds one class, 'a', in 12 rows"):
        SequenceClassifier(**QUICK).fit(x, np.array(["a"] * 12))


def test_messages_of_predictions_name_no_option_of_the_command_line() -> None:
    x = np.random.default_rng(0).normal(size=(24, 8))
    model = SequenceClassifier(**(QUICK | {"serve": "summary"})).fit(list(x), np.arange(24) % 2)
    with pytest.raises(BadInput, match=r"turn each from \(channels, positions\) to \(positions, channels\)$"):
        model.predict(x[:4, None, :])
    with pytest.raises(BadInput, match=r"give the same ones$"):
        model.predict([np.zeros((8, 2))])
    with pytest.raises(BadInput, match=r"^time: 'soon' is not a time"):
        SequenceClassifier(time="soon").fit(x, np.arange(24) % 2)


def test_what_cannot_be_fitted_is_said_of_labels_and_columns_and_of_no_setting_of_a_task() -> None:
    x = np.random.default_rng(0).normal(size=(40, 20))
    with pytest.warns(UserWarning, match="unique classes"), pytest.raises(BadInput, match=r"^y: each of 40 c"):
        SequenceClassifier(time="5s").fit(x, [f"i{i}" for i in range(40)])
    with pytest.raises(BadInput, match=r"^X: is a dict whose 'a' is no column; give a list or an array for each"):
        SequenceClassifier(time="5s").fit({"a": 1}, ["a", "b"])


def test_a_split_that_cannot_be_drawn_names_arguments_that_the_estimators_have() -> None:
    X, y = np.random.default_rng(0).normal(size=(12, 6)), ["a", "b"] * 6
    for groups, text in ((["p"] * 12, "give different groups, or no groups"), (y, "validation_fraction: 0.2 of 12")):
        with pytest.raises(BadInput, match=text) as caught:
            SequenceClassifier(time=1).fit(X, y, groups=groups)
        assert not re.search("by_group|task|_share", str(caught.value))
