#!/usr/bin/env python3
"""Several stages over one archive: who speaks and which sounds there are, beside the transcription.
One walk for all, another enqueue for what is missing alone, and kill -9 at any moment."""
import difflib
import json
import os
import re
import shutil
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
import night
import tiny_models

RECORDINGS = ["08_two_voices_stereo.wav", "13_es_long_45s.ogg", "04_es_clean.flac"]
TURNS = """SELECT p.path, k.label, k.speech_ms, hex(k.vector), u.idx, u.start_ms, u.end_ms
           FROM turn u JOIN speaker k USING (speaker_id) JOIN media m ON m.media_id = k.media_id
           JOIN place p ON p.place_id = m.place_id ORDER BY 1, 5"""
SOUNDS = """SELECT p.path, s.seq, s.idx, s.start_ms, s.end_ms, s.class_id, s.name, s.score
            FROM sound s JOIN task t USING (task_id) JOIN media m USING (media_id)
            JOIN place p ON p.place_id = m.place_id ORDER BY 1, 2, 3"""
TASKS = """SELECT s.name, t.state, count(*) FROM task t JOIN stage s USING (stage_id)
           GROUP BY 1, 2 ORDER BY 1, 2"""


class Stages(night.Night):
    """A small archive, and models that hear nothing, always the same."""

    def setUp(self):
        super().setUp()
        self.models = os.path.join(self.dir, "models")
        self.yamnet = tiny_models.yamnet(os.path.join(self.models, "yamnet"))
        self.voices = tiny_models.diarization(os.path.join(self.models, "diarization"))
        for name in RECORDINGS:
            self.bring(name)

    def env(self, **more):
        return super().env(NIGHTSHIFT_MODELS=self.models, **more)

    def rows(self):
        """All results, with paths below the archive."""
        def local(rows):
            return [(os.path.basename(row[0]), *row[1:]) for row in rows]
        return local(self.sql("SELECT * FROM results")), local(self.sql(TURNS)), local(self.sql(SOUNDS))

    def leases(self, answer):
        return len(re.findall(r"lease \d+: ", answer.err))

    def run_all(self, *options, **kw):
        return self.run_to_end("--threads=2", "--shard=30s", *options, **kw)


