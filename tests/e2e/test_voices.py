#!/usr/bin/env python3
"""--diarize without a name: the user's own model, else the one that was pulled; and the one that comes with the program, from the
build tree and from where it was installed."""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(__file__))
import media_kit
import night
import tiny_models

NANO = os.path.join(night.SOURCE, "workers/models/diarization-nano")
TALK = os.path.join(night.DEMO, "english/three-voices.opus")
TRUTH = os.path.join(night.DEMO, "english/three-voices.rttm")
MOST_WRONG = 0.1  # of the time in which somebody speaks
BUILD = os.environ.get("NIGHTSHIFT_BUILD_DIR", os.path.join(night.SOURCE, "build/release"))


def flat(text):
    """Without the ends of lines, which depend on how long paths are."""
    return " ".join(text.split())


class Usual(night.Night):
    """Which model is taken. They are tiny ones, and nothing is run."""

    def setUp(self):
        super().setUp()
        self.models = os.path.join(self.dir, "models")
        tiny_models.diarization(os.path.join(self.models, "diarization-nano"))
        self.bring("01_en_short.wav")

    def env(self, **more):
        return super().env(NIGHTSHIFT_MODELS=self.models, **more)

    def own_model(self):
        folder = tiny_models.diarization(os.path.join(self.models, "diarization"))
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump({"model_type": "nightshift-diarization", "threshold": 0.6}, file)
        return folder

    def models_of_voices(self):
        return [row[0] for row in self.sql("SELECT model FROM stage WHERE name = 'diarize' ORDER BY stage_id")]

    def pulled(self):
        return tiny_models.diarization(os.path.join(self.models, "diarization-ge2e"))

    def test_the_one_of_the_demo_is_never_taken_by_itself(self):
        self.one_sentence(self.enqueue("--diarize", self.archive, status=night.CONFIG),
                          "`nightshift model pull diarization-ge2e` fetches a free one")
        self.one_sentence(self.enqueue("--dry-run", "--diarize", self.archive, status=night.CONFIG), "model pull")
        self.one_sentence(self.enqueue("--diarize=diarization-ge2e", self.archive, status=night.CONFIG),
                          "`nightshift model pull diarization-ge2e` fetches it")
        self.assertFalse(os.path.exists(self.catalog))
        named = self.enqueue("--diarize=diarization-nano", "--num-speakers=2", self.archive).out
        self.assertIn("1 to diarize with diarization-nano", named)
        # What it told apart is no reason to keep to it.
        self.pulled()
        self.bring("13_es_long_45s.ogg")
        self.enqueue("--again", "--diarize", self.archive)
        self.assertEqual(["diarization-nano", "diarization-ge2e"], self.models_of_voices())

    def test_the_users_own_comes_first(self):
        self.own_model()
        said = self.enqueue("--diarize", self.archive).out
        self.assertIn("1 to diarize with diarization.", said)
        self.assertEqual(["diarization"], self.models_of_voices())

    def test_another_one_is_not_replaced_unasked(self):
        self.pulled()
        folder = self.own_model()
        self.enqueue("--diarize", self.archive)
        os.rename(folder, folder + ".away")
        self.bring("13_es_long_45s.ogg")
        self.one_sentence(self.enqueue("--diarize", self.archive, status=night.CONFIG),
                          "the model 'diarization' of last time is missing", "--again")
        self.one_sentence(self.enqueue("--again", "--diarize", self.archive, status=night.CONFIG),
                          "there is no 'diarization'", "--diarize=diarization-ge2e")
        self.assertEqual(["diarization"], self.models_of_voices())
        self.assertEqual([(1,)], self.sql("SELECT count(*) FROM media"))
        self.enqueue("--diarize=diarization-ge2e", self.archive)
        self.assertEqual(["diarization", "diarization-ge2e"], self.models_of_voices())
        self.enqueue("--diarize", self.archive)

    def test_a_folder_that_is_not_whole_is_no_reason_to_take_another(self):
        os.mkdir(os.path.join(self.models, "diarization"))
        self.one_sentence(self.enqueue("--diarize", self.archive, status=night.CONFIG),
                          "neither config.json nor segmentation/pytorch_model.bin", "docs/reference/models.md")
        os.remove(os.path.join(self.own_model(), "embedding.safetensors"))
        self.one_sentence(self.enqueue("--diarize", self.archive, status=night.CONFIG), "embedding.safetensors is missing")
        self.assertFalse(os.path.exists(self.catalog))

    def test_the_list_says_which_is_taken(self):
        def marked():
            return re.findall(r"(\S+)  \(used by --diarize when none is named\)",
                              self.nightshift("model", "list", status=0).out)
        self.assertEqual([], marked())
        self.pulled()
        self.assertEqual(["diarization-ge2e"], marked())
        self.own_model()
        self.assertEqual(["diarization"], marked())


