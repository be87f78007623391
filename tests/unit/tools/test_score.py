#!/usr/bin/env python3
"""nightshift score: the formats it takes, folders, the catalog, and one sentence for each mistake."""
import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["NIGHTSHIFT"]
SOURCE = os.environ["NIGHTSHIFT_SOURCE_DIR"]
TEXT = {
    "a.txt": "\ufeffThe farmer doesn't pay twenty one dollars.\n",
    "a.srt": "1\r\n00:00:00,000 --> 00:00:01,500\r\n<i>The farmer</i> does not\r\n\r\n"
             "2\r\n00:00:01,500 --> 00:00:03,000\r\npay $21.\r\n",
    "a.vtt": "WEBVTT - a title\n\nNOTE nothing of this\nis said\n\nSTYLE\n::cue { color: red }\n\nfirst\n"
             "00:00.000 --> 00:01.500 align:start\n<v Ann>The farmer doesn&#39;t".replace("&#39;", "'")
             + "\n\n00:01.500 --> 00:03.000\npay&nbsp;$21 &lt;3\n",
    "a.tsv": "start\tend\ttext\n0\t1500\tThe farmer doesn't\n1500\t3000\tpay $21.\n",
    "a.json": json.dumps({"text": "not this", "language": "en", "segments": [
        {"start": 0, "text": " The farmer doesn't"}, {"start": 1.5, "text": " pay twenty-one dollars."}]}),
    "b.json": json.dumps({"text": "The farmer doesn't pay $21.", "language": "english"}),
}


