SELECT
    id, queue, state, payload, payload_size, spilled, priority, run_at, claimant, claimed_at, claim_expires_at,
    attempts, max_attempts, created_at, expires_at, visibility_timeout_s, backoff_base_s, dead_letter_retention_s,
    fence, lapsed_fence, last_error, NULL AS died_at, schedule, scheduled_for
FROM __alkstore_live
WHERE id = :id;
