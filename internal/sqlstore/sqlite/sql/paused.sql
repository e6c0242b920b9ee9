SELECT EXISTS (SELECT 1 FROM __alkstore_queues WHERE queue = :queue AND paused = 1);
