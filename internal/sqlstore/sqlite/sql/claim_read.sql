-- The jobs of :ids, a JSON array, in its order, as far as the claims that gave them :fence have not ended, with the columns
-- of claim_ready.sql. The order is that of the walk through the array; to ask for it would make SQLite sort whole jobs.
SELECT
    job.id, payload, spilled, priority, run_at, claim_expires_at, attempts, max_attempts, created_at, expires_at,
    visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence, lapsed_fence, last_error, schedule,
    scheduled_for
FROM json_each(:ids) AS claim
CROSS JOIN __alkstore_live AS job
WHERE job.id = claim.value AND job.state = 'processing' AND job.fence = :fence;
