#!/usr/bin/env python3
"""Two commands on one catalog while a run is on, and runs that are asked to stop."""
import os
import signal
import wave

import media_kit
import night


class WhileARunIsOn(night.Night):
    """The run is long enough to be met: forty recordings of 50 s, all different. With --watch it
    waits for more when it is through, so that no test depends on being quick."""

    COUNT = 40

    def setUp(self):
        super().setUp()
        frames = media_kit.wav_frames(os.path.join(night.SAMPLES, "01_en_short.wav"))
        for i in range(self.COUNT):
            # Other content for each: more and more silence in front.
            media_kit.wav(os.path.join(self.archive, f"tape-{i:02}.wav"),
                          bytes(2 * 160 * i) + frames * 8)
        self.enqueue()

    def done(self):
        return self.sql("SELECT count(*) FROM task WHERE state = 'done'")[0][0]

    def begin(self, *options):
        run = self.start_run(*options)
        self.wait_for("the run listens", lambda: os.path.exists(self.catalog + ".sock")
                      and self.sql("SELECT 1 FROM event WHERE kind = 'run-start'"), run)
        return run

    def test_the_second_run_says_who_holds_it(self):
        run = self.begin("--watch")
        said = self.one_sentence(self.nightshift("run"), str(run.process.pid), "hold|another|run")
        print(f"    {said}")
        self.assertIsNone(run.process.poll(), run.said())
        run.signal(signal.SIGTERM)
        self.assertEqual(0, run.wait(), run.said())

    def test_enqueue_meanwhile(self):
        run = self.begin("--watch")
        late = os.path.join(self.dir, "late")
        os.mkdir(late)
        self.archive, before = late, self.archive
        self.bring("04_es_clean.flac", "late.flac")
        answer = self.enqueue()
        self.archive = before
        print("    " + (answer.out + answer.err).strip().replace("\n", "\n    "))
        self.wait_for("the late one and all the others are done",
                      lambda: self.done() == self.COUNT + 1, run)
        run.signal()
        self.assertEqual(0, run.wait(), run.said())
        self.assertIn("tres mil cero", self.text_of("/late.flac"))
        self.healthy()

    def test_cancel_meanwhile(self):
        run = self.begin()
        answer = self.nightshift("cancel", os.path.join(self.archive, "tape-39.wav"), status=0)
        print("    " + (answer.out + answer.err).strip())
        self.assertEqual(0, run.wait(), run.said())
        states = dict(self.sql("SELECT state, count(*) FROM task GROUP BY 1"))
        self.assertEqual({"done": self.COUNT - 1, "cancelled": 1}, states)
        self.nightshift("retry", os.path.join(self.archive, "tape-39.wav"), status=0)
        self.run_to_end()
        self.assertEqual(self.COUNT, self.done())

    def test_pause_and_resume_meanwhile(self):
        run = self.begin("--watch")
        self.nightshift("pause", status=0)
        out = self.nightshift("status", status=0).out
        self.assertIn("pause", out.lower())
        # What was leased may end; then nothing more does.
        held = self.wait_for("nothing is leased", lambda: self.settled(run), run)
        self.assertLess(held[0], self.COUNT, "nothing was left to be paused")
        self.assertEqual(held[0], self.done())
        self.nightshift("resume", status=0)
        self.wait_for("all are done", lambda: self.done() == self.COUNT, run)
        run.signal()
        self.assertEqual(0, run.wait(), run.said())

    def settled(self, run):
        """(number done,) once it did not change while no decoder lives."""
        if run.descendants("decoder"):
            return None
        before = self.done()
        self.nightshift("status", status=0)
        return (before,) if self.done() == before and not run.descendants("decoder") else None

    def test_status_meanwhile(self):
        run = self.begin("--watch")
        for command in (["status"], ["status", "--json"], ["search", "farmer"]):
            answer = self.nightshift(*command)
            self.assertIn(answer.status, (0, 1), f"\n{answer}")
        self.assertTrue(self.shell("SELECT recordings FROM progress"))
        run.signal()
        self.assertEqual(0, run.wait(), run.said())

    def interrupted(self, number):
        run = self.begin()
        self.wait_for("something is done", lambda: self.done() > 0, run)
        run.signal(number)
        self.assertEqual(night.TEMPFAIL, run.wait(), run.said())
        print("    " + run.said().strip().splitlines()[-1])
        self.assertLess(self.done(), self.COUNT, "nothing was left: the run is too short for this test")
        self.assertFalse(os.path.exists(self.catalog + ".sock"), "the socket was left behind")
        self.healthy()
        self.assertEqual(0, self.sql("SELECT count(*) FROM failures")[0][0])
        before = self.sql("SELECT task_id, seq, done_at FROM shard")
        self.run_to_end()
        self.assertEqual(self.COUNT, self.done())
        now = self.sql("SELECT task_id, seq, done_at FROM shard")
        self.assertEqual(set(before), set(before) & set(now), "a finished shard was made anew")

    def test_ctrl_c(self):
        self.interrupted(signal.SIGINT)

    def test_sigterm(self):
        self.interrupted(signal.SIGTERM)

    def test_ctrl_c_twice(self):
        run = self.begin()
        self.wait_for("something is done", lambda: self.done() > 0, run)
        run.signal()
        run.signal()
        run.wait()
        self.assertEqual([], run.descendants())
        self.healthy()
        self.run_to_end()
        self.assertEqual(self.COUNT, self.done())

    def test_two_workers(self):
        """Two host workers give what one gives."""
        self.run_to_end("--devices", "cpu,cpu")
        two = self.sql("SELECT * FROM results")
        os.remove(self.catalog)
        for extra in ("-wal", "-shm"):
            if os.path.exists(self.catalog + extra):
                os.remove(self.catalog + extra)
        self.enqueue()
        self.run_to_end("--devices", "cpu")
        self.assertEqual(self.sql("SELECT * FROM results"), two)


class LongRecording(night.Night):
    """One recording of many shards: cut where nobody speaks, by however many workers."""

    def test_shards_join_without_gap_or_doubling(self):
        frames = media_kit.wav_frames(os.path.join(night.SAMPLES, "01_en_short.wav"))
        path = os.path.join(self.archive, "long.wav")
        media_kit.wav(path, (frames + bytes(2 * 16000 * 2)) * 45)  # six minutes of the same
        with wave.open(path) as file:
            length_ms = file.getnframes() * 1000 // file.getframerate()
        answers = {}
        for devices in ("cpu", "cpu,cpu"):
            self.catalog = os.path.join(self.dir, devices.replace(",", "-") + ".db")
            self.enqueue()
            self.run_to_end("--devices", devices, "--shard", "60s")
            answers[devices] = self.sql("SELECT * FROM results")
            shards = self.sql("SELECT seq, start_ms, end_ms FROM shard ORDER BY seq")
            self.assertGreaterEqual(len(shards), 5)
            self.assertEqual([0] + [row[2] for row in shards[:-1]], [row[1] for row in shards])
            self.assertEqual(length_ms, shards[-1][2])
            heard = [row[0] for row in self.sql(
                "SELECT start_ms FROM transcript WHERE text LIKE 'farmer from%' ORDER BY 1")]
            self.assertGreaterEqual(len(heard), 40, "a sentence was lost at a cut")
            self.assertLessEqual(len(heard), 45, "a sentence is there twice")
        self.assertEqual(answers["cpu"], answers["cpu,cpu"])


if __name__ == "__main__":
    night.main()
