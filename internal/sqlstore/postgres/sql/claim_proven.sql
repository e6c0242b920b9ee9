-- claim.sql for jobs of which no claim has ever lapsed, which are nearly all: see there for how. If there may be jobs that
-- have spent their attempts (C6), nothing is claimed, as in a queue that is paused or empty: without a job, the caller goes
-- the long way to learn why.
--
-- Each row of a claim is handled often, so this is written for the least work on one. There is no outermost SELECT, which
-- would copy the rows twice more, to put them in order among other things: the caller does (C2). And the rows that were
-- locked are found again by their places. Nobody can move one that we have locked. If it was moved before that, but after
-- our snapshot was taken, then its new place is not in our snapshot, and the job is left for the next claim.
--
-- Here and elsewhere, an ORDER BY that seems to serve nothing names the index to go by: for the first of rows in any order
-- the server may read the whole table, in the belief that one will turn up soon.
WITH RECURSIVE
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
),
queue (open, spent) AS MATERIALIZED (
    SELECT
        NOT EXISTS (SELECT 1 FROM __alkstore_queues AS stopped WHERE stopped.queue = :queue AND stopped.paused),
        coalesce(
            (
                SELECT true FROM __alkstore_live AS job
                WHERE job.queue = :queue AND job.attempts >= job.max_attempts AND job.state = 'pending'
                    AND job.run_at <= clock.now
                ORDER BY job.claim_expires_at LIMIT 1
            ),
            (
                SELECT true FROM __alkstore_live AS job
                WHERE job.queue = :queue AND job.attempts >= job.max_attempts AND job.state = 'processing'
                    AND job.claim_expires_at >= CAST(:lease_from AS bigint) AND job.claim_expires_at < clock.now
                ORDER BY job.claim_expires_at LIMIT 1
            ),
            (
                SELECT true FROM __alkstore_live AS job
                WHERE job.queue = :queue AND job.attempts >= job.max_attempts AND job.state = 'processing'
                    AND job.claim_expires_at IS NULL
                ORDER BY job.claim_expires_at LIMIT 1
            ),
            false
        )
    FROM clock
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
proven (place) AS MATERIALIZED (
    SELECT found.place
    FROM level
    CROSS JOIN LATERAL (
        SELECT job.ctid AS place FROM __alkstore_live AS job
        WHERE job.queue = :queue AND job.state = 'pending' AND job.priority = level.priority
            AND job.run_at <= (SELECT now FROM clock)
            AND (job.run_at, job.id) >= (
                coalesce((SELECT known.run_at FROM known WHERE known.priority = level.priority), -9223372036854775808),
                coalesce((SELECT known.id FROM known WHERE known.priority = level.priority), 0)
            )
            AND job.attempts < job.max_attempts AND job.lapsed_fence = 0
            AND (job.expires_at IS NULL OR job.expires_at >= (SELECT now FROM clock))
        ORDER BY job.run_at, job.id
        LIMIT CAST(:limit AS bigint)
        FOR UPDATE SKIP LOCKED
    ) AS found
    WHERE (SELECT open AND NOT spent FROM queue)
    LIMIT CAST(:limit AS bigint)
)
-- least: no value that a hand edit left in one row may keep the others from being claimed (K3).
UPDATE __alkstore_live AS job SET
    state            = 'processing',
    claimant         = :claimant,
    claimed_at       = (SELECT now FROM clock),
    claim_expires_at = (SELECT now FROM clock) + least(job.visibility_timeout_s, 1000000000000),
    attempts         = job.attempts + 1,
    fence            = least(job.fence, 9223372036854775806) + 1
WHERE job.ctid = ANY (ARRAY(SELECT proven.place FROM proven))
RETURNING
    (SELECT now FROM clock), job.id, job.payload, job.priority, job.run_at, job.attempts, job.max_attempts, job.created_at,
    job.expires_at, job.visibility_timeout_s, job.backoff_base_s, job.dead_letter_retention_s, job.fence, job.last_error,
    job.schedule, job.scheduled_for;
