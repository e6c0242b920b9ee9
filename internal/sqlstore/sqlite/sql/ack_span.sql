-- ack.sql for the claims from :first to :last.
DELETE FROM __alkstore_live
WHERE id BETWEEN :first AND :last AND fence = :fence AND state = 'processing' AND claim_expires_at >= :now
    AND spilled = 0;
