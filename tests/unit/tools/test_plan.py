#!/usr/bin/env python3
"""`nightshift plan`: what it says of devices, models and time, in 80 columns and as JSON, and that it
changes nothing. The devices are simulated; nothing here transcribes."""
import fcntl
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

from program import PROGRAM, wav

SOURCE = os.environ["NIGHTSHIFT_SOURCE_DIR"]


class Plan(unittest.TestCase):
    def setUp(self):
        self.dir = os.path.realpath(tempfile.mkdtemp(dir="."))
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.catalog = os.path.join(self.dir, "c.db")

    def run_it(self, *args, devices="", status=0):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("XDG_", "HF_", "NIGHTSHIFT_", "CUDA_"))}
        env.update(HOME=self.dir, NIGHTSHIFT_CATALOG=self.catalog, TZ="UTC")
        if devices:
            env["NIGHTSHIFT_DEVICES"] = devices
        done = subprocess.run([PROGRAM, *args], capture_output=True, env=env, cwd=self.dir, text=True,
                              stdin=subprocess.DEVNULL, timeout=120, check=False)
        self.assertEqual(status, done.returncode, done.stdout + done.stderr)
        return done

    def plan(self, *args, **kw):
        return json.loads(self.run_it("plan", "--json", *args, **kw).stdout)

    def text(self, *args, **kw):
        out = self.run_it("plan", *args, **kw).stdout
        for line in out.splitlines():
            if self.dir not in line:  # a path is as long as it is
                self.assertLessEqual(len(line), 80, line)
            self.assertEqual(line.rstrip(), line)
        return out

    def enqueue(self, count, seconds=1, *options):
        archive = os.path.join(self.dir, "archive")
        os.makedirs(archive, exist_ok=True)
        for i in range(count):
            with open(os.path.join(archive, f"{i}.wav"), "wb") as file:
                file.write(wav(i, 16000 * seconds))
        self.run_it("enqueue", "--quiet", "--model=whisper-nano", *options, archive)

    def test_without_a_catalog(self):
        plan = self.plan(devices="cpu")
        self.assertFalse(plan["catalog_exists"] or plan["waiting"])
        self.assertTrue(plan["fits"])
        self.assertIsNone(plan["seconds"])
        self.assertIsNone(plan["done_at"])
        self.assertEqual(["cpu"], [d["label"] for d in plan["devices"]])
        self.assertEqual("openai/whisper-small", plan["stages"][0]["model"])  # which is not here
        self.assertFalse(os.path.exists(self.catalog))
        out = self.text(devices="cpu")
        self.assertIn("there is no catalog yet", out)
        self.assertIn("transcribe with openai/whisper-small", out)
        self.assertNotIn("Done", out)
        # Memory of which a tenth of a GiB says nothing.
        self.assertRegex(self.text("--model=whisper-nano", devices="sim:4GiB"), r" [1-9]\d* MiB of 3\.6 GiB ")

    def test_a_checkpoint_of_openai(self):
        made = os.path.join(self.dir, "made")
        subprocess.run(["python3", os.path.join(SOURCE, "tests/unit/models/make_checkpoints.py"),
                        os.path.join(SOURCE, "workers/models/whisper-nano"), made],
                       check=True, timeout=120, stdin=subprocess.DEVNULL)
        folder = os.path.join(made, "openai")
        self.assertFalse(os.path.exists(os.path.join(folder, "config.json")))
        stage = self.plan("--model", folder, devices="cpu")["stages"][0]
        same = self.plan("--model=whisper-nano", devices="cpu")["stages"][0]
        self.assertEqual("", stage["error"])
        for key in ("fits", "slots", "windows", "predicted_bytes"):
            self.assertEqual(same["devices"][0][key], stage["devices"][0][key], key)

    def test_each_recording_counts_once_whichever_stage_it_waits_for(self):
        self.enqueue(3, 10)
        other = os.path.join(self.dir, "other")
        os.makedirs(other)
        for i in range(2):
            with open(os.path.join(other, f"{i}.wav"), "wb") as file:
                file.write(wav(50 + i, 160000))
        self.run_it("enqueue", "--quiet", "--model=whisper-nano", "--beam-size=2", other)
        plan = self.plan(devices="cpu")
        stages = plan["stages"]
        self.assertEqual([3, 2], [stage["recordings"] for stage in stages])
        self.assertEqual((5, 5, sum(stage["audio_ms"] for stage in stages)),
                         tuple(plan[key] for key in ("recordings", "unknown_lengths", "audio_ms")))
        self.assertIn("5 recordings in 2 stages, about 1 min", " ".join(self.text(devices="cpu").split()))

    def test_what_bounds_the_night(self):
        self.enqueue(2, 60, "--vad=off", "--diarize=diarization-nano")
        plan = self.plan(devices="cpu")
        night, stages = plan["night"], {s["stage"]: s for s in plan["stages"]}
        self.assertEqual({"transcribe", "diarize"}, set(stages))
        for stage in stages.values():
            self.assertEqual("estimate", stage["speed_is"])
            self.assertGreater(stage["device_seconds_an_hour"], 0)
            # The processor is the device: no thread works beside it.
            self.assertGreaterEqual(stage["processor_seconds_an_hour"], stage["device_seconds_an_hour"])
        self.assertEqual("processor", night["bound_by"])
        self.assertEqual(["PCM"], list(night["hours_by_format"]))
        hours = plan["audio_ms"] / 3.6e6
        host = night["decode_seconds_an_hour"] + night["other_seconds_an_hour"]
        compute = sum(s["processor_seconds_an_hour"] for s in stages.values())
        self.assertAlmostEqual(hours * (host + compute) / night["cores"], night["core_seconds"], 3)
        self.assertEqual(int(max(night["core_seconds"], night["device_seconds"])), plan["seconds"])
        out = self.text(devices="cpu")
        self.assertRegex(out, r"(?m)^    diarize +\d+\.\d+ estimate +\d+\.\d+ estimate$")
        self.assertRegex(out, r"(?m)^    decoding PCM 100 % +\d+\.\d+ estimate$")
        self.assertRegex(out, r"(?m)^Bound by   the processor's \d+ cores? \(estimate\)\.")

    def test_an_opened_file_costs_what_its_samples_cost(self):
        self.enqueue(1, 60)
        before = self.plan(devices="cpu")["night"]["decode_seconds_an_hour"]
        with sqlite3.connect(self.catalog) as db:
            db.execute("UPDATE media SET duration_ms = 60000, sample_rate_hz = 16000, channels = 1, codec = 'pcm_s16le'")
        db.close()
        night = self.plan(devices="cpu")["night"]
        self.assertAlmostEqual(before * 16000 / 88200, night["decode_seconds_an_hour"], 6)
        self.assertAlmostEqual(1 / 60, night["hours_by_format"]["PCM"], 6)

    def test_nothing_is_changed(self):
        self.enqueue(2)
        with open(self.catalog, "rb") as file:
            before = hashlib.sha256(file.read()).digest()
        with open(self.catalog + ".lock", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # a run is on
            self.plan(devices="cpu")
        with open(self.catalog, "rb") as file:
            self.assertEqual(before, hashlib.sha256(file.read()).digest())

    def test_devices_of_different_sizes(self):
        self.enqueue(3, seconds=2)
        plan = self.plan("--model", "large-v3", devices="sim:96GiB,sim:1GiB,sim:24GiB")
        on = plan["stages"][0]["devices"]
        self.assertEqual([True, False, True], [d["fits"] for d in on])
        for d in on:
            self.assertEqual(d["predicted_bytes"] <= d["budget_bytes"], d["fits"])
        self.assertAlmostEqual(0.9 * 96 * 2**30, on[0]["budget_bytes"], delta=2**20)
        self.assertIn("needs", on[1]["why"])
        self.assertIn(on[1]["would_fit"], ("tiny", "base", "small"))
        self.assertAlmostEqual(plan["stages"][0]["times_real_time"],
                               on[0]["times_real_time"] + on[2]["times_real_time"], places=6)
        self.assertEqual(["estimate"] * 2, [on[0]["speed_is"], on[2]["speed_is"]])
        self.assertEqual(3, plan["stages"][0]["recordings"])
        self.assertEqual(3, plan["stages"][0]["unknown_lengths"])
        self.assertEqual("no model 'large-v3'", plan["stages"][0]["error"][:19])
        out = self.text("--model", "large-v3", devices="sim:96GiB,sim:1GiB,sim:24GiB")
        self.assertIn("sim:1: does not fit: needs", out)
        self.assertIn("a model that would: " + on[1]["would_fit"], " ".join(out.split()))
        self.assertIn("guessed", out)
        self.assertIn("It is not here", out)
        self.assertIn("Done       in about", out)

    def test_nothing_fits(self):
        plan = self.plan("--model", "large-v3", devices="sim:1GiB", status=69)
        self.assertFalse(plan["fits"])
        self.enqueue(1)
        self.assertIn("Done       never", self.text("-m", "large-v3", devices="sim:1GiB", status=69))

    def test_devices_are_picked(self):
        devices = "sim:4GiB,sim:8GiB"
        plan = self.plan("--devices", "sim:1", devices=devices)
        self.assertEqual(["sim:1"], [d["device"] for d in plan["stages"][0]["devices"]])
        self.assertEqual([False, True], [d["used"] for d in plan["devices"]][:2])
        self.assertIn("; not used", self.text("--devices", "sim:1", devices=devices))
        done = self.run_it("plan", "--devices", "sim:7", devices=devices, status=64)
        self.assertIn("sim:7", done.stderr)

    def test_two_workers_share_the_processor(self):
        one = self.plan("--devices", "cpu", devices="cpu")["stages"][0]["devices"]
        two = self.plan("--devices", "cpu,cpu", devices="cpu")["stages"][0]["devices"]
        self.assertEqual((1, 2), (len(one), len(two)))
        self.assertAlmostEqual(one[0]["budget_bytes"] / 2, two[0]["budget_bytes"],
                               delta=one[0]["budget_bytes"] / 10)

    def test_wishes(self):
        on = self.plan("--precision", "fp32", "--slots", "3", devices="cpu")["stages"][0]["devices"][0]
        self.assertEqual(("fp32", 3), (on["precision"], on["slots"]))
        on = self.plan("--precision", "fp8", devices="cpu", status=69)["stages"][0]["devices"][0]
        self.assertFalse(on["fits"])
        self.assertIn("it has no fp8", on["why"])
        self.assertIn("fp64", self.run_it("plan", "--precision", "fp64", status=64).stderr)
        self.run_it("plan", "surplus", status=64)

    def test_what_was_measured_is_used(self):
        self.enqueue(1)
        on = self.plan(devices="cpu")["stages"][0]["devices"][0]
        self.assertEqual("estimate", on["speed_is"])
        with sqlite3.connect(self.catalog) as db:
            (model_hash,) = db.execute("SELECT model_hash FROM stage").fetchone()
            columns = [row[1] for row in db.execute("PRAGMA table_info(tuning)")]
            values = {"device_id": "cpu", "driver": "", "model_hash": model_hash,
                      "precision": on["precision"], "decoding": "beam_size=5 best_of=5", "slots": 5, "windows": 1, "rate": 123.5,
                      "predicted_bytes": 1, "peak_bytes": 1, "oom_count": 0,
                      "at": "2026-11-20T00:00:00.000Z", "ways": b""}
            self.assertEqual(set(), set(columns) - set(values))
            db.execute(f"INSERT INTO tuning ({', '.join(columns)}) "
                       f"VALUES ({', '.join('?' * len(columns))})", [values[c] for c in columns])
        db.close()
        on = self.plan(devices="cpu")["stages"][0]["devices"][0]
        self.assertEqual((5, "measured", 123.5, True),
                         (on["slots"], on["speed_is"], on["times_real_time"], on["remembered"]))
        self.assertIn("measured", self.text(devices="cpu"))

    def test_beams_and_words_take_more_and_are_slower(self):
        def of(*options):
            if os.path.exists(self.catalog):
                os.remove(self.catalog)
            self.enqueue(1, 1, "--vad=off", *options)
            return self.plan("--slots", "4", devices="cpu")["stages"][0]["devices"][0]

        fast = "--quality=fast"
        greedy, beams = of(fast), of("--beam-size=5", fast)
        words, both = of("--word-timestamps", fast), of("--beam-size=5", "--word-timestamps", fast)
        self.assertEqual([4] * 4, [on["slots"] for on in (greedy, beams, words, both)])
        size = {name: on["predicted_bytes"] for name, on in
                (("greedy", greedy), ("beams", beams), ("words", words), ("both", both))}
        # 16 more decoder caches of nano, in 16 bits or 32: of a text of 224 tokens, with prompt and end.
        with open(os.path.join(SOURCE, "workers/models/whisper-nano/config.json"),
                  encoding="utf-8") as file:
            config = json.load(file)
        cache = 2 * config["decoder_layers"] * 240 * config["d_model"]
        self.assertGreaterEqual(size["beams"] - size["greedy"], 16 * cache * 2)
        self.assertGreater(size["words"], size["greedy"])
        self.assertEqual(size["both"] - size["beams"], size["words"] - size["greedy"])
        self.assertLess(beams["times_real_time"], greedy["times_real_time"])

    def test_what_greedy_decoding_measured_is_not_for_beams(self):
        self.enqueue(1, 1, "--vad=off", "--beam-size=5", "--best-of=3", "--word-timestamps")
        on = self.plan(devices="cpu")["stages"][0]["devices"][0]
        self.assertEqual(4, on["slots"])  # of five branches each
        with sqlite3.connect(self.catalog) as db:
            (model_hash,) = db.execute("SELECT model_hash FROM stage").fetchone()
            for decoding, slots in (("", 5), ("beam_size=5 best_of=3 word_timestamps", 3)):
                db.execute("INSERT INTO tuning VALUES ('cpu', '', ?, ?, ?, ?, 1, 50, 1, 1, 0, "
                           "'2026-11-20T00:00:00.000Z', x'')",
                           (model_hash, on["precision"], decoding, slots))
        db.close()
        on = self.plan(devices="cpu")["stages"][0]["devices"][0]
        self.assertEqual((3, True), (on["slots"], on["remembered"]))

    def test_speeds_of_other_precisions_are_others(self):
        def stages():
            return {stage["stage"]: stage for stage in self.plan(devices="cpu")["stages"]}

        self.enqueue(1, 1, "--diarize=diarization-nano")
        # Speakers are told apart in float32 alone; their speed is remembered beside the transcription's.
        self.assertEqual("fp32", stages()["diarize"]["devices"][0]["precision"])
        now = stages()["transcribe"]["devices"][0]["precision"]
        with sqlite3.connect(self.catalog) as db:
            for precision, rate in ((now, 90), *((other, 7) for other in ("bf16", "fp16", "fp32", "int8", "tf32") if other != now)):
                db.execute("INSERT INTO tuning SELECT 'cpu', '', model_hash, ?, '', 1, 1, ?, 0, 0, 0, '2026', x'' "
                           "FROM stage WHERE name = 'diarize'", (precision, rate))
        db.close()
        self.assertEqual(90, stages()["diarize"]["times_real_time"])

    def test_an_empty_file_takes_no_time(self):
        self.enqueue(2, 60)
        with open(os.path.join(self.dir, "archive", "empty.wav"), "wb"):
            pass
        self.enqueue(0, 1, "--diarize=diarization-nano")
        with sqlite3.connect(self.catalog) as db:
            db.execute("UPDATE media SET duration_ms = 3600000 WHERE size_bytes > 0")
            db.execute("UPDATE task SET state = 'done' WHERE media_id IN (SELECT media_id FROM media WHERE size_bytes > 0)")
        db.close()
        plan = self.plan(devices="cpu")
        self.assertEqual([0, 0], [stage["audio_ms"] for stage in plan["stages"]])
        self.assertEqual((0, 0), (plan["audio_ms"], plan["seconds"]))
        self.assertIn("Done       in about 1.0 s", self.text(devices="cpu"))

    def test_stages_of_an_earlier_night_ran_together(self):
        self.enqueue(2, 60, "--vad=off", "--diarize=diarization-nano")
        with sqlite3.connect(self.catalog) as db:
            db.execute("UPDATE media SET duration_ms = 60000")
            db.execute("INSERT INTO shard (task_id, seq, start_ms, end_ms, language, language_prob, windows, wall_ms, device, "
                       "done_at) SELECT task_id, 0, 0, 60000, 'en', 0.9, 1, 2000 * stage_id, 'cpu', '2026-11-20T01:00:10.000Z' "
                       "FROM task WHERE media_id = 1")
            db.execute("UPDATE task SET shards_total = 1, shards_done = 1, state = 'done' WHERE media_id = 1")
        db.close()
        plan = self.plan(devices="cpu")
        self.assertEqual([120, 240], sorted(stage["device_seconds_an_hour"] for stage in plan["stages"]))
        # In these seconds the processor did all: how much of it each took is not known.
        self.assertEqual([None, None], [stage["processor_seconds_an_hour"] for stage in plan["stages"]])
        self.assertEqual("processor", plan["night"]["bound_by"])
        self.assertEqual(4, plan["seconds"])
        out = self.text(devices="cpu")
        self.assertRegex(out, r"(?m)^    diarize +\d+\.000 together$")
        self.assertRegex(out, r"(?m)^Bound by   the processor's \d+ cores? \(measured\)\.")
        # With a device that was not there nobody knows what runs beside what: they are added up.
        plan = self.plan("--devices=sim:0,cpu", devices="sim:4GiB")
        self.assertAlmostEqual(sum(stage["device_seconds_an_hour"] for stage in plan["stages"]) / 60,
                               plan["night"]["device_seconds"], 6)
        self.assertNotIn("together", self.text("--devices=sim:0,cpu", devices="sim:4GiB"))

    def test_what_an_earlier_run_was_like(self):
        self.enqueue(5)
        with sqlite3.connect(self.catalog) as db:
            db.execute("UPDATE media SET duration_ms = 60000")
            tasks = [task for task, in db.execute("SELECT task_id FROM task ORDER BY task_id")]
            # 10 s with two at once, an hour later 5 s; another device's are not counted.
            for task, device, wall, at in ((tasks[0], "cpu", 10000, "01:00:10.000"), (tasks[1], "cpu", 4000, "01:00:09.000"),
                                           (tasks[2], "cpu", 5000, "02:00:00.000"), (tasks[3], "sim:0", 10, "02:00:00.000")):
                db.execute("INSERT INTO shard (task_id, seq, start_ms, end_ms, language, "
                           "language_prob, windows, wall_ms, device, done_at) VALUES (?, 0, 0, 60000, 'en', 0.9, 1, ?, ?, ?)",
                           (task, wall, device, f"2026-11-20T{at}Z"))
            db.execute("UPDATE task SET shards_total = 1, shards_done = 1, state = 'done' WHERE task_id < ?", (tasks[4],))
        db.close()
        plan = self.plan(devices="cpu")
        on = plan["stages"][0]["devices"][0]
        self.assertEqual("measured", on["speed_is"])
        self.assertAlmostEqual(180 / 15, on["times_real_time"], 2)
        self.assertEqual(5, plan["seconds"])
        for wish in (["--slots", "3"], ["--threads", "1"], ["--model", "tiny"]):
            self.assertEqual("estimate", self.plan(*wish, devices="cpu")["stages"][0]["devices"][0]["speed_is"])

    def test_short_shards_are_written_in_groups(self):
        self.enqueue(2)
        with sqlite3.connect(self.catalog) as db:
            db.execute("UPDATE media SET duration_ms = 200000")
            (task,) = db.execute("SELECT min(task_id) FROM task").fetchone()
            # Ten at a time are written, each 100 ms: 200 s of audio in 1.91 s.
            for seq in range(200):
                db.execute("INSERT INTO shard (task_id, seq, start_ms, end_ms, language, "
                           "language_prob, windows, wall_ms, device, done_at) VALUES (?, ?, ?, ?, 'en', 0.9, 1, 10, 'cpu', ?)",
                           (task, seq, 1000 * seq, 1000 * seq + 1000,
                            f"2026-11-20T01:00:{seq // 100:02}.{seq // 10 % 10}00Z"))
            db.execute("UPDATE task SET shards_total = 200, shards_done = 200, state = 'done' WHERE task_id = ?", (task,))
        db.close()
        on = self.plan(devices="cpu")["stages"][0]["devices"][0]
        self.assertEqual("measured", on["speed_is"])
        self.assertAlmostEqual(200 / 1.91, on["times_real_time"], 1)

    def test_what_waits_for_its_transcription_has_a_length(self):
        self.enqueue(4)
        with sqlite3.connect(self.catalog) as db:
            db.execute("UPDATE media SET duration_ms = 60000 WHERE media_id < 4")
            db.execute("INSERT INTO stage (name, model, model_dir, model_hash, params, created_at, source_id) "
                       "VALUES ('embed-text', 'gone', '/nowhere', 'cc', '{}', '2026', 1)")
            db.execute("INSERT INTO task (media_id, stage_id, job_id, language, waits) "
                       "SELECT media_id, 2, 1, '', 'source' FROM media")
            # What failed is not transcribed, so that there will be nothing to embed.
            db.execute("UPDATE task SET state = 'failed' WHERE stage_id = 1 AND media_id = 1")
        db.close()
        stage, = [s for s in self.plan(devices="cpu", status=69)["stages"] if s["stage"] == "embed-text"]
        self.assertEqual((4, 4, 1, 180000),
                         tuple(stage[k] for k in ("recordings", "waiting_for_source", "unknown_lengths", "audio_ms")))

    def test_what_is_heard_by_channels_takes_as_many_times_as_long(self):
        self.enqueue(3, 60)
        said = " ".join(self.text(devices="cpu").split())
        self.assertIn("Recordings with a microphone on each channel take twice as long;", said)
        one = self.plan(devices="cpu")
        # An earlier hearing has found them, in another stage's task.
        connection = sqlite3.connect(self.catalog)
        with connection:
            connection.execute("UPDATE media SET duration_ms = 6000000")
        once = self.plan(devices="cpu")
        with connection:
            connection.execute("INSERT INTO source SELECT task_id, n, 'channel ' || n FROM task, "
                               "(SELECT 1 AS n UNION SELECT 2) WHERE task_id < 3")
        connection.close()
        twice = self.plan(devices="cpu")
        self.assertEqual((0, 0, 2), tuple(p["stages"][0]["heard_apart"] for p in (one, once, twice)))
        self.assertEqual(once["audio_ms"], twice["audio_ms"])
        self.assertAlmostEqual(5 / 3, twice["seconds"] / once["seconds"], 1)
        said = " ".join(self.text(devices="cpu").split())
        self.assertIn("2 of 3 are processed by channel or track; the estimate counts each.", said)

    def test_a_recording_that_was_begun_has_the_sources_that_were_found_in_it(self):
        self.enqueue(2)
        connection = sqlite3.connect(self.catalog)
        with connection:
            connection.execute("UPDATE media SET duration_ms = 60000")
            # Another stage found two sources in both.
            connection.execute("INSERT INTO stage (name, model, model_dir, model_hash, params, created_at) "
                               "VALUES ('sounds', 'gone', '/nowhere', 'cc', '{}', '2026')")
            connection.execute("INSERT INTO task (media_id, stage_id, job_id, language, state) "
                               "SELECT media_id, 2, 1, '', 'failed' FROM media")
            connection.execute("INSERT INTO source SELECT task_id, n, 'channel ' || n FROM task, "
                               "(SELECT 1 AS n UNION SELECT 2) WHERE stage_id = 2")

        def apart():
            stage, = [s for s in self.plan(devices="cpu")["stages"] if s["stage"] == "transcribe"]
            return stage["heard_apart"]

        self.assertEqual(2, apart())
        with connection:  # The transcription of the first one begins, and mixes its channels.
            connection.execute("UPDATE task SET shards_total = 2, shards_done = 1 WHERE task_id = 1")
        self.assertEqual(1, apart())
        with connection:  # It hears them apart.
            connection.execute("INSERT INTO source VALUES (1, 1, 'channel 1'), (1, 2, 'channel 2')")
        self.assertEqual(2, apart())
        connection.close()

    def test_a_paused_catalog_is_told(self):
        self.enqueue(1)
        self.run_it("pause", "--all")
        plan = self.plan(devices="cpu")
        self.assertTrue(plan["paused"] and plan["waiting"])
        self.assertIsNone(plan["done_at"])
        text = " ".join(self.text(devices="cpu").split())
        self.assertIn("until `nightshift resume`", text)
        self.assertRegex(text, r"Done in [^,]* after it goes on")

    def test_paused_recordings_are_told(self):
        self.enqueue(2)
        self.run_it("pause", os.path.join(self.dir, "archive"))
        self.assertFalse(self.plan(devices="cpu")["waiting"])
        self.assertIn("Waiting nothing: 2 recordings are paused. Next: nightshift resume ",
                      " ".join(self.text(devices="cpu").split()))


if __name__ == "__main__":
    unittest.main()
