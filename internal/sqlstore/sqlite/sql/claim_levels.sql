-- The priorities of :queue in which a job is ready, the highest first. A plain ORDER BY over the ready index would read
-- every delayed job of a higher priority before the first ready one; so the index is entered once for each priority.
WITH RECURSIVE level (priority) AS (
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
)
SELECT priority FROM level
WHERE EXISTS (
    SELECT 1 FROM __alkstore_live
    WHERE queue = :queue AND state = 'pending' AND priority = level.priority AND run_at <= :now
);
