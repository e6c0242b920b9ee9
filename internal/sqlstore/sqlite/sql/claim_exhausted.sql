-- Claimable jobs that have no attempts left (C6). Three parts, since one index serves each of them and none serves an OR.
-- No claim has to bury more than :limit of them: those left are not handed out either.
SELECT id, CAST(fence AS INTEGER), CAST(attempts AS INTEGER), false AS lapsed
FROM __alkstore_live
WHERE queue = :queue AND attempts >= max_attempts AND state = 'pending' AND run_at <= :now
    AND (expires_at IS NULL OR expires_at >= :now)
UNION ALL
SELECT id, CAST(fence AS INTEGER), CAST(attempts AS INTEGER), true
FROM __alkstore_live
WHERE queue = :queue AND attempts >= max_attempts AND state = 'processing' AND claim_expires_at < :now
    AND (expires_at IS NULL OR expires_at >= :now)
UNION ALL
SELECT id, CAST(fence AS INTEGER), CAST(attempts AS INTEGER), true
FROM __alkstore_live
WHERE queue = :queue AND attempts >= max_attempts AND state = 'processing' AND claim_expires_at IS NULL
    AND (expires_at IS NULL OR expires_at >= :now)
LIMIT 0 + :limit;
