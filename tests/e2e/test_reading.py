#!/usr/bin/env python3
"""Reading the demo's results: the README's queries, status, show, search, export."""
import glob
import json
import os
import re
import shutil
import sqlite3
import unicodedata
import zipfile

import night


# Formats of export with a place for a note on what the text is, and those without.
NOTED, SILENT = ("vtt", "ohms", "json"), ("txt", "srt", "tsv", "csv", "whisper-json", "eaf", "textgrid", "ebutt", "iiif")


def fenced(path, language):
    """The code blocks of that language in a Markdown file."""
    with open(os.path.join(night.SOURCE, path), encoding="utf-8") as file:
        return re.findall(rf"^```{language}\n(.*?)^```", file.read(), re.S | re.M)


def pages(*below):
    """The README, and the documents in these folders below docs/ (all of them)."""
    found = [os.path.relpath(name, night.SOURCE) for folder in below or ("**",)
             for name in glob.glob(os.path.join(night.SOURCE, "docs", folder, "*.md"), recursive=True)]
    return ["README.md", *sorted(set(found))]


def commands(path):
    """What is typed in a page: the lines of its shell blocks, and those behind a "$" where the output is beside them."""
    typed = [line for block in fenced(path, "sh") for line in block.splitlines()]
    return typed + [line[2:] for block in fenced(path, "console") for line in block.splitlines() if line.startswith("$ ")]


def width(line):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF"
               else 1 for c in line)


