"""No test has a real model, and the program takes the demo's by name alone: here it is named."""
import os
import sqlite3

NAME = "--model=whisper-nano"
OF_OTHERS = ("--diarize", "--sounds", "--embed")  # with these alone the catalog's newest transcription is taken
# Of these none says how something is done: the recipe of the folder does.
SAYS_NOTHING = ("--again", "--all", "--allow-unsandboxed", "--catalog", "--dry-run", "--exclude", "--follow", "--hidden",
                "--include", "--json", "--one-file-system", "--poll", "--priority", "--quiet", "--settled", "--watch")
NO_MODEL = ("--help", "--model", "--no-transcribe")


def as_openais(hub, nano, *names):
    """Puts the demo's model into a Hugging Face cache under other names: what is taken where none is named."""
    for name in names:
        place = os.path.join(hub, "models--" + name.replace("/", "--"))
        for folder in ("snapshots", "refs"):
            os.makedirs(os.path.join(place, folder))
        os.symlink(nano, os.path.join(place, "snapshots", "1" * 40))
        with open(os.path.join(place, "refs", "main"), "w", encoding="ascii") as file:
            file.write("1" * 40)


def _recipes(catalog):
    """(path, kind) of each; none where there is no catalog, or none that can be read."""
    try:
        connection = sqlite3.connect(f"file:{catalog}?mode=ro", uri=True, timeout=30)
        try:
            return connection.execute("SELECT path, kind FROM recipe").fetchall()
        finally:
            connection.close()
    except sqlite3.Error:
        return []


def _is_below(path, folder):
    return (path + "/").startswith(folder.rstrip("/") + "/")


def named(args, catalog, cwd):
    """The command line; of an enqueue that would have to choose a model, with that of the demo."""
    args = [os.fspath(a) for a in args]
    if "enqueue" not in args[:1]:
        return args
    text = [a.decode("utf-8", "replace") if isinstance(a, bytes) else a for a in args[1:]]
    options = {a.partition("=")[0] for a in text if a.startswith("--")}
    if "-m" in text or "-h" in text or options & set(NO_MODEL):
        return args
    recipes = _recipes(catalog)
    # A whole path is not looked at: it may be on a disk that answers no more.
    paths = [os.path.normpath(a) for a in text if a.startswith("/")]
    paths += [os.path.join(cwd, a) for a in text if a[:1] not in ("-", "/") and os.path.exists(os.path.join(cwd, a))]
    said = options - set(SAYS_NOTHING)
    transcribed = [r for r in recipes if r[1] == "transcribe"]
    if said and all(option.startswith(OF_OTHERS) for option in said):
        known = bool(transcribed)
    else:
        known = all(any(_is_below(p, folder) for folder, _ in (transcribed if said else recipes)) for p in paths)
    return args if known else [args[0], NAME, *args[1:]]
