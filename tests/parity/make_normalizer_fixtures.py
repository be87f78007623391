#!/usr/bin/env python3
"""Makes tests/unit/score/normalize.tsv: texts and what Whisper's own normalisers make of them.

    tests/parity/make_normalizer_fixtures.py > tests/unit/score/normalize.tsv

The reference is PyPI's whisper-normalizer, which holds openai-whisper's normalisers without its
model code; it is installed into a temporary folder, with the two packages that it needs and none
else. Its table of British spellings is not used: a table of six words made here stands in its
place, and only in the lines that say so.

One line per text: which normaliser, a tab, the text, a tab, the result. The texts are made here,
some written by hand, the others drawn from a fixed seed.
"""
import random
import subprocess
import sys
import tempfile

PACKAGES = ["whisper-normalizer==0.1.15", "more-itertools==10.7.0", "regex==2024.11.6"]
SPELLINGS = {"colour": "color", "centre": "center", "grey": "gray", "realise": "realize",
             "théâtre": "theater", "two": "never reached: it is a number by then"}

ONES = ("one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen").split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
LARGE = ("hundred thousand million billion trillion quadrillion quintillion sextillion septillion octillion "
         "nonillion decillion").split()
ENDINGS = ("first second third fourth fifth sixth seventh eighth ninth nineth tenth eleventh twelfth thirteenth "
           "nineteenth twentieth thirtieth ninetieth hundredth thousandth millionth zeroth ones twos sixes nines "
           "tens twenties nineties hundreds thousands millions").split()
ROUND = ("o oh zero and point double triple minus negative plus positive per cent cents percent pound pounds euro "
         "euros dollar dollars").split()
TYPED = ["0", "1", "7", "12", "40", "100", "1000", "1960s", "3.14", "2.50", "5.0", "0.07", "007", "10.", ".5", "1,000",
         "1,2,3", "12,345,678", "$20", "€3.50", "£1", "¢7", "$0.05", "$1.1", "5%", "%", "50%.", "1st", "22nd", "3 rd",
         "4 th", "1960 s", "b2b", "4x4", "mp3", "192.168.0.1", "10:30", "1/2", "½", "3²", "-5", "+5", "٣٤", "१२.५"]
PLAIN = ("the farmer went to market and bought a half of two horses on friday we were told nobody saw it a and half "
         "street can point out who").split()
CONTRACTED = ("won't can't let's ain't y'all wanna kinda sorta dunno gotta gonna i'ma imma woulda coulda shoulda cause "
              "ma'am mr mr. mrs. st. dr. prof. capt. gov. ald. gen. sen. rep. pres. rev. hon. asst. assoc. lt. col. "
              "jr. sr. esq. he'd she's they've i'm we're you'll don't isn't 'tis rock'n'roll it 's do n't John's "
              "he'd been she's been they'd gone it's gone we'd done she's got shan't mustn't've o'clock because "
              "Dr.Smith first. st st, O'Brien").split(" ")
FILLERS = "hmm mm mhm mmm uh um Uh, Um... uh-huh hm ummm uhm".split()
SIGNS = [",", ".", "!", "?", "...", " - ", "—", ";", ":", "\"", "'", "’", "(so)", "()", "[noise]", "<i>", "((a) b)", "[a", "b]",
         "<|en|>", "*", "&", "#", "@", "_", "~", "%", "$", "€", ".5", "..", "$.", "%%", "^", "+", "=", "…", "«", "»", "¿", "™", "°"]
