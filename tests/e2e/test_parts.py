#!/usr/bin/env python3
"""A catalog's work in parts: what comes back is what one run would have made, in any order, however
often, and whatever is killed meanwhile."""
import glob
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import unittest
import wave

sys.path.insert(0, os.path.dirname(__file__))
import night

TEXT = ("--model", night.MODEL, "--word-timestamps", "--vad=off")
OPTIONS = (*TEXT, "--diarize=diarization-nano")
SHARDS = "SELECT count(*) FROM shard"
RESULTS = "SELECT * FROM results"
TASKS = ("SELECT p.path, p.member, s.name, t.state, t.shards_total, t.shards_done, t.error_code, "
         "t.attempts FROM task t JOIN stage s USING (stage_id) JOIN media m USING (media_id) "
         "JOIN place p ON p.place_id = m.place_id ORDER BY 1, 2, 3")
MEDIA = ("SELECT size_bytes, fingerprint, content_hash, duration_ms, sample_rate_hz, channels, container, "
         "codec, title, damage, audio_tracks FROM media ORDER BY fingerprint")
TAGS = "SELECT path, member, key, value, source, seq FROM tags ORDER BY 1, 2, 3, 5, 6"
TURNS = "SELECT path, member, start_ms, end_ms, label FROM turns ORDER BY 1, 2, 3, 4, 5"


