"""What a fit says in words, from numbers made by hand."""

from dataclasses import replace

import numpy as np
import pytest
from support.made_outcomes import row

from headstart.errors import BadInput
from headstart.fit.arms import without_gradients
from headstart.fit.choice import none_better, serving, winner
from headstart.fit.perform import fit_sequences
from headstart.fit.serving import helped
from headstart.fitted.outcome import Answers, FitCandidate, TrainedModel
from headstart.fitted.wording import answer, models_table, notes
from headstart.report.tables.scores import note
from headstart.request.settings import FitSettings
from headstart.statistics import paired_difference
from headstart.study.results.results import Caveat, Results
from headstart.study.results.rows import best_rows
from headstart.words import covered

EMPTY = Results("fit", "", (), (), None, (), ())
AGAINST = replace(EMPTY, against="scratch")
IN_FOLDS = replace(EMPTY, folds=2)


def answers(right: float, count: int) -> Answers:
    """Predictions of which this share is right, the first ones."""
    target = np.zeros(count, dtype=np.int64)
    wrong = np.arange(count) >= round(right * count)
    return Answers(target, np.stack([~wrong, wrong], axis=1).astype(float))


def candidate(name: str, val: list[float], test: list[float], n_test: int = 50) -> FitCandidate:
    models = tuple(
        TrainedModel(seed, f"{name}{seed}", answers(v, 9), answers(t, n_test), (v, 0.0))
        for seed, (v, t) in enumerate(zip(val, test, strict=True))
    )
    return FitCandidate(
        row(name, "accuracy", dict(enumerate(val)), dict(enumerate(test))),
        "in words",
        models=models,
        is_network=name not in without_gradients(),
    )


def against(candidates: tuple[FitCandidate, ...]) -> list[FitCandidate]:
    """With differences to `scratch`, as the study pairs them."""
    base = next((c.row for c in candidates if c.name == "scratch"), None)
    if base is None:
        return list(candidates)
    gaps = [paired_difference(c.row.by_seed(), base.by_seed()) for c in candidates]
    return [
        replace(c, row=replace(c.row, difference=None if c.row is base else gap))
        for c, gap in zip(candidates, gaps, strict=True)
    ]


def conclusion(*candidates: FitCandidate, serve: str = "auto", planned: tuple[str, ...] = ("self_pretrained",)) -> str:
    compared = against(candidates)
    best = winner(compared)
    serves, _ = serving(serve, best, compared)
    return answer(AGAINST, compared, best, serves, *helped(planned, compared))


def test_a_model_without_gradients_that_wins_is_named_first() -> None:
    text = conclusion(candidate("scratch", [0.5, 0.6, 0.7], [0.5, 0.6, 0.7]), candidate("kernels", [0.9], [0.8]))
    assert text.startswith(
        "The model kernels (in words) beats the networks: accuracy 0.900 on validation (test 0.800); the best "
        "network has 0.600 on validation. It is what predict serves."
    )


def test_models_of_unequal_numbers_of_folds_are_compared_on_those_of_both() -> None:
    network, kernels = candidate("scratch", [0.8, 0.9], [0.5, 0.5]), candidate("kernels", [0.9, 1.0, 0.5], [0.8] * 3)
    text = answer(IN_FOLDS, against((network, kernels)), kernels, kernels, {})
    assert text.startswith(
        "The model kernels (in words) beats the networks: accuracy 0.800 ± 0.153 on validation (test 0.800 ± 0.000); on the 2 folds "
        "that both have, it has 0.950 and scratch 0.850. It is what predict serves."
    )
    first = replace(candidate("scratch", [0.8], [0.5]), row=replace(candidate("scratch", [0.8], [0.5]).row, expected=5))
    text = answer(IN_FOLDS, against((first, kernels)), kernels, kernels, {})
    assert "on the 1 fold that both have, it has 0.900 and scratch 0.800" in text
    same = candidate("scratch", [0.9, 1.0], [0.5, 0.5])
    assert "is as good as the best network" in answer(IN_FOLDS, against((same, kernels)), kernels, kernels, {})


