-- The first half of a requeue (D4). A job that a hand edit has left alive as well stays as it is (K3).
INSERT INTO __alkstore_live (
    id, queue, payload, payload_size, spilled, state, priority, run_at, attempts, max_attempts, created_at,
    visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence, schedule, scheduled_for, last_error
)
SELECT
    job.id, job.queue, job.payload, job.payload_size, job.spilled, 'pending', job.priority, :now, 0, job.max_attempts,
    job.created_at, job.visibility_timeout_s, job.backoff_base_s, job.dead_letter_retention_s, job.fence, job.schedule,
    job.scheduled_for, job.last_error
FROM json_each(:ids) AS wanted
CROSS JOIN __alkstore_dead AS job
WHERE job.id = wanted.value AND NOT EXISTS (SELECT 1 FROM __alkstore_live WHERE id = wanted.value);
