#!/usr/bin/env python3
"""Times of words for an archive that is transcribed without them: the text stays, nothing is decoded
again, and a catalog of anybody's makes nobody crash."""
import difflib
import os
import signal
import sqlite3
import statistics
import struct

import night

LONG, SHORT = "12_en_long_90s.mp3", "01_en_short.wav"
WORDLESS = ("--vad=off", "--quality=fast")
TEXT = ("SELECT path, text, segment.language, avg_logprob, no_speech_prob, compression_ratio, temperature, segment.attempts, "
        "speech_prob, reason FROM segment JOIN task USING (task_id) JOIN media USING (media_id) JOIN place USING "
        "(place_id) WHERE current ORDER BY path, segment.start_ms, segment_id")
TIMED = "SELECT count(*) FROM event WHERE kind = 'words-timed'"


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def packed(segments):
    """A shard's result as the catalog keeps it: (start, end, text) each."""
    out = b"\1" + varint(len(segments))
    for start, end, text in segments:
        text = text if isinstance(text, bytes) else text.encode()
        out += varint(start & (1 << 64) - 1) + varint(end - start & (1 << 64) - 1) + varint(len(text)) + text
        out += b"\2en" + struct.pack("<4f", -0.5, 0.1, 1.2, 0.0) + b"\1" + struct.pack("<f", -1) + b"\0\0\0\0"
    return out


class Told(night.Night):
    def setUp(self):
        super().setUp()
        self.bring(LONG)
        self.bring(SHORT)

    def transcribe(self, *more):
        self.enqueue("--model=whisper-nano", *WORDLESS, *more, self.archive)
        self.run_to_end("--shard=30s")

    def time_words(self, *options):
        said = self.enqueue(*(options or [*WORDLESS, "--word-timestamps"]), self.archive)
        self.assertIn("2 recordings are transcribed already: the text is kept, and its words get times.",
                      " ".join(said.out.split()))
        self.assertIn(": the words of 2 texts that are there get their times.", " ".join(said.out.split()))
        self.assertNotIn("2 to transcribe", said.out)
        return said

    def words(self):
        return self.sql("SELECT path, word, start_ms, end_ms FROM words ORDER BY path, start_ms, segment_id, idx")

    def rewrite(self, sql, *values):
        """As who has another program for it."""
        connection = sqlite3.connect(self.catalog)
        with connection:
            connection.execute(sql, values)
        connection.close()


