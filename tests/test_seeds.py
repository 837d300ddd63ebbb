"""`bits` is one function of its counters, wherever and however it is asked."""

import hashlib

import numpy as np
import pytest
import torch

from headstart.seeds import Draw, below, bits, normal, permutation, stream_key, uniform

WORD = 2**64 - 1


def bits_by_hand(seed: int, stream: str, *counters: int) -> int:
    """The same hash in plain whole numbers, one element at a time."""

    def mix(x: int) -> int:
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
        return x ^ (x >> 31)

    key = int.from_bytes(hashlib.sha256(stream.encode()).digest()[:8], "little")
    state = mix((seed + key) & WORD)
    for counter in counters:
        state = mix((state + 0x9E3779B97F4A7C15 * (counter + 1)) & WORD)
    return state >> 32


def test_bits_are_the_documented_hash():
    for seed, stream, counters in [
        (0, "mask", (0, 0, 0)),
        (7, "mask", (3, 1_000_000, 15_999)),
        (-1, "", (5,)),
        (2**62, "draw/dropout", ()),
        (3, "order", (0, -4)),
    ]:
        assert int(bits(seed, stream, *counters)) == bits_by_hand(seed, stream, *counters)


def test_bits_never_change():
    """Frozen: a change here changes every split, mask, order and start of every study."""
    golden = [3236615116, 2809382728, 920997027, 3328396629, 249211859, 2149241733, 3791561757, 2552718878]
    assert bits(0, "mask", np.arange(8)).tolist() == golden


def test_bits_are_equal_in_numpy_and_torch():
    epoch, index, position = 3, np.arange(50)[:, None], np.arange(70)[None, :]
    plain = bits(11, "mask", epoch, index, position)
    tensor = bits(11, "mask", epoch, torch.from_numpy(index), torch.from_numpy(position))
    assert isinstance(plain, np.ndarray)
    assert plain.shape == (50, 70)
    assert np.array_equal(plain, tensor.numpy())


def test_bits_are_equal_alone_and_under_vmap():
    seeds, position = torch.arange(5), torch.arange(33)
    alone = torch.stack([bits(seed, "draw/x", 2, position) for seed in seeds])
    stacked = torch.func.vmap(lambda seed: bits(seed, "draw/x", 2, position))(seeds)
    assert torch.equal(alone, stacked)
    assert torch.equal(
        torch.func.vmap(lambda seed: uniform(seed, "u", position))(seeds),
        torch.stack([uniform(seed, "u", position) for seed in seeds]),
    )


def test_uniform_numbers_are_equal_in_numpy_and_torch_to_the_last_bit():
    plain, tensor = uniform(1, "u", np.arange(1000)), uniform(1, "u", torch.arange(1000))
    assert plain.dtype == np.float32
    assert tensor.dtype == torch.float32
    assert np.array_equal(plain, tensor.numpy())


def test_every_counter_the_seed_and_the_stream_matter():
    n = np.arange(1000)
    base = bits(0, "a", n, 0)
    for other in (bits(1, "a", n, 0), bits(0, "b", n, 0), bits(0, "a", n, 1), bits(0, "a", 0, n), bits(0, "a", n)):
        assert (base == other).mean() < 0.01


def test_bits_are_uniform_and_neighbours_are_independent():
    many = bits(0, "uniformity", np.arange(200_000))
    assert many.min() >= 0
    assert many.max() < 2**32
    counts = np.bincount(many >> 24, minlength=256)
    expected = len(many) / 256
    assert ((counts - expected) ** 2 / expected).sum() < 350  # chi-square, 255 degrees: 350 has p 6e-5
    for path in range(32):
        assert abs((many >> path & 1).mean() - 0.5) < 0.006  # 5 standard errors
    numbers = many / 2**32
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.012


def test_one_bit_of_a_counter_moves_half_the_bits():
    base, many = bits(0, "avalanche", np.arange(4096)), []
    for path in range(12):
        changed = base ^ bits(0, "avalanche", np.arange(4096) ^ (1 << path))
        many.append(np.mean([(changed >> b & 1).mean() for b in range(32)]))
    assert np.allclose(many, 0.5, atol=0.01)


def test_counters_are_integers():
    with pytest.raises(TypeError, match="counters are integers"):
        bits(0, "a", np.arange(3.0))
    with pytest.raises(TypeError, match="counters are integers"):
        bits(0, "a", torch.arange(3.0))


def test_uniform_numbers_lie_in_zero_to_one():
    many = uniform(0, "u", np.arange(100_000))
    assert many.min() >= 0
    assert many.max() < 1
    assert abs(many.mean() - 0.5) < 0.005


def test_normal_numbers_have_mean_0_and_deviation_1_in_numpy_and_torch():
    plain, tensor = normal(0, "n", np.arange(50_000)), normal(0, "n", torch.arange(50_000))
    assert np.allclose(plain, tensor.numpy(), rtol=0, atol=1e-12)
    assert abs(plain.mean()) < 0.02
    assert abs(plain.std() - 1) < 0.02
    assert np.isfinite(plain).all()


def test_whole_numbers_below_a_limit_reach_all_of_it():
    counts = np.bincount(below(0, "roll", 8, np.arange(8000)), minlength=8)
    assert len(counts) == 8
    assert counts.min() > 850


def test_a_permutation_holds_everything_once_and_follows_its_seed():
    assert sorted(permutation(0, "p", 100).tolist()) == list(range(100))
    assert permutation(0, "p", 100).tolist() == permutation(0, "p", 100).tolist()
    assert permutation(0, "p", 100).tolist() != permutation(1, "p", 100).tolist()


def test_a_stream_is_named_by_its_hash():
    assert stream_key("mask") == int.from_bytes(hashlib.sha256(b"mask").digest()[:8], "little", signed=True)


def test_a_draw_follows_the_example_and_not_its_place():
    index = torch.tensor([4, 9, 2])
    whole = Draw(0, 1, index)("dropout", (3, 10, 6))
    turned = Draw(0, 1, index.flip(0))("dropout", (3, 10, 6))
    longer = Draw(0, 1, index)("dropout", (3, 15, 6))
    assert torch.equal(whole, turned.flip(0))
    assert torch.equal(whole, longer[:, :10])
    assert not torch.equal(whole, Draw(0, 2, index)("dropout", (3, 10, 6)))
    assert not torch.equal(whole, Draw(0, 1, index)("another", (3, 10, 6)))


def test_a_draw_must_start_with_the_batch():
    with pytest.raises(ValueError, match=r"draw 'x': shape \(4, 2\) does not start with the batch \(3\)"):
        Draw(0, 0, torch.arange(3))("x", (4, 2))
