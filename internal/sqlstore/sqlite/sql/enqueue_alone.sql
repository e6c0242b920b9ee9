-- One new job as a transaction of its own (E1-E4). The clock is read when the lock is held, unless it is given.
INSERT INTO __alkstore_live (
    queue, payload, payload_size, spilled, state, priority, run_at, created_at, expires_at, attempts, fence,
    visibility_timeout_s, max_attempts, backoff_base_s, dead_letter_retention_s
) VALUES (
    :queue, :payload, length(:payload), false, 'pending', :priority, coalesce(:now, unixepoch()) + :delay,
    coalesce(:now, unixepoch()), NULL, 0, 0,
    :visibility_timeout_s, :max_attempts, :backoff_base_s, :dead_letter_retention_s
);
