#!/usr/bin/env python3
"""Several simulated devices of unequal size and speed: the same results as the processor alone,
also when they run out of memory, hang, die or go away while they work.

The devices are commanded through files (gpu/devices/sim.h), and nothing here goes by the clock: a device
is let go for so many windows, and stands still in the last of them.
"""
import json
import os
import re
import signal
import sqlite3
import sys
import time
import unittest
import wave

import night

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../faults"))
import page  # noqa: E402

QUICK_RUN = os.environ.get("NIGHTSHIFT_QUICK_RUN", "")
FAKE_NVML = os.environ.get("NIGHTSHIFT_FAKE_NVML", "")
INTERPOSE = os.environ.get("NIGHTSHIFT_INTERPOSE", "")
NEVER = 3600000


def cut(source, path, seconds):
    """The first seconds of a recording: another content, and soon transcribed."""
    with wave.open(source) as whole, wave.open(path, "wb") as part:
        part.setparams(whole.getparams())
        part.writeframes(whole.readframes(int(seconds * whole.getframerate())))


class Devices(night.Night):
    recordings = 8
    reference = {}  # by number of recordings: what the processor alone yields

    def setUp(self):
        super().setUp()
        self.control = os.path.join(self.dir, "control")
        os.mkdir(self.control)
        for i in range(self.recordings):
            cut(os.path.join(night.SAMPLES, "01_en_short.wav"),
                os.path.join(self.archive, f"{i:02}.wav"), 2 + i / 2)
        self.enqueue()

    def results(self):
        rows = self.sql("SELECT * FROM results")
        return [(os.path.basename(row[0]), *row[1:]) for row in rows]

    def expected(self):
        """The same archive through the processor alone, in a catalog of its own, once."""
        if self.recordings not in Devices.reference:
            kept, self.catalog = self.catalog, os.path.join(self.dir, "reference.db")
            self.enqueue()
            self.run_to_end("--devices=cpu")
            Devices.reference[self.recordings] = self.results()
            self.catalog = kept
        return Devices.reference[self.recordings]

    # -- the devices

    def say(self, index, command):
        """Commands a device; it obeys at its next operation."""
        path = os.path.join(self.control, f"sim-{index}")
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(command + "\n")
        os.rename(path + ".new", path)

    def obeyed(self, index):
        return not os.path.exists(os.path.join(self.control, f"sim-{index}"))

    def sim(self, devices, **more):
        return {"NIGHTSHIFT_DEVICES": devices, "NIGHTSHIFT_SIM_CONTROL": self.control,
                "NIGHTSHIFT_TUNE": "0", **more}

    def start(self, devices, still_ms=NEVER, aside_ms=NEVER, slots=1):
        run = night.Running([QUICK_RUN, night.PROGRAM, self.catalog, str(still_ms), str(aside_ms),
                             str(slots)],
                            self.env(**self.sim(devices)), self.dir)
        self.running.append(run)
        return run

    def shards_of(self, index):
        return self.sql("SELECT count(*) FROM shard WHERE device = ?", f"sim:{index}")[0][0]

    def events(self, kind, index):
        return [row[0] for row in self.sql(
            "SELECT text FROM event WHERE kind = ? AND device = ?", kind, f"sim:{index}")]

    def let_each_work(self, run, count, slots=1):
        """Each device in turn does one recording, and stands still with others in its hands."""
        for i in range(count):
            # Until all its slots are filled it may hold back what is done; and where recordings come slowly they are
            # not filled by these: one more window then, until there is a result.
            self.say(i, f"hang in {slots + 2}")
            self.more_at, self.more = time.monotonic() + 10, 1
            self.wait_for(f"a result of device {i}", lambda i=i: self.has_worked(i), run)

    def has_worked(self, index):
        if self.shards_of(index) > 0:
            return True
        if time.monotonic() > self.more_at:
            self.say(index, f"hang in {self.more}")  # another number is another command
            self.more_at, self.more = time.monotonic() + 5, 3 - self.more
        return False

    def hold(self, count):
        for i in range(count):
            self.say(i, "hang")

    def let_go(self, count):
        for i in range(count):
            self.say(i, "ok")

    def finish(self, run):
        self.assertEqual(0, run.wait(), run.said())
        self.assertEqual([], self.sql("SELECT * FROM failures"))
        self.assertEqual([], self.sql("SELECT * FROM task WHERE state <> 'done'"))
        self.assertEqual(self.expected(), self.results())
        self.healthy()


