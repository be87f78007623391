#!/usr/bin/env python3
"""who_says_what.py [-n COUNT] [-t THREADS] [-o OPTION]... PROGRAM...: what is said by whom, against the truth.

Makes COUNT (30) discussions of three voices of a minute (espeak-ng's variants that neither whisper-nano
nor diarization-nano heard in training; sentences of words that whisper-nano knows; seeds fixed), has each
PROGRAM transcribe them with word times (and OPTIONs of enqueue) and tell the speakers apart, and says of
the words that it heard, aligned with those that were said, how many it gave to somebody else:

  segments  the words of a segment are its speaker's: what people read
  words     each word is its own speaker's: parted at every change, crumbs and all

Speakers are named after whom they share most words with, each after another one. Words that were said
and not heard, or heard and not said, are in neither; their share is the word error rate beside it.
"mixed": segments with words of several people. A program that parts segments does so once more by the
turns as they are ("told"): what is wrong then is not diarization's fault. Needs espeak-ng, ffmpeg and
numpy."""
import argparse
import itertools
import json
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import wave

import numpy as np

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
RATE = 16000
LEVEL = 0.08
SECONDS = 60
VOICES = ("Alicia", "Denis", "f4", "m5", "klatt3", "grandma", "Mike", "steph3", "linda", "michel")
SENTENCES = (
    "We left the station in January.", "The train from the north was late.", "The snow was cold.",
    "Yes thank you.", "He played the old song.", "The music was good.", "She left the village in December.",
    "They closed the school on Monday.", "The interview begins here.", "The weather is cold.",
    "The story was recorded today.", "The woman left the village on Friday.", "Please speak.",
    "The river was cold.", "My mother played the song.", "Thank you.", "The letter was old.",
    "The radio was good.", "They closed the market on Saturday.", "The interview ends here.", "No thank you.",
    "The old station was closed in March.", "We left in the morning.", "He left on Tuesday.")


def say(voice, text, speed):
    with tempfile.NamedTemporaryFile(suffix=".wav") as raw:
        subprocess.run(["espeak-ng", "-v", "en-us+" + voice, "-s", str(speed), "-w", raw.name, text], check=True)
        done = subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-i", raw.name, "-ar", str(RATE), "-ac", "1",
                               "-f", "s16le", "-"], check=True, capture_output=True)
    pcm = np.frombuffer(done.stdout, "<i2").astype(float) / 32768
    loud = np.flatnonzero(np.abs(pcm) > 0.006)
    pcm = pcm[loud[0]:loud[-1] + 1]
    return pcm * LEVEL / np.sqrt(np.mean(pcm ** 2))


def bare(text):
    return [w for w in re.sub(r"[^\w' ]", " ", text.lower()).split() if w]


