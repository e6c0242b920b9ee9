-- Undoes reserve_ids.sql from :next on, if nobody has come since.
UPDATE sqlite_sequence SET seq = :next WHERE name = '__alkstore_live' AND seq = :last;
