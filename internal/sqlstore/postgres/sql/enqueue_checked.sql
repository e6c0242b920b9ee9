-- enqueue.sql for jobs of which one may turn out to expire before it is ready, by the server's clock: then none is stored.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
),
fresh AS MATERIALIZED (
    SELECT
        job.queue, job.payload, job.priority, coalesce(job.run_at, clock.now + job.delay_s) AS run_at, clock.now,
        clock.now + job.expires_s AS expires_at, job.visibility_timeout_s, job.max_attempts, job.backoff_base_s,
        job.dead_letter_retention_s, job.schedule, job.scheduled_for, job.place
    FROM clock
    CROSS JOIN unnest(
        CAST(:queues AS text[]), CAST(:payloads AS bytea[]), CAST(:priorities AS bigint[]), CAST(:run_ats AS bigint[]),
        CAST(:delays_s AS bigint[]), CAST(:expires_s AS bigint[]), CAST(:visibility_timeouts_s AS bigint[]),
        CAST(:max_attempts AS bigint[]), CAST(:backoff_bases_s AS bigint[]), CAST(:dead_letter_retentions_s AS bigint[]),
        CAST(:schedules AS text[]), CAST(:scheduled_fors AS bigint[])
    ) WITH ORDINALITY AS job (
        queue, payload, priority, run_at, delay_s, expires_s, visibility_timeout_s, max_attempts, backoff_base_s,
        dead_letter_retention_s, schedule, scheduled_for, place
    )
)
INSERT INTO __alkstore_live (
    queue, payload, state, priority, run_at, created_at, expires_at, attempts, fence, visibility_timeout_s, max_attempts,
    backoff_base_s, dead_letter_retention_s, schedule, scheduled_for
)
SELECT
    queue, payload, 'pending', priority, run_at, now, expires_at, 0, 0, visibility_timeout_s, max_attempts,
    backoff_base_s, dead_letter_retention_s, schedule, scheduled_for
FROM fresh
WHERE NOT EXISTS (SELECT 1 FROM fresh AS late WHERE late.run_at > late.expires_at)
ORDER BY place
RETURNING id;
