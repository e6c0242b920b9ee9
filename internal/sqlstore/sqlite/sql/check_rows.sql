-- Everything that no statement of this store can produce but a hand edit can (K3, D5): kind, job, queue, what to do.
SELECT 'twice', live.id, CAST(live.queue AS TEXT), 'is both live and dead: delete the row that is wrong'
FROM __alkstore_dead AS dead JOIN __alkstore_live AS live ON live.id = dead.id
UNION ALL
SELECT 'id', id, CAST(queue AS TEXT), 'has the id ' || id || ', below 1, which no command takes: insert it anew without an id, and delete this row'
FROM __alkstore_live WHERE id < 1
UNION ALL
SELECT 'id', id, CAST(queue AS TEXT), 'has the id ' || id || ', below 1, which no command takes: insert it anew without an id, and delete this row'
FROM __alkstore_dead WHERE id < 1
UNION ALL
SELECT 'state', id, CAST(queue AS TEXT), 'has a state that is neither pending nor processing and never runs: set it to pending'
FROM __alkstore_live WHERE state NOT IN ('pending', 'processing')
UNION ALL
SELECT 'state', id, CAST(queue AS TEXT), 'is among the dead letters with another state: set it to dead'
FROM __alkstore_dead WHERE state != 'dead'
UNION ALL
SELECT 'stuck', id, CAST(queue AS TEXT), 'is processing without a deadline: the next sweep makes it reclaimable'
FROM __alkstore_live WHERE state = 'processing' AND claim_expires_at IS NULL
UNION ALL
SELECT 'stuck', id, CAST(queue AS TEXT), 'has a claim that ends years from now, which no extension may: set claim_expires_at'
FROM __alkstore_live
WHERE state = 'processing' AND typeof(claim_expires_at) = 'integer'
    AND claim_expires_at > :now + 2 * 366 * 86400
UNION ALL
SELECT 'stuck', id, CAST(queue AS TEXT), 'is due after the year 9999 and never runs: set run_at'
FROM __alkstore_live WHERE state = 'pending' AND typeof(run_at) = 'integer' AND run_at > 253402300799
UNION ALL
SELECT 'claim', id, CAST(queue AS TEXT), 'is pending with a claimant, a claim time or a deadline: clear them'
FROM __alkstore_live
WHERE state = 'pending' AND (claimant IS NOT NULL OR claimed_at IS NOT NULL OR claim_expires_at IS NOT NULL)
UNION ALL
SELECT 'claim', id, CAST(queue AS TEXT), 'is processing without a claimant: the next claim sets it'
FROM __alkstore_live WHERE state = 'processing' AND claimant IS NULL
UNION ALL
SELECT 'attempts', id, CAST(queue AS TEXT),
    'has attempts outside 0 to max_attempts: set attempts; the next claim buries it otherwise'
FROM __alkstore_live WHERE attempts NOT BETWEEN 0 AND max_attempts
UNION ALL
SELECT 'attempts', id, CAST(queue AS TEXT), 'has attempts outside 0 to max_attempts: set attempts'
FROM __alkstore_dead WHERE attempts NOT BETWEEN 0 AND 2147483647
UNION ALL
SELECT 'fence', id, CAST(queue AS TEXT), 'has a fence that no number of claims can have made: set it higher than it ever was'
FROM __alkstore_live WHERE typeof(fence) = 'integer' AND fence NOT BETWEEN 0 AND 9007199254740992
UNION ALL
SELECT 'fence', id, CAST(queue AS TEXT), 'has a fence that no number of claims can have made: set it higher than it ever was'
FROM __alkstore_dead WHERE typeof(fence) = 'integer' AND fence NOT BETWEEN 0 AND 9007199254740992
UNION ALL
SELECT 'fence', id, CAST(queue AS TEXT), 'is suspected for a claim that it never had: set lapsed_fence to 0'
FROM __alkstore_live WHERE typeof(lapsed_fence) = 'integer' AND lapsed_fence NOT BETWEEN 0 AND fence
UNION ALL
SELECT 'stamps', id, CAST(queue AS TEXT), 'has a stamp that no enqueue allows: visibility and attempts start at 1, the others at 0'
FROM __alkstore_live
WHERE visibility_timeout_s NOT BETWEEN 1 AND 366 * 86400 OR max_attempts NOT BETWEEN 1 AND 2147483647
    OR backoff_base_s NOT BETWEEN 0 AND 366 * 86400 OR dead_letter_retention_s < 0
UNION ALL
SELECT 'stamps', id, CAST(queue AS TEXT), 'has a stamp that no enqueue allows: visibility and attempts start at 1, the others at 0'
FROM __alkstore_dead
WHERE visibility_timeout_s NOT BETWEEN 1 AND 366 * 86400 OR max_attempts NOT BETWEEN 1 AND 2147483647
    OR backoff_base_s NOT BETWEEN 0 AND 366 * 86400 OR dead_letter_retention_s < 0
