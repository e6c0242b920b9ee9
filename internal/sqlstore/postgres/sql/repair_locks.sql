-- Locks that would not be free for years: whoever holds one takes it again.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
)
DELETE FROM __alkstore_locks WHERE expires_at > (SELECT now FROM clock) + 366 * 86400;