class Together(Stages):
    def test_a_run_that_ended_loads_no_model(self):
        self.enqueue(self.archive)
        metrics = os.path.join(self.dir, "night.prom")
        said = self.nightshift("run", "--threads=2", "--json", "--metrics", metrics, status=0).out
        last = json.loads(said.splitlines()[-1])
        self.assertEqual(("run-end", 3, None), (last["event"], last["recordings_done"], last.get("note")))
        with open(metrics, encoding="utf-8") as file:
            self.assertIn("\nnightshift_run_waiting 0\n", file.read())

    def test_one_walk_finds_for_all(self):
        said = self.enqueue("--diarize", "--sounds", self.archive)
        for words in ("to transcribe with whisper-nano", "to diarize with diarization",
                      "to listen to for sounds with yamnet"):
            self.assertIn("3 " + words, said.out)
        self.assertEqual(1, said.out.count("Next: nightshift run"))
        self.run_all()
        self.assertEqual([("diarize", "done", 3), ("sounds", "done", 3), ("transcribe", "done", 3)],
                         self.sql(TASKS))
        _, turns, sounds = self.rows()
        self.assertGreater(len({row[0] for row in turns}), 0, "nobody was heard")
        self.assertGreater(len(sounds), 0)
        self.assertLessEqual({row[6] for row in sounds}, set(tiny_models.CLASSES))
        self.assertEqual([], self.sql("SELECT * FROM voice"))
        # Whoever speaks has turns, and what is said a speaker wherever anybody was heard.
        self.assertEqual([], self.sql("SELECT * FROM speaker WHERE speaker_id NOT IN "
                                      "(SELECT speaker_id FROM turn)"))
        self.assertEqual([], self.sql(
            "SELECT g.segment_id FROM segment g JOIN task t USING (task_id) WHERE speaker_id IS NULL AND EXISTS "
            "(SELECT 1 FROM speaker k JOIN turn u USING (speaker_id) WHERE k.media_id = t.media_id "
            "AND u.start_ms <= g.end_ms + 1000 AND u.end_ms >= g.start_ms - 1000)"))
        self.healthy()

    def test_status_tells_stages_apart(self):
        self.enqueue("--no-transcribe", "--diarize", "--num-speakers=2", self.archive)
        self.enqueue("--no-transcribe", "--diarize", self.archive)
        said = self.nightshift("status", status=0).out
        self.assertIn("num_speakers 2", said)
        self.assertEqual(2, said.count("diarize with diarization"))
        self.enqueue("--vad=off", "--no-speech-threshold=0.55", self.archive)
        # What waits hears what the transcription hears, from then on: --channels=auto is its own.
        self.enqueue("--no-transcribe", "--diarize", self.archive)  # adds nothing
        said = self.nightshift("status", status=0).out
        self.assertIn("transcribe with whisper-nano (no_speech_threshold 0.55, word_timestamps): 0 of 3 done",
                      " ".join(said.split()))
        self.assertIn("            diarize with diarization: 0 of 3 done (stage 4)\n", said)
        self.assertIn("            diarize with diarization: 3 superseded (stage 2)\n", said)
        self.assertIn("(num_speakers 2): 3 superseded (stage 1)\n", said)
        self.assertRegex(said, r"#3  \S+ \S+  transcribe: 0 of 3 done")
        self.assertRegex(said, r"#4  \S+ \S+  diarize: 0 of 3 done")
        self.assertNotIn("#5", said)
        self.assertEqual([], [line for line in said.splitlines() if line != line.rstrip()])
        self.assertIn("#5", self.nightshift("status", "--jobs", status=0).out)
        plan = self.json("plan")
        self.assertEqual([3, 3], [stage["recordings"] for stage in plan["stages"]])
        self.assertTrue(all(stage["devices"][0]["predicted_bytes"] > 0 for stage in plan["stages"]))

    def test_a_bad_file_is_told_once(self):
        with open(os.path.join(self.archive, "notes.mp3"), "w", encoding="utf-8") as file:
            file.write("no sound\n" * 100)
        self.enqueue("--vad=off", "--diarize", "--sounds", self.archive)
        answer = self.run_all()
        self.assertEqual(1, answer.err.count("notes.mp3: not a recording"), answer.err)
        self.assertEqual([("diarize",), ("sounds",), ("transcribe",)],
                         self.sql("SELECT stage FROM tasks WHERE state = 'failed' ORDER BY stage"))
        self.assertIn("1 failed", answer.out)

    def test_what_is_wrong_is_said_at_once(self):
        for options, words in ((["--diarize=nobody"], ["--diarize", "nobody"]),
                               (["--num-speakers=2"], ["--diarize"]),
                               (["--diarize", "--min-speakers=3", "--max-speakers=2"], ["min-speakers"]),
                               (["--diarize", "--min-speakers=3", "--num-speakers=2"], ["num-speakers"]),
                               (["--no-transcribe"], ["nothing"]),
                               (["--no-transcribe", "--sounds", "--beam-size=5"], ["beam-size"]),
                               (["--embed"], ["--embed", "all-minilm-l6-v2"]),
                               (["--sounds=" + self.voices], ["--sounds"]),
                               (["--diarize=" + self.yamnet], ["--diarize"])):
            self.one_sentence(self.nightshift("enqueue", *options, self.archive), *words)
        self.assertFalse(os.path.exists(self.catalog))

    def test_a_model_that_went_leaves_the_rest(self):
        self.enqueue("--no-transcribe", "--diarize", "--sounds", self.archive)
        weights = os.path.join(self.voices, "segmentation.safetensors")
        os.rename(weights, weights + ".away")
        stages = self.json("status")["stages"]
        self.assertEqual([(None, 0)] * 2, [(stage["put_aside"], stage["audio_done_ms"]) for stage in stages])
        ended = self.run_all(status=night.CONFIG)
        self.one_sentence(ended, "diarization", "restore", "`nightshift cancel --job 1` leaves diarize out")
        self.assertIn("3 left", ended.out)
        self.assertIn("disabled", ended.out)
        status = " ".join(self.nightshift("status", status=0).out.split())
        self.assertRegex(status, "diarize with diarization.*: 0 of 3 done; disabled in the last run: .*restore")
        self.assertIn("`nightshift cancel --job 1` leaves diarize out", status)
        self.assertEqual([True, False], ["restore" in (stage["put_aside"] or "")
                                         for stage in self.json("status")["stages"]])
        self.assertIn("disabled in the last run: ", self.nightshift("plan").out)
        self.assertEqual(["diarize"], [stage["stage"] for stage in json.loads(self.nightshift("plan", "--json").out)["stages"]
                                       if "restore" in stage["put_aside"]])
        self.assertEqual([("diarize", "pending", 3), ("sounds", "done", 3)], self.sql(TASKS))
        self.assertEqual(1, len(self.sql("SELECT * FROM event WHERE kind = 'stage-aside'")))
        os.rename(weights + ".away", weights)
        self.run_all()
        self.assertEqual([("diarize", "done", 3), ("sounds", "done", 3)], self.sql(TASKS))
        self.assertNotIn("disabled", self.nightshift("status", status=0).out)

    def test_a_folder_behind_a_blank_is_asked_about(self):
        self.one_sentence(self.enqueue("--sounds", self.yamnet, self.archive, status=64), "--sounds=" + self.yamnet)
        self.one_sentence(self.enqueue("--diarize", "diarization", self.archive, status=64), "--diarize=diarization")
        # A folder that is no such model is what it seems to be: a place with recordings.
        self.enqueue("--no-transcribe", "--sounds", self.archive)
        self.enqueue("--no-transcribe", "--sounds", self.voices, status=0)

    def test_folders_without_a_model(self):
        empty = os.path.join(self.dir, "empty")
        os.mkdir(empty)
        for option, model, words in (("--embed", empty, "has no config.json"),
                                     ("--embed", "/nope", "there is no folder '/nope'"),
                                     ("--sounds", "some/name", "neither a folder 'some/name' nor such a model in"),
                                     ("--embed", night.MODEL, "is a model for --model, not for --embed")):
            with self.subTest(model=model):
                answer = self.enqueue(f"{option}={model}", self.archive, status=night.CONFIG)
                self.one_sentence(answer, words)
                self.assertNotIn("model pull", answer.err)
        # Of these there are some on a hub.
        self.one_sentence(self.enqueue("--embed=some/name", self.archive, status=night.CONFIG),
                          "`nightshift model pull some/name`")
        for option, name in (("--embed", "sentence-transformers/all-minilm-l6-v2"),
                             ("--embed-audio", "laion/clap-htsat-unfused")):
            self.one_sentence(self.enqueue(option, self.archive, status=night.CONFIG),
                              f"`nightshift model pull {name}`", option + "=folder")

    def test_a_model_that_cannot_work_is_refused(self):
        """All that would put the stage aside in the night."""
        encoder = tiny_models.encoder(os.path.join(self.models, "encoder"))
        for option, model, weights in (("--sounds", self.yamnet, "model.safetensors"),
                                       ("--diarize", self.voices, "segmentation.safetensors"),
                                       ("--embed", encoder, "model.safetensors")):
            whole = os.path.join(model, weights)
            with open(whole, "rb") as file:
                data = file.read()
            os.truncate(whole, len(data) // 2)
            with self.subTest(cut=option):
                self.one_sentence(self.enqueue(option + "=" + model, self.archive, status=None), option, weights)
                doctor = json.loads(self.nightshift("doctor", "--quick", "--json").out)
                found = [check for check in doctor["checks"] if check["name"] == "model"
                         and check["found"].startswith(os.path.basename(model) + ":")]
                self.assertEqual([("warning", True)], [(check["state"], weights in check["found"])
                                                       for check in found])
            with open(whole, "wb") as file:
                file.write(data)
        for option, model, words in (("--embed", night.MODEL, "whisper"),
                                     ("--embed-audio", encoder, "is a model for --embed, not for --embed-audio"),
                                     ("--sounds", self.voices, "is a model for --diarize, not for --sounds")):
            with self.subTest(option=option, model=model):
                self.one_sentence(self.enqueue(option + "=" + model, self.archive, status=None), option, words)
        self.assertFalse(os.path.exists(self.catalog))


class Missing(Stages):
    def test_another_enqueue_adds_what_is_missing_alone(self):
        # With words' times, else --diarize wants these of the text that is there (test_told.py).
        self.enqueue("--vad=off", "--beam-size=2", "--word-timestamps", self.archive)
        first = self.run_all("--verbose")
        self.assertEqual(3, self.leases(first))
        before = self.sql("SELECT task_id, seq, done_at FROM shard ORDER BY 1, 2")
        # Other bytes under the same name, size, time and number: who opens them finds others.
        kept = {}
        for name in RECORDINGS:
            path = os.path.join(self.archive, name)
            with open(path, "rb") as file:
                kept[path] = file.read(), os.stat(path)
            self.rewrite(path, bytes(len(kept[path][0])), kept[path][1])
        added = self.json("enqueue", "--diarize", self.archive)
        self.assertEqual((3, 0, 0, 3), tuple(added[key] for key in
                                             ("unchanged", "new", "changed", "tasks")))
        self.assertEqual([("transcribe", 0), ("diarize", 3)],
                         [(job["stage"], job["tasks"]) for job in added["jobs"]])
        for path, (data, stat) in kept.items():
            self.rewrite(path, data, stat)
        # Each is decoded once more, for who speaks; nothing is transcribed again.
        second = self.run_all("--verbose")
        self.assertEqual(3, self.leases(second))
        self.assertEqual([("diarize", "done", 3), ("transcribe", "done", 3)], self.sql(TASKS))
        self.assertEqual(before, self.sql(
            "SELECT h.task_id, h.seq, h.done_at FROM shard h JOIN task USING (task_id) "
            "JOIN stage s USING (stage_id) WHERE s.name = 'transcribe' ORDER BY 1, 2"))
        # A third time there is nothing at all.
        self.assertEqual(0, self.json("enqueue", "--diarize", self.archive)["tasks"])
        self.assertEqual(0, self.leases(self.run_all("--verbose")))

    def test_what_was_said_before_is_not_asked_again(self):
        """Without a word on how to transcribe, new files are done as the catalog had it last."""
        self.enqueue("--vad=off", "--beam-size=3", self.archive)
        self.bring("01_en_short.wav")
        added = self.json("enqueue", "--sounds", self.archive)
        self.assertEqual([("transcribe", 1), ("sounds", 4)],
                         [(job["stage"], job["tasks"]) for job in added["jobs"]])
        self.assertEqual(1, len(self.sql("SELECT * FROM stage WHERE name = 'transcribe'")))
        # What is said makes another one, as ever.
        self.assertEqual(4, self.json("enqueue", "--vad=off", self.archive)["tasks"])

    def test_sparse_silence_is_another_transcription_with_nearly_the_same_words(self):
        def heard():
            return [(os.path.basename(path), text, sure) for path, text, sure in self.sql(
                "SELECT path, text, avg_logprob FROM transcript ORDER BY path, start_ms")]

        self.enqueue("--vad=off", self.archive)
        self.run_all()
        whole = heard()
        self.assertEqual(3, self.json("enqueue", "--again", "--vad=off", "--sparse-silence", self.archive)["tasks"])
        self.run_all()
        sparse = heard()
        self.assertEqual(set(RECORDINGS), {row[0] for row in sparse})
        self.assertNotEqual([row[2] for row in whole], [row[2] for row in sparse])
        texts = [" ".join(row[1] for row in rows).split() for rows in (whole, sparse)]
        self.assertGreater(difflib.SequenceMatcher(None, *texts, autojunk=False).ratio(), 0.9, texts)

    def test_another_model_in_the_place_of_the_last_one(self):
        mine = os.path.join(self.models, "mine")
        shutil.copytree(night.MODEL, mine)
        self.enqueue("--vad=off", "--model=mine", self.archive)
        moved, other = self.models + "-moved", self.models + "-other"
        os.rename(self.models, moved)
        shutil.copytree(moved, other)
        weights = os.path.join(other, "mine", "model.safetensors")
        with open(weights, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)[0]
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last ^ 1]))
        self.bring("01_en_short.wav")
        self.models = other
        self.one_sentence(self.enqueue("--sounds", self.archive, status=None), "another model 'mine'", "--model")
        self.models = moved
        self.assertEqual([("transcribe", 1), ("sounds", 4)],
                         [(job["stage"], job["tasks"]) for job in self.json("enqueue", "--sounds", self.archive)["jobs"]])
        # What a dry run would ask for.
        dry = self.enqueue("--sounds", "--diarize", "--dry-run", self.archive)
        self.assertRegex(" ".join(dry.out.split()), "enqueued to transcribe with mine, to diarize with .* and to listen to for "
                                                    "sounds with .*yamnet[.]$")

    @staticmethod
    def rewrite(path, data, stat):
        with open(path, "r+b") as file:
            file.write(data)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


