#!/usr/bin/env python3
"""One folder on two evenings with other options: each recording is found, shown and counted once."""
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
import night

RECORDINGS = ["01_en_short.wav", "04_es_clean.flac", "03_en_noisy.ogg"]


class Evenings(night.Night):
    """A folder transcribed by whisper-nano, then with another threshold."""

    def setUp(self):
        super().setUp()
        for name in RECORDINGS:
            self.bring(name)
        self.enqueue("--vad=off", self.archive)
        self.run_all()

    def run_all(self):
        return self.run_to_end("--threads=2", "--shard=30s")

    def second_evening(self):
        self.enqueue("--vad=off", "--no-speech-threshold=0.55", "--again", self.archive)
        self.run_all()

    def stages(self):
        return self.sql("SELECT DISTINCT stage_id FROM tasks WHERE current ORDER BY 1")

    def figures(self):
        """All that counts or lists what was said."""
        rows = self.sql("SELECT path, start_ms, text FROM transcript ORDER BY 1, 2")
        word = max(re.findall(r"[a-z]{4,}", " ".join(row[2] for row in rows).lower()), key=len)
        status = self.json("status")
        self.nightshift("export", "--output", "out", "--format", "txt", status=0)
        return {"rows": rows,
                "found": [(hit["path"], hit["start_ms"]) for hit in
                          self.json("search", word)],
                "segments": self.sql("SELECT sum(segments) FROM recordings"),
                "total": status["segments"],
                "done": sum(stage["done"] for stage in status["stages"]),
                "audio": sum(stage["audio_done_ms"] for stage in status["stages"]),
                "exported": sorted(os.listdir(os.path.join(self.dir, "out"))),
                "fts": self.sql("SELECT count(*) FROM segment_fts WHERE segment_fts MATCH ?", word)}


