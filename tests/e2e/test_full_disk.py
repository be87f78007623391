#!/usr/bin/env python3
"""A disk that is full: the run stops with a sentence, and goes on where it was when there is room."""
import os
import re
import sqlite3
import subprocess

import night


class FullDisk(night.Night):
    """The catalog lies alone on a small file system that is then filled to the last block."""

    SIZE = 4 << 20

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("only root can mount a small file system")
        self.disk = os.path.join(self.dir, "disk")
        os.mkdir(self.disk)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.SIZE}", "none", self.disk],
                          capture_output=True, check=False).returncode:
            self.skipTest("this root may not mount")
        self.addCleanup(subprocess.run, ["umount", "-l", self.disk], check=False)
        for name in ("01_en_short.wav", "04_es_clean.flac", "03_en_noisy.ogg",
                     "09_long_silences.flac"):
            self.bring(name)
        self.plain = self.catalog
        self.on_disk = os.path.join(self.disk, "catalog.db")
        self.filler = os.path.join(self.disk, "filler")

    def fill(self, leave):
        stat = os.statvfs(self.disk)
        with open(self.filler, "wb") as file:
            file.write(b"\1" * max(0, stat.f_bavail * stat.f_frsize - leave))

    def undisturbed(self):
        self.catalog = self.plain
        self.enqueue()
        self.run_to_end()
        return self.sql("SELECT * FROM results")

    def test_during_the_run(self):
        expected = self.undisturbed()
        self.catalog = self.on_disk
        stopped = 0
        for leave in (0,):  # the run waits a minute for room before it gives up
            self.enqueue()
            self.fill(leave)
            answer = self.nightshift("run")
            if answer.status != 0:
                stopped += 1
                said = self.one_sentence(answer, "space|full", "run|again|room|free")
                self.assertEqual(night.IOERR if answer.status == night.IOERR else
                                 night.CANTCREAT, answer.status, f"\n{answer}")
                if stopped == 1:
                    print(f"    {said}")
                # Readers read, or say why not: SQLite wants 32 KiB beside the catalog for them.
                status = self.nightshift("status")
                if status.status:
                    self.one_sentence(status, "space|full")
            os.remove(self.filler)
            self.healthy()
        self.assertGreater(stopped, 0, "the disk was never full")
        self.run_to_end()
        self.assertEqual([row[1:] for row in expected],
                         [row[1:] for row in self.sql("SELECT * FROM results")])
        self.assertEqual([], self.sql("SELECT * FROM failures"))

    def test_before_it_is_full(self):
        expected = self.undisturbed()
        self.catalog = self.on_disk
        self.enqueue()
        self.fill(self.SIZE // 40)
        run = self.start_run()
        self.wait_for("a run that waits", lambda: (self.json("status")["run"] or {}).get("note") ==
                      "waiting for room on the disk", run)
        self.assertEqual([(0,)], self.sql("SELECT count(*) FROM shard"))
        os.remove(self.filler)
        self.assertEqual(0, run.wait(), run.said())
        self.assertEqual([row[1:] for row in expected],
                         [row[1:] for row in self.sql("SELECT * FROM results")])
        self.assertEqual([(1,)], self.sql("SELECT count(*) FROM event WHERE kind = 'disk-full'"))

    def test_at_the_enqueue(self):
        self.catalog = self.on_disk
        self.fill(8192)
        said = self.one_sentence(self.nightshift("enqueue", self.archive), "space|full")
        print(f"    {said}")
        os.remove(self.filler)
        self.enqueue()
        self.run_to_end()
        self.assertIn("farmer from the south", self.text_of("01_en_short.wav"))
        self.healthy()

    def test_what_is_there_is_read(self):
        """Without a block free: of nothing that SQLite wants beside the catalog, for readers too, is there room."""
        self.catalog = self.on_disk
        self.enqueue()
        self.assertFalse(os.path.exists(self.on_disk + "-shm"))
        self.fill(0)
        with self.assertRaises(sqlite3.OperationalError):
            self.sql("SELECT count(*) FROM media")
        self.assertIn("0 of 4 recordings done", self.nightshift("status", status=0).out)
        self.assertIn("4 recordings", self.nightshift("plan", status=0).out)
        said = self.one_sentence(self.nightshift("pause", status=night.CANTCREAT), "full")
        self.assertEqual(1, len(re.findall("room|space", said)), said)
        os.remove(self.filler)
        self.healthy()

    def test_an_export(self):
        expected = self.undisturbed()
        self.assertTrue(expected)
        self.fill(0)
        out = os.path.join(self.disk, "out")
        answer = self.nightshift("export", "--format", "json", "--output", out)
        print(f"    {self.one_sentence(answer, 'space|full')}")
        left = [name for _, _, names in os.walk(self.disk) for name in names if name != "filler"]
        self.assertEqual([], left, "half a file was left behind")


if __name__ == "__main__":
    night.main()
