-- Schema 15: what nights that nobody watches leave in the catalog. docs/catalog-reference.md says what
-- every column means.

-- Samples of long ago go with each new one (store/runs.c).
CREATE INDEX run_sample_at ON run_sample (at);
