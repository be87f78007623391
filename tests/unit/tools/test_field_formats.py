#!/usr/bin/env python3
"""Formats of the field, each read back by somebody else's reader from the Python package index: ttconv (EBU-TT-D),
webvtt-py (vtt, OHMS), pympi-ling and speach (ELAN), praatio and textgrid (Praat), iiif-prezi3 (IIIF, which validates),
python-docx, and Python's csv. Skipped, and said so, where they cannot be had. The argument is a folder to keep them in."""
import csv
import json
import os
import sqlite3
import subprocess
import sys
import unittest

PACKAGES = ("ttconv==1.2.3", "webvtt-py==0.6.0", "pympi-ling==1.71", "speach==0.1a15.post1", "praatio==6.2.2", "textgrid==1.6.1",
            "iiif-prezi3==3.1.1", "python-docx==1.2.0")


def into_the_readers(folder):
    """Starts this again with the Python that has them, fetched once."""
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(os.path.join(folder, "done")):
        for command in ([sys.executable, "-m", "venv", folder],
                        [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *PACKAGES]):
            done = subprocess.run(command, capture_output=True, check=False, timeout=600)
            if done.returncode != 0:
                print("skipped: the readers cannot be fetched:", done.stderr.decode()[-300:])
                sys.exit(77)
        with open(os.path.join(folder, "done"), "w", encoding="utf-8"):
            pass
    os.execv(python, [python, os.path.abspath(__file__), "--read", *sys.argv[2:]])


if __name__ == "__main__" and sys.argv[1:2] != ["--read"]:
    into_the_readers(os.path.abspath(sys.argv[1]))

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from program import ProgramTest, wav  # noqa: E402

HOSTILE = ["<script>alert(1)</script> & ]]> <!-- \"quoted\" 'it' -->", "a\tb\nc\rd\x07\x1b[2J\x7f\x9b",
           "=cmd|' /C calc'!A0", "\u202eright to left\u202c \u200f\u2028\u2029", "\ufffe\uffff \U0001f3a4 e\u0301",
           "-1, \"two\"; {\\an8} &amp; &lt; %s %n", "שלום עולם"]
NAMES = ["Ana <Ruiz> & \"Co\"", "=SUM(A1)", "b\nc]]>", "\u202eנוגה"]


def clean(text):
    """On one line, as every format has it."""
    return "".join(" " if ord(c) < 0x20 or 0x7f <= ord(c) < 0xa0 else c for c in text)


def xml(text):
    return clean(text).replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")


