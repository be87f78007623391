-- Schema 16: what nights that nobody watches leave in the catalog. docs/catalog-reference.md says what
-- every column means.

-- Samples of long ago go with each new one (store/runs.c).
CREATE INDEX run_sample_at ON run_sample (at);

-- --------------------------------------------------------------------------------- priorities

-- What comes first: 1 high, 0 normal, -1 low. Of a job NULL: nothing was said, and what is queued
-- already stays where it is.
ALTER TABLE task ADD COLUMN priority INTEGER NOT NULL DEFAULT 0 CHECK (priority BETWEEN -1 AND 1);
ALTER TABLE job ADD COLUMN priority INTEGER CHECK (priority BETWEEN -1 AND 1);
-- In the order in which a run takes them (store/task.c): by priority, then by number.
DROP INDEX task_runnable;
CREATE INDEX task_runnable ON task (stage_id, task_id - priority * 281474976710656)
    WHERE state = 'pending' AND paused = 0 AND absent = 0 AND waits IS NULL;
CREATE INDEX task_high ON task (media_id) WHERE priority > 0 AND state = 'pending';
