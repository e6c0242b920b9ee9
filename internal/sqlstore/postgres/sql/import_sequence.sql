-- Ids of the other database are not given away again, those of jobs that are gone included (E1). The table is locked.
SELECT setval('__alkstore_live_id_seq', CAST(:last AS bigint))
FROM __alkstore_live_id_seq
WHERE last_value - CASE WHEN is_called THEN 0 ELSE 1 END < CAST(:last AS bigint);