def discussion(seed, path):
    """Writes it; returns its words, each with who says it, and its turns in milliseconds. Others begin
    0.05 to 0.5 s after one ends."""
    rng = random.Random(seed)
    voices, samples, said, last = rng.sample(VOICES, 3), [np.zeros(int(0.4 * RATE))], [], None
    turns = []
    speeds = [rng.randint(135, 170) for _ in voices]
    while sum(map(len, samples)) < SECONDS * RATE:
        last = rng.choice([v for v in range(3) if v != last])
        for _ in range(rng.choice((1, 1, 2, 3))):
            text = rng.choice(SENTENCES)
            begin = sum(map(len, samples))
            samples += [say(voices[last], text, speeds[last]), np.zeros(int(rng.uniform(0.05, 0.5) * RATE))]
            turns.append((1000 * begin // RATE, 1000 * (begin + len(samples[-2])) // RATE, last))
            said += [(word, last) for word in bare(text)]
    pcm = np.concatenate(samples)
    pcm += np.random.default_rng(seed).normal(0, 0.0005, len(pcm))
    with wave.open(path, "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(np.round(np.clip(pcm, -1, 1) * 32767).astype("<i2").tobytes())
    return said, turns


def align(said, heard):
    """Pairs of places of words that stand for each other, and how many errors that is."""
    cost = np.zeros((len(said) + 1, len(heard) + 1), int)
    cost[:, 0], cost[0, :] = range(len(said) + 1), range(len(heard) + 1)
    for i, a in enumerate(said, 1):
        for j, b in enumerate(heard, 1):
            cost[i, j] = min(cost[i - 1, j] + 1, cost[i, j - 1] + 1, cost[i - 1, j - 1] + (a != b))
    pairs, i, j = [], len(said), len(heard)
    while i and j:
        if cost[i, j] == cost[i - 1, j - 1] + (said[i - 1] != heard[j - 1]):
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif cost[i, j] == cost[i - 1, j] + 1:
            i -= 1
        else:
            j -= 1
    return pairs[::-1], int(cost[-1, -1])


def wrong(truth, found):
    """How many of the pairs are of somebody else, by the best names for those that were found."""
    names = sorted({f for f in found if f is not None})
    real = sorted(set(truth))
    best = max((sum(dict(zip(order, real)).get(f) == t for t, f in zip(truth, found))
                for order in itertools.permutations(names + [f"-{i}" for i in range(3)], len(real))), default=0)
    return len(truth) - best


def start(program, args, work):
    catalog = os.path.join(work, "catalog.db")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HF_", "CUDA_"))}
    env.update(HOME=work, NIGHTSHIFT_CATALOG=catalog, NIGHTSHIFT_DEVICES="cpu",
               NIGHTSHIFT_MODELS=os.environ.get("NIGHTSHIFT_MODELS", os.path.join(SOURCE, "workers/models")))
    subprocess.run([program, *args], env=env, check=True, stdin=subprocess.DEVNULL)
    return sqlite3.connect(catalog)


def transcribe(program, archive, options, threads, work):
    start(program, ["enqueue", "--quiet", "--word-timestamps", "--diarize=diarization-nano",
                    "--model=" + os.path.join(SOURCE, "workers/models/whisper-nano"), *options, archive], work)
    return start(program, ["run", "--quiet", f"--threads={threads}"], work)


def tell(db, truth):
    """The turns as they are, in place of those that were found. False: segments are not parted."""
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'parting_due'").fetchone():
        return False
    db.execute("DELETE FROM turn")
    for name, (_, turns) in truth.items():
        task, = db.execute("SELECT DISTINCT task_id FROM speakers WHERE path LIKE ?", ("%/" + name,)).fetchone()
        of = {}
        for i, (begin, end, who) in enumerate(turns):
            if who not in of:
                db.execute("INSERT INTO speaker (task_id, media_id, label, speech_ms) SELECT task_id, media_id, ?2, 0 "
                           "FROM task WHERE task_id = ?1", (task, f"truth {who}"))
                of[who], = db.execute("SELECT last_insert_rowid()").fetchone()
            db.execute("INSERT INTO turn VALUES (?, ?, ?, ?, ?)", (task, i, begin, end, of[who]))
    db.execute("INSERT OR IGNORE INTO parting_due SELECT media_id FROM media")
    db.commit()
    return True


def report(program, how, got):
    print(json.dumps({"program": program, "turns": how, **got,
                      "wer": round(100 * got["errors"] / got["said"], 1),
                      "segments_percent": round(100 * got["segments"] / got["pairs"], 1),
                      "words_percent": round(100 * got["words"] / got["pairs"], 1)}))
    sys.stdout.flush()


def measure(db, truth):
    total = dict.fromkeys(("said", "errors", "pairs", "segments", "words", "count", "mixed"), 0)
    for name, (said, _) in truth.items():
        rows = db.execute("SELECT w.word, t.speaker, w.speaker, w.segment_id FROM words w JOIN transcript t "
                          "USING (segment_id) WHERE t.path LIKE ? ORDER BY w.start_ms, w.segment_id, w.idx",
                          ("%/" + name,)).fetchall()
        heard = [(word, *row[1:]) for row in rows for word in bare(row[0])]
        pairs, errors = align([w for w, _ in said], [h[0] for h in heard])
        who = [said[i][1] for i, _ in pairs]
        of = {}
        for i, j in pairs:
            of.setdefault(heard[j][3], set()).add(said[i][1])
        total["said"] += len(said)
        total["errors"] += errors
        total["pairs"] += len(pairs)
        total["segments"] += wrong(who, [heard[j][1] for _, j in pairs])
        total["words"] += wrong(who, [heard[j][2] for _, j in pairs])
        total["count"] += len(of)
        total["mixed"] += sum(len(people) > 1 for people in of.values())
    return total


def main():
    args = argparse.ArgumentParser(usage=__doc__)
    args.add_argument("-n", type=int, default=30)
    args.add_argument("-t", type=int, default=2)
    args.add_argument("-o", action="append", default=[])
    args.add_argument("program", nargs="+")
    args = args.parse_args()
    with tempfile.TemporaryDirectory() as work:
        archive = os.path.join(work, "archive")
        os.mkdir(archive)
        truth = {f"{i:02}.wav": discussion(i, os.path.join(archive, f"{i:02}.wav")) for i in range(args.n)}
        for number, program in enumerate(args.program):
            own = os.path.join(work, str(number))
            os.mkdir(own)
            db = transcribe(os.path.abspath(program), archive, args.o, args.t, own)
            report(program, "found", measure(db, truth))
            if tell(db, truth):
                report(program, "told", measure(start(os.path.abspath(program), ["run", "--quiet"], own), truth))


if __name__ == "__main__":
    main()
