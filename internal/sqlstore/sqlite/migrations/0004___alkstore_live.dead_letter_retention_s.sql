-- Stamp (E2); NULL keeps the dead job for ever. Jobs from before stamps get 90 days.
ALTER TABLE __alkstore_live ADD COLUMN dead_letter_retention_s INTEGER DEFAULT 7776000;