LANGUAGES = [
    "Die Straße in Köln ist GROSS, ẞ und ß.", "Œuvre, cœur, naïve, garçon, Noël!", "¿Dónde está el niño? ¡Aquí!",
    "Ærø, Łódź, Þór, Đakovo, ðe", "Привет, МИР! Ёлка й", "ΟΔΥΣΣΕΥΣ ΚΑΙ Σ Σ. ΣΑΣ'Σ", "İstanbul IĞDIR ırmak",
    "こんにちは、世界!「はい」", "你好,世界。(笑)一百二十三", "안녕하세요, 세계! 각", "สวัสดีชาวโลก กำลัง", "नमस्ते दुनिया, क्षि",
    "مرحباً بالعالم، ٣٫١٤", "שָׁלוֹם עוֹלָם", "Tiếng Việt: đường phố", "ﬁne ﬂow ½ Ⅷ ²³ ①②", "e\u0301 q\u0323\u0307 q\u0307\u0323",
    "ＦＵＬＬ　ｗｉｄｔｈ １２３", "a\u00a0b\u2003c\u3000d", "👩‍👩‍👧 flag 🇩🇪 ok 👍🏽", "l'été à 20 °C coûte 3,50 €", "ไม่เป็นไร", "မြန်မာ", "ລາວ",
    "カﾞギ ガ", "x\u00adsoft\u200bzero", "Ǆ ǅ ǆ", "ⓐⓑ №5 ㎏ ℃", "Ὀδυσσεύς ᾳ", "𝟙𝟚𝟛 𝐀𝐁", "각각", "ক্ষ কো", "", " ", "!!!", "[...]",
]
ENGLISH = [
    "Two and a half million dollars", "and a half", "and a half of it", "one and a half and a half", "banana and a half men",
    "twenty and  a   half", "oh and a half", "ninth and a half", "three hundred and a half", "band and a halfway",
    "nineteen eighty four", "twenty twenty one", "twenty oh five", "nineteen oh five", "one oh one", "double oh seven",
    "triple nine", "double nineteen", "double trouble", "triple", "double", "two double three", "zero double two",
    "one hundred and one", "one hundred and first", "a hundred and fifty thousand", "two thousand and twenty four",
    "three million four hundred thousand and six", "five hundred million and two", "ninety nine point nine percent",
    "point five", "zero point five", "oh point oh five", "three point one four one five nine", "point hundred", "point",
    "what is the point", "five point", "one point two million", "one point two three four thousand", "1.5 million",
    "1.2345 thousand", "10.5 hundredths", "2.5 millions", "seven per cent", "per cent", "seven per person", "per", "seven per",
    "minus five", "minus", "minus and", "positive feedback", "negative twenty two degrees", "plus one", "plus 5", "minus dollars",
    "five minus three", "twenty dollars", "twenty dollars and seven cents", "$2 and 7 cents", "$20 million", "$1.5 billion",
    "£3 ¢50", "€5 and ¢5", "$5 and ¢123", "fifty cents", "$0.50", "$0.05", "$0.00", "$0.125", "$005", "$0 50", "one cent",
    "one", "ones", "one's", "1", "1s", "1.5", "3.1", "$1", "1%", "21st", "twenty first", "twenty firsts", "ten first", "hundred first",
    "thirty-second", "the second one", "second hand", "two seconds", "one third", "two thirds", "1st and 2nd", "five sixes", "one ones",
    "in the nineteen sixties", "the nineties", "twenty tens", "six twenties", "millions of people", "two hundreds", "zero hundred",
    "0 hundred", "0 thousandths", "00 hundred", "zero zero seven", "0 oh", "0 point five", "0 double five", "five zero", "fifty zero",
    "eleven twelve", "ten eleven", "one hundred eleven", "one hundred ten one", "one thousand one", "thousand million billion",
    "decillion decillion", "one decillion nonillion", "9 hundred 99 thousand 9", "12 hundred", "1234 thousand", "12345 thousand 6",
    "99999999999999999999999999 million", "10.20.30", "10. 20. 30", "1. 2", "v 3. $5", "5. $3 and", "192.168.0.1 million",
    "twelve o'clock", "quarter to three p.m.", "U.S.A.", "i.e. this", "3 p.m.", "A.D. 2000", "no. 5", "wait..5", "wait...5", "a.5", "a. 5",
    "1,000,000", "1,2,3", "1, 2, 3", "1,a", "10,000.50", "1,000 and 2", "5 %", "5%", "%5", "a%", "5%%", "%%", "$", "$ 5", "5$", "$a",
    "Mr. and Mrs. O'Neil, Jr.", "St. Mary's St.", "Gen. Lee's col. and Lt. Gov.", "he's got it", "it 's", "they 'll", "the dogs '",
    "she'd been, she'd gone, she'd done, she'd go", "who's been? what's gone? it's done", "don't, can't, won't, shan't, 'twas",
    "y'all're gonna wanna", "because, 'cause cause", "I'ma go, imma go", "ma'am", "let's", "Hmm, mm, uh, um, mhm. Mmm", "uh-huh", "um_x",
    "[laughs] hello (aside) <b>world</b>", "a [b c", "a (b c", "()", "(())", "[]", "<>", "a ] b [ c ] d", "(a (b) c)",
    "THE QUICK BROWN FOX", "café naïve Zoë", "co-operate re-enter", "e-mail@example.org", "http://x.org/?a=1&b=2", "#1 fan", "A&B",
    "snake_case 1_000", "3 4 5", "three four five", "3 four 5", "forty 5", "20 one", "20 eleven", "100 eleven", "five 20",
    "twenty one twenty two", "one twenty three", "one two thirty", "twenty thirty", "thirty hundred", "five five thousand",
    "eight hundred seventy five thousand two hundred thirty one", "one hundred thousand million", "dollar", "a dollar", "dollars five",
    "five dollars ten", "five dollars and ten cents", "five dollars ten cents", "five euros and 50 cents", "ten pounds five cents", "-5 and +5",
]


