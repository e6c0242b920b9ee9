-- A page, newest first. It reads :window jobs at most to find those of one queue, or those that wait, among the newest; if
-- they are rare there, it reads the ids that the index of that queue has. Claims have an index of their own. What a part
-- is not asked for it limits to no rows, which costs nothing.
--
-- The plus signs keep SQLite from reading the whole table for the sake of its order.
WITH
recent (id) AS MATERIALIZED (
    SELECT id
    FROM (
        SELECT id, queue, state FROM __alkstore_live
        WHERE :state IN ('', 'pending') AND id <= :upto
        ORDER BY id DESC LIMIT 0 + :window
    )
    WHERE (:queue = '' OR queue = :queue) AND (:state = '' OR state = :state)
    ORDER BY id DESC LIMIT 0 + :limit
),
wanted (of_all, of_queue, claims_of_all, claims_of_queue) AS MATERIALIZED (
    SELECT
        iif(rare AND :queue = '', :limit, 0),
        iif(rare AND :queue <> '', :limit, 0),
        iif(:state = 'processing' AND :queue = '', :limit, 0),
        iif((:state = 'processing' OR rare AND :state = '') AND :queue <> '', :limit, 0)
    FROM (SELECT count(*) < :limit AND :state IN ('', 'pending') AS rare FROM recent)
),
chosen (id) AS MATERIALIZED (
    SELECT id FROM recent
    UNION
    SELECT * FROM (
        SELECT id FROM __alkstore_live
        WHERE state = 'pending' AND id <= :upto
        ORDER BY id DESC LIMIT (SELECT of_all FROM wanted)
    )
    UNION
    SELECT * FROM (
        SELECT id FROM __alkstore_live
        WHERE queue = :queue AND state = 'pending' AND +id <= :upto
        ORDER BY +id DESC LIMIT (SELECT of_queue FROM wanted)
    )
    UNION
    SELECT * FROM (
        SELECT id FROM __alkstore_live
        WHERE queue >= '' AND state = 'processing' AND +id <= :upto
        ORDER BY +id DESC LIMIT (SELECT claims_of_all FROM wanted)
    )
    UNION
    SELECT * FROM (
        SELECT id FROM __alkstore_live
        WHERE queue = :queue AND state = 'processing' AND +id <= :upto
        ORDER BY +id DESC LIMIT (SELECT claims_of_queue FROM wanted)
    )
),
buried (id) AS MATERIALIZED (
    SELECT * FROM (
        SELECT id FROM __alkstore_dead
        WHERE :state IN ('', 'dead') AND :queue = '' AND id <= :upto
        ORDER BY id DESC LIMIT 0 + :limit
    )
    UNION ALL
    SELECT * FROM (
        SELECT id FROM __alkstore_dead
        WHERE :state IN ('', 'dead') AND :queue <> '' AND queue = :queue AND id <= :upto
        ORDER BY id DESC LIMIT 0 + :limit
    )
)
SELECT
    job.id, queue, state, substr(CAST(payload AS BLOB), 1, :payload_limit) AS payload,
    coalesce(payload_size, length(CAST(payload AS BLOB))) AS payload_size, spilled, priority, run_at, claimant,
    claimed_at, claim_expires_at, attempts, max_attempts, created_at, expires_at, visibility_timeout_s,
    backoff_base_s, dead_letter_retention_s, fence, lapsed_fence, last_error, NULL AS died_at, schedule,
    scheduled_for
FROM (SELECT id FROM chosen ORDER BY id DESC LIMIT 0 + :limit) AS newest
CROSS JOIN __alkstore_live AS job
WHERE job.id = newest.id
UNION ALL
SELECT
    job.id, queue, 'dead', substr(CAST(payload AS BLOB), 1, :payload_limit),
    coalesce(payload_size, length(CAST(payload AS BLOB))), spilled, priority, run_at, NULL, claimed_at, NULL,
    attempts, max_attempts, created_at, expires_at, visibility_timeout_s, backoff_base_s, dead_letter_retention_s,
    fence, 0, last_error, died_at, schedule, scheduled_for
FROM buried CROSS JOIN __alkstore_dead AS job
WHERE job.id = buried.id
ORDER BY 1 DESC
LIMIT 0 + :limit;
