-- dead_matching.sql for one queue, which has an index.
SELECT id, spilled != 0 FROM __alkstore_dead
WHERE queue = :queue AND (:older_than_s IS NULL OR died_at <= :now - :older_than_s)
ORDER BY id
LIMIT 0 + :limit;
