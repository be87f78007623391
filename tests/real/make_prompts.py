#!/usr/bin/env python3
"""make_prompts.py: writes prompts.tsv, what is said in prompts of Debian's packages asterisk-core-sounds-*-g722.

Nobody has written down their words. So each prompt is heard alone, by this program (without voice activity, in its own
language) and by faster-whisper; those that both hear alike stay, which leaves out bad guesses, but also hard prompts.
"""
import array
import os
import random
import subprocess
import sys
import json

import cache
import ours
import recordings
from words import words

EACH = 60      # prompts of a language that are tried
SHORTEST_S, LONGEST_S = 1.5, 9

PEER = """
import json, sys
from faster_whisper import WhisperModel
model = WhisperModel(sys.argv[1], device="cpu", compute_type="float32", cpu_threads=2)
for path in sys.argv[3:]:
    print(json.dumps(" ".join(s.text.strip() for s in model.transcribe(path, language=sys.argv[2])[0])), flush=True)
"""


def chosen(language, folder):
    files = cache.prompts(language)
    names = sorted(files)
    random.Random("chosen " + language).shuffle(names)
    ret = []
    for name in names:
        if len(ret) < EACH and SHORTEST_S <= os.path.getsize(files[name]) / 8000 <= LONGEST_S:  # 64 kbit/s
            path = os.path.join(folder, f"{language}-{name}.wav")
            recordings.put_wave(path, recordings.silence(0.3) + recordings.decoded(files[name]) + array.array("h", bytes(9600)))
            ret.append(recordings.Recording(name, path, []))
    return ret


def main():
    import peers

    folder = cache.made("prompts-alone", lambda new: None)
    rows = []
    for language in cache.PROMPTS:
        items = chosen(language, folder)
        own = ours.transcribe(items, options=("--vad=off", "--beam-size=5", "--language", language)).segments
        said = subprocess.run([peers.python_of("faster-whisper"), "-c", PEER, cache.ct2("base"), language,
                               *(r.path for r in items)], capture_output=True, check=True).stdout
        for r, line in zip(items, said.splitlines()):
            text, theirs = " ".join(s[3] for s in own[r.name]), json.loads(line)
            if len(words(text)) > 1 and words(text) == words(theirs):
                rows.append((language, r.name, text))
        print(language, len(items), sum(row[0] == language for row in rows), file=sys.stderr, flush=True)
    with open(recordings.PROMPT_TEXTS, "w", encoding="utf-8") as file:
        file.write("# language, file of asterisk-core-sounds-LANGUAGE-g722, what two programs hear in it (make_prompts.py)\n")
        for row in sorted(rows):
            file.write("\t".join(row) + "\n")


if __name__ == "__main__":
    main()
