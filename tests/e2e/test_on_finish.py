#!/usr/bin/env python3
"""run --on-finish: what the command is told, and that whatever it does changes nothing of the run's end."""
import json
import os
import shutil
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

    def test_json_stays_json(self):
        answer = self.run_to_end("--json", "--on-finish", "echo said")
        for line in answer.out.splitlines():
            json.loads(line)
        self.assertIn("said", answer.err)

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

    def test_a_run_that_cannot_begin(self):
        answer = self.run_to_end("--devices", "cuda:77", "--on-finish", self.TELL, status=None)
        self.assertNotEqual(0, answer.status)
        self.assertEqual(f"failed|0|0|2|{self.catalog}", self.file("told"))
        self.assertIn("cuda:77", self.file("reason"))
        self.assertTrue(self.file("report").startswith("The run failed: "))


if __name__ == "__main__":
    night.main()
