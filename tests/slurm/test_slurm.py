#!/usr/bin/env python3
"""A real Slurm does the demo archive as an array, whose tasks are requeued, cancelled and killed on
the way: in the end the rows are those of a single run. Skipped, and said, where Slurm cannot start."""
import json
import os
import shutil
import signal
import sys
import time
import unittest
import wave

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../e2e")]
import cluster
import night

WHY_NOT = cluster.missing()
OPTIONS = ("--model", night.MODEL, "--word-timestamps", "--vad=off", "--diarize=diarization-nano")
ROWS = ("SELECT * FROM results",
        "SELECT p.path, p.member, s.name, t.state, t.shards_total, t.error_code FROM task t "
        "JOIN stage s USING (stage_id) JOIN media m USING (media_id) "
        "JOIN place p ON p.place_id = m.place_id ORDER BY 1, 2, 3",
        "SELECT path, member, start_ms, end_ms, label FROM turns ORDER BY 1, 2, 3, 4, 5",
        "SELECT path, member, key, value FROM tags ORDER BY 1, 2, 3, 4")


class Slurm(night.Night):
    def setUp(self):
        super().setUp()
        os.chmod(self.dir, 0o755)
        os.mkdir(os.path.join(self.dir, "slurm"))
        self.cluster = cluster.Cluster(os.path.join(self.dir, "slurm"))
        self.addCleanup(self.cluster.end)
        if not self.cluster.begin():
            self.fail("Slurm does not start\n" + self.cluster.said())
        self.parts = os.path.join(self.dir, "parts")
        self.waits = {}

    def env(self, **more):
        ours = self.cluster.env()
        return super().env(SLURM_CONF=ours["SLURM_CONF"], PATH=ours["PATH"], **more)

    def rows(self):
        return [self.sql(query) for query in ROWS]

    def fill(self):
        shutil.copytree(night.DEMO, self.archive, dirs_exist_ok=True)
        with wave.open(os.path.join(night.DEMO, "english/farmer.wav")) as w:
            params, sound = w.getparams(), w.readframes(w.getnframes())
        for i in range(4):
            with wave.open(os.path.join(self.archive, f"long-{i}.wav"), "w") as w:
                w.setparams(params)
                while w.tell() < (90 + 20 * i) * params.framerate:
                    w.writeframes(sound)

    def states(self, job):
        """Of the tasks of an array; -1: of a job that is none. Nobody waits the two minutes that Slurm lets
        pass before it begins what was requeued; within some seconds the old try's credential is revoked."""
        lines = self.cluster.ask("squeue", "-h", "-r", "-t", "all", "-j", job, "-o", "%i %K %T %r")
        rows = [line.split(None, 3) for line in lines.splitlines()]
        for name, _, state, why in rows:
            if state != "PENDING" or "BeginTime" not in why:
                self.waits.pop(name, None)
            elif time.monotonic() > self.waits.setdefault(name, time.monotonic()) + 4:
                self.cluster.ask("scontrol", "update", f"jobid={name}", "starttime=now", check=False)
        return {int(k) if k.isdigit() else -1: state for _, k, state, _ in rows}

    def process_of(self, part):
        """The pid of the run of a part, and which GPU of which node Slurm gave it; None: it is not on."""
        for pid, (_, command) in night.processes().items():
            if command[1:2] == [b"run"] and os.path.join(self.parts, f"part-{part:04d}.db").encode() in command:
                try:
                    with open(f"/proc/{pid}/environ", "rb") as f:
                        there = dict(word.split("=", 1) for word in os.fsdecode(f.read()).split("\0") if "=" in word)
                except OSError:
                    return None
                return pid, (there.get("SLURMD_NODENAME"), there.get("CUDA_VISIBLE_DEVICES"))
        return None

    def wait_over(self, job):
        def over():
            states = set(self.states(job).values())
            return states and not states - {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"}
        self.wait_for(f"job {job} to end", over)

    def run(self, result=None):
        """What failed is told with what Slurm and the tasks say."""
        before = len(result.failures) + len(result.errors)
        self.said = ""
        super().run(result)
        if len(result.failures) + len(result.errors) > before:
            print(self.said)

    def tearDown(self):
        for name in sorted(os.listdir(self.parts)) if os.path.isdir(self.parts) else ():
            if name.endswith(".log"):
                with open(os.path.join(self.parts, name), errors="replace") as f:
                    self.said += f"== {name}\n{f.read()[-3000:]}\n"
        self.said += self.cluster.said()
        super().tearDown()

    def status(self):
        return json.loads(self.nightshift("slurm", "status", self.parts, "--json", status=0).out)

    def test_requeued_cancelled_and_killed(self):
        self.fill()
        self.enqueue(*OPTIONS, self.archive)
        single = shutil.copy(self.catalog, os.path.join(self.dir, "single.db"))
        said = json.loads(self.nightshift("slurm", "submit", "--output", self.parts, "--into=4", "--shard=30s",
                                          "--array-throttle=2", "--cpus-per-task=1", "--json", status=0).out)
        job = said["array"]
        acts = [lambda k, pid: self.cluster.ask("scontrol", "requeue", f"{job}_{k}", check=False),
                lambda k, pid: os.kill(pid, signal.SIGKILL),
                lambda k, pid: os.kill(pid, signal.SIGUSR1),
                lambda k, pid: self.cluster.ask("scancel", f"{job}_{k}", check=False)]
        gpus, begun, together = set(), set(), 0
        while set(self.states(job).values()) & {"PENDING", "RUNNING", "CONFIGURING", "COMPLETING"}:
            on = {k: self.process_of(k) for k, state in self.states(job).items() if state == "RUNNING"}
            on = {k: found for k, found in on.items() if found}
            seen = [gpu for _, gpu in on.values()]
            gpus.update(seen)
            self.assertEqual(len(seen), len(set(seen)), "two tasks on one GPU")
            together = max(together, len(seen))
            for k, (pid, _) in on.items():
                if k in begun or not os.path.exists(os.path.join(self.parts, f"part-{k}.log")):
                    continue
                with open(os.path.join(self.parts, f"part-{k}.log"), errors="replace") as f:
                    if "beginning with" not in f.read():
                        continue
                begun.add(k)
                try:
                    acts[k](k, pid)
                except ProcessLookupError:
                    pass
        self.assertEqual({0, 1, 2, 3}, begun)
        self.assertEqual({(node, "0") for node in self.cluster.NODES}, gpus)
        print(f"[{together} at once]", end=" ", flush=True)
        self.wait_over(job)
        self.wait_over(said["merge"])
        rows = self.status()
        self.assertEqual(["done"] * 3, [row["is"] for row in rows[:3]], rows)
        self.assertGreaterEqual(rows[0]["tries"], 2)
        self.assertGreaterEqual(rows[1]["failed_tries"], 1)
        # The merge job has brought what there was. One task was cancelled for good: once more, by hand.
        self.assertGreater(self.sql("SELECT count(*) FROM shard")[0][0], 0)
        self.assertIn(rows[3]["is"], ("left", "done"))
        again = self.cluster.ask("sbatch", "--parsable", "--array=3",
                                 os.path.join(self.parts, "parts.sbatch")).strip()
        self.wait_over(again)
        self.nightshift("merge", "--finish", self.catalog, self.parts, status=0)
        self.assertEqual([], self.sql("SELECT * FROM task WHERE state = 'pending'"))
        ours = self.rows()
        self.healthy()
        self.catalog = single
        self.run_to_end("--shard=30s")
        for one, other in zip(self.rows(), ours):
            self.assertEqual(one, other)

    def test_failed_three_times(self):
        """A model that is away: three tries, then a report, and in smaller parts when it is back."""
        self.fill()
        model = shutil.copytree(night.MODEL, os.path.join(self.dir, "model"))
        self.enqueue("--model", model, "--vad=off", self.archive)
        os.rename(model, model + ".away")
        said = json.loads(self.nightshift("slurm", "submit", "--output", self.parts, "--into=1", "--shard=30s",
                                          "--cpus-per-task=1", "--json", status=0).out)
        self.wait_over(said["array"])
        self.wait_over(said["merge"])
        row, = self.status()
        self.assertEqual(("failed", 3), (row["is"], row["failed_tries"]))
        os.rename(model + ".away", model)
        text = self.nightshift("slurm", "status", self.parts, status=0).out
        self.assertIn("1 failed three times", text)
        said = json.loads(self.nightshift("slurm", "submit", "--again", self.parts, "--cpus-per-task=1",
                                          "--json", status=0).out)
        self.assertEqual(4, said["parts"])
        self.wait_over(said["array"])
        self.wait_over(said["merge"])
        self.assertEqual([], self.sql("SELECT * FROM task WHERE state = 'pending'"))
        self.assertIn("handed out again", self.nightshift("slurm", "status", self.parts, status=0).out)


if __name__ == "__main__":
    if WHY_NOT:
        print(f"skipped: Slurm cannot start here: {WHY_NOT} (Debian: slurm-wlm, munge)")
        sys.exit(77)
    unittest.main(verbosity=2)
