#!/usr/bin/env python3
"""test_real.py SET...: what comes out of real speech with published weights, against the bounds of bounds.py.

Leaves with 77 and a sentence where there is no network for what is fetched once, or no ../shared for the recordings.
`measure` in this folder prints the same figures, beside other programs'.
"""
import sys
import unittest

import bounds
import cache
import ours
import recordings
import score
from words import compare, gone, words

VAD, NO_VAD = (), ("--vad=off",)


class Real(unittest.TestCase):
    def set_of(self, name):
        try:
            return recordings.SETS[name]()
        except cache.Missing as why:
            self.skipTest(str(why))

    def heard(self, items, *args, **kw):
        try:
            return ours.transcribe(items, *args, **kw)
        except cache.Missing as why:
            self.skipTest(str(why))

    def say(self, what, count):
        print(f"\n    {what}: " + ", ".join(f"{n} {name}" for n, name in zip(
            count.as_list(), ("words", "wrong", "other", "left out", "invented"))), end=" ", flush=True)


class Words(Real):
    def holds(self, options, column):
        items = self.set_of("words")
        counts = score.by_language(items, self.heard(items, options=options).segments)
        for language, count in counts.items():
            self.say(language, count)
        self.assertEqual(set(bounds.WORDS_WRONG), set(counts), "bounds.py needs a figure for each language")
        for language, count in counts.items():
            with self.subTest(language=language):
                self.assertLessEqual(count.wrong, bounds.WORDS_WRONG[language][column])
                self.assertLessEqual(count.left_out, bounds.WORDS_LEFT_OUT[language][column])

    def test_with_voice_activity(self):
        self.holds(VAD, 0)

    def test_without_voice_activity(self):
        self.holds(NO_VAD, 1)


class Seven(Real):
    def test_nothing_is_lost_in_packed_windows(self):
        items = self.set_of("seven")
        count = score.by_language(items, self.heard(items).segments)["all"]
        self.say("seven", count)
        self.assertEqual(549, count.said)
        self.assertLessEqual(count.left_out, bounds.SEVEN_LEFT_OUT)


class Prompts(Real):
    def holds(self, options, column):
        items = self.set_of("prompts")
        heard = self.heard(items, options=options).segments
        counts, nothing = score.by_language(items, heard), score.all_gone(items, heard)
        for language, count in counts.items():
            self.say(language, count)
        print(f"\n    {nothing} with nothing in their place", end=" ", flush=True)
        self.assertLessEqual(counts["all"].left_out / counts["all"].said, bounds.PROMPTS_LOST[column])
        self.assertLessEqual(nothing, bounds.PROMPTS_GONE[column])

    def test_with_voice_activity(self):
        self.holds(VAD, 0)

    def test_without_voice_activity(self):
        self.holds(NO_VAD, 1)


class Silences(Real):
    def holds(self, options):
        items = self.set_of("silences")
        self.assertEqual(60, len(items))
        said = {name: segments for name, segments in self.heard(items, options=options).segments.items() if segments}
        self.assertLessEqual(len(said), bounds.SILENCES_WITH_TEXT, said)

    def test_with_voice_activity(self):
        self.holds(VAD)

    def test_without_voice_activity(self):
        self.holds(NO_VAD)


class Languages(Real):
    def test_each_passage_is_in_its_language(self):
        items = self.set_of("languages")
        heard = self.heard(items).segments
        right, of = score.right_languages(items, heard)
        counts = score.by_language(items, heard)
        self.say("all", counts["all"])
        print(f"\n    {right} of {of} passages in their language", end=" ", flush=True)
        if bounds.LANGUAGES_WRONG["words"] is not None:
            self.assertLessEqual(counts["all"].wrong, bounds.LANGUAGES_WRONG["words"])
        if bounds.LANGUAGES_WRONG["passages"] is not None:
            self.assertLessEqual(of - right, bounds.LANGUAGES_WRONG["passages"])


class Precisions(Real):
    def test_words_are_those_of_float32(self):
        items = [r for r in self.set_of("words") if r.language == "en"]
        whole = self.heard(items).segments
        said = {r.name: words(" ".join(s[3] for s in whole[r.name])) for r in items}
        total = sum(map(len, said.values()))
        for (precision, options), bound in bounds.PRECISIONS.items():
            with self.subTest(precision=precision, options=options):
                other = self.heard(items, precision=precision, run_options=options).segments
                wrong = sum(compare(said[r.name], words(" ".join(s[3] for s in other[r.name]))).wrong for r in items)
                print(f"\n    {precision} {' '.join(options)}: {wrong} of {total} words", end=" ", flush=True)
                self.assertLessEqual(wrong / total, bound)


class Counting(unittest.TestCase):
    """The ruler itself."""

    def test_normal_form(self):
        self.assertEqual(["it", "s", "3", "50", "então"], words("It\u2019s  3.50 \u2014 [noise] ENTA\u0303O!"))
        self.assertEqual(list("你好ab"), words("你好， AB。", "zh"))

    def test_errors(self):
        for said, heard, expected in (("a b c", "a b c", [3, 0, 0, 0, 0]), ("a b c", "a c", [3, 1, 0, 1, 0]),
                                      ("a b c", "a x c d", [3, 2, 1, 0, 1]), ("", "you", [0, 1, 0, 0, 1]),
                                      ("a b", "", [2, 2, 0, 2, 0])):
            self.assertEqual(expected, compare(said.split(), heard.split()).as_list(), (said, heard))

    def test_what_has_nothing_in_its_place(self):
        for said, heard, expected in (("a b c d", "a d", 2), ("han sido x", "ancido x", 0), ("a b", "", 2), ("", "you", 0),
                                      ("one two three four five", "one x five", 2), ("a b", "a b", 0),
                                      ("please add to it", "please enter it", 0), ("a b c", "b c", 1),
                                      ("a b c", "a b", 1)):
            self.assertEqual(expected, gone(said.split(), heard.split()), (said, heard))


def main():
    program = unittest.main(argv=sys.argv, verbosity=2, exit=False)
    result = program.result
    if result.wasSuccessful() and result.skipped and len(result.skipped) == result.testsRun:
        print("skipped: " + "; ".join(sorted({why for _, why in result.skipped})))
        sys.exit(77)
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main()
