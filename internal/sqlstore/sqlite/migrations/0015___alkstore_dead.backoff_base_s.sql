-- Stamp (D1).
ALTER TABLE __alkstore_dead ADD COLUMN backoff_base_s INTEGER NOT NULL DEFAULT 5;
