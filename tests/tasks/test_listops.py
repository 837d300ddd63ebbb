"""ListOps: the language, the trees against a slow generator, and the data set that they make."""

import lzma
import random
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.listops import evaluate, median

from headstart.data.splits import overlaps
from headstart.errors import BadInput
from headstart.seeds import bits
from headstart.tasks.listops import ListOpsSpec
from headstart.tasks.listops.generate import CLOSE, MIN, NOTHING, SYMBOLS, Rules, decode, encode, grow
from headstart.tasks.remarks import remarks
from headstart.tasks.task import SPLITS, fingerprint, prepare

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data"
SMALL = {"min_length": 3, "max_length": 40, "train": 600, "val": 100, "test": 100}
LRA = Rules(seed=0, min_length=500, max_length=2000, depth=10, arguments=10)


def slow_tree(rules, number):
    """One tree by the rules, a node at a time: (symbols, ) or None where it is too long to go on."""

    def width_first():
        level, levels = [None], []
        for depth in range(rules.depth):
            nodes, coming = [], 0
            for rank in range(len(level)):
                drawn = int(bits(rules.seed, "listops/node", number, (depth << 32) + rank))
                if depth < rules.depth - 1 and drawn % 4 == 0:
                    count = 2 + ((drawn >> 4) * (rules.arguments - 1) >> 28)
                    nodes.append((MIN + (drawn >> 2) % 4, count))
                    coming += count
                else:
                    nodes.append(((drawn >> 2) * 10 >> 30, 0))
            levels.append(nodes)
            level = [None] * coming
            if sum(1 + (c > 0) for nodes in levels for _, c in nodes) + coming >= rules.max_length:
                return None
            if not coming:
                break
        return levels

    levels = width_first()
    if levels is None:
        return None
    taken = [0] * len(levels)

    def write(depth):
        symbol, count = levels[depth][taken[depth]]
        taken[depth] += 1
        if not count:
            return [symbol]
        return [symbol, *(s for _ in range(count) for s in write(depth + 1)), CLOSE]

    return write(0)


def sequences(trees):
    ends = np.cumsum(trees.lengths)
    return [trees.tokens[e - n : e] for e, n in zip(ends, trees.lengths, strict=True)]


# The language


def test_encoding_and_decoding_lose_nothing():
    text = "[MAX 2 9 [MIN 4 7 ] [MED 1 0 ] [SM 8 8 ] 0 ]"
    assert decode(encode(text)) == text
    assert encode(text).tolist() == [11, 2, 9, 10, 4, 7, 14, 12, 1, 0, 14, 13, 8, 8, 14, 0, 14]


@given(st.lists(st.sampled_from(range(len(SYMBOLS))), max_size=50))
def test_any_symbols_survive_their_text(tokens):
    assert encode(decode(tokens)).tolist() == tokens


def test_parentheses_of_the_short_original_form_are_dropped():
    assert decode(encode("( ( ( [SM 6 ) 5 ) ] )")) == "[SM 6 5 ]"


def test_an_unknown_symbol_is_refused_with_the_nearest():
    with pytest.raises(BadInput, match=r"row 3: no '\[MIM'; did you mean '\[MIN'\?"):
        encode("[MIM 1 2 ]", where="row 3")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("[MIN 4 2 9 ]", 2),
        ("[MAX 4 2 9 ]", 9),
        ("[SM 4 2 9 ]", 5),
        ("[MED 4 2 9 ]", 4),
        ("[MED 4 9 ]", 6),
        ("[MED 1 2 ]", 1),
        ("[MAX 2 9 [MIN 4 7 ] 0 ]", 9),
        ("[SM [SM 5 6 ] [MED 1 8 8 9 ] ]", 9),
    ],
)
def test_expressions_have_the_values_that_a_person_computes(text, value):
    assert evaluate(encode(text)) == value


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30))
def test_the_median_is_that_of_numpy_cut_to_a_whole_number(values):
    assert median(values) == int(np.median(values))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[MIN 1 2", "1 brackets are open at the end"),
        ("1 ]", "the bracket at symbol 1 closes nothing"),
        ("[MIN ]", "the bracket at symbol 1 closes an operator without arguments"),
        ("1 2", "gives 2 values, not one"),
        ("", "gives 0 values, not one"),
    ],
)
def test_what_is_no_expression_is_refused(text, reason):
    with pytest.raises(BadInput, match=f"row 9: {reason}"):
        evaluate(encode(text), "row 9")


