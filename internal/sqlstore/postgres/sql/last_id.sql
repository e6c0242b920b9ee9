-- The highest id that was ever given away (E1).
SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END FROM __alkstore_live_id_seq;
