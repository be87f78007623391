#!/usr/bin/env python3
"""Search on the command line: words, sounds and meaning as one ranking, and what may be asked of them.
Transcripts are written as a run would write them. With an argument, the folder of a sentence encoder:
its vectors are made by a run, and found by meaning."""
import array
import json
import os
import random
import shutil
import sqlite3
import struct
import sys
import unittest

from program import ProgramTest, count_shards, index_texts, keep_results, wav

ENCODER = sys.argv.pop(1) if len(sys.argv) > 1 and os.path.isabs(sys.argv[1]) else None

SAID = {
    "childhood.wav": [("en", "SPEAKER_00", "I was born in a small village by the sea, and my parents kept goats."),
                      ("en", "SPEAKER_01", "How many brothers and sisters did you have?"),
                      ("en", "SPEAKER_00", "The market was on Saturdays, and everybody went there.")],
    "money.wav": [("en", "SPEAKER_00", "The central bank raised interest rates again this quarter."),
                  ("en", "SPEAKER_00", "Inflation fell, and the stock market went up.")],
    "deep/cocina.wav": [("es", "SPEAKER_00", "Primero se pela la cebolla y se corta en trozos pequenos."),
                        ("es", "SPEAKER_00", "El mercado abre a las ocho.")],
}


class Searching(ProgramTest):
    def setUp(self):
        super().setUp()
        os.makedirs(os.path.join(self.archive, "deep"))
        for i, name in enumerate(SAID):
            with open(os.path.join(self.archive, name), "wb") as file:
                file.write(wav(i))
        self.run_it("enqueue", self.archive, status=0)
        self.write(self.transcripts)

    def write(self, what):
        connection = sqlite3.connect(self.catalog)
        connection.execute("PRAGMA foreign_keys = ON")
        what(connection)
        count_shards(connection)
        connection.commit()
        connection.close()

    def media(self, connection, name):
        return connection.execute("SELECT media_id FROM place WHERE path = ?",
                                  (os.path.join(self.archive, name),)).fetchone()[0]

    def task(self, connection, stage, media):
        return connection.execute("INSERT INTO task (media_id, stage_id, job_id, language, state, "
                                  "shards_total) VALUES (?, ?, 1, '', 'done', 1) RETURNING task_id",
                                  (media, stage)).fetchone()[0]

    def shard(self, connection, task, language):
        connection.execute("INSERT INTO shard (task_id, seq, start_ms, end_ms, language, "
                           "language_prob, windows, wall_ms, device, done_at) VALUES (?, 0, 0, 300000, ?, 0.9, 1, 12, 'cpu', '2026')",
                           (task, language))

    def transcripts(self, connection):
        """A segment every 20 s, of 5 s, so that each is a passage by itself."""
        stage = connection.execute("INSERT INTO stage (name, model, model_dir, model_hash, params, created_at) "
                                   "VALUES ('diarize', 'voices', '/v', 'aa', '{}', '2026') "
                                   "RETURNING stage_id").fetchone()[0]
        for name, said in SAID.items():
            media = self.media(connection, name)
            connection.execute("UPDATE media SET duration_ms = 300000, decoded_at = '2026' "
                               "WHERE media_id = ?", (media,))
            task, = connection.execute("SELECT task_id FROM task WHERE media_id = ?", (media,)).fetchone()
            self.shard(connection, task, said[0][0])
            voices = self.task(connection, stage, media)
            ids = {label: connection.execute(
                "INSERT INTO speaker (task_id, media_id, label, speech_ms) VALUES (?, ?, ?, 1) "
                "RETURNING speaker_id", (voices, media, label)).fetchone()[0]
                for label in sorted({who for _, who, _ in said})}
            for i, (language, who, text) in enumerate(said):
                connection.execute("INSERT INTO segment (task_id, seq, idx, start_ms, end_ms, text, language, "
                                   "speaker_id) VALUES (?, 0, ?, ?, ?, ?, ?, ?)",
                                   (task, i, i * 20000, i * 20000 + 5000, text, language, ids[who]))
                connection.execute("INSERT INTO turn VALUES (?, ?, ?, ?, ?)",
                                   (voices, i, i * 20000, i * 20000 + 4000, ids[who]))
            connection.execute("UPDATE task SET state = 'done', shards_total = 1 WHERE task_id = ?", (task,))
        keep_results(connection)

    def sounds(self, connection):
        stage = connection.execute("INSERT INTO stage (name, model, model_dir, model_hash, params, created_at) "
                                   "VALUES ('sounds', 'yamnet', '/y', 'bb', '{}', '2026') "
                                   "RETURNING stage_id").fetchone()[0]
        for name, heard in (("childhood.wav", [(40000, 42000, "Goat", 0.5), (100000, 101000, "Applause", 0.6)]),
                            ("money.wav", [(21000, 24000, "Applause", 0.9)])):
            task = self.task(connection, stage, self.media(connection, name))
            self.shard(connection, task, "")
            for i, (start, end, sound, score) in enumerate(heard):
                connection.execute("INSERT INTO sound VALUES (?, 0, ?, ?, ?, 1, ?, ?)",
                                   (task, i, start, end, sound, score))

    def line(self, *args):
        """What is said where nothing is found."""
        return " ".join(self.run_it("search", *args, status=0).out.split())

    def found(self, *args):
        return [(os.path.basename(h["path"]), h["start_ms"] // 20000, h)
                for h in json.loads(self.run_it("search", "--json", *args, status=0).out)]

    def places(self, *args):
        return [hit[:2] for hit in self.found(*args)]


class Spelling(ProgramTest):
    """As people spell: other forms and spellings of a word, and a slip of the fingers."""
    SAID = ["We came to the harbor at noon.", "The harbour was full of boats.", "There was a strike in May.",
            "They were striking again, and painting the centre gray.", "The traveler saw the news.", "A new day began.",
            "Der M\u00e4rkt war voll.", "\u0413\u0430\u0432\u0430\u043d\u044c \u0437\u0430\u043a\u0440\u044b\u0442\u0430."]

    def setUp(self):
        super().setUp()
        with open(os.path.join(self.archive, "a.wav"), "wb") as file:
            file.write(wav(1))

    def tell(self):
        self.run_it("enqueue", self.archive, status=0)
        connection = sqlite3.connect(self.catalog)
        connection.execute("INSERT INTO shard (task_id, seq, start_ms, end_ms, language, language_prob, windows, wall_ms, "
                           "device, done_at) VALUES (1, 0, 0, 300000, 'en', 0.9, 1, 12, 'cpu', '2026')")
        connection.executemany("INSERT INTO segment (task_id, seq, idx, start_ms, end_ms, text, language) "
                               "VALUES (1, 0, ?, ?, ?, ?, 'en')",
                               [(i, i * 1000, i * 1000 + 900, text) for i, text in enumerate(self.SAID)])
        connection.execute("UPDATE task SET state = 'done', shards_total = 1")
        count_shards(connection)
        index_texts(connection)
        connection.commit()
        connection.close()

    def found(self, *args):
        hits = json.loads(self.run_it("search", "--json", *args, status=0).out)
        return sorted(hit["start_ms"] // 1000 for hit in hits)

    def line(self, *args):
        return " ".join(self.run_it("search", *args, status=0).out.split())

    def test_other_forms_and_spellings(self):
        self.tell()
        for text, found in (("harbour", [0, 1]), ("harbor", [0, 1]), ("Harbors", [0, 1]), ("strikes", [2, 3]),
                            ("strike", [2, 3]), ("painted center grey", [3]), ("traveller", [4]), ("news", [4]), ("new", [5]),
                            ("m\u00e4rkte", []), ("markt", [6]), ("harbour boat", [1]), ("NEAR(came harbour, 3)", [0]),
                            ("harbours OR strikes", [0, 1, 2, 3]), ("(harbour NOT harbor)", [1]), ("harb*", [0, 1])):
            self.assertEqual(found, self.found(text), text)
        self.assertIn("[harbor] at noon", self.line("harbour"))

    def test_what_is_quoted_is_exact(self):
        self.tell()
        for text, found in (('"harbour"', [1]), ('"harbors"', []), ('"the harbour"', [1]), ('"a strikes"', []),
                            ('"strikes"', []), ('"harbour" harbor', [1]), ("harbours*", [])):
            self.assertEqual(found, self.found(text), text)

    def test_within_a_time(self):
        self.tell()
        self.assertEqual([1], self.found("--within", "2s", "boats", "strikes"))
        self.assertEqual([], self.found("--within", "2s", "boats", '"strikes"'))

    def test_a_slip(self):
        self.tell()
        for typed, says in (("harbuor", "Perhaps: harbor (1), harbour (1)."), ("harbur", "Perhaps: "),
                            ("\"srtike\"", "Perhaps: strike (1)."), ("xarbor", "Perhaps: harbor (1)."),
                            ("newss", "Perhaps: news (1)."), ("\u0433\u0430\u0432\u0430\u043d\u0435",
                                                              "Perhaps: \u0433\u0430\u0432\u0430\u043d\u044c (1)."),
                            ("harbour boatz", "Nobody said 'boatz'; perhaps: boats (1).")):
            self.assertIn(says, self.line(typed), typed)
        for typed in ("zeppelin", "harbour zeppelin", "harbour strike", "q", "\u0436" * 40, "x" * 200, "zz*"):
            self.assertNotIn("erhaps", self.line(typed), typed)
        self.assertEqual([], self.found("harbuor"))

    def test_an_empty_catalog(self):
        os.unlink(os.path.join(self.archive, "a.wav"))
        self.run_it("enqueue", self.archive, status=0)
        for args in (["x"], ["--within", "2s", "x y"]):
            said = " ".join(self.run_it("search", *args, status=66).err.split())
            self.assertIn("there are no recordings in the catalog yet. `nightshift enqueue PATH` puts them there", said)
            self.assertNotIn("removed", said)


class Crowd(Searching):
    """Thousands of passages, of which a search for somebody finds few: what is found is held against all
    that there is, filtered here."""
    RECORDINGS = 24
    PASSAGES = 750  # of a recording: together more than are looked at before recordings are left out

    def setUp(self):
        super().setUp()
        self.dice = random.Random(5)
        for i in range(self.RECORDINGS):
            with open(os.path.join(self.archive, "deep", f"r{i:02}.wav"), "wb") as file:
                file.write(wav(100 + i))
        self.run_it("enqueue", self.archive, status=0)
        self.who = {}  # recording, passage: its speakers, in the order of appearance
        self.write(self.crowd)

    def voices(self, i):
        """Labels and names of a recording's speakers."""
        return ([("SPEAKER_00", None), ("SPEAKER_01", "Ana" if i in (3, 4) else "Sam" if i % 2 else None)]
                + [("SPEAKER_02", "Ana" if i == 4 else None), ("SPEAKER_03", None)] * (i in (4, 9)))

    def crowd(self, connection):
        stage, = connection.execute("SELECT stage_id FROM stage WHERE name = 'diarize'").fetchone()
        for i in range(self.RECORDINGS):
            name = f"r{i:02}.wav"
            media = self.media(connection, "deep/" + name)
            task, = connection.execute("SELECT task_id FROM task WHERE media_id = ?", (media,)).fetchone()
            self.shards(connection, task)
            voices = self.task(connection, stage, media)
            ids = [(connection.execute("INSERT INTO speaker (task_id, media_id, label, name, speech_ms) VALUES "
                                       "(?, ?, ?, ?, 1) RETURNING speaker_id",
                                       (voices, media, label, given)).fetchone()[0], given or label)
                   for label, given in self.voices(i)]
            rows = []
            for k in range(self.PASSAGES):
                # The later ones speak seldom, and nobody else speaks German.
                of = [self.dice.choice(ids[:2] if self.dice.random() < 0.98 else ids) for _ in range(self.dice.randrange(4))]
                at = k * 20000
                for n, (number, _) in enumerate(of):
                    length = self.dice.randrange(100, 5000)
                    language = "de" if i == 7 and k % 300 == 5 else "es" if k % 9 == 0 else "en"
                    rows.append((task, k // 15, len(rows), at + n * 5000, at + n * 5000 + length, f"said {k} {n}", language, number))
                self.who[name, k] = list(dict.fromkeys(shown for _, shown in of))
            connection.executemany("INSERT INTO segment (task_id, seq, idx, start_ms, end_ms, text, language, "
                                   "speaker_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            connection.execute("UPDATE task SET state = 'done', shards_total = 1 WHERE task_id = ?", (task,))
        index_texts(connection)

    def shards(self, connection, task):
        """Of five minutes, in which fifteen passages begin."""
        connection.executemany("INSERT INTO shard (task_id, seq, start_ms, end_ms, language, "
                               "language_prob, windows, wall_ms, device, done_at) VALUES (?, ?, ?, ?, 'en', 0.9, 1, 12, 'cpu', '2026')",
                               [(task, k // 15, k * 20000, (k + 15) * 20000) for k in range(0, self.PASSAGES, 15)])

    def stage_of(self, connection, name, model, source=None):
        return connection.execute("INSERT INTO stage (name, model, model_dir, model_hash, params, created_at, "
                                  "source_id) VALUES (?, ?, '/', 'ff', '{}', '2026', ?) RETURNING stage_id",
                                  (name, model, source)).fetchone()[0]

    def each(self, connection, stage):
        for i in range(self.RECORDINGS):
            task = self.task(connection, stage, self.media(connection, f"deep/r{i:02}.wav"))
            self.shards(connection, task)
            yield task

    def is_wanted(self, hit, speaker, language):
        voices = self.voices(int(hit[0][1:3])) if hit[0][0] == "r" else []
        labels = [label for label, given in voices if hit[2]["speaker"] in (given, label)]
        return ((speaker is None or speaker.lower() in [hit[2]["speaker"].lower()] + [label.lower() for label in labels])
                and (language is None or hit[2]["language"] == language))

    def as_all_filtered(self, *what):
        everything = self.found(*what, "--limit", "0")
        self.assertGreater(len(everything), 16000)
        for name, k, hit in everything[:3000]:
            if name[0] == "r":
                self.assertEqual(self.who[name, k], hit["speakers"])
                self.assertEqual(hit["speaker"] != "", hit["speaker"] in hit["speakers"])
        few = set()
        for speaker, language in ((None, "de"), (None, "es"), ("ana", None), ("SPEAKER_03", None), ("sam", None),
                                  ("Ana", "es"), ("SPEAKER_00", None), ("SPEAKER_00", "de"), ("SPEAKER_03", "de")):
            want = [hit[:2] + (hit[2]["speaker"],) for hit in everything if self.is_wanted(hit, speaker, language)]
            limit = self.dice.choice((1, 20, 150))
            wish = (["--speaker", speaker] if speaker else []) + (["-l", language] if language else [])
            got = self.found(*what, *wish, "--limit", str(limit))
            self.assertEqual(want[:limit], [hit[:2] + (hit[2]["speaker"],) for hit in got], wish)
            few.add(len(want))
        self.assertTrue(any(0 < n < 100 for n in few) and any(n > 1000 for n in few), few)


class CrowdSounds(Crowd):
    def test_a_class_that_all_have(self):
        def sounds(connection):
            for task in self.each(connection, self.stage_of(connection, "sounds", "yamnet")):
                connection.executemany("INSERT INTO sound VALUES (?, ?, ?, ?, ?, 0, 'Speech', ?)",
                                       [(task, k // 15, k, k * 20000, k * 20000 + 15000, self.dice.random())
                                        for k in range(self.PASSAGES)])
        self.write(sounds)
        self.as_all_filtered("--sound", "speech")


@unittest.skipIf(ENCODER is None, "no folder of a sentence encoder was given")
class CrowdMeaning(Crowd):
    def test_passages_that_all_have(self):
        self.run_it("enqueue", "--embed=" + ENCODER, "--no-transcribe", os.path.join(self.archive, "money.wav"), status=0)
        self.run_it("run", "--quiet", status=0)

        def passages(connection):
            stage, = connection.execute("SELECT stage_id FROM stage WHERE name = 'embed-text'").fetchone()
            for task in self.each(connection, stage):
                connection.executemany(
                    "INSERT INTO embedding (task_id, seq, idx, start_ms, end_ms, text, vector) "
                    "VALUES (?, ?, ?, ?, ?, 'x', ?)",
                    [(task, k // 15, k, k * 20000, k * 20000 + 15000, array.array("f", array.array("b", self.dice.randbytes(384))).tobytes())
                     for k in range(self.PASSAGES)])
        self.write(passages)
        self.as_all_filtered("--semantic", "monetary policy")


class Words(Searching):
    def test_who_says_it_and_where(self):
        self.assertEqual({("childhood.wav", 2), ("money.wav", 1)}, set(self.places("market")))
        self.assertEqual([("childhood.wav", 1)], self.places("how", "--speaker", "SPEAKER_01"))
        self.assertEqual([], self.places("market", "--speaker", "SPEAKER_01"))
        self.run_it("speakers", "name", "money/SPEAKER_00", "Bea", status=0)
        for name in ("Bea", "bea", "BEA"):
            self.assertEqual([("money.wav", 1)], self.places("market", "--speaker", name))
        for language in ("es", "Spanish", "ESPA\u00d1OL"):
            self.assertEqual([("cocina.wav", 1)], self.places("merc*", "--language", language))
        self.assertEqual([], self.places("merc*", "-l", "en"))
        self.assertEqual([("cocina.wav", 1)], self.places("mercado", "--in", "archive/deep"))
        self.assertEqual([], self.places("market", "--in", "archive/deep"))
        # A recording that lies in two places is shown in the one that was asked about.
        for name in ("aaa.wav", "deep/copy.wav"):
            shutil.copy(os.path.join(self.archive, "money.wav"), os.path.join(self.archive, name))
        self.run_it("enqueue", self.archive, status=0)
        self.assertEqual([("copy.wav", 1)], self.places("stock", "--in", "archive/deep"))
        self.assertEqual([("aaa.wav", 1)], self.places("stock", "--in", "archive/aaa.wav"))
        self.assertEqual([("money.wav", 1)], self.places("stock", "--in", "archive"))
        page = self.run_it("search", "stock", "--in", "archive/deep", status=0).out
        self.assertEqual(self.archive + "/deep/copy.wav", page.splitlines()[0])
        hit = self.found("--text", "stock market")[0][2]
        self.assertEqual(("Bea", ["words"], "Inflation fell, and the [stock] [market] went up."),
                         (hit["speaker"], hit["by"], hit["hit"]))
        page = self.run_it("search", "stock", status=0).out.splitlines()
        self.assertEqual([self.archive + "/money.wav",
                          "1   0:20.000  Bea: Inflation fell, and the [stock] market went up."], page)

    def test_a_text_says_what_is_found(self):
        first, stock, goats = ("childhood.wav", 2), ("money.wav", 1), ("childhood.wav", 0)
        for text, places in (("market OR goats", {first, stock, goats}), ("market or goats", set()),
                             ("market NOT stock", {first}), ("market AND saturdays", {first}),
                             ("(goats OR stock) market", {stock}), ("NEAR(stock up, 1)", set()),
                             ("NEAR(stock up, 1) OR goats", {goats}), ("NEAR(stock up, 2)", {stock}),
                             ('"stock market" OR "parents kept"', {stock, goats}), ("merc* NOT abre", set())):
            for option in ([], ["--text"], ["--by-time"]):
                self.assertEqual(places, set(self.places(*option, text)), text)
        self.assertEqual([first, stock], self.places("--by-time", "market", "NOT", "sea"))
        self.assertEqual([stock], self.places("market OR goats", "--in", "archive/money.wav"))

    def test_a_mistake_has_its_place(self):
        for text, line in (("market OR", "       ^"), ("(market", "^"), ("market )", "       ^"),
                           ("NEAR(a, b)", "        ^"), ('mercado "al', "        ^"), ("mark*et", "    ^"),
                           ("東 NOT", "   ^"), ("a\tAND OR b", "   ^")):
            done = self.run_it("search", text, status=64)
            shown = text.replace("\t", "\\t")
            self.assertEqual(["  " + shown, "  " + line], done.err.splitlines()[-2:], done.err)
            self.assertIn("at character ", done.err)
            self.assertEqual("", done.out)
        done = self.run_it("search", os.fsdecode(b"market \xff"), status=64)
        self.assertIn("at character 8: this is no text in UTF-8", " ".join(done.err.split()))
        self.assertEqual(["  market \\xFF", "         ^"], done.err.splitlines()[-2:])

    def test_within_a_time(self):
        """Segments begin every 20 s."""
        hit, = self.found("--within", "20s", "interest", "stock")
        self.assertEqual(("money.wav", 0, 25000, ["words"], "SPEAKER_00", ["SPEAKER_00"]),
                         hit[:2] + tuple(hit[2][k] for k in ("end_ms", "by", "speaker", "speakers")))
        self.assertEqual("The central bank raised [interest] rates again this quarter. ... Inflation fell, and the "
                         "[stock] market went up.", hit[2]["hit"])
        self.assertEqual(hit[2]["text"], hit[2]["hit"].replace("[", "").replace("]", ""))
        self.assertEqual([], self.places("--within", "19s", "interest stock"))
        self.assertEqual([("childhood.wav", 0)], self.places("--within", "1m", "goats brothers market"))
        self.assertEqual([("childhood.wav", 0)], self.places("--within=40", "vill* AND (market OR stock)"))
        self.assertEqual([("childhood.wav", 0)], self.places("--within=40", "village market", "--by-time"))
        self.assertEqual([], self.places("--within", "40s", "village market NOT brothers"))
        self.assertEqual([("childhood.wav", 0)], self.places("--within", "20s", "village brothers NOT market"))
        self.assertEqual([], self.places("--within", "24h", "village stock"))
        # Who says it, in which language, and where.
        hit, = self.found("--within", "1m", "brothers", "market")
        self.assertEqual(["SPEAKER_01", "SPEAKER_00"], hit[2]["speakers"])
        self.assertEqual([], self.places("--within", "1m", "brothers", "market", "--speaker", "SPEAKER_00"))
        self.assertEqual([("childhood.wav", 0)], self.places("--within", "1m", "village", "market", "--speaker", "speaker_00"))
        self.assertEqual([("cocina.wav", 0)], self.places("--within", "1m", "cebolla", "mercado", "-l", "es"))
        self.assertEqual([], self.places("--within", "1m", "cebolla", "mercado", "-l", "en"))
        self.assertEqual([], self.places("--within", "1m", "cebolla", "mercado", "--in", "archive/money.wav"))
        # The nearest first; as many as are wanted.
        near = [("money.wav", 0), ("childhood.wav", 0)]
        self.assertEqual(near, self.places("--within", "1m", "market", "(sea OR raised)"))
        self.assertEqual(near[::-1], self.places("--within", "1m", "market", "(sea OR raised)", "-t"))
        page = self.run_it("search", "--within", "1m", "market", "(sea OR raised)", "-n", "1", status=0).out
        self.assertIn("... the first hit; --limit 0", page)
        self.assertNotIn("childhood", page)
        self.assertEqual([self.archive + "/money.wav",
                          "1   0:00.000  (to 0:25.000) SPEAKER_00: The central bank raised [interest] rates",
                          "              again this quarter. ... Inflation fell, and the [stock] market",
                          "              went up."],
                         self.run_it("search", "--within", "20s", "interest", "stock", status=0).out.splitlines())
        # Near a sound, too.
        self.write(self.sounds)
        self.assertEqual([("money.wav", 0)], self.places("--sound", "applause", "--within", "20s", "interest stock"))
        self.assertEqual([], self.places("--sound", "goat", "--within", "20s", "interest stock"))

    def test_that_nobody_said_it_is_true(self):
        fewer = " Fewer words, or the beginning of one as in 'mark*', find more"
        apart = "; --within 60s finds words that are not in one segment."
        self.run_it("speakers", "name", "childhood/SPEAKER_01", "Ana", status=0)
        place = os.path.join(self.archive, "deep")
        for args, said in ((["zeppelin"], "Nobody said that." + fewer + "."),
                           (["goats brothers"], "Nobody said that in one segment." + fewer + apart),
                           (['"kept my goats"'], "Nobody said that in one segment." + fewer + "."),
                           (["goats", "--speaker", "Ana"], "'Ana' is not known to have said that." + fewer + "."),
                           (["goats", "-l", "es"], "Nobody said that in the language 'es'." + fewer + "."),
                           (["goats", "--in", place, "-l", "es"],
                            f"Nobody said that in the language 'es' in '{place}'." + fewer + "."),
                           (["--within", "10s", "goats brothers"],
                            "Nobody said that within 10 s of each other." + fewer + ".")):
            self.assertEqual(said, self.line(*args))
        # What is not transcribed may have it; where that does not lie, nobody said it.
        with open(os.path.join(self.archive, "new.wav"), "wb") as file:
            file.write(wav(77))
        self.run_it("enqueue", self.archive, status=0)
        unknown = "Nothing was found in what is transcribed so far." + fewer
        waits = " 1 recording is still to be transcribed (nightshift run)."
        self.assertEqual(unknown + "." + waits, self.line("zeppelin"))
        self.assertEqual(unknown + "." + waits, self.line("goats", "--speaker", "Ana"))
        self.assertEqual(unknown + apart + waits, self.line("goats brothers"))
        self.assertEqual(unknown + "." + waits, self.line("--within", "10s", "goats brothers"))
        self.assertEqual(f"Nobody said that in '{place}'." + fewer + ".", self.line("goats", "--in", place))
        # What one model has transcribed need not wait for another.
        def second(connection):
            stage = connection.execute("INSERT INTO stage (name, model, model_dir, model_hash, params, created_at) "
                                       "VALUES ('transcribe', 'other', '/o', 'ee', '{}', '2026') "
                                       "RETURNING stage_id").fetchone()[0]
            connection.execute("INSERT INTO task (media_id, stage_id, job_id, language) "
                               "SELECT media_id, ?, 1, '' FROM media WHERE media_id <= 3", (stage,))
        self.write(second)
        self.assertEqual(unknown + "." + waits, self.line("zeppelin"))
        self.write(lambda connection: connection.execute("UPDATE task SET state = 'failed' WHERE state = 'pending'"))
        self.assertEqual(unknown + ". 1 recording failed to be transcribed (nightshift status --failures).",
                         self.line("zeppelin"))
        self.write(lambda connection: connection.execute("UPDATE task SET state = 'cancelled' WHERE state = 'failed'"))
        self.assertEqual(unknown + ". 1 recording was cancelled before it was transcribed (nightshift retry).",
                         self.line("zeppelin"))
        self.write(lambda connection: connection.execute("DELETE FROM task WHERE media_id = (SELECT max(media_id) FROM media)"))
        self.assertEqual(unknown + ". 1 recording is not transcribed where that was asked for: `nightshift "
                         "enqueue` of the folder has it done.", self.line("zeppelin"))
        self.write(lambda connection: connection.execute("DELETE FROM recipe"))
        self.assertEqual(unknown + ". 1 recording was never asked to be transcribed (nightshift enqueue).",
                         self.line("zeppelin"))

    def test_sounds(self):
        self.assertIn("no sounds were listened for. `nightshift enqueue --sounds`",
                      self.run_it("search", "--sound", "applause", status=66).err)
        self.write(self.sounds)
        self.assertEqual([("money.wav", 1), ("childhood.wav", 5)], self.places("--sound", "applause"))
        first = self.found("--sound=APPLAUSE")[0][2]
        self.assertEqual((["class"], "Applause", 0.9, "SPEAKER_00"),
                         tuple(first[k] for k in ("by", "sound", "sound_score", "speaker")))
        self.assertAlmostEqual(1 / 61, first["score"], 6)
        self.assertEqual([("childhood.wav", 5)], self.places("--sound", "applause", "--in", "archive/childhood.wav"))
        # Nobody speaks at the applause in childhood.wav.
        self.assertEqual([("money.wav", 1)], self.places("--sound", "applause", "--speaker", "SPEAKER_00"))
        page = self.run_it("search", "--sound", "goat", status=0).out.splitlines()
        self.assertEqual([self.archive + "/childhood.wav",
                          "1   0:40.000  (Goat 0:40.000-0:42.000, 0.50) SPEAKER_00: The market was on",
                          "              Saturdays, and everybody went there."], page)
        self.assertEqual("Nothing that was listened to sounds like that. 1 recording was never asked to be "
                         "listened to for sounds (nightshift enqueue).", self.line("--sound", "100%_"))
        page = self.run_it("show", "childhood", status=0).out
        self.assertTrue(page.endswith("\n\nSounds: Goat 2.0 s, Applause 1.0 s\n"), page)
        self.assertNotIn("Sounds", self.run_it("show", "cocina", status=0).out)

        # What is written for programs has every sound and every turn; what nobody listened for is empty.
        self.run_it("speakers", "name", "childhood/SPEAKER_01", "Ana", status=0)
        self.run_it("export", "--quiet", "-f", "json", "-f", "rttm", "-o", "out", status=0)
        for name, speakers, sounds in (
                ("childhood", [("SPEAKER_00", "SPEAKER_00"), ("Ana", "SPEAKER_01"), ("SPEAKER_00", "SPEAKER_00")],
                 [(40000, 42000, "Goat", 0.5), (100000, 101000, "Applause", 0.6)]),
                ("deep/cocina", [("SPEAKER_00", "SPEAKER_00")] * 2, [])):
            shown = self.run_it("show", "--json", name, status=0).out
            with open(os.path.join(self.dir, "out", name + ".json"), encoding="utf-8") as file:
                self.assertEqual(shown, file.read())
            page = json.loads(shown)
            self.assertEqual(len(speakers), len(page["segments"]))
            self.assertEqual([(i * 20000, i * 20000 + 4000, *who) for i, who in enumerate(speakers)],
                             [(t["start_ms"], t["end_ms"], t["speaker"], t["label"]) for t in page["turns"]])
            self.assertEqual(sounds, [(x["start_ms"], x["end_ms"], x["sound"], x["score"]) for x in page["sounds"]])
            with open(os.path.join(self.dir, "out", name + ".rttm"), encoding="utf-8") as file:
                self.assertEqual(len(speakers), len(file.read().splitlines()))
        page = json.loads(self.run_it("show", "--json", "--dropped", "childhood", status=0).out)
        self.assertEqual(([], False, False), (page["dropped"], "turns" in page, "sounds" in page))

        def many(connection):
            task, = connection.execute("SELECT task_id FROM sound WHERE name = 'Goat'").fetchone()
            connection.executemany("INSERT INTO sound VALUES (?, 0, ?, 0, ?, 1, ?, 1)",
                                   [(task, 10 + i, 3000 + i * 1000, f"Bird {i}") for i in range(9)])
        self.write(many)
        page = self.run_it("show", "childhood", status=0).out
        self.assertIn("Sounds: Bird 8 11 s, Bird 7 10 s, Bird 6 9.0 s,", page)
        self.assertIn("Bird 1 4.0 s, ...", " ".join(page.split()))

    def test_all_who_speak_are_named(self):
        self.write(self.sounds)

        def meeting(connection):
            connection.execute("UPDATE sound SET start_ms = 0, end_ms = 45000 WHERE name = 'Goat'")
            connection.execute("UPDATE speaker SET name = 'Ana Ruiz' WHERE label = 'SPEAKER_01'")
            media = self.media(connection, "money.wav")
            task, seq = connection.execute("SELECT task_id, seq FROM segment WHERE text LIKE 'Inflation%'").fetchone()
            voices, = connection.execute("SELECT task_id FROM speaker WHERE media_id = ?", (media,)).fetchone()
            for i in range(2, 20):
                who, = connection.execute("INSERT INTO speaker (task_id, media_id, label, speech_ms) VALUES (?, ?, ?, 1) "
                                          "RETURNING speaker_id", (voices, media, f"SPEAKER_{i:02}")).fetchone()
                connection.execute("INSERT INTO segment (task_id, seq, idx, start_ms, end_ms, text, language, speaker_id) "
                                   "VALUES (?, ?, ?, ?, ?, 'hear, hear', 'en', ?)",
                                   (task, seq, 20 + i, 23900 - i, 23901 - i, who))
        self.write(meeting)
        self.assertEqual(("SPEAKER_00", ["SPEAKER_00", "Ana Ruiz"]),
                         tuple(self.found("--sound", "goat")[0][2][k] for k in ("speaker", "speakers")))
        self.assertIn("  0:00.000  (Goat 0:00.000-0:45.000, 0.50) SPEAKER_00, Ana Ruiz: I was",
                      self.run_it("search", "--sound", "goat", status=0).out)
        self.assertIn("Nothing that was listened to sounds like that while that speaker says something. 1 recording",
                      self.line("--sound", "goat", "--speaker", "SPEAKER_19"))
        # Of a crowd the first ones; the line is not longer for it.
        hit = self.found("--sound", "applause")[0][2]
        self.assertEqual(["SPEAKER_00"] + [f"SPEAKER_{i:02}" for i in range(19, 4, -1)], hit["speakers"])
        self.assertEqual("SPEAKER_00", hit["speaker"])
        page = self.run_it("search", "--sound", "applause", status=0).out.splitlines()
        self.assertIn("0.90) SPEAKER_00, SPEAKER_19, SPEAKER_18 and 16 more: Inflation fell, and the stock market went up. ...", " ".join(" ".join(page).split()))
        self.assertEqual([], [line for line in page if line[0] == " " and len(line) > 80])
        # A segment is one person's.
        self.assertEqual([["SPEAKER_00"], ["SPEAKER_00"]], [hit[2]["speakers"] for hit in self.found("market")])
        self.write(lambda connection: connection.execute("UPDATE segment SET speaker_id = NULL"))
        self.assertEqual([[], []], [hit[2]["speakers"] for hit in self.found("market")])

    def test_a_sound_and_words_are_both_there(self):
        self.write(self.sounds)
        hit, = self.found("--sound", "applause", "market")
        self.assertEqual(("money.wav", 1), hit[:2])
        self.assertEqual(["words", "class"], hit[2]["by"])
        self.assertEqual(("Applause", 0.9, 21000, 24000),
                         tuple(hit[2][k] for k in ("sound", "sound_score", "sound_start_ms", "sound_end_ms")))
        self.assertIn("[market]", hit[2]["hit"])
        # 0:05 to 0:21 is too far; 0:25 to 0:21-0:24 is near.
        self.assertEqual([], self.places("--sound", "applause", "interest"))
        self.assertEqual([("childhood.wav", 2)], self.places("--sound", "goat", "everybody"))
        self.write(lambda connection: connection.execute("UPDATE sound SET start_ms = 15000 WHERE start_ms = 21000"))
        self.assertEqual([("money.wav", 0)], self.places("--sound", "applause", "interest"))
        self.assertEqual([("money.wav", 0)], self.places("--sound", "applause", "interest", "--in", "archive/money.wav"))
        self.assertEqual([], self.places("--sound", "applause", "interest", "--speaker", "SPEAKER_01"))
        # Nobody listened to cocina.wav.
        unknown = "1 recording was never asked to be listened to for sounds (nightshift enqueue)."
        self.assertEqual("Nothing was found in what is transcribed and listened to so far. " + unknown,
                         self.line("--sound", "goat", "interest"))
        self.assertEqual("Nothing that was listened to sounds like 'siren'. " + unknown,
                         self.line("--sound", "siren", "interest"))
        heard = ["--in", os.path.join(self.archive, "money.wav")]
        self.assertEqual(f"Nobody said that in '{heard[1]}' near such a sound.",
                         self.line("--sound", "applause", "goats", *heard))
        self.assertEqual(f"Nothing sounds like 'goat', so nobody speaks near it in '{heard[1]}'.",
                         self.line("--sound", "goat", "interest", *heard))

    def test_what_was_not_looked_for_is_no_result(self):
        self.write(self.sounds)
        for args, words in ((["--in", "/nowhere", "market"], "knows no recording at or below '/nowhere'"),
                            (["--in", "money.wav", "market"], "knows no recording"),
                            (["--speaker", "Nobody", "market"], "no speaker is called 'Nobody'"),
                            (["--language", "Swedish", "market"],
                             "nothing is transcribed in the language 'sv' so far; there are: en, es"),
                            (["--language", "Elvish", "market"], "in the language 'Elvish' so far")):
            done = self.run_it("search", *args, status=66)
            self.assertIn(words, done.err)
            self.assertEqual("", done.out)
        # Which classes there are is in the model's folder.
        model = os.path.join(self.dir, "yamnet")
        os.mkdir(model)
        with open(os.path.join(model, "classes.csv"), "w", encoding="ascii") as file:
            file.write("index,mid,display_name\n0,/m/a,Speech\n1,/m/b,Music\n2,/m/c,Applause\n")
        self.write(lambda connection: connection.execute("UPDATE stage SET model_dir = ? WHERE name = 'sounds'", (model,)))
        done = self.run_it("search", "--sound", "musik", status=66)
        self.assertIn("no class of sounds is called 'musik'; near: Music. `nightshift enqueue --embed-audio`", done.err)
        self.assertIn("Nothing that was listened to sounds like that.", self.line("--sound", "speech"))
        self.write(lambda connection: connection.execute("UPDATE task SET state = 'pending', shards_total = NULL"))
        for args in (["--sound", "speech"], ["zeppelin"]):
            self.assertIn("(nightshift run).", " ".join(self.run_it("search", *args, status=0).out.split()))
        self.write(lambda connection: connection.execute("UPDATE stage SET name = 'sounds'"))
        self.assertIn("nothing is transcribed", self.run_it("search", "market", status=66).err)

    def test_an_index_of_vectors_is_no_recording(self):
        for name in ("c.db.vectors-4", "c.db.vectors-4.new"):
            with open(os.path.join(self.dir, name), "wb") as file:
                file.write(wav(9))
        self.run_it("enqueue", "--all", self.dir, status=0)
        self.write(lambda connection: self.assertEqual(
            [], connection.execute("SELECT path FROM place WHERE path LIKE '%vectors%'").fetchall()))

    def test_mistakes_are_said(self):
        for args, words in ((["--semantic", "--sound", "x"], "wants a TEXT"), (["--semantic", "--text", "x"], "does not go"),
                            (["--sound", "x", "--by-time", "y"], "--by-time searches only words"),
                            (["--sound", ""], "wants a SOUND"), ([], "name the words to search for"),
                            (["..."], "no word in it"), (["--semantic", ""], "no word in it"),
                            (["--sound", "x", "-"], "no word in it"),
                            (["--semantic", "a OR b"], "AND, OR, NOT and NEAR say nothing there"),
                            (["--semantic", "--within", "5s", "a b"], "does not go with --semantic"),
                            (["--sound", "x", "--within", "5s"], "--within wants a TEXT"),
                            (["--within", "5s", "market"], "there must be two things at least"),
                            (["--within", "5s", "market OR fair"], "there must be two things at least"),
                            (["--within", "5s", " ".join("abcdefghijklmnopqrstuvwxyz123456")], "32 things within"),
                            (["--within", "5s", "market NOT fair"], "there must be two things at least"),
                            (["--within", "0", "a b"], "(more than 0, at most 24 h 00 min), not '0'. Try"),
                            (["--within", "90000", "a b"], "not '90000', which without a unit is seconds"),
                            (["--within", "soon", "a b"], "--within wants a length of time"),
                            (["--within", "25h", "a b"], "--within wants a length of time")):
            self.assertIn(words, " ".join(self.run_it("search", *args, status=64).err.split()))
        done = self.run_it("search", "--semantic", "anything")
        self.assertNotEqual(0, done.returncode)
        self.assertIn("nothing here can be found by its meaning yet", done.err)
        self.assertIn("enqueue --embed", done.err)

    def test_without_the_model_words_are_left(self):
        def vectors(connection):
            stage = connection.execute(
                "INSERT INTO stage (name, model, model_dir, model_hash, params, created_at, source_id) "
                "VALUES ('embed-text', 'gone', '/nowhere/gone', 'cc', '{}', '2026', 1) "
                "RETURNING stage_id").fetchone()[0]
            task = self.task(connection, stage, self.media(connection, "money.wav"))
            self.shard(connection, task, "")
            connection.execute("INSERT INTO embedding (task_id, seq, idx, start_ms, end_ms, text, vector) "
                               "VALUES (?, 0, 0, 0, 5000, 'x', ?)", (task, struct.pack("<2f", 1, 0)))
        self.write(vectors)
        done = self.run_it("search", "--json", "market", status=0)
        self.assertEqual(2, len(json.loads(done.out)))
        self.assertIn("by words alone, since", done.err)
        self.assertEqual("", self.run_it("search", "--text", "market", status=0).err)
        self.assertNotEqual(0, self.run_it("search", "--semantic", "market").returncode)


@unittest.skipIf(ENCODER is None, "no folder of a sentence encoder was given")
class Meaning(Searching):
    def test_other_words_for_it(self):
        self.run_it("enqueue", "--embed=" + ENCODER, "--no-transcribe", self.archive, status=0)
        self.run_it("run", "--quiet", status=0)
        for query, where in (("growing up on the countryside", ("childhood.wav", 0)),
                             ("monetary policy", ("money.wav", 0)),
                             ("siblings", ("childhood.wav", 1)),
                             ("cortar la cebolla", ("cocina.wav", 0))):
            hits = self.found("--semantic", query)
            self.assertEqual(where, hits[0][:2], query)
            self.assertEqual(["meaning"], hits[0][2]["by"])
            self.assertEqual(7, len(hits))
            likeness = [h[2]["likeness"] for h in hits]
            self.assertEqual(sorted(likeness, reverse=True), likeness)
        self.assertTrue([n for n in os.listdir(self.dir) if n.startswith("c.db.vectors-")])
        # Words and meaning together: the segment that has both comes first, marked.
        both = self.found("market")
        self.assertEqual({"words", "meaning"}, set(both[0][2]["by"]))
        self.assertIn("[market]", both[0][2]["hit"])
        # What has the words comes first, and what has nothing to do with it does not come.
        self.assertEqual([True] * 2 + [False] * (len(both) - 2), ["words" in h[2]["by"] for h in both])
        for literal in ('"stock market"', "stock*"):
            self.assertEqual([("money.wav", 1)], self.places(literal))
        self.assertIn("Nobody said that in one segment.", self.run_it("search", '"market stock"', status=0).out)
        self.assertEqual([], self.places("quantum chromodynamics"))
        self.assertIn("Nobody said that in one segment.",
                      self.run_it("search", "quantum chromodynamics", status=0).out)
        self.assertEqual([("childhood.wav", 1)], self.places("siblings"))
        self.assertEqual("Nothing was found in these words. By meaning:",
                         self.run_it("search", "siblings", status=0).out.splitlines()[0])
        self.assertIn("  0:20.000  (to 0:25.000) SPEAKER_01: How many brothers",
                      self.run_it("search", "siblings", status=0).out)
        lines = self.run_it("search", "brothers", status=0).out.splitlines()
        self.assertIn("[brothers]", lines[1])
        self.assertEqual([], [line for line in lines[:2] if line.startswith("By meaning")])
        self.assertEqual([("money.wav", 0), ("money.wav", 1)],
                         self.places("--semantic", "monetary policy", "--in", "archive/money.wav"))
        self.assertEqual([("childhood.wav", 1)],
                         self.places("--semantic", "siblings", "--speaker", "SPEAKER_01"))
        self.assertEqual({"cocina.wav"},
                         {name for name, _ in self.places("--semantic", "siblings", "--language", "es")})
        self.run_it("speakers", "name", "childhood/SPEAKER_01", "Ana", status=0)
        for name in ("Ana", "ana", "SPEAKER_01"):
            self.assertEqual([("childhood.wav", 1)], self.places("--semantic", "siblings", "--speaker", name))

    def test_whom_thousands_are_nearer_than(self):
        """Who speaks, and how many are shown, is no matter of who is among the best thousand."""
        self.run_it("enqueue", "--embed=" + ENCODER, "--no-transcribe", self.archive, status=0)
        self.run_it("run", "--quiet", status=0)

        def crowd(connection):
            connection.execute("INSERT INTO embedding (task_id, seq, idx, start_ms, end_ms, text, vector) "
                               "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 1599) "
                               "SELECT task_id, seq, i, start_ms, end_ms, text, vector "
                               "FROM (SELECT * FROM embedding WHERE text LIKE '%interest rates%'), n")
            connection.execute("INSERT INTO segment (task_id, seq, idx, start_ms, end_ms, text, language) "
                               "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 1599) "
                               "SELECT task_id, seq, i, 30000 + i, 30000 + i, 'zeppelin', language "
                               "FROM (SELECT * FROM segment WHERE text LIKE '%interest rates%'), n")
            index_texts(connection)
        self.write(crowd)
        query = "the central bank raised interest rates"
        self.assertEqual([("childhood.wav", 1)], self.places("--semantic", query, "--speaker", "SPEAKER_01"))
        self.run_it("speakers", "name", "childhood/SPEAKER_01", "Ana", status=0)
        self.assertEqual([("childhood.wav", 1)], self.places("--semantic", query, "--speaker", "ANA"))
        self.assertEqual([], self.places("--semantic", query, "--speaker", "ana", "-l", "es"))
        self.assertEqual({"cocina.wav"}, {name for name, _ in self.places("--semantic", query, "-l", "es")})
        self.assertEqual(7 + 1500, len(self.places("--semantic", query, "--limit", "0")))
        self.assertEqual(1200, len(self.places("--semantic", query, "--limit", "1200")))
        for limit, hits in ((0, 1500), (1200, 1200), (20, 20)):
            self.assertEqual(hits, len(self.places("zeppelin", "--limit", str(limit))))


if __name__ == "__main__":
    unittest.main()
