#!/usr/bin/env python3
"""Counts what a reader has to keep in mind: files, lines, rooms, names, comments, documents.

    count_tree.py [ROOT ...]      a column for each source tree, to be compared (this one)

The product is what check_tree.py reads, without the folders that train, measure and pack.
  room        as in check_tree.py
  exported    a header of the product declares the function. Its users are the files that name it, but
              for its own room's
  one word    the function's name has no underscore
  reader      a file that includes the header, but for its own source
  inverted    the sentence of a comment begins with Of, What, Whose, Where, As or For
  telegram    it has a colon after its first four words or earlier
"""
import collections
import os
import re
import sys

import check_tree

HERE = os.path.dirname(os.path.abspath(__file__))
PROTOTYPE = re.compile(r"^(?!static|typedef|return|extern)[A-Za-z_][\w \t*]*?\b(\w+)\([^;{}]*\)"
                       r"(?:\s*__attribute__\(\([^;]*\)\))?;", re.M)
WORD = re.compile(r"[A-Za-z_]\w*")
# No part of the program: where they lie, and where they lay before they had a folder.
OUTBUILDINGS = ("tools/dev/", "tools/bench/", "tools/train/", "tools/engine_bench.c")
FUNCTION = re.compile(r"^(static\s+)?(?!typedef|return|else)[A-Za-z_][\w \t*]*?[ *]([a-z]\w*)\([^;{}]*\)\s*\{", re.M)
STRUCT = re.compile(r"^(?:static |const |typedef )*struct (\w+) \{", re.M)
INVERTED = re.compile(r"(?:Of|What|Whose|Where|As|For)\b")
TELEGRAM = re.compile(r"(?:\S+ ){0,3}\S+: ")
GETOPT = re.compile(r'\{"[\w-]+",\s*(?:no|required|optional)_argument')


def texts(root, trees, endings):
    for tree in trees:
        for where, folders, names in os.walk(os.path.join(root, tree)):
            folders.sort()
            for name in sorted(names):
                if name.endswith(endings):
                    path = os.path.join(where, name)
                    with open(path, encoding="utf-8", errors="replace") as file:
                        yield os.path.relpath(path, root), file.read()


def bare(text):
    """Without comments and strings."""
    return check_tree.COMMENT_OR_STRING.sub(" ", text)


def sentences(text):
    """Of its comments."""
    for found in check_tree.COMMENT_OR_STRING.finditer(text):
        comment = found.group()
        if comment.startswith("/"):
            lines = comment[2:-2] if comment.startswith("/*") else comment[2:]
            for paragraph in re.split(r"\n\s*\n(?:\s*- )?|\n\s*- ", re.sub(r"\n\s*\*+ ?", "\n", lines)):
                yield from filter(None, re.split(r"(?<=[.!?]) ", " ".join(paragraph.split())))


def share(part, whole):
    return f"{part} ({100 * part / max(whole, 1):.1f} %)"


def named(bodies):
    """(functions, those of one word, names that three or more static functions or structs have)."""
    functions, repeated = [], collections.Counter()
    for body in bodies:
        for static, name in FUNCTION.findall(body):
            functions.append(name)
            repeated[name] += bool(static)
        repeated.update(STRUCT.findall(body))
    return len(functions), sum("_" not in name for name in functions), sum(n > 2 for n in repeated.values())


def little_read(root, product):
    """Headers that one file includes, or none."""
    readers = {path: set() for path in product if path.endswith(".h")}
    for path, text in product.items():
        for line in text.split("\n"):
            found = check_tree.INCLUDE.match(line)
            header = found and found.group(1) and check_tree.resolve(root, path, found.group(1))
            if header in readers and os.path.splitext(header)[0] != os.path.splitext(path)[0]:
                readers[header].add(path)
    return sum(len(files) < 2 for files in readers.values()), len(readers)


