#!/usr/bin/env python3
"""Many evenings over one archive: what was asked for last goes on by itself, only what is new is
done, and the catalog is always that of one evening with the last options."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest
import zipfile

sys.path.insert(0, os.path.dirname(__file__))
import night
import tiny_models

SILERO = os.path.join(night.SHARED, "models/silero-vad")
ENGLISH, SPANISH, OTHER = "01_en_short.wav", "04_es_clean.flac", "08_two_voices_stereo.wav"
# What people see, but for numbers of rows.
VIEWS = {
    "transcript": "path, member, start_ms, end_ms, speaker, text, language, stage, model, avg_logprob, "
                  "no_speech_prob, compression_ratio, temperature, attempts, speech_prob, reason",
    "words": "path, member, start_ms, end_ms, word, speaker, probability, language, idx, model",
    "turns": "path, member, speaker, label, start_ms, end_ms, idx, stage, model",
    "speakers": "path, member, speaker, label, name, speech_ms, turns, segments, stage, model",
    "sounds": "path, member, sound, score, start_ms, end_ms, class_id, stage, model",
    "passages": "path, member, text, start_ms, end_ms, size, vector, stage, model",
    "recordings": "path, member, state, duration_ms, language, segments, places, damage, place_state",
}
TASKS = """SELECT s.name, t.state, count(*) FROM task t JOIN stage s USING (stage_id)
           WHERE t.wanted GROUP BY 1, 2 ORDER BY 1, 2"""


def plain(value):
    """Without numbers of rows and times of day."""
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()
                if not key.endswith("_id") and key not in ("recording", "id", "created_at", "decoded_at", "at")}
    return [plain(v) for v in value] if isinstance(value, list) else value


class Evenings(night.Night):
    def setUp(self):
        super().setUp()
        self.models = os.path.join(self.dir, "models")
        self.encoder = tiny_models.encoder(os.path.join(self.models, "encoder"))
        self.yamnet = tiny_models.yamnet(os.path.join(self.models, "yamnet"))
        self.beside = ["--diarize=diarization-nano", "--sounds", "--embed=" + self.encoder]

    def env(self, **more):
        return super().env(NIGHTSHIFT_MODELS=self.models, **more)

    def night(self, *options):
        """Recordings that were decoded."""
        return len(set(re.findall(r"lease \d+: ([^,]*)", self.run_to_end(
            "--threads=2", "--shard=30s", "--verbose", *options).err)))

    def tasks(self):
        return self.sql("SELECT count(*) FROM task")[0][0]

    def jobs(self, *args):
        return [(job["stage"], job["tasks"]) for job in self.json("enqueue", *args)["jobs"]]

    def refused(self, *args):
        """Nothing was noted. What was said."""
        before = self.tasks(), self.sql("SELECT * FROM recipe"), self.sql("SELECT count(*) FROM job")
        said = self.nightshift("enqueue", *args, status=night.USAGE)
        self.assertEqual(before, (self.tasks(), self.sql("SELECT * FROM recipe"),
                                  self.sql("SELECT count(*) FROM job")))
        self.assertEqual("", said.out)
        return said.err

    def exported(self, to):
        shutil.rmtree(to, ignore_errors=True)
        self.nightshift("export", "--quiet", "-f", "json", "-f", "srt", "-f", "rttm", "-o", to, status=0)
        found = {}
        for folder, _, names in os.walk(to):
            for name in names:
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    text = file.read()
                found[os.path.relpath(os.path.join(folder, name), to)] = (
                    plain(json.loads(text)) if name.endswith(".json") else text)
        return found

    def seen(self):
        """All that people see of the catalog."""
        shown = {view: self.sql(f"SELECT {columns} FROM {view} ORDER BY 1, 2, 3, 4, 5, 6")
                 for view, columns in VIEWS.items()}
        for view in ("archive", "results"):
            shown[view] = self.sql(f"SELECT * FROM {view}")
        shown["export"] = self.exported(os.path.join(self.dir, "out"))
        for words in (["de"], ["--semantic", "the market"], ["--sound", "speech"]):
            shown["search " + " ".join(words)] = sorted(map(str, plain(json.loads(self.nightshift(
                "search", "--json", "--limit=0", *words).out or "[]"))))
        return shown

    def as_of_one_evening(self, *options):
        """The same as in a catalog that was made now, at once."""
        mine, catalog = self.seen(), self.catalog
        self.healthy()
        self.assertEqual([], self.sql("SELECT * FROM task WHERE wanted AND state <> 'done' AND NOT absent"))
        self.catalog = os.path.join(self.dir, "fresh.db")
        for end in ("", "-wal", "-shm", ".lock"):
            if os.path.exists(self.catalog + end):
                os.remove(self.catalog + end)
        self.enqueue(*options, self.archive)
        self.night()
        fresh = self.seen()
        self.catalog = catalog
        for what in fresh:
            with self.subTest(what=what):
                self.assertEqual(fresh[what], mine[what])
        self.assertGreater(len(fresh["passages"]), 0)
        self.assertGreater(len(fresh["sounds"]), 0)


class Seven(Evenings):
    def test_seven_evenings(self):
        first = ["--vad=off", "--diarize-vad=off", *self.beside]
        other = ["--vad=off", "--beam-size=2", "--word-timestamps"]
        # Without --vad=off what is new would be done with voice activity from the second evening on.
        self.bring(ENGLISH, "tapes/1.wav")
        self.bring(SPANISH, "tapes/2.flac")
        self.enqueue(*first, self.archive)
        self.assertEqual(2, self.night())
        self.as_of_one_evening(*first)

        # Second: one more, and models that would have been taken on the first.
        if os.path.isdir(SILERO):
            shutil.copytree(SILERO, os.path.join(self.models, "silero-vad"))
        tiny_models.diarization(os.path.join(self.models, "diarization"))
        self.bring(OTHER, "tapes/3.wav")
        said = self.enqueue(self.archive)
        self.assertIn("As last time: to transcribe with whisper-nano (--vad=off --word-timestamps), to diarize with "
                      "diarization-nano (--diarize-vad=off), ", " ".join(said.out.split()))
        self.assertEqual([("diarize", "done", 2), ("diarize", "pending", 1),
                          ("embed-text", "done", 2), ("embed-text", "pending", 1),
                          ("sounds", "done", 2), ("sounds", "pending", 1),
                          ("transcribe", "done", 2), ("transcribe", "pending", 1)], self.sql(TASKS))
        self.assertEqual(1, self.night())
        self.as_of_one_evening(*first)

        # Third: renamed, copied, in another folder; the cron job repeats itself with its options.
        os.rename(os.path.join(self.archive, "tapes/1.wav"), os.path.join(self.archive, "tapes/0.wav"))
        self.bring(SPANISH, "tapes/copy.flac")
        for _ in range(3):
            self.assertEqual([("transcribe", 0), ("diarize", 0), ("sounds", 0), ("embed-text", 0)],
                             self.jobs(*self.beside, self.archive))
        self.assertEqual(0, self.night())
        self.as_of_one_evening(*first)

        # Fourth: another content, in an archive's member, too. A folder below, and a file.
        self.bring("05_es_video.mp4", "tapes/3.wav")
        self.assertEqual([("transcribe", 1), ("diarize", 1), ("sounds", 1), ("embed-text", 1)],
                         self.jobs(os.path.join(self.archive, "tapes")))
        self.assertEqual(0, sum(n for _, n in self.jobs(os.path.join(self.archive, "tapes/3.wav"))))
        self.assertEqual(1, self.night())
        self.as_of_one_evening(*first)

        # Fifth: other options, which are a slip at first.
        said = self.refused(*other, self.archive)
        self.assertRegex(said, r"beam_size 2 instead of 5\. That is 3 recordings \(\d+ s\) "
                               r"to do again\. .*Use --again")
        self.assertEqual(0, self.night())
        said = " ".join(self.enqueue("--again", *other, self.archive).out.split())
        self.assertIn("beam_size 2 instead of 5", said)
        self.assertEqual([], [row for row in self.sql(TASKS) if row[:2] == ("diarize", "pending")])
        self.assertEqual(3, self.night())
        self.as_of_one_evening(*other, *first[1:])

        # Sixth: nothing is said, and a file is new.
        self.bring("03_en_noisy.ogg", "tapes/4.ogg")
        self.enqueue("--quiet", self.archive)
        self.assertEqual(1, self.night())
        self.as_of_one_evening(*other, *first[1:])

        # Seventh: back again, which costs what came on the sixth alone.
        said = self.refused("--vad=off", self.archive)
        self.assertRegex(said, r"beam_size 5 instead of 2\. That is 1 recording \(25 s\) "
                               r"to do again; 3 more have it already\.")
        self.enqueue("--again", "--vad=off", self.archive)
        self.assertEqual(1, self.night())
        self.as_of_one_evening(*first)
        self.assertEqual(0, sum(n for _, n in self.jobs(self.archive)))
        self.assertEqual(0, self.night())


class Back(Evenings):
    """A file that goes away and comes back is done as was asked for meanwhile."""

    def setUp(self):
        super().setUp()
        self.bring(ENGLISH)
        self.path = self.bring(SPANISH)
        self.away = os.path.join(self.dir, "away")
        self.plain = ["--vad=off", "--model=whisper-nano"]

    def lose(self):
        os.rename(self.path, self.away)

    def find(self, *options):
        """It is back. What the next evening says of it."""
        os.rename(self.away, self.path)
        dry = self.json("enqueue", "--dry-run", *options, self.archive)
        said = " ".join(self.enqueue(*options, self.archive).out.split())
        self.assertEqual((2, 1), (dry["recordings"], dry["back"]))
        self.assertIn("2 recordings found: 2 known, 1 is back.", said)
        return said

    def waits(self):
        """Of the file: stages that are wanted, with times of words, and their states."""
        return self.sql("SELECT s.name, ifnull(s.params ->> 'word_timestamps', 0), t.state FROM task t "
                        "JOIN stage s USING (stage_id) JOIN place p USING (media_id) "
                        "WHERE t.wanted AND p.path = ? ORDER BY 1", self.path)

    def is_done(self):
        self.assertIn("Next: nightshift run", " ".join(self.said.split()))
        self.run_to_end("--threads=2")
        self.assertEqual({"done"}, {state for _, _, state in self.waits()})
        self.assertEqual([(0,)], self.sql("SELECT count(*) FROM task WHERE wanted AND state <> 'done'"))
        self.assertEqual(0, self.json("enqueue", self.archive)["tasks"])
        self.assertIn("Nothing was waiting", self.run_to_end().out)

    def test_as_it_was_asked_for(self):
        self.enqueue(*self.plain, self.archive)
        self.lose()
        self.run_to_end("--threads=2", status=None)
        self.assertEqual([("transcribe", 0, "failed")], self.waits())
        self.said = self.find()
        self.assertIn("1 recording waits again.", self.said)
        self.assertEqual([("transcribe", 0, "pending")], self.waits())
        self.is_done()

    def test_failed_and_asked_for_otherwise(self):
        self.enqueue(*self.plain, self.archive)
        self.lose()
        self.run_to_end("--threads=2", status=None)
        self.enqueue("--again", "--word-timestamps", self.archive)
        self.run_to_end("--threads=2")
        self.said = self.find()
        self.assertEqual([("transcribe", 1, "pending")], self.waits())
        self.is_done()

    def test_gone_before_any_run(self):
        for again in (False, True):
            self.enqueue(*self.plain, self.archive)
            self.lose()
            self.enqueue(self.archive)
            self.enqueue("--word-timestamps", self.archive)
            self.said = self.find(*(["--word-timestamps"] if again else []))
            self.assertIn("1 recording that was waiting or had failed goes by these options instead", self.said)
            self.assertEqual([("transcribe", 1, "pending")], self.waits())
            self.is_done()
            self.catalog = os.path.join(self.dir, "second.db")

    def test_failed_cancelled_and_retried(self):
        self.enqueue(*self.plain, self.archive)
        self.lose()
        self.run_to_end("--threads=2", status=None)
        self.nightshift("cancel", self.path, status=0)
        self.nightshift("retry", self.path, status=0)
        self.enqueue(self.archive)
        self.enqueue("--again", "--diarize=diarization-nano", "--diarize-vad=off", "--word-timestamps", self.archive)
        self.run_to_end("--threads=2")
        self.said = self.find()
        self.assertEqual([("diarize", 0, "pending"), ("transcribe", 1, "pending")], self.waits())
        self.is_done()

    def test_what_is_gone_is_not_to_be_done(self):
        self.enqueue(*self.plain, self.archive)
        self.lose()
        self.enqueue(self.archive)
        self.run_to_end("--threads=2")
        doubts = self.nightshift("doubts", "-l", "en", "--missing", status=0).out
        self.assertIn("1 recording is gone from the disk, and was not transcribed.", " ".join(doubts.split()))
        self.assertNotIn("still to be", doubts)
        out = os.path.join(self.dir, "out")
        said = self.nightshift("export", "-o", out, status=0).out
        self.assertIn("\n1 recording is left out: it is gone from the disk, and not done.\n", said)
        self.assertNotIn("not finished yet", said)
        told = self.json("export", "-o", out)
        self.assertEqual((0, 1, 0), (told["not_done"], told["gone"], told["cancelled"]))

    def test_what_is_cancelled_is_called_so(self):
        self.enqueue(*self.plain, self.archive)
        self.nightshift("cancel", self.path, status=0)
        self.run_to_end("--threads=2")
        out = os.path.join(self.dir, "out")
        said = self.nightshift("export", "-o", out, status=0).out
        self.assertIn("\n1 recording was cancelled and has no transcript (nightshift retry).\n", said)
        self.assertNotIn("not finished yet", said)
        told = self.json("export", "-o", out)
        self.assertEqual((0, 0, 1), (told["not_done"], told["gone"], told["cancelled"]))


class Asked(Evenings):
    """Without a run between: what would be done is what counts."""

    def setUp(self):
        super().setUp()
        self.bring(ENGLISH)
        self.bring(SPANISH, "es/2.flac")

    def wanted(self):
        """Path below the archive, kind, and the parameters that are not those of every stage."""
        return sorted((os.path.relpath(path, self.archive), name, json.loads(params).get("beam_size", 1))
                      for path, name, params in self.sql(
                          "SELECT p.path, s.name, s.params FROM task t JOIN stage s USING (stage_id) "
                          "JOIN media m USING (media_id) JOIN place p ON p.place_id = m.place_id "
                          "WHERE t.wanted AND s.name = 'transcribe'"))

    def done(self):
        self.assertEqual(0, self.run_to_end("--threads=2").status)

    def test_what_is_only_noted_may_be_asked_for_otherwise(self):
        self.enqueue(self.archive)
        self.enqueue("--beam-size=2", self.archive)
        self.assertEqual([("01_en_short.wav", "transcribe", 2), ("es/2.flac", "transcribe", 2)], self.wanted())
        self.assertEqual([2], [n for (n,) in self.sql("SELECT count(*) FROM task WHERE state = 'pending'")])

    def test_what_was_left_out_of_an_archive_comes_later(self):
        """Also when several jobs note its members: none may make it look as known to the end."""
        with zipfile.ZipFile(os.path.join(self.archive, "box.zip"), "w") as box:
            box.write(os.path.join(night.SAMPLES, OTHER), "one.wav")
            box.write(os.path.join(night.SAMPLES, "03_en_noisy.ogg"), "two.ogg")
        self.enqueue("--diarize=diarization-nano", "--sounds", "--include=one*", self.archive)
        self.assertEqual(1, self.json("enqueue", "--include=*.zip", self.archive)["new"])

    def test_folders_below_keep_to_their_own(self):
        self.enqueue(self.archive)
        self.done()
        spanish = os.path.join(self.archive, "es")
        self.assertRegex(self.refused("--beam-size=2", spanish), "That is 1 recording ")
        self.enqueue("--again", "--beam-size=2", spanish)
        self.done()
        self.bring(OTHER, "es/3.wav")
        self.bring("03_en_noisy.ogg")
        both = [("01_en_short.wav", "transcribe", 5), ("03_en_noisy.ogg", "transcribe", 5),
                ("es/2.flac", "transcribe", 2), ("es/3.wav", "transcribe", 2)]
        # Of the folder above nothing is asked for that was not before: nothing goes back.
        answer = self.json("enqueue", self.archive)
        self.assertEqual((4, 2, 2, 2), tuple(answer[key] for key in ("recordings", "new", "unchanged", "tasks")))
        self.assertEqual([1, 1], [job["tasks"] for job in answer["jobs"]])
        self.assertEqual(both, self.wanted())
        self.done()
        for paths in ([self.archive], [spanish, self.archive], [spanish, os.path.join(self.archive, ENGLISH)],
                      [os.path.join(spanish, "3.wav")]):
            self.assertEqual(0, self.json("enqueue", *paths)["tasks"])
            self.assertEqual(both, self.wanted())
        # What has gone from either is seen.
        os.remove(os.path.join(spanish, "3.wav"))
        os.remove(os.path.join(self.archive, "03_en_noisy.ogg"))
        self.assertEqual(2, self.json("enqueue", self.archive)["vanished"])
        # Asked for the folder above, what was asked for below holds no more.
        self.assertRegex(self.refused("--beam-size=3", self.archive),
                         "beam_size 3 instead of 5. That is 1 recording.*beam_size 3 instead of 2. That is 1 rec")
        self.enqueue("--again", "--beam-size=3", self.archive)
        self.assertEqual({3}, {beam for path, _, beam in self.wanted() if "3.wav" not in path and "03" not in path})
        self.assertEqual([(self.archive, '["--model=whisper-nano","--beam-size=3"]')], self.sql("SELECT path, options FROM recipe"))

    def test_what_is_said_of_other_kinds_is_no_word_on_the_transcription(self):
        spanish = os.path.join(self.archive, "es")
        self.enqueue("--beam-size=2", "--embed=" + self.encoder, spanish)
        self.enqueue(os.path.join(self.archive, ENGLISH))
        self.done()
        both = [("01_en_short.wav", "transcribe", 5), ("es/2.flac", "transcribe", 2)]
        # Nothing was ever asked for the folder above; that below goes on with what it has.
        jobs = self.jobs("--sounds", "--embed=" + self.encoder, self.archive)
        self.assertEqual([("embed-text", 1), ("sounds", 1), ("sounds", 1)], sorted(job for job in jobs if job[1]))
        self.assertEqual(both, self.wanted())
        self.done()
        self.bring(OTHER, "es/3.wav")
        self.enqueue(self.archive)
        self.assertEqual([*both, ("es/3.wav", "transcribe", 2)], self.wanted())
        # A transcription that is named is one for both.
        self.assertRegex(self.refused("--sounds", "--beam-size=3", self.archive), "beam_size 3 instead of 2")

    def test_the_same_words_in_another_order_from_another_folder(self):
        self.enqueue("--embed=" + self.encoder, "--beam-size=2", "--language", "en", self.archive)
        self.done()
        for words in (["--language=en", "--embed=" + self.encoder, "--beam-size=2"],
                      ["-l", "en", "--embed=models/encoder", "--beam-size=2"], ["--embed=" + self.encoder],
                      ["--no-transcribe", "--embed=" + self.encoder], ["--beam-size=2", "--language=en"], []):
            self.assertEqual(0, self.json("enqueue", *words, self.archive)["tasks"], words)
        self.assertEqual(0, self.json("enqueue", "--dry-run", "--sounds", self.archive)["tasks"])
        # Another kind is new, and nothing is done again.
        self.assertEqual([("transcribe", 0), ("sounds", 2), ("embed-text", 0)], self.jobs("--sounds", self.archive))
        self.assertEqual({"transcribe", "sounds", "embed-text"}, {stage for stage, _ in self.jobs(self.archive)})

    def test_what_is_refused_as_json_and_in_a_dry_run(self):
        self.enqueue(self.archive)
        self.done()
        answer = self.nightshift("enqueue", "--json", "--beam-size=2", self.archive, status=night.USAGE)
        again = json.loads(answer.out)["again"]
        self.assertEqual([("transcribe", "beam_size 2 instead of 5", 2, 0, 0)],
                         [(item["stage"], item["differs"], item["recordings"], item["unknown_length"], item["have_it"])
                          for item in again])
        self.assertEqual(26106, again[0]["known_ms"])
        said = " ".join(self.enqueue("--dry-run", "--beam-size=2", self.archive).out.split())
        self.assertIn("That is 2 recordings (26 s) to do again. Only --again does that.", said)
        said = " ".join(self.enqueue("--dry-run", "-i", "*.wav", "--beam-size=2", self.archive).out.split())
        self.assertIn("That is up to 2 recordings", said)
        self.assertEqual(2, self.tasks())

    def test_a_model_that_has_changed(self):
        """What was done with it goes on with it alone; --again takes the one that is there."""
        mine = os.path.join(self.models, "mine")
        shutil.copytree(night.MODEL, mine)
        self.enqueue("--vad=off", "--model=mine", self.archive)
        self.done()
        weights = os.path.join(mine, "model.safetensors")
        with open(weights, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)[0]
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last ^ 1]))
        for words in ([], ["--vad=off", "--model=mine"]):
            said = self.enqueue(*words, self.archive, status=night.CONFIG)
            self.one_sentence(said, "holds another model 'mine' than last time", "--again")
        said = " ".join(self.enqueue("--again", self.archive).out.split())
        self.assertIn("the files of the model mine have changed. That is 2 recordings (26 s) to do again.", said)
        self.assertEqual([("transcribe", 0)], self.jobs(self.archive))
        shutil.rmtree(mine)
        said = self.enqueue(self.archive, status=night.CONFIG)
        self.one_sentence(said, "the model 'mine' of last time is missing", "--again")

    def test_what_was_asked_for_alone_goes_on_alone(self):
        self.enqueue(os.path.join(self.archive, ENGLISH))
        self.enqueue("--no-transcribe", "--sounds", "--embed=" + self.encoder, self.archive)
        self.bring(OTHER)
        jobs = self.json("enqueue", self.archive)["jobs"]
        self.assertEqual([("sounds", 1, 0), ("embed-text", 0, 2)],
                         [(job["stage"], job["tasks"], job["not_transcribed"]) for job in jobs
                          if job["tasks"] + job["not_transcribed"] > 0])
        self.assertEqual([("embed-text", "pending", 1), ("sounds", "pending", 3), ("transcribe", "pending", 1)],
                         self.sql(TASKS))

    @unittest.skipUnless(os.path.isdir(SILERO), f"there is no {SILERO}")
    def test_voice_activity_that_comes_and_goes(self):
        self.enqueue(self.archive)
        self.done()
        shutil.copytree(SILERO, os.path.join(self.models, "silero-vad"))
        self.assertRegex(self.refused("--vad=on", self.archive), "voice activity on. That is 2 recordings")
        self.assertEqual([("transcribe", 0)], self.jobs(self.archive))
        self.assertEqual([("transcribe", 2)], self.jobs("--again", self.archive))
        os.rename(os.path.join(self.models, "silero-vad"), os.path.join(self.dir, "gone"))
        self.one_sentence(self.enqueue(self.archive, status=night.CONFIG),
                          "the voice activity model of last time is missing", "--again with --vad=off")

    def test_what_is_moved_keeps_what_it_has(self):
        """Nobody asks for another way of it: not by another folder's, nor by today's options."""
        self.have_a_usual_model()
        self.enqueue("--beam-size=2", self.archive)
        self.done()
        moved = os.path.join(self.dir, "moved")
        shutil.copytree(self.archive, moved)
        self.assertEqual([("transcribe", 0)], self.jobs(moved))
        shutil.rmtree(self.archive)
        self.bring(OTHER, os.path.join(moved, "more.wav"))
        for folder, tasks in ((moved, 1), (self.archive, 0), (moved, 0)):
            os.makedirs(folder, exist_ok=True)
            self.assertEqual([("transcribe", tasks)], self.jobs(folder))
        self.assertEqual([("done", 2), ("pending", 1)], self.sql(
            "SELECT state, count(*) FROM task WHERE wanted GROUP BY 1 ORDER BY 1"))

    def test_while_a_run_is_on(self):
        self.enqueue(self.archive)
        run = self.start_run("--watch", "--threads=2")
        done = "SELECT count(*) FROM task WHERE state = 'done'"
        self.wait_for("both are done", lambda: self.sql(done) == [(2,)], run)
        self.assertTrue(self.json("enqueue", "--again", "--beam-size=2", self.archive)["through_run"])
        self.bring(OTHER)
        self.assertEqual([("transcribe", 1)], self.jobs(self.archive))
        self.wait_for("all are done", lambda: self.sql(done) == [(5,)], run)
        self.assertEqual({2}, {beam for _, _, beam in self.wanted()})
        run.signal(signal.SIGTERM)
        run.wait()

    def test_what_a_run_cannot_do_is_said(self):
        self.enqueue(self.archive)
        self.nightshift("pause", status=0)
        self.assertIn("The catalog is paused: `nightshift resume`, then `nightshift run`.", self.run_to_end().out)
        self.nightshift("resume", status=0)
        self.nightshift("pause", self.archive, status=0)
        self.assertEqual("Nothing was done: 2 recordings are paused. Next: nightshift resume\n", self.run_to_end().out)
        self.nightshift("resume", status=0)
        with open(self.bring(OTHER), "r+b") as file:
            file.truncate(os.path.getsize(file.name) * 2 // 3)
        self.enqueue(self.archive)
        self.assertIn("\n1 of the recordings is damaged: nightshift status --failures\n",
                      self.run_to_end("--threads=2").out)
        self.assertIn("Nothing was waiting.", self.run_to_end().out)

    SUMS = ("recordings", "new", "new_places", "changed", "unchanged", "vanished", "back", "files", "left_alone",
            "unreadable_files")

    def sums(self, *args):
        answer = self.json("enqueue", *args)
        return {key: answer[key] for key in self.SUMS}

    def test_each_recording_is_counted_once(self):
        self.bring("03_en_noisy.ogg", "gone.ogg")
        self.bring("03_en_noisy.ogg", "es/kept.ogg")
        self.bring("05_es_video.mp4", "gone.mp4")
        first = self.sums("--dry-run", self.archive)
        self.assertEqual((5, 4, 1), (first["recordings"], first["new"], first["new_places"]))
        self.assertEqual(first, self.sums(self.archive))
        # Renamed, copied, replaced, new twice over, gone; and one that is gone from one of two places.
        os.rename(os.path.join(self.archive, ENGLISH), os.path.join(self.archive, "renamed.wav"))
        shutil.copyfile(os.path.join(self.archive, "renamed.wav"), os.path.join(self.archive, "es/copy.wav"))
        self.bring("02_en_flite_rms.mp3", "es/2.flac")
        self.bring(OTHER, "new.wav")
        self.bring(OTHER, "es/new.wav")
        for name in ("gone.ogg", "gone.mp4"):
            os.remove(os.path.join(self.archive, name))
        roots = (os.path.join(self.archive, "es"), self.archive)
        dry = self.sums("--dry-run", *roots)
        self.assertEqual({"recordings": 6, "new": 1, "new_places": 3, "changed": 1, "unchanged": 1, "vanished": 1},
                         {key: dry[key] for key in self.SUMS[:6]})
        said = " ".join(self.enqueue("--dry-run", *roots).out.split())
        self.assertIn("6 recordings found: 1 new, 1 changed, 3 known from other places, 1 known. 2 files were read "
                      "completely (9.7 MB), to distinguish copies from similar recordings. 1 recording has vanished", said)
        self.assertEqual(dry, self.sums(*roots))
        self.assertEqual({**dict.fromkeys(self.SUMS, 0), "recordings": 6, "unchanged": 6, "files": 6},
                         self.sums(self.archive))
        # One is back where it was, one elsewhere.
        self.bring("03_en_noisy.ogg", "gone.ogg")
        self.bring("05_es_video.mp4", "found.mp4")
        dry = self.sums("--dry-run", self.archive)
        self.assertEqual((8, 1), (dry["recordings"], dry["back"]))
        self.assertEqual(dry, self.sums(self.archive))
        self.assertEqual(0, self.sums("--dry-run", self.archive)["back"])
        for name in ("gone.ogg", "found.mp4"):
            os.remove(os.path.join(self.archive, name))
        self.enqueue(self.archive)
        # An old name is no recording that has vanished.
        self.assertEqual(1, self.json("status")["vanished"])
        self.assertRegex(self.nightshift("status", status=0).out, "Found +5 recordings, 6 places, 1 vanished")

    def test_going_back_is_said(self):
        self.enqueue(self.archive)
        self.done()
        self.bring(OTHER)
        self.enqueue("--again", "--beam-size=2", self.archive)
        # Nothing was done of that yet: back to the results that are there, and to nothing for the new one.
        self.assertIn("2 recordings have results with these options already; nothing is done again.",
                      " ".join(self.enqueue("--dry-run", "--beam-size=5", self.archive).out.split()))
        said = " ".join(self.enqueue("--beam-size=5", self.archive).out.split())
        self.assertIn("Asked to transcribe with whisper-nano: 2 recordings have results with these options already: "
                      "they are current again. 3 recordings that were waiting or had failed go by these "
                      "options instead. Job 3: 1 to transcribe with whisper-nano.", said)
        said = " ".join(self.enqueue("--again", "--beam-size=2", self.archive).out.split())
        self.assertIn("3 recordings were enqueued with these options before, and wait again. "
                      "1 recording that was waiting or had failed goes by these options instead. "
                      "Next: nightshift run", said)
        self.assertEqual([(3,)], self.sql("SELECT count(*) FROM task WHERE wanted AND state = 'pending'"))
        # What goes on as it was is said with its options.
        said = " ".join(self.enqueue(self.archive).out.split())
        self.assertIn("As last time: to transcribe with whisper-nano (--beam-size=2). To change that, use --again", said)
        self.assertNotIn("Asked", said)
        job = self.json("enqueue", "--beam-size=5", self.archive)["jobs"][0]
        self.assertEqual((2, 1, 3), (job["current_again"], job["waiting_again"], job["not_otherwise"]))

    def test_what_differs_in_one_folder_alone(self):
        beside = os.path.join(self.dir, "beside")
        os.mkdir(beside)
        shutil.copy(os.path.join(night.SAMPLES, OTHER), beside)
        self.enqueue("--beam-size=2", self.archive)
        self.enqueue(beside)
        self.done()
        said = " ".join(self.enqueue("--dry-run", "--beam-size=2", self.archive, beside).out.split())
        self.assertRegex(said, r"Other options than last time for \S+/beside, to transcribe with whisper-nano: beam_size 2 instead of 5\. "
                         r"That is 1 recording \([^)]*\) to do again\. Only --again does that\. "
                         r"Unchanged since last time: to transcribe with whisper-nano \(--beam-size=2\)\. Dry run")

    def test_another_encoder_recording_by_recording(self):
        other = tiny_models.encoder(os.path.join(self.models, "other"), layers=2)
        search = lambda *args: self.nightshift("search", "--semantic", "the market", *args, status=0).err
        self.enqueue("--embed=" + self.encoder, self.archive)
        self.done()
        self.assertEqual("", search())
        self.enqueue("--again", "--embed=" + other, os.path.join(self.archive, ENGLISH))
        self.done()
        self.assertRegex(search(), r"by likeness without [\d.]+ s of audio, which have vectors of another model only\.")
        self.assertEqual("", search("--in", os.path.join(self.archive, "es")))
        self.enqueue("--again", "--embed=" + other, self.archive)
        self.done()
        self.assertEqual("", search())

    @night.needs("script")
    def test_a_terminal_may_say_yes(self):
        self.enqueue(self.archive)
        self.done()
        for answer, tasks in (("n", 2), ("y", 4)):
            subprocess.run(["script", "-qec", f"{night.PROGRAM} enqueue --beam-size=2 '{self.archive}'", "/dev/null"],
                           input=answer + "\n", text=True, env=self.env(), capture_output=True, timeout=60,
                           check=False)
            self.assertEqual(tasks, self.tasks())


if __name__ == "__main__":
    night.main()
