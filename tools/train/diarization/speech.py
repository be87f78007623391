#!/usr/bin/env python3
"""speech.py CACHE SPLIT...: every voice of the splits says its sentences, to CACHE/SPLIT.i16
(16 kHz, all utterances one behind another, silence cut off at both ends) and CACHE/SPLIT.json.
Needs the programs espeak-ng and flite."""
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import wave

import numpy as np
from scipy.signal import resample_poly

import voices

RATE = 16000
UTTERANCES = {"train": 12, "dev": 24, "test": 24}
ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "sh", "tr", "st", "pl", "")
NUCLEI = ("a", "e", "i", "o", "u", "a", "e", "o", "ai", "au", "ee")
CODAS = ("", "", "", "n", "r", "s", "l", "m", "t", "k")


def sentence(rng):
    """Words that are none, of all sounds, in one breath: no pause within."""
    def word():
        return "".join(rng.choice(ONSETS) + rng.choice(NUCLEI) + rng.choice(CODAS)
                       for _ in range(rng.choice((1, 1, 2, 2, 3))))
    return " ".join(word() for _ in range(rng.choice((1, 2, 3, 5, 6, 8, 8, 10, 12, 14))))


def read_wav(data):
    with wave.open(io.BytesIO(data)) as file:
        rate = file.getframerate()
        pcm = np.frombuffer(file.readframes(file.getnframes() or 1 << 28), "<i2")
    return pcm.astype(np.float32), rate


def to_rate(pcm, rate):
    up, down = {22050: (320, 441), 16000: (1, 1), 8000: (2, 1)}[rate]
    return resample_poly(pcm, up, down) if up != down else pcm


def trim(pcm, below_db=-40, step=160):
    """Without the silence at its ends; None where nothing is left."""
    n = len(pcm) // step
    level = np.sqrt((pcm[:n * step].reshape(n, step) ** 2).mean(1)) if n else np.zeros(0)
    loud = np.nonzero(level > level.max(initial=0) * 10 ** (below_db / 20))[0]
    if len(loud) < 20:
        return None
    return pcm[loud[0] * step:(loud[-1] + 1) * step]


def say_espeak(voice, text, rng, folder):
    language = rng.choice(voice.languages)
    rate = int(voice.rate * rng.uniform(0.9, 1.1))
    out = subprocess.run(["espeak-ng", f"--path={folder}", "-v", f"{language}+{voice.base}", "-s", str(rate),
                          "-p", str(rng.randint(43, 57)), "--stdout", text],
                         check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return to_rate(*read_wav(out.stdout))


def say_flite(voice, text, rng, folder):
    with tempfile.NamedTemporaryFile(suffix=".wav", dir=folder) as file:
        subprocess.run(["flite", "-voice", voice.base, "--setf",
                        f"duration_stretch={rng.uniform(0.85, 1.15) * voice.size:.2f}", "-t", text,
                        "-o", file.name], check=True)
        with open(file.name, "rb") as again:
            pcm = to_rate(*read_wav(again.read()))
    return resample_poly(pcm, 100, round(100 * voice.size)) if voice.size != 1.0 else pcm


def speak(split, cache):
    found = voices.voices(split)
    folder = f"{cache}/{split}"
    os.makedirs(folder, exist_ok=True)
    rng = random.Random(voices.SEEDS[split] + 1)
    index, at = [], 0
    with open(f"{cache}/{split}.i16.part", "wb") as file:
        for number, voice in enumerate(found):
            voices.espeak_folder(folder, voice)
            for _ in range(UTTERANCES[split]):
                say = say_flite if voice.kind == "flite" else say_espeak
                pcm = trim(say(voice, sentence(rng), rng, folder))
                if pcm is None:
                    continue
                pcm *= 3000 / np.sqrt((pcm ** 2).mean())
                file.write(np.clip(pcm, -32767, 32767).astype("<i2").tobytes())
                index.append((number, at, len(pcm)))
                at += len(pcm)
    os.replace(f"{cache}/{split}.i16.part", f"{cache}/{split}.i16")
    with open(f"{cache}/{split}.json", "w", encoding="ascii") as file:
        json.dump({"voices": [v.name for v in found], "utterances": index}, file)
    print(f"{split}: {len(found)} voices, {len(index)} utterances, {at / RATE / 60:.0f} min", flush=True)


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    for name in sys.argv[2:]:
        speak(name, sys.argv[1])
