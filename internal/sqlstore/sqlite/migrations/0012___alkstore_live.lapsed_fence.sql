-- Fence of the last claim that lapsed without a word; 0 once the job has answered since. Such a job may be what killed its worker.
ALTER TABLE __alkstore_live ADD COLUMN lapsed_fence INTEGER NOT NULL DEFAULT 0;
