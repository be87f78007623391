#!/usr/bin/env python3
"""test_machine_code.py MODULE - what nvcc made of the kernels, by their disassembly for sm_90.

No kernel keeps values in local memory (spills); the hot ones stay within the bounds of the table below:
registers (with the threads of a block they decide how many blocks an SM holds), instructions, and accesses
of 16 bytes, which is what an SM moves at once. What a kernel's speed is, only a GPU can say.

Wants cuobjdump and nvdisasm: of the toolkit, of $NIGHTSHIFT_CUDA_TOOLS (a folder), or of Python's packages
(pip: nvidia-cuda-cuobjdump, nvidia-cuda-nvdisasm); skipped where they are not. `--print` shows the figures.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ARCH = "sm_90"
# Of a kernel's name as the compiler has it, most registers, most instructions, least 16-byte loads and stores of
# device memory. Of all instances (types, lengths) the worst counts. The bounds stand a little above what is there.
HOT = [
    ("attend_rows", 72, 1200, 8, 0),
    ("attend_own", 72, 1000, 8, 0),
    ("attend_eight", 80, 2600, 24, 0),  # six blocks of an SM have 80
    ("fill_eightI.*Li[48]ELi6E", 64, 1100, 6, 0),  # one block of 1024 threads has all registers
    ("fill_eightI.*Li[48]ELi0E", 40, 1100, 8, 0),
    ("attend_spans", 84, 2800, 0, 0),
    (r"score_rowsI(?!\w+aE)", 36, 280, 4, 0),
    (r"score_rowsI\w+aE", 36, 480, 4, 0),  # of 8 bits
    ("epilogue_rowsI.*Li[48]E", 56, 850, 4, 0),  # GELU's instructions are what bounds it
    ("norm_heldI.*Li6ELi1E", 56, 790, 18, 0),  # of 8 bits; the others have 600
    ("norm_heldI.*Li10ELi1E", 96, 1000, 30, 0),
    ("norm_heldI.*Li12ELi1E", 100, 1200, 36, 0),
    (r"norm_heldI.*Li1ELi\d+E", 40, 560, 3, 0),
    ("gelu_rowsI", 100, 1000, 6, 0),
    ("quantize_heldI.*Li[48]E", 64, 900, 5, 0),
    ("quantize_rowsI.*Li[48]E", 36, 910, 8, 0),
    ("dequantize_rowsI.*Li4E", 44, 1100, 24, 0),
    ("store_keysI.*Li[48]E", 44, 290, 4, 0),
    ("choose_rows", 64, 4200, 16, 0),  # of 512 threads: two blocks have all registers
    ("top_rows", 36, 1900, 0, 0),
    ("lstm_nearILi2E", 128, 950, 32, 0),  # of 512 threads: all of an SM's registers
    ("lstm_nearILi4E", 128, 1350, 32, 0),
    ("lstm_stepsILi1E", 76, 2100, 5, 0),
    ("lstm_stepsILi2E", 112, 2450, 5, 0),
    ("lstm_stepsILi4E", 128, 2250, 5, 0),
    ("mel_frames", 56, 1300, 0, 0),
    ("norm_partsI", 40, 500, 0, 0),
    ("apply_normI", 64, 1200, 0, 0),
    ("stats_columns", 100, 1700, 0, 0),
    ("read_all", 64, 520, 20, 0),
]
LOADS, STORES, LOCAL = re.compile(r"\bLDG\S*\.128"), re.compile(r"\bSTG\S*\.128"), re.compile(r"\b(LDL|STL)\b")


def tool(name):
    places = [os.environ.get("NIGHTSHIFT_CUDA_TOOLS", ""), "/usr/local/cuda/bin"]
    places += [p for root in sys.path for p in glob.glob(glob.escape(root or ".") + "/nvidia/*/bin")]
    return shutil.which(name) or next((os.path.join(p, name) for p in filter(None, places)
                                       if os.access(os.path.join(p, name), os.X_OK)), None)


def output(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, **options).stdout


class Kernel:
    def __init__(self, name, registers, local):
        # _ZN40_GLOBAL__N__f418f9b3_8_align_cu_8d5a0f6710score_rowsIfEEv6tensor...: what is behind the file's hash.
        self.name = re.sub(r"^_ZN\d+_GLOBAL__N__\w{8}_\d+_\w+?_cu_", "", name)
        self.registers, self.local, self.instructions, self.loads, self.stores = registers, local, 0, 0, 0
        self.early = None  # 16-byte loads before the first exchange between lanes


def kernels_of(module):
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([tool("cuobjdump"), "-arch", ARCH, "-xelf", "all", os.path.abspath(module)], cwd=folder,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        for cubin in sorted(glob.glob(folder + "/*.cubin")):
            used = re.findall(r"Function (\S+?):\s+REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)",
                              output(tool("cuobjdump"), "-res-usage", cubin, stderr=subprocess.STDOUT))
            for name, registers, stack, local in used:
                found[name] = Kernel(name, int(registers), int(stack) + int(local))
            kernel = None
            for line in output(tool("nvdisasm"), "-c", cubin).splitlines():
                section = re.match(r"\s*\.section\s+\.text\.([^,\s]+)", line)
                if section:
                    kernel = found.get(section[1])
                elif kernel and re.match(r"\s*/\*[0-9a-f]{4,}\*/", line):
                    kernel.instructions += 1
                    if kernel.early is None and "SHFL" in line:
                        kernel.early = kernel.loads
                    kernel.loads += bool(LOADS.search(line))
                    kernel.stores += bool(STORES.search(line))
                    kernel.local += bool(LOCAL.search(line))
    return list(found.values())


def worst(kernels):
    return (max(k.registers for k in kernels), max(k.instructions for k in kernels), min(k.loads for k in kernels),
            min(k.stores for k in kernels))


class MachineCode(unittest.TestCase):
    kernels = []

    def test_no_kernel_spills(self):
        self.assertGreater(len(self.kernels), 100)
        self.assertEqual([], [k.name for k in self.kernels if k.local])

    def test_hot_kernels_are_within_their_bounds(self):
        for name, registers, instructions, loads, stores in HOT:
            with self.subTest(name):
                instances = [k for k in self.kernels if re.search(r"\d" + name, k.name)]
                self.assertTrue(instances, "no such kernel: has it another name now?")
                has = worst(instances)
                self.assertLessEqual(has[0], registers, "registers")
                self.assertLessEqual(has[1], instructions, "instructions")
                self.assertGreaterEqual(has[2], loads, "16-byte loads")
                self.assertGreaterEqual(has[3], stores, "16-byte stores")

    def test_two_rounds_are_asked_for_before_the_first_is_waited_for(self):
        """Of four keys and four values each."""
        rows = [k for k in self.kernels if re.search(r"\dattend_rows", k.name) or k.name.startswith("attend_rows")]
        self.assertEqual([16, 16, 16], [k.early for k in rows])


def main():
    if not tool("cuobjdump") or not tool("nvdisasm"):
        print("skipped: cuobjdump and nvdisasm are not here (pip: nvidia-cuda-cuobjdump, nvidia-cuda-nvdisasm)")
        return 77
    MachineCode.kernels = kernels_of(sys.argv[1])
    if not MachineCode.kernels:
        print(f"skipped: the module has no code for {ARCH}")
        return 77
    if "--print" in sys.argv:
        print("| kernel | registers | instructions | 16-byte loads | stores | local |\n" + "| --- " * 6 + "|")
        for k in sorted(MachineCode.kernels, key=lambda k: k.name):
            print(f"| {k.name[:70]} | {k.registers} | {k.instructions} | {k.loads} | {k.stores} | {k.local} |")
        return 0
    return 0 if unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful() else 1


sys.exit(main())