def test_the_evaluator_agrees_with_the_short_original_file():
    file = SHARED / "listops" / "test_d20s.tsv.xz"
    if not file.is_file():
        pytest.skip(f"the short original file is not at {file}")
    rows = lzma.decompress(file.read_bytes()).decode().splitlines()
    assert len(rows) == 10_000
    for number, row in enumerate(rows):
        label, text = row.split("\t")
        assert evaluate(encode(text), f"row {number}") == int(label), f"row {number}"


# The trees


@pytest.mark.parametrize(
    "rules", [Rules(0, 3, 60, 6, 5), Rules(5, 0, 30, 3, 10), Rules(1, 100, 400, 10, 10), Rules(2, 0, 5, 1, 2)]
)
def test_trees_grown_together_are_those_grown_one_by_one(rules):
    trees = grow(rules, 100, 600)
    slow = [
        tree
        for number in range(100, 700)
        if (tree := slow_tree(rules, number)) is not None and rules.min_length < len(tree) < rules.max_length
    ]
    assert [s.tolist() for s in sequences(trees)] == slow
    assert trees.target.tolist() == [evaluate(tree) for tree in slow]


def test_what_is_said_of_roots_is_true():
    trees = grow(Rules(0, 0, 60, 5, 6), 0, 2000)
    for symbols, root, own, others in zip(sequences(trees), trees.root, trees.own, trees.others, strict=True):
        depth = np.cumsum(symbols >= MIN) - 2 * np.cumsum(symbols == CLOSE)
        opens = (symbols >= MIN) & (symbols < CLOSE)
        digits = symbols[(depth == 1) & (symbols < MIN)]
        assert root == (symbols[0] if opens[0] else NOTHING)
        assert others == ((depth == 2) & opens).sum()
        assert own == (evaluate([root, *digits, CLOSE]) if opens[0] and len(digits) else NOTHING)


def test_trees_do_not_depend_on_how_many_are_grown_at_once():
    whole = grow(LRA, 0, 400)
    parts = [grow(LRA, first, 100) for first in range(0, 400, 100)]
    for field in fields(whole):
        joined = np.concatenate([getattr(part, field.name) for part in parts])
        assert np.array_equal(getattr(whole, field.name), joined)


@pytest.fixture(scope="module")
def many():
    """2,700 trees or so of LRA's sizes, from 32,768 draws."""
    return [grow(LRA, first, 4096) for first in range(0, 32_768, 4096)]


def test_the_share_of_draws_that_is_kept_is_the_known_one(many):
    count = sum(len(trees.lengths) for trees in many)
    assert abs(count / 32_768 - 0.082) < 4 * (0.082 * 0.918 / 32_768) ** 0.5


def test_lengths_are_those_of_a_plain_generator(many):
    """Its figures, from 34,771 trees kept of 420,000: mean 1,037 (standard error 2), 98.3 % above 512."""
    lengths = np.concatenate([trees.lengths for trees in many])
    assert lengths.min() > 500
    assert lengths.max() < 2000
    assert abs(lengths.mean() - 1037) < 4 * lengths.std() / len(lengths) ** 0.5
    assert abs((lengths > 512).mean() - 0.983) < 4 * (0.983 * 0.017 / len(lengths)) ** 0.5


def test_lengths_follow_a_recursive_generator_with_other_random_numbers():
    rng, depth, arguments = random.Random(0), 6, 5

    def length(level):
        if level < depth and rng.random() <= 0.25:
            return 2 + sum(length(level + 1) for _ in range(rng.randint(2, arguments)))
        return 1

    plain = np.array([n for n in (length(1) for _ in range(40_000)) if 10 < n < 100])
    ours = grow(Rules(0, 10, 100, depth, arguments), 0, 40_000).lengths
    assert abs(len(plain) - len(ours)) < 4 * (2 * len(plain)) ** 0.5
    error = (plain.var() / len(plain) + ours.var() / len(ours)) ** 0.5
    assert abs(plain.mean() - ours.mean()) < 4 * error


