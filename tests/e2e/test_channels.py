#!/usr/bin/env python3
"""Which tracks and channels of a recording are heard, that the folder is remembered by it, and what is
said of the others; and who says what where each has a microphone or a track of its own."""
import array
import json
import os
import shutil
import signal
import subprocess
import sys
import unittest
import wave

sys.path.insert(0, os.path.dirname(__file__))
import night


def pcm(path):
    """A recording of the tests as 16 kHz mono, from the tool."""
    raw = subprocess.run(["ffmpeg", "-v", "error", "-i", path, "-ac", "1", "-ar", "16000", "-f", "s16le", "-"],
                         stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout
    return array.array("h", raw)


def write_wav(path, *channels):
    """One channel each; shorter ones end in silence."""
    n = max(map(len, channels))
    frames = array.array("h", bytes(2 * n * len(channels)))
    for i, samples in enumerate(channels):
        frames[i:len(samples) * len(channels):len(channels)] = samples
    with wave.open(path, "wb") as out:
        out.setparams((len(channels), 2, 16000, n, "NONE", ""))
        out.writeframes(frames.tobytes())


def utterances(name):
    """Of a recording of the tests: (samples, words) of each, with a tenth of a second around."""
    def path(fits):
        return [os.path.join(night.SAMPLES, e) for e in sorted(os.listdir(night.SAMPLES))
                if e.startswith(name) and fits(e)][0]

    samples = pcm(path(lambda e: not e.endswith((".tsv", ".txt"))))
    with open(path(lambda e: e.endswith(".tsv")), encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    return [(samples[max(0, int(float(r[0]) * 16000) - 1600):int(float(r[1]) * 16000) + 1600], r[3]) for r in rows]


def in_turn(said, begin_s, pause_s, length_s):
    """One after the other with pauses: (samples, [(begin, end, words)])."""
    out, at, truth = array.array("h", bytes(2 * length_s * 16000)), int(begin_s * 16000), []
    for samples, words in said:
        if at + len(samples) > len(out):
            break
        out[at:at + len(samples)] = samples
        truth.append((at / 16000, (at + len(samples)) / 16000, words))
        at += len(samples) + int(pause_s * 16000)
    return out, truth


def heard_by(own, other, gain):
    """A microphone that hears somebody else, too."""
    return array.array("h", [max(-32768, min(32767, round(a + gain * b))) for a, b in zip(own, other)])


def interview(path, gain=0.1, length_s=60):
    """Two voices, a microphone each, which now and then speak at once; each is heard by the other's
    microphone as well, 20 dB softer. Returns the truth of both."""
    left, a = in_turn(utterances("02_"), 0.5, 3.0, length_s)
    right, b = in_turn(utterances("12_"), 2.5, 3.0, length_s)
    write_wav(path, heard_by(left, right, gain), heard_by(right, left, gain))
    return [a, b]


def bilingual(path, length_s=45):
    """A video with a track of English and one of Spanish over it. Returns the truth of both."""
    one, a = in_turn(utterances("02_"), 0.5, 0.5, length_s)
    two, b = in_turn(utterances("13_"), 0.7, 0.5, length_s)
    folder = os.path.dirname(path)
    write_wav(path + ".one.wav", one)
    write_wav(path + ".two.wav", two)
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", f"testsrc=s=64x64:r=5:d={length_s}",
                    "-i", path + ".one.wav", "-i", path + ".two.wav", "-map", "0", "-map", "1", "-map", "2",
                    "-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=spa", "-c:v", "mpeg4",
                    "-c:a", "flac", path], stdin=subprocess.DEVNULL, check=True, cwd=folder)
    os.remove(path + ".one.wav")
    os.remove(path + ".two.wav")
    return [a, b]


def words_of(text):
    return [w for w in "".join(c if c.isalnum() else " " for c in text.lower()).split()]


def errors(truth, heard):
    """Words substituted, left out and put in: the least there can be."""
    row = list(range(len(heard) + 1))
    for i, t in enumerate(truth, 1):
        last, row[0] = row[0], i
        for k, h in enumerate(heard, 1):
            last, row[k] = row[k], min(row[k] + 1, row[k - 1] + 1, last + (t != h))
    return row[-1]


