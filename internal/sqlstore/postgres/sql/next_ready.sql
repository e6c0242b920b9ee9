-- The clock, and when each of :queues next has something to claim; NULL if nothing waits. The levels are those of
-- claim.sql.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
)
SELECT clock.now, wanted.queue, (
    WITH RECURSIVE
    level (priority) AS (
        SELECT (
            SELECT job.priority FROM __alkstore_live AS job
            WHERE job.queue = wanted.queue AND job.state = 'pending'
            ORDER BY job.priority DESC LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT job.priority FROM __alkstore_live AS job
            WHERE job.queue = wanted.queue AND job.state = 'pending' AND job.priority < level.priority
            ORDER BY job.priority DESC LIMIT 1
        )
        FROM level
        WHERE level.priority IS NOT NULL
    ),
    moment (at) AS (
        SELECT (
            SELECT job.run_at FROM __alkstore_live AS job
            WHERE job.queue = wanted.queue AND job.state = 'pending' AND job.priority = level.priority
                AND (job.expires_at IS NULL OR job.expires_at >= (SELECT now FROM clock))
            ORDER BY job.run_at LIMIT 1
        )
        FROM level
        WHERE level.priority IS NOT NULL
        UNION ALL
        SELECT (
            SELECT job.claim_expires_at + 1 FROM __alkstore_live AS job
            WHERE job.queue = wanted.queue AND job.state = 'processing' AND job.claim_expires_at IS NOT NULL
                AND (job.expires_at IS NULL OR job.expires_at >= (SELECT now FROM clock))
            ORDER BY job.claim_expires_at LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT (SELECT now FROM clock) FROM __alkstore_live AS job
            WHERE job.queue = wanted.queue AND job.state = 'processing' AND job.claim_expires_at IS NULL
                AND (job.expires_at IS NULL OR job.expires_at >= (SELECT now FROM clock))
            LIMIT 1
        )
    )
    SELECT min(at) FROM moment
    WHERE NOT EXISTS (SELECT 1 FROM __alkstore_queues AS stopped WHERE stopped.queue = wanted.queue AND stopped.paused)
) AS at
FROM clock
LEFT JOIN unnest(CAST(:queues AS text[])) AS wanted (queue) ON true;
