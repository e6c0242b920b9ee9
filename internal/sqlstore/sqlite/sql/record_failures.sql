-- H10. :failures is a JSON array of [job id, fence, attempt, error, stack].
INSERT INTO __alkstore_failures (job_id, fence, attempt, failed_at, error, stack)
SELECT value ->> 0, value ->> 1, value ->> 2, :now, value ->> 3, value ->> 4
FROM json_each(:failures)
WHERE true
ON CONFLICT (job_id, fence) DO UPDATE SET
    attempt = excluded.attempt, failed_at = excluded.failed_at, error = excluded.error, stack = excluded.stack;
