-- enqueue.sql for jobs that differ in nothing but their payloads, as those of one call nearly always do: a dozen arrays
-- cost the server and the client more than the rows.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
)
INSERT INTO __alkstore_live (
    queue, payload, state, priority, run_at, created_at, expires_at, attempts, fence, visibility_timeout_s, max_attempts,
    backoff_base_s, dead_letter_retention_s
)
SELECT
    CAST(:queue AS text), job.payload, 'pending', CAST(:priority AS bigint),
    coalesce(CAST(:run_at AS bigint), clock.now + CAST(:delay_s AS bigint)), clock.now,
    clock.now + CAST(:expires_s AS bigint), 0, 0, CAST(:visibility_timeout_s AS bigint), CAST(:max_attempts AS bigint),
    CAST(:backoff_base_s AS bigint), CAST(:dead_letter_retention_s AS bigint)
FROM clock
CROSS JOIN unnest(CAST(:payloads AS bytea[])) AS job (payload)
RETURNING id;
