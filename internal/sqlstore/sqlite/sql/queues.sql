-- Each index is entered once for each queue, so that the answer does not read a million jobs to find three names.
WITH RECURSIVE
pending (queue) AS (
    SELECT (SELECT min(queue) FROM __alkstore_live WHERE state = 'pending')
    UNION ALL
    SELECT (SELECT min(queue) FROM __alkstore_live WHERE state = 'pending' AND queue > pending.queue)
    FROM pending WHERE pending.queue IS NOT NULL
),
processing (queue) AS (
    SELECT (SELECT min(queue) FROM __alkstore_live WHERE state = 'processing')
    UNION ALL
    SELECT (SELECT min(queue) FROM __alkstore_live WHERE state = 'processing' AND queue > processing.queue)
    FROM processing WHERE processing.queue IS NOT NULL
),
dead (queue) AS (
    SELECT (SELECT min(queue) FROM __alkstore_dead)
    UNION ALL
    SELECT (SELECT min(queue) FROM __alkstore_dead WHERE queue > dead.queue)
    FROM dead WHERE dead.queue IS NOT NULL
)
SELECT queue FROM (SELECT queue FROM pending UNION SELECT queue FROM processing UNION SELECT queue FROM dead)
WHERE queue IS NOT NULL
ORDER BY queue;
