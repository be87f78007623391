"""The voices: who speaks in training, in the development set and in the test set. No voice, variant
or base voice of one set is in another.

Three kinds, all synthetic:
  drawn    espeak-ng with a variant of ours: pitch, formants, breath, roughness drawn at random
  variant  espeak-ng's own variants (f2, Andy, klatt2, ...)
  flite    flite's recorded voices, as they are or of another size (resampled: pitch and formants)
"""
import dataclasses
import os
import random
import shutil

ESPEAK_DATA = "/usr/lib/x86_64-linux-gnu/espeak-ng-data"
# No aliases (en-gb, fr-fr): espeak-ng 1.51 forgets the variant behind those.
LANGUAGES = ("en-us", "en-us", "en", "es", "es-419", "de", "fr", "it", "pt-br", "nl", "pl", "sv")
# Whispers, robots and doubles of others.
LEFT_OUT = {"Demonic", "Mr serious", "UniRobot", "anikaRobot", "announcer", "croak", "fast", "whisper",
            "whisperf", "Tweaky", *(f"robosoft{i}" for i in ("", 2, 3, 4, 5, 6, 7, 8))}
VARIANTS = {
    "dev": ("Annie", "Lee", "m3", "f2", "klatt2", "belinda", "Michael", "sandro", "edward2", "aunty"),
    "test": ("Alicia", "Denis", "f4", "m5", "klatt3", "grandma", "Mike", "steph3", "linda", "michel"),
}
# Of a family that is held out as a whole: they are too much alike.
RELATIVES = {"dev": ("edward", "ed"), "test": ("steph", "steph2", "klatt6")}
FLITE = {"train": ("slt", "awb", "kal16"), "dev": (), "test": ("rms",)}
SIZES = {"train": (0.82, 0.88, 0.94, 1.0, 1.06, 1.13, 1.2), "dev": (), "test": (1.0,)}
DRAWN = {"train": 420, "dev": 36, "test": 36}
SEEDS = {"train": 101, "dev": 202, "test": 303}


@dataclasses.dataclass
class Voice:
    name: str
    kind: str
    base: str  # variant, or flite's voice
    size: float  # flite: what is resampled by
    languages: tuple
    rate: int  # words a minute
    text: str = ""  # drawn: the variant's file


def draw(rng, name):
    """A variant's file: a throat's size, formants of its own, and how it is excited."""
    pitch = rng.uniform(75, 170) if rng.random() < 0.5 else rng.uniform(140, 270)
    size = rng.uniform(0.88, 1.08) if pitch < 150 else rng.uniform(0.96, 1.28)
    lines = ["language variant", f"name {name}",
             f"pitch {pitch:.0f} {pitch * rng.uniform(1.15, 1.6):.0f}",
             f"flutter {rng.randint(0, 5)}", f"roughness {rng.randint(0, 3)}",
             f"voicing {rng.randint(75, 120)}", f"consonants {rng.randint(70, 120)} {rng.randint(70, 120)}"]
    if rng.random() < 0.25:
        lines.append(f"klatt {rng.choice((1, 2, 3, 4))}")
    if rng.random() < 0.3:
        lines.append("breath " + " ".join(str(rng.randint(0, 40)) for _ in range(8)))
    if rng.random() < 0.5:
        lines.append(f"tone {rng.randint(60, 180)} {rng.randint(180, 255)} {rng.randint(600, 1500)} "
                     f"{rng.randint(60, 220)} {rng.randint(2000, 4000)} {rng.randint(40, 200)}")
    for i in range(9):
        lines.append(f"formant {i} {100 * size * rng.uniform(0.92, 1.08):.0f} {rng.randint(60, 125)} "
                     f"{rng.randint(70, 160)}")
    return "\n".join(lines) + "\n"


def some_languages(rng):
    return tuple(rng.choice(LANGUAGES) for _ in range(3))


def variants(split):
    if split != "train":
        return VARIANTS[split]
    held = {v for names in (*VARIANTS.values(), *RELATIVES.values()) for v in names}
    return sorted(set(os.listdir(f"{ESPEAK_DATA}/voices/!v")) - LEFT_OUT - held)


def voices(split):
    rng = random.Random(SEEDS[split])
    found = []
    for i in range(DRAWN[split]):
        name = f"ns-{split}-{i:03d}"
        text = draw(rng, name)
        found.append(Voice(name, "drawn", "drawn", 1.0, some_languages(rng), rng.randint(120, 195), text))
    for name in variants(split):
        found.append(Voice(name, "variant", name, 1.0, some_languages(rng), rng.randint(120, 195)))
    for base in FLITE[split]:
        for size in SIZES[split]:
            found.append(Voice(f"{base}-{size}", "flite", base, size, ("en-us",), 0))
    return found


def espeak_folder(folder, voice):
    """espeak-ng's data (what --path wants: the folder that it is in) with this voice's variant among
    its own. One at a time: espeak-ng knows 350 files at most."""
    data = os.path.join(folder, "espeak-ng-data")
    if not os.path.isdir(data):
        shutil.copytree(ESPEAK_DATA, data)
    if voice.text:
        with open(os.path.join(data, "voices", "!v", voice.base), "w", encoding="ascii") as file:
            file.write(voice.text)
