#!/usr/bin/env python3
"""status --watch: looks again and again while a run is on, in place on a terminal, and ends with it."""
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios

import night


class Watch(night.Night):
    def setUp(self):
        super().setUp()
        self.bring(os.path.join(night.DEMO, "english", "farmer.wav"))
        self.enqueue()

    def a_run(self):
        run = self.start_run("--watch")
        self.wait_for("a run", lambda: self.json("status")["run"], run)
        return run

    def look(self, *options, out=subprocess.PIPE):
        return subprocess.Popen([night.PROGRAM, "status", "--watch", *options], env=self.env(TERM="xterm"),
                                cwd=self.dir, stdin=subprocess.DEVNULL, stdout=out)

    def read_two(self, fd, mark):
        seen = b""
        while seen.count(mark) < 2:
            more = os.read(fd, 65536)
            self.assertTrue(more, seen)
            seen += more
        return seen

    def end(self, run, watch):
        run.signal(signal.SIGTERM)
        run.wait()
        self.assertEqual(0, watch.wait(night.PATIENCE_S))

    def test_without_a_run(self):
        out = self.nightshift("status", "--watch", status=0).out
        self.assertEqual(1, len(out.splitlines()), out)
        self.assertIn("no run is active", out)

    def test_lines(self):
        run = self.a_run()
        watch = self.look()
        lines = self.read_two(watch.stdout.fileno(), b"\n").decode().splitlines()
        self.assertTrue(all("of 1 recording" in line for line in lines), lines)
        self.end(run, watch)
        watch.stdout.close()

    def test_json(self):
        run = self.a_run()
        watch = self.look("--json")
        for line in self.read_two(watch.stdout.fileno(), b"\n").decode().splitlines()[:2]:
            self.assertEqual(run.process.pid, json.loads(line)["run"]["pid"])
        self.end(run, watch)
        watch.stdout.close()

    def test_in_place(self):
        run = self.a_run()
        ours, theirs = pty.openpty()
        watch = self.look(out=theirs)
        os.close(theirs)
        seen = self.read_two(ours, b"\x1b[H\x1b[J")
        self.assertRegex(seen, rf"\(pid {run.process.pid}\), [01] of 1 worker ready\b".encode())
        self.assertNotIn(b"Jobs", seen)
        run.signal(signal.SIGTERM)
        run.wait()
        try:
            while os.read(ours, 65536):
                pass
        except OSError:  # the other end is closed
            pass
        self.assertEqual(0, watch.wait(night.PATIENCE_S))
        os.close(ours)

    def test_a_screen_that_is_too_low(self):
        run = self.a_run()
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 100, 0, 0))
        watch = self.look(out=theirs)
        os.close(theirs)
        frame = self.read_two(ours, b"\x1b[H\x1b[J").split(b"\x1b[H\x1b[J")[1]
        self.assertEqual(3, frame.count(b"\n"), frame)  # the last row has no end
        self.assertRegex(frame, rb"\.\.\. \d+ more lines$")
        self.assertIn(b"Catalog", frame)
        watch.terminate()
        watch.wait(night.PATIENCE_S)
        run.signal(signal.SIGTERM)
        run.wait()
        os.close(ours)


if __name__ == "__main__":
    night.main()
