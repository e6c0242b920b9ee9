-- H4: the jobs whose claims hold (H1, C7) go back to pending with attempts left, else to the dead letters; names them and
-- says which. The job has answered: it is no suspect. Those that go back are locked first, then those that die, each in the
-- order of the arrays; who locks both kinds in one order may meet this in a circle, and then one of them is repeated.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
),
answer AS MATERIALIZED (
    SELECT id, fence, delay_s, error, stack, dead_text
    FROM unnest(
        CAST(:ids AS bigint[]), CAST(:fences AS bigint[]), CAST(:delays_s AS bigint[]), CAST(:errors AS text[]),
        CAST(:stacks AS text[]), CAST(:dead_texts AS text[])
    ) AS answer (id, fence, delay_s, error, stack, dead_text)
),
again AS (
    UPDATE __alkstore_live AS job SET
        state            = 'pending',
        run_at           = (SELECT now FROM clock) + answer.delay_s,
        last_error       = answer.error,
        claimant         = NULL,
        claimed_at       = NULL,
        claim_expires_at = NULL,
        lapsed_fence     = 0
    FROM answer
    WHERE job.id = ANY (ARRAY[answer.id]) AND job.fence = answer.fence
        AND CASE
            WHEN job.state = 'processing' AND job.attempts < job.max_attempts THEN job.claim_expires_at >= (SELECT now FROM clock)
            ELSE false
        END
    RETURNING job.id, job.fence, job.attempts, answer.error, answer.stack
),
gone AS (
    DELETE FROM __alkstore_live AS job USING answer
    WHERE job.id = ANY (ARRAY[answer.id]) AND job.fence = answer.fence
        AND CASE
            WHEN job.state = 'processing' AND job.attempts >= job.max_attempts THEN job.claim_expires_at >= (SELECT now FROM clock)
            ELSE false
        END
    RETURNING
        job.id, job.queue, job.payload, job.priority, job.run_at, job.claimed_at, job.attempts, job.max_attempts,
        job.created_at, job.expires_at, job.visibility_timeout_s, job.backoff_base_s, job.dead_letter_retention_s,
        job.fence, job.schedule, job.scheduled_for, answer.error, answer.stack, answer.dead_text
),
buried AS (
    INSERT INTO __alkstore_dead (
        id, queue, payload, priority, run_at, claimed_at, attempts, max_attempts, created_at, expires_at,
        visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence, schedule, scheduled_for, last_error, died_at
    )
    SELECT
        id, queue, payload, priority, run_at, claimed_at, attempts, max_attempts, created_at, expires_at,
        visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence, schedule, scheduled_for, dead_text,
        (SELECT now FROM clock)
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
ended (id, fence, attempt, error, stack, retrying) AS (
    SELECT id, fence, attempts, error, stack, true FROM again
    UNION ALL
    SELECT id, fence, attempts, error, stack, false FROM gone
),
trimmed AS (
    DELETE FROM __alkstore_failures AS failure USING ended
    WHERE failure.job_id = ANY (ARRAY[ended.id]) AND failure.fence <= (
        SELECT newer.fence FROM __alkstore_failures AS newer
        WHERE newer.job_id = ended.id ORDER BY newer.fence DESC LIMIT 1 OFFSET CAST(:keep AS bigint) - 1
    )
),
history AS (
    INSERT INTO __alkstore_failures (job_id, fence, attempt, failed_at, error, stack)
    SELECT id, fence, attempt, (SELECT now FROM clock), error, stack FROM ended
    ON CONFLICT (job_id, fence) DO NOTHING
)
SELECT id, fence, retrying FROM ended;
