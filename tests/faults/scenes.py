"""What the faults befall: commands of the program, each in a folder of its own that is a copy of the
scene's, with the catalog as earlier commands left it. The recordings are the same for all."""
import os
import select
import shutil
import signal
import subprocess
import sys
import time
import wave

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
import media_kit  # noqa: E402
import night  # noqa: E402

import rows  # noqa: E402


class Ended:
    def __init__(self, command, status, said, pid):
        self.command, self.status, self.said, self.pid = command, status, said, pid

    def __str__(self):
        return f"$ nightshift {' '.join(self.command)}   (status {self.status})\n{self.said}"


def environment(directory, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HF_", "NIGHTSHIFT_"))}
    env.update(HOME=os.path.join(directory, "home"), TMPDIR=os.path.join(directory, "tmp"),
               NIGHTSHIFT_CATALOG=os.path.join(directory, "catalog.db"), NIGHTSHIFT_DEVICES="cpu",
               NO_COLOR="1", LC_ALL="C.UTF-8", TZ="UTC", OMP_NUM_THREADS="1",
               OMP_WAIT_POLICY="PASSIVE", **more)
    return env


def start(directory, command, **more):
    """The program with its session of its own; what it says goes into the file `said`."""
    with open(os.path.join(directory, "said"), "wb") as said:
        return subprocess.Popen([night.PROGRAM, *command], stdin=subprocess.DEVNULL, stdout=said,
                                stderr=said, env=environment(directory, **more), cwd=directory,
                                start_new_session=True)


def finish(directory, command, process, each=lambda: None, step_s=None):
    """Waits for it; each() is called about every step_s. A command that hangs has the status None."""
    fd, deadline = os.pidfd_open(process.pid), time.monotonic() + night.PATIENCE_S
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while not poll.poll((step_s or 1) * 1000) and time.monotonic() < deadline:
        each()
    os.close(fd)
    hangs = process.poll() is None
    if hangs:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with open(os.path.join(directory, "said"), "rb") as said:
        text = said.read().decode("utf-8", "replace")
    return Ended(command, None if hangs else process.returncode, text, process.pid)


def call(directory, command):
    return finish(directory, command, start(directory, command))


def must(directory, command):
    ended = call(directory, command)
    if ended.status != 0:
        raise AssertionError(f"without any fault\n{ended}")


class Scene:
    """`command` is what the fault befalls, `again` what then brings it to its end. `files`: a folder
    whose files are compared, too, catalogs among them as rows."""

    def __init__(self, name, command, again, files=None):
        self.name, self.files = name, files
        self.command_of, self.again_of = command, again
        self.template = self.expected = self.counts = self.events = self.root = None

    def command(self, archive):
        return [word.format(archive=archive) for word in self.command_of]

    def again(self, archive):
        return [[word.format(archive=archive) for word in words] for words in self.again_of]

    def end_of(self, directory):
        """What is compared: the catalog's rows, and the files."""
        found = rows.rows_of(os.path.join(directory, "catalog.db"))
        if self.files:
            for where, _, names in os.walk(os.path.join(directory, self.files)):
                for name in names:
                    path = os.path.join(where, name)
                    shown = os.path.relpath(path, directory)
                    if name.endswith(".db"):
                        found.update((f"{shown}: {table}", content) for table, content in
                                     rows.rows_of(path).items())
                    # Those are of an export that was killed; these tell where the catalog is.
                    elif not name.endswith((".tmp", "-shm", "-wal", ".lock")) and \
                            not name.startswith("part-"):
                        with open(path, "rb") as file:
                            found[shown] = ("bytes",), [repr(file.read())]
        return found


RUN = ["run", "--quiet"]
SHORT_SHARDS = RUN + ["--shard", "30s"]
ENQUEUE = ["enqueue", "--model=whisper-nano", "{archive}"]
PEOPLE = ["enqueue", "--model=whisper-nano", "--diarize=diarization-nano", "{archive}"]
CORRECT = ["correct", "--at", "0:01", "--by", "somebody", "{archive}/a.wav", "farmer from the north."]
EXPORT = ["export", "-f", "srt", "-f", "json", "-o", "out"]
SPLIT = ["split", "--into", "2", "--output", "parts"]
PART = ["run", "--quiet", "--part", "parts/part-0000.db"]
OTHER_PART = ["run", "--quiet", "--part", "parts/part-0001.db"]
MERGE = ["merge", "catalog.db", "parts"]


def all_scenes():
    """(scene, the commands that make its folder, archive)"""
    return [
        (Scene("begin", ENQUEUE, [ENQUEUE]), [], "few"),
        (Scene("night", RUN, [RUN]), [ENQUEUE], "few"),
        (Scene("people", RUN, [RUN]), [PEOPLE], "few"),
        (Scene("shards", SHORT_SHARDS, [SHORT_SHARDS]), [ENQUEUE], "long"),
        (Scene("correct", CORRECT, [CORRECT]), [ENQUEUE, RUN], "few"),
        (Scene("export", EXPORT, [EXPORT], "out"), [ENQUEUE, RUN], "few"),
        (Scene("split", SPLIT, [["rm", "parts"], SPLIT], "parts"), [ENQUEUE], "few"),
        (Scene("part", PART, [PART, MERGE]), [ENQUEUE, SPLIT, OTHER_PART], "few"),
        (Scene("merge", MERGE, [MERGE]), [ENQUEUE, SPLIT, PART, OTHER_PART], "few"),
    ]


def new_folder(path):
    shutil.rmtree(path, ignore_errors=True)
    for name in ("home", "tmp"):
        os.makedirs(os.path.join(path, name))


def bring_recordings(archive):
    """few: one of a second, one in an archive. long: a minute, of three shards of 30 s."""
    sample = os.path.join(night.SAMPLES, "01_en_short.wav")
    with wave.open(sample) as file:
        parameters = file.getparams()
    frames = media_kit.wav_frames(sample)
    os.makedirs(os.path.join(archive, "few"))
    os.makedirs(os.path.join(archive, "long"))

    def put(path, data):
        with wave.open(path, "wb") as out:
            out.setparams(parameters)
            out.writeframes(data)

    put(os.path.join(archive, "few", "a.wav"), frames[:64000])
    inner = os.path.join(archive, "b.wav")
    put(inner, frames[64000:128000])
    shutil.make_archive(os.path.join(archive, "few", "box"), "gztar", archive, "b.wav")
    os.remove(inner)
    put(os.path.join(archive, "long", "long.wav"), (frames + bytes(32000)) * 9)


def do(directory, words):
    if words[0] == "rm":  # what the command would not write over
        shutil.rmtree(os.path.join(directory, words[1]), ignore_errors=True)
        return Ended(words, 0, "", 0)
    return call(directory, words)