class Reading(night.Night):
    """One night for all cases of this class: they only read."""

    @classmethod
    def setUpClass(cls):
        cls.kept = None

    def setUp(self):
        if self.kept is None:
            super().setUp()
            self._cleanups.clear()
            type(self).addClassCleanup(self.clean)
            shutil.rmtree(self.archive)
            shutil.copytree(night.DEMO, self.archive)
            self.enqueue()
            self.run_to_end()
            type(self).kept = self.__dict__
        else:
            for name in ("dir", "archive", "catalog", "running"):
                setattr(self, name, self.kept[name])

    def fits(self, text, columns=80):
        for line in text.splitlines():
            self.assertLessEqual(width(line), columns, f"too wide:\n{line}")

    def test_queries_of_the_readme_and_the_first_night(self):
        blocks = [block for page in pages("start") for block in fenced(page, "sql")]
        self.assertGreaterEqual(len(blocks), 5)
        for block in blocks:
            with self.subTest(block=block):
                self.assertTrue(self.shell(block, "-readonly").strip(), "it finds nothing")

    def test_commands_of_the_documents_exist(self):
        known, texts, found = self.nightshift("--help", status=0).out, {}, 0
        for page in pages():
            for line in commands(page):
                match = re.match(r"nightshift (\w+)(.*)", line.split("#")[0])
                if not match or match.group(1) == "help":
                    continue
                name, found = match.group(1), found + 1
                self.assertIn(name, known, f"{page}: {line}")
                if name not in texts:
                    texts[name] = self.nightshift(name, "--help", status=0).out
                for option in re.findall(r"(--[a-z-]+)", match.group(2).split("2>>")[0]):
                    self.assertIn(option, texts[name], f"{page}: {line}")
        self.assertGreater(found, 100)

    def test_help_fits_a_terminal(self):
        text = self.nightshift("--help", status=0).out
        self.fits(text)
        for command in re.findall(r"^  (\w+)", text.split("\n\n")[1], re.M):
            if command in ("version", "pause"):
                continue
            with self.subTest(command=command):
                self.fits(self.nightshift(command, "--help", status=0).out)

    def test_status(self):
        out = self.nightshift("status", status=0).out
        self.fits(out)
        self.assertIn("failed", out)
        state = self.json("status")
        self.assertIsInstance(state, dict)
        self.assertIn("field-notes.mp3", self.nightshift("status", "--failures", status=0).out)

    def test_what_failed_has_no_turns(self):
        said = self.nightshift("export", "-f", "rttm", "-o", os.path.join(self.dir, "rttm"), status=0).out
        figures = self.json("status")["archive"]
        self.assertIn(f"\n{figures['failed']} failed and have no transcript", said)
        self.assertIn(f"\n{figures['done']} recordings have no speakers, and no rttm", said)

    def test_show(self):
        out = self.nightshift("show", "puente.flac", status=0).out
        self.fits(out)
        self.assertIn("tres mil cero", out)
        self.assertIn("tres mil cero", json.dumps(self.json("show", "puente.flac")))
        path = os.path.join(self.archive, "spanish/puente.flac")
        self.assertIn("tres mil cero", self.nightshift("show", path, status=0).out)
        self.assertIn("seasons.flac", self.nightshift("show", "seasons.flac", status=0).out)
        failed = self.nightshift("show", "field-notes.mp3")
        self.assertRegex(failed.out + failed.err, "(?i)failed|no (sound|audio|recording)|not a")
        none = self.nightshift("show", "no-such-recording.wav")
        self.assertEqual(night.NOINPUT, none.status, f"\n{none}")

    def test_search(self):
        out = self.nightshift("search", "library", status=0).out
        self.fits(out)
        self.assertIn("seasons.flac", out)
        self.assertIn("miércoles", self.nightshift("search", "MIERCOLES", status=0).out)
        self.assertIn("two-voices.opus", self.nightshift("search", '"recorded today"', status=0).out)
        self.assertTrue(self.json("search", "library"))
        self.assertEqual(self.json("search", "--by-time", "library OR zeppelin"), self.json("search", "--by-time", "library"))
        self.assertEqual([], self.json("search", "library NOT lib*"))
        mistake = self.nightshift("search", "library OR", status=64)
        self.assertEqual("  library OR\n          ^\n", mistake.err[-25:])
        nothing = self.nightshift("search", "zeppelin")
        self.assertLess(nothing.status, 64, f"finding nothing is no error\n{nothing}")
        for hostile in ('"', "a OR", "NEAR(", "-x", "*", "text:a", "a' OR 1=1 --", "(((", "\\"):
            with self.subTest(hostile=hostile):
                answer = self.nightshift("search", "--", hostile)
                self.assertNotIn("syntax", answer.err)
                self.assertLess(answer.status, 65, f"\n{answer}")

    def test_export(self):
        times = {"srt": r"\d\d:\d\d:\d\d,\d\d\d --> \d\d:\d\d:\d\d,\d\d\d",
                 "vtt": r"\AWEBVTT", "tsv": r"\d+\t\d+\ttres mil cero",
                 "txt": r"tres mil cero", "json": r"tres mil cero"}
        for kind, pattern in times.items():
            with self.subTest(format=kind):
                out = os.path.join(self.dir, "out-" + kind)
                self.nightshift("export", "--format", kind, "--output", out, status=0)
                files = {os.path.relpath(os.path.join(where, name), out): os.path.join(where, name)
                         for where, _, names in os.walk(out) for name in names}
                found = [path for path in files if "puente" in path]
                self.assertEqual(1, len(found), sorted(files))
                with open(files[found[0]], encoding="utf-8") as file:
                    text = file.read()
                self.assertRegex(text, pattern)
                self.assertIn("tres mil cero", text)
                self.assertTrue(any("seasons" in path for path in files), sorted(files))
                self.assertTrue(all(path.endswith("." + kind) for path in files), sorted(files))
                self.assertFalse(any("field-notes" in path for path in files), sorted(files))
                if kind == "json":
                    json.loads(text)

    def marked(self, catalog):
        """What is said of the model by each way to read a recording, and on standard error beside files that cannot."""
        out = os.path.join(catalog + ".out")
        asked = {"page": ["show", "puente.flac"], "status": ["status"], "report": ["report"], "status json": ["status", "--json"],
                 "report json": ["report", "--json"], "report html": ["report", "--html=-"]}
        asked.update({kind: ["show", "puente.flac", "-f", kind] for kind in NOTED + SILENT})
        asked["export"] = ["export", "-f", "html", "-f", "docx", "-f", "srt", "-o", out]
        said = {how: self.nightshift(*words, status=0, env={"NIGHTSHIFT_CATALOG": catalog}) for how, words in asked.items()}
        docx, = [os.path.join(where, name) for where, _, names in os.walk(out) for name in names if name == "puente.docx"]
        with zipfile.ZipFile(docx) as file:
            document = file.read("word/document.xml").decode()
        pages = []
        for name in os.listdir(os.path.join(out, "recordings")):
            with open(os.path.join(out, "recordings", name), encoding="utf-8") as file:
                pages.append(file.read())
        return said, document, [page for page in pages if "puente.flac" in page]

    def test_what_the_demo_made_is_marked(self):
        mark = "the model of the demo: not to be trusted"
        said, document, pages = self.marked(self.catalog)
        for how, answer in said.items():
            with self.subTest(how=how):
                if how == "status json":
                    self.assertEqual([True], [stage["demo"] for stage in json.loads(answer.out)["stages"]])
                else:
                    self.assertEqual(how not in SILENT + ("export",), mark in " ".join(answer.out.split()), answer)
                self.assertEqual(how in SILENT + ("export",), mark in answer.err, answer)
        self.assertIn("Made with whisper-nano, " + mark, document)
        self.assertEqual([1], [page.count(mark) for page in pages])
        # Nothing of it where another model made them.
        other = os.path.join(self.dir, "other.db")
        connection = sqlite3.connect(self.catalog)
        connection.execute("VACUUM INTO ?", (other,))
        connection.close()
        connection = sqlite3.connect(other)
        connection.execute("UPDATE stage SET model = 'openai/whisper-small', model_hash = ?", ("0" * 32,))
        connection.commit()
        connection.close()
        said, document, pages = self.marked(other)
        for how, answer in said.items():
            self.assertNotIn("demo: ", answer.out + answer.err, how)
        self.assertNotIn("demo: ", document + "".join(pages))

    def test_doctor_and_model(self):
        answer = self.nightshift("doctor")
        self.fits(answer.out)
        self.assertIn("SQLite", answer.out)
        self.assertIn("whisper-nano", self.nightshift("model", "list", status=0).out)
        self.assertIn("whisper-nano", self.nightshift("model", "path", "whisper-nano",
                                                      status=0).out)

    def test_wrong_command_lines(self):
        for command in ([], ["frobnicate"], ["status", "--frobnicate"], ["enqueue"],
                        ["run", "--shard", "-5"], ["export", "--format", "dock"]):
            with self.subTest(command=command):
                answer = self.nightshift(*command)
                self.assertEqual(night.USAGE, answer.status, f"\n{answer}")
                self.assertTrue(answer.err.strip())


if __name__ == "__main__":
    night.main()
