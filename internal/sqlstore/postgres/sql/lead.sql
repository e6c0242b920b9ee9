-- S6: taken when free or expired, renewed by its owner. A row comes back exactly if the lock is now the owner's.
WITH
clock (now) AS MATERIALIZED (
    SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint))
)
INSERT INTO __alkstore_locks AS lock (name, owner, expires_at)
SELECT CAST(:name AS text), CAST(:owner AS text), clock.now + CAST(:ttl_s AS bigint) FROM clock
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at
WHERE lock.owner = excluded.owner OR lock.expires_at < (SELECT now FROM clock)
RETURNING lock.owner;
