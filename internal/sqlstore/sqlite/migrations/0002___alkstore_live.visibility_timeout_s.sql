-- Stamp (E2). Jobs from before stamps get the documented default of their time.
ALTER TABLE __alkstore_live ADD COLUMN visibility_timeout_s INTEGER NOT NULL DEFAULT 30;
