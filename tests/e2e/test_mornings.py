#!/usr/bin/env python3
"""Seven evenings over an odd archive, and the morning after each: `report` tells once what is new and what helps,
one line of what is old, nothing of what is mended; what has no sound has not failed; `status` lists no failure."""
import os
import shutil
import subprocess
import unittest
import zipfile

import night

GOOD, LONG = "01_en_short.wav", "13_es_long_45s.ogg"


def encrypted(path, name):
    """A zip whose member claims to be encrypted, as one with a password does."""
    with zipfile.ZipFile(path, "w") as box:
        box.write(os.path.join(night.SAMPLES, GOOD), name)
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        for sign, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
            data[data.index(sign) + at] |= 1
        file.seek(0)
        file.write(data)


class Mornings(night.Night):
    def path(self, name):
        return os.path.join(self.archive, name)

    def noise(self, name):
        with open(self.path(name), "wb") as file:
            file.write(bytes((i + len(name)) * 73 % 251 for i in range(30000)))

    def silent_film(self, name):
        subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-y", "-f", "lavfi", "-i", "testsrc=d=1:s=64x48", "-an",
                        "-c:v", "mpeg4", self.path(name)], check=True, timeout=night.PATIENCE_S)

    def evening(self, *options):
        """Enqueue and run; returns what enqueue and report say, with every line at most 80 columns wide."""
        said = self.enqueue(*options, "--vad=off", self.archive) if options else self.enqueue()
        self.ran = self.run_to_end("--threads=2").out
        report = self.nightshift("report", status=0).out
        status = self.nightshift("status", status=0).out
        for line in (said.out + report + status).splitlines():
            self.assertLessEqual(len(line), 80, line)
        # No list is in both.
        for reason in ("no known format", "empty file", "encrypted", "truncated"):
            self.assertNotIn(reason, status)
        return said, report

    def below(self, path):
        self.assertEqual(self.archive + "/", path[:len(self.archive) + 1])
        return path[len(self.archive) + 1:]

    def news(self):
        """Kind: names, of what is new."""
        return {x["kind"]: [self.below(item["path"]) for item in x["recordings"]]
                for x in self.json("report")["news"] if x["new"]}

    def doubted(self):
        return [self.below(doubt["path"]) for doubt in self.json("report")["doubts"]]

    @night.needs("ffmpeg")
    def test_seven_mornings(self):
        self.bring(GOOD, "good.wav")
        self.bring("03_en_noisy.ogg", "noisy.ogg")
        self.bring("05_es_video.mp4", "cut.mp4")
        with open(self.path("cut.mp4"), "r+b") as file:
            file.truncate(150000)
        open(self.path("empty.wav"), "wb").close()
        shutil.copy(os.path.join(night.DEMO, "field-notes.mp3"), self.path("notes.mp3"))
        self.noise("noise.ogg")
        self.silent_film("film.mp4")
        encrypted(self.path("secret.zip"), "take.wav")

        # First: all is new; one reason once, one piece of advice once, however many stages met it.
        said, report = self.evening("--model=whisper-nano", "--diarize=diarization-nano")
        self.assertIn("secret.zip//take.wav: encrypted", said.err)
        self.assertIn("\nDone        3 recordings, 4 failed\n", report)
        self.assertEqual({"failed": ["empty.wav", "noise.ogg", "notes.mp3", "cut.mp4"],
                          "unreadable": ["secret.zip//take.wav"], "no sound": ["film.mp4"]}, self.news())
        self.assertEqual(1, report.count("-> Play it."))
        self.assertEqual(1, report.count("no known format"))
        self.assertNotIn("Earlier", report)
        self.assertEqual(["noisy.ogg"], self.doubted())
        self.assertIn("What is most doubtful of it (nightshift doubts)", report)
        self.assertEqual([(1, 0)], self.sql("SELECT count(*), sum(duration_ms) FROM recordings WHERE audio_tracks = 0 "
                                            "AND state = 'done' AND path LIKE '%film.mp4'"))
        self.assertEqual([], self.sql("SELECT * FROM failures WHERE path LIKE '%film.mp4'"))
        self.assertEqual([(2, "done")], self.sql("SELECT count(*), max(state) FROM tasks WHERE path LIKE '%film.mp4'"))
        status = " ".join(self.nightshift("status", status=0).out.split())
        self.assertIn("1 recording has no sound", status)
        # Voice activity is off, and a film without sound is no silence.
        exported = self.nightshift("export", "-o", "all", "-f", "txt", status=0).out
        for said in (status, report, self.ran, exported):
            self.assertNotIn("obody speaks", said)
        self.assertIn("1 recording has no sound", exported)
        page = self.nightshift("show", self.path("film.mp4"), status=0).out
        self.assertIn("It has no sound", page)
        self.assertIn(": no sound, done\n", page)
        self.assertIn("Failures nightshift status --failures lists 5 with their reasons", status)
        # The same morning says the same, however often it is asked.
        self.assertEqual(report, self.nightshift("report", status=0).out)

        # Second: nothing is new, and nothing is told again.
        said, report = self.evening()
        self.assertEqual("", said.err)
        self.assertIn("1 of these was reported before (nightshift status --failures)", " ".join(said.out.split()))
        self.assertIn("\nDone        nothing\nLeft        0 recordings to do\n"
                      "Earlier     4 failed, 1 unreadable: nightshift status --failures\n", report)
        self.assertEqual(({}, []), (self.news(), self.doubted()))
        self.assertNotIn("Devices", report)

        # Third: one is thrown away, which had no result; one more comes, and a copy; a download hangs.
        os.remove(self.path("noise.ogg"))
        self.bring(LONG, "long.ogg")
        self.bring(GOOD, "copy of good.wav")
        self.bring("12_en_long_90s.mp3", "lecture.mp3.part")
        _, report = self.evening()
        self.assertEqual({"absent": ["noise.ogg"]}, self.news())
        self.assertEqual(1, report.count("-> If it is gone for good: nightshift cancel PATH"))
        self.assertIn("\nEarlier     3 failed, 1 unreadable: ", report)
        self.assertNotIn("lecture", report)
        self.assertIn("\ngone        ", report)
        self.assertEqual(["long.ogg"], self.doubted())

        # Fourth: the film comes whole, which cures it; what is gone is told no more.
        self.bring("05_es_video.mp4", "cut.mp4")
        os.rename(self.path("lecture.mp3.part"), self.path("lecture.mp3"))
        _, report = self.evening()
        self.assertEqual({}, self.news())
        self.assertIn("\nEarlier     2 failed, 1 unreadable: ", report)
        self.assertNotIn("gone", report)
        self.assertIn("\nDone        2 recordings, 0 failed\n", report)

        # Fifth: the silent film goes, and one that fails as others did; one failure is dismissed.
        os.remove(self.path("film.mp4"))
        self.nightshift("cancel", "--failed", self.path("empty.wav"), status=0)
        self.noise("noise2.ogg")
        _, report = self.evening()
        self.assertEqual({"failed": ["noise2.ogg"]}, self.news())
        self.assertIn("\nEarlier     1 failed, 1 unreadable: ", report)

        # Sixth: one goes between the walk and the run, which says so; the next walk does not say it again.
        path = self.bring("09_long_silences.flac", "lost.flac")
        self.enqueue()
        os.remove(path)
        said = self.run_to_end("--threads=2")
        self.assertEqual(1, said.err.count("it cannot be opened"), said)
        report = self.nightshift("report", status=0).out
        self.assertEqual({"failed": ["lost.flac"]}, self.news())
        self.assertNotIn("->", report)  # the reason says what helps

        # Seventh: heard in another way, a doubt is told again where it is there again.
        os.remove(self.path("secret.zip"))
        _, report = self.evening("--again", "--beam-size=2")
        self.assertNotIn("lost.flac", report)
        self.assertNotIn("secret.zip", report)
        self.assertNotIn("unreadable", report)
        heard = {os.path.basename(path) for (path,) in self.sql("SELECT DISTINCT path FROM doubts WHERE outcome = 'kept'")}
        self.assertGreater(len(heard), 0)
        self.assertEqual(heard, set(self.doubted()))
        self.healthy()


if __name__ == "__main__":
    night.main()
