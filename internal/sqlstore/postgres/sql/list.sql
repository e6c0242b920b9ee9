-- A page, newest first. It reads :window jobs at most to find those of one queue, or those that wait, among the newest; if
-- they are rare there, it reads the ids that the index of that queue has. Claims have an index of their own. What a part
-- is not asked for it limits to no rows, which costs nothing. Of a payload that lies outside its row only the beginning is
-- read.
--
-- The sums keep the planner from reading the whole table for the sake of its order.
WITH
asked (queue, state, upto, page) AS MATERIALIZED (
    SELECT CAST(:queue AS text), CAST(:state AS text), CAST(:upto AS bigint), CAST(:limit AS bigint)
),
recent (id) AS MATERIALIZED (
    SELECT id
    FROM (
        SELECT id, queue, state FROM __alkstore_live
        WHERE id <= :upto
        ORDER BY id DESC
        LIMIT (SELECT CASE WHEN state IN ('', 'pending') THEN CAST(:window AS bigint) ELSE 0 END FROM asked)
    ) AS newest
    WHERE (queue = :queue OR :queue = '') AND (state = :state OR :state = '')
    ORDER BY id DESC LIMIT :limit
),
wanted (of_all, of_queue, claims_of_all, claims_of_queue) AS MATERIALIZED (
    SELECT
        CASE WHEN rare AND queue = '' THEN page ELSE 0 END,
        CASE WHEN rare AND queue <> '' THEN page ELSE 0 END,
        CASE WHEN state = 'processing' AND queue = '' THEN page ELSE 0 END,
        CASE WHEN (state = 'processing' OR rare AND state = '') AND queue <> '' THEN page ELSE 0 END
    FROM (SELECT *, state IN ('', 'pending') AND (SELECT count(*) FROM recent) < page AS rare FROM asked) AS look
),
chosen (id) AS MATERIALIZED (
    SELECT id FROM recent
    UNION
    (
        SELECT id FROM __alkstore_live
        WHERE state = 'pending' AND id <= :upto
        ORDER BY id DESC LIMIT (SELECT of_all FROM wanted)
    )
    UNION
    (
        SELECT id FROM __alkstore_live
        WHERE queue = :queue AND state = 'pending' AND id + 0 <= :upto
        ORDER BY id + 0 DESC LIMIT (SELECT of_queue FROM wanted)
    )
    UNION
    (
        SELECT id FROM __alkstore_live
        WHERE state = 'processing' AND id + 0 <= :upto
        ORDER BY id + 0 DESC LIMIT (SELECT claims_of_all FROM wanted)
    )
    UNION
    (
        SELECT id FROM __alkstore_live
        WHERE queue = :queue AND state = 'processing' AND id + 0 <= :upto
        ORDER BY id + 0 DESC LIMIT (SELECT claims_of_queue FROM wanted)
    )
),
buried (id) AS MATERIALIZED (
    (
        SELECT id FROM __alkstore_dead
        WHERE id <= :upto
        ORDER BY id DESC
        LIMIT (SELECT CASE WHEN state IN ('', 'dead') AND queue = '' THEN page ELSE 0 END FROM asked)
    )
    UNION ALL
    (
        SELECT id FROM __alkstore_dead
        WHERE queue = :queue AND id <= :upto
        ORDER BY id DESC
        LIMIT (SELECT CASE WHEN state IN ('', 'dead') AND queue <> '' THEN page ELSE 0 END FROM asked)
    )
)
SELECT
    job.id, queue, state, substring(payload FROM 1 FOR CAST(:payload_limit AS integer)) AS payload,
    octet_length(payload) AS payload_size, priority, run_at, claimant, claimed_at, claim_expires_at, attempts,
    max_attempts, created_at, expires_at, visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence,
    lapsed_fence, last_error, CAST(NULL AS bigint) AS died_at, schedule, scheduled_for
FROM (SELECT id FROM chosen ORDER BY id DESC LIMIT :limit) AS newest
CROSS JOIN LATERAL (SELECT * FROM __alkstore_live WHERE id = newest.id OFFSET 0) AS job
UNION ALL
SELECT
    job.id, queue, 'dead', substring(payload FROM 1 FOR CAST(:payload_limit AS integer)), octet_length(payload), priority,
    run_at, CAST(NULL AS text), claimed_at, CAST(NULL AS bigint), attempts, max_attempts, created_at, expires_at,
    visibility_timeout_s, backoff_base_s, dead_letter_retention_s, fence, 0, last_error, died_at, schedule, scheduled_for
FROM buried
CROSS JOIN LATERAL (SELECT * FROM __alkstore_dead WHERE id = buried.id OFFSET 0) AS job
ORDER BY id DESC
LIMIT :limit;
