"""Objectives against numbers worked out by hand."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, r2_score

from headstart.errors import BadInput
from headstart.models.mixers.attention import AttentionSpec
from headstart.models.model import ModelSpec, build_model
from headstart.objectives import CausalSpec, ClassifySpec, MaskedSpec, RegressSpec, RetrieveSpec
from headstart.seeds import uniform
from headstart.sequence import IGNORE, Batch, Signature
from headstart.training.step import mean_loss

FLOATS = Signature("floats", 1, 4, 2, "class", classes=3, levels=5, level_scale=1.0)
TOKENS = Signature("tokens", 6, 4, 2, "class", classes=3)


def _floats(values: list[list[float]], valid: list[list[int]], **more: torch.Tensor) -> Batch:
    return Batch(torch.tensor(values).unsqueeze(-1), torch.tensor(valid).bool(), torch.arange(len(values)), **more)


def _numbers(sums: dict[str, torch.Tensor]) -> dict[str, object]:
    return {k: (v.item() if v.ndim == 0 else v) for k, v in sums.items()}


def test_masked_l1_counts_masked_positions_only() -> None:
    batch = _floats([[1, 2, 3, 9]], [[1, 1, 1, 0]], masked=torch.tensor([[True, False, True, False]]))
    output = torch.tensor([[[1.5], [100.0], [1.0], [50.0]]])
    sums = _numbers(MaskedSpec(mask_rate=0.5, loss="l1").measure(output, batch, FLOATS))
    assert sums["loss"] == pytest.approx(0.5 + 2.0)
    assert sums["count"] == 2
    scores = MaskedSpec(mask_rate=0.5, loss="l1").scores(sums)
    # Truth 1 and 3: mean 2, total squares 2; error squares 0.25 + 4.
    assert scores["r2"] == pytest.approx(1 - 4.25 / 2)


def test_masked_l2_and_levels_by_hand() -> None:
    batch = _floats([[1, 2]], [[1, 1]], masked=torch.tensor([[True, True]]))
    l2 = MaskedSpec(mask_rate=0.5, loss="l2").measure(torch.tensor([[[2.0], [0.0]]]), batch, FLOATS)
    assert float(l2["loss"]) == 5.0
    logits = torch.zeros(1, 2, 5)
    logits[0, 0, 1] = 3.0
    levels = MaskedSpec(mask_rate=0.5, loss="levels").measure(logits, batch, FLOATS)
    expected = -math.log(math.exp(3) / (math.exp(3) + 4)) + math.log(5)
    assert float(levels["loss"]) == pytest.approx(expected, rel=1e-6)
    assert int(levels["hits"]) == 1


def test_missing_values_are_neither_masked_nor_scored() -> None:
    observed = torch.tensor([[[True], [False], [True], [True]]])
    batch = _floats([[1, 0, 3, 4]], [[1, 1, 1, 1]], observed=observed)
    spec = MaskedSpec(mask_rate=0.99, loss="l1")
    prepared = spec.prepare(batch, FLOATS, 0, 0)
    assert prepared.masked is not None
    assert not bool(prepared.masked[0, 1])
    sums = spec.measure(torch.zeros(1, 4, 1), prepared, FLOATS)
    assert int(sums["count"]) == int(prepared.masked.sum())


@pytest.mark.parametrize("span", [1, 3])
def test_masks_follow_seed_epoch_example_and_position_and_nothing_else(span: int) -> None:
    spec = MaskedSpec(mask_rate=0.5, span=span)
    wide = Batch(
        torch.zeros(3, 9, 1),
        torch.tensor([[1] * 9, [1] * 5 + [0] * 4, [1] * 7 + [0] * 2]).bool(),
        torch.tensor([7, 3, 5]),
    )
    alone = Batch(torch.zeros(1, 5, 1), torch.ones(1, 5, dtype=torch.bool), torch.tensor([3]))
    among = spec.prepare(wide, FLOATS, 4, 2).masked
    single = spec.prepare(alone, FLOATS, 4, 2).masked
    assert among is not None
    assert single is not None
    assert torch.equal(among[1, :5], single[0])
    assert not bool(among[1, 5:].any()), "padding is never masked"
    other = spec.prepare(alone, FLOATS, 4, 3).masked
    assert other is not None
    assert not torch.equal(other, single), "redrawn each epoch"


def test_the_share_of_masked_positions_is_the_rate_and_no_row_is_without_one() -> None:
    batch = Batch(torch.zeros(400, 100, 1), torch.ones(400, 100, dtype=torch.bool), torch.arange(400))
    masked = MaskedSpec(mask_rate=0.15).prepare(batch, FLOATS, 0, 1).masked
    assert masked is not None
    assert abs(float(masked.float().mean()) - 0.15) < 4 * math.sqrt(0.15 * 0.85 / 40_000)
    short = Batch(torch.zeros(200, 2, 1), torch.ones(200, 2, dtype=torch.bool), torch.arange(200))
    few = MaskedSpec(mask_rate=0.01).prepare(short, FLOATS, 0, 1).masked
    assert few is not None
    assert bool(few.any(1).all())


def test_masked_spans_are_runs_that_cover_each_position_equally_often() -> None:
    """A span ends at each position whose number is low enough; each covers it and those before it."""
    count, length, span = 300, 40, 4
    batch = Batch(torch.zeros(count, length, 1), torch.ones(count, length, dtype=torch.bool), torch.arange(count))
    masked = MaskedSpec(mask_rate=0.3, span=span).prepare(batch, FLOATS, 5, 2).masked
    assert masked is not None
    for row in range(count):
        numbers = uniform(5, "mask", 2, torch.tensor(row), torch.arange(length + span - 1)).tolist()
        ends = [position for position, number in enumerate(numbers) if number < 1 - (1 - 0.3) ** (1 / span)]
        covered = {position - back for position in ends for back in range(span)} & set(range(length))
        if covered:
            assert set(masked[row].nonzero().flatten().tolist()) == covered
        else:
            assert masked[row].sum() == 1
    share = masked.float().mean(0)
    assert abs(float(share.mean()) - 0.3) < 0.03
    assert float((share - 0.3).abs().max()) < 5 * math.sqrt(0.3 * 0.7 / count)


def test_a_span_of_one_is_no_part_of_an_identity_and_a_longer_one_is_described() -> None:
    assert "span" not in MaskedSpec(mask_rate=0.3, span=1).document()
    assert MaskedSpec(mask_rate=0.3, span=5).document()["span"] == 5
    text = MaskedSpec(mask_rate=0.3, span=5).describe()
    assert text == "reconstructed 30 % of the positions, hidden at random in spans of 5, without labels,"


def test_causal_predicts_the_next_position() -> None:
    batch = Batch(torch.tensor([[1, 2, 3, 0]]), torch.tensor([[1, 1, 1, 0]]).bool(), torch.arange(1))
    logits = torch.zeros(1, 4, 6)
    logits[0, 0, 2] = logits[0, 1, 3] = 50.0
    sums = CausalSpec().measure(logits, batch, TOKENS)
    assert float(sums["loss"]) == pytest.approx(0.0, abs=1e-6)
    assert (int(sums["count"]), int(sums["hits"])) == (2, 2)


def test_classify_leaves_out_targets_that_are_not_there() -> None:
    batch = Batch(
        torch.zeros(3, 2, 1), torch.ones(3, 2, dtype=torch.bool), torch.arange(3), target=torch.tensor([0, IGNORE, 2])
    )
    logits = torch.tensor([[2.0, 0, 0], [0, 9, 0], [0, 1, 0]])
    sums = _numbers(ClassifySpec().measure(logits, batch, FLOATS))
    first = -math.log(math.exp(2) / (math.exp(2) + 2))
    third = -math.log(1 / (2 + math.exp(1)))
    assert sums["loss"] == pytest.approx(first + third, rel=1e-6)
    assert ClassifySpec().scores(sums)["accuracy"] == 0.5


def test_retrieve_asks_once_per_pair() -> None:
    signature = Signature("tokens", 6, 4, 2, "class", classes=2, paired=True)
    batch = Batch(
        torch.zeros(4, 2, dtype=torch.int64),
        torch.ones(4, 2, dtype=torch.bool),
        torch.arange(4),
        target=torch.tensor([1, 1, 0, 0]),
    )
    sums = RetrieveSpec().measure(torch.tensor([[0.0, 4.0], [0.0, 4.0]]), batch, signature)
    assert (int(sums["count"]), int(sums["hits"])) == (2, 1)
    with pytest.raises(BadInput, match="use 'classify'"):
        RetrieveSpec().output(FLOATS)
    with pytest.raises(BadInput, match="use 'retrieve'"):
        ClassifySpec().output(signature)


def test_regress_scores_r2_over_targets_that_are_there() -> None:
    signature = Signature("floats", 1, 4, 4, "number", targets=2)
    target = torch.tensor([[1.0, 10.0], [2.0, float("nan")], [3.0, 30.0]])
    batch = Batch(torch.zeros(3, 4, 1), torch.ones(3, 4, dtype=torch.bool), torch.arange(3), target=target)
    output = torch.tensor([[1.0, 10.0], [2.0, 5.0], [2.0, 20.0]])
    sums = _numbers(RegressSpec().measure(output, batch, signature))
    assert sums["loss"] == pytest.approx(1.0 + 100.0)
    # First target: 1 - 1/2; second: values 10 and 30, 1 - 100/200.
    assert RegressSpec().scores(sums)["r2"] == pytest.approx(0.5)
    gradient = torch.zeros(3, 2, requires_grad=True)
    RegressSpec().measure(gradient, batch, signature)["loss"].backward()
    assert gradient.grad is not None
    assert np.isfinite(gradient.grad.numpy()).all(), "a missing target sends no NaN back"


def test_per_position_targets_are_weighed_one_by_one() -> None:
    signature = Signature("floats", 1, 3, 2, "class", classes=2, per_position=True)
    target = torch.tensor([[0, 1, 1], [1, IGNORE, IGNORE]])
    batch = Batch(torch.zeros(2, 3, 1), target != IGNORE, torch.arange(2), target=target)
    logits = torch.zeros(2, 3, 2)
    logits[..., 1] = 1.0
    sums = _numbers(ClassifySpec().measure(logits, batch, signature))
    assert (sums["count"], sums["hits"]) == (4, 3)


def test_a_loss_that_does_not_fit_the_input_is_refused() -> None:
    with pytest.raises(BadInput, match=r"objective.loss: 'l1' does not fit tokens input; use 'tokens'"):
        MaskedSpec(loss="l1").output(TOKENS)
    with pytest.raises(BadInput, match="needs an input of known levels"):
        MaskedSpec(loss="levels").output(Signature("floats", 1, 4, 4, "none"))


def test_double_precision_stays_double_in_the_loss() -> None:
    output = torch.tensor([[1.0 + 1e-12]], dtype=torch.float64)
    batch = Batch(torch.zeros(1, 2, 1), torch.ones(1, 2).bool(), torch.arange(1), target=torch.ones(1).double())
    sums = RegressSpec(loss="l1").measure(output, batch, Signature("floats", 1, 2, 2, "number"))
    assert float(sums["loss"]) == pytest.approx(1e-12, rel=1e-3)
    assert sums["loss"].dtype == torch.float64


def test_r2_leaves_out_a_constant_far_from_zero_and_keeps_a_tiny_scale() -> None:
    signature = Signature("floats", 1, 2, 2, "number", targets=2)
    generator = torch.Generator().manual_seed(0)
    small = torch.randn(1000, generator=generator).double() * 1e-9
    target = torch.stack([torch.full((1000,), 1234.567).double(), small], 1)
    batch = Batch(torch.zeros(1000, 2, 1), torch.ones(1000, 2).bool(), torch.arange(1000), target=target)
    output = torch.stack([target[:, 0] + 1.0, 0.5 * small], 1)
    objective = RegressSpec()
    scores = objective.scores(dict(objective.measure(output, batch, signature)))
    assert scores["r2"] == pytest.approx(0.75, abs=0.01)


@pytest.mark.parametrize(("offset", "spread"), [(1.7e9, 1000.0), (1e6, 0.5)])
def test_r2_of_targets_far_from_zero_is_that_of_scikit_learn(offset: float, spread: float) -> None:
    signature = Signature("floats", 1, 2, 2, "number")
    generator = torch.Generator().manual_seed(0)
    target = (offset + spread * torch.randn(1000, 1, generator=generator)).float()
    output = target + spread / 2 * torch.randn(1000, 1, generator=generator)
    batch = Batch(torch.zeros(1000, 2, 1), torch.ones(1000, 2).bool(), torch.arange(1000), target=target)
    scores = RegressSpec().scores(dict(RegressSpec().measure(output, batch, signature)))
    assert scores["r2"] == pytest.approx(r2_score(target.double(), output.double()), abs=0.01)


def test_without_a_head_the_answer_is_read_off_the_last_norm() -> None:
    signature = Signature("tokens", 5, 4, 4, "class", classes=2)
    spec = MaskedSpec(mask_rate=0.5, loss="tokens", head="none")
    model = build_model(ModelSpec(width=8, blocks=1), signature, spec.output(signature), seed=0)
    batch = Batch(torch.tensor([[0, 1, 4, 2]]), torch.ones(1, 4, dtype=torch.bool), torch.arange(1))
    batch = spec.prepare(batch, signature, 0, 0)
    assert batch.masked is not None
    answer = model(batch)
    assert torch.equal(answer, model.embed(batch))
    asked = batch.masked[0]
    expected = torch.nn.functional.cross_entropy(answer[0, asked], batch.inputs[0, asked], reduction="sum")
    torch.testing.assert_close(spec.measure(answer, batch, signature)["loss"], expected)


@pytest.mark.parametrize(
    ("value", "width", "message"),
    [
        ({"loss": "tokens"}, 3, "model.width: 3 is less than the 5 answers"),
        ({"loss": "l1"}, 8, "objective.head: 'none' is for the loss 'tokens'"),
    ],
)
def test_a_missing_head_is_refused_where_it_cannot_answer(value: dict[str, str], width: int, message: str) -> None:
    signature = Signature("tokens" if value["loss"] == "tokens" else "floats", 5, 4, 4, "class", classes=2)
    spec = MaskedSpec.model_validate({"mask_rate": 0.5, "head": "none", **value})
    with pytest.raises(BadInput, match=message):
        build_model(ModelSpec(width=width, mixer=AttentionSpec(heads=1)), signature, spec.output(signature), seed=0)


def test_class_weights_weigh_loss_and_accuracy_and_leave_plain_accuracy_alone() -> None:
    logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 3.0], [1.0, 0.0, 0.0]])
    target = torch.tensor([0, 0, 2, IGNORE])
    weights = (0.5, 0.0, 4.0)
    batch = _floats([[0.0]] * 4, [[1]] * 4, target=target)
    spec = ClassifySpec(class_weights=weights)
    sums = _numbers(spec.measure(logits, batch, FLOATS))
    each = [-float(torch.log_softmax(logits[i], 0)[k]) for i, k in ((0, 0), (1, 0), (2, 2))]
    assert sums["loss"] == pytest.approx(0.5 * each[0] + 0.5 * each[1] + 4 * each[2], rel=1e-6)
    assert sums["count"] == pytest.approx(5.0)
    scores = spec.scores(sums)
    assert scores["accuracy"] == pytest.approx(2 / 3)
    assert scores["weighted_accuracy"] == pytest.approx(4.5 / 5.0)
    plain = ClassifySpec().measure(logits, batch, FLOATS)
    assert "weighted_accuracy" not in ClassifySpec().scores(_numbers(plain))


@pytest.mark.parametrize("factor", [1.0, 0.02, 0.002])
def test_the_loss_is_a_weighted_mean_whatever_the_weights_sum_to(factor: float) -> None:
    logits = torch.tensor([[2.0, 0.0, 0.0], [0.5, 1.0, 0.0]], requires_grad=True)
    batch = _floats([[0.0]] * 2, [[1]] * 2, target=torch.tensor([0, 0]))
    sums = ClassifySpec(class_weights=(factor, 50 * factor, 1.0)).measure(logits, batch, FLOATS)
    (grad,) = torch.autograd.grad(mean_loss(sums["loss"], sums["count"]), logits, retain_graph=True)
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor([0, 0]), torch.tensor([factor, 50 * factor, 1.0]))
    torch.testing.assert_close(grad, torch.autograd.grad(loss, logits)[0])
    assert ClassifySpec().scores(_numbers(sums))["loss"] == pytest.approx(float(loss.detach()))
    assert mean_loss(torch.tensor(0.0), torch.tensor(0.0)) == 0


def test_balanced_weights_make_weighted_accuracy_the_mean_over_classes() -> None:
    from headstart.baselines.measures import balanced_weights

    target = np.array([0] * 7 + [1] * 2 + [2])
    predicted = np.array([0, 0, 0, 1, 0, 0, 2, 1, 0, 2])
    spec = ClassifySpec(class_weights=tuple(balanced_weights(target, 3)), monitor="weighted_accuracy")
    logits = torch.nn.functional.one_hot(torch.from_numpy(predicted), 3).float()
    batch = _floats([[0.0]] * 10, [[1]] * 10, target=torch.from_numpy(target))
    scores = spec.scores(_numbers(spec.measure(logits, batch, FLOATS)))
    assert scores["weighted_accuracy"] == pytest.approx(balanced_accuracy_score(target, predicted))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"class_weights": [0.0, 0.0]}, "all are 0"),
        ({"class_weights": [-1.0, 1.0]}, "greater than or equal to 0"),
        ({"monitor": "weighted_accuracy"}, "needs class_weights"),
    ],
)
def test_class_weights_that_cannot_be_are_refused(value: dict, message: str) -> None:
    from headstart.spec import read

    with pytest.raises(BadInput, match=message):
        read(ClassifySpec, {"kind": "classify", **value}, "objective")


def test_class_weights_of_another_number_of_classes_are_refused() -> None:
    with pytest.raises(BadInput, match=r"objective.class_weights: 2 weights for 3 classes; give one per class"):
        ClassifySpec(class_weights=(1.0, 1.0)).output(FLOATS)
