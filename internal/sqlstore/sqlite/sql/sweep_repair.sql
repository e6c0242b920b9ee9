-- A processing row without a deadline would never be reclaimed; rows edited by hand get there (K3).
UPDATE __alkstore_live SET claim_expires_at = :now - 1
WHERE queue = :queue AND state = 'processing' AND claim_expires_at IS NULL;