def test_the_best_of_a_table_and_its_intervals_count_no_fold_twice() -> None:
    network, kernels = (
        candidate("scratch", [0.9, 0.9], [0.5] * 2),
        candidate("kernels", [0.8, 0.8, 1.0, 1.0], [0.5] * 4),
    )
    rows = [network.row, kernels.row]
    assert [row.val.mean for row in rows if row.val] == pytest.approx([0.9, 0.9])
    assert best_rows(rows) == {network.row.key}, "0.9 against 0.8 on the folds of both"
    once, twice = candidate("a", [0.7, 0.9], [0.5] * 2).row, candidate("a", [0.7, 0.9] * 2, [0.5] * 4).row
    assert once.by_fold(2) == twice.by_fold(2) == once.val
    results = replace(EMPTY, table=(network.row, kernels.row), columns=(network.row.column,), folds=2)
    assert "Over folds (each fold by its mean over all rounds), val with a 95 % t-interval" in note(results)


def test_of_equal_models_the_simpler_one_is_taken() -> None:
    text = conclusion(
        candidate("scratch", [0.9], [0.9]), candidate("kernels", [0.9], [0.7]), candidate("summary", [0.9], [0.6])
    )
    assert text.startswith("The model summary (in words) is as good as the best network")


def last_of(model: TrainedModel) -> TrainedModel:
    """Other weights of a network, with answers of their own."""
    return replace(model, val=replace(model.val))


def test_a_network_has_to_lead_clearly() -> None:
    kernels = candidate("kernels", [0.80, 0.80, 0.80], [0.8] * 3)
    near = candidate("scratch", [0.70, 0.85, 0.90], [0.9] * 3)
    text = conclusion(near, kernels)
    assert text.startswith(
        "The model kernels (in words) is taken as the simpler one: accuracy 0.800 ± 0.000 on validation (test 0.800 ± 0.000); "
        "the lead of the network scratch on validation is not clear: +0.017 ["
    )
    late = replace(near, models=tuple(replace(model, last=last_of(model)) for model in near.models))
    assert "the lead of the network scratch with the last weights of its runs on validation is not" in conclusion(
        late, kernels
    )
    first = candidate("scratch", [0.9, 0.9, 0.9], [0.9] * 3)
    judged = replace(first, models=tuple(replace(m, worth=(0.85, 0.0), last=last_of(m)) for m in first.models))
    assert "; it was chosen by the 0.850 that it has with the last weights of its runs." in conclusion(judged, kernels)
    error = np.std([-0.1, 0.05, 0.1], ddof=1) / 3**0.5
    assert near.lead(kernels).sem == pytest.approx(error)
    assert near.lead(kernels).low == pytest.approx(0.05 / 3 - 4.303 * error, abs=1e-4)
    far = candidate("scratch", [0.84, 0.86, 0.85], [0.9] * 3)
    assert winner([far, kernels]).name == "scratch", "+0.050 [0.025, 0.075]"
    # Kernels that draw nothing are one run for all seeds.
    alone = candidate("kernels", [0.80], [0.8])
    assert winner([candidate("scratch", [0.79, 0.81, 0.84], [0.9] * 3), alone]).name == "kernels"
    assert winner([far, alone]).name == "scratch"
    assert winner([near, candidate("self_pretrained", [0.7, 0.85, 0.92], [0.9] * 3)]).name == "self_pretrained"


def test_where_no_model_is_better_than_one_answer_for_all_that_is_served_and_said() -> None:
    constant, kernels = candidate("majority", [0.6, 0.6], [0.6] * 2), candidate("kernels", [0.5, 0.6], [0.5] * 2)
    alike = [replace(m, val=Answers(m.val.target, np.tile([[0.6, 0.4]], (9, 1)))) for m in constant.models]
    constant = replace(constant, models=tuple(alike))
    assert none_better(kernels, constant)
    assert not none_better(candidate("kernels", [0.5, 0.8], [0.5] * 2), constant)
    surer = replace(kernels, models=tuple(replace(m, worth=(m.worth[0], 0.1)) for m in kernels.models))
    assert not none_better(surer, constant), "its loss is lower"
    text = answer(AGAINST, [constant, kernels], constant, constant, {})
    assert text.startswith(
        "The model majority (in words) is taken: accuracy 0.600 ± 0.000 on validation (test 0.600 ± 0.000); no model tells the "
        "sequences apart: on validation none is better than one answer for all. It is what predict serves."
    )


def test_validation_chooses_and_test_does_not() -> None:
    candidates = [candidate("scratch", [0.9], [0.1]), candidate("kernels", [0.8], [1.0])]
    assert winner(candidates).name == "scratch"


def test_self_pretraining_that_helped_is_said_with_its_interval() -> None:
    scratch = candidate("scratch", [0.5] * 3, [0.50, 0.51, 0.52], 1_000)
    text = conclusion(scratch, candidate("self_pretrained", [0.7] * 3, [0.70, 0.72, 0.74], 1_000))
    assert "Self-pretraining helped: +0.210 [0.185, 0.235] test accuracy over training from scratch (3 seeds, " in text
    # About 210 of 1,000 sequences differ, some at one seed of three: a little less than sqrt(0.21 x 0.79 / 1,000).
    assert "a standard error of 0.012 from the draw of the test sequences)." in text
    assert "underpowered" not in text


