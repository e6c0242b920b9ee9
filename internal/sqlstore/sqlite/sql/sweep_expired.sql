-- D2: pending and processing alike.
SELECT id FROM __alkstore_live WHERE queue = :queue AND expires_at IS NOT NULL AND expires_at < :now ORDER BY id;
