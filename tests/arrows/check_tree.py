#!/usr/bin/env python3
"""Reads every #include and every call of a source tree, and names what the house does not allow.

    check_tree.py ROOT      prints "file:line: what is wrong" lines; exit status 1 when there are any

Six rules:
1. An arrow between folders points as docs/design/architecture.md's table says (ARROWS below is that table).
2. A library's header stays in the folder that owns the library (OWNERS).
3. No function is called that cannot be called safely (BANNED).
4. The rooms of a folder include each other in no circle, but for those of CIRCLES. A room is a
   folder in it, or a source with its header; a header without a source is a wall within the room
   whose name it begins with (whisper_net.h: whisper).
5. A pointer is a condition by itself: NULL is compared with only where a value is wanted.
6. A path in backticks in docs/design leads somewhere. It begins at the root of the tree, or is the end
   of a source's or a folder's path; * and {a,b} are as a shell has them.
"""
import fnmatch
import os
import re
import sys

# Folder: the folders and headers of ours that it may include. The longest folder that fits a file
# counts, and every folder may include itself.
ARROWS = {
    "base": [],
    "gpu": ["base"],
    "gpu/host": ["base", "gpu/*.h"],
    "gpu/cuda": ["base", "gpu/*.h"],
    "workers": ["base", "gpu", "workers"],
    "workers/wire": ["base", "workers/results.h"],
    "workers/audio": ["base"],
    "workers/text": ["base"],
    "workers/models": ["base", "gpu", "workers/audio", "workers/speakers", "workers/text"],
    "workers/speakers": ["base"],
    "workers/stages/transcribe": ["base", "gpu", "workers/results.h", "workers/audio", "workers/text",
                                  "workers/models/asr_model.h", "workers/models/silero",
                                  "workers/stages/param_table.h",
                                  "workers/stages/hearing_params.h"],
    "workers/stages": ["base", "gpu", "workers/results.h", "workers/audio", "workers/text",
                       "workers/models", "workers/speakers", "workers/stages/transcribe"],
    "workers/media": ["base", "workers/audio", "workers/wire/fields.h",
                      "workers/wire/frame.h", "workers/results.h"],
    "store": ["base", "workers/results.h", "workers/text", "workers/wire/fields.h"],
    "scheduler": ["base", "store", "gpu/*.h", "gpu/devices/*.h",
                  "workers/results.h", "workers/wire", "workers/process/worker.h"],
    "tools": ["base", "gpu", "workers", "store", "scheduler", "tools"],
    # What could be a program of its own: it reads the catalog as anybody may, and asks for nothing.
    "tools/score": ["base", "store/store.h", "store/read", "workers/text", "workers/speakers/match.h",
                    "tools/cli", "tools/export", "tools/enqueue/found/walk.h"],
    "tools/parts": ["base", "store/lock.h", "store/read", "store/parting", "scheduler/run/options.h",
                    "workers/media/*.h", "tools/cli"],
    # A writer is handed a document, and knows no catalog.
    "tools/export/formats": ["base", "workers/results.h", "workers/text", "tools/export/*.h"],
}
TREES = ["base", "gpu", "workers", "store", "scheduler", "tools"]

# Headers of libraries, and where alone they may appear.
OWNERS = [
    (r"libav(format|codec|util|filter|device)/|libsw(resample|scale)/", "FFmpeg", "workers/media"),
    (r"archive(_entry)?\.h$", "libarchive", "workers/media"),
    (r"curl/", "libcurl", "tools/hub"),
    (r"openssl/", "OpenSSL", "tools/hub"),
    (r"seccomp\.h$|linux/(seccomp|landlock)\.h$", "the sandbox", "workers/media"),
    (r"uv\.h$|uv/", "libuv", "scheduler"),
    (r"sqlite3(ext)?\.h$", "SQLite", "store"),
    (r"(oneapi/dnnl/)?dnnl.*\.h(pp)?$", "oneDNN", "gpu/host"),
    (r"cuda.*\.h$|cublas.*\.h$|cudnn.*\.h$|nvml\.h$|cufft.*\.h$", "CUDA", "gpu/cuda"),
]

