#!/usr/bin/env python3
"""What gpu-predict says for the design as it is: the shapes are the code's, the sums were computed by hand, and a
file of results is held against them, or refused with a sentence."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PREDICT = os.path.join(ROOT, "tools/dev/gpu-predict")


def predict(*options):
    return subprocess.run([sys.executable, PREDICT, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)


def speeds(*options):
    """The columns of windows/s, each model's: [floor, now, then]."""
    text = predict(*options).stdout
    return [[int(x) for x in re.findall(r"\*\*(\d+)\*\*", line)] for line in text.splitlines() if "**windows/s**" in line]


class Predict(unittest.TestCase):
    def test_shapes_are_the_codes(self):
        with open(os.path.join(ROOT, "workers/models/whisper/whisper_config.c"), encoding="utf-8") as f:
            presets = dict(re.findall(r'\{"([\w.-]+)", (?:true|false), \{([\d, ]+)\}\}', f.read()))
        with open(PREDICT, encoding="utf-8") as f:
            models = dict(re.findall(r'"([\w.-]+)": Model\(([\d, ]+)\)', f.read()))
        self.assertEqual(7, len(models))
        for name, numbers in models.items():
            d, mel, vocab, encoder, _, ffn, decoder = [int(n) for n in presets[name].split(",")][:7]
            shape = [int(n) for n in numbers.split(",")]
            self.assertEqual([d, ffn, encoder, decoder, vocab, mel], shape if len(shape) == 6 else shape + [80], name)

    def test_sums(self):
        large, turbo = speeds()
        self.assertEqual([[151, 105], [297, 201]], [large, turbo])
        self.assertEqual([[104, 76], [267, 185]], speeds("--cache", "16"))

    def test_each_part_of_the_design_makes_it_faster(self):
        for part in ("streams", "fp8"):
            for floor, now, then in speeds("--with", part, "--slots", "64"):
                self.assertGreater(then, now, part)
        both = speeds("--with", "streams,fp8")
        self.assertTrue(all(then > now for _, now, then in both))
        self.assertNotEqual(predict("--with", "diarize").stdout, predict().stdout)

    def test_a_slower_card_is_slower(self):
        self.assertLess(speeds("--card", "l4")[0][1], speeds("--card", "h100")[0][1])
        self.assertGreater(speeds("--tflops", "2000", "--tbs", "8")[0][1], speeds()[0][1])

    def results(self, text):
        f = tempfile.NamedTemporaryFile("w", suffix=".json", delete=False, encoding="utf-8")
        self.addCleanup(os.unlink, f.name)
        with f:
            f.write(text)
        return predict("--results", f.name)

    def test_results_stand_beside_predictions(self):
        bench = {"model": "large-v3-turbo", "precision": "bf16", "slots": 256, "tokens": 100, "mel_ms": 0.08,
                 "encoder_ms": 9.1, "cross_ms": 0.08, "step_ms": 2.0, "align_ms": 0.6, "windows_s": 86.5, "gelu": "exact", "cache": "16bit"}
        said = self.results(json.dumps({"device": "NVIDIA H200", "bench": [bench]}))
        self.assertEqual(0, said.returncode, said.stderr)
        self.assertIn("NVIDIA H200, measured", said.stdout)
        self.assertRegex(said.stdout, r"encoder, ms a window \| 4\.55 \| 9\.10 \| 2\.00 \|")
        self.assertRegex(said.stdout, r"word times, ms a window \| 0\.160 \| 0\.600 \| 3\.7\d \|")
        self.assertRegex(said.stdout, r"windows/s \| 174\.\d+ \| 86\.50 \| 0\.50 \|")
        bench["cache"] = "8bit"
        said = self.results(json.dumps({"device": "NVIDIA H200", "bench": [bench]}))
        self.assertRegex(said.stdout, r"turbo, bf16, 256 slots, GELU after the product, 8-bit caches")
        self.assertRegex(said.stdout, r"windows/s \| 188\.\d+ \| 86\.50 \| 0\.46 \|")

    def test_diarization_stands_beside_its_prediction(self):
        said = self.results(json.dumps({"device": "NVIDIA H200", "networks": [
            {"name": "diarization: both of them", "precision": p, "times_real_time": 260.0}
            for p in ("fp32", "tf32", "fp16", "bf16")]}))
        self.assertRegex(said.stdout, r"diarization, fp32 \| times real time \| 2024 \| 260 \| 0\.13 \|")
        self.assertRegex(said.stdout, r"diarization, tf32 \| times real time \| 2682 \| 260 \| 0\.10 \|")
        self.assertRegex(said.stdout, r"diarization, fp16 \| times real time \| 2704 \| 260 \| 0\.10 \|")
        self.assertNotIn("bf16", said.stdout)

    def test_an_emulated_device_is_no_measurement(self):
        said = self.results(json.dumps({"device": "Emulated GPU 0", "emulated": True}))
        self.assertIn("no figure was measured on a GPU", said.stdout)

    def test_what_are_no_results(self):
        for text in ("", "{", "[]", '{"bench": [{}]}', '{"bench": [{"model": "large-v3", "precision": "bf16"}]}', '{"device": 1}'):
            said = self.results(text)
            self.assertEqual((65, ""), (said.returncode, said.stdout), text)
            self.assertIn("not results of gpu-suite", said.stderr)
        self.assertEqual(64, predict("--with", "magic").returncode)
        self.assertEqual(64, predict("--models", "huge").returncode)
        self.assertEqual(64, predict("--slots", "0").returncode)


if __name__ == "__main__":
    unittest.main()
