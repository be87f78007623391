"""A catalog as rows that can be compared: every table, but what says when, how often and in which
order something was tried. docs/design/reliability.md has the list; `nightshift` is not asked.

Numbers of rows depend on the order of commits, so each is replaced by what it stands for.
"""
import os
import shutil
import sqlite3
import tempfile

# Tables of times and tries, of measured speeds, and those that SQLite and FTS5 keep (FTS5 checks
# its own).
TABLES_LEFT_OUT = {"event", "job", "run", "run_sample", "tuning", "sqlite_stat1",
                   "segment_fts", "segment_fts_data", "segment_fts_idx", "segment_fts_docsize",
                   "segment_fts_config", "sqlite_sequence"}
COLUMNS_LEFT_OUT = {
    ("shard", "wall_ms"), ("task", "attempts"), ("task", "suspect"), ("task", "asked"),
    ("place", "seen_job"),
    # The last failure of a try, which stays with the task when another try was good.
    ("task", "error"), ("task", "error_code"),
}
# Who it is, when a stage failed last, and how often vectors went.
SETTINGS_LEFT_OUT = ("identity", "failed:", "embedding_edits")
LEFT_OUT_ANYWHERE = {"at", "job_id", "trouble_id", "event_id"}  # and whatever ends with _at

# What a number stands for: the row's own columns, numbers among them resolved in turn.
IDENTITY = {
    "media": ("media_id", ["fingerprint", "size_bytes"]),
    "place": ("place_id", ["path_raw", "member_raw", "nth", "state"]),
    "stage": ("stage_id", ["name", "model_hash", "params", "source_id"]),
    "task": ("task_id", ["media_id", "stage_id"]),
    "segment": ("segment_id", ["task_id", "seq", "idx", "part"]),
    "speaker": ("speaker_id", ["task_id", "label"]),
    "embedding": ("embedding_id", ["task_id", "seq", "idx"]),
    "person": ("person_id", ["name"]),
    "person_voice": ("person_voice_id", ["person_id", "media_id"]),
    "correction": ("correction_id", ["media_id", "start_ms", "said", "meant"]),
}
OTHER_NAMES = {"source_id": "stage"}  # a column that refers to a table of another name


def connect(path, write=False):
    db = sqlite3.connect(f"file:{path}?mode={'rw' if write else 'ro'}", uri=True, timeout=30,
                         isolation_level=None)
    db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    return db


class _Names:
    def __init__(self, db):
        self.db, self.known = db, {}

    def table_of(self, column):
        for table, (key, _) in IDENTITY.items():
            if key == column:
                return table
        return OTHER_NAMES.get(column)

    def load(self, table):
        key, columns = IDENTITY[table]
        self.known[table] = found = {}
        for row in self.db.execute(f"SELECT {key}, {', '.join(columns)} FROM {table}"):
            found[row[0]] = row[1:]
        return found

    def of(self, column, value):
        table = self.table_of(column)
        if table is None or value is None:
            return value
        rows = self.known.get(table)
        if rows is None:
            rows = self.load(table)
        if value not in rows:
            return (table, "of nobody", value)
        return tuple(self.of(name, part) for name, part in zip(IDENTITY[table][1], rows[value]))


def rows_of(path):
    """{table: (columns, sorted rows)}"""
    db = connect(path)
    try:
        names, found = _Names(db), {}
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            if table in TABLES_LEFT_OUT:
                continue
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            kept = [c for c in columns if c not in LEFT_OUT_ANYWHERE and not c.endswith("_at")
                    and (table, c) not in COLUMNS_LEFT_OUT]
            rows = [tuple(names.of(c, v) for c, v in zip(kept, row)) for row in
                    db.execute(f"SELECT {', '.join(kept)} FROM {table}")]
            if table == "setting":
                rows = [row for row in rows if not row[0].startswith(SETTINGS_LEFT_OUT)]
            found[table] = kept, sorted(map(repr, rows))
        return found
    finally:
        db.close()


def shards_of(path):
    """What was computed, and when: {(recording, stage, number): done_at}; none without a catalog.
    Of a copy: whatever has to be mended in it is left to the program."""
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        return {}
    # Not beside it: another thread may be copying that folder.
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.dirname(path))) as folder:
        copy = os.path.join(folder, "copy.db")
        for extra in ("", "-wal", "-journal"):
            if os.path.exists(path + extra):
                shutil.copyfile(path + extra, copy + extra)
        db = connect(copy, write=True)
        try:
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'shard'").fetchone():
                return {}
            return {tuple(row[:3]): row[3] for row in db.execute(
                "SELECT hex(fingerprint), stage.name, seq, done_at FROM shard JOIN task USING"
                " (task_id) JOIN media USING (media_id) JOIN stage USING (stage_id)")}
        finally:
            db.close()


def differences(expected, found):
    said = []
    for table in sorted(set(expected) | set(found)):
        if table not in expected or table not in found:
            said.append(f"the table {table} is in one of them alone")
            continue
        columns, want = expected[table]
        have = found[table][1]
        if want != have:
            less = [row for row in want if row not in have]
            more = [row for row in have if row not in want]
            said.append(f"{table} ({', '.join(columns)}): {len(want)} rows, found {len(have)}"
                        + "".join(f"\n    - {row[:600]}" for row in less[:3])
                        + "".join(f"\n    + {row[:600]}" for row in more[:3]))
    return said


def unsound(path):
    """SQLite's check, the foreign keys, FTS5's own: what they say, [] when all is well."""
    db = connect(path, write=True)
    try:
        said = [row[0] for row in db.execute("PRAGMA integrity_check") if row[0] != "ok"]
        said += [f"foreign key: {row}" for row in db.execute("PRAGMA foreign_key_check")]
        try:
            db.execute("INSERT INTO segment_fts (segment_fts, rank) VALUES ('integrity-check', 1)")
        except sqlite3.Error as error:
            said.append(f"FTS5: {error}")
        return said
    except sqlite3.DatabaseError as error:
        return [str(error)]
    finally:
        db.close()
