#!/usr/bin/env python3
"""What the documents print is what the program prints.

Each console block of README.md, docs/start, docs/how-to and docs/reference that shows a `$ nightshift` command with its
output is run here, in a home with the demo's recordings and models, as its page says. Its lines are compared word by
word. Numbers with their units, dates and the processor's name may differ; "..." stands for any lines. A block that
depends on a machine that is not here (WORDS) is not run: its words are looked for in the program's own texts.
"""
import functools
import getpass
import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import night  # first: it says where demo_model lies
import demo_model

PAGES = ["README.md", *(f"docs/{folder}/*.md" for folder in ("start", "how-to", "reference"))]
WORDS, OTHERS = "words", "not the program's text"  # of a block that is not run
CPU = "AMD EPYC"  # the pages' machine

NUMBER = re.compile(r"""(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\ \d+\ [A-Z][a-z]{2}\ \d{4},\ )?
                        (?<![\w-])\d[\d.,:]*(?:-\d\d-\d\d)?(?<![.,:])
                        (?:\ ?(?:ms|min|[smhW]|[kMG]i?B|°C)(?!\w))?""", re.X)
MACHINE = re.compile(r"\b(?:fp32|int16|bf16|avx\w*)\b")


class Block:
    """How a block is run. before: for a command that begins so, what is done first; yes: it would ask, and gets a yes."""

    def __init__(self, state="night", before=None, yes=None, env=None):
        self.state, self.before, self.yes, self.env = state, before or {}, yes, env or {}


# The archive of some pages; a model of speakers by its name: the demo's.
ARCHIVE = "mkdir -p archive/1990; cp recordings/english/farmer.wav archive/1990/; cp recordings/english/weather.ogg archive/;"
GE2E = (f"ln -s '{os.path.join(night.SOURCE, 'workers/models/diarization-nano')}' "
        ".local/share/nightshift/models/diarization-ge2e;")
BOX = ("mkdir -p archive/'#recycle'; (cd recordings; python3 -m zipfile -c ../archive/box.zip english/*.*);"
       "nightshift enqueue --model whisper-nano /archive; cp recordings/spanish/archivo.mp4 archive/kept.mp4;"
       "cp archive/kept.mp4 archive/.note.mp4; cp archive/kept.mp4 archive/'#recycle'/; echo words > archive/notes.txt")
# A page and the first command of a block in it; a block that is not here begins after the night of docs/start.
BLOCKS = {
    ("README.md", "nightshift run ~/recordings"): Block("fresh"),
    ("docs/start/first-night.md", "nightshift enqueue --model whisper-nano --diarize=diarization-nano --sounds ~/recordings"):
        Block("fresh"),
    ("docs/start/first-night.md", "nightshift plan"): Block("evening"),
    ("docs/start/first-night.md", "nightshift run"): Block("evening"),
    ("docs/how-to/monitor.md", None): OTHERS,  # a line of JSON
    ("docs/how-to/run-every-night.md", None): OTHERS,  # a crontab
    ("docs/start/models.md", "nightshift setup"): WORDS,  # it goes by the machine's memory and speed
    ("docs/how-to/change-models.md", "nightshift enqueue --model openai/whisper-small --beam-size 2 /archive"):
        Block("fresh", {"nightshift enqueue --model": ARCHIVE + "nightshift run /archive"}),
    ("docs/how-to/change-models.md", "nightshift enqueue --again --model openai/whisper-small /archive"):
        Block("fresh", {"nightshift enqueue --again": ARCHIVE + "nightshift run /archive;"
                        "nightshift enqueue --again --model openai/whisper-small --beam-size 2 /archive; nightshift run"}),
    ("docs/how-to/choose-files.md", "nightshift enqueue --dry-run /archive"):
        Block("fresh", {"nightshift enqueue --dry-run": BOX}),
    ("docs/how-to/correct-texts.md", "nightshift export -f srt -o subs ~/recordings/english"):
        Block(before={"nightshift correct --dry-run": "sed -i s/late/early/ subs/english/three-voices.srt"}),
    ("docs/how-to/correct-texts.md", "nightshift correct --list"):
        Block(before={"nightshift correct --list": "nightshift correct --at 0:09.75 three-voices.opus 'the weather was cold.'"}),
    ("docs/how-to/erase.md", "nightshift erase --dry-run /home/ana/recordings/english/weather.ogg"):
        Block(yes="nightshift erase --by"),
    ("docs/how-to/estimate.md", "nightshift plan"): Block("evening"),
    ("docs/how-to/estimate.md", "nightshift bench --rounds 1"): WORDS,  # half a minute of all processors
    ("docs/how-to/set-options.md", "nightshift enqueue --model openai/whisper-small --diarize /archive"):
        Block("fresh", {"nightshift enqueue --model": ARCHIVE + GE2E}),
    ("docs/how-to/use-many-machines.md", "nightshift enqueue ~/recordings"):
        Block("fresh", env={"NIGHTSHIFT_CATALOG": "nightshift.db"}),
    ("docs/how-to/verify-files.md", "nightshift verify", 2):
        Block(before={"nightshift verify": "nightshift verify; rm recordings/english/*"}),
}


