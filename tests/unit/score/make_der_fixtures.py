#!/usr/bin/env python3
"""Writes der.txt: random annotations and what pyannote.metrics says of them.

    python3 -m venv --system-site-packages v && v/bin/pip install pyannote.metrics==4.2.0
    v/bin/python make_der_fixtures.py        # beside this file

A case is a line "case NAME", its turns as "r|h START END SPEAKER" in milliseconds, and lines
"e COLLAR SKIP TOTAL CORRECT MISSED FALSE_ALARM CONFUSION".
"""
import os
import random
import warnings

from pyannote.core import Annotation, Segment
from pyannote.metrics.diarization import DiarizationErrorRate

HERE = os.path.dirname(os.path.abspath(__file__))


def annotation(turns):
    a = Annotation(uri="x")
    for i, (start, end, speaker) in enumerate(turns):
        a[Segment(start / 1000, end / 1000), i] = str(speaker)
    return a


def made(rng, speakers, count, length):
    turns = []
    for _ in range(count):
        start = rng.randrange(0, length)
        turns.append((start, start + rng.randrange(20, 4000), rng.randrange(speakers)))
    return turns


def disturbed(rng, turns, speakers):
    out = []
    for start, end, speaker in turns:
        if rng.random() < 0.1:
            continue
        start += rng.randrange(-300, 300)
        end = max(start + 10, end + rng.randrange(-300, 300))
        out.append((max(0, start), max(10, end), rng.randrange(speakers) if rng.random() < 0.15 else speaker + 7))
    return out + made(rng, speakers, 2, 20000)


def cases(rng):
    yield "empty", [], []
    yield "nothing found", [(0, 1000, 0)], []
    yield "nothing there", [], [(500, 1500, 0)]
    yield "same speaker twice at once", [(0, 1000, 0), (500, 2000, 0)], [(0, 2000, 3)]
    yield "the same turn twice", [(0, 1000, 0), (0, 1000, 0)], [(0, 1000, 3), (0, 1000, 4)]
    for i in range(20):
        speakers = rng.randrange(1, 7)
        reference = made(rng, speakers, rng.randrange(1, 40), 30000)
        if i % 2:
            yield f"disturbed {i}", reference, disturbed(rng, reference, speakers)
        else:
            yield f"random {i}", reference, made(rng, rng.randrange(1, 7), rng.randrange(1, 40), 30000)


def main():
    warnings.simplefilter("ignore")
    with open(os.path.join(HERE, "der.txt"), "w", encoding="utf-8") as out:
        for name, reference, hypothesis in cases(random.Random(5)):
            out.write(f"case {name}\n")
            for side, turns in (("r", reference), ("h", hypothesis)):
                for turn in turns:
                    out.write("%s %d %d %d\n" % (side, *turn))
            for collar, skip in ((0.0, False), (0.25, False), (0.5, True), (0.0, True)):
                found = DiarizationErrorRate(collar=collar, skip_overlap=skip)(
                    annotation(reference), annotation(hypothesis), detailed=True)
                out.write("e %g %d" % (collar, skip) + "".join(
                    " %.9f" % found[key] for key in
                    ("total", "correct", "missed detection", "false alarm", "confusion")) + "\n")


if __name__ == "__main__":
    main()
