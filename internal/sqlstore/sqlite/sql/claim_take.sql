-- Claims the jobs that claim.sql has found (C4, C5), in the same transaction.
UPDATE __alkstore_live SET
    state            = 'processing',
    claimant         = :claimant,
    claimed_at       = :now,
    claim_expires_at = :now + visibility_timeout_s,
    attempts         = attempts + 1,
    fence            = fence + 1,
    lapsed_fence     = CASE WHEN state = 'processing' THEN fence ELSE lapsed_fence END
WHERE id IN (SELECT value FROM json_each(:ids));
