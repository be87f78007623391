#!/usr/bin/env python3
"""Several stages, and one decoding pass of each recording for all of them: the rows are those of one
stage after the other, bit for bit, also after kill -9 at any moment."""
import os
import re
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
import night
import test_stages

STAGES = ("--diarize=diarization-nano", "--sounds", "--vad=off")


class Tracks(test_stages.Stages):
    """Of the recordings one has two shards."""

    def setUp(self):
        super().setUp()
        os.remove(os.path.join(self.archive, "04_es_clean.flac"))

    def passes(self, answer):
        """Each lease of the stage whose turn it is decodes; those that listen do not."""
        return self.leases(answer)

    def listened(self, answer, stage):
        return len(re.findall(rf"\b{stage} listens to lease \d+", answer.err))

    def heard_once(self, answer):
        """An hour is an hour, however many stages heard it."""
        seconds = round(self.sql("SELECT sum(duration_ms) FROM media")[0][0] / 1000)
        length = f"{seconds // 60} min {seconds % 60:02d} s" if seconds >= 60 else f"{seconds} s"
        [said] = re.findall(rf"\n({length} of audio in .* x real time)\.\n", answer.out)
        self.assertIn(f" {said} ", " ".join(self.nightshift("report", status=0).out.split()))

    def archive_at_once(self):
        self.enqueue(*STAGES, self.archive)
        return self.run_all("--verbose", "--shard=30s")

    quiet = None

    def in_a_quiet_night(self):
        """The rows of one stage after the other, which is tried once for all tests; there is no catalog."""
        if Tracks.quiet:
            return Tracks.quiet
        self.enqueue(*STAGES, self.archive)
        answer = self.run_all("--verbose", "--shard=30s", "--stage-by-stage")
        self.assertEqual(6, self.passes(answer))
        self.heard_once(answer)
        self.assertEqual(0, self.listened(answer, "diarize"))
        self.assertNotIn("listen to what is decoded", answer.err)
        rows = self.rows()
        self.assertTrue(all(rows))
        self.assertEqual([("diarize", "done", 2), ("sounds", "done", 2), ("transcribe", "done", 2)],
                         self.sql(test_stages.TASKS))
        os.remove(self.catalog)
        Tracks.quiet = rows
        return rows


