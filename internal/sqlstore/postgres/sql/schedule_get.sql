-- Under the row's lock: what is read here is written back by the same transaction.
SELECT
    name, queue, spec, payload, priority, expires_s, visibility_timeout_s, max_attempts, backoff_base_s,
    dead_letter_retention_s, anchor, catch_up, next_fire_at, paused, created_at
FROM __alkstore_scheduler_tasks
WHERE name = :name
FOR UPDATE;
