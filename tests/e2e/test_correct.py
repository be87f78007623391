#!/usr/bin/env python3
"""What people write takes the place of what was heard, and stays."""
import json
import os
import pty
import re
import signal
import subprocess

import night

LONG, SHORT = "12_en_long_90s", "01_en_short"


class Correct(night.Night):
    def setUp(self):
        super().setUp()
        self.bring(LONG + ".mp3")
        self.bring(SHORT + ".wav")
        self.enqueue("--quality=fast", self.archive)
        self.run_to_end()

    def export(self, form, name=LONG, style="plain"):
        style = ["--style", style] if form in ("srt", "vtt") else []
        self.nightshift("export", "-q", "-f", form, "-o", "text", *style, self.archive, status=0)
        path = os.path.join(self.dir, "text", f"{name}.{form}")
        with open(path, encoding="utf-8", newline="") as file:
            return path, file.read()

    def file(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return path

    def correct(self, *args, status=0, **kw):
        answer = self.nightshift("correct", *args, status=status, **kw)
        for line in answer.out.splitlines() if "--json" not in args else []:
            self.assertLessEqual(len(line), 80, f"\n{answer}")
        return answer

    def reads(self, name=LONG):
        return [row[0] for row in self.sql("SELECT text FROM transcript WHERE path LIKE ? ORDER BY start_ms",
                                           f"%{name}%")]


class Files(Correct):
    def edited(self, form):
        """The second segment mended, the fourth rewritten, the eighth taken out."""
        _, text = self.export(form)
        for old, new in (("friday april", "Friday, the first of April"), ("she closed orange.", "She closed the oranges."),
                         ("sister tape family tape family orange tuesday.", "")):
            self.assertEqual(1, text.count(old), old)
            text = text.replace(old, new)
        return text

    def check_edited(self, before):
        after = list(before)
        after[1] = "language Friday, the first of April."
        after[3] = "She closed the oranges."
        del after[7]
        self.assertEqual(after, self.reads())

    def test_what_was_not_edited_changes_nothing(self):
        for form in ("srt", "vtt", "txt", "tsv", "json"):
            for style in ("readable", "plain"):
                path, _ = self.export(form, style=style)
                self.assertEqual("Nothing changes.\n", self.correct(LONG, path).out, (form, style))
        self.assertEqual("Nothing is corrected there.\n", self.correct("--list").out)

    def test_every_format_comes_back(self):
        before = self.reads()
        for form in ("srt", "vtt", "txt", "tsv", "json"):
            with self.subTest(form=form):
                path = self.file("edited." + form, self.edited(form))
                self.assertIn("3 segments corrected.\n", self.correct(LONG, path).out)
                self.check_edited(before)
                self.assertEqual("Nothing changes.\n", self.correct(LONG, path).out)
                # What was exported first is as good a file: all is as it was heard.
                self.correct(LONG, self.file("old." + form, self.old[form]))
                self.assertEqual(before, self.reads())

    def setUp(self):
        super().setUp()
        self.old = {form: self.export(form)[1] for form in ("srt", "vtt", "txt", "tsv", "json")}

    def test_everybody_sees_it(self):
        before = self.reads()
        path = self.file("mine.srt", self.edited("srt"))
        dry = self.correct("--dry-run", LONG, path)
        self.assertIn("- language [friday april.]", dry.out)
        self.assertIn("+ language [Friday, the first of April.]", dry.out)
        self.assertIn("+ (nothing)", dry.out)
        self.assertIn("3 segments would be corrected.", dry.out)
        self.assertEqual(before, self.reads())
        self.correct("--by", "Ana Ruiz", LONG, path)
        self.check_edited(before)
        self.assertIn("closed the [oranges]", self.nightshift("search", "oranges", status=0).out)
        self.assertNotIn("sister tape", self.nightshift("search", '"sister tape"').out)
        self.assertIn("Friday, the first of April.", self.nightshift("show", LONG, status=0).out)
        for form in ("srt", "txt"):
            text = self.export(form)[1]
            self.assertIn("She closed the oranges.", text)
            self.assertNotIn("sister tape", text)
        self.assertEqual([("Ana Ruiz", "file mine.srt")],
                         self.sql("SELECT DISTINCT made_by, source FROM correction"))
        heard = {s["text"]: s.get("heard") for s in self.json("show", LONG)["segments"]}
        self.assertEqual("she closed orange.", heard["She closed the oranges."])
        listed = json.loads(self.nightshift("correct", "--list", "--json", LONG, status=0).out)
        self.assertIn(("sister tape family tape family orange tuesday.", "", "applied"),
                      {(c["said"], c["meant"], c["state"]) for c in listed})
        self.healthy()

    def test_what_editors_make_of_it(self):
        before = self.reads()
        text = self.edited("srt")
        self.correct(LONG, self.file("win.srt", b"\xef\xbb\xbf" + text.replace("\n", "\r\n").replace(
            "She closed", "<i>She</i>\r\nclosed").encode()))
        self.check_edited(before)
        # Cues of two segments, and other times.
        self.correct(LONG, self.file("old.srt", self.old["srt"]))
        merged = re.sub(r"\n\n\d+\n00:00:0[358].*\n", "\n", text)
        self.assertEqual(text.count("-->") - 3, merged.count("-->"))
        self.correct(LONG, self.file("merged.srt", merged))
        self.check_edited(before)

    def test_a_part_of_it(self):
        before = self.reads()
        cues = self.edited("srt").split("\n\n")
        answer = self.correct(LONG, self.file("part.srt", "\n\n".join(cues[2:6])))
        self.assertIn("1 segment corrected.", answer.out)
        self.assertRegex(answer.out, r"has a part of the recording: 2 segments before and \d+ behind stay")
        before[3] = "She closed the oranges."
        self.assertEqual(before, self.reads())

    def test_files_that_are_none(self):
        before = self.reads()
        srt = self.old["srt"]
        for name, text, words in (("a.srt", srt.encode() + b"caf\xe9\n", "not UTF-8"), ("b.srt", "hello\n", "no subtitles"),
                                  ("c.json", "{}", "neither"), ("d.json", "[" * 99999, "not JSON"), ("e.txt", "", "no word"),
                                  ("f.srt", srt.encode("utf-16"), "UTF-16"), ("g.doc", srt, "formats of"),
                                  ("h.srt", srt.replace("00:00:00,420", "soon"), "line 2 of .* not a time"),
                                  ("i.txt", "The trains were late, and nobody said why.\nWe waited.\n", "of another one")):
            with self.subTest(name=name):
                answer = self.correct(LONG, self.file(name, text), status=night.DATA)
                self.one_sentence(answer, words)
        self.one_sentence(self.correct(SHORT, self.file("j.srt", srt), status=night.DATA), "of another one")
        self.one_sentence(self.correct(LONG, "/nowhere.srt", status=night.NOINPUT), "nowhere")
        self.one_sentence(self.correct("nobody", self.file("k.srt", srt), status=night.NOINPUT), "no recording")
        self.assertEqual(before, self.reads())


class Words(Correct):
    def test_replaced_everywhere_after_a_look(self):
        answer = self.correct("--replace", "tuesday", "Tuesday", status=night.USAGE)
        self.assertIn("orange [Tuesday.]", answer.out)
        self.assertIn("without --yes", answer.err)
        self.assertIn("would be corrected", self.correct("-n", "--replace", "tuesday", "Tuesday").out)
        self.assertEqual(0, self.sql("SELECT count(*) FROM correction")[0][0])
        self.assertIn("1 segment corrected.", self.correct("-y", "--replace", "tuesday", "Tuesday",
                                                           os.path.join(self.archive, SHORT + ".wav")).out)
        self.assertIn("2 segments corrected.", self.correct("-y", "--replace", "tuesday", "Tuesday", self.archive).out)
        self.assertEqual("Nothing changes.\n", self.correct("-y", "--replace", "tuesday", "Tuesday").out)
        self.assertEqual(0, sum("tuesday" in text for text in self.reads("")))
        # What was corrected is looked through as it reads now; no part of a word is meant.
        self.assertIn("\n1 segment corrected.", self.correct("-y", "--replace", "family  orange", "family Orange").out)
        self.assertIn("\n1 segment corrected.", self.correct("-y", "--replace", "Tuesday family", "Tuesday's family").out)
        self.assertIn("red Tuesday's family apple.", self.reads())
        self.assertEqual("Nothing changes.\n", self.correct("-y", "--replace", "Tues", "x").out)
        self.one_sentence(self.correct("-y", "--replace", "a", "b", "/nowhere", status=night.NOINPUT), "no recording")
        self.healthy()

    def test_a_catalog_that_cannot_be_written(self):
        """Nothing is shown as if it changed; what only shows, does."""
        before = self.reads("")
        lock = self.catalog + ".lock"
        if os.path.exists(lock):
            os.remove(lock)
        os.mkdir(lock)  # which holds root off, too
        path, _ = self.export("tsv")
        mended = self.file("mended.tsv", open(path, encoding="utf-8").read().replace("friday april", "Friday"))
        for args in (["--at", "0:11.5", LONG, "apple"], ["-y", "--replace", "tuesday", "Tuesday"], [LONG, mended]):
            answer = self.nightshift("correct", *args)
            self.one_sentence(answer, "cannot correct it")
            self.assertEqual("", answer.out)
            self.assertIn("would be corrected", self.correct("-n", *args).out)
        self.assertIn("[Tuesday", self.correct("--replace", "tuesday", "Tuesday", status=night.USAGE).out)
        os.rmdir(lock)
        self.assertEqual(before, self.reads(""))

    def test_asked_on_a_terminal(self):
        for typed, said, left in (("n", "would be corrected", 2), ("y", "corrected", 0)):
            ours, theirs = pty.openpty()
            process = subprocess.Popen([night.PROGRAM, "correct", "--replace", "tuesday", "Tuesday",
                                        os.path.join(self.archive, LONG + ".mp3")],
                                       stdin=theirs, stdout=theirs, stderr=theirs, env=self.env())
            os.close(theirs)
            shown = b""
            while b"[y/N]" not in shown:
                shown += os.read(ours, 4096)
            os.write(ours, typed.encode() + b"\n")
            try:
                while True:
                    shown += os.read(ours, 4096)
            except OSError: # the other end is closed
                pass
            os.close(ours)
            self.assertEqual(0, process.wait(), shown)
            self.assertIn(said, shown.decode())
            self.assertEqual(left, sum("tuesday" in text for text in self.reads()))

    def test_one_segment(self):
        self.assertIn("+ red [Tuesday,] family [apple!]", self.correct("--at", "0:11.5", LONG, " red\tTuesday,  family apple!").out)
        self.assertEqual("red Tuesday, family apple!", self.reads()[4])
        self.assertIn("It is confirmed as it is", self.correct("--at", "0:05.680", "--as-heard", LONG).out)
        self.correct("--at", "13.12", LONG, "")
        self.assertEqual("telephone film december.", self.reads()[5])
        self.correct("--at", "13.12", LONG, "water is made.")
        self.assertEqual("water is made.", self.reads()[5])
        self.assertEqual("Nothing changes.\n", self.correct("--at", "13.12", LONG, "water is made.").out)
        listed = self.correct("--list", LONG).out
        for words in ("red [tuesday] family", "at 0:10.980", "= name big today sixty hundred.", "confirmed: "):
            self.assertIn(words, listed)
        self.assertEqual(listed, self.correct("--list", self.archive).out)
        self.assertEqual("Nothing is corrected there.\n", self.correct("--list", SHORT).out)
        self.one_sentence(self.correct("--at", "5.1", LONG, "x", status=night.DATA), "nothing is said at 0:05.100: try 0:05.680")
        for args in (("--at", "soon", LONG, "x"), ("--at", "5", LONG), ("--as-heard", LONG), (LONG,), ("--list", "--conflicts"),
                     ("--keep", "0"), ("--keep", "1", LONG), ("--replace", " ", "x"), ("--replace", "x"), ("--by", "a\nb", "--list"),
                     ("--at", "5", "--as-heard", LONG, "x"), ("--undo", "1", "--dry-run")):
            self.correct(*args, status=night.USAGE)


class Guarded(Correct):
    """What a page saves: single passages, each with what it read."""

    def edits(self, *edits):
        rows = self.sql("SELECT start_ms, end_ms, text FROM transcript WHERE path LIKE ? ORDER BY start_ms", f"%{LONG}%")
        return [{"start_ms": rows[i][0], "end_ms": rows[i][1], "was": f" {rows[i][2]}\n", "text": text} for i, text in edits]

    def number(self):
        return self.sql("SELECT media_id FROM recordings WHERE path LIKE ?", f"%{LONG}%")[0][0]

    def saved(self, segments, number=None):
        return self.file("page.corrected.json", json.dumps({"recording": number or self.number(), "segments": segments}))

    def test_what_others_changed_meanwhile_stays(self):
        meant = list(self.reads())
        path = self.saved(self.edits((1, "S1: language Friday."), (3, "She closed the oranges."), (7, "")))
        self.correct("--at", "0:08.7", LONG, "Somebody else's words.")  # in the file
        self.correct("--at", "13.12", LONG, "Water is made.")  # not in it
        meant[1], meant[3], meant[5] = "S1: language Friday.", "Somebody else's words.", "Water is made."
        del meant[7]
        before = self.reads()
        for dry in (True, False):
            answer = self.correct(*["--dry-run"] * dry, LONG, path, status=night.DATA)
            self.assertIn("2 segments " + ("would be " if dry else "") + "corrected.", answer.out)
            self.assertIn("- [Somebody else's words.]", answer.out)
            self.assertIn("+ [She closed the oranges.]", answer.out)
            self.assertIn("1 passage has changed since", answer.err)
            self.assertEqual(before if dry else meant, self.reads())
        again = json.loads(self.correct("--json", LONG, path, status=night.DATA).out)
        self.assertEqual(([], ["Somebody else's words."]), (again["changes"], [c["reads"] for c in again["refused"]]))
        self.assertIn("1 passage has changed", self.correct("-q", LONG, path, status=night.DATA).err)
        self.assertEqual(meant, self.reads())

    def test_files_that_are_none(self):
        before = self.reads()
        edit, = self.edits((1, "x"))
        mine = self.number()
        self.one_sentence(self.correct(LONG, self.saved([edit], mine + 1), status=night.DATA),
                          f"has corrections of recording {mine + 1}, not of {mine}")
        for segments, why in (([edit, {**edit, "was": 7}], "is not text"), ([edit, {"text": "y"}], "has no times"),
                              ([{"was": edit["was"], "text": "x"}], "has no times"), ([{**edit, "text": "x" * 20000}], "16 KiB.*: try a shorter text")):
            self.one_sentence(self.correct(LONG, self.saved(segments), status=night.DATA), why)
        # Of another recording, or of another transcription: there is no such passage.
        answer = self.correct(LONG, self.saved([{**edit, "start_ms": 1}]), status=night.DATA)
        self.assertIn("- (nothing)", answer.out)
        self.assertEqual(before, self.reads())


class Kept(Correct):
    def states(self):
        return {said: (number, state) for number, said, state in
                self.sql("SELECT correction_id, said, state FROM correction ORDER BY correction_id")}

    def test_another_transcription_and_what_is_to_be_decided(self):
        self.correct("--at", "3.1", LONG, "language Friday april.")
        self.correct("--at", "8.7", LONG, "she closed the orange.")
        self.correct("--at", "10.98", LONG, "red tuesday family Apple.")
        self.enqueue("--again", "--quality=fast", "--word-timestamps", self.archive)
        self.run_to_end()
        self.assertEqual({"applied"}, {state for _, state in self.states().values()})
        for text in ("language Friday april.", "she closed the orange.", "red tuesday family Apple."):
            self.assertIn(text, self.reads())
        self.assertEqual("There are no conflicts.\n", self.correct("--conflicts").out)
        # Heard as another language it is not the same any more.
        self.enqueue("--again", "--quality=fast", "--language", "es", self.archive)
        self.run_to_end()
        self.assertIn("language Friday april.", self.reads())
        states = self.states()
        conflicts = {said: number for said, (number, state) in states.items() if state == "conflict"}
        self.assertEqual(2, len(conflicts), states)
        shown = self.correct("--conflicts", LONG).out
        listed = json.loads(self.nightshift("correct", "--conflicts", "--json", status=0).out)
        self.assertEqual(set(conflicts.values()), {c["correction"] for c in listed})
        for c in listed:
            self.assertIn(f"--keep {c['correction']}`", shown)
            self.assertTrue(c["heard_now"])
            self.assertIn("now " + c["heard_now"], shown)
        keep, undo = sorted(conflicts.values())
        self.assertEqual(f"Correction {keep} holds.\n", self.correct("--keep", str(keep)).out)
        self.assertEqual(f"Correction {undo} is undone.\n", self.correct("--undo", str(undo)).out)
        self.assertEqual("There are no conflicts.\n", self.correct("--conflicts").out)
        self.assertEqual([(keep, "agreed"), (undo, "undone")], self.sql(
            "SELECT correction_id, state FROM correction WHERE correction_id IN (?, ?) ORDER BY correction_id", keep, undo))
        meant = next(c["meant"] for c in listed if c["correction"] == keep)
        self.assertTrue(any(meant in text for text in self.reads()), meant)
        self.one_sentence(self.correct("--undo", "999", status=night.DATA), "--list")
        self.healthy()

    def test_while_a_run_is_on(self):
        path, text = self.export("srt")
        run = self.start_run("--watch")
        self.wait_for("the run listens", lambda: os.path.exists(self.catalog + ".sock"), run)
        answer = self.nightshift("correct", "--json", LONG, self.file("a.srt", text.replace("she closed", "She closed")), status=0)
        self.assertIn('"through_run": true', answer.out)
        self.assertEqual(1, json.loads(answer.out)["corrected"])
        self.assertIn("She closed orange.", self.reads())
        self.assertIn("1 segment corrected.", self.correct("-y", "--replace", "family apple", "Family Apple").out)
        self.correct("--undo", "1")
        self.assertIn("she closed orange.", self.reads())
        run.signal(signal.SIGTERM)
        self.assertEqual(0, run.wait(), run.said())
        self.healthy()


if __name__ == "__main__":
    night.main()
