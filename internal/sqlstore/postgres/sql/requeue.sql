-- D4: moves dead jobs back to pending and names them. A job that a hand edit has left alive as well stays as it is (K3).
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
),
back AS (
    DELETE FROM __alkstore_dead AS job USING unnest(CAST(:ids AS bigint[])) AS wanted (id)
    WHERE job.id = ANY (ARRAY[wanted.id])
    RETURNING
        job.id, job.queue, job.payload, job.priority, job.max_attempts, job.created_at, job.visibility_timeout_s,
        job.backoff_base_s, job.dead_letter_retention_s, job.fence, job.schedule, job.scheduled_for, job.last_error
),
living AS (
    INSERT INTO __alkstore_live (
        id, queue, payload, state, priority, run_at, attempts, max_attempts, created_at, visibility_timeout_s,
        backoff_base_s, dead_letter_retention_s, fence, schedule, scheduled_for, last_error
    )
    SELECT
        id, queue, payload, 'pending', priority, (SELECT now FROM clock), 0, max_attempts, created_at, visibility_timeout_s,
        backoff_base_s, dead_letter_retention_s, fence, schedule, scheduled_for, last_error
    FROM back
    ON CONFLICT (id) DO NOTHING
)
SELECT id FROM back;