def test_labels_have_the_known_shares(many):
    target = np.concatenate([trees.target for trees in many])
    shares, error = np.bincount(target, minlength=10) / len(target), (0.17 * 0.83 / len(target)) ** 0.5
    assert np.abs(shares[[0, 9]] - 0.171).max() < 4 * error
    assert shares[1:9].min() > 0.076 - 4 * error
    assert shares[1:9].max() < 0.091 + 4 * error


def test_trees_never_change():
    """Frozen: every result on ListOps hangs on these bits."""
    text = decode(sequences(grow(Rules(0, 3, 30, 4, 4), 0, 200))[0])
    assert text == "[MAX [MED 7 4 5 [SM 7 0 5 8 ] ] [SM [SM 3 9 0 4 ] 4 6 9 ] 1 ]"


# The task


def test_every_expression_has_its_value_and_occurs_once(tmp_path):
    task = ListOpsSpec(**SMALL).load(tmp_path)
    texts = []
    for name in SPLITS:
        x = task.split(name)
        assert len(x) == SMALL[name]
        for i in range(len(x)):
            tokens = x.values[x.offsets[i] : x.offsets[i + 1]]
            assert SMALL["min_length"] < len(tokens) < SMALL["max_length"]
            assert evaluate(tokens) == x.target[i]
            texts.append(task.text(tokens))
    assert len(set(texts)) == len(texts)
    assert sum(overlaps(task).values()) == 0


def test_any_number_of_workers_makes_the_same_bits(tmp_path, monkeypatch):
    fingerprints = set()
    for workers in (1, 2, 5):
        monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / str(workers)))
        fingerprints.add(fingerprint(prepare(ListOpsSpec(**SMALL), tmp_path, workers)))
    assert len(fingerprints) == 1


def test_a_prepared_task_is_opened_and_not_made_again(tmp_path, own_cache, monkeypatch):
    first = ListOpsSpec(**SMALL).load(tmp_path)
    monkeypatch.setattr("headstart.tasks.listops.grow", None)
    again = ListOpsSpec(**SMALL, split_seed=4, fraction=0.5).load(tmp_path)  # neither changes what is prepared
    assert again.fingerprint == first.fingerprint


def test_a_small_set_is_the_beginning_of_a_larger_one(tmp_path):
    small = ListOpsSpec(**{**SMALL, "train": 50}).load(tmp_path)
    large = ListOpsSpec(**SMALL).load(tmp_path)
    assert np.array_equal(small.train.values, large.train.values[: len(small.train.values)])


def test_the_arrays_are_mapped_and_cannot_be_written(tmp_path):
    values = ListOpsSpec(**SMALL).load(tmp_path).train.values
    assert values.dtype == np.uint8
    assert not values.flags.writeable
    assert isinstance(values.base.base, np.memmap) or isinstance(values.base, np.memmap)


def test_preparing_tells_how_far_it_is(tmp_path, own_cache):
    progress = []
    prepare(ListOpsSpec(**SMALL), tmp_path, 2, lambda done, total: progress.append((done, total)))
    assert progress[-1] == (800, 800)
    assert [done for done, _ in progress] == sorted(done for done, _ in progress)


def test_the_fpt_variant_drops_brackets_and_cuts(tmp_path):
    settings = {"train": 40, "val": 5, "test": 5}
    full, short = ListOpsSpec(**settings).load(tmp_path), ListOpsSpec(variant="fpt", **settings).load(tmp_path)
    for i in range(40):
        symbols = full.train.values[full.train.offsets[i] : full.train.offsets[i + 1]]
        tokens = short.train.values[short.train.offsets[i] : short.train.offsets[i + 1]]
        assert np.array_equal(tokens, symbols[symbols != CLOSE][:512])
    assert np.array_equal(full.train.target, short.train.target)
    assert short.signature.length <= 512
    assert short.signature.width == full.signature.width == 15


def test_the_fpt_variant_shows_no_sequence_twice_either(tmp_path):
    task = ListOpsSpec(variant="fpt", min_length=3, max_length=12, train=600, val=100, test=100).load(tmp_path)
    assert sum(overlaps(task).values()) == 0