class Sharing(Devices):
    recordings = 12  # each does some and holds some: enough must be left for the last

    def test_unequal_devices_share_the_work(self):
        self.hold(3)
        run = self.start("sim:1GiB,sim:8GiB*0.7,sim:2GiB*0.5,sim:1MiB")
        self.let_each_work(run, 3)
        self.let_go(3)
        self.finish(run)
        # The fourth is too small, says so once, and the others go on.
        self.assertEqual(0, self.shards_of(3))
        self.assertEqual(1, len(self.events("worker-aside", 3)))
        self.assertRegex(self.events("worker-aside", 3)[0],
                         "disabled: the model does not fit: .*out of memory")
        self.assertRegex(self.sql("SELECT text FROM event WHERE kind = 'run-end'")[0][0],
                         r"sim:0 used 0\.\d\d GB of 1\.07, predicted 0\.\d\d; sim:1 used .* of 8\.59")

    def test_too_small_everywhere_is_said_before_anything_is_lost(self):
        answer = self.run_to_end(status=None, env=self.sim("sim:1MiB,sim:2MiB"))
        self.assertNotEqual(0, answer.status)
        self.assertRegex(answer.err, "no worker is left: the model does not fit")
        self.assertEqual([("pending", 0)],
                         self.sql("SELECT DISTINCT state, attempts FROM task"))


class Faults(Devices):
    def test_death_loses_nothing(self):
        self.hold(2)
        run = self.start("sim:1GiB,sim:4GiB")
        self.let_each_work(run, 2)
        self.say(0, "die once")
        self.wait_for("it is dead", lambda: self.obeyed(0), run)
        self.let_go(2)
        self.finish(run)
        self.assertRegex(self.events("worker-died", 0)[0], "signal 9")
        self.assertEqual([], self.events("worker-died", 1))

    def test_lack_of_memory_halves_what_is_taken_at_once(self):
        self.hold(1)
        run = self.start("sim:1GiB", slots=4)
        self.let_each_work(run, 1, slots=4)
        self.say(0, "oom 2")
        self.wait_for("memory ran out", lambda: self.obeyed(0), run)
        self.finish(run)
        self.assertEqual([], self.events("worker-died", 0))
        self.assertGreaterEqual(len(self.events("tuned", 0)), 1)
        self.assertRegex(self.events("tuned", 0)[-1], "goes on with (1 window|2 windows) in flight")

    def test_what_hangs_is_restarted(self):
        self.hold(2)
        run = self.start("sim:1GiB,sim:4GiB", still_ms=15000)
        # It may be both of them: all are let go when the first one was given up.
        self.let_each_work(run, 1)
        self.wait_for("it is given up", lambda: self.events("worker-died", 0), run)
        self.assertRegex(self.events("worker-died", 0)[0], "made no progress")
        self.let_go(2)
        self.finish(run)

    def test_a_device_that_is_gone_comes_back(self):
        self.hold(2)
        run = self.start("sim:1GiB,sim:4GiB", aside_ms=500)
        self.let_each_work(run, 2)
        before = self.shards_of(0)
        self.say(0, "gone")
        self.wait_for("it is aside", lambda: self.events("worker-aside", 0), run)
        self.assertRegex(self.events("worker-aside", 0)[0], "not there any more")
        self.say(0, "ok")
        self.wait_for("it is back", lambda: self.events("worker-back", 0), run)
        self.wait_for("it works", lambda: self.shards_of(0) > before, run)
        self.let_go(2)
        self.finish(run)

    def test_all_gone_ends_the_run_and_the_next_goes_on(self):
        self.hold(2)
        run = self.start("sim:1GiB,sim:4GiB")
        self.let_each_work(run, 2)
        done = self.sql("SELECT task_id, seq, done_at FROM shard ORDER BY 1, 2")
        self.say(0, "gone")
        self.say(1, "gone")
        self.assertNotEqual(0, run.wait())
        self.assertRegex(run.said(), "no worker is left: .*not there any more")
        self.assertEqual([], self.sql("SELECT * FROM failures"))
        self.let_go(2)
        self.finish(self.start("sim:1GiB,sim:4GiB"))
        kept = self.sql("SELECT task_id, seq, done_at FROM shard ORDER BY 1, 2")
        self.assertLessEqual(set(done), set(kept))


