-- The clock, and when each of :queues next has something to claim; NULL if nothing waits. The levels, and where to enter
-- them, are those of claim.sql, here with the queue that each is of.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
),
known (queue, priority, run_at, id) AS MATERIALIZED (
    SELECT queue, priority, run_at, id
    FROM unnest(CAST(:level_queues AS text[]), CAST(:priorities AS bigint[]), CAST(:run_ats AS bigint[]), CAST(:ids AS bigint[]))
        AS known (queue, priority, run_at, id)
)
SELECT clock.now, wanted.queue, (
    WITH RECURSIVE
    level (priority) AS (
        SELECT coalesce(
            (
                SELECT job.priority FROM __alkstore_live AS job
                WHERE job.queue = wanted.queue AND job.state = 'pending' AND job.priority > next.priority
                ORDER BY job.priority DESC LIMIT 1
            ),
            next.priority
        )
        FROM (SELECT max(known.priority) AS priority FROM known WHERE known.queue = wanted.queue) AS next
        UNION ALL
        SELECT coalesce(
            (
                SELECT job.priority FROM __alkstore_live AS job
                WHERE job.queue = wanted.queue AND job.state = 'pending'
                    AND job.priority < level.priority AND job.priority > next.priority
                ORDER BY job.priority DESC LIMIT 1
            ),
            next.priority
        )
        FROM level
        CROSS JOIN LATERAL (
            SELECT max(known.priority) AS priority FROM known
            WHERE known.queue = wanted.queue AND known.priority < level.priority
        ) AS next
        WHERE next.priority IS NOT NULL
    ),
    moment (at) AS (
        SELECT (
            SELECT job.run_at FROM __alkstore_live AS job
            WHERE job.queue = wanted.queue AND job.state = 'pending' AND job.priority = level.priority
                AND (job.run_at, job.id) >= (
                    coalesce((
                        SELECT known.run_at FROM known WHERE known.queue = wanted.queue AND known.priority = level.priority
                    ), -9223372036854775808),
                    coalesce((
                        SELECT known.id FROM known WHERE known.queue = wanted.queue AND known.priority = level.priority
                    ), 0)
                )
                AND (job.expires_at IS NULL OR job.expires_at >= (SELECT now FROM clock))
            ORDER BY job.run_at, job.id LIMIT 1
        )
        FROM level
        UNION ALL
        SELECT (
            SELECT least(job.claim_expires_at, 9223372036854775806) + 1 FROM __alkstore_live AS job
            WHERE job.queue = wanted.queue AND job.state = 'processing' AND job.claim_expires_at >= wanted.lease_from
                AND (job.expires_at IS NULL OR job.expires_at >= (SELECT now FROM clock))
            ORDER BY job.claim_expires_at LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT (SELECT now FROM clock) FROM __alkstore_live AS job
            WHERE job.queue = wanted.queue AND job.state = 'processing' AND job.claim_expires_at IS NULL
                AND (job.expires_at IS NULL OR job.expires_at >= (SELECT now FROM clock))
            ORDER BY job.claim_expires_at LIMIT 1
        )
    )
    SELECT min(at) FROM moment
    WHERE NOT EXISTS (SELECT 1 FROM __alkstore_queues AS stopped WHERE stopped.queue = wanted.queue AND stopped.paused)
) AS at
FROM clock
LEFT JOIN unnest(CAST(:queues AS text[]), CAST(:leases_from AS bigint[])) AS wanted (queue, lease_from) ON true;
