#!/usr/bin/env python3
"""Bad recordings: each ends in one clear sentence, and the good one beside it is transcribed."""
import os
import shutil
import struct
import subprocess
import warnings
import zipfile

import media_corpus
import media_kit
import night
import rar_writer

GOOD = "farmer from the south"


class BesideAGoodOne(night.Night):
    def setUp(self):
        super().setUp()
        self.bring("01_en_short.wav", "good.wav")

    def settle(self):
        """Enqueue and run; the good recording's words must be there. Returns the failures."""
        self.enqueue()
        self.run_to_end()
        self.assertIn(GOOD, self.text_of("/good.wav"))
        self.assertEqual(0, self.sql("SELECT count(*) FROM tasks WHERE state IN"
                                     " ('pending', 'started')")[0][0])
        self.healthy()
        return self.sql("SELECT kind, path, member, code, reason, attempts FROM failures")

    def failure(self, name, reason, kind="failed|unreadable"):
        """The only failure is this file's, and its reason is a sentence that fits the pattern."""
        rows = self.settle()
        self.assertEqual(1, len(rows), rows)
        print(f"    {name}: {rows[0][4]}")
        self.assertRegex(rows[0][0], f"^({kind})$")
        self.assertTrue((rows[0][1] + "//" + rows[0][2]).rstrip("/").endswith(name), rows)
        self.assertRegex(rows[0][4].lower(), reason)
        self.assertNotIn("\n", rows[0][4])
        self.assertLess(len(rows[0][4]), 400)
        return rows[0]

    def path(self, name):
        return os.path.join(self.archive, name)


