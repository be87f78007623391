#!/usr/bin/env python3
"""align_run.py: reads [[name, file, [word, ...]], ...] and writes {name: [[begin, end, word], ...]}, both JSON.

PocketSphinx's English model says when each word is said (seconds); it is told the words. A word that its dictionary does not
have is taken as two that it has ("woodcutters"). A recording of which this cannot be said is left out. Runs in an
environment that has pocketsphinx.
"""
import json
import re
import sys

from pocketsphinx import Decoder

import recordings

SEARCH = {"beam": 1e-80, "wbeam": 1e-60, "pbeam": 1e-80}  # wide: alignment fails where it is too narrow


def known(decoder, word):
    """One word, or two; None: neither."""
    if decoder.lookup_word(word) is not None:
        return [word]
    for k in range(3, len(word) - 2):
        if decoder.lookup_word(word[:k]) is not None and decoder.lookup_word(word[k:]) is not None:
            return [word[:k], word[k:]]
    return None


def aligned(path, words):
    decoder = Decoder(samprate=recordings.RATE, loglevel="FATAL", lm=None, **SEARCH)
    parts = [known(decoder, word) for word in words]
    if None in parts:
        return None
    said = sum(parts, [])
    decoder.set_align_text(" ".join(said))
    decoder.start_utt()
    decoder.process_raw(recordings.decoded(path).tobytes(), full_utt=True)
    decoder.end_utt()
    ret = [(s.start_frame / 100, (s.end_frame + 1) / 100, re.sub(r"\(\d+\)$", "", s.word))
           for s in decoder.seg() or () if s.word[0] not in "<["]
    return ret if [word for _, _, word in ret] == said else None


def main():
    found = {name: aligned(path, words) for name, path, words in json.load(sys.stdin)}
    json.dump({name: words for name, words in found.items() if words}, sys.stdout)


if __name__ == "__main__":
    main()
