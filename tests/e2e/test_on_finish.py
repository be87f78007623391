#!/usr/bin/env python3
"""run --on-finish: what the command is told, and that whatever it does changes nothing of the run's end. And
its figures in a file."""
import email
import fcntl
import http.server
import json
import os
import shlex
import shutil
import threading
import time

import night


class OnFinish(night.Night):
    TELL = ('cat > report; printf "%s|%s|%s|%s|%s" "$NIGHTSHIFT_WHY" "$NIGHTSHIFT_DONE" '
            '"$NIGHTSHIFT_FAILED" "$NIGHTSHIFT_LEFT" "$NIGHTSHIFT_CATALOG" > told; '
            'printf %s "$NIGHTSHIFT_REASON" > reason')

    def setUp(self):
        super().setUp()
        shutil.copy(os.path.join(night.DEMO, "english", "farmer.wav"), self.archive)
        with open(os.path.join(self.archive, "no.wav"), "wb") as file:
            file.write(b"nothing that could be heard")
        self.enqueue()

    def file(self, name):
        with open(os.path.join(self.dir, name), encoding="utf-8") as file:
            return file.read()

    def test_what_it_is_told(self):
        self.run_to_end("--on-finish", self.TELL)
        self.assertEqual(f"done|1|1|0|{self.catalog}", self.file("told"))
        self.assertEqual("", self.file("reason"))
        report = self.file("report")
        self.assertIn("1 recording, 1 failed", report)
        self.assertLessEqual(max(map(len, report.splitlines())), 78)

    def example(self, word):
        """The command of the documentation's example in which the word is."""
        with open(os.path.join(night.SOURCE, "docs/how-to/get-the-report.md"), encoding="utf-8") as file:
            block = file.read().split("## Send it to somebody", 1)[1].split("```sh\n", 1)[1].split("```", 1)[0]
        [words] = [words for words in (shlex.split(text, comments=True) for text in block.split("\n\n"))
                   if word in words[-1]]
        self.assertEqual(["nightshift", "run", "--on-finish"], words[:-1])
        return words[-1]

    def test_the_example_of_a_mail(self):
        tools = os.path.join(self.dir, "bin")
        os.mkdir(tools)
        with open(os.path.join(tools, "sendmail"), "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\necho "$*" > called; cat > mail\n')
        os.chmod(os.path.join(tools, "sendmail"), 0o755)
        answer = self.run_to_end("--on-finish", self.example("sendmail -t"),
                                 env={"PATH": tools + ":" + os.environ["PATH"]})
        self.assertNotIn("--on-finish", answer.err)
        self.assertEqual("-t\n", self.file("called"))
        mail = email.message_from_string(self.file("mail"))
        self.assertEqual("Nightshift: done, 1 failed", mail["Subject"])
        self.assertIn("@", mail["To"])
        self.assertIn("1 recording, 1 failed", mail.get_payload())

    @night.needs("jq", "curl")
    def test_the_example_of_a_chat(self):
        posted = []

        class Hook(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                posted.append((self.path, self.headers["Content-Type"],
                               self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            command = self.example("curl").replace("https://chat.example.org",
                                                   f"http://127.0.0.1:{server.server_port}")
            answer = self.run_to_end("--on-finish", command, env={"no_proxy": "*"})
            server.shutdown()
        self.assertNotIn("--on-finish", answer.err)
        [(path, kind, body)] = posted
        self.assertEqual(("/hooks/KEY", "application/json"), (path, kind))
        self.assertIn("1 recording, 1 failed", json.loads(body)["text"])

    def test_json_stays_json(self):
        answer = self.run_to_end("--json", "--on-finish", "echo said")
        for line in answer.out.splitlines():
            json.loads(line)
        self.assertIn("said", answer.err)

    def test_a_log_for_programs(self):
        answer = self.run_to_end("--log-format", "json", "--verbose", "--on-finish", "exit 3")
        lines = [json.loads(line) for line in answer.err.splitlines()]
        self.assertEqual({"at", "level", "pid", "process", "text"}, set().union(*lines))
        self.assertIn("run", {line["process"] for line in lines})
        self.assertEqual(["warning"], [line["level"] for line in lines if "left with 3" in line["text"]])
        answer = self.nightshift("-c", self.catalog, "run", "--log-format", "json", status=0)
        self.assertEqual({"run"}, {json.loads(line)["process"] for line in answer.err.splitlines()})
        self.assertIn("<4>warning: --on-finish",
                      self.run_to_end("--log-format=journal", "--on-finish", "exit 3").err)
        answer = self.run_to_end("--log-format", "json", "--devices", "cuda:77", status=None)
        self.assertIn("cuda:77", [json.loads(line) for line in answer.err.splitlines()][-1]["text"])

    def test_its_failure_is_a_warning(self):
        answer = self.run_to_end("--on-finish", "exit 3", status=0)
        self.assertIn("the command left with 3", answer.err)
        answer = self.run_to_end("--on-finish", "kill -9 $$", status=0)
        self.assertIn("ended by signal 9", answer.err)

    def test_a_time_limit(self):
        began = time.monotonic()
        answer = self.run_to_end("--on-finish", "sleep 500 & sleep 500", status=0,
                                 env={"NIGHTSHIFT_ON_FINISH_SECONDS": 1})
        self.assertIn("the command was ended after 1 s", answer.err)
        self.assertLess(time.monotonic() - began, 400)

    def test_metrics(self):
        path = os.path.join(self.dir, "n.prom")
        self.run_to_end("--metrics", path, "--on-finish", "cp n.prom seen")
        values, types = {}, {}
        for line in self.file("seen").splitlines():
            words = line.split(" ")
            if line.startswith("# TYPE"):
                types[words[2]] = words[3]
            elif not line.startswith("#"):
                values[words[0]] = float(words[1])
                self.assertIn(words[0].partition("{")[0], types)
        for name, value in (("run_on", 0), ("run_recordings_done_total", 1), ("run_recordings_failed_total", 1),
                            ('recordings{state="done"}', 1), ('recordings{state="to_do"}', 0)):
            self.assertEqual(value, values["nightshift_" + name], name)
        audio = values["nightshift_run_audio_seconds_total"]
        self.assertGreater(audio, 1)
        self.assertAlmostEqual(audio, values['nightshift_device_audio_seconds_total{device="cpu"}'])
        self.assertEqual([], [name for name in os.listdir(self.dir) if ".writing-" in name])
        answer = self.run_to_end("--metrics", self.catalog)
        self.assertEqual(1, answer.err.count("it stays as it is"), answer.err)
        self.healthy()
        answer = self.run_to_end("--metrics", os.path.join(self.dir, "none", "x"))
        self.assertEqual(1, answer.err.count("the run continues without them"), answer.err)

    def test_a_page_takes_no_catalogs_place(self):
        self.run_to_end()
        path = os.path.join(self.dir, "night.html")
        os.symlink(self.catalog, path)
        for taken in (path, self.catalog):
            answer = self.nightshift("report", "--html", taken, status=night.USAGE)
            self.assertIn("it stays as it is", answer.err)
        self.healthy()
        os.unlink(path)
        self.nightshift("report", "--html", path, status=0)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read()[:15], self.nightshift("report", "--html", "-", status=0).out[:15])

    def test_a_run_that_cannot_begin(self):
        answer = self.run_to_end("--devices", "cuda:77", "--on-finish", self.TELL, status=None)
        self.assertNotEqual(0, answer.status)
        self.assertEqual(f"failed|0|0|2|{self.catalog}", self.file("told"))
        self.assertIn("cuda:77", self.file("reason"))
        self.assertTrue(self.file("report").startswith("The run failed: "))

    def test_a_run_that_found_no_catalog(self):
        self.catalog = os.path.join(self.dir, "none.db")
        answer = self.run_to_end("--on-finish", self.TELL, status=night.NOINPUT)
        self.assertIn("there is no catalog", answer.err)
        self.assertEqual(f"failed|0|0|0|{self.catalog}", self.file("told"))
        self.assertIn("there is no catalog", self.file("reason"))
        self.assertTrue(self.file("report").startswith("The run failed: there is no catalog"))
        self.assertNotIn("Catalog", self.file("report"))
        self.assertFalse(os.path.exists(self.catalog))
        answer = self.run_to_end("--part", self.catalog, "--on-finish", self.TELL, status=None)
        self.assertNotEqual(0, answer.status)
        self.assertIn("none.db", self.file("reason"))

    def test_a_second_run(self):
        with open(self.catalog + ".lock", "a", encoding="utf-8") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            answer = self.run_to_end("--on-finish", self.TELL, status=None)
        self.assertNotEqual(0, answer.status)
        self.assertTrue(self.file("told").startswith("failed|0|0|"), self.file("told"))
        self.assertIn("holds this catalog", self.file("reason"))
        self.assertIn("2 recordings to do", self.file("report"))


if __name__ == "__main__":
    night.main()
