SELECT attempt, failed_at, error, stack FROM __alkstore_failures WHERE job_id = :id ORDER BY fence;
