-- Keeps the newest :keep failures of each of :ids (H10).
DELETE FROM __alkstore_failures
WHERE job_id IN (SELECT value FROM json_each(:ids))
    AND fence <= (
        SELECT newer.fence FROM __alkstore_failures AS newer
        WHERE newer.job_id = __alkstore_failures.job_id
        ORDER BY newer.fence DESC
        LIMIT 1 OFFSET :keep
    );