# Called name: what to call instead.
BANNED = {
    "strcpy": "utf8_copy or memcpy with a checked length", "strcat": "buf_put",
    "stpcpy": "memcpy with a checked length", "strncat": "buf_put",
    "strncpy": "utf8_copy (strncpy may leave the end off)",
    "sprintf": "snprintf or buf_printf", "vsprintf": "vsnprintf",
    "gets": "fgets", "scanf": "fgets and strtoll",
    "atoi": "strtol (atoi cannot say that it failed)", "atol": "strtol", "atoll": "strtoll",
    "atof": "strtod",
    "strtok": "strcspn", "localtime": "localtime_r", "gmtime": "gmtime_r", "ctime": "clock_iso8601",
    "asctime": "clock_iso8601", "rand": "a seeded generator handed in",
    "srand": "a seeded generator handed in", "readdir_r": "readdir",
    "system": "spawn_start", "popen": "spawn_start",
    "tmpnam": "mkstemp", "tempnam": "mkstemp", "mktemp": "mkstemp", "alloca": "malloc",
    "vfork": "spawn_start",
}
ENDING = {"exit": "an error that is handed up", "abort": "an error that is handed up",
          "quick_exit": "an error that is handed up"}
ENDING_ALLOWED = ["tools"]  # the main files

# Circles that are meant: the rooms of one folder, and why.
CIRCLES = [
    ("store", ["db", "full_text", "migrate", "store"],
     "db.h is what store/ knows of its own handle, store.h"),
    ("scheduler/run", ["figures", "process", "report", "run"],
     "the run's one struct, and what every part of a run may ask for, a process too"),
    ("workers/media", ["decoder", "wire"], "the parent's side and the messages of both"),
    ("workers/pass", ["feed", "lease", "shard_report"],
     "a track is dropped by whoever holds the lock, wherever its audio is"),
]

SOURCES = (".c", ".h", ".cu", ".cuh", ".inc")
PAGES = "docs/design"
NAMED = (*SOURCES, ".cpp", ".py", ".sql", ".tsv", ".cmake", "/")  # paths, wherever they begin
IN_BACKTICKS = re.compile(r"`([\w.@*{},-]+(?:/[\w.@*{},-]+)*/?)`")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)')
OPERAND = r"[\w.>*\[\]-]+(?:\([^()]*\))?"
COMPARED = re.compile(r"\b(?:if|while) \(" + OPERAND + r" [!=]= NULL\b|(?:&&|\|\|)\s+" + OPERAND
                      + r" [!=]= NULL\b|[^()] [!=]= NULL\s+(?:&&|\|\||\?)")
CALL = re.compile(r"(?<![\w.>])([A-Za-z_]\w*)[ \t\n]*\(")
COMMENT_OR_STRING = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def folder_of(path):
    """The longest folder of ARROWS that holds this path."""
    best = ""
    for folder in ARROWS:
        if path.startswith(folder + "/") and len(folder) > len(best):
            best = folder
    return best


def fits(path, pattern):
    if pattern.endswith("/*.h"):  # the headers right in that folder, not below it
        return os.path.dirname(path) == pattern[:-4] and path.endswith(".h")
    return path == pattern or path.startswith(pattern + "/")


def resolve(root, source, name):
    """Where a quoted include leads, as a path below root; None when it leads nowhere."""
    for base in ("", os.path.dirname(source)):
        path = os.path.normpath(os.path.join(base, name))
        if os.path.isfile(os.path.join(root, path)):
            return path
    return None


def check_includes(root, source, text):
    folder = folder_of(source)
    # Not out of the stripped text: a quoted include looks like a string there.
    code = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.S)
    for number, line in enumerate(code.split("\n"), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match.group(1) or match.group(2)
        path = resolve(root, source, name) if match.group(1) else None
        if path:
            if folder_of(path) == "" and not path.startswith(tuple(t + "/" for t in TREES)):
                yield number, f'"{name}" is in no folder that the program may include'
            elif folder_of(path) != folder and not any(fits(path, p) for p in ARROWS[folder]):
                yield number, (f'"{name}": {folder}/ may not include it; it may include '
                               + (", ".join(ARROWS[folder]) or "nothing of ours"))
            continue
        owned = False
        for pattern, library, owner in OWNERS:
            if re.match(pattern, name):
                owned = True
                if not source.startswith(owner + "/"):
                    yield number, f"<{name}>: {library} belongs to {owner}/ alone"
        if match.group(1) and not owned and not name.startswith("config"):
            yield number, f'"{name}" is not in the tree'


def rooms(paths):
    """The room of each path: the path without its ending, or that of the room it is a wall of."""
    stems = {os.path.splitext(path)[0] for path in paths if not path.endswith((".h", ".cuh"))}
    found = {}
    for path in paths:
        stem = os.path.splitext(path)[0]
        parts = os.path.basename(stem).split("_")
        while stem not in stems and len(parts) > 1:
            parts.pop()
            stem = os.path.join(os.path.dirname(path), "_".join(parts))
        found[path] = stem if stem in stems else os.path.splitext(path)[0]
    return found


def circles(arrows):
    """The groups of rooms from each of which every other can be reached (Tarjan)."""
    order, low, stack, found = {}, {}, [], []

    def visit(room):
        order[room] = low[room] = len(order)
        stack.append(room)
        for other in sorted(arrows.get(room, ())):
            if other not in order:
                visit(other)
                low[room] = min(low[room], low[other])
            elif other in stack:
                low[room] = min(low[room], order[other])
        if low[room] == order[room]:
            group = stack[stack.index(room):]
            del stack[stack.index(room):]
            if len(group) > 1:
                found.append(sorted(group))

    for room in sorted(arrows):
        if room not in order:
            visit(room)
    return found


def check_circles(root, texts):
    """texts: path -> text of every source. A circle between folders is one of the folder above."""
    room_of = rooms(texts)
    arrows = {}
    for source, text in texts.items():
        for match in re.finditer(INCLUDE.pattern, text, re.M):
            path = resolve(root, source, match.group(1)) if match.group(1) else None
            if path not in room_of:
                continue
            one, other = room_of[source].split("/"), room_of[path].split("/")
            depth = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), None)
            if depth:
                arrows.setdefault("/".join(one[:depth + 1]), set()).add("/".join(other[:depth + 1]))
    for group in circles(arrows):
        folder = os.path.dirname(group[0])
        names = [os.path.basename(room) for room in group]
        if not any(folder == where and set(names) <= set(meant) for where, meant, _ in CIRCLES):
            yield f"{folder}/: a circle of rooms: {', '.join(names)}"


