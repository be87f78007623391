"""The sets of recordings: what each is made of, and what is said in it.

A set is a list of Recordings. Those that are made lie in the cache and are the same each time, by their seed.
"""
import array
import hashlib
import math
import os
import random
import wave

import cache
import ours
from words import words

RATE = 16000
# What faster-whisper 1.2.1, batched, hears with whisper-base: 549 words, all that is said.
SEVEN_TEXTS = os.path.join(cache.HERE, "seven")


class Passage:
    def __init__(self, begin, end, language, text):
        self.begin, self.end, self.language, self.text = begin, end, language, text  # seconds; text None: not known


class Recording:
    """passages in their order; none: nobody speaks."""

    def __init__(self, name, path, passages):
        self.name, self.path, self.passages = name, path, passages

    @property
    def language(self):
        return "+".join(sorted({p.language for p in self.passages}))

    @property
    def text(self):
        return " ".join(p.text for p in self.passages)


def decoded(path):
    """16-bit samples of one channel."""
    raw = ["-f", "g722"] if path.endswith(".g722") else []
    data = cache.called(["ffmpeg", "-v", "error", *raw, "-i", path, "-ac", "1", "-ar", str(RATE), "-f", "s16le", "-"],
                        f"{path} cannot be decoded")
    return array.array("h", data)


