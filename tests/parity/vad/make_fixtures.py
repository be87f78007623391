#!/usr/bin/env python3
"""Makes the fixtures of this folder with faster-whisper and with Silero's own ONNX file, or holds
the program's rules against faster-whisper's on thousands of other sequences.

    make_fixtures.py spans                        writes spans.txt
    make_fixtures.py probabilities                writes NAME.prob
    make_fixtures.py check TEST [SEED [COUNT]]    TEST: the built test_parity_vad
    make_fixtures.py onnx TEST                    TEST: the built test_parity_silero

Needs faster-whisper 1.2.1, onnxruntime and onnx (PyPI); `probabilities` and `onnx` also need ../shared
beside the source tree: the model's files and a recording that is no part of it.

Silero publishes a safetensors file whose values are not those of its ONNX files (silero-vad 6.2.3):
the same network, trained to a slightly different state. So the fixtures are what Silero's ONNX graph
computes with the safetensors file's values put into it; and `onnx` compares the other way round: the
ONNX file as it is, and the program with its values in a safetensors file.

spans.txt: five lines for each sequence of probabilities.
  case THRESHOLD NEG_THRESHOLD MIN_SPEECH_MS MAX_SPEECH_MS MIN_SILENCE_MS SPEECH_PAD_MS SAMPLES
                                 (NEG_THRESHOLD -1: not given; MAX_SPEECH_MS 0: without end)
  probs HEX                      two digits a step, in 256ths
  spans START END ...            get_speech_timestamps
  windows SAMPLES ...            collect_chunks of 30 s; empty ones, which the reference makes before a
                                 stretch that is longer, are left out
  times WINDOW SAMPLE IS_END HUNDREDTHS ...      SpeechTimestampsMap: a window's sample in the recording
NAME.prob: a probability a line, of each step of 512 samples; the last is padded with zeros.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import wave
from fractions import Fraction

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
SHARED = os.environ.get("NIGHTSHIFT_SHARED", os.path.join(SOURCE, "..", "shared"))
STEP, CONTEXT, RATE = 512, 64, 16000
RECORDINGS = {
    "01_en_short": os.path.join(SOURCE, "tests/samples/01_en_short.wav"),
    "10_noise_only": os.path.join(SOURCE, "tests/samples/10_noise_only.wav"),
    "dialogue": os.path.join(SHARED, "golden/diarization/test_single_speaker.wav"),
}


# ---- stretches of speech


def bursts(rng, steps):
    levels = []
    while len(levels) < steps:
        n = int(rng.integers(1, rng.choice([4, 20, 120]) + 1))
        low, high = [(0, 80), (140, 256), (60, 180), (0, 256)][rng.integers(4)]
        levels += list(rng.integers(low, high, n))
    return np.array(levels[:steps])


def walk(rng, steps):
    at, levels = float(rng.integers(256)), []
    for _ in range(steps):
        at = min(255.0, max(0.0, at + rng.normal(0, rng.choice([4, 20, 60]))))
        levels.append(int(at))
    return np.array(levels)


def sequence(rng, longest):
    steps = int(rng.integers(1, longest))
    kind = rng.integers(5)
    if kind == 0:
        return walk(rng, steps)
    if kind == 1:
        return np.full(steps, rng.integers(256))
    return bursts(rng, steps)


def options(rng):
    return {
        "threshold": float(rng.choice([0.5, 0.5, 0.3, 0.4, 0.62, 0.9])),
        "neg": float(rng.choice([-1, -1, 0.1, 0.35, 0.25])),
        "min_speech": int(rng.choice([0, 0, 32, 100, 250, 800])),
        "max_speech": int(rng.choice([0, 30000, 30000, 15000, 5000, 1000, 4321, int(rng.integers(500, 40000))])),
        "min_silence": int(rng.choice([0, 32, 64, 96, 128, 160, 160, 500, 2000, int(rng.integers(3000))])),
        "pad": int(rng.choice([0, 10, 16, 30, 100, 400, 400, int(rng.integers(1000))])),
    }


def times_of(chunks, windows, rng, vad):
    """Where samples of the windows lie, by the reference's map over all stretches. Times are exact
    fractions, so that none falls beside its sample by rounding."""
    table = vad.SpeechTimestampsMap(chunks, RATE)
    out, before = [], 0
    for w, length in enumerate(windows):
        seams = [e - before for e in table.chunk_end_sample if before < e <= before + length]
        for at in {0, length, int(rng.integers(length)), seams[rng.integers(len(seams))]}:
            for is_end in (0, 1):
                if at == (0 if is_end else length):
                    continue  # the neighbour's
                time = table.get_original_time(Fraction(before + at, RATE), is_end=bool(is_end))
                out += [w, at, is_end, round(time * 100)]
        before += length
    return out


def write_case(f, rng, levels, vad):
    o = options(rng)
    steps = len(levels)
    samples = (steps - 1) * STEP + int(rng.choice([0, 0, 1, STEP - 1, int(rng.integers(STEP))]))
    probs = (levels / 256).astype(np.float32)
    audio = np.zeros(samples, np.float32)
    vad.get_vad_model = lambda: lambda padded: probs[: len(padded) // STEP]
    chunks = vad.get_speech_timestamps(audio, vad.VadOptions(
        threshold=o["threshold"],
        # never above the threshold: in the program, and so here
        neg_threshold=None if o["neg"] < 0 else min(o["neg"], o["threshold"]),
        min_speech_duration_ms=o["min_speech"],
        max_speech_duration_s=Fraction(o["max_speech"], 1000) if o["max_speech"] else float("inf"),
        min_silence_duration_ms=o["min_silence"],
        speech_pad_ms=o["pad"]))
    chunks = [{"start": int(c["start"]), "end": int(c["end"])} for c in chunks]
    pieces, _ = vad.collect_chunks(audio, chunks, RATE, 30)
    windows = [len(p) for p in pieces if len(p)]
    spans = [v for c in chunks for v in (c["start"], c["end"])]
    times = times_of(chunks, windows, rng, vad) if chunks else []
    f.write(f"case {o['threshold']} {o['neg']} {o['min_speech']} {o['max_speech']} {o['min_silence']} "
            f"{o['pad']} {samples}\n")
    f.write("probs " + bytes(levels.astype(np.uint8)).hex() + "\n")
    for key, values in (("spans", spans), ("windows", windows), ("times", times)):
        f.write(" ".join([key] + [str(v) for v in values]) + "\n")


def write_spans(f, seed, count, longest):
    from faster_whisper import vad

    rng = np.random.default_rng(seed)
    for _ in range(count):
        write_case(f, rng, sequence(rng, longest), vad)


def check(test, seed, count):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        write_spans(f, seed, count * 9 // 10, 1500)
        write_spans(f, seed + 1, count // 10, 8000)
        f.flush()
        return subprocess.run([test, f.name]).returncode


# ---- probabilities


def recording(path):
    with wave.open(path) as w:
        assert (w.getframerate(), w.getnchannels(), w.getsampwidth()) == (RATE, 1, 2), path
        return np.frombuffer(w.readframes(w.getnframes()), "<i2").astype(np.float32) / 32768


def probabilities(session, pcm):
    pcm = np.pad(pcm, (0, -len(pcm) % STEP))
    state = np.zeros((2, 1, 128), np.float32)
    context = np.zeros(CONTEXT, np.float32)
    out = []
    for at in range(0, len(pcm), STEP):
        x = np.concatenate([context, pcm[at:at + STEP]])
        p, state = session.run(None, {"input": x[None], "state": state, "sr": np.array(RATE, np.int64)})
        context = x[-CONTEXT:]
        out.append(float(p[0, 0]))
    return out


# Tensors of the safetensors file, and what they are called in the ONNX file.
TENSORS = {"stft_conv.weight": "model.stft.forward_basis_buffer"}
for i in range(4):
    for kind in ("weight", "bias"):
        TENSORS[f"conv{i + 1}.{kind}"] = f"model.encoder.{i}.reparam_conv.{kind}"
for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
    TENSORS["lstm_cell." + part] = "model.decoder.rnn." + part
for kind in ("weight", "bias"):
    TENSORS["final_conv." + kind] = "model.decoder.decoder.2." + kind


def read_safetensors(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    out = {}
    for name, t in header.items():
        if name != "__metadata__":
            assert t["dtype"] == "F32"
            out[name] = np.frombuffer(data[slice(*t["data_offsets"])], "<f4").reshape(t["shape"])
    return out


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, v in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(v.shape),
                        "data_offsets": [len(data), len(data) + v.nbytes]}
        data += v.astype("<f4").tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + data)


def write_probabilities(model, folder):
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString(),
                                           providers=["CPUExecutionProvider"])
    for name, path in RECORDINGS.items():
        with open(os.path.join(folder, name + ".prob"), "w") as f:
            f.writelines(f"{p:.7f}\n" for p in probabilities(session, recording(path)))


def open_onnx():
    import onnx

    return onnx.load(os.path.join(SHARED, "models/silero-vad/silero_vad_16k_op15.onnx"))


def fixtures():
    from onnx import numpy_helper

    model = open_onnx()
    values = read_safetensors(os.path.join(SHARED, "models/silero-vad/silero_vad_16k.safetensors"))
    assert set(values) == set(TENSORS)
    slots = {t.name: t for t in model.graph.initializer}
    for name, slot in TENSORS.items():
        assert list(slots[slot].dims) == list(values[name].shape)
        slots[slot].CopyFrom(numpy_helper.from_array(values[name], slot))
    write_probabilities(model, HERE)


def check_onnx(test):
    from onnx import numpy_helper

    model = open_onnx()
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    with tempfile.TemporaryDirectory() as folder:
        write_safetensors(os.path.join(folder, "silero_vad_16k.safetensors"),
                          {name: values[slot] for name, slot in TENSORS.items()})
        write_probabilities(model, folder)
        return subprocess.run([test, folder], env={**os.environ, "NIGHTSHIFT_SOURCE_DIR": SOURCE,
                                                   "NIGHTSHIFT_SHARED": SHARED}).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["spans", "probabilities", "check", "onnx"])
    parser.add_argument("test", nargs="?")
    parser.add_argument("seed", nargs="?", type=int, default=1)
    parser.add_argument("count", nargs="?", type=int, default=3000)
    args = parser.parse_args()
    if args.what == "spans":
        with open(os.path.join(HERE, "spans.txt"), "w") as f:
            write_spans(f, 20261122, 32, 700)
            write_spans(f, 20261123, 2, 4000)
    elif args.what == "probabilities":
        fixtures()
    elif not args.test:
        parser.error("which test program?")
    elif args.what == "onnx":
        return check_onnx(args.test)
    else:
        return check(args.test, args.seed, args.count)
    return 0


if __name__ == "__main__":
    sys.exit(main())
