-- Sets what is wrong in the live rows of :ids to what lets the job run: a doubtful claim lapses or ends as it should, a
-- doubtful stamp is the default, and doubtful attempts are as many as there can have been. What is right stays, also in
-- rows that others are changing at this moment: each value is judged once its row is locked.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
),
wrong (id) AS MATERIALIZED (
    SELECT job.id FROM __alkstore_live AS job WHERE job.id = ANY (CAST(:ids AS bigint[])) ORDER BY job.id FOR UPDATE
)
UPDATE __alkstore_live AS job SET
    state                   = CASE WHEN job.state = 'processing' THEN 'processing' ELSE 'pending' END,
    claimant                = CASE WHEN job.state = 'processing' THEN coalesce(job.claimant, 'unknown') END,
    claimed_at              = CASE WHEN job.state = 'processing' THEN coalesce(job.claimed_at, (SELECT now FROM clock)) END,
    claim_expires_at        = CASE
        WHEN job.state != 'processing' THEN NULL
        WHEN job.claim_expires_at IS NULL THEN (SELECT now FROM clock) - 1
        WHEN job.claim_expires_at <= (SELECT now FROM clock) + 2 * 366 * 86400 THEN job.claim_expires_at
        WHEN job.visibility_timeout_s BETWEEN 1 AND 366 * 86400 THEN (SELECT now FROM clock) + job.visibility_timeout_s
        ELSE (SELECT now FROM clock) + 30
    END,
    attempts                = greatest(
        0, least(job.attempts, CASE WHEN job.max_attempts BETWEEN 1 AND 2147483647 THEN job.max_attempts ELSE 20 END)
    ),
    lapsed_fence            = CASE WHEN job.lapsed_fence BETWEEN 0 AND job.fence THEN job.lapsed_fence ELSE 0 END,
    created_at              = CASE
        WHEN job.created_at BETWEEN 0 AND 253402300799 THEN job.created_at ELSE (SELECT now FROM clock)
    END,
    run_at                  = CASE WHEN job.run_at BETWEEN -62135596800 AND 253402300799 THEN job.run_at ELSE (SELECT now FROM clock) END,
    max_attempts            = CASE WHEN job.max_attempts BETWEEN 1 AND 2147483647 THEN job.max_attempts ELSE 20 END,
    visibility_timeout_s    = CASE
        WHEN job.visibility_timeout_s BETWEEN 1 AND 366 * 86400 THEN job.visibility_timeout_s ELSE 30
    END,
    backoff_base_s          = CASE WHEN job.backoff_base_s BETWEEN 0 AND 366 * 86400 THEN job.backoff_base_s ELSE 5 END,
    dead_letter_retention_s = CASE WHEN job.dead_letter_retention_s >= 0 THEN job.dead_letter_retention_s END,
    -- C5: whatever claims there were, the next one has a higher number. Seconds since 1970 are above any count of claims.
    fence                   = CASE
        WHEN job.fence BETWEEN 0 AND 9007199254740992 THEN job.fence ELSE (SELECT now FROM clock)
    END,
    scheduled_for           = CASE WHEN job.schedule IS NOT NULL THEN coalesce(job.scheduled_for, job.created_at) END
FROM wrong
WHERE job.id = wrong.id;
