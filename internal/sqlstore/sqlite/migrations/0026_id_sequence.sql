-- Files of the oldest shape may hold dead jobs with higher ids than any live one: those ids are taken too (E1).
INSERT INTO sqlite_sequence (name, seq)
SELECT '__alkstore_live', 0
WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = '__alkstore_live');

UPDATE sqlite_sequence
SET seq = max(
    seq,
    coalesce((SELECT max(id) FROM __alkstore_live), 0),
    coalesce((SELECT max(id) FROM __alkstore_dead), 0)
)
WHERE name = '__alkstore_live';
