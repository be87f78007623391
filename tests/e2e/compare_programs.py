#!/usr/bin/env python3
"""Does another build of the program find the same? For whoever changes how it is made.

    compare_programs.py OLD NEW [--emulated]

OLD and NEW are build folders. Each program enqueues tests/samples with every stage that has a model
in this tree and runs them to the end; then the two catalogs are compared row for row, all tables,
but for times of day and for numbers that depend on the order of commits. Then the old program is
killed in the middle of the same night, and the new one goes on with its catalog. --emulated: two of
the recordings, on the emulated CUDA of each build instead of the processor: some ten minutes. Exit
status 1 when anything differs.
"""
import difflib
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(__file__))
import night
import tiny_models

# Of a row that says what was found; the others count commits, seconds, or say where and when.
LEFT_OUT = re.compile(r"_at$|^(at|pid|model_dir|mtime_ns|inode|device|wall_ms|segment_id|speaker_id|embedding_id|event_id)$")
# Tables that say how the night went, or are made of the others.
NOT_RESULTS = re.compile(r"^(sqlite_|event$|run$|run_sample$|tuning$|setting$|trouble$|segment_fts)")
JOINED = {"word": "SELECT g.task_id, g.seq, g.idx AS of, w.*, k.label FROM word w "
                  "JOIN segment g USING (segment_id) LEFT JOIN speaker k ON k.speaker_id = w.speaker_id",
          "segment": "SELECT g.*, k.label FROM segment g LEFT JOIN speaker k USING (speaker_id)",
          "turn": "SELECT u.*, k.task_id AS of, k.label FROM turn u JOIN speaker k USING (speaker_id)"}


def rows(catalog):
    """Every row of every table as a line, sorted."""
    db = sqlite3.connect(f"file:{catalog}?mode=ro", uri=True)
    db.text_factory = lambda raw: raw.decode("utf-8", "backslashreplace")
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
              if not NOT_RESULTS.match(name)]
    lines = []
    for table in sorted(tables):
        cursor = db.execute(JOINED.get(table, f"SELECT * FROM {table}"))
        names = [column[0] for column in cursor.description]
        kept = [i for i, name in enumerate(names) if not LEFT_OUT.search(name)]
        lines += sorted(f"{table}: " + ", ".join(f"{names[i]}={row[i]!r}" for i in kept)
                        for row in cursor)
    db.close()
    return lines


class Side:
    """One night of one program."""

    def __init__(self, build, where, emulated):
        self.catalog = os.path.join(where, "catalog.db")
        self.where = where
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(("XDG_", "HF_", "NIGHTSHIFT_", "CUDA_"))}
        self.env.update(HOME=where, NIGHTSHIFT_CATALOG=self.catalog, NO_COLOR="1", TZ="UTC",
                        NIGHTSHIFT_MODELS=os.path.join(where, "../models"), NIGHTSHIFT_DEVICES="cpu")
        if emulated:
            root = os.path.join(where, "root")
            os.makedirs(f"{root}/proc/driver/nvidia/gpus/0")
            with open(f"{root}/proc/driver/nvidia/version", "w", encoding="ascii") as file:
                file.write("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  x\n")
            del self.env["NIGHTSHIFT_DEVICES"]
            self.env.update(NIGHTSHIFT_SYSTEM_ROOT=root, NIGHTSHIFT_PROBE_SECONDS="60")
        # Without it a vector's last bits may depend on what shares its batch, and a night that goes on
        # has other batches.
        self.options = ["--devices", "cuda:0", "--deterministic"] if emulated else []
        self.take(build)

    def take(self, build):
        """From now on this build's program, with its own module."""
        self.program = os.path.join(build, "tools/nightshift")
        if self.options:
            doubles = os.path.join(build, "emulated")
            self.env.update(NIGHTSHIFT_CUDA_LIBS=doubles, LD_LIBRARY_PATH=doubles,
                            NIGHTSHIFT_CUDA_MODULE=f"{doubles}/nightshift-cuda-emulated.so")

    def do(self, *args):
        done = subprocess.run([self.program, *args], env=self.env, cwd=self.where, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode:
            sys.exit(f"{self.program} {' '.join(args)}: status {done.returncode}\n"
                     f"{done.stdout}{done.stderr}")

    def enqueue(self, archive):
        self.do("enqueue", "--quiet", "--model=whisper-nano", "--word-timestamps", "--diarize", "--sounds", "--embed", archive)

    def run(self):
        self.do("run", "--quiet", "--shard=30s", *self.options)

    def begin_and_kill(self):
        """Until the first results are in the catalog."""
        run = subprocess.Popen([self.program, "run", "--quiet", "--shard=30s", *self.options],
                               env=self.env, cwd=self.where, start_new_session=True)
        db = sqlite3.connect(f"file:{self.catalog}?mode=ro", uri=True, timeout=30)
        while run.poll() is None and not db.execute("SELECT count(*) FROM shard").fetchone()[0]:
            time.sleep(0.05)
        db.close()
        if run.poll() is not None:
            sys.exit("the run that was to be killed had ended before")
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()


def of(lines, *tables):
    return [line for line in lines if line.startswith(tuple(f"{table}: " for table in tables))]


def compare(what, one, other):
    different = list(difflib.unified_diff(one, other, "old", "new", lineterm="", n=0))
    print(f"{what}: {len(one)} rows, " + (f"{len(different)} lines differ" if different else "equal"))
    for line in different[:40]:
        print("  " + line[:400])
    return not different


def main(old, new, emulated):
    work = tempfile.mkdtemp(prefix="compare-", dir=os.environ.get("NIGHTSHIFT_TEST_DIR"))
    try:
        archive = os.path.join(work, "archive")
        if emulated:
            os.mkdir(archive)
            for name in ("01_en_short.wav", "04_es_clean.flac"):
                shutil.copy(os.path.join(night.SAMPLES, name), archive)
        else:
            shutil.copytree(night.SAMPLES, archive)
        models = os.path.join(work, "models")
        tiny_models.yamnet(os.path.join(models, "yamnet"))
        tiny_models.diarization(os.path.join(models, "diarization"))
        tiny_models.encoder(os.path.join(models, "all-MiniLM-L6-v2"))
        nights = []
        for name, build in (("old", old), ("new", new), ("continued", old)):
            where = os.path.join(work, name)
            os.mkdir(where)
            nights.append(Side(os.path.abspath(build), where, emulated))
            nights[-1].enqueue(archive)
        nights[0].run()
        nights[1].run()
        nights[2].begin_and_kill()
        nights[2].take(os.path.abspath(new))
        nights[2].run()
        found = rows(nights[0].catalog)
        same = compare("a night", found, rows(nights[1].catalog))
        same &= compare("an old night, continued", found, rows(nights[2].catalog))
        nights[2].enqueue(archive)
        same &= compare("its stages and tasks, asked for again", of(found, "stage", "task"),
                        of(rows(nights[2].catalog), "stage", "task"))
        return 0 if same else 1
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    builds = [word for word in sys.argv[1:] if not word.startswith("--")]
    if len(builds) != 2 or not set(sys.argv[1:]) <= {*builds, "--emulated"}:
        sys.exit(__doc__)
    sys.exit(main(*builds, "--emulated" in sys.argv))
