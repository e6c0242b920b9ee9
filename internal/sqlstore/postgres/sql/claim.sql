-- Hands out up to :limit jobs of :queue (C1-C5). :kind is any, proven or suspects: a suspect is a job whose claim has
-- lapsed without a word, now or before.
--
-- A plain ORDER BY over the ready index would read every delayed job of a higher priority before the first ready one.
-- So the index is entered once for each distinct priority, in turn and only until :limit jobs are found, and each entry
-- gives its first ready jobs. Rows are locked one by one as they are read, so that jobs that others are claiming are
-- passed over without a wait and no more are locked than are claimed.
--
-- Jobs that are gone leave their entries in the index until a vacuum, which may have to wait for a transaction that has
-- nothing to do with jobs. The arrays say where to enter a priority so as not to pass them, and :lease_from the same for
-- deadlines: see frontier.go. The lowest priority there can be is always among them. :taken are jobs that the same call
-- has claimed before.
WITH RECURSIVE
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
),
open (queue) AS MATERIALIZED (
    SELECT CAST(:queue AS text)
    WHERE NOT EXISTS (SELECT 1 FROM __alkstore_queues AS stopped WHERE stopped.queue = :queue AND stopped.paused)
),
known (priority, run_at, id) AS MATERIALIZED (
    SELECT priority, run_at, id
    FROM unnest(CAST(:priorities AS bigint[]), CAST(:run_ats AS bigint[]), CAST(:ids AS bigint[]))
        AS known (priority, run_at, id)
),
level (priority) AS (
    SELECT coalesce(
        (
            SELECT job.priority FROM __alkstore_live AS job
            WHERE job.queue = :queue AND job.state = 'pending' AND job.priority > next.priority
            ORDER BY job.priority DESC LIMIT 1
        ),
        next.priority
    )
    FROM (SELECT max(known.priority) AS priority FROM known) AS next
    UNION ALL
    SELECT coalesce(
        (
            SELECT job.priority FROM __alkstore_live AS job
            WHERE job.queue = :queue AND job.state = 'pending'
                AND job.priority < level.priority AND job.priority > next.priority
            ORDER BY job.priority DESC LIMIT 1
        ),
        next.priority
    )
    FROM level
    CROSS JOIN LATERAL (
        SELECT max(known.priority) AS priority FROM known WHERE known.priority < level.priority
    ) AS next
    WHERE next.priority IS NOT NULL
),
proven (id, priority, run_at) AS MATERIALIZED (
    SELECT found.id, found.priority, found.run_at
    FROM level
    CROSS JOIN LATERAL (
        SELECT job.id, job.priority, job.run_at FROM __alkstore_live AS job
        WHERE job.queue = :queue AND job.state = 'pending' AND job.priority = level.priority
            AND job.run_at <= (SELECT now FROM clock)
            AND (job.run_at, job.id) >= (
                coalesce((SELECT known.run_at FROM known WHERE known.priority = level.priority), -9223372036854775808),
                coalesce((SELECT known.id FROM known WHERE known.priority = level.priority), 0)
            )
            AND job.attempts < job.max_attempts AND job.lapsed_fence = 0
            AND job.id <> ALL (CAST(:taken AS bigint[]))
            AND (job.expires_at IS NULL OR job.expires_at >= (SELECT now FROM clock))
        ORDER BY job.run_at, job.id
        LIMIT CAST(:limit AS bigint)
        FOR UPDATE SKIP LOCKED
    ) AS found
    WHERE CAST(:kind AS text) IN ('any', 'proven') AND EXISTS (SELECT 1 FROM open)
    LIMIT CAST(:limit AS bigint)
),
waiting (id, priority, run_at) AS MATERIALIZED (
    SELECT job.id, job.priority, job.run_at FROM __alkstore_live AS job
    WHERE CAST(:kind AS text) IN ('any', 'suspects') AND EXISTS (SELECT 1 FROM open)
        AND job.queue = :queue AND job.state = 'pending' AND job.lapsed_fence > 0
        AND job.run_at <= (SELECT now FROM clock)
        AND job.attempts < job.max_attempts
        AND (job.expires_at IS NULL OR job.expires_at >= (SELECT now FROM clock))
    ORDER BY job.priority DESC, job.run_at, job.id
    LIMIT CAST(:limit AS bigint)
    FOR UPDATE SKIP LOCKED
),
lapsed (id, priority, run_at) AS MATERIALIZED (
    SELECT job.id, job.priority, job.run_at FROM __alkstore_live AS job
    WHERE CAST(:kind AS text) IN ('any', 'suspects') AND EXISTS (SELECT 1 FROM open)
        AND job.queue = :queue AND job.state = 'processing'
        AND job.claim_expires_at >= CAST(:lease_from AS bigint) AND job.claim_expires_at < (SELECT now FROM clock)
        AND job.attempts < job.max_attempts
        AND (job.expires_at IS NULL OR job.expires_at >= (SELECT now FROM clock))
    ORDER BY job.priority DESC, job.run_at, job.id
    LIMIT CAST(:limit AS bigint)
    FOR UPDATE SKIP LOCKED
),
endless (id, priority, run_at) AS MATERIALIZED (
    SELECT job.id, job.priority, job.run_at FROM __alkstore_live AS job
    WHERE CAST(:kind AS text) IN ('any', 'suspects') AND EXISTS (SELECT 1 FROM open)
        AND job.queue = :queue AND job.state = 'processing' AND job.claim_expires_at IS NULL
        AND job.attempts < job.max_attempts
        AND (job.expires_at IS NULL OR job.expires_at >= (SELECT now FROM clock))
    ORDER BY job.priority DESC, job.run_at, job.id
    LIMIT CAST(:limit AS bigint)
    FOR UPDATE SKIP LOCKED
),
candidate (id) AS MATERIALIZED (
    SELECT every.id
    FROM (
        SELECT id, priority, run_at FROM proven
        UNION ALL SELECT id, priority, run_at FROM waiting
        UNION ALL SELECT id, priority, run_at FROM lapsed
        UNION ALL SELECT id, priority, run_at FROM endless
    ) AS every
    ORDER BY every.priority DESC, every.run_at, every.id
    LIMIT CAST(:limit AS bigint)
),
claimed AS (
    -- least: no value that a hand edit left in one row may keep the others from being claimed (K3).
    UPDATE __alkstore_live AS job SET
        state            = 'processing',
        claimant         = :claimant,
        claimed_at       = (SELECT now FROM clock),
        claim_expires_at = (SELECT now FROM clock) + least(job.visibility_timeout_s, 1000000000000),
        attempts         = job.attempts + 1,
        fence            = least(job.fence, 9223372036854775806) + 1,
        lapsed_fence     = CASE WHEN job.state = 'processing' THEN job.fence ELSE job.lapsed_fence END
    WHERE job.id = ANY (ARRAY(SELECT candidate.id FROM candidate))
    RETURNING
        job.id, job.queue, job.state, job.payload, job.priority, job.run_at, job.claimant, job.claimed_at,
        job.claim_expires_at, job.attempts, job.max_attempts, job.created_at, job.expires_at, job.visibility_timeout_s,
        job.backoff_base_s, job.dead_letter_retention_s, job.fence, job.lapsed_fence, job.last_error, job.schedule,
        job.scheduled_for
),
silent (id, fence, attempt) AS (
    SELECT id, lapsed_fence, greatest(attempts, 1) - 1 FROM claimed WHERE lapsed_fence > 0 AND lapsed_fence = fence - 1
),
trimmed AS (
    DELETE FROM __alkstore_failures AS failure USING silent
    WHERE failure.job_id = ANY (ARRAY[silent.id]) AND failure.fence <= (
        SELECT newer.fence FROM __alkstore_failures AS newer
        WHERE newer.job_id = silent.id ORDER BY newer.fence DESC LIMIT 1 OFFSET CAST(:keep AS bigint) - 1
    )
),
history AS (
    INSERT INTO __alkstore_failures (job_id, fence, attempt, failed_at, error, stack)
    SELECT id, fence, attempt, (SELECT now FROM clock), CAST(:lapsed_text AS text), '' FROM silent
    ON CONFLICT (job_id, fence) DO NOTHING
)
SELECT
    id, queue, state, payload, octet_length(payload) AS payload_size, priority, run_at, claimant, claimed_at,
    claim_expires_at, attempts, max_attempts, created_at, expires_at, visibility_timeout_s, backoff_base_s,
    dead_letter_retention_s, fence, lapsed_fence, last_error, NULL AS died_at, schedule, scheduled_for
FROM claimed
ORDER BY priority DESC, run_at, id;
