-- No id is given away twice (E1).
SELECT setval('__alkstore_live_id_seq', highest.id)
FROM (
    SELECT greatest((SELECT max(id) FROM __alkstore_live), (SELECT max(id) FROM __alkstore_dead)) AS id
) AS highest
WHERE highest.id > (SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END FROM __alkstore_live_id_seq);
