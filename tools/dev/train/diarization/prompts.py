#!/usr/bin/env python3
"""prompts.py FOLDER [SEED [PACKAGE...]]: ten recordings of some 50 s in which two to four people speak in turn, with
RTTM, of what six people recorded for telephone menus (Debian's asterisk-core-sounds-{en,fr,it,ru}-g722,
asterisk-prompt-fr-armelle and asterisk-prompt-es-co; each PACKAGE more has a person more). To choose by, as by the
development set, what is to hold for people; they are in no training. Needs ffmpeg."""
import glob
import os
import subprocess
import sys

import numpy as np

import conversations
import speech

SOUNDS, RATE, SEED, COUNT, TURNS, KEPT = "/usr/share/asterisk/sounds", 16000, 3, 10, 14, 40
LEAST_S, MOST_S = 0.7, 6
FOLDERS = ("en_US_f_Allison", "fr_CA_f_June", "it_IT_m_Carlo", "ru_RU_f_IvrvoiceRU")
PACKAGES = ("asterisk-prompt-fr-armelle", "asterisk-prompt-es-co")


def files(more):
    """{person: files}, of packages beside our own too."""
    found = {name: glob.glob(f"{SOUNDS}/{name}/**/*.g722", recursive=True) for name in FOLDERS}
    for package in (*PACKAGES, *more):
        listed = subprocess.run(["dpkg", "-L", package], check=True, stdout=subprocess.PIPE, text=True).stdout
        found[package] = [path for path in listed.split() if path.endswith((".gsm", ".wav"))]
    return {name: sorted(paths) for name, paths in found.items()}


def read(path):
    """None where too little is said, or the file is none (one of the packages' is not)."""
    kind = ["-f", "g722"] if path.endswith(".g722") else []
    out = subprocess.run(["ffmpeg", "-v", "error", *kind, "-i", path, "-f", "s16le", "-ar", str(RATE), "-ac", "1",
                          "-"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    pcm = speech.trim(np.frombuffer(out, "<i2").astype(np.float32))
    if pcm is None or len(pcm) < LEAST_S * RATE:
        return None
    return pcm[:MOST_S * RATE] * (0.08 / np.sqrt((pcm ** 2).mean()))


def people(rng, more):
    """[(name, [pcm])]."""
    found = []
    for name, paths in files(more).items():
        said = []
        for path in rng.permutation(paths):
            pcm = read(path)
            if pcm is not None:
                said.append(pcm)
            if len(said) == KEPT:
                break
        found.append((name, said))
    return found


def conversation(rng, said):
    """(pcm, spoken) of the people of said, none of whom has two turns in a row."""
    pieces, spoken, at, last = [np.zeros(RATE // 2)], [], RATE // 2, -1
    for _ in range(TURNS):
        last = rng.choice([who for who in range(len(said)) if who != last])
        for _ in range(rng.choice((1, 1, 2))):
            pcm = said[last][rng.integers(len(said[last]))] * 10 ** (rng.uniform(-3, 3) / 20)
            pause = int(RATE * rng.uniform(0.05, 0.5))
            spoken.append((last, at, at + len(pcm)))
            pieces += [pcm, np.zeros(pause)]
            at += len(pcm) + pause
    pcm = np.concatenate(pieces)
    return np.clip(pcm + 6e-4 * rng.standard_normal(len(pcm)), -1, 1), spoken


def main():
    folder, rng = sys.argv[1], np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else SEED)
    os.makedirs(folder, exist_ok=True)
    everybody = people(rng, sys.argv[3:])
    for i in range(COUNT):
        count = 2 + i % 3
        who = rng.choice(len(everybody), count, replace=False)
        pcm, spoken = conversation(rng, [everybody[w][1] for w in who])
        name = f"prompts-{i}-{count}-people"
        conversations.write_wav(f"{folder}/{name}.wav", pcm)
        with open(f"{folder}/{name}.rttm", "w", encoding="ascii") as file:
            file.write(conversations.rttm(name, spoken, who, [person for person, _ in everybody]))


if __name__ == "__main__":
    main()