class Together(Tracks):
    def test_each_recording_is_decoded_once(self):
        want = self.in_a_quiet_night()
        answer = self.archive_at_once()
        self.assertIn("diarize, sounds listen to what is decoded for transcribe", answer.err)
        self.assertEqual(2, self.passes(answer))
        self.assertEqual(2, self.listened(answer, "diarize"))
        self.assertEqual(2, self.listened(answer, "sounds"))
        self.assertIn("2 recordings done, 0 failed, 0 left.", answer.out)
        self.heard_once(answer)
        self.assertEqual([(2, 2, 0)], self.sql("SELECT recordings, done, failed FROM archive"))
        self.assertEqual(want, self.rows())
        self.assertEqual([("diarize", "done", 2), ("sounds", "done", 2), ("transcribe", "done", 2)],
                         self.sql(test_stages.TASKS))
        self.healthy()
        again = self.run_all("--verbose", "--shard=30s")
        self.assertEqual(0, self.passes(again))
        self.assertIn("Nothing was waiting", again.out)

    def test_what_was_transcribed_before_is_decoded_once_more_for_the_others(self):
        want = self.in_a_quiet_night()
        self.enqueue("--vad=off", "--word-timestamps", self.archive)
        self.assertEqual(2, self.passes(self.run_all("--verbose", "--shard=30s")))
        answer = self.archive_at_once()
        self.assertEqual(2, self.passes(answer))
        self.assertEqual((2, 0), (self.listened(answer, "sounds"), self.listened(answer, "diarize")))
        self.assertEqual(want, self.rows())

    def test_two_workers_share_a_recording_and_all_its_stages(self):
        want = self.in_a_quiet_night()
        self.enqueue(*STAGES, self.archive)
        self.run_all("--shard=30s", "--devices=cpu,cpu")
        self.assertEqual(want, self.rows())
        self.healthy()

    def test_one_that_cannot_be_loaded_leaves_the_others_together(self):
        self.enqueue(*STAGES, self.archive)
        weights = os.path.join(self.yamnet, "model.safetensors")
        os.rename(weights, weights + ".away")
        answer = self.run_all("--verbose", "--shard=30s", status=night.CONFIG)
        self.assertRegex(answer.err, "sounds listens in its own turn: .*model")
        self.assertEqual(2, self.passes(answer))
        self.assertEqual([("diarize", "done", 2), ("sounds", "pending", 2), ("transcribe", "done", 2)],
                         self.sql(test_stages.TASKS))
        self.assertEqual([(0,)], self.sql("SELECT sum(attempts + suspect) FROM task"))
        os.rename(weights + ".away", weights)
        self.run_all("--shard=30s")
        self.assertEqual([("diarize", "done", 2), ("sounds", "done", 2), ("transcribe", "done", 2)],
                         self.sql(test_stages.TASKS))

    def test_a_broken_recording_is_tried_by_each_stage_and_fails_in_each(self):
        with open(os.path.join(self.archive, "broken.wav"), "wb") as file:
            file.write(b"RIFF\x24\0\0\0WAVEfmt " + bytes(400))
        answer = self.archive_at_once()
        self.assertIn("2 recordings done, 1 failed, 0 left.", answer.out)
        self.assertEqual(["transcribe, diarize, sounds"], [row["stage"] for row in self.json("status")["failures"]])
        self.assertEqual([("diarize", 1), ("sounds", 1), ("transcribe", 1)],
                         self.sql("SELECT s.name, count(*) FROM task JOIN stage s USING (stage_id) "
                                  "WHERE state = 'failed' GROUP BY 1 ORDER BY 1"))


class Interrupted(Tracks):
    def end_when(self, query, number=signal.SIGKILL):
        run = self.start_run("--threads=2", "--shard=30s")
        self.wait_for(query, lambda: self.sql(query)[0][0], run)
        run.signal(number)
        return run.wait()

    def test_killed_at_any_moment(self):
        want = self.in_a_quiet_night()
        self.enqueue(*STAGES, self.archive)
        self.end_when("SELECT count(*) FROM shard")
        self.end_when("SELECT count(*) FROM task WHERE waits = 'settling' OR state = 'done'")
        self.end_when("SELECT count(*) >= 3 FROM task WHERE state = 'done'")
        self.run_all("--shard=30s")
        self.assertEqual(want, self.rows())
        self.assertEqual([(0,)], self.sql("SELECT sum(attempts) FROM task"))
        self.healthy()

    def test_stopped_at_a_checkpoint(self):
        want = self.in_a_quiet_night()
        self.enqueue(*STAGES, self.archive)
        status = self.end_when("SELECT count(*) FROM shard", signal.SIGINT)
        self.assertIn(status, (0, night.TEMPFAIL))
        self.run_all("--shard=30s")
        self.assertEqual(want, self.rows())
        self.assertEqual([(0,)], self.sql("SELECT sum(attempts + suspect) FROM task"))

    def test_a_worker_that_is_killed_costs_nobody_an_attempt(self):
        want = self.in_a_quiet_night()
        self.enqueue(*STAGES, self.archive)
        run = self.start_run("--threads=2", "--shard=30s")
        self.wait_for("a shard", lambda: self.sql("SELECT count(*) FROM shard")[0][0], run)
        for pid in run.descendants("worker"):
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(0, run.wait(), run.said())
        self.assertEqual(want, self.rows())
        self.assertEqual([(0,)], self.sql("SELECT sum(attempts) FROM task"))


if __name__ == "__main__":
    night.main()