class BadMedia(BesideAGoodOne):
    """Of every kind."""

    def test_empty_file(self):
        open(self.path("empty.wav"), "w", encoding="utf-8").close()
        self.failure("empty.wav", r"empty|0 bytes")

    def test_text_named_mp3(self):
        shutil.copy(os.path.join(night.DEMO, "field-notes.mp3"), self.path("notes.mp3"))
        row = self.failure("notes.mp3", r"no (recording|audio|sound|media)|not a (recording|media)|"
                                        r"text|not .*(recognised|known)")
        self.assertLessEqual(row[5], 1, "it was tried again, though it cannot get better")

    def test_truncated_mp4_without_its_index(self):
        media_kit.truncated(os.path.join(night.SAMPLES, "05_es_video.mp4"),
                            self.path("cut.mp4"), 150000)
        self.failure("cut.mp4", r"truncated|cut (short|off)|incomplete|moov|index|ends")

    @night.needs("ffmpeg")
    def test_truncated_mp4_with_its_index_gives_what_is_there(self):
        whole = os.path.join(self.dir, "whole.mp4")
        media_kit.ffmpeg("-i", os.path.join(night.SAMPLES, "05_es_video.mp4"), "-c", "copy",
                         "-movflags", "+faststart", whole)
        media_kit.truncated(whole, self.path("cut.mp4"), media_kit.size_of(whole) * 6 // 10)
        self.failure("cut.mp4", r"truncated|cut|early|missing|damaged|short|ends|left out|corrupt",
                     kind="damaged")
        self.assertIn("seis veinte cinco uno mil", self.text_of("/cut.mp4"))

    @night.needs("ffmpeg")
    def test_flac_with_a_hole(self):
        path = self.bring("04_es_clean.flac", "hole.flac")
        with open(path, "r+b") as file:
            file.seek(200000)
            file.write(os.urandom(3000))
        rows = self.settle()
        for row in rows:
            print(f"    hole.flac: {row[0]}: {row[4]}")
        self.assertIn("tres mil cero", self.text_of("/hole.flac"))

    def test_bomb(self):
        media_kit.bomb(self.path("bomb.tzst"), "bomb.wav", media_kit.riff_head(0xffffffff), 20)
        rows = self.settle()
        self.assertEqual(1, len(rows), rows)
        print(f"    {rows[0][1:]}")
        self.assertIn("bomb.tzst", rows[0][1])
        self.assertRegex(rows[0][4].lower(), r"more than|limit|too (large|big|much)|bomb")

    def test_zip_of_so_many_members(self):
        with zipfile.ZipFile(self.path("many.zip"), "w") as archive:
            for i in range(30000):
                archive.writestr(zipfile.ZipInfo(f"{i:05}.txt"), b"")
        self.assertEqual([], self.settle())

    def test_sparse_file_of_4_gib(self):
        media_kit.sparse(self.path("sparse.wav"), 4 << 30)
        self.failure("sparse.wav", r"no (recording|audio|sound|media)|not a (recording|media)|"
                                   r"not .*(recognised|known)|zero")

    @night.needs("ffmpeg")
    def test_video_without_sound(self):
        media_kit.ffmpeg("-f", "lavfi", "-i", "testsrc=size=64x64:rate=5:duration=2", "-an",
                         self.path("mute.mp4"))
        self.assertEqual([], self.settle())
        self.assertEqual([("done", 0, 0, 0)], self.sql("SELECT state, audio_tracks, duration_ms, segments FROM recordings "
                                                       "WHERE path LIKE '%/mute.mp4'"))
        self.assertIn("1 recording has no sound", " ".join(self.nightshift("status", status=0).out.split()))
        self.assertIn("It has no sound: it is a film without an audio track.",
                      self.nightshift("show", "mute.mp4", status=0).out)

    def test_no_second_of_sound(self):
        media_kit.wav(self.path("nothing.wav"))
        self.failure("nothing.wav", r"no (audio|sound|samples)|empty|0 (s|samples|seconds)",
                     kind="failed|unreadable|damaged")

    def test_one_sample_of_sound(self):
        media_kit.wav(self.path("click.wav"), b"\1\0")
        self.assertEqual([], self.settle())
        self.assertEqual("", self.text_of("/click.wav"))

    @night.needs("ffmpeg")
    def test_eight_channels_at_96_khz(self):
        media_kit.ffmpeg("-i", os.path.join(night.SAMPLES, "04_es_clean.flac"), "-ac", "8",
                         "-ar", "96000", self.path("studio.wav"))
        self.assertEqual([], self.settle())
        self.assertIn("tres mil cero", self.text_of("/studio.wav"))
        self.assertEqual([(8, 96000)], self.sql("SELECT channels, sample_rate_hz FROM media WHERE"
                                                " place_id IN (SELECT place_id FROM place WHERE"
                                                " path LIKE '%studio.wav')"))

    def test_name_with_a_newline(self):
        self.bring("04_es_clean.flac", "two\nlines.flac")
        self.assertEqual([], self.settle())
        self.assertIn("tres mil cero", self.text_of(r"/two\nlines.flac"))
        out = self.nightshift("show", self.path("two\nlines.flac"), status=0).out
        self.assertIn(r"two\nlines.flac", out)
        self.assertNotIn("two\nlines", out)

    def test_name_that_is_not_utf8(self):
        raw = os.fsencode(self.archive) + b"/caf\xe9-\xff.flac"
        shutil.copy(os.path.join(night.SAMPLES, "04_es_clean.flac"), raw)
        self.assertEqual([], self.settle())
        path, path_raw = self.sql("SELECT path, path_raw FROM place WHERE path LIKE '%caf%'")[0]
        self.assertTrue(path.lower().endswith(r"/caf\xe9-\xff.flac"), path)
        self.assertEqual(raw, path_raw)
        self.assertIn("tres mil cero", self.text_of(".flac"))
        done = subprocess.run([night.PROGRAM, "show", raw], capture_output=True, env=self.env(),
                              timeout=night.PATIENCE_S)
        self.assertEqual(0, done.returncode, done.stderr)
        done.stdout.decode("utf-8")  # what it prints is text

    def test_gone_between_enqueue_and_run(self):
        path = self.bring("04_es_clean.flac", "gone.flac")
        self.enqueue()
        os.remove(path)
        self.run_to_end()
        self.assertIn(GOOD, self.text_of("/good.wav"))
        rows = self.sql("SELECT kind, path, reason FROM failures")
        self.assertEqual(1, len(rows), rows)
        print(f"    gone.flac: {rows[0][2]}")
        self.assertRegex(rows[0][2].lower(), r"no such file|not there|gone|missing|vanished")
        # It comes back, is enqueued again (retry, where it has failed) and is transcribed.
        self.bring("04_es_clean.flac", "gone.flac")
        self.enqueue()
        self.nightshift("retry", status=0)
        self.run_to_end()
        self.assertIn("tres mil cero", self.text_of("/gone.flac"))

    def test_changed_between_enqueue_and_run(self):
        path = self.bring("04_es_clean.flac", "new.flac")
        self.enqueue()
        media_kit.truncated(os.path.join(night.SAMPLES, "09_long_silences.flac"), path, 240000)
        self.run_to_end()
        rows = self.sql("SELECT kind, path, reason FROM failures")
        self.assertEqual(1, len(rows), rows)
        print(f"    new.flac: {rows[0][2]}")
        self.assertRegex(rows[0][2].lower(), r"changed|not the (one|file)|another|enqueue")
        self.enqueue()
        self.run_to_end()
        self.assertIn("listen summer winter", self.text_of("/new.flac"))

    def test_folder_that_may_not_be_read(self):
        if os.geteuid() == 0:
            # Root reads everything; nobody does not.
            for where, _, names in os.walk(self.dir):
                for name in [where] + [os.path.join(where, n) for n in names]:
                    os.chown(name, 65534, 65534)
            who = {"user": 65534, "group": 65534, "extra_groups": []}
        else:
            who = {}
        closed = self.path("closed")
        os.mkdir(closed)
        shutil.copy(self.path("good.wav"), os.path.join(closed, "hidden.wav"))
        os.chmod(closed, 0)
        self.addCleanup(os.chmod, closed, 0o700)
        if subprocess.run(["test", "-x", night.PROGRAM], check=False, **who).returncode:
            self.skipTest("the program lies where nobody may not go")
        for command in (["enqueue", "--model=whisper-nano", self.archive], ["run"]):
            done = subprocess.run([night.PROGRAM, *command], capture_output=True, text=True,
                                  env=self.env(), cwd=self.dir, timeout=night.PATIENCE_S, **who)
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertIn(GOOD, self.text_of("/good.wav"))
        rows = self.sql("SELECT kind, path, reason FROM failures")
        self.assertEqual(1, len(rows), rows)
        print(f"    closed/: {rows[0][2]}")
        self.assertTrue(rows[0][1].endswith("/closed"), rows)
        self.assertRegex(rows[0][2].lower(), r"permission|may not|denied")

    def test_links_that_go_round_pipes_and_devices(self):
        os.symlink("..", self.path("round"))
        os.symlink("nowhere", self.path("dangling.wav"))
        os.symlink("self.wav", self.path("self.wav"))
        os.mkfifo(self.path("pipe.wav"))
        self.settle()
        self.assertEqual(1, self.sql("SELECT count(*) FROM media")[0][0])


class LongSilence(BesideAGoodOne):
    """Hours of nothing."""

    def test_sparse_wav_of_4_gib_is_silence(self):
        """A wav header before six hours of nothing: a crashed recorder leaves such files."""
        head = media_kit.riff_head((4 << 30) - 100, rate=96000)
        with open(self.path("crashed.wav"), "wb") as file:
            file.write(head)
            file.truncate(4 << 30)
        self.settle()
        self.assertEqual("", self.text_of("/crashed.wav"))

    @night.needs("ffmpeg")
    def test_ten_hours_of_silence(self):
        media_kit.ffmpeg("-f", "lavfi", "-i", "anullsrc=r=8000:cl=mono", "-t", "36000",
                         "-c:a", "flac", self.path("silence.flac"))
        self.assertEqual([], self.settle())
        self.assertEqual("", self.text_of("/silence.flac"))
        done, total, until = self.sql(
            "SELECT count(*), max(t.shards_total), max(end_ms) FROM shard JOIN task t USING (task_id)"
            " JOIN media m USING (media_id) WHERE m.duration_ms > 1000000")[0]
        self.assertEqual((done, 36000000), (total, until))


class Archives(night.Night):
    """Archives of every kind, whole and broken."""

    def setUp(self):
        super().setUp()
        self.good = os.path.join(night.SAMPLES, "01_en_short.wav")
        self.other = os.path.join(night.SAMPLES, "04_es_clean.flac")

    def settle(self):
        self.enqueue()
        self.run_to_end()
        self.healthy()
        return self.sql("SELECT kind, path, member, code, reason FROM failures")

    def heard(self):
        return {os.path.basename(path) + "//" + member: text for path, member, text in self.sql(
            "SELECT path, member, group_concat(text, ' ') FROM transcript GROUP BY 1, 2")}

    def test_zip_and_tar_of_the_demo(self):
        for name in ("box-7.zip", "reel.tar"):
            shutil.copy(os.path.join(night.DEMO, name), self.archive)
        self.assertEqual([], self.settle())
        heard = self.heard()
        self.assertIn("a short history and a green library",
                      heard["box-7.zip//box-7/tape-a/seasons.flac"])
        self.assertIn("farmer from the south", heard["reel.tar//reel/copy-of-farmer.wav"])
        self.assertNotIn("box-7.zip//box-7/tape-a/nobody-speaks.flac", heard)
        self.assertEqual(4, self.sql("SELECT count(*) FROM media")[0][0])

    @night.needs("7z")
    def test_7z(self):
        subprocess.run(["7z", "a", "-bso0", "-bsp0", os.path.join(self.archive, "a.7z"), self.good,
                        self.other], check=True)
        self.assertEqual([], self.settle())
        self.assertIn("tres mil cero", self.heard()["a.7z//04_es_clean.flac"])

    def test_rar(self):
        for name, solid in (("a.rar", False), ("solid.rar", True)):
            rar_writer.write(os.path.join(self.archive, name), (self.good, self.other), solid)
        with open(os.path.join(self.archive, "a.rar"), "r+b") as file:  # in the last member
            file.seek(-1000, os.SEEK_END)
            file.write(b"damaged")
        failures = self.settle()
        self.assertEqual([("unreadable", "04_es_clean.flac", "input")],
                         [(kind, member, code) for kind, _, member, code, _ in failures])
        self.assertIn("damaged", failures[0][4])
        heard = self.heard()
        self.assertIn(GOOD, heard["a.rar//" + os.path.basename(self.good)])
        self.assertIn("tres mil cero", heard["solid.rar//04_es_clean.flac"])

    @night.needs("genisoimage")
    def test_iso(self):
        subprocess.run(["genisoimage", "-quiet", "-J", "-r", "-o",
                        os.path.join(self.archive, "disc.iso"), self.good, self.other], check=True,
                       stderr=subprocess.DEVNULL)
        self.assertEqual([], self.settle())
        self.assertIn("tres mil cero", self.heard()["disc.iso//04_es_clean.flac"])

    def test_an_archive_in_an_archive(self):
        with zipfile.ZipFile(os.path.join(self.archive, "outer.zip"), "w") as outer:
            outer.write(os.path.join(night.DEMO, "reel.tar"), "inner.tar")
        self.assertEqual([], self.settle())
        self.assertIn("farmer from the south",
                      self.heard()["outer.zip//inner.tar//reel/copy-of-farmer.wav"])

    @night.needs("tar")
    def test_members_of_one_name(self):
        """`tar -r` adds a second take.wav; a zip may hold as many of one name as it likes."""
        for source in (self.good, self.other):
            shutil.copy(source, os.path.join(self.dir, "take.wav"))
            subprocess.run(["tar", "-rf", os.path.join(self.archive, "a.tar"), "-C", self.dir,
                            "take.wav"], check=True)
        frames = media_kit.wav_frames(self.good)
        with zipfile.ZipFile(os.path.join(self.archive, "b.zip"), "w") as archive:
            for seconds in (1, 2, 3):
                path = os.path.join(self.dir, "part.wav")
                media_kit.wav(path, frames[:seconds * 32000])
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # that there is one of this name
                    archive.write(path, "in/same.wav")
        self.assertEqual([], self.settle())
        heard = self.heard()
        self.assertIn(GOOD, heard["a.tar//take.wav"])
        self.assertIn("tres mil cero", heard["a.tar//take.wav (2)"])
        self.assertEqual([("take.wav", "done"), ("take.wav (2)", "done"), ("in/same.wav", "done"),
                          ("in/same.wav (2)", "done"), ("in/same.wav (3)", "done")],
                         self.sql("SELECT member, state FROM recordings ORDER BY path, duration_ms"
                                  " * iif(path LIKE '%.zip', 1, 0), member"))
        # Again: nothing is new, also when the archive is read anew.
        for touched in (False, True):
            if touched:
                os.utime(os.path.join(self.archive, "a.tar"), (1, 1))
            again = self.json("enqueue", self.archive)
            self.assertEqual((5, 0, 0, 0, 0), tuple(again[key] for key in (
                "unchanged", "new", "changed", "vanished", "tasks")))
        # Each has a file of its own, and is found by its name.
        out = os.path.join(self.dir, "out")
        self.nightshift("export", "--output", out, status=0)
        self.assertEqual({"a.tar/take.txt", "a.tar/take.wav (2).txt", "b.zip/in/same.txt",
                          "b.zip/in/same.wav (2).txt", "b.zip/in/same.wav (3).txt"},
                         {os.path.relpath(os.path.join(where, name), out)
                          for where, _, names in os.walk(out) for name in names})
        with open(os.path.join(out, "a.tar", "take.wav (2).txt"), encoding="utf-8") as file:
            self.assertIn("tres mil cero", file.read())
        for name, words in (("take.wav", GOOD), ("take.wav (2)", "tres mil cero")):
            shown = self.nightshift("show", f"{self.archive}/a.tar//{name}", status=0).out
            self.assertIn(words, shown)
            self.assertIn(f"a.tar//{name}\n", shown)
        self.assertIn("a.tar//take.wav (2)", self.nightshift("search", "tres mil", status=0).out)

    def test_a_recording_inside_and_outside_is_one(self):
        shutil.copy(os.path.join(night.DEMO, "reel.tar"), self.archive)
        self.bring(os.path.join(night.DEMO, "english/farmer.wav"))
        self.assertEqual([], self.settle())
        self.assertEqual(2, self.sql("SELECT count(*) FROM media")[0][0])
        self.assertEqual(3, self.sql("SELECT count(*) FROM place")[0][0])

    @night.needs("zip")
    def test_a_zip_with_a_password(self):
        self.bring(self.good, "good.wav")
        subprocess.run(["zip", "-q", "-j", "-P", "secret", os.path.join(self.archive, "locked.zip"),
                        self.other], check=True)
        rows = self.settle()
        self.assertEqual(1, len(rows), rows)
        print(f"    locked.zip: {rows[0][4]}")
        self.assertRegex(rows[0][4].lower(), r"password|encrypted|passphrase")
        self.assertIn(GOOD, self.text_of("/good.wav"))

    def test_a_zip_that_was_cut_off(self):
        self.bring(self.good, "good.wav")
        media_kit.truncated(os.path.join(night.DEMO, "box-7.zip"),
                            os.path.join(self.archive, "cut.zip"), 100000)
        rows = self.settle()
        self.assertTrue(rows)
        for row in rows:  # the archive, and perhaps the member in which it ends
            print(f"    cut.zip: {row[1:]}")
            self.assertIn("cut.zip", row[1])
            self.assertRegex(row[4].lower(), r"truncated|cut|damaged|ends|incomplete|short")
        self.assertIn(GOOD, self.text_of("/good.wav"))

    def test_a_zip_that_is_none(self):
        self.bring(self.good, "good.wav")
        with open(os.path.join(self.archive, "fake.zip"), "wb") as file:
            file.write(b"PK\3\4" + struct.pack("<I", 0xdea00000) * 50)
        rows = self.settle()
        self.assertEqual(1, len(rows), rows)
        print(f"    fake.zip: {rows[0][4]}")
        self.assertIn(GOOD, self.text_of("/good.wav"))


class Corpus(night.Night):
    """What other programs leave: read where it can be, and else told what it is."""

    READ = ["film.ps", "frames", "without-a-name", "wide.wav", "roll.tar.lz//roll.wav",
            "roll.tlz//roll.wav", "sparse-gnu.tar//crashed.wav", "sparse-pax.tar//crashed.wav",
            "single.wav.gz//data", "single.wav.bz2//data", "single.wav.xz//data",
            "twice.tar//twice.wav", "twice.tar//twice.wav (2)", "twice.zip//twice.wav",
            "twice.zip//twice.wav (2)"]
    PART = r"^a part of a split archive: join the parts"
    REASONS = {
        "disks.z01": PART, "disks.z02": PART, "disks.zip": PART, "volumes.7z.001": PART,
        "volumes.7z.002": PART, "volumes.zip.001": PART, "volumes.zip.002": PART,
        "set.part1.rar//tape.wav": PART, "old.rar//tape.wav": PART,
        # Part of the member is in the part.
        "disks.z01//long.wav": r"cut short", "volumes.zip.001//long.wav": r"cut short",
        "explorer.zip//explorer.wav": r"^packed by a method that is not supported .*: unpack it",
        "cenc.m4a": r"^encrypted \(DRM\)", "shop.m4p": r"^encrypted \(DRM\)",
        "licensed.wma": r"^encrypted \(DRM\)",
        "codec.mov": r"^no decoder for its audio \(codec Qzzx\)",
        "codec.wav": r"^no decoder for its audio \(codec 0x1234\)",
        "codec.mka": r"^no decoder for its audio \(codec unknown\)",
        "by-url.mov": r"lies in another file", "by-alias.mov": r"lies in another file",
    }
    # FFmpeg 6 decodes these, FFmpeg 5 does not.
    PERHAPS = {"studio.flac": r"^FLAC of 32 bits, which this FFmpeg cannot decode"}
    LEFT_ALONE = ["essay", "letter.ps", "notes.txt.gz"]

    @night.needs("ffmpeg", "7z", "zip", "tar")
    def test_each(self):
        media_corpus.make(self.archive)
        self.enqueue()
        self.run_to_end()
        self.healthy()

        def name(path, member):
            below = os.path.relpath(path, self.archive)
            return below + ("//" + member if member else "")
        failures = {name(path, member): reason for path, member, reason in self.sql(
            "SELECT path, member, reason FROM failures")}
        for file, pattern in {**self.REASONS, **self.PERHAPS}.items():
            if file in failures or file in self.REASONS:
                self.assertRegex(failures.get(file, "nothing"), pattern, file)
        self.assertEqual(set(), set(failures) - set(self.REASONS) - set(self.PERHAPS))
        lengths = {name(path, member): ms for path, member, ms in self.sql(
            "SELECT path, member, duration_ms FROM place JOIN media USING (media_id)")}
        for file in self.READ:
            self.assertGreater(lengths.get(file) or 0, 6000, file)
        for file in self.LEFT_ALONE:
            self.assertNotIn(file, lengths)
        for file in ("sparse-gnu.tar", "single.wav.gz", "roll.tlz", "wide.wav", "film.ps"):
            self.assertIn("farmer", self.text_of("/" + file), file)


if __name__ == "__main__":
    night.main()
