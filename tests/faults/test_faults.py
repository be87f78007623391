#!/usr/bin/env python3
"""The Nth call of the C library fails, for growing N: in `enqueue`, in `run`, in a worker, in a
decoder. Whatever the command then does, it does not crash, it says a sentence when it gives up, the
catalog stays whole, and one more night without faults gives what an undisturbed one gives.

    test_faults.py LIBRARY [CASE]     LIBRARY: fail_nth.c as a shared object

$NIGHTSHIFT_FAULT_CALLS, a list with commas, chooses calls.
"""
import errno
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
import night  # noqa: E402

LIBRARY = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
CALLS = {"malloc": errno.ENOMEM, "write": errno.ENOSPC, "send": errno.EPIPE, "read": errno.EIO, "sync": errno.EIO,
         "open": errno.EMFILE, "truncate": errno.EIO, "rename": errno.EACCES,
         "socket": errno.EMFILE, "spawn": errno.EAGAIN, "mmap": errno.ENOMEM}
MOST = 8  # faults of one kind in one place


def nth():
    """1, 2, 5, 12, 30 ...: close together where commands begin, far apart where they repeat."""
    n = 1
    while True:
        yield n
        n = max(n + 1, n * 5 // 2)


class Faults(night.Night):
    def setUp(self):
        super().setUp()
        self.struck = os.path.join(self.dir, "struck")
        self.bring("01_en_short.wav", "a.wav")
        self.bring(os.path.join(night.DEMO, "reel.tar"), "reel.tar")

    def undisturbed(self):
        self.enqueue()
        self.run_to_end()
        self.expected = self.sql("SELECT * FROM results")
        self.assertTrue(self.expected)
        self.forget()

    def forget(self):
        for extra in ("", "-wal", "-shm", ".lock", ".sock"):
            if os.path.exists(self.catalog + extra):
                os.remove(self.catalog + extra)

    def with_fault(self, role, call, n, command):
        if os.path.exists(self.struck):
            os.remove(self.struck)
        answer = self.nightshift(*command, env={
            "LD_PRELOAD": LIBRARY, "NIGHTSHIFT_FAULT": f"{role}:{call}:{n}:{CALLS[call]}",
            "NIGHTSHIFT_FAULT_STRUCK": self.struck})  # fails when the command dies of a signal
        if answer.status != 0:
            self.assertTrue(answer.err.strip(), f"{role}: {call} {n}: it said nothing\n{answer}")
        return answer, os.path.exists(self.struck)

    def sweep(self, role, calls):
        self.undisturbed()
        for call in calls:
            said = {}
            for count, n in enumerate(nth()):
                if count == MOST:
                    break
                with self.subTest(role=role, call=call, n=n):
                    self.forget()
                    if role == "enqueue":
                        answer, struck = self.with_fault(role, call, n, ["enqueue", self.archive])
                    else:
                        self.enqueue()
                        answer, struck = self.with_fault(role, call, n, ["run"])
                    if not struck:
                        break
                    if answer.status:
                        said.setdefault(answer.sentences[-1], n)
                    self.enqueue()
                    self.run_to_end()
                    if self.sql("SELECT 1 FROM task WHERE state = 'failed'"):
                        self.nightshift("retry", status=0)
                        self.run_to_end()
                    self.healthy()
                    self.assertEqual(self.expected, self.sql("SELECT * FROM results"), str(answer))
            print(f"  {role}: {call}: {count} faults, to the {n}th call")
            for sentence, first in said.items():
                print(f"      {first}: {sentence}")

    def test_enqueue(self):
        self.sweep("enqueue", self.calls(call for call in CALLS if call != "send"))

    def test_run(self):
        self.sweep("run", self.calls(call for call in CALLS if call != "send"))

    def test_worker(self):
        self.sweep("worker", self.calls(["malloc", "socket", "spawn"]))

    def test_decoder(self):
        self.sweep("decoder", self.calls(["malloc", "send", "read", "mmap"]))

    def calls(self, all_of_them):
        wanted = os.environ.get("NIGHTSHIFT_FAULT_CALLS")
        return [call for call in all_of_them if not wanted or call in wanted.split(",")]


if __name__ == "__main__":
    if not os.path.exists(LIBRARY):
        sys.exit(__doc__)
    night.main()
