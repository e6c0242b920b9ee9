-- H2: deletes the jobs whose claims hold (H1, C7), with their failures, and names them. All of them, as nearly always, is one
-- row of NULLs. :fence is that of all claims if they have the same; then nothing has to be looked up in :fences.
--
-- Here and elsewhere, = ANY leaves the planner no way but to look each job up by its id, and CASE hides columns that would
-- open another one. Where it expects next to nothing, as in a queue that was empty when the plan was made, it otherwise
-- reads a whole index for each job of the batch; and by the time of the next vacuum there may be a million in it.
--
-- Rows are read, and so locked, in the order of their places. To go by id, one by one, makes an ack of many jobs half as
-- dear again, and a circle needs two who end the same claims: it is left to the server to find, and then repeated.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
),
done AS (
    DELETE FROM __alkstore_live AS job
    WHERE job.id = ANY (CAST(:ids AS bigint[]))
        AND CASE
            WHEN job.state = 'processing' AND job.claim_expires_at >= (SELECT now FROM clock)
            THEN coalesce(job.fence = CAST(:fence AS bigint), (job.id, job.fence) IN (
                SELECT claim.id, claim.fence
                FROM unnest(CAST(:ids AS bigint[]), CAST(:fences AS bigint[])) AS claim (id, fence)
            ))
            ELSE false
        END
    RETURNING job.id, job.fence
),
history AS (
    DELETE FROM __alkstore_failures AS failure
    WHERE failure.job_id = ANY (ARRAY(SELECT done.id FROM done WHERE done.fence > 1))
),
verdict (all_held) AS MATERIALIZED (
    SELECT count(*) = cardinality(CAST(:ids AS bigint[])) FROM done
)
SELECT done.id, done.fence FROM done WHERE NOT (SELECT all_held FROM verdict)
UNION ALL
SELECT NULL, NULL FROM verdict WHERE all_held;
