-- Name of the schedule that fired the job (S7).
ALTER TABLE __alkstore_live ADD COLUMN schedule TEXT;
