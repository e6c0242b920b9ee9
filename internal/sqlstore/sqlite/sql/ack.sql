-- H2 for claims of :ids that all have the same :fence, as far as they hold (see held.sql) and have nothing outside their
-- rows but failures.
DELETE FROM __alkstore_live
WHERE id IN (SELECT value FROM json_each(:ids)) AND fence = :fence AND state = 'processing' AND claim_expires_at >= :now
    AND spilled = 0;
