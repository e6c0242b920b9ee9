-- D4: deletes the oldest :limit dead jobs that match, with their failures. An empty :queue and a NULL :older_than_s do
-- not restrict. Two parts, since one index serves each of them. What somebody has locked holds up nothing else: it is
-- left, and whether there is any such job within the limit is the last column.
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
gone AS (
    DELETE FROM __alkstore_dead AS job
    WHERE job.id = ANY (ARRAY(SELECT id FROM of_any UNION ALL SELECT id FROM of_one))
    RETURNING job.id
),
history AS (
    DELETE FROM __alkstore_failures AS failure WHERE failure.job_id = ANY (ARRAY(SELECT gone.id FROM gone))
)
SELECT
    (SELECT count(*) FROM gone),
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
