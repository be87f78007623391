#!/usr/bin/env python3
"""Checks subtitle files against limits, by a reading of its own of srt, vtt and EBU-TT-D.

    subtitle_checker.py FILE...     what is wrong with each by the usual limits, and its reading speeds
"""
import re
import sys
import unicodedata
import xml.etree.ElementTree as ET

TT = "{http://www.w3.org/ns/ttml}"
LIMITS = {"width": 42, "lines": 2, "cps": 20, "min": 833, "max": 7000, "gap": 83, "late": 700}


def milliseconds(text):
    hours, minutes, seconds = text.replace(",", ".").split(":")
    return int(hours) * 3600000 + int(minutes) * 60000 + round(float(seconds) * 1000)


def cues_of(path):
    """Of each cue: begin and end in milliseconds, its lines, its speaker (None: it does not say)."""
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    if path.endswith(".xml"):
        for p in ET.fromstring(text).iter(TT + "p"):
            lines = [""]
            for node in p.iter():
                if node.tag == TT + "br":
                    lines.append("")
                elif node.tag == TT + "span":
                    lines[-1] += node.text or ""
            yield milliseconds(p.get("begin")), milliseconds(p.get("end")), lines, None
        return
    for block in re.split(r"\n\n+", text.strip("\n")):
        rows = block.split("\n")
        at = next((i for i, row in enumerate(rows) if " --> " in row), None)
        if at is None or rows[0].startswith("NOTE"):
            continue
        begin, end = rows[at].split(" --> ")
        lines, speaker = rows[at + 1:], None
        if path.endswith(".vtt"):
            named = re.match(r"<v ([^>]*)>", lines[0])
            speaker = named.group(1) if named else ""
            lines = [re.sub(r"<[^>]*>", "", line).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
                     for line in lines]
        yield milliseconds(begin), milliseconds(end), lines, speaker


def read_characters(text):
    return sum(unicodedata.category(c) not in ("Mn", "Me", "Cf") for c in text)


def width(text):
    return sum(0 if unicodedata.category(c) in ("Mn", "Me", "Cf") else
               2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def speed(cue):
    return read_characters(" ".join(cue[2])) * 1000 / (cue[1] - cue[0])


def wrong_with(cues, limits):
    """Sentences. Too fast is only a cue that could be seen for longer before the next one."""
    for i, cue in enumerate(cues):
        begin, end, lines, _ = cue
        name = f"{i + 1} ({begin}-{end} {lines})"
        if any(width(line) > limits["width"] for line in lines):
            yield f"{name}: a line of {max(map(width, lines))} columns"
        if not 1 <= len(lines) <= limits["lines"] or not all(line.strip() for line in lines):
            yield f"{name}: {len(lines)} lines"
        if not limits["min"] <= end - begin <= limits["max"]:
            yield f"{name}: {end - begin} ms"
        if i + 1 < len(cues) and cues[i + 1][0] - end < limits["gap"]:
            yield f"{name}: {cues[i + 1][0] - end} ms before the next one"
        room = cues[i + 1][0] - end > limits["gap"] if i + 1 < len(cues) else True
        if speed(cue) > limits["cps"] * 1.001 and room and end - begin < limits["max"]:
            yield f"{name}: {speed(cue):.1f} characters a second, and there is room"


def speeds(cues, cps):
    """The middle, nine of ten, the fastest; and which part of the cues is faster than cps."""
    all_of = sorted(speed(cue) for cue in cues) or [0]
    return (all_of[len(all_of) // 2], all_of[len(all_of) * 9 // 10], all_of[-1],
            sum(s > cps * 1.001 for s in all_of) / len(all_of))


if __name__ == "__main__":
    status = 0
    for name in sys.argv[1:]:
        found = list(cues_of(name))
        for sentence in wrong_with(found, LIMITS):
            print(f"{name}: {sentence}")
            status = 1
        print(f"{name}: {len(found)} cues; characters a second: middle %.1f, 90%% %.1f, most %.1f; %.0f%% too fast"
              % tuple(x * (100 if i == 3 else 1) for i, x in enumerate(speeds(found, LIMITS["cps"]))))
    sys.exit(status)
