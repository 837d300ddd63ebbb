"""Encoders: what stands at masked and missing positions."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from headstart.errors import BadInput
from headstart.models.contract import counted_flops
from headstart.models.encoders import EncoderSpec, TokenEncoder, build_encoder, encoder_flops, joined, there
from headstart.sequence import Batch, Signature

FLOATS = Signature("floats", 3, 6, 6, "none")
TOKENS = Signature("tokens", 9, 6, 6, "none")
GAPPED = replace(FLOATS, missing=True)
D = 8


def batch_of(signature: Signature, **more: Any) -> Batch:
    made = torch.Generator().manual_seed(1)
    inputs = (
        torch.randint(0, signature.width, (2, 6), generator=made)
        if signature.input == "tokens"
        else torch.randn(2, 6, signature.width, generator=made)
    )
    return Batch(inputs, torch.ones(2, 6, dtype=torch.bool), torch.arange(2), full=True, **more)


def mask() -> torch.Tensor:
    masked = torch.zeros(2, 6, dtype=torch.bool)
    masked[0, 2] = masked[1, 5] = True
    return masked


@pytest.mark.parametrize("kind", ["vector", "zero", "channel"])
def test_nothing_of_a_masked_position_is_seen_and_no_other_position_is_touched(kind: Any) -> None:
    for signature in (FLOATS, GAPPED) if kind == "channel" else (FLOATS, GAPPED, TOKENS):
        encoder = build_encoder(EncoderSpec(masked=kind), signature, D)
        seen = torch.rand(2, 6, 3, generator=torch.Generator().manual_seed(3)) < 0.5 if signature.missing else None
        batch = batch_of(signature, masked=mask(), observed=seen)
        inputs = batch.inputs.clone()
        inputs[mask()] = 0 if signature.input == "tokens" else 7.0
        other = None if seen is None else torch.where(mask()[:, :, None], ~seen, seen)
        hidden, plain = encoder(batch), encoder(replace(batch, masked=None))
        assert torch.equal(hidden, encoder(replace(batch, inputs=inputs, observed=other)))
        assert torch.equal(hidden[~mask()], plain[~mask()])
        assert not torch.equal(hidden[mask()], plain[mask()])


def test_a_masked_token_is_a_learned_vector_or_zero() -> None:
    batch = batch_of(TOKENS, masked=mask())
    vector, zero = (build_encoder(EncoderSpec(masked=kind), TOKENS, D) for kind in ("vector", "zero"))  # type: ignore[arg-type]
    assert torch.equal(vector(batch)[0, 2], vector.masked)
    assert not zero(batch)[mask()].any()
    assert torch.equal(zero(batch)[0, 0], zero.weight[batch.inputs[0, 0]])


def test_a_masked_float_is_a_learned_vector_or_the_input_zero() -> None:
    batch = batch_of(FLOATS, masked=mask())
    vector, zero = (build_encoder(EncoderSpec(masked=kind), FLOATS, D) for kind in ("vector", "zero"))  # type: ignore[arg-type]
    assert torch.equal(vector(batch)[1, 5], vector.masked)
    assert torch.equal(zero(batch)[1, 5], zero.input.bias)


def test_the_channel_is_one_more_input_that_holds_the_mask() -> None:
    batch = batch_of(FLOATS, masked=mask())
    encoder = build_encoder(EncoderSpec(masked="channel"), FLOATS, D)
    wide = torch.cat([batch.inputs * ~mask()[:, :, None], mask()[:, :, None]], -1)
    weight = torch.cat([encoder.input.weight, encoder.channel[:, None]], 1)
    torch.testing.assert_close(encoder(batch), F.linear(wide, weight, encoder.input.bias))


def test_a_missing_value_counts_as_zero_and_adds_its_features_vector() -> None:
    seen = torch.ones(2, 6, 3, dtype=torch.bool)
    seen[0, 1, 2] = seen[1, 0, 0] = False
    batch = batch_of(GAPPED, observed=seen)
    encoder = build_encoder(EncoderSpec(), GAPPED, D)
    nothing = replace(batch, inputs=batch.inputs.masked_fill(~seen, float("nan")))
    expected = encoder.input(batch.inputs.masked_fill(~seen, 0.0))
    expected[0, 1] += encoder.missing[2]
    expected[1, 0] += encoder.missing[0]
    torch.testing.assert_close(encoder(nothing), expected)
    assert torch.equal(encoder(replace(batch, observed=torch.ones_like(seen))), encoder(replace(batch, observed=None)))


def test_gradients_reach_what_stands_at_masked_and_missing_positions() -> None:
    seen = torch.zeros(2, 6, 3, dtype=torch.bool)
    for kind in ("vector", "channel"):
        encoder = build_encoder(EncoderSpec(masked=kind), GAPPED, D)  # type: ignore[arg-type]
        encoder(batch_of(GAPPED, masked=mask(), observed=seen)).sum().backward()
        assert all(p.grad is not None for p in encoder.parameters())


def test_an_orthogonal_start_has_gain_141_and_no_bias() -> None:
    encoder = build_encoder(EncoderSpec(init="orthogonal"), FLOATS, D)
    weight = encoder.input.weight
    torch.testing.assert_close(weight.T @ weight, 1.41**2 * torch.eye(3))
    assert not encoder.input.bias.any()


def test_what_needs_floats_is_refused_for_tokens() -> None:
    with pytest.raises(BadInput, match=r"model\.encoder\.masked: 'channel' is for float inputs.* 'vector' or 'zero'"):
        build_encoder(EncoderSpec(masked="channel"), TOKENS, D)
    with pytest.raises(BadInput, match=r"model\.encoder\.init: 'orthogonal' is for float inputs.*'standard'"):
        build_encoder(EncoderSpec(init="orthogonal"), TOKENS, D)


def joined_slowly(encoder: TokenEncoder, batch: Batch, patch: int) -> torch.Tensor:
    """Number after number: what a channel makes of a token and the six before it, and the largest of each patch."""
    assert encoder.filter is not None
    assert encoder.filter_bias is not None
    out = torch.zeros(len(batch), -(-batch.inputs.shape[1] // patch), D)
    for row, position, channel in product(*map(range, out.shape)):
        numbers = []
        for token in range(patch * position, patch * (position + 1)):
            if token >= batch.inputs.shape[1] or not batch.valid[row, token]:
                numbers.append(torch.zeros(()))
                continue
            total = encoder.filter_bias[channel]
            for back in range(min(7, token + 1)):
                value = encoder.weight[batch.inputs[row, token - back], channel]
                if batch.masked is not None and batch.masked[row, token - back]:
                    value = torch.zeros(()) if encoder.masked is None else encoder.masked[channel]
                total = total + encoder.filter[channel, 6 - back] * value
            numbers.append(F.gelu(total))
        out[row, position, channel] = max(numbers)
    return out


@pytest.mark.parametrize("patch", [2, 3, 5, 12])
@pytest.mark.parametrize("kind", ["vector", "zero"])
@pytest.mark.parametrize("lengths", [(11, 11), (11, 4)])
def test_joined_tokens_are_those_of_a_slow_reference(patch: int, kind: Any, lengths: tuple[int, int]) -> None:
    encoder = build_encoder(EncoderSpec(masked=kind, patch=patch), TOKENS, D)
    assert isinstance(encoder, TokenEncoder)
    made = torch.Generator().manual_seed(2)
    valid = torch.arange(11) < torch.tensor(lengths)[:, None]
    batch = Batch(torch.randint(0, 9, (2, 11), generator=made), valid, torch.arange(2), full=bool(valid.all()))
    for masked in (None, (torch.rand(2, 11, generator=made) < 0.3) & valid):
        batch = replace(batch, masked=masked)
        ours = joined(encoder(batch), there(batch), patch)
        torch.testing.assert_close(ours, joined_slowly(encoder, batch, patch))
        positions = there(batch, patch)
        wanted = [[patch * i < length for i in range(-(-11 // patch))] for length in lengths]
        assert (positions is None and all(map(all, wanted))) or positions.tolist() == wanted  # type: ignore[union-attr]


def test_what_joins_tokens_is_refused_for_floats() -> None:
    with pytest.raises(BadInput, match=r"model\.encoder\.patch: 4 joins tokens, this task has floats; .* task\.patch"):
        build_encoder(EncoderSpec(patch=4), FLOATS, D)


def test_flops_of_joined_tokens_are_those_of_a_count() -> None:
    encoder = build_encoder(EncoderSpec(patch=4), TOKENS, D)
    batch = replace(batch_of(TOKENS), inputs=batch_of(TOKENS).inputs[:1])
    assert encoder_flops(TOKENS, D, 6, 4) == counted_flops(lambda: encoder(batch))


@pytest.mark.parametrize("signature", [FLOATS, GAPPED, TOKENS])
def test_encoder_flops_are_those_of_a_count(signature: Signature) -> None:
    encoder = build_encoder(EncoderSpec(), signature, D)
    seen = torch.ones(1, 6, 3, dtype=torch.bool) if signature.missing else None
    batch = replace(batch_of(signature), inputs=batch_of(signature).inputs[:1], observed=seen)
    assert encoder_flops(signature, D, 6) == counted_flops(lambda: encoder(batch))
