-- Bytes of the whole payload; NULL on jobs from before this column, whose payload is in the row.
ALTER TABLE __alkstore_dead ADD COLUMN payload_size INTEGER;
