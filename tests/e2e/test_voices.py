#!/usr/bin/env python3
"""--diarize without a name: the user's own model, else the one that comes with the program, from the
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

    def test_what_is_taken_is_said(self):
        dry = flat(self.enqueue("--dry-run", "--diarize", self.archive).out)
        self.assertIn("--diarize takes diarization-nano", dry)
        said = self.enqueue("--diarize", self.archive).out
        self.assertIn("1 to diarize with diarization-nano", said)
        self.assertIn("trained on synthetic voices", flat(said))
        self.assertIn("no general diarizer", flat(said))
        self.assertIn(f"a folder 'diarization' in {self.models} one is taken", flat(said))
        # Once, and not to whoever named it.
        self.assertNotIn("synthetic", self.enqueue("--diarize", self.archive).out)
        named = self.enqueue("--diarize=diarization-nano", "--num-speakers=2", self.archive).out
        self.assertIn("1 to diarize with diarization-nano", named)
        self.assertNotIn("synthetic", named)

    def test_the_users_own_comes_first(self):
        self.own_model()
        said = self.enqueue("--diarize", self.archive).out
        self.assertIn("1 to diarize with diarization.", said)
        self.assertNotIn("synthetic", said)
        self.assertEqual(["diarization"], self.models_of_voices())

    def test_a_better_one_is_not_replaced_unasked(self):
        folder = self.own_model()
        self.enqueue("--diarize", self.archive)
        os.rename(folder, folder + ".away")
        self.bring("13_es_long_45s.ogg")
        self.one_sentence(self.enqueue("--diarize", self.archive, status=night.CONFIG),
                          "the model 'diarization' of last time is not here any more", "--again")
        self.one_sentence(self.enqueue("--again", "--diarize", self.archive, status=night.CONFIG),
                          "there is no 'diarization'", "--diarize=diarization-nano")
        self.assertEqual(["diarization"], self.models_of_voices())
        self.assertEqual([(1,)], self.sql("SELECT count(*) FROM media"))
        self.enqueue("--diarize=diarization-nano", self.archive)
        self.assertEqual(["diarization", "diarization-nano"], self.models_of_voices())
        self.enqueue("--diarize", self.archive)

    def test_a_folder_that_is_not_whole_is_no_reason_to_take_another(self):
        os.mkdir(os.path.join(self.models, "diarization"))
        self.one_sentence(self.enqueue("--diarize", self.archive, status=night.CONFIG),
                          "neither config.json nor segmentation/pytorch_model.bin", "docs/models.md")
        os.remove(os.path.join(self.own_model(), "embedding.safetensors"))
        self.one_sentence(self.enqueue("--diarize", self.archive, status=night.CONFIG), "embedding.safetensors is missing")
        self.assertFalse(os.path.exists(self.catalog))

    def test_the_list_says_which_is_taken(self):
        def marked():
            return re.findall(r"(\S+)  \(used by --diarize when none is named\)",
                              self.nightshift("model", "list", status=0).out)
        self.assertEqual(["diarization-nano"], marked())
        self.own_model()
        self.assertEqual(["diarization"], marked())


class Embedded(night.Night):
    """The model that comes with the program, on the demo's recording of three voices."""

    def heard(self):
        """Who speaks when, as RTTM, by whatever model --diarize takes."""
        self.catalog = os.path.join(self.dir, "another.db" if os.path.exists(self.catalog) else "catalog.db")
        said = self.enqueue("--no-transcribe", "--diarize", self.archive).out
        self.assertIn("--diarize takes diarization-nano", flat(said))
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


if __name__ == "__main__":
    night.main()
