-- No id is given away twice (E1).
UPDATE sqlite_sequence
SET seq = max(
    CAST(seq AS INTEGER),
    coalesce((SELECT max(id) FROM __alkstore_live), 0),
    coalesce((SELECT max(id) FROM __alkstore_dead), 0)
)
WHERE name = '__alkstore_live';
