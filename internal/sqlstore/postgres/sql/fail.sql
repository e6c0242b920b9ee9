-- H5: moves the jobs whose claims hold (H1, C7) to the dead letters and names them.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
),
gone AS (
    DELETE FROM __alkstore_live AS job
    USING unnest(CAST(:ids AS bigint[]), CAST(:fences AS bigint[]), CAST(:errors AS text[]), CAST(:stacks AS text[]))
        AS answer (id, fence, error, stack)
    WHERE job.id = ANY (ARRAY[answer.id]) AND job.fence = answer.fence
        AND CASE WHEN job.state = 'processing' THEN job.claim_expires_at >= (SELECT now FROM clock) ELSE false END
    RETURNING
        job.id, job.queue, job.payload, job.priority, job.run_at, job.claimed_at, job.attempts, job.max_attempts,
        job.created_at, job.expires_at, job.visibility_timeout_s, job.backoff_base_s, job.dead_letter_retention_s,
        job.fence, job.schedule, job.scheduled_for, answer.error, answer.stack
),
buried AS (
    INSERT INTO __alkstore_dead (
        id, queue, payload, priority, run_at, claimed_at, attempts, max_attempts, created_at, expires_at,
        visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence, schedule, scheduled_for, last_error, died_at
    )
    SELECT
        id, queue, payload, priority, run_at, claimed_at, attempts, max_attempts, created_at, expires_at,
        visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence, schedule, scheduled_for, error,
        (SELECT now FROM clock)
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
trimmed AS (
    DELETE FROM __alkstore_failures AS failure USING gone
    WHERE failure.job_id = ANY (ARRAY[gone.id]) AND failure.fence <= (
        SELECT newer.fence FROM __alkstore_failures AS newer
        WHERE newer.job_id = gone.id ORDER BY newer.fence DESC LIMIT 1 OFFSET CAST(:keep AS bigint) - 1
    )
),
history AS (
    INSERT INTO __alkstore_failures (job_id, fence, attempt, failed_at, error, stack)
    SELECT id, fence, attempts, (SELECT now FROM clock), error, stack FROM gone
    ON CONFLICT (job_id, fence) DO NOTHING
)
SELECT id, fence FROM gone;
