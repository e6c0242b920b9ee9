-- No id is given away twice (E1). One that was edited to beyond 2^53 is not counted: there would be none left behind it.
SELECT setval('__alkstore_live_id_seq', highest.id)
FROM (
    SELECT greatest(
        (SELECT max(id) FROM __alkstore_live WHERE id <= 9007199254740992),
        (SELECT max(id) FROM __alkstore_dead WHERE id <= 9007199254740992)
    ) AS id
) AS highest
WHERE highest.id > (SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END FROM __alkstore_live_id_seq);
