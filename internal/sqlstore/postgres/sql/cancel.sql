-- H8: deletes pending and processing jobs and names them. Their failures: see cancel_failures.sql.
DELETE FROM __alkstore_live AS job USING unnest(CAST(:ids AS bigint[])) AS wanted (id)
WHERE job.id = ANY (ARRAY[wanted.id])
RETURNING job.id;
