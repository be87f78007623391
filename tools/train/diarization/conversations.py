#!/usr/bin/env python3
"""conversations.py CACHE SPLIT COUNT FOLDER [FROM TO [SEED [LEAST]]]: recordings of FROM to TO seconds
(60 to 180) with LEAST (2) to five voices of a split in turn, NAME.wav and NAME.rttm. Each voice is
heard for 4 s at least (in short ones for an eighth of the recording)."""
import os
import sys
import wave

import numpy as np

import mixture

RATE = mixture.RATE


def spoken_seconds(spoken, count):
    return [sum(end - begin for who, begin, end in spoken if who == s) / RATE for s in range(count)]


def conversation(mixer, count, seconds):
    """(pcm, spoken, voices); drawn anew until everybody has had a word."""
    samples = int(seconds * RATE)
    enough = min(4.0, seconds / 8)
    while True:
        voices = mixer.pick(count)
        found = mixer.turns(voices, samples, 0.15, whole=True)
        found = [turn for turn in found if turn[1] + len(turn[2]) <= samples]
        tracks, spoken = mixer.tracks(found, count, samples)
        if min(spoken_seconds(spoken, count)) >= enough:
            return mixer.place(tracks), spoken, voices


def write_wav(path, pcm):
    with wave.open(path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(np.round(pcm * 32767).astype("<i2").tobytes())


def rttm(name, spoken, voices, names):
    lines = [f"SPEAKER {name} 1 {begin / RATE:.3f} {(end - begin) / RATE:.3f} <NA> <NA> "
             f"{names[voices[who]]} <NA> <NA>\n" for who, begin, end in sorted(spoken, key=lambda s: s[1])]
    return "".join(lines)


def main():
    cache, split, count, folder = sys.argv[1:5]
    least, most = map(float, sys.argv[5:7]) if len(sys.argv) > 6 else (60, 180)
    seed = int(sys.argv[7]) if len(sys.argv) > 7 else 1
    fewest = int(sys.argv[8]) if len(sys.argv) > 8 else 2
    bank = mixture.Bank(cache, split)
    mixer = mixture.Mixer(bank, seed, hard=0.5)
    os.makedirs(folder, exist_ok=True)
    for i in range(int(count)):
        voices = fewest + i % (6 - fewest)
        pcm, spoken, who = conversation(mixer, voices, mixer.rng.uniform(least, most))
        name = f"{split}-{i:02d}-{voices}-voice{'s' * (voices > 1)}"
        write_wav(f"{folder}/{name}.wav", pcm)
        with open(f"{folder}/{name}.rttm", "w", encoding="ascii") as file:
            file.write(rttm(name, spoken, who, bank.names))


if __name__ == "__main__":
    main()