class Score(unittest.TestCase):
    def setUp(self):
        self.dir = os.path.realpath(tempfile.mkdtemp(dir="."))
        self.addCleanup(shutil.rmtree, self.dir, True)

    def put(self, name, data):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        return path

    def score(self, *args, status=0):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HF_", "NIGHTSHIFT_"))}
        env.update(HOME=self.dir, NIGHTSHIFT_CATALOG=os.path.join(self.dir, "c.db"))
        done = subprocess.run([PROGRAM, "score", *args], capture_output=True, env=env, cwd=self.dir,
                              stdin=subprocess.DEVNULL, timeout=120, check=False)
        done.out, done.err = done.stdout.decode(), done.stderr.decode()
        self.assertEqual(status, done.returncode, done.out + done.err)
        return done

    def rates(self, *args, status=0):
        return json.loads(self.score("--json", *args, status=status).out)

    def test_every_format_is_the_same_text(self):
        reference = self.put("ref/a.txt", TEXT["a.txt"])
        for name, text in TEXT.items():
            hypothesis = self.put("hyp/" + name, text)
            words = self.rates("-l", "en", reference, hypothesis)["words"]
            extra = 1 if name == "a.vtt" else 0  # "<3" was escaped, and is part of its text
            self.assertEqual((6, 6 + extra, extra), (words["reference"], words["hypothesis"], words["errors"]), name)

    def test_counts_and_rates(self):
        reference = self.put("r.txt", "one two three four")
        hypothesis = self.put("h.txt", "one too four five six")
        found = self.rates("-n", "none", "--cer", reference, hypothesis)
        self.assertEqual({"reference": 4, "hypothesis": 5, "errors": 4, "substitutions": 1, "deletions": 1,
                          "insertions": 2, "rate": 1.0}, found["words"])
        self.assertEqual(18, found["characters"]["reference"])
        self.assertEqual("none", found["pairs"][0]["normalizer"])

    def test_the_language_chooses_the_rules(self):
        reference = self.put("r.txt", "Twenty-one colours")
        for text, args, rules, errors in ((TEXT["b.json"], [], "english", None), ("21 colours", [], "basic", 2),
                                          ("21 colours", ["-l", "en"], "english", 0),
                                          ("21 colours", ["-l", "English"], "english", 0),
                                          ("21 colours", ["-l", "de"], "basic", 2)):
            hypothesis = self.put("h.json" if text[0] == "{" else "h.txt", text)
            found = self.rates(*args, reference, hypothesis)
            self.assertEqual(rules, found["pairs"][0]["normalizer"])
            if errors is not None:
                self.assertEqual(errors, found["words"]["errors"], args)
        self.assertIn("--language en", self.score(reference, self.put("h.txt", "x")).out)
        for name, language in (("1", "en"), ("2", "es")):
            self.put(f"ref/{name}.txt", "uno")
            self.put(f"hyp/{name}.json", json.dumps({"text": "uno", "language": language}))
        said = self.score("ref", "hyp").out
        self.assertRegex(said, r"(?m)^1 \(en\) +1 (.|\n)*^2 \(es\) +1 ")
        self.assertNotIn("(en)", self.score("-l", "en", "ref", "hyp").out)
        said = " ".join(said.split())
        self.assertEqual(1, said.count("Normalised"), said)
        self.assertIn("Normalised by Whisper's English rules, what is not English by its basic ones; British and "
                      "American spellings were not unified: `nightshift model pull` fetches a table", said)

    def turns(self, name, *turns):
        return self.put(name, "".join(f"SPEAKER {file} 1 {start} {length} <NA> <NA> {speaker} <NA> <NA>\n"
                                      for file, start, length, speaker in turns))

    def test_who_speaks_when(self):
        reference = self.turns("r.rttm", ("a", 0, 10, "ann"), ("a", 10, 10, "bob"), ("b", 0, 4, "ann"))
        hypothesis = self.turns("h.rttm", ("a", 0, 12, "1"), ("a", 12, 6, "0"), ("c", 0, 9, "1"))
        found = self.score("--der", "--json", reference, hypothesis)
        result = json.loads(found.out)
        first, second = result["files"]
        self.assertEqual({"name": "a", "heard": True, "total": 20.0, "correct": 16.0, "missed": 2.0,
                          "false_alarm": 0.0, "confusion": 2.0, "rate": 0.2}, first)
        self.assertEqual(("b", False, 4.0, 1.0), (second["name"], second["heard"], second["missed"], second["rate"]))
        self.assertAlmostEqual(8 / 24, result["all"]["rate"])
        self.assertIn("b: the hypothesis has nobody there", found.err)
        self.assertIn("c: not in the reference", found.err)
        shown = self.score("--der", reference, hypothesis).out
        self.assertIn("33.33 %", shown)
        result = json.loads(self.score("--der", "--json", "--collar=2", reference, hypothesis).out)
        self.assertEqual((16.0, 1.0, 1.0), tuple(result["files"][0][k] for k in ("total", "missed", "confusion")))

    def test_one_recording_under_two_names_and_overlaps(self):
        reference = self.turns("r.rttm", ("a", 0, 10, "x"), ("a", 5, 10, "y"))
        hypothesis = self.turns("h.rttm", ("b", 0, 15, "z"))
        first = json.loads(self.score("--der", "--json", reference, hypothesis).out)["all"]
        self.assertEqual((20.0, 5.0, 5.0), (first["total"], first["missed"], first["confusion"]))
        alone = json.loads(self.score("--der", "--json", "--skip-overlap", reference, hypothesis).out)["all"]
        self.assertEqual((10.0, 0.0, 5.0), (alone["total"], alone["missed"], alone["confusion"]))

    def test_turns_that_cannot_be_scored(self):
        good = self.turns("g.rttm", ("a", 0, 10, "x"))
        bad = self.put("b.rttm", "SPEAKER a 1 0 ten <NA> <NA> x <NA> <NA>\n")
        self.assertIn("line 1 has a time that is none", self.score("--der", good, bad, status=65).err)
        self.assertIn("no speech", self.score("--der", self.put("e.rttm", ""), good, status=65).err)
        text = self.put("t.txt", "Good morning.\n")
        self.assertIn("is not an RTTM", self.score("--der", good, text, status=65).err)
        self.assertIn("is not an RTTM", self.score("--der", text, good, status=65).err)
        text = self.put("t.txt", "\n \nGood morning.\n")
        self.assertIn("is not an RTTM", self.score("--der", good, text, status=65).err)
        os.mkdir(os.path.join(self.dir, "turns"))
        said = self.score("--der", "turns", "turns", status=65).err
        self.assertIn("is a folder, and --der compares two files. Try two RTTM files; those of a folder, one "
                      "behind the other (cat *.rttm), are one.", said)
        for said in (said, self.score("--der", good, "nowhere.rttm", status=66).err,
                     self.score("--der", good, text, status=65).err):
            self.assertNotIn("catalog", said)
            self.assertNotIn("enqueue", said)
        for silent in (";; nobody\n", "SPKR-INFO a 1 <NA> <NA> <NA> unknown x <NA>\n", "\n"):
            self.assertIn("100.00 %", self.score("--der", good, self.put("s.rttm", silent)).out)
        # Of many, in whatever order.
        names = [f"f{i * 7919 % 1000:03}" for i in range(1000)]
        many = self.turns("m.rttm", *[(name, 0, 1 + i % 3, "x") for i, name in enumerate(names)])
        other = self.turns("o.rttm", *[(name, 0, 1 + i % 3, "y") for i, name in reversed(list(enumerate(names)))])
        self.assertEqual(0.0, json.loads(self.score("--der", "--json", many, other).out)["all"]["rate"])
        for args in (["--der", good], ["--der", "--cer", good, good], ["--collar=1", good, good],
                     ["--der", "--collar=nan", good, good], ["--der", "--collar=-1", good, good]):
            self.score(*args, status=64)

    def test_characters_where_words_are_not_parted(self):
        found = self.rates("-l", "ja", self.put("r.txt", "今日は、いい天気"), self.put("h.txt", "今日はいい元気"))
        self.assertTrue(found["pairs"][0]["letters"])
        self.assertEqual((7, 1), (found["words"]["reference"], found["words"]["errors"]))

    def test_spellings(self):
        reference, hypothesis = self.put("r.txt", "the colour grey"), self.put("h.txt", "the color gray")
        table = self.put("t.json", '{"colour": "color", "grey": "gray"}')
        self.assertEqual(2, self.rates("-l", "en", reference, hypothesis)["words"]["errors"])
        self.assertIn("not unified", " ".join(self.score("-l", "en", reference, hypothesis).out.split()))
        found = self.rates("-l", "en", "--spellings", table, reference, hypothesis)
        self.assertEqual((0, True), (found["words"]["errors"], found["pairs"][0]["spellings_unified"]))
        os.makedirs(os.path.join(self.dir, "model"))
        shutil.copy(table, os.path.join(self.dir, "model", "normalizer.json"))
        self.put("model/config.json", "{}")
        self.assertEqual(0, self.rates("-l", "en", "-m", os.path.join(self.dir, "model"), reference,
                                       hypothesis)["words"]["errors"])
        self.assertIn("spellings", self.score("--spellings", hypothesis, reference, hypothesis, status=65).err)
        # A model that is here has it, and it is taken.
        shutil.copytree(os.path.join(self.dir, "model"),
                        os.path.join(self.dir, ".local/share/nightshift/models/whisper-any"))
        found = self.rates("-l", "en", reference, hypothesis)
        self.assertEqual((0, "whisper-any"), (found["words"]["errors"], found["spellings"]))
        self.assertIn("2 spellings were unified by the table of whisper-any.",
                      " ".join(self.score("-l", "en", reference, hypothesis).out.split()))
        found = self.rates("-l", "en", "--spellings=none", reference, hypothesis)
        self.assertEqual((2, None), (found["words"]["errors"], found["spellings"]))

    def test_folders(self):
        for name, text in (("ref/x.txt", "a b c"), ("ref/x.tsv", "not looked at"), ("ref/1990/y.txt", "d e"),
                           ("ref/z.txt", "f"), ("ref/x.wav", "RIFF"), ("hyp/x.srt", "1\n00:00 --> 00:01\na b\n"),
                           ("hyp/1990/y.txt", "d e"), ("hyp/more.txt", "g")):
            self.put(name, text)
        done = self.score("ref", "hyp", status=66)
        self.assertIn("z: there is no transcript", done.err)
        self.assertIn("all 2", done.out)
        self.assertTrue(all(len(line) <= 80 for line in done.out.splitlines()), done.out)
        found = self.rates("ref/", "hyp/", status=66)
        self.assertEqual(["1990/y", "x"], [pair["name"] for pair in found["pairs"]])
        self.assertEqual((5, 1, 1), (found["words"]["reference"], found["words"]["deletions"], found["missing"]))
        self.assertIn("is a folder", self.score("ref", "hyp/x.srt", status=64).err)
        self.put("ref/9:30.txt", "h i")  # as it is exported
        self.put("hyp/9_30.txt", "h i")
        self.assertIn("9:30", [pair["name"] for pair in self.rates("ref", "hyp", status=66)["pairs"]])

    def test_differences(self):
        done = self.score("--diff", self.put("r.txt", "the old cat sat"), self.put("h.txt", "the cat sits now"))
        self.assertRegex(done.out, r"\n  the \[-old-\] cat .*\[-sat-\] \{\+")

    def test_a_line_of_open_tags_takes_a_moment(self):
        cue = "1\n00:00:00,000 --> 00:00:01,000\n"
        reference = self.put("r.txt", "one two")
        self.assertEqual(0, self.rates(reference, self.put("h.srt", cue + "<i>one</i> two <c> <c.x>\n"))["words"]["errors"])
        started = time.monotonic()
        self.rates("-n", "basic", reference, self.put("h.srt", cue + "one two> " + "<a" * 3000000 + "\n"))
        self.assertLess(time.monotonic() - started, 30)

    def test_against_the_catalog(self):
        sample = os.path.join(SOURCE, "tests/samples/01_en_short")
        os.makedirs(os.path.join(self.dir, "archive"))
        shutil.copy(sample + ".wav", os.path.join(self.dir, "archive"))
        shutil.copy(os.path.join(SOURCE, "tests/samples/02_en_flite_rms.mp3"),
                    os.path.join(self.dir, "archive/9:30.mp3"))
        with open(sample + ".txt", "rb") as file:
            self.put("ref/01_en_short.txt", file.read())
        self.put("ref/unknown.txt", "nobody")
        env = {**os.environ, "HOME": self.dir, "NIGHTSHIFT_CATALOG": os.path.join(self.dir, "c.db"),
               "NIGHTSHIFT_DEVICES": "cpu"}
        subprocess.run([PROGRAM, "enqueue", "--model=whisper-nano", "archive"], cwd=self.dir, env=env, check=True,
                       capture_output=True)
        self.assertIn("not transcribed to its end", self.score("ref/01_en_short.txt", status=66).err)
        subprocess.run([PROGRAM, "run"], cwd=self.dir, env=env, check=True, capture_output=True, timeout=240)
        found = self.rates("ref", status=66)
        self.assertEqual(["01_en_short"], [pair["name"] for pair in found["pairs"]])
        self.assertEqual("english", found["pairs"][0]["normalizer"])
        self.assertLess(found["words"]["rate"], 0.25)
        self.assertGreater(found["words"]["reference"], 5)
        subprocess.run([PROGRAM, "export", "-o", "out"], cwd=self.dir, env=env, check=True, capture_output=True)
        self.assertEqual(["01_en_short.txt", "9_30.txt"], sorted(os.listdir(os.path.join(self.dir, "out"))))
        self.assertEqual(0, self.rates("out")["words"]["errors"])

    def test_what_is_exported_as_whispers_json(self):
        """Read as scripts do that know Whisper's or WhisperX's, with what somebody corrected."""
        sample = os.path.join(SOURCE, "tests/samples/01_en_short")
        os.makedirs(os.path.join(self.dir, "archive"))
        shutil.copy(sample + ".wav", os.path.join(self.dir, "archive", "talk.wav"))
        env = {**os.environ, "HOME": self.dir, "NIGHTSHIFT_CATALOG": os.path.join(self.dir, "c.db"),
               "NIGHTSHIFT_DEVICES": "cpu"}

        def nightshift(*args):
            return subprocess.run([PROGRAM, *args], cwd=self.dir, env=env, check=True, capture_output=True,
                                  stdin=subprocess.DEVNULL, timeout=240).stdout.decode()

        nightshift("enqueue", "--model=whisper-nano", "--word-timestamps", "archive")
        nightshift("run")
        word = nightshift("show", "talk.wav", "--format", "txt").split()[1]
        nightshift("correct", "--replace", word, "Zanzibar", "--yes")
        nightshift("export", "-f", "whisper-json", "-f", "txt", "-o", "out")
        with open(os.path.join(self.dir, "out", "talk.json"), encoding="utf-8") as file:
            talk = json.load(file)
        self.assertEqual("en", talk["language"])
        self.assertEqual(talk["text"], "".join(segment["text"] for segment in talk["segments"]))
        self.assertIn(" Zanzibar ", talk["text"])
        self.assertNotIn(word, talk["text"].split())
        end = 0
        for i, segment in enumerate(talk["segments"]):
            self.assertEqual({"id", "seek", "start", "end", "text", "tokens", "temperature", "avg_logprob",
                              "compression_ratio", "no_speech_prob", "words"}, set(segment))
            self.assertEqual(i, segment["id"])
            self.assertLessEqual(segment["start"], segment["end"])
            self.assertLess(segment["end"], 60)
            self.assertEqual(segment["text"], "".join(w["word"] for w in segment["words"]))
            for w in segment["words"]:
                self.assertLessEqual(end, w["start"])
                self.assertLessEqual(w["start"], w["end"])
                self.assertEqual(w["score"], w["probability"])
                end = w["start"]
        self.assertEqual(talk["text"].split(), [w["word"] for w in talk["word_segments"]])
        found = self.rates("-n", "none", "out/talk.txt", "out/talk.json")
        self.assertEqual((0, len(talk["text"].split())), (found["words"]["errors"], found["words"]["reference"]))
        self.assertIn("Nothing changes", nightshift("correct", "--dry-run", "talk.wav", "out/talk.json"))
        done = subprocess.run([PROGRAM, "export", "-f", "json", "-f", "whisper-json"], cwd=self.dir, env=env,
                              check=False, capture_output=True)
        self.assertEqual(64, done.returncode)
        self.assertIn(b"have the same names", done.stderr)

    def test_mistakes_are_sentences(self):
        good = self.put("good.txt", "a")
        for name, data, status, says in (("latin.txt", b"caf\xe9", 65, "UTF-8"), ("nul.txt", b"a\0b", 65, "NUL"),
                                         ("a.json", "{", 65, "JSON"), ("b.json", "{}", 65, "segments"),
                                         ("c.json", '{"segments": [1]}', 65, "segment 0"),
                                         ("d.json", "[" * 100000, 65, "JSON"), ("a.srt", "hello", 65, "subtitles"),
                                         ("a.tsv", "1\t2\t3\n", 65, "start"),
                                         ("b.tsv", "start\tend\ttext\n1\t2\n", 65, "line 2")):
            done = self.score(good, self.put(name, data), status=status)
            self.assertIn(says, done.err, name)
            self.assertEqual(1, done.err.count("\n"), done.err)
        huge = self.put("huge.txt", "")
        os.truncate(huge, (64 << 20) + 1)
        self.assertIn("64 MiB", self.score(good, huge, status=65).err)
        self.assertIn("no words", self.score(self.put("empty.txt", "(laughs)"), good, status=65).err)
        self.assertIsNone(self.rates("empty.txt", good, status=65)["words"]["rate"])
        for args, status in ((["nowhere.txt", good], 66), ([], 64), (["a", "b", "c"], 64), (["--normalizer", "x", good], 64),
                             (["--json", "--diff", good, good], 64), (["-l", b"\xff", good, good], 64),
                             ([good], 66)):
            done = self.score(*args, status=status)
            self.assertTrue(done.err.startswith("nightshift: "), done.err)
        self.assertEqual(0.0, self.rates(good, good)["words"]["rate"])


if __name__ == "__main__":
    unittest.main()
