-- Schema 9: what was asked for last, folder by folder, so that an enqueue which says nothing keeps
-- to it. docs/catalog-reference.md says what every column means.
CREATE TABLE asking (
    path_raw BLOB NOT NULL,
    kind     TEXT NOT NULL,
    path     TEXT NOT NULL,
    stage_id INTEGER NOT NULL REFERENCES stage,
    job_id   INTEGER NOT NULL REFERENCES job,
    options  TEXT,
    PRIMARY KEY (path_raw, kind)
) STRICT, WITHOUT ROWID;