class Embedded(night.Night):
    """The model that comes with the program, on the demo's recording of three voices."""

    def heard(self):
        """Who speaks when, as RTTM."""
        self.catalog = os.path.join(self.dir, "another.db" if os.path.exists(self.catalog) else "catalog.db")
        self.enqueue("--no-transcribe", "--diarize=diarization-nano", self.archive)
        self.run_to_end()
        return self.nightshift("show", "three-voices.opus", "--format=rttm", status=0).out

    def error_rate(self, rttm):
        path = os.path.join(self.dir, "heard.rttm")
        with open(path, "w", encoding="utf-8") as file:
            file.write(rttm.replace(" three-voices.opus ", " three-voices "))
        return self.json("score", "--der", TRUTH, path)["all"]["rate"]

    def test_from_the_build_tree_and_from_where_it_was_installed(self):
        self.bring(TALK)
        self.assertEqual(os.path.realpath(NANO),
                         self.nightshift("model", "path", "diarization-nano", status=0).out.strip())
        built = self.heard()
        self.assertLess(self.error_rate(built), MOST_WRONG, built)
        speech = self.sql("SELECT speech_ms FROM speaker")  # a fragment of another one is no fault
        self.assertEqual(3, len([ms for ms, in speech if ms >= 1000]), built)

        prefix = os.path.join(self.dir, "prefix")
        subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, capture_output=True,
                       timeout=night.PATIENCE_S)
        with mock.patch.object(night, "PROGRAM", os.path.join(prefix, "bin/nightshift")):
            for name in ("diarization-nano", "whisper-nano"):
                self.assertEqual(os.path.join(prefix, "share/nightshift/models", name),
                                 self.nightshift("model", "path", name, status=0).out.strip())
                self.nightshift("model", "check", name, status=0)
            installed = self.heard()
        for name in ("man/man1/nightshift.1", "bash-completion/completions/nightshift"):
            self.assertTrue(os.path.exists(os.path.join(prefix, "share", name)))
        self.assertEqual(built, installed)
        self.assertEqual([(os.path.join(prefix, "share/nightshift/models/diarization-nano"),)],
                         self.sql("SELECT model_dir FROM stage"))


WHOLE = "are not cut, because the transcription has no word times"


