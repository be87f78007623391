#!/usr/bin/env python3
"""What is believed to have been said: voice activity, languages, times of words, and nothing where
nobody speaks. Silero's weights stay outside the tree: what needs them is skipped without
$NIGHTSHIFT_SHARED."""
import array
import csv
import difflib
import functools
import itertools
import os
import random
import shutil
import struct
import unittest
import wave

import night
from test_samples import errors, reference_errors, words

SILERO = os.path.join(night.SHARED, "models/silero-vad/silero_vad_16k.safetensors")
needs_silero = unittest.skipUnless(os.path.exists(SILERO), f"{SILERO} is not here")
RATE = 16000


def said(name):
    with open(os.path.join(night.SAMPLES, os.path.splitext(name)[0] + ".txt"),
              encoding="utf-8") as file:
        return words(file.read())


def sentences(name):
    """(start, end, words) of every sentence of a sample, times in seconds."""
    with open(os.path.join(night.SAMPLES, os.path.splitext(name)[0] + ".tsv"),
              encoding="utf-8") as file:
        return [(float(row["start"]), float(row["end"]), words(row["text"]))
                for row in csv.DictReader(file, delimiter="\t")]


def matches(reference, heard):
    """Which word of `heard` each word of `reference` is; those that were misheard are left out."""
    found = {}
    for block in difflib.SequenceMatcher(None, reference, heard, autojunk=False).get_matching_blocks():
        for k in range(block.size):
            found[block.a + k] = block.b + k
    return found