def document_words(root):
    """(of README and docs, of measurements)."""
    with open(os.path.join(root, "README.md"), encoding="utf-8") as file:
        words = {"README.md": len(file.read().split())}
    words.update((path, len(text.split())) for path, text in texts(root, ["docs"], (".md",)))
    measured = sum(words.get(f"docs/{name}.md", 0) for name in ("measurements", "benchmarks"))
    return sum(words.values()) - measured, measured


def on_the_way(root, words):
    """What a recording is between `enqueue` and a committed segment, by the map's section of that name,
    and how many files deal with one of these; of a tree whose map has none: "-"."""
    pages = [os.path.join(root, name) for name in ("docs/design/architecture.md", "docs/architecture.md")]
    path = next(filter(os.path.isfile, pages), os.devnull)
    with open(path, encoding="utf-8") as file:
        way = re.search(r"^## A recording's way$(.*?)^## ", file.read(), re.M | re.S)
    values = set(re.findall(r"struct (\w+)", way.group(1))) if way else set()
    files = sum(bool(w & values) for w in words.values())
    return (len(values), files) if values else ("-", "-")


def count(root):
    product = {path: text for path, text in texts(root, check_tree.TREES, check_tree.SOURCES)
               if not path.startswith(OUTBUILDINGS)}
    tests = dict(texts(root, ["tests"], (".c", ".h", ".cpp", ".py")))
    room_of = check_tree.rooms(product)
    in_folder = {}
    for room in set(room_of.values()):
        in_folder.setdefault(os.path.dirname(room), []).append(room)
    bodies = {path: bare(text) for path, text in product.items()}
    words = {path: set(WORD.findall(body)) for path, body in bodies.items()}
    exported, once = {}, 0
    for path, body in bodies.items():
        if path.endswith(".h"):
            for name in PROTOTYPE.findall(body):
                exported.setdefault(name, path)
    for name, header in exported.items():
        users = [p for p, w in words.items() if name in w and room_of[p] != room_of[header]]
        once += len(users) == 1
    functions, of_one_word, repeated = named(bodies.values())
    unread, headers = little_read(root, product)
    said = [sentence for text in product.values() for sentence in sentences(text)]
    documents, measurements = document_words(root)
    largest = max(in_folder, key=lambda folder: len(in_folder[folder]))
    values, files = on_the_way(root, words)
    meant, check_tree.CIRCLES = check_tree.CIRCLES, []
    circles = list(check_tree.check_circles(root, product))
    check_tree.CIRCLES = meant
    return [
        ("files of the product", len(product)),
        ("lines of the product", sum(t.count("\n") for t in product.values())),
        ("rooms", sum(map(len, in_folder.values()))),
        ("folders", len(in_folder)),
        ("rooms of the largest folder", f"{len(in_folder[largest])} ({largest})"),
        ("circles of rooms", len(circles)),
        ("exported functions", len(exported)),
        ("exported functions per header", f"{len(exported) / headers:.1f}"),
        ("exported, used by one other file", share(once, len(exported))),
        ("headers with one reader or none", share(unread, headers)),
        ("functions", functions),
        ("functions with names of one word", share(of_one_word, functions)),
        ("names defined three times or more", repeated),
        ("sentences of comments", len(said)),
        ("inverted", share(sum(bool(INVERTED.match(s)) for s in said), len(said))),
        ("telegrams", share(sum(bool(TELEGRAM.match(s)) for s in said), len(said))),
        ("options declared for getopt", sum(len(GETOPT.findall(t)) for t in product.values())),
        ("values on a recording's way", values),
        ("files that name one of these", files),
        ("files of tests", len(tests)),
        ("lines of tests", sum(t.count("\n") for t in tests.values())),
        ("words of documents", documents),
        ("words of measurements", measurements),
    ]


if __name__ == "__main__":
    roots = sys.argv[1:] or [os.path.dirname(os.path.dirname(HERE))]
    columns = [count(root) for root in roots]
    for rows in zip(*columns):
        print(f"{rows[0][0]:34}" + "".join(f"{str(value):>24}" for _, value in rows))