class Timed(night.Night):
    """Which transcription has times of words, by which segments are parted. Nothing is run."""

    def setUp(self):
        super().setUp()
        self.models = os.path.join(self.dir, "models")
        tiny_models.diarization(os.path.join(self.models, "diarization"))
        os.symlink(night.MODEL, os.path.join(self.models, "whisper-nano"))
        self.bring("01_en_short.wav")

    def env(self, **more):
        return super().env(NIGHTSHIFT_MODELS=self.models, **more)

    def timed(self):
        """Of each transcription that is known whether it has times."""
        return [json.loads(row[0]).get("word_timestamps", False) for row in
                self.sql("SELECT params FROM stage WHERE name = 'transcribe' ORDER BY stage_id")]

    def tasks(self):
        return self.sql("SELECT count(*) FROM task JOIN stage USING (stage_id) WHERE name = 'transcribe'")

    def test_a_new_transcription_has_them(self):
        said = self.enqueue("--diarize", self.archive).out
        self.assertEqual([True], self.timed())
        self.assertNotIn(WHOLE, flat(said))
        for options in ([], ["--diarize"], ["--diarize=diarization"]):
            self.assertNotIn(WHOLE, flat(self.enqueue(*options, self.archive).out))
        # Who is told apart there is known when it is transcribed otherwise, too.
        self.enqueue("--beam-size=2", "--again", self.archive)
        self.assertEqual([True, True], self.timed())

    def test_one_that_waits_without_them_gets_them(self):
        for how in ([], ["--model=whisper-nano", "--vad=off"]):
            with self.subTest(how=how):
                self.catalog = os.path.join(self.dir, f"{len(how)}.db")
                self.enqueue(*how, self.archive)
                self.assertNotIn(WHOLE, flat(self.enqueue("--diarize", *how, self.archive).out))
                self.enqueue(self.archive)
                self.assertEqual(([False, True], [(2,)]), (self.timed(), self.tasks()))
                self.assertEqual([("transcribe", True)], self.sql(
                    "SELECT name, params LIKE '%word_timestamps%' FROM task JOIN stage USING (stage_id) "
                    "WHERE wanted AND state = 'pending' AND name = 'transcribe'"))


class Parted(night.Night):
    """What three people say in one segment, with the models that come with the program."""

    def test_each_is_found_with_what_they_say(self):
        self.bring(TALK)
        # Segments are as long as windows are.
        self.enqueue("--diarize=diarization-nano", "--without-timestamps", "--vad=off", self.archive)
        self.run_to_end("--threads=2")
        self.assertGreater(self.sql("SELECT count(*) FROM segment WHERE part > 0")[0][0], 0)
        parts = self.sql("SELECT speaker, text FROM transcript ORDER BY start_ms")
        self.assertGreaterEqual(len(parts), 5)
        who = {word: {speaker for speaker, text in parts if word in text} for word in ("interview", "train", "music")}
        self.assertEqual([1, 1, 1], [len(speakers) for speakers in who.values()], parts)
        self.assertEqual(3, len(set.union(*who.values())), parts)
        for word, (speaker,) in who.items():
            for asked in set.union(*who.values()):
                hits = self.json("search", "--speaker", asked, word)
                self.assertEqual(asked == speaker, bool(hits), (asked, word, parts))
                self.assertEqual({speaker} if hits else set(), {hit["speaker"] for hit in hits})
        shown = self.nightshift("show", "three-voices.opus", status=0).out
        for speaker, text in parts:
            self.assertIn(text.split(".")[0], flat(shown))
        # When nobody is told apart any more it is whole again.
        stage, = self.sql("SELECT stage_id FROM stage WHERE name = 'diarize'")
        self.nightshift("forget", "--yes", f"--stage={stage[0]}", status=0)
        self.assertEqual([(None, " ".join(text for _, text in parts))],
                         self.sql("SELECT speaker, text FROM transcript"))
        self.healthy()