@functools.cache
def noise(seed):
    """A recording in which nobody speaks: white, pink or brown noise, hum, clicks, or a mixture,
    from barely audible to loud, of 1 to 40 s."""
    rng = random.Random(seed)
    kind = seed % 5
    level = 10 ** rng.uniform(-3.3, -0.7)
    n = int(rng.uniform(1, 40) * RATE)
    low = rng.uniform(0.9, 0.999)
    hum = [rng.choice((50, 60)) * k for k in range(1, 6)]
    white = [v / 32768 for v in array.array("h", rng.randbytes(2 * n))]
    slow = itertools.accumulate(white, lambda s, w: low * s + (1 - low) * w)
    if kind == 0:
        out = white
    elif kind == 1:
        out = [s * 8 for s in slow]
    elif kind == 2:
        out = [(w + s * 20) / 2 for w, s in zip(white, slow)]
    elif kind == 3:
        period = [sum((t / RATE * f % 1) * 2 - 1 for f in hum) / 5 for t in range(RATE)]  # whole Hz
        out = [h + w / 50 for h, w in zip(itertools.cycle(period), white)]
    else:
        out = [w / 100 for w in white]
        for _ in range(n // 2000):
            at = rng.randrange(n)
            out[at] = white[at]
    scale = level * 32767
    return array.array("h", [max(-32767, min(32767, int(v * scale))) for v in out])


class Speech(night.Night):
    def write(self, name, samples):
        path = os.path.join(self.archive, name)
        with wave.open(path, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(RATE)
            file.writeframes(samples.tobytes())

    def bring_samples(self):
        names = sorted(n for n in os.listdir(night.SAMPLES) if n in reference_errors())
        for name in names:
            self.bring(os.path.join(night.SAMPLES, name))
        return names

    def all_errors(self, names):
        return {name: errors(said(name), words(self.text_of("/" + name))) for name in names}

    def speech_is_accounted_for(self, names):
        """Every second of it has a text or is told: what has none by a row that says where."""
        sums = [0, 0, 0]
        for name in names:
            account = self.sql("SELECT t.speech_ms, t.dropped_ms, t.missing_ms FROM task t "
                               "JOIN place p USING (media_id) WHERE p.path LIKE ?", "%/" + name)[0]
            speech, dropped, missing = account
            sums = [total + ms for total, ms in zip(sums, account)]
            told = self.sql("SELECT end_ms - start_ms, text, reason FROM doubts "
                            "WHERE outcome = 'missing' AND path LIKE ?", "%/" + name)
            self.assertLessEqual(dropped + missing, speech, name)
            self.assertEqual(bool(said(name)), speech > 1000, name)
            self.assertEqual(missing > 0, bool(told), name)
            self.assertLessEqual(missing, sum(row[0] for row in told), name)
            self.assertEqual({("", "speech without text")} if told else set(),
                             {row[1:] for row in told}, name)
        total = self.json("status")["speech"]
        self.assertEqual(sums, [total[key] for key in ("speech_ms", "dropped_ms", "missing_ms")])
        self.assertAlmostEqual(1 - (sums[1] + sums[2]) / sums[0], total["text_share"], delta=0.001)
        print(f"    of {sums[0]} ms of speech {sums[1]} were dropped, {sums[2]} have no text")

    @needs_silero
    def test_voice_activity_hears_no_less(self):
        """The words with voice activity are no worse than those of windows one after the other, the
        languages are right, and times lie in the recording."""
        names = self.bring_samples()
        self.enqueue("--vad=off", self.archive)
        self.run_to_end("--precision", "fp32")
        sequential = self.all_errors(names)
        self.catalog = os.path.join(self.dir, "packed.db")
        self.enqueue("--vad", SILERO, self.archive)
        self.run_to_end("--precision", "fp32")
        self.assertEqual([], self.sql("SELECT * FROM failures"))
        packed = self.all_errors(names)
        for name in names:
            print(f"    {name:28} {packed[name]:3} errors, one after the other "
                  f"{sequential[name]:3}, in {len(said(name)):3} words")
            spoken = reference_errors()[name]["language"]
            heard = self.sql("SELECT DISTINCT language FROM transcript WHERE path LIKE ?",
                             "%/" + name)
            self.assertEqual([(spoken,)] if said(name) else [], heard, name)
        self.assertLessEqual(sum(packed.values()), sum(sequential.values()))
        self.speech_is_accounted_for(names)
        self.assertEqual([], self.sql(
            "SELECT path, start_ms, end_ms FROM transcript t JOIN media m USING (media_id) "
            "WHERE start_ms < 0 OR end_ms > m.duration_ms + 1 OR start_ms >= end_ms"))
        self.healthy()

    @needs_silero
    def test_no_segment_lasts_over_a_pause(self):
        """Five sentences with seven to ten seconds between them, which the model is made to take
        for one: it writes no timestamps."""
        name = "09_long_silences.flac"
        shutil.copy(os.path.join(night.SAMPLES, name), self.archive)
        texts = []
        for more in ([], ["--word-timestamps"]):
            self.catalog = os.path.join(self.dir, f"parted{len(more)}.db")
            self.enqueue("--vad", SILERO, "--without-timestamps", *more, self.archive)
            self.run_to_end()
            heard = self.sql("SELECT start_ms / 1000.0, end_ms / 1000.0, text FROM transcript "
                             "ORDER BY start_ms")
            said_at = sentences(name)
            self.assertEqual(len(said_at), len(heard), heard)
            for (start, end, spoken), (begin, stop, text) in zip(said_at, heard):
                self.assertTrue(start - 1 < begin < stop < end + 1, heard)
                self.assertIn(spoken[1], words(text))
            texts.append(" ".join(text for _, _, text in heard))
        self.assertEqual(*texts)
        self.assertEqual([], self.sql(
            "SELECT w.text FROM word w JOIN segment g USING (segment_id) "
            "WHERE w.start_ms < g.start_ms OR w.end_ms > g.end_ms"))
        self.healthy()

    def nobody_speaks(self, *options):
        for seed in range(50):
            self.write(f"noise-{seed:02}.wav", noise(seed))
        self.write("silence.wav", array.array("h", bytes(2 * 20 * RATE)))
        self.enqueue(*options, self.archive)
        self.run_to_end()
        self.assertEqual([], self.sql("SELECT * FROM failures"))
        self.assertEqual([(51,)], self.sql("SELECT count(*) FROM recordings WHERE state = 'done'"))
        self.assertEqual([], self.sql("SELECT path, start, text FROM transcript"))

    def test_nobody_speaks_in_noise(self):
        self.nobody_speaks("--vad=off")

    @needs_silero
    def test_nobody_speaks_in_noise_with_voice_activity(self):
        self.nobody_speaks("--vad", SILERO)

    def word_times(self, *options):
        """How many of the sentences' first words begin, and last words end, within 200 ms of where
        they do, of those that were heard."""
        names = self.bring_samples()
        self.enqueue("--word-timestamps", *options, self.archive)
        self.run_to_end()
        near = total = 0
        for name in names:
            heard = [(words(text), start, end) for text, start, end in self.sql(
                "SELECT word, start_ms / 1000.0, end_ms / 1000.0 FROM words WHERE path LIKE ? "
                "ORDER BY start_ms", "%/" + name)]
            heard = [(w[0], start, end) for w, start, end in heard if w]
            match = matches([w for s in sentences(name) for w in s[2]], [w[0] for w in heard])
            at = 0
            for start, end, spoken in sentences(name):
                first, last = match.get(at), match.get(at + len(spoken) - 1)
                at += len(spoken)
                if first is not None:
                    near += abs(heard[first][1] - start) <= 0.2
                    total += 1
                if last is not None:
                    near += abs(heard[last][2] - end) <= 0.2
                    total += 1
        self.assertGreater(total, 60)
        print(f"    {near} of {total} begins and ends within 200 ms")
        self.assertGreaterEqual(near, 0.9 * total)
        # Each word lies in its segment (but for an outer one of a segment that keeps the time of its
        # timestamps, as openai-whisper has it), and after the one before.
        self.assertEqual([], self.sql(
            "SELECT w.text FROM word w JOIN segment g USING (segment_id) "
            "WHERE w.start_ms < g.start_ms - 500 OR w.end_ms > g.end_ms + 500 "
            "OR w.end_ms < w.start_ms"))
        self.assertEqual([], self.sql("SELECT text FROM transcript WHERE start_ms >= end_ms"))
        self.assertEqual([], self.sql(
            "SELECT b.text FROM word a JOIN word b ON b.segment_id = a.segment_id "
            "AND b.idx = a.idx + 1 WHERE b.start_ms < a.end_ms"))

    def test_words_are_where_they_were_said(self):
        self.word_times("--vad=off")

    @needs_silero
    def test_words_are_where_they_were_said_with_voice_activity(self):
        self.word_times("--vad", SILERO)


if __name__ == "__main__":
    night.main()
