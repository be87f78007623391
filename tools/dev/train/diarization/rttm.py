"""Turns as RTTM files have them, of one recording or of many: where they are read and put together."""


def speakers(path):
    """{recording: its speakers} of an RTTM."""
    found = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if words and words[0] == "SPEAKER":
                found.setdefault(words[1], set()).add(words[7])
    return found


def spoken(path):
    """{recording: seconds of all turns} of an RTTM."""
    found = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if words and words[0] == "SPEAKER":
                found[words[1]] = found.get(words[1], 0.0) + float(words[4])
    return found


def join(paths, to):
    """Several recordings' turns in one file, as the scorer takes them; returns its path."""
    with open(to, "w", encoding="utf-8") as file:
        for path in sorted(paths):
            with open(path, encoding="utf-8") as part:
                file.write(part.read())
    return to
