-- Everything that no statement of this store can produce but a hand edit can (K3, D5): kind, job, queue, what to do.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
)
SELECT 'twice', live.id, live.queue, 'is both live and dead: delete the row that is wrong'
FROM __alkstore_dead AS dead JOIN __alkstore_live AS live ON live.id = dead.id
UNION ALL
SELECT 'state', id, queue, 'has a state that is neither pending nor processing and never runs: set it to pending'
FROM __alkstore_live WHERE state NOT IN ('pending', 'processing')
UNION ALL
SELECT 'stuck', id, queue, 'is processing without a deadline: the next sweep makes it reclaimable'
FROM __alkstore_live WHERE state = 'processing' AND claim_expires_at IS NULL
UNION ALL
SELECT 'stuck', id, queue, 'has a claim that ends years from now, which no extension may: set claim_expires_at'
FROM __alkstore_live
WHERE state = 'processing' AND claim_expires_at > (SELECT now FROM clock) + 2 * 366 * 86400
UNION ALL
SELECT 'stuck', id, queue, 'is pending with a claimant or a deadline: clear claimant and claim_expires_at'
FROM __alkstore_live WHERE state = 'pending' AND (claimant IS NOT NULL OR claim_expires_at IS NOT NULL)
UNION ALL
SELECT 'attempts', id, queue, 'has attempts outside 0 to max_attempts: set attempts; the next claim buries it otherwise'
FROM __alkstore_live WHERE attempts NOT BETWEEN 0 AND max_attempts
UNION ALL
SELECT 'stamps', id, queue, 'has a stamp that no enqueue allows: visibility and attempts start at 1, the others at 0'
FROM __alkstore_live
WHERE visibility_timeout_s < 1 OR max_attempts < 1 OR backoff_base_s < 0 OR dead_letter_retention_s < 0
UNION ALL
SELECT DISTINCT 'orphan', failures.job_id, '', 'is gone, but its failures are still stored: delete them'
FROM __alkstore_failures AS failures
WHERE NOT EXISTS (SELECT 1 FROM __alkstore_live AS live WHERE live.id = failures.job_id)
    AND NOT EXISTS (SELECT 1 FROM __alkstore_dead AS dead WHERE dead.id = failures.job_id)
UNION ALL
SELECT 'sequence', highest.id, '', 'has an id above the sequence: new jobs could get an id that was used before'
FROM (
    SELECT greatest((SELECT max(id) FROM __alkstore_live), (SELECT max(id) FROM __alkstore_dead)) AS id
) AS highest
WHERE highest.id > (SELECT last_value FROM __alkstore_live_id_seq)
LIMIT 1000;
