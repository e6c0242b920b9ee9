-- :queues is a JSON array of names. The levels are those of claim_levels.sql, for each queue.
WITH RECURSIVE
level (queue, priority) AS (
    SELECT wanted.value, (
        SELECT priority FROM __alkstore_live
        WHERE queue = wanted.value AND state = 'pending'
        ORDER BY priority DESC LIMIT 1
    )
    FROM json_each(:queues) AS wanted
    UNION ALL
    SELECT level.queue, (
        SELECT priority FROM __alkstore_live
        WHERE queue = level.queue AND state = 'pending' AND priority < level.priority
        ORDER BY priority DESC LIMIT 1
    )
    FROM level
    WHERE level.priority IS NOT NULL
)
SELECT NOT EXISTS (
    SELECT 1
    FROM json_each(:queues) AS wanted
    CROSS JOIN __alkstore_live AS job
    WHERE job.queue = wanted.value AND job.state = 'processing'
        AND (job.claim_expires_at >= :now
            OR NOT EXISTS (SELECT 1 FROM __alkstore_queues WHERE queue = wanted.value AND paused = 1))
    UNION ALL
    SELECT 1
    FROM json_each(:queues) AS wanted
    CROSS JOIN __alkstore_live AS job
    WHERE job.queue = wanted.value AND job.state = 'pending' AND job.attempts > 0
        AND NOT EXISTS (SELECT 1 FROM __alkstore_queues WHERE queue = wanted.value AND paused = 1)
    UNION ALL
    SELECT 1
    FROM level
    CROSS JOIN __alkstore_live AS job
    WHERE job.queue = level.queue AND job.state = 'pending' AND job.priority = level.priority AND job.run_at <= :now
        AND NOT EXISTS (SELECT 1 FROM __alkstore_queues WHERE queue = level.queue AND paused = 1)
);
