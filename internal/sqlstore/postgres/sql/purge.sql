-- D4: deletes dead jobs, with their failures, and names them.
WITH
gone AS (
    DELETE FROM __alkstore_dead AS job USING unnest(CAST(:ids AS bigint[])) AS wanted (id) WHERE job.id = wanted.id
    RETURNING job.id
),
history AS (
    DELETE FROM __alkstore_failures AS failure USING gone WHERE failure.job_id = gone.id
)
SELECT id FROM gone;
