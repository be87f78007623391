#!/usr/bin/env python3
"""doctor, and the start of a run, on machines that this one is not: with GPUs, with a CUDA module that
crashes, hangs, prints or does not fit. The module is tests/unit/gpu/fake_cuda.c, whose path is the
first argument; that the machine has the hardware is a folder that stands for /proc and /sys."""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.environ["NIGHTSHIFT"]
SOURCE = os.environ["NIGHTSHIFT_SOURCE_DIR"]
MODULE = os.path.realpath(sys.argv.pop(1))
USAGE, UNAVAILABLE, NO_MODEL = 64, 69, 78

# What the module does: what the sentence must say.
FAULTS = {
    "broken": "cuDNN ops: 9.1.0 (/opt/\\x1B[31mlibcudnn_ops.so.9)",
    "abi": "is of another build (interface ",
    "crash": "crashed (signal 6, Aborted) while the CUDA module was opened; last words: Invalid handle",
    "crash-devices": "crashed (signal 6, Aborted) while devices were asked for",
    "crash-check": "crashed (signal 6, Aborted) while libraries were looked at",
    "hang": "did not answer within 2 s while devices were asked for",
    "garbage": "talk nonsense while devices were asked for",
    "leave": "talk nonsense while devices were asked for",
    "none": "the NVIDIA driver is too old for CUDA 13.0",
}
# What one card of two does to the processes that ask it.
SICK = {
    "sick": "unknown error (cudaErrorUnknown)",
    "card-crash": "crashed (signal 6, Aborted) while a device was asked for its memory; last words: Invalid handle",
    "card-hang": "did not answer within 2 s while a device was asked for its memory",
}
SILERO = os.path.join(os.environ.get("NIGHTSHIFT_SHARED", ""), "models/silero-vad")


class Machine(unittest.TestCase):
    """A machine with two GPUs, as far as the system says."""

    def setUp(self):
        self.dir = os.path.realpath(tempfile.mkdtemp(dir="."))
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.catalog = os.path.join(self.dir, "c.db")
        self.tmp = os.path.join(self.dir, "tmp")
        os.mkdir(self.tmp)
        self.root = os.path.join(self.dir, "root")
        self.hardware(2)
        self.program = PROGRAM

    def hardware(self, gpus):
        shutil.rmtree(self.root, True)
        os.makedirs(self.root)
        for i in range(gpus):
            os.makedirs(f"{self.root}/proc/driver/nvidia/gpus/{i}")
        if gpus:
            with open(f"{self.root}/proc/driver/nvidia/version", "w", encoding="ascii") as file:
                file.write("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  x\n")

    def name_cards(self):
        for i, uuid in enumerate(("GPU-8f3c0000-aaaa", "GPU-8f3d0000-bbbb")):
            with open(f"{self.root}/proc/driver/nvidia/gpus/{i}/information", "w", encoding="ascii") as file:
                file.write(f"Model: \t\t NVIDIA Imaginary\nIRQ: \t\t 9\nGPU UUID: \t {uuid}\n")

    def env(self, fake="two", **more):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("XDG_", "HF_", "NIGHTSHIFT_", "CUDA_"))}
        env.update(HOME=self.dir, TMPDIR=self.tmp, NIGHTSHIFT_CATALOG=self.catalog, FAKE_CUDA=fake,
                   NIGHTSHIFT_SYSTEM_ROOT=self.root, NIGHTSHIFT_CUDA_MODULE=MODULE,
                   NIGHTSHIFT_PROBE_SECONDS="2" if fake in ("hang", "card-hang", "lost") else "60")
        env.update(more)
        return {k: v for k, v in env.items() if v is not None}

    def run_it(self, *args, status=None, fake="two", **more):
        done = subprocess.run([self.program, *args], capture_output=True, env=self.env(fake, **more), cwd=self.dir,
                              stdin=subprocess.DEVNULL, timeout=250, check=False)
        done.out, done.err = done.stdout.decode(), done.stderr.decode()
        if status is not None:
            self.assertEqual(status, done.returncode, done.out + done.err)
        return done

    def enqueue(self, *paths):
        self.run_it("enqueue", "--quiet", "--model=whisper-nano", *paths, status=0)

    def silence(self):
        path = os.path.join(self.dir, "silence.wav")
        data = bytes(32000)
        with open(path, "wb") as file:
            file.write(b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt "
                       + struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16)
                       + b"data" + struct.pack("<I", len(data)) + data)
        return path


