-- The first :limit jobs of :queue that are ready at :priority, one of claim_levels.sql, and whose claims have never lapsed
-- (C1-C5), each as it will be once claim_take.sql has run.
--
-- An UPDATE with RETURNING would do both at once and take longer: it copies each row to a table of its own before it hands
-- it out. The write lock is held from here to there.
SELECT
    id, payload, spilled, priority, run_at, :now + visibility_timeout_s, attempts + 1, max_attempts, created_at, expires_at,
    visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence + 1, lapsed_fence, last_error, schedule,
    scheduled_for
FROM __alkstore_live
WHERE queue = :queue AND state = 'pending' AND priority = :priority AND run_at <= :now
    AND attempts < max_attempts AND lapsed_fence = 0
    AND (expires_at IS NULL OR expires_at >= :now)
ORDER BY run_at, id
LIMIT 0 + :limit;
