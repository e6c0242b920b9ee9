-- Stamp (D1).
ALTER TABLE __alkstore_dead ADD COLUMN visibility_timeout_s INTEGER NOT NULL DEFAULT 30;
