#!/usr/bin/env python3
"""The tree keeps the house's rules, and the check that says so can fail.

Each rule is broken on purpose in a small tree of its own: the check must name the file, the line
and the reason.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import check_tree  # noqa: E402
import count_tree  # noqa: E402

ROOT = os.environ.get("NIGHTSHIFT_SOURCE_DIR", os.path.dirname(os.path.dirname(HERE)))

MAP = "docs/design/architecture.md"
ROOMS_MOST = 26  # in a folder of the product: some 25

# What is there to be included in every fixture.
COMMON = ["base/err.h", "gpu/backend.h", "gpu/host/matmul.h", "gpu/cuda/matmul.h",
          "workers/wire/frame.h", "workers/wire/protocol.h", "workers/process/engine.h",
          "workers/text/tokenizer/vocabulary.h", "workers/models/whisper/whisper.h", "workers/stages/transcribe/transcribe.h",
          "workers/media/decoder.h", "store/store.h", "scheduler/plan/planner.h", "tools/cli/cli.h"]


def check(files):
    with tempfile.TemporaryDirectory() as root:
        for path in COMMON:
            files.setdefault(path, "")
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        return check_tree.check_tree(root)[0]


class TheTree(unittest.TestCase):
    def test_keeps_the_rules(self):
        found, files = check_tree.check_tree(ROOT)
        self.assertEqual([], found, "\n" + "\n".join(found))
        self.assertGreater(files, 20, f"{ROOT} does not look like the source tree")

    def test_table_is_the_one_that_people_read(self):
        with open(os.path.join(ROOT, MAP), encoding="utf-8") as file:
            arrows = file.read().split("\n## The arrows\n")[1].split("\n## ")[0]
        rows = re.findall(r"^\| `([^`]+)/` \|", arrows, re.M)
        self.assertEqual(sorted([*check_tree.ARROWS, "tests"]), sorted(rows))

    def test_scripts_that_measure_say_how_and_what_they_lack(self):
        folder = os.path.join(ROOT, "tools/dev/bench")
        with tempfile.TemporaryDirectory() as lacking:
            with open(os.path.join(lacking, "numpy.py"), "w", encoding="ascii") as file:
                file.write("raise ModuleNotFoundError\n")

            def said_by(name, *arguments):
                return subprocess.run([sys.executable, os.path.join(folder, name), *arguments], capture_output=True, text=True,
                                      check=False, env=dict(os.environ, PYTHONPATH=lacking, PYTHONDONTWRITEBYTECODE="1"))

            for name in sorted(os.listdir(folder)):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    if "python3" not in file.readline():
                        continue
                with self.subTest(script=name):
                    done = said_by(name, "--help")
                    self.assertEqual((0, ""), (done.returncode, done.stderr))
            for name, arguments in (("compare_texts", ["--vad=x"]), ("compare_faster_whisper", [])):
                with self.subTest(script=name):
                    done = said_by(name, "--nightshift=x", *arguments)
                    self.assertEqual((77, ""), (done.returncode, done.stderr))
                    self.assertRegex(done.stdout, f"^{name}: not measured: numpy is not installed\n$")

    def test_folders_are_on_the_map_and_hold_what_one_can_look_over(self):
        with open(os.path.join(ROOT, MAP), encoding="utf-8") as file:
            named = set(re.findall(r"[a-z0-9_]+", file.read()))
        folders = {}
        paths = dict(count_tree.texts(ROOT, check_tree.TREES, check_tree.SOURCES))
        for room in set(check_tree.rooms(paths).values()):
            folders.setdefault(os.path.dirname(room), []).append(room)
        self.assertGreater(len(folders), 20)
        for folder, rooms in folders.items():
            self.assertTrue(os.path.basename(folder) in named,
                            f"{MAP} does not name {folder}/")
            self.assertLessEqual(len(rooms), ROOMS_MOST, f"{folder}/ is more than one room")


class Format(unittest.TestCase):
    """Every source as clang-format has it, by the file in the root. Other versions than Debian 12's
    see some lines otherwise."""

    VERSION = "14."

    @classmethod
    def absent(cls):
        """Why it cannot be tested here; "" when it can."""
        if not shutil.which("clang-format"):
            return "there is no clang-format"
        said = subprocess.run(["clang-format", "--version"], capture_output=True, text=True, check=True).stdout
        return "" if f"version {cls.VERSION}" in said else f"not version {cls.VERSION}x: {said.strip()}"

    def test_keeps_the_format(self):
        sources = [os.path.join(where, name) for tree in (*check_tree.TREES, "tests")
                   for where, _, names in os.walk(os.path.join(ROOT, tree)) for name in names
                   if name.endswith((".c", ".h"))]
        self.assertGreater(len(sources), 100)
        done = subprocess.run(["clang-format", "--dry-run", "--Werror", *sources], cwd=ROOT,
                              capture_output=True, text=True, check=False)
        self.assertEqual(0, done.returncode, "\n".join(done.stderr.split("\n")[:20]))


class WithoutCuda(unittest.TestCase):
    """gpu/cuda can be deleted: that no source needs it the arrows say, this says it of CMake."""

    def configure(self, preset, *more):
        with tempfile.TemporaryDirectory() as tree:
            os.mkdir(os.path.join(tree, "gpu"))
            for name in os.listdir(ROOT) + [f"gpu/{name}" for name in os.listdir(os.path.join(ROOT, "gpu"))]:
                if name not in ("build", "gpu", "gpu/cuda"):
                    os.symlink(os.path.join(ROOT, name), os.path.join(tree, name))
            return subprocess.run(["cmake", "--preset", preset, *more], cwd=tree, capture_output=True,
                                  text=True, check=False)

    def test_the_rest_configures(self):
        for preset in ("release", "engine"):
            with self.subTest(preset=preset):
                done = self.configure(preset)
                self.assertEqual(0, done.returncode, done.stderr)
                self.assertIn("CUDA module: no (gpu/cuda is not here)", done.stdout)
                self.assertIn("Emulated CUDA: no (gpu/cuda is not here)", done.stdout)

    def test_who_asks_for_the_module_is_told(self):
        done = self.configure("engine", "-DNIGHTSHIFT_CUDA=ON")
        self.assertNotEqual(0, done.returncode)
        self.assertIn("NIGHTSHIFT_CUDA=ON, but gpu/cuda is not here", done.stderr)


class TheCheck(unittest.TestCase):
    def broken(self, path, text, sentence, line):
        found = check({path: text})
        self.assertEqual(1, len(found), found)
        self.assertTrue(found[0].startswith(f"{path}:{line}: "), found)
        self.assertIn(sentence, found[0])

    def test_arrows_that_point_up(self):
        for path, include in [
                ("base/err.c", "gpu/backend.h"), ("base/err.c", "store/store.h"),
                ("gpu/budget.c", "workers/wire/frame.h"), ("gpu/host/matmul.c", "gpu/cuda/matmul.h"),
                ("gpu/cuda/matmul.cu", "gpu/host/matmul.h"),
                ("workers/process/worker.c", "store/store.h"), ("workers/process/worker.c", "scheduler/plan/planner.h"),
                ("workers/media/decoder.c", "workers/models/whisper/whisper.h"),
                ("workers/models/whisper/whisper.c", "workers/stages/transcribe/transcribe.h"),
                ("workers/stages/transcribe/transcribe.c", "workers/media/decoder.h"),
                ("workers/stages/transcribe/transcribe.c", "workers/models/whisper/whisper.h"),
                ("store/store.c", "workers/wire/protocol.h"), ("store/store.c", "scheduler/plan/planner.h"),
                ("workers/wire/protocol.c", "workers/media/decoder.h"),
                ("scheduler/run/run.c", "workers/process/engine.h"),
                ("scheduler/run/run.c", "gpu/host/matmul.h"), ("scheduler/run/run.c", "tools/cli/cli.h")]:
            with self.subTest(path=path, include=include):
                self.broken(path, f'#include "base/err.h"\n#include "{include}"\n',
                            "may not include", 2)

    def test_a_relative_include_is_no_way_around(self):
        self.broken("store/store.c", '#include "../scheduler/plan/planner.h"\n', "may not include", 1)

    def test_an_include_that_leads_nowhere(self):
        self.broken("store/store.c", '#include "store/gone.h"\n', "is not in the tree", 1)

    def test_libraries_outside_their_folder(self):
        for path, header in [
                ("workers/process/worker.c", "libavformat/avformat.h"), ("tools/main.c", "archive.h"),
                ("workers/process/worker.c", "archive_entry.h"), ("workers/process/worker.c", "uv.h"),
                ("tools/main.c", "sqlite3.h"), ("scheduler/run/run.c", "sqlite3.h"),
                ("gpu/backend.c", "oneapi/dnnl/dnnl.h"), ("gpu/host/matmul.c", "cuda_runtime.h"),
                ("gpu/host/matmul.c", "cudnn.h"), ("tools/main.c", "seccomp.h"),
                ("tools/cli/cli.c", "curl/curl.h"), ("workers/models/files/weights.c", "openssl/evp.h"),
                ("workers/models/whisper/whisper.c", "dnnl.h")]:
            with self.subTest(path=path, header=header):
                self.broken(path, f"\n#include <{header}>\n", "belongs to", 2)

    def test_banned_calls(self):
        for name in check_tree.BANNED:
            with self.subTest(name=name):
                self.broken("store/store.c", f"void f(void)\n{{\n    {name}(0);\n}}\n",
                            f"{name}() is banned", 3)
        for name in check_tree.ENDING:
            with self.subTest(name=name):
                self.broken("store/store.c", f"void f(void) {{ {name}(1); }}\n", "is banned", 1)

    def test_null_in_conditions(self):
        for condition in ("p == NULL", "p->x[1] != NULL && n", "n || find(p, 1) == NULL", "n && p == NULL"):
            with self.subTest(condition=condition):
                self.broken("store/store.c", f"void f(void)\n{{\n    if ({condition})\n        g();\n}}\n",
                            "a condition by itself", 3)
        self.broken("store/store.c", 'const char *s = p != NULL ? p : "";\n', "a condition by itself", 1)

    def test_paths_of_the_design_that_lead_nowhere(self):
        for path in ("store/gone.c", "store/gone/", "store/{store,gone}.h", "store/*.sql", "gone.c", "gone/",
                     "oneway/store/store.h"):
            with self.subTest(path=path):
                self.broken("docs/design/x/page.md", f"`store/store.h` and\n`{path}`\n", "leads nowhere", 2)
        self.assertEqual([], check({"docs/design/page.md": "`store/*.h`, `workers/{wire,media}/`, `store.h`, `plan/`,"
                                    " `tools`, `/proc/self/exe`, `FILE.lock`, `a/b`, store/gone.c\n"}))

    def circle(self, files, sentence):
        found = check(files)
        self.assertEqual([sentence] if sentence else [], found)

    def test_circles_of_rooms(self):
        # Through sources as through headers, over three rooms, and between folders.
        self.circle({"store/a.h": "", "store/a.c": '#include "store/b.h"\n',
                     "store/b.h": '#include "store/a.h"\n', "store/b.c": ""},
                    "store/: a circle of rooms: a, b")
        self.circle({"store/a.h": '#include "store/b.h"\n', "store/a.c": "",
                     "store/b.h": '#include "store/c.h"\n', "store/b.c": "",
                     "store/c.h": "", "store/c.c": '#include "store/a.h"\n'},
                    "store/: a circle of rooms: a, b, c")
        self.circle({"tools/one/a.c": '#include "tools/two/b.h"\n', "tools/one/a.h": "",
                     "tools/two/b.h": "", "tools/two/b.c": '#include "tools/one/a.h"\n'},
                    "tools/: a circle of rooms: one, two")

    def test_a_wall_is_no_room(self):
        self.circle({"store/a.h": "", "store/a.c": '#include "store/a_inside.h"\n',
                     "store/a_inside.h": '#include "store/a.h"\n',
                     "store/b.c": '#include "store/a.h"\n'}, None)

    def test_every_meant_circle_is_there(self):
        meant, check_tree.CIRCLES = check_tree.CIRCLES, []
        try:
            found = "\n".join(check_tree.check_tree(ROOT)[0])
        finally:
            check_tree.CIRCLES = meant
        for folder, names, why in meant:
            self.assertIn(f"{folder}/: a circle of rooms: {', '.join(sorted(names))}", found)
            self.assertTrue(why)

    def test_what_is_allowed_stays_allowed(self):
        self.assertEqual([], check({
            "scheduler/run/run.c": '#include <uv.h>\n#include "workers/wire/protocol.h"\n'
                               '#include "gpu/backend.h"\n#include "store/store.h"\n',
            "workers/media/decode.c": "#include <libavformat/avformat.h>\n#include <archive.h>\n",
            "gpu/host/matmul.c": '#include <oneapi/dnnl/dnnl.h>\n#include "gpu/backend.h"\n',
            "store/store.c": "#include <sqlite3.h>\n/* #include <uv.h>\n#include <uv.h> */\n"
                             '/* strcpy(a, b) */ // gets(x)\nconst char *s = "system(1)";\n'
                             "void f(void) { t->exit(1); u.system(2); my_strcpy(3); _exit(4); }\n"
                             "bool g(void) { return p != NULL; }\nbool a = q == NULL; /* r == NULL && s */\n",
            "tools/main.c": "int main(void) { exit(0); }\n"}))


class TheCount(unittest.TestCase):
    """count_tree.py counts what it says, on a tree whose counts are plain."""

    TREE = {
        "base/list.h": "/* A list that grows. Of its owner it knows nothing. */\nint list_add(struct list *l);\nint list_end(void);\n",
        "base/list.c": '#include "base/list.h"\nstruct part {\n};\nint list_add(struct list *l)\n{\n}\nint list_end(void)\n{\n}\n',
        "store/one.c": '#include "base/list.h"\nstatic int part(void)\n{\n    list_add(0);\n    list_end();\n}\n'
                       'static const struct option known[] = {{"all", no_argument, 0, 1}, {"to",\n  required_argument, 0, 2}};\n',
        "store/two.c": '#include "store/few.h"\n/* NULL: the whole list. What is left goes on the heap: nobody frees it.\n'
                       ' *\n *  - As it was. */\nstatic char *part(int n)\n{\n    list_add(0); // "For: a string"\n}\n',
        "store/few.h": "",
        "tools/dev/pack.c": '#include "store/few.h"\n/* For nobody. */\nint pack(void)\n{\n}\n',
        "tests/test.c": "int main(void)\n{\n}\n",
        "README.md": "Five words are in here.\n", "docs/design/how.md": "three more words\n", "docs/measurements.md": "| 1 |\n",
    }

    def test_counts(self):
        with tempfile.TemporaryDirectory() as root:
            for path, text in self.TREE.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            found = dict(count_tree.count(root))
        for what, wanted in {
                "files of the product": 5, "exported functions": 2, "exported, used by one other file": "1 (50.0 %)",
                "headers with one reader or none": "2 (100.0 %)", "functions": 4,
                "functions with names of one word": "2 (50.0 %)", "names defined three times or more": 1,
                "sentences of comments": 6, "inverted": "3 (50.0 %)", "telegrams": "2 (33.3 %)",
                "options declared for getopt": 2, "files of tests": 1, "words of documents": 8, "words of measurements": 3}.items():
            self.assertEqual(wanted, found[what], what)


if __name__ == "__main__":
    if "Format" in sys.argv and Format.absent():
        print(f"skipped: {Format.absent()}")
        sys.exit(77)
    unittest.main(verbosity=2)
