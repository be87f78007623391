"""What the end-to-end tests share: a night of its own for each case, and the program that runs it.

$NIGHTSHIFT is the program, $NIGHTSHIFT_SOURCE_DIR the tree, $NIGHTSHIFT_SHARED the folder of models
and samples that stay outside it (it may be missing).
"""
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import demo_model  # noqa: E402

SOURCE = os.environ.get("NIGHTSHIFT_SOURCE_DIR",
                        os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))
PROGRAM = os.environ.get("NIGHTSHIFT", os.path.join(SOURCE, "build/release/tools/nightshift"))
SHARED = os.environ.get("NIGHTSHIFT_SHARED", os.path.join(SOURCE, "../shared"))
SAMPLES = os.path.join(SOURCE, "tests/samples")
DEMO = os.path.join(SOURCE, "tools/demo-recordings")
MODEL = os.path.join(SOURCE, "workers/models/whisper-nano")
USUAL = "openai/whisper-tiny"

# sysexits.h, as base/err.c uses it.
USAGE, DATA, NOINPUT, UNAVAILABLE, SOFTWARE, OSERR = 64, 65, 66, 69, 70, 71
CANTCREAT, IOERR, TEMPFAIL, PROTOCOL, NOPERM, CONFIG = 73, 74, 75, 76, 77, 78

# A command that takes longer than this hangs. Far above what any takes, also with sanitizers.
PATIENCE_S = float(os.environ.get("NIGHTSHIFT_TEST_PATIENCE", "280"))


class Answer:
    """What a command said, and with which status it left."""

    def __init__(self, args, status, out, err, seconds):
        self.args, self.status, self.out, self.err, self.seconds = args, status, out, err, seconds

    def __str__(self):
        return (f"$ nightshift {' '.join(map(str, self.args))}   (status {self.status}, "
                f"{self.seconds:.1f} s)\n{self.out}{self.err}")

    @property
    def sentences(self):
        """Lines on standard error that are for the user: no log line of a lower level."""
        return [line for line in self.err.splitlines() if line.strip()]


class Night(unittest.TestCase):
    """One case: an own directory with an archive, a catalog and a home that is nobody's."""

    maxDiff = None
    names_model = True  # of an enqueue that would have to choose one: the demo's
    usual = {}  # of the environment, where one is here that is taken by itself

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="night-", dir=os.environ.get("NIGHTSHIFT_TEST_DIR"))
        self.addCleanup(self.clean)
        self.archive = os.path.join(self.dir, "archive")
        self.catalog = os.path.join(self.dir, "catalog.db")
        os.mkdir(self.archive)
        os.mkdir(os.path.join(self.dir, "home"))
        self.running = []
        began = time.monotonic()
        self.addCleanup(lambda: print(f"    {time.monotonic() - began:.1f} s", end=" ", flush=True))

    def clean(self):
        for run in self.running:
            run.stop()
        if sys.exc_info()[0] is None or not os.environ.get("NIGHTSHIFT_TEST_KEEP"):
            shutil.rmtree(self.dir, ignore_errors=True)

    def env(self, **more):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("XDG_", "HF_", "NIGHTSHIFT_"))}
        env.update(HOME=os.path.join(self.dir, "home"), NIGHTSHIFT_CATALOG=self.catalog,
                   NIGHTSHIFT_DEVICES="cpu",  # the same on a machine with a GPU
                   NO_COLOR="1", LC_ALL="C.UTF-8", TZ="UTC")
        env.update(self.usual)
        env.update({k: str(v) for k, v in more.items()})
        return env

    def have_a_usual_model(self):
        """The demo's, under a name of OpenAI's."""
        hub = os.path.join(self.dir, "hub")
        demo_model.as_openais(hub, MODEL, USUAL)
        self.names_model, self.usual = False, {"HF_HUB_CACHE": hub}

    # -- the program

    def nightshift(self, *args, status=None, env=None, preexec=None, cwd=None):
        """Runs a command to its end. status None: any."""
        began = time.monotonic()
        if self.names_model:
            args = demo_model.named(args, self.catalog, cwd or self.dir)
        done = subprocess.run([PROGRAM, *args], stdin=subprocess.DEVNULL, capture_output=True,
                              env=self.env(**(env or {})), timeout=PATIENCE_S, preexec_fn=preexec,
                              cwd=cwd or self.dir)
        answer = Answer(args, done.returncode, done.stdout.decode("utf-8", "strict"),
                        done.stderr.decode("utf-8", "strict"), time.monotonic() - began)
        self.assertGreaterEqual(answer.status, 0, f"it died of a signal\n{answer}")
        if status is not None:
            self.assertEqual(status, answer.status, f"\n{answer}")
        return answer

    def enqueue(self, *paths, status=0, **kw):
        return self.nightshift("enqueue", *(paths or [self.archive]), status=status, **kw)

    def run_to_end(self, *options, status=0, **kw):
        return self.nightshift("run", *options, status=status, **kw)

    def start_run(self, *options, env=None):
        run = Running([PROGRAM, "run", *options], self.env(**(env or {})), self.dir)
        self.running.append(run)
        return run

    def wait_for(self, what, true, run=None):
        """Until true() is; fails when it never is, or when the run that should make it so ended."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            value = true()
            if value:
                return value
            if run is not None and run.process.poll() is not None:
                value = true()
                if value:
                    return value
                self.fail(f"the run ended before {what}\n{run.said()}")
            time.sleep(0.02)
        self.fail(f"waited {PATIENCE_S:.0f} s in vain: {what}" + (run.said() if run else ""))

    # -- the catalog

    def sql(self, query, *values):
        """As a reader with the sqlite3 shell would ask."""
        connection = sqlite3.connect(f"file:{self.catalog}?mode=ro", uri=True, timeout=30)
        connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.close()

    def shell(self, query, *options):
        """Through the sqlite3 shell itself."""
        done = subprocess.run(["sqlite3", "-bail", *options, self.catalog], input=query,
                              capture_output=True, text=True, env=self.env(), timeout=PATIENCE_S)
        self.assertEqual((0, ""), (done.returncode, done.stderr), query)
        return done.stdout

    def json(self, *args):
        return json.loads(self.nightshift(*args, "--json", status=0).out)

    def healthy(self):
        """The catalog is whole: SQLite's own checks and the foreign keys."""
        self.assertEqual([("ok",)], self.sql("PRAGMA integrity_check"))
        self.assertEqual([], self.sql("PRAGMA foreign_key_check"))

    def text_of(self, name):
        """All that was heard in the recordings whose path or member ends so."""
        return " ".join(row[0] for row in self.sql(
            "SELECT text FROM transcript WHERE path LIKE ? ORDER BY path, start", "%" + name))

    # -- the archive

    def bring(self, sample, name=None):
        """A copy of a sample (or of any file) in the archive; returns its path."""
        path = os.path.join(self.archive, name or os.path.basename(sample))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        source = sample if os.path.isabs(sample) else os.path.join(SAMPLES, sample)
        shutil.copyfile(source, path)
        return path

    def one_sentence(self, answer, *words):
        """The command failed with one line that holds all the words, and says no more."""
        self.assertNotEqual(0, answer.status, f"\n{answer}")
        lines = answer.sentences
        self.assertTrue(lines, f"it said nothing\n{answer}")
        last = lines[-1]
        for word in words:
            self.assertRegex(last.lower(), word.lower(), f"\n{answer}")
        for line in lines:
            self.assertLessEqual(len(line), 600, f"\n{answer}")
        return last


