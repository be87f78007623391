#!/usr/bin/env python3
"""make_prompts.py: writes prompts.tsv, what is said in prompts of Debian's packages asterisk-core-sounds-*-g722.

Nobody has written down their words. So this program hears each prompt alone, told its language and without voice
activity, and those stay of which the model is sure. A set that is made of them says what is lost among others.
"""
import os
import random
import sys

import cache
import ours
import recordings
from words import words

EACH = 16                  # prompts of a language that are tried
SHORTEST_S, LONGEST_S = 2, 9
SURE = -0.5                # mean log probability


def chosen(language, folder):
    files = cache.prompts(language)
    names = sorted(files)
    random.Random("chosen " + language).shuffle(names)
    ret = []
    for name in names:
        if len(ret) < EACH and SHORTEST_S <= os.path.getsize(files[name]) / 8000 <= LONGEST_S:  # 64 kbit/s
            path = os.path.join(folder, f"{language}-{name}.wav")
            pause = recordings.silence(0.3)
            recordings.put_wave(path, pause + recordings.decoded(files[name]) + pause)
            ret.append(recordings.Recording(name, path, []))
    return ret


def main():
    folder = cache.made("prompts-alone", lambda new: None)
    rows = []
    for language in cache.PROMPTS:
        items = chosen(language, folder)
        heard = ours.transcribe(items, options=("--vad=off", "--language", language))
        for r in items:
            text = " ".join(s[3] for s in heard.segments[r.name])
            if len(words(text)) > 2 and min(heard.sureness[r.name]) >= SURE:
                rows.append((language, r.name, text))
        print(language, len(items), sum(row[0] == language for row in rows), file=sys.stderr, flush=True)
    with open(recordings.PROMPT_TEXTS, "w", encoding="utf-8") as file:
        file.write("# language, file of asterisk-core-sounds-LANGUAGE-g722, its words (make_prompts.py)\n")
        for row in sorted(rows):
            file.write("\t".join(row) + "\n")


if __name__ == "__main__":
    main()
