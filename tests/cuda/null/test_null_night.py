#!/usr/bin/env python3
"""A whole night, every stage, on devices that answer at once and compute nothing ($NIGHTSHIFT_NULL_MODULE): real
files and decoders, the scheduler, workers and the catalog. What is heard is made up; that it arrives is not."""
import glob
import json
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../e2e"))
import night
import tiny_models

MODULE = os.environ.get("NIGHTSHIFT_NULL_MODULE", "")
RECORDINGS = ["12_en_long_90s.mp3", "13_es_long_45s.ogg", "04_es_clean.flac", "01_en_short.wav"]
STAGES = ["diarize", "embed-audio", "embed-text", "sounds", "transcribe"]


def counts(pattern):
    """name: sum, over all devices; and the number of these."""
    total, files = {}, glob.glob(pattern)
    for path in files:
        with open(path, encoding="ascii") as file:
            for line in file:
                name, number = line.split()
                total[name] = total.get(name, 0) + int(number)
    return total, len(files)


class NullNight(night.Night):
    def setUp(self):
        super().setUp()
        models = os.path.join(self.dir, "models")
        self.options = ["--vad=" + tiny_models.silero(os.path.join(models, "silero.safetensors")),
                        "--diarize=" + tiny_models.diarization(os.path.join(models, "voices")),
                        "--sounds=" + tiny_models.yamnet(os.path.join(models, "sounds")),
                        "--embed=" + tiny_models.encoder(os.path.join(models, "texts")),
                        "--embed-audio=" + tiny_models.clap(os.path.join(models, "clap")), "--word-timestamps"]
        for name in RECORDINGS:
            self.bring(name)

    def env(self, **more):
        return super().env(NIGHTSHIFT_DEVICES="", NIGHTSHIFT_CUDA_MODULE=MODULE, NIGHTSHIFT_NULL_GPUS="24GiB,24GiB",
                           NIGHTSHIFT_NULL_COUNTS=os.path.join(self.dir, "counts"), **more)

    def run_night(self, *options):
        self.enqueue(*self.options, self.archive)
        return self.run_to_end("--shard=30s", *options)

    def test_every_stage(self):
        said = self.run_night("--devices=cuda:0,cuda:1")
        self.assertEqual([(name, "done", len(RECORDINGS)) for name in STAGES],
                         self.sql("SELECT s.name, t.state, count(*) FROM task t JOIN stage s USING (stage_id) "
                                  "GROUP BY 1, 2 ORDER BY 1"), str(said))
        self.healthy()
        (length, segments, last), = self.sql("SELECT (SELECT sum(duration_ms) FROM media), count(*), max(end_ms) FROM segment")
        self.assertGreater(segments, length / 30000)
        self.assertGreater(last, 60000)
        self.assertRegex(self.text_of("12_en_long_90s.mp3"), r"\w+ .*\w")
        self.assertGreater(self.sql("SELECT count(*) FROM word")[0][0], segments)
        # Two speak in turn, and each sentence is somebody's.
        (speakers, turns), = self.sql("SELECT count(DISTINCT k.speaker_id), count(*) FROM turn u JOIN speaker k USING (speaker_id) "
                                      "JOIN place p ON p.media_id = k.media_id WHERE p.path LIKE '%12_en_long_90s.mp3'")
        self.assertEqual(2, speakers)
        self.assertGreater(turns, 4)
        self.assertGreater(self.sql("SELECT count(*) FROM sound")[0][0], 0)
        self.assertEqual([(2 * len(RECORDINGS),)], self.sql("SELECT count(DISTINCT task_id) FROM embedding"))

    def test_plan_foretells_the_host(self):
        """How near it is: tools/dev/bench/night. What is measured depends on what else this machine does, and what
        bounds a night on its processors; so the figures become those of a card, and plan sees one processor."""
        def plan(*options):
            return self.nightshift("plan", "--devices=cuda:0", *options, status=0,
                                   preexec=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})).out

        archive = os.path.join(self.dir, "long")
        os.makedirs(archive)
        for i in range(2):
            subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-stream_loop", "9", "-i",
                            os.path.join(self.archive, RECORDINGS[0]), "-c", "copy", "-metadata", f"title={i}",
                            os.path.join(archive, f"{i}.mp3")], check=True)
        self.run_night("--devices=cuda:0")
        # What was measured is of this device and each model; the night with slots of its own is not.
        rates = self.sql("SELECT s.name, t.rate FROM tuning t JOIN stage s USING (model_hash) ORDER BY 1")
        self.assertEqual(STAGES, [name for name, rate in rates if rate > 0])
        self.shell("UPDATE tuning SET rate = 9000")
        self.enqueue(*self.options, archive)
        said = json.loads(plan("--json"))
        self.assertEqual({"measured"}, {stage["speed_is"] for stage in said["stages"]})
        self.assertEqual([0.4] * len(STAGES), [stage["device_seconds_an_hour"] for stage in said["stages"]])
        self.assertEqual(("processor", 1), (said["night"]["bound_by"], said["night"]["cores"]))
        said = plan()
        self.assertRegex(said, r"(?m)^    diarize +0\.400 measured +\d+\.\d\d estimate$")
        self.assertRegex(said, r"(?m)^Bound by   the processor's 1 core \(estimate\)\. Busy: devices \d+ %, cores 100 %,")
        self.run_to_end("--devices=cuda:0")
        # What is remembered was not measured again.
        self.assertEqual([(9000.0,)] * len(STAGES), self.sql("SELECT rate FROM tuning"))

    def test_what_is_measured_once(self):
        """Also of a network that computes in float32 alone: as a worker's first stage, where the transcription is done,
        and as another's companion."""
        late = [option for option in self.options if option.startswith(("--sounds", "--embed-audio"))]
        folders = [os.path.join(self.dir, name) for name in ("first", "companion", "first-again")]
        for folder, name in zip(folders, RECORDINGS[1:]):
            os.makedirs(folder)
            os.rename(os.path.join(self.archive, name), os.path.join(folder, name))
        for folder in folders:
            if not folder.endswith("companion"):
                self.enqueue(folder)
                self.run_to_end("--devices=cuda:0")
            self.enqueue(*late, folder)
            self.run_to_end("--devices=cuda:0")
            rates = self.sql("SELECT precision, rate > 0, rate = 9000 FROM tuning")
            self.assertEqual([("fp16", 1, int(folder != folders[0]))] * 3, rates)
            self.shell("UPDATE tuning SET rate = 9000")
        self.assertEqual([], self.sql("SELECT 1 FROM task WHERE state <> 'done'"))
        # Of a companion the speed alone is known, and no batch.
        self.shell("DELETE FROM tuning WHERE predicted_bytes > 0")
        said = " ".join(self.nightshift("status", status=0).out.split())
        self.assertRegex(said, r"Devices embed-audio on GPU-[-0-9]+, fp16: 9,000 x real time Jobs")

    def test_fp8_is_for_one_capability_alone(self):
        def plan(capability, precision, status):
            said = self.nightshift("plan", "--json", "--devices=cuda:0", "--precision=" + precision, status=status,
                                   env={"NIGHTSHIFT_NULL_CC": capability})
            return json.loads(said.out)["stages"][0]["devices"][0]

        for capability in ("8.6", "8.9", "9.0", "10.0", "12.0"):
            with self.subTest(capability):
                self.assertEqual("fp16", plan(capability, "auto", 0)["precision"])
                if capability == "9.0":
                    self.assertEqual("fp8", plan(capability, "fp8", 0)["precision"])
                else:
                    self.assertIn("it has no fp8; it has fp32, tf32, fp16, bf16, int8",
                                  plan(capability, "fp8", 69)["why"])
        # Nor have other stages, but for those that compute in float32 whatever is asked for.
        self.enqueue("--no-transcribe", *(option for option in self.options if option.startswith(("--sounds", "--embed-audio"))),
                     self.archive)
        said = json.loads(self.nightshift("plan", "--json", "--devices=cuda:0", "--precision=fp8", status=69,
                                          env={"NIGHTSHIFT_NULL_CC": "8.9"}).out)
        fit = {stage["stage"]: stage["devices"][0] for stage in said["stages"]}
        self.assertEqual((True, "fp32"), (fit["sounds"]["fits"], fit["sounds"]["precision"]))
        self.assertIn("it has no fp8", fit["embed-audio"]["why"])

    def test_calls_are_counted(self):
        self.run_night("--devices=cuda:0")
        total, devices = counts(os.path.join(self.dir, "counts.*"))
        self.assertGreaterEqual(devices, 1)
        for call in ("mel", "record_run", "align", "lstm", "conv2d", "filter_bank", "attention_spans"):
            self.assertGreater(total[call], 0, call)
        # Each sample goes up at least once for windows, voice activity, speakers, sounds and CLAP.
        samples = self.sql("SELECT sum(duration_ms) FROM media")[0][0] * 16
        self.assertGreater(total["bytes_up"], 4 * samples * 3)
        self.assertGreater(total["bytes_down"], 0)


if __name__ == "__main__":
    if not os.path.exists(MODULE):
        print("skipped: the module is not built: ninja ns_cuda_null")
        sys.exit(77)
    night.main()