class Stuck(Devices):
    """A worker that SIGKILL does not end, as one that waits in the driver for a card which left the
    bus: it is stopped, and the scheduler's SIGKILL is lost on its way (tests/faults/interpose.c)."""

    def setUp(self):
        super().setUp()
        self.page = page.Page(os.path.join(self.dir, "page"), self.dir)
        self.addCleanup(self.page.close)

    def run_with_a_stuck_worker(self, devices):
        """A run whose first worker gets stuck with work in its hands; its pid, too."""
        self.hold(1)
        run = self.start_run("--worker-silence=2s", "--verbose", "--slots=1", env=self.sim(
            devices, LD_PRELOAD=INTERPOSE, NIGHTSHIFT_FAULT_PAGE=self.page.path))
        # Stopped before it is ready it would be waited for as one that loads its model.
        self.wait_for("it is ready", lambda: re.search(r"worker (1 \(sim:0\)|sim:0) is ready",
                                                       run.said()), run)
        pid, = [pid for pid in run.descendants("worker") if self.device_of(pid) == "sim:0"]
        self.wait_for("it works", lambda: self.leased_to(pid), run)
        self.page.want(page.Fault("night", "scheduler", "signal", 1, "fail", lasting=page.EVER))
        os.kill(pid, signal.SIGSTOP)
        return run, pid

    @staticmethod
    def device_of(pid):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")[3].decode()

    @staticmethod
    def leased_to(pid):
        """A decoder of its own has been started."""
        return night.descendants(pid)

    def test_its_work_goes_to_the_others(self):
        run, pid = self.run_with_a_stuck_worker("sim:1GiB,sim:4GiB")
        self.finish(run)
        self.assertEqual(0, self.shards_of(0))
        self.assertGreater(self.page.struck, 0)
        [died] = self.events("worker-died", 0)
        self.assertRegex(died, rf"it did not answer for \d+ s, and its process \(pid {pid}\) cannot be ended")
        [lost] = self.events("worker-aside", 0)
        self.assertRegex(lost, "is disabled: its device is lost: it did not answer")
        self.assertEqual([], self.events("worker-died", 1))
        self.assertIn("its device is lost", " ".join(self.nightshift("report", status=0).out.split()))

    def test_the_device_is_back_when_it_has_ended(self):
        run, pid = self.run_with_a_stuck_worker("sim:1GiB,sim:4GiB")
        self.hold(2)
        self.wait_for("it is lost", lambda: self.events("worker-aside", 0), run)
        os.kill(pid, signal.SIGKILL)
        self.let_go(2)
        self.wait_for("it works again", lambda: self.shards_of(0) > 0, run)
        self.finish(run)
        self.assertEqual(1, len(self.events("worker-back", 0)))

    def test_the_run_ends_without_it(self):
        run, _ = self.run_with_a_stuck_worker("sim:1GiB")
        run.signal(signal.SIGTERM)
        began = time.monotonic()
        self.assertEqual(night.TEMPFAIL, run.wait(), run.said())
        self.assertLess(time.monotonic() - began, 25, run.said())
        self.assertGreater(self.page.struck, 0)
        self.assertEqual([], self.sql("SELECT * FROM failures"))
        self.assertEqual([(8, 0)], self.sql("SELECT count(*), max(attempts) FROM task WHERE state <> 'done'"))

    def test_the_last_device_ends_the_run(self):
        run, _ = self.run_with_a_stuck_worker("sim:1GiB")
        self.assertNotEqual(0, run.wait(), run.said())
        self.assertRegex(run.said(), "no worker is left: its device is lost: .*cannot be ended")
        self.assertEqual([], self.sql("SELECT * FROM failures"))


