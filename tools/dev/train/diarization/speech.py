#!/usr/bin/env python3
"""speech.py CACHE SPLIT...: every voice of the splits says its sentences, to CACHE/SPLIT.i16
(16 kHz, all utterances one behind another, silence cut off at both ends) and CACHE/SPLIT.json.
SPLIT-english says English instead: test-english are the test set's voices with sentences that no
voice of training has said, of words that it has not. Needs the programs espeak-ng, flite, festival
(with the voices of voices.py) and sox, for English Debian's copies of licences."""
import concurrent.futures
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import wave

import numpy as np
from scipy.signal import resample_poly

import voices

RATE = 16000
UTTERANCES = {"train": 9, "dev": 24, "test": 24, "far": 40}
PARTS = {"train": 4}  # processes, each with a seed of its own
SAID = 60  # sentences of a recorded voice in training
# How fast a voice speaks and how high (espeak-ng's 0 to 99), from one sentence to the next.
RATES = {"train": (0.78, 1.3)}
PITCHES = {"train": (34, 68)}
ENGLISH = "/usr/share/common-licenses/GPL-3"
ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "sh", "tr", "st", "pl", "")
NUCLEI = ("a", "e", "i", "o", "u", "a", "e", "o", "ai", "au", "ee")
CODAS = ("", "", "", "n", "r", "s", "l", "m", "t", "k")


def sentence(rng):
    """Words that are none, of all sounds, in one breath: no pause within."""
    def word():
        return "".join(rng.choice(ONSETS) + rng.choice(NUCLEI) + rng.choice(CODAS)
                       for _ in range(rng.choice((1, 1, 2, 2, 3))))
    return " ".join(word() for _ in range(rng.choice((1, 2, 3, 5, 6, 8, 8, 10, 12, 14))))


def english():
    """What stands between two marks of a text, of two to sixteen words: said in one breath."""
    with open(ENGLISH, encoding="utf-8") as file:
        parts = re.split(r"[.,;:()\"\[\]/]|\n\n", file.read())
    parts = [re.findall(r"[a-z']+", part.lower()) for part in parts]
    return [" ".join(words) for words in parts if 2 <= len(words) <= 16]


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


def say_espeak(voice, text, rng, folder, split, language):
    rate = int(voice.rate * rng.uniform(*RATES.get(split, (0.9, 1.1))))
    out = subprocess.run(["espeak-ng", f"--path={folder}", "-v", f"{language}+{voice.base}", "-s", str(rate),
                          "-p", str(rng.randint(*PITCHES.get(split, (43, 57)))), "--stdout", text],
                         check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return to_rate(*read_wav(out.stdout))


def record(voice, text, stretch, path):
    if voice.kind == "flite":
        words = ["flite", "-voice", voice.base, "--setf", f"duration_stretch={stretch:.2f}", "-t", text,
                 "-o", path]
    else:
        words = ["festival", "-b", f"(voice_{voice.base})", f"(Parameter.set 'Duration_Stretch {stretch:.2f})",
                 f"(utt.save.wave (utt.synth (Utterance Text \"{text}\")) \"{path}\" 'riff)"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def say_recorded(voice, text, rng, folder, split):
    """In training one of the few sentences that the recorded voice says for all who are made of it, since
    those programs are slow."""
    stretch, cents = rng.uniform(*RATES.get(split, (0.85, 1.15))), voice.cents
    if split == "train":
        path = f"{folder}/../{voice.base}-{rng.randrange(SAID)}.wav"
        cents += rng.randint(-120, 120)
        if not os.path.exists(path):  # another process may be at the same one
            record(voice, text, stretch, f"{folder}/said.wav")
            os.replace(f"{folder}/said.wav", path)
    else:
        path = f"{folder}/said.wav"
        record(voice, text, stretch * voice.size, path)
    turn = ["speed", str(voice.size), "pitch", str(cents)] if cents or voice.size != 1.0 else []
    out = subprocess.run(["sox", path, "-t", "wav", "-r", str(RATE), "-c", "1", "-b", "16", "-", *turn],
                         check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return read_wav(out.stdout)[0]


def say(voice, text, rng, folder, split, language):
    """None where the program has nothing to say or dies of it, as festival's voices do of some words."""
    try:
        if voice.kind in ("drawn", "variant"):
            return trim(say_espeak(voice, text, rng, folder, split, language))
        return trim(say_recorded(voice, text, rng, folder, split))
    except subprocess.CalledProcessError:
        return None


def speak_part(name, cache, part):
    """Every PARTS-th voice of a split, from the part-th on, to CACHE/NAME-PART.i16; returns [(voice, samples)]."""
    split, words = name.split("-")[0], english() if name.endswith("-english") else None
    folder = f"{cache}/{name}/{part}"
    os.makedirs(folder, exist_ok=True)
    rng = random.Random(voices.SEEDS[split] + (2 if words else 1) + 1000 * part)
    said = []
    with open(f"{folder}.i16", "wb") as file:
        for number, voice in list(enumerate(voices.voices(split)))[part::PARTS.get(split, 1)]:
            voices.espeak_folder(folder, voice)
            for _ in range(UTTERANCES[split]):
                text = rng.choice(words) if words else sentence(rng)
                language = "en-us" if words else rng.choice(voice.languages)
                pcm = say(voice, text, rng, folder, split, language)
                if pcm is None:
                    continue
                pcm *= 3000 / np.sqrt((pcm ** 2).mean())
                file.write(np.clip(pcm, -32767, 32767).astype("<i2").tobytes())
                said.append((number, len(pcm)))
    return said


def speak(name, cache):
    parts = range(PARTS.get(name.split("-")[0], 1))
    with concurrent.futures.ProcessPoolExecutor(len(parts)) as pool:
        said = list(pool.map(speak_part, [name] * len(parts), [cache] * len(parts), parts))
    index, at = [], 0
    with open(f"{cache}/{name}.i16.part", "wb") as file:
        for part, utterances in zip(parts, said):
            with open(f"{cache}/{name}/{part}.i16", "rb") as said_part:
                shutil.copyfileobj(said_part, file)
            os.remove(f"{cache}/{name}/{part}.i16")
            for number, n in utterances:
                index.append((number, at, n))
                at += n
    os.replace(f"{cache}/{name}.i16.part", f"{cache}/{name}.i16")
    found = voices.voices(name.split("-")[0])
    with open(f"{cache}/{name}.json", "w", encoding="ascii") as file:
        json.dump({"voices": [v.name for v in found], "utterances": index}, file)
    print(f"{name}: {len(found)} voices, {len(index)} utterances, {at / RATE / 60:.0f} min", flush=True)


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    for split_name in sys.argv[2:]:
        speak(split_name, sys.argv[1])
