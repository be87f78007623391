#!/usr/bin/env python3
"""Two commands on one catalog while a run is on, and runs that are asked to stop."""
import os
import signal
import time
import wave

import media_kit
import night


class WhileARunIsOn(night.Night):
    """Some recordings, all different, one after the other and one window at a time, so that a
    run has many checkpoints. Where a test must act before the work begins, it pauses the catalog
    first: no test depends on being quick."""

    COUNT = 5
    OPTIONS = ["--shard", "30s", "--slots", "1", "--decoders", "1"]

    def setUp(self):
        super().setUp()
        frames = media_kit.wav_frames(os.path.join(night.SAMPLES, "01_en_short.wav"))
        for i in range(self.COUNT):
            # Other content for each: more and more silence in front.
            media_kit.wav(os.path.join(self.archive, f"tape-{i}.wav"),
                          bytes(2 * 1600 * i) + frames * 2)
        self.enqueue()

    def done(self):
        return self.sql("SELECT count(*) FROM task WHERE state = 'done'")[0][0]

    def begin(self, *options):
        run = self.start_run(*self.OPTIONS, *options)
        self.wait_for("the run listens", lambda: os.path.exists(self.catalog + ".sock"), run)
        return run

    def end(self, run):
        """Asks a run that waits for more to leave: nothing is left, so that is no interruption."""
        run.signal(signal.SIGTERM)
        self.assertEqual(0, run.wait(), run.said())

    def test_the_second_run_says_who_holds_it(self):
        run = self.begin("--watch")
        answer = self.nightshift("run")
        said = self.one_sentence(answer, str(run.process.pid), "hold|another|run")
        self.assertEqual(night.UNAVAILABLE, answer.status)
        print(f"    {said}")
        self.assertIsNone(run.process.poll(), run.said())
        self.wait_for("all are done", lambda: self.done() == self.COUNT, run)
        self.end(run)

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
        self.end(run)
        self.assertIn("tres mil cero", self.text_of("/late.flac"))
        self.healthy()

    def test_cancel_meanwhile(self):
        self.nightshift("pause", status=0)
        run = self.begin("--watch")
        answer = self.nightshift("cancel", os.path.join(self.archive, "tape-4.wav"), status=0)
        print("    " + (answer.out + answer.err).strip())
        self.one_sentence(self.nightshift("cancel", "/nope", status=66), "no recording at or below '/nope'")
        self.nightshift("resume", status=0)
        self.wait_for("the others are done", lambda: self.done() == self.COUNT - 1, run)
        states = dict(self.sql("SELECT state, count(*) FROM task GROUP BY 1"))
        self.assertEqual({"done": self.COUNT - 1, "cancelled": 1}, states)
        self.nightshift("retry", os.path.join(self.archive, "tape-4.wav"), status=0)
        self.wait_for("all are done", lambda: self.done() == self.COUNT, run)
        self.end(run)

    def test_pause_and_resume_meanwhile(self):
        self.nightshift("pause", status=0)
        run = self.begin("--watch")
        self.assertIn("pause", self.nightshift("status", status=0).out.lower())
        self.assertEqual(0, self.done())
        self.nightshift("resume", status=0)
        self.wait_for("something is done", lambda: self.done() > 0, run)
        self.nightshift("pause", status=0)
        # What was leased may end; then nothing more does.
        self.wait_for("nothing is leased", lambda: not run.descendants("decoder"), run)
        self.wait_for("the results of it are in", lambda: self.still(run), run)
        self.nightshift("resume", status=0)
        self.wait_for("all are done", lambda: self.done() == self.COUNT, run)
        self.end(run)

    def still(self, run):
        before = self.done()
        time.sleep(0.5)
        return self.done() == before and not run.descendants("decoder")

    def test_status_meanwhile(self):
        run = self.begin("--watch")
        for command in (["status"], ["status", "--json"], ["search", "farmer"]):
            answer = self.nightshift(*command)
            self.assertIn(answer.status, (0, 1), f"\n{answer}")
        self.assertTrue(self.shell("SELECT recordings FROM progress"))
        run.signal()
        self.assertIn(run.wait(), (0, night.TEMPFAIL), run.said())

    def shards(self):
        return set(self.sql("SELECT task_id, seq, done_at FROM shard"))

    def interrupted(self, number):
        run = self.begin()
        self.wait_for("a checkpoint", self.shards, run)
        run.signal(number)
        status = run.wait()
        left = self.COUNT - self.done()
        print(f"    {left} left; " + run.said().strip().splitlines()[-1])
        self.assertEqual(night.TEMPFAIL if left else 0, status, run.said())
        self.assertFalse(os.path.exists(self.catalog + ".sock"), "the socket was left behind")
        self.healthy()
        self.assertEqual(0, self.sql("SELECT count(*) FROM failures")[0][0])
        before = self.shards()
        self.run_to_end(*self.OPTIONS)
        self.assertEqual(self.COUNT, self.done())
        self.assertLessEqual(before, self.shards(), "a finished shard was made anew")

    def test_ctrl_c(self):
        self.interrupted(signal.SIGINT)

    def test_sigterm(self):
        self.interrupted(signal.SIGTERM)

    def test_ctrl_c_twice(self):
        run = self.begin()
        self.wait_for("a checkpoint", self.shards, run)
        run.signal()
        run.signal()
        run.wait()
        self.wait_for("its processes end", lambda: not run.descendants())
        self.healthy()
        self.run_to_end(*self.OPTIONS)
        self.assertEqual(self.COUNT, self.done())

    def test_two_workers(self):
        """Two host workers give what one gives."""
        self.run_to_end("--shard", "30s", "--devices", "cpu,cpu")
        two = self.sql("SELECT * FROM results")
        os.remove(self.catalog)
        for extra in ("-wal", "-shm"):
            if os.path.exists(self.catalog + extra):
                os.remove(self.catalog + extra)
        self.enqueue()
        self.run_to_end("--shard", "30s", "--devices", "cpu")
        self.assertEqual(self.sql("SELECT * FROM results"), two)


class LongRecording(night.Night):
    """One recording of many shards: cut where nobody speaks, by however many workers."""

    @night.needs("ffmpeg")
    def test_shards_join_without_gap_or_doubling(self):
        once = os.path.join(self.dir, "once.wav")
        media_kit.ffmpeg("-i", os.path.join(night.SAMPLES, "09_long_silences.flac"), once)
        path = os.path.join(self.archive, "long.wav")
        media_kit.wav(path, media_kit.wav_frames(once) * 7, 48000)  # six minutes
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
            cuts = {row[1] for row in shards}
            spoken = self.sql("SELECT start_ms, end_ms, text FROM transcript ORDER BY 1, 2")
            for start, end, text in spoken:
                self.assertFalse([cut for cut in cuts if start < cut < end], f"cut through: {text}")
            for sentence in ("a short history and a green library.", "october table listen."):
                count = sum(sentence == row[2] for row in spoken)
                self.assertEqual(7, count, f"lost or doubled: {sentence}")
        self.assertEqual(answers["cpu"], answers["cpu,cpu"])


if __name__ == "__main__":
    night.main()