class Tuning(Devices):
    recordings = 2

    def ready(self, answer):
        return [line for line in answer.err.splitlines() if " is ready: " in line]

    def test_what_was_measured_is_remembered(self):
        env = self.sim("sim:1GiB", NIGHTSHIFT_TUNE="")
        first = self.run_to_end("--verbose", env=env)
        self.assertRegex(self.ready(first)[0], r"x real time, measured")
        row = self.sql("SELECT * FROM tuning")
        self.assertEqual(1, len(row))
        device, rate, predicted, peak, slots = self.sql(
            "SELECT device_id, rate, predicted_bytes, peak_bytes, slots FROM tuning")[0]
        self.assertEqual("sim:1GiB", device)
        self.assertGreater(rate, 0)
        self.assertGreaterEqual(slots, 1)
        self.assertGreater(predicted, 0)
        self.assertGreater(peak, 0)
        self.assertLess(peak, 0.9 * 2**30)
        self.assertEqual(self.expected(), self.results())
        cut(os.path.join(night.SAMPLES, "01_en_short.wav"),
            os.path.join(self.archive, "more.wav"), 1.5)
        self.enqueue()
        # The plan and the worker foretell the same, and the plan knows what is remembered.
        plan = self.nightshift("plan", "--json", status=0, env=env)
        planned = json.loads(plan.out)["stages"][0]["devices"][0]
        self.assertEqual((slots, True, predicted),
                         (planned["slots"], planned["remembered"], planned["predicted_bytes"]))
        second = self.run_to_end("--verbose", env=env)
        self.assertRegex(self.ready(second)[0], r"x real time, as remembered")
        self.assertEqual([(slots, rate)], self.sql("SELECT slots, rate FROM tuning"))
        # People see how full the device got, against what was foretold.
        self.assertRegex(" ".join(self.nightshift("status", status=0).out.split()),
                         r"Devices transcribe on sim:1GiB, \w+, beam_size=5 best_of=5: \d+ slots?, encoding 1 at once, .* x real time; "
                         r"memory [\d.]+ MB of [\d.]+ MB predicted")
        told = self.json("status")["devices"]
        self.assertEqual([("sim:1GiB", slots)], [(d["device_id"], d["slots"]) for d in told])
        self.assertLess(abs(told[0]["peak_bytes"] / told[0]["predicted_bytes"] - 1), 0.1)
        # Beams are another burden, and measured for themselves.
        usual, other = "beam_size=5 best_of=5", "beam_size=3 best_of=5 word_timestamps"
        self.enqueue(self.archive, "--beam-size=3", "--word-timestamps", "--again")
        third = self.run_to_end("--verbose", env=env)
        self.assertRegex(self.ready(third)[0], r"x real time, measured")
        told = {d["decoding"]: d for d in self.json("status")["devices"]}
        self.assertEqual({usual, other}, set(told))
        self.assertEqual(rate, told[usual]["times_real_time"])
        for d in told.values():
            self.assertLess(abs(d["peak_bytes"] / d["predicted_bytes"] - 1), 0.1, d)
        self.assertIn("sim:1GiB, %s, %s: " % (told[other]["precision"], other),
                      " ".join(self.nightshift("status", status=0).out.split()))
        # It is measured anew as people are told to have it.
        with open(os.path.join(night.SOURCE, "docs", "how-to", "fix-problems.md"), encoding="utf-8") as page:
            [forget] = re.findall(r"measure again, while no run is on:\n\n```sh\nsqlite3 nightshift.db '(.*)'\n",
                                  page.read())
        db = sqlite3.connect(self.catalog)
        with db:
            db.execute("UPDATE tuning SET slots = 1, oom_count = 1")
        self.assertRegex(" ".join(self.nightshift("status", status=0).out.split()),
                         "1 slot, encoding 1 at once, .*; reduced 1 time for lack of memory")
        with db:
            db.execute(forget)
        db.close()
        cut(os.path.join(night.SAMPLES, "01_en_short.wav"), os.path.join(self.archive, "new.wav"), 1.7)
        self.enqueue()
        self.assertRegex(self.ready(self.run_to_end("--verbose", env=env))[0], r"x real time, measured")