def test_a_difference_of_one_test_sequence_is_no_help_however_alike_the_seeds_are() -> None:
    text = conclusion(
        candidate("scratch", [0.5] * 3, [0.50] * 3, 20), candidate("self_pretrained", [0.7] * 3, [0.55] * 3, 20)
    )
    assert "Whether self-pretraining helped is undecided" in text
    assert "underpowered" in text


def test_what_was_not_trained_to_its_end_is_not_compared() -> None:
    text = conclusion(candidate("scratch", [0.5] * 3, [0.5] * 3), candidate("kernels", [0.6], [0.6]))
    assert "is not known: only one of the two networks was trained to its end" in text
    text = conclusion(candidate("summary", [0.5], [0.5]), candidate("kernels", [0.6], [0.6]))
    assert "self-pretraining helped is not known: neither network was trained to its end" in text


def test_self_pretraining_that_was_not_planned_is_not_said_to_be_unfinished() -> None:
    text = conclusion(
        candidate("scratch", [0.5] * 3, [0.5] * 3), candidate("kernels", [0.6], [0.6]), planned=("scratch",)
    )
    assert "Self-pretraining was not tried; the plan says why." in text
    assert "trained to its end" not in text


def test_self_pretraining_that_hurt_is_said_too() -> None:
    scratch = candidate("scratch", [0.7] * 3, [0.70, 0.71, 0.72], 1_000)
    text = conclusion(scratch, candidate("self_pretrained", [0.5] * 3, [0.5, 0.52, 0.53], 1_000))
    assert "Self-pretraining hurt" in text


def test_a_wide_interval_is_underpowered() -> None:
    text = conclusion(
        candidate("scratch", [0.5] * 3, [0.3, 0.5, 0.7]), candidate("self_pretrained", [0.6] * 3, [0.6, 0.6, 0.6])
    )
    assert "Whether self-pretraining helped is undecided" in text
    assert "This comparison is underpowered: its interval is 0.9" in text


def test_one_seed_says_nothing() -> None:
    text = conclusion(candidate("scratch", [0.5], [0.3]), candidate("self_pretrained", [0.6], [0.6]))
    assert "Whether self-pretraining helped is undecided with one seed" in text


def test_what_was_asked_for_is_served_and_what_is_best_is_still_said() -> None:
    text = conclusion(candidate("scratch", [0.5], [0.3]), candidate("kernels", [0.6], [0.6]), serve="network")
    assert text.startswith("The model kernels (in words) beats the networks")
    assert "As asked for, predict serves scratch." in text


def test_a_network_that_was_never_trained_cannot_be_served() -> None:
    with pytest.raises(BadInput, match="'network', but none was trained"):
        serving("network", candidate("kernels", [0.6], [0.6]), [candidate("kernels", [0.6], [0.6])])


def test_notes_name_rare_classes_unfinished_stages_and_every_caveat_of_the_study() -> None:
    target = np.array([0] * 60 + [1] * 4)
    caveats = (Caveat("edge", "the rate is at its edge."), Caveat("data", "Read as rows."))
    results = replace(EMPTY, caveats=caveats)
    text = notes(results, candidate("kernels", [0.6], [0.6]), 2, ("a", "b"), target, ())
    assert text[0].startswith("The time was over before all was done")
    assert any("'b' (4)" in note for note in text)
    assert any("--balanced" in note for note in text)
    assert text[-2:] == ["the rate is at its edge.", "Read as rows."]


def test_what_the_time_left_undone_is_said_once_with_the_models_that_lack_it() -> None:
    network = row("scratch", "accuracy", {0: 0.5, 1: 0.6}, {0: 0.5, 1: 0.6})
    left = tuple(replace(point, runs=(replace(point.runs[0], status="absent"),)) for point in network.points)
    results = replace(EMPTY, table=(replace(network, points=left),))
    results = replace(
        results, caveats=(Caveat("partial", "scratch: 2 of 2 runs not finished; the choice may change."),)
    )
    first, *others = notes(results, candidate("kernels", [0.6], [0.6]), 2, ("a", "b"), None, ())
    assert first.startswith("The time was over before all was done (2 of 2 runs of scratch are left), so that")
    assert not any("not finished" in text for text in others)


