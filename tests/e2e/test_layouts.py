#!/usr/bin/env python3
"""Whisper models in the layouts of other programs, from enqueue to text: each says what the same
weights say in Hugging Face's layout."""
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import night

MAKER = os.path.join(night.SOURCE, "tests/unit/models/make_layouts.py")


@functools.cache
def layouts():
    """The folder with all of them; made once, and removed at the end."""
    path = tempfile.mkdtemp(prefix="nightshift-layouts-")
    unittest.addModuleCleanup(shutil.rmtree, path)
    out = os.path.join(path, "made")
    subprocess.run([sys.executable, "-B", MAKER, night.MODEL, out], check=True)
    return out


class Layouts(night.Night):
    def said(self, model, *options):
        """What a model hears in a recording: times and texts."""
        self.nightshift("enqueue", "--vad=off", "--model=" + model, *options, self.archive,
                        "--again", status=0)
        self.run_to_end("--devices=cpu")
        self.assertEqual([], self.sql("SELECT * FROM failures"))
        return self.sql("SELECT start_ms, end_ms, text FROM transcript ORDER BY start_ms")

    def test_each_says_the_same(self):
        self.bring("01_en_short.wav")
        # Which heads the times of words are from, whisper.cpp's file does not say.
        for names, options in ((("ct2", "ct2list"), ["--word-timestamps"]), (["ggml.bin"], [])):
            want = self.said(night.MODEL, *options)
            self.assertGreater(len(" ".join(row[2] for row in want).split()), 5)
            for name in names:
                self.assertEqual(want, self.said(os.path.join(layouts(), name), *options), name)

    def test_packed_ones_say_what_they_stand_for(self):
        self.bring("01_en_short.wav")
        for name in ("ct2int", "lora", "lora2"):
            want = self.said(os.path.join(layouts(), name + "-same"))
            self.assertEqual(want, self.said(os.path.join(layouts(), name)), name)

    def test_a_file_of_whisper_cpp_in_a_folder_of_models(self):
        models = os.path.join(self.dir, "models")
        os.mkdir(models)
        path = os.path.join(models, "ggml-nano.bin")
        shutil.copy(os.path.join(layouts(), "ggml.bin"), path)
        env = {"NIGHTSHIFT_MODELS": models}
        self.assertIn(path, self.nightshift("model", "list", env=env, status=0).out)
        self.assertEqual(path + "\n", self.nightshift("model", "path", "ggml-nano.bin", env=env,
                                                      status=0).out)
        with open(path, "r+b") as file:
            file.truncate(5000000)
        self.bring("01_en_short.wav")
        answer = self.nightshift("enqueue", "--model=ggml-nano.bin", self.archive, env=env)
        self.assertNotEqual(0, answer.status)
        self.assertIn("it was not downloaded whole, fetch it again", answer.err)

    def test_a_model_of_2022(self):
        """It has no generation_config.json."""
        model = os.path.join(self.dir, "model")
        shutil.copytree(night.MODEL, model)
        os.remove(os.path.join(model, "generation_config.json"))
        self.bring("01_en_short.wav")
        self.assertTrue(self.said(model))


if __name__ == "__main__":
    night.main()
