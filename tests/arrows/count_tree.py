#!/usr/bin/env python3
"""Counts what has to be held in the head: files, rooms, lines, exported functions.

    count_tree.py [ROOT ...]      a column for each source tree, to be compared (this one)

A room is what check_tree.py calls one. A function is exported when a header of the product declares
it; it is used by the files that name it, but for its room's own.
"""
import os
import re
import sys

import check_tree

HERE = os.path.dirname(os.path.abspath(__file__))
PROTOTYPE = re.compile(r"^(?!static|typedef|return|extern)[A-Za-z_][\w \t*]*?\b(\w+)\([^;{}]*\)"
                       r"(?:\s*__attribute__\(\([^;]*\)\))?;", re.M)
WORD = re.compile(r"[A-Za-z_]\w*")


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


def on_the_way(root, words):
    """What a recording is between `enqueue` and a committed segment, by the map's section of that name,
    and how many files deal with one of these; of a tree whose map has none: "-"."""
    path = os.path.join(root, "docs/architecture.md")
    with open(path, encoding="utf-8") as file:
        way = re.search(r"^## A recording's way$(.*?)^## ", file.read(), re.M | re.S)
    values = set(re.findall(r"struct (\w+)", way.group(1))) if way else set()
    files = sum(bool(w & values) for w in words.values())
    return (len(values), files) if values else ("-", "-")


def count(root):
    product = dict(texts(root, check_tree.TREES, check_tree.SOURCES))
    tests = dict(texts(root, ["tests"], (".c", ".h", ".cpp", ".py")))
    room_of = check_tree.rooms(product)
    in_folder = {}
    for room in set(room_of.values()):
        in_folder.setdefault(os.path.dirname(room), []).append(room)
    words = {path: set(WORD.findall(bare(text))) for path, text in product.items()}
    exported, once = {}, 0
    for path, text in product.items():
        if path.endswith(".h"):
            for name in PROTOTYPE.findall(bare(text)):
                exported.setdefault(name, path)
    for name, header in exported.items():
        users = [p for p, w in words.items() if name in w and room_of[p] != room_of[header]]
        once += len(users) == 1
    headers = sum(path.endswith(".h") for path in product)
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
        ("values on a recording's way", values),
        ("files that name one of these", files),
        ("exported, used by one other file", f"{100 * once / len(exported):.0f} %"),
        ("files of tests", len(tests)),
        ("lines of tests", sum(t.count("\n") for t in tests.values())),
    ]


if __name__ == "__main__":
    roots = sys.argv[1:] or [os.path.dirname(os.path.dirname(HERE))]
    columns = [count(root) for root in roots]
    for rows in zip(*columns):
        print(f"{rows[0][0]:34}" + "".join(f"{str(value):>24}" for _, value in rows))
