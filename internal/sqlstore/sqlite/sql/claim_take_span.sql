-- claim_take.sql for the jobs from :first to :last, all of which claim_ready.sql has found.
UPDATE OR ROLLBACK __alkstore_live SET
    state            = 'processing',
    claimant         = :claimant,
    claimed_at       = :now,
    claim_expires_at = :now + visibility_timeout_s,
    attempts         = attempts + 1,
    fence            = fence + 1
WHERE id BETWEEN :first AND :last;
