-- The first half of every move to the dead letters (H9, D1). :deaths is a JSON array of [id, error]. REPLACE, since a row
-- that a hand edit left there must not keep the queue from being claimed (K3).
INSERT OR REPLACE INTO __alkstore_dead (
    id, queue, payload, payload_size, spilled, state, priority, run_at, claimed_at, attempts, max_attempts, created_at,
    expires_at, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence, schedule, scheduled_for,
    last_error, died_at
)
SELECT
    job.id, job.queue, job.payload, job.payload_size, job.spilled, 'dead', job.priority, job.run_at, job.claimed_at,
    job.attempts, job.max_attempts, job.created_at, job.expires_at, job.visibility_timeout_s, job.backoff_base_s,
    job.dead_letter_retention_s, job.fence, job.schedule, job.scheduled_for, death.value ->> 1, :now
FROM json_each(:deaths) AS death
CROSS JOIN __alkstore_live AS job
WHERE job.id = death.value ->> 0;
