-- D2: dead jobs past their own retention, as many as fit one transaction.
SELECT id, spilled != 0 FROM __alkstore_dead
WHERE queue = :queue AND dead_letter_retention_s IS NOT NULL AND died_at + dead_letter_retention_s < :now
ORDER BY died_at + dead_letter_retention_s
LIMIT 0 + :limit;
