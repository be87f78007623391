#!/usr/bin/env python3
"""Files that have some blocks alike, and not all bytes: each is a recording of its own."""
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import unittest
import zipfile

import night

SIZE = 700_000  # far more than is looked at of a file
BLOCK = 16384


def sampled(size):
    """Where a fingerprint looks: workers/media/stream/fingerprint.h."""
    starts = [0] + [size * i // 7 // BLOCK * BLOCK for i in range(1, 7)] + [size - BLOCK]
    return [(start, start + BLOCK) for start in starts]


def unsampled(size, rng):
    while True:
        at = rng.randrange(44, size)
        if not any(start <= at < end for start, end in sampled(size)):
            return at


def track(words=()):
    """A recording of digital silence but for some bytes where no fingerprint looks."""
    frames = bytearray(SIZE - 44)
    for at in words:
        frames[at - 44] = 1 + at % 200
    header = b"RIFF" + (SIZE - 8).to_bytes(4, "little") + b"WAVEfmt " + (16).to_bytes(4, "little")
    header += b"\1\0\1\0" + (16000).to_bytes(4, "little") + (32000).to_bytes(4, "little") + b"\2\0\x10\0data"
    return header + (SIZE - 44).to_bytes(4, "little") + bytes(frames)


WORDS = [unsampled(SIZE, random.Random(i)) for i in range(20)]
A, B, C = (track(WORDS[i:i + 1]) for i in range(3))


class Identity(night.Night):
    def put(self, name, data, mtime=None):
        path = os.path.join(self.archive, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        if mtime:
            os.utime(path, ns=(mtime, mtime))
        return path

    def zip(self, name, members):
        path = os.path.join(self.archive, name)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for member, data in members.items():
                file.writestr(member, data)
        return path

    def enqueue(self, *args, paths=None):
        """Says the same with --dry-run before."""
        options = [] if os.path.exists(self.catalog) else ["-m", night.MODEL, "--vad=off"]
        paths = paths or [self.archive]
        said = [json.loads(self.nightshift("enqueue", "--json", *options, *args, *more, *paths, status=0).out)
                for more in (["--dry-run"], [])]
        counted = ("recordings", "new", "new_places", "changed", "unchanged", "vanished", "told_apart")
        self.assertEqual({key: said[0][key] for key in counted}, {key: said[1][key] for key in counted})
        return said[1]

    def contents(self):
        """Which recordings there are, by what lies at their places."""
        ret = {}
        for media, path, member in self.sql("SELECT media_id, path, member FROM place WHERE state = 'present'"):
            if member:
                with zipfile.ZipFile(path) as file:
                    data = file.read(member)
            else:
                with open(path, "rb") as file:
                    data = file.read()
            ret.setdefault(media, set()).add(data)
        return ret

    def each_its_own(self):
        """A content is one recording, a recording one content. Returns how many."""
        contents = self.contents()
        for media, those in contents.items():
            self.assertEqual(1, len(those), f"recording {media} is {len(those)} contents")
        distinct = set().union(*contents.values())
        self.assertEqual(len(distinct), len(contents))
        self.assertEqual([], self.sql("SELECT path FROM place WHERE unproven AND state = 'present'"))
        return len(contents)

    def media(self, name):
        return self.sql("SELECT media_id FROM place WHERE state = 'present' AND path LIKE ?", "%/" + name)[0][0]

    def test_tracks_of_one_session(self):
        """In one walk, and in two; a copy is a copy."""
        for i, data in enumerate((A, B, C, A)):
            self.put(f"{i}.wav", data)
        said = self.enqueue()
        self.assertEqual((3, 1, 4), (said["new"], said["new_places"], said["read_whole"]))
        self.assertEqual(SIZE * said["read_whole"], said["read_whole_bytes"])
        self.assertEqual(3, self.each_its_own())
        self.put("deep/4.wav", track())
        self.put("deep/5.wav", C)
        said = self.enqueue()
        self.assertEqual((1, 1, 4), (said["new"], said["new_places"], said["unchanged"]))
        self.assertEqual(2, said["read_whole"])
        self.assertEqual(4, self.each_its_own())
        self.assertEqual(0, self.enqueue()["read_whole"])

    def test_what_is_new_is_not_read(self):
        rng = random.Random(1)
        for i in range(20):
            self.put(f"{i}.wav", rng.randbytes(SIZE))
        said = self.enqueue()
        self.assertEqual((20, 0), (said["new"], said["read_whole"]))

    def test_one_was_heard(self):
        """The words that are muted in a copy for the public are not said there."""
        self.put("master/interview.wav", A)
        self.enqueue()
        self.run_to_end()
        self.put("public/interview.wav", B)
        self.put("copy/interview.wav", A)
        said = self.enqueue()
        self.assertEqual((1, 1, 2), (said["new"], said["new_places"], said["read_whole"]))
        self.assertEqual(self.media("master/interview.wav"), self.media("copy/interview.wav"))
        self.assertEqual("pending", self.sql("SELECT state FROM task WHERE media_id = ?", self.media("public/interview.wav"))[0][0])
        self.run_to_end()
        self.assertEqual(2, self.each_its_own())
        # Put in the master's place, with its times: another inode, which was changed later.
        path = os.path.join(self.archive, "master/interview.wav")
        before = os.stat(path)
        shutil.copy(os.path.join(self.archive, "public/interview.wav"), path + ".new")
        os.utime(path + ".new", ns=(before.st_mtime_ns, before.st_mtime_ns))
        os.rename(path + ".new", path)
        self.assertEqual(1, self.enqueue()["changed"])
        self.assertEqual(2, self.each_its_own())

    def test_the_original_is_gone(self):
        first = self.put("first.wav", A)
        self.put("copy.wav", A)
        self.enqueue()
        os.remove(first)
        os.remove(os.path.join(self.archive, "copy.wav"))
        self.put("later/first.wav", A)
        self.put("later/other.wav", B)
        said = self.enqueue()
        self.assertEqual((1, 1), (said["new"], said["new_places"]))  # its hash was kept
        self.assertEqual(2, self.each_its_own())

    def test_its_bytes_cannot_be_had(self):
        """It is not known what the first one was: nothing is taken for it."""
        first = self.put("first.wav", A)
        self.enqueue()
        os.remove(first)
        self.put("second.wav", B)
        self.assertEqual(1, self.enqueue()["new"])
        self.put("second.wav", C, 10**18)
        self.assertEqual(1, self.enqueue()["changed"])
        self.assertEqual(1, self.each_its_own())

    def test_renamed(self):
        first = self.put("first.wav", A)
        self.zip("box.zip", {"in/first.wav": A, "in/other.wav": B})
        self.enqueue()
        self.assertEqual(2, self.each_its_own())
        media = self.media("first.wav")
        os.rename(first, first + ".renamed.wav")
        self.assertEqual(1, self.enqueue()["new_places"])
        self.assertEqual(media, self.media("first.wav.renamed.wav"))
        self.assertEqual([(first + ".renamed.wav",)], self.sql("SELECT path FROM recordings WHERE media_id = ?", media))

    def test_renamed_before_it_was_read(self):
        first = self.put("first.wav", A)
        self.enqueue()
        other = os.path.join(self.archive, "other.wav")
        os.rename(first, other)
        self.assertEqual(1, self.enqueue()["new_places"])
        # Something else with its name and its times: it is looked at.
        before = os.stat(other)
        self.put("first.wav", B, before.st_mtime_ns)
        self.assertEqual(1, self.enqueue()["changed"])
        self.assertEqual(2, self.each_its_own())

    def test_members_of_two_archives(self):
        self.zip("one.zip", {"1.wav": A, "2.wav": B, "3.wav": A})
        self.zip("two.zip", {"1.wav": B, "2.wav": C})
        said = self.enqueue()
        self.assertEqual((3, 2, 0), (said["new"], said["new_places"], said["read_whole"]))
        self.put("1.wav", C)
        self.put("2.wav", track())
        self.enqueue()
        self.assertEqual(4, self.each_its_own())
        self.run_to_end()
        self.assertEqual([], self.sql("SELECT * FROM failures"))
        self.assertEqual([], self.sql("SELECT * FROM event WHERE kind = 'content-differs'"))

    def test_two_enqueues_at_once(self):
        """Both find that theirs is new; the one that says so later reads it."""
        self.put("one/a.wav", A)
        self.put("two/a.wav", B)
        self.put("three/a.wav", A)
        box = os.path.join(self.archive, "one/box.zip")
        with zipfile.ZipFile(box, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
            with file.open("zeros.wav", "w") as member:
                for _ in range(300):
                    member.write(bytes(1 << 20))
        self.put("first.wav", random.Random(1).randbytes(SIZE))
        self.enqueue(paths=[os.path.join(self.archive, "first.wav")])
        run = self.start_run("--watch")
        self.wait_for("the run is on", lambda: os.path.exists(self.catalog + ".sock"), run)
        slow = subprocess.Popen([night.PROGRAM, "enqueue", "--json", "--model=whisper-nano",
                                 os.path.join(self.archive, "one")],
                                env=self.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(slow.kill)
        self.wait_for("it looks into the archive", lambda: box in self.open_files(slow.pid), run)
        slow.send_signal(signal.SIGSTOP)
        for folder in ("two", "three"):
            self.nightshift("enqueue", os.path.join(self.archive, folder), status=0)
        slow.send_signal(signal.SIGCONT)
        out, err = slow.communicate(timeout=60)
        self.assertEqual(0, slow.returncode, out + err)
        self.assertEqual(1, json.loads(out)["read_whole"])
        run.signal(signal.SIGTERM)
        run.wait()
        contents = dict(self.sql("SELECT path, media_id FROM place WHERE path LIKE '%/a.wav'"))
        self.assertEqual(3, len(contents))
        one, two, three = (contents[os.path.join(self.archive, f"{name}/a.wav")] for name in ("one", "two", "three"))
        self.assertNotEqual(one, two)
        self.assertEqual(one, three)

    def open_files(self, pid):
        names = []
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                names.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
            except FileNotFoundError:
                pass
        return names

    def test_unproven_places(self):
        """Places that were taken for another's are told apart, said, and done."""
        self.put("1.wav", A)
        self.enqueue()
        self.run_to_end()
        self.put("2.wav", B)
        self.put("3.wav", A)
        self.zip("box.zip", {"in.wav": C})
        self.enqueue()
        first = self.media("1.wav")
        with sqlite3.connect(self.catalog) as catalog:
            catalog.execute("UPDATE place SET media_id = ?", [first])
            catalog.execute("DELETE FROM task WHERE media_id <> ?", [first])
            catalog.execute("DELETE FROM media WHERE media_id <> ?", [first])
            catalog.execute("UPDATE media SET places = 4")
            catalog.execute("UPDATE place SET unproven = 1")
        catalog.close()
        said = self.nightshift("enqueue", "--dry-run", self.archive, status=0)
        self.assertIn("2 files were mistaken for another recording before; this is corrected now.",
                      " ".join(said.out.split()))
        self.assertIn("2.wav: it was mistaken for a similar recording", said.err)
        said = self.enqueue()
        self.assertEqual((2, 2, 2), (said["changed"], said["unchanged"], said["told_apart"]))
        self.assertEqual(3, self.each_its_own())
        self.assertEqual(first, self.media("3.wav"))
        self.run_to_end()
        self.assertEqual([], self.sql("SELECT * FROM task WHERE wanted AND state <> 'done'"))
        said = self.enqueue()
        self.assertEqual((4, 0, 0), (said["unchanged"], said["read_whole"], said["told_apart"]))

    def test_any_files_in_any_order(self):
        """Copies, files with a few bytes of another's changed, moved and replaced ones, by a seed."""
        more = int(os.environ.get("NIGHTSHIFT_IDENTITY_SEEDS", 3))
        for seed in range(more):
            with self.subTest(seed=seed):
                self.play(random.Random(seed))
                shutil.rmtree(self.archive)
                os.mkdir(self.archive)
                for name in os.listdir(self.dir):
                    if name.startswith("catalog.db"):
                        os.remove(os.path.join(self.dir, name))

    def play(self, rng):
        size = rng.choice((SIZE, 262_145, 262_144, 400_001))
        pool = [bytes(track())[:size].ljust(size, b"\0")]
        for evening in range(4):
            for _ in range(rng.randrange(1, 8)):
                what = rng.random()
                data = bytearray(rng.choice(pool))
                if what < 0.6:
                    for _ in range(rng.randrange(1, 3)):
                        data[rng.randrange(44, size)] ^= rng.randrange(1, 256)
                    pool.append(bytes(data))
                name = f"{rng.randrange(3)}/{rng.randrange(12)}"
                if rng.random() < 0.2:
                    self.zip_at(f"{name}.zip", [rng.choice(pool) for _ in range(rng.randrange(1, 4))])
                else:
                    self.put(f"{name}.wav", bytes(data))
            files = [os.path.join(folder, name) for folder, _, names in os.walk(self.archive) for name in names]
            if rng.random() < 0.5 and files:
                path = rng.choice(files)
                os.rename(path, os.path.join(os.path.dirname(path), f"moved {evening}" + os.path.splitext(path)[1]))
            self.enqueue()
            self.each_its_own()
            found = set().union(*self.contents().values())
            for folder, _, names in os.walk(self.archive):
                for path in (os.path.join(folder, name) for name in names):
                    if path.endswith(".zip"):
                        with zipfile.ZipFile(path) as file:
                            found -= {file.read(member) for member in file.namelist()}
                    else:
                        with open(path, "rb") as file:
                            found.discard(file.read())
            self.assertEqual(set(), found)

    def zip_at(self, name, contents):
        os.makedirs(os.path.dirname(os.path.join(self.archive, name)), exist_ok=True)
        self.zip(name, {f"{i}.wav": data for i, data in enumerate(contents)})


if __name__ == "__main__":
    unittest.main(verbosity=2)
