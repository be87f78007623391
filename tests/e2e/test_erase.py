#!/usr/bin/env python3
"""A recording that is erased is gone from the catalog's bytes and the pages, and does not come back."""
import os
import re
import sys
import unittest
import wave

sys.path.insert(0, os.path.dirname(__file__))
import night

GONE, STAYS = "Geheimpfad.flac", "01_en_short.wav"


class Erase(night.Night):
    def bytes_of(self, folder):
        """All files of a folder that belong to the catalog, or that an export wrote, with their names."""
        ret = b""
        for place, _, names in os.walk(folder):
            for name in names:
                with open(os.path.join(place, name), "rb") as file:
                    ret += name.encode() + file.read()
        return ret

    def catalog_bytes(self):
        ret = b""
        for name in os.listdir(self.dir):
            if name.startswith("catalog.db"):
                with open(os.path.join(self.dir, name), "rb") as file:
                    ret += file.read()
        return ret

    def words_of_one(self):
        """Long words that only the recording has."""
        said = [set(re.findall(r"[a-záéíóúñ]{6,}", self.text_of(name))) for name in (GONE, STAYS)]
        words = sorted(said[0] - said[1])
        self.assertGreater(len(words), 2)
        return words

    def export(self):
        return self.nightshift("export", "-f", "html", "-m", "none", "--no-waveform", "-o", "pages", status=0)

    def test_it_is_gone(self):
        gone = self.bring("04_es_clean.flac", GONE)
        self.bring(STAYS)
        self.enqueue("--vad=off", self.archive)
        self.enqueue("--vad=off", gone)  # a job that names the file itself
        self.run_to_end("--threads=2")
        words = self.words_of_one()
        traces = [word.encode() for word in words] + [GONE.encode(), b"Geheimpfad"]
        self.export()
        pages = os.path.join(self.dir, "pages")
        for trace in traces:
            self.assertIn(trace, self.catalog_bytes())
        self.assertIn(b"Geheimpfad", self.bytes_of(pages))
        self.assertIn("1 result, ", self.nightshift("erase", "--dry-run", gone, status=0).out)
        self.nightshift("erase", "--yes", gone, status=0)
        for trace in traces:
            self.assertNotIn(trace, self.catalog_bytes(), trace)
        self.healthy()
        self.assertEqual([], self.json("search", words[0]))
        again = self.enqueue("--vad=off", self.archive)
        self.assertIn("erased on 20", again.err)
        self.run_to_end("--threads=2")
        self.assertEqual([(1,)], self.sql("SELECT count(*) FROM recordings"))
        self.export()
        for trace in traces:
            self.assertNotIn(trace, self.bytes_of(pages), trace)
            self.assertNotIn(trace, self.catalog_bytes(), trace)
        self.assertIn(STAYS.encode(), self.bytes_of(pages))
        self.nightshift("erase", "--allow", "1", status=0)
        self.enqueue("--vad=off", self.archive)
        self.run_to_end("--threads=2")
        self.assertEqual(words, self.words_of_one())

    def test_while_a_run_has_it_in_hand(self):
        with wave.open(self.bring(STAYS), "rb") as sample:
            params, frames = sample.getparams(), sample.readframes(sample.getnframes())
        self.enqueue("--vad=off", self.archive)
        self.run_to_end("--threads=2", "--shard=30s")
        gone = os.path.join(self.archive, "Geheimpfad.wav")
        with wave.open(gone, "wb") as file:
            file.setparams(params)
            file.writeframes(frames * (1 + 20 * 60 * params.framerate // params.nframes))
        self.enqueue("--vad=off", self.archive)
        run = self.start_run("--threads=1", "--shard=30s")
        self.wait_for("a shard of it", lambda: self.sql(
            "SELECT 1 FROM shard JOIN task USING (task_id) JOIN media m USING (media_id) JOIN place p ON "
            "p.place_id = m.place_id WHERE p.path = ?", gone), run)
        self.assertIsNone(run.process.poll())
        self.nightshift("erase", "--yes", gone, status=0)
        self.assertEqual(0, run.wait(), run.said())
        self.assertEqual([(1, "done")], self.sql("SELECT count(*), min(state) FROM recordings"))
        self.assertEqual([(0,)], self.sql("SELECT count(*) FROM task LEFT JOIN media USING (media_id) "
                                          "WHERE size_bytes IS NULL"))
        self.assertNotIn(b"Geheimpfad", self.catalog_bytes())
        self.healthy()


if __name__ == "__main__":
    unittest.main(verbosity=2)
