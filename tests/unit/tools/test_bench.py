#!/usr/bin/env python3
"""`nightshift bench` on stages beside transcription: that it measures them, on each device; how fast
they are is no test's to say. Usage: test_bench.py (with NIGHTSHIFT in the environment)."""
import json
import os
import unittest

from test_program import Program

NANO = os.path.join(os.environ["NIGHTSHIFT_SOURCE_DIR"], "workers/models/whisper-nano")


class Bench(Program):
    def test_stages_on_each_device(self):
        done = self.run_it("bench", "--devices=sim:0,sim:1", "--diarize=diarization-nano", "--rounds=1", "--json",
                           status=0, NIGHTSHIFT_DEVICES="sim:4GiB,sim:6GiB")
        result = json.loads(done.out)
        self.assertEqual([], result["models"])
        rows = result["stages"]
        self.assertEqual([("diarize", "diarization-nano", f"sim:{i}", "fp32") for i in (0, 1)],
                         [tuple(row[k] for k in ("stage", "model", "device", "precision")) for row in rows])
        for row in rows:
            self.assertGreater(row["times_real_time"], 0)
            self.assertAlmostEqual(1, row["items_per_second"] / row["times_real_time"], 6)
            self.assertGreaterEqual(row["vectors_per_item"], 1)  # what it measures with is heard as voices
        done = self.run_it("bench", "--devices=cpu", "--diarize=diarization-nano", "--rounds=1", status=0)
        self.assertRegex(done.out, r"(?m)^diarize +diarization-nano +fp32 +[\d.]+ +[\d.]+ +[\d.]+ +\d+ +[\d.]+$")
        self.assertEqual([], [line for line in done.out.splitlines() if len(line) > 80])
        done = self.run_it("bench", "--devices=cpu", "--diarize", "--rounds=1", status=78)
        self.assertIn("nightshift model pull diarization-ge2e", " ".join(done.err.split()))

    def test_names_of_enqueue(self):
        done = self.run_it("bench", "--model=whisper-nano", "--model=openai/whisper-tiny", "--rounds=1",
                           "--windows=1", "--slots=1", "--tokens=1", "--json", status=0)
        self.assertEqual(["whisper-nano", "openai/whisper-tiny"],
                         [row["model"] for row in json.loads(done.out)["models"]])

    def test_one_is_one(self):
        said = self.run_it("bench", "--model=nano", "--rounds=1", "--windows=1", "--slots=1", "--tokens=1", status=0).out
        self.assertIn("  1 slot, 1 window at once in the encoder, 1 token a window;", said)

    def test_a_folder_wins_over_random_weights_of_its_name(self):
        os.mkdir(os.path.join(self.dir, "openai"))
        os.symlink(NANO, os.path.join(self.dir, "openai/whisper-tiny"))
        done = self.run_it("bench", "--model=nano", "--model=openai/whisper-tiny", "--rounds=1", "--windows=1",
                           "--slots=1", "--tokens=1", "--json", status=0)
        self.assertEqual(1, len({row["slot_bytes"] for row in json.loads(done.out)["models"]}))

    def test_a_model_that_is_missing_has_no_table(self):
        done = self.run_it("bench", "--model=nosuch", status=64)
        self.assertIn("no dimensions are known for 'nosuch'", done.err)
        self.assertNotIn("windows", done.out)

    def test_refusals(self):
        for status, says, options in (
                (78, "cannot take the usual model for --sounds", ["--sounds"]),
                (78, "cannot use the model '/nowhere' for --embed", ["--embed=/nowhere"]),
                (64, "behind a '='", ["--sounds="]),
                (64, "unexpected argument '/somewhere'", ["--sounds", "/somewhere"]),
                (64, "sim:7", ["--devices=sim:7", "--diarize=diarization-nano"])):
            with self.subTest(options=options):
                done = self.run_it("bench", *options)
                self.assertIn(says, " ".join(done.err.split()))
                self.assertEqual(status, done.returncode, done.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
