-- Schema 14: what each run did, and how its devices were used meanwhile.
-- docs/catalog-reference.md says what every column means. Nothing refers to the rows: old ones go by
-- themselves (store/runs.c), and any may be deleted while no run is on.

CREATE TABLE run (
    run_id            INTEGER PRIMARY KEY,
    started_at        TEXT NOT NULL,
    seen_at           TEXT NOT NULL,
    ended_at          TEXT,
    why               TEXT CHECK (why IN ('done', 'until', 'interrupted', 'paused', 'failed', 'lost')),
    reason            TEXT NOT NULL DEFAULT '',
    devices           TEXT NOT NULL DEFAULT '',
    recordings_done   INTEGER NOT NULL DEFAULT 0 CHECK (recordings_done >= 0),
    recordings_failed INTEGER NOT NULL DEFAULT 0 CHECK (recordings_failed >= 0),
    recordings_left   INTEGER NOT NULL DEFAULT 0 CHECK (recordings_left >= 0),
    audio_ms          INTEGER NOT NULL DEFAULT 0 CHECK (audio_ms >= 0),
    work_ms           INTEGER NOT NULL DEFAULT 0 CHECK (work_ms >= 0)
) STRICT;

CREATE TABLE run_sample (
    run_id          INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    device          TEXT NOT NULL,
    at              TEXT NOT NULL,
    span_ms         INTEGER NOT NULL CHECK (span_ms >= 0),
    busy_ms         INTEGER NOT NULL CHECK (busy_ms >= 0),
    audio_ms        INTEGER NOT NULL CHECK (audio_ms >= 0),
    memory_bytes    INTEGER NOT NULL DEFAULT 0 CHECK (memory_bytes >= 0),
    predicted_bytes INTEGER NOT NULL DEFAULT 0 CHECK (predicted_bytes >= 0),
    slots           INTEGER NOT NULL DEFAULT 0 CHECK (slots >= 0),
    windows         INTEGER NOT NULL DEFAULT 0 CHECK (windows >= 0),
    PRIMARY KEY (run_id, device, at)
) STRICT, WITHOUT ROWID;
