-- Schema 19: which of its ways a device computes a product in, as it timed them, beside how much it
-- takes at once. docs/catalog-reference.md says what it is.

ALTER TABLE tuning ADD COLUMN ways BLOB NOT NULL DEFAULT x'';
