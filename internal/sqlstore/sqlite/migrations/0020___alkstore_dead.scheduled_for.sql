-- Boundary that the job was fired for (S7).
ALTER TABLE __alkstore_dead ADD COLUMN scheduled_for INTEGER;
