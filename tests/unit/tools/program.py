"""The program in a folder of its own, and short recordings: for the tests of its command line."""
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../common"))
import demo_model  # noqa: E402

PROGRAM = os.environ["NIGHTSHIFT"]


def wav(seed, samples=400):
    data = struct.pack("<h", seed) * samples
    return (b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt "
            + struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16)
            + b"data" + struct.pack("<I", len(data)) + data)


def count_shards(connection):
    """After shards were written by hand: their tasks know of them, as the program's own do."""
    connection.execute("UPDATE task SET (shards_done, audio_done_ms) = (SELECT count(*), ifnull(sum(end_ms - start_ms), 0) "
                       "FROM shard h WHERE h.task_id = task.task_id)")


def _number(n):
    """As few bytes as it needs: seven bits each, the lowest first."""
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _text(s):
    data = s.encode()
    return _number(len(data)) + data


def _packed(segments):
    """What store/fact_result.c writes of segments with their words."""
    out = b"\x01" + _number(len(segments))
    for start, end, text, language, logprob, attempts, speech, reason, words in segments:
        out += _number(start) + _number(end - start) + _text(text) + _text(language)
        out += struct.pack("<4f", logprob or 0, 0, 0, 0) + _number(attempts or 0)
        out += struct.pack("<f", -1 if speech is None else speech) + b"\0" + _text(reason) + _number(0)
        out += _number(len(words))
        for begin, until, word, probability in words:
            out += _number(begin) + _number(until - begin) + _text(word) + struct.pack("<f", probability)
    return out


def keep_results(connection):
    """After segments were written by hand: the results that they are read from."""
    for task, seq in connection.execute("SELECT DISTINCT task_id, seq FROM segment").fetchall():
        rows = connection.execute("SELECT segment_id, start_ms, end_ms, text, language, avg_logprob, attempts, speech_prob, "
                                  "reason FROM segment WHERE task_id = ? AND seq = ? ORDER BY idx", (task, seq)).fetchall()
        segments = [(*row[1:], connection.execute("SELECT start_ms, end_ms, text, probability FROM word WHERE segment_id = ? "
                                                  "ORDER BY idx", row[:1]).fetchall()) for row in rows]
        connection.execute("UPDATE shard SET result = ? WHERE task_id = ? AND seq = ?", (_packed(segments), task, seq))
    index_texts(connection)


def choose_newest(connection):
    """After tasks were written by hand: the newest of a recording's of a kind is its only one, as the program chooses."""
    connection.execute("UPDATE task SET (wanted, current) = (SELECT n.newest, n.newest FROM (SELECT t.task_id AS id, t.task_id = "
                       "max(t.task_id) OVER (PARTITION BY t.media_id, s.name) AS newest FROM task t JOIN stage s USING (stage_id)) n "
                       "WHERE n.id = task.task_id)")


def index_texts(connection):
    """After segments were written by hand, or which are current: the program keeps the index."""
    connection.execute("INSERT INTO segment_fts (segment_fts) VALUES ('rebuild')")


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.dir = os.path.realpath(tempfile.mkdtemp(dir="."))
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.archive = os.path.join(self.dir, "archive")
        os.mkdir(self.archive)
        self.catalog = os.path.join(self.dir, "c.db")

    def run_it(self, *args, status=None, preexec=None, **env):
        whole = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HF_", "NIGHTSHIFT_"))}
        whole.update({"HOME": self.dir, "NIGHTSHIFT_CATALOG": self.catalog, "NIGHTSHIFT_DEVICES": "cpu", **env})
        args = demo_model.named(args, whole["NIGHTSHIFT_CATALOG"], self.dir)
        done = subprocess.run([PROGRAM, *args], capture_output=True, env=whole, cwd=self.dir,
                              stdin=subprocess.DEVNULL, timeout=240, check=False, preexec_fn=preexec)
        done.out, done.err = done.stdout.decode(), done.stderr.decode()
        if status is not None:
            self.assertEqual(status, done.returncode, done.out + done.err)
        return done

    def sql(self, query):
        connection = sqlite3.connect(f"file:{self.catalog}?mode=ro", uri=True)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()
