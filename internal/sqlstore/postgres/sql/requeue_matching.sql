-- D4: moves the oldest :limit dead jobs that match back to pending. An empty :queue and a NULL :older_than_s do not
-- restrict. Two parts, since one index serves each of them. What somebody has locked holds up nothing else: it is left,
-- and whether there is any such job within the limit is the last column.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
),
of_any AS MATERIALIZED (
    SELECT job.id FROM __alkstore_dead AS job
    WHERE CAST(:queue AS text) = ''
        AND (CAST(:older_than_s AS bigint) IS NULL OR job.died_at <= (SELECT now FROM clock) - CAST(:older_than_s AS bigint))
    ORDER BY job.id
    LIMIT CAST(:limit AS bigint)
    FOR UPDATE SKIP LOCKED
),
of_one AS MATERIALIZED (
    SELECT job.id FROM __alkstore_dead AS job
    WHERE CAST(:queue AS text) != '' AND job.queue = :queue
        AND (CAST(:older_than_s AS bigint) IS NULL OR job.died_at <= (SELECT now FROM clock) - CAST(:older_than_s AS bigint))
    ORDER BY job.id
    LIMIT CAST(:limit AS bigint)
    FOR UPDATE SKIP LOCKED
),
back AS (
    DELETE FROM __alkstore_dead AS job
    WHERE job.id = ANY (ARRAY(SELECT id FROM of_any UNION ALL SELECT id FROM of_one))
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
        id, queue, payload, 'pending', priority, (SELECT now FROM clock), 0, max_attempts, created_at,
        visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence, schedule, scheduled_for, last_error
    FROM back
    -- A job that a hand edit has left alive as well stays as it is (K3).
    ON CONFLICT (id) DO NOTHING
)
SELECT
    (SELECT count(*) FROM back),
    (
        SELECT count(*)
        FROM (
            SELECT job.id FROM __alkstore_dead AS job
            WHERE CAST(:queue AS text) = ''
                AND (CAST(:older_than_s AS bigint) IS NULL OR job.died_at <= (SELECT now FROM clock) - CAST(:older_than_s AS bigint))
            ORDER BY job.id
            LIMIT CAST(:limit AS bigint)
        ) AS every
    ) > (SELECT count(*) FROM of_any)
    OR (
        SELECT count(*)
        FROM (
            SELECT job.id FROM __alkstore_dead AS job
            WHERE CAST(:queue AS text) != '' AND job.queue = :queue
                AND (CAST(:older_than_s AS bigint) IS NULL OR job.died_at <= (SELECT now FROM clock) - CAST(:older_than_s AS bigint))
            ORDER BY job.id
            LIMIT CAST(:limit AS bigint)
        ) AS every
    ) > (SELECT count(*) FROM of_one);
