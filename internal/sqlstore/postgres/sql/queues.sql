-- Each index is entered once for each queue, so that the answer does not read a million jobs to find three names.
WITH RECURSIVE
pending (queue) AS (
    SELECT (SELECT min(job.queue) FROM __alkstore_live AS job WHERE job.state = 'pending')
    UNION ALL
    SELECT (SELECT min(job.queue) FROM __alkstore_live AS job WHERE job.state = 'pending' AND job.queue > pending.queue)
    FROM pending WHERE pending.queue IS NOT NULL
),
processing (queue) AS (
    SELECT (SELECT min(job.queue) FROM __alkstore_live AS job WHERE job.state = 'processing')
    UNION ALL
    SELECT (
        SELECT min(job.queue) FROM __alkstore_live AS job WHERE job.state = 'processing' AND job.queue > processing.queue
    )
    FROM processing WHERE processing.queue IS NOT NULL
),
dead (queue) AS (
    SELECT (SELECT min(job.queue) FROM __alkstore_dead AS job)
    UNION ALL
    SELECT (SELECT min(job.queue) FROM __alkstore_dead AS job WHERE job.queue > dead.queue)
    FROM dead WHERE dead.queue IS NOT NULL
)
SELECT every.queue
FROM (SELECT queue FROM pending UNION SELECT queue FROM processing UNION SELECT queue FROM dead) AS every
WHERE every.queue IS NOT NULL
ORDER BY every.queue;