def draw(rng):
    """A text of one kind or a mixture: mostly of numbers, where most of the rules are."""
    numbers = ONES * 2 + TENS * 3 + LARGE[:4] * 4 + LARGE[4:] + ENDINGS + ROUND * 3 + TYPED
    kinds = [numbers, numbers, numbers, numbers + PLAIN, PLAIN + CONTRACTED + FILLERS, PLAIN + SIGNS + TYPED,
             numbers + CONTRACTED + FILLERS + SIGNS + PLAIN]
    parts = rng.choice(kinds)
    text = ""
    for _ in range(rng.randint(2, 9)):
        text += rng.choice(parts) + rng.choice([" ", " ", " ", " ", " ", " ", "-", ", ", "", "  "])
    if rng.random() < 0.15:
        text += rng.choice(["and a half", "and a half million"])
    return rng.choice([text, text, text.title(), text.upper()])


def main():
    rng = random.Random(20240501)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, *PACKAGES],
                       check=True, stdout=sys.stderr)
        sys.path.insert(0, folder)
        from whisper_normalizer.basic import BasicTextNormalizer
        from whisper_normalizer.english import EnglishSpellingNormalizer, EnglishTextNormalizer
        EnglishSpellingNormalizer.__init__ = lambda self: setattr(self, "mapping", {})
        english, spelled = EnglishTextNormalizer(), EnglishTextNormalizer()
        spelled.standardize_spellings.mapping = SPELLINGS
        by_name = {"english": english, "spelled": spelled, "basic": BasicTextNormalizer(),
                   "plain": BasicTextNormalizer(remove_diacritics=True), "letters": BasicTextNormalizer(split_letters=True)}
        lines = [("english", text) for text in ENGLISH + LANGUAGES]
        lines += [(name, text) for text in LANGUAGES for name in ("basic", "plain", "letters")]
        lines += [("spelled", text) for text in ("The colour of the Centre.", "grey-ish greys, two greys", "théâtre", "Realise that")]
        lines += [("english", draw(rng)) for _ in range(300)] + [("basic", draw(rng)) for _ in range(30)]
        for name, text in lines:
            result = by_name[name](text)
            assert "\t" not in text + result and "\n" not in text + result
            print(name, text, result, sep="\t")


if __name__ == "__main__":
    main()