class Parts(night.Night):
    """The demo archive, and one recording of some minutes."""

    quiet = {}
    kept = None  # of done(): where it lies
    options = OPTIONS
    shard = "30s"

    @classmethod
    def tearDownClass(cls):
        if cls.kept:
            shutil.rmtree(cls.kept, ignore_errors=True)

    def parts(self, folder="parts"):
        folder = os.path.join(self.dir, folder)
        return sorted(os.path.join(folder, f) for f in os.listdir(folder) if f.endswith(".db"))

    @staticmethod
    def bytes_of(path):
        with open(path, "rb") as f:
            return f.read()

    @staticmethod
    def ask(path, query):
        connection = sqlite3.connect(path, timeout=30)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()

    def shards_in_work(self):
        """Of the copy that a run is at; none while it is still being copied."""
        try:
            for path in glob.glob(os.path.join(self.dir, "nightshift-part-*/part.db")):
                return self.ask(f"file:{path}", SHARDS)[0][0]
        except sqlite3.DatabaseError:
            pass
        return 0

    def rows(self):
        return [self.sql(q) for q in (RESULTS, TASKS, MEDIA, TAGS, TURNS)]

    def split(self, n, *options, **kw):
        return self.nightshift("split", f"--into={n}", "--output=parts", *options, **kw)

    def run_part(self, path, *options, status=0, **kw):
        return self.nightshift("run", "--quiet", "--part", path, *options, status=status, **kw)

    def in_one_night(self):
        """The rows of an undisturbed run; tried once for all tests of an archive."""
        key = (self.options, self.shard, *sorted((e.name, e.stat().st_size) for e in os.scandir(self.archive)))
        if key not in Parts.quiet:
            kept, self.catalog = self.catalog, os.path.join(self.dir, "quiet.db")
            self.enqueue(*self.options, self.archive)
            self.run_to_end(f"--shard={self.shard}")
            Parts.quiet[key] = self.rows()
            self.catalog = kept
        # Each test's archive lies elsewhere.
        return Parts.quiet[key]

    def alike(self, cut=False):
        """cut: no lease of it went through all of the bytes, so that nobody knows their hash."""
        def bare(tables):
            if cut:
                tables = [*tables[:2], [(*row[:2], None, *row[3:]) for row in tables[2]], *tables[3:]]
            return [[tuple(os.path.basename(v) if isinstance(v, str) and v.startswith("/") else v
                           for v in row) for row in table] for table in tables]
        for one, other in zip(bare(self.in_one_night()), bare(self.rows())):
            self.assertEqual(sorted(one, key=repr), sorted(other, key=repr))
        self.healthy()

    def demo(self):
        for name in ("farmer.wav", "counting.mp3", "two-voices.opus"):
            shutil.copy(os.path.join(night.DEMO, "english", name), self.archive)
        for name in ("reel.tar", "field-notes.mp3"):
            shutil.copy(os.path.join(night.DEMO, name), self.archive)

    def done(self):
        """The demo's catalog as it was split, and its three parts, which have been run; once for all tests.
        Of recordings of one shard none is cut."""
        self.shard = "5m"
        if not Parts.kept:
            kept = tempfile.mkdtemp(prefix="night-", dir=os.environ.get("NIGHTSHIFT_TEST_DIR"))
            Parts.kept = kept
            self.demo()
            shutil.move(self.archive, kept)
            self.archive = os.path.join(kept, "archive")
            self.enqueue(*self.options, self.archive)
            said = self.split(3, f"--shard={self.shard}", status=0)
            self.assertIn("3 parts in parts: ", said.out)
            shutil.copytree(os.path.join(self.dir, "parts"), os.path.join(kept, "fresh"))
            for path in self.parts():
                self.run_part(path)
            shutil.move(os.path.join(self.dir, "parts"), kept)
            shutil.copy(self.catalog, os.path.join(kept, "catalog.db"))
        self.archive = os.path.join(Parts.kept, "archive")
        shutil.copy(os.path.join(Parts.kept, "catalog.db"), self.catalog)
        shutil.copytree(os.path.join(Parts.kept, "parts"), os.path.join(self.dir, "parts"))

    def long(self, seconds=150):
        """Of shards of half a minute."""
        with wave.open(os.path.join(night.DEMO, "english/farmer.wav")) as w:
            params, sound = w.getparams(), w.readframes(w.getnframes())
        with wave.open(os.path.join(self.archive, "long.wav"), "w") as w:
            w.setparams(params)
            while w.tell() < seconds * params.framerate:
                w.writeframes(sound)

    def begun(self):
        """So that the length of the long recording is known, as after a run that was stopped at once. A
        run cannot be stopped so surely: on a busy machine it is done before its test comes to it."""
        self.enqueue(*self.options, self.archive)
        with wave.open(os.path.join(self.archive, "long.wav")) as w:
            length_ms = w.getnframes() * 1000 // w.getframerate()
        connection = sqlite3.connect(self.catalog)
        with connection:
            connection.execute("UPDATE media SET duration_ms = ?", (length_ms,))
        connection.close()

    # -- what it is for

    def test_any_order_and_twice(self):
        self.done()
        self.nightshift("split", "--into=3", "--output=same", status=0)
        self.assertEqual([self.bytes_of(p) for p in self.parts(os.path.join(Parts.kept, "fresh"))],
                         [self.bytes_of(p) for p in self.parts("same")])
        untouched = shutil.copy(self.catalog, os.path.join(self.dir, "untouched.db"))
        some = self.nightshift("merge", self.catalog, self.parts()[2], self.parts()[1], status=0)
        self.assertIn("1 of the 3 parts was not given, part-0000 the first of them.", some.out)
        self.assertIn("Work is left in", some.out)
        said = self.nightshift("merge", self.catalog, "parts", status=0)
        self.assertIn("Nothing is left to do.", said.out)
        self.alike()
        before = self.rows()
        again = self.nightshift("merge", self.catalog, "parts", status=0)
        self.assertIn("0 checkpoints came in, with 0 segments; ", again.out)
        self.assertNotIn("not given", self.nightshift("merge", self.catalog, self.parts()[1], status=0).out)
        self.assertEqual(before, self.rows())
        shutil.copy(untouched, self.catalog)
        self.nightshift("merge", self.catalog, *self.parts(), status=0)
        self.alike()
        self.assertEqual([], self.sql("SELECT * FROM event WHERE kind LIKE 'content-%'"))

    def test_a_long_recording_is_cut(self):
        self.long()
        self.begun()
        said = self.split(3, "--shard=30s", status=0)
        self.assertIn("1 of them cut", said.out)
        cuts = [row for p in self.parts()
                for row in self.ask(p, "SELECT value FROM setting WHERE name = 'shards:1'")]
        self.assertEqual(3, len(cuts))
        # A part of a part comes back to the same catalog.
        last = self.parts()[2]
        self.nightshift("split", "--catalog", last, "--into=2", "--output=again", status=0)
        for path in self.parts()[:2] + self.parts("again"):
            self.run_part(path)
        finished = self.nightshift("run", "--part", self.parts()[0], status=0)  # paused, as its share is there
        self.assertIn("2 of this part's 2 tasks done, 0 failed, 0 left.", finished.out)
        self.assertNotIn("paused", finished.out)
        # While something is to be heard nothing is run; what was cut is finished when all is here.
        self.nightshift("merge", "--finish", self.catalog, self.parts()[0], status=0)
        self.assertEqual(0, self.sql("SELECT count(*) FROM turn")[0][0])
        before_last = shutil.copy(self.catalog, os.path.join(self.dir, "before-last.db"))
        self.nightshift("merge", "--finish", self.catalog, *self.parts()[:2], "again", status=0)
        self.alike(cut=True)
        shutil.copy(before_last, self.catalog)
        self.nightshift("merge", self.catalog, *self.parts()[:2], "again", status=0)
        self.assertEqual([("diarize", "settling"), ("transcribe", "done")], self.sql(
            "SELECT s.name, ifnull(t.waits, t.state) FROM task t JOIN stage s USING (stage_id) ORDER BY 1"))
        self.run_to_end()
        self.alike(cut=True)

    def test_one_that_nobody_opened_is_cut(self):
        self.options = TEXT
        self.long(105)
        self.enqueue(*self.options, self.archive)
        said = self.split(2, "--shard=30s", status=0)
        self.assertIn("1 of them cut", said.out)
        self.assertNotIn("guessed", said.out)
        first, second = self.parts()
        # Where checkpoints are is settled while parts are out, and in these.
        for refused in (("run", "--shard=60s"), ("run", "--shard=60s", "--part", first),
                        ("split", "--shard=60s", "--into=2", "--output=other")):
            said = self.nightshift(*refused, status=night.USAGE)
            self.assertIn("with 60 s would not come back", said.err)
        said = self.nightshift("split", "--into=2", "--output=other", status=0)
        self.assertIn("is done twice", said.err)
        for path in (second, first):
            self.run_part(path)
        self.nightshift("merge", "--finish", self.catalog, "parts", status=0)
        self.assertEqual([], self.sql("SELECT * FROM setting WHERE name = 'split_out'"))
        self.alike()

    def test_parts_that_are_lost(self):
        self.options = TEXT
        shutil.copy(os.path.join(night.DEMO, "english/farmer.wav"), self.archive)
        self.enqueue(*self.options, self.archive)
        self.split(1, "--shard=30s", status=0)
        self.nightshift("merge", "--finish", self.catalog, status=0)
        self.nightshift("split", "--shard=60s", "--into=1", "--output=other", status=0)

    def test_a_catalog_whose_path_is_no_utf8(self):
        shutil.copy(os.path.join(night.DEMO, "english/farmer.wav"), self.archive)
        self.catalog = os.path.join(self.dir, os.fsdecode(b"caf\xe9.db"))
        self.enqueue(*TEXT, self.archive)
        self.split(1, status=0)
        with open(os.path.join(self.dir, "parts/part-0000.json"), encoding="utf-8") as f:
            text = f.read()
        self.assertTrue(json.loads(text)["catalog"].endswith(r"/caf\xE9.db"))
        self.assertTrue(text.endswith("}\n"), text)  # for those who read it line by line
        said = self.nightshift("slurm", "submit", "--dry-run", "--output=more", status=night.USAGE)
        self.assertIn(r"caf\xE9.db', is not UTF-8", said.err)
        self.assertFalse(os.path.exists(os.path.join(self.dir, "more")))

    def test_no_more_parts_than_an_array_has_tasks(self):
        self.demo()
        self.enqueue(*TEXT, self.archive)
        folder = os.path.join(self.dir, "bin")
        os.mkdir(folder)
        with open(os.path.join(folder, "scontrol"), "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n[ \"$*\" = 'show config' ] && echo 'MaxArraySize            = 2'\n")
        os.chmod(f.name, 0o755)
        env = {"PATH": folder + ":" + os.environ["PATH"]}
        said = self.nightshift("slurm", "submit", "--dry-run", "--into=3", "--output=parts", env=env, status=night.DATA)
        self.assertIn("an array has at most 2 tasks here (MaxArraySize): that would be 3 parts, of at most 2: "
                      "--hours-per-part=1 makes as few", said.err)
        self.nightshift("slurm", "submit", "--dry-run", "--into=2", "--output=parts", env=env, status=0)
        self.assertEqual(2, len(self.parts()))

    # -- who is stopped, and killed

    def test_the_early_signal(self):
        self.options = TEXT
        self.long(600)
        self.enqueue(*self.options, self.archive)
        self.split(1, "--shard=30s", status=0)
        path, = self.parts()
        env = {"SLURM_ARRAY_JOB_ID": 7, "SLURM_ARRAY_TASK_ID": 0, "TMPDIR": self.dir}
        run = self.start_run("--part", path, "--slots=1", "--threads=1", env=env)
        self.wait_for("a result", self.shards_in_work, run)
        run.process.send_signal(signal.SIGUSR1)
        self.assertEqual(night.TEMPFAIL, run.wait())
        done = self.ask(path, SHARDS)[0][0]
        self.assertGreater(done, 0)
        self.assertEqual(
            [("part-end", "interrupted"), ("part-try", "0 shards done before, job 7_0, on " + os.uname().nodename)],
            self.ask(path, "SELECT kind, text FROM event WHERE kind LIKE 'part-%' ORDER BY 1"))
        # What was done is taken up; what is left of a try that was killed is what it wrote back.
        run = self.start_run("--part", path, "--slots=1", "--threads=1", "--write-back=1s", env=env)
        self.wait_for("a write-back", lambda: self.ask(path, SHARDS)[0][0] > done, run)
        run.process.kill()
        run.wait()
        with open(f"{path}.writing-away-1", "w", encoding="utf-8"):  # of one that died
            pass
        self.run_part(path, env={"SLURM_RESTART_COUNT": 2, **env})
        self.assertEqual([], [f for f in os.listdir(os.path.dirname(path)) if "writing" in f])
        self.nightshift("merge", self.catalog, path, status=0)
        self.alike()

    def test_a_signal_before_the_run_and_a_command_behind_it(self):
        """It waits, blocked as the hand-over has it, and the run's loop takes it: nothing is lost."""
        self.options = TEXT
        shutil.copy(os.path.join(night.DEMO, "english/farmer.wav"), self.archive)
        self.enqueue(*self.options, self.archive)
        self.split(1, "--shard=30s", status=0)
        path, = self.parts()

        def early():
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
            os.kill(os.getpid(), signal.SIGUSR1)
        said = self.run_part(path, status=night.TEMPFAIL, preexec=early)
        self.assertEqual(0, self.ask(path, SHARDS)[0][0], said)
        # The next one does it all; who is to be told hears of it when all is written back.
        self.run_part(path, "--on-finish", 'printf "%s|%s" "$NIGHTSHIFT_WHY" "$NIGHTSHIFT_REASON" > told; '
                      f"cp '{path}' seen.db")
        with open(os.path.join(self.dir, "told"), encoding="utf-8") as f:
            self.assertEqual("done|", f.read())
        done = self.ask(path, SHARDS)
        self.assertGreater(done[0][0], 0)
        self.assertEqual(done, self.ask(os.path.join(self.dir, "seen.db"), SHARDS))

    def test_a_part_that_cannot_be_read(self):
        self.done()
        first = self.parts()[0]
        os.unlink(first)
        os.mkdir(first)
        said = self.nightshift("merge", self.catalog, "parts", status=night.DATA)
        self.assertIn("part-0000.db", said.err)
        self.assertGreater(self.sql(SHARDS)[0][0], 0)
        os.rmdir(first)
        os.symlink(os.path.join(self.dir, "away"), first)
        said = self.nightshift("merge", self.catalog, "parts", status=night.DATA)
        self.assertIn("part-0000.db", said.err)

    def test_a_write_back_that_failed_is_told(self):
        self.options = TEXT
        self.long(600)
        self.enqueue(*self.options, self.archive)
        self.split(1, "--shard=30s", status=0)
        path, = self.parts()
        run = self.start_run("--part", path, "--slots=1", "--threads=1", "--write-back=1s", "--on-finish",
                             'printf "%s|%s" "$NIGHTSHIFT_WHY" "$NIGHTSHIFT_REASON" > told',
                             env={"TMPDIR": self.dir})
        self.wait_for("a result", self.shards_in_work, run)
        os.rename(os.path.dirname(path), os.path.join(self.dir, "gone"))
        run.process.send_signal(signal.SIGUSR1)
        self.assertNotIn(run.wait(), (0, night.TEMPFAIL))
        with open(os.path.join(self.dir, "told"), encoding="utf-8") as f:
            self.assertTrue(f.read().startswith("failed|writing back to "))

    def test_merge_is_killed(self):
        self.done()
        chance = random.Random(17)
        for _ in range(6):
            with subprocess.Popen([night.PROGRAM, "merge", self.catalog, "parts"], env=self.env(),
                                  cwd=self.dir, stdout=subprocess.DEVNULL) as merge:
                try:
                    merge.wait(chance.uniform(0, 0.15))
                except subprocess.TimeoutExpired:
                    merge.kill()
            # Each part is there as a whole, or not at all.
            self.assertIn(self.sql("SELECT count(*) FROM media WHERE decoded_at IS NOT NULL")[0][0],
                          self.sums())
        self.nightshift("merge", self.catalog, "parts", status=0)
        self.alike()

    def sums(self):
        each = [self.ask(p, "SELECT count(*) FROM media WHERE decoded_at IS NOT NULL")[0][0]
                for p in self.parts()]
        return {sum(each[:i]) for i in range(len(each) + 1)}

    # -- what is refused

    def refused(self, path, sentence):
        before = self.rows()
        said = self.nightshift("merge", self.catalog, path, status=night.DATA)
        self.assertIn(sentence, said.err)
        self.assertEqual(1, said.err.count(f"'{path}'"), said.err)
        self.assertEqual(before, self.rows())

    def test_strangers(self):
        self.done()
        said = self.nightshift("split", "--output=parts", status=night.USAGE)
        self.assertIn("--into=N", said.err)
        said = self.split(1, status=night.USAGE)
        self.assertIn("has parts already", said.err)
        mine = shutil.copy(self.catalog, os.path.join(self.dir, "no part.db"))
        said = self.one_sentence(self.nightshift("run", "--part", mine, status=night.DATA), "is a catalog, but no part of one")
        self.assertIn(f"the copy of '{mine}'", said)
        # The one whose speakers are told apart.
        path, = [p for p in self.parts() if self.ask(p, "SELECT 1 FROM turn")][:1]
        self.refused(shutil.copy(self.catalog, os.path.join(self.dir, "copy.db")),
                     "is a catalog, but no part of one")
        for change, sentence in (
                ("UPDATE setting SET value = hex(randomblob(16)) WHERE name = 'part_of'",
                 "makes no sense"),
                ("UPDATE setting SET value = lower(hex(zeroblob(16))) WHERE name = 'part_of'",
                 "is a part of another catalog than"),
                ("UPDATE setting SET value = '4000000000' WHERE name = 'part'", "makes no sense"),
                ("UPDATE setting SET value = '60000' WHERE name = 'shard_ms'", "its results do not fit"),
                ("PRAGMA user_version = 9999", "written by a newer nightshift"),
                ("PRAGMA user_version = 9", "written by a development version of nightshift"),
                ("UPDATE shard SET result = x'01ff' WHERE result IS NOT NULL", "is impossible"),
                ("PRAGMA ignore_check_constraints = 1; UPDATE speaker SET speech_ms = -1",
                 "is impossible"),
                ("PRAGMA ignore_check_constraints = 1; UPDATE shard SET seq = -5 WHERE seq = 0",
                 "a shard of number -5"),
                ("UPDATE turn SET end_ms = end_ms, speaker_id = 99999", "is impossible")):
            with self.subTest(change):
                bad = shutil.copy(path, os.path.join(self.dir, "bad.db"))
                with sqlite3.connect(bad) as connection:
                    connection.executescript("PRAGMA foreign_keys = 0; " + change)
                connection.close()
                self.refused(bad, sentence)
        with open(os.path.join(self.dir, "bad.db"), "r+b") as f:
            f.truncate(50000)
        self.nightshift("merge", self.catalog, "bad.db", status=night.DATA)
        self.nightshift("run", "--part", self.catalog, status=night.DATA)
        self.nightshift("merge", self.catalog, "parts", status=0)
        self.nightshift("split", "--into=2", "--output=more", status=night.NOINPUT)


if __name__ == "__main__":
    unittest.main(verbosity=2)