def blocks():
    """(page, line, [(command, [lines])]) of each block that shows what the program prints. Without a command: None."""
    for pattern in PAGES:
        for path in sorted(glob.glob(os.path.join(night.SOURCE, pattern))):
            page = os.path.relpath(path, night.SOURCE)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M):
                shown, lines = [], match.group(2).splitlines()
                for line in lines:
                    if line.startswith("$ "):
                        shown.append((line[2:], []))
                    elif shown:
                        shown[-1][1].append(line)
                if not shown and not match.group(1):
                    shown = [(None, lines)]
                if any(printed and (not command or command.startswith("nightshift ")) for command, printed in shown):
                    yield page, text.count("\n", 0, match.start()) + 1, shown


def words(text):
    """The words that must be the same. Quantities in a row, as in "1 min 22 s", are one."""
    text = MACHINE.sub("TYPE", NUMBER.sub("#", text))
    return re.sub(r"#(?:\s+#(?!\w))+", "#", text).split()


def stretches(lines):
    """[(words with their lines, whether anything may stand before them, and behind)]: what stands between "..."."""
    found, current, gap = [], [], False
    for line in lines:
        text = re.sub(r"(^| )\.\.\.$", "", line)
        for i, word in enumerate(words(text)):
            if not (i == 0 and word == "#" and current and current[-1][0] == "#"):
                current.append((word, line))
        if text != line:
            if current:
                found.append((current, gap, True))
            current, gap = [], True
    return found + [(current, gap, False)] if current else found


def drift(lines, said):
    """The first line of a document that the program does not print, with what it prints there; None: it prints all."""
    printed, at = words(said), 0
    for stretch, before, behind in stretches(lines):
        wanted = [word for word, _ in stretch]
        last = max(at, len(printed) - len(wanted))
        starts = [at] if not before else range(at, last + 1) if behind else range(last, at - 1, -1)
        best, where = -1, at
        for start in starts:
            same = 0
            while same < len(wanted) and printed[start + same:start + same + 1] == wanted[same:same + 1]:
                same += 1
            if same > best:
                best, where = same, start
            if same == len(wanted):
                break
        if best < len(wanted):
            there = " ".join(printed[where + best:][:12])
            return f"in {stretch[best][1]!r} it does not print {wanted[best]!r}; it prints {there!r}"
        at = where + len(wanted)
        if not behind and at < len(printed):
            return f"behind {stretch[-1][1]!r} it prints {' '.join(printed[at:][:12])!r}"
    return None


def plain(text):
    """Words without numbers, names of files and the signs at their ends."""
    stripped = [word.strip("().,:;`'") for word in words(text) if "TYPE" not in word]
    return [word for word in stripped if re.search("[a-zA-Z]", word) and not re.search(r"\.(?:wav|mp3)$", word)]


