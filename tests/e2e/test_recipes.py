#!/usr/bin/env python3
"""Recipes: what `enqueue` and `recipe` make of one is held against a few lines that say what they should, over made-up
evenings; and the command by itself."""
import json
import os
import random
import struct
import sys
import unittest
import wave

sys.path.insert(0, os.path.dirname(__file__))
import night
import tiny_models

SILERO = os.path.join(night.SHARED, "models/silero-vad")
KINDS = ("transcribe", "diarize", "sounds")
FOLDERS = ("", "a", "a/b", "a/b/c", "a-b", "d")
SAID = {"transcribe": ([], ["--beam-size=2"], ["--language=en"], ["--vad=off"], ["--model=whisper-nano"]),
        "diarize": (["--diarize=diarization-nano"], ["--diarize=diarization-nano", "--num-speakers=2"], ["--diarize"]),
        "sounds": (["--sounds=yamnet"],)}
MODEL = {"transcribe": "--model=", "diarize": "--diarize=", "sounds": "--sounds="}
VAD = {"transcribe": "--vad=", "diarize": "--diarize-vad=", "sounds": "-"}


def with_beginning(words, beginning):
    return {word for word in words if word.startswith(beginning)}


class Reference:
    """Of each folder and kind the words, and which enqueue set them."""

    def __init__(self):
        self.rows = {}
        self.job = 0

    def nearest(self, folder, kind):
        while True:
            if (folder, kind) in self.rows:
                return self.rows[folder, kind]
            if not folder:
                return None
            folder = os.path.dirname(folder)

    def newest(self):
        jobs = [(job, words) for (_, kind), (words, job) in self.rows.items() if kind == "transcribe" and job]
        return max(jobs)[1] if jobs else None

    def put(self, folder, kind, words, replaces):
        if replaces:
            for of in [of for of in self.rows if of[1] == kind and (of[0] + "/").startswith(folder + "/" if folder else "")]:
                if of != (folder, kind):
                    del self.rows[of]
        before = self.rows.get((folder, kind), (None, 0))[1]
        self.rows[folder, kind] = (words, self.job or before)

    def set(self, folder, said, alone, again, job):
        """said: of the kinds that are spoken of their words. job 0: by `recipe`."""
        self.job = job
        row = {kind: self.nearest(folder, kind) for kind in KINDS}
        told_apart = "diarize" in said or row["diarize"]
        first, newest = not any(row.values()), self.newest()
        # The text that is there gets times of words, where no folder below has another one.
        times = (job and not alone and "diarize" in said and row["transcribe"] and
                 "--word-timestamps" not in row["transcribe"][0] and
                 not any(of[1] == "transcribe" and of[0] != folder and (of[0] + "/").startswith(folder + "/" if folder else "")
                         for of in self.rows))
        for kind in KINDS:
            was = row[kind][0] if row[kind] else None
            timed = kind == "transcribe" and times
            if kind in said:
                words = set(said[kind]) - {"--diarize"}
                for beginning in (MODEL[kind], VAD[kind]):
                    if not with_beginning(words, beginning) and was:
                        words |= with_beginning(was, beginning)
            elif kind == "transcribe" and was is None and not alone and (said or first):
                words = set(newest) if said and newest else set()
            elif timed:
                words = set(was)
            else:
                continue
            if kind == "transcribe":
                words |= set() if with_beginning(words, "--model=") else {"--model=" + night.USUAL}
                if words != was and told_apart and not (kind not in said and newest and said):
                    words.add("--word-timestamps")
                words |= {"--word-timestamps"} if timed else set()
            if words != was or again:
                self.put(folder, kind, frozenset(words), kind in said or bool(timed))

    def remove(self, folder, kinds):
        return [self.rows.pop((folder, kind)) for kind in kinds if (folder, kind) in self.rows]


