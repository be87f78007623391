#!/usr/bin/env python3
"""Folders that are watched, and runs that enqueue what they are given."""
import os
import shutil
import signal
import sqlite3
import time

import night

NANO = "--model=whisper-nano"
FARMER = os.path.join(night.DEMO, "english", "farmer.wav")


class Paths(night.Night):
    def test_enqueued_and_done(self):
        self.bring(FARMER)
        answer = self.run_to_end("--model", "whisper-nano", "--priority=low", self.archive)
        self.assertIn("1 recording done", answer.out)
        self.assertEqual([("done", -1)], self.sql("SELECT state, priority FROM task"))
        self.assertIn(f" low priority run --model=whisper-nano --priority=low {self.archive}",
                      " ".join(self.nightshift("status", "--jobs", status=0).out.split()))
        self.assertIn("Nothing was waiting", self.run_to_end(self.archive).out)  # and that is no error
        self.assertEqual([], [line for line in self.run_to_end("--json", self.archive).out.splitlines()
                              if not line.startswith("{")])

    def test_what_is_not_there(self):
        gone = os.path.join(self.dir, "gone")
        answer = self.run_to_end("--on-finish", 'printf "%s" "$NIGHTSHIFT_WHY" > why', gone, status=night.NOINPUT)
        self.assertIn("no such file", answer.err)
        with open(os.path.join(self.dir, "why"), encoding="utf-8") as file:
            self.assertEqual("failed", file.read())
        self.assertIn("needs a PATH", self.run_to_end("--model", "x", status=night.USAGE).err)
        self.run_to_end("--part", "x.db", self.archive, status=night.USAGE)