def put_wave(path, samples):
    with wave.open(path, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes(samples.tobytes())


def silence(seconds):
    return array.array("h", bytes(2 * int(seconds * RATE)))


def made(name, make):
    """In the cache, and anew when what makes it has changed."""
    with open(os.path.abspath(__file__), "rb") as file:
        return cache.made(f"{name}-{hashlib.sha256(file.read()).hexdigest()[:8]}", make)


def clip_text(folder, name):
    with open(os.path.join(folder, os.path.splitext(name)[0] + ".txt"), encoding="utf-8") as file:
        return file.read().strip()


# ---- clips whose words are known

def known_words():
    folder, rows = cache.clips()
    return [Recording(row["file"], os.path.join(folder, row["file"]),
                      [Passage(0, float(row["seconds"]), row["language"], clip_text(folder, row["file"]))])
            for row in rows if row["words known"] == "yes"]


# ---- seven clips whose speech was lost when packed

def seven():
    folder, _ = cache.clips()

    def make(into):
        jfk = decoded(os.path.join(folder, "fw_jfk.flac"))[:11 * RATE]
        talk = decoded(os.path.join(folder, "fw_multilingual.mp3"))
        hotwords = decoded(os.path.join(folder, "fw_hotwords.mp3"))
        for begin in (0, 3, 6, 9, 12, 15):
            put_wave(os.path.join(into, f"jfk-talk-{begin:02}.wav"), jfk + talk[begin * RATE:29 * RATE])
        put_wave(os.path.join(into, "hotwords-jfk.wav"), hotwords + jfk)

    folder_of, ret = made("seven", make), []
    for name in sorted(os.listdir(folder_of)):
        text = None
        path = os.path.join(SEVEN_TEXTS, name[:-4] + ".txt")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                text = file.read().strip()
        ret.append(Recording(name, os.path.join(folder_of, name), [Passage(0, 40, "en", text)]))
    return ret


# ---- prompts

EACH = 20                  # prompts of a language
SHORTEST_S, LONGEST_S = 2, 9
SURE = -0.5                # mean log probability


def chosen(language, folder):
    """Some of a language's prompts, each with a little silence around it."""
    files = cache.prompts(language)
    names = sorted(files)
    random.Random("chosen " + language).shuffle(names)
    ret = []
    for name in names:
        if len(ret) < EACH and SHORTEST_S <= os.path.getsize(files[name]) / 8000 <= LONGEST_S:  # 64 kbit/s
            path = os.path.join(folder, f"{language}-{name}.wav")
            put_wave(path, silence(0.3) + decoded(files[name]) + silence(0.3))
            ret.append(Recording(name, path, []))
    return ret


def hear_alone(folder):
    """texts.tsv: a row for each prompt of which whisper-base is sure when it hears it alone, told its language and
    without voice activity. Nobody has written down their words; these say what is lost among others."""
    with open(os.path.join(folder, "texts.tsv"), "w", encoding="utf-8") as file:
        for language in cache.PROMPTS:
            items = chosen(language, folder)
            heard = ours.transcribe(items, options=("--vad=off", "--language", language))
            for r in items:
                text = " ".join(s[3] for s in heard.segments[r.name])
                if len(words(text)) > 2 and min(heard.sureness[r.name]) >= SURE:
                    file.write(f"{language}\t{r.name}\t{text}\n")


def prompts():
    """Files of 10 to 60 s, one language each: each prompt three times, in any order, with pauses of 0.2 to 3 s."""
    alone, texts, plans = made("prompts-alone", hear_alone), {}, {}
    with open(os.path.join(alone, "texts.tsv"), encoding="utf-8") as file:
        for line in file:
            language, name, text = line.rstrip("\n").split("\t")
            texts.setdefault(language, {})[name] = text
    for language, known in texts.items():
        chance = random.Random("prompts " + language)
        names = 3 * sorted(known)
        chance.shuffle(names)
        while names:
            seconds, plan, at = chance.uniform(10, 50), [], 0.0
            while names and at < seconds:
                pause = chance.uniform(0.2, 3)
                plan.append((names.pop(), pause))
                at += pause + 4  # a prompt's usual length
            plans[f"prompts-{language}-{len(plans):02}.wav"] = (language, plan)

    def make(into):
        for name, (language, plan) in plans.items():
            samples = array.array("h")
            for prompt, pause in plan:
                samples += silence(pause) + decoded(os.path.join(alone, f"{language}-{prompt}.wav"))
            put_wave(os.path.join(into, name), samples + silence(0.5))

    folder_of = made("prompts", make)
    return [Recording(name, os.path.join(folder_of, name),
                      [Passage(0, 60, language, " ".join(texts[language][prompt] for prompt, _ in plan))])
            for name, (language, plan) in sorted(plans.items())]


# ---- nobody speaks

def hum(n, chance):
    f, drift = chance.choice((50, 60)), chance.uniform(0, 6)
    return [0.3 * math.sin(2 * math.pi * f * k / RATE) + 0.1 * math.sin(2 * math.pi * 3 * f * k / RATE + drift)
            for k in range(n)]


def tone(n, chance):
    f = chance.uniform(200, 3000)
    return [0.3 * math.sin(2 * math.pi * f * k / RATE) for k in range(n)]


def white(n, chance):
    level = 10 ** chance.uniform(-3, -0.7)
    return [level * chance.gauss(0, 0.4) for _ in range(n)]


def pink(n, chance):
    """By the sum of three low passes (P. Kellet's economy filter)."""
    level, a, b, c, ret = 10 ** chance.uniform(-2.5, -0.7), 0.0, 0.0, 0.0, []
    for _ in range(n):
        w = chance.gauss(0, 0.4)
        a = 0.99765 * a + w * 0.0990460
        b = 0.96300 * b + w * 0.2965164
        c = 0.57000 * c + w * 1.0526913
        ret.append(level * 0.3 * (a + b + c + w * 0.1848))
    return ret


def clicks(n, chance):
    ret = [0.0005 * chance.gauss(0, 1) for _ in range(n)]
    for _ in range(1 + n // RATE * 3):
        at, level = chance.randrange(n), chance.uniform(0.2, 0.9)
        for k in range(min(60, n - at)):
            ret[at + k] += level * math.exp(-k / 12) * (1 if k % 2 else -1)
    return ret


def breath(n, chance):
    """Noise through a band of the throat's, that swells and goes."""
    f, ret, x1, x2 = chance.uniform(500, 1500), [], 0.0, 0.0
    r = 0.93
    for k in range(n):
        x = chance.gauss(0, 1) + 2 * r * math.cos(2 * math.pi * f / RATE) * x1 - r * r * x2
        x1, x2 = x, x1
        ret.append(0.01 * x * math.sin(math.pi * min(1.0, k / max(1, n - 1))) ** 2)
    return ret


KINDS = (hum, tone, white, pink, clicks, breath)


def short_silences():
    """60 sounds of 0.1 to 5 s."""
    def make(into):
        for kind in KINDS:
            chance = random.Random("silence " + kind.__name__)
            for k in range(10):
                seconds = 0.1 * 50 ** (k / 9)
                samples = kind(int(seconds * RATE), chance)
                put_wave(os.path.join(into, f"{kind.__name__}-{k}-{seconds:.1f}s.wav"),
                         array.array("h", (int(max(-1.0, min(1.0, x)) * 32767) for x in samples)))

    folder_of = made("silences", make)
    return [Recording(name, os.path.join(folder_of, name), []) for name in sorted(os.listdir(folder_of))]


# ---- several languages

JOINED = (  # clips with known words, behind each other
    ("lj_LJ001-0001.flac", "che_test_de.flac"),
    ("mfa_13697_11991_000000.opus", "lj_LJ001-0003.flac"),
    ("che_test_fr.flac", "lh_2412_0.flac"),
    ("fw_jfk.flac", "mfa_13697_11991_000000.opus", "lj_LJ001-0004.flac"),
    ("che_test_en_norm.flac", "che_test_de_norm.flac", "che_test_en.flac"),
    ("che_test_it.flac", "ps_0870.flac"),
    ("ps_0920.flac", "che_test_pt.flac", "ps_0890.flac"),
    ("mfa_se10x016-08071999-1334_u0016002.flac", "mfa_61-70968-0000.flac"),
    ("lj_LJ001-0001.flac", "lj_LJ001-0003.flac", "che_test_fr.flac", "che_test_es.flac"),
    ("che_test_de.flac", "che_test_fr.flac", "che_test_es.flac", "che_test_it.flac"),
)


def languages():
    folder, rows = cache.clips()
    known = {row["file"]: row["language"] for row in rows}
    plans = {f"languages-{k:02}.wav": plan for k, plan in enumerate(JOINED)}

    def make(into):
        for name, plan in plans.items():
            samples = array.array("h")
            with open(os.path.join(into, name + ".times"), "w", encoding="utf-8") as times:
                for clip in plan:
                    part = decoded(os.path.join(folder, clip))
                    times.write(f"{len(samples) / RATE} {(len(samples) + len(part)) / RATE}\n")
                    samples += part + silence(0.8)
            put_wave(os.path.join(into, name), samples)

    folder_of, ret = made("languages", make), []
    for name, plan in plans.items():
        with open(os.path.join(folder_of, name + ".times"), encoding="utf-8") as file:
            times = [tuple(map(float, line.split())) for line in file]
        ret.append(Recording(name, os.path.join(folder_of, name),
                             [Passage(*time, known[clip], clip_text(folder, clip))
                              for time, clip in zip(times, plan)]))
    return ret


SETS = {"words": known_words, "seven": seven, "prompts": prompts, "silences": short_silences,
        "languages": languages}