@unittest.skipUnless(shutil.which("ffmpeg"), "needs ffmpeg")
class Chosen(night.Night):
    """One of them is heard, and nothing else."""

    def setUp(self):
        super().setUp()
        self.left = pcm(os.path.join(night.SAMPLES, "01_en_short.wav"))
        self.right = pcm(os.path.join(night.SAMPLES, "02_en_flite_rms.mp3"))

    def at(self, name):
        return os.path.join(self.archive, name)

    def texts(self):
        return {name: text for name, text in self.sql(
            "SELECT replace(path, rtrim(path, replace(path, '/', '')), ''), group_concat(text, ' ')"
            " FROM (SELECT * FROM transcript ORDER BY path, start_ms) GROUP BY path")}

    def test_a_channel_is_as_its_own_file(self):
        write_wav(self.at("both.wav"), self.left, self.right)
        write_wav(self.at("right.wav"), self.right, self.right)
        self.enqueue("--channels=2", "--diarize=diarization-nano", self.archive)
        self.assertIn("2 of the recordings have tracks or channels that were not transcribed", self.run_to_end().out)
        texts = self.texts()
        self.assertTrue(texts["right.wav"])
        self.assertEqual(texts["right.wav"], texts["both.wav"])
        self.assertEqual([("channel 1", 1, 2)] * 2,
                         self.sql("SELECT left_out, audio_tracks, channels FROM recordings"))
        self.assertIn("Not transcribed: channel 1\n", self.nightshift("show", self.at("both.wav"), status=0).out)
        self.assertEqual("channel 1", self.json("show", self.at("both.wav"))["left_out"])
        self.assertRegex(self.nightshift("show", self.at("both.wav"), status=0).out,
                         r"\nSound: track 1: channel 1 [0-9.]+ s \(not transcribed\), channel 2 [0-9.]+ s\n")
        one, two = self.json("show", self.at("both.wav"))["channels"]
        self.assertEqual([(1, 1, False), (1, 2, True)],
                         [(c["track"], c["channel"], c["heard"]) for c in (one, two)])
        self.assertTrue(all(0 < c["sound_ms"] <= c["length_ms"] for c in (one, two)))
        sounds = self.sql("SELECT sound_ms, length_ms FROM channels WHERE path = ? ORDER BY channel", self.at("both.wav"))
        self.assertEqual([(c["sound_ms"], c["length_ms"]) for c in (one, two)], sounds)
        # All that hear hear the same, today and on later evenings.
        self.assertEqual(["2", "2"], [json.loads(row[0])["channels"] for row in self.sql("SELECT params FROM stage")])
        write_wav(self.at("third.wav"), self.right, self.left)
        self.enqueue()
        self.assertEqual([(2,)], self.sql("SELECT count(*) FROM stage"))
        self.run_to_end()
        self.assertEqual([(3,)], self.sql("SELECT count(*) FROM recordings WHERE left_out = 'channel 1'"))
        # Mixed again, for both: a diarization of one channel would name other people.
        self.enqueue("--again", "--vad=off", "--channels=mix", "--diarize=diarization-nano", self.archive)
        self.assertEqual([(4,)], self.sql("SELECT count(*) FROM stage"))
        self.assertNotIn("not transcribed", self.run_to_end().out)
        self.assertEqual([(None,)] * 3, self.sql("SELECT left_out FROM recordings"))
        self.assertEqual([(1, 6)], self.sql("SELECT min(heard), count(*) FROM channels"))
        self.healthy()

    def test_a_track_is_as_its_own_file(self):
        write_wav(os.path.join(self.dir, "one.wav"), self.left)
        write_wav(self.at("two.wav"), self.right)
        subprocess.run(["ffmpeg", "-v", "error", "-i", os.path.join(self.dir, "one.wav"), "-i", self.at("two.wav"),
                        "-map", "0", "-map", "1", "-metadata:s:a:0", "language=eng", "-c:a", "pcm_s16le",
                        self.at("both.mkv")], stdin=subprocess.DEVNULL, check=True)
        self.enqueue("--tracks=2", self.at("both.mkv"))
        self.enqueue(self.at("two.wav"))
        self.run_to_end()
        texts = self.texts()
        self.assertEqual(texts["two.wav"], texts["both.mkv"])
        self.assertEqual([("track 1 (eng)", 2), (None, 1)],
                         self.sql("SELECT left_out, audio_tracks FROM recordings ORDER BY path"))
        self.assertEqual([(1, None, 0), (2, 1, 1)],
                         self.sql("SELECT track, channel, heard FROM channels WHERE path LIKE '%.mkv' ORDER BY track"))

    def test_what_is_not_there_fails_alone(self):
        write_wav(self.at("both.wav"), self.left, self.right)
        write_wav(self.at("one.wav"), self.left)
        self.enqueue("--channels=2", self.archive)
        self.run_to_end()
        self.assertEqual([("channel 2 was requested, but it has 1: enqueue it with other --channels",)],
                         self.sql("SELECT reason FROM failures"))
        for words in ("--channels=0", "--tracks=best,1", "--channels=left"):
            self.enqueue(words, self.archive, status=night.USAGE)


