#!/usr/bin/env python3
"""What the archive knows of itself: tags of containers, lists beside the files, hours by year."""
import json
import os
import signal
import subprocess

import media_kit
import night

BY_YEAR = ("SELECT substr(recorded_on, 1, 4), language, count(*), sum(duration_ms) > 0 FROM recordings "
           "WHERE recorded_on IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2")


class Describe(night.Night):
    def list(self, text, name="archive/list.csv"):
        path = os.path.join(self.dir, name)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return path

    def tape(self, name, silence):
        frames = media_kit.wav_frames(os.path.join(night.SAMPLES, "01_en_short.wav"))
        path = os.path.join(self.archive, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        media_kit.wav(path, bytes(3200 * silence) + frames)
        return path

    def told(self):
        return dict(self.sql("SELECT coalesce(nullif(member, ''), replace(path, ?, '')), "
                             "recorded_on || ' ' || recorded_from FROM recordings",
                             self.archive + "/"))


class Lists(Describe):
    def setUp(self):
        super().setUp()
        for i, name in enumerate(("1990/a.wav", "1990/b.wav", "1991/a.wav", "c d.wav")):
            self.tape(name, i)
        packed = self.tape("in.wav", 7)
        subprocess.run(["tar", "cf", "box.tar", "in.wav"], cwd=self.archive, check=True)
        os.remove(packed)
        self.enqueue()

    def test_a_list_describes_what_it_names(self):
        path = self.list('\ufefffile;Date;Title;person;person\r\n'
                         f'{self.archive}/1990/a.wav;1990-05-17;"El ""puerto""";Ana;Eva\r\n'
                         '1990/./b.wav;1990;"two\r\nlines";;\r\n'
                         '../archive/1991/a.wav;20030517\r\n'
                         'c d.wav;nobody knows;x\r\n'
                         '\r\n'
                         'box.tar//in.wav;2001-02-29;\r\n'
                         'a.wav;1999;y\r\n'
                         'box.tar;1999;y\r\n'
                         'no.wav;1999;y\r\n'
                         'b.wav;1990;two;;;more\r\n')
        dry = self.nightshift("describe", "--dry-run", path, status=66)
        self.assertIn("5 of 9 lines would describe 5 recordings.\n4 lines were left out.\n", dry.out)
        self.assertEqual([], self.sql("SELECT * FROM tag"))
        answer = self.nightshift("describe", path, status=66)
        self.assertEqual("5 of 9 lines described 5 recordings.\n4 lines were left out.\n", answer.out)
        for line, words in ((6, "'nobody knows' is not a date"), (8, "'2001-02-29' is not a date"),
                            (9, "'a.wav' is the name of several"), (10, "archive/box.tar' is an archive"),
                            (11, "'no.wav' is not in the catalog"), (12, "6 columns, and the first line 5")):
            self.assertRegex(answer.err, f"(?m)^nightshift: line {line}: .*{words}")
        self.assertEqual({"1990/a.wav": "1990-05-17 csv:Date", "1990/b.wav": "1990 csv:Date",
                          "1991/a.wav": "2003-05-17 csv:Date", "c d.wav": None, "in.wav": None},
                         self.told())
        self.assertEqual([('El "puerto"',)], self.sql(
            "SELECT title FROM recordings WHERE path LIKE '%1990/a.wav'"))
        self.assertEqual([("Ana",), ("Eva",)], self.sql(
            "SELECT value FROM tags WHERE key = 'PERSON' ORDER BY seq"))
        self.assertEqual([("two\nlines",)], self.sql("SELECT value FROM tags WHERE path LIKE '%b.wav' "
                                                     "AND key = 'title'"))
        again = self.json_of("describe", path)
        self.assertEqual((9, 5, 4, False), tuple(again[k] for k in ("lines", "described", "left_out", "dry_run")))
        self.assertEqual([6, 8, 9, 10, 11, 12], [note["line"] for note in again["notes"]])

    def json_of(self, *args):
        return json.loads(self.nightshift(*args, "--json").out)

    def test_recordings_by_their_bare_names(self):
        """Each line is looked for by its path first; what came of that must not stay."""
        said = self.nightshift("describe", self.list("filename,title,date\nb.wav,First,2001\nbox.tar//in.wav,In,\n"), status=0)
        self.assertIn("2 of 2 lines described 2 recordings.", said.out)
        self.nightshift("describe", self.list("filename,recorded on\nb.wav,1999\n"), status=0)
        self.assertEqual([("First", "1999")], self.sql(
            "SELECT title, recorded_on FROM recordings WHERE path LIKE '%1990/b.wav'"))

    def test_a_later_list_takes_its_columns_place(self):
        number = self.sql("SELECT media_id FROM place WHERE path LIKE '%1990/a.wav'")[0][0]
        self.nightshift("describe", self.list("path,date,title,box\n1990/a.wav,1990,Harbour,7\n"), status=0)
        self.nightshift("describe", "-q", self.list(f"number\tbox\n{number}\t8\n"), status=0)
        self.assertEqual([("box", "8"), ("date", "1990"), ("title", "Harbour")],
                         self.sql("SELECT key, value FROM tags ORDER BY key"))
        self.nightshift("describe", self.list(f"media_id,path,date,title\n{number},anything,,\n"), status=0)
        self.assertEqual([("box", "8")], self.sql("SELECT key, value FROM tags"))
        self.assertEqual([(None, "")], self.sql(
            "SELECT recorded_on, title FROM recordings WHERE media_id = ?", number))
        # With a column that names the file, a number is one of the archive's own.
        self.nightshift("describe", self.list("path,number\n1990/a.wav,RN-42\n"), status=0)
        self.assertEqual([("RN-42",)], self.sql("SELECT value FROM tags WHERE key = 'number'"))

    def test_lines_are_no_recordings(self):
        """Several lines may speak of one, by other names."""
        path = self.list("file,box\n1990/a.wav,1\n1990/b.wav,2\n./1990/a.wav,3\nno.wav,4\n")
        for options, verb in ((["--dry-run"], "would describe"), ([], "described")):
            self.assertIn(f"3 of 4 lines {verb} 2 recordings.\n1 line was left out.\n",
                          self.nightshift("describe", *options, path, status=66).out)
            answer = self.json_of("describe", *options, path)
            self.assertEqual((4, 2, 1), (answer["lines"], answer["described"], answer["left_out"]))

    def test_lists_that_are_none(self):
        for text, words in ((b"", "is empty"), (b"\n\n", "is empty"), (b"a,b\n1,2\n", "names no column path"),
                            (b"path,date,Path\na.wav,1990,b.wav\n", "columns 1 and 3 are both called 'path'"),
                            (b"File Name;x;file_name\na.wav;1;b.wav\n", "columns 1 and 3 are both called 'file name'"),
                            (b"media_id,x,media_id\n1,2,3\n", "both called 'media_id'"),
                            (b"recording,x,recording\n1,2,3\n", "both called 'recording'"),
                            (b"path,member,x,member\na,b,c,d\n", "both called 'member'"),
                            (b"path\na.wav\n", "no column beside"), (b"path,x\na,\xff\n", "line 2 is not UTF-8"),
                            (b"\xff\xfep\0", "UTF-16"), (b"path,x\n1990/a.wav,1\n\"b,2\n", "line 3 begins a quote"),
                            (b"path,x\n\0\n", "not text"), (b"path," + b"x" * 200, "more than 128 bytes")):
            with self.subTest(text=text[:30]):
                answer = self.nightshift("describe", self.list(text))
                self.one_sentence(answer, words)
                self.assertEqual(night.DATA, answer.status)
        self.one_sentence(self.nightshift("describe", "/nowhere.csv", status=night.NOINPUT), "nowhere")
        self.one_sentence(self.nightshift("describe", self.dir, status=night.DATA), "is a folder")
        self.nightshift("describe", status=night.USAGE)
        self.assertEqual([], self.sql("SELECT * FROM tag"))

    def test_many_faulty_lines(self):
        path = self.list("path,x\n" + "nobody.wav,1\n" * 500 + "1990/a.wav," + "x" * 8193 + "\n")
        answer = self.nightshift("describe", path, status=66)
        self.assertEqual(21, len(answer.sentences))
        self.assertIn("and 481 more", answer.err)
        self.assertIn("0 of 501 lines described 0 recordings.", answer.out)

    def test_while_a_run_is_on(self):
        run = self.start_run("--watch")
        self.wait_for("the run listens", lambda: os.path.exists(self.catalog + ".sock"), run)
        answer = self.nightshift("describe", "--json", self.list("path,date\n1990/a.wav,1990\n1990/b.wav,1990\n"),
                                 status=0)
        self.assertIn('"through_run": true', answer.out)
        self.wait_for("all are done", lambda: not self.sql("SELECT 1 FROM task WHERE state <> 'done'"), run)
        run.signal(signal.SIGTERM)
        self.assertEqual(0, run.wait(), run.said())
        self.assertEqual([("1990", "en", 2, 1)], self.sql(BY_YEAR))
        self.healthy()


@night.needs("ffmpeg")
class Containers(Describe):
    def test_tags_come_with_the_decoding(self):
        source = os.path.join(night.SAMPLES, "01_en_short.wav")
        tags = ["-metadata", "title=El puerto", "-metadata", "artist=Radio Norte"]
        chapters = self.list(";FFMETADATA1\ntitle=El puerto\nartist=Radio Norte\n[CHAPTER]\nTIMEBASE=1/1000\n"
                             "START=0\nEND=900\ntitle=Saludo\n", "chapters.txt")
        for i, (name, date) in enumerate((("t.mp3", "2003-05-17"), ("t.flac", "2004"), ("t.ogg", "2005-06"))):
            media_kit.ffmpeg("-i", source, "-af", f"adelay={100 * i}", *tags, "-metadata", f"date={date}",
                             os.path.join(self.archive, name))
        media_kit.ffmpeg("-i", source, "-i", chapters, "-map_metadata", "1", "-map_chapters", "1", "-metadata",
                         "creation_time=2006-07-08T09:10:11Z", os.path.join(self.archive, "t.m4a"))
        media_kit.ffmpeg("-i", source, "-metadata", "origination_date=1987-05-17", "-metadata", "date=2007",
                         "-metadata", "originator=RN", "-write_bext", "1", os.path.join(self.archive, "t.wav"))
        self.enqueue()
        self.run_to_end()
        told = self.told()
        self.assertEqual("2003-05-17 container:date", told["t.mp3"])
        self.assertRegex(told["t.flac"].lower(), "2004 (container|stream):date")
        self.assertRegex(told["t.ogg"].lower(), "2005-06 (container|stream):date")
        self.assertEqual("2006-07-08 container:creation_time", told["t.m4a"])
        self.assertEqual("1987-05-17 bext:origination_date", told["t.wav"])
        self.assertEqual(4, self.sql("SELECT count(*) FROM recordings WHERE title = 'El puerto'")[0][0])
        self.assertEqual([("1987", "en", 1, 1), ("2003", "en", 1, 1), ("2004", "en", 1, 1), ("2005", "en", 1, 1),
                          ("2006", "en", 1, 1)], self.sql(BY_YEAR))
        self.nightshift("describe", self.list("file,recorded\nt.mp3,1999\n"), status=0)
        self.assertEqual("1999 csv:recorded", self.told()["t.mp3"])
        page = self.nightshift("show", "t.m4a", status=0).out
        self.assertIn("\nEl puerto\n", page)
        self.assertIn("\nRecorded 2006-07-08 (container:creation_time)\n", page)
        self.assertRegex(page, r"(?m)^Tags: .*artist: Radio Norte")
        self.assertRegex(page, r"(?m)^Chapters: 0:00 Saludo")
        for line in page.splitlines():
            self.assertLessEqual(len(line), 80)
        data = self.json("show", "t.m4a")
        self.assertEqual("2006-07-08", data["recorded_on"])
        self.assertEqual([{"start_ms": 0, "end_ms": 900, "title": "Saludo"}], data["chapters"])
        self.assertIn({"key": "artist", "value": "Radio Norte", "source": "container"}, data["tags"])


if __name__ == "__main__":
    night.main()
