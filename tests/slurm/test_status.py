#!/usr/bin/env python3
"""What `nightshift slurm status` makes of what sacct and squeue say; both are scripts here, which say
what a cluster with accounting would: the real one of test_slurm.py keeps none."""
import json
import os
import sqlite3
import sys
import unittest
import wave

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
import night

PARTS = 10
JOB = 4711


def ours(text):
    return text.replace(b"%d", b"%d" % JOB)


# As sacct -n -P -X -o JobID,State says it. Task 1 was requeued, and the rows of all its tries are there, in
# their order. What waits in the array has one row.
SACCT = ours(b"""\
%d_0|COMPLETED
%d_1|NODE_FAIL
%d_1|REQUEUED
%d_1|COMPLETED
%d_2|FAILED
%d_3|CANCELLED by 1000
%d_4|TIMEOUT
%d_5|OUT_OF_MEMORY
%d_6|NODE_FAIL
%d_7|RUNNING
%d_[8-9%2]|PENDING
""")
# As squeue -r -o "%F_%K|%T" says it: an array's tasks one by one; what has ended is still there for a while.
SQUEUE = ours(b"%d_7|RUNNING\n%d_8|PENDING\n%d_9|PENDING\n%d_6|NODE_FAIL\n")
STATES = ["COMPLETED", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "RUNNING",
          "PENDING", "PENDING"]
# Nothing of it is a state of a task of ours.
GARBAGE = [ours(line) for line in (
    b"", b"\n\n", b"|", b"_", b"_|", b"_3|", b"%d", b"%d|FAILED", b"%d_3", b"%d_3.batch|COMPLETED",
    b"%d_|FAILED", b"%d_3|", b"%d_3| ", b"%d_3|\xff\xfe", b"%d_3|\x1b[31mFAILED", b"%d_-3|FAILED",
    b"%d_+3|FAILED", b"%d_ 3|FAILED", b"%d_99999999999999999999|FAILED", b"%d_10|FAILED", b"%d_3x|FAILED",
    b"9%d_3|FAILED", b"1_3|FAILED", b"%d+3|FAILED", b"%d_3|" + 300 * b"A", b"sacct: error: _3|FAILED",
    b"%d_3\0|FAILED", b"3|%d_3", b"JobID|State", b"%d_3|\xc3\xa9tat", b"%d_3|FAILED\xc3")]


