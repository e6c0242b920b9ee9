-- Which of :ids somebody has locked. The others are locked for as long as it takes to say so.
WITH free (id) AS MATERIALIZED (
    SELECT job.id FROM __alkstore_live AS job
    WHERE job.id = ANY (CAST(:ids AS bigint[]))
    FOR UPDATE SKIP LOCKED
)
SELECT job.id FROM __alkstore_live AS job
WHERE job.id = ANY (CAST(:ids AS bigint[])) AND job.id <> ALL (ARRAY(SELECT free.id FROM free));
