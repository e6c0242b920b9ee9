-- repair_live.sql for dead rows.
UPDATE __alkstore_dead SET
    state                   = 'dead',
    claimed_at              = iif(typeof(claimed_at) = 'integer', claimed_at, NULL),
    died_at                 = iif(typeof(died_at) = 'integer' AND died_at BETWEEN 0 AND 253402300799, died_at, :now),
    attempts                = iif(typeof(attempts) != 'integer' OR attempts < 0, 0, min(attempts, 2147483647)),
    queue                   = CAST(queue AS TEXT),
    priority                = iif(typeof(priority) = 'integer', priority, 0),
    created_at              = iif(typeof(created_at) = 'integer' AND created_at BETWEEN 0 AND 253402300799, created_at, :now),
    run_at                  = iif(typeof(run_at) = 'integer' AND run_at <= 253402300799, run_at, :now),
    expires_at              = iif(typeof(expires_at) = 'integer', expires_at, NULL),
    max_attempts            = iif(typeof(max_attempts) = 'integer' AND max_attempts BETWEEN 1 AND 2147483647, max_attempts, 20),
    visibility_timeout_s    = iif(
        typeof(visibility_timeout_s) = 'integer' AND visibility_timeout_s BETWEEN 1 AND 366 * 86400, visibility_timeout_s, 30
    ),
    backoff_base_s          = iif(
        typeof(backoff_base_s) = 'integer' AND backoff_base_s BETWEEN 0 AND 366 * 86400, backoff_base_s, 5
    ),
    dead_letter_retention_s = iif(
        typeof(dead_letter_retention_s) = 'integer' AND dead_letter_retention_s >= 0, dead_letter_retention_s, NULL
    ),
    -- C5: whatever claims there were, the next one has a higher number. Seconds since 1970 are above any count of claims.
    fence                   = max(
        iif(typeof(fence) = 'integer' AND fence BETWEEN 0 AND 9007199254740992, fence, :now),
        iif(typeof(attempts) = 'integer' AND attempts > 0, min(attempts, 2147483647), 0)
    ),
    last_error              = iif(last_error IS NULL, 'unknown', CAST(last_error AS TEXT)),
    schedule                = iif(schedule IS NULL, NULL, CAST(schedule AS TEXT)),
    scheduled_for           = CASE
        WHEN schedule IS NULL THEN NULL
        WHEN typeof(scheduled_for) = 'integer' THEN scheduled_for
        WHEN typeof(created_at) = 'integer' THEN created_at
        ELSE :now
    END,
    spilled                 = EXISTS (SELECT 1 FROM __alkstore_payloads WHERE id = __alkstore_dead.id)
        AND (spilled IS NOT 0 OR length(payload) = 0 AND payload_size IS NOT 0)
        OR spilled IS NOT 0 AND length(payload) = 0 AND payload_size IS NOT 0,
    payload_size            = iif(
        length(payload) = 0 AND EXISTS (SELECT 1 FROM __alkstore_payloads WHERE id = __alkstore_dead.id),
        (SELECT length(CAST(payload AS BLOB)) FROM __alkstore_payloads WHERE id = __alkstore_dead.id),
        iif(spilled IS NOT 0 AND length(payload) = 0, payload_size, length(CAST(payload AS BLOB)))
    )
WHERE id IN (SELECT value FROM json_each(:ids));