class Status(night.Night):
    def setUp(self):
        super().setUp()
        for i in range(PARTS):  # each another recording
            with wave.open(os.path.join(self.archive, f"{i}.wav"), "w") as w:
                w.setparams((1, 2, 16000, 0, "NONE", ""))
                w.writeframes(bytes((i + k * (i + 3)) % 251 for k in range(32000)))
        self.enqueue("--model", night.MODEL, "--vad=off", self.archive)
        self.bin, self.folder = os.path.join(self.dir, "bin"), os.path.join(self.dir, "parts")
        os.mkdir(self.bin)
        self.program("scontrol", b"")
        self.program("sbatch", b"%d\n" % JOB)
        self.nightshift("slurm", "submit", "--output", self.folder, f"--into={PARTS}", status=0)
        for part, tries in ((1, 1), (2, 3), (3, 1), (4, 1), (5, 2), (6, 1), (7, 1)):
            self.tried(part, tries)
        for part in (0, 1):
            self.nightshift("run", "--quiet", "--part", self.part(part), status=0)

    def env(self, **more):
        return super().env(PATH=self.bin + ":" + os.environ["PATH"] if hasattr(self, "bin") else os.environ["PATH"],
                           **more)

    def part(self, i):
        return os.path.join(self.folder, f"part-{i:04d}.db")

    def tried(self, part, times):
        """Runs of it began, and were killed before a checkpoint."""
        with sqlite3.connect(self.part(part)) as db:
            for _ in range(times):
                db.execute("INSERT INTO event (at, kind, text) SELECT strftime('%Y-%m-%dT%H:%M:%fZ'), "
                           "'part-try', count(*) || ' shards done before' FROM shard")
        db.close()

    def program(self, name, says, status=0, asked=None):
        """asked: it answers to these arguments alone."""
        path = os.path.join(self.bin, name)
        with open(path + ".says", "wb") as f:
            f.write(says)
        with open(path, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n")
            if asked:
                f.write(f"[ \"$*\" = '{asked}' ] || exit 1\n")
            f.write(f"cat '{path}.says'\nexit {status}\n")
        os.chmod(path, 0o755)

    def slurm(self, sacct=SACCT, squeue=SQUEUE, sacct_status=0, squeue_status=0):
        self.program("sacct", sacct, sacct_status, f"-n -P -X -j {JOB} -o JobID,State")
        self.program("squeue", squeue, squeue_status, f"-h -r -t all -j {JOB} -o %F_%K|%T")

    def rows(self):
        rows = json.loads(self.nightshift("slurm", "status", self.folder, "--json", status=0).out)
        self.assertEqual(list(range(PARTS)), [row["part"] for row in rows])
        return rows

    def states(self):
        return [row["slurm"] for row in self.rows()]

    def test_joined(self):
        with self.subTest("both"):
            self.both()
        with self.subTest("one of them"):
            self.one_of_them()
        self.garbage()

    def both(self):
        self.slurm()
        rows = self.rows()
        self.assertEqual(STATES, [row["slurm"] for row in rows])
        self.assertEqual(["done", "done", "failed", "left", "left", "left", "left", "in the queue", "in the queue",
                          "in the queue"], [row["is"] for row in rows])
        self.assertEqual([1, 2, 3, 1, 1, 2, 1, 1, 0, 0], [row["tries"] for row in rows])
        # Of the one that is on nobody knows yet.
        self.assertEqual([0, 1, 3, 1, 1, 2, 1, 0, 0, 0], [row["failed_tries"] for row in rows])
        self.assertEqual([0, 0] + [1] * 8, [row["open"] for row in rows])
        lines = self.nightshift("slurm", "status", self.folder, status=0).out.splitlines()
        self.assertEqual(PARTS + 2, len(lines), lines)
        for row, line in zip(rows, lines):
            self.assertEqual([os.path.basename(row["file"]), row["is"], row["slurm"]],
                             [word.strip() for word in line.split("  ") if word][:3])
        self.assertTrue(lines[-2].startswith(f"2 of 10 parts done; job {JOB}, merged by {JOB}."), lines)
        self.assertIn("1 failed three times", lines[-1])

        # Once more in the queue: what squeue says is of now.
        self.slurm(squeue=SQUEUE + ours(b"%d_2|PENDING\n%d_4|RUNNING\n"))
        self.assertEqual(STATES[:2] + ["PENDING", "CANCELLED", "RUNNING"] + STATES[5:], self.states())

    def one_of_them(self):
        """No accounting; a job that squeue forgot; a cluster that is down; not even programs."""
        waiting = ["", "", "", "", "", "", "NODE_FAIL", "RUNNING", "PENDING", "PENDING"]
        self.slurm(sacct=b"Slurm accounting storage is disabled\n", sacct_status=1)
        self.assertEqual(waiting, self.states())
        self.slurm(squeue=b"slurm_load_jobs error: Invalid job id specified\n", squeue_status=1)
        self.assertEqual(STATES[:8] + ["", ""], self.states())
        self.slurm(sacct_status=1, squeue_status=1)
        self.assertEqual([""] * PARTS, self.states())
        self.program("sacct", b"", 127)
        self.program("squeue", b"", 127)
        self.assertEqual([""] * PARTS, self.states())

    def garbage(self):
        for line in GARBAGE:
            with self.subTest(line):
                self.slurm(sacct=SACCT + line)
                self.assertEqual(STATES, self.states())
        lines = b"\n".join(line for line in GARBAGE if b"\0" not in line) + b"\n"
        self.slurm(sacct=lines + SACCT, squeue=lines + SQUEUE + lines)
        self.assertEqual(STATES, self.states())


if __name__ == "__main__":
    unittest.main(verbosity=2)