def test_running_again_is_advised_only_where_it_helps() -> None:
    model, labels = candidate("kernels", [0.6], [0.6]), ("a", "b")
    (plain,), (spare,), (little,), (short,) = (
        notes(EMPTY, model, 2, labels, None, (), **more)
        for more in ({}, {"spare": 5.0}, {"little": ["scratch"]}, {"short": True})
    )
    assert plain.startswith("The time was over before")
    assert plain.endswith("To finish them, give the same command again.")
    assert spare.startswith("The part of the time that is for training (comparing and writing have theirs) was over")
    assert "again" not in little
    assert short.endswith("To finish them, give the same command again, with more --time.")
    assert "give more --time" in little
    line = replace(row("kernels", "accuracy", {0: 0.5}, {0: 0.5}), arm="kernels")
    absent = tuple(replace(point, runs=(replace(point.runs[0], status="absent"),)) for point in line.points)
    both = replace(EMPTY, table=(replace(line, points=absent),))
    (text,) = notes(both, model, 2, labels, None, (), little=["scratch"])
    assert text.endswith("learn: give more --time; to finish kernels, give the same command again.")
    (stopped,) = (
        text for text in notes(EMPTY, model, 2, labels, None, (), interrupted=True, spare=5.0) if "all was done" in text
    )
    assert stopped.startswith("The fit was interrupted before all was done")


def test_stages_that_failed_are_named_before_anything_else() -> None:
    text = notes(EMPTY, candidate("kernels", [0.6], [0.6]), 2, ("a", "b"), None, ("scratch", "scratch"))
    assert text == ["Not every stage was trained (scratch): what depends on those is not in the table."]


def test_no_test_split_is_said() -> None:
    model = candidate("kernels", [0.6], [0.6], n_test=0)
    text = notes(EMPTY, model, 0, ("a", "b"), None, (), alone="the time was over")
    assert any("No sequence was held out as a test" in note for note in text)
    assert any("was not fitted again on train and validation together: the time was over." in note for note in text)


def test_runs_on_folds_are_called_folds_and_their_intervals_stand_beneath_the_table() -> None:
    """Five accuracies 0.6, 0.7, 0.8, 0.9, 1.0: a standard error of 0.071, and 2.776 of it to each side."""
    first, second = (
        candidate("scratch", [0.5] * 5, [0.5] * 5),
        candidate("kernels", [0.6, 0.7, 0.8, 0.9, 1.0], [0.9] * 5),
    )
    table = tuple(item.row for item in against((first, second)))
    results = replace(EMPTY, table=table, columns=(table[0].column,), folds=5)
    text = note(results)
    assert text.startswith("Mean ± standard error over n folds, at the best weights")
    assert (
        "Over folds, val with a 95 % t-interval, approximate as folds share train rows: scratch [0.500, 0.500], kernels "
        "[0.604, 0.996]." in text
    )
    assert "Over folds" not in note(replace(results, folds=1))
    assert "over n seeds" in note(replace(results, folds=1))
    best = winner([first, second])
    pair = against((first, candidate("self_pretrained", [0.7] * 5, [0.7] * 5)))
    spoken = answer(replace(AGAINST, folds=5), pair, best, best, *helped(("self_pretrained",), pair))
    assert "(5 folds, and a standard error" in spoken


def test_what_intervals_over_folds_cover_is_said_as_it_is() -> None:
    assert covered(1).startswith("Standard errors and intervals cover training only (seeds of initial weights")
    over = covered(5)
    assert "over folds and cover which rows train and which validate" in over
    assert "intervals are approximate, rather too narrow" in over
    assert "training only" not in over


def test_a_fit_in_folds_says_folds_from_its_table_to_its_notes(tmp_path) -> None:
    rng = np.random.default_rng(0)
    rows = [",".join([f"s{i}", "ab"[i % 2], *(f"{x:.3f}" for x in rng.normal(size=6) + i % 2)]) for i in range(60)]
    (tmp_path / "train.csv").write_text("\n".join(["id,label," + ",".join(f"t{i}" for i in range(6)), *rows]))
    settings = FitSettings(time=None, folds=3, overrides=("finetune.budget.steps=2",), rates=(1e-3,), pretrain=False)
    outcome = fit_sequences(tmp_path / "train.csv", settings, store=tmp_path / "runs")
    text = " ".join([models_table(outcome).note, *outcome.notes])
    assert "standard error over folds" in text
    assert "kernels [" in text
    assert "paired by fold" in text
    assert "share most of their train rows" in text
    assert "cover training only" not in text
