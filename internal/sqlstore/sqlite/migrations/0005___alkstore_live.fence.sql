-- Claims of the job over its whole life (C5).
ALTER TABLE __alkstore_live ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;
