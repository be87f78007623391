#!/usr/bin/env python3
"""Subtitles of ten long made-up speeches, held against every limit by a checker of its own."""
import os
import random
import re
import sqlite3
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import subtitle_checker as checker  # noqa: E402
from program import PROGRAM, ProgramTest, keep_results, wav  # noqa: E402,F401

ENGLISH = """the market was closed in the winter and nobody knew where the money had gone so we walked to the
harbour with Mr. Sanches, who sold fish and oranges there. My grandmother, born in 1919, said that it was the best
year of her life! Was it because of the war? I don't know; we were too young to ask her about that.""".split()
SPANISH = """el mercado de la plaza estaba cerrado durante el invierno y nadie sabía dónde estaba el dinero, así que
fuimos al puerto con la señora Ruiz, que vendía pescado y naranjas. Mi abuela nació en el pueblo de su padre. ¿Fue
por la guerra? No lo sé; éramos muy jóvenes para preguntar a los vecinos.""".split()
GERMAN = """die Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichenverordnung wurde im Winter geändert, und
niemand wusste, warum. Wir gingen zum Hafen und fragten die Leute. Am Ende blieb nur das Geld.""".split()
JAPANESE = "今日は港へ行きました。市場で魚を買って、「おばあさん」の家まで歩いたんです。ちょっと寒かったけれど、とても楽しい一日だったと思います。"
CHINESE = "今天我们去了港口，在市场买了鱼和橙子。奶奶说那是她一生中最好的一年！是因为战争吗？我不知道。"
KOREAN = "오늘 우리는 항구에 갔습니다. 시장에서 생선과 오렌지를 샀고, 할머니는 그때가 가장 좋았다고 하셨습니다.".split()
RUSSIAN = "сегодня мы ходили в порт и на рынок, где продавали рыбу. Бабушка сказала, что это был лучший год.".split()


def by_words(words):
    return [" " + word for word in words]


def by_signs(text):
    return re.findall(r".[、。！？」，]*", text)


def speech(seed, language, units, rate, segments, speakers=("",), words=True, pause=(0, 2500), overlap=0):
    """rate: characters a second. Whisper's kind of segments: up to some 25 units, cut anywhere."""
    dice, at, made, place = random.Random(seed), 0.0, [], 0
    who = 0
    for _ in range(segments):
        if dice.random() < 0.4:
            who = dice.randrange(len(speakers))
        start, said = at, []
        for _ in range(dice.choice((1, 2, 8, 15, 25))):
            unit = units[place % len(units)]
            place += 1
            length = len(unit.strip()) / (rate * dice.uniform(0.85, 1.15)) * 1000
            said.append((at, at + length, unit, 0.9))
            at += length + (len(unit) > len(unit.strip())) / rate * 1000
            if dice.random() < 0.05:
                at += dice.uniform(200, 900)
        made.append((start, at, "".join(u for _, _, u, _ in said).strip(), speakers[who], said if words else []))
        at += dice.uniform(*pause)
        if overlap and dice.random() < overlap:
            at = max(start + 200, at - 1500)
    return language, made


SPEECHES = [
    ("an interview", speech(1, "en", by_words(ENGLISH), 14, 220, ("Ana Ruiz", "Tom"))),
    ("without times of words", speech(2, "en", by_words(ENGLISH), 14, 200, words=False)),
    ("una entrevista", speech(3, "es", by_words(SPANISH), 13, 220, ("Ana Ruiz", "SPEAKER_01"))),
    ("eine Rede", speech(4, "de", by_words(GERMAN), 12, 200)),
    ("japanese", speech(5, "ja", by_signs(JAPANESE), 5.5, 250, ("山田", "田中"))),
    ("chinese", speech(6, "zh", by_signs(CHINESE), 5, 250)),
    ("korean", speech(7, "ko", by_words(KOREAN), 7, 200)),
    ("russian", speech(8, "ru", by_words(RUSSIAN), 13, 200, ("Очень Длинное Имя Без Конца И Края", "Б"))),
    ("all at once", speech(9, "en", by_words(ENGLISH), 15, 220, ("Ana", "Tom", "Bo"), pause=(-1500, 500), overlap=0.3)),
    ("an auctioneer", speech(10, "en", by_words(ENGLISH), 27, 150, pause=(0, 300))),
]
USUAL = {"en": (42, 20), "ja": (26, 7), "zh": (32, 11), "ko": (32, 14), "ru": (39, 17)}
SLOW_ENOUGH = {name for name, _ in SPEECHES} - {"all at once", "an auctioneer"}


