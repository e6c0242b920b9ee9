-- Bytes of the whole payload; NULL on jobs from before this column, whose payload is in the row.
ALTER TABLE __alkstore_live ADD COLUMN payload_size INTEGER;
