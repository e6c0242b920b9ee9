-- When the current claim was made (C4).
ALTER TABLE __alkstore_live ADD COLUMN claimed_at INTEGER;
