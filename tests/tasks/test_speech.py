"""Recordings in every form of .wav, the official splits, and every way for them to be wrong."""

import io
import struct
import tarfile
import wave

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import resample_poly

from headstart.data.sounds import at_rate, read_wav, to_levels
from headstart.errors import BadInput, Mistakes
from headstart.tasks.speech import SpeechSpec


def wav(samples, rate=8000, bits=16, tag=1, extra=b"", extensible=False):
    """The bytes of a .wav file of samples (L,) or (L, channels) in their own units."""
    samples = np.asarray(samples)
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    if tag == 3:
        data = samples.astype("<f4" if bits == 32 else "<f8").tobytes()
    elif bits == 8:
        data = samples.astype(np.uint8).tobytes()
    elif bits == 24:
        data = samples.astype("<i4").reshape(-1, 1).view(np.uint8).reshape(-1, 4)[:, :3].tobytes()
    else:
        data = samples.astype(f"<i{bits // 8}").tobytes()
    block = channels * bits // 8
    head = struct.pack("<HHIIHH", 0xFFFE if extensible else tag, channels, rate, rate * block, block, bits)
    if extensible:
        head += struct.pack("<HHIH", 22, bits, 0, tag) + b"\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x008\x9bq"
    chunks = b"fmt " + struct.pack("<I", len(head)) + head + extra + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WAVE" + chunks


def sound(seed, length=60):
    return np.random.default_rng(seed).integers(-9000, 9000, length)


def digits(speakers=("ann", "bo"), takes=12):
    return {
        f"fsdd/{d}_{s}_{t}.wav": wav(sound(100 * t + 10 * d + len(s), 40 + d + t))
        for d in range(3)
        for s in speakers
        for t in range(takes)
    }


def commands(count=20):
    files = {
        f"{word}/{i}_nohash_0.wav": wav(sound(1000 * w + i, 80 if i else 50), 16000)
        for w, word in enumerate(("yes", "no", "up"))
        for i in range(count)
    }
    val = [f"{word}/{i}_nohash_0.wav" for word in ("yes", "no", "up") for i in (3, 4)]
    test = [f"{word}/{i}_nohash_0.wav" for word in ("yes", "no", "up") for i in (7, 8, 9)]
    files |= {
        "validation_list.txt": "\n".join(val).encode() + b"\n",
        "testing_list.txt": "\n".join(test).encode(),
        "_background_noise_/hum.wav": wav(sound(5, 900), 16000),
        "README.md": b"words",
    }
    return {f"speech_commands/{name}": content for name, content in files.items()}


