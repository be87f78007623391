-- Schema 17: what the driver saw of a GPU while a run used it. docs/catalog-reference.md says what every
-- column means; NULL is what nobody told.

ALTER TABLE run_sample ADD COLUMN seen_ms INTEGER NOT NULL DEFAULT 0 CHECK (seen_ms >= 0);
ALTER TABLE run_sample ADD COLUMN left_ms INTEGER NOT NULL DEFAULT 0 CHECK (left_ms >= 0);
ALTER TABLE run_sample ADD COLUMN load_ms INTEGER CHECK (load_ms >= 0);
ALTER TABLE run_sample ADD COLUMN energy_j INTEGER CHECK (energy_j >= 0);
ALTER TABLE run_sample ADD COLUMN temperature_c INTEGER CHECK (temperature_c >= 0);
ALTER TABLE run_sample ADD COLUMN used_bytes INTEGER CHECK (used_bytes >= 0);
