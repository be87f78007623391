"""When words begin: a program's times beside PocketSphinx's, which is told the words (align_run.py).

Nobody has written down when the words of these recordings are said. The aligner knows nothing of Whisper, so that what a
program is nearer to is a fair comparison; how near the aligner itself is to the truth is not known.
"""
import difflib
import hashlib
import json
import os
import re
import statistics
import subprocess

import cache
import words


def said(text):
    """English words as a dictionary of pronunciations has them."""
    return [w for w in (w.strip("'") for w in re.findall(r"[a-z']+", text.lower().replace("\u2019", "'"))) if w]


def aligned(items):
    """{name: [(begin, end, word)]} of the English ones that could be aligned."""
    def make(folder):
        python = cache.venv("pocketsphinx", "pocketsphinx==5.1.1")
        asked = [[r.name, r.path, said(r.text)] for r in items if r.language == "en"]
        done = subprocess.run([python, os.path.join(cache.HERE, "align_run.py")], input=json.dumps(asked).encode(),
                              stdout=subprocess.PIPE, check=True)
        with open(os.path.join(folder, "aligned.json"), "wb") as out:
            out.write(done.stdout)

    with open(os.path.join(cache.HERE, "align_run.py"), "rb") as file:
        name = "aligned-" + hashlib.sha256(file.read()).hexdigest()[:8]
    with open(os.path.join(cache.made(name, make), "aligned.json"), encoding="utf-8") as file:
        return json.load(file)


def plain(timed):
    """[(word, begin)] of [(begin, end, word)]: several where a program's word is several ("re-elected")."""
    return [(word, begin) for begin, _, text in timed for word in words.words(text.replace("'", ""))]


def begins_of(reference, timed):
    """{number of a word of the reference: (its begin there, its begin here)}, for words that are the same."""
    here, ret = plain(timed), {}
    match = difflib.SequenceMatcher(None, [w for w, _ in reference], [w for w, _ in here], autojunk=False)
    for i, k, n in match.get_matching_blocks():
        ret.update({i + j: (reference[i + j][1], here[k + j][1]) for j in range(n)})
    return ret


def compare(items, heard):
    """heard: {who: {name: [(begin, end, word)]}}. Yields (who, words, median and 90th percentile of how far apart begins
    are, in ms, share within 200 ms), for the words that all of them have."""
    references = {name: plain(timed) for name, timed in aligned(items).items()}
    found = {who: {name: begins_of(reference, timed.get(name, ())) for name, reference in references.items()}
             for who, timed in heard.items()}
    shared = [(name, k) for name, reference in references.items() for k in range(len(reference))
              if all(k in one[name] for one in found.values())]
    for who, one in found.items():
        apart = sorted(abs(one[name][k][0] - one[name][k][1]) for name, k in shared)
        if apart:
            yield (who, len(apart), 1000 * statistics.median(apart), 1000 * apart[int(0.9 * len(apart))],
                   sum(a <= 0.2 for a in apart) / len(apart))
