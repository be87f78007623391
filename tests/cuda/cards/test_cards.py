#!/usr/bin/env python3
"""test_cards.py QUESTIONS_PROGRAM ASK_CUDNN [--build] - would the real cuDNN do what we ask of it, on cards that
are not here?

Runs Whisper and the networks of speakers and sounds at their published sizes on the emulated device that does
not compute (test_questions.c), which leaves what cuBLASLt and cuDNN were asked for. Products are held there against the rules of cuBLASLt's
documentation: its own heuristics answer only where a driver has a device. The attentions are put to the
real cuDNN, with the descriptions of a card of each generation beside this file: it must propose an engine
for each on each, and two of the widest are compiled on each (a second each; with --build all of them). For each convolution of float32 it must propose one in that and one in TF32,
for each of float16 one, within the workspace that is given.

Skipped without cuDNN's libraries, or without a libcuda: the toolkit's stub is enough.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
CARDS = sorted(glob.glob(HERE + "/*.json"))


def stub():
    """A libcuda to be linked with: a driver's, or the toolkit's stub."""
    places = ["/usr/lib/x86_64-linux-gnu/libcuda.so.1", *glob.glob("/usr/local/cuda*/lib*/stubs/libcuda.so"),
              *glob.glob("/usr/local/cuda*/targets/*/lib/stubs/libcuda.so")]
    return next((p for p in places if os.path.exists(p)), None)


class Cards(unittest.TestCase):
    questions = ""
    environment = {}

    def ask(self, card, questions, *build):
        said = subprocess.run([sys.argv[2], card, *build], input=questions, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, env=self.environment, check=False)
        print(os.path.basename(card)[:-5] + "\n  " + said.stdout.replace("\n", "\n  "), flush=True)
        return said

    def some(self):
        """Of each convolution its smallest piece and its largest: the others are between them."""
        lines, pieces = self.questions.splitlines(True), {}
        for line in lines:
            if line.startswith("convolution "):
                kind, images, shape = line.split(" ", 3)[1:]
                pieces.setdefault((kind, shape), []).append(int(images))

        def is_one(line):
            kind, images, shape = line.split(" ", 3)[1:]
            return int(images) in (min(pieces[kind, shape]), max(pieces[kind, shape]))

        return "".join(line for line in lines if not line.startswith("product")
                       and (not line.startswith("convolution ") or is_one(line)))

    def test_what_was_asked(self):
        kinds = [line.split(" ", 3)[:3] for line in self.questions.splitlines()]
        self.assertGreater(sum(k[0] == "product" for k in kinds), 100)
        # Of every width of a Whisper in bf16, one window and many; of the smallest and the largest in fp16.
        self.assertEqual({"bf16", "f16"}, {k[1] for k in kinds if k[0] == "attention"})
        heads = set(re.findall(r"^attention bf16 \d+ (\d+) 1500 64 ", self.questions, re.M))
        self.assertEqual({"3", "6", "8", "12", "16", "20"}, heads)
        self.assertGreater(len(set(re.findall(r"^attention bf16 (\d+) 20 ", self.questions, re.M))), 1)

    def test_what_was_convolved(self):
        """ResNet34's shapes (of tiles), in float16 and float32, and SincNet's, in every piece; with a residual, with a bias, with ReLU."""
        shapes = re.findall(r"^convolution (f16|f32) (\d+) (\d+) \d+ \d+ (\d+) (\d+) (\d+) ", self.questions, re.M)
        resnet = {("1", "32", "3", "3"), ("32", "32", "3", "3"), ("32", "64", "1", "1"), ("256", "256", "3", "3")}
        sincnet = {("1", "80", "1", "251"), ("80", "60", "1", "5")}
        some = {"1", "2", "4", "8", "16"}
        for kind, wanted, pieces in (("f16", resnet, some), ("f32", resnet | sincnet, some | {"32", "64", "128"})):
            self.assertLessEqual(wanted, {s[2:] for s in shapes if s[0] == kind})
            self.assertLessEqual(pieces, {s[1] for s in shapes if s[0] == kind})
        self.assertLessEqual({("1", "0", "0"), ("0", "1", "1"), ("0", "1", "0")},
                             set(re.findall(r"^convolution .* (\d) (\d) (\d) \d+ \d+$", self.questions, re.M)))

    def test_cudnn_has_an_engine_for_each(self):
        self.assertEqual(4, len(CARDS))
        for card in CARDS:
            with self.subTest(os.path.basename(card)):
                said = self.ask(card, self.some())
                self.assertEqual(0, said.returncode)
                self.assertEqual(said.stdout.count("engines "), self.questions.count("attention "))
                for precision, kind in (("fp32", "f32"), ("tf32", "f32"), ("fp16", "f16")):
                    self.assertEqual(said.stdout.count(f" {precision}: engine "), self.some().count(f"convolution {kind} "))

    def test_the_largest_compile_for_each(self):
        """As far as the driver: nothing but loading what was compiled may fail."""
        widest = re.findall(r"^attention bf16 \d+ 20 .*\n", self.questions, re.M)
        some = self.questions if "--build" in sys.argv else "".join(sorted(widest)[:2])
        for card in CARDS:
            with self.subTest(os.path.basename(card)):
                for line in self.ask(card, some, "build").stdout.splitlines():
                    self.assertRegex(line, r"compiled in [\d.]+ s(: .*cuLibraryLoadData.*)?$")

    def test_what_cudnn_does_not_do_is_seen(self):
        """Heads of 63: no card's cuDNN has a kernel for them."""
        line = next(line for line in self.questions.splitlines() if line.startswith("attention"))
        none = self.ask(CARDS[0], "convolution f32 1 4 8 8 4 3 3 1 1 1 1 1 1 9 8 0 0 0 16 16\n")  # 9: it would be 8
        self.assertEqual(1, none.returncode)
        self.assertIn("no engine", none.stdout)
        said = self.ask(CARDS[0], line.replace(" 1500 64 ", " 1500 63 ") + "\n")
        self.assertEqual(1, said.returncode)
        self.assertIn("no engine", said.stdout)


