-- Workers that would count as running for years: one that runs announces itself again.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
)
DELETE FROM __alkstore_workers WHERE expires_at > (SELECT now FROM clock) + 366 * 86400;
