#!/usr/bin/env python3
"""people.py FOLDER CLIP... [--seed=N] [--count=N]: recordings (5) of some 27 s in which two to four of the people of
CLIPs speak in turn, with RTTM. A CLIP has one person who reads, with the pauses that people make: they count as that
person's speech, so that only differences between models say something. Needs ffmpeg."""
import argparse
import os
import subprocess

import numpy as np

import conversations

RATE, LONG_S = 16000, 27
SHORTEST_S, LONGEST_S = 2, 3.6


def pieces(rng, path):
    """A clip cut up, all of one loudness."""
    out = subprocess.run(["ffmpeg", "-v", "error", "-i", path, "-f", "s16le", "-ar", str(RATE), "-ac", "1", "-"],
                         check=True, stdout=subprocess.PIPE).stdout
    pcm, found = np.frombuffer(out, "<i2").astype(np.float32), []
    while len(pcm) >= SHORTEST_S * RATE:
        n = int(rng.uniform(SHORTEST_S, LONGEST_S) * RATE)
        found.append(pcm[:n] * (0.08 / np.sqrt((pcm[:n] ** 2).mean())))
        pcm = pcm[n:]
    return found


def conversation(rng, said):
    """(pcm, spoken): each piece is heard once, until LONG_S or until nobody else has one left."""
    left = [list(rng.permutation(len(of))) for of in said]
    parts, spoken, at, last = [np.zeros(RATE // 2)], [], RATE // 2, -1
    while at < LONG_S * RATE:
        others = [who for who in range(len(said)) if who != last and left[who]]
        if not others:
            break
        last = rng.choice(others)
        pcm, pause = said[last][left[last].pop()], int(RATE * rng.uniform(0.05, 0.5))
        spoken.append((last, at, at + len(pcm)))
        parts += [pcm, np.zeros(pause)]
        at += len(pcm) + pause
    pcm = np.concatenate(parts)
    return np.clip(pcm + 6e-4 * rng.standard_normal(len(pcm)), -1, 1), spoken


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("clips", nargs="+")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--count", type=int, default=5)
    wanted = parser.parse_args()
    folder, clips, rng = wanted.folder, wanted.clips, np.random.default_rng(wanted.seed)
    os.makedirs(folder, exist_ok=True)
    everybody = [pieces(rng, clip) for clip in clips]
    for i in range(wanted.count):
        count = 2 + i % 3
        who = rng.choice(len(everybody), count, replace=False)
        pcm, spoken = conversation(rng, [everybody[w] for w in who])
        name = f"people-{i}-{count}-people"
        conversations.write_wav(f"{folder}/{name}.wav", pcm)
        with open(f"{folder}/{name}.rttm", "w", encoding="ascii") as file:
            file.write(conversations.rttm(name, spoken, who, [f"person{w}" for w in range(len(clips))]))


if __name__ == "__main__":
    main()
