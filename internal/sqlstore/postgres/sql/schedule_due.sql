-- The names, and the bytes of their payloads: each is read again inside its own transaction (S5).
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
)
SELECT name, octet_length(payload) FROM __alkstore_scheduler_tasks
WHERE NOT paused AND next_fire_at <= (SELECT now FROM clock)
ORDER BY next_fire_at, name;