UNION ALL
SELECT 'time', id, CAST(queue AS TEXT), 'was enqueued before 1970 or after 9999: set created_at'
FROM __alkstore_live WHERE created_at NOT BETWEEN 0 AND 253402300799
UNION ALL
SELECT 'time', id, CAST(queue AS TEXT), 'is ready since before the year 1: set run_at'
FROM __alkstore_live WHERE run_at < -62135596800
UNION ALL
SELECT 'time', id, CAST(queue AS TEXT), 'was enqueued or died before 1970 or after 9999: set created_at and died_at'
FROM __alkstore_dead WHERE created_at NOT BETWEEN 0 AND 253402300799 OR died_at NOT BETWEEN 0 AND 253402300799
UNION ALL
SELECT 'reason', id, CAST(queue AS TEXT), 'is dead without a reason: set last_error'
FROM __alkstore_dead WHERE last_error IS NULL
UNION ALL
SELECT 'schedule', id, CAST(queue AS TEXT), 'has a schedule without a time, or the other way round: set or clear both'
FROM __alkstore_live WHERE (schedule IS NULL) != (scheduled_for IS NULL)
UNION ALL
SELECT 'schedule', id, CAST(queue AS TEXT), 'has a schedule without a time, or the other way round: set or clear both'
FROM __alkstore_dead WHERE (schedule IS NULL) != (scheduled_for IS NULL)
UNION ALL
SELECT 'type', id, CAST(queue AS TEXT), 'has a value of the wrong type, such as text where a whole number belongs: set the column'
FROM __alkstore_live
WHERE
    typeof(run_at) != 'integer' OR typeof(priority) != 'integer' OR typeof(attempts) != 'integer'
    OR typeof(max_attempts) != 'integer' OR typeof(created_at) != 'integer' OR typeof(fence) != 'integer'
    OR typeof(visibility_timeout_s) != 'integer' OR typeof(backoff_base_s) != 'integer'
    OR typeof(spilled) != 'integer' OR typeof(lapsed_fence) != 'integer'
    OR typeof(dead_letter_retention_s) NOT IN ('integer', 'null') OR typeof(expires_at) NOT IN ('integer', 'null')
    OR typeof(claimed_at) NOT IN ('integer', 'null') OR typeof(scheduled_for) NOT IN ('integer', 'null')
    OR typeof(payload_size) NOT IN ('integer', 'null') OR typeof(claim_expires_at) NOT IN ('integer', 'null')
    OR typeof(queue) != 'text' OR typeof(state) != 'text' OR typeof(last_error) NOT IN ('text', 'null')
    OR typeof(schedule) NOT IN ('text', 'null') OR typeof(claimant) NOT IN ('text', 'null')
UNION ALL
SELECT 'type', id, CAST(queue AS TEXT), 'has a value of the wrong type, such as text where a whole number belongs: set the column'
FROM __alkstore_dead
WHERE
    typeof(run_at) != 'integer' OR typeof(priority) != 'integer' OR typeof(attempts) != 'integer'
    OR typeof(max_attempts) != 'integer' OR typeof(created_at) != 'integer' OR typeof(fence) != 'integer'
    OR typeof(visibility_timeout_s) != 'integer' OR typeof(backoff_base_s) != 'integer'
    OR typeof(spilled) != 'integer' OR typeof(died_at) != 'integer'
    OR typeof(dead_letter_retention_s) NOT IN ('integer', 'null') OR typeof(expires_at) NOT IN ('integer', 'null')
    OR typeof(claimed_at) NOT IN ('integer', 'null') OR typeof(scheduled_for) NOT IN ('integer', 'null')
    OR typeof(payload_size) NOT IN ('integer', 'null') OR typeof(queue) != 'text' OR typeof(state) != 'text'
    OR typeof(last_error) NOT IN ('text', 'null') OR typeof(schedule) NOT IN ('text', 'null')
UNION ALL
SELECT 'payload', id, CAST(queue AS TEXT), 'has lost its payload: purge or cancel it'
FROM __alkstore_live AS live
WHERE spilled != 0 AND NOT EXISTS (SELECT 1 FROM __alkstore_payloads WHERE id = live.id)
UNION ALL
SELECT 'payload', id, CAST(queue AS TEXT), 'has lost its payload: purge it'
FROM __alkstore_dead AS dead
WHERE spilled != 0 AND NOT EXISTS (SELECT 1 FROM __alkstore_payloads WHERE id = dead.id)
UNION ALL
SELECT 'payload', job.id, CAST(job.queue AS TEXT), 'has a payload outside its row that it does not know of: set spilled, or delete it'
FROM (
    SELECT id, queue, spilled FROM __alkstore_live
    UNION ALL SELECT id, queue, spilled FROM __alkstore_dead
) AS job JOIN __alkstore_payloads ON __alkstore_payloads.id = job.id
WHERE job.spilled IS NOT 1
UNION ALL
SELECT 'payload', job.id, CAST(job.queue AS TEXT), 'has a payload of another size than it was enqueued with: set payload_size'
FROM (
    SELECT id, queue, spilled, payload, payload_size FROM __alkstore_live
    UNION ALL SELECT id, queue, spilled, payload, payload_size FROM __alkstore_dead
) AS job LEFT JOIN __alkstore_payloads ON __alkstore_payloads.id = job.id
WHERE job.payload_size != CASE WHEN job.spilled = 0 THEN length(CAST(job.payload AS BLOB))
    ELSE length(CAST(__alkstore_payloads.payload AS BLOB)) END
