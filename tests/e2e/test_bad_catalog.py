#!/usr/bin/env python3
"""Catalogs that cannot be used: one sentence with a way out, and nothing in them is touched."""
import hashlib
import os
import shutil
import sqlite3
import subprocess
import unittest

import media_kit
import night

COMMANDS = [["run"], ["status"], ["search", "farmer"], ["show", "good.wav"], ["retry"]]


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class BadCatalog(night.Night):
    def setUp(self):
        super().setUp()
        self.bring("01_en_short.wav", "good.wav")

    def made(self):
        self.enqueue()
        self.run_to_end()

    def refused(self, *words, commands=None):
        """Every command says so in one sentence and leaves the file as it is."""
        before = digest(self.catalog)
        for command in [["enqueue", self.archive]] + (commands or COMMANDS):
            with self.subTest(command=command[0]):
                said = self.one_sentence(self.nightshift(*command), *words)
                if command[0] in ("enqueue", "status"):
                    print(f"    {command[0]}: {said}")
        self.assertEqual(before, digest(self.catalog))

    def test_newer_version(self):
        self.made()
        with sqlite3.connect(self.catalog) as connection:
            connection.execute("PRAGMA user_version = 9999")
        connection.close()
        self.refused("newer", "9999|version")

    def test_text_file(self):
        with open(self.catalog, "w", encoding="utf-8") as file:
            file.write("Dear diary,\n" * 1000)
        self.refused("not a (nightshift )?(catalog|database)|no (catalog|database)|catalog.db")

    def test_database_of_another_program(self):
        connection = sqlite3.connect(self.catalog)
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
        connection.execute("PRAGMA application_id = 252006675")
        connection.commit()
        connection.close()
        self.refused("another program|not a (nightshift )?catalog|no (nightshift )?catalog")

    def test_database_without_owner(self):
        connection = sqlite3.connect(self.catalog)
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
        connection.commit()
        connection.close()
        self.refused("another program|not a (nightshift )?catalog|no (nightshift )?catalog")

    def test_damaged(self):
        self.made()
        with open(self.catalog, "r+b") as file:
            file.seek(4096)
            file.write(os.urandom(os.path.getsize(self.catalog) - 4096))
        for extra in ("-wal", "-shm"):
            if os.path.exists(self.catalog + extra):
                os.remove(self.catalog + extra)
        answer = self.nightshift("run")
        print(f"    run: {self.one_sentence(answer, 'damaged|malformed|corrupt')}")

    def test_directory(self):
        os.mkdir(self.catalog)
        for command in (["enqueue", self.archive], ["run"], ["status"]):
            said = self.one_sentence(self.nightshift(*command), "directory|folder|not a file")
            print(f"    {command[0]}: {said}")

    def test_missing(self):
        for command in COMMANDS:
            with self.subTest(command=command[0]):
                answer = self.nightshift(*command)
                said = self.one_sentence(answer, "enqueue|no catalog|no such|does not exist")
                if command[0] in ("run", "status"):
                    print(f"    {command[0]}: {said}")
                self.assertFalse(os.path.exists(self.catalog))

    @unittest.skipUnless(os.geteuid() == 0, "only root can mount a read-only place")
    def test_read_only_place(self):
        """Nobody can write there, not even root: a read-only mount."""
        self.made()
        rows = self.sql("SELECT * FROM results")
        place = os.path.join(self.dir, "read-only")
        os.mkdir(place)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "none", place],
                          capture_output=True, check=False).returncode:
            self.skipTest("this root may not mount")
        self.addCleanup(subprocess.run, ["umount", "-l", place], check=False)
        # A catalog that was left in order: the WAL is merged when the last connection closes.
        shutil.copy(self.catalog, place)
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        self.catalog = os.path.join(place, os.path.basename(self.catalog))
        before = digest(self.catalog)
        for command in (["run"], ["enqueue", self.archive], ["retry"]):
            with self.subTest(command=command[0]):
                said = self.one_sentence(self.nightshift(*command), "read-only|permission|write")
                print(f"    {command[0]}: {said}")
        for command in (["status"], ["search", "farmer"]):
            with self.subTest(command=command[0]):
                answer = self.nightshift(*command)
                self.assertEqual(0, answer.status, f"it can be read there\n{answer}")
        self.assertEqual(before, digest(self.catalog))
        self.catalog = os.path.join(self.dir, "catalog.db")
        self.assertEqual(rows, self.sql("SELECT * FROM results"))

    def test_empty_file_becomes_a_catalog(self):
        open(self.catalog, "w", encoding="utf-8").close()
        self.made()
        self.assertIn("farmer from the south", self.text_of("/good.wav"))

    def test_catalog_in_a_folder_that_is_not_there(self):
        self.catalog = os.path.join(self.dir, "not", "there", "catalog.db")
        answer = self.nightshift("enqueue", self.archive)
        if answer.status != 0:
            print(f"    enqueue: {self.one_sentence(answer, 'no such|not there|does not exist')}")


