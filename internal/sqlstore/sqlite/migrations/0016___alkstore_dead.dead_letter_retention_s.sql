-- Stamp (D1). Jobs that died before stamps are kept: nobody agreed to their deletion.
ALTER TABLE __alkstore_dead ADD COLUMN dead_letter_retention_s INTEGER;
