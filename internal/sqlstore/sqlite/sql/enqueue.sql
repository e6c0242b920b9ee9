-- One new job (E1-E4). AUTOINCREMENT gives the id. Without :now it is the clock's, from which :run_at counts.
INSERT INTO __alkstore_live (
    queue, payload, payload_size, spilled, state, priority, run_at, created_at, expires_at, attempts, fence,
    visibility_timeout_s, max_attempts, backoff_base_s, dead_letter_retention_s, schedule, scheduled_for
) VALUES (
    :queue, :payload, :payload_size, :spilled, 'pending', :priority, :run_at + iif(:now IS NULL, unixepoch(), 0),
    coalesce(:now, unixepoch()), :expires_at, 0, 0,
    :visibility_timeout_s, :max_attempts, :backoff_base_s, :dead_letter_retention_s, :schedule, :scheduled_for
);
