SELECT
    name, queue, spec, payload, priority, expires_s, visibility_timeout_s, max_attempts, backoff_base_s,
    dead_letter_retention_s, anchor, catch_up, CAST(next_fire_at AS INTEGER), paused, created_at
FROM __alkstore_scheduler_tasks
WHERE typeof(name) = 'text'
ORDER BY name;
