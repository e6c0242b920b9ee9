INSERT INTO __alkstore_workers (worker, queue, expires_at)
SELECT DISTINCT :worker, value, :now + :ttl_s FROM json_each(:queues);