def test_the_rothermel_variant_is_all_symbols_and_takes_2000_positions(tmp_path):
    settings = {"train": 40, "val": 5, "test": 5}
    full, other = ListOpsSpec(**settings).load(tmp_path), ListOpsSpec(variant="rothermel", **settings).load(tmp_path)
    assert np.array_equal(full.train.values, other.train.values)
    assert other.signature.length == 2000


def test_root_baselines_are_what_a_table_from_root_to_label_scores(tmp_path):
    task = ListOpsSpec(**SMALL).load(tmp_path)
    roots = {name: task.split(name).values[task.split(name).offsets[:-1]] for name in SPLITS}
    answers = {}
    for root in np.unique(roots["train"]):
        answers[root] = np.bincount(task.train.target[roots["train"] == root], minlength=10).argmax()
    scores = {
        name: np.mean([answers[r] == y for r, y in zip(roots[name], task.split(name).target, strict=True)])
        for name in ("val", "test")
    }
    first, second = task.baselines
    assert (first.val, first.test) == (scores["val"], scores["test"])
    assert second.test > first.test
    assert "36.3 %" in first.source
    assert "50.7 %" in second.source


def test_root_baselines_of_full_length_are_near_the_known_figures(tmp_path):
    operator, digits = ListOpsSpec(train=3000, val=600, test=600).load(tmp_path).baselines
    error = (0.5 * 0.5 / 1200) ** 0.5
    assert abs((operator.val + operator.test) / 2 - 0.363) < 4 * error
    assert abs((digits.val + digits.test) / 2 - 0.507) < 4 * error


def test_a_range_without_lengths_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"task\.max_length: 40 leaves no length above task\.min_length 39 \(both are"):
        ListOpsSpec(min_length=39, max_length=40).load(tmp_path)


def test_a_range_with_too_few_expressions_is_refused_and_leaves_nothing(tmp_path, own_cache, monkeypatch):
    monkeypatch.setattr("headstart.tasks.listops.DRAWS_WITHOUT_NEW", 100_000)
    with pytest.raises(BadInput, match=r"draws in a row gave no new expression .* \(10 of 800 found\); widen"):
        ListOpsSpec(min_length=0, max_length=2, train=600, val=100, test=100).load(tmp_path)
    assert not [p for p in (own_cache / "prepared").iterdir() if not p.name.endswith(".lock")]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 40), st.integers(4, 60), st.integers(2, 12), st.integers(2, 12), st.integers(0, 2**31))
def test_any_rules_give_true_expressions(shortest, more, depth, arguments, seed):
    rules = Rules(seed, shortest, shortest + more, depth, arguments)
    trees = grow(rules, 0, 300)
    assert trees.tokens.size == trees.lengths.sum()
    for symbols, value in zip(sequences(trees), trees.target, strict=True):
        assert evaluate(symbols) == value


def test_test_expressions_may_be_longer_than_all_others(tmp_path):
    usual, longer = (ListOpsSpec(**SMALL, test_max_length=bound) for bound in (None, 120))
    task, same = longer.load(tmp_path), usual.load(tmp_path)
    for name in ("train", "val"):
        assert np.array_equal(task.split(name).values, same.split(name).values)
        assert np.array_equal(task.split(name).target, same.split(name).target)
    lengths = task.test.lengths
    assert len(lengths) == 100
    assert lengths.min() >= 40 > task.train.lengths.max()
    assert lengths.max() < 120
    for row in range(100):
        assert evaluate(task.test.inputs(row)) == task.test.target[row]
    assert task.signature.length == lengths.max()
    assert [line.val for line in task.baselines] == [line.val for line in same.baselines]
    assert len(np.unique(np.concatenate([task.split(name).index for name in SPLITS]))) == 800
    assert any("100 of 100 test sequences are longer than any of train" in remark for remark in remarks(task))


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"test_max_length": 40}, "test_max_length: 40 leaves no test expression longer .* more than max_length = 40"),
        ({"test_max_length": 90, "variant": "fpt"}, "test_max_length: variant 'fpt' cuts all expressions alike"),
    ],
)
def test_bounds_of_test_expressions_that_mean_nothing_are_refused(bounds, words):
    with pytest.raises(ValueError, match=words):
        ListOpsSpec(**SMALL, **bounds)
