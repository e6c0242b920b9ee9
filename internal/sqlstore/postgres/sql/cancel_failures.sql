-- Failures of the jobs that cancel.sql has deleted.
DELETE FROM __alkstore_failures AS failure
WHERE failure.job_id = ANY (CAST(:ids AS bigint[]))
    AND NOT EXISTS (SELECT 1 FROM __alkstore_live AS live WHERE live.id = failure.job_id)
    AND NOT EXISTS (SELECT 1 FROM __alkstore_dead AS dead WHERE dead.id = failure.job_id);
