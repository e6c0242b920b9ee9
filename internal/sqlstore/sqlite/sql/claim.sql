-- Hands out up to :limit jobs of :queue (C1-C5). :kind is any, proven or suspects: a suspect is a job whose claim has
-- lapsed without a word, now or before. (IN, since SQLite plans a statement anew for each value of a parameter that it
-- compares with the condition of a partial index.)
--
-- A plain ORDER BY over the ready index would read every delayed job of a higher priority before the first ready one.
-- So the index is entered once for each distinct priority, and each gives its first :limit ready jobs.
WITH RECURSIVE
level (priority) AS (
    SELECT (
        SELECT priority FROM __alkstore_live
        WHERE queue = :queue AND state = 'pending'
        ORDER BY priority DESC LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT priority FROM __alkstore_live
        WHERE queue = :queue AND state = 'pending' AND priority < level.priority
        ORDER BY priority DESC LIMIT 1
    )
    FROM level
    WHERE level.priority IS NOT NULL
),
candidate (id, priority, run_at) AS (
    SELECT job.id, job.priority, job.run_at
    FROM level
    CROSS JOIN __alkstore_live AS job
    WHERE :kind IN ('any', 'proven')
        AND job.id IN (
            SELECT id FROM __alkstore_live
            WHERE queue = :queue AND state = 'pending' AND priority = level.priority AND run_at <= :now
                AND attempts < max_attempts AND lapsed_fence = 0
                AND (expires_at IS NULL OR expires_at >= :now)
            ORDER BY run_at, id
            LIMIT 0 + :limit
        )
    UNION ALL
    SELECT id, priority, run_at FROM __alkstore_live
    WHERE :kind IN ('any', 'suspects') AND queue = :queue AND state = 'pending' AND lapsed_fence > 0 AND run_at <= :now
        AND attempts < max_attempts AND (expires_at IS NULL OR expires_at >= :now)
    UNION ALL
    SELECT id, priority, run_at FROM __alkstore_live
    WHERE :kind IN ('any', 'suspects') AND queue = :queue AND state = 'processing' AND claim_expires_at < :now
        AND attempts < max_attempts AND (expires_at IS NULL OR expires_at >= :now)
    UNION ALL
    SELECT id, priority, run_at FROM __alkstore_live
    WHERE :kind IN ('any', 'suspects') AND queue = :queue AND state = 'processing' AND claim_expires_at IS NULL
        AND attempts < max_attempts AND (expires_at IS NULL OR expires_at >= :now)
)
UPDATE __alkstore_live SET
    state            = 'processing',
    claimant         = :claimant,
    claimed_at       = :now,
    claim_expires_at = :now + visibility_timeout_s,
    attempts         = attempts + 1,
    fence            = fence + 1,
    lapsed_fence     = CASE WHEN state = 'processing' THEN fence ELSE lapsed_fence END
WHERE id IN (SELECT id FROM candidate ORDER BY priority DESC, run_at, id LIMIT 0 + :limit)
RETURNING
    id, queue, state, payload, payload_size, spilled, priority, run_at, claimant, claimed_at, claim_expires_at,
    attempts, max_attempts, created_at, expires_at, visibility_timeout_s, backoff_base_s, dead_letter_retention_s,
    fence, lapsed_fence, last_error, NULL AS died_at, schedule, scheduled_for;
