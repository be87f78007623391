#!/usr/bin/env python3
"""At the terminal: colours of `show`, numbers of `search`, and what `play` starts."""
import os
import pty
import shutil
import sqlite3
import stat
import subprocess
import unittest
import zipfile

from program import PROGRAM, ProgramTest, index_texts, wav


class Terminal(ProgramTest):
    def setUp(self):
        super().setUp()
        with open(os.path.join(self.archive, "-start=evil \".wav"), "wb") as file:
            file.write(wav(1))
        with zipfile.ZipFile(os.path.join(self.archive, "z.zip"), "w") as z:
            z.writestr("in/tape.wav", wav(2))
        self.run_it("enqueue", "-m", "whisper-nano", self.archive, status=0)
        connection = sqlite3.connect(self.catalog)
        tasks = dict(connection.execute("SELECT path, task_id FROM task JOIN place USING (media_id)"))
        self.plain = next(path for path in tasks if "evil" in path)
        for task in tasks.values():
            connection.execute("INSERT INTO shard (task_id, seq, start_ms, end_ms, language, "
                               "language_prob, windows, wall_ms, device, done_at) VALUES (?, 0, 0, 30000, 'en', 0.9, 1, 12, 'cpu', '2026')", (task,))
            for i, name in enumerate(("Ana", "Tom")):
                connection.execute("INSERT INTO speaker (task_id, media_id, label, name, speech_ms) SELECT task_id, media_id, "
                                   "?, ?, 1 FROM task WHERE task_id = ?", (f"SPEAKER_{i:02}", name, task))
            own = [row[0] for row in connection.execute("SELECT speaker_id FROM speaker WHERE task_id = ?", (task,))]
            for i, (text, sure) in enumerate((("The harbour.", -0.2), ("Harbour in doubt.", -0.8), ("Nothing of it.", -1.5))):
                connection.execute(
                    "INSERT INTO segment (task_id, seq, idx, start_ms, end_ms, text, language, avg_logprob, reason, speaker_id) "
                    "VALUES (?, 0, ?, ?, ?, ?, 'en', ?, '', ?)", (task, i, i * 5250, i * 5250 + 3000, text, sure, own[i % 2]))
        connection.execute("UPDATE task SET state = 'done', shards_total = 1")
        index_texts(connection)
        connection.commit()
        connection.close()
        self.bin = os.path.join(self.dir, "bin")
        os.mkdir(self.bin)

    def player(self, name):
        path = os.path.join(self.bin, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho " + name + "\nfor a; do echo \"<$a>\"; done\nexit 7\n")
        os.chmod(path, stat.S_IRWXU)

    def play(self, *args, status=None):
        return self.run_it("play", *args, status=status, PATH=self.bin + ":/bin:/usr/bin" if status == 7 else self.bin)

    def search(self):
        return self.run_it("search", "harbour", "--text", status=0).out

    def test_search_numbers_its_hits(self):
        lines = [line.split() for line in self.search().splitlines() if line[:1].isdigit()]
        self.assertEqual(["1", "2", "3", "4"], [line[0] for line in lines])
        kept = os.path.join(self.dir, ".local/state/nightshift/last-search")
        self.assertEqual(0o600, stat.S_IMODE(os.stat(kept).st_mode))
        self.assertEqual(["last-search"], os.listdir(os.path.dirname(kept)))

    def test_play_hands_over_the_place(self):
        self.player("ffplay")
        hits = self.search().splitlines()
        number = next(line.split()[0] for line in hits[hits.index(self.plain) + 1:] if "5.250" in line)
        done = self.play(number, status=7)
        self.assertEqual(["ffplay", "<-hide_banner>", "<-autoexit>", "<-ss>", "<4.250>", "<-i>", f"<{self.plain}>"],
                         done.out.splitlines())
        self.player("mpv")
        self.assertEqual(["mpv", "<--start=4.250>", "<-->", f"<{self.plain}>"], self.play(number, status=7).out.splitlines())
        for at, start in (("90", "90.000"), ("12:30", "750.000"), ("1:02:03.5", "3723.500"), ("1m5s", "65.000")):
            self.assertIn(f"<--start={start}>", self.play("evil", "--at", at, status=7).out)
        for bad in ("x", "1:2:3:4", "-5", "1:", "", "9:99", "1:60:00", "1.5:30", "1:30x"):
            self.play("evil", "--at", bad, status=64)
        connection = sqlite3.connect(self.catalog)
        connection.execute("UPDATE media SET duration_ms = 13000")
        connection.commit()
        connection.close()
        self.play("evil", "--at", "0:12", status=7)
        self.assertIn("is 13 s long: there is nothing at 1 min 30 s.",
                      " ".join(self.play("evil", "--at", "90", status=64).err.split()))

    def test_what_cannot_be_played_is_said(self):
        self.play("1", status=66)
        self.search()
        self.play("99", status=66)
        self.play("0", status=66)
        self.play("nobody.wav", status=66)
        self.play(status=64)
        self.assertIn("neither mpv nor ffplay", " ".join(self.play("evil", status=69).err.split()))
        self.player("mpv")
        archived = self.play("tape", "--at", "2", status=69)
        self.assertIn("archive", archived.err)
        self.assertIn("bsdtar -xqOf", archived.out)
        other = os.path.join(self.dir, "other.db")
        os.link(self.catalog, other)
        self.assertIn("in this catalog", " ".join(self.run_it("play", "1", "-c", other, status=66).err.split()))
        kept = os.path.join(self.dir, ".local/state/nightshift/last-search")
        for junk in (b"", b"nightshift search 1\n", b"\0" * 100, b"nightshift search 1\n99999999999999999999\nx\n1 1 1\n"):
            with open(kept, "wb") as file:
                file.write(junk)
            self.play("1", status=66)
        os.remove(self.plain)
        self.play("evil", status=66)

    def test_copies_are_named(self):
        self.assertNotIn("Also", self.run_it("show", "evil", status=0).out)
        with open(self.plain, "rb") as file:
            data = file.read()
        for name in ("a copy\n.wav", "b.wav", "c.wav", "d.wav", "e.wav"):
            with open(os.path.join(self.archive, "z " + name), "wb") as file:
                file.write(data)
        self.run_it("enqueue", self.archive, status=0)
        copies = [os.path.join(self.archive, "z " + name) for name in ("a copy\\n.wav", "b.wav", "c.wav", "d.wav", "e.wav")]
        number = self.run_it("show", "evil", status=0).out.split("Recording ")[1].split(":")[0]
        for name, shown in (("evil", self.plain), ("z b.wav", copies[1]), (number, self.plain)):
            said = self.run_it("show", name, status=0).out
            self.assertEqual(shown, said.splitlines()[0])
            others = [path for path in [self.plain] + copies if path != shown]
            self.assertEqual(["Also at " + path for path in others[:3]] + ["Also at 2 more places"],
                             [line for line in said.splitlines() if line.startswith("Also")])

    def test_the_copy_that_can_be_played(self):
        """Not the one in an archive, while there is a file; and of files the one that was asked for."""
        self.player("mpv")
        for name in ("deep/other.wav", "deep/box.zip", "deep/last.wav"):
            path = os.path.join(self.archive, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if name.endswith(".zip"):
                with zipfile.ZipFile(path, "w") as z:
                    z.write(self.plain, "in/name of its own.wav")
            else:
                shutil.copy(self.plain, path)
        self.run_it("enqueue", self.archive, status=0)
        for asked, played in (("evil", self.plain), ("other.wav", "deep/other.wav"), ("last", "deep/last.wav"),
                              ("name of its own", self.plain)):
            self.assertEqual(f"<{os.path.join(self.archive, played)}>", self.play(asked, status=7).out.splitlines()[-1])
        self.search()
        os.remove(self.plain)
        os.remove(os.path.join(self.archive, "deep/other.wav"))
        for asked in ("evil", "other.wav", "name of its own"):
            self.assertEqual(f"<{os.path.join(self.archive, 'deep/last.wav')}>", self.play(asked, status=7).out.splitlines()[-1])
        os.remove(os.path.join(self.archive, "deep/last.wav"))
        self.assertIn("bsdtar -xqOf", self.play("evil", status=69).out)
        os.remove(os.path.join(self.archive, "deep/box.zip"))
        self.assertIn("cannot be read", " ".join(self.play("evil", status=66).err.split()))

    def test_a_name_that_another_has_now(self):
        old, new = (os.path.join(self.archive, name) for name in ("old/name.wav", "new/other.wav"))
        for path in (old, new):
            os.mkdir(os.path.dirname(path))
        with open(old, "wb") as file:
            file.write(wav(7))
        self.run_it("enqueue", self.archive, status=0)
        os.rename(old, new)
        self.run_it("enqueue", self.archive, status=0)
        self.assertEqual(new, self.run_it("show", "name.wav", status=0).out.splitlines()[0])
        again = os.path.join(self.archive, "name.wav")
        with open(again, "wb") as file:
            file.write(wav(8))
        self.run_it("enqueue", self.archive, status=0)
        self.assertEqual(again, self.run_it("show", "name.wav", status=0).out.splitlines()[0])
        os.remove(new)
        self.run_it("enqueue", self.archive, status=0)
        self.run_it("show", "name.wav", status=64)

    def test_colours(self):
        plain = self.run_it("show", "evil", status=0).out
        self.assertNotIn("\033", plain)
        self.assertEqual(plain, self.run_it("show", "evil", "--color=never", status=0).out)
        coloured = self.run_it("show", "evil", "--color=always", status=0, NO_COLOR="1", TERM="dumb").out
        self.assertIn("\033[36mAna\033[0m:", coloured)
        self.assertIn("\033[35mTom\033[0m:", coloured)
        self.assertIn("\033[33m Harbour in doubt.\033[0m", coloured)
        self.assertIn("\033[31m Nothing of it.\033[0m", coloured)
        self.run_it("show", "evil", "--color=blue", status=64)
        self.assertTrue(self.on_terminal())
        self.assertFalse(self.on_terminal(NO_COLOR="1"))
        self.assertFalse(self.on_terminal(TERM="dumb"))

    def test_a_terminal_gets_no_docx(self):
        master, slave = pty.openpty()
        env = {**os.environ, "HOME": self.dir, "NIGHTSHIFT_CATALOG": self.catalog}
        done = subprocess.run([PROGRAM, "show", "evil", "-f", "docx"], stdin=subprocess.DEVNULL, stdout=slave,
                              stderr=subprocess.PIPE, env=env, check=False, timeout=60)
        os.close(slave)
        os.close(master)
        self.assertEqual(64, done.returncode)
        self.assertIn(b"> FILE.docx", done.stderr)

    def on_terminal(self, **more):
        master, slave = pty.openpty()
        env = {**{k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}, "HOME": self.dir, "TERM": "xterm",
               "NIGHTSHIFT_CATALOG": self.catalog, **more}
        child = subprocess.Popen([PROGRAM, "show", "evil"], stdin=subprocess.DEVNULL, stdout=slave, env=env)
        os.close(slave)
        out = b""
        try:
            while chunk := os.read(master, 4096):
                out += chunk
        except OSError:
            pass
        os.close(master)
        self.assertEqual(0, child.wait(60))
        self.assertIn(b"The harbour.", out)
        return b"\033" in out


if __name__ == "__main__":
    unittest.main()
