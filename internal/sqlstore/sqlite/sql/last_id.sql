-- The highest id that was ever given away (E1).
SELECT coalesce((SELECT CAST(seq AS INTEGER) FROM sqlite_sequence WHERE name = '__alkstore_live'), 0);
