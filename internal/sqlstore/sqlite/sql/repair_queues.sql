-- A pause that is none.
DELETE FROM __alkstore_queues WHERE paused NOT IN (0, 1);
