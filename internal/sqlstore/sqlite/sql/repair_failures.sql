-- Failed attempts that no job has, or that cannot be read.
DELETE FROM __alkstore_failures
WHERE typeof(fence) != 'integer' OR typeof(attempt) != 'integer' OR typeof(failed_at) != 'integer'
    OR typeof(error) != 'text' OR typeof(stack) != 'text'
    OR NOT EXISTS (SELECT 1 FROM __alkstore_live WHERE id = job_id)
    AND NOT EXISTS (SELECT 1 FROM __alkstore_dead WHERE id = job_id);
