-- enqueue.sql for a job that has a reserved id, a payload in its row, no expiry and no schedule: if the sequence is still
-- what it was then, and nobody has put a row with that id there by hand.
INSERT INTO __alkstore_live (
    id, queue, payload, payload_size, spilled, state, priority, run_at, created_at, expires_at, attempts, fence,
    visibility_timeout_s, max_attempts, backoff_base_s, dead_letter_retention_s, schedule, scheduled_for
)
SELECT
    :id, :queue, :payload, length(:payload), 0, 'pending', :priority, :run_at + iif(:now IS NULL, unixepoch(), 0),
    coalesce(:now, unixepoch()), NULL, 0, 0,
    :visibility_timeout_s, :max_attempts, :backoff_base_s, :dead_letter_retention_s, NULL, NULL
WHERE (SELECT seq FROM sqlite_sequence WHERE name = '__alkstore_live') = :last
ON CONFLICT (id) DO NOTHING;