class BadModel(night.Night):
    def setUp(self):
        super().setUp()
        self.bring("01_en_short.wav", "good.wav")
        self.model = os.path.join(self.dir, "model")
        shutil.copytree(night.MODEL, self.model)
        self.weights = os.path.join(self.model, "model.safetensors")

    def refused(self, *words):
        """Either enqueue or run says so; afterwards the good model does the work."""
        answer = self.nightshift("enqueue", "--model", self.model, self.archive)
        if answer.status == 0:
            answer = self.nightshift("run")
        print(f"    {self.one_sentence(answer, *words)}")
        self.nightshift("cancel")  # nothing, or the tasks of the bad model
        self.enqueue("--again", "--model=whisper-nano", self.archive)
        self.run_to_end()
        self.assertIn("farmer from the south", self.text_of("/good.wav"))
        self.healthy()

    def test_missing_tensor(self):
        header, data = media_kit.tensors(self.weights)
        name = "model.encoder.layers.2.fc1.weight"
        self.assertIn(name, header)
        media_kit.write_tensors(self.weights, header.replace(name, "model.encoder.layers.2.xx"),
                                data)
        self.refused("layers.2.fc1.weight", "missing|no tensor|not (there|in)|lacks")

    def test_wrong_shape(self):
        header, data = media_kit.tensors(self.weights)
        before = '"model.decoder.layers.0.fc1.weight":{"dtype":"F16","shape":[768,192]'
        header = header.replace(": ", ":").replace(", ", ",")
        self.assertIn(before, header)
        media_kit.write_tensors(self.weights, header.replace(
            before, before.replace("[768,192]", "[192,768]")), data)
        self.refused("decoder.layers.0.fc1.weight", "192", "768")

    def test_weights_cut_off(self):
        with open(self.weights, "r+b") as file:
            file.truncate(4000000)
        self.refused("model.safetensors", "truncated|short|cut|past|outside|ends|incomplete|bytes")

    def test_weights_that_are_text(self):
        with open(self.weights, "w", encoding="utf-8") as file:
            file.write("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 7832504\n")
        self.refused("model.safetensors")

    def test_no_weights(self):
        os.remove(self.weights)
        self.refused("safetensors")

    def test_no_tokenizer(self):
        os.remove(os.path.join(self.model, "tokenizer.json"))
        self.refused("tokenizer.json")

    def test_config_that_is_no_json(self):
        with open(os.path.join(self.model, "config.json"), "w", encoding="utf-8") as file:
            file.write('{"d_model": 192,')
        self.refused("config.json")

    def test_config_of_another_model(self):
        path = os.path.join(self.model, "config.json")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertIn('"d_model": 192', text)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace('"d_model": 192', '"d_model": 256'))
        self.refused("192|256")

    def test_no_such_model(self):
        answer = self.nightshift("enqueue", "--model", "whisper-enormous", self.archive)
        print(f"    {self.one_sentence(answer, 'whisper-enormous')}")

    def test_a_folder_whose_path_is_no_utf8(self):
        models = os.path.join(self.dir, os.fsdecode(b"mod\xe8les"))
        shutil.copytree(self.model, os.path.join(models, "mine"))
        answer = self.nightshift("enqueue", "--model=mine", self.archive, env={"NIGHTSHIFT_MODELS": models})
        print(f"    {self.one_sentence(answer, 'mine', 'is not UTF-8')}")
        # nor one that it was moved to since
        before = os.path.join(self.dir, "models")
        shutil.move(models, before)
        self.enqueue("--model=mine", self.archive, env={"NIGHTSHIFT_MODELS": before})
        shutil.move(before, models)
        answer = self.nightshift("enqueue", self.archive, env={"NIGHTSHIFT_MODELS": models})
        print(f"    {self.one_sentence(answer, 'continue as last time', 'is not UTF-8')}")

    def test_weights_changed_between_enqueue_and_run(self):
        self.enqueue("--model", self.model, self.archive)
        with open(self.weights, "r+b") as file:
            file.seek(4000000)
            file.write(b"\0\0\0\0")
        answer = self.nightshift("run")
        print(f"    {self.one_sentence(answer, 'model', 'changed|differ|not th(e|ose)')}")


if __name__ == "__main__":
    night.main()
