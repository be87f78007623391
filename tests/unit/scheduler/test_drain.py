#!/usr/bin/env python3
"""A real worker within one long recording is asked to stop: its finished shards stay, the next run
does the rest, though its decoder is killed, and the rows are those of a run that nobody disturbed.
"""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.environ["NIGHTSHIFT_SOURCE_DIR"], "tests/e2e"))
import media_kit  # noqa: E402
import night  # noqa: E402


class Drain(night.Night):
    OPTIONS = ["--shard", "30s", "--devices", "cpu", "--slots", "1", "--decoders", "1"]
    SLOWLY = {"NIGHTSHIFT_FAULT": "slow-step:5"}  # else little is left before anybody looks
    COLUMNS = "path, seq, shard_start_ms, shard_end_ms, idx, start_ms, end_ms, text, avg_logprob"

    def setUp(self):
        super().setUp()
        frames = media_kit.wav_frames(os.path.join(night.SAMPLES, "01_en_short.wav"))
        pause = bytes(2 * 16000 * 3)
        want = 2 * 16000 * 60 * 15
        one = frames + pause
        plain = os.path.join(self.dir, "long.wav")
        media_kit.wav(plain, (one * (want // len(one) + 1))[:want])
        # Of many samples that have to be turned into 16,000 a second: a decoder is seen at work.
        media_kit.ffmpeg("-i", plain, "-ar", "96000", "-ac", "2", "-c:a", "flac",
                         os.path.join(self.archive, "long.flac"))

    def results(self):
        return self.sql(f"SELECT {self.COLUMNS} FROM results")

    def shards(self):
        return set(self.sql("SELECT seq, start_ms, end_ms, done_at FROM shard"))

    def stop_one(self, number):
        run = self.start_run(*self.OPTIONS, env=self.SLOWLY)
        before = len(self.shards())
        self.wait_for("a checkpoint", lambda: len(self.shards()) > before, run)
        run.signal(number)
        self.assertEqual(night.TEMPFAIL, run.wait(), run.said())
        self.assertFalse(run.descendants(), "a worker was left behind")

    def decoding(self, run):
        """The decoders that have the recording: another one waits for what comes next."""
        pids = []
        for pid in run.descendants("decoder"):
            try:
                files = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
            except OSError:  # it has ended
                continue
            pids += [pid] if any(name.endswith("long.flac") for name in files) else []
        return pids

    def kill_a_decoder(self):
        run = self.start_run(*self.OPTIONS)
        pids = self.wait_for("a decoder at work", lambda: self.decoding(run), run)
        os.kill(pids[0], signal.SIGKILL)
        self.assertEqual(0, run.wait(), run.said())
        # Not the recording's fault, and not the worker's, who says so.
        self.assertEqual([("done", 0, 1)],
                         self.sql("SELECT state, attempts, suspect FROM task"), run.said())
        self.assertEqual([(0,)],
                         self.sql("SELECT count(*) FROM event WHERE kind = 'worker-died'"))

    def test_the_rest_is_done_by_the_next_run(self):
        self.enqueue()
        kept = set()
        for number in (signal.SIGTERM, signal.SIGINT):
            self.stop_one(number)
            now = self.shards()
            self.assertLess(kept, now, "a finished shard was lost or made anew")
            kept = now
        # One recording, begun and not through: neither failed nor blamed.
        self.assertEqual([("pending", 0, 0)],
                         self.sql("SELECT state, attempts, suspect FROM task"))
        self.assertLess(len(kept), 30)
        self.kill_a_decoder()
        self.assertLess(kept, self.shards())
        interrupted = self.results()
        self.assertEqual(30, self.sql("SELECT count(*) FROM shard")[0][0])
        self.catalog = os.path.join(self.dir, "undisturbed.db")
        self.enqueue()
        self.run_to_end(*self.OPTIONS)
        self.assertEqual(self.results(), interrupted)


if __name__ == "__main__":
    night.main()
