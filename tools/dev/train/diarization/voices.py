"""The voices: who speaks in training, in the development set, in the test set and in the far one (other
people's recorded voices than any of training). No voice, variant or base voice of one set is in another.

Four kinds, all synthetic:
  drawn    espeak-ng with a variant of ours: pitch, formants, breath, roughness drawn at random
  variant  espeak-ng's own variants (f2, Andy, klatt2, ...)
  flite    flite's recorded voices, as they are or of another size (resampled: pitch and formants)
  festival festival's recorded voices
In training those of flite and festival are turned into others: a size of their own, and a pitch.
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
FLITE = {"train": ("slt", "awb", "kal16"), "dev": (), "test": ("rms",), "far": ()}
# kal_diphone and cmu_us_slt_arctic_hts are the people of flite's kal16 and slt.
FESTIVAL = {"train": ("czech_krb", "czech_machac", "czech_ph", "suo_fi_lj_diphone", "pc_diphone",
                      "upc_ca_ona_hts", "msu_ru_nsh_clunits"), "dev": (), "test": (),
            "far": ("czech_dita", "ked_diphone", "lp_diphone", "hy_fi_mv_diphone")}
TURNED = 50  # voices that are made of each recorded one for training
DRAWN = {"train": 1600, "dev": 36, "test": 36, "far": 0}
SEEDS = {"train": 101, "dev": 202, "test": 303, "far": 404}


@dataclasses.dataclass
class Voice:
    name: str
    kind: str
    base: str  # variant, or flite's voice
    size: float  # flite and festival: what is resampled by
    languages: tuple
    rate: int  # words a minute
    text: str = ""  # drawn: the variant's file
    cents: int = 0  # flite and festival: by how much the pitch alone is moved


def draw(rng, name, wide=False):
    """A variant's file: a throat's size, formants of its own, and how it is excited. wide: of deeper and
    higher voices, of smaller and larger throats than the held-out sets have."""
    more = 0.06 if wide else 0.0
    pitch = (rng.uniform(75 - 150 * more, 170) if rng.random() < 0.5 else
             rng.uniform(140, 270 + 500 * more))
    size = (rng.uniform(0.88 - more, 1.08 + more) if pitch < 150 else
            rng.uniform(0.96 - more, 1.28 + more))
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
        return VARIANTS.get(split, ())
    held = {v for names in (*VARIANTS.values(), *RELATIVES.values()) for v in names}
    return sorted(set(os.listdir(f"{ESPEAK_DATA}/voices/!v")) - LEFT_OUT - held)


def turned(rng, kind, base, split):
    """The recorded voice itself, and in training others made of it."""
    found = [Voice(f"{base}-1.0", kind, base, 1.0, ("en-us",), 0)]
    while split == "train" and len(found) < TURNED:
        size, cents = round(rng.uniform(0.84, 1.2), 3), rng.randint(-350, 350)
        found.append(Voice(f"{base}-{size}-{cents}", kind, base, size, ("en-us",), 0, "", cents))
    return found


def voices(split):
    rng = random.Random(SEEDS[split])
    found = []
    for i in range(DRAWN[split]):
        name = f"ns-{split}-{i:03d}"
        text = draw(rng, name, split == "train")
        found.append(Voice(name, "drawn", "drawn", 1.0, some_languages(rng), rng.randint(120, 195), text))
    for name in variants(split):
        found.append(Voice(name, "variant", name, 1.0, some_languages(rng), rng.randint(120, 195)))
    for kind, bases in (("flite", FLITE), ("festival", FESTIVAL)):
        for base in bases[split]:
            found += turned(rng, kind, base, split)
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
