"""Sound: what files of .wav, FLAC, Ogg and MP3 hold. A file alone is a table of one row."""

from __future__ import annotations

import io
import math
import re
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np

from headstart.data.archives import FILE_BYTES, reading
from headstart.data.extras import library
from headstart.data.layout import LayoutSpec
from headstart.data.rows import list_column
from headstart.data.table import Table
from headstart.errors import BadInput, Mistakes, Places, one_line
from headstart.ways import field_name, option

Sound = tuple[int, np.ndarray]
"""(samples per second, (L, channels) float64 in units of 16-bit levels, -32768 to 32767)."""

SAMPLES = 2**24
"""Samples that one recording may have (17 minutes at 16 kHz)."""
RATES = (1_000, 768_000)
"""Samples per second that a recording may have."""


def read_wav(content: bytes, location: str, mistakes: Mistakes) -> Sound | None:
    """The sound of a .wav file; None and a mistake."""
    return _checked(lambda: _wav_samples(content), location, mistakes)


def _checked(decode: Callable[[], Sound], location: str, mistakes: Mistakes) -> Sound | None:
    """Samples as levels, where there are some and not too many; None and a mistake."""
    try:
        rate, samples = decode()
        if not RATES[0] <= rate <= RATES[1]:
            raise ValueError(f"has {rate} samples per second; {RATES[0]} to {RATES[1]} are read")
        if not 0 < len(samples) <= SAMPLES:
            raise ValueError(f"has {len(samples)} samples; 1 to {SAMPLES} are read")
        return rate, _levels(samples).reshape(len(samples), -1)
    except ValueError as error:
        mistakes.add(location, str(error))
        return None


def _wav_samples(content: bytes) -> tuple[int, np.ndarray]:
    """Samples per second and samples (L,) or (L, channels). Raises: ValueError for what is not a whole .wav file."""
    from scipy.io import wavfile

    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        raise ValueError("does not begin as a .wav file does (RIFF, WAVE); give a .wav file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wavfile.WavFileWarning)  # chunks besides format and samples
            warnings.filterwarnings("error", "Reached EOF prematurely", wavfile.WavFileWarning)
            return wavfile.read(io.BytesIO(content))  # type: ignore[no-any-return]
    except Exception as error:  # a damaged file leads the reader to whatever error
        if match := re.search(r"Unknown wave file format: (\w+)", str(error)):
            way = "PCM of 8 to 32 bits and floats are read: convert it, as `sox IN.wav -e signed OUT.wav` does"
            raise ValueError(f"holds sound coded as {match[1]}; {way}") from None
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


def sample_form(content: bytes, ending: str) -> tuple[str, int]:
    """How samples stand in a file, such as "wav, 16 bits", and its channels (0 where only a decoder knows).

    Sources: the chunk `fmt` of RIFF (code, channels, rate, bytes a second and a frame, bits), and STREAMINFO of FLAC.
    """
    if content[:4] == b"RIFF" and (at := content.find(b"fmt ")) > 0 and len(content) >= at + 24:
        code, channels, _, _, _, bits = struct.unpack_from("<HHIIHH", content, at + 8)
        return f"wav, {bits} bits{', floats' if code == 3 else ''}", channels
    if content[:4] == b"fLaC" and len(content) >= 26:
        packed = int.from_bytes(content[18:26], "big")
        return f"flac, {(packed >> 36 & 31) + 1} bits", (packed >> 41 & 7) + 1
    return ending.lower().removeprefix("."), 0


def at_rate(samples: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """Recordings (L, channels) mixed to mono (the mean of the channels) and resampled, (L',) float64."""
    mono = samples.mean(1)
    if rate == wanted:
        return np.asarray(mono)
    from scipy.signal import resample_poly

    common = math.gcd(rate, wanted)
    return np.asarray(resample_poly(mono, wanted // common, rate // common))


def sound_rate(source: str, spec: LayoutSpec) -> int | None:
    """The rate that sound is brought to. Raises: BadInput for one that sound does not have."""
    if spec.rate is None or (RATES[0] <= spec.rate and float(spec.rate).is_integer()):
        return None if spec.rate is None else int(spec.rate)
    raise BadInput(
        f"{source}: {field_name('rate')}: sound is brought to {RATES[0]:,} samples per second or more, a whole "
        "number, not to "
        f"{spec.rate:g}; give one such as {option('rate', '8000')}"
    )


def to_levels(samples: np.ndarray) -> np.ndarray:
    """Levels rounded and kept within 16 bits, (L,) int16."""
    return np.asarray(np.clip(np.rint(samples), -(2**15), 2**15 - 1).astype(np.int16))


def read_sound(content: bytes, location: str, mistakes: Mistakes, decoder: ModuleType | None = None) -> Sound | None:
    """The sound of a file; None and a mistake. decoder: the library soundfile, of what is no .wav file."""
    if decoder is None:
        return read_wav(content, location, mistakes)

    def decode() -> Sound:
        try:
            with decoder.SoundFile(io.BytesIO(content)) as file:
                if not 0 < file.frames <= SAMPLES:
                    raise ValueError(f"has {file.frames} samples; 1 to {SAMPLES} are read")
                samples = file.read(dtype="float32", always_2d=True)
                if len(samples) < 0.98 * file.frames and file.format != "MP3":  # whose header counts roughly
                    raise ValueError(f"is cut short: {len(samples)} of {file.frames} samples; replace the file")
                return file.samplerate, np.clip(samples, -1, 1)
        except decoder.LibsndfileError as error:
            raise ValueError(f"is cut short or no sound that can be read ({one_line(error, 80)}); replace it") from None

    return _checked(decode, location, mistakes)


def decoder_of(path: Path) -> ModuleType | None:
    """What decodes a file of this name besides .wav. Raises: BadInput where it is absent."""
    ending = path.suffix.lower()
    return None if ending == ".wav" else library("soundfile", path, f"sound in {ending} files")


def read_recording(path: Path, spec: LayoutSpec, mistakes: Mistakes) -> Table:
    """One file of sound, sample by sample (-1 to 1), as a table of one row."""
    decoder = decoder_of(path)
    with reading(path):
        size = path.stat().st_size
        if size > FILE_BYTES:
            raise BadInput(f"{path}: has {size:,} bytes, at most {FILE_BYTES:,} are read; cut the recording into parts")
        sound = read_sound(path.read_bytes(), str(path), mistakes, decoder)
    mistakes.check()
    assert sound is not None, "whatever is wrong is a mistake"
    rate, samples = sound
    wanted = sound_rate(str(path), spec)
    if wanted is not None:
        samples = at_rate(samples, rate, wanted)[:, None]
    column = list_column("values", [np.asarray(samples / 2.0**15, dtype=np.float32)], Places(str(path)))
    table = Table({"values": column}, 1, Places(str(path), names=[str(path)]), "a recording", shape="list")
    table.rate = (wanted or rate) if samples.shape[1] == 1 else None
    table.steps, table.unit = np.array([1 / (wanted or rate)]), 1.0
    resampled = f", resampled to {wanted:,}" if wanted not in (None, rate) else ""
    table.notes.append(f"{rate:,} samples per second{resampled}")
    return table
