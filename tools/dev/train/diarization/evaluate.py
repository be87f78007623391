#!/usr/bin/env python3
"""evaluate.py NIGHTSHIFT MODEL FOLDER [WHEN]: what the program makes of FOLDER's recordings (each with an
RTTM of its name, which is empty where nobody speaks), scored by `nightshift score --der`; how often it
found as many speakers as there are; and what it heard where nobody speaks. WHEN: as of --diarize-vad
(off)."""
import glob
import os
import subprocess
import sys
import tempfile
import wave

import rttm


def found_by(program, model, folder, when, work):
    """The RTTM of what the program hears."""
    catalog, found = f"--catalog={work}/catalog.db", f"{work}/found.rttm"
    for words in (["enqueue", "--no-transcribe", f"--diarize={os.path.abspath(model)}",
                   f"--diarize-vad={when}", folder],
                  ["run", "--devices=cpu"], ["export", "--format=rttm", f"--output={work}/found"]):
        subprocess.run([program, words[0], catalog, *words[1:]], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
    return rttm.join(glob.glob(f"{work}/found/**/*.rttm", recursive=True), found)


def seconds(path):
    with wave.open(path) as file:
        return file.getnframes() / file.getframerate()


def silent(folder, expected, found):
    """Of the recordings in which nobody speaks: how many there are, how long they are, and what was heard."""
    names = {os.path.basename(path)[:-len(".rttm")] for path in glob.glob(f"{folder}/*.rttm")} - set(expected)
    if not names:
        return
    heard = rttm.spoken(found)
    length = sum(seconds(f"{folder}/{name}.wav") for name in names)
    false = sum(heard.get(name, 0) for name in names)
    print(f"{len(names)} recordings of {length:.0f} s in which nobody speaks: {false:.1f} s heard in "
          f"{sum(name in heard for name in names)} of them")


def main():
    program, model, folder = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as work:
        found = found_by(program, model, folder, sys.argv[4] if len(sys.argv) > 4 else "off", work)
        reference = rttm.join(glob.glob(f"{folder}/*.rttm"), f"{work}/reference.rttm")
        expected, heard = rttm.speakers(reference), rttm.speakers(found)
        if expected:
            subprocess.run([program, "score", "--der", reference, found], check=True)
        silent(folder, expected, found)
    for name, who in expected.items():
        print(f"{name}: {len(who)} speak, {len(heard.get(name, ()))} found")
    if expected:
        right = sum(len(who) == len(heard.get(name, ())) for name, who in expected.items())
        print(f"{right} of {len(expected)} with the right number of speakers")


if __name__ == "__main__":
    main()