class Running:
    """A `nightshift run` in the background."""

    def __init__(self, command, env, cwd):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=subprocess.STDOUT, env=env, cwd=cwd,
                                        start_new_session=True)

    def said(self):
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace")

    def wait(self):
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.stop()
            raise AssertionError("the run does not end\n" + self.said()) from None

    def signal(self, number=signal.SIGINT):
        self.process.send_signal(number)

    def descendants(self, role=None):
        """Pids of its workers ("worker"), their decoders ("decoder"), what forks these
        ("fork server"), or of all."""
        return [pid for pid, name in descendants(self.process.pid) if role in (None, name)]

    def stop(self):
        left = [pid for pid, _ in descendants(self.process.pid)] + [self.process.pid]
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.log.close()


def processes():
    """pid: (parent, command line as a list) of every process."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            with open(f"/proc/{name}/cmdline", "rb") as file:
                command = file.read().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if fields[0] != b"Z":
            found[int(name)] = (int(fields[1]), command)
    return found


def locked_in(pid):
    """Is it a decoder at work? What forks decoders has their command line."""
    try:
        with open(f"/proc/{pid}/limits", "rb") as file:
            return re.search(rb"^Max file size +0 ", file.read(), re.M) is not None
    except (FileNotFoundError, ProcessLookupError):
        return False


def descendants(pid):
    """(pid, role) of all processes below pid, role being the hidden subcommand that it was given."""
    table, found, parents = processes(), [], {pid}
    grew = True
    while grew:
        grew = False
        for child, (parent, command) in table.items():
            if parent in parents and child not in parents:
                parents.add(child)
                role = command[1].decode("utf-8", "replace") if len(command) > 1 else ""
                if role == "decoder" and not locked_in(child):
                    role = "fork server"
                found.append((child, role))
                grew = True
    return found


def needs(*tools):
    missing = [tool for tool in tools if not shutil.which(tool)]
    return unittest.skipIf(missing, f"{', '.join(missing)} not installed")


def main():
    """unittest's main, with ctest's status for "everything was skipped"."""
    if not os.access(PROGRAM, os.X_OK):
        print(f"the program is not there: {PROGRAM}", file=sys.stderr)
        sys.exit(1)
    result = unittest.main(module="__main__", exit=False, verbosity=2).result
    if not result.wasSuccessful():
        sys.exit(1)
    if result.testsRun and len(result.skipped) == result.testsRun:
        sys.exit(77)
    sys.exit(0)
