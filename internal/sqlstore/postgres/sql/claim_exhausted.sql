-- Moves claimable jobs of :queue that have no attempts left to the dead letters (C6): at most :jobs, and no more once their
-- payloads have :bytes. Three parts, since one index serves each of them and none serves an OR. What others hold locked is
-- passed over: they will have ended it, or the next claim does this. Answers with the clock, and whether the queue is not
-- paused. :lease_from is that of claim.sql.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
),
open (queue) AS MATERIALIZED (
    SELECT CAST(:queue AS text)
    WHERE NOT EXISTS (SELECT 1 FROM __alkstore_queues AS stopped WHERE stopped.queue = :queue AND stopped.paused)
),
found (id) AS MATERIALIZED (
    SELECT job.id FROM open CROSS JOIN __alkstore_live AS job
    WHERE job.queue = :queue AND job.attempts >= job.max_attempts AND job.state = 'pending'
        AND job.run_at <= (SELECT now FROM clock)
        AND (job.expires_at IS NULL OR job.expires_at >= (SELECT now FROM clock))
    UNION ALL
    SELECT job.id FROM open CROSS JOIN __alkstore_live AS job
    WHERE job.queue = :queue AND job.attempts >= job.max_attempts AND job.state = 'processing'
        AND job.claim_expires_at >= CAST(:lease_from AS bigint) AND job.claim_expires_at < (SELECT now FROM clock)
        AND (job.expires_at IS NULL OR job.expires_at >= (SELECT now FROM clock))
    UNION ALL
    SELECT job.id FROM open CROSS JOIN __alkstore_live AS job
    WHERE job.queue = :queue AND job.attempts >= job.max_attempts AND job.state = 'processing'
        AND job.claim_expires_at IS NULL
        AND (job.expires_at IS NULL OR job.expires_at >= (SELECT now FROM clock))
),
few (id) AS MATERIALIZED (
    SELECT id
    FROM (
        SELECT first.id, sum(octet_length(job.payload)) OVER (ORDER BY first.id) - octet_length(job.payload) AS bytes
        FROM (SELECT id FROM found LIMIT CAST(:jobs AS bigint)) AS first
        CROSS JOIN LATERAL (SELECT payload FROM __alkstore_live WHERE id = first.id OFFSET 0) AS job
    ) AS measured
    WHERE bytes < CAST(:bytes AS bigint)
),
spent (id) AS MATERIALIZED (
    SELECT job.id
    FROM few AS found
    JOIN __alkstore_live AS job ON job.id = ANY (ARRAY[found.id])
    WHERE CASE
        WHEN job.attempts < job.max_attempts THEN false
        WHEN job.state = 'pending' THEN job.run_at <= (SELECT now FROM clock)
        WHEN job.state = 'processing' THEN coalesce(job.claim_expires_at < (SELECT now FROM clock), true)
        ELSE false
    END
    FOR UPDATE OF job SKIP LOCKED
),
gone AS (
    DELETE FROM __alkstore_live AS job WHERE job.id = ANY (ARRAY(SELECT spent.id FROM spent))
    RETURNING
        job.id, job.queue, job.state, job.payload, job.priority, job.run_at, job.claimed_at, job.attempts,
        job.max_attempts, job.created_at, job.expires_at, job.visibility_timeout_s, job.backoff_base_s,
        job.dead_letter_retention_s, job.fence, job.schedule, job.scheduled_for
),
buried AS (
    INSERT INTO __alkstore_dead (
        id, queue, payload, priority, run_at, claimed_at, attempts, max_attempts, created_at, expires_at,
        visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence, schedule, scheduled_for, last_error, died_at
    )
    SELECT
        id, queue, payload, priority, run_at, claimed_at, attempts, max_attempts, created_at, expires_at,
        visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence, schedule, scheduled_for,
        CAST(:exhausted_text AS text), (SELECT now FROM clock)
    FROM gone
    -- A row that a hand edit left there must not keep the queue from being claimed (K3).
    ON CONFLICT (id) DO UPDATE SET
        queue = excluded.queue, payload = excluded.payload, priority = excluded.priority, run_at = excluded.run_at,
        claimed_at = excluded.claimed_at, attempts = excluded.attempts, max_attempts = excluded.max_attempts,
        created_at = excluded.created_at, expires_at = excluded.expires_at,
        visibility_timeout_s = excluded.visibility_timeout_s, backoff_base_s = excluded.backoff_base_s,
        dead_letter_retention_s = excluded.dead_letter_retention_s, fence = excluded.fence,
        schedule = excluded.schedule, scheduled_for = excluded.scheduled_for, last_error = excluded.last_error,
        died_at = excluded.died_at
),
silent (id, fence, attempt) AS (
    SELECT id, fence, attempts FROM gone WHERE state = 'processing'
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
SELECT now, EXISTS (SELECT 1 FROM open) FROM clock;
