#!/usr/bin/env python3
"""nightshift report: what it says of runs, devices, failures, doubts and what is left, as text, JSON and a
page; hostile names and texts are text. The catalog is written as runs would."""
import html.parser
import json
import os
import re
import sqlite3
import unittest

from program import ProgramTest, wav

EVIL = "<script>alert(1)<!-- \"' &amp;.wav"
VOID = {"meta", "rect", "path"}


class Page(html.parser.HTMLParser):
    """Elements and attributes of a page; fails where tags do not fit each other."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], [], ""

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag, (tag, self.open)

    def handle_data(self, data):
        self.text += data


class Report(ProgramTest):
    def setUp(self):
        super().setUp()
        for i, name in enumerate((EVIL, "a.wav", "b.wav", "c.wav", "d.wav")):
            path = os.path.join(self.archive, name)
            with open(path, "wb") as file:
                file.write(wav(2, 400 + i))
        self.run_it("enqueue", self.archive, status=0)

    def change(self, *statements):
        db = sqlite3.connect(self.catalog)
        for statement in statements:
            db.execute(*(statement if isinstance(statement, tuple) else (statement,)))
        db.commit()
        db.close()

    def two_nights(self):
        self.change(
            "INSERT INTO run VALUES (1, '2026-01-01T20:00:00.000Z', '2026-01-01T21:00:00.000Z', "
            "'2026-01-01T21:00:00.000Z', 'lost', '', 'cuda:0 <b>', 7, 1, 4, 7200000, 1800000)",
            ("INSERT INTO run VALUES (2, '2026-01-01T22:00:30.000Z', '2026-01-02T06:00:00.000Z', "
             "'2026-01-02T06:00:00.000Z', 'failed', ?, 'cuda:0 <b>', 3, 2, 1, 3600000, 600000)", (EVIL,)),
            *[("INSERT INTO run_sample (run_id, device, at, span_ms, busy_ms, audio_ms, memory_bytes, "
               "predicted_bytes, slots, windows) VALUES (?, ?, ?, 300000, ?, ?, ?, 4000000000, 64, 8)",
               (run, device, f"2026-01-0{1 if hour > 12 else 2}T{hour:02}:{minute:02}:00.000Z",
                busy, 300000, memory))
              for run, device, hours, busy, memory in (
                  (1, "cuda:0", (20,), 100000, 3000000000),
                  (2, "cuda:0", (22, 23, 0, 1, 2, 3, 4, 5), 150000, 3500000000),
                  (2, "cpu <i>", (22, 23), 300000, 0))
              for hour in hours for minute in range(0, 60, 5)])

    def failures(self):
        self.change(
            "UPDATE task SET state = 'failed', error_code = 'input', settled_at = '2026-01-01T23:00:00.000Z', "
            "error = 'truncated: the index is missing' WHERE task_id IN (1, 2)",
            "UPDATE task SET state = 'failed', error_code = 'input', settled_at = '2025-01-01T23:00:00.000Z', "
            "error = 'not a recording: no known format' WHERE task_id = 3",
            "UPDATE task SET state = 'failed', error_code = 'denied', settled_at = '2026-01-02T03:00:00.000Z', "
            "error = 'no permission' WHERE task_id = 4")

    def text(self, *options):
        out = self.run_it("report", *options, status=0).out
        for line in out.splitlines():
            self.assertLessEqual(len(line), 80, line)
        return out

    def page(self, *options):
        path = os.path.join(self.dir, "page.html")
        self.run_it("report", "--html", path, *options, status=0)
        with open(path, encoding="utf-8") as file:
            raw = file.read()
        page = Page()
        page.feed(raw)
        page.close()
        self.assertEqual([], page.open)
        return raw, page

    def test_before_the_first_run(self):
        self.assertIn("none yet. Next: nightshift run", self.text())
        self.assertEqual([], json.loads(self.run_it("report", "--json", status=0).out)["runs"])
        self.assertIn("No run yet", self.page()[1].text)

    def test_the_last_run(self):
        self.two_nights()
        out = self.text()
        self.assertIn("3 recordings, 2 failed", out)
        self.assertIn("stopped by a failure", " ".join(out.split()))
        self.assertNotIn("killed", out)
        self.assertIn("memory 3.5 GB of 4.0 GB predicted; 64 windows", re.sub(r"\s+", " ", out))
        self.assertIn("in use 50 % of the time", re.sub(r"\s+", " ", out))
        self.assertIn("1 h 00 min of audio in 10 min 00 s of work: 6.0 x real time", out)
        self.assertIn("(of each stage:", out)
        o = json.loads(self.run_it("report", "--json", status=0).out)
        self.assertEqual([2], [run["run"] for run in o["runs"]])
        self.assertEqual(["cpu <i>", "cuda:0"], [device["device"] for device in o["devices"]])
        gpu = o["devices"][1]
        self.assertEqual((8 * 12 * 300000, 8 * 12 * 150000, 3500000000, 64, 8), tuple(gpu[key] for key in (
            "span_ms", "busy_ms", "memory_bytes", "slots", "windows")))
        for key in ("span_ms", "busy_ms", "audio_ms"):
            self.assertEqual(gpu[key], sum(step[key] for step in gpu["steps"]))
        self.assertLessEqual(len(gpu["steps"]), 96)
        self.assertEqual("2026-01-01T22:00:00.000Z", gpu["steps"][0]["at"])

    def test_what_the_driver_saw(self):
        self.two_nights()
        page = self.page()[1].text
        for word in ("As the driver saw", "Temperature", "Power", "Load, by"):
            self.assertNotIn(word, page)
        self.assertNotIn("kWh", self.text())
        gpu = json.loads(self.run_it("report", "--json", status=0).out)["devices"][1]
        self.assertEqual([0, 0, None, None, None, None], [gpu[key] for key in (
            "seen_ms", "left_ms", "load_ms", "energy_j", "temperature_c", "used_bytes")])
        # 400 W, at 75 % of the time, in the 150 s of each five minutes in which it was seen; and one
        # stretch of which only the temperature is known.
        self.change("UPDATE run_sample SET seen_ms = 150000, load_ms = 112500, energy_j = 60000, temperature_c = 71, "
                    "used_bytes = 5000000000, left_ms = 0 WHERE device = 'cuda:0'",
                    "UPDATE run_sample SET seen_ms = 0, load_ms = NULL, energy_j = NULL, used_bytes = NULL, "
                    "temperature_c = 83, left_ms = 300000 WHERE at = '2026-01-02T03:00:00.000Z'")
        out = re.sub(r"\s+", " ", self.text())
        self.assertIn("load 75 %; up to 83 \u00b0C; 1.58 kWh, 400 W; by all programs up to 5.0 GB of memory; "
                      "left to others for 5 min 00 s", out)
        gpu = json.loads(self.run_it("report", "--json", status=0).out)["devices"][1]
        self.assertEqual([95 * 150000, 300000, 95 * 112500, 95 * 60000, 83, 5000000000], [gpu[key] for key in (
            "seen_ms", "left_ms", "load_ms", "energy_j", "temperature_c", "used_bytes")])
        self.assertIn(None, [step["load_ms"] for step in gpu["steps"]])
        page = self.page()[1].text
        for word in ("As the driver saw it", "75 %", "83 \u00b0C", "1.58 kWh", "400 W", "5.0 GB", "5 min 00 s",
                     "Temperature, at most 83", "Power, at most 400 W", "Load, by the driver, at most 75 %"):
            self.assertIn(word, page)

    def test_several_runs(self):
        self.two_nights()
        out = self.text("--last", "2")
        self.assertIn("10 recordings, 3 failed", out)
        self.assertIn("killed, or the power went", out)
        self.assertIn("Thu 01 Jan 2026, 20:00 to 21:00: killed", out)
        self.assertIn("Thu 01 Jan 2026, 22:00 to Fri 02 Jan, 06:00: stopped", out)
        o = json.loads(self.run_it("report", "--last", "9", "--json", status=0).out)
        self.assertEqual([1, 2], [run["run"] for run in o["runs"]])
        self.assertEqual(10800000, o["audio_ms"])
        self.assertEqual(2400000, o["work_ms"])
        self.assertAlmostEqual(4.5, o["times_real_time"])

    def test_what_failed_and_what_is_left(self):
        self.two_nights()
        self.failures()
        o = json.loads(self.run_it("report", "--json", status=0).out)
        self.assertEqual([("input", 2, 2), ("denied", 1, 1), ("input", 1, 0)],
                         [(x["code"], x["count"], x["new"]) for x in o["failures"]])
        self.assertTrue(all(x["mend"] for x in o["failures"]))
        self.assertEqual(1, o["left"]["recordings"])
        out = self.text()
        self.assertIn("then nightshift retry", re.sub(r"\s+", " ", out))
        self.assertIn("1 recording to do", out)
        self.assertIn("1 x input, before", out)

    def test_failures_can_be_dismissed(self):
        self.two_nights()
        self.failures()
        [(first,)] = self.sql("SELECT path FROM tasks WHERE task_id = 1")
        self.assertIn("nightshift cancel --failed", " ".join(self.text().split()))
        self.assertIn("For what has failed: --failed", self.run_it("cancel", first, status=0).out)
        said = " ".join(self.run_it("cancel", "--failed", first, status=0).out.split())
        self.assertEqual("1 recording dismissed; `nightshift retry PATH` or `retry --all` takes it up again.", said)
        # It stays so while others are tried again.
        self.assertIn("3 recordings will be tried again", self.run_it("retry", status=0).out)
        self.assertIn("--all", self.run_it("retry", status=0).out)
        self.run_it("cancel", status=0)  # with one that had not failed
        self.assertIn("4 recordings will be tried again", self.run_it("retry", status=0).out)
        self.assertIn("1 recording will be tried again", self.run_it("retry", first, status=0).out)
        self.failures()
        self.assertIn("4 recordings dismissed", self.run_it("cancel", "--failed", status=0).out)
        self.assertEqual("Nothing there has failed.\n", self.run_it("cancel", "--failed", status=0).out)
        self.run_it("retry", "--failed", status=64)
        self.assertEqual([], json.loads(self.run_it("report", "--json", status=0).out)["failures"])
        status = self.run_it("status", status=0).out
        self.assertIn("4 cancelled", status)
        self.assertNotIn("failed", status)
        self.assertIn("the index is missing", self.run_it("show", first, status=0).out)

    def test_what_could_not_be_read(self):
        self.two_nights()
        self.change(*((
            "INSERT INTO trouble (path, path_raw, member, member_raw, error_code, error, job_id, at) "
            "VALUES (?1, CAST(?1 AS BLOB), '', x'', ?2, 'why', 1, '2026-01-01T23:00:00.000Z')", (f"/{code}.zip", code))
            for code in ("input", "limit", "denied", "io")))
        mends = {x["code"]: x["mend"] for x in json.loads(self.run_it("report", "--json", status=0).out)["failures"]}
        for code, words in (("input", "bring another copy"), ("limit", "unpack it"),
                            ("denied", "let the user of enqueue read it"), ("io", "look at the disk")):
            self.assertIn(words, mends[code])
            self.assertEqual(code == "denied", "let the user" in mends[code])

    def test_when_it_would_be_done(self):
        self.two_nights()
        self.change("UPDATE media SET duration_ms = 7200000")
        o = json.loads(self.run_it("report", "--json", status=0).out)
        self.assertEqual(5 * 7200000, o["left"]["audio_ms"])
        expected = 5 * 7200000 / o["times_real_time"]
        self.assertLess(o["left"]["low_ms"], expected)
        self.assertGreater(o["left"]["high_ms"], expected)
        self.assertIn("at the speed of these runs", self.text())

    def test_a_page_that_is_text(self):
        self.two_nights()
        self.failures()
        raw, page = self.page("--last", "2")
        tags = {tag for tag, _ in page.seen}
        self.assertFalse(tags & {"script", "link", "img", "iframe", "object", "i"}, tags)
        self.assertIn(EVIL, page.text)
        policy = [a["content"] for tag, a in page.seen
                  if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy"]
        self.assertEqual(1, len(policy))
        self.assertIn("default-src 'none'", policy[0])
        self.assertNotIn("script-src", policy[0])
        self.assertNotRegex(raw, r"https?://|\son\w+=|url\(")
        charts = [a for tag, a in page.seen if tag == "svg"]
        self.assertEqual(5, len(charts))  # the second device tells no memory
        self.assertIn("; dashed: 4.0 GB predicted", page.text)
        self.assertTrue(all(a["role"] == "img" and a["aria-label"] for a in charts))
        for name in ("prefers-color-scheme:dark", "@media print"):
            self.assertIn(name, raw)

    def test_why_something_is_doubted(self):
        self.two_nights()
        self.change("INSERT INTO shard (task_id, seq, start_ms, end_ms, language, "
                    "language_prob, windows, wall_ms, device, done_at) VALUES (5, 0, 0, 3600000, 'en', 0.9, 1, 12, 'cpu', '2026')",
                    "INSERT INTO segment (task_id, seq, idx, start_ms, end_ms, text, language, attempts, reason) "
                    "VALUES (5, 0, 0, 1000, 2000, 'six nine.', 'en', 1, 'loop; odd words; sung')",
                    "UPDATE task SET state = 'done', shards_total = 1 WHERE task_id = 5")
        why = ("The same few words come again and again. Half of its words, or more, are improbable or oddly "
               "long or short. It is doubted: 'sung'.")
        self.assertIn(f'"six nine." {why}', re.sub(r"\s+", " ", self.text()))
        self.assertIn(why, self.page()[1].text)
        o = json.loads(self.run_it("report", "--json", status=0).out)
        self.assertEqual(["loop; odd words; sung"], [doubt["reason"] for doubt in o["doubts"]])

    def test_how_much_speech_has_a_text(self):
        self.two_nights()
        self.assertNotIn("Speech", self.text())
        self.assertIsNone(json.loads(self.run_it("report", "--json", status=0).out)["speech"])
        # 99.996 %: never more than there is
        self.change("UPDATE task SET speech_ms = 45296000, missing_ms = 1700, shards_done = shards_done WHERE task_id = 5")
        said = "99.9 % of 12 h 34 min of speech has text; 1.7 s has none (nightshift doubts --missing)"
        self.assertIn("Speech " + said + " Left", re.sub(r"\s+", " ", self.text()))
        self.assertIn(said + ".", self.page()[1].text)
        self.assertEqual({"speech_ms": 45296000, "dropped_ms": 0, "missing_ms": 1700, "text_share": 0.9999},
                         json.loads(self.run_it("report", "--json", status=0).out)["speech"])
        self.change("UPDATE task SET missing_ms = 0, dropped_ms = 9000, shards_done = shards_done WHERE task_id = 5")
        self.assertIn("99.9 % of 12 h 34 min of speech has text; the text of 9.0 s was not believed Left",
                      re.sub(r"\s+", " ", self.text()))
        self.change("UPDATE task SET dropped_ms = 0, shards_done = shards_done WHERE task_id = 5")
        self.assertIn("100 % of 12 h 34 min of speech has text Left", re.sub(r"\s+", " ", self.text()))

    def test_what_is_wrong_is_said(self):
        self.run_it("report", "--html", os.path.join(self.dir, "none/x.html"), status=66)
        self.run_it("report", "--html", "x.html", "--json", status=64)
        self.run_it("report", "--last", "0", status=64)
        self.run_it("report", "x", status=64)


if __name__ == "__main__":
    unittest.main()
