#!/usr/bin/env python3
"""A share that hangs in the middle of a night: its recordings wait, all others are done."""
import ctypes
import os
import shutil
import subprocess
import sys
import time

import night

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common", "stalled_mount.py")
FARMER = os.path.join(night.DEMO, "english", "farmer.wav")
MNT_DETACH = 2
libc = ctypes.CDLL(None, use_errno=True)


class Stalled(night.Night):
    def setUp(self):
        super().setUp()
        self.share, self.source = (os.path.join(self.dir, name) for name in ("archive/share", "source"))
        os.makedirs(self.share)
        os.mkdir(self.source)
        self.server = None
        self.addCleanup(self.unmount)

    def mount(self, how):
        # pylint: disable-next=consider-using-with
        self.server = subprocess.Popen([sys.executable, SCRIPT, self.share, how, self.source],
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if self.server.stdout.read(1) != b"m":
            self.skipTest("no file system can be mounted here")

    def unmount(self):
        if self.server:
            self.server.kill()
            self.server.wait()
            self.server.stdout.close()
        self.server = None
        libc.umount2(os.fsencode(self.share), MNT_DETACH)

    def test_a_decoder_that_waits_for_it_is_left_behind(self):
        self.others_go_on("read")

    def test_a_worker_that_waits_for_it_is_left_behind(self):
        self.others_go_on("open")

    def others_go_on(self, how):
        for name in ("1.wav", "2.wav", "3.wav"):
            shutil.copy(FARMER, os.path.join(self.source, name))
            with open(os.path.join(self.source, name), "ab") as file:
                file.write(name.encode())  # recordings of their own
        self.mount("none")
        self.enqueue(self.share, "--priority=high")
        self.unmount()
        self.bring("04_es_clean.flac", "good.flac")
        self.enqueue(os.path.join(self.archive, "good.flac"))
        self.mount(how)
        began = time.monotonic()
        run = self.start_run("--attempts=1", "--devices=cpu")
        self.assertEqual(0, run.wait(), run.said())
        self.assertLess(time.monotonic() - began, 150)
        self.unmount()
        self.assertIn("tres mil cero", self.text_of("/good.flac"))
        failures = self.sql("SELECT path, code, reason FROM failures ORDER BY path")
        self.assertEqual([f"{self.share}/{i}.wav" for i in (1, 2, 3)], [row[0] for row in failures])
        for row in failures:
            self.assertEqual("stalled", row[1])
            self.assertIn(f"what is mounted at {self.share} does not answer", row[2])
        self.nightshift("retry", self.share, status=0)
        os.rmdir(self.share)
        os.rename(self.source, self.share)  # it is back
        self.run_to_end()
        self.assertEqual([], self.sql("SELECT path FROM failures"))


if __name__ == "__main__":
    night.main()
