-- :queues is a JSON array of names.
SELECT NOT EXISTS (
    SELECT 1
    FROM json_each(:queues) AS wanted
    CROSS JOIN __alkstore_live AS job
    WHERE job.queue = wanted.value AND job.state = 'processing'
    UNION ALL
    SELECT 1
    FROM json_each(:queues) AS wanted
    CROSS JOIN __alkstore_live AS job
    WHERE job.queue = wanted.value AND job.state = 'pending' AND (job.run_at <= :now OR job.attempts > 0)
        AND NOT EXISTS (SELECT 1 FROM __alkstore_queues WHERE queue = wanted.value AND paused = 1)
);
