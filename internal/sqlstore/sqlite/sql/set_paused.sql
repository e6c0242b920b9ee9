INSERT INTO __alkstore_queues (queue, paused) VALUES (:queue, 1)
ON CONFLICT (queue) DO UPDATE SET paused = 1;
