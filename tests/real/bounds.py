"""What the tests on real weights hold: whisper-base in float32 on the host, by default unless said.

Each bound is what was measured, and a little more, for another processor rounds otherwise. Change one only with the figure
that was measured (tests/real/measure).
"""

# Words wrong of those that are known, by language: (with voice activity, without), and of these left out.
# 2026-11-29: 221 and 219 of 1,185, of these 41 and 40 left out.
WORDS_WRONG = {"all": (223, 221), "de": (1, 1), "en": (94, 93), "es": (16, 20), "fr": (4, 4), "it": (5, 1),
               "ja": (12, 13), "pt": (6, 6), "sv": (16, 15), "zh": (78, 78)}
WORDS_LEFT_OUT = {"all": (42, 41), "de": (1, 1), "en": (35, 35), "es": (6, 6), "fr": (1, 1), "it": (2, 1),
                  "ja": (1, 1), "pt": (1, 1), "sv": (1, 1), "zh": (2, 2)}

SEVEN_LEFT_OUT = 3         # of 549; 2026-11-29: 2
# Share of the words, (with voice activity, without). 2026-11-29: 18 and 28 of 2,670; the aim, 0.005, is not reached. With
# it each of the 18 is written as one with its neighbour, 14 of them rightly ("что бы", "чтобы"): the reference is what the
# model hears of a prompt alone.
PROMPTS_LOST = (0.0068, 0.0105)
PROMPTS_GONE = (0, 5)      # words of which nothing is there
SILENCES_WITH_TEXT = 0     # of 60
LANGUAGES_WRONG = {"words": 63, "passages": 2}  # 2026-11-29: 62 of 465, 2 of 27

# Words that come out otherwise than in float32, as a share. 2026-11-29: 2, 11 and 0 of 800.
PRECISIONS = {("bf16", ()): 0.005, ("int16", ()): 0.003, ("int8", ()): 0.02, ("fp32", ("--cache-precision=8",)): 0.003}
