INSERT INTO __alkstore_queues (queue, paused) VALUES (:queue, true)
ON CONFLICT (queue) DO UPDATE SET paused = true;
