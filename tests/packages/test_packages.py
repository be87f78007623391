#!/usr/bin/env python3
"""What a package installs: systemd's units, manual pages, completion, and the archive with its libraries; and that it is
the same wherever it was made."""
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zlib

SOURCE, BUILD, PROGRAM = (os.environ["NIGHTSHIFT_" + n] if n else os.environ["NIGHTSHIFT"]
                          for n in ("SOURCE_DIR", "BUILD_DIR", ""))


CLOSED = ("sh", "-c", 'umask 077; exec "$@"', "sh")  # before a command: it runs with that umask


def run(*command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=280,
                          stdin=subprocess.DEVNULL, **more)


class InAFolder(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)

    def wants(self, program):
        if shutil.which(program) is None:
            self.skipTest(f"skipped: no {program} here")


    def texts_find_each_other(self, folder):
        texts = [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names if name.endswith(".md")]
        self.assertIn(os.path.join(folder, "README.md"), texts)
        for text in texts:
            with open(text, encoding="utf-8") as file:
                for link in re.findall(r"\]\(([^)#:]+)[)#]", file.read()):
                    self.assertTrue(os.path.exists(os.path.join(os.path.dirname(text), link)), f"{text}: {link}")


class Units(InAFolder):
    def setUp(self):
        super().setUp()
        self.wants("systemd-analyze")
        self.units = [os.path.join(self.dir, "nightshift@." + kind) for kind in ("service", "timer")]
        for unit in self.units:
            with open(os.path.join(SOURCE, "tools/packages", os.path.basename(unit)), encoding="utf-8") as file:
                text = file.read()
            with open(unit, "w", encoding="utf-8") as file:  # it is not installed here
                file.write(re.sub(r"(?m)^(Exec\w+=-?)nightshift", r"\1" + PROGRAM, text))

    def test_they_are_understood(self):
        done = run("systemd-analyze", "verify", "--man=no", *self.units)
        self.assertEqual((0, ""), (done.returncode, done.stdout))

    def test_little_is_exposed(self):
        done = run("systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=15", self.units[0])
        self.assertEqual(0, done.returncode, done.stdout)


class Pages(InAFolder):
    def test_each_command_has_one_that_is_well_formed(self):
        pages = os.path.join(BUILD, "tools")
        lines = re.findall(r"(?m)^  ([a-z]+(?:, [a-z]+)*) (?:[A-Z.]+ )? *(\S.*)$", run(PROGRAM, "--help").stdout)
        self.assertGreater(len(lines), 20)
        for names, what in lines:
            for name in names.split(", "):
                if name in ("help", "nightshift"):
                    continue
                page = os.path.join(pages, f"nightshift-{name}.1")
                with self.subTest(command=name), open(page, encoding="utf-8") as file:
                    text = file.read()
                    if name not in ("cancel", "pause", "priority", "resume", "retry", "version"):
                        self.assertIn(f"\n.Nd {what}\n", text)
                    self.assertNotRegex(text, "(?m)^@")
                    for command in (["mandoc", "-T", "lint", "-W", "warning", page], ["groff", "-mdoc", "-ww", "-z", page]):
                        if shutil.which(command[0]):
                            self.assertEqual("", run(*command).stdout)


class Completion(InAFolder):
    def setUp(self):
        super().setUp()
        self.path = os.path.dirname(PROGRAM) + ":" + os.environ["PATH"]
        self.environ = dict(os.environ, HOME=self.dir, PATH=self.path, XDG_CONFIG_HOME=self.dir, XDG_DATA_HOME=self.dir)

    def test_fish(self):
        self.wants("fish")
        for typed, found in (("enq", ["enqueue"]), ("enqueue --beam", ["--beam-size="]),
                             ("enqueue --diarize=", ["--diarize=diarization-nano"])):
            done = run("fish", "--no-config", "-c", f"source '{SOURCE}/tools/cli/completion.fish'; "
                       f"complete -C 'nightshift {typed}'", env=self.environ, cwd=self.dir)
            self.assertEqual(found, [line.split("\t")[0] for line in done.stdout.splitlines()])

    def test_zsh_reads_it(self):
        self.wants("zsh")
        shutil.copy(os.path.join(SOURCE, "tools/cli/completion.zsh"), os.path.join(self.dir, "_nightshift"))
        done = run("zsh", "-f", "-c", f"fpath=('{self.dir}' $fpath); autoload -U compinit; compinit -u -D; "
                   'print $_comps[nightshift]; autoload +X _nightshift && functions _nightshift >/dev/null',
                   env=self.environ, cwd=self.dir)
        self.assertEqual((0, "_nightshift\n"), (done.returncode, done.stdout))


