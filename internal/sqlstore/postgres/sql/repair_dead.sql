-- repair_live.sql for dead rows.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
),
wrong (id) AS MATERIALIZED (
    SELECT job.id FROM __alkstore_dead AS job WHERE job.id = ANY (CAST(:ids AS bigint[])) ORDER BY job.id FOR UPDATE
)
UPDATE __alkstore_dead AS job SET
    died_at                 = CASE
        WHEN job.died_at BETWEEN 0 AND 253402300799 THEN job.died_at ELSE (SELECT now FROM clock)
    END,
    attempts                = greatest(0, least(job.attempts, 2147483647)),
    created_at              = CASE
        WHEN job.created_at BETWEEN 0 AND 253402300799 THEN job.created_at ELSE (SELECT now FROM clock)
    END,
    max_attempts            = CASE WHEN job.max_attempts BETWEEN 1 AND 2147483647 THEN job.max_attempts ELSE 20 END,
    visibility_timeout_s    = CASE
        WHEN job.visibility_timeout_s BETWEEN 1 AND 366 * 86400 THEN job.visibility_timeout_s ELSE 30
    END,
    backoff_base_s          = CASE WHEN job.backoff_base_s BETWEEN 0 AND 366 * 86400 THEN job.backoff_base_s ELSE 5 END,
    dead_letter_retention_s = CASE WHEN job.dead_letter_retention_s >= 0 THEN job.dead_letter_retention_s END,
    fence                   = CASE
        WHEN job.fence BETWEEN 0 AND 9007199254740992 THEN job.fence ELSE (SELECT now FROM clock)
    END,
    scheduled_for           = CASE WHEN job.schedule IS NOT NULL THEN coalesce(job.scheduled_for, job.created_at) END
FROM wrong
WHERE job.id = wrong.id;