def put(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def packed(files, strip):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:xz") as tar:
        for name, content in reversed(files.items()):
            info = tarfile.TarInfo(name.removeprefix(strip))
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def why(data, **settings):
    with pytest.raises(BadInput) as caught:
        SpeechSpec(**settings).load(data)
    return str(caught.value)


def heard(task, split, row):
    """Levels of an example, from what a model sees."""
    x = task.split(split)
    return np.round((x.inputs(row)[:, 0] - x.shift) / x.scale).astype(int)


def test_the_lists_name_val_and_test_and_noise_is_no_word(tmp_path):
    task = SpeechSpec(length=80).load(put(tmp_path, commands()))
    assert (len(task.train), len(task.val), len(task.test)) == (45, 6, 9)
    assert task.labels == ("no", "up", "yes")
    assert (task.signature.length, task.signature.shortest) == (80, 80)
    assert heard(task, "test", 0).tolist() == sound(1007, 80).tolist()
    assert task.labels[task.test.target[0]] == "no"
    assert task.notes[0].startswith("not the official Speech Commands 0.02: 45 train, 6 val, 9 test recordings")


def test_short_recordings_are_filled_with_silence_or_stay_short(tmp_path):
    data = put(tmp_path, commands())
    full, short = (SpeechSpec(length=80, pad=pad).load(data) for pad in (True, False))
    assert short.signature.shortest == 50
    assert heard(full, "train", 0).tolist() == [*heard(short, "train", 0).tolist(), *[0] * 30]


def test_long_recordings_lose_their_rest_and_are_counted(tmp_path):
    task = SpeechSpec(length=60).load(put(tmp_path, commands()))
    assert heard(task, "test", 0).tolist() == sound(1007, 80)[:60].tolist()
    assert "57 recordings are longer than 60 samples and lose their rest" in task.notes


def test_train_samples_have_mean_0_and_deviation_1(tmp_path):
    task = SpeechSpec(source="digits", pad=False).load(put(tmp_path, digits()))
    seen = task.train.as_seen(task.train.values)
    assert abs(seen.mean(dtype=np.float64)) < 1e-6
    assert abs(seen.std(dtype=np.float64) - 1) < 1e-6


def test_the_first_five_takes_of_the_digits_are_test(tmp_path):
    task = SpeechSpec(source="digits", pad=False).load(put(tmp_path, digits()))
    assert (len(task.train), len(task.val), len(task.test)) == (38, 4, 30)
    assert task.labels == ("0", "1", "2")
    assert heard(task, "test", 0).tolist() == sound(3, 40).tolist()
    other = SpeechSpec(source="digits", pad=False, split_seed=1).load(tmp_path)
    assert set(other.val.index) != set(task.val.index)
    assert set(other.test.index) == set(task.test.index)


@pytest.mark.parametrize(
    ("files", "source", "strip"), [(digits, "digits", "fsdd/"), (commands, "commands", "speech_commands/")]
)
def test_an_archive_gives_what_its_folder_gives(tmp_path, files, source, strip):
    folder = put(tmp_path / "a", files())
    archive = put(tmp_path / "b", {f"{strip}data.tar.xz": packed(files(), strip)})
    fingerprints = [SpeechSpec(source=source, pad=False).load(data).fingerprint for data in (folder, archive)]
    assert fingerprints[0] == fingerprints[1]


def test_folders_of_ones_own_are_split_by_content(tmp_path):
    files = {f"sounds/{'ab'[i % 2]}/{i}.wav": wav(sound(i)) for i in range(60)}
    files |= {f"sounds/a/copy{i}.wav": wav(sound(0)) for i in range(9)}
    task = SpeechSpec(source="folders", length=60).load(put(tmp_path, files))
    assert (len(task.train), len(task.val), len(task.test)) == (56, 6, 7)
    contents = [
        {tuple(heard(task, name, i)) for i in range(len(task.split(name)))} for name in ("train", "val", "test")
    ]
    assert not contents[0] & contents[1]
    assert not contents[0] & contents[2]
    assert not contents[1] & contents[2]


def test_copies_in_official_splits_are_counted(tmp_path):
    files = commands()
    files["speech_commands/yes/7_nohash_0.wav"] = files["speech_commands/yes/1_nohash_0.wav"]
    files["speech_commands/yes/3_nohash_0.wav"] = files["speech_commands/yes/2_nohash_0.wav"]
    task = SpeechSpec(length=80).load(put(tmp_path, files))
    assert task.notes[1:] == (
        "of the 6 val recordings, 1 also stand in train",
        "of the 9 test recordings, 1 also stand in train",
    )


def test_another_rate_or_stereo_is_refused_unless_asked_for(tmp_path):
    files = commands()
    both = np.stack([sound(1, 400), sound(2, 400)], 1)
    files["speech_commands/up/0_nohash_0.wav"] = wav(both, 8000)
    files["speech_commands/up/1_nohash_0.wav"] = wav(sound(3, 50), 8000)
    data = put(tmp_path, files)
    text = why(data)
    assert "up/0_nohash_0.wav: has 8000 samples per second in 2 channels, not 16000 in one; set task.resample" in text
    assert text.endswith("(1 more like it)")
    task = SpeechSpec(length=900, pad=False, resample=16000).load(data)
    slow = np.rint(resample_poly(both.mean(1), 2, 1))
    row = next(i for i in range(len(task.train)) if task.train.lengths[i] == 800)
    assert np.array_equal(heard(task, "train", row), np.clip(slow, -32768, 32767).astype(int))
    assert "resampled to 16000 samples per second (the files have 8000, 16000)" in task.notes


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "does not begin as a .wav file does"),
        (b"RIFX" + wav(sound(1))[4:], "does not begin as a .wav file does"),
        (wav(sound(1))[:-7], "is cut short or not a .wav file that can be read ("),
        (wav(sound(1))[:-8], "is cut short or not a .wav file that can be read (Reached EOF prematurely"),
        (wav(sound(1))[:30], "is cut short or not a .wav file that can be read ("),
        (wav(sound(1))[:40], "is cut short or not a .wav file that can be read ("),
        (wav([]), "has 0 samples; 1 to 16777216 are read"),
        (wav(sound(1), tag=6), "holds sound coded as ALAW; PCM of 8 to 32 bits and floats are read: convert it"),
        (wav(sound(1), rate=7), "has 7 samples per second"),
        (wav([0.5, np.nan], bits=32, tag=3), "sample 1 is nan; floats go from -1 to 1"),
        (wav([0.5, 3.0], bits=64, tag=3), "sample 1 is 3; floats go from -1 to 1"),
    ],
)
def test_what_is_wrong_with_a_recording_is_said_with_its_file(tmp_path, content, words):
    data = put(tmp_path, digits() | {"fsdd/1_ann_8.wav": content})
    text = why(data, source="digits")
    assert f"{tmp_path / 'fsdd' / '1_ann_8.wav'}: " in text
    assert words in text


