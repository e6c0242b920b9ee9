DELETE FROM __alkstore_queues WHERE queue = :queue;
