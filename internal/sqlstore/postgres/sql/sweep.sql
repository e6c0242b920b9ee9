-- D2 for one queue: buries what has expired, pending and processing alike; deletes dead jobs past their own retention;
-- and makes processing rows without a deadline reclaimable, which would otherwise never be (K3). Rows are locked in the
-- order of their ids. What somebody has locked holds up nothing else: it is left, and whether there is any such row is the
-- last column.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
),
late AS MATERIALIZED (
    SELECT job.id FROM __alkstore_live AS job
    WHERE job.queue = :queue AND job.expires_at IS NOT NULL AND job.expires_at < (SELECT now FROM clock)
    ORDER BY job.id
    FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM __alkstore_live AS job WHERE job.id = ANY (ARRAY(SELECT late.id FROM late))
    RETURNING
        job.id, job.queue, job.payload, job.priority, job.run_at, job.claimed_at, job.attempts, job.max_attempts,
        job.created_at, job.expires_at, job.visibility_timeout_s, job.backoff_base_s, job.dead_letter_retention_s,
        job.fence, job.schedule, job.scheduled_for
),
buried AS (
    INSERT INTO __alkstore_dead (
        id, queue, payload, priority, run_at, claimed_at, attempts, max_attempts, created_at, expires_at,
        visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence, schedule, scheduled_for, last_error, died_at
    )
    SELECT
        id, queue, payload, priority, run_at, claimed_at, attempts, max_attempts, created_at, expires_at,
        visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence, schedule, scheduled_for,
        CAST(:text AS text), (SELECT now FROM clock)
    FROM gone
    -- A row that a hand edit left there must not keep the queue from being claimed (K3).
    ON CONFLICT (id) DO UPDATE SET
        queue = excluded.queue, payload = excluded.payload, priority = excluded.priority, run_at = excluded.run_at,
        claimed_at = excluded.claimed_at, attempts = excluded.attempts, max_attempts = excluded.max_attempts,
        created_at = excluded.created_at, expires_at = excluded.expires_at,
        visibility_timeout_s = excluded.visibility_timeout_s, backoff_base_s = excluded.backoff_base_s,
        dead_letter_retention_s = excluded.dead_letter_retention_s, fence = excluded.fence,
        schedule = excluded.schedule, scheduled_for = excluded.scheduled_for, last_error = excluded.last_error,
        died_at = excluded.died_at
),
old AS MATERIALIZED (
    SELECT job.id FROM __alkstore_dead AS job
    WHERE job.queue = :queue AND job.dead_letter_retention_s IS NOT NULL
        AND job.died_at + least(job.dead_letter_retention_s, 1000000000000) < (SELECT now FROM clock)
    ORDER BY job.id
    FOR UPDATE SKIP LOCKED
),
dropped AS (
    DELETE FROM __alkstore_dead AS job WHERE job.id = ANY (ARRAY(SELECT old.id FROM old)) RETURNING job.id
),
history AS (
    DELETE FROM __alkstore_failures AS failure WHERE failure.job_id = ANY (ARRAY(SELECT dropped.id FROM dropped))
),
endless AS MATERIALIZED (
    SELECT job.id FROM __alkstore_live AS job
    WHERE job.queue = :queue AND job.state = 'processing' AND job.claim_expires_at IS NULL
        AND (job.expires_at IS NULL OR job.expires_at >= (SELECT now FROM clock))
    ORDER BY job.id
    FOR UPDATE SKIP LOCKED
),
repaired AS (
    UPDATE __alkstore_live AS job SET claim_expires_at = (SELECT now FROM clock) - 1
    WHERE job.id = ANY (ARRAY(SELECT endless.id FROM endless))
    RETURNING job.id
)
-- Counted, since NOT IN compares each with each once there are more than fit in memory.
SELECT
    (SELECT count(*) FROM gone), (SELECT count(*) FROM dropped), (SELECT count(*) FROM repaired),
    (
        SELECT count(*) FROM __alkstore_live AS job
        WHERE job.queue = :queue AND job.expires_at IS NOT NULL AND job.expires_at < (SELECT now FROM clock)
    ) > (SELECT count(*) FROM late)
    OR (
        SELECT count(*) FROM __alkstore_dead AS job
        WHERE job.queue = :queue AND job.dead_letter_retention_s IS NOT NULL
            AND job.died_at + least(job.dead_letter_retention_s, 1000000000000) < (SELECT now FROM clock)
    ) > (SELECT count(*) FROM old)
    OR (
        SELECT count(*) FROM __alkstore_live AS job
        WHERE job.queue = :queue AND job.state = 'processing' AND job.claim_expires_at IS NULL
            AND (job.expires_at IS NULL OR job.expires_at >= (SELECT now FROM clock))
    ) > (SELECT count(*) FROM endless);