class Known(night.Night):
    """Three voices that are heard again in other recordings: names that hold for the archive."""

    def bring_again(self, name, times, volume):
        """The demo's voices for so long that they can be compared, as another recording."""
        media_kit.ffmpeg("-stream_loop", str(times - 1), "-i", TALK, "-filter:a", f"volume={volume}",
                         "-c:a", "libopus", "-b:a", "24k", os.path.join(self.archive, name))

    def proposed(self):
        """Who is proposed where, by the listing, and as the view has it."""
        rows = [row for row in self.json("speakers") if row["proposed"]]
        self.assertEqual(sorted((row["speaker_id"], row["proposed"]) for row in rows),
                         self.sql("SELECT speaker_id, name FROM proposals ORDER BY speaker_id"))
        for row in rows:
            self.assertTrue(row["measured"], "nobody measured the likeness of this diarization-nano: run "
                            "tools/dev/train/diarization/recognise.py, and put its hash and its steps into "
                            "store/register/likeness.c")
            self.assertGreater(row["likeness"], 0.7)
        return sorted((os.path.basename(row["path"]), row["label"], row["proposed"]) for row in rows)

    def grouped(self):
        return sorted(recordings for recordings, in self.sql("SELECT recordings FROM voice_groups"))

    def test_names_hold_for_the_archive(self):
        night.needs("ffmpeg")
        self.bring_again("first.opus", 2, 1)
        self.bring_again("second.opus", 3, 0.5)
        self.enqueue("--diarize=diarization-nano", self.archive)
        self.run_to_end()
        self.assertEqual([2, 2, 2], self.grouped())
        self.assertEqual([], self.proposed())
        said = self.nightshift("speakers", "name", "first.opus/SPEAKER_00", "Ana", "--everywhere", status=0).out
        self.assertIn("Ana", said)
        self.nightshift("speakers", "name", "--everywhere", "first.opus/SPEAKER_01", "Bea", status=0)
        self.assertEqual([("second.opus", "SPEAKER_00", "Ana"), ("second.opus", "SPEAKER_01", "Bea")], self.proposed())
        self.assertIn("Ana? (", self.nightshift("speakers", "--proposed", status=0).out)
        self.assertEqual([2], self.grouped())

        # What a run finds is proposed as well, and people decide while it is on.
        self.nightshift("pause", status=0)
        self.bring_again("third.opus", 4, 0.7)
        self.enqueue("--diarize=diarization-nano", self.archive)
        run = self.start_run("--watch")
        self.wait_for("the run listens", lambda: os.path.exists(self.catalog + ".sock"), run)
        self.nightshift("speakers", "confirm", "second.opus/SPEAKER_00", status=0)
        self.nightshift("speakers", "deny", "second.opus/SPEAKER_01", status=0)
        self.assertEqual([], self.proposed())
        self.one_sentence(self.nightshift("speakers", "confirm", "second.opus/SPEAKER_01"), "no name is proposed")
        self.nightshift("resume", status=0)
        self.wait_for("the third is heard", lambda: self.sql(
            "SELECT 1 FROM speakers WHERE path LIKE '%third.opus'"), run)
        self.assertIn(("third.opus", "SPEAKER_00", "Ana"), self.proposed())
        self.nightshift("speakers", "confirm", "third.opus/SPEAKER_00", status=0)
        run.signal()
        run.wait()

        # Whoever was named so is found everywhere; the third voice is still a group.
        self.run_to_end()
        heard = self.sql("SELECT path, text FROM transcript WHERE speaker = 'Ana' ORDER BY path")
        self.assertEqual(["first.opus", "second.opus", "third.opus"],
                         sorted({os.path.basename(path) for path, _ in heard}))
        word = max(re.findall(r"\w+", heard[0][1]), key=len)
        found = {os.path.basename(row["path"]) for row in self.json("search", "--speaker", "ana", word)}
        self.assertIn("first.opus", found)
        self.assertEqual([3], self.grouped()[-1:])

        # Diarized anew, all of that is still known.
        before = self.proposed()
        self.enqueue("--diarize=diarization-nano", "--num-speakers=3", "--again", self.archive)
        self.run_to_end()
        self.assertEqual([("first.opus", "Ana"), ("first.opus", "Bea"), ("second.opus", "Ana"), ("third.opus", "Ana")],
                         [(os.path.basename(path), name) for path, name in self.sql(
                             "SELECT path, name FROM speakers WHERE name IS NOT NULL ORDER BY path, name")])
        self.assertEqual([], [row for row in self.proposed() if row[0] == "second.opus"])
        self.assertEqual([row[::2] for row in before], [row[::2] for row in self.proposed()])
        self.healthy()


if __name__ == "__main__":
    night.main()
