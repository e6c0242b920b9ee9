-- Sets what is wrong in the live rows of :ids to what lets the job run: a doubtful claim lapses or ends as it should, a
-- doubtful stamp is the default, a doubtful expiry is none, and doubtful attempts are as many as there can have been.
UPDATE __alkstore_live SET
    state                   = iif(state = 'processing', 'processing', 'pending'),
    claimant                = iif(state = 'processing', coalesce(CAST(claimant AS TEXT), 'unknown'), NULL),
    claimed_at              = CASE WHEN state = 'processing' THEN iif(typeof(claimed_at) = 'integer', claimed_at, :now) END,
    claim_expires_at        = CASE
        WHEN state != 'processing' THEN NULL
        WHEN typeof(claim_expires_at) != 'integer' THEN :now - 1
        WHEN claim_expires_at <= :now + 2 * 366 * 86400 THEN claim_expires_at
        WHEN typeof(visibility_timeout_s) = 'integer' AND visibility_timeout_s BETWEEN 1 AND 366 * 86400
            THEN :now + visibility_timeout_s
        ELSE :now + 30
    END,
    attempts                = iif(
        typeof(attempts) != 'integer' OR attempts < 0, 0,
        min(attempts, iif(typeof(max_attempts) = 'integer' AND max_attempts BETWEEN 1 AND 2147483647, max_attempts, 20))
    ),
    lapsed_fence            = iif(
        typeof(lapsed_fence) = 'integer' AND typeof(fence) = 'integer' AND lapsed_fence BETWEEN 0 AND fence, lapsed_fence, 0
    ),
    queue                   = CAST(queue AS TEXT),
    priority                = iif(typeof(priority) = 'integer', priority, 0),
    created_at              = iif(typeof(created_at) = 'integer' AND created_at BETWEEN 0 AND 253402300799, created_at, :now),
    run_at                  = iif(typeof(run_at) = 'integer' AND run_at BETWEEN -62135596800 AND 253402300799, run_at, :now),
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
    last_error              = iif(last_error IS NULL, NULL, CAST(last_error AS TEXT)),
    schedule                = iif(schedule IS NULL, NULL, CAST(schedule AS TEXT)),
    scheduled_for           = CASE
        WHEN schedule IS NULL THEN NULL
        WHEN typeof(scheduled_for) = 'integer' THEN scheduled_for
        WHEN typeof(created_at) = 'integer' THEN created_at
        ELSE :now
    END,
    spilled                 = EXISTS (SELECT 1 FROM __alkstore_payloads WHERE id = __alkstore_live.id)
        AND (spilled IS NOT 0 OR length(payload) = 0 AND payload_size IS NOT 0)
        OR spilled IS NOT 0 AND length(payload) = 0 AND payload_size IS NOT 0,
    payload_size            = iif(
        length(payload) = 0 AND EXISTS (SELECT 1 FROM __alkstore_payloads WHERE id = __alkstore_live.id),
        (SELECT length(CAST(payload AS BLOB)) FROM __alkstore_payloads WHERE id = __alkstore_live.id),
        iif(spilled IS NOT 0 AND length(payload) = 0, payload_size, length(CAST(payload AS BLOB)))
    )
WHERE id IN (SELECT value FROM json_each(:ids));