class FieldFormats(ProgramTest):
    def setUp(self):
        super().setUp()
        name = "a & b <\"c\"> #%é.wav"
        with open(os.path.join(self.archive, name), "wb") as file:
            file.write(wav(1))
        self.run_it("enqueue", "-m", "whisper-nano", self.archive, status=0)
        connection = sqlite3.connect(self.catalog)
        connection.execute("INSERT INTO shard (task_id, seq, start_ms, end_ms, language, "
                           "language_prob, windows, wall_ms, device, done_at) VALUES (1, 0, 0, 30000, 'en', 0.9, 1, 12, 'cpu', '2026')")
        connection.executemany("INSERT INTO speaker (task_id, media_id, label, name, speech_ms) VALUES (1, 1, ?, ?, 9)",
                               [(f"SPEAKER_{i:02}", name) for i, name in enumerate(NAMES)])
        self.said = []
        for i, text in enumerate(HOSTILE * 2):
            start, end, who = i * 3000, i * 3000 + (3500 if i % 3 == 0 else 2500), i % (len(NAMES) + 1)
            connection.execute(
                "INSERT INTO segment (segment_id, task_id, seq, idx, start_ms, end_ms, text, language, reason, speaker_id) "
                "VALUES (?, 1, 0, ?, ?, ?, ?, 'en', '', ?)", (i + 1, i, start, end, text, who or None))
            for k, word in enumerate(text.split(" ")):
                connection.execute("INSERT INTO word (segment_id, idx, start_ms, end_ms, text, probability) "
                                   "VALUES (?, ?, ?, ?, ?, 0.5)", (i + 1, k, start + 200 * k, start + 200 * k, " " * (k > 0) + word))
            self.said.append((start, end, text, NAMES[who - 1] if who else ""))
        connection.execute("UPDATE task SET state = 'done', shards_total = 1")
        connection.commit()
        connection.close()
        args = [a for f in "ebutt vtt srt ohms eaf textgrid iiif docx csv json".split() for a in ("-f", f)]
        self.run_it("export", "-q", "-o", "out", *args, status=0)

    def path(self, ending):
        found = [os.path.join(self.dir, "out", name) for name in os.listdir(os.path.join(self.dir, "out"))
                 if name.endswith("é." + ending)]
        self.assertEqual(1, len(found), ending)
        return found[0]

    def test_ebu_tt_d(self):
        import xml.etree.ElementTree as ET
        from ttconv.imsc.reader import to_model
        with open(self.path("ebutt.xml"), encoding="utf-8") as file:
            document = to_model(ET.ElementTree(ET.fromstring(file.read())))
        times, texts = [], []
        for element in document.get_body().dfs_iterator():
            if type(element).__name__ == "P":
                times.append((element.get_begin() or 0, element.get_end()))
            if type(element).__name__ == "Text":
                texts.append(element.get_text())
        self.assertGreaterEqual(len(times), len(self.said))
        self.assertTrue(all(b < e for b, e in times) and all(a[1] <= b[0] for a, b in zip(times, times[1:])))
        self.assertIn("<script>alert(1)</script> & ]]> <!--", " ".join(texts))

    def test_webvtt(self):
        import webvtt
        captions = list(webvtt.read(self.path("ohms.vtt")))
        self.assertEqual(len(self.said), len(captions))
        self.assertEqual({clean(s[3]).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for s in self.said if s[3]},
                         {c.voice for c in captions if c.voice})
        self.assertGreaterEqual(len(list(webvtt.read(self.path("vtt")))), len(self.said))
        self.assertGreaterEqual(len(list(webvtt.from_srt(self.path("srt")))), len(self.said))

    def test_elan(self):
        import pympi
        from speach import elan
        eaf = pympi.Elan.Eaf(self.path("eaf"))
        found = []
        for tier in eaf.get_tier_names():
            spans = sorted(eaf.get_annotation_data_for_tier(tier))
            self.assertTrue(all(a[1] <= b[0] for a, b in zip(spans, spans[1:])), tier)
            self.assertTrue(all(s[0] < s[1] for s in spans), tier)
            if eaf.tiers[tier][2]["LINGUISTIC_TYPE_REF"] == "speech":
                found += [(s[2], tier) for s in spans]
        self.assertEqual(sorted((xml(t).strip(), xml(who) or "transcript") for _, _, t, who in self.said),
                         sorted((t.strip(), who) for t, who in found))
        self.assertEqual(len(eaf.get_tier_names()), len(list(elan.read_eaf(self.path("eaf")))))

    def test_praat(self):
        import textgrid
        from praatio import textgrid as praat
        grid = praat.openTextgrid(self.path("TextGrid"), includeEmptyIntervals=False)
        found = []
        for name in grid.tierNames:
            if " words" not in name:
                found += [(entry.label, name) for entry in grid.getTier(name).entries]
        self.assertEqual(sorted((clean(t).strip(), clean(who) or "transcript") for _, _, t, who in self.said),
                         sorted((t.strip(), who) for t, who in found))
        again = textgrid.TextGrid.fromFile(self.path("TextGrid"))
        self.assertEqual(len(grid.tierNames), len(again.tiers))
        for tier in again.tiers:
            self.assertEqual((0, again.maxTime), (tier.minTime, tier.maxTime))

    def test_iiif(self):
        from iiif_prezi3 import Manifest
        with open(self.path("iiif.json"), encoding="utf-8") as file:
            raw = json.load(file)
        manifest = Manifest(**raw)
        canvas, = manifest.items
        page, = canvas.annotations
        self.assertEqual(len(self.said), len(page.items))
        bodies = [item["body"]["value"] for item in raw["items"][0]["annotations"][0]["items"]]
        self.assertEqual([(f"{who}: " if who else "") + text for _, _, text, who in self.said], bodies)
        self.assertIn("/1/a%20%26%20b%20%3C%22c%22%3E%20%23%25%C3%A9.wav", raw["items"][0]["items"][0]["items"][0]["body"]["id"])
        shown = json.loads(self.run_it("show", "-f", "iiif", "--url", "https://archive.example/iiif", "1", status=0).out)
        self.assertEqual("https://archive.example/iiif/1/manifest", shown["id"])
        for bad in ("ftp://x", "https://x/", "https://", 'https://x/"y', "https://x/a b"):
            self.run_it("show", "-f", "iiif", "--url", bad, "1", status=64)

    def test_docx(self):
        import docx
        document = docx.Document(self.path("docx"))
        text = "\n".join(p.text for p in document.paragraphs)
        for _, _, said, who in self.said:
            self.assertIn(xml(said), text)
            self.assertIn(xml(who), text)
        self.assertIn("[00:00:03] " + xml(NAMES[0]) + ": ", text)

    def test_csv(self):
        with open(self.path("csv"), encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, strict=True))
        self.assertEqual(["start", "end", "speaker", "text"], rows[0])
        for row, (_, _, text, who) in zip(rows[1:], self.said):
            self.assertEqual([clean(who), clean(text)], [cell[1:] if cell[:2] in (" =", " +", " -", " @") else cell for cell in row[2:]])
            self.assertFalse(any(cell[:1] in tuple("=+-@") for cell in row[2:] if cell))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