def check_calls(source, text):
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0))

    code = COMMENT_OR_STRING.sub(blank, text)
    for match in CALL.finditer(code):
        name = match.group(1)
        instead = BANNED.get(name)
        if not instead and name in ENDING and not any(fits(source, f) for f in ENDING_ALLOWED):
            instead = ENDING[name]
        if instead:
            yield code.count("\n", 0, match.start()) + 1, f"{name}() is banned: use {instead}"
    for match in COMPARED.finditer(code):
        yield code.count("\n", 0, match.end()) + 1, "a pointer is a condition by itself, without NULL"


def braces(text):
    """a{b,c}d as abd and acd."""
    match = re.search(r"\{([^{}]*)\}", text)
    if not match:
        return [text]
    return [whole for one in match.group(1).split(",")
            for whole in braces(text[:match.start()] + one + text[match.end():])]


def all_paths(root):
    """Every file below root, and every folder with a / behind it; nothing that is hidden or built."""
    found = set()
    for where, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != "build" and name[0] not in "._"]
        inside = os.path.relpath(where, root)
        for name in (*names, *(name + "/" for name in folders)):
            found.add(name if inside == "." else f"{inside}/{name}")
    return found


def check_pages(root):
    """(page, line, sentence) of each path in a page of the design that leads nowhere."""
    paths = all_paths(root)
    ends = {path[i:] for path in paths for i in range(len(path)) if i == 0 or path[i - 1] == "/"}
    tops = {path for path in paths if path.count("/") == 1 and path.endswith("/")}
    for page in sorted(path for path in paths if path.startswith(PAGES + "/") and path.endswith(".md")):
        with open(os.path.join(root, page), encoding="utf-8") as file:
            lines = file.read().split("\n")
        for number, line in enumerate(lines, 1):
            for path in (p for match in IN_BACKTICKS.finditer(line) for p in braces(match.group(1))):
                if path.split("/")[0] + "/" in tops:
                    among = paths
                elif path.endswith(NAMED):
                    among = ends
                else:
                    continue
                if not any(p in among or "*" in p and fnmatch.filter(among, p) for p in (path, path + "/")):
                    yield page, number, f"{path} leads nowhere"


def check_tree(root):
    """All that is wrong below root, as 'file:line: sentence' strings (a circle: 'folder/: sentence'),
    and the number of files read."""
    found, texts = [], {}
    for tree in TREES:
        for where, folders, names in os.walk(os.path.join(root, tree)):
            folders.sort()
            for name in sorted(names):
                if not name.endswith(SOURCES):
                    continue
                path = os.path.join(where, name)
                source = os.path.relpath(path, root)
                with open(path, encoding="utf-8", errors="replace") as file:
                    text = file.read()
                texts[source] = text
                for number, sentence in sorted([*check_includes(root, source, text),
                                                *check_calls(source, text)]):
                    found.append(f"{source}:{number}: {sentence}")
    found.extend(check_circles(root, texts))
    found.extend(f"{page}:{number}: {sentence}" for page, number, sentence in check_pages(root))
    return found, len(texts)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    problems, count = check_tree(sys.argv[1])
    print("\n".join(problems) if problems else f"{count} files, nothing to say")
    sys.exit(1 if problems else 0)