class Reproducible(InAFolder):
    """What two builds differed by; `tools/dev/release --again` compares the whole."""

    def test_nothing_made_in_a_folder_names_it(self):
        with open(PROGRAM, "rb") as file:
            named = set(re.findall(re.escape(SOURCE.encode()) + rb"[^\0]*", file.read()))
        self.assertLessEqual(named, {f"{SOURCE}/workers/models".encode()})  # not in a release: NIGHTSHIFT_SOURCE_MODELS
        module = os.path.join(BUILD, "lib/nightshift-cuda.so")
        if os.path.exists(module):
            with open(module, "rb") as file:
                data = file.read()
            self.assertNotIn(SOURCE.encode(), data)
            for crc, kernels in set(re.findall(rb"_GLOBAL__N__([0-9a-f]{8})_\d+_([a-z_]+)_cu_", data)):
                self.assertEqual(f"{zlib.crc32(b'gpu/cuda/kernels/' + kernels + b'.cu'):08x}", crc.decode(), kernels)

    def test_packages_are_of_one_time_and_of_nobody(self):
        self.wants("dpkg-deb")
        made = run(*CLOSED, "cpack", "-B", self.dir, "-D", "CPACK_COMPONENTS_ALL=program",
                   "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=none", "-D", "CPACK_DEBIAN_PACKAGE_SHLIBDEPS=OFF", cwd=BUILD,
                   env=dict(os.environ, SOURCE_DATE_EPOCH="1000000000"))
        self.assertEqual(0, made.returncode, made.stdout)
        package, = (os.path.join(self.dir, name) for name in os.listdir(self.dir) if name.endswith(".deb"))
        data = os.path.join(self.dir, "data.tar")
        with open(data, "wb") as file:
            subprocess.run(["dpkg-deb", "--fsys-tarfile", package], stdout=file, check=True)
        with tarfile.open(data) as tar:
            members = tar.getmembers()
            tar.extractall(self.dir, [m for m in members if "/doc/nightshift/" in m.name])
        self.texts_find_each_other(os.path.join(self.dir, "usr/share/doc/nightshift"))
        for m in members:
            self.assertEqual((1000000000, 0, 0, 0o755 if m.isdir() or "/bin/" in m.name else 0o644),
                             (m.mtime, m.uid, m.gid, m.mode), m.name)
        self.assertEqual(sorted(m.name.split("/") for m in members), [m.name.split("/") for m in members])
        self.assertEqual(sum(1 if m.isdir() else (m.size + 1023) // 1024 for m in members if m.name not in (".", "./")),
                         int(run("dpkg-deb", "-f", package, "Installed-Size").stdout))


SILERO = os.path.join(os.environ["NIGHTSHIFT_SHARED"], "models/silero-vad")


class VoiceActivity(InAFolder):
    """Silero's model is part of what is installed, with its licence."""

    def hashes(self, folder):
        found = {}
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as file:
                found[name] = hashlib.sha256(file.read()).hexdigest()
        return found

    def test_the_notice_has_its_version(self):
        with open(os.path.join(SOURCE, "tools/hub/packages/silero.c"), encoding="utf-8") as file:
            pulled = re.search(r'"silero_vad-([0-9.]+)-py3', file.read()).group(1)
        with open(os.path.join(SOURCE, "NOTICE"), encoding="utf-8") as file:
            self.assertIn(f"(silero-vad {pulled},", file.read())

    @unittest.skipUnless(os.path.isdir(SILERO), f"there is no {SILERO}")
    def test_what_is_installed_has_it_on(self):
        models = os.path.join(self.dir, "models")
        os.makedirs(os.path.join(models, "silero-vad"))
        for name in ("LICENSE", "silero_vad_16k.safetensors"):
            shutil.copyfile(os.path.join(SILERO, name), os.path.join(models, "silero-vad", name))
        pulled = self.hashes(os.path.join(models, "silero-vad"))
        with open(os.path.join(models, "silero-vad/.lock"), "w", encoding="ascii"):
            pass  # a pull leaves it
        with open(os.path.join(BUILD, "tools/cmake_install.cmake"), encoding="utf-8") as file:
            script = file.read()
        self.assertIn(f'"{BUILD}/share/nightshift/models/silero-vad"', script)
        other = os.path.join(self.dir, "install.cmake")
        with open(other, "w", encoding="utf-8") as file:
            file.write(script.replace(f"{BUILD}/share/nightshift/models", models))
        stage = os.path.join(self.dir, "stage")
        done = run(*CLOSED, "cmake", f"-DCMAKE_INSTALL_PREFIX={stage}", "-P", other)
        self.assertEqual(0, done.returncode, done.stdout)
        self.assertEqual(pulled, self.hashes(os.path.join(stage, "share/nightshift/models/silero-vad")))
        environ = {"HOME": self.dir, "NIGHTSHIFT_CATALOG": os.path.join(self.dir, "n.db"), "NIGHTSHIFT_DEVICES": "cpu"}
        done = run(os.path.join(stage, "bin/nightshift"), "enqueue", "--json", "--model=whisper-nano",
                   os.path.join(SOURCE, "tests/samples/01_en_short.wav"), env=environ)
        self.assertEqual(0, done.returncode, done.stdout)
        self.assertTrue(json.loads(done.stdout)["voice_activity"])


class Archive(InAFolder):
    def test_it_runs_by_its_own_libraries(self):
        self.wants("patchelf")
        self.wants("dpkg-query")
        stage = os.path.join(self.dir, "somewhere else")
        done = run(*CLOSED, os.path.join(SOURCE, "tools/dev/release"), "--build", BUILD,
                   "--stage", stage)
        self.assertEqual(0, done.returncode, done.stdout)
        for where, folders, names in os.walk(stage):
            for name in [*folders, *names]:
                self.assertIn(os.stat(os.path.join(where, name)).st_mode & 0o777, (0o755, 0o644), name)
        self.texts_find_each_other(os.path.join(stage, "share/doc/nightshift"))
        program = os.path.join(stage, "bin/nightshift")
        self.assertEqual(0, run(program, "version", env={}).returncode)
        # FFmpeg calls what the archive's own library stands in for.
        environ = {"HOME": self.dir, "NIGHTSHIFT_CATALOG": os.path.join(self.dir, "n.db"), "NIGHTSHIFT_DEVICES": "cpu"}
        for words in (("enqueue", "--model=whisper-nano", os.path.join(SOURCE, "tests/samples/05_es_video.mp4")),
                      ("run", "--no-progress", "--strict", "--attempts=1")):
            done = run(program, *words, env=environ)
            self.assertEqual(0, done.returncode, done.stdout)
        outside = [line.split()[0] for line in run("ldd", program, env={"PATH": os.environ["PATH"]}).stdout.splitlines()
                   if stage not in line]
        for name in outside:
            self.assertRegex(name, r"^(linux-vdso|/lib64/ld-linux.*|lib(c|m|pthread|dl|rt|resolv|gcc_s))\.so")
        newest = (0, 0)
        for where, _, names in os.walk(stage):
            for name in names:
                if ".so" in name or name == "nightshift" and where.endswith("bin"):
                    text = run("objdump", "-p", os.path.join(where, name)).stdout
                    newest = max([newest] + [tuple(map(int, v.split(".")[:2])) for v in re.findall(r"GLIBC_(2\.\d+)", text)
                                             if "libc.so" not in name])
        self.assertEqual((2, 34), newest)


if __name__ == "__main__":
    done = unittest.main(exit=False, verbosity=2).result
    sys.exit(1 if not done.wasSuccessful() else 77 if done.testsRun and len(done.skipped) == done.testsRun else 0)
