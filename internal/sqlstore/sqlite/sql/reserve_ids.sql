-- Moves the sequence on by :ids, and says what it was and what it is.
UPDATE sqlite_sequence
SET seq = max(CAST(seq AS INTEGER), coalesce((SELECT max(id) FROM __alkstore_live), 0)) + :ids
WHERE name = '__alkstore_live'
RETURNING seq - :ids, seq;
