#!/usr/bin/env python3
"""The program's own commands: JSON that parses, one sentence for each mistake, walks that keep what
they leave out, requests with and without a second writer. Nothing here transcribes."""
import ctypes
import fcntl
import io
import json
import os
import platform
import pty
import re
import resource
import select
import shutil
import signal
import sqlite3
import struct
import subprocess
import tempfile
import termios
import threading
import time
import unittest
import warnings
import zipfile

from program import PROGRAM, ProgramTest, count_shards, demo_model, index_texts, wav

SOURCE = os.environ["NIGHTSHIFT_SOURCE_DIR"]
PAGE = os.path.join(os.environ["NIGHTSHIFT_BUILD_DIR"], "tools/nightshift.1")
NOPERM = 77


def kernel_without(landlock=False, seccomp=False):
    """For preexec_fn: from here on the kernel answers as one that lacks these. A filter of seccomp's
    own; the calls are those of linux/filter.h."""
    numbers = {"x86_64": (317, 157), "aarch64": (277, 167)}.get(platform.machine())
    if numbers is None:
        raise unittest.SkipTest("skipped: the numbers of this machine's system calls are not known here")
    load, equal, give = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
    allow, error = 0x7FFF0000, 0x00050000
    code = [(load, 0, 0, 0)]  # the call's number
    if landlock:
        code += [(equal, 0, 1, 444), (give, 0, 0, error | 38)]  # ENOSYS
    if seccomp:
        code += [(equal, 0, 1, numbers[0]), (give, 0, 0, error | 38),
                 (equal, 0, 3, numbers[1]), (load, 0, 0, 16),  # prctl, its first argument
                 (equal, 0, 1, 22), (give, 0, 0, error | 22)]  # PR_SET_SECCOMP: EINVAL
    code.append((give, 0, 0, allow))
    raw = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *c) for c in code))

    class Program(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    program = Program(len(code), ctypes.addressof(raw))
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(raw=raw):  # what the filter points to lives as long as this
        if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "no filter can be set")
    return enter


# Others leave with what sysexits.h has for any fault.
WITH_STATUSES = ("enqueue recipe run plan doctor describe verify forget erase pin search show score retry cancel pause resume "
                 "export").split()


class Program(ProgramTest):
    def put(self, name, data):
        path = os.path.join(self.archive, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def enqueue(self, *args, status=0):
        return json.loads(self.run_it("enqueue", "--json", *(args or [self.archive]), status=status).out)

    def present(self):
        return {row[0][len(self.archive) + 1:] for row in
                self.sql("SELECT path FROM place WHERE state = 'present'")}

    def fill(self):
        for i, name in enumerate(("a.wav", "b.mp3", "deep/er/c.wav", "tmp/d.wav")):
            self.put(name, wav(i))
        self.put("notes.txt", b"just words\n")


class Libraries(Program):
    def test_one_that_cannot_be_opened_is_said_once(self):
        for number in range(50, 80):
            self.put(f"../libs/libavutil.so.{number}", b"")
        self.put("a.wav", wav(1))
        self.enqueue()
        with zipfile.ZipFile(os.path.join(self.archive, "z.zip"), "w") as z:
            z.writestr("inside.wav", wav(2))
        for command in (["run", "--no-progress"], ["enqueue", self.archive]):
            with self.subTest(command=command):
                said = self.run_it(*command, status=69, LD_LIBRARY_PATH=os.path.join(self.dir, "libs")).err.splitlines()
                self.assertIn("FFmpeg cannot be opened", said[-1])
                self.assertEqual([], [line for line in said if line.startswith("error: decoder")])


class Sandbox(Program):
    """On kernels that lack a layer of the decoders' sandbox, or both."""

    def setUp(self):
        super().setUp()
        with zipfile.ZipFile(os.path.join(self.archive, "z.zip"), "w") as z:
            z.writestr("inside.wav", wav(1))
        if ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) < 1:
            self.skipTest("skipped: no Landlock in this kernel")
        with open("/proc/self/status", encoding="ascii") as file:
            if "Seccomp:" not in file.read():
                self.skipTest("skipped: no seccomp in this kernel")

    def check(self, preexec=None):
        said = json.loads(self.run_it("doctor", "--quick", "--json", preexec=preexec).out)
        return next(c for c in said["checks"] if c["name"] == "sandbox")

    def events(self):
        return [row[0] for row in self.sql("SELECT text FROM event WHERE kind = 'sandbox' ORDER BY event_id")]

    def nothing_waits(self):
        self.enqueue()
        self.run_it("cancel", "--all", status=0)

    def words(self, done):
        return " ".join(done.err.split())

    def test_all_layers(self):
        self.nothing_waits()
        done = self.run_it("run", "--no-progress", status=0)
        self.assertNotIn("decoders", done.err)
        self.assertEqual([], self.events())
        self.assertEqual("ok", self.check()["state"])

    def test_one_layer(self):
        self.nothing_waits()
        os.utime(os.path.join(self.archive, "z.zip"))  # it is looked into again
        expected = []
        for lacking, words in (("landlock", "decoders run without Landlock (not in this kernel): seccomp alone"),
                               ("seccomp", "decoders run without seccomp (not in this kernel): Landlock keeps")):
            kernel = kernel_without(**{lacking: True})
            done = self.run_it("run", "--no-progress", status=0, preexec=kernel)
            self.assertIn(words, self.words(done))
            expected.append(words)  # at each start
            self.assertEqual(expected, [text[:len(e)] for text, e in zip(self.events(), expected)])
            self.assertEqual(len(expected), len(self.events()))
        self.assertEqual("warning", self.check(preexec=kernel)["state"])
        done = self.run_it("enqueue", self.archive, status=0, preexec=kernel)
        self.assertIn("nightshift: " + words, self.words(done))

    def test_no_layer(self):
        kernel = kernel_without(landlock=True, seccomp=True)
        refusal = (": neither Landlock (not in this kernel) nor seccomp (not in this kernel) would hold the decoders, "
                   "and a recording made to do harm could do whatever you may; --allow-unsandboxed takes that risk, "
                   "`nightshift doctor` says more.")
        done = self.run_it("enqueue", self.archive, status=NOPERM, preexec=kernel)
        self.assertEqual("nightshift: cannot enqueue (what was found so far is kept)" + refusal, self.words(done))
        self.assertEqual([(0,)], self.sql("SELECT count(*) FROM place"))
        plain = os.path.join(self.dir, "plain.wav")  # no decoder looks at it yet
        with open(plain, "wb") as file:
            file.write(wav(2))
        done = self.run_it("enqueue", plain, status=0, preexec=kernel)
        self.assertEqual("", done.err)
        done = self.run_it("enqueue", "--allow-unsandboxed", "--json", self.archive, status=0, preexec=kernel)
        self.assertEqual(1, json.loads(done.out)["recordings"])
        warning = "decoders run without Landlock (not in this kernel) and without seccomp"
        self.assertIn(warning, self.words(done))
        done = self.run_it("run", "--no-progress", status=NOPERM, preexec=kernel)
        self.assertEqual("nightshift: cannot run" + refusal, self.words(done))
        self.assertEqual([(0,)], self.sql("SELECT count(*) FROM event"))
        self.run_it("cancel", "--all", status=0)
        done = self.run_it("run", "--no-progress", "--allow-unsandboxed", status=0, preexec=kernel)
        self.assertIn(warning, self.words(done))
        self.assertEqual([warning], [text[:len(warning)] for text in self.events()])
        found = self.check(preexec=kernel)
        self.assertEqual("broken", found["state"])
        self.assertIn("no Landlock (not in this kernel), no seccomp (not in this kernel)", found["found"])


