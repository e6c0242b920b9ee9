-- One job, live or dead, with its failures, oldest first (D3, H10).
SELECT
    job.id, job.queue, job.state, job.payload, octet_length(job.payload), job.priority, job.run_at, job.claimant,
    job.claimed_at, job.claim_expires_at, job.attempts, job.max_attempts, job.created_at, job.expires_at,
    job.visibility_timeout_s, job.backoff_base_s, job.dead_letter_retention_s, job.fence, job.lapsed_fence,
    job.last_error, job.died_at, job.schedule, job.scheduled_for,
    ARRAY(SELECT failure.attempt FROM __alkstore_failures AS failure WHERE failure.job_id = job.id ORDER BY failure.fence),
    ARRAY(SELECT failure.failed_at FROM __alkstore_failures AS failure WHERE failure.job_id = job.id ORDER BY failure.fence),
    ARRAY(SELECT failure.error FROM __alkstore_failures AS failure WHERE failure.job_id = job.id ORDER BY failure.fence),
    ARRAY(SELECT failure.stack FROM __alkstore_failures AS failure WHERE failure.job_id = job.id ORDER BY failure.fence)
FROM (
    SELECT
        id, queue, state, payload, priority, run_at, claimant, claimed_at, claim_expires_at, attempts, max_attempts,
        created_at, expires_at, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence, lapsed_fence,
        last_error, CAST(NULL AS bigint) AS died_at, schedule, scheduled_for
    FROM __alkstore_live
    WHERE id = CAST(:id AS bigint)
    UNION ALL
    SELECT
        id, queue, 'dead', payload, priority, run_at, NULL, claimed_at, NULL, attempts, max_attempts, created_at,
        expires_at, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence, 0, last_error, died_at,
        schedule, scheduled_for
    FROM __alkstore_dead
    WHERE id = CAST(:id AS bigint)
) AS job;
