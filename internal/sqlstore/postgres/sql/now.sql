-- The one clock (T1): the server's, in whole seconds. clock_timestamp, since a transaction of a caller may be hours old.
SELECT coalesce(CAST(:clock AS bigint), CAST(floor(extract(epoch FROM clock_timestamp())) AS bigint));
