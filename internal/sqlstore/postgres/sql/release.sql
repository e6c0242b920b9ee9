-- H6: hands back the jobs whose claims hold (H1, C7) without spending the attempt, and names them.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
)
UPDATE __alkstore_live AS job SET
    state            = 'pending',
    run_at           = (SELECT now FROM clock) + answer.delay_s,
    attempts         = greatest(job.attempts, 1) - 1,
    claimant         = NULL,
    claimed_at       = NULL,
    claim_expires_at = NULL
FROM unnest(CAST(:ids AS bigint[]), CAST(:fences AS bigint[]), CAST(:delays_s AS bigint[]))
    AS answer (id, fence, delay_s)
WHERE job.id = ANY (ARRAY[answer.id]) AND job.fence = answer.fence
    AND CASE WHEN job.state = 'processing' THEN job.claim_expires_at >= (SELECT now FROM clock) ELSE false END
RETURNING job.id, job.fence;
