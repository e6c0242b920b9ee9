-- Some files of the oldest shape have no state on dead jobs.
ALTER TABLE __alkstore_dead ADD COLUMN state TEXT NOT NULL DEFAULT 'dead';
