-- 1: the payload is in __alkstore_payloads, so that claims and heartbeats do not rewrite it.
ALTER TABLE __alkstore_live ADD COLUMN spilled INTEGER NOT NULL DEFAULT 0;
