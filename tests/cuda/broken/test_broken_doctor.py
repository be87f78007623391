#!/usr/bin/env python3
"""`nightshift doctor` and the start of a run among broken libraries of NVIDIA's.

    test_broken_doctor.py MODULE FAKES

MODULE is the emulated one, so that a device is there and its libraries alone decide; that the machine
has the hardware is a folder that stands for /proc and /sys. What the module says is held by
test_broken.py; here it must arrive: as a line of doctor, in its exit status, and before a run begins.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ["NIGHTSHIFT"]
MODULE, FAKES = (os.path.realpath(p) for p in sys.argv[1:3])
DOUBLES = os.path.dirname(MODULE)  # cuBLASLt and cuDNN of the emulator
SAMPLE = os.path.join(os.environ["NIGHTSHIFT_SOURCE_DIR"], "tests/samples/01_en_short.wav")
UNAVAILABLE = 69


class Doctor(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="nightshift-doctor-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.libs = os.path.join(self.dir, "libs")
        os.mkdir(self.libs)
        for name in os.listdir(DOUBLES):
            if name.startswith(("libcublasLt", "libcudnn", "libnvrtc")):
                shutil.copy(os.path.join(DOUBLES, name), self.libs)
        root = os.path.join(self.dir, "root")
        os.makedirs(f"{root}/proc/driver/nvidia/gpus/0")
        with open(f"{root}/proc/driver/nvidia/version", "w", encoding="ascii") as f:
            f.write("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  x\n")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HF_", "NIGHTSHIFT_", "CUDA_"))}
        self.env.update(HOME=self.dir, NIGHTSHIFT_CATALOG=os.path.join(self.dir, "c.db"), NIGHTSHIFT_SYSTEM_ROOT=root,
                        NIGHTSHIFT_CUDA_MODULE=MODULE, NIGHTSHIFT_CUDA_LIBS=self.libs, NIGHTSHIFT_PROBE_SECONDS="60",
                        LD_LIBRARY_PATH=DOUBLES)

    def run_it(self, *args):
        return subprocess.run([PROGRAM, *args], env=self.env, cwd=self.dir, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=300, check=False)

    def put(self, name, fake):
        shutil.copy(os.path.join(FAKES, fake + ".so"), os.path.join(self.libs, name))

    def broken(self, name, words, todo, before_a_run=None):
        """doctor has the line, and says that the machine is not ready; a run with work to do does not
        begin, and says why (the first thing that is broken: before_a_run, where that is another)."""
        self.assertEqual(0, self.run_it("enqueue", "--quiet", "--model=whisper-nano", SAMPLE).returncode)
        done = self.run_it("doctor", "--json")
        self.assertEqual(UNAVAILABLE, done.returncode, done.stdout + done.stderr)
        self.assertNotIn("crashed", done.stdout)
        lines = [c for c in json.loads(done.stdout)["checks"] if c["name"] == name]
        self.assertEqual(["broken"], [c["state"] for c in lines], done.stdout)
        self.assertIn(words, lines[0]["found"])
        self.assertIn(todo, lines[0]["do"])
        self.assertNotEqual("", lines[0]["wanted"])
        people = self.run_it("doctor")
        self.assertIn(name, people.stdout)
        self.assertEqual(UNAVAILABLE, people.returncode)
        for devices in ([], ["--devices", "cuda:0"]):
            run = self.run_it("run", *devices)
            self.assertEqual(UNAVAILABLE, run.returncode, run.stdout + run.stderr)
            self.assertIn(before_a_run or words, run.stderr)
            self.assertNotIn("crashed", run.stderr)

    def test_well(self):
        done = self.run_it("doctor", "--json")
        checks = {c["name"]: c for c in json.loads(done.stdout)["checks"]}
        for name in ("driver", "cuBLASLt", "cuDNN", "products", "kernels", "attention"):
            self.assertEqual("ok", checks[name]["state"], done.stdout)

    def test_old_cudnn(self):
        self.put("libcudnn.so.9", "cudnn_91")
        self.broken("cuDNN", "is cuDNN 9.1.0, but 9.13.1", "libcudnn9-cuda-")

    def test_missing_part(self):
        os.remove(os.path.join(self.libs, "libcudnn_graph.so.9"))
        self.broken("cuDNN graph", "libcudnn_graph.so.9", "reinstall", "a part of cuDNN is missing")

    def test_part_cut_short(self):
        with open(os.path.join(self.libs, "libcudnn_ops.so.9"), "r+b") as f:
            f.truncate(1000)
        self.broken("cuDNN ops", "not a whole library", "reinstall")

    def test_old_driver(self):
        self.env["NIGHTSHIFT_EMULATED_FAIL"] = "olddriver"
        self.broken("driver", "for CUDA 11.4 at most", "Debian 12 has 535 and Debian 13 has 550")

    def test_old_cublas(self):
        self.put("libcublasLt.so.13", "cublaslt_12")
        self.broken("cuBLASLt", "is cuBLAS 12.9, but 13.x is wanted", "libcublas-13-0")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