def limits_of(language, **more):
    width, cps = USUAL.get(language, (42, 17))
    return {**checker.LIMITS, "width": width, "cps": cps, **more}


class Subtitles(ProgramTest):
    def tell(self, speeches, sounds=(), chapters=()):
        """A catalog in which the recordings are these."""
        for i, _ in enumerate(speeches):
            with open(os.path.join(self.archive, f"{i:02}.wav"), "wb") as file:
                file.write(wav(i + 1))
        self.run_it("enqueue", "-m", "whisper-nano", self.archive, status=0)
        connection = sqlite3.connect(self.catalog)
        segment = 0
        for i, (_, (language, segments)) in enumerate(speeches):
            task, = connection.execute("SELECT task_id FROM task JOIN place USING (media_id) WHERE path LIKE ?",
                                       (f"%{i:02}.wav",)).fetchone()
            connection.execute("INSERT INTO shard (task_id, seq, start_ms, end_ms, language, "
                               "language_prob, windows, wall_ms, device, done_at) VALUES (?, 0, 0, 30000, ?, 0.9, 1, 12, 'cpu', '2026')", (task, language))
            speakers = self.tell_apart(connection, task, segments)
            for k, (start, end, text, who, words) in enumerate(segments):
                segment += 1
                connection.execute(
                    "INSERT INTO segment (segment_id, task_id, seq, idx, start_ms, end_ms, text, language, avg_logprob, "
                    "attempts, speech_prob, reason, speaker_id) VALUES (?, ?, 0, ?, ?, ?, ?, ?, -0.2, 1, 0.9, '', ?)",
                    (segment, task, k, int(start), int(end), text, language, speakers.get(who)))
                connection.executemany(
                    "INSERT INTO word (segment_id, idx, start_ms, end_ms, text, probability) VALUES (?, ?, ?, ?, ?, ?)",
                    [(segment, w, int(a), int(b), unit, p) for w, (a, b, unit, p) in enumerate(words)])
            if sounds:
                self.tell_sounds(connection, task, sounds)
            connection.executemany("INSERT INTO tag SELECT media_id, 'chapter', 'chapter', ?, ?, ?, ? FROM task "
                                   "WHERE task_id = ?", [(k, title, start, end, task) for k, (start, end, title) in enumerate(chapters)])
        connection.execute("UPDATE task SET state = 'done', shards_total = 1")
        keep_results(connection)
        connection.commit()
        connection.close()

    def tell_apart(self, connection, transcription, segments):
        """A diarization that has each segment said by whom it is to be; the numbers of its speakers by name."""
        names = sorted({s[3] for s in segments if s[3]})
        if not names:
            return {}
        connection.execute("INSERT OR IGNORE INTO stage (name, model, model_dir, model_hash, params, created_at) "
                           "VALUES ('diarize', 'voices', '/v', 'cc', '{}', '2026')")
        task = connection.execute("INSERT INTO task (media_id, stage_id, job_id, language, state, shards_total) "
                                  "SELECT media_id, (SELECT stage_id FROM stage WHERE name = 'diarize'), job_id, '', 'done', 1 "
                                  "FROM task WHERE task_id = ?", (transcription,)).lastrowid
        connection.executemany("INSERT INTO speaker (task_id, media_id, label, name, speech_ms) "
                               "SELECT task_id, media_id, ?, ?, 1000 FROM task WHERE task_id = ?",
                               [(f"SPEAKER_{n:02}", name, task) for n, name in enumerate(names)])
        speakers = dict(connection.execute("SELECT name, speaker_id FROM speaker WHERE task_id = ?", (task,)))
        connection.executemany("INSERT INTO turn (task_id, idx, start_ms, end_ms, speaker_id) VALUES (?, ?, ?, ?, ?)",
                               [(task, k, int(s[0]), int(s[1]), speakers[s[3]]) for k, s in enumerate(segments) if s[3]])
        return speakers

    def tell_sounds(self, connection, transcription, sounds):
        stage = connection.execute("INSERT INTO stage (name, model, model_dir, model_hash, params, created_at) VALUES "
                                   "('sounds', 'yamnet', '/y', 'bb', '{}', '2026')").lastrowid
        task = connection.execute("INSERT INTO task (media_id, stage_id, job_id, language, state, shards_total) SELECT "
                                  "media_id, ?, job_id, '', 'done', 1 FROM task WHERE task_id = ?",
                                  (stage, transcription)).lastrowid
        connection.execute("INSERT INTO shard (task_id, seq, start_ms, end_ms, language, "
                           "language_prob, windows, wall_ms, device, done_at) VALUES (?, 0, 0, 30000, '', 0.9, 1, 12, 'cpu', '2026')", (task,))
        connection.executemany("INSERT INTO sound VALUES (?, 0, ?, ?, ?, 1, ?, 0.9)",
                               [(task, k, *sound) for k, sound in enumerate(sounds)])

    def exported(self, out, *args):
        self.run_it("export", "-q", "-f", "srt", "-f", "vtt", "-f", "ebutt", "-o", out, *args, status=0)
        return lambda i, ending: os.path.join(self.dir, out, f"{i:02}.{ending}")

    def held(self, path, **limits):
        for i, (name, (language, _)) in enumerate(SPEECHES):
            for ending in ("srt", "vtt", "ebutt.xml"):
                cues = list(checker.cues_of(path(i, ending)))
                wrong = list(checker.wrong_with(cues, limits_of(language, **limits)))
                self.assertEqual([], wrong[:3], f"{name}, {ending}: {len(wrong)} of {len(cues)}")

    def test_every_limit_is_held(self):
        self.tell(SPEECHES)
        path = self.exported("out")
        self.held(path)
        plain = self.exported("plain", "--style", "plain") if "-v" in sys.argv else None
        for i, (name, (language, segments)) in enumerate(SPEECHES):
            cues = list(checker.cues_of(path(i, "vtt")))
            cps = limits_of(language)["cps"]
            with self.subTest(name):
                if name in SLOW_ENOUGH:
                    self.assertEqual(0, checker.speeds(cues, cps)[3])
                squeezed = re.sub(r"\s", "", "".join("".join(c[2]) for c in cues))
                self.assertEqual(re.sub(r"\s", "", "".join(s[2] for s in segments)), squeezed)
                self.assertLessEqual({s[3] for s in segments}, {c[3] for c in cues})
            if plain:
                before = checker.speeds(list(checker.cues_of(plain(i, "vtt"))), cps)
                after = checker.speeds(cues, cps)
                print(f"| {name} | {cps} | " + " | ".join("%.1f, %.1f, %.1f; %.0f%%" % (*s[:3], 100 * s[3])
                                                         for s in (before, after)) + " |")

    def test_other_limits_are_held(self):
        self.tell(SPEECHES)
        self.held(self.exported("one", "--max-lines=1", "--max-line-width=37"), lines=1, width=37)
        self.held(self.exported("three", "--max-lines=3", "--max-line-width=24", "--min-duration=1s", "--max-duration=5s",
                                "--gap=120ms", "--max-cps=15"), lines=3, width=24, min=1000, max=5000, gap=120, cps=15)

    def test_lines_end_where_sense_does(self):
        self.tell(SPEECHES)
        path = self.exported("out")
        torn = {"en": "the|a|of|to|in|and|my|her|Mr.", "es": "el|la|los|de|del|al|en|su|y|con|por"}
        for i, (name, (language, _)) in enumerate(SPEECHES):
            cues = list(checker.cues_of(path(i, "srt")))
            if language in torn and name in SLOW_ENOUGH:
                inner = [line for cue in cues for line in cue[2][:-1]]
                bad = [line for line in inner if re.search(rf"(?i)(^|\s)({torn[language]})$", line)]
                self.assertLessEqual(len(bad), 0.02 * len(inner), (name, bad[:5]))
                # Where somebody stops in the middle of a phrase, or is cut off there, so is the cue.
                ends = [cue[2][-1] for cue, after in zip(cues, cues[1:]) if after[0] - cue[1] < 100]
                bad = [line for line in ends if re.search(rf"(?i)(^|\s)({torn[language]})$", line)]
                self.assertLessEqual(len(bad), 0.1 * len(ends), (name, len(ends), bad[:5]))
            if language in ("ja", "zh"):
                self.assertEqual([], [cue for cue in cues for line in cue[2][1:] if re.match("[、。！？」っょー，]", line)])
                self.assertEqual([], [cue for cue in cues if any(line.endswith("「") for line in cue[2][:-1])])

    def test_what_is_said_in_the_samples(self):
        samples = os.path.join(os.path.dirname(__file__), "..", "..", "samples")
        said = []
        for name in sorted(os.listdir(samples)):
            if not re.fullmatch(r"\d\d_.*\.tsv", name):
                continue
            with open(os.path.join(samples, name), encoding="utf-8") as file:
                rows = [line.rstrip("\n").split("\t") for line in file][1:]
            said.append((name, ("es" if "_es_" in name else "en",
                                [(float(a) * 1000, float(b) * 1000, text, voice, []) for a, b, voice, text in rows])))
        self.assertGreater(len(said), 8)
        self.tell(said)
        path = self.exported("out")
        for i, (name, (language, _)) in enumerate(said):
            for ending in ("srt", "vtt", "ebutt.xml"):
                cues = list(checker.cues_of(path(i, ending)))
                self.assertEqual([], list(checker.wrong_with(cues, limits_of(language)))[:3], (name, ending))

    def test_sounds_where_nobody_speaks(self):
        said = [("one", ("en", [(5000, 7000, "We went to the harbour.", "", []), (20000, 22000, "And back.", "", [])]))]
        self.tell(said, sounds=[(0, 4000, "Music"), (1000, 30000, "Speech"), (6000, 6900, "Bell"), (8000, 12000, "Applause"),
                                (12500, 13500, "Applause"), (21000, 40000, "Cheering <&>")])
        path = self.exported("out", "--sounds")
        for ending in ("srt", "vtt", "ebutt.xml"):
            cues = list(checker.cues_of(path(0, ending)))
            self.assertEqual([], list(checker.wrong_with(cues, checker.LIMITS)))
            self.assertEqual(["[Music]", "We went to the harbour.", "[Applause]", "And back.", "[Cheering <&>]"],
                             [" ".join(cue[2]) for cue in cues], ending)
        cues = checker.cues_of(self.exported("without")(0, "srt"))
        self.assertEqual(["We went to the harbour.", "And back."], [" ".join(cue[2]) for cue in cues])

    def test_chapters_are_told_in_vtt(self):
        self.tell([("one", ("en", [(1000, 3000, "We went.", "", [])]))],
                  chapters=[(0, 60000, "A beginning --> <b>"), (3600000, 3660000, "")])
        with open(self.exported("out")(0, "vtt"), encoding="utf-8") as file:
            blocks = file.read().split("\n\n")
        self.assertEqual("NOTE Made with whisper-nano, the model of the demo: not to be trusted.", blocks.pop(1))
        self.assertEqual(["WEBVTT", "NOTE Chapters\n00:00:00.000 A beginning --&gt; &lt;b&gt;\n01:00:00.000"], blocks[:2])
        self.assertEqual(1, sum(" --> " in block for block in blocks))

    def test_times_beyond_all_sense(self):
        most = 2 ** 63 - 1
        self.tell([("one", ("en", [(most - 1, most, "We went.", "", [(most - 1, most, " We", 0.9), (0, most, " went.", 0.9)]),
                                   (most, most, "And back.", "", [])]))])
        for name in ("srt", "vtt", "ebutt", "eaf", "textgrid", "json", "docx", "iiif", "ohms"):
            self.run_it("export", "-q", "-f", name, "-o", name, status=0)

    def test_one_edited_cue_changes_its_words_alone(self):
        speech_of = SPEECHES[0]
        self.tell([speech_of])
        path = self.exported("out")(0, "srt")
        before = self.sql("SELECT segment_id, text FROM transcript ORDER BY segment_id")
        with open(path, encoding="utf-8") as file:
            blocks = file.read().split("\n\n")
        for n in (20, len(blocks) // 2, len(blocks) - 5):
            rows = blocks[n].split("\n")
            words = rows[-1].split(" ")
            old, words[len(words) // 2] = words[len(words) // 2], "Zanzibar"
            blocks[n] = "\n".join([*rows[:-1], " ".join(words)])
            name = os.path.join(self.dir, f"edited-{n}.srt")
            with open(name, "w", encoding="utf-8") as file:
                file.write("\n\n".join(blocks))
            self.run_it("correct", os.path.join(self.archive, "00.wav"), name, status=0)
            after = self.sql("SELECT segment_id, text FROM transcript ORDER BY segment_id")
            changed = [(a[1], b[1]) for a, b in zip(before, after) if a != b]
            self.assertEqual(1, len(changed), changed)
            self.assertEqual(changed[0][0].split(), [old if w == "Zanzibar" else w for w in changed[0][1].split()])
            before = after

    def test_correct_takes_them_back(self):
        self.tell(SPEECHES)
        path = self.exported("out")
        for i, (name, (language, _)) in enumerate(SPEECHES):
            # A word that is wider than a line comes back as two.
            for ending in ("srt", "vtt") if language != "de" else ():
                done = self.run_it("correct", "--dry-run", os.path.join(self.archive, f"{i:02}.wav"), path(i, ending))
                self.assertEqual("Nothing changes.\n", done.out, (name, ending, done.err))


if __name__ == "__main__":
    unittest.main()
