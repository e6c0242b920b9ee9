-- The first :limit jobs of :queue that may be claimed and whose claims have lapsed without a word, now or before (C1-C5),
-- as claim_ready.sql gives the others.
WITH candidate (id, priority, run_at) AS (
    SELECT id, priority, run_at FROM __alkstore_live
    WHERE queue = :queue AND state = 'pending' AND lapsed_fence > 0 AND run_at <= :now
        AND attempts < max_attempts AND (expires_at IS NULL OR expires_at >= :now)
    UNION ALL
    SELECT id, priority, run_at FROM __alkstore_live
    WHERE queue = :queue AND state = 'processing' AND claim_expires_at < :now
        AND attempts < max_attempts AND (expires_at IS NULL OR expires_at >= :now)
    UNION ALL
    SELECT id, priority, run_at FROM __alkstore_live
    WHERE queue = :queue AND state = 'processing' AND claim_expires_at IS NULL
        AND attempts < max_attempts AND (expires_at IS NULL OR expires_at >= :now)
)
SELECT
    job.id, payload, spilled, job.priority, job.run_at, :now + visibility_timeout_s, attempts + 1, max_attempts, created_at,
    expires_at, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence + 1,
    CASE WHEN state = 'processing' THEN fence ELSE lapsed_fence END, last_error, schedule, scheduled_for
FROM (SELECT id FROM candidate ORDER BY priority DESC, run_at, id LIMIT 0 + :limit) AS chosen
CROSS JOIN __alkstore_live AS job
WHERE job.id = chosen.id;
