-- Error of the last failed attempt (H4).
ALTER TABLE __alkstore_live ADD COLUMN last_error TEXT;
