-- H3: moves the deadlines of the claims that hold (H1, C7) and names them; a NULL extension is the row's own visibility
-- timeout.
--
-- A row that a transaction of somebody else has locked, such as that of a handler about to commit its ack, is left as
-- it is: waiting for it would let every other claim of the batch lapse. Its claim holds all the same, since nobody can
-- take the job while it is locked. With each claim comes whether its deadline was moved.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
),
held (id, fence, extension_s) AS MATERIALIZED (
    SELECT job.id, job.fence, claim.extension_s
    FROM unnest(CAST(:ids AS bigint[]), CAST(:fences AS bigint[]), CAST(:extensions_s AS bigint[]))
        AS claim (id, fence, extension_s)
    JOIN __alkstore_live AS job ON job.id = ANY (ARRAY[claim.id])
    WHERE job.fence = claim.fence
        AND CASE WHEN job.state = 'processing' THEN job.claim_expires_at >= (SELECT now FROM clock) ELSE false END
),
free (id, extension_s) AS MATERIALIZED (
    SELECT job.id, held.extension_s
    FROM held
    JOIN __alkstore_live AS job ON job.id = ANY (ARRAY[held.id])
    WHERE job.fence = held.fence
        AND CASE WHEN job.state = 'processing' THEN job.claim_expires_at >= (SELECT now FROM clock) ELSE false END
    FOR UPDATE OF job SKIP LOCKED
),
moved AS (
    UPDATE __alkstore_live AS job
    SET claim_expires_at = (SELECT now FROM clock) + least(coalesce(free.extension_s, job.visibility_timeout_s), 1000000000000)
    FROM free
    WHERE job.id = ANY (ARRAY[free.id])
)
-- IN makes a hash table; EXISTS reads all of them for each where few are expected.
SELECT held.id, held.fence, held.id IN (SELECT free.id FROM free) FROM held;
