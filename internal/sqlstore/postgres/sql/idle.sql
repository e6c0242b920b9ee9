-- Whether none of :queues has a job that runs, waits for a retry, or is ready, unless its queue is paused. The levels are
-- those of claim.sql, for each queue.
WITH RECURSIVE
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
),
wanted (queue, paused) AS MATERIALIZED (
    SELECT asked.queue, EXISTS (
        SELECT 1 FROM __alkstore_queues AS stopped WHERE stopped.queue = asked.queue AND stopped.paused
    )
    FROM unnest(CAST(:queues AS text[])) AS asked (queue)
),
level (queue, priority) AS (
    SELECT wanted.queue, (
        SELECT job.priority FROM __alkstore_live AS job
        WHERE job.queue = wanted.queue AND job.state = 'pending'
        ORDER BY job.priority DESC LIMIT 1
    )
    FROM wanted
    WHERE NOT wanted.paused
    UNION ALL
    SELECT level.queue, (
        SELECT job.priority FROM __alkstore_live AS job
        WHERE job.queue = level.queue AND job.state = 'pending' AND job.priority < level.priority
        ORDER BY job.priority DESC LIMIT 1
    )
    FROM level
    WHERE level.priority IS NOT NULL
)
SELECT NOT EXISTS (
    SELECT 1
    FROM wanted
    CROSS JOIN LATERAL (
        SELECT 1 FROM __alkstore_live AS job
        WHERE job.queue = wanted.queue AND job.state = 'processing'
            AND (NOT wanted.paused OR job.claim_expires_at >= (SELECT now FROM clock))
        ORDER BY job.claim_expires_at LIMIT 1
    ) AS running
    UNION ALL
    SELECT 1
    FROM wanted
    CROSS JOIN LATERAL (
        SELECT 1 FROM __alkstore_live AS job
        WHERE job.queue = wanted.queue AND job.state = 'pending' AND job.attempts > 0
        ORDER BY job.run_at LIMIT 1
    ) AS tried
    WHERE NOT wanted.paused
    UNION ALL
    SELECT 1
    FROM level
    CROSS JOIN LATERAL (
        SELECT 1 FROM __alkstore_live AS job
        WHERE job.queue = level.queue AND job.state = 'pending' AND job.priority = level.priority
            AND job.run_at <= (SELECT now FROM clock)
        ORDER BY job.run_at LIMIT 1
    ) AS ready
);
