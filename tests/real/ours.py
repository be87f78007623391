"""A set of recordings through the whole program: enqueue, run, and what its catalog has then."""
import os
import sqlite3
import subprocess
import tempfile
import time

import cache

PROGRAM = os.environ.get("NIGHTSHIFT", os.path.join(cache.SOURCE, "build/release/tools/nightshift"))
THREADS = "NIGHTSHIFT_REAL_THREADS"


class Heard:
    """Of each recording by name: [(begin in s, end in s, language, text)]; of all: seconds that a run took, and
    what was dropped: {name: [(text, reason)]}, segments' mean log probabilities, and words with --word-timestamps:
    {name: [(begin, end, word)]}."""

    def __init__(self):
        self.segments, self.dropped, self.sureness, self.words, self.seconds = {}, {}, {}, {}, 0.0


def models_folder(folder, name, voice_activity):
    """As a user has it who pulled these."""
    os.mkdir(folder)
    os.symlink(cache.model(name), os.path.join(folder, "whisper-" + name))
    if voice_activity:
        os.symlink(cache.voice_activity(), os.path.join(folder, "silero-vad"))


def transcribe(recordings, model="base", options=(), run_options=(), program=PROGRAM, precision="fp32", timeout=None,
               environment=None):
    """options: of enqueue; environment: more of it, such as NIGHTSHIFT_CPU."""
    ret = Heard()
    # On a busy machine one thread is faster than several that wait for each other; for peers, too.
    threads = ["--threads", os.environ[THREADS]] if os.environ.get(THREADS) else []
    with tempfile.TemporaryDirectory(prefix="real-") as place:
        catalog = os.path.join(place, "catalog.db")
        models = os.path.join(place, "models")
        models_folder(models, model, "--vad=off" not in options)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HF_", "NIGHTSHIFT"))}
        env.update(HOME=place, NIGHTSHIFT_CATALOG=catalog, NIGHTSHIFT_MODELS=models, NIGHTSHIFT_DEVICES="cpu",
                   NO_COLOR="1", LC_ALL="C.UTF-8", **(environment or {}))

        def call(*args):
            done = subprocess.run([program, *args], stdin=subprocess.DEVNULL, capture_output=True, env=env,
                                  timeout=timeout, check=False)
            if done.returncode:
                raise RuntimeError(f"nightshift {' '.join(args)}: status {done.returncode}\n"
                                   f"{done.stderr.decode('utf-8', 'replace')[-2000:]}")

        call("enqueue", "--model", "whisper-" + model, *options, *(os.path.realpath(r.path) for r in recordings))
        began = time.monotonic()
        call("run", "--precision", precision, *threads, *run_options)
        ret.seconds = time.monotonic() - began
        by_path = {os.path.realpath(r.path): r.name for r in recordings}
        ret.segments = {r.name: [] for r in recordings}
        ret.dropped = {r.name: [] for r in recordings}
        ret.sureness = {r.name: [] for r in recordings}
        ret.words = {r.name: [] for r in recordings}
        with sqlite3.connect(f"file:{catalog}?mode=ro", uri=True) as db:
            undone = db.execute("SELECT path, state FROM recordings WHERE state <> 'done'").fetchall()
            if undone:
                raise RuntimeError(f"not done: {undone[:5]}")
            for path, begin, end, language, text, sureness in db.execute(
                    "SELECT path, start_ms, end_ms, language, text, avg_logprob FROM transcript "
                    "ORDER BY path, start_ms, end_ms"):
                ret.segments[by_path[path]].append((begin / 1000, end / 1000, language, text.strip()))
                ret.sureness[by_path[path]].append(sureness)
            for path, begin, end, word in db.execute(
                    "SELECT path, start_ms, end_ms, word FROM words ORDER BY path, start_ms, end_ms"):
                ret.words[by_path[path]].append((begin / 1000, end / 1000, word))
            for path, text, reason in db.execute(
                    "SELECT path, text, reason FROM doubts WHERE outcome = 'dropped' ORDER BY path, start_ms"):
                ret.dropped[by_path[path]].append((text, reason))
    return ret