class Text(Stages):
    """Vectors of the text stand on the transcription."""

    def setUp(self):
        super().setUp()
        self.encoder = "--embed=" + tiny_models.encoder(os.path.join(self.models, "encoder"))

    def test_what_is_not_transcribed_is_left_out(self):
        refused = self.nightshift("enqueue", "--no-transcribe", self.encoder, self.archive, status=64)
        self.one_sentence(refused, "the catalog has none", "leave out --no-transcribe")
        self.assertFalse(os.path.exists(self.catalog))
        self.enqueue("--no-transcribe", "--sounds", self.archive)
        refused = self.nightshift("enqueue", "--no-transcribe", self.encoder, self.archive, status=64)
        self.one_sentence(refused, "the catalog has none")
        self.enqueue("--vad=off", os.path.join(self.archive, RECORDINGS[0]))
        said = self.enqueue("--no-transcribe", self.encoder, self.archive)
        self.assertRegex(said.out, r"Job \d+: 1 to embed as text with")
        self.assertIn("2 of them are not transcribed", said.out)
        self.assertEqual([("embed-text", "pending", 1), ("sounds", "pending", 3),
                          ("transcribe", "pending", 1)], self.sql(TASKS))
        # Another transcription than the one that is there is not made, either.
        refused = self.nightshift("enqueue", "--no-transcribe", self.encoder, "--model=whisper-nano", "--vad=off",
                                  "--beam-size=2", self.archive, status=64)
        self.one_sentence(refused, "none like that")
        self.run_all()
        self.assertEqual([("embed-text", "done", 1), ("sounds", "done", 3),
                          ("transcribe", "done", 1)], self.sql(TASKS))
        self.assertGreater(self.sql("SELECT count(*) FROM embedding")[0][0], 0)
        again = self.json("enqueue", "--no-transcribe", self.encoder, self.archive)
        self.assertEqual([("embed-text", 0, 2)], [(job["stage"], job["tasks"], job["not_transcribed"])
                                                  for job in again["jobs"]])
        # With the transcription each job has its own.
        both = self.json("enqueue", self.encoder, self.archive)
        self.assertEqual([("transcribe", 2), ("sounds", 0), ("embed-text", 2)],
                         [(job["stage"], job["tasks"]) for job in both["jobs"]])
        # Of two transcriptions, status says whose text it is.
        self.assertNotIn("of the text of", self.nightshift("status", status=0).out)
        self.enqueue("--again", self.encoder, "--vad=off", "--beam-size=2", self.archive)
        said = " ".join(self.nightshift("status", status=0).out.split())
        self.assertIn("with " + os.path.join(self.models, "encoder") + " of the text of whisper-nano (beam_size 2): 0 of 3",
                      said.replace("...", ""))
        stages = {stage["stage"]: stage for stage in self.json("status")["stages"]}
        self.assertEqual({0} | {number for number, stage in stages.items() if stage["name"] == "transcribe"},
                         {stage["source"] for stage in stages.values()})


    def test_a_plan_of_texts_alone(self):
        self.enqueue("--vad=off", os.path.join(self.archive, RECORDINGS[0]))
        self.run_all()
        self.enqueue("--no-transcribe", self.encoder, self.archive)
        plan = self.json("plan")
        self.assertEqual(["embed-text"], [stage["stage"] for stage in plan["stages"]])
        night = plan["night"]
        self.assertEqual("processor", night["bound_by"])
        self.assertGreater(night["core_seconds"], 0)
        self.assertEqual(max(night["core_seconds"], night["device_seconds"]), night["seconds"])
        said = self.nightshift("plan", status=0).out
        self.assertIn("\nBound by   the processor's ", said)
        self.assertNotIn("decoding", said)  # nothing is decoded

    def test_a_transcription_that_failed_is_waited_for(self):
        """run, status and plan say the same of it."""
        for name in RECORDINGS[1:]:
            os.remove(os.path.join(self.archive, name))
        with open(os.path.join(self.archive, "broken.wav"), "wb") as file:
            file.write(b"RIFF\x24\0\0\0WAVEfmt " + bytes(400))
        self.enqueue("--vad=off", self.encoder, self.archive)
        plan = self.nightshift("plan", status=0).out
        self.assertIn("2 recordings in 2 stages", plan)
        ended = self.run_all()
        self.assertIn("1 recording done, 1 failed, 0 left.\n1 recording waits for a transcription that failed, was",
                      ended.out)
        self.assertEqual([("embed-text", "done", 1), ("embed-text", "pending", 1), ("transcribe", "done", 1),
                          ("transcribe", "failed", 1)], self.sql(TASKS))
        again = self.run_all()
        self.assertIn("Nothing can be done now.\n1 recording waits for a transcription that failed", again.out)
        status = " ".join(self.nightshift("status", status=0).out.split())
        self.assertIn("1 of 2 recordings done, 1 failed", status)
        self.assertIn("1 of 2 done, 1 waits for the transcription, which failed", status)
        plan = " ".join(self.nightshift("plan", status=0).out.split())
        self.assertIn("1 recording, but nothing can be done now", plan)
        self.assertNotIn("Done", plan)
        plan = self.json("plan")
        self.assertEqual([None] * 3, [plan[key] for key in ("seconds", "done_at", "night")])
        self.assertEqual([(1,)], self.sql("SELECT waiting FROM progress WHERE stage = 'embed-text'"))
        # What another stage says of the same file is the same trouble.
        self.enqueue("--no-transcribe", "--sounds", self.archive)
        self.run_all()
        self.assertEqual(["transcribe, sounds"], [row["stage"] for row in self.json("status")["failures"]])
        self.assertEqual(1, self.json("status")["archive"]["failed"])
        self.assertEqual(1, self.nightshift("status", "--failures", status=0).out.count("broken.wav"))
        self.assertIn("1 recording will be tried again", self.nightshift("retry", status=0).out)
        self.assertNotIn("nothing can be done", self.nightshift("plan", status=0).out)


class Killed(Stages):
    def setUp(self):
        super().setUp()
        self.enqueue("--no-transcribe", "--diarize", "--sounds", self.archive)

    def kill_when(self, query):
        run = self.start_run("--threads=2", "--shard=30s")
        self.wait_for(query, lambda: self.sql(query)[0][0], run)
        run.signal(signal.SIGKILL)
        run.wait()

    def test_the_rows_are_those_of_a_quiet_night(self):
        self.run_all()
        want = self.rows()
        self.assertTrue(want[1] and want[2])
        os.remove(self.catalog)
        self.enqueue("--no-transcribe", "--diarize", "--sounds", self.archive)
        # Voices go when their recording is settled, which may be before anybody looks: shards stay.
        self.kill_when("SELECT (SELECT count(*) FROM voice) + (SELECT count(*) FROM shard)")
        self.kill_when("SELECT count(*) FROM task WHERE waits = 'settling' OR state = 'done'")
        self.kill_when("SELECT count(*) >= 2 FROM task WHERE state = 'done'")
        self.kill_when("SELECT count(*) FROM sound")
        self.run_all()
        self.assertEqual(want, self.rows())
        self.healthy()


if __name__ == "__main__":
    night.main()