UNION ALL
SELECT 'orphan', payloads.id, '', 'is gone, but its payload is still stored: delete the row of __alkstore_payloads'
FROM __alkstore_payloads AS payloads
WHERE NOT EXISTS (SELECT 1 FROM __alkstore_live WHERE id = payloads.id)
    AND NOT EXISTS (SELECT 1 FROM __alkstore_dead WHERE id = payloads.id)
UNION ALL
SELECT DISTINCT 'orphan', CAST(failures.job_id AS INTEGER), '', 'is gone, but its failures are still stored: delete them'
FROM __alkstore_failures AS failures
WHERE NOT EXISTS (SELECT 1 FROM __alkstore_live WHERE id = failures.job_id)
    AND NOT EXISTS (SELECT 1 FROM __alkstore_dead WHERE id = failures.job_id)
UNION ALL
SELECT DISTINCT 'history', CAST(job_id AS INTEGER), '', 'has a failed attempt that cannot be read: delete its row of __alkstore_failures'
FROM __alkstore_failures
WHERE typeof(fence) != 'integer' OR typeof(attempt) != 'integer' OR typeof(failed_at) != 'integer'
    OR typeof(error) != 'text' OR typeof(stack) != 'text'
UNION ALL
SELECT 'pause', 0, CAST(queue AS TEXT), 'its pause is neither 0 nor 1: resume or pause the queue'
FROM __alkstore_queues WHERE paused NOT IN (0, 1)
UNION ALL
SELECT 'lock', 0, '', 'the lock ' || name || ' is held for years, or for no time that can pass: delete its row of __alkstore_locks'
FROM __alkstore_locks WHERE typeof(expires_at) != 'integer' OR expires_at > :now + 366 * 86400
UNION ALL
SELECT 'worker', 0, CAST(queue AS TEXT), 'the worker ' || worker || ' is announced for years, or for no time that can pass: delete its rows'
FROM __alkstore_workers WHERE typeof(expires_at) != 'integer' OR expires_at > :now + 366 * 86400
UNION ALL
SELECT 'schedule', 0, CAST(queue AS TEXT), 'the schedule ' || coalesce(CAST(name AS TEXT), 'without a name') || ' has a value of the wrong type, or a stamp that no job may have: set it again'
FROM __alkstore_scheduler_tasks
WHERE typeof(name) != 'text' OR typeof(next_fire_at) != 'integer' OR next_fire_at NOT BETWEEN 0 AND 253402300799 OR typeof(paused) != 'integer' OR paused NOT IN (0, 1)
    OR typeof(queue) != 'text' OR typeof(spec) != 'text' OR typeof(priority) != 'integer'
    OR typeof(visibility_timeout_s) != 'integer' OR visibility_timeout_s NOT BETWEEN 0 AND 366 * 86400
    OR typeof(max_attempts) != 'integer' OR max_attempts NOT BETWEEN 0 AND 2147483647
    OR typeof(backoff_base_s) != 'integer' OR backoff_base_s NOT BETWEEN 0 AND 366 * 86400
    OR typeof(dead_letter_retention_s) NOT IN ('integer', 'null') OR dead_letter_retention_s < 0
    OR typeof(expires_s) NOT IN ('integer', 'null') OR expires_s < 0 OR typeof(anchor) NOT IN ('integer', 'null')
    OR anchor NOT BETWEEN -62135596800 AND 253402300799
    OR typeof(catch_up) != 'integer' OR catch_up NOT BETWEEN 0 AND 64 OR typeof(created_at) != 'integer'
    OR created_at NOT BETWEEN 0 AND 253402300799
UNION ALL
SELECT 'sequence', max(id), '', 'has an id above the sequence: new jobs could get an id that was used before'
FROM (SELECT max(id) AS id FROM __alkstore_dead UNION ALL SELECT max(id) FROM __alkstore_live)
HAVING max(id) > coalesce((SELECT seq FROM sqlite_sequence WHERE name = '__alkstore_live'), 0)
UNION ALL
SELECT 'sequence', 0, '', 'hardly an id is left for new jobs: purge those with an id above 9007199254740992, and set seq in sqlite_sequence to the highest id that was given away before them'
FROM sqlite_sequence WHERE name = '__alkstore_live' AND CAST(seq AS INTEGER) > 9223372036854774807
LIMIT 1000;
