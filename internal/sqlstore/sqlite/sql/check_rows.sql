-- Everything that no statement of this store can produce but a hand edit can (K3, D5): kind, job, queue, what to do.
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
WHERE state = 'processing' AND typeof(claim_expires_at) = 'integer'
    AND claim_expires_at > :now + 2 * 366 * 86400
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
SELECT 'type', id, queue, 'has text or NULL where a whole number belongs: set the column'
FROM __alkstore_live
WHERE typeof(run_at) != 'integer' OR typeof(priority) != 'integer' OR typeof(attempts) != 'integer'
    OR typeof(max_attempts) != 'integer' OR typeof(created_at) != 'integer' OR typeof(fence) != 'integer'
    OR typeof(visibility_timeout_s) != 'integer' OR typeof(backoff_base_s) != 'integer'
    OR typeof(dead_letter_retention_s) NOT IN ('integer', 'null') OR typeof(lapsed_fence) != 'integer'
    OR typeof(claim_expires_at) NOT IN ('integer', 'null') OR typeof(expires_at) NOT IN ('integer', 'null')
UNION ALL
SELECT 'type', id, queue, 'has text or NULL where a whole number belongs: set the column'
FROM __alkstore_dead
WHERE typeof(died_at) != 'integer' OR typeof(fence) != 'integer' OR typeof(priority) != 'integer'
    OR typeof(max_attempts) != 'integer' OR typeof(created_at) != 'integer'
    OR typeof(visibility_timeout_s) != 'integer' OR typeof(backoff_base_s) != 'integer'
    OR typeof(dead_letter_retention_s) NOT IN ('integer', 'null')
UNION ALL
SELECT 'payload', id, queue, 'has lost its payload: purge or cancel it'
FROM __alkstore_live AS live
WHERE spilled != 0 AND NOT EXISTS (SELECT 1 FROM __alkstore_payloads WHERE id = live.id)
UNION ALL
SELECT 'payload', id, queue, 'has lost its payload: purge it'
FROM __alkstore_dead AS dead
WHERE spilled != 0 AND NOT EXISTS (SELECT 1 FROM __alkstore_payloads WHERE id = dead.id)
UNION ALL
SELECT 'orphan', payloads.id, '', 'is gone, but its payload is still stored: delete the row of __alkstore_payloads'
FROM __alkstore_payloads AS payloads
WHERE NOT EXISTS (SELECT 1 FROM __alkstore_live WHERE id = payloads.id)
    AND NOT EXISTS (SELECT 1 FROM __alkstore_dead WHERE id = payloads.id)
UNION ALL
SELECT DISTINCT 'orphan', failures.job_id, '', 'is gone, but its failures are still stored: delete them'
FROM __alkstore_failures AS failures
WHERE NOT EXISTS (SELECT 1 FROM __alkstore_live WHERE id = failures.job_id)
    AND NOT EXISTS (SELECT 1 FROM __alkstore_dead WHERE id = failures.job_id)
UNION ALL
SELECT 'sequence', max(id), '', 'has an id above the sequence: new jobs could get an id that was used before'
FROM __alkstore_dead
HAVING max(id) > coalesce((SELECT seq FROM sqlite_sequence WHERE name = '__alkstore_live'), 0)
LIMIT 1000;