def test_what_is_wrong_with_lists_and_folders_is_said(tmp_path):
    files = commands()
    files["speech_commands/testing_list.txt"] += b"\nyes/none.wav"
    assert "testing_list.txt, row 10: 'yes/none.wav' is not there" in why(put(tmp_path / "a", files))
    files = commands()
    del files["speech_commands/validation_list.txt"]
    assert "validation_list.txt: is not there, or names no recording" in why(put(tmp_path / "b", files))
    data = put(tmp_path / "c", commands())
    (data / "speech_commands/left").mkdir()
    assert "left: the label has no recording" in why(data)
    files = commands(10)
    files["speech_commands/testing_list.txt"] += "".join(f"\nno/{i}_nohash_0.wav" for i in (0, 1, 2, 5, 6)).encode()
    assert "no: the label has no train recording" in why(put(tmp_path / "d", files))
    files = commands()
    files["speech_commands/testing_list.txt"] += b"\nyes/3_nohash_0.wav"
    assert "yes/3_nohash_0.wav stands in both lists" in why(put(tmp_path / "e", files))
    assert "needs takes below 5" in why(put(tmp_path / "f", digits(takes=4)), source="digits")
    alike = {f"sounds/a/{i}.wav": wav(sound(i)) for i in range(9)}
    assert "every recording has label 'a'" in why(put(tmp_path / "g", alike), source="folders")
    silent = {f"sounds/{c}/{i}.wav": wav(np.zeros(9 + i + 20 * (c == "b"))) for c in "ab" for i in range(20)}
    assert "all train samples are equal" in why(put(tmp_path / "h", silent), source="folders")


def test_too_long_a_recording_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("headstart.data.sounds.SAMPLES", 50)
    text = why(put(tmp_path, digits()), source="digits")
    assert "0_ann_11.wav: has 51 samples; 1 to 50 are read" in text


def test_one_cause_is_one_line_with_its_number(tmp_path):
    text = why(put(tmp_path, {f"sounds/a/{i}.wav": b"x" for i in range(40)}), source="folders")
    assert text.count("does not begin as a .wav file does") == 1
    assert "(39 more like it)" in text


def test_every_kind_of_wav_gives_the_same_levels():
    levels = sound(1) // 256 * 256
    kinds = [
        wav(levels),
        wav(levels // 256 + 128, bits=8),
        wav(levels * 256, bits=24),
        wav(levels * 65536, bits=32),
        wav(levels / 2**15, bits=32, tag=3),
        wav(levels / 2**15, bits=64, tag=3),
        wav(levels, extensible=True),
        wav(levels, extra=b"LIST\3\0\0\0abc\0"),
    ]
    for content in kinds:
        rate, samples = read_wav(content, "here", Mistakes())
        assert rate == 8000
        assert np.array_equal(samples[:, 0], levels)


def test_a_pure_tone_keeps_its_pitch_when_resampled():
    time = np.arange(8000) / 8000
    tone = at_rate(np.sin(2 * np.pi * 440 * time)[:, None], 8000, 16000)
    assert len(tone) == 16000
    assert np.abs(np.fft.rfft(tone)).argmax() == 440
    assert to_levels(np.array([40000.0, -40000.0, 1.5])).tolist() == [32767, -32768, 2]


@given(st.lists(st.integers(-(2**15), 2**15 - 1), min_size=1, max_size=50), st.integers(1, 3))
def test_what_the_standard_library_writes_is_read_again(levels, channels):
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(np.repeat(np.array(levels, dtype="<i2"), channels).tobytes())
    _, samples = read_wav(out.getvalue(), "here", Mistakes())
    assert samples.shape == (len(levels), channels)
    assert np.array_equal(samples, np.repeat(levels, channels).reshape(-1, channels))


@given(st.binary(max_size=80), st.integers(0, 164))
def test_any_bytes_give_samples_or_one_mistake(noise, position):
    content = bytearray(wav(sound(1)))
    content[position : position + len(noise)] = noise
    for given_bytes in (noise, bytes(content)):
        mistakes = Mistakes()
        fingerprints = read_wav(given_bytes, "here", mistakes)
        assert (fingerprints is None) == (len(mistakes.texts) == 1)


def test_the_real_digits(linked):
    if not (linked / "fsdd").is_dir():
        pytest.skip("../shared/data/fsdd is not here")
    task = SpeechSpec(source="digits", pad=False).load(linked)
    assert (len(task.train), len(task.val), len(task.test)) == (2430, 270, 300)
    assert (task.signature.shortest, task.signature.length) == (1148, 16000)
    assert np.bincount(task.test.target).tolist() == [30] * 10
    assert any("longer than 16000 samples" in note for note in task.notes)
