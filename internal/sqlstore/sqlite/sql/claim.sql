-- What a claim of up to :limit jobs of :queue hands out (C1-C5), each as it will be once claim_take.sql has run. :kind is
-- any, proven or suspects: a suspect is a job whose claim has lapsed without a word, now or before. (IN, since SQLite plans
-- a statement anew for each value of a parameter that it compares with the condition of a partial index.)
--
-- A plain ORDER BY over the ready index would read every delayed job of a higher priority before the first ready one.
-- So the index is entered once for each distinct priority, and each gives its first :limit ready jobs.
--
-- An UPDATE with RETURNING would say all of this at once and take twice as long: it copies each row to a table of its own
-- before it hands it out. The write lock is held from here to there.
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
SELECT
    job.id, queue, 'processing' AS state, payload, payload_size, spilled, job.priority, job.run_at, :claimant AS claimant,
    :now AS claimed_at, :now + visibility_timeout_s AS claim_expires_at, attempts + 1 AS attempts, max_attempts,
    created_at, expires_at, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence + 1 AS fence,
    CASE WHEN state = 'processing' THEN fence ELSE lapsed_fence END AS lapsed_fence, last_error, NULL AS died_at, schedule,
    scheduled_for
FROM (SELECT id FROM candidate ORDER BY priority DESC, run_at, id LIMIT 0 + :limit) AS chosen
CROSS JOIN __alkstore_live AS job
WHERE job.id = chosen.id;
