"""What every classic model promises, looped over the table and over kinds of data."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pytest
from safetensors.numpy import load, save
from sklearn.metrics import accuracy_score, r2_score
from support.made_series import signature, waves, words
from support.made_tasks import MadeSpec
from threadpoolctl import ThreadpoolController, threadpool_limits

from headstart.baselines import Fitted, FittedFacts, from_arrays, products, shapes, trivial
from headstart.baselines import fitting as contract
from headstart.baselines.features import Features
from headstart.baselines.fitting import FittedSpec, Shapes, by_pieces
from headstart.baselines.kernels import KernelsSpec
from headstart.baselines.linear import LinearSpec, PenalisedSpec
from headstart.baselines.measures import balanced_weights, fit_temperature, log_loss, softmax
from headstart.baselines.ngrams import NgramsSpec
from headstart.baselines.summary import SummarySpec
from headstart.baselines.trivial import MajoritySpec, NearestSpec
from headstart.errors import BadInput
from headstart.models import MODELS
from headstart.sequence import IGNORE, Examples, Signature
from headstart.spec import Entry
from headstart.tasks.task import Task, open_task

FEATURES = 84 * 12
MADE = {
    "class": MadeSpec(),
    "gaps": MadeSpec(gaps=True),
    "numbers": MadeSpec(shape="numbers"),
    "pairs": MadeSpec(shape="pairs"),
    "tokens": MadeSpec(tokens=True),
    "token pairs": MadeSpec(tokens=True, shape="pairs"),
    "token numbers": MadeSpec(tokens=True, shape="numbers"),
}


KINDS: dict[str, FittedSpec] = {
    "majority": MajoritySpec(),
    "nearest": NearestSpec(),
    "linear": LinearSpec(),
    "summary": SummarySpec(),
    "kernels": KernelsSpec(features=FEATURES),
}
"""Every kind that takes floats and tokens, with fewer kernels than usual."""


def fit(method: str, train: Examples, val: Examples, of: Signature, balanced: bool = False) -> Fitted:
    weights = balanced_weights(train.target, of.classes) if balanced and train.target is not None else None
    return KINDS[method].fit(train, val, of, 0, weights)


def made(name: str) -> Task:
    return open_task(MADE[name], Path("nowhere"))


@pytest.mark.parametrize("method", KINDS)
@pytest.mark.parametrize("name", MADE)
def test_predictions_have_the_shape_of_the_task_and_come_back_from_a_file_bit_for_bit(method: str, name: str) -> None:
    task = made(name)
    fitted = fit(method, task.train, task.val, task.signature)
    predicted = fitted.predict(task.test)
    if name.endswith("numbers"):
        assert predicted.shape == (16, 2)
    else:
        assert predicted.shape == (task.test.units, 2)
        assert predicted.sum(axis=1) == pytest.approx(np.ones(task.test.units))
        assert predicted.min() >= 0
    assert np.isfinite(predicted).all()
    facts = json.loads(json.dumps(fitted.facts.model_dump(mode="json"), allow_nan=False))
    arrays = load(save(fitted.arrays()))
    assert {k: (v.dtype.name, v.shape) for k, v in arrays.items()} == shapes(facts)
    assert np.array_equal(from_arrays(facts, arrays).predict(task.test), predicted)


@pytest.mark.parametrize("method", KINDS)
@pytest.mark.parametrize("name", MADE)
def test_the_same_fit_gives_the_same_bits(method: str, name: str) -> None:
    task = made(name)
    first, two = (fit(method, task.train, task.val, task.signature).arrays() for _ in range(2))
    assert all(np.array_equal(first[k], two[k]) for k in first)


@pytest.mark.parametrize("method", KINDS)
def test_order_and_company_of_predicted_sequences_do_not_matter(method: str) -> None:
    task = made("gaps")
    fitted = fit(method, task.train, task.val, task.signature)
    predicted, order = fitted.predict(task.test), np.random.default_rng(0).permutation(16)
    assert fitted.predict(task.test.take(order)) == pytest.approx(predicted[order], abs=1e-9)
    assert fitted.predict(task.test.take(np.array([3]))) == pytest.approx(predicted[3:4], abs=1e-9)


@pytest.mark.parametrize("method", ["summary", "kernels"])
@pytest.mark.parametrize("channels", [1, 3])
def test_the_speed_of_waves_is_told_from_its_sequences(method: str, channels: int) -> None:
    train, val, test = waves(90, 0, channels=channels), waves(45, 1, channels=channels), waves(90, 2, channels=channels)
    of = signature("waves", channels=channels)
    predicted = fit(method, train, val, of).predict(test)
    assert accuracy_score(test.target, predicted.argmax(1)) > 0.85
    majority = fit("majority", train, val, of).predict(test)
    assert log_loss(test.target, predicted) < 0.6 < log_loss(test.target, majority)


@pytest.mark.parametrize("method", ["summary", "kernels"])
def test_numbers_are_predicted_in_their_own_unit(method: str) -> None:
    train, val, test = (waves(n, s, numbers=True) for n, s in ((120, 0), (40, 1), (80, 2)))
    predicted = fit(method, train, val, signature("numbers")).predict(test)
    assert predicted.shape == (80,)
    assert r2_score(test.target, predicted) > 0.6


@pytest.mark.parametrize("method", ["summary", "kernels"])
@pytest.mark.parametrize("length", [None, 20])
def test_a_run_of_tokens_is_found_wherever_it_stands(method: str, length: int | None) -> None:
    train, val, test = (words(n, s, length) for n, s in ((200, 0), (80, 1), (150, 2)))
    predicted = fit(method, train, val, signature("words")).predict(test)
    assert accuracy_score(test.target, predicted.argmax(1)) > 0.75


def test_a_token_that_tells_by_its_place_alone_is_found_where_all_have_one_length() -> None:
    rng = np.random.default_rng(0)

    def placed(n: int) -> Examples:
        target = rng.integers(0, 2, n)
        values = rng.integers(0, 4, (n, 15))
        values[:, 6], values[:, 9] = target, 1 - target
        return Examples(values.reshape(-1), np.arange(n + 1) * 15, target, np.arange(n))

    of = Signature("tokens", 4, 15, 15, "class", 2)
    test = placed(100)
    fitted = fit("kernels", placed(100), placed(50), of)
    assert fitted.facts.sizes["placed"] == 15
    assert accuracy_score(test.target, fitted.predict(test).argmax(1)) > 0.95


def test_the_majority_is_the_share_of_the_labelled_train_rows() -> None:
    train, val = waves(4, 0), waves(4, 1)
    train = replace(train, target=np.array([1, IGNORE, 1, 0]))
    fitted = fit("majority", train, val, signature("waves"))
    assert fitted.predict(val)[0] == pytest.approx([1 / 3, 2 / 3, 0])
    numbers = replace(train, target=np.array([1.0, np.nan, 2, 6], dtype=np.float32))
    assert fit("majority", numbers, val, signature("numbers")).predict(val).tolist() == [3.0] * 4


@pytest.mark.parametrize("method", ["majority", "summary"])
def test_a_row_without_a_label_teaches_nothing_of_labels(method: str) -> None:
    train, val = waves(60, 0), waves(30, 1)
    hidden = train.target.copy()
    hidden[::3] = IGNORE
    first = fit(method, replace(train, target=hidden), val, signature("waves")).predict(val)
    other = np.where(hidden == IGNORE, 0, hidden)
    assert not np.allclose(first, fit(method, replace(train, target=other), val, signature("waves")).predict(val))
    assert first.shape == (30, 3)


def test_kernels_of_rows_without_labels_are_drawn_and_their_labels_never_asked_for() -> None:
    train, val = waves(60, 0), waves(30, 1)
    target = train.target.copy()
    target[::3] = IGNORE
    fitted = fit("kernels", replace(train, target=target), val, signature("waves"))
    assert accuracy_score(val.target, fitted.predict(val).argmax(1)) > 0.7


def test_the_temperature_of_probabilities_is_fitted_on_val() -> None:
    train, val = waves(90, 0), waves(90, 1)
    fitted = fit("summary", train, val, signature("waves"))
    plain = from_arrays({**fitted.facts.model_dump(mode="json"), "temperature": 1.0}, fitted.arrays())
    scores = np.log(plain.predict(val))
    assert fitted.facts.temperature == pytest.approx(fit_temperature(scores, val.target, smooth=True), rel=1e-6)
    assert fitted.predict(val) == pytest.approx(softmax(scores, fitted.facts.temperature), abs=1e-6)


@pytest.mark.parametrize("method", KINDS)
@pytest.mark.parametrize("kind", ["waves", "numbers", "words"])
def test_val_may_have_no_row_or_no_label(method: str, kind: str) -> None:
    make: Callable[[int, int], Examples] = words if kind == "words" else waves
    train, val = make(40, 0), make(10, 1)
    empty = np.full(10, np.nan if kind == "numbers" else IGNORE)
    if kind == "numbers":
        train = replace(train, target=train.target.astype(np.float32))
    for held in (val.take(np.zeros(0, dtype=np.int64)), replace(val, target=empty), replace(val, target=None)):
        predicted = fit(method, train, held, signature(kind)).predict(val)
        assert len(predicted) == 10
        assert np.isfinite(predicted).all()


@pytest.mark.parametrize("method", KINDS)
def test_train_may_show_one_class_only(method: str) -> None:
    train, val = waves(12, 0), waves(6, 1)
    train = replace(train, target=np.full(12, 2))
    predicted = fit(method, train, val, signature("waves")).predict(val)
    assert (predicted.argmax(1) == 2).all()


@pytest.mark.parametrize("method", ["summary", "kernels"])
def test_a_class_that_train_never_shows_is_never_predicted(method: str) -> None:
    train, val = waves(80, 0), waves(40, 1)
    units = np.flatnonzero(train.target != 1)
    predicted = fit(method, train.take(units), val, signature("waves")).predict(val)
    assert not (predicted.argmax(1) == 1).any()
    assert predicted[:, 1].min() > 0


@pytest.mark.parametrize("method", KINDS)
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_handful_of_rows_is_enough_to_fit(method: str, rows: int) -> None:
    train, val = waves(rows, 0), waves(3, 1)
    assert np.isfinite(fit(method, train, val, signature("waves")).predict(val)).all()


@pytest.mark.parametrize("method", ["summary", "kernels"])
def test_balanced_weights_find_more_of_a_rare_class(method: str) -> None:
    def noisy(n: int, seed: int) -> Examples:
        x, rng = waves(n, seed), np.random.default_rng(seed)
        units = np.flatnonzero((x.target != 1) | (np.arange(n) % 8 == 0))
        return replace(x, values=(x.values + rng.normal(size=x.values.shape)).astype(np.float32)).take(units)

    train, val, test = noisy(400, 0), noisy(200, 1), noisy(800, 2)
    result = []
    for balanced in (False, True):
        predicted = fit(method, train, val, signature("waves"), balanced=balanced).predict(test).argmax(1)
        result.append(float((predicted == 1)[test.target == 1].mean()))
    assert result[1] > result[0] + 0.1


@pytest.mark.parametrize("method", [name for name in KINDS if name != "majority"])
def test_train_without_a_label_is_refused(method: str) -> None:
    train = replace(waves(5, 0), target=np.full(5, IGNORE))
    with pytest.raises(BadInput, match=rf"model\.kind: no train example has a label for '{method}'; give some"):
        fit(method, train, train, signature("waves"))


@pytest.mark.parametrize("method", KINDS)
def test_a_target_per_position_or_none_is_refused(method: str) -> None:
    train = waves(5, 0)
    cases = {"per_position": "a target per position", "targets": "several classes", "target": "no target"}
    for name, predicted in cases.items():
        if method == "majority" and name != "target":
            continue
        changed = replace(signature("waves"), **{name: {"targets": 2, "target": "none"}.get(name, True)})  # type: ignore[arg-type]
        with pytest.raises(BadInput, match=rf"model\.kind: the task has {predicted}; '{method}' needs one"):
            fit(method, train, train, changed)


def test_the_majority_of_targets_per_position_is_one_of_each_target() -> None:
    values, target = np.zeros((12, 1), np.float32), np.array([[1, 0], [1, IGNORE], [0, 0], [IGNORE, 1]] * 3)
    x = Examples(values, np.arange(0, 13, 4), target, np.arange(3), per_position=True)
    of = Signature("floats", 1, 4, 4, "class", 2, targets=2, per_position=True)
    predicted = MajoritySpec().fit(x, x, of, 0).predict(x)
    assert predicted.shape == (12, 4)
    assert predicted[5] == pytest.approx([1 / 3, 2 / 3, 2 / 3, 1 / 3])


def test_ngrams_are_of_tokens_alone() -> None:
    predicted = NgramsSpec().fit(words(200, 0), words(80, 1), signature("words"), 0).predict(words(150, 2))
    assert accuracy_score(words(150, 2).target, predicted.argmax(1)) > 0.75
    with pytest.raises(BadInput, match="'ngrams' counts runs of tokens, the task has floats; use 'kernels'"):
        NgramsSpec().fit(waves(5, 0), waves(5, 1), signature("waves"), 0)


@pytest.mark.parametrize("method", ["linear", "summary", "kernels"])
@pytest.mark.parametrize("kind", ["waves", "numbers", "words"])
def test_a_penalty_that_is_given_is_the_one_in_force(method: str, kind: str) -> None:
    make: Callable[[int, int], Examples] = words if kind == "words" else waves
    train, val = make(40, 0), make(20, 1)
    if kind == "numbers":
        train = replace(train, target=train.target.astype(np.float32))
        val = replace(val, target=val.target.astype(np.float32))
    spec = KINDS[method].model_copy(update={"alpha": 50.0})
    chosen = spec.fit(train, val, signature(kind), 0).facts.strength
    assert chosen in ((50.0,), (1 / 50.0,))


def test_a_large_train_split_is_thinned_and_the_title_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinearSpec, "most", 20)
    monkeypatch.setattr(trivial, "MOST_EXAMPLES", 20)
    train = waves(60, 0)
    for method, title in (("linear", "logistic regression on"), ("nearest", "1-nearest neighbour on")):
        facts = fit(method, train, train, signature("waves")).facts
        assert KINDS[method].title(facts).startswith(title)
        assert KINDS[method].title(facts).endswith(", 20 of 60 labels")


@pytest.mark.parametrize("method", KINDS)
def test_sequences_of_another_kind_are_refused(method: str) -> None:
    train = waves(12, 0)
    fitted = fit(method, train, train, signature("waves"))
    with pytest.raises(BadInput, match="was fitted on 1 channels, got 2; give the same channels"):
        fitted.predict(waves(3, 0, channels=2))
    with pytest.raises(BadInput, match="was fitted on floats, got tokens"):
        fitted.predict(words(3, 0))
    with pytest.raises(BadInput, match="was fitted on single sequences; got pairs"):
        fitted.predict(replace(waves(4, 0), paired=True))
    of_tokens = fit(method, words(20, 0), words(10, 1), signature("words"))
    strange = words(3, 0)
    strange.values[4] = 6
    with pytest.raises(BadInput, match=r"token 6 is not in 0\.\.5; give tokens of the vocabulary"):
        of_tokens.predict(strange)


@pytest.mark.parametrize("kind", ["waves", "words"])
@pytest.mark.parametrize("method", KINDS)
def test_arrays_and_facts_that_do_not_fit_are_refused(method: str, kind: str) -> None:
    make = words if kind == "words" else waves
    fitted = fit(method, make(30, 0), make(10, 1), signature(kind))
    facts, arrays = fitted.facts.model_dump(mode="json"), fitted.arrays()
    for name, array in arrays.items():
        with pytest.raises(BadInput, match=f"array '{name}' is missing"):
            from_arrays(facts, {k: v for k, v in arrays.items() if k != name})
        for wrong in (array[1:], np.zeros(array.shape, np.float16)):
            with pytest.raises(BadInput, match=f"array '{name}' is .* its facts say"):
                from_arrays(facts, {**arrays, name: wrong})
        if array.dtype.kind == "f":
            with pytest.raises(BadInput, match="not finite"):
                from_arrays(facts, {**arrays, name: np.full_like(array, np.nan)})
    with pytest.raises(BadInput, match="array 'more' is unknown"):
        from_arrays(facts, {**arrays, "more": np.zeros(1)})
    with pytest.raises(BadInput, match=r"model\.siz: no 'siz'; did you mean 'size'"):
        from_arrays({**facts, "siz": 3}, arrays)
    with pytest.raises(BadInput, match=r"model\.method: no 'majorty'; did you mean 'majority'\?; save the model again"):
        from_arrays({**facts, "method": "majorty"}, arrays)
    with pytest.raises(BadInput, match=r"model\.method: no 'sequence'|model\.method: 'sequence'"):
        from_arrays({**facts, "method": "sequence"}, arrays)
    with pytest.raises(BadInput, match=r"model\.temperature: 0\.0 should be greater than 0"):
        from_arrays({**facts, "temperature": 0.0}, arrays)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("waves", "dilations", 0),
        ("waves", "each", -1),
        ("waves", "spread", 0.0),
        ("channels", "channels", 9),
        ("words", "columns", 1 << 18),
    ],
)
def test_numbers_that_cannot_be_are_refused(kind: str, name: str, value: float) -> None:
    channels = 3 if kind == "channels" else 1
    make: Callable[[int, int], Examples] = words if kind == "words" else lambda n, s: waves(n, s, channels=channels)
    of = signature("words" if kind == "words" else "waves", channels=channels)
    fitted = fit("kernels", make(20, 0), make(10, 1), of)
    wrong = fitted.arrays()[name].copy()
    wrong.reshape(-1)[0] = value
    with pytest.raises(BadInput, match=f"'{name}' does not fit the other facts; save the model again"):
        from_arrays(fitted.facts.model_dump(mode="json"), {**fitted.arrays(), name: wrong})


class LevelsSpec(PenalisedSpec):
    """A regression on the mean of each sequence: a kind in a file of its own."""

    kind: Literal["levels"] = "levels"
    reads: ClassVar[Mapping[str, type[Features]]] = {}

    def candidates(self, facts: FittedFacts, train: Examples, signature: Signature, seed: int) -> Iterator[Features]:
        yield Levels(np.array([train.values.mean(), train.values.std()], dtype=np.float64))


@dataclass(frozen=True)
class Levels(Features):
    """`scale` (2,): mean and deviation of train."""

    scale: np.ndarray
    kind: str = "levels"

    @property
    def size(self) -> int:
        return 1

    @staticmethod
    def shapes(facts: FittedFacts) -> Shapes:
        facts.check(facts.size == 1, "size")
        return {"scale": ("float64", (2,))}

    @classmethod
    def from_arrays(cls, facts: FittedFacts, arrays: Mapping[str, np.ndarray]) -> Levels:
        facts.check(bool(arrays["scale"][1] > 0), "scale")
        return cls(arrays["scale"])

    def transform(self, examples: Examples) -> np.ndarray:
        means = np.add.reduceat(examples.values, examples.offsets[:-1], axis=0).mean(axis=1) / examples.lengths
        return np.asarray((means - self.scale[0]) / self.scale[1])[:, None]


LevelsSpec.reads = {"levels": Levels}


def test_a_kind_of_ones_own_is_a_file_and_a_line_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "levels", Entry(f"{__name__}:LevelsSpec", "regression on means"))
    train, val = waves(40, 0), waves(20, 1)
    fitted = LevelsSpec().fit(train, val, signature("waves"), 0)
    facts = json.loads(json.dumps(fitted.facts.model_dump(mode="json")))
    assert (facts["method"], facts["features"], facts["size"]) == ("levels", "levels", 1)
    arrays = load(save({name: np.ascontiguousarray(array) for name, array in fitted.arrays().items()}))
    assert set(arrays) == set(shapes(facts)) == {"scale", "weights", "intercept"}
    assert np.array_equal(from_arrays(facts, arrays).predict(val), fitted.predict(val))


def test_facts_of_an_earlier_version_are_read() -> None:
    fitted = fit("kernels", waves(20, 0), waves(10, 1), signature("waves"))
    facts = fitted.facts.model_dump(mode="json")
    sizes = facts.pop("sizes")
    old = {**facts, **sizes, "longest": 0, "placed": 0}
    assert np.array_equal(from_arrays(old, fitted.arrays()).predict(waves(5, 2)), fitted.predict(waves(5, 2)))
    assert isinstance(fitted.facts, FittedFacts)


def test_the_table_is_read_without_torch_scipy_or_scikit_learn() -> None:
    code = (
        "import sys, headstart.baselines, headstart.baselines.measures; "
        "print([m for m in ('torch', 'scipy', 'sklearn') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_pieces_are_answered_in_threads_in_their_order_while_a_product_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "FEW_POSITIONS", 100)
    monkeypatch.setattr(contract, "POSITIONS_AT_ONCE", 500)
    x, together, calls = waves(60, 0), threading.Barrier(2, timeout=60), itertools.count()

    def products() -> list[int]:
        return [library.num_threads for library in ThreadpoolController().select(user_api="blas").lib_controllers]

    def answer(part: Examples) -> np.ndarray:
        if next(calls) < 2:
            together.wait()  # for ever, unless another thread answers meanwhile
        assert set(products()) == {1}
        return np.concatenate([part.take(np.array([i])).values[:1] for i in range(len(part))])

    with threadpool_limits(2, user_api="blas"):
        before = products()
        if 2 not in before:
            pytest.skip("the threads of this numpy's products are not known")
        assert np.array_equal(by_pieces(x, 1, 1, answer, threaded=True), x.values[x.offsets[:-1]])
        assert products() == before


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("units", [0, 1, 2, 19, 20, 21, 40, 41, 60])
def test_each_unit_is_answered_once_in_its_place_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch, units: int, threads: int
) -> None:
    monkeypatch.setattr(contract, "FEW_POSITIONS", 100)
    monkeypatch.setattr(contract, "POSITIONS_AT_ONCE", 1_000)
    x = waves(60, 0, least=50, most=50).take(np.arange(units))  # 20 of them are a piece

    def answer(part: Examples) -> np.ndarray:
        return np.stack([part.values[part.offsets[:-1], 0], part.lengths], axis=1)

    with threadpool_limits(threads, user_api="blas"):
        answers = by_pieces(x, 2, 1, answer, threaded=True)
    assert answers.shape == (units, 2)
    assert np.array_equal(answers, np.stack([x.values[x.offsets[:-1], 0], np.full(units, 50.0)], axis=1))


def test_what_an_answer_raises_in_a_thread_is_raised_and_the_next_has_threads_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contract, "FEW_POSITIONS", 100)

    def answer(part: Examples) -> np.ndarray:
        raise BadInput("no answer")

    with threadpool_limits(2, user_api="blas"):
        before = ThreadpoolController().info()
        with pytest.raises(BadInput, match="no answer"):
            by_pieces(waves(60, 0), 1, 1, answer, threaded=True)
        assert ThreadpoolController().info() == before
    assert not products._threads.locked()


def test_who_comes_while_threads_answer_answers_alone_and_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    train, x = waves(40, 0), waves(60, 1)
    model = KernelsSpec(features=84, also=("hydra",)).fit(train, waves(20, 2), signature("waves"), 0)
    wanted = softmax(model.readout.scores(model.features.transform(x)), model.facts.temperature)
    assert model.predict(x) == pytest.approx(wanted, abs=1e-6)
    monkeypatch.setattr(contract, "FEW_POSITIONS", 100)
    monkeypatch.setattr(contract, "POSITIONS_AT_ONCE", 500)
    with threadpool_limits(2, user_api="blas"):
        assert model.predict(x) == pytest.approx(wanted, abs=1e-6)
        with products._threads:
            assert model.predict(x) == pytest.approx(wanted, abs=1e-6)
        assert not products._threads.locked()