class Recipes(night.Night):
    def setUp(self):
        super().setUp()
        self.have_a_usual_model()
        self.models = os.path.join(self.dir, "models")
        tiny_models.yamnet(os.path.join(self.models, "yamnet"))
        for folder in FOLDERS:
            os.makedirs(self.at(folder), exist_ok=True)
        self.made = 0

    def env(self, **more):
        return super().env(NIGHTSHIFT_MODELS=self.models, **more)

    def at(self, folder):
        return os.path.join(self.archive, folder) if folder else self.archive

    def put_new(self, folder):
        self.made += 1
        path = os.path.join(self.at(folder), f"{self.made}.wav")
        with wave.open(path, "wb") as file:
            file.setparams((1, 2, 16000, 0, "NONE", ""))
            file.writeframes(struct.pack("<1600h", *[(self.made * 31 * i) % 20000 for i in range(1600)]))
        return path

    def rows(self):
        return {("" if path == self.archive else os.path.relpath(path, self.archive), kind): frozenset(json.loads(options))
                for path, kind, options in self.sql("SELECT path, kind, options FROM recipe")}

    def holds(self, reference, what):
        self.assertEqual({of: words for of, (words, _) in reference.rows.items()}, self.rows(), what)

    def is_done_so(self, path, folder, reference, what):
        """A recording that is new gets of each kind the nearest recipe, and nothing else."""
        got = {name: json.loads(params) for name, params in self.sql(
            "SELECT s.name, s.params FROM task t JOIN stage s USING (stage_id) JOIN place p USING (media_id) "
            "WHERE p.path = ? AND t.wanted", path)}
        want = {kind: reference.nearest(folder, kind)[0] for kind in KINDS if reference.nearest(folder, kind)}
        self.assertEqual(set(want), set(got), what)
        if "transcribe" in want:
            words, params = want["transcribe"], got["transcribe"]
            self.assertEqual(("--beam-size=2" in words, "--language=en" in words, "--word-timestamps" in words),
                             (params["beam_size"] == 2, params["language"] == "en", params.get("word_timestamps", False)), what)
        if "diarize" in want:
            self.assertEqual("--num-speakers=2" in want["diarize"], got["diarize"].get("num_speakers", 0) == 2, what)

    def evenings(self, seed, count):
        rnd, reference, history = random.Random(seed), Reference(), []
        for _ in range(count):
            folder = rnd.choice(FOLDERS)
            said = {kind: rnd.choice(SAID[kind]) for kind in rnd.sample(KINDS, rnd.choice((0, 1, 1, 2)))}
            if not said.get("transcribe", True):
                del said["transcribe"]
            if "--diarize" in said.get("diarize", ()) and not reference.nearest(folder, "diarize"):
                said["diarize"] = SAID["diarize"][0]
            words = [word for kind in said for word in said[kind]]
            alone = bool(said) and "transcribe" not in said and rnd.random() < 0.4
            act = rnd.choice(("enqueue", "enqueue", "enqueue", "again", "recipe", "remove"))
            history.append((act, folder, *words, *(["--no-transcribe"] if alone else [])))
            what = f"seed {seed}: {history}"
            if alone:
                words.append("--no-transcribe")
            if act == "remove":
                removed = reference.remove(folder, KINDS)
                self.nightshift("recipe", "--remove", self.at(folder), status=None if not os.path.exists(self.catalog) else
                                0 if removed else night.NOINPUT)
            elif act == "recipe" and words:
                self.nightshift("recipe", *words, self.at(folder), status=0)
                reference.set(folder, said, alone, False, 0)
            else:
                again = act == "again" and bool(said)
                self.enqueue("--quiet", *(["--again"] if again else []), *words, self.at(folder))
                reference.set(folder, said, alone, again, len(history))
            if os.path.exists(self.catalog):
                self.holds(reference, what)
            # Another evening, on which nothing is said of that folder, or of one above it.
            below = rnd.choice([at for at in FOLDERS if not folder or (at + "/").startswith(folder + "/")])
            path = self.put_new(below)
            self.enqueue("--quiet", self.at(folder))
            reference.set(folder, {}, False, False, len(history))
            self.holds(reference, what)
            self.is_done_so(path, below, reference, what)

    def test_evenings_that_are_made_up(self):
        for seed in range(4):
            with self.subTest(seed=seed):
                self.catalog = os.path.join(self.dir, f"{seed}.db")
                self.evenings(seed, 12)

    def test_shown_set_and_removed(self):
        self.assertIn("there is no catalog", self.nightshift("recipe", status=night.NOINPUT).err)
        self.nightshift("recipe", "--initial-prompt=Ana y Luis", "--vad=off", self.archive, status=0)
        self.assertEqual([(0, 0)], self.sql("SELECT (SELECT count(*) FROM job), (SELECT count(*) FROM media)"))
        said = self.nightshift("recipe", "--beam-size=2", "--diarize=diarization-nano", self.at("a/b"), status=0).out
        self.assertEqual([self.at("a/b"), "  transcribe: --model=openai/whisper-tiny --vad=off --beam-size=2",
                          "    --word-timestamps", "  diarize: --diarize=diarization-nano"],
                         said.splitlines())
        self.assertIn("  transcribe: --model=openai/whisper-tiny --vad=off '--initial-prompt=Ana y\n    Luis'\n",
                      self.nightshift("recipe", self.at("a"), status=0).out)
        rows = self.json("recipe", self.at("a/b/c"))
        self.assertEqual([(self.at("a/b"), "transcribe"), (self.at("a/b"), "diarize")],
                         [(row["path"], row["stage"]) for row in rows])
        self.assertIn("--beam-size=2", rows[0]["options"])
        # What is set is what a first enqueue goes by, and no enqueue with the same words changes it.
        self.put_new("a/b")
        self.put_new("a")
        jobs = self.json("enqueue", "--initial-prompt=Ana y Luis", self.archive)["jobs"]
        self.assertEqual([True] * 3, [job["as_last_time"] for job in jobs])
        self.assertEqual([(2, 1), (5, 1)], self.sql(
            "SELECT params ->> 'beam_size', count(*) FROM task JOIN stage USING (stage_id) WHERE name = 'transcribe' "
            "AND wanted GROUP BY 1 ORDER BY 1"))
        # One that was done otherwise stays as it is, until it is to be done again.
        self.run_to_end("--threads=2")
        self.nightshift("recipe", "--beam-size=3", self.archive, status=0)
        self.assertEqual(0, self.json("enqueue", self.archive)["tasks"])
        self.assertEqual(2, sum(job["tasks"] for job in self.json("enqueue", "--again", self.archive)["jobs"]
                                if job["stage"] == "transcribe"))
        self.nightshift("recipe", "--remove", "--diarize", self.at("a/b"), status=0)
        self.nightshift("recipe", "--remove", self.at("a/b"), status=night.NOINPUT)
        self.assertEqual([(self.archive, "transcribe")], self.sql("SELECT path, kind FROM recipe"))

    @unittest.skipUnless(os.path.isdir(SILERO), f"there is no {SILERO}")
    def test_a_recipe_of_before_voice_activity_came(self):
        """What is new, or waits, has it as soon as its model is here, and that is said; the rest of the recipe stays."""
        waiting = self.put_new("a")
        self.enqueue("--beam-size=2", "--diarize=diarization-nano", self.archive)
        self.nightshift("recipe", "--beam-size=3", self.at("a/b"), status=0)
        os.symlink(SILERO, os.path.join(self.models, "silero-vad"))
        new = [self.put_new("a"), self.put_new("a/b")]
        said = " ".join(self.enqueue(self.archive).out.split())
        self.assertIn("The model of voice activity is here now, and new work uses it.", said)
        self.assertEqual(sorted([
            (path, kind, "silero-vad", beams if kind == "transcribe" else None)
            for path, beams in zip((waiting, *new), (2, 2, 3)) for kind in ("diarize", "transcribe")], key=str), sorted(self.sql(
                "SELECT p.path, s.name, s.params ->> 'vad_model', s.params ->> 'beam_size' FROM task t "
                "JOIN stage s USING (stage_id) JOIN place p USING (media_id) WHERE t.wanted"), key=str))
        rows = self.rows()
        self.assertIn("--vad=on", rows["a/b", "transcribe"])
        self.assertIn("--beam-size=3", rows["a/b", "transcribe"])
        self.assertIn("--diarize-vad=on", rows["", "diarize"])
        self.assertNotIn("is here now", " ".join(self.enqueue(self.archive).out.split()))

    def test_what_is_wrong_is_said(self):
        self.enqueue("--vad=off", self.archive)
        before = self.rows()
        for words, said in ((["--remove"], "name the files or folders"), (["--beam-size=2"], "name the files or folders"),
                            (["--remove", "--beam-size=2", self.archive], "names of stages"),
                            (["--num-speakers=2", self.archive], "--diarize"),
                            (["--no-transcribe", self.archive], "nothing")):
            self.one_sentence(self.nightshift("recipe", *words, status=night.USAGE), said)
        self.one_sentence(self.nightshift("recipe", "--diarize=nobody", self.archive, status=night.CONFIG), "nobody", "--diarize")
        self.assertEqual(before, self.rows())

    def test_where_nothing_is_found_nothing_is_kept(self):
        for name in ("notes.txt", "notes"):
            path = os.path.join(self.archive, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write("Bring milk.\n")
            self.assertIn("No recordings found", self.enqueue(path).out)
        self.nightshift("enqueue", os.path.join(self.archive, "nowhere.wav"), status=night.NOINPUT)
        self.assertEqual([(0, 0)], self.sql("SELECT (SELECT count(*) FROM job), (SELECT count(*) FROM recipe)"))
        # What is known of a place that holds no recording any more goes.
        self.assertEqual(1, self.json("enqueue", "--all", path)["new"])
        with open(path, "w", encoding="utf-8") as file:
            file.write("Bring no milk.\n")
        self.assertEqual(1, self.json("enqueue", path)["vanished"])
        before = set(self.rows())
        self.enqueue(self.put_new("a"), os.path.join(self.archive, "notes.txt"))
        self.assertEqual({("a/1.wav", "transcribe")}, set(self.rows()) - before)

    def test_while_a_run_is_on(self):
        self.put_new("a")
        self.enqueue(self.archive)
        run = self.start_run("--watch")
        self.wait_for("the run listens", lambda: os.path.exists(self.catalog + ".sock"), run)
        self.nightshift("recipe", "--beam-size=2", self.at("a"), status=0)
        self.assertIn("--beam-size=2", self.rows()["a", "transcribe"])
        self.nightshift("recipe", "--remove", self.at("a"), status=0)
        self.assertNotIn(("a", "transcribe"), self.rows())
        run.signal()
        run.wait()


if __name__ == "__main__":
    night.main()
