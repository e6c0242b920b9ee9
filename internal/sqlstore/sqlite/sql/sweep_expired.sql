-- D2: pending and processing alike, as many as fit one transaction.
SELECT id FROM __alkstore_live WHERE queue = :queue AND expires_at IS NOT NULL AND expires_at < :now
ORDER BY expires_at
LIMIT 0 + :limit;
