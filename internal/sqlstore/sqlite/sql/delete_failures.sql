DELETE FROM __alkstore_failures WHERE job_id IN (SELECT value FROM json_each(:ids));
