-- 1: the payload is in __alkstore_payloads.
ALTER TABLE __alkstore_dead ADD COLUMN spilled INTEGER NOT NULL DEFAULT 0;
