SELECT
    id, queue, 'dead' AS state, payload, payload_size, spilled, priority, run_at, NULL AS claimant, claimed_at,
    NULL AS claim_expires_at, attempts, max_attempts, created_at, expires_at, visibility_timeout_s, backoff_base_s,
    dead_letter_retention_s, fence, 0 AS lapsed_fence, last_error, died_at, schedule, scheduled_for
FROM __alkstore_dead
WHERE id = :id;
