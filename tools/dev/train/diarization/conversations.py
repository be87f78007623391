#!/usr/bin/env python3
"""conversations.py CACHE SPLIT COUNT FOLDER [FROM TO [SEED [LEAST]]]: recordings of FROM to TO seconds
(60 to 180) with LEAST (2) to five voices of a split in turn, NAME.wav and NAME.rttm. Each voice is
heard for 4 s at least (in short ones for an eighth of the recording). --most: of voices, 5; with 0,
and LEAST 0, nobody speaks. --wide: with music, noises, telephone lines and rooms as in training."""
import argparse
import os
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
    parser = argparse.ArgumentParser()
    for name, kind, usual in (("cache", str, None), ("split", str, None), ("count", int, None),
                              ("folder", str, None), ("shortest", float, 60), ("longest", float, 180),
                              ("seed", int, 1), ("least", int, 2)):
        parser.add_argument(name, type=kind, default=usual, nargs=None if usual is None else "?")
    parser.add_argument("--most", type=int, default=5)
    parser.add_argument("--wide", action="store_true")
    said = parser.parse_args()
    bank = mixture.Bank(said.cache, said.split)
    mixer = mixture.Mixer(bank, said.seed, hard=0.5, wide=said.wide or said.most == 0)
    os.makedirs(said.folder, exist_ok=True)
    for i in range(said.count):
        voices = said.least + i % (said.most + 1 - said.least)
        seconds = mixer.rng.uniform(said.shortest, said.longest)
        if voices == 0:
            pcm, spoken, who = mixer.silent(int(seconds * RATE)), [], []
        else:
            pcm, spoken, who = conversation(mixer, voices, seconds)
        name = f"{said.split}-{i:02d}-{voices}-voice{'s' * (voices != 1)}"
        write_wav(f"{said.folder}/{name}.wav", pcm)
        with open(f"{said.folder}/{name}.rttm", "w", encoding="ascii") as file:
            file.write(rttm(name, spoken, who, bank.names))


if __name__ == "__main__":
    main()
