-- Schema 2: how much each device takes at once, as it was measured. docs/catalog-reference.md says
-- what every column means. Nothing refers to it: rows may be deleted, and are measured again.

CREATE TABLE tuning (
    device_id       TEXT NOT NULL,
    driver          TEXT NOT NULL,
    model_hash      TEXT NOT NULL,
    precision       TEXT NOT NULL,
    slots           INTEGER NOT NULL CHECK (slots BETWEEN 1 AND 4096),
    windows         INTEGER NOT NULL CHECK (windows BETWEEN 1 AND 4096),
    rate            REAL NOT NULL DEFAULT 0 CHECK (rate >= 0),
    predicted_bytes INTEGER NOT NULL DEFAULT 0 CHECK (predicted_bytes >= 0),
    peak_bytes      INTEGER NOT NULL DEFAULT 0 CHECK (peak_bytes >= 0),
    oom_count       INTEGER NOT NULL DEFAULT 0 CHECK (oom_count >= 0),
    at              TEXT NOT NULL,
    PRIMARY KEY (device_id, driver, model_hash, precision)
) STRICT, WITHOUT ROWID;
