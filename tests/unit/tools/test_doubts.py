#!/usr/bin/env python3
"""nightshift doubts: what is doubted, in which order and why, and whether the commands that it prints
reach what they say when a shell runs them. The catalog is written as a run would."""
import json
import os
import shutil
import sqlite3
import subprocess
import unittest
import zipfile

from program import ProgramTest, wav

ODD = os.fsencode("caf") + b"\xe9\n'$(id)'.wav"


class Doubts(ProgramTest):
    def setUp(self):
        super().setUp()
        for i, name in enumerate((b"it's $5.wav", b"sub/b c.wav", ODD)):
            self.put(os.path.join(os.fsencode(self.archive), name), wav(i + 1, 400 + i))
        with zipfile.ZipFile(os.path.join(self.archive, "box.zip"), "w") as box:
            box.writestr("other.wav", wav(8, 900))
            box.writestr("-take [1].wav", wav(9, 500))
        self.run_it("enqueue", self.archive, status=0)
        self.media = {os.path.basename(member or path): (media, task) for path, member, media, task in self.sql(
            "SELECT path, member, media_id, task_id FROM tasks")}
        self.programs()

    def put(self, path, data):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)

    def programs(self):
        """A player that tells its words, and how many bytes it would play."""
        player = os.path.join(self.dir, "bin", "ffplay")
        self.put(player, b"""#!/bin/bash
echo "${*:1:$#-1}"
if [ "${!#}" = - ]; then wc -c; else wc -c <"${!#}"; fi
""")
        os.chmod(player, 0o777)

    def say(self, name, *segments):
        """Segments of a recording: text, reason, avg_logprob and the seconds where it begins."""
        media, task = self.media[name]
        connection = sqlite3.connect(self.catalog)
        connection.execute("INSERT INTO shard (task_id, seq, start_ms, end_ms, language, "
                           "language_prob, windows, wall_ms, device, done_at) VALUES (?, 0, 0, 3600000, 'en', 0.9, 1, 12, 'cpu', '2026')", (task,))
        connection.executemany(
            "INSERT INTO segment (task_id, seq, idx, start_ms, end_ms, text, language, avg_logprob, "
            "no_speech_prob, attempts, reason) VALUES (?, 0, ?, ?, ?, ?, ?, ?, 0.25, 1, ?)",
            [(task, i, int(at * 1000), int(at * 1000) + 2000, text, "es" if "ñ" in text else "en", likely, reason)
             for i, (text, reason, likely, at) in enumerate(segments)])
        connection.execute("UPDATE task SET state = 'done', shards_total = 1 WHERE task_id = ?", (task,))
        connection.commit()
        connection.close()

    def doubts(self, *options):
        return [json.loads(line) for line in
                self.run_it("doubts", "--json", *options, status=0).out.splitlines()]

    def shell(self, command):
        if not shutil.which("bash"):
            self.skipTest("no bash to read $'...'")
        path = os.path.join(self.dir, "bin") + ":" + os.environ["PATH"]
        return subprocess.run(["bash", "-c", command], env=dict(os.environ, PATH=path), cwd=self.dir, check=True,
                              capture_output=True, timeout=60).stdout.decode().splitlines()

    def test_the_least_certain_come_first(self):
        self.say("it's $5.wav",
                 ("Good.", "", -3.0, 0),
                 ("A second attempt.", "tried again: repetitive", -0.9, 10),
                 ("Mumble.", "too unlikely", -1.5, 20),
                 ("No, no, no.", "loop", -0.1, 30),
                 ("You you.", "tried again: unlikely; no speech; loop", -0.2, 40),
                 ("Unknown.", "loop", None, 50))
        self.say("b c.wav", ("Año.", "impossible pace", -0.3, 5), ("Other.", "loop", -0.1, 6))
        self.assertEqual(["You you.", "Mumble.", "Año.", "No, no, no.", "Other.", "Unknown.", "A second attempt."],
                         [d["text"] for d in self.doubts()])
        by_sql = self.sql(self.recipe())
        self.assertEqual([(d["path"], d["text"]) for d in self.doubts()], [(path, text) for path, _, text, _ in by_sql])
        self.assertEqual(["You you.", "Mumble."], [d["text"] for d in self.doubts("--limit", "2")])
        self.assertEqual(["Año."], [d["text"] for d in self.doubts("-l", "es")])
        below = os.path.join(self.archive, "sub")
        self.assertEqual(["Año.", "Other."], [d["text"] for d in self.doubts(below)])
        self.assertEqual(7, len(self.doubts(below, os.path.join(self.archive, "it's $5.wav"))))

    def recipe(self):
        page = os.path.join(os.environ["NIGHTSHIFT_SOURCE_DIR"], "docs", "how-to", "find-doubtful-passages.md")
        with open(page, encoding="utf-8") as file:
            part = file.read().split("`nightshift doubts --with-text`", 1)[1]
        return part.split("```sql\n", 1)[1].split("```", 1)[0]

    def test_the_page_for_people(self):
        self.say("it's $5.wav", ("You and\x1b[2J you. " * 8, "tried again: repetitive, unlikely; loop; no voice; sung",
                                 -0.5, 754.2))
        path = os.path.join(self.archive, "it's $5.wav")
        lines = self.run_it("doubts", status=0).out.splitlines()
        self.assertEqual(path, lines[0])
        self.assertEqual("   12:34.200  You and\\x1B[2J you. You and\\x1B[2J you. You and\\x1B[2J you. You", lines[1])
        self.assertTrue(all(len(line) <= 80 for line in lines if "ffplay" not in line and "correct" not in line
                            and line != path), lines)
        said = " ".join(" ".join(lines).split())
        self.assertIn("First attempts were refused: they repeated themselves, and the model hardly believed them. "
                      "The same few words come again and again. Voice activity detected nobody here. "
                      "It is doubted: 'sung'. ffplay -ss 753.2 -t 4.0 -autoexit ", said)
        self.assertNotIn("silence phrase", said)
        number = self.media["it's $5.wav"][0]
        self.assertIn(f"nightshift correct {number} --at 12:34.200 $'You and\\033[2J you.", said)
        self.assertIn("--as-heard", said)
        self.assertNotIn("limit 0", said)
        said = self.run_it("doubts", "--catalog", self.catalog, status=0).out
        self.assertIn(f"--at 12:34.200 --catalog '{self.catalog}' ", said)

    def test_the_commands_reach_what_they_say(self):
        for name in ("it's $5.wav", "b c.wav"):
            self.say(name, ("It's $HOME\n`id`.", "loop", -0.5, 10))
        odd = next(name for name in self.media if name.startswith("caf"))
        self.say(odd, ("-odd", "loop", -0.5, 0.5))
        sizes = {"it's $5.wav": len(wav(0, 400)), "b c.wav": len(wav(0, 401)), odd: len(wav(0, 402))}
        found = self.doubts()
        self.assertEqual(3, len(found))
        for d in found:
            name = os.path.basename(d["path"])
            when = "-ss 0.0 -t 3.5" if name == odd else "-ss 9.0 -t 4.0"
            self.assertEqual([when + " -autoexit", str(sizes[name])], self.shell(d["play"]))
            words = self.shell(d["correct"].replace("nightshift", "printf '<%s>'", 1))
            number = self.media[name][0]
            text = "<--><-odd>" if name == odd else "<It's $HOME\n`id`.>"
            self.assertIn(f"<correct><{number}><--at><", words[0])
            self.assertTrue("\n".join(words).endswith(">" + text), words)

    def missing(self, name, *stretches):
        """Speech of a recording that said something already and has no text: seconds from, to, language."""
        media, task = self.media[name]
        connection = sqlite3.connect(self.catalog)
        connection.executemany(
            "INSERT INTO dropped (task_id, seq, idx, start_ms, end_ms, text, language, reason, speech_prob) "
            "VALUES (?, 0, ?, ?, ?, '', ?, 'speech without text', 0.9)",
            [(task, i, int(start * 1000), int(end * 1000), language)
             for i, (start, end, language) in enumerate(stretches)])
        connection.commit()
        connection.close()

    def test_speech_without_text_comes_first(self):
        self.say("it's $5.wav", ("One.", "loop", -0.5, 10))
        self.say("b c.wav", ("Fine.", "", -0.1, 10))
        self.missing("it's $5.wav", (20, 21.5, "en"))
        self.missing("b c.wav", (3, 9.25, "es"), (30, 31, "en"))
        found = self.doubts()
        self.assertEqual([("missing", "", 3000), ("missing", "", 20000), ("missing", "", 30000), ("kept", "One.", 10000)],
                         [(d["outcome"], d["text"], d["start_ms"]) for d in found])
        self.assertEqual(["-ss 2.0 -t 8.3 -autoexit", str(len(wav(0, 401)))], self.shell(found[0]["play"]))
        self.assertIsNone(found[0]["correct"])
        self.assertEqual(["Voice activity detected speech here, but no text came."], found[0]["why"])
        self.assertEqual([3000, 20000, 30000], [d["start_ms"] for d in self.doubts("--missing")])
        self.assertEqual([3000], [d["start_ms"] for d in self.doubts("--missing", "-n", "1")])
        self.assertEqual([20000, 30000], [d["start_ms"] for d in self.doubts("--missing", "-l", "en")])
        self.assertEqual([3000, 30000], [d["start_ms"] for d in self.doubts("--missing", os.path.join(self.archive, "sub"))])
        self.assertEqual(["One."], [d["text"] for d in self.doubts("--with-text")])
        self.run_it("doubts", "--missing", "--with-text", status=64)
        lines = self.run_it("doubts", "--missing", status=0).out.splitlines()
        self.assertEqual("    0:03.000  (no text), 6.2 s", lines[1])
        self.assertEqual("              Voice activity detected speech here, but no text came.", lines[2])
        self.assertTrue(lines[3].lstrip().startswith("ffplay "), lines)
        self.assertNotIn("correct", "\n".join(lines))
        self.assertNotIn("--as-heard", "\n".join(lines))
        self.assertIn("--as-heard", self.run_it("doubts", status=0).out)
        self.assertEqual("None of that is doubtful.", self.run_it(
            "doubts", "--missing", os.path.join(self.archive, "box.zip"), status=0).out.split(" 3 ")[0].strip())

    def test_members_of_archives(self):
        self.say("-take [1].wav", ("One.", "loop", -0.5, 10))
        d, = self.doubts()
        self.assertTrue(d["play"].startswith("bsdtar -xqOf '"), d["play"])
        if not shutil.which("bsdtar"):
            self.skipTest("no bsdtar to unpack with")
        self.assertEqual(["-ss 9.0 -t 4.0 -autoexit", str(len(wav(9, 500)))], self.shell(d["play"]))

    def test_what_cannot_be_played_says_so(self):
        self.say("it's $5.wav", ("One.", "loop", -0.5, 10))
        os.unlink(os.path.join(self.archive, "it's $5.wav"))
        self.run_it("enqueue", self.archive, status=0)
        self.assertIsNone(self.doubts()[0]["play"])
        self.assertIn("The file is missing", self.run_it("doubts", status=0).out)

    def test_nothing_is_in_doubt(self):
        self.assertEqual("Nothing is doubtful. 5 recordings are still to be transcribed (nightshift run).\n",
                         self.run_it("doubts", status=0).out.replace("\n", " ").strip() + "\n")
        self.say("it's $5.wav", ("Mañana.", "", -0.1, 0), ("Bad.", "loop", -0.1, 10))
        self.assertIn("None of that is doubtful.", self.run_it("doubts", "-l", "es", status=0).out)
        self.assertEqual("", self.run_it("doubts", "-l", "es", "--json", status=0).out)
        for language in ("de", "German"):
            self.assertIn("in the language 'de' so far; there are: en, es.",
                          self.run_it("doubts", "-l", language, status=66).err)

    def test_mistakes_are_said(self):
        self.say("it's $5.wav", ("Bad.", "loop", -0.1, 10))
        self.assertIn("no recording at or below", self.run_it("doubts", "/nowhere", status=66).err)
        self.assertIn("no speaker is called", self.run_it("doubts", "--speaker", "Bob", status=66).err)
        self.run_it("doubts", "--limit", "x", status=64)
        self.assertIn("are too many", self.run_it("doubts", *["/a"] * 1001, status=64).err)

    def test_of_a_speaker(self):
        self.say("it's $5.wav", ("One.", "loop", -0.5, 10), ("Two.", "loop", -0.5, 20))
        media, _ = self.media["it's $5.wav"]
        connection = sqlite3.connect(self.catalog)
        connection.execute("INSERT INTO stage (name, model, model_dir, model_hash, params, created_at) "
                           "VALUES ('diarize', 'm', '/', 'a', '{}', '2026')")
        connection.execute("INSERT INTO task (media_id, stage_id, job_id, language, state, shards_total) SELECT ?, "
                           "max(stage_id), 1, '', 'done', 1 FROM stage", (media,))
        connection.execute("INSERT INTO speaker (task_id, media_id, label, name, speech_ms) "
                           "SELECT max(task_id), ?, 'SPEAKER_00', 'Ana', 9 FROM task", (media,))
        connection.execute("UPDATE segment SET speaker_id = 1 WHERE text = 'Two.'")
        connection.commit()
        connection.close()
        self.assertEqual([("Ana", "Two.")], [(d["speaker"], d["text"]) for d in self.doubts("--speaker", "ana")])
        self.assertIn("0:20.000  Ana: Two.", self.run_it("doubts", status=0).out)


if __name__ == "__main__":
    unittest.main()