@unittest.skipUnless(shutil.which("ffmpeg"), "needs ffmpeg")
class Apart(night.Night):
    """Each microphone and each track is heard by itself, and is somebody."""

    ROWS = ("SELECT path, start_ms, end_ms, source, speaker, language, text, avg_logprob FROM transcript"
            " ORDER BY path, start_ms, source, segment_id",
            "SELECT path, speaker, start_ms, end_ms FROM turns ORDER BY path, start_ms, speaker")

    def setUp(self):
        super().setUp()
        self.truth = interview(os.path.join(self.archive, "interview.wav"))

    def rows(self):
        return [self.sql(query) for query in self.ROWS]

    def wrong(self, label, truth):
        """Words of one speaker that are wrong, or somebody else's, over those that were said."""
        text = " ".join(row[0] for row in self.sql(
            "SELECT text FROM transcript WHERE speaker = ? ORDER BY start_ms, segment_id", label))
        said = words_of(" ".join(words for _, _, words in truth))
        return errors(said, words_of(text)) / len(said)

    def test_two_microphones_are_two_people(self):
        # One microphone for both, one sound twice, and one channel that is silent are mixed.
        left, _ = in_turn(utterances("02_"), 0.5, 3.0, 60)
        write_wav(os.path.join(self.archive, "mono.wav"), left)
        write_wav(os.path.join(self.archive, "dual.wav"), left, left)
        write_wav(os.path.join(self.archive, "silent.wav"), left, left[:1])
        # With five beams two words more are wrong, with this model.
        fast = ("--quality=fast", "--word-timestamps")
        self.enqueue("--diarize=diarization-nano", *fast, self.archive)
        self.run_to_end()
        self.assertEqual([("channel 1", 2), ("channel 2", 2)],
                         self.sql("SELECT label, count(*) FROM source GROUP BY label"))
        self.assertEqual([("channel 1",), ("channel 2",)],
                         self.sql("SELECT DISTINCT speaker FROM transcript WHERE path LIKE '%interview.wav' ORDER BY 1"))
        for label, truth in zip(("channel 1", "channel 2"), self.truth):
            self.assertLess(self.wrong(label, truth), 0.6)
        # Who speaks is who its microphone is for, also where both do; and words go with their segment.
        self.assertEqual([(0,)], self.sql("SELECT count(*) FROM transcript WHERE source <> speaker"))
        self.assertEqual([(0,)], self.sql("SELECT count(*) FROM words WHERE source <> speaker"))
        self.assertGreater(self.sql(
            "SELECT count(*) FROM turns a JOIN turns b ON b.path = a.path AND b.speaker > a.speaker"
            " AND b.start_ms < a.end_ms AND a.start_ms < b.end_ms")[0][0], 0)
        self.assertEqual([(None,)] * 4, self.sql("SELECT left_out FROM recordings"))
        # A mixed one is as without a word on it, bit for bit.
        mixed = self.sql(self.ROWS[0].replace(
            "FROM transcript", "FROM transcript WHERE path NOT LIKE '%interview.wav'"))
        self.enqueue("--again", "--channels=mix", *fast, self.archive)
        self.run_to_end()
        now = self.sql(self.ROWS[0].replace(
            "FROM transcript", "FROM transcript WHERE path NOT LIKE '%interview.wav'"))
        self.assertEqual([row[:4] + row[5:] for row in mixed if "interview" not in row[0]],
                         [row[:4] + row[5:] for row in now])
        self.healthy()

    def test_without_diarization_it_is_said_which_channel(self):
        self.enqueue("--channels=split", self.archive)
        self.run_to_end()
        path = os.path.join(self.archive, "interview.wav")
        self.assertEqual({"channel 1", "channel 2"}, {s["speaker"] for s in self.json("show", path)["segments"]})
        self.assertIn("channel 2", self.nightshift("show", "--format=srt", path, status=0).out)
        self.assertEqual([(0,)], self.sql("SELECT count(*) FROM speakers"))
        # And it is found by what it is called there.
        all_of = {label: text.split() for label, text in self.sql(
            "SELECT source, group_concat(text, ' ') FROM transcript GROUP BY source")}
        for label in ("channel 1", "CHANNEL 2"):
            first, *_, word = sorted((w.strip(".,!?") for w in set(all_of[label.lower()]) if w.isalpha()), key=len)
            for query in ((word,), ("--by-time", word), ("--limit=0", word), ("--path=" + self.archive, word),
                          ("--within=59s", word, first)):
                hits = self.json("search", "--speaker=" + label, *query)
                self.assertTrue(hits, query)
                self.assertEqual({label.lower()}, {h["speaker"] for h in hits})
        self.assertIn("no speaker is called 'channel 3'",
                      self.nightshift("search", "--speaker=channel 3", "the", status=night.NOINPUT).err)
        # What stands before a text in an export is none of its words.
        subs = os.path.join(self.dir, "interview.srt")
        with open(subs, "w", encoding="utf-8") as file:
            file.write(self.nightshift("show", "--format=srt", path, status=0).out)
        self.assertIn("Nothing changes", self.nightshift("correct", "--yes", path, subs, status=0).out)

    def test_tracks_have_their_own_language(self):
        os.remove(os.path.join(self.archive, "interview.wav"))
        truth = bilingual(os.path.join(self.archive, "video.mkv"))
        self.enqueue("--tracks=all", "--diarize=diarization-nano", self.archive)
        self.run_to_end()
        self.assertEqual([("track 1", "en"), ("track 2", "es")],
                         self.sql("SELECT DISTINCT source, language FROM transcript ORDER BY 1"))
        self.assertEqual([("track 1",), ("track 2",)], self.sql("SELECT DISTINCT speaker FROM transcript ORDER BY 1"))
        for label, said in zip(("track 1", "track 2"), truth):
            self.assertLess(self.wrong(label, said), 0.75)
        self.healthy()

    def test_killed_and_with_two_workers_it_is_the_same(self):
        options = ("--channels=auto", "--diarize=diarization-nano", "--vad=off")
        self.enqueue(*options, self.archive)
        self.run_to_end("--shard=30s")
        want = self.rows()
        self.assertTrue(want[0] and want[1])
        os.remove(self.catalog)
        self.enqueue(*options, self.archive)
        run = self.start_run("--shard=30s")
        self.wait_for("a shard", lambda: self.sql("SELECT count(*) FROM shard")[0][0], run)
        run.signal(signal.SIGKILL)
        run.wait()
        self.run_to_end("--shard=30s", "--devices=cpu,cpu")
        self.assertEqual(want, self.rows())
        os.remove(self.catalog)
        self.enqueue(*options, self.archive)
        self.run_to_end("--shard=30s", "--stage-by-stage")
        self.assertEqual(want, self.rows())
        self.healthy()


if __name__ == "__main__":
    unittest.main(verbosity=2)