class Enqueue(Program):
    def test_json_counts(self):
        self.fill()
        first = self.enqueue()
        self.assertEqual((4, 4, 0, 4, 1), tuple(first[k] for k in
                         ("recordings", "new", "unchanged", "tasks", "left_alone")))
        again = self.enqueue()
        self.assertEqual((4, 0, 4, 0), tuple(again[k] for k in
                         ("recordings", "new", "unchanged", "tasks")))

    def test_what_patterns_leave_out_does_not_vanish(self):
        self.fill()
        with zipfile.ZipFile(os.path.join(self.archive, "z.zip"), "w") as z:
            z.writestr("in/e.wav", wav(9))
        self.assertEqual(5, self.enqueue()["new"])
        for options in (["-x", "*.wav"], ["-i", "*.mp3"], ["-x", "tmp/"], ["-x", "*"]):
            with self.subTest(options=options):
                self.assertEqual(0, self.enqueue(*options, self.archive)["vanished"])
        os.remove(os.path.join(self.archive, "b.mp3"))
        self.assertEqual(1, self.enqueue()["vanished"])
        self.assertNotIn("b.mp3", self.present())

    def test_what_was_thrown_away_is_skipped(self):
        beside = ["$RECYCLE.BIN/S-1/$R1.wav", "#recycle/a.wav", "@Recycle/b.wav", ".Trash-1000/files/c.wav",
                  ".AppleDouble/d.mp3", "@eaDir/e.wav/thumb.mp3", "half.wav.part", ".kept.wav.Zk3x9q",
                  ".note.wav", ".talks/f.wav"]
        for i, name in enumerate(beside + ["kept.wav"]):
            self.put(name, wav(100 + i))
        self.put("z.zip", self.zipped(("__MACOSX/g.wav", wav(7)), ("x/.Trashes/h.wav", wav(8)), ("i.wav", wav(9)),
                                      (".j.wav", wav(10))))
        found = self.enqueue()
        self.assertEqual((2, 2, 5, 3, 2, 3), tuple(found[k] for k in (
            "recordings", "new", "skipped_trash", "skipped_system", "skipped_unfinished", "skipped_hidden")))
        self.assertEqual({"z.zip", "kept.wav"}, self.present())
        said = " ".join(self.run_it("enqueue", self.archive, status=0).out.split())
        self.assertIn("5 skipped as trash; 3 skipped as a system's own (AppleDouble, indexes); 2 unfinished files "
                      "skipped; 3 hidden files or folders skipped (--hidden takes them)", said)
        found = self.enqueue("--hidden", self.archive)
        self.assertEqual((5, 3, 0), tuple(found[k] for k in ("recordings", "new", "skipped_hidden")))
        # What was heard there has not vanished, and what is named itself is taken.
        again = self.enqueue()
        self.assertEqual((2, 2, 0), tuple(again[k] for k in ("recordings", "unchanged", "vanished")))
        trash = os.path.join(self.archive, "$RECYCLE.BIN")
        self.assertEqual(1, self.enqueue(trash)["new"])
        self.assertEqual(1, self.enqueue(os.path.join(self.archive, "half.wav.part"))["new"])
        self.assertEqual(0, self.enqueue()["vanished"])
        shutil.rmtree(trash)
        self.assertEqual(1, self.enqueue()["vanished"])

    def test_what_nothing_decodes_is_a_failure_with_its_name(self):
        ds2 = b"\x03ds2" + bytes(600)
        for i in range(3):
            self.put(f"dictations/{i}.ds2", ds2 + bytes([i]))
        self.put("voice.bin", b"\x02#!SILK_V3" + bytes(600))
        self.put("z.zip", self.zipped(("in/old.ds2", ds2), ("kept.wav", wav(1))))
        self.put("a.ul", b"\xff\x7f" * 4000)
        done = self.run_it("enqueue", self.archive, status=0)
        self.assertEqual(2, len(done.err.splitlines()), done.err)  # one of each kind
        self.assertIn("5 recordings of kinds that nothing here can decode (nightshift status --failures)",
                      " ".join(done.out.split()))

        def failures():
            return sorted((path[len(self.archive) + 1:], member, reason[:17]) for path, member, reason in
                          self.sql("SELECT path, member, reason FROM failures WHERE kind = 'unreadable'"))

        rows = [(f"dictations/{i}.ds2", "", "a dictation in DS") for i in range(3)] + [
            ("voice.bin", "", "a voice message i"), ("z.zip", "in/old.ds2", "a dictation in DS")]
        self.assertEqual(rows, failures())
        again = self.enqueue()
        self.assertEqual((2, 2, 0, 0), tuple(again[k] for k in ("recordings", "unchanged", "archives", "vanished")))
        self.assertEqual(rows, failures())
        os.remove(os.path.join(self.archive, "dictations", "1.ds2"))
        self.put("dictations/2.ds2", wav(5))  # converted in its place
        self.enqueue()
        self.assertEqual([rows[0], *rows[3:]], failures())

    def test_patterns_look_into_archives(self):
        with zipfile.ZipFile(os.path.join(self.archive, "z.zip"), "w") as z:
            z.writestr("in/e.wav", wav(1))
            z.writestr("in/f.mp3", wav(2))
            z.writestr("readme.txt", b"words")
        self.assertEqual(1, self.enqueue("-i", "*.mp3", "--dry-run", self.archive)["recordings"])
        self.assertEqual(1, self.enqueue("-x", "e.wav", "--dry-run", self.archive)["recordings"])
        self.assertEqual(2, self.enqueue("-i", "*.zip", "--dry-run", self.archive)["recordings"])

    def test_dry_run_changes_nothing(self):
        self.fill()
        self.assertEqual(4, self.enqueue("--dry-run", self.archive)["recordings"])
        self.assertFalse(os.path.exists(self.catalog))
        self.enqueue()
        before = self.sql("SELECT count(*) FROM job")
        self.put("new.wav", wav(77))
        self.assertEqual((5, 1, 4), tuple(self.enqueue("-n", self.archive)[k]
                                          for k in ("recordings", "new", "unchanged")))
        self.assertEqual(before, self.sql("SELECT count(*) FROM job"))

    def test_a_dry_run_lists_what_is_taken_and_why_not(self):
        self.fill()
        self.put("z.zip", self.zipped(("in/e.wav", wav(9)), ("__MACOSX/f.wav", wav(8))))
        self.put("same.wav", wav(0))
        self.put("broken.zip", b"PK\3\4" + os.urandom(200))
        self.put("#recycle/g.wav", wav(10))
        self.put(".note.wav", wav(11))
        os.symlink("a.wav", os.path.join(self.archive, "link.wav"))

        def listed(*options):
            dry = self.enqueue("--dry-run", *options, self.archive)
            self.assertTrue(dry["dry_run"])
            return {(f["path"][len(self.archive) + 1:] + "//" * ("member" in f) + f.get("member", ""), f["why"])
                    for f in dry["listed"] if f["taken"]}, {
                        (f["path"][len(self.archive) + 1:] + "//" * ("member" in f) + f.get("member", ""), f["why"])
                        for f in dry["listed"] if not f["taken"]}

        skipped = {("#recycle", "trash"), (".note.wav", "hidden"), ("link.wav", "symbolic link"),
                   ("z.zip//__MACOSX/f.wav", "system"), ("broken.zip", "unreadable"), ("notes.txt", "not a recording")}
        self.assertEqual(({("a.wav", "new"), ("b.mp3", "new"), ("deep/er/c.wav", "new"), ("tmp/d.wav", "new"),
                           ("z.zip//in/e.wav", "new"), ("same.wav", "known elsewhere")}, skipped), listed())
        self.enqueue()
        self.put("b.mp3", wav(77))
        os.utime(os.path.join(self.archive, "z.zip"), (1, 1))
        taken, left = listed("-x", "tmp/")
        self.assertEqual({("a.wav", "known"), ("b.mp3", "changed"), ("deep/er/c.wav", "known"),
                          ("z.zip//in/e.wav", "known"), ("same.wav", "known")}, taken)
        self.assertEqual(skipped | {("tmp", "excluded")}, left)
        lines = self.run_it("enqueue", "--dry-run", "-x", "tmp/", self.archive, status=0).out.split("\n\n")[0].splitlines()
        self.assertIn(f"take  changed            {self.archive}/b.mp3", lines)
        self.assertIn(f"skip  trash              {self.archive}/#recycle/", lines)
        self.assertEqual(len(taken) + len(left), len(lines))
        self.assertNotIn("take ", self.run_it("enqueue", "-q", "--dry-run", self.archive, status=0).out)

    def test_missing_path_is_said_and_the_rest_goes_on(self):
        self.fill()
        done = self.run_it("enqueue", os.path.join(self.dir, "gone"), self.archive, status=66)
        self.assertIn("gone: there is no such file", done.err)
        self.assertIn("4 recordings found", done.out)

    def test_where_no_path_is_there_nothing_is_begun(self):
        gone = [os.path.join(self.dir, name) for name in ("gone", "gone too")]
        for options in ([], ["--json"], ["--dry-run"]):
            done = self.run_it("enqueue", *options, *gone, status=66)
            self.assertEqual("", done.out)
            self.assertEqual([f"nightshift: cannot enqueue: '{path}': there is no such file or folder. "
                              "Check its name (ls -l)." for path in gone], done.err.splitlines())
            self.assertFalse(os.path.exists(self.catalog))
        link = os.path.join(self.dir, "link.wav")
        os.symlink("gone", link)
        self.assertEqual(f"nightshift: cannot enqueue: '{link}': it is a link to a file that does not exist. Check its name "
                         "(ls -l).\n", self.run_it("enqueue", link, status=66).err)
        self.fill()
        self.enqueue()
        self.run_it("enqueue", "--language=es", gone[0], status=66)
        self.assertEqual([(1, 1)], self.sql("SELECT (SELECT count(*) FROM job), (SELECT count(*) FROM stage)"))
        self.assertIn("link.wav: it is a link to a file that does not exist\n",
                      self.run_it("enqueue", link, self.archive, status=66).err)

    def test_bad_archive_does_not_stop_the_rest(self):
        self.fill()
        self.put("broken.zip", b"PK\3\4" + os.urandom(200))
        found = self.enqueue()
        self.assertEqual((4, 1), (found["new"], found["unreadable_files"]))
        failures = json.loads(self.run_it("status", "--json", status=0).out)["failures"]
        self.assertEqual(["unreadable"], [f["kind"] for f in failures])
        self.put("broken.zip", b"words now\n")  # no archive's bytes any more
        self.run_it("enqueue", self.archive)

    def zipped(self, *entries):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as z:
            for name, data in entries:
                z.writestr(name, data)
        return out.getvalue()

    def troubles(self):
        return {row[0] for row in self.sql("SELECT member FROM failures WHERE kind = 'unreadable'")}

    def test_unreadable_inner_archives_are_said(self):
        deep = self.zipped(("c.wav", wav(3)))
        inner = self.zipped(("b.wav", wav(2)), ("deep.zip", deep))
        self.put("outer.zip", self.zipped(("a.wav", wav(1)), ("inner.zip", inner),
                                          ("cut.zip", b"PK\3\4" + b"\xff" * 100), ("x.txt", b"words")))
        expected = {"inner.zip//deep.zip", "cut.zip"}
        found = self.enqueue()
        self.assertEqual((2, 2), (found["new"], found["unreadable_files"]), found)
        self.assertEqual(expected, self.troubles())
        self.assertEqual(2, self.enqueue()["unchanged"])
        self.assertEqual(expected, self.troubles())
        # A pattern for recordings does not speak of what may hold some; one that leaves out does.
        self.assertEqual(2, self.enqueue("-i", "*.wav", self.archive, "--language", "en")["unreadable_files"])
        self.assertEqual(1, self.enqueue("-x", "cut.zip", self.archive, "--language", "es")["unreadable_files"])

    def test_what_is_compressed_and_damaged_is_said(self):
        for name in ("talk.wav.gz", "song.MP3.XZ", "words.txt.gz", "talk.wav.md5", "data.gz"):
            self.put(name, b"\x1f\x8b\x08" + bytes(40))
        found = self.enqueue()
        self.assertEqual((2, 3), (found["unreadable_files"], found["left_alone"]), found)
        # As `enqueue` said, which said it once.
        done = self.run_it("enqueue", self.archive)
        self.assertEqual("", done.err)
        self.assertIn("2 of these were reported before (nightshift status --failures)", " ".join(done.out.split()))
        self.assertIn("No recordings found.", done.out)
        self.assertIn("talk.wav.gz the archive is damaged or cut short",
                      " ".join(self.run_it("status", "--failures").out.split()))
        os.remove(self.catalog)
        self.assertIn("talk.wav.gz: the archive is damaged or cut short", self.run_it("enqueue", self.archive).err)

    def test_members_known_by_later_bytes(self):
        packet = b"\x47\x40\x00\x00" + bytes(184)  # a transport stream shows at its second packet
        self.put("box.zip", self.zipped(("reel", packet * 6), ("notes", b"words " * 200)))
        self.assertEqual(1, self.enqueue()["new"])

    def test_another_model_reads_nothing_again(self):
        self.fill()
        self.enqueue()
        path = os.path.join(self.archive, "a.wav")
        seen = os.stat(path)
        with open(path, "r+b") as file:  # would be another recording if it were read
            file.seek(100)
            file.write(b"other bytes")
        os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
        found = self.enqueue("--language", "es", self.archive)
        self.assertEqual((4, 0, 4, 4), tuple(found[k] for k in
                         ("recordings", "new", "unchanged", "tasks")))
        self.assertEqual(4, self.enqueue("-n", "--language", "en", self.archive)["unchanged"])

    def test_no_model_is_taken_that_nobody_named(self):
        """But for OpenAI's; what comes with the program is for its demo."""
        self.fill()
        for words in (["enqueue"], ["enqueue", "--quiet"], ["enqueue", "--json"], ["enqueue", "--dry-run"], ["enqueue", "--watch"],
                      ["enqueue", "--diarize=diarization-nano"], ["run"], ["run", "--watch"]):
            with self.subTest(words=words):
                done = self.run_it("-c", self.catalog, *words, self.archive, status=78)
                self.assertEqual("nightshift: cannot choose a model to transcribe with: there is none here yet. `nightshift setup` "
                                 "fetches one that fits this machine. Without a network, try `nightshift setup --offline DIR`, or "
                                 "--model FOLDER with a model that is here.\n", done.err)
                self.assertEqual("", done.out)
                self.assertFalse(os.path.exists(self.catalog))
        # A folder of models is none, and says which it has.
        many = os.path.join(self.dir, "many")
        for name in ("d", "b", "a", "c"):
            shutil.copytree(os.path.join(SOURCE, "workers/models/whisper-nano"), os.path.join(many, name))
        os.makedirs(os.path.join(many, "0 is none"))
        self.assertEqual(f"nightshift: cannot use the model '{many}': '{many}' is a folder of models, and no model. Try one in it: "
                         "a, b, c.\n", self.run_it("enqueue", "--model", many, self.archive, status=78).err)
        many = os.path.join(many, "0 is none")
        self.assertEqual(f"nightshift: cannot use the model '{many}': '{many}' is no model: it has no config.json. Try a folder that "
                         "has one.\n", self.run_it("enqueue", "--model", many, self.archive, status=78).err)
        # One of the user's own is not taken for another language's or another purpose's, but named.
        models = os.path.join(self.dir, "models")
        own = os.path.join(models, "whisper-cantonese")
        shutil.copytree(os.path.join(SOURCE, "workers/models/whisper-nano"), own)
        done = self.run_it("-c", self.catalog, "enqueue", self.archive, status=78, NIGHTSHIFT_MODELS=models)
        self.assertIn("Try --model=whisper-cantonese (`nightshift model list` shows all that are here), or `nightshift setup`", done.err)
        # What works on no speech wants none; and where a recipe says which, that is taken.
        self.run_it("-c", self.catalog, "enqueue", "--no-transcribe", "--diarize=diarization-nano", self.archive, status=0)
        self.run_it("-c", self.catalog, "enqueue", "--model=whisper-nano", self.archive, status=0)
        self.assertIn("As last time: to transcribe with whisper-nano",
                      self.run_it("-c", self.catalog, "enqueue", self.archive, status=0).out)

    def test_the_best_of_openais_is_taken_and_said(self):
        self.fill()
        hub = os.path.join(self.dir, "hub")
        demo_model.as_openais(hub, os.path.join(SOURCE, "workers/models/whisper-nano"), "openai/whisper-tiny",
                              "Systran/faster-whisper-small", "openai/whisper-base.en")
        done = self.run_it("-c", self.catalog, "enqueue", self.archive, status=0, HF_HUB_CACHE=hub)
        self.assertRegex(done.out, r"to transcribe with\s+Systran/faster-whisper-small\.")

    def test_a_broken_model_is_said_in_the_evening(self):
        self.fill()
        own = os.path.join(self.dir, "model")
        shutil.copytree(os.path.join(SOURCE, "workers/models/whisper-nano"), own)
        weights = os.path.join(own, "model.safetensors")
        size = os.path.getsize(weights)
        os.truncate(weights, size // 2)
        done = self.run_it("enqueue", "--model", own, self.archive, status=78)
        self.assertIn("model", done.err)
        self.assertFalse(os.path.exists(self.catalog))
        head = json.dumps({"other.weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        with open(weights, "wb") as file:
            file.write(struct.pack("<Q", len(head)) + head + bytes(4))
        done = self.run_it("enqueue", "--model", own, self.archive, status=78)
        self.assertIn("not those of a Whisper model", done.err)

    def test_one_file_and_all(self):
        notes = self.put("notes.txt", b"words\n")
        done = self.run_it("enqueue", notes, status=0)
        self.assertIn("--all", done.err)
        self.assertEqual(1, self.enqueue("--all", notes)["new"])

    def test_where_nothing_is_found_nothing_is_as_last_time(self):
        self.fill()
        self.enqueue()
        self.assertIn("As last time: ", self.run_it("enqueue", self.archive, status=0).out)
        os.mkdir(os.path.join(self.archive, "bare"))
        self.assertEqual("No recordings found.\n",
                         self.run_it("enqueue", os.path.join(self.archive, "bare"), status=0).out)

    def test_catalog_itself_is_never_taken(self):
        self.catalog = os.path.join(self.archive, "c.db")
        self.fill()
        self.enqueue("--all", self.archive)
        self.enqueue("--all", self.archive)
        self.assertEqual([], [p for p in self.present() if p.startswith("c.db")])

    def test_model_and_language_are_checked_before_walking(self):
        self.fill()
        for options, word in ((["--model", "no-such-model"], "no-such-model"),
                              (["--language", "xx"], "xx"), (["--language", "toolongforacode!"], "name or code")):
            done = self.run_it("enqueue", *options, self.archive)
            self.assertNotEqual(0, done.returncode)
            self.assertIn(word, done.err)
            self.assertFalse(os.path.exists(self.catalog))

    def test_parameters_make_another_stage(self):
        self.fill()
        self.enqueue()
        self.assertEqual(4, self.enqueue("--language", "es", self.archive)["tasks"])
        for same in ("Spanish", "ES", "Castilian"):
            self.assertEqual(0, self.enqueue("--language", same, self.archive)["tasks"])
        self.assertEqual(4, self.enqueue("--language=en,es", self.archive)["tasks"])
        self.assertEqual(0, self.enqueue("--language=Spanish, English,en", self.archive)["tasks"])
        self.assertEqual(4, self.enqueue("--temperature", "0,0.5", self.archive)["tasks"])
        self.assertEqual(0, self.enqueue("--temperature", "0,0.5", self.archive)["tasks"])

    def test_wrong_values(self):
        for options in (["--temperature", "1,0"], ["--temperature", "x"], ["--task", "sing"],
                        ["--no-speech-threshold", "2"], ["--max-tokens", "0"], ["--include", ""]):
            self.run_it("enqueue", *options, self.archive, status=64)

    def test_names_of_all_kinds(self):
        raw = os.fsencode(self.archive) + b"/\xff\xfe\n.wav"
        with open(raw, "wb") as file:
            file.write(wav(3))
        self.assertEqual(1, self.enqueue()["new"])
        self.assertEqual([(raw,)], self.sql("SELECT path_raw FROM place"))
        self.assertEqual(1, self.enqueue()["unchanged"])


class Requests(Program):
    def affected(self, *args):
        return json.loads(self.run_it(*args, "--json", status=0).out)["affected"]

    def test_cancel_retry_pause_resume(self):
        self.fill()
        self.enqueue()
        deep = os.path.join(self.archive, "deep")
        self.assertEqual(1, self.affected("cancel", deep))
        self.assertEqual(0, self.affected("cancel", deep))
        self.assertEqual(1, self.affected("retry"))
        self.assertEqual(4, self.affected("cancel", "--job", "1"))
        self.assertEqual(4, self.affected("retry", "--all"))
        self.assertEqual(1, self.affected("pause", deep))
        self.assertEqual(1, self.affected("resume", deep))
        self.run_it("pause", status=0)
        self.assertTrue(json.loads(self.run_it("status", "--json").out)["paused"])
        self.run_it("resume", status=0)
        self.assertFalse(json.loads(self.run_it("status", "--json").out)["paused"])
        self.run_it("retry", "--all", deep, status=64)

    def test_a_recording_by_a_part_of_its_name(self):
        self.fill()
        self.put("z.zip", b"")
        with zipfile.ZipFile(os.path.join(self.archive, "z.zip"), "w") as z:
            z.writestr("in/seasons.wav", wav(9))
        self.enqueue()
        done = self.run_it("cancel", "seasons", status=0)
        self.assertEqual([os.path.join(self.archive, "z.zip") + "//in/seasons.wav",
                          "1 recording cancelled; `nightshift retry` takes it up again."], done.out.splitlines())
        self.assertEqual([("in/seasons.wav",)], self.sql("SELECT member FROM tasks WHERE state = 'cancelled'"))
        number, = self.sql("SELECT media_id FROM recordings WHERE path LIKE '%/c.wav'")[0]
        self.assertEqual(1, self.affected("cancel", str(number)))
        for command in ("cancel", "pause", "retry"):
            done = self.run_it(command, ".wav", "b.mp3", status=66)  # the other one is done
            self.assertIn(f"cannot {command}: '.wav' fits 4 recordings. Try its number, or more of its path", done.err)
            self.assertEqual(4, done.err.count(".wav\n"), done.err)
            self.assertEqual(os.path.join(self.archive, "b.mp3"), done.out.splitlines()[0])
        self.assertEqual(2, self.affected("retry"))
        # A whole path that is not there is no part of a name.
        self.run_it("cancel", os.path.join(self.archive, "a.wa"), status=66)
        self.assertIn(f"at or below '{os.path.join(self.dir, 'nothing')}'", self.run_it("cancel", "nothing", status=66).err)
        # Nor is a path that is on the disk, and not in the catalog.
        before = self.sql("SELECT count(*) FROM tasks WHERE state = 'cancelled'")
        with open(os.path.join(self.dir, "seasons"), "wb"):
            pass
        for slip in ("seasons", "./c.wav"):
            self.assertIn("at or below", self.run_it("cancel", slip, status=66).err)
        self.assertEqual(before, self.sql("SELECT count(*) FROM tasks WHERE state = 'cancelled'"))

    def test_one_of_two_members_of_a_name(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the name that is there twice
            with zipfile.ZipFile(os.path.join(self.archive, "two.zip"), "w") as z:
                z.writestr("a.wav", wav(9))
                z.writestr("a.wav", wav(11))
        self.enqueue()
        number, member = self.sql("SELECT media_id, member FROM tasks ORDER BY media_id")[1]
        self.assertIn(member, self.run_it("cancel", str(number), status=0).out)
        self.assertEqual([(number,)], self.sql("SELECT media_id FROM tasks WHERE state = 'cancelled'"))

    def test_priority(self):
        self.fill()
        self.enqueue()
        deep = os.path.join(self.archive, "deep")
        self.assertEqual(1, self.affected("priority", "high", deep))
        self.assertEqual(0, self.affected("priority", "high", deep))
        self.assertEqual(3, self.affected("priority", "low", "--job=1", self.archive) - 1)
        self.assertEqual([(-1, 4)], self.sql("SELECT priority, count(*) FROM task GROUP BY 1"))
        self.run_it("enqueue", "--priority", "high", deep, status=0)  # with what waits already
        self.assertEqual([(1,)], self.sql(
            f"SELECT task.priority FROM tasks JOIN task USING (task_id) WHERE path LIKE '{deep}/%'"))
        self.assertIn("0 of 0 done, high priority", self.run_it("status", "--jobs").out)
        self.assertIn(", 1 of them first", self.run_it("report").out)
        self.assertEqual(["", "high"], [job["priority"] for job in json.loads(
            self.run_it("status", "--jobs", "--json").out)["jobs"]])
        for wrong in (["priority"], ["priority", deep], ["enqueue", "--priority", "2", deep]):
            self.run_it(*wrong, status=64)

    def test_what_is_unknown_is_said(self):
        self.fill()
        self.enqueue()
        deep, gone = os.path.join(self.archive, "deep"), os.path.join(self.archive, "dep")
        for command in ("cancel", "retry", "pause", "resume"):
            with self.subTest(command=command):
                done = self.run_it(command, gone, status=66)
                self.assertIn(f"cannot {command}: the catalog has no recording at or below '{gone}'.", done.err)
                self.assertEqual("", done.out)
                done = self.run_it(command, "--job", "9", status=66)
                self.assertIn(f"cannot {command}: there is no job 9. `nightshift status --jobs`", done.err)
        done = self.run_it("cancel", gone, deep, status=66)  # what there is, is done
        self.assertIn("1 recording cancelled", done.out)
        self.assertEqual(0, self.affected("cancel", deep))
        self.assertEqual("", self.run_it("forget", "--yes", "--superseded", gone, status=66).out)
        done = self.run_it("forget", "--yes", "--stage=99", status=66)
        self.assertEqual("", done.out)
        self.assertIn("there is no stage 99", done.err)

    def test_erased(self):
        names = [name for name in self.fill() or os.listdir(self.archive) if name.endswith(".wav")]
        self.enqueue()
        before = self.sql("SELECT count(*) FROM recordings")[0][0]
        path = os.path.join(self.archive, sorted(names)[0])
        self.assertIn(path, self.run_it("erase", "--dry-run", path, status=0).out)
        self.assertEqual("nightshift: erase: it erases nothing without --yes if nobody can be asked. Try it again with --yes.\n",
                         self.run_it("erase", path, status=64).err)
        self.assertIn("no recording 'nothing'. `nightshift status` shows names of recordings.\n",
                      self.run_it("erase", "--yes", "nothing", status=66).err)
        self.assertRegex(self.run_it("erase", "wav", status=64).err,
                         r"'wav' fits \d+ recordings\. Try its number, or more of its path\.\n$")
        part = os.path.basename(path)  # nobody sees whose name it is a part of
        self.assertRegex(self.run_it("erase", "--yes", part, status=64).err,
                         r"a part of a name, and --yes wants the whole path or a number\. Try the number, \d+\.\n$")
        self.run_it("erase", "--dry-run", "--yes", part, status=0)
        self.run_it("erase", "--yes", path, "nothing", status=66)
        self.assertEqual("Nothing was erased.\n", self.run_it("erase", "--list", status=0).out)
        self.assertEqual(before, self.sql("SELECT count(*) FROM recordings")[0][0])
        done = self.run_it("erase", "--yes", "--by=Eva", path, path, status=0)
        said = " ".join(done.out.split())
        self.assertIn("1 recording erased. ", said)
        self.assertIn("Nightshift does not know which files `export` wrote", said)
        self.assertIn("Backups and copies of the catalog", said)
        for line in done.out.splitlines():
            self.assertLessEqual(len(line), 80, done.out) if "/" not in line else None
        for name in (self.catalog, self.catalog + "-wal"):
            if os.path.exists(name):
                with open(name, "rb") as file:
                    self.assertNotIn(os.path.basename(path).encode(), file.read())
        self.assertRegex(self.run_it("erase", "--list", status=0).out, r"^1: .*, erased on 20\d\d-\d\d-\d\d by Eva\n$")
        mark, = json.loads(self.run_it("erase", "--list", "--json", status=0).out)
        self.assertEqual((1, "Eva", os.path.getsize(path)), (mark["mark"], mark["by"], mark["bytes"]))
        self.run_it("erase", "--yes", path, status=66)
        shutil.copyfile(path, os.path.join(self.archive, "again.wav"))
        for dry in (["--dry-run"], []):
            done = self.run_it("enqueue", self.archive, *dry, "--json", status=0)
            self.assertEqual(2, json.loads(done.out)["erased"], done.out)
            if dry:
                self.assertEqual(["erased for good"] * 2, [line["why"] for line in json.loads(done.out)["listed"]
                                                           if line["path"] in (path, os.path.join(self.archive, "again.wav"))])
        self.assertIn("again.wav: erased on 20", done.err)
        self.assertEqual(before - 1, self.sql("SELECT count(*) FROM recordings")[0][0])
        self.assertEqual([], self.sql("SELECT * FROM failures"))
        self.run_it("erase", "--allow", "7", status=66)
        self.assertIn("takes 1 recording again", self.run_it("erase", "--allow", "1", status=0).out)
        self.enqueue()
        self.assertEqual(before, self.sql("SELECT count(*) FROM recordings")[0][0])
        self.assertIn("there is no speaker 'Ana'. `nightshift speakers` lists", self.run_it("erase", "--person=Ana", "--yes", status=66).err)
        for wrong in ([], ["--allow"], ["--list", "x"], ["--person=A", "x"], ["--person="], ["--list", "--allow", "1"],
                      ["--allow", "x"]):
            self.run_it("erase", *wrong, status=64)
        number = self.put("77.wav", wav(77))  # a number that no recording has is a part of a name
        self.run_it("enqueue", number, status=0)
        self.assertIn("a part of a name", self.run_it("erase", "--yes", "77", status=64).err)

    def test_what_only_looks_like_what_was_erased_is_taken(self):
        whole = wav(3, 400000)
        paths = [self.put(name, whole) for name in ("one.wav", "two.wav")]  # of two the hash is known
        self.enqueue()
        self.assertEqual([(1, 1)], self.sql("SELECT count(*), count(content_hash) FROM media"))
        self.run_it("erase", "--yes", paths[0], status=0)
        with zipfile.ZipFile(os.path.join(self.archive, "box.zip"), "w") as z:
            z.writestr("in/three.wav", whole)
            z.writestr("four.wav", wav(4))
        other = bytearray(whole)
        other[150000] ^= 1  # the fingerprint does not look there
        self.run_it("enqueue", self.put("other.wav", bytes(other)), status=0)
        self.assertEqual([(1,)], self.sql("SELECT count(*) FROM media JOIN erased USING (fingerprint, size_bytes)"))
        done = self.run_it("enqueue", self.archive, "--json", status=0)
        self.assertEqual(3, json.loads(done.out)["erased"])
        for name in ("one.wav", "two.wav", "box.zip//in/three.wav"):
            self.assertIn(name + ": erased on 20", done.err)
        self.assertEqual([("four.wav",), ("other.wav",)],
                         self.sql("SELECT iif(member = '', substr(path, -9), member) FROM recordings ORDER BY 1"))
        self.assertEqual([], self.sql("SELECT * FROM failures"))
        self.assertEqual(2, json.loads(self.run_it("enqueue", self.archive, "--json", status=0).out)["erased"])

    def test_nothing_to_do_in_a_catalog_of_nothing(self):
        self.enqueue()
        for command in ("cancel", "retry", "priority low"):
            for more in ((), ("--all",)):
                with self.subTest(command=command, more=more):
                    self.assertRegex(self.run_it(*command.split(), *more, status=0).out, "^No (waiting )?recording ")
        self.assertEqual(0, self.affected("retry", "--all"))

    def test_what_is_said_to_do_next_can_be_done(self):
        self.fill()
        self.enqueue()
        gone = os.path.join(self.dir, "gone")
        for args, said in ((("describe", gone + ".csv"), "Check its name"),
                           (("merge", self.catalog, self.archive), "`nightshift split` makes them"),
                           (("run", "--part", gone + ".db"), "Check its name"),
                           (("report", "--html", os.path.join(gone, "a.html")), "Check its name"),
                           (("plan", "--device-memory", "much"), "`nightshift plan --help`")):
            with self.subTest(args=args):
                done = self.run_it(*args)
                self.assertIn(done.returncode, (64, 66))
                self.assertIn(said, done.err)
                self.assertNotIn("enqueue", done.err)
                self.assertNotIn("doctor", done.err)

    def test_an_empty_name_is_not_the_folder_one_is_in(self):
        self.fill()  # below self.dir, in which the program is started
        self.run_it("enqueue", "", status=66)
        self.assertFalse(os.path.exists(self.catalog))
        self.enqueue()
        for command in (["enqueue"], ["run"], ["cancel"], ["pause"], ["priority", "low"], ["pin", "1"], ["verify"],
                        ["export"], ["forget", "--yes", "--superseded"]):
            with self.subTest(command=command):
                done = self.run_it(*command, "", status=66)
                self.assertIn("an empty name is not a file or folder", done.err)
                self.assertEqual("", done.out)
        self.assertIn("--path wants a PATH, not ''", self.run_it("search", "a", "--in", "", status=64).err)

    def test_members_of_archives(self):
        self.fill()
        box = os.path.join(self.archive, "box.zip")
        with zipfile.ZipFile(box, "w") as z:
            z.writestr("in/e.wav", wav(9))
            z.writestr("in/deep/f.wav", wav(8))
            z.writestr("g.wav", wav(7))
        self.enqueue()
        here = os.path.basename(self.archive) + "//"  # one slash too many before a folder's names
        for member, n in (("in/e.wav", 1), ("in", 2), ("in/", 2), ("g.wav", 1)):
            for command in ("pause", "resume", "cancel", "retry"):
                with self.subTest(command=command, member=member):
                    self.assertEqual(n, self.affected(command, f"{box}//{member}"))
        self.assertEqual(1, self.affected("pin", "1", here + "box.zip//in/e.wav"))
        self.assertEqual([("in/e.wav",)], self.sql("SELECT member FROM tasks WHERE pinned"))
        self.assertEqual(3, self.affected("pause", here + "box.zip"))
        os.remove(box)  # what is asked for need not be there
        self.assertEqual(1, self.affected("resume", box + "//g.wav"))
        for command in (["retry"], ["cancel"], ["pin", "1"], ["forget", "--yes", "--stage=1"],
                        ["doubts"], ["speakers"], ["search", "x", "--in"], ["correct", "--replace", "a", "b"]):
            with self.subTest(command=command):
                self.assertIn(box + "//in/none.wav", " ".join(
                    self.run_it(*command, box + "//in/none.wav", status=66).err.split()))
        self.run_it("export", box + "//in/none.wav", status=66)

    def test_nothing_is_made_where_no_catalog_is(self):
        for command in (["retry"], ["cancel"], ["pause"], ["status"], ["show", "x"], ["search", "x"],
                        ["export"], ["run"], ["correct", "--list"], ["correct", "--undo", "1"]):
            done = self.run_it(*command)
            self.assertEqual(66, done.returncode, done.err)
            self.assertIn("enqueue", done.err)
            self.assertEqual(1, len(done.err.strip().splitlines()), done.err)
            self.assertFalse(os.path.exists(self.catalog))

    def test_waits_for_another_command(self):
        self.fill()
        self.enqueue()
        lock = open(self.catalog + ".lock", "r+b")
        fcntl.flock(lock, fcntl.LOCK_EX) if not self.uses_posix_locks() else fcntl.lockf(lock, fcntl.LOCK_EX)
        threading.Timer(1.5, lock.close).start()
        began = time.monotonic()
        self.put("late.wav", wav(50))
        self.assertEqual(1, self.enqueue()["new"])
        self.assertGreater(time.monotonic() - began, 1.0)

    def test_a_run_waits_for_a_command_and_names_a_run(self):
        self.fill()
        self.enqueue()
        self.run_it("cancel", "--all", status=0)
        for purpose, status, least in (("enqueue", 0, 1), ("run", 69, 0)):
            with open(self.catalog + ".lock", "r+b") as lock:
                fcntl.lockf(lock, fcntl.LOCK_EX)
                lock.write(f"pid {os.getpid()}\npurpose {purpose}\nsince 2026-01-01T00:00:00Z\n".encode())
                lock.flush()
                if least:
                    threading.Timer(1.5, lambda lock=lock: fcntl.lockf(lock, fcntl.LOCK_UN)).start()
                began = time.monotonic()
                done = self.run_it("run", "--no-progress", status=status)
                self.assertGreater(time.monotonic() - began, least)
                self.assertEqual(status == 69, "holds this catalog" in done.err, done.err)
                if status == 69:
                    self.assertRegex(" ".join(done.err.split()), r"since (Wed 31 Dec|Thu 01 Jan), \d\d:\d\d\)")
                lock.seek(0)
                lock.truncate()

    def uses_posix_locks(self):
        with open(os.path.join(SOURCE, "store/lock.c"), encoding="utf-8") as file:
            return "flock(" not in file.read()


DEFAULTS = ('{"compression_ratio_threshold":2.4,"language":"","logprob_threshold":-1,"max_tokens":0,'
            '"no_speech_threshold":0.6,"temperatures":[0,0.2,0.4,0.6,0.8,1],"translate":false}')
FIRST = ("--quality=fast", "--one-language", "--channels=mix")  # what was usual in the first catalogs
SILERO = os.path.join(os.environ.get("NIGHTSHIFT_SHARED", ""), "models/silero-vad")


class Options(Program):
    """How recordings are transcribed: what each option puts into the stage, and what it refuses."""

    def params(self, *options, **env):
        self.run_it("enqueue", *options, self.archive, status=0, **env)
        return self.sql("SELECT params FROM stage ORDER BY stage_id DESC LIMIT 1")[0][0]

    def refused(self, status, says, *options):
        with self.subTest(options=options):
            done = self.run_it("enqueue", *options, self.archive, status=status)
            self.assertIn(says, " ".join(done.err.split()))
            self.assertEqual("", done.out)
            self.assertFalse(os.path.exists(self.catalog))

    def test_the_stage_of_the_first_catalogs(self):
        self.fill()
        self.assertEqual(DEFAULTS, self.params(*FIRST))
        self.assertEqual(DEFAULTS, self.params("--beam-size=1", "--best-of=1", *FIRST[1:]))
        for same in (["--vad=off"], ["--vad", "auto"], ["--beam-size=1", "--best-of=1"],
                     ["--suppress-tokens=-1"], ["--initial-prompt="], ["--language=auto"],
                     ["--initial-prompt= ", "--hotwords=\t "], ["--max-initial-timestamp=1.0"],
                     ["--no-speech-threshold=0.60"], ["--hallucination-silence-threshold=-0"]):
            with self.subTest(options=same):
                self.assertEqual(DEFAULTS, self.params(*FIRST, *same))
        self.assertEqual([(1, 4)], self.sql("SELECT count(DISTINCT stage_id), count(*) FROM task"))

    def test_quality(self):
        self.fill()
        for options, beams, best in (([], 5, 5), (["--quality=best"], 5, 5), (["--quality=fast"], 1, 1),
                                     (["--quality=fast", "--beam-size=3"], 3, 1),
                                     (["--beam-size=3", "--quality=fast"], 3, 1),
                                     (["--best-of=2", "--quality=best"], 5, 2)):
            with self.subTest(options=options):
                found = json.loads(self.params("--again", *options))
                self.assertEqual((beams, best), (found.get("beam_size", 1), found.get("best_of", 1)))
                os.remove(self.catalog)
        self.refused(64, "best or fast", "--quality=slow")

    def test_languages_of_a_recording(self):
        self.fill()
        for options, many in (([], True), (["--language=en,es"], True), (["--language=auto"], True),
                              (["--multilingual", "--language=en,es"], True), (["--one-language"], False),
                              (["--one-language", "--language=en,es"], False), (["--language=Spanish"], False)):
            with self.subTest(options=options):
                self.assertEqual(many, json.loads(self.params(*options)).get("multilingual", False))
                os.remove(self.catalog)

    def test_people_are_told_what_is_not_usual(self):
        self.fill()
        for options, said in (([], None), (FIRST, 'beam_size 1, best_of 1, channels "mix"'),
                              (["--beam-size=2"], "beam_size 2"), (["--channels=split"], 'channels "split"')):
            self.params(*options)
            status = " ".join(self.run_it("status", status=0).out.split())
            self.assertIn(f"({said})" if said else "whisper-nano: 0 of", status)
            os.remove(self.catalog)

    def test_several_languages_asked_of_a_model_that_knows_one(self):
        self.fill()
        own = os.path.join(self.dir, "model")
        shutil.copytree(os.path.join(SOURCE, "workers/models/whisper-nano"), own)
        path = os.path.join(own, "generation_config.json")
        with open(path, encoding="utf-8") as file:
            generation = json.load(file)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**generation, "is_multilingual": False}, file)
        for options, said in (([], False), (["--multilingual"], True)):
            done = self.run_it("enqueue", "--model", own, *options, self.archive, status=0)
            self.assertEqual(said, "--multilingual does nothing with this model" in " ".join(done.out.split()))
            os.remove(self.catalog)

    @unittest.skipUnless(os.path.isdir(SILERO), "no ../shared/models/silero-vad")
    def test_voice_activity_that_comes_later(self):
        here, here_now = {"NIGHTSHIFT_MODELS": os.path.dirname(SILERO)}, "The model of voice activity is here now"
        stages = ("SELECT s.params LIKE '%silero-vad%', group_concat(DISTINCT t.state), count(*) FROM task t "
                  "JOIN stage s USING (stage_id) GROUP BY 1 ORDER BY 1")
        self.fill()
        self.run_it("enqueue", "--language=es", self.archive, status=0)
        self.put("new.wav", wav(20))
        off = self.run_it("enqueue", self.archive, status=0)
        self.assertNotIn(here_now, " ".join(off.out.split()))
        self.assertEqual([(0, "pending", 5)], self.sql(stages))
        connection = sqlite3.connect(self.catalog)
        connection.execute("UPDATE task SET state = 'done'")
        connection.commit()
        connection.close()
        self.put("newer.wav", wav(21))
        said = self.run_it("enqueue", self.archive, status=0, **here)
        self.assertIn(here_now, " ".join(said.out.split()))
        self.assertEqual([(0, "done", 5), (1, "pending", 1)], self.sql(stages))
        self.assertEqual([("es",), ("es",)], self.sql("SELECT json_extract(params, '$.language') FROM stage"))
        self.run_it("enqueue", self.archive, status=0, **here)
        self.assertEqual([(0, "done", 5), (1, "pending", 1)], self.sql(stages))

    @unittest.skipUnless(os.path.isdir(SILERO), "no ../shared/models/silero-vad")
    def test_voice_activity_that_was_refused_does_not_come_later(self):
        self.fill()
        self.run_it("enqueue", "--vad=off", self.archive, status=0)
        self.put("new.wav", wav(20))
        self.run_it("enqueue", self.archive, status=0, NIGHTSHIFT_MODELS=os.path.dirname(SILERO))
        self.assertEqual([(None, 5)], self.sql("SELECT json_extract(params, '$.vad_model'), count(*) FROM task "
                                               "JOIN stage USING (stage_id) GROUP BY 1"))

    def test_off_is_said_once_and_only_unasked(self):
        self.fill()
        silent = self.run_it("enqueue", "--vad=off", "--dry-run", self.archive, status=0)
        self.assertNotIn("voice activity", silent.out + silent.err)
        said = self.run_it("enqueue", self.archive, status=0)
        self.assertEqual(1, said.out.count("silero-vad"))
        self.assertEqual("", said.err)
        again = self.run_it("enqueue", self.archive, status=0)  # nothing new: nothing to say of it
        self.assertNotIn("voice activity", again.out)
        self.assertFalse(self.enqueue("--language=es", self.archive)["voice_activity"])
        told = self.run_it("enqueue", "--condition-on-previous-text", self.archive, status=0)
        self.assertIn("Voice activity is off", told.out)

    def test_every_option(self):
        self.fill()
        self.assertEqual(
            '{"beam_size":5,"best_of":3,"channels":"auto","compression_ratio_threshold":2.5,'
            '"condition_on_previous_text":true,"hallucination_silence_threshold":2,'
            '"hotwords":"tape \\"a\\"","initial_prompt":"\u00e9t\u00e9","language":"",'
            '"length_penalty":0.5,'
            '"logprob_threshold":-0.5,"max_initial_timestamp":2,"max_tokens":99,"multilingual":true,'
            '"no_speech_threshold":0.5,"patience":1.5,"prompt_reset_on_temperature":0.2,'
            '"sparse_silence":true,"suppress_tokens":[-1,3,7],"temperatures":[0,0.3],"translate":true,'
            '"word_timestamps":true}',
            self.params("--beam-size=5", "--best-of=3", "--compression-ratio-threshold=2.5",
                        "--condition-on-previous-text", "--hallucination-silence-threshold=2",
                        '--hotwords=tape "a"', "--initial-prompt=\u00e9t\u00e9",
                        "--length-penalty=0.5", "--logprob-threshold=-0.5",
                        "--max-initial-timestamp=2", "--max-tokens=99", "--no-speech-threshold=0.5",
                        "--patience=1.5", "--prompt-reset-on-temperature=0.2",
                        "--sparse-silence", "--suppress-tokens=7,-1,3,7", "--temperature=0,0.3", "--task=translate",
                        "--word-timestamps"))
        whole = json.loads(self.params("--multilingual", "--without-timestamps", "--suppress-tokens="))
        self.assertEqual([True, True, []], [whole[k] for k in ("multilingual", "without_timestamps",
                                                               "suppress_tokens")])
        self.assertNotIn("multilingual", json.loads(self.params("--one-language")))

    def test_run_takes_the_options_of_enqueue(self):
        """One by one: a value that is wrong ends the command, and what stands behind it is not looked at."""
        known = self.run_it("complete", "enqueue", "--", status=0).out.split()
        words = [word + "none" if word.endswith("=") else word for word in known
                 if word.rstrip("=") not in ("--catalog", "--json", "--quiet", "--verbose", "--help", "--dry-run")]
        self.assertIn("--word-timestamps", words)
        for word in words:
            said = self.run_it("run", word, "--settled=none", self.archive, status=64)
            self.assertNotIn("no option", said.err)
            self.assertIn("nightshift: run: ", said.err)
        for command in ("enqueue", "run"):  # where the argument behind it is another option's, or a path
            said = self.run_it(command, "--diarize", "diarization-nano", self.archive, status=64)
            self.assertIn("Perhaps --diarize=diarization-nano was meant", said.err)
        self.assertIn("no option '--dry-run'", self.run_it("run", "--dry-run", self.archive, status=64).err)

    def test_what_is_about_parts_alone(self):
        for option in ("--tries=3", "--write-back=1m"):
            self.assertIn(f"{option.split('=')[0]} does nothing without --part",
                          self.run_it("run", option, self.archive, status=64).err)
        self.assertFalse(os.path.exists(self.catalog))

    def test_the_longest_texts(self):
        """Every character escaped: the longest parameters that there are still reach the catalog."""
        self.fill()
        text = "\x01" * 200
        whole = json.loads(self.params("--initial-prompt", text, "--hotwords", text,
                                       "--suppress-tokens=" + ",".join(map(str, range(64)))))
        self.assertEqual((text, text, list(range(64))),
                         tuple(whole[k] for k in ("initial_prompt", "hotwords", "suppress_tokens")))

    def test_values_out_of_range(self):
        self.fill()
        for option, says in (("--beam-size=0", "from 1 to 16"), ("--beam-size=17", "from 1 to 16"),
                             ("--best-of=2.5", "whole number"), ("--patience=0", "from 0.1 to 10"),
                             ("--patience=nan", "not 'nan'"), ("--length-penalty=-1", "from 0 to 10"),
                             ("--max-initial-timestamp=31", "from 0 to 30"),
                             ("--no-speech-threshold=1.01", "from 0 to 1"),
                             ("--compression-ratio-threshold=0.5", "from 1 to 1000"),
                             ("--max-tokens=449", "from 1 to 448"), ("--temperature=0.5,0.5", "rising"),
                             ("--temperature=", "rising"), ("--task=sing", "transcribe or translate"),
                             ("--suppress-tokens=1,,2", "numbers of tokens"),
                             ("--suppress-tokens=-2", "numbers of tokens"),
                             ("--suppress-tokens=1,", "numbers of tokens"),
                             ("--suppress-tokens=" + ",".join(map(str, range(65))), "up to 64"),
                             ("--hotwords=" + "x" * 2048, "2048 bytes; at most 2047"),
                             ("--initial-prompt=\udcff", "not valid UTF-8"),
                             ("--language-detection-segments=0", "from 1 to 16"),
                             ("--vad-speech-pad-ms=10001", "from 0 to 10000"),
                             ("--vad=", "Silero's model"), ("--vad-threshold=2", "from 0 to 1"),
                             ("--vad-speech-pad-ms=-1", "whole number")):
            self.refused(64, says, option)

    def test_contradictions_are_said(self):
        self.fill()
        for options, says in (
                (["--patience=2", "--quality=fast"], "--patience does nothing without --beam-size"),
                (["--patience=2", "--beam-size=1"], "--patience does nothing without --beam-size"),
                (["--length-penalty=1", "--quality=fast"], "does nothing without --beam-size or --best-of"),
                (["--best-of=5", "--temperature=0"], "no --temperature is above 0"),
                (["--beam-size=5", "--temperature=0.2"], "--temperature has no 0"),
                (["--prompt-reset-on-temperature=0.3"], "without --condition-on-previous-text"),
                (["--max-initial-timestamp=1", "--without-timestamps"], "exclude each other"),
                (["--hallucination-silence-threshold=2"], "without --word-timestamps"),
                (["--multilingual", "--language=en"], "exclude each other"),
                (["--multilingual", "--one-language"], "exclude each other"),
                (["--one-language", "--language=en"], "--one-language does nothing with --language"),
                (["--translate", "--task=transcribe"], "exclude each other"),
                (["--task=transcribe", "--translate"], "exclude each other"),
                (["--language-detection-threshold=0.9", "-l", "en"], "do nothing with --language"),
                (["--vad=off", "--language-detection-segments=2"], "do nothing without voice"),
                (["--vad=off", "--vad-threshold=0.4"], "--vad-threshold does nothing without voice")):
            self.refused(64, says, *options)
        # Of what nobody said nothing is a contradiction.
        for options in (["--temperature=0"], ["--temperature=0.2"], ["--patience=2"], ["--length-penalty=1"]):
            with self.subTest(options=options):
                self.run_it("enqueue", "--dry-run", *options, self.archive, status=0)

    def test_what_this_model_cannot_do(self):
        self.fill()
        self.refused(64, "last token is", "--suppress-tokens=99999")
        self.refused(64, "looks at 223", "--initial-prompt", "word " * 400)
        self.refused(64, "does not know the language 'xx'", "--language=xx")
        self.refused(64, "does not know the language 'de' (german). Try one of: en es", "--language=German,en")
        self.refused(64, "'spansh'. Perhaps 'spanish' was meant", "--language=spansh")
        self.refused(78, "nightshift model pull silero-vad", "--vad=on")
        self.refused(78, "nightshift model pull silero-vad", "--vad-threshold=0.4")
        self.refused(78, "there is no file '/nix'", "--vad=/nix")
        self.refused(78, "'/dev/null' is not a file", "--vad=/dev/null")
        self.refused(78, "is not a file, but a folder", "--vad", self.dir)
        self.refused(64, "--vad is auto, on, off, or a file", "--vad=maybe")
        own = os.path.join(self.dir, "bad.safetensors")
        with open(own, "wb") as file:
            file.write(b"\x02\0\0\0\0\0\0\0{}")
        self.refused(78, "bad.safetensors", "--vad", own)

    @unittest.skipUnless(os.path.isdir(SILERO), "no ../shared/models/silero-vad")
    def test_voice_activity(self):
        self.fill()
        here = {"NIGHTSHIFT_MODELS": os.path.dirname(SILERO)}
        whole = json.loads(self.params(**here))
        self.assertEqual("silero-vad", whole["vad_model"])
        self.assertRegex(whole["vad_hash"], "^[0-9a-f]{32}$")
        self.assertEqual(self.params(**here), self.params("--vad=on", "--vad-threshold=0.5", **here))
        self.assertEqual(self.params("--vad-threshold=0.6", **here),
                         self.params("--vad-threshold=0.6", "--vad-neg-threshold=0.45", **here))
        self.assertEqual(self.params(**here), self.params("--vad-neg-threshold=0.35", **here))
        done = self.run_it("enqueue", "--hotwords=a", "--initial-prompt=b", self.archive, status=64, **here)
        self.assertIn("--hotwords does nothing with --initial-prompt", " ".join(done.err.split()))
        by_path = json.loads(self.params("--vad", SILERO, "--vad-min-silence-duration-ms=2000"))
        self.assertEqual((os.path.realpath(os.path.join(SILERO, "silero_vad_16k.safetensors")), 2000,
                          whole["vad_hash"]),
                         (by_path["vad_model"], by_path["vad_min_silence_duration_ms"], by_path["vad_hash"]))
        self.assertEqual(DEFAULTS, self.params("--vad=off", *FIRST, **here))
        for vad, on in ([], False), (["--vad=auto"], True):  # it stays as it is where nobody speaks of it
            said = self.run_it("enqueue", "--json", "--language=en", *vad, self.archive, status=0, **here)
            self.assertEqual(on, json.loads(said.out)["voice_activity"])
        os.symlink(SILERO, os.path.join(self.dir, "silero-vad"))  # not found from elsewhere
        done = self.run_it("enqueue", "--vad=on", self.archive, status=78)
        self.assertIn("nightshift model pull silero-vad", done.err)
        self.assertEqual(by_path["vad_model"], json.loads(self.params("--vad=silero-vad"))["vad_model"])
        asked = json.loads(self.params("--vad=on", "--language-detection-segments=7",
                                       "--language-detection-threshold=0.8", **here))
        self.assertEqual((7, 0.8), (asked["language_detection_segments"],
                                    asked["language_detection_threshold"]))
        done = self.run_it("enqueue", "--vad=on", "--condition-on-previous-text", self.archive, status=64,
                           **here)
        self.assertIn("only without voice activity", done.err)
        done = self.run_it("enqueue", "--vad-threshold=0.3", "--vad-neg-threshold=0.4", self.archive,
                           status=64, **here)
        self.assertIn("vad_neg_threshold is 0.4, above vad_threshold, 0.3", done.err)


class Words(Program):
    def said(self, *args):
        return " ".join(self.run_it(*args, status=64).err.split())

    def test_a_slip_is_told_from_an_option_cut_short(self):
        for args, says in ((["enqueue", "--dairize", "."], "there is no option '--dairize'. Perhaps '--diarize' was"),
                           (["enqueue", "--beamsize=3", "."], "Perhaps '--beam-size' was meant. Try"),
                           (["status", "--josn"], "Perhaps '--json' was meant. Try"),
                           (["--catlog", "x", "status"], "Perhaps '--catalog' was meant. Try"),
                           (["enqueue", "--no", "."], "'--no' is short for several: --no-speech-threshold, "
                                                      "--no-transcribe. Try"),
                           (["statsu"], "there is no command 'statsu'. Perhaps 'status' was meant. Try"),
                           (["enq", "."], "Perhaps 'enqueue' was meant"),
                           (["help", "serach"], "Perhaps 'search' was meant")):
            with self.subTest(args=args):
                self.assertIn(says, self.said(*args))
        for args in (["enqueue", "--" + "x" * 3000], ["status", "--zebra"], ["zebra"], ["re"], ["x" * 300]):
            with self.subTest(args=args):
                said = self.said(*args)
                self.assertIn("there is no ", said)
                self.assertNotIn("Perhaps", said)

    def options_of(self, command):
        found = self.run_it("complete", command, "--", status=0).out.split()
        return {option.rstrip("=").removeprefix("--") for option in found}

    def test_options_of_other_programs_name_what_there_is(self):
        """Every option and command that a sentence names is there, and no sentence stands where the option is one."""
        path = os.path.join(os.environ["NIGHTSHIFT_SOURCE_DIR"], "tools/cli/other_programs.c")
        with open(path, encoding="utf-8") as file:
            strings = re.findall(r'"([^"\n]*)"', file.read())
        names = {s for s in strings if re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", s)}
        for name in ("output-format", "output-dir", "compute-type", "vad-filter", "model-dir", "task", "beam-size", "best-of",
                     "fp16", "device", "device-index", "batch-size", "condition-on-previous-text", "initial-prompt",
                     "hotwords", "hf-token", "min-speakers", "max-speakers", "align-model", "highlight-words",
                     "max-line-width"):
            self.assertIn(name, names)
        options = {command: self.options_of(command) for command in ("enqueue", "run", "export", "show", "search", "speakers",
                                                                     "model", "status", "plan")}
        commands = {"list", "pull", "name"}  # the second words of a command
        for name in sorted(names):
            said = []
            for command in ("status", "plan", "enqueue", "run", "export"):
                known = any(option.startswith(name) for option in options[command])
                done = self.run_it(command, "--" + name.replace("-", "_"), "x")
                if known or (command == "run" and any(option.startswith(name) for option in options["enqueue"])):
                    continue
                self.assertEqual(64, done.returncode, (command, name))
                line = " ".join(done.err.split())
                self.assertTrue(line.startswith(f"nightshift: {command}: there is no option '--{name}' here. "), line)
                self.assertTrue(line.endswith(f". Try `nightshift {command} --help`."), line)
                said.append(line.split(" here. ", 1)[1].rsplit(" Try ", 1)[0])
            self.assertEqual(1, len(set(said)), name)
            self.assertLess(len(said[0]), 200)
            bare = re.sub(r"`[^`]*`", "", said[0])
            self.assertNotIn("--", bare)
            for quoted in re.findall(r"`([^`]*)`", said[0]):
                program, command, *rest = quoted.split(" ")
                self.assertEqual("nightshift", program)
                for word in rest:
                    if word.startswith("--"):
                        self.assertIn(word.split("=")[0][2:], options[command], said[0])
                    else:
                        self.assertTrue(word in commands or word.isupper() or "/" in word, said[0])
            # A value that is named is one that there is.
            for value in re.findall(r"nightshift export --format=([a-z-]+)", said[0]):
                self.assertIn(f"      {value} ", self.run_it("export", "--help", status=0).out)
        self.assertGreater(len(names), 90)

    def test_options_are_taken_as_other_programs_spell_them(self):
        with open(os.path.join(self.archive, "a.wav"), "wb") as file:
            file.write(wav(1))
        self.run_it("enqueue", "-m", "whisper-nano", "--beam_size", "2", "--word_timestamps", "--initial_prompt=a_b",
                    self.archive, status=0)
        said = json.loads(self.sql("SELECT params FROM stage")[0][0])
        self.assertEqual((2, True, "a_b"), (said["beam_size"], said["word_timestamps"], said["initial_prompt"]))
        self.run_it("status", "--failures_", status=64)

    def test_the_version_as_json(self):
        version = self.run_it("version", status=0).out.split()[1]
        self.assertEqual({"version": version}, json.loads(self.run_it("version", "--json", status=0).out))
        self.assertIn("'x'", self.said("version", "x"))


class Installed(unittest.TestCase):
    def test_without_the_cuda_module_the_rest_is_installed(self):
        """As after tools/demo, which builds the program alone."""
        script = os.path.join(os.environ["NIGHTSHIFT_BUILD_DIR"], "gpu/cuda/cmake_install.cmake")
        if not os.path.exists(script):
            self.skipTest("this build has no CUDA module")
        with open(script, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("nightshift-cuda.so", text)
        prefix = tempfile.mkdtemp(dir=".")
        self.addCleanup(shutil.rmtree, prefix, True)
        other = os.path.join(prefix, "install.cmake")
        with open(other, "w", encoding="utf-8") as file:
            file.write(text.replace("lib/nightshift-cuda.so", "lib/not-built.so"))
        done = subprocess.run(["cmake", f"-DCMAKE_INSTALL_PREFIX={os.path.abspath(prefix)}", "-P", other],
                              capture_output=True, text=True, check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("Without the CUDA module", done.stdout)

    def test_texts_find_each_other(self):
        """All but what is called otherwise there, or stays in the source."""
        with open(os.path.join(os.environ["NIGHTSHIFT_BUILD_DIR"], "tools/cmake_install.cmake"), encoding="utf-8") as file:
            text = file.read()
        lines = re.findall(r'file\(INSTALL DESTINATION "\$\{CMAKE_INSTALL_PREFIX\}/(share/doc/nightshift[^"]*)" '
                           r'TYPE FILE FILES([^)]*)\)', text)
        there = {os.path.join(where, os.path.basename(name)): name
                 for where, names in lines for name in re.findall(r'"([^"]+)"', names)}
        self.assertIn("share/doc/nightshift/README.md", there)
        for path, source in there.items():
            if not path.endswith(".md"):
                continue
            with open(source, encoding="utf-8") as file:
                for link in re.findall(r"\]\((?!http)([^)#]+)", file.read()):
                    to = os.path.normpath(os.path.join(os.path.dirname(path), link))
                    if not to.endswith(("/CHANGELOG.md", "/tools")):
                        self.assertIn(to, there, f"{path} names {link}")
        with open(os.path.join(os.environ["NIGHTSHIFT_SOURCE_DIR"], "tools/packages/nightshift@.service"),
                  encoding="utf-8") as file:
            self.assertIn(re.search(r"file:///usr/(\S+)", file.read()).group(1), there)


class Names(Program):
    """Which recording is meant by what is typed."""

    def show(self, what, status=0):
        done = self.run_it("show", what, status=status)
        return done.out.splitlines()[0] if status == 0 else done.err

    def test_any_part_that_no_other_has(self):
        decomposed = "nin\u0303o.FLAC"
        for i, name in enumerate(("tapes/tape 1.wav", "tapes/tape 2.wav", "talks/" + decomposed,
                                  "talks/1999.wav", "\u00c9t\u00e9 (1).mp3", "odd\udcff.wav")):
            self.put(name, wav(i))
        with zipfile.ZipFile(os.path.join(self.archive, "box.zip"), "w") as z:
            z.writestr("side-a.mp3", wav(20))
            z.writestr("side-b.mp3", wav(21))
        self.enqueue()
        for what, name in (("tape 1.wav", "tapes/tape 1.wav"), ("tape 1", "tapes/tape 1.wav"),
                           ("pe 2", "tapes/tape 2.wav"), ("APES/tape 2", "tapes/tape 2.wav"),
                           ("archive/tapes/tape 1", "tapes/tape 1.wav"),
                           ("ni\u00f1o.flac", "talks/" + decomposed), ("nin\u0303o", "talks/" + decomposed),
                           ("I\u00d1", "talks/" + decomposed), ("\u00e9t\u00e9", "\u00c9t\u00e9 (1).mp3"),
                           ("E\u0301te\u0301 (1).mp3", "\u00c9t\u00e9 (1).mp3"), ("1999", "talks/1999.wav"),
                           ("odd\udcff.wav", "odd\\xFF.wav"), ("odd\\xFF", "odd\\xFF.wav"),
                           ("side-b", "box.zip//side-b.mp3"), ("box.zip//side-a.mp3", "box.zip//side-a.mp3"),
                           ("%", None), ("999", None), ("99", None), ("nothing", None)):
            with self.subTest(what=what):
                if name is None:
                    self.assertIn("has no recording", self.show(what, status=66))
                else:
                    self.assertEqual(os.path.join(self.archive, name), self.show(what))
        for what, names in (("tape", ["tapes/tape 1.wav", "tapes/tape 2.wav"]),
                            ("talks", ["talks/" + decomposed, "talks/1999.wav"]),
                            ("box.zip", ["box.zip//side-a.mp3", "box.zip//side-b.mp3"])):
            with self.subTest(what=what):
                said = self.show(what, status=64)
                self.assertTrue(said.endswith(f"'{what}' fits {len(names)} recordings. Try its number, or more of "
                                              "its path.\n"), said)
                self.assertEqual(len(names), len(re.findall(r"(?m)^  \d+  /", said)), said)
                for name in names:
                    self.assertRegex(said, rf"(?m)^  \d+  {re.escape(os.path.join(self.archive, name))}$")
        link = os.path.join(self.dir, "link")
        os.symlink(self.archive, link)
        self.assertEqual(os.path.join(self.archive, "tapes/tape 1.wav"),
                         self.show(os.path.join(link, "tapes/tape 1.wav")))


class Completion(Program):
    def of(self, *words):
        return self.run_it("complete", *words, status=0).out.splitlines()

    def test_commands_and_their_options(self):
        commands = self.of("")
        self.assertIn("help", commands)
        self.assertEqual(["--catalog=", "--help", "--version"], self.of("-c", "x", "-"))
        for command in commands[:-1]:
            with self.subTest(command=command):
                text = self.run_it(command, "--help", status=0).out
                own = text[:text.index("Examples:")]
                self.assertLessEqual({f"--{name}" for name in re.findall(r"(?m)^ +(?:-\w, )?--([a-z-]+)", own)},
                                     {option.rstrip("=") for option in self.of(command, "--")})
        self.assertEqual(["status"], self.of("help", "st"))
        # `run` takes those of `enqueue`, which its help does not list.
        listed = self.run_it("run", "--help", status=0).out
        for option in ("--beam-size=", "--diarize", "--include=", "--language="):
            self.assertNotIn("  " + option, listed)
            self.assertIn(option, self.of("run", "--"))
        self.assertEqual(["--task=transcribe", "--task=translate"], self.of("run", "--task=tr"))
        self.assertEqual(["status"], self.of("-c", self.catalog, "st"))
        self.assertEqual([], self.of("nonsense", "--"))

    def test_values(self):
        self.assertEqual(["--task=transcribe", "--task=translate"], self.of("enqueue", "--task=tr"))
        self.assertEqual(["--beam-size="], self.of("enqueue", "x.wav", "--beam"))
        for words, first in ((["--diarize=d"], "--diarize=diarization-nano"), (["--model=wh"], "--model=whisper-nano"),
                             (["--model", "whisper-n"], "whisper-nano"), (["-m", "whisper-n"], "whisper-nano")):
            self.assertIn(first, self.of("enqueue", *words))
        for command in ("enqueue", "bench"):
            self.assertEqual(["--diarize=diarization-nano"], self.of(command, "--diarize=d"))
            self.assertEqual([], self.of(command, "--diarize=wh"))  # that one is not for it
        self.assertEqual(["large-v3", "large-v3-turbo"], self.of("bench", "-m", "l"))
        for command in ("run", "bench"):
            self.assertEqual(["--precision=fp16", "--precision=fp32", "--precision=fp8"], sorted(self.of(command, "--precision=fp")))
            self.assertEqual(["auto", "16", "8"], self.of(command, "--cache-precision", ""))
        self.assertEqual(["srt"], self.of("export", "-f", "s"))
        for words in (["-c", ""], ["enqueue", ""], ["enqueue", "--diarize", ""], ["run", "--shard", ""]):
            self.assertEqual([], self.of(*words))  # files, or nobody knows

    def test_in_bash(self):
        if shutil.which("bash") is None:
            self.skipTest("skipped: no bash here")
        self.put("tape 1.wav", wav(1))
        master, slave = pty.openpty()
        bash = subprocess.Popen(["bash", "--norc", "--noprofile", "-i"], stdin=slave, stdout=slave, stderr=slave,
                                cwd=self.archive, start_new_session=True,
                                env=dict(os.environ, HOME=self.dir, TERM="dumb", PS1="> ", NIGHTSHIFT_CATALOG=self.catalog,
                                         PATH=os.path.dirname(PROGRAM) + ":" + os.environ["PATH"]))
        os.close(slave)
        try:
            self.type(master, f". '{SOURCE}/tools/cli/completion.bash'; echo so''urced\n", "sourced\r\n")
            for typed, whole in (("enq", "enqueue "), ("enqueue --diarize=", "enqueue --diarize=diarization-nano "),
                                 ("enqueue --beam", "enqueue --beam-size="), ("show ta", "show tape\\ 1.wav "),
                                 ("enqueue --vad=ta", "enqueue --vad=tape\\ 1.wav ")):
                with self.subTest(typed=typed):
                    said = self.type(master, f"nightshift {typed}\t", f"nightshift {whole}")
                    self.assertTrue(said.endswith(whole), said)
                    os.write(master, b"\x15")  # the line is taken back
        finally:
            bash.kill()
            bash.wait()
            os.close(master)

    def type(self, terminal, text, expected):
        said = ""
        os.write(terminal, text.encode())
        for _ in range(600):
            if select.select([terminal], [], [], 0.1)[0]:
                said += os.read(terminal, 4096).decode()
            elif expected in said:
                return said
        self.fail(said)


class Output(Program):
    def settle(self, *paths):
        """Marks recordings as transcribed, with no text in them."""
        connection = sqlite3.connect(self.catalog)
        for path in paths:
            connection.execute("UPDATE task SET state = 'done', shards_done = 1, shards_total = 1, silent = 1 "
                               "WHERE media_id = (SELECT media_id FROM place WHERE path = ? "
                               "AND state = 'present')",
                               (os.path.join(self.archive, path),))
        connection.commit()
        connection.close()

    def exported(self, *args):
        shutil.rmtree(os.path.join(self.dir, "out"), True)
        self.run_it("export", "-o", "out", *args, status=0)
        out = os.path.join(self.dir, "out")
        return {os.path.relpath(os.path.join(where, name), out)
                for where, _, names in os.walk(out) for name in names}

    def test_export_says_where_to_look(self):
        self.put("a.wav", wav(1))
        self.enqueue()
        self.settle("a.wav")
        done = self.run_it("export", "-o", "-", status=64)
        self.assertIn("one transcript on standard output is `nightshift show --format=FORMAT RECORDING`", done.err)
        self.assertFalse(os.path.exists(os.path.join(self.dir, "-")))
        for out in ("pages", "pages/"):
            done = self.run_it("export", "-f", "html", "-m", "none", "--no-waveform", "-o", out, status=0)
            self.assertIn("\nOpen pages/index.html\n", done.out)
            self.assertTrue(os.path.isfile(os.path.join(self.dir, "pages/index.html")))
        self.assertNotIn("Open ", self.run_it("export", "-o", "out", status=0).out)

    def test_exported_names_do_not_depend_on_what_is_asked_for(self):
        for i, name in enumerate(("deep/t.mp3", "deep/t.wav", "deep/er/c.wav", "top.wav")):
            self.put(name, wav(i))
        self.enqueue()
        self.settle("deep/t.wav", "deep/er/c.wav", "top.wav")  # t.mp3 not yet
        every = {"deep/t.wav.txt", "deep/er/c.txt", "top.txt"}
        self.assertEqual(every, self.exported())
        self.assertEqual({"deep/er/c.txt"}, self.exported(os.path.join(self.archive, "deep/er")))
        self.assertEqual({"deep/t.wav.txt"}, self.exported(os.path.join(self.archive, "deep/t.wav")))
        done = self.run_it("export", "-o", "out", "--base", "/nope", status=66)
        self.assertIn("the catalog has no recording below the folder '/nope'", done.err)
        self.assertEqual({"er/c.txt"}, self.exported("--base", os.path.join(self.archive, "deep"),
                                                     os.path.join(self.archive, "deep/er")))
        self.settle("deep/t.mp3")
        self.assertEqual(every | {"deep/t.txt"}, self.exported())
        # One that was replaced by another gives up its name, and is not exported any more.
        self.put("top.wav", wav(99))
        self.enqueue()
        self.settle("top.wav")
        self.assertEqual(every | {"deep/t.txt"}, self.exported())
        self.assertEqual({"top.txt"}, self.exported(os.path.join(self.archive, "top.wav")) & {"top.txt"})

    def test_a_copy_that_is_asked_for_gives_the_file_its_name(self):
        at = lambda name: os.path.join(self.archive, name)
        self.put("own/box.wav", wav(0))
        for name in ("all/1990/old name.wav", "work/Anna.wav", "work/Anna.mp3"):
            self.put(name, wav(1 + name.endswith("3")))
        self.put("all/1990/other.wav", wav(2))
        self.enqueue(at("own"))
        self.enqueue(at("all"))
        self.enqueue(at("work"))
        self.settle("own/box.wav", "all/1990/old name.wav", "all/1990/other.wav")
        every = {"own/box.txt", "all/1990/old name.txt", "all/1990/other.txt"}
        self.assertEqual(every, self.exported())
        work = self.exported(at("work"))
        self.assertIn(work, [{"work/Anna.txt", f"work/Anna.{other}.txt"} for other in ("wav", "mp3")])
        self.assertEqual(work, {"work/" + name for name in self.exported("-b", at("work"), at("work"))})
        for name in ("Anna.wav", "Anna.mp3"):  # each by itself has the same
            self.assertTrue(self.exported(at("work/" + name)) < work)
        self.assertEqual(every, self.exported(at("work"), self.archive))  # its main place comes first
        self.assertEqual({"pages", "work"}, {name.split("/")[0] for name in self.exported(
            "-f", "txt", "-f", "html", at("work")) if name.startswith(("work", "pages", "all"))})
        # Also where the copies lie beside all else, and in the text itself.
        copy = os.path.join(self.dir, "copy", "1990")
        os.makedirs(copy)
        shutil.copy(at("own/box.wav"), os.path.join(copy, "case.wav"))
        self.enqueue(copy)
        self.assertEqual(every, self.exported())
        self.assertEqual({"copy/1990/case.json"}, self.exported("-f", "json", copy))
        with open(os.path.join(self.dir, "out/copy/1990/case.json"), encoding="utf-8") as file:
            self.assertEqual(os.path.join(copy, "case.wav"), json.load(file)["path"])

    def test_an_interrupted_export_leaves_whole_files(self):
        for i in range(1500):
            self.put(f"{i}.wav", wav(i, 100))
        self.enqueue()
        connection = sqlite3.connect(self.catalog)
        connection.execute("UPDATE task SET state = 'done', shards_done = 1, shards_total = 1")
        connection.commit()
        connection.close()
        out = os.path.join(self.dir, "out")
        child = subprocess.Popen([PROGRAM, "-c", self.catalog, "export", "-f", "json", "-o", out],
                                 stdout=subprocess.DEVNULL, env=dict(os.environ, HOME=self.dir))
        while child.poll() is None and not (os.path.isdir(out) and len(os.listdir(out)) > 50):
            time.sleep(0.001)
        child.send_signal(signal.SIGINT)
        child.wait()
        names = os.listdir(out)
        self.assertEqual([], [n for n in names if n.endswith(".tmp")])
        for name in names:
            with open(os.path.join(out, name), encoding="utf-8") as file:
                json.load(file)

    def talk(self):
        """One recording with words, a doubt, a text that was tried again, and two that were dropped."""
        self.put("a.wav", wav(1))
        self.enqueue()
        connection = sqlite3.connect(self.catalog)
        connection.execute("INSERT INTO shard (task_id, seq, start_ms, end_ms, language, "
                           "language_prob, windows, wall_ms, device, done_at) VALUES (1, 0, 0, 30000, 'en', 0.9, 1, 12, 'cpu', '2026')")
        count_shards(connection)
        connection.executemany(
            "INSERT INTO segment (segment_id, task_id, seq, idx, start_ms, end_ms, text, language, "
            "avg_logprob, attempts, speech_prob, reason) VALUES (?, 1, 0, ?, ?, ?, ?, 'en', ?, ?, ?, ?)",
            [(1, 0, 0, 2000, "Good morning.", -0.2, 1, 0.97, ""),
             (2, 1, 2000, 5000, "We met at the market.", -0.3, 2, 0.9, "tried again: repetitive"),
             (3, 2, 5000, 7000, "The the the.", -0.4, 1, None, "loop; no voice"),
             (4, 3, 7000, 9000, "Mumble.", -1.5, 1, None, "too unlikely")])
        connection.executemany("INSERT INTO word (segment_id, idx, start_ms, end_ms, text, probability) "
                               "VALUES (1, ?, ?, ?, ?, ?)",
                               [(0, 0, 700, " Good", 0.9), (1, 700, 1500, " morning.", 0.5)])
        connection.executemany(
            "INSERT INTO dropped (task_id, seq, idx, start_ms, end_ms, text, language, reason) "
            "VALUES (1, 0, ?, ?, ?, ?, 'en', ?)",
            [(0, 9000, 20000, "Thanks for watching!", "no speech; no voice; silence phrase"),
             (1, 20000, 30000, "you\x1b[2J", "no speech")])
        connection.execute("UPDATE task SET state = 'done', shards_total = 1")
        connection.commit()
        connection.close()

    def test_show_marks_doubts_and_says_what_was_dropped(self):
        self.talk()
        shown = self.run_it("show", "a.wav", status=0).out
        self.assertEqual(["   0:00.000    Good morning.", "   0:02.000    We met at the market.",
                          "   0:05.000 ?  The the the.", "   0:07.000 ?? Mumble.", "",
                          "? the model was unsure, or the text is in doubt; ?? very unsure",
                          "2 texts were rejected and left out; --dropped shows them."],
                         shown.splitlines()[4:])
        dropped = self.run_it("show", "--dropped", "a.wav", status=0).out
        self.assertEqual(["   0:09.000    Thanks for watching!",
                          "               no speech; no voice; silence phrase",
                          "   0:20.000    you\\x1B[2J", "               no speech"], dropped.splitlines()[4:])
        self.assertIn("not srt as well", self.run_it("show", "--json", "-f", "srt", "a.wav", status=64).err)
        whole = json.loads(self.run_it("show", "--dropped", "--json", "a.wav", status=0).out)
        self.assertEqual(["no speech; no voice; silence phrase", "no speech"],
                         [s["reason"] for s in whole["dropped"]])
        self.assertNotIn("segments", whole)
        self.assertNotIn("Speech", self.run_it("status", status=0).out)
        self.assertIsNone(json.loads(self.run_it("status", "--json", status=0).out)["speech"])
        self.assertIn("\nNOTE ", self.run_it("show", "-d", "-f", "vtt", "a.wav", status=0).out)
        for format in ("txt", "srt", "tsv"):
            self.assertIn("this is no transcript",
                          " ".join(self.run_it("show", "-d", "-f", format, "a.wav", status=64).err.split()))
        self.put("b.wav", wav(2))
        self.enqueue()
        self.assertIn("Nothing was left out.", self.run_it("show", "b.wav", "-d", status=0).out)

    def test_speech_without_text_is_told(self):
        self.talk()
        connection = sqlite3.connect(self.catalog)
        connection.execute("UPDATE task SET speech_ms = 20000, dropped_ms = 3000, missing_ms = 1500, "
                           "shards_done = shards_done WHERE task_id = 1")
        connection.execute("INSERT INTO dropped (task_id, seq, idx, start_ms, end_ms, text, language, reason) "
                           "VALUES (1, 0, 2, 28000, 29500, '', 'en', 'speech without text')")
        connection.commit()
        connection.close()
        share = "77.5 % of 20 s of speech has text; 1.5 s has none (nightshift "
        believed = "), and the text of 3.0 s was rejected"
        shown = " ".join(self.run_it("show", "a.wav", status=0).out.split())
        self.assertIn(f"Speech: {share}show --dropped{believed} 0:00.000 Good", shown)
        self.assertIn("2 texts were rejected and left out", shown)
        self.assertEqual(["   0:28.000    (no text)", "               speech without text"],
                         self.run_it("show", "--dropped", "a.wav", status=0).out.splitlines()[-2:])
        self.assertEqual(("", "speech without text"), tuple(
            json.loads(self.run_it("show", "--dropped", "--json", "a.wav", status=0).out)["dropped"][2][k]
            for k in ("text", "reason")))
        self.assertIn("00:00:28.000 --> 00:00:29.500\n[speech without text]\n",
                      self.run_it("show", "-d", "-f", "vtt", "a.wav", status=0).out)
        status = " ".join(self.run_it("status", status=0).out.split())
        self.assertIn(f"Speech {share}doubts --missing{believed}", status)
        told = json.loads(self.run_it("status", "--json", status=0).out)["speech"]
        self.assertEqual({"speech_ms": 20000, "dropped_ms": 3000, "missing_ms": 1500, "text_share": 0.775}, told)

    def test_words_in_json_and_vtt(self):
        self.talk()
        first = json.loads(self.run_it("show", "a.wav", "--json", status=0).out)["segments"][0]
        self.assertEqual([{"start_ms": 0, "end_ms": 700, "word": " Good", "probability": 0.9},
                          {"start_ms": 700, "end_ms": 1500, "word": " morning.", "probability": 0.5}],
                         first["words"])
        self.assertEqual((1, 0.97, ""), tuple(first[k] for k in ("attempts", "speech_prob", "reason")))
        plain = self.run_it("show", "a.wav", "-f", "vtt", status=0).out
        self.assertIn("\nGood morning.\n", plain)
        timed = self.run_it("show", "a.wav", "-f", "vtt", "--words", status=0).out
        self.assertIn("\n<c>Good</c><00:00:00.700><c> morning.</c>\n", timed)
        self.assertIn("\nMumble.\n", timed)
        for command in (["show", "a.wav"], ["show", "a.wav", "-f", "srt"], ["export", "-f", "srt"]):
            self.assertIn("--words is about --format=vtt", self.run_it(*command, "--words", status=64).err)
            for more, says in ((("--style=plain", "--max-lines=1"), "without limits"),
                               (("--style=plain", "--sounds"), "without --sounds"),
                               (("--min-duration=8s",), "--min-duration is above --max-duration"),
                               (("--min-duration=3s", "--max-duration=2s"), "--min-duration is above")):
                self.assertIn(says, self.run_it(*command, "-f", "vtt", *more, status=64).err)

    def test_what_was_dropped_is_in_no_file_count_or_search(self):
        self.talk()
        self.run_it("export", "-o", "out", "-f", "txt", "-f", "vtt", "-f", "json", "--words", status=0)
        texts = {}
        for ending in ("txt", "vtt", "json"):
            with open(os.path.join(self.dir, "out", "a." + ending), encoding="utf-8") as file:
                texts[ending] = file.read()
            self.assertNotIn("watching", texts[ending])
        self.assertIn("<00:00:00.700><c> morning.</c>", texts["vtt"])
        self.assertEqual(["Good morning.", "We met at the market.", "The the the.", "Mumble."],
                         texts["txt"].splitlines())
        whole = json.loads(texts["json"])["segments"]
        self.assertEqual([2, 0, 0, 0], [len(s.get("words", [])) for s in whole])
        self.assertEqual(4, json.loads(self.run_it("status", "--json").out)["segments"])
        self.assertEqual([], json.loads(self.run_it("search", "watching", "--json").out))

    def test_what_people_corrected(self):
        """As `correct` leaves a catalog, with one that another transcription does not bear out."""
        self.talk()
        connection = sqlite3.connect(self.catalog)
        segments = [row[0] for row in connection.execute(
            "SELECT segment_id FROM transcript ORDER BY start_ms")]
        connection.execute("UPDATE segment SET heard = text, text = 'Good evening.' "
                           "WHERE segment_id = ?", segments[:1])
        connection.execute("UPDATE segment SET heard = text, text = '' WHERE segment_id = ?",
                           segments[-1:])
        for said, meant, state in (("morning.", "evening.", "applied"), ("Mumble.", "", "applied"),
                                   ("heard", "said", "conflict"), ("no", "more", "undone")):
            connection.execute(
                "INSERT INTO correction (media_id, start_ms, end_ms, said, meant, before, after, "
                "confirms, made_by, made_at, source, state) SELECT media_id, 0, 9, ?, ?, '', '', 0, "
                "'ana', '2026-01-01T00:00:00.000Z', '', ? FROM transcript WHERE segment_id = ?",
                (said, meant, state, segments[0]))
        index_texts(connection)
        connection.commit()
        connection.close()
        status = " ".join(self.run_it("status", status=0).out.split())
        self.assertIn("1 correction is in conflict with a newer transcription: "
                      "nightshift correct --conflicts", status)
        whole = json.loads(self.run_it("status", "--json", status=0).out)
        self.assertEqual((3, 1), (whole["corrections"], whole["conflicts"]))
        page = self.run_it("show", "a.wav", status=0).out
        self.assertIn("Good evening.", page)
        for gone in ("Good morning.", "Mumble."):
            self.assertNotIn(gone, page)
        self.assertIn("\n3 corrections are made in it.\n1 is in conflict with a newer transcription: "
                      "nightshift correct --conflicts 1\n", page)
        self.run_it("export", "-o", "out", "-f", "json", status=0)
        with open(os.path.join(self.dir, "out", "a.json"), encoding="utf-8") as file:
            texts = json.load(file)["segments"]
        self.assertEqual([("Good evening.", "Good morning."), ("We met at the market.", None),
                          ("The the the.", None)], [(t["text"], t.get("heard")) for t in texts])
        with open(os.path.join(self.dir, "a.txt"), "w", encoding="utf-8") as file:
            file.write("Good morning. We met at the market. The the the. Mumble.")
        score = json.loads(self.run_it("score", "a.txt", "--json", status=0).out)
        self.assertEqual(0, score["words"]["rate"], score)  # of the machine's words
        self.assertEqual([], json.loads(self.run_it("search", "morning", "--json").out))
        self.assertEqual(1, len(json.loads(self.run_it("search", "evening", "--json").out)))

    def test_nobody_speaks_is_not_failed(self):
        self.fill()
        self.enqueue()
        self.settle("a.wav", "b.mp3")
        # Voice activity was not asked: nobody knows.
        told = json.loads(self.run_it("status", "--json").out)
        self.assertEqual((0, 2), (told["without_speech"], told["without_text"]))
        self.assertIn("2 recordings have no text", " ".join(self.run_it("status").out.split()))
        self.assertIn("2 recordings have no text", self.run_it("export", "-o", "out").out)
        self.assertIn("\nIt has no text.\n", self.run_it("show", "a.wav").out)
        connection = sqlite3.connect(self.catalog)
        connection.execute("UPDATE task SET speech_ms = 0 WHERE media_id = 1")
        connection.execute("UPDATE task SET speech_ms = 900, dropped_ms = 900 WHERE media_id = 2")
        connection.commit()
        told = json.loads(self.run_it("status", "--json").out)
        self.assertEqual((1, 2), (told["without_speech"], told["without_text"]))
        unbelieved = "1 recording has speech but only rejected text: nightshift show --dropped"
        for args in ("status",), ("export", "-o", "out"), ("doubts",):
            said = " ".join(self.run_it(*args, status=0).out.split())
            self.assertIn(unbelieved, said)
            self.assertEqual(args[0] != "doubts", "nobody speaks in 1 recording" in said, said)
        # `doubts` names what it is of; only where it is asked about.
        named = self.run_it("doubts", status=0).out
        self.assertRegex(named, r"show\n? *--dropped\n +2  \S*/b\.mp3\n$")
        self.assertEqual(named.splitlines()[-1],
                         self.run_it("doubts", os.path.join(self.archive, "b.mp3"), status=0).out.splitlines()[-1])
        self.assertEqual("None of that is doubtful",
                         self.run_it("doubts", os.path.join(self.archive, "a.wav"), status=0).out.split(".")[0])
        self.assertNotIn("rejected", self.run_it("doubts", os.path.join(self.archive, "a.wav"), status=0).out)
        self.assertNotIn("rejected", self.run_it("doubts", "--missing", status=0).out)
        self.assertIn("\nNobody speaks in it.\n", self.run_it("show", "a.wav").out)
        self.assertIn("\nSomebody speaks in it, but all of its text was rejected.\n", self.run_it("show", "b.mp3").out)
        told = json.loads(self.run_it("export", "-o", "out", "--json", status=0).out)
        self.assertEqual((1, 2, 0), (told["without_speech"], told["without_text"], told["without_sound"]))
        # A film without sound is none of them.
        connection.execute("UPDATE media SET audio_tracks = 0 WHERE media_id = 1")
        connection.commit()
        said = self.run_it("export", "-o", "out", "-f", "html", status=0).out
        self.assertNotIn("nobody speaks", said)
        self.assertIn("1 recording has no sound", said)
        notes = set()
        for folder, _, names in os.walk(os.path.join(self.dir, "out")):
            for name in names:
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                    notes |= set(re.findall('<p class="note">(It has no sound|Somebody speaks[^<]*)', file.read()))
        self.assertIn("Recording 1: no sound, ", self.run_it("show", "a.wav").out)
        self.assertEqual({"It has no sound", "Somebody speaks in it, but all of its text was rejected."}, notes)
        self.assertIn("It has no sound", self.run_it("show", "a.wav").out)
        connection.execute("UPDATE media SET damage = 'cut' WHERE media_id = 1")
        connection.commit()
        connection.close()
        # A run that did nothing has nothing to say of the archive.
        self.run_it("pause", status=0)
        said = self.run_it("run", "--devices", "cpu", status=0).out
        self.assertEqual(["0 recordings done, 0 failed, 2 left.",
                          "The catalog is paused: `nightshift resume`, then `nightshift run`."], said.splitlines())

    def test_what_is_not_transcribed_is_not_silent(self):
        """As `enqueue --no-transcribe --sounds` leaves a catalog."""
        self.fill()
        self.enqueue()
        self.settle("a.wav", "b.mp3")
        connection = sqlite3.connect(self.catalog)
        connection.execute("UPDATE stage SET name = 'sounds'")
        connection.execute("UPDATE recipe SET kind = 'sounds'")
        connection.commit()
        connection.close()
        for options in ([], ["--dropped"]):
            self.assertIn("\nIt is not transcribed (done: sounds).\n",
                          self.run_it("show", "a.wav", *options, status=0).out)
        self.assertIn("not transcribed", self.run_it("show", "a.wav", "-f", "srt", status=0).err)
        self.assertIn("it has no speakers yet", self.run_it("show", "a.wav", "-f", "rttm", status=0).err)
        done = self.run_it("export", "-o", "out", "-f", "txt", "-f", "rttm", status=0)
        self.assertIn("0 files of 0 recordings", done.out)
        self.assertNotIn("nobody speaks", done.out)
        self.assertIn("2 recordings are not transcribed and have no text", done.out)
        self.assertIn("2 recordings have no speakers", done.out)
        self.assertEqual([], [name for _, _, names in os.walk(os.path.join(self.dir, "out")) for name in names])
        told = json.loads(self.run_it("export", "-o", "out", "--json", status=0).out)
        self.assertEqual((0, 2, 0), (told["files"], told["without_transcript"], told["not_diarized"]))

    def test_no_control_character_from_names(self):
        bad = "x\x1b[31m\u009b31m\a.wav"
        self.put(bad, wav(7))
        self.put("y\x1b[2J.mp3", b"")
        os.mkfifo(os.path.join(self.archive, "z\x1b.wav"))
        for command in (["enqueue", self.archive], ["enqueue", *[os.path.join(self.archive, n) for n in
                         os.listdir(self.archive)]], ["status"], ["status", "-f", "-e"],
                        ["show", bad], ["export", "-o", "out"], ["run", bad], ["status", bad],
                        ["doctor", bad], ["search", "--path", bad, "word"], ["nothing" + bad],
                        ["enqueue", "--model", bad, "."], ["--bad" + bad], ["show", "--bad" + bad, "."],
                        ["--catalog", self.catalog + bad, "status"], ["model", "path", bad]):
            with self.subTest(command=command):
                done = self.run_it(*command)
                said = done.out + done.err
                self.assertEqual([], [c for c in said if c != "\n" and (c < " " or "\x7f" <= c < "\xa0")],
                                 repr(said))

    def test_doctor_tells_of_a_catalog_with_a_strange_name(self):
        strange = self.catalog.encode() + b"\xff\x1b.db"
        for arguments in (["--json"], []):
            done = self.run_it("--catalog", strange, "doctor", "--quick", *arguments)
            self.assertIn("\\xFF\\x1B" if not arguments else "\\\\xFF\\\\x1B", done.out)
            self.assertNotIn("\x1b", done.out)

    def on_terminal(self, *args):
        """What a command leaves on a terminal of 80 columns."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        whole = dict(os.environ, HOME=self.dir, TERM="xterm", NO_COLOR="1")
        child = subprocess.Popen([PROGRAM, "-c", self.catalog, *args], stdin=slave, stdout=slave, stderr=slave,
                                 env=whole)
        os.close(slave)
        said = b""
        while True:
            try:
                part = os.read(master, 4096)
            except OSError:
                break
            if not part:
                break
            said += part
        child.wait()
        os.close(master)
        return re.sub(r"\r?[^\n]*\r\x1b\[K", "", said.decode().replace("\r\n", "\n"))

    def assert_fits(self, text):
        for line in text.splitlines():
            if " " in line.strip():  # a single long word may stand out
                self.assertLessEqual(len(line), 80, repr(line))

    def test_lines_for_people_fit_a_terminal(self):
        self.put("a long name of a file " * 8 + "that is no archive.zip", b"PK\3\4" + b"\xff" * 90)
        text = self.on_terminal("enqueue", "--model=whisper-nano", self.archive, self.dir + "/nope")
        self.assertIn("encrypted: unpack it with its password", " ".join(text.split()))
        self.assertNotIn("nightshift:  ", text)
        self.assert_fits(text)

    def test_lines_of_a_run_fit_a_terminal(self):
        path = self.put("a long name of a folder " * 4 + "/a long name of a file " * 4 + "that is none.mp3",
                        b"\1" * 90)
        self.enqueue()
        text = self.on_terminal("run", "--devices", "cpu", "--attempts", "1")
        sentence = f"warning: {path}: not a recording: no known format"
        self.assertIn(" ".join(sentence.split()), " ".join(text.split()))
        self.assert_fits(text)
        self.assertNotIn(sentence, text)
        self.run_it("retry", status=0)  # a file gets it whole
        lines = self.run_it("run", "--devices", "cpu", "--attempts", "1").err.splitlines()
        self.assertIn(sentence, lines)
        # What a long silence is about is said before it.
        self.assertIn("stage transcribe: loading the model whisper-nano", lines)
        self.assertLess(lines.index(f"beginning with {path}"), lines.index(sentence))

    def test_the_command_of_a_job(self):
        self.fill()
        folders = [os.path.join(self.archive, f"a folder of recordings of the year {year}") for year in (1998, 1999)]
        for folder in folders:
            os.mkdir(folder)
            shutil.copy(os.path.join(self.archive, "a.wav"), folder)
        self.enqueue("--diarize=diarization-nano", "--include=*.wav", *folders)
        self.enqueue(os.path.join(self.archive, "b.mp3"))
        lines = self.run_it("status", status=0).out.splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("Jobs        #1 "))
        self.assertRegex(lines[at], r" \d+ of \d+ done$")
        self.assertRegex(lines[at + 1], r"^ {16}--model=whisper-nano --json --diarize=diarization-nano( |$)")
        self.assertRegex(lines[at + 2], r"^ {16}\.\.\. .*recordings of the year 1999$")
        self.assertRegex(lines[at + 3], r"^ {12}#2 .* done  \(command of #1\)$")
        self.assertRegex(lines[at + 4], r"^ {12}#3 .* done(  |$)")
        self.assertEqual([], [line for line in lines if len(line) > 80])
        # Where it has no room it stands below, as a command does.
        connection = sqlite3.connect(self.catalog)
        connection.execute("UPDATE job SET priority = -1, ended_at = NULL")
        connection.commit()
        connection.close()
        lines = self.run_it("status", status=0).out.splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("            #2 "))
        self.assertRegex(lines[at], r" done$")
        self.assertEqual(" " * 16 + "low priority (search for files not finished)  (command of #1)", lines[at + 1])
        self.assertEqual([], [line for line in lines if len(line) > 80])
        jobs = json.loads(self.run_it("status", "--json", status=0).out)["jobs"]
        for job in jobs[:2]:
            self.assertIn(" ".join(["--diarize=diarization-nano", "--include=*.wav", *folders]), job["command"])
        # With ten of them, their numbers end in one column.
        for _ in range(7):
            self.enqueue(self.archive)
        said = self.run_it("status", "--jobs", status=0).out
        self.assertRegex(said, r"\nJobs         #1  2\d{3}-")
        self.assertRegex(said, r"\n             #9  2\d{3}-")
        self.assertRegex(said, r"\n            #10  2\d{3}-")

    def test_shards_that_are_too_long_for_a_stage(self):
        """What is more than two hours would keep a catalog from being diarized for ever."""
        self.fill()
        self.enqueue("--no-transcribe", "--diarize=diarization-nano", self.archive)
        self.assertIn("--shard", self.run_it("run", "--devices=cpu", "--shard=121m", status=64).err)
        self.run_it("cancel", status=0)  # nothing is computed: its length alone is asked about
        self.run_it("run", "--devices=cpu", "--shard=2h", status=0)
        self.run_it("enqueue", "--no-transcribe", "--diarize=diarization-nano", "--num-speakers=2", self.archive, status=0)
        self.run_it("run", "--devices=cpu", status=0)
        self.assertNotIn("disabled", self.run_it("status", status=0).out)

    def test_events_are_sentences(self):
        self.fill()
        self.enqueue()
        connection = sqlite3.connect(self.catalog)
        connection.execute("INSERT INTO event (at, kind, text) VALUES ('2026-01-02T03:04:05.678Z', 'run-start', '')")
        connection.execute("INSERT INTO event (at, kind, text) VALUES ('2026-01-02T03:04:06.678Z', 'x', 'a \x1b[1mword')")
        connection.commit()
        connection.close()
        lines = self.run_it("status", "--events", status=0).out.splitlines()
        self.assertIn("2026-01-02T03:04:05Z run-start", lines)
        self.assertIn("2026-01-02T03:04:06Z x: a \\x1B[1mword", lines)

    def test_retry_says_what_comes_next(self):
        self.fill()
        self.enqueue()
        self.run_it("cancel")
        self.assertIn("Next: nightshift run", self.run_it("retry", status=0).out)
        self.enqueue("--language", "es", self.archive)  # in place of the others
        self.assertIn("4 recordings cancelled", self.run_it("cancel", status=0).out)

    def test_requests_count_recordings(self):
        """As all else does, however many stages they have."""
        self.fill()
        self.enqueue("--diarize=diarization-nano", self.archive)
        deep = os.path.join(self.archive, "deep")
        for command, said in ((["cancel"], "4 recordings cancelled"), (["retry"], "4 recordings will be tried again"),
                              (["pause", deep], "1 recording paused"), (["resume", deep], "1 recording is resumed"),
                              (["priority", "low", "--job", "2"], "4 recordings have that priority")):
            self.assertIn(said, self.run_it(*command, status=0).out)
        self.assertEqual([(8,)], self.sql("SELECT count(*) FROM task WHERE state = 'pending'"))
        self.assertEqual({"affected": 4, "through_run": False},
                         json.loads(self.run_it("pause", "--json", status=0).out))

    def test_json_parses_everywhere(self):
        self.fill()
        self.put("a\n\x01\"quote\\.wav", wav(5))
        self.enqueue()
        for command in (["status"], ["status", "--events"], ["search", "x"], ["show", "a.wav"],
                        ["export", "-o", "out"], ["doctor", "--quick"], ["model", "list"],
                        ["model", "check", "whisper-nano"]):
            with self.subTest(command=command):
                json.loads(self.run_it(*command, "--json").out)

    def test_what_matters_first_stands_first(self):
        text = self.run_it("enqueue", "--help", status=0).out
        options = text[:text.index("Examples:")]
        first = re.search(r"(?s)\nMost used:\n(.*?)\nWhich files are taken:\n", options).group(1)
        names = r"(?m)^  (?:-\w, |    )--([a-z-]+)"
        self.assertEqual(["model", "language", "diarize", "sounds", "dry-run"], re.findall(names, first))
        every = re.findall(names, options)
        self.assertEqual(sorted(set(every)), sorted(every))  # each once
        self.assertIn("\nOther stages, each with its own model (MODEL: a name or folder):\n      --num-speakers=N", options)

    def test_help_of_every_command(self):
        with open(PAGE, encoding="utf-8") as file:
            known = set(re.findall(r"--[a-z][a-z-]*", file.read().replace("Fl Fl ", "--")))
        for command in ("enqueue recipe run status report show search export retry cancel pause resume plan doctor "
                        "model bench score speakers doubts describe verify correct pin forget erase split merge slurm "
                        "version help").split():
            with self.subTest(command=command):
                text = self.run_it(command, "--help", status=0).out
                self.assertTrue(text.startswith("Usage: nightshift " + command))
                self.assertIn("Examples:", text)
                if command in WITH_STATUSES:
                    self.assertIn("\nExit status: 0", text)
                self.assertEqual(text, self.run_it("help", command, status=0).out)
                for line in text.splitlines():
                    self.assertLessEqual(len(line), 80)
                missing = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) - known
                self.assertEqual(set(), missing, "not in the manual page")

    def test_a_mistyped_catalog_is_not_made(self):
        gone, table = os.path.join(self.dir, "gone.db"), self.put("list.csv", b"path,title\nx,y\n")
        for command in (["status"], ["show", "x"], ["search", "x"], ["export"], ["score", self.archive], ["verify"],
                        ["describe", table], ["retry"], ["cancel"], ["pause"], ["resume"], ["pin", "1"],
                        ["forget", "--superseded", "--yes"], ["erase", "--yes", "x"], ["erase", "--allow", "1"],
                        ["erase", "--list"], ["erase", "--person", "Ana", "--yes"], ["speakers"], ["speakers", "name", "1/A", "B"], ["run"]):
            with self.subTest(command=command):
                self.assertIn("there is no catalog", self.run_it(*command, "-c", gone, status=66).err)
                self.assertEqual([], [name for name in os.listdir(self.dir) if name.startswith("gone.db")])

    def test_manual_page(self):
        """Made of docs/nightshift.1.in and the stages' tables when the program is built."""
        with open(PAGE, encoding="utf-8") as file:
            text = file.read()
        for expected in (".It Fl l , Fl Fl language Ns = Ns Ar NAME\n",
                         ".It Fl Fl min-speakers Ns = Ns Ar N , Fl Fl max-speakers Ns = Ns Ar N\n",
                         "Translate into English; the same as\n.Fl Fl task Ns = Ns Cm translate .\n",
                         "Decoding:\n.Bl -tag -width Ds\n.It Fl Fl beam-size Ns = Ns Ar N\n",
                         ".It Fl Fl quality Ns = Ns Ar WORD\n", ".It Fl Fl one-language\n",
                         ".It Fl Fl task Ns = Ns Ar TASK\n"):
            self.assertIn(expected, text)
        self.assertNotRegex(text, "(?m)^@")
        self.assertNotRegex(text, r"(?m)^\.It .*\bOp\b.* ,", "brackets that end with the line alone")
        if shutil.which("mandoc") is None:
            self.skipTest("skipped: no mandoc here")
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", PAGE], capture_output=True, check=False)
        self.assertEqual((0, b""), (done.returncode, done.stdout + done.stderr))

    def test_no_colour_in_pipes(self):
        self.fill()
        self.enqueue()
        for command in (["status"], ["doctor", "--quick"], ["--help"]):
            self.assertNotIn("\033", self.run_it(*command, TERM="xterm").out)

    def test_a_closed_standard_file_is_no_file_of_ours(self):
        self.enqueue()  # of nothing
        run = subprocess.Popen(["sh", "-c", 'exec "$0" -c "$1" run --watch 0<&- 2>&-', PROGRAM, self.catalog],
                               stdout=subprocess.DEVNULL, env=dict(os.environ, HOME=self.dir))
        try:
            for _ in range(600):
                if os.path.exists(self.catalog + ".sock") or run.poll() is not None:
                    break
                time.sleep(0.05)
            self.assertIsNone(run.poll())
            for number in (0, 2):
                self.assertEqual("/dev/null", os.readlink(f"/proc/{run.pid}/fd/{number}"))
        finally:
            run.terminate()
            run.wait()

    def test_a_run_that_waits_says_that_it_has_started(self):
        self.enqueue()  # of nothing
        self.run_it("pause", status=0)
        run = subprocess.Popen([PROGRAM, "-c", self.catalog, "run", "--watch"], stdin=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=dict(os.environ, HOME=self.dir))
        try:
            for _ in range(400):
                if self.sql("SELECT 1 FROM event WHERE kind = 'run-start'") or run.poll() is not None:
                    break
                time.sleep(0.05)
            self.assertIsNone(run.poll())
            self.assertEqual([(1,)], self.sql("SELECT count(*) FROM event WHERE kind = 'run-start'"))
        finally:
            run.terminate()
            run.wait()

    def test_closed_output_is_no_crash(self):
        self.fill()
        self.enqueue()
        with open("/dev/full", "wb") as full:
            done = subprocess.run([PROGRAM, "--catalog", self.catalog, "status"], stdout=full,
                                  stderr=subprocess.PIPE, check=False)
        self.assertEqual(74, done.returncode, done.stderr)
        self.assertIn(b"cannot write the output", done.stderr)

    def test_a_file_beyond_the_limit_is_no_crash(self):
        self.fill()
        done = self.run_it("enqueue", self.archive,
                           preexec=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 10, 100 << 10)))
        self.assertIn(done.returncode, (73, 74), done.err)
        self.assertIn("nightshift: cannot open the catalog: ", done.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
