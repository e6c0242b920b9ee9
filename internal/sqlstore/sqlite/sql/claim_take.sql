-- Claims the jobs of :ids (C4, C5), in the transaction that has found them. OR ROLLBACK, since a claim that fails leaves
-- nothing of its transaction anyway: else SQLite would keep a copy of each page to undo just this.
UPDATE OR ROLLBACK __alkstore_live SET
    state            = 'processing',
    claimant         = :claimant,
    claimed_at       = :now,
    claim_expires_at = :now + visibility_timeout_s,
    attempts         = attempts + 1,
    fence            = fence + 1,
    lapsed_fence     = CASE WHEN state = 'processing' THEN fence ELSE lapsed_fence END
WHERE id IN (SELECT value FROM json_each(:ids));