class Timed(Told):
    def test_the_text_stays_and_the_words_are_where_they_are(self):
        self.transcribe()
        text = self.sql(TEXT)
        self.assertEqual([], self.words())
        self.time_words("--diarize=diarization-nano")
        self.run_to_end("--shard=30s")
        self.assertEqual([(2,)], self.sql(TIMED))
        parted = self.sql("SELECT count(*) FROM segment WHERE part > 0")[0][0]
        if not parted:
            self.assertEqual(text, self.sql(TEXT))
        after = self.words()
        self.assertEqual(" ".join(row[1] for row in text), " ".join(word for _, word, _, _ in after))
        self.assertEqual([], self.sql("SELECT * FROM segment s JOIN task USING (task_id) JOIN stage USING (stage_id) "
                                      "WHERE name = 'transcribe' AND current AND NOT EXISTS (SELECT 1 FROM word w "
                                      "WHERE w.segment_id = s.segment_id)"))
        self.assertGreater(self.sql("SELECT count(DISTINCT speaker) FROM words WHERE speaker <> ''")[0][0], 0)
        self.assertNotIn("made anew", self.enqueue(self.archive).out)
        self.assertIn("Nothing was waiting", self.run_to_end("--shard=30s").out)
        self.healthy()
        # As they are where they were there from the beginning.
        self.catalog = os.path.join(self.dir, "words.db")
        self.transcribe("--word-timestamps")
        want = self.words()
        match = difflib.SequenceMatcher(None, [w[:2] for w in after], [w[:2] for w in want], autojunk=False)
        off = [abs(after[a + k][2] - want[b + k][2]) for a, b, n in match.get_matching_blocks() for k in range(n)]
        print(f"{len(off)} of {len(want)} words, begin off by {statistics.median(off)} ms, "
              f"90 % by {sorted(off)[len(off) * 9 // 10]} ms", end=" ")
        self.assertGreater(len(off), len(want) * 9 // 10)
        self.assertLessEqual(statistics.median(off), 40)
        self.assertLessEqual(sorted(off)[len(off) * 9 // 10], 200)

    def test_nothing_is_decoded_again(self):
        self.transcribe()
        said = [(1000, 2000, "nobody ever said"), (3000, 9000, "a word of this in the recording.")]
        self.rewrite("UPDATE shard SET result = ? WHERE seq = 0", packed(said))
        self.time_words()
        self.run_to_end("--shard=30s")
        self.assertEqual([(text, 3 if text.startswith("nobody") else 7) for _ in (1, 2) for _, _, text in said], self.sql(
            "SELECT segment.text, count(word.idx) FROM segment JOIN task USING (task_id) LEFT JOIN word USING (segment_id) "
            "WHERE current AND seq = 0 GROUP BY segment_id ORDER BY task_id, segment.start_ms"))

    def test_nor_in_a_part_for_another_machine(self):
        self.transcribe()
        said = [(1000, 2000, "nobody ever said"), (3000, 9000, "a word of this in the recording.")]
        self.rewrite("UPDATE shard SET result = ? WHERE seq = 0", packed(said))
        self.time_words()
        self.nightshift("split", "--into=1", "--output=parts", "--shard=30s", status=0)
        self.run_to_end("--part=parts/part-0000.db", "--shard=30s")
        self.nightshift("merge", self.catalog, "parts", status=0)
        self.assertEqual([(text, 3 if text.startswith("nobody") else 7) for _ in (1, 2) for _, _, text in said], self.sql(
            "SELECT segment.text, count(word.idx) FROM segment JOIN task USING (task_id) LEFT JOIN word USING (segment_id) "
            "WHERE current AND seq = 0 GROUP BY segment_id ORDER BY task_id, segment.start_ms"))
        self.healthy()

    def test_a_correction_stays_and_has_times(self):
        self.transcribe()
        self.nightshift("correct", "--at", "3.1", LONG, "language Friday the first of april.", status=0)
        self.nightshift("correct", "--at", "8.7", LONG, "She closed the oranges.", status=0)
        before = [row[0] for row in self.sql("SELECT text FROM transcript ORDER BY path, start_ms")]
        self.time_words()
        self.run_to_end("--shard=30s")
        self.assertEqual(before, [row[0] for row in self.sql("SELECT text FROM transcript ORDER BY path, start_ms")])
        self.assertEqual([("applied",)], self.sql("SELECT DISTINCT state FROM correction"))
        for text in ("language Friday the first of april.", "She closed the oranges."):
            words = self.sql("SELECT word.text, word.start_ms, word.end_ms, segment.start_ms, segment.end_ms "
                             "FROM word JOIN segment USING (segment_id) WHERE segment.text = ? ORDER BY word.idx", text)
            self.assertEqual(text, "".join(word[0] for word in words).strip())
            self.assertTrue(all(w[3] - 500 <= w[1] <= w[2] <= w[4] + 500 for w in words), words)
            self.assertEqual(sorted(w[1] for w in words), [w[1] for w in words])

    def test_killed_in_the_middle(self):
        self.transcribe()
        self.time_words()
        other = os.path.join(self.dir, "other.db")
        connection = sqlite3.connect(self.catalog)
        connection.execute("VACUUM INTO ?", (other,))
        connection.close()
        run = self.start_run("--shard=30s", env={"NIGHTSHIFT_FAULT": "slow-step:200"})
        done = "SELECT count(*) FROM shard JOIN task USING (task_id) JOIN stage USING (stage_id) WHERE params LIKE '%timestamps%'"
        self.wait_for("a checkpoint", lambda: self.sql(done)[0][0], run)
        run.signal(signal.SIGKILL)
        run.wait()
        self.assertIn(self.sql(done)[0][0], (1, 2, 3))
        self.run_to_end("--shard=30s")
        self.assertEqual([(4,)], self.sql(done))
        got = self.words()
        self.healthy()
        self.catalog = other
        self.run_to_end("--shard=30s")
        self.assertEqual(self.words(), got)

    def test_other_options_are_asked_first(self):
        self.transcribe()
        self.assertIn("do again", self.enqueue("--word-timestamps", "--beam-size=2", self.archive, status=night.USAGE).err)
        # One that waits for another way has its own text written again for times: it stays whole.
        self.enqueue("--beam-size=2", "--again", self.archive)
        said = " ".join(self.enqueue("--diarize=diarization-nano", self.archive).out.split())
        self.assertIn("are not cut, because the transcription has no word times: `nightshift enqueue "
                      "--word-timestamps --again PATH` adds them", said)
        self.assertEqual([(0,)], self.sql("SELECT count(*) FROM stage WHERE params LIKE '%timestamps%'"))


class Hostile(Told):
    """The catalog is somebody else's."""

    def result(self, value):
        """Of the long recording's second checkpoint."""
        self.transcribe()
        self.rewrite("UPDATE shard SET result = ? WHERE seq = 1", value)
        self.time_words()
        return self.run_to_end("--shard=30s")

    def text(self):
        return " ".join(row[0] for row in self.sql(
            "SELECT segment.text FROM segment JOIN task USING (task_id) WHERE current ORDER BY task_id, segment.start_ms"))

    def check_anew(self, answer, why):
        self.assertRegex(answer.err, rf"is transcribed anew: .*{why}")
        self.assertIn("2 recordings done, 0 failed, 0 left.", answer.out)
        self.assertEqual([(1,)], self.sql(TIMED))

    def test_no_result(self):
        self.check_anew(self.result(b"\1\377\377\377"), "impossible")
        self.assertIn("farmer", self.text())

    def test_times_below_zero(self):
        self.check_anew(self.result(packed([(-5000, 1000, "before the beginning")])), "impossible")

    def test_no_utf8(self):
        self.check_anew(self.result(packed([(31000, 32000, b"caf\xe9")])), "impossible")

    def test_a_megabyte(self):
        self.check_anew(self.result(packed([(31000, 50000, "word " * 200000)])), "impossible")

    def test_out_of_order(self):
        self.check_anew(self.result(packed([(41000, 42000, "b"), (31000, 32000, "a")])), "impossible")

    def test_no_words_where_there_is_no_sound(self):
        said = [(31000, 32000, "twice"), (31000, 33000, "twice"), (31500, 50000, "over the others"),
                (32000, 95000, "longer than a window"), (200000, 201000, "behind the end"),
                (1 << 50, (1 << 50) + 1, "for ever")]
        answer = self.result(packed(said))
        self.assertIn("2 recordings done, 0 failed, 0 left.", answer.out)
        self.assertNotIn("anew", answer.err)
        got = self.sql("SELECT segment.text, count(word.idx) FROM segment JOIN task USING (task_id) LEFT JOIN word "
                       "USING (segment_id) WHERE current AND seq = 1 GROUP BY segment_id ORDER BY segment.start_ms, segment_id")
        self.assertEqual(sorted((text, text in ("twice", "over the others")) for _, _, text in said),
                         sorted((text, words > 0) for text, words in got))
        self.healthy()


if __name__ == "__main__":
    night.main()
