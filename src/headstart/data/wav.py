"""Recordings from .wav files: PCM of 8 to 32 bits or floats, any number of channels, as 16-bit levels."""

from __future__ import annotations

import io
import math
import warnings

import numpy as np

from headstart.data.problems import Mistakes

SAMPLES = 2**24
"""Samples that one recording may have (17 minutes at 16 kHz)."""
RATES = (1_000, 768_000)
"""Samples per second that a recording may have."""


def read_wav(content: bytes, place: str, mistakes: Mistakes) -> tuple[int, np.ndarray] | None:
    """(samples per second, (L, channels) float64 in units of 16-bit levels, -32768 to 32767); None and a mistake."""
    try:
        rate, samples = _read(content)
        if not RATES[0] <= rate <= RATES[1]:
            raise ValueError(f"has {rate} samples per second; {RATES[0]} to {RATES[1]} are read")
        if not 0 < len(samples) <= SAMPLES:
            raise ValueError(f"has {len(samples)} samples; 1 to {SAMPLES} are read")
        return rate, _levels(samples).reshape(len(samples), -1)
    except ValueError as error:
        mistakes.add(place, str(error))
        return None


def _read(content: bytes) -> tuple[int, np.ndarray]:
    """Samples per second and samples (L,) or (L, channels). Raises: ValueError for what is no whole .wav file."""
    from scipy.io import wavfile

    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        raise ValueError("does not begin as a .wav file does (RIFF, WAVE); give a .wav file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wavfile.WavFileWarning)  # chunks besides format and samples
            warnings.filterwarnings("error", "Reached EOF prematurely", wavfile.WavFileWarning)
            return wavfile.read(io.BytesIO(content))  # type: ignore[no-any-return]
    except Exception as error:  # a damaged file leads the reader to whatever error
        raise ValueError(f"is cut short or not a .wav file that can be read ({error}); replace the file") from None


def _levels(samples: np.ndarray) -> np.ndarray:
    """Samples in units of 16-bit levels, float64; those of 24 bits lie in the upper bytes of 32."""
    if samples.dtype.kind == "f":
        wrong = np.argwhere(~(np.abs(samples) <= 1))
        if len(wrong):
            value = f"{samples[tuple(wrong[0])]:.6g}"
            raise ValueError(f"sample {wrong[0][0]} is {value}; floats go from -1 to 1: scale it, or leave it out")
        return samples.astype(np.float64) * 2.0**15
    scales = {"uint8": 2.0**8, "int16": 1.0, "int32": 2.0**-16}
    if samples.dtype.name not in scales:
        raise ValueError(f"has samples of type {samples.dtype}; PCM of 8 to 32 bits and floats are read: convert it")
    zero = 128 if samples.dtype.name == "uint8" else 0
    return (samples.astype(np.float64) - zero) * scales[samples.dtype.name]


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