class Watch(night.Night):
    def watch(self, *options, command="enqueue"):
        run = night.Running([night.PROGRAM, command, "--watch", "--settled=100ms", "--poll=200ms", NANO, *options],
                            self.env(), self.dir)
        self.running.append(run)
        return run

    def present(self):
        return sorted(os.path.basename(row[0]) for row in self.rows(
            "SELECT path FROM place WHERE state = 'present'"))

    def rows(self, query):
        """Of nothing while the catalog is not there yet, or half made."""
        try:
            return self.sql(query)
        except sqlite3.OperationalError:
            return []

    def await_present(self, run, *names):
        self.wait_for(f"{names} are enqueued", lambda: self.present() == sorted(names), run)

    def end(self, run, number=signal.SIGTERM, status=0):
        run.signal(number)
        self.assertIn(run.wait(), (status, -number), run.said())  # the signal may come before it watches

    def test_what_comes_and_goes(self):
        self.bring(FARMER, "a.wav")
        run = self.watch(self.archive)
        self.await_present(run, "a.wav")
        self.bring(FARMER, "new/deep/b.wav")
        self.await_present(run, "a.wav", "b.wav")
        self.bring(FARMER, "new/deep/c.wav")  # in a folder that came meanwhile
        self.await_present(run, "a.wav", "b.wav", "c.wav")
        os.rename(os.path.join(self.archive, "new"), os.path.join(self.dir, "elsewhere"))
        self.await_present(run, "a.wav")
        os.rename(os.path.join(self.dir, "elsewhere"), os.path.join(self.archive, "again"))
        self.await_present(run, "a.wav", "b.wav", "c.wav")
        self.bring(FARMER, ".d.wav.Zk3x9q")  # as rsync writes: no recording's name yet
        self.bring(FARMER, "e.wav.part")
        os.rename(os.path.join(self.archive, ".d.wav.Zk3x9q"), os.path.join(self.archive, "d.wav"))
        self.await_present(run, "a.wav", "b.wav", "c.wav", "d.wav")
        self.end(run)
        jobs = self.sql("SELECT command FROM job")
        self.assertGreaterEqual(len(jobs), 5)
        self.assertEqual({(f"nightshift enqueue --watch --settled=100ms --poll=200ms {NANO} {self.archive}",)}, set(jobs))
        self.healthy()

    def test_what_is_enqueued_is_what_was_looked_at(self):
        """A file that became whole behind the look is left to the next one, which then misses it if it goes."""
        self.bring(FARMER, "a.wav")
        changed = os.stat(os.path.join(self.archive, "a.wav")).st_ctime_ns // 1000000
        time.sleep(0.02)
        for as_of, there in ((changed + 1, []), (changed + 11, ["a.wav"])):
            self.nightshift("watched", "a line", str(as_of), "--settled=10ms", "--model=whisper-nano", self.archive)
            self.assertEqual(there, self.present())

    def test_a_root_that_vanishes_and_returns(self):
        run = self.watch(self.archive)
        self.bring(FARMER, "a.wav")
        self.await_present(run, "a.wav")
        away = os.path.join(self.dir, "away")
        os.rename(self.archive, away)
        self.bring(FARMER, os.path.join(away, "b.wav"))
        self.wait_for("it is missed", lambda: "no such file" in run.said(), run)
        os.rename(away, self.archive)
        self.await_present(run, "a.wav", "b.wav")
        self.end(run, signal.SIGINT)

    def test_more_events_than_the_queue_holds(self):
        self.bring(FARMER, "a.wav")
        run = self.watch(self.archive)
        self.await_present(run, "a.wav")
        run.signal(signal.SIGSTOP)
        with open("/proc/sys/fs/inotify/max_queued_events", encoding="ascii") as file:
            most = int(file.read())
        for i in range(min(most, 60000) // 2 + 10):
            path = os.path.join(self.archive, f"{i % 100}.tmp")
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
            os.unlink(path)
        self.bring(FARMER, "late.wav")
        run.signal(signal.SIGCONT)
        self.await_present(run, "a.wav", "late.wav")
        self.end(run)

    def test_a_file_alone_is_looked_at_every_so_often(self):
        path = self.bring(FARMER, "a.wav")
        run = self.watch(path)
        self.await_present(run, "a.wav")
        shutil.copyfile(os.path.join(night.DEMO, "english", "farmer.wav"), path + ".tmp")
        with open(path + ".tmp", "r+b") as file:
            file.seek(2000)
            file.write(b"other")
        os.rename(path + ".tmp", path)
        self.wait_for("the change is seen", lambda: self.sql("SELECT count(*) FROM media") == [(2,)], run)
        self.end(run)

    def test_what_is_not_whole_is_left(self):
        self.bring(FARMER, "a.wav")
        self.enqueue()
        self.bring(FARMER, "b.wav")
        self.enqueue(self.archive, "--settled=1h")
        self.assertEqual(["a.wav"], self.present())  # which has not vanished either
        self.nightshift("enqueue", "--watch", "--dry-run", self.archive, status=night.USAGE)

    def test_patterns_and_priorities_hold(self):
        run = self.watch("--exclude", "no*", "--priority=high", self.archive)
        self.bring(FARMER, "no.wav")
        self.bring(FARMER, "a.wav")
        self.await_present(run, "a.wav")
        self.end(run)
        self.assertEqual([(1,)], self.sql("SELECT priority FROM task"))

    def test_a_run_that_watches(self):
        run = self.watch("--no-progress", "--on-finish", "echo secret", self.archive, command="run")
        self.wait_for("the run is on", lambda: os.path.exists(self.catalog + ".sock"), run)
        self.bring(FARMER, "a.wav")
        self.wait_for("it is done", lambda: self.rows("SELECT state FROM task") == [("done",)], run)
        others = [pid for pid, _ in night.descendants(run.process.pid)]
        self.end(run)
        self.wait_for("nobody is left", lambda: not any(os.path.exists(f"/proc/{pid}") for pid in others))
        self.assertEqual({(f"nightshift run --watch --settled=100ms --poll=200ms {NANO} {self.archive}",)},
                         set(self.sql("SELECT command FROM job")))


if __name__ == "__main__":
    night.main()
