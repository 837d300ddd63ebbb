"""Recordings from .wav files: PCM of 8 to 32 bits or floats, any number of channels, as 16-bit levels."""

from __future__ import annotations

import math
import struct

import numpy as np

from headstart.data.problems import Mistakes

SAMPLES = 2**24
"""Samples that one recording may have (17 minutes at 16 kHz)."""
RATES = (1_000, 768_000)
"""Samples per second that a recording may have."""
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE


def read_wav(content: bytes, place: str, mistakes: Mistakes) -> tuple[int, np.ndarray] | None:
    """(samples per second, (L, channels) float64 in units of 16-bit levels, -32768 to 32767); None and a mistake.

    Source: the RIFF/WAVE format of Microsoft and IBM, 1991, with the extensible header of 2001.
    """
    chunks = _chunks(content, place, mistakes)
    if chunks is None:
        return None
    if len(chunks.get(b"fmt ", b"")) < 16 or b"data" not in chunks:
        mistakes.add(place, "has no whole 'fmt ' or 'data' chunk: it is cut short or no .wav file; give it again")
        return None
    tag, channels, rate, _, block, bits = struct.unpack("<HHIIHH", chunks[b"fmt "][:16])
    if tag == _EXTENSIBLE and len(chunks[b"fmt "]) >= 26:
        tag = struct.unpack("<H", chunks[b"fmt "][24:26])[0]
    known = (tag == _PCM and bits in (8, 16, 24, 32)) or (tag == _FLOAT and bits in (32, 64))
    if not known or not 0 < channels <= 64 or block != channels * bits // 8:
        mistakes.add(
            place,
            f"is of kind {tag} with {channels} channels of {bits} bits; PCM of 8, 16, 24 or 32 bits "
            "and floats of 32 or 64 bits are read: convert it",
        )
    elif not RATES[0] <= rate <= RATES[1]:
        mistakes.add(place, f"has {rate} samples per second; {RATES[0]} to {RATES[1]} are read")
    elif not chunks[b"data"]:
        mistakes.add(place, "holds no sample; leave it out")
    elif len(chunks[b"data"]) % block or len(chunks[b"data"]) // block > SAMPLES:
        mistakes.add(
            place, f"has {len(chunks[b'data'])} bytes of samples of {block}: they are cut short, or more than {SAMPLES}"
        )
    else:
        levels = _levels(chunks[b"data"], tag, bits, place, mistakes)
        return None if levels is None else (rate, levels.reshape(-1, channels))
    return None


def at_rate(samples: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """Recordings (L, channels) mixed to mono (the mean of the channels) and resampled, (L',) float64."""
    mono = samples.mean(1)
    if rate == wanted:
        return np.asarray(mono)
    from scipy.signal import resample_poly

    common = math.gcd(rate, wanted)
    return np.asarray(resample_poly(mono, wanted // common, rate // common))


def to_levels(samples: np.ndarray) -> np.ndarray:
    """Levels rounded and kept within 16 bits, (L,) int16."""
    return np.asarray(np.clip(np.rint(samples), -(2**15), 2**15 - 1).astype(np.int16))


def _chunks(content: bytes, place: str, mistakes: Mistakes) -> dict[bytes, bytes] | None:
    """The chunks by name; of chunks of one name the first."""
    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        mistakes.add(place, "does not begin as a .wav file does (RIFF, WAVE); give a .wav file")
        return None
    found: dict[bytes, bytes] = {}
    at = 12
    while at + 8 <= len(content):
        name, size = content[at : at + 4], int.from_bytes(content[at + 4 : at + 8], "little")
        part = content[at + 8 : at + 8 + size]
        if len(part) < size and name in (b"fmt ", b"data"):
            mistakes.add(
                place, f"is cut short: {len(part)} of {size} bytes of its {name.decode().strip()} chunk; give it again"
            )
            return None
        found.setdefault(name, part)
        at += 8 + size + size % 2  # chunks begin at even places
    return found


def _levels(data: bytes, tag: int, bits: int, place: str, mistakes: Mistakes) -> np.ndarray | None:
    """Samples (S,) in units of 16-bit levels."""
    if tag == _FLOAT:
        floats = np.frombuffer(data, dtype="<f4" if bits == 32 else "<f8").astype(np.float64)
        wrong = np.flatnonzero(~(np.abs(floats) <= 1))
        if len(wrong):
            mistakes.add(
                place, f"sample {wrong[0]} is {floats[wrong[0]]:.6g}; floats go from -1 to 1: scale it, or leave it out"
            )
            return None
        return np.asarray(floats * 2.0**15)
    if bits == 8:
        return np.asarray((np.frombuffer(data, dtype=np.uint8).astype(np.float64) - 128) * 256)
    if bits == 24:
        three = np.frombuffer(data, dtype=np.uint8).reshape(-1, 3)
        wide = np.zeros((len(three), 4), dtype=np.uint8)
        wide[:, 1:] = three
        return wide.reshape(-1).view("<i4").astype(np.float64) / 2**16
    return np.frombuffer(data, dtype="<i2" if bits == 16 else "<i4").astype(np.float64) / (1 if bits == 16 else 2**16)
