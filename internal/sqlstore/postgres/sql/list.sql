-- A page, newest first. Each half stops after :limit rows, so that a page costs the same at any depth; of a payload that
-- lies outside its row only the beginning is read.
SELECT * FROM (
    SELECT
        id, queue, state, substring(payload FROM 1 FOR CAST(:payload_limit AS integer)) AS payload,
        octet_length(payload) AS payload_size, priority, run_at, claimant, claimed_at, claim_expires_at, attempts,
        max_attempts, created_at, expires_at, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence,
        lapsed_fence, last_error, CAST(NULL AS bigint) AS died_at, schedule, scheduled_for
    FROM __alkstore_live
    WHERE id < CAST(:before AS bigint) AND (CAST(:queue AS text) = '' OR queue = :queue)
        AND (CAST(:state AS text) = '' OR state = :state)
    ORDER BY id DESC
    LIMIT CAST(:limit AS bigint)
) AS live
UNION ALL
SELECT * FROM (
    SELECT
        id, queue, 'dead', substring(payload FROM 1 FOR CAST(:payload_limit AS integer)), octet_length(payload), priority,
        run_at, CAST(NULL AS text), claimed_at, CAST(NULL AS bigint), attempts, max_attempts, created_at, expires_at,
        visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence, 0, last_error, died_at, schedule, scheduled_for
    FROM __alkstore_dead
    WHERE id < CAST(:before AS bigint) AND (CAST(:queue AS text) = '' OR queue = :queue)
        AND CAST(:state AS text) IN ('', 'dead')
    ORDER BY id DESC
    LIMIT CAST(:limit AS bigint)
) AS dead
ORDER BY id DESC
LIMIT CAST(:limit AS bigint);
