WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
)
INSERT INTO __alkstore_workers (worker, queue, expires_at)
SELECT DISTINCT CAST(:worker AS text), served.queue, clock.now + CAST(:ttl_s AS bigint)
FROM clock
CROSS JOIN unnest(CAST(:queues AS text[])) AS served (queue)
ON CONFLICT (queue, worker) DO UPDATE SET expires_at = excluded.expires_at;
