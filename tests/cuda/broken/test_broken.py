#!/usr/bin/env python3
"""The CUDA module among libraries that are missing, old, incomplete or mixed.

    test_broken.py FINDINGS MODULE FAKES [--emulated]

Each case puts fakes (fake_*.c) into a directory, starts FINDINGS (findings.c) on the module in a
process of its own, and looks at what was said: the state, the sentence, and what to do. A crash, and
a call into a library that does not fit, end that process by a signal, which fails the case.

--emulated: MODULE computes on the processor and always has a device; what is about the driver is left
out, and a broken library must then keep the device from being opened.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

FINDINGS, MODULE, FAKES = sys.argv[1:4]
EMULATED = "--emulated" in sys.argv
WELL, WARNING, BROKEN = 0, 1, 2
PARTS = {"graph": "part_graph", "ops": "part_ops", "cnn": "part_cnn", "adv": "part_adv",
         "heuristic": "part_other", "engines_precompiled": "part_other", "engines_runtime_compiled": "part_other"}
WHOLE = {"libcublasLt.so.13": "cublaslt_13", "libcudnn.so.9": "cudnn", "libnvrtc.so.13": "nvrtc",
         **{f"libcudnn_{part}.so.9": fake for part, fake in PARTS.items()}}


class Said:
    """What the module said: findings by name, and the outcomes of devices() and open()."""

    def __init__(self, text):
        self.findings, self.text = {}, text
        for line in text.splitlines():
            kind, *rest = line.split("\t")
            if kind == "check":
                self.findings.setdefault(rest[1], []).append((int(rest[0]), *rest[2:]))
            elif kind in ("devices", "open"):
                setattr(self, kind, (int(rest[0]), rest[1]))

    def one(self, name):
        return self.findings.get(name, [(None, "", "", "")])[0]


class Broken(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.mkdtemp(prefix="nightshift-broken-")
        self.addCleanup(shutil.rmtree, self.place)

    def put(self, files, under="."):
        """Fakes into a directory under their real names; a name without a fake is left out."""
        folder = os.path.join(self.place, under)
        os.makedirs(folder, exist_ok=True)
        for name, fake in files.items():
            if fake is not None:
                shutil.copy(os.path.join(FAKES, fake + ".so"), os.path.join(folder, name))
        return folder

    def ask(self, prefix=(), **env):
        full = {k: v for k, v in os.environ.items()
                if k not in ("CUDA_VISIBLE_DEVICES", "NIGHTSHIFT_CUDA_LIBS", "LD_LIBRARY_PATH")}
        full.update(env)
        for thorough in ([], ["--thorough"]):
            done = subprocess.run([*prefix, FINDINGS, MODULE, *thorough], env=full, capture_output=True, text=True,
                                  timeout=120)
            self.assertEqual(done.returncode, 0, f"{thorough} ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return Said(done.stdout)

    def with_libs(self, **changes):
        """The whole set of fakes with changes: file name (dots as __) to fake or None."""
        files = {**WHOLE, **{k.replace("__", "."): v for k, v in changes.items()}}
        return self.ask(NIGHTSHIFT_CUDA_LIBS=self.put(files))

    def says(self, said, name, state, found, todo=""):
        finding = said.one(name)
        self.assertEqual(finding[0], state, f"{name}: {finding}\n{said.text}")
        self.assertIn(found, finding[1], said.text)
        self.assertIn(todo, finding[3], said.text)

    def opens_not(self, said, words):
        self.assertNotEqual(said.open[0], 0, said.text)
        if EMULATED:  # else the driver is missing first
            self.assertIn(words, said.open[1], said.text)


class Driver(Broken):
    """libcuda.so.1: absent, a stub, or one that fails in each of its ways."""

    def setUp(self):
        super().setUp()
        if EMULATED:
            self.skipTest("the emulated module needs no driver")

    def fake(self, error, version=13000, **env):
        folder = self.put({"libcuda.so.1": "cuda"}, "driver")
        return self.ask(LD_LIBRARY_PATH=folder, FAKE_CUDA_ERROR=str(error), FAKE_CUDA_VERSION=str(version), **env)

    def test_none(self):
        if subprocess.run(["sh", "-c", "ldconfig -p | grep -q 'libcuda[.]so[.]1'"]).returncode == 0:
            self.skipTest("this machine has an NVIDIA driver")
        said = self.ask()
        self.assertIn(said.one("driver")[0], (WARNING, BROKEN), said.text)
        self.assertIn("libcuda.so.1 is not to be found", said.one("driver")[1])
        self.assertIn("version 580 or later", said.one("driver")[2])
        self.assertEqual(said.devices[0], -5)
        self.assertIn("driver", said.devices[1])
        self.assertIn("driver", said.open[1])
        self.assertNotIn("devices", said.findings)  # one sentence about one cause

    def test_stub_of_the_toolkit(self):
        stub = "/usr/local/cuda/lib64/stubs/libcuda.so"
        if not os.path.exists(stub):
            self.skipTest("no toolkit with stubs here")
        folder = os.path.join(self.place, "stubs")
        os.mkdir(folder)
        shutil.copy(stub, os.path.join(folder, "libcuda.so.1"))
        said = self.ask(LD_LIBRARY_PATH=folder)
        self.says(said, "driver", BROKEN, "stub", "LD_LIBRARY_PATH")
        self.assertNotEqual(said.devices[0], 0)

    def test_not_a_library(self):
        folder = self.put({}, "driver")
        with open(os.path.join(folder, "libcuda.so.1"), "w") as f:
            f.write("not a library\n")
        said = self.ask(LD_LIBRARY_PATH=folder)
        self.says(said, "driver", BROKEN, "cannot be opened", "reinstall")

    def test_too_old(self):
        said = self.fake(0, version=12020)
        self.says(said, "driver", BROKEN, "for CUDA 12.2 at most", "newer driver")
        self.assertIn("Debian 12 has 535", said.one("driver")[3])
        self.assertIn("580", said.one("driver")[2])
        self.assertNotEqual(said.devices[0], 0)
        self.assertIn("too old", said.devices[1])

    def test_no_device(self):
        said = self.fake(100)
        self.says(said, "driver", WELL, "CUDA up to 13.0")
        self.says(said, "devices", BROKEN, "knows no GPU", "nvidia-smi")
        self.assertEqual(said.devices[0], -5)

    def test_hidden(self):
        said = self.fake(100, CUDA_VISIBLE_DEVICES="7")
        self.says(said, "devices", BROKEN, "CUDA_VISIBLE_DEVICES is '7'", "unset")
        self.assertIn("CUDA_VISIBLE_DEVICES", said.devices[1])

    def test_after_an_update(self):
        said = self.fake(803)
        self.says(said, "devices", BROKEN, "", "restart the machine")
        self.assertIn("restart", said.devices[1])

    def test_every_other_error(self):
        """No code that a driver may give brings the module down or leaves it without a sentence."""
        for error in (1, 2, 3, 34, 46, 101, 201, 304, 802, 804, 999, 12345):
            with self.subTest(error=error):
                said = self.fake(error)
                self.assertNotEqual(said.devices[0], 0, said.text)
                self.assertGreater(len(said.devices[1]), 20, said.text)
                self.assertEqual(said.one("devices")[0], BROKEN, said.text)
                self.assertGreater(len(said.one("devices")[3]), 20, said.text)


class CublasLt(Broken):
    def test_fits(self):
        if EMULATED:
            self.skipTest("the fakes would be called")
        self.says(self.with_libs(), "cuBLASLt", WELL, "13.1.0")

    def test_old_under_a_new_name(self):
        said = self.with_libs(libcublasLt__so__13="cublaslt_12")
        self.says(said, "cuBLASLt", BROKEN, "is cuBLAS 12.9, but 13.x is wanted", "remove")
        self.opens_not(said, "cuBLAS 12.9")

    def test_lacks_a_function(self):
        said = self.with_libs(libcublasLt__so__13="cublaslt_lacks")
        self.says(said, "cuBLASLt", BROKEN, "has no cublasLtMatmul", "remove")
        self.opens_not(said, "cublasLtMatmul")

    def test_not_a_library(self):
        folder = self.put({**WHOLE, "libcublasLt.so.13": None})
        with open(os.path.join(folder, "libcublasLt.so.13"), "w") as f:
            f.write("<html>404</html>\n")
        said = self.ask(NIGHTSHIFT_CUDA_LIBS=folder)
        self.says(said, "cuBLASLt", BROKEN, "cannot be opened", "libcublas")
        self.opens_not(said, "cannot be opened")


class Hidden(Broken):
    """Libraries that are nowhere: the system's are hidden in a name space of their own."""

    def bare(self, files):
        """In a world where /usr/local/cuda* is empty."""
        if EMULATED:
            self.skipTest("the doubles lie beside the emulated module")
        folder = self.put(files, "only")
        empty = os.path.join(self.place, "empty")
        os.makedirs(empty, exist_ok=True)
        script = ('for d in /usr/local/cuda*/lib64 /usr/local/cuda*/lib; do [ -d "$d" ] && '
                  f'mount --bind {empty} "$(realpath "$d")"; done; exec "$@"')
        prefix = ["unshare", "-rm", "sh", "-c", script, "sh"]
        if subprocess.run([*prefix, "true"], capture_output=True).returncode != 0:
            self.skipTest("no name spaces here to hide the system's libraries in")
        if subprocess.run(["sh", "-c", "ls /usr/lib/*-linux-gnu/libcublasLt.so* /usr/lib64/libcublasLt.so*"],
                          capture_output=True).stdout:
            self.skipTest("cuBLASLt lies among the system's own libraries")
        return self.ask(prefix=prefix, NIGHTSHIFT_CUDA_LIBS=folder)

    def test_nothing(self):
        said = self.bare({})
        self.says(said, "cuBLASLt", BROKEN, "libcublasLt.so.13 was not found", "sudo apt install libcublas-13-0")
        self.assertIn("pip install nvidia-cublas", said.one("cuBLASLt")[3])
        self.says(said, "cuDNN", WARNING, "slower way", "libcudnn9-cuda-13")
        self.assertIn("nvidia-cudnn-cu13", said.one("cuDNN")[3])
        self.opens_not(said, "libcublasLt.so.13")

    def test_only_an_older_one(self):
        said = self.bare({"libcublasLt.so.12": "cublaslt_12", "libcudnn.so.8": "cudnn_89"})
        self.says(said, "cuBLASLt", BROKEN, "libcublasLt.so.12, which is another version")
        self.says(said, "cuDNN", WARNING, "libcudnn.so.8, which is another version")