class TwoEvenings(Evenings):
    """What people see of it."""

    def test_each_is_there_once(self):
        before = self.figures()
        self.assertGreater(len(before["rows"]), 3)
        self.assertGreater(len(before["found"]), 0)
        self.assertEqual(len(RECORDINGS), before["done"])
        self.enqueue("--vad=off", "--no-speech-threshold=0.55", "--again", self.archive)
        was = dict(before, done=0, audio=0)
        self.assertEqual(was, self.figures(), "the old ones are there until the new ones are done")
        self.run_all()
        after = self.figures()
        self.assertEqual([(2,)], self.stages())
        self.assertEqual(before, after)  # the other threshold changes nothing here
        self.assertEqual([(2 * len(after["rows"]),)], self.sql("SELECT count(*) FROM transcript_all"))
        said = self.nightshift("show", RECORDINGS[0], status=0).out
        self.assertRegex(said, r"\n  2  transcribe with whisper-nano \(.*\): done, current\n"
                               r"  1  transcribe with whisper-nano.*: superseded\n")
        self.assertIn(": 3 superseded (stage 1)", self.nightshift("status", status=0).out)
        self.healthy()

    def test_a_long_list_of_options_fits_a_terminal(self):
        self.enqueue("--vad=off", "--no-speech-threshold=0.55", "--logprob-threshold=-0.9",
                     "--compression-ratio-threshold=2.3", "--again", self.archive)
        said = self.nightshift("show", RECORDINGS[0], status=0).out
        self.assertRegex(said, r"\n  2  transcribe with whisper-nano \(")
        self.assertLessEqual(max(map(len, said.splitlines())), 80, said)

    def test_pinned_and_asked_for_again(self):
        self.second_evening()
        path = os.path.join(self.archive, RECORDINGS[0])
        self.assertEqual(1, self.json("pin", "1", path)["affected"])
        self.assertEqual([(1,), (2,)], self.stages())
        self.assertRegex(self.nightshift("show", RECORDINGS[0], status=0).out,
                         r"\n  1  transcribe .*: done, current, pinned\n")
        self.assertIn(": 1 current still, 2 superseded (stage 1)",
                      " ".join(self.nightshift("status", status=0).out.split()))
        self.assertIn("No recording is pinned there",
                      self.nightshift("pin", "--off", os.path.join(self.archive, RECORDINGS[1]), status=0).out)
        self.assertEqual(1, self.json("pin", "--off")["affected"])
        self.assertEqual([(2,)], self.stages())
        self.enqueue("--vad=off", "--again", self.archive)
        self.assertEqual([(1,)], self.stages())
        self.assertEqual(0, self.json("retry")["affected"])
        none = self.nightshift("pin", "7")
        self.one_sentence(none, "there is no stage 7")
        self.assertEqual("", none.out)
        self.one_sentence(self.nightshift("pin"), "name a stage")
        self.one_sentence(self.nightshift("pin", "1", os.path.join(self.dir, "gone")), "no recording")

    def test_pinned_before_it_is_done(self):
        self.enqueue("--vad=off", "--no-speech-threshold=0.55", "--again", self.archive)
        self.assertEqual("3 results pinned. Those not done yet become current when they are.\n",
                         self.nightshift("pin", "2", status=0).out)
        self.assertIn(": 3 current still (stage 1)\n", self.nightshift("status", status=0).out)
        self.nightshift("pin", "--off", status=0)
        self.nightshift("cancel", status=0)
        self.assertEqual(0, self.json("pin", "2")["affected"])
        said = self.nightshift("forget", "--stage=2", "--yes", status=0).out
        self.assertRegex(" ".join(said.split()), r"stage 2: 0 recordings with results, 3 without, about \S+ B "
                         r"0 results removed, and unfinished work of 3 more\. The")
        for line in said.splitlines():
            self.assertLessEqual(len(line), 80)

    def test_only_results_forgotten(self):
        word = self.figures()["found"] and self.sql("SELECT text FROM transcript")[0][0].split()[0]
        path = os.path.join(self.archive, RECORDINGS[0])
        self.assertEqual(1, self.json("forget", "--stage=1", "--yes", path)["affected"])
        lines = self.nightshift("show", RECORDINGS[0], status=0).out.splitlines()
        self.assertEqual([], [line for line in lines if len(line) > 80 and "/" not in line])
        said = " ".join(" ".join(lines).split())
        self.assertIn("wav, nothing enqueued ", said)
        self.assertIn("Its transcript was deleted, or not enqueued. `nightshift enqueue` of it", said)
        self.assertIn("was deleted, or not enqueued", self.nightshift("show", RECORDINGS[0], "--json", status=0).err)
        said = " ".join(self.nightshift("search", "zebra", status=0).out.split())
        self.assertIn("1 recording is not transcribed where that was asked for: `nightshift enqueue`", said)
        self.assertNotIn("never asked", said)
        self.nightshift("forget", "--stage=1", "--yes", status=0)
        self.assertIn("what was transcribed was removed", self.nightshift("search", word, status=66).err)
        self.assertEqual(3, self.json("enqueue", self.archive)["tasks"])
        self.run_all()
        self.assertEqual("done", self.json("show", RECORDINGS[0])["state"])

    def test_forgotten(self):
        self.second_evening()
        rows = self.figures()["rows"]
        said = self.nightshift("forget", "--superseded", "--dry-run", status=0).out
        self.assertRegex(said, r"transcribe with whisper-nano.*, stage 1: 3 recordings, \d+ segments, about \d")
        self.one_sentence(self.nightshift("forget", "--superseded"), "--yes")
        self.one_sentence(self.nightshift("forget"), "give --superseded or --stage N")
        self.assertEqual([(2 * len(rows),)], self.sql("SELECT count(*) FROM transcript_all"))
        deep = self.bring(RECORDINGS[0], "deep/new.wav")
        self.enqueue("--vad=off", "--no-speech-threshold=0.55", "--again", self.archive)
        gone = self.json("forget", "--superseded", "--yes")
        self.assertEqual((True, 3), (gone["removed"], gone["affected"]))
        self.assertEqual(1, len(gone["stages"]))
        self.assertEqual([(len(rows),)], self.sql("SELECT count(*) FROM transcript_all"))
        self.assertIn("There are no outdated results", self.nightshift("forget", "--superseded", status=0).out)
        self.assertNotIn("stage 1)", self.nightshift("status", status=0).out)
        # What is gone is made again when it is asked for.
        self.enqueue("--vad=off", "--again", self.archive)
        self.run_all()
        self.assertEqual([(1,)], self.stages())
        self.assertEqual(3, self.json("forget", "--stage=1", "--yes")["affected"])
        self.assertEqual([(2,)], self.stages())
        self.assertEqual(rows, self.figures()["rows"])
        self.assertTrue(os.path.exists(deep))
        self.healthy()

    def test_while_a_run_is_on(self):
        """The run takes the requests, and what it works on is not taken from it."""
        self.second_evening()
        os.rename(os.path.join(self.archive, RECORDINGS[0]), os.path.join(self.dir, "away"))
        run = self.start_run("--watch", "--threads=2")
        self.wait_for("the run", lambda: os.path.exists(self.catalog + ".sock"), run)
        self.assertEqual(3, self.json("pin", "1")["affected"])
        self.assertEqual([(1,)], self.stages())
        self.assertEqual(3, self.json("forget", "--stage=2", "--yes")["affected"])
        self.assertEqual(0, self.sql("SELECT count(*) FROM tasks WHERE stage_id = 2")[0][0])
        self.assertIsNone(run.process.poll())
        run.signal()
        self.assertEqual(0, run.wait(), run.said())
        self.healthy()


class OnATerminal(Evenings):
    """Somebody is asked first."""

    def test_is_asked(self):
        self.second_evening()
        for answer, left in (("n", 2), ("", 2), ("y", 1)):
            main, other = os.openpty()
            process = subprocess.Popen([night.PROGRAM, "forget", "--superseded"], env=self.env(),
                                       stdin=other, stdout=other, stderr=other, cwd=self.dir)
            os.close(other)
            os.write(main, answer.encode() + b"\n")
            said = b""
            try:
                while piece := os.read(main, 4096):
                    said += piece
            except OSError:  # its last holder is gone
                pass
            self.assertEqual(0, process.wait(), said)
            os.close(main)
            self.assertIn(b"Delete this for good? [y/N]", said)
            self.assertEqual(left, len(self.sql("SELECT DISTINCT stage_id FROM transcript_all JOIN task "
                                                "USING (task_id)")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