def main():
    cuda = stub()
    if not cuda or not os.path.exists(sys.argv[2]):
        print("skipped: there is no libcuda, nor the toolkit's stub of it")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(cuda, folder + "/libcuda.so.1")
        libraries = os.environ.get("LD_LIBRARY_PATH", "")
        Cards.environment = {**os.environ, "LD_LIBRARY_PATH": folder + (":" + libraries if libraries else "")}
        for variable in ("NIGHTSHIFT_EMULATED_DRY", "NIGHTSHIFT_EMULATED_GPUS"):
            Cards.environment.pop(variable, None)
        probe = subprocess.run([sys.argv[2], CARDS[0]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, env=Cards.environment, text=True, check=False)
        if probe.returncode == 127 or "error while loading" in probe.stdout:
            print("skipped: cuDNN cannot be opened: " + probe.stdout.strip())
            return 77
        file = folder + "/questions"
        subprocess.run([sys.argv[1]], check=True, env={
            **os.environ, "NIGHTSHIFT_EMULATED_DRY": "1", "NIGHTSHIFT_EMULATED_QUESTIONS": file,
            "NIGHTSHIFT_EMULATED_GPUS": "141GiB", "NIGHTSHIFT_EMULATED_CC": "9.0"})
        with open(file, encoding="utf-8") as f:
            Cards.questions = f.read()
        # ResNet34's weights that float16 has no room for go in TF32; Whisper's are one pixel high.
        lines = Cards.questions.splitlines(True)
        twins = [line.replace("convolution f16", "convolution f32") for line in lines
                 if re.match(r"convolution f16 \d+ \d+ (?!1 )", line)]
        Cards.questions += "".join(line for line in twins if line not in lines)
        return 0 if unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful() else 1


sys.exit(main())
