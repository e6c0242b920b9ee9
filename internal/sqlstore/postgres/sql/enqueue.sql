-- New jobs (E1-E4, E6), one element of each array for each. Identity gives the ids, ascending in the order of the arrays.
-- That none expires before it is ready is known: see enqueue_checked.sql.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
)
INSERT INTO __alkstore_live (
    queue, payload, state, priority, run_at, created_at, expires_at, attempts, fence, visibility_timeout_s, max_attempts,
    backoff_base_s, dead_letter_retention_s, schedule, scheduled_for
)
SELECT
    job.queue, job.payload, 'pending', job.priority, coalesce(job.run_at, clock.now + job.delay_s), clock.now,
    clock.now + job.expires_s, 0, 0, job.visibility_timeout_s, job.max_attempts, job.backoff_base_s,
    job.dead_letter_retention_s, job.schedule, job.scheduled_for
FROM clock
CROSS JOIN unnest(
    CAST(:queues AS text[]), CAST(:payloads AS bytea[]), CAST(:priorities AS bigint[]), CAST(:run_ats AS bigint[]),
    CAST(:delays_s AS bigint[]), CAST(:expires_s AS bigint[]), CAST(:visibility_timeouts_s AS bigint[]),
    CAST(:max_attempts AS bigint[]), CAST(:backoff_bases_s AS bigint[]), CAST(:dead_letter_retentions_s AS bigint[]),
    CAST(:schedules AS text[]), CAST(:scheduled_fors AS bigint[])
) AS job (
    queue, payload, priority, run_at, delay_s, expires_s, visibility_timeout_s, max_attempts, backoff_base_s,
    dead_letter_retention_s, schedule, scheduled_for
)
RETURNING id;
