INSERT INTO __alkstore_scheduler_tasks AS tasks (
    name, queue, spec, payload, priority, expires_s, visibility_timeout_s, max_attempts, backoff_base_s,
    dead_letter_retention_s, anchor, catch_up, next_fire_at, paused, created_at
) VALUES (
    :name, :queue, :spec, :payload, :priority, :expires_s, :visibility_timeout_s, :max_attempts, :backoff_base_s,
    :dead_letter_retention_s, :anchor, :catch_up, :next_fire_at, :paused, :now
)
ON CONFLICT (name) DO UPDATE SET
    queue = excluded.queue, spec = excluded.spec, payload = excluded.payload, priority = excluded.priority,
    expires_s = excluded.expires_s, visibility_timeout_s = excluded.visibility_timeout_s,
    max_attempts = excluded.max_attempts, backoff_base_s = excluded.backoff_base_s,
    dead_letter_retention_s = excluded.dead_letter_retention_s, anchor = excluded.anchor,
    catch_up = excluded.catch_up, next_fire_at = excluded.next_fire_at, paused = excluded.paused,
    created_at = CASE WHEN tasks.created_at BETWEEN 1 AND 253402300799 THEN tasks.created_at ELSE excluded.created_at END;
