-- H2: deletes the jobs whose claims hold (H1, C7), with their failures, and names them.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
),
done AS (
    DELETE FROM __alkstore_live AS job
    USING unnest(CAST(:ids AS bigint[]), CAST(:fences AS bigint[])) AS claim (id, fence)
    WHERE job.id = claim.id AND job.fence = claim.fence AND job.state = 'processing'
        AND job.claim_expires_at >= (SELECT now FROM clock)
    RETURNING job.id, job.fence
),
history AS (
    DELETE FROM __alkstore_failures AS failure USING done WHERE done.fence > 1 AND failure.job_id = done.id
)
SELECT id, fence FROM done;
