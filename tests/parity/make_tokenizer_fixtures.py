#!/usr/bin/env python3
"""Makes tests/unit/text/encode.tsv: texts and the ids that the `tokenizers` library gives them.

    pip install tokenizers
    tests/parity/make_tokenizer_fixtures.py workers/models/whisper-nano/tokenizer.json \
        > tests/unit/text/encode.tsv

One line per text: its UTF-8 bytes in hex, a tab, the ids separated by blanks. Added tokens are not
recognised in text, as in the project. The random texts come from a fixed seed.
"""
import json
import random
import sys

from tokenizers import Tokenizer

WRITTEN = [
    "", " ", "  ", "\n", "\t\t\n", "a", " a", "  a", "a ", "a  ", "\n\na", "a\n\n", " \n a", "\r\nfarmer",
    " farmer from the south. tuesday station may wednesday tuesday.",
    "una noche y un viento. el puente cierra el domingo.", " familia río miércoles",
    "I'm you're we've they'll he'd she's don't", "I'M YOU'RE WE'VE THEY'LL HE'D SHE'S DON'T", "'s't're've'm'll'd",
    "''s 's' ' s 'x'", "it's2", "2's", "don’t", "rock'n'roll",
    "0 1 12 123 1234567890", "3.14159, 1,000,000.00", "x1y2z3", "½ ¼ Ⅷ ² ³ ١٢٣ १२३ 一二三", "1st 2nd 3rd",
    "Привет, мир!", "Здравствуйте", "こんにちは世界", "你好,世界", "안녕하세요 세계", "مرحبا بالعالم", "שלום עולם", "สวัสดีชาวโลก",
    "नमस्ते दुनिया", "Γειά σου Κόσμε", "გამარჯობა", "ⴰⵣⵓⵍ", "ᏣᎳᎩ",
    "e\u0301 vs \u00e9", "n\u0303o", "ﬁ ﬂ ǆ ǅ Ǆ", "ʰ ʷ ª º",
    "😀", "a😀b", " 😀 😀", "👩‍👩‍👧‍👦 👍🏽 🇩🇪", "❤️", "🏳️‍🌈.", "♥♦♣♠",
    "\u00a0a", "a\u00a0b", "\u2003\u2003x", "\u3000日本", "a\u2028b\u2029c", "\u200bx\u200b", "\ufeffbom", "\u0085x", "\u1680y",
    "\u202fz \u205fz", "a \u00a0 b", " \u3000 x", "\x0b\x0cx", "\x1c\x1d\x1e\x1fx", "\x00x".replace("\x00", "\x01"), "\x7f\x80",
    "a\t b", "a \tb", "   a   b   ", "\n \n \n", "...", "!?!?", " -- ", "a-b_c", "(a) [b] {c}", "$5.00 €5 £5 ¥5", "a/b\\c",
    "http://example.org/x?y=z&w=1#f", "name@example.org", "<|endoftext|>", "<|en|> hello", "<|0.00|>", "<|startoftranscript|>x",
    "\ufffd", "\ufffd\ufffd x", "\U0010ffff", "\ue000", "\u0300", " \u0300a", "a\u200d", "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz",
    "a" * 300, " the" * 100, "\n" * 50, " " * 129, "ab" * 200 + " " + "tete" * 100, "1" * 200, "é" * 150,
]
PIECES = ["a", "B", "te", " the", " ", "  ", "\n", "\t", "'", "'s", "'ll", "1", "23", "½", ".", ",", "!?", "é", "ñ", "ß", "Ж", "я",
          "日", "本", "\u3000", "\u00a0", "\u2028", "한", "ا", "\u0301", "😀", "\u200d", "\ufe0f", "€", "_", "-", "Ⅳ", "²", "\x01",
          "\u0085", "farmer", " tuesday", "ing", "er", "Ġ", "\U0001f1e9", "\ufffd", "\u0e31", "ª"]


def main():
    spec = json.load(open(sys.argv[1], encoding="utf-8"))
    spec["added_tokens"], spec["post_processor"] = [], None
    tok = Tokenizer.from_str(json.dumps(spec))
    rng = random.Random(20240607)
    texts = WRITTEN + ["".join(rng.choice(PIECES) for _ in range(rng.randint(1, 40))) for _ in range(600)]
    for text in texts:
        ids = tok.encode(text, add_special_tokens=False).ids
        print(text.encode().hex(), " ".join(map(str, ids)), sep="\t")


main()
