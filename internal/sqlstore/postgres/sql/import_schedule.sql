-- A schedule of another database, as it is.
INSERT INTO __alkstore_scheduler_tasks (
    name, queue, spec, payload, priority, expires_s, visibility_timeout_s, max_attempts, backoff_base_s,
    dead_letter_retention_s, anchor, catch_up, next_fire_at, paused, created_at
) VALUES (
    :name, :queue, :spec, :payload, :priority, :expires_s, :visibility_timeout_s, :max_attempts, :backoff_base_s,
    :dead_letter_retention_s, :anchor, :catch_up, :next_fire_at, :paused, :created_at
);