class Cudnn(Broken):
    def test_fits(self):
        if EMULATED:
            self.skipTest("the fakes would be called")
        said = self.with_libs()
        self.says(said, "cuDNN", WELL, "9.26.0")
        for name in ("cuDNN graph", "cuDNN ops", "cuDNN adv"):
            self.says(said, name, WELL, "9.26.0")
        for name in ("cuDNN cnn", "cuDNN choice", "cuDNN engines", "cuDNN compiler"):
            self.says(said, name, WELL, "libcudnn_")

    def test_9_1(self):
        said = self.with_libs(libcudnn__so__9="cudnn_91")
        self.says(said, "cuDNN", BROKEN, "is cuDNN 9.1.0, but 9.13.1 or a later 9.x", "remove")
        self.opens_not(said, "cuDNN 9.1")

    def test_the_oldest(self):
        """Whatever the module was built with: 9.13.1 will do, 9.13.0 will not."""
        said = self.with_libs(libcudnn__so__9="cudnn_before")
        self.says(said, "cuDNN", BROKEN, "is cuDNN 9.13.0, but 9.13.1 or a later 9.x", "remove")
        self.opens_not(said, "cuDNN 9.13.0")
        if not EMULATED:  # the fake would be called
            self.says(self.with_libs(libcudnn__so__9="cudnn_least"), "cuDNN", WELL, "9.13.1")

    def test_compiler(self):
        if EMULATED:
            self.skipTest("the fakes would be called")
        said = self.with_libs()
        self.says(said, "NVRTC", WELL, os.path.join(self.place, "libnvrtc.so.13"))
        folder = self.put({**WHOLE, "libnvrtc.so.13": None}, "without")
        with open(os.path.join(folder, "libnvrtc.so.13"), "w") as f:
            f.write("<html>404</html>\n")
        said = self.ask(NIGHTSHIFT_CUDA_LIBS=folder)
        self.says(said, "NVRTC", WARNING, "libnvrtc.so.13", "cuda-nvrtc-13-0")
        self.assertIn("cuDNN compiles kernels with it", said.one("NVRTC")[2])
        self.says(said, "cuDNN", WELL, "9.26.0")

    def test_8_9_under_a_new_name(self):
        said = self.with_libs(libcudnn__so__9="cudnn_89")
        self.says(said, "cuDNN", BROKEN, "is cuDNN 8.9.7, but 9.13.1 or a later 9.x", "remove")
        self.opens_not(said, "cuDNN 8.9")

    def test_each_part_missing(self):
        """The real library ends the process when it is asked for its version without `graph`."""
        labels = {"graph": "cuDNN graph", "ops": "cuDNN ops", "heuristic": "cuDNN choice",
                  "engines_precompiled": "cuDNN engines", "engines_runtime_compiled": "cuDNN compiler"}
        for part, label in labels.items():
            with self.subTest(part=part):
                shutil.rmtree(self.place)
                said = self.with_libs(**{f"libcudnn_{part}__so__9": None})
                self.says(said, "cuDNN", BROKEN, "missing: ", "libcudnn9-cuda-13")
                self.says(said, label, BROKEN, f"libcudnn_{part}.so.9", "reinstall")
                self.opens_not(said, f"libcudnn_{part}.so.9")

    def test_parts_that_nothing_calls_missing(self):
        if EMULATED:
            self.skipTest("the fakes would be called")
        said = self.with_libs(libcudnn_cnn__so__9=None, libcudnn_adv__so__9=None)
        self.says(said, "cuDNN", WELL, "9.26.0")
        self.says(said, "cuDNN cnn", WARNING, "libcudnn_cnn.so.9", "reinstall")
        self.says(said, "cuDNN adv", WARNING, "libcudnn_adv.so.9", "reinstall")

    def test_part_of_another_version(self):
        said = self.with_libs(libcudnn_ops__so__9="part_ops_91", libcudnn__so__9="cudnn_mixed")
        self.says(said, "cuDNN", BROKEN, "different versions")
        self.says(said, "cuDNN ops", BROKEN, "9.1.0", "remove")
        self.assertIn("9.26.0", said.one("cuDNN ops")[2])
        self.opens_not(said, "different versions")

    def test_parts_that_nothing_calls_of_another_version(self):
        if EMULATED:
            self.skipTest("the fakes would be called")
        said = self.with_libs(libcudnn_adv__so__9="part_adv_91", libcudnn_cnn__so__9="part_cnn_mixed")
        self.says(said, "cuDNN adv", WARNING, "9.1.0", "remove")
        self.says(said, "cuDNN cnn", WARNING, "another version", "remove")

    def test_part_cut_short(self):
        folder = self.put(WHOLE)
        with open(os.path.join(folder, "libcudnn_ops.so.9"), "r+b") as f:
            f.truncate(1000)
        said = self.ask(NIGHTSHIFT_CUDA_LIBS=folder)
        self.says(said, "cuDNN ops", BROKEN, "cannot be opened", "reinstall")
        self.opens_not(said, "cannot be opened")

    def test_two_copies(self):
        if EMULATED:
            self.skipTest("the fakes would be called")
        first, second = self.put(WHOLE, "first"), self.put(WHOLE, "second")
        said = self.ask(LD_LIBRARY_PATH=f"{first}:{second}")
        self.says(said, "cuDNN", WELL, first)
        self.says(said, "cuDNN copies", WARNING, second, "NIGHTSHIFT_CUDA_LIBS")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
