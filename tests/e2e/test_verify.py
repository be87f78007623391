#!/usr/bin/env python3
"""Are the bytes of the files what they were? Bits that fell over, files that were replaced or went."""
import os
import signal
import sqlite3
import subprocess

import media_kit
import night


class Verify(night.Night):
    def setUp(self):
        super().setUp()
        frames = media_kit.wav_frames(os.path.join(night.SAMPLES, "01_en_short.wav"))
        for i, name in enumerate(("a.wav", "b.wav", "in.wav")):
            media_kit.wav(os.path.join(self.archive, name), bytes(3200 * i) + frames * 4)
        subprocess.run(["tar", "cf", "box.tar", "in.wav"], cwd=self.archive, check=True)
        os.remove(os.path.join(self.archive, "in.wav"))
        self.enqueue()

    def flip(self, name):
        """One bit, where no fingerprint looks, and nothing tells."""
        path = os.path.join(self.archive, name)
        stat = os.stat(path)
        with open(path, "r+b") as file:
            file.seek(stat.st_size // 3 + 999)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        self.assertEqual((stat.st_size, stat.st_mtime_ns), (os.stat(path).st_size, os.stat(path).st_mtime_ns))

    def verify(self, *options, status=0):
        answer = self.nightshift("verify", *options, status=status)
        for line in answer.out.splitlines():
            self.assertLessEqual(len(line), 80 if "--json" not in options else 200)
        return " ".join(answer.out.split()) + "\n" + answer.err

    def changed(self):
        return [os.path.basename(row[0]) for row in self.sql(
            "SELECT path FROM failures WHERE kind = 'changed' ORDER BY path")]

    def test_what_people_read_is_what_was_found(self):
        self.run_to_end()
        self.assertEqual("3 transcribed recordings read what their results say.\n", self.verify("--reading"))
        before = self.sql("SELECT start_ms, end_ms, text, language FROM transcript ORDER BY path, start_ms")
        self.assertGreater(len(before), 2)
        with sqlite3.connect(self.catalog) as catalog:
            catalog.execute("UPDATE segment SET text = 'nobody said this' WHERE segment_id = 1")
            catalog.execute("DELETE FROM segment WHERE segment_id = 2")
        catalog.close()
        said = self.verify("--reading", status=night.DATA)
        self.assertRegex(said, "^[12] of 3 transcribed recordings differed from their results, and were repaired.\n")
        self.assertIn(": it differed from its results: repaired", said)
        self.assertEqual(before, self.sql("SELECT start_ms, end_ms, text, language FROM transcript ORDER BY path, start_ms"))
        self.assertEqual('{"recordings": 3, "repaired": 0, "damaged": 0}\n', self.verify("--reading", "--json"))
        with sqlite3.connect(self.catalog) as catalog:
            catalog.execute("INSERT INTO segment_fts (segment_fts, rank) VALUES ('integrity-check', 1)")
        catalog.close()
        with sqlite3.connect(self.catalog) as catalog:
            catalog.execute("UPDATE shard SET result = x'01ff' WHERE task_id = 1")
        catalog.close()
        self.assertIn("a result is impossible", self.verify("--reading", status=night.DATA))
        self.assertEqual(before, self.sql("SELECT start_ms, end_ms, text, language FROM transcript ORDER BY path, start_ms"))

    def test_what_changes_is_found(self):
        self.assertRegex(self.verify(), r"^Of 3 files \(.* read\): 3 read for the first time\.\n$")
        self.assertIn(": 3 as before.", self.verify())
        self.assertEqual([], self.changed())
        for name in ("b.wav", "box.tar"):
            self.flip(name)
        for _ in range(2):
            said = self.verify(status=night.DATA)
            self.assertIn("1 as before, 2 with other bytes.", said)
            self.assertIn("archive/b.wav': other bytes than before", said)
            self.assertEqual(["b.wav", "box.tar"], self.changed())
        self.assertIn("b.wav", self.nightshift("status", "--failures", status=0).out)
        self.assertIn('"changed": 1', self.verify("--json", os.path.join(self.archive, "b.wav"), status=night.DATA))
        for name in ("b.wav", "box.tar"):
            self.flip(name)
        self.verify()
        self.assertEqual([], self.changed())
        self.healthy()

    def test_what_the_decoding_read_counts(self):
        run = self.start_run("--watch")
        self.wait_for("all are done", lambda: not self.sql("SELECT 1 FROM task WHERE state <> 'done'"), run)
        self.flip("a.wav")
        said = self.verify(status=night.DATA)
        self.assertIn("1 as before, 1 read for the first time, 1 with other bytes.", said)
        self.assertEqual(["a.wav"], self.changed())
        run.signal(signal.SIGTERM)
        self.assertEqual(0, run.wait(), run.said())
        self.assertRegex(self.nightshift("report", status=0).out, r"\nchanged     /.*a\.wav\n +other bytes than before")
        self.assertIn("<h3>changed: 1</h3>", self.nightshift("report", "--html", "-", status=0).out)
        self.assertEqual([(None, 1)], self.sql("SELECT verified_at, changed_at IS NOT NULL FROM fixity "
                                               "WHERE path LIKE '%/a.wav'"))

    def touch(self, name):
        path = os.path.join(self.archive, name)
        os.utime(path, ns=(1, os.stat(path).st_mtime_ns + 5_000_000_000))

    def of(self, name):
        return self.sql("SELECT m.media_id, m.state FROM place p JOIN recordings m USING (media_id) "
                        "WHERE p.state = 'present' AND p.path LIKE ?", "%/" + name)[0]

    def test_what_was_edited_where_no_fingerprint_looks(self):
        """A name that was muted: its words must not stay, wherever the file goes from there."""
        self.run_to_end()
        before = self.of("b.wav")
        self.flip("b.wav")
        for name in ("a.wav", "b.wav"):
            self.touch(name)
        for options in (["--dry-run"], []):
            said = " ".join(self.nightshift("enqueue", *options, self.archive, status=0).out.split())
            self.assertIn("3 recordings found: 1 changed, 2 known.", said)
            self.assertRegex(said, r"2 files were read completely \(.*\), to distinguish copies from similar recordings\.")
        edited = self.of("b.wav")
        self.assertNotEqual(before, edited)
        self.assertEqual("pending", edited[1])
        self.run_to_end()
        self.assertEqual("done", self.of("b.wav")[1])
        self.assertEqual([], self.sql("SELECT * FROM event WHERE kind = 'content-differs'"))
        self.verify()
        said = self.enqueue().out
        self.assertIn("3 known.", said)
        self.assertNotIn("read completely", said)
        # Elsewhere, and with nothing but a new time: it is what was heard last.
        os.rename(os.path.join(self.archive, "b.wav"), os.path.join(self.archive, "c.wav"))
        self.assertIn("1 known from another place, 2 known", self.enqueue().out)
        self.touch("c.wav")
        self.assertIn("3 known.", self.enqueue().out)
        self.assertEqual(edited[0], self.of("c.wav")[0])
        # As it was: nothing is to be done.
        self.flip("c.wav")
        self.touch("c.wav")
        self.assertIn("1 changed, 2 known", self.enqueue().out)
        self.assertEqual(before[0], self.of("c.wav")[0])
        self.assertEqual([], self.sql("SELECT * FROM task WHERE wanted AND state <> 'done'"))
        self.healthy()

    def test_what_was_enqueued_as_edited(self):
        """By a program that did not read it whole."""
        self.run_to_end()
        self.verify()
        self.flip("b.wav")
        self.touch("b.wav")
        catalog = sqlite3.connect(self.catalog)
        catalog.execute("UPDATE place SET mtime_ns = ? WHERE path LIKE '%/b.wav'",
                        [os.stat(os.path.join(self.archive, "b.wav")).st_mtime_ns])
        catalog.commit()
        catalog.close()
        said = self.verify(status=night.DATA)
        self.assertIn("2 as before, 1 replaced since they were transcribed.", said)
        self.assertIn("archive/b.wav': replaced by other content since it was transcribed", said)
        self.assertEqual([], self.changed())
        self.assertIn(": 3 as before.", self.verify())

    def test_files_that_went_or_were_replaced(self):
        self.verify()
        os.remove(os.path.join(self.archive, "a.wav"))
        with open(os.path.join(self.archive, "b.wav"), "ab") as file:
            file.write(b"more")
        said = self.verify(status=night.NOINPUT)
        self.assertIn("1 as before, 1 with another size or time, 1 not there.", said)
        self.assertIn("b.wav': its size or time has changed: enqueue it again", said)
        self.enqueue()
        self.assertIn("Of 2 files", self.verify())
        self.assertEqual([], self.changed())
        self.one_sentence(self.nightshift("verify", "/nowhere", status=night.NOINPUT), "no file at or below")

    def add(self, folder, count):
        """So many short recordings more."""
        os.makedirs(os.path.join(self.archive, folder))
        frames = media_kit.wav_frames(os.path.join(night.SAMPLES, "01_en_short.wav"))
        for i in range(count):
            media_kit.wav(os.path.join(self.archive, folder, f"{i:02}.wav"), bytes(320 * i) + frames[:3200])
        self.enqueue()

    def test_a_disk_that_is_not_mounted(self):
        """Twenty are named, and where the others are."""
        self.add("disk/1990", 13)
        self.add("disk/1991", 12)
        self.verify()
        disk = os.path.join(self.archive, "disk")
        os.rename(disk, self.archive + "/away")
        said = self.verify(status=night.NOINPUT)
        self.assertEqual(20, said.count("': it does not exist"), said)
        self.assertIn(f"5 more not there, all 25 of them below '{disk}', which does not exist either", said)
        self.assertIn("3 as before, 25 not there.", said)
        self.assertIn("5 more not there", self.verify("--quiet", status=night.NOINPUT))
        os.makedirs(os.path.join(disk, "1990"))
        os.makedirs(os.path.join(disk, "1991"))
        said = self.verify(status=night.NOINPUT)
        self.assertRegex(said, f"(?m)5 more not there, all 25 of them below '{disk}'$")
        for name in ("a.wav", "b.wav"):
            self.flip(name)
        os.remove(os.path.join(self.archive, "box.tar"))
        said = self.verify(status=night.DATA)
        self.assertRegex(said, f"(?m)6 more not there, all 26 of them below '{self.archive}'$")
        self.assertEqual(2, said.count("other bytes than before"), said)

    def test_what_changed_is_named_all(self):
        self.add("many", 22)
        self.verify()
        for i in range(22):
            self.flip(f"many/{i:02}.wav")
        said = self.verify(status=night.DATA)
        self.assertEqual(22, said.count("other bytes than before"), said)
        self.assertNotIn(" more ", said)
        for i in range(22):
            with open(os.path.join(self.archive, f"many/{i:02}.wav"), "ab") as file:
                file.write(b"more")
        said = self.verify(status=night.NOINPUT)
        self.assertEqual(20, said.count("': its size or time has changed"), said)
        self.assertRegex(said, "(?m)2 more with another size or time, all 22 of them below '.*/many': enqueue them again$")


if __name__ == "__main__":
    night.main()