@functools.lru_cache(None)
def program_texts():
    """All string literals of the program's sources, as plain words between blanks."""
    found = []
    for folder in ("base", "store", "scheduler", "tools", "workers"):
        for path in glob.glob(os.path.join(night.SOURCE, folder, "**", "*.[ch]"), recursive=True):
            with open(path, encoding="utf-8") as file:
                source = file.read()
            for literal in re.findall(r'"(?:[^"\\\n]|\\.)*"(?:\s*(?:PRI\w+\s*)?"(?:[^"\\\n]|\\.)*")*', source):
                text = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', literal)).replace("\\n", " ").replace('\\"', '"')
                text = re.sub(r"%[-+ #0]*[\d*]*(?:\.[\d*]+)?(?:hh|ll|[hlzjt])?[diouxXeEfgGcs]?", " ", text)
                found.append(" " + " ".join(plain(text)) + " ")
    return "\n".join(["", *found, ""])


def unknown(lines):
    """The words of a document that the program has in no text of its own. What stands together in the document stands
    together in a text of three words or more, or it is a text by itself."""
    texts, missing = program_texts(), []
    left = plain("\n".join(line for line in lines if line != "...").replace(CPU, ""))
    while left:
        for length in range(len(left), 0, -1):
            run = f" {' '.join(left[:length])} "
            if (run if length > 2 else f"\n{run}\n") in texts:
                break
        else:
            length = 1
            missing.append(left[0])
        left = left[length:]
    return missing


