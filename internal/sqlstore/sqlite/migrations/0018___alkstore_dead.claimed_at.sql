-- When the last claim was made.
ALTER TABLE __alkstore_dead ADD COLUMN claimed_at INTEGER;
