-- D4: deletes dead jobs, with their failures, and names them.
WITH
gone AS (
    DELETE FROM __alkstore_dead AS job USING unnest(CAST(:ids AS bigint[])) AS wanted (id)
    WHERE job.id = ANY (ARRAY[wanted.id])
    RETURNING job.id
),
history AS (
    DELETE FROM __alkstore_failures AS failure WHERE failure.job_id = ANY (ARRAY(SELECT gone.id FROM gone))
)
SELECT id FROM gone;
