#!/usr/bin/env python3
"""Nights by the clock: `run --between`, while the clock on the wall is set."""
import calendar
import os
import signal
import struct
import time

import night

ZONE = "CET-1CEST,M3.5.0,M10.5.0/3"  # Central Europe's
OPEN, SHUT = "it is 22:00; continuing", "resting until 22:00"


class Hours(night.Night):
    def setUp(self):
        super().setUp()
        self.clock = os.path.join(self.dir, "clock")
        with open(self.clock, "wb") as file:
            file.write(struct.pack("=q", 0))
        for i in range(6):
            with open(self.bring("12_en_long_90s.mp3", f"{i}.mp3"), "ab") as file:
                file.write(bytes(i))  # another recording
        self.enqueue("--model=whisper-nano", "--vad=off", self.archive)

    def it_is(self, *utc):
        with open(self.clock, "r+b") as file:
            file.write(struct.pack("=q", calendar.timegm((*utc, 0, 0, 0)) - int(time.time())))

    def start(self, fault="slow-step:60"):
        env = self.env(TZ=ZONE, LD_PRELOAD=os.environ["NIGHTSHIFT_WALL_CLOCK"], WALL_CLOCK=self.clock,
                       NIGHTSHIFT_FAULT=fault)
        run = night.Running([night.PROGRAM, "run", "--between=22:00-06:00", "--shard=30s", "--slots=2"],
                            env, self.dir)
        self.running.append(run)
        return run

    def says(self, run, words, times):
        self.wait_for(f"'{words}' is said {times} times", lambda: run.said().count(words) >= times, run)
        self.assertEqual(times, run.said().count(words))

    def shards(self):
        return self.sql("SELECT count(*) FROM shard")[0][0]

    def works(self, run):
        before = self.shards()
        self.wait_for("something is done", lambda: self.shards() > before, run)

    def rests(self, run, times=1):
        """What has begun is finished, and nothing is left to work with."""
        self.says(run, SHUT, times)
        self.wait_for("the workers have left", lambda: not run.descendants("worker"), run)
        return self.shards()

    def test_nights(self):
        self.it_is(2027, 1, 15, 20, 59, 0)
        run = self.start()
        self.rests(run)
        self.it_is(2027, 1, 15, 21, 0, 0)
        self.works(run)
        self.it_is(2027, 1, 16, 5, 0, 0)
        done = self.rests(run, 2)
        self.it_is(2027, 1, 16, 21, 0, 0)  # the next evening
        self.says(run, OPEN, 2)
        self.works(run)
        self.it_is(2027, 1, 17, 5, 0, 0)
        self.assertGreater(self.rests(run, 3), done)
        run.signal(signal.SIGTERM)
        self.assertEqual(night.TEMPFAIL, run.wait())
        run = self.start()
        done = self.rests(run)
        run.signal(signal.SIGKILL)
        run.wait()
        self.it_is(2027, 1, 17, 22, 0, 0)
        run = self.start(fault="")
        self.assertEqual(0, run.wait())
        self.assertNotIn(SHUT, run.said())
        self.assertEqual([("done", 0, 6)], self.sql("SELECT state, attempts, count(*) FROM task GROUP BY 1, 2"))
        self.assertEqual(18, self.shards())
        self.healthy()

    def test_the_night_when_summer_time_begins(self):
        """It has seven hours, and the morning is as on any other day."""
        self.it_is(2027, 3, 27, 21, 0, 0)
        run = self.start()
        self.wait_for("it works", lambda: "beginning with" in run.said(), run)
        self.it_is(2027, 3, 28, 1, 0, 0)
        self.works(run)
        self.it_is(2027, 3, 28, 4, 0, 0)
        self.says(run, SHUT, 1)
        self.it_is(2027, 3, 28, 20, 0, 0)
        self.says(run, OPEN, 1)
        run.signal(signal.SIGKILL)
        run.wait()


if __name__ == "__main__":
    night.main()
