-- Failed attempts that no job has.
DELETE FROM __alkstore_failures AS failure
WHERE NOT EXISTS (SELECT 1 FROM __alkstore_live AS live WHERE live.id = failure.job_id)
    AND NOT EXISTS (SELECT 1 FROM __alkstore_dead AS dead WHERE dead.id = failure.job_id);
