-- The oldest :limit dead jobs that match (D4). NULL :older_than_s does not restrict.
SELECT id, spilled != 0 FROM __alkstore_dead
WHERE (:older_than_s IS NULL OR died_at <= :now - :older_than_s)
ORDER BY id
LIMIT 0 + :limit;