class Doctor(Machine):
    def checks(self, *args, **more):
        done = self.run_it("doctor", "--quick", "--json", *args, **more)
        answer = json.loads(done.out)
        self.assertEqual(answer["ok"], done.returncode == 0)
        self.assertEqual(done.returncode == UNAVAILABLE, "broken" in [c["state"] for c in answer["checks"]])
        return answer

    def real_model(self):
        """A models directory with one that is none of the demo's: by its hash."""
        models = os.path.join(self.dir, "real")
        shutil.copytree(os.path.join(SOURCE, "workers/models/whisper-nano"), os.path.join(models, "whisper-other"))
        with open(os.path.join(models, "whisper-other", "config.json"), "a", encoding="utf-8") as file:
            file.write("\n")
        return models

    def test_a_machine_without_a_model(self):
        text = " ".join(self.run_it("doctor", "--quick", status=NO_MODEL).out.split())
        self.assertIn("warning model there is none to transcribe with: whisper-nano knows 330 words, and is for the demo wanted a "
                      "Whisper model do `nightshift setup` fetches one", text)
        self.assertTrue(text.endswith("Not ready: there is no model to transcribe with. Next: nightshift setup"), text)
        # Under another name it is the same.
        os.makedirs(os.path.join(self.dir, "models"))
        os.symlink(os.path.join(SOURCE, "workers/models/whisper-nano"), os.path.join(self.dir, "models", "whisper-large"))
        text = self.run_it("doctor", "--quick", status=NO_MODEL, NIGHTSHIFT_MODELS=os.path.join(self.dir, "models")).out
        self.assertIn("whisper-large, for --model in the demo", " ".join(text.split()))
        self.assertNotIn("Ready", text)

    def test_a_machine_in_order(self):
        answer = self.checks(status=NO_MODEL)
        first, second, cpu = answer["devices"]
        self.assertEqual(["cuda:0", "cuda:GPU-8f3c0000-aaaa", "NVIDIA Imaginary 96", "GPU-8f3c0000-aaaa",
                          "9.0", "580.95.05", 96 << 30, 92 << 30, True],
                         [first[k] for k in ("device", "name", "model", "id", "capability", "driver",
                                             "memory_total_bytes", "memory_free_bytes", "usable")])
        self.assertEqual(["fp32", "tf32", "fp16", "bf16", "int8"], second["precisions"])
        self.assertEqual("cpu", cpu["device"])
        self.assertTrue(all(c["do"] == "" for c in answer["checks"] if c["state"] == "ok"))
        text = " ".join(self.run_it("doctor", "--quick", status=0, NIGHTSHIFT_MODELS=self.real_model()).out.split())
        for part in ("CUDA 13.0, imaginary", "580.95 for CUDA 13.0", "capability 9.0", "24.0 GiB, 23.0 GiB free",
                     "Ready, with warnings.", "voice activity detection is off"):
            self.assertIn(part, text)
        if os.path.isdir(SILERO):
            os.symlink(SILERO, os.path.join(self.dir, "real", "silero-vad"))
            text = self.run_it("doctor", "--quick", status=0, NIGHTSHIFT_MODELS=os.path.join(self.dir, "real")).out
            self.assertTrue(text.endswith("\n\nReady.\n"), text)
            self.assertNotIn("voice activity detection is off", text)
        self.assertNotIn("trial", text)

    def test_faults(self):
        for fake, part in FAULTS.items():
            with self.subTest(fake=fake):
                answer = self.checks(status=UNAVAILABLE, fake=fake)
                broken = [c for c in answer["checks"] if c["state"] == "broken"]
                said = " | ".join(f"{c['name']}: {c['found']}" for c in broken)
                self.assertIn(part, said)
                self.assertTrue(all(c["wanted"] and c["do"] for c in broken))
                self.assertFalse([d for d in answer["devices"] if d["usable"] and d["device"] != "cpu"])
                text = self.run_it("doctor", "--quick", status=UNAVAILABLE, fake=fake).out
                words = " ".join(text.split())
                self.assertIn(" ".join(part.split(": ")[-1].split()).replace("cuDNN ops ", ""), words)
                self.assertIn("Something is broken: see above what to do.", text)
                for line in text.splitlines():  # the path of a file is one word, however long
                    self.assertTrue(len(line) <= 80 or len(line.split()) == 1 or len(line[19:].split()) == 1, line)
                self.assertNotIn("\033", text)

    def test_one_sick_card(self):
        for fake, part in SICK.items():
            with self.subTest(fake=fake):
                answer = self.checks(status=NO_MODEL, fake=fake)
                self.assertEqual([("cuda:0", True), ("cuda:1", False), ("cpu", True)],
                                 [(d["device"], d["usable"]) for d in answer["devices"]])
                [named] = [c for c in answer["checks"] if c["name"] == "cuda:1" and c["state"] == "warning"]
                self.assertIn("it is left out: ", named["found"])
                self.assertIn(part, named["found"])
                self.assertIn("dmesg", named["do"])
                self.assertEqual(23 * 4 << 30, answer["devices"][0]["memory_free_bytes"])

    def test_one_card_spoils_the_list(self):
        self.name_cards()
        answer = self.checks(status=NO_MODEL, fake="lost")
        self.assertEqual([("cuda:0", True), ("cuda:1", False), ("cpu", True)],
                         [(d["device"], d["usable"]) for d in answer["devices"]])
        self.assertEqual("580.95 for CUDA 13.0", [c["found"] for c in answer["checks"] if c["name"] == "driver"][0])
        said = {c["name"]: c["found"] for c in answer["checks"] if c["state"] == "warning"}
        self.assertIn("did not answer within 2 s while devices were asked for", said["CUDA"])
        self.assertIn("NVIDIA Imaginary, it is left out: the CUDA libraries did not answer", said["cuda:1"])
        # Nobody knows its memory.
        self.assertIn("cuda:1 NVIDIA Imaginary; cannot be used: the CUDA libraries did not answer",
                      " ".join(self.run_it("plan", status=0, fake="lost").out.split()))

    def test_a_card_that_computes_wrongly(self):
        done = self.run_it("doctor", "--json", status=UNAVAILABLE, fake="card-wrong")  # the trial fails in any case
        answer = json.loads(done.out)
        self.assertIn("it is left out: operations: products are wrong",
                      [c["found"] for c in answer["checks"] if c["name"] == "cuda:1" and c["state"] == "warning"][0])
        self.assertEqual([True, False], [d["usable"] for d in answer["devices"]][:2])

    def test_a_warning(self):
        self.assertEqual(["cuBLASLt"], [c["name"] for c in self.checks(status=NO_MODEL, fake="warning")["checks"]
                                        if c["state"] == "warning" and c["name"] not in ("memory", "model")])

    def test_what_a_library_prints_is_left_out(self):
        self.assertNotIn("hello from a library", self.run_it("doctor", "--quick", "--json", status=NO_MODEL,
                                                             fake="print").out)

    def test_thorough_unless_quick(self):
        # The trial fails on these devices, and must: nobody can compute on them.
        done = self.run_it("doctor", "--json", status=UNAVAILABLE)
        checks = {c["name"]: c for c in json.loads(done.out)["checks"]}
        self.assertEqual(["cuda:0: all are right", "cuda:1: all are right"], [
            c["found"] for c in json.loads(done.out)["checks"] if c["name"] == "operations"])
        self.assertEqual("ok", checks["trial cpu"]["state"], checks["trial cpu"])
        self.assertIn("9 of 9 words", checks["trial cpu"]["found"])
        for name in ("trial cuda:0", "trial cuda:1"):
            self.assertEqual("broken", checks[name]["state"])
            self.assertIn("--devices " + name[6:], checks[name]["do"])
        self.assertEqual([], os.listdir(self.tmp))

    def test_no_module(self):
        self.program = os.path.join(self.dir, "bin/nightshift")  # this build may have the module
        os.mkdir(os.path.dirname(self.program))
        shutil.copy(PROGRAM, self.program)
        answer = self.checks(status=UNAVAILABLE, NIGHTSHIFT_CUDA_MODULE=None)
        self.assertIn("-DNIGHTSHIFT_CUDA=ON", [c["do"] for c in answer["checks"] if c["name"] == "CUDA module"][0])
        self.hardware(0)
        answer = self.checks(status=NO_MODEL, NIGHTSHIFT_CUDA_MODULE=None)
        self.assertIn("this machine has no NVIDIA GPU", [c["found"] for c in answer["checks"]
                                                         if c["name"] == "GPU"][0])

    def test_where_the_module_is_found(self):
        self.program = os.path.join(self.dir, "bin/nightshift")
        os.mkdir(os.path.dirname(self.program))
        shutil.copy(PROGRAM, self.program)
        for place in ("bin", "lib/nightshift", "lib"):
            with self.subTest(place=place):
                path = os.path.join(self.dir, place, "nightshift-cuda.so")
                os.makedirs(os.path.dirname(path), exist_ok=True)
                shutil.copy(MODULE, path)
                answer = self.checks(status=NO_MODEL, NIGHTSHIFT_CUDA_MODULE=None)
                found = [c["found"] for c in answer["checks"] if c["name"] == "CUDA module"][0]
                self.assertEqual(path, os.path.normpath(found.split(",")[0]))
                os.remove(path)

    def test_a_module_that_is_not_there(self):
        answer = self.checks(status=UNAVAILABLE, NIGHTSHIFT_CUDA_MODULE="/nowhere/x.so")
        self.assertIn("/nowhere/x.so", json.dumps(answer["checks"]))

    def test_simulated_devices_that_make_no_sense(self):
        answer = self.checks(status=UNAVAILABLE, NIGHTSHIFT_DEVICES="sim:a lot")
        self.assertIn("NIGHTSHIFT_DEVICES", json.dumps(answer["checks"]))

    def test_the_trial_leaves_nothing_when_interrupted(self):
        doctor = subprocess.Popen([PROGRAM, "doctor", "--json"], env=self.env(), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        for _ in range(600):
            if os.listdir(self.tmp):
                break
            time.sleep(0.05)
        self.assertTrue(os.listdir(self.tmp))
        doctor.send_signal(signal.SIGINT)
        self.assertEqual(-signal.SIGINT, doctor.wait(60))
        self.assertEqual([], os.listdir(self.tmp))

    def test_a_trial_that_takes_too_long(self):
        done = self.run_it("doctor", "--json", "--limit", "1s", status=UNAVAILABLE,
                           NIGHTSHIFT_DEVICES="sim:1GiB*0.001")
        checks = {c["name"]: c for c in json.loads(done.out)["checks"]}
        self.assertIn("did not answer within 1 s", checks["trial sim:0"]["found"])

    def program_alone(self):
        """The program as on a machine without the source tree it was built from: its path is one that is nowhere."""
        models = os.path.join(SOURCE, "workers", "models").encode()
        with open(PROGRAM, "rb") as file:
            program = file.read()
        self.assertIn(models + b"\0", program)
        os.mkdir(os.path.join(self.dir, "bin"))
        self.program = os.path.join(self.dir, "bin", "nightshift")
        with open(self.program, "wb") as file:
            file.write(program.replace(models + b"\0", b"/nowhere".ljust(len(models), b"x") + b"\0"))
        os.chmod(self.program, 0o755)

    def models(self, *args, **more):
        return [c for c in self.checks(*args, status=NO_MODEL, **more)["checks"] if c["name"] == "model"]

    def test_models_that_are_not_there(self):
        self.program_alone()
        models = self.models()
        # One that transcribes has to be there; one that tells speakers apart is asked for by those who want it.
        self.assertEqual(["warning"] * 2, [c["state"] for c in models], models)
        self.assertIn("voice activity detection is off", models[0]["found"])
        self.assertEqual("there is none to transcribe with", models[1]["found"])
        for model in models:
            self.assertTrue(model["wanted"])
            self.assertIn("`nightshift setup`", model["do"])
        for name in ("diarization", "diarization-ge2e", "diarization-nano"):
            with self.subTest(name=name):
                shutil.copytree(os.path.join(SOURCE, "workers", "models", "diarization-nano"),
                                os.path.join(self.dir, "models", name))
                models = self.models(NIGHTSHIFT_MODELS=os.path.join(self.dir, "models"))
                self.assertEqual(["ok", "warning", "warning"], [c["state"] for c in models], models)
                self.assertIn("none to transcribe with", models[2]["found"])
                shutil.rmtree(os.path.join(self.dir, "models"))

    def test_the_model_of_voice_activity(self):
        folder = os.path.join(self.dir, "models", "silero-vad")
        os.makedirs(folder)
        found = [c for c in self.models(NIGHTSHIFT_MODELS=os.path.dirname(folder)) if "voice activity" in c["found"]]
        self.assertEqual(["warning"], [c["state"] for c in found], found)
        self.assertIn("`nightshift model pull silero-vad`", found[0]["do"])
        with open(os.path.join(folder, "silero_vad_16k.safetensors"), "wb") as file:
            file.write(bytes(100))
        found = [c for c in self.models(NIGHTSHIFT_MODELS=os.path.dirname(folder)) if "silero" in c["found"]]
        self.assertEqual(["warning"], [c["state"] for c in found], found)
        self.assertIn("model pull silero-vad", found[0]["do"])

    def test_a_model_of_voices_that_is_damaged(self):
        folder = os.path.join(self.dir, "models", "diarization-nano")
        source = os.path.join(SOURCE, "workers", "models", "diarization-nano")

        def find(part, quick):
            done = self.run_it("doctor", "--json", *["--quick"] * quick, status=NO_MODEL, NIGHTSHIFT_DEVICES="cpu",
                               NIGHTSHIFT_MODELS=os.path.dirname(folder))
            found = [c for c in json.loads(done.out)["checks"] if c["name"] == "model"
                     and c["found"].startswith("diarization-nano")]
            self.assertEqual(["warning"], [c["state"] for c in found], found)
            self.assertIn(part, found[0]["found"])
            self.assertTrue(found[0]["wanted"] and found[0]["do"])

        for file, data, part, quick in (("config.json", b"{", "config.json", True),
                                        ("config.json", b'{"model_type": "bert"}', "config.json", True),
                                        ("embedding.safetensors", None, "embedding.safetensors is missing", True),
                                        ("embedding.safetensors", b"\x08" + bytes(7), "embedding.safetensors", True),
                                        ("segmentation.safetensors", "embedding.safetensors", "", False)):
            with self.subTest(file=file, data=data):
                shutil.rmtree(folder, True)
                shutil.copytree(source, folder)
                if data is None:
                    os.remove(os.path.join(folder, file))
                elif isinstance(data, str):
                    shutil.copy(os.path.join(folder, data), os.path.join(folder, file))
                else:
                    with open(os.path.join(folder, file), "wb") as out:
                        out.write(data)
                find(part, quick)


class Run(Machine):
    def test_faults_end_it_before_it_begins(self):
        self.enqueue(self.silence())
        for fake, part in FAULTS.items():
            with self.subTest(fake=fake):
                done = self.run_it("run", status=UNAVAILABLE, fake=fake)
                self.assertIn(part, done.err)
                self.assertIn("--allow-cpu", done.err)
                self.assertNotIn("\033", done.err)
                self.assertEqual(1, len(done.err.splitlines()), done.err)
                done = self.run_it("run", "--devices", "cuda:1", "--allow-cpu", status=UNAVAILABLE, fake=fake)
                self.assertIn("cuda:1", done.err)
                self.assertIn("cannot be used", done.err)
                self.assertIn(part, done.err)

    def test_one_sick_card_is_left_out(self):
        self.enqueue(self.silence())
        done = self.run_it("run", status=UNAVAILABLE, fake="card-crash")
        self.assertRegex(done.err, "warning: cuda:1: .*it is left out: .*crashed")
        # No worker gets further than that; it saw its own card alone.
        self.assertIn("device GPU-8f3c0000-aaaa is imaginary, seen as GPU-8f3c0000-aaaa", done.err)
        self.assertNotIn("device GPU-8f3d0000-bbbb is imaginary", done.err)
        told = json.loads(self.run_it("report", "--json", status=0).out)["device_events"]
        self.assertEqual([("device-warning", "cuda:1"), ("worker-aside", "cuda:GPU-8f3c0000-aaaa")],
                         [(e["kind"], e["device"]) for e in told])
        self.assertIn("crashed (signal 6", told[0]["text"])
        done = self.run_it("run", "--devices=cuda:1", status=UNAVAILABLE, fake="card-crash")
        self.assertIn("cuda:1 (NVIDIA Imaginary 24) cannot be used: the CUDA libraries crashed", done.err)

    def put(self, path, text):
        os.makedirs(os.path.dirname(self.root + path), exist_ok=True)
        with open(self.root + path, "w", encoding="ascii") as file:
            file.write(text + "\n")

    def test_each_worker_on_the_node_of_its_card(self):
        own = sorted(os.sched_getaffinity(0))
        if len(own) < 2:
            self.skipTest("one processor has no nodes")
        self.enqueue(self.silence())

        def seen(*args):
            said = self.run_it("run", *args, status=UNAVAILABLE).err
            return dict(re.findall(r"device (\S+) is imaginary, seen as \S+, from (\d+) processors", said))
        first, second = "GPU-8f3c0000-aaaa", "GPU-8f3d0000-bbbb"
        everywhere = str(len(own))
        self.assertEqual({first: everywhere, second: everywhere}, seen())  # nothing is known of nodes
        self.put("/sys/devices/system/node/node0/cpulist", str(own[0]))
        self.put("/sys/bus/pci/devices/0000:01:00.0/numa_node", "0")
        self.put("/sys/bus/pci/devices/0000:02:00.0/numa_node", "0")
        self.assertEqual({first: everywhere, second: everywhere}, seen())  # one node
        self.put("/sys/devices/system/node/node1/cpulist", ",".join(map(str, own[1:])))
        self.assertEqual({first: everywhere, second: everywhere}, seen())  # both cards are on one of two
        self.put("/sys/bus/pci/devices/0000:02:00.0/numa_node", "1")
        self.assertEqual({first: "1", second: str(len(own) - 1)}, seen())
        self.assertEqual({first: everywhere}, seen("--devices=cuda:0"))  # the other node would idle

    def test_the_processor_instead(self):
        self.enqueue(self.silence())
        done = self.run_it("run", "--allow-cpu", status=0, fake="crash")
        self.assertRegex(done.err, "warning: no GPU: the CUDA libraries crashed .*working on the processor")
        self.assertIn("1 recording done", done.out)

    def test_the_processor_by_name_looks_at_nothing(self):
        self.enqueue(self.silence())
        began = time.monotonic()
        done = self.run_it("run", "--devices", "cpu", status=0, fake="hang", NIGHTSHIFT_PROBE_SECONDS="200")
        self.assertLess(time.monotonic() - began, 150)
        self.assertNotIn("no GPU", done.err)

    def test_without_hardware_the_processor_works(self):
        self.hardware(0)
        self.enqueue(self.silence())
        done = self.run_it("run", status=0, NIGHTSHIFT_CUDA_MODULE=None)
        self.assertIn("no GPU: this machine has no NVIDIA GPU; working on the processor", done.err)
        self.assertNotIn("warning", done.err)
        done = self.run_it("run", "--no-allow-cpu", status=UNAVAILABLE, NIGHTSHIFT_CUDA_MODULE=None)
        self.assertIn("--no-allow-cpu was given", done.err)

    def test_devices_that_do_not_exist_are_refused_when_nothing_waits(self):
        self.enqueue(self.dir)
        for devices, part in (("cuda:2", "cuda:0 (NVIDIA Imaginary 96), cuda:1 (NVIDIA Imaginary 24), cpu"),
                              ("cuda:0,cuda:0", "named twice"), ("nonsense", "there is no device 'nonsense'"),
                              ("cuda:GPU-8f3", "could be cuda:0 or cuda:1")):
            with self.subTest(devices=devices):
                done = self.run_it("run", "--devices", devices, status=USAGE)
                self.assertIn(part, done.err)
        self.assertIn("Nothing was waiting", self.run_it("run", "--devices", "cuda:1", status=0).out)

    def test_a_warning_is_said_once(self):
        self.enqueue(self.dir)
        done = self.run_it("run", status=0, fake="warning")
        self.assertEqual(1, len(re.findall("warning: cuBLASLt: 12.0 .*; wanted: 13.0 or later; update", done.err)),
                         done.err)

    def test_no_slower_without_a_gpu(self):
        self.hardware(0)
        self.enqueue(self.dir)
        times = {devices: [] for devices in ("auto", "cpu")}
        for _ in range(7):
            for devices, took in times.items():
                began = time.monotonic()
                self.run_it("run", "--quiet", "--devices", devices, status=0, NIGHTSHIFT_CUDA_MODULE=None)
                took.append(time.monotonic() - began)
        self.assertLess(min(times["auto"]) - min(times["cpu"]), 0.05, times)


class Parts(Machine):
    """Two tasks of an array on one machine: each has the GPU that it is shown, by whatever name."""

    def task(self, part, shown, fake):
        return subprocess.Popen([self.program, "run", "--no-progress", "--part", part], cwd=self.dir,
                                env=self.env(fake, CUDA_VISIBLE_DEVICES=shown), stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def test_each_its_own(self):
        for i in range(2):
            shutil.copy(self.silence(), os.path.join(self.dir, f"{i}.wav"))
            with open(os.path.join(self.dir, f"{i}.wav"), "ab") as file:
                file.write(bytes(2 + i))
        os.unlink(os.path.join(self.dir, "silence.wav"))
        self.enqueue(self.dir)
        self.run_it("split", "--quiet", "--into=2", "--output=parts", status=0)
        for fake, shown, ids in (("two", ("0", "1"), ("GPU-8f3c0000-aaaa", "GPU-8f3d0000-bbbb")),
                                 ("two", ("GPU-8f3c", "GPU-8f3d0000-bbbb"), ("GPU-8f3c0000-aaaa", "GPU-8f3d0000-bbbb")),
                                 ("mig", ("MIG-5a1e0000-cccc", "MIG-5a1f"), ("MIG-5a1e0000-cccc", "MIG-5a1f0000-dddd"))):
            with self.subTest(shown=shown):
                tasks = [self.task(f"parts/part-000{i}.db", shown[i], fake) for i in range(2)]
                said = [task.communicate(timeout=250)[1] for task in tasks]
                for i in range(2):
                    # No worker gets further than that: the GPU is imaginary.
                    self.assertIn(f"device {ids[i]} is imaginary, seen as {shown[i]}", said[i])
                    self.assertNotIn(ids[1 - i], said[i])
                    self.assertEqual(UNAVAILABLE, tasks[i].returncode, said[i])


class Probe(Machine):
    """The hidden command, as another program may call it."""

    def test_lines_of_json(self):
        lines = [json.loads(line) for line in self.run_it("probe", status=0, fake="print").out.splitlines()]
        self.assertEqual({"end": True}, lines[-1])
        self.assertEqual(2, len([1 for line in lines if "device" in line]))
        thorough = self.run_it("probe", "--thorough", status=0).out
        self.assertNotIn("all are right", thorough)  # of several, each is asked in a process of its own
        for i, uuid in enumerate(("GPU-8f3c0000-aaaa", "GPU-8f3d0000-bbbb")):
            card = self.run_it("probe", "--card", uuid, "--thorough", status=0).out
            self.assertIn("all are right", card)
            self.assertNotIn("580.95 for", card)  # the libraries were looked at before
            self.assertIn("580.95 for", self.run_it("probe", "--alone", uuid, status=0).out)
            [device] = [json.loads(line)["device"] for line in card.splitlines() if '"device"' in line]
            self.assertEqual((uuid, (92, 23)[i] << 30), (device["uuid"], device["free"]))

    def test_wrong_arguments(self):
        self.run_it("probe", "--frobnicate", status=USAGE)


if __name__ == "__main__":
    unittest.main(verbosity=2)
