-- Takes the lapsed rows of workers that died along. Others do the same at the same moment: what they have is passed over.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
),
lapsed AS MATERIALIZED (
    SELECT served.queue, served.worker FROM __alkstore_workers AS served
    WHERE served.expires_at < (SELECT now FROM clock) AND served.worker != :worker
    FOR UPDATE SKIP LOCKED
),
dropped AS (
    DELETE FROM __alkstore_workers AS served USING lapsed
    WHERE served.queue = lapsed.queue AND served.worker = lapsed.worker
)
DELETE FROM __alkstore_workers WHERE worker = :worker;
