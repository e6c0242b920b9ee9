-- Claims of the job over its whole life (C5).
ALTER TABLE __alkstore_dead ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;
