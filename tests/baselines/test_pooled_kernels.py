"""Four features of a bias, on the sequence and on its steps, against a slow transform that loops over every place."""

from __future__ import annotations

import numpy as np
import pytest
from support.made_series import examples, noise, signature, waves
from support.slow_kernels import slow_outputs

from headstart.baselines import from_arrays, shapes
from headstart.baselines import kernels as module
from headstart.baselines.convolve import POOLED_ROWS, POOLS, Pooler
from headstart.baselines.kernels import KERNELS, KernelModel, KernelsSpec, fit_kernels
from headstart.errors import BadInput
from headstart.sequence import Examples

SMALL = KERNELS * POOLS * 2


def slow_pools(outputs: np.ndarray, bias: float) -> list[float]:
    """Share, mean distance, mean place and longest stretch of the outputs (R,) above the bias."""
    above = outputs > bias
    if not above.any():
        return [0.0] * POOLS
    longest = run = 0
    for there in above:
        run = run + 1 if there else 0
        longest = max(longest, run)
    places = np.flatnonzero(above)
    return [above.mean(), (outputs[above] - bias).mean(), places.mean() / len(outputs), longest / len(outputs)]


def slow(kernels: KernelModel, x: Examples) -> tuple[np.ndarray, np.ndarray]:
    """(features, whether they are sure): every output as a sum over nine places, in float64.

    Where an output is within 1e-5 of a bias it may fall on either side of it in float32.
    """
    out, sure = np.zeros((len(x), kernels.size)), np.ones((len(x), kernels.size), bool)
    firsts = np.cumsum([0, *kernels.each]) * POOLS * KERNELS
    bias = 0
    for row, number, kernel, outputs in slow_outputs(kernels, x):
        bias = 0 if number == kernel == 0 else bias
        for i in range(kernels.each[number]):
            columns = [firsts[number] + (pool * KERNELS + kernel) * kernels.each[number] + i for pool in range(POOLS)]
            out[row, columns] = slow_pools(outputs, kernels.biases[bias])
            sure[row, columns] = np.abs(outputs - kernels.biases[bias]).min() > 1e-5
            bias += 1
    return out, sure


@pytest.mark.parametrize("kind", ["kernels", "steps"])
@pytest.mark.parametrize(
    ("train", "x"),
    [
        (noise([30] * 3), noise([30] * 2, seed=1)),
        (noise([25, 30, 30, 40]), noise([1, 2, 9, 10, 17, 33], seed=1)),
        (noise([20] * 3, channels=3), noise([20, 5, 14], channels=3, seed=1)),
    ],
    ids=["one length", "unequal lengths", "channels"],
)
def test_four_features_of_a_bias_equal_a_slow_transform(kind: str, train: Examples, x: Examples) -> None:
    kernels = fit_kernels(train, 0, SMALL, POOLS, kind)  # type: ignore[arg-type]
    wanted, sure = slow(kernels, x)
    assert sure.mean() > 0.8, "the comparison would say little"
    assert np.allclose(kernels.transform(x)[sure], wanted[sure], atol=1e-5)


@pytest.mark.parametrize("rows", [1, POOLED_ROWS, POOLED_ROWS + 1, 255, 256, 700])
def test_pools_are_whatever_the_rows_and_stretches_longer_than_a_byte_counts(rows: int) -> None:
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=(rows, 2, 3)).astype(np.float32)
    outputs[:, 0, 0], outputs[:, 1, 1] = 3.0, -np.inf  # all above, none there
    biases, out = np.float32([[0.5, -1.0], [1.0, 2.0]]), np.full((POOLS, 2, 2, 3), np.nan, np.float32)
    Pooler(rows, out.shape[1:])(outputs, biases, np.full(3, rows, np.float32), out)
    for kernel, i, row in np.ndindex(2, 2, 3):
        wanted = slow_pools(outputs[:, kernel, row].astype(np.float64), float(biases[kernel, i]))
        assert out[:, i, kernel, row] == pytest.approx(wanted, abs=1e-5)


def test_a_row_does_not_depend_on_the_sequences_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for channels in (1, 3):
        x = noise([30, 12, 41, 41, 7, 300, 41], channels=channels)
        kernels = fit_kernels(x, 0, SMALL, POOLS)
        together = kernels.transform(x)
        assert np.array_equal(
            together, np.concatenate([kernels.transform(x.take(np.array([i]))) for i in range(len(x))])
        )
        monkeypatch.setattr(module, "POOLED_BIASES", 100)
        assert np.array_equal(together, kernels.transform(x))
        monkeypatch.undo()


def test_the_share_above_a_bias_is_that_of_kernels_with_one_feature() -> None:
    x = noise([60] * 4)
    single, four = fit_kernels(x, 0, 2 * KERNELS), fit_kernels(x, 0, SMALL, POOLS)
    assert np.array_equal(single.biases, four.biases)
    rows, first, shares = four.transform(x), 0, []
    for each in four.each.tolist():
        shares.append(rows[:, first : first + KERNELS * each])
        first += POOLS * KERNELS * each
    assert np.array_equal(np.concatenate(shares, axis=1), single.transform(x))


def test_kernels_of_steps_do_not_see_the_level_of_a_sequence() -> None:
    x = noise([40] * 4)
    kernels = fit_kernels(x, 0, SMALL, POOLS, "steps")
    raised = examples([row + 2.0 for row in x.values.reshape(4, 40, 1)])
    assert np.abs(kernels.transform(raised) - kernels.transform(x)).mean() < 1e-3


def test_a_model_of_four_pools_and_steps_is_the_same_from_its_arrays_and_refuses_facts_that_cannot_be() -> None:
    train, of = waves(24, 0, channels=2), signature("waves", channels=2)
    model = KernelsSpec(features=SMALL, pools=POOLS, also=("steps",)).fit(train, train, of, 0)
    facts, arrays = model.facts.model_dump(), model.arrays()
    assert facts["sizes"]["kernels.pools"] == facts["sizes"]["steps.pools"] == POOLS
    assert {name: (x.dtype.name, x.shape) for name, x in arrays.items()} == shapes(facts)
    assert np.array_equal(from_arrays(facts, arrays).predict(train), model.predict(train))
    with pytest.raises(BadInput, match="'pools' does not fit the other facts"):
        shapes(facts | {"sizes": {**facts["sizes"], "kernels.pools": 3}})


def test_too_few_features_for_four_of_each_kernel_are_refused_in_words() -> None:
    with pytest.raises(BadInput, match=r"335 is fewer than the 84 kernels with 4 features each; give 336 or more"):
        fit_kernels(noise([20] * 2), 0, 335, POOLS)
