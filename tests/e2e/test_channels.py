#!/usr/bin/env python3
"""Which tracks and channels of a recording are heard, that the folder is remembered by it, and what is
said of the others."""
import array
import json
import os
import shutil
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
        self.enqueue("--channels=2", "--diarize", self.archive)
        self.assertIn("2 of the recordings have tracks or channels that were not heard", self.run_to_end().out)
        texts = self.texts()
        self.assertTrue(texts["right.wav"])
        self.assertEqual(texts["right.wav"], texts["both.wav"])
        self.assertEqual([("channel 1", 1, 2)] * 2,
                         self.sql("SELECT left_out, audio_tracks, channels FROM recordings"))
        self.assertIn("Not heard: channel 1\n", self.nightshift("show", self.at("both.wav"), status=0).out)
        self.assertEqual("channel 1", self.json("show", self.at("both.wav"))["left_out"])
        # All that hear hear the same, today and on later evenings.
        self.assertEqual(["2", "2"], [json.loads(row[0])["channels"] for row in self.sql("SELECT params FROM stage")])
        write_wav(self.at("third.wav"), self.right, self.left)
        self.enqueue()
        self.assertEqual([(2,)], self.sql("SELECT count(*) FROM stage"))
        self.run_to_end()
        self.assertEqual([(3,)], self.sql("SELECT count(*) FROM recordings WHERE left_out = 'channel 1'"))
        # Mixed again, for both: a diarization of one channel would name other people.
        self.enqueue("--again", "--vad=off", "--diarize", self.archive)
        self.assertEqual([(4,)], self.sql("SELECT count(*) FROM stage"))
        self.assertNotIn("not heard", self.run_to_end().out)
        self.assertEqual([(None,)] * 3, self.sql("SELECT left_out FROM recordings"))
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

    def test_what_is_not_there_fails_alone(self):
        write_wav(self.at("both.wav"), self.left, self.right)
        write_wav(self.at("one.wav"), self.left)
        self.enqueue("--channels=2", self.archive)
        self.run_to_end()
        self.assertEqual([("channel 2 is to be heard, and it has 1: enqueue it with other --channels",)],
                         self.sql("SELECT reason FROM failures"))
        for words in ("--channels=0", "--tracks=best,1", "--channels=left"):
            self.enqueue(words, self.archive, status=night.USAGE)


if __name__ == "__main__":
    unittest.main(verbosity=2)
