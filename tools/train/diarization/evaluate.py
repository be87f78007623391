#!/usr/bin/env python3
"""evaluate.py NIGHTSHIFT MODEL FOLDER: what the program makes of FOLDER's recordings (each with an
RTTM of its name), scored by `nightshift score --der`; and how often it found as many speakers as
there are."""
import glob
import os
import subprocess
import sys
import tempfile

import rttm


def main():
    program, model, folder = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as work:
        catalog = f"--catalog={work}/catalog.db"
        reference, found = f"{work}/reference.rttm", f"{work}/found.rttm"
        for words in (["enqueue", "--no-transcribe", f"--diarize={os.path.abspath(model)}", folder],
                      ["run", "--devices=cpu"], ["export", "--format=rttm", f"--output={work}/found"]):
            subprocess.run([program, words[0], catalog, *words[1:]], check=True,
                           stdout=subprocess.DEVNULL if words[0] == "export" else None)
        rttm.join(glob.glob(f"{folder}/*.rttm"), reference)
        rttm.join(glob.glob(f"{work}/found/**/*.rttm", recursive=True), found)
        subprocess.run([program, "score", "--der", reference, found], check=True)
        expected, heard = rttm.speakers(reference), rttm.speakers(found)
    for name, who in expected.items():
        print(f"{name}: {len(who)} speak, {len(heard.get(name, ()))} found")
    right = sum(len(who) == len(heard.get(name, ())) for name, who in expected.items())
    print(f"{right} of {len(expected)} with the right number of speakers")


if __name__ == "__main__":
    main()