class Documents(night.Night):
    """One home for all blocks: fresh, in the evening, after the night. Each block begins with a copy of one."""

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="night-", dir=os.environ.get("NIGHTSHIFT_TEST_DIR"))
        cls.addClassCleanup(shutil.rmtree, cls.dir, True)
        models = os.path.join(night.SHARED, "models")
        missing = [name for name in ("silero-vad", "yamnet") if not os.path.isdir(os.path.join(models, name))]
        if missing:
            raise unittest.SkipTest(f"skipped: {', '.join(missing)}: not in {models}")
        cls.home, cls.bin = os.path.join(cls.dir, "home"), os.path.join(cls.dir, "bin")
        share = os.path.join(cls.home, ".local/share/nightshift/models")
        os.makedirs(share)
        os.mkdir(cls.bin)
        os.symlink(night.PROGRAM, os.path.join(cls.bin, "nightshift"))
        for name in ("silero-vad", "yamnet"):
            os.symlink(os.path.realpath(os.path.join(models, name)), os.path.join(share, name))
        # The pages' recordings are the demo's, without what was said in them.
        shutil.copytree(night.DEMO, os.path.join(cls.home, "recordings"), ignore=shutil.ignore_patterns("said", "*.rttm"))
        shutil.copytree(os.path.join(night.DEMO, "said"), os.path.join(cls.home, "references"))
        demo_model.as_openais(os.path.join(cls.home, ".cache/huggingface/hub"), night.MODEL, "openai/whisper-small")
        cls.keep("fresh")
        cls.type("nightshift enqueue --model whisper-nano --diarize=diarization-nano --sounds ~/recordings")
        cls.keep("evening")
        cls.type("nightshift run")
        cls.keep("night")

    def setUp(self):
        pass

    @classmethod
    def keep(cls, state):
        shutil.copytree(cls.home, os.path.join(cls.dir, state), symlinks=True)

    @classmethod
    def begin(cls, state):
        shutil.rmtree(cls.home)
        shutil.copytree(os.path.join(cls.dir, state), cls.home, symlinks=True)

    @classmethod
    def type(cls, command, env=None, status=0):
        """What the shell prints, with the paths of the documents. status None: any."""
        whole = {k: v for k, v in os.environ.items() if not k.startswith(("XDG_", "HF_", "NIGHTSHIFT_"))}
        whole.update(HOME=cls.home, PATH=cls.bin + ":" + whole["PATH"], NIGHTSHIFT_DEVICES="cpu", NO_COLOR="1",
                     LC_ALL="C.UTF-8", TZ="UTC", **(env or {}))
        command = re.sub(r"(?<![\w/.])/archive", cls.home + "/archive", command)
        command = command.replace("/home/ana", cls.home)
        done = subprocess.run(["stdbuf", "-oL", "sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=whole, cwd=cls.home, timeout=night.PATIENCE_S, check=False)
        said = done.stdout.decode()
        if done.returncode < 0 or status not in (None, done.returncode):
            raise AssertionError(f"$ {command}   (status {done.returncode})\n{said}")
        said = said.replace(cls.home + "/archive", "/archive").replace(cls.home, "/home/ana")
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            cpu = re.search(r"model name\s*: (.*)", file.read())
        said = said.replace(cpu.group(1).strip(), CPU) if cpu else said
        said = said.replace("no GPU: NIGHTSHIFT_DEVICES=cpu leaves GPUs out; working on the processor\n", "")
        return re.sub(rf"\b{re.escape(getpass.getuser())},", "ana,", said)

    def run_block(self, block, shown):
        self.begin(block.state)
        for command, lines in shown:
            for start, first in block.before.items():
                if command.startswith(start):
                    self.type(first, block.env, status=None)
            if command.startswith("cat "):
                with open(os.path.join(self.home, command[4:]), "w", encoding="utf-8") as file:
                    file.write("\n".join(lines) + "\n")
                continue
            # What a page shows no output of goes well; the other may say what is wrong.
            if block.yes and command.startswith(block.yes):
                command += " --yes"
            said = self.type(command, block.env, status=None if lines or " play " in command else 0)
            if lines:
                found = drift(lines, said)
                self.assertIsNone(found, f"\n$ {command}\n{said}\n{found}")

    def test_what_pages_print(self):
        ways, used, seen = [], set(), {}
        for page, line, shown in blocks():
            first = shown[0][0]
            seen[page, first] = seen.get((page, first), 0) + 1
            key = (page, first) if seen[page, first] == 1 else (page, first, seen[page, first])
            block = BLOCKS.get(key, Block() if first else WORDS)
            used.add(key)
            ways.append(f"{page}:{line}: {'run' if isinstance(block, Block) else block}")
            if block is OTHERS:
                continue
            with self.subTest(block=f"{page}:{line}"):
                if block is WORDS:
                    self.assertEqual([], unknown([text for _, lines in shown for text in lines]))
                else:
                    self.run_block(block, shown)
        print("\n".join(["", *ways]))
        self.assertEqual(set(), set(BLOCKS) - used, "no such blocks")
        self.assertGreater(len(ways), 30)


class Comparison(unittest.TestCase):
    """It finds what drifted."""

    def test_a_word(self):
        said = "14 recordings found: 13 new.\n1 file skipped.\nJob 1: 13 to do, in 2 min 41 s\n"
        for lines in (["2 recordings found: 3 new.", "...", "Job 4: 1 to do, in 8.5 s"], ["14 recordings found: ..."],
                      ["...", "1 file skipped.", "..."], ["4 recordings found: 1 new. 2 file", "skipped.", "..."]):
            self.assertIsNone(drift(lines, said), lines)
        for lines, word in ((["14 recordings found: 13 known.", "..."], "print 'known.'; it prints 'new. #"),
                            (["14 recordings found: 13 new.", "Job 1: 13 to do, in 1 s"], "print 'Job'"),
                            (["...", "1 file left.", "..."], "print 'left.'"), (["...", "1 file skipped."], "it prints 'Job"),
                            (["14 recordings found: 13 new.", "1 file skipped."], "behind '1 file skipped.' it prints 'Job")):
            self.assertIn(word, drift(lines, said) or "", lines)

    def test_a_word_in_no_text(self):
        self.assertEqual([], unknown(["Whisper base: the best that does 100 hours of sound in 10 hours here."]))
        self.assertNotEqual([], unknown(["Whisper base: the best that does 100 hours of sound in 10 hours somewhat."]))


if __name__ == "__main__":
    night.main()
