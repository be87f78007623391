#!/usr/bin/env python3
"""The catalog's vectors under the real sqlite-vec, from the Python package index: its distance works on
our BLOBs and ranks as `nightshift speakers --like` does, and the queries of docs/reference/catalog.md that want it
answer. Skipped, and said so, where the extension or sqlite3 cannot be had. The argument is a folder to
keep the extension in."""
import json
import os
import random
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile

from program import PROGRAM, wav

SOURCE = os.environ["NIGHTSHIFT_SOURCE_DIR"]
PACKAGE = "sqlite-vec==0.1.6"
SIZE = 32


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def extension(folder):
    """Path of vec0, fetched once."""
    path = os.path.join(folder, "sqlite_vec", "vec0.so")
    if not os.path.exists(path):
        done = subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet",
                               "--no-deps", "--target", folder, PACKAGE], capture_output=True, check=False,
                              timeout=240)
        if done.returncode != 0 or not os.path.exists(path):
            skip("pip cannot fetch " + PACKAGE + ": " + done.stderr.decode()[-300:])
    return path[:-len(".so")]


def unit(rng):
    v = [rng.gauss(0, 1) for _ in range(SIZE)]
    length = sum(x * x for x in v) ** 0.5
    return struct.pack(f"<{SIZE}f", *(x / length for x in v))


def make(catalog, archive, env):
    """Twenty recordings with three voices and three passages each."""
    rng = random.Random(5)
    os.mkdir(archive)
    for i in range(20):
        with open(os.path.join(archive, f"{i}.wav"), "wb") as file:
            file.write(wav(i))
    subprocess.run([PROGRAM, "enqueue", "--quiet", "--model=whisper-nano", archive], env=env, check=True, timeout=120)
    db = sqlite3.connect(catalog)
    for stage in ("diarize", "embed-text"):
        number, = db.execute("INSERT INTO stage (name, model, model_dir, model_hash, params, created_at) "
                             "VALUES (?, 'm', '/m', 'aa', '{}', '2026') RETURNING stage_id", (stage,)).fetchone()
        for media in range(1, 21):
            task, = db.execute("INSERT INTO task (media_id, stage_id, job_id, language, state) "
                               "VALUES (?, ?, 1, '', 'done') RETURNING task_id", (media, number)).fetchone()
            db.execute("INSERT INTO shard (task_id, seq, start_ms, end_ms, language, "
                       "language_prob, windows, wall_ms, device, done_at) VALUES (?, 0, 0, 9000, '', 0, 1, 1, 'cpu', '2026')", (task,))
            for k in range(3):
                if stage == "diarize":
                    db.execute("INSERT INTO speaker (task_id, media_id, label, speech_ms, vector) "
                               "VALUES (?, ?, ?, 1000, ?)", (task, media, f"SPEAKER_0{k}", unit(rng)))
                else:
                    db.execute("INSERT INTO embedding (task_id, seq, idx, start_ms, end_ms, text, vector) "
                               "VALUES (?, 0, ?, ?, ?, 'words', ?)", (task, k, k * 1000, k * 1000 + 900, unit(rng)))
    db.commit()
    db.close()


def main():
    if shutil.which("sqlite3") is None:
        skip("there is no sqlite3 program")
    vec = extension(os.path.abspath(sys.argv[1]))
    folder = os.path.realpath(tempfile.mkdtemp(dir="."))
    catalog = os.path.join(folder, "c.db")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HF_", "NIGHTSHIFT_"))}
    env.update(HOME=folder, NIGHTSHIFT_CATALOG=catalog, NIGHTSHIFT_DEVICES="cpu")

    def ask(sql):
        done = subprocess.run(["sqlite3", "-readonly", "-bail", "-json", catalog], capture_output=True, check=False,
                              input=f".load '{vec}'\n{sql}\n".encode(), timeout=60)
        assert done.returncode == 0 and not done.stderr, (sql, done.stderr.decode())
        return json.loads(done.stdout.decode() or "[]")

    try:
        make(catalog, os.path.join(folder, "archive"), env)
        theirs = ask("SELECT k.speaker_id, 1 - vec_distance_cosine(k.vector, q.vector) AS likeness "
                     "FROM speaker q JOIN speaker k ON k.speaker_id <> q.speaker_id "
                     "WHERE q.speaker_id = 5 ORDER BY likeness DESC")
        path, label = sqlite3.connect(catalog).execute(
            "SELECT path, label FROM speakers WHERE speaker_id = 5").fetchone()
        ours = json.loads(subprocess.run([PROGRAM, "speakers", "--like", f"{path}/{label}", "--limit=0", "--json"],
                                         env=env, check=True, capture_output=True, timeout=60).stdout)
        assert len(ours) == 59, len(ours)
        assert [r["speaker_id"] for r in ours] == [r["speaker_id"] for r in theirs]
        assert all(abs(a["likeness"] - b["likeness"]) < 1e-5 for a, b in zip(ours, theirs))
        with open(os.path.join(SOURCE, "docs/reference/catalog.md"), encoding="utf-8") as file:
            queries = re.findall(r"<!-- sqlite-vec -->\n```sql\n(.*?)```", file.read(), re.S)
        assert len(queries) >= 2, len(queries)
        for query in queries:
            rows = ask(query)
            distances = [row["distance"] for row in rows]
            assert len(rows) == 10 and distances == sorted(distances), (query, rows)
        assert abs(distances[0]) <= 1, distances
        print(len(ours), "voices and", len(queries), "queries as sqlite-vec has them")
    finally:
        shutil.rmtree(folder, True)


main()
