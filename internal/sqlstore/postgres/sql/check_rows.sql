-- Everything that no statement of this store can produce but a hand edit can (K3, D5): kind, job, queue, what to do. What
-- the types and constraints of the tables refuse needs no line here. Repair mends nearly all of it: see repair_*.sql.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
)
SELECT 'twice', live.id, live.queue, 'is both live and dead: delete the row that is wrong'
FROM __alkstore_dead AS dead JOIN __alkstore_live AS live ON live.id = dead.id
UNION ALL
SELECT 'id', id, queue, 'has the id ' || id || ', below 1, which no command takes: insert it anew without an id, and delete this row'
FROM __alkstore_live WHERE id < 1
UNION ALL
SELECT 'id', id, queue, 'has the id ' || id || ', below 1, which no command takes: insert it anew without an id, and delete this row'
FROM __alkstore_dead WHERE id < 1
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
SELECT 'stuck', id, queue, 'is due after the year 9999 and never runs: set run_at'
FROM __alkstore_live WHERE state = 'pending' AND run_at > 253402300799
UNION ALL
SELECT 'claim', id, queue, 'is pending with a claimant, a claim time or a deadline: clear them'
FROM __alkstore_live
WHERE state = 'pending' AND (claimant IS NOT NULL OR claimed_at IS NOT NULL OR claim_expires_at IS NOT NULL)
UNION ALL
SELECT 'claim', id, queue, 'is processing without a claimant or a claim time: the next claim sets them'
FROM __alkstore_live WHERE state = 'processing' AND (claimant IS NULL OR claimed_at IS NULL)
UNION ALL
SELECT 'attempts', id, queue, 'has attempts outside 0 to max_attempts: set attempts; the next claim buries it otherwise'
FROM __alkstore_live WHERE attempts NOT BETWEEN 0 AND max_attempts
UNION ALL
SELECT 'attempts', id, queue, 'has attempts outside 0 to max_attempts: set attempts'
FROM __alkstore_dead WHERE attempts NOT BETWEEN 0 AND 2147483647
UNION ALL
SELECT 'fence', id, queue, 'has a fence that no number of claims can have made: set it higher than it ever was'
FROM __alkstore_live WHERE fence NOT BETWEEN 0 AND 9007199254740992
UNION ALL
SELECT 'fence', id, queue, 'has a fence that no number of claims can have made: set it higher than it ever was'
FROM __alkstore_dead WHERE fence NOT BETWEEN 0 AND 9007199254740992
UNION ALL
SELECT 'fence', id, queue, 'is suspected for a claim that it never had: set lapsed_fence to 0'
FROM __alkstore_live WHERE lapsed_fence NOT BETWEEN 0 AND fence
UNION ALL
SELECT 'stamps', id, queue, 'has a stamp that no enqueue allows: visibility and attempts start at 1, the others at 0'
FROM __alkstore_live
WHERE visibility_timeout_s NOT BETWEEN 1 AND 366 * 86400 OR max_attempts NOT BETWEEN 1 AND 2147483647
    OR backoff_base_s NOT BETWEEN 0 AND 366 * 86400 OR dead_letter_retention_s < 0
UNION ALL
SELECT 'stamps', id, queue, 'has a stamp that no enqueue allows: visibility and attempts start at 1, the others at 0'
FROM __alkstore_dead
WHERE visibility_timeout_s NOT BETWEEN 1 AND 366 * 86400 OR max_attempts NOT BETWEEN 1 AND 2147483647
    OR backoff_base_s NOT BETWEEN 0 AND 366 * 86400 OR dead_letter_retention_s < 0
UNION ALL
SELECT 'time', id, queue, 'was enqueued before 1970 or after 9999: set created_at'
FROM __alkstore_live WHERE created_at NOT BETWEEN 0 AND 253402300799
UNION ALL
SELECT 'time', id, queue, 'is ready since before the year 1: set run_at'
FROM __alkstore_live WHERE run_at < -62135596800
UNION ALL
SELECT 'time', id, queue, 'was enqueued or died before 1970 or after 9999: set created_at and died_at'
FROM __alkstore_dead WHERE created_at NOT BETWEEN 0 AND 253402300799 OR died_at NOT BETWEEN 0 AND 253402300799
UNION ALL
SELECT 'schedule', id, queue, 'has a schedule without a time, or the other way round: set or clear both'
FROM __alkstore_live WHERE (schedule IS NULL) != (scheduled_for IS NULL)
UNION ALL
SELECT 'schedule', id, queue, 'has a schedule without a time, or the other way round: set or clear both'
FROM __alkstore_dead WHERE (schedule IS NULL) != (scheduled_for IS NULL)
UNION ALL
SELECT DISTINCT 'orphan', failures.job_id, '', 'is gone, but its failures are still stored: delete them'
FROM __alkstore_failures AS failures
WHERE NOT EXISTS (SELECT 1 FROM __alkstore_live AS live WHERE live.id = failures.job_id)
    AND NOT EXISTS (SELECT 1 FROM __alkstore_dead AS dead WHERE dead.id = failures.job_id)
UNION ALL
SELECT 'lock', 0, '', 'the lock ' || name || ' is held for years: delete its row of __alkstore_locks'
FROM __alkstore_locks WHERE expires_at > (SELECT now FROM clock) + 366 * 86400
UNION ALL
SELECT 'worker', 0, queue, 'the worker ' || worker || ' is announced for years: delete its rows'
FROM __alkstore_workers WHERE expires_at > (SELECT now FROM clock) + 366 * 86400
UNION ALL
SELECT 'schedule', 0, queue, 'the schedule ' || name || ' has a stamp or a time that none may have: set it again'
FROM __alkstore_scheduler_tasks
WHERE next_fire_at NOT BETWEEN 0 AND 253402300799
    OR visibility_timeout_s NOT BETWEEN 0 AND 366 * 86400 OR max_attempts NOT BETWEEN 0 AND 2147483647
    OR backoff_base_s NOT BETWEEN 0 AND 366 * 86400 OR dead_letter_retention_s < 0 OR expires_s < 0
    OR catch_up NOT BETWEEN 0 AND 64 OR created_at NOT BETWEEN 0 AND 253402300799
    OR anchor NOT BETWEEN -62135596800 AND 253402300799
UNION ALL
SELECT 'sequence', highest.id, '', 'has an id above the sequence: new jobs could get an id that was used before'
FROM (
    SELECT greatest(
        (SELECT max(id) FROM __alkstore_live WHERE id <= 9007199254740992),
        (SELECT max(id) FROM __alkstore_dead WHERE id <= 9007199254740992)
    ) AS id
) AS highest
WHERE highest.id > (SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END FROM __alkstore_live_id_seq)
UNION ALL
SELECT 'sequence', 0, '', 'hardly an id is left for new jobs: set __alkstore_live_id_seq with setval to the highest id that was given away by it'
FROM __alkstore_live_id_seq WHERE last_value > 9223372036854774807
LIMIT 1000;
