-- When :queue next has something to claim; NULL if nothing waits. The levels are those of claim_levels.sql. A time that was
-- edited into a fraction counts as its second.
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
moment (at) AS (
    SELECT (
        SELECT run_at FROM __alkstore_live
        WHERE queue = :queue AND state = 'pending' AND priority = level.priority
            AND (expires_at IS NULL OR expires_at >= :now)
        ORDER BY run_at LIMIT 1
    )
    FROM level
    WHERE level.priority IS NOT NULL
    UNION ALL
    SELECT (
        SELECT claim_expires_at + 1 FROM __alkstore_live
        WHERE queue = :queue AND state = 'processing' AND claim_expires_at IS NOT NULL
            AND (expires_at IS NULL OR expires_at >= :now)
        ORDER BY claim_expires_at LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT :now FROM __alkstore_live
        WHERE queue = :queue AND state = 'processing' AND claim_expires_at IS NULL
            AND (expires_at IS NULL OR expires_at >= :now)
        LIMIT 1
    )
)
SELECT CAST(min(at) AS INTEGER) FROM moment
WHERE NOT EXISTS (SELECT 1 FROM __alkstore_queues WHERE queue = :queue AND paused = 1);
