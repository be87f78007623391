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

    def doubt(self, task, at, *segments):
        self.change(("INSERT INTO shard (task_id, seq, start_ms, end_ms, language, language_prob, windows, wall_ms, device, "
                     "done_at) VALUES (?, 0, 0, 3600000, 'en', 0.9, 1, 12, 'cpu', ?)", (task, at)),
                    *(("INSERT INTO segment (task_id, seq, idx, start_ms, end_ms, text, language, attempts, reason) "
                       "VALUES (?, 0, ?, 1000, 2000, ?, 'en', 1, ?)", (task, idx, text, reason))
                      for idx, text, reason in segments),
                    ("UPDATE task SET state = 'done', shards_total = 1 WHERE task_id = ?", (task,)))

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

    def test_what_befell_the_devices(self):
        self.two_nights()
        self.assertNotIn("befell", self.text() + self.page()[1].text)
        self.assertEqual([], json.loads(self.run_it("report", "--json", status=0).out)["device_events"])
        self.change(*(("INSERT INTO event (at, kind, device, text) VALUES (?, ?, 'cuda:GPU-<b>', ?)", row) for row in (
            ("2026-01-01T20:10:00.000Z", "worker-aside", "in the night before"),
            ("2026-01-01T23:10:00.250Z", "worker-aside", "worker cuda:0 is disabled: its device is lost <b>"),
            ("2026-01-01T23:10:01.000Z", "worker-died", "not said, as being disabled is"),
            ("2026-01-02T01:00:00.000Z", "device-slow", "cuda:0 was slowed down"))))
        lines = [" ".join(line.split()) for line in self.text().splitlines()]
        at = lines.index("Device problems")
        self.assertRegex(lines[at + 1], r"^Thu 01 Jan, \d\d:10: worker cuda:0 is disabled: its device is lost <b>$")
        self.assertRegex(lines[at + 2], "cuda:0 was slowed down$")
        self.assertEqual("", lines[at + 3])
        self.assertEqual([("2026-01-01T23:10:00.250Z", "worker-aside"), ("2026-01-02T01:00:00.000Z", "device-slow")], [
            (e["at"], e["kind"]) for e in json.loads(self.run_it("report", "--json", status=0).out)["device_events"]])
        self.assertIn("its device is lost <b>", self.page()[1].text)
        self.change(("INSERT INTO event (at, kind, device, text) SELECT '2026-01-02T02:00:00.000Z', 'device-slow', 'x', "
                     "'again' FROM run_sample LIMIT 13",))
        self.assertIn("... and 3 more: the table `event`", self.text())

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
        self.assertEqual("2026-01-01T21:00:00.000Z", o["since"])
        self.assertEqual([("failed", "input", 2, 1), ("failed", "denied", 1, 0)],
                         [(x["kind"], x["code"], x["new"], x["before"]) for x in o["news"]])
        self.assertEqual([2, 1], [len(x["recordings"]) for x in o["news"]])
        self.assertEqual({"path", "stage", "reason"}, set(o["news"][0]["recordings"][0]))
        self.assertEqual(1, o["left"]["recordings"])
        out = self.text()
        self.assertIn("1 recording to do", out)
        self.assertIn("\nEarlier     1 failed: nightshift status --failures\n", out)
        # The advice once, and a reason once under the names that it is of; a reason that says what to do says it alone.
        self.assertEqual(1, out.count("-> Play it. If it cannot be played"))
        self.assertEqual(1, out.count("truncated: the index is missing"))
        self.assertEqual(1, out.count("->"))
        self.assertNotIn("no known format", out)
        first = re.findall(r"^failed +(.*)$", out, re.M)
        self.assertEqual(2, len(first), out)
        # Of both runs, the first of which began before there was any, all is new.
        o = json.loads(self.run_it("report", "--last", "2", "--json", status=0).out)
        self.assertIsNone(o["since"])
        self.assertEqual([("input", 3, 0), ("denied", 1, 0)], [(x["code"], x["new"], x["before"]) for x in o["news"]])

    def test_what_is_mended_is_told_no_more(self):
        self.two_nights()
        self.failures()
        self.change("UPDATE task SET state = 'done', error = NULL, error_code = NULL WHERE task_id IN (1, 2, 3)")
        out = self.text()
        self.assertNotIn("Earlier", out)
        self.assertNotIn("Play it", out)
        self.assertIn("no permission", out)
        # Gone, and without a result: told in the morning after it was found out, and never again.
        self.change("UPDATE task SET state = 'failed', error = 'no known format', error_code = 'input', absent = 1, "
                    "settled_at = '2025-01-01T23:00:00.000Z' WHERE task_id = 3",
                    "UPDATE place SET state = 'vanished', gone_at = '2026-01-01T21:30:00.000Z' WHERE media_id = 3",
                    "UPDATE media SET places = 0 WHERE media_id = 3")
        out = re.sub(r"\s+", " ", self.text())
        self.assertIn("not there any more when its folder was last enqueued", out)
        self.assertIn("-> If it is gone for good: nightshift cancel PATH", out)
        self.assertNotIn("no known format", out)
        self.assertNotIn("Earlier", out)
        self.change("UPDATE place SET gone_at = '2026-01-01T20:30:00.000Z' WHERE media_id = 3")
        out = re.sub(r"\s+", " ", self.text())
        self.assertNotIn("not there any more", out)
        self.assertNotIn("gone", out)

    def test_many_of_a_kind(self):
        self.two_nights()
        self.change(*((
            "INSERT INTO trouble (path, path_raw, member, member_raw, error_code, error, job_id, at) "
            "VALUES (?1, CAST(?1 AS BLOB), '', x'', 'io', 'it cannot be read', 1, '2026-01-01T23:00:00.000Z')",
            (f"/tapes/{i:04}.zip",)) for i in range(1234)))
        # And members of one archive, of which its name is enough.
        self.change(*((
            "INSERT INTO trouble (path, path_raw, member, member_raw, error_code, error, job_id, at) "
            "VALUES ('/x.zip', CAST('/x.zip' AS BLOB), ?1, CAST(?1 AS BLOB), 'input', 'encrypted', 1, "
            "'2026-01-01T23:00:00.000Z')", (member,)) for member in ("", "a.wav", "b.wav")))
        out = self.text()
        self.assertIn("... and 1,226 more: nightshift status --failures", out)
        self.assertEqual(8, out.count("/tapes/"))
        self.assertEqual(1, out.count("it cannot be read"))
        self.assertEqual(1, out.count("/x.zip"))
        self.assertNotIn("a.wav\n", out)
        self.assertIn("and 1,226 more", self.page()[1].text)
        self.assertEqual([1234, 1], [x["new"] for x in json.loads(self.run_it("report", "--json", status=0).out)["news"]])

    def test_what_has_no_sound(self):
        self.two_nights()
        self.change("UPDATE media SET audio_tracks = 0, decoded_at = '2026-01-01T23:00:00.000Z' WHERE media_id = 2",
                    "UPDATE media SET audio_tracks = 0, decoded_at = '2026-01-01T20:00:00.000Z' WHERE media_id = 3")
        out = self.text()
        self.assertRegex(out, r"\nno sound +\S+\n +no audio track\n +-> It counts as done\.\n")
        self.assertNotIn("Earlier", out)
        self.assertIn("no sound: 1", self.page()[1].text)
        status = " ".join(self.run_it("status", status=0).out.split())
        self.assertIn("2 recordings have no sound", status)
        self.assertNotIn("Failures", status)
        self.assertEqual(2, json.loads(self.run_it("status", "--json", status=0).out)["without_sound"])

    def test_a_night_with_nothing_to_do(self):
        self.two_nights()
        self.change("UPDATE run SET recordings_done = 0, recordings_failed = 0, audio_ms = 0 WHERE run_id = 2",
                    "UPDATE run_sample SET busy_ms = 0, audio_ms = 0 WHERE run_id = 2")
        out = self.text()
        self.assertIn("\nDone        nothing\n", out)
        for word in ("Devices", "What is", "Earlier", "x real time"):
            self.assertNotIn(word, out)

    def test_status_lists_nothing_that_report_lists(self):
        self.two_nights()
        self.failures()
        out = self.run_it("status", status=0).out
        self.assertIn("\nFailures    nightshift status --failures lists 4 with their reasons\n", out)
        self.assertNotIn("the index is missing", out)
        out = self.run_it("status", "--failures", status=0).out
        for reason in ("the index is missing", "no known format", "no permission"):
            self.assertIn(reason, out)

    def test_failures_can_be_dismissed(self):
        self.two_nights()
        self.failures()
        [(first,)] = self.sql("SELECT path FROM tasks WHERE task_id = 1")
        self.assertIn("nightshift cancel --failed", " ".join(self.text().split()))
        self.assertIn("To dismiss failed ones: --failed", self.run_it("cancel", first, status=0).out)
        said = self.run_it("cancel", "--failed", first, status=0).out
        self.assertLessEqual(max(len(line) for line in said.splitlines()), 80)
        said = " ".join(said.split())
        self.assertEqual("1 recording dismissed; `nightshift retry PATH` or `retry --all` tries it again.", said)
        # It stays so while others are tried again.
        self.assertIn("3 recordings will be tried again", self.run_it("retry", status=0).out)
        self.assertIn("--all", self.run_it("retry", status=0).out)
        self.run_it("cancel", status=0)  # with one that had not failed
        self.assertIn("4 recordings will be tried again", self.run_it("retry", status=0).out)
        self.assertIn("1 recording will be tried again", self.run_it("retry", first, status=0).out)
        self.failures()
        self.assertIn("4 recordings dismissed", self.run_it("cancel", "--failed", status=0).out)
        self.assertEqual("No recording has failed there.\n", self.run_it("cancel", "--failed", status=0).out)
        self.run_it("retry", "--failed", status=64)
        self.assertEqual([], json.loads(self.run_it("report", "--json", status=0).out)["news"])
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
        mends = {x["code"]: x["mend"] for x in json.loads(self.run_it("report", "--json", status=0).out)["news"]}
        for code, words in (("input", "bring another copy"), ("limit", "Unpack it"),
                            ("denied", "Let the user of enqueue read it"), ("io", "Look at the disk")):
            self.assertIn(words, mends[code])
            self.assertEqual(code == "denied", "Let the user" in mends[code])

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
        self.doubt(5, "2026-01-01T23:00:00.000Z", (0, "six nine.", "loop; odd words; sung"), (1, "six.", "loop"))
        why = ("The same few words come again and again. Half of its words, or more, are improbable or oddly "
               "long or short. It is doubted: 'sung'.")
        self.assertIn(f'"six nine." {why}', re.sub(r"\s+", " ", self.text()))
        self.assertIn(why, self.page()[1].text)
        o = json.loads(self.run_it("report", "--json", status=0).out)
        self.assertEqual(["loop; odd words; sung"], [doubt["reason"] for doubt in o["doubts"]])
        self.assertNotIn('"six."', self.text())  # it is in the same recording, where the worst one leads

    def test_a_doubt_is_told_once(self):
        self.two_nights()
        self.doubt(4, "2026-01-01T20:30:00.000Z", (0, "five.", "loop; odd words"))
        self.doubt(5, "2026-01-01T23:00:00.000Z", (0, "six.", "loop"))
        out = self.text()
        self.assertIn('"six."', out)
        self.assertNotIn('"five."', out)
        self.assertIn('"five."', self.text("--last", "2"))
        self.assertEqual(out, self.text())  # however often the report is read
        # Heard anew, it is told anew.
        self.change("UPDATE shard SET done_at = '2026-01-02T03:00:00.000Z' WHERE task_id = 4")
        self.assertIn('"five."', self.text())

    def test_how_much_speech_has_a_text(self):
        self.two_nights()
        self.assertNotIn("of speech", self.text())
        self.assertIsNone(json.loads(self.run_it("report", "--json", status=0).out)["speech"])
        # 99.996 %: never more than there is
        self.change("UPDATE task SET speech_ms = 45296000, missing_ms = 1700, state = 'done', "
                    "settled_at = '2026-01-01T23:00:00.000Z' WHERE task_id = 5")
        said = "99.9 % of 12 h 34 min of speech has text; 1.7 s has none (nightshift doubts --missing)"
        self.assertIn(said + " Left", re.sub(r"\s+", " ", self.text()))
        self.assertIn(said + ".", self.page()[1].text)
        self.assertEqual({"speech_ms": 45296000, "dropped_ms": 0, "missing_ms": 1700, "text_share": 0.9999},
                         json.loads(self.run_it("report", "--json", status=0).out)["speech"])
        self.change("UPDATE task SET missing_ms = 0, dropped_ms = 9000, shards_done = shards_done WHERE task_id = 5")
        self.assertIn("99.9 % of 12 h 34 min of speech has text; the text of 9.0 s was rejected Left",
                      re.sub(r"\s+", " ", self.text()))
        self.change("UPDATE task SET dropped_ms = 0, shards_done = shards_done WHERE task_id = 5")
        self.assertIn("100 % of 12 h 34 min of speech has text Left", re.sub(r"\s+", " ", self.text()))
        # What was transcribed before is status' matter.
        self.change("UPDATE task SET settled_at = '2026-01-01T20:00:00.000Z' WHERE task_id = 5")
        self.assertNotIn("of speech", self.text())
        self.assertIn("of speech", self.run_it("status", status=0).out)

    def test_what_is_wrong_is_said(self):
        self.run_it("report", "--html", os.path.join(self.dir, "none/x.html"), status=66)
        self.run_it("report", "--html", "x.html", "--json", status=64)
        self.run_it("report", "--last", "0", status=64)
        self.run_it("report", "x", status=64)


if __name__ == "__main__":
    unittest.main()