class Seen(Devices):
    """What the driver sees: through a libnvidia-ml.so.1 that is none (tests/unit/gpu/fake_nvml.c)."""
    recordings = 2

    def setUp(self):
        super().setUp()
        self.nvml = os.path.join(self.dir, "nvml.txt")

    def see(self, mode, *gpus):
        with open(self.nvml + ".new", "w", encoding="ascii") as file:
            file.write("\n".join((mode, *gpus)) + "\n")
        os.rename(self.nvml + ".new", self.nvml)

    def seen(self, devices="sim:1GiB", kind="all"):
        return self.sim(devices, LD_LIBRARY_PATH=os.path.join(FAKE_NVML, f"nvml_{kind}"), FAKE_NVML=self.nvml)

    def test_it_is_kept_and_shown(self):
        # The second device stands first in the driver's order.
        self.see("well", "sim:1 20 2000000000 8000000000 50 90000 0", "sim:0 80 1000000000 4000000000 75 300000 0")
        metrics = os.path.join(self.dir, "night.prom")
        self.run_to_end("--metrics", metrics, env=self.seen("sim:1GiB,sim:1GiB"))
        # A night of a moment may be over before the first look.
        for device, celsius, used in self.sql("SELECT device, temperature_c, used_bytes FROM run_sample WHERE seen_ms > 0"):
            self.assertEqual((75, 1000000000) if device == "sim:0" else (50, 2000000000), (celsius, used))
        with open(metrics, encoding="ascii") as file:
            self.assertIn('nightshift_device_left{device="sim:0"} 0\n', file.read())

    def test_it_waits_while_others_compute(self):
        self.see("well", "sim:0 93 3000000000 4000000000 74 388000 1 2000000000:93")
        run = self.start_run("--idle", "--metrics", os.path.join(self.dir, "night.prom"), env=self.seen())
        self.wait_for("the note", lambda: "waiting: others use sim:0" in " ".join(self.nightshift("status").out.split()),
                      run)
        out = " ".join(self.nightshift("status", status=0).out.split())
        self.assertIn("sim:0: in use by others", out)
        self.assertIn("load 93 %, 74 \u00b0C, 388 W, memory 3.0 GB of 4.0 GB in use", out)
        device, = self.json("status")["run"]["devices"]
        self.assertEqual((True, False, 93, 74, 388000, 3000000000, 4000000000), tuple(device[key] for key in (
            "left_to_others", "ready", "load_percent", "temperature_c", "power_mw", "used_bytes", "total_bytes")))

        path = os.path.join(self.dir, "night.prom")

        def metrics():
            with open(path, encoding="ascii") as file:
                return file.read()
        self.wait_for("the metrics", lambda: os.path.exists(path) and 'nightshift_device_left{device="sim:0"} 1\n' in metrics(), run)
        for line in ("load_ratio{D} 0.93", "temperature_celsius{D} 74", "power_watts{D} 388",
                     "memory_used_bytes{D} 3000000000", "memory_size_bytes{D} 4000000000"):
            self.assertIn("nightshift_device_" + line.replace("D", 'device="sim:0"') + "\n", metrics())
        self.assertIn("# TYPE nightshift_device_energy_joules_total counter\n", metrics())
        # Of a moment, kept in whole milliseconds, the load would be another one.
        self.wait_for("a second of it", lambda: float(re.search(
            r'joules_total\{device="sim:0"\} (\S+)', metrics()).group(1)) >= 388, run)
        self.assertEqual([(0,)], self.sql("SELECT count(*) FROM shard"))
        run.signal()
        self.assertEqual(night.TEMPFAIL, run.wait())
        self.assertEqual([(74, 3000000000, 1, 1)], self.sql(
            "SELECT temperature_c, used_bytes, left_ms > 0, round(100.0 * load_ms / seen_ms) = 93 FROM run_sample"))
        report = " ".join(self.nightshift("report", status=0).out.split())
        self.assertIn("load 93 %; up to 74 \u00b0C;", report)
        self.assertIn("left to others for", report)

    def test_how_well_it_is(self):
        self.see("well", "sim:0 93 3000000000 4000000000 94 388000 1 2000000000:93",
                 "+sim:0 64 0 2 0 0 0 8 16 79")
        run = self.start_run("--idle", env=self.seen())
        self.wait_for("it is slow", lambda: self.events("device-slow", 0), run)
        out = " ".join(self.nightshift("status", status=0).out.split())
        self.assertIn("slowed down: it is too hot, 2 uncorrected memory errors, 8 of 16 PCIe lanes", out)
        device, = self.json("status")["run"]["devices"]
        self.assertIn("it is too hot", device["health"])
        self.see("well", "sim:0 93 3000000000 4000000000 94 388000 1 2000000000:93",
                 "+sim:0 64 0 5 0 0 0 8 16 79")
        self.wait_for("more errors", lambda: self.events("device-memory", 0), run)
        run.signal()
        self.assertEqual(night.TEMPFAIL, run.wait())
        self.assertRegex(run.said(), "warning: sim:0 is slowed down: it is too hot \\(94 \u00b0C\\)")
        report = " ".join(self.nightshift("report", status=0).out.split())
        for part in ("sim:0 is slowed down: it is too hot", "3 errors of its memory that ECC could not correct (5 since",
                     "sim:0 uses 8 of 16 PCIe lanes"):
            self.assertEqual(1, report.count(part), report)
        # What came before the catalog was open is the driver's to keep; --idle looks then.
        self.assertLessEqual(len(self.events("device-xid", 0)), 1)

    def test_an_error_that_the_driver_reports(self):
        self.hold(1)
        self.see("well", "sim:0 93 3 4 74 388000 0")
        run = self.start_run(env=self.seen())
        self.wait_for("it is seen", lambda: "load 93 %" in " ".join(self.nightshift("status").out.split()), run)
        self.see("well", "sim:0 93 3 4 74 388000 0", "+sim:0 0 0 0 0 0 0 0 0 79 13")
        self.wait_for("it is told", lambda: len(self.events("device-xid", 0)) == 2, run)
        self.let_go(1)
        self.assertEqual(0, run.wait(), run.said())
        self.assertIn("sim:0: the driver reported error Xid 79: it fell off the bus",
                      " ".join(self.nightshift("report", status=0).out.split()))
        self.assertEqual(self.expected(), self.results())

    def test_it_says_what_is_missing(self):
        self.see("noinit")
        for kind, words in (("none", "no NVML that this program knows"), ("all", "Driver Not Loaded")):
            answer = self.run_to_end("--idle", env=self.seen(kind=kind), status=night.UNAVAILABLE)
            self.one_sentence(answer, words.lower(), "libnvidia-ml.so.1")
            self.assertEqual([(0,)], self.sql("SELECT count(*) FROM run"))
        self.one_sentence(self.run_to_end("--idle", "--devices=cpu", status=night.USAGE), "no device of this run is one")
        self.run_to_end(env=self.seen())  # without --idle nobody misses it
        self.assertEqual([(1, None)], self.sql("SELECT seen_ms = 0, temperature_c FROM run_sample"))
        self.assertNotIn("GPUs", self.nightshift("status", status=0).out)

    def test_a_driver_that_hangs_or_crashes(self):
        for mode in ("hang", "crash"):
            self.see(mode, "sim:0 93 3 4 74 388000 0")
            self.run_to_end(env=self.seen())
        self.assertEqual(self.expected(), self.results())

    def test_memory_is_bounded(self):
        for option, words in (("2G", "more than sim:0 has"), ("0%", "no share or size"), ("sim:3=1M", "no device")):
            self.one_sentence(self.run_to_end(f"--device-memory={option}", env=self.sim("sim:1GiB"),
                                              status=night.USAGE), words)
        answer = self.run_to_end("--device-memory=1M", env=self.sim("sim:1GiB"), status=None)
        self.assertIn("would pass the limit of 1048576", answer.err)
        self.run_to_end("--device-memory=sim:0=64M", env=self.sim("sim:1GiB"))
        self.assertEqual(self.expected(), self.results())
        (most,), = self.sql("SELECT max(memory_bytes) FROM run_sample")
        self.assertLessEqual(most, 64 << 20)
        self.assertEqual([(0,)], self.sql("SELECT count(*) FROM tuning"))  # not of this bound
        self.one_sentence(self.run_to_end("--devices=cpu,cpu", "--device-memory=cpu=0GB", status=night.USAGE), "no share")


if __name__ == "__main__":
    night.main()
