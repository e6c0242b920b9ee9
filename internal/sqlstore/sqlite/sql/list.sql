-- A page, newest first. Each half stops after :limit rows, so that a page costs the same at any depth; payloads are
-- cut before they are merged, so that a page of large jobs is small.
SELECT * FROM (
    SELECT
        id, queue, state, substr(CAST(payload AS BLOB), 1, :payload_limit) AS payload,
        coalesce(payload_size, length(CAST(payload AS BLOB))) AS payload_size, spilled, priority, run_at, claimant,
        claimed_at, claim_expires_at, attempts, max_attempts, created_at, expires_at, visibility_timeout_s,
        backoff_base_s, dead_letter_retention_s, fence, lapsed_fence, last_error, NULL AS died_at, schedule,
        scheduled_for
    FROM __alkstore_live
    WHERE id < :before AND (:queue = '' OR queue = :queue) AND (:state = '' OR state = :state)
    ORDER BY id DESC
    LIMIT 0 + :limit
)
UNION ALL
SELECT * FROM (
    SELECT
        id, queue, 'dead', substr(CAST(payload AS BLOB), 1, :payload_limit),
        coalesce(payload_size, length(CAST(payload AS BLOB))), spilled, priority, run_at, NULL, claimed_at, NULL,
        attempts, max_attempts, created_at, expires_at, visibility_timeout_s, backoff_base_s, dead_letter_retention_s,
        fence, 0, last_error, died_at, schedule, scheduled_for
    FROM __alkstore_dead
    WHERE id < :before AND (:queue = '' OR queue = :queue) AND :state IN ('', 'dead')
    ORDER BY id DESC
    LIMIT 0 + :limit
)
ORDER BY id DESC
LIMIT 0 + :limit;
