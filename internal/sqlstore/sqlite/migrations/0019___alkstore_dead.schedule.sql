-- Name of the schedule that fired the job (S7).
ALTER TABLE __alkstore_dead ADD COLUMN schedule TEXT;
