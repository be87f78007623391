#!/usr/bin/env python3
"""Speakers on the command line: who speaks, the same voice elsewhere, names, RTTM, and speakers in the
other formats. The catalog is written as a run would; nothing here listens."""
import json
import os
import shutil
import sqlite3
import struct
import unittest

from program import ProgramTest, choose_newest, index_texts, wav


class Speakers(ProgramTest):
    def setUp(self):
        super().setUp()
        os.makedirs(os.path.join(self.archive, "old"))
        for i, name in enumerate(("interview 12.wav", "old/talk.wav", "old/alone.wav")):
            with open(os.path.join(self.archive, name), "wb") as file:
                file.write(wav(i))
        self.run_it("enqueue", self.archive, status=0)
        self.media = dict((os.path.basename(path), media) for path, media in
                          self.sql("SELECT path, media_id FROM place"))
        self.fill()

    def write(self, statement, *values):
        connection = sqlite3.connect(self.catalog)
        connection.execute(statement, values)
        connection.commit()
        connection.close()

    def diarization(self, connection, stage, media, voices, turns):
        """voices: a vector or None each; turns: (start, end, speaker). Returns speaker ids."""
        task = connection.execute(
            "INSERT INTO task (media_id, stage_id, job_id, language, state, shards_total) "
            "VALUES (?, ?, 1, '', 'done', 1) RETURNING task_id", (media, stage)).fetchone()[0]
        ids = []
        for i, voice in enumerate(voices):
            speech = sum(end - start for start, end, who in turns if who == i)
            ids.append(connection.execute(
                "INSERT INTO speaker (task_id, media_id, label, speech_ms, vector) "
                "VALUES (?, ?, ?, ?, ?) RETURNING speaker_id",
                (task, media, f"SPEAKER_{i:02}", speech,
                 voice and struct.pack(f"<{len(voice)}f", *voice))).fetchone()[0])
        connection.executemany("INSERT INTO turn VALUES (?, ?, ?, ?, ?)",
                               [(task, i, start, end, ids[who]) for i, (start, end, who) in
                                enumerate(turns)])
        return ids

    def fill(self):
        connection = sqlite3.connect(self.catalog)
        for name, params in (("diarize", "{}"), ("diarize", '{"num_speakers":2}')):
            connection.execute("INSERT INTO stage (name, model, model_dir, model_hash, params, created_at)"
                               " VALUES (?, 'voices', '/v', 'aa', ?, '2026')", (name, params))
        first = self.media["interview 12.wav"]
        ids = self.diarization(connection, 2, first, [[0.6, 0.8, 0], [0, 1, 0], None],
                               [(0, 61500, 0), (61000, 70000, 1), (70000, 70300, 2)])
        self.diarization(connection, 2, self.media["talk.wav"], [[0.0, 0.8, 0.6], [-1, 0, 0], [1, 2, 3, 4]],
                         [(0, 1000, 0), (1000, 2000, 1), (2000, 9000, 2)])
        # An older diarization of another stage, which does not count any more.
        alone = self.media["alone.wav"]
        self.diarization(connection, 2, alone, [[0, 1, 0]], [(0, 5, 0)])
        self.diarization(connection, 3, alone, [[0, 0.98, 0.2]], [(0, 3000, 0)])
        task, = connection.execute("SELECT task_id FROM task WHERE media_id = ? AND stage_id = 1",
                                   (first,)).fetchone()
        connection.execute("INSERT INTO shard (task_id, seq, start_ms, end_ms, language, "
                           "language_prob, windows, wall_ms, device, done_at) VALUES (?, 0, 0, 90000, 'en', 0.9, 1, 12, 'cpu', '2026')", (task,))
        connection.executemany(
            "INSERT INTO segment (segment_id, task_id, seq, idx, start_ms, end_ms, text, language, "
            "speaker_id) VALUES (?, ?, 0, ?, ?, ?, ?, 'en', ?)",
            [(1, task, 0, 0, 2000, "Good morning.", ids[0]), (2, task, 1, 61000, 62000, "Hello.", ids[1])])
        connection.executemany(
            "INSERT INTO word (segment_id, idx, start_ms, end_ms, text, probability, speaker_id) "
            "VALUES (1, ?, ?, ?, ?, ?, ?)",
            [(0, 0, 700, " Good", 0.9, ids[0]), (1, 700, 1500, " morning.", 0.5, ids[1])])
        connection.execute("UPDATE task SET state = 'done', shards_total = 1 WHERE task_id = ?", (task,))
        choose_newest(connection)
        index_texts(connection)
        connection.commit()
        connection.close()

    def test_who_speaks(self):
        rows = json.loads(self.run_it("speakers", "--json", status=0).out)
        self.assertEqual([("interview 12.wav", "SPEAKER_00", 61500, 1), ("interview 12.wav", "SPEAKER_01", 9000, 1),
                          ("interview 12.wav", "SPEAKER_02", 300, 1), ("alone.wav", "SPEAKER_00", 3000, 1),
                          ("talk.wav", "SPEAKER_00", 1000, 1), ("talk.wav", "SPEAKER_01", 1000, 1),
                          ("talk.wav", "SPEAKER_02", 7000, 1)],
                         [(os.path.basename(r["path"]), r["label"], r["speech_ms"], r["turns"]) for r in rows])
        page = self.run_it("speakers", os.path.join(self.archive, "interview 12.wav"), status=0).out
        self.assertEqual([self.archive + "/interview 12.wav", "  SPEAKER_00      1 min 02 s, 1 turn",
                          "  SPEAKER_01           9.0 s, 1 turn", "  SPEAKER_02           0.3 s, 1 turn"],
                         page.splitlines())
        below = json.loads(self.run_it("speakers", "--json", "archive/old", status=0).out)
        self.assertEqual(4, len(below))
        whole = self.run_it("speakers", status=0).out
        self.assertEqual(sorted(whole.splitlines()), sorted(self.run_it(
            "speakers", "archive/old", "archive", "archive/old/talk.wav", status=0).out.splitlines()))
        self.assertIn("cannot list the speakers: the catalog knows no recording at or below '/elsewhere'",
                      self.run_it("speakers", "/elsewhere", status=66).err)

    def test_a_model_of_the_demo_is_named(self):
        mark = "Speakers found with diarization-nano, the model of the demo: not to be trusted"
        where = os.path.join(self.archive, "interview 12.wav")
        self.assertNotIn("the model of the demo", " ".join(self.run_it("speakers", status=0).out.split()))
        connection = sqlite3.connect(self.catalog)
        connection.execute("UPDATE stage SET model = 'diarization-nano' WHERE stage_id = 2")
        connection.commit()
        for args in (), ("--like", "interview 12/SPEAKER_00"):
            self.assertIn(" " + mark + ".", " ".join(self.run_it("speakers", *args, status=0).out.split()))
        both = "Made with whisper-nano and diarization-nano, the models of the demo"
        self.assertIn(both, " ".join(self.run_it("show", where, status=0).out.split()))
        # Nobody is told apart yet.
        connection.execute("UPDATE task SET state = 'pending' WHERE stage_id = 2 AND media_id = ?",
                           (self.media["interview 12.wav"],))
        connection.commit()
        connection.close()
        page = " ".join(self.run_it("show", where, status=0).out.split())
        self.assertIn("Made with whisper-nano, the model of the demo", page)
        self.assertNotIn(both, page)

    def test_a_copy_is_shown_where_it_was_asked_about(self):
        os.mkdir(os.path.join(self.archive, "new"))
        shutil.copy(os.path.join(self.archive, "old", "talk.wav"), os.path.join(self.archive, "new", "copy.wav"))
        self.run_it("enqueue", self.archive, status=0)
        for path, name in (("archive/new", "new/copy.wav"), ("archive/old", "old/talk.wav"), ("archive", "old/talk.wav")):
            page = json.loads(self.run_it("speakers", "--json", path, status=0).out)
            self.assertEqual({os.path.join(self.archive, name)},
                             {row["path"] for row in page if row["recording"] == self.media["talk.wav"]}, path)
        self.assertEqual(os.path.join(self.archive, "new/copy.wav"),
                         self.run_it("speakers", "archive/new", status=0).out.splitlines()[0])

    def test_nobody_is_told_apart(self):
        self.write("DELETE FROM speaker")
        self.assertEqual("No speakers were found there. `nightshift enqueue --diarize` finds speakers.\n",
                         self.run_it("speakers", status=0).out)
        self.write("UPDATE task SET state = 'pending' WHERE stage_id = 2")
        self.assertEqual("No speakers were found there. 2 recordings are still to be diarized (nightshift run).\n",
                         self.run_it("speakers", "archive", status=0).out)

    def test_a_name_for_the_archive(self):
        self.write("UPDATE speaker SET speech_ms = 9000")
        told = self.run_it("speakers", "name", "--everywhere", "interview 12/SPEAKER_01", "Ana Ruiz", status=0)
        self.assertIn("The speaker is Ana Ruiz, who is known by this voice everywhere.\n", told.out)
        page = self.run_it("speakers", "archive/old/alone.wav", status=0).out
        self.assertIn("  SPEAKER_00           9.0 s, 1 turn       Ana Ruiz? (0.980)\n", page)
        self.assertIn("speakers confirm` or `deny` decides", " ".join(page.split()))
        self.assertIn("nobody has measured", page)
        self.write("UPDATE person SET name = 'Ana María de los Ángeles Ruiz Pérez'")
        page = self.run_it("speakers", "archive/old/alone.wav", status=0).out
        self.assertIn("1 turn       Ana María de los Ángeles Ruiz Pérez?\n" + " " * 43 + "(0.980)\n", page)
        self.assertLessEqual(max(len(line) for line in page.splitlines()[1:]), 80)
        self.write("UPDATE person SET name = 'Ana Ruiz'")
        self.assertNotIn("?", self.run_it("speakers", "interview 12.wav", status=66).out)
        rows = [r for r in json.loads(self.run_it("speakers", "--json", "--proposed", status=0).out)
                if r["path"].endswith("alone.wav")]
        self.assertEqual(("Ana Ruiz", 0.98, False, None, False, None),
                         tuple(round(v, 3) if isinstance(v, float) else v for v in (rows[0][k] for k in (
                             "proposed", "likeness", "measured", "name", "everywhere", "group"))))
        told = self.run_it("speakers", "deny", "alone.wav/SPEAKER_00", status=0)
        self.assertEqual("The speaker is not Ana Ruiz: this name is not proposed again.\n", told.out)
        self.assertNotIn("alone.wav", self.run_it("speakers", "-p", status=0).out)
        for verb in ("confirm", "deny"):
            self.assertIn("'alone.wav/SPEAKER_00': no name is proposed for that speaker",
                          self.run_it("speakers", verb, "alone.wav/SPEAKER_00", status=65).err)
        # A name that was confirmed may be denied; one that was given here alone is no person's.
        self.run_it("speakers", "deny", "-q", "interview 12/Ana Ruiz", status=0)
        self.assertEqual([], self.sql("SELECT * FROM person"))
        self.assertEqual([], self.sql("SELECT 1 FROM speaker WHERE name IS NOT NULL"))
        self.run_it("speakers", "name", "-q", "interview 12/SPEAKER_01", "Ana", status=0)
        self.run_it("speakers", "deny", "interview 12/SPEAKER_01", status=65)
        self.assertEqual("No names are proposed there.\n", self.run_it("speakers", "-p", status=0).out)
        self.assertEqual("That group has no voices there.\n", self.run_it("speakers", "-g", "5", status=0).out)
        for words in (["confirm"], ["confirm", "-e", "a/b"], ["--everywhere"], ["name", "-e", "a/b"], ["-g", "0"]):
            self.run_it("speakers", *words, status=64)

    def test_a_person_is_erased(self):
        self.run_it("speakers", "name", "--everywhere", "interview 12.wav/SPEAKER_00", "Philippa Quux", status=0)
        self.assertEqual([("philippa quux",)], self.sql("SELECT lower(name) FROM person"))
        said = self.run_it("erase", "--dry-run", "--person=philippa quux", status=0).out
        self.assertEqual("philippa quux: the name of 1 speaker in 1 recording, and 1 voice in the register\n", said)
        done = self.run_it("erase", "--yes", "--person=philippa quux", status=0).out
        self.assertIn("1 speaker goes back to a label.", " ".join(done.split()))
        self.assertIn("The name stays where somebody says or wrote it", " ".join(done.split()))
        for line in done.splitlines():
            self.assertLessEqual(len(line), 80)
        self.assertEqual([(0, 0)], self.sql("SELECT (SELECT count(*) FROM person), count(*) FROM person_voice"))
        self.assertEqual([("SPEAKER_00", None)], self.sql(
            "SELECT speaker, name FROM speakers WHERE path LIKE '%interview%' AND label = 'SPEAKER_00'"))
        for name in [name for name in os.listdir(self.dir) if os.path.join(self.dir, name).startswith(self.catalog)]:
            with open(os.path.join(self.dir, name), "rb") as file:
                self.assertNotIn(b"Philippa", file.read(), name)
        self.assertNotIn("Philippa", self.run_it("speakers", status=0).out)

    def test_several_are_confirmed_at_once(self):
        self.write("UPDATE speaker SET speech_ms = 9000")
        self.write("UPDATE speaker SET vector = (SELECT vector FROM speaker WHERE speaker_id = 2) WHERE speaker_id = 4")
        self.run_it("speakers", "name", "-e", "interview 12/SPEAKER_01", "Ana", status=0)
        self.assertIn('"affected": 2', self.run_it("speakers", "confirm", "--json", "alone.wav/SPEAKER_00",
                                                   "talk.wav/SPEAKER_00", status=0).out)
        self.assertEqual([(3,)], self.sql("SELECT count(*) FROM speakers WHERE person_id = 1 AND name = 'Ana'"))
        # Grouped as a run would, in the listing.
        self.write("UPDATE speaker SET group_id = 7, name = NULL WHERE speaker_id IN (2, 4)")
        self.assertIn("  SPEAKER_01           9.0 s, 1 turn       group 7 in 2 recordings\n",
                      self.run_it("speakers", "--group=7", status=0).out)
        self.assertEqual([7, 7], [r["group"] for r in json.loads(
            self.run_it("speakers", "--json", "--group=7", status=0).out)])

    def test_names(self):
        told = self.run_it("speakers", "name", "interview 12/SPEAKER_01", "Ana Ruiz", status=0)
        self.assertIn("has that name", told.out)
        self.assertIn("Ana Ruiz", self.run_it("speakers", status=0).out)
        self.assertIn("  SPEAKER_01           9.0 s, 1 turn       Ana Ruiz\n", self.run_it("speakers", status=0).out)
        self.run_it("speakers", "name", "interview 12/ana ruiz", "Ana Ruiz", status=0)
        self.assertEqual(["Ana Ruiz"], [r["name"] for r in json.loads(
            self.run_it("speakers", "--json").out) if r["name"]])
        self.assertIn("Ana Ruiz: Hello.", self.run_it("show", "interview 12", status=0).out)
        # By its name, and by the recording's number.
        number = str(self.media["interview 12.wav"])
        self.run_it("speakers", "name", "-q", number + "/Ana Ruiz", "Ana", status=0)
        self.assertEqual([("Ana",)], self.sql("SELECT name FROM speaker WHERE name IS NOT NULL"))
        self.run_it("speakers", "name", number + "/SPEAKER_00", "Ana", status=0)
        self.assertIn("give a label", self.run_it("speakers", "name", number + "/Ana", "x", status=64).err)
        self.run_it("speakers", "name", number + "/SPEAKER_00", "", status=0)
        self.assertEqual(1, len(self.sql("SELECT 1 FROM speaker WHERE name IS NOT NULL")))
        # A label is a label, whatever another one was named by hand.
        self.write("UPDATE speaker SET name = 'Speaker_00' WHERE label = 'SPEAKER_01' AND media_id = " + number)
        self.run_it("speakers", "name", number + "/SPEAKER_00", "Bea", status=0)
        self.run_it("speakers", "name", number + "/speaker_01", "Ana", status=0)
        self.assertEqual([("SPEAKER_00", "Bea"), ("SPEAKER_01", "Ana")], self.sql(
            "SELECT label, name FROM speaker WHERE name IS NOT NULL ORDER BY 1"))
        self.run_it("speakers", "name", number + "/SPEAKER_00", "", status=0)
        told = self.run_it("speakers", "name", number + "/Ana", "SPEAKER_02")
        self.assertNotEqual(0, told.returncode)
        self.assertIn("a name that is a label", " ".join(told.err.split()))
        for what, words in (("interview 12/SPEAKER_07", "SPEAKER_00, SPEAKER_01, SPEAKER_02"),
                            ("nowhere/SPEAKER_00", "no recording"), ("SPEAKER_00", "RECORDING/SPEAKER")):
            done = self.run_it("speakers", "name", what, "x")
            self.assertNotEqual(0, done.returncode)
            self.assertIn(words, " ".join(done.err.split()))
        for name in ("a\nb", "a\u009bb", "Ana/Bea"):
            self.assertNotEqual(0, self.run_it("speakers", "name", number + "/SPEAKER_00", name).returncode, name)
        self.assertIn("a name cannot have a slash", self.run_it("speakers", "name", number + "/SPEAKER_00", "Ana/Bea", status=64).err)
        self.run_it("speakers", "name", number + "/SPEAKER_00", "\u00c2\u00bfQui\u00e9n?", status=0)
        # One that was written by another program.
        self.write("UPDATE speaker SET name = 'a' || char(155) || 'b', label = label || char(155)")
        for args in ([], ["--like", "interview 12/SPEAKER_01\u009b"]):
            out = self.run_it("speakers", *args, status=0).out
            self.assertIn("a\\x", out)
            self.assertIn("SPEAKER_00\\x", out)
            self.assertNotIn("\u009b", out)
        self.run_it("speakers", "name", "x", status=64)

    def test_the_same_voice_elsewhere(self):
        alike = json.loads(self.run_it("speakers", "--like", "interview 12/SPEAKER_01", "--json", status=0).out)
        self.assertEqual([("alone.wav", "SPEAKER_00"), ("interview 12.wav", "SPEAKER_00"),
                          ("talk.wav", "SPEAKER_00"), ("talk.wav", "SPEAKER_01")],
                         [(os.path.basename(r["path"]), r["label"]) for r in alike])
        length = (0.98 ** 2 + 0.2 ** 2) ** 0.5
        for row, cosine in zip(alike, (0.98 / length, 0.8, 0.8, 0)):
            self.assertAlmostEqual(cosine, row["likeness"], 6)
        first = self.run_it("speakers", "-n1", "--like", "interview 12/SPEAKER_01", status=0).out.splitlines()
        line = f" 0.980  {self.archive}/old/alone.wav/SPEAKER_00, 3.0 s"
        if len(line) > 80:  # the name of the recording by itself
            line = f" 0.980  {self.archive}/old/alone.wav\n        SPEAKER_00, 3.0 s"
        self.assertEqual(line.splitlines(), first)
        self.write("UPDATE place SET path = '/a.wav' WHERE path LIKE '%alone.wav'")
        self.assertEqual(" 0.980  /a.wav/SPEAKER_00, 3.0 s\n",
                         self.run_it("speakers", "-n1", "--like", "interview 12/SPEAKER_01", status=0).out)
        below = json.loads(self.run_it("speakers", "--like", "interview 12/SPEAKER_01", "--json",
                                       os.path.join(self.archive, "old/talk.wav"), status=0).out)
        self.assertEqual(2, len(below))
        nested = self.run_it("speakers", "--like", "interview 12/SPEAKER_01", "--json", "archive/old", "archive/old/talk.wav")
        self.assertEqual(3, len(json.loads(nested.out)))
        self.assertIn("never speaks alone",
                      " ".join(self.run_it("speakers", "--like", "interview 12/SPEAKER_02").err.split()))

    def test_rttm(self):
        lines = ["SPEAKER interview_12 1 0.000 61.500 <NA> <NA> SPEAKER_00 <NA> <NA>",
                 "SPEAKER interview_12 1 61.000 9.000 <NA> <NA> Ana_Ruiz <NA> <NA>",
                 "SPEAKER interview_12 1 70.000 0.300 <NA> <NA> SPEAKER_02 <NA> <NA>"]
        self.run_it("speakers", "name", "interview 12/SPEAKER_01", "Ana Ruiz", status=0)
        self.assertEqual(lines, self.run_it("show", "-f", "rttm", "interview 12", status=0).out.splitlines())
        self.run_it("export", "-o", "out", "-f", "rttm", "-f", "srt", "-f", "vtt", "-f", "json", "-f", "txt",
                    "--style", "plain", status=0)
        texts = {}
        for ending in ("rttm", "srt", "vtt", "json", "txt"):
            with open(os.path.join(self.dir, "out", "interview 12." + ending), encoding="utf-8") as file:
                texts[ending] = file.read()
        self.assertEqual(lines, texts["rttm"].splitlines())
        self.assertIn("\n[Ana Ruiz] Hello.\n", texts["srt"])
        self.assertIn("\n<v Ana Ruiz>Hello.\n", texts["vtt"])
        self.assertIn("Ana Ruiz: Hello.\n", texts["txt"])
        segments = json.loads(texts["json"])["segments"]
        self.assertEqual(["SPEAKER_00", "Ana Ruiz"], [s["speaker"] for s in segments])
        self.assertEqual(["SPEAKER_00", "Ana Ruiz"], [w["speaker"] for w in segments[0]["words"]])


if __name__ == "__main__":
    unittest.main()
